//! Waits between attempts: their keys, and their settings in a policy.

use super::prelude::*;
use crate::retry::{Backoff, Growth, Jitter};

keys! {
    /// The keys of backoff.
    KEYS:
    KIND = "retry.backoff.kind", Domain::Choice(&["exponential", "constant", "linear", "polynomial"]), "exponential",
        "How the delay before retry n grows: base·multiplier^(n−1), base, base·n, base·n^exponent.";
    BASE = "retry.backoff.base", span(Duration::ZERO), "100ms",
        "The delay before the first retry, before jitter.";
    THROTTLED_BASE = "retry.backoff.throttled_base", span(Duration::ZERO), "retry.backoff.base",
        "The base after a throttled outcome.";
    EXPONENT = "retry.backoff.exponent", count(1, 8), "",
        "The power of polynomial growth.";
    MULTIPLIER = "retry.backoff.multiplier", real(1.0, 1_000.0), "2",
        "The growth from one retry to the next.";
    MAX = "retry.backoff.max", span(Duration::ZERO), "5s",
        "The longest computed delay, before jitter.";
    JITTER = "retry.backoff.jitter", Domain::Choice(&["full_floor", "none", "full", "equal", "decorrelated", "bounded"]), "full_floor",
        "How the delay d is spread: full_floor draws from [0.1·d, d], full from [0, d], equal from [d/2, d], decorrelated from [base, 3·previous], bounded from [(1−j)·d, (1+j)·d].";
    JITTER_RATIO = "retry.backoff.jitter_ratio", real(0.0, 1.0), "",
        "The j of bounded jitter.";
}

/// What backoff adds to policies.
pub(in crate::policy) const COMPONENT: Component = Component {
    table: "retry.backoff",
    doc: "How long to wait before a retry.",
    keys: KEYS,
    needed: &[(KIND, "polynomial", EXPONENT), (JITTER, "bounded", JITTER_RATIO)],
    ordered: &[(BASE, MAX)],
    ..NOTHING
};

impl Settings {
    pub(in crate::policy) fn backoff(&self) -> Backoff {
        Backoff {
            growth: match self.word(KIND) {
                "constant" => Growth::Constant,
                "linear" => Growth::Linear,
                "polynomial" => Growth::Polynomial(self.whole(EXPONENT) as u8),
                _ => Growth::Exponential(self.real(MULTIPLIER)),
            },
            base: self.span(BASE),
            max: self.span(MAX),
            jitter: match self.word(JITTER) {
                "none" => Jitter::None,
                "full" => Jitter::Full,
                "equal" => Jitter::Equal,
                "decorrelated" => Jitter::Decorrelated,
                "bounded" => Jitter::Bounded(self.real(JITTER_RATIO)),
                _ => Jitter::FullFloor,
            },
        }
    }
}
