//! The order of a set's queue: its keys, and its settings (semantics 3.10).

use super::limits::LIMITS;
use super::prelude::*;
use super::rate_limit::{POOL, STORE, WAIT};
use crate::full::{Full, Name};
use crate::policy::domain::share;

keys! {
    KEYS:
    PRIORITIZED = "rate_limit.prioritized", Domain::Flag, "false",
        "limits: the queue serves critical, normal, degraded and best-effort calls 64 to 16 to 4 to 1, and a full one gives the place of a less critical call to a more critical one.";
    FAIR_BY = "rate_limit.fair_by", Domain::Choice(&["none", "key"]), "none",
        "limits, in a pool: key shares the limits among the route keys that wait, instead of serving calls in the order in which they came.";
    SHARES = "rate_limit.shares", Domain::Shares, "",
        "fair_by: how much some keys get, 1 to 1,000, where every other key gets 1.";
}

/// What the order of a queue adds to a rate limit.
pub(in crate::policy) const COMPONENT: Component = Component {
    table: "rate_limit",
    keys: KEYS,
    check: |settings, errors| {
        // Beside a pool's name these keys are a mistake already.
        let given = |key: &&str| settings.given(key) && (settings.of_pool.is_on() || !settings.given(POOL));
        let mut fail = |key: &str, rule: &[&str]| {
            errors.push(PolicyError::new(key, settings.shown_value(key), text::of(rule)));
        };
        let by_key = settings.word(FAIR_BY) == "key";
        let on = [(PRIORITIZED, settings.flag(PRIORITIZED)), (FAIR_BY, by_key)];
        for (key, _) in on.iter().filter(|(key, on)| *on && given(key)) {
            if !settings.given(LIMITS) {
                let example = ", which may have one limit: { calls = { permits = 10, per = \"1s\" } }";
                fail(key, &["needs ", LIMITS, example]);
            } else if settings.in_fleet(STORE) {
                let rule = " is fleet, because each process orders only its own calls: leave it out, or keep the limits local";
                fail(key, &["has no meaning where ", STORE, rule]);
            } else if *key == FAIR_BY && !settings.of_pool.is_on() {
                let rule = "belongs to a pool, because each key has limits of its own here: declare the limits as a pool, and name it in rate_limit.pool";
                fail(key, &[rule]);
            } else if !settings.of_pool.is_on() && !settings.flag(WAIT) {
                fail(key, &["needs a queue: ", WAIT]);
            }
        }
        if !given(&SHARES) {
            return;
        }
        if !by_key {
            fail(SHARES, &["means something only where ", FAIR_BY, " is key"]);
        }
        let shares = settings.shares();
        for (at, (key, _)) in shares.iter().enumerate() {
            if shares[..at].iter().any(|other| other.0 == *key) {
                errors.push(PolicyError::new(SHARES, quoted(key), "is given more than once"));
            }
        }
    },
    ..NOTHING
};

/// The order of a set's queue, where it is not that of arrival.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct QueueOrder {
    /// Whether it depends on the criticality of calls.
    pub(crate) prioritized: bool,
    /// Whether it depends on the keys of their routes.
    pub(crate) by_key: bool,
    /// Keys with a share of their own.
    pub(crate) shares: Vec<(Name, u32)>,
}

impl Settings {
    fn shares(&self) -> Vec<(Name, u32)> {
        let texts = self.texts(SHARES);
        let of = |text: &Name| {
            let (key, share) = share(text).ok()?;
            Some((Name::new(key, Full::here()?), share))
        };
        texts.iter().filter_map(of).collect()
    }

    /// The order of the queue; `None` for that of arrival.
    pub(super) fn queue_order(&self) -> Option<QueueOrder> {
        let (prioritized, by_key) = (self.flag(PRIORITIZED), self.word(FAIR_BY) == "key");
        (prioritized || by_key).then(|| QueueOrder { prioritized, by_key, shares: self.shares() })
    }
}
