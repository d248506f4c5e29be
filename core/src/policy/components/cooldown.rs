//! The cooldown: its keys, and its settings in a policy.

use super::prelude::*;
use crate::cooldown::CooldownSettings;

keys! {
    /// The keys of a cooldown.
    KEYS:
    BASE = "cooldown.base", span(MICRO), "1s",
        "How long no attempt starts after a throttled one whose server names no time; doubled for each such closing in a row.";
    MAX = "cooldown.max", span(MICRO), "retry.max_retry_after",
        "The longest that no attempt starts, whatever time the server names.";
    WAIT = "cooldown.wait", Domain::Flag, "false",
        "Wait for the end of a cooldown instead of being refused.";
    MAX_WAIT = "cooldown.max_wait", span(Duration::ZERO), "",
        "wait: the longest wait; without it there must be a deadline.";
    MAX_WAITERS = "cooldown.max_waiters", count(1, 10_000_000), "200",
        "wait: calls that may wait.";
    QUOTA_WAIT = "cooldown.quota_wait", span(MICRO), "",
        "How long no attempt starts after one whose quota is spent or whose key is not accepted (kinds quota_spent and unauthorized), unless the server names a time. Absent: such an attempt changes nothing; a target has 5 minutes.";
    STORE = "cooldown.store", domains::STORE, "local",
        "fleet: a closing in one process closes all, through the store that the engine is attached to; each process reopens with one attempt.";
}

/// What a cooldown adds to policies.
pub(in crate::policy) const COMPONENT: Component = Component {
    table: "cooldown",
    doc: "How long no attempt starts after one that was throttled, per route, and how few at first afterwards.",
    keys: KEYS,
    check: |settings, errors| {
        if !settings.uses("cooldown.") {
            return;
        }
        let mut fail = |key: &str, rule| errors.push(PolicyError::new(key, settings.shown_value(key), rule));
        if settings.flag(retry::HOLD) {
            fail(
                retry::HOLD,
                "a cooldown holds all calls of the route already; choose hold or cooldown".into(),
            );
        }
        let bounded = settings.given(MAX_WAIT) || settings.given(call::DEADLINE);
        if settings.flag(WAIT) && !bounded {
            fail(WAIT, format!("needs a bound: {MAX_WAIT} or {}", call::DEADLINE));
        }
        let max = settings.longest_cooldown();
        if settings.given(BASE) && settings.span(BASE) > settings.span(max) {
            fail(BASE, format!("must be at most {max} ({})", settings.shown_value(max)));
        }
    },
    stores: &[STORE],
    ..NOTHING
};

/// The cooldown component.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CooldownPart {
    pub(crate) settings: CooldownSettings,
    /// How long a spent quota closes it without a time of the server's, if it does.
    pub(crate) quota_wait: Option<Duration>,
    /// Whether calls wait while it is closed.
    pub(crate) wait: bool,
    pub(crate) max_wait: Duration,
    pub(crate) max_waiters: u32,
    /// Whether it is the fleet's.
    pub(crate) fleet: bool,
}

impl CooldownPart {
    /// The longest closing, with its jitter.
    pub(crate) fn longest(&self) -> Duration {
        let longest = self.settings.max.max(self.quota_wait.unwrap_or(Duration::ZERO));
        longest.plus(Duration::from_micros(longest.as_micros() / 10))
    }
}

/// A place is free to others this long after the attempt's timeout, so that a timeout that is reported late counts.
const LATE: Duration = Duration::from_secs(1);
/// The lease of a place without an attempt timeout.
const LEASE: Duration = Duration::from_secs(60);

impl Settings {
    /// The key that bounds a closing: its own, or the one that it takes its default from.
    fn longest_cooldown(&self) -> &'static str {
        self.or(MAX, self.or(retry::MAX_RETRY_AFTER, backoff::MAX))
    }

    pub(in crate::policy) fn cooldown(&self) -> CooldownPart {
        let timeout = self.span_or_none("attempt_timeout");
        let max = self.span(self.longest_cooldown());
        CooldownPart {
            settings: CooldownSettings {
                base: self.span(BASE).min(max),
                max,
                lease: if timeout == Duration::MAX { LEASE } else { timeout.plus(LATE) },
                lenient: false,
            },
            quota_wait: self.given(QUOTA_WAIT).then(|| self.span(QUOTA_WAIT)),
            wait: self.flag(WAIT),
            max_wait: if self.given(MAX_WAIT) { self.span(MAX_WAIT) } else { Duration::MAX },
            max_waiters: self.whole(MAX_WAITERS),
            fleet: self.in_fleet(STORE),
        }
    }
}
