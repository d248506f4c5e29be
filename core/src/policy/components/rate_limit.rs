//! The rate limit: its keys, and its settings in a policy.

use super::limits::LimitSet;
use super::prelude::*;
use crate::full::{Full, Name, Rare};
use crate::limit::RateSettings;

keys! {
    /// The keys of a rate limit.
    KEYS:
    PERMITS = "rate_limit.permits", count(1, 1_000_000_000), "",
        "Calls that may start per span.";
    PER = "rate_limit.per", span(MICRO), "",
        "The span.";
    BURST = "rate_limit.burst", count(1, 1_000_000_000), "rate_limit.permits",
        "Calls that may start at once after a quiet time.";
    UNIT = "rate_limit.unit", domains::UNIT, "call",
        "What takes a token: the call, or each of its attempts.";
    WAIT = "rate_limit.wait", Domain::Flag, "false",
        "Wait for a token instead of being refused.";
    MAX_WAIT = "rate_limit.max_wait", span(Duration::ZERO), "",
        "wait: the longest wait; without it there must be a deadline.";
    MAX_WAITERS = "rate_limit.max_waiters", count(1, 10_000_000), "1000",
        "wait: calls that may wait.";
}

keys! {
    /// The keys of a rate limit that is shared.
    SHARED_KEYS:
    POOL = "rate_limit.pool", Domain::Name, "",
        "A shared rate limit that is declared as a pool; permits, per and burst stand there.";
    STORE = "rate_limit.store", domains::STORE, "local",
        "Whose rate it is: each process's own, or the whole fleet's through the store that the engine is attached to.";
    LEASE = "rate_limit.lease", count(1, 1_000_000_000), "",
        "fleet: tokens that a process takes from the store at a time; 1 asks for every call. Absent: what 50 ms of the rate bring, at least 1, which is so below 40 a second.";
    ON_LOSS = "rate_limit.on_loss", domains::ON_LOSS, "local",
        "fleet: what holds while the store is gone: local is the process's share of the rate, open lets all calls pass, closed refuses them.";
}

/// What a rate limit adds to policies.
pub(in crate::policy) const COMPONENT: Component = Component {
    table: "rate_limit",
    doc: "How many calls may start per span, per route.",
    keys: KEYS,
    required: &[
        ("there is a rate limit", PERMITS, whole::or_pool(POOL)),
        ("there is a rate limit", PER, whole::or_pool(POOL)),
    ],
    check: |settings, errors| {
        let bounded = settings.given(MAX_WAIT) || settings.given(call::DEADLINE);
        if settings.flag(WAIT) && !bounded {
            let rule = text::of(&["needs a bound: ", MAX_WAIT, " or ", call::DEADLINE]);
            errors.push(PolicyError::new(WAIT, "true", rule));
        }
    },
    ..NOTHING
};

/// What pools and the fleet add to it.
pub(in crate::policy) const SHARED: Component = Component {
    table: "rate_limit",
    keys: SHARED_KEYS,
    stores: &[STORE],
    of_fleet: &[LEASE, ON_LOSS],
    check: |settings, errors| {
        if !settings.in_fleet(STORE) || !settings.given(PER) {
            return;
        }
        let mut fail = |key: &str, rule| errors.push(PolicyError::new(key, settings.shown_value(key), rule));
        let burst = settings.or(BURST, PERMITS);
        let (tokens, per) = (u64::from(settings.whole(burst)), settings.span(PER).as_micros());
        if tokens.saturating_mul(per) > MOST_PARTS {
            let most = MOST_PARTS / per.max(1);
            fail(burst, format!("must be at most {most} with this {PER} where {STORE} is fleet"));
        }
        if settings.given(LEASE) && u64::from(settings.whole(LEASE)) > tokens {
            fail(LEASE, format!("must be at most {burst} ({tokens})"));
        }
    },
    ..NOTHING
};

/// The store counts in integers that a double holds exactly, with room for one addition.
const MOST_PARTS: u64 = 1 << 52;

/// The rate limit.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RateLimit {
    pub(crate) bucket: RateSettings,
    pub(crate) unit: Unit,
    pub(crate) wait: bool,
    pub(crate) max_wait: Duration,
    pub(crate) max_waiters: u32,
    pub(crate) pool: Option<Name>,
    /// The limits of a set, which take the bucket's place.
    pub(crate) limits: Option<Rare<LimitSet>>,
    /// None where it is the process's own.
    pub(crate) fleet: Option<Rare<FleetRate>>,
}

/// A rate that is the fleet's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FleetRate {
    /// Tokens a round trip; 1 asks for every call.
    pub(crate) lease: u32,
    pub(crate) on_loss: OnLoss,
}

/// What 50 ms of a rate bring, so that at 420 calls a second and more at most one in twenty touches the store; at least
/// 1, and at most the burst.
fn lease_of(rate: RateSettings) -> u32 {
    let tokens = u128::from(rate.permits) * 50_000 / u128::from(rate.per.as_micros().max(1));
    u32::try_from(tokens).unwrap_or(u32::MAX).clamp(1, rate.burst.max(1))
}

impl Settings {
    pub(in crate::policy) fn rate_limit(&self) -> RateLimit {
        let bucket = RateSettings {
            permits: self.whole(PERMITS),
            per: self.span(PER),
            burst: self.whole(self.or(BURST, PERMITS)),
        };
        let limits = self.limit_set();
        let weighted = limits.as_ref().is_some_and(|set| set.is_weighted());
        let is_set = limits.is_some();
        RateLimit {
            bucket,
            limits,
            fleet: Full::here().filter(|_| self.in_fleet(STORE) && !is_set).map(|full| {
                let lease = if self.given(LEASE) { self.whole(LEASE) } else { lease_of(bucket) };
                Rare::new(FleetRate { lease, on_loss: self.on_loss(ON_LOSS) }, full)
            }),
            unit: if weighted { Unit::Attempt } else { self.unit(UNIT) },
            wait: self.flag(WAIT),
            max_wait: self.span_or_none(MAX_WAIT),
            max_waiters: self.whole(MAX_WAITERS),
            pool: self.pool(POOL),
        }
    }
}
