//! What hosts share when they offer parts on their own: draws from a seed, names, and settings that come from several places. A host adds conversions only.

use std::ops::{Deref, DerefMut};

use crate::rng::{self, Purpose};
use crate::{
    AdaptiveThrottle, Backoff, BreakerSettings, CircuitBreaker, Class, Duration, Evidence, Policy,
    RetryError, RetryQuota, RetryStrategy, StrategySettings, Time, Value,
};

/// A part with the draws that it makes: the seed, and the number of the next one.
#[derive(Clone, Debug)]
pub struct Drawn<P> {
    part: P,
    seed: u64,
    next: u64,
}

impl<P> Drawn<P> {
    /// A part whose draws come from this seed.
    pub fn new(part: P, seed: u64) -> Self {
        Self { part, seed, next: 0 }
    }

    /// The bits of a draw: the caller's own, or the next of the seed.
    pub fn bits(&mut self, own: Option<u64>, purpose: Purpose) -> u64 {
        own.unwrap_or_else(|| rng::bits(self.seed, self.draw(), purpose, 0))
    }

    fn draw(&mut self) -> u64 {
        self.next = self.next.wrapping_add(1);
        self.next.wrapping_sub(1)
    }
}

impl<P> Deref for Drawn<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.part
    }
}

impl<P> DerefMut for Drawn<P> {
    fn deref_mut(&mut self) -> &mut P {
        &mut self.part
    }
}

impl Drawn<Backoff> {
    /// The delay before retry `n` of a call with this number; without a number, each delay is a draw of its own.
    pub fn delay(&mut self, n: impl Into<u32>, call: Option<u64>) -> Duration {
        let call = call.unwrap_or_else(|| self.draw());
        self.part.nth_delay(n.into(), |i| rng::bits(self.seed, call, Purpose::Backoff, i.min(255) as u8))
    }

    /// The delay before retry `n` without jitter.
    pub fn ceiling(&self, n: impl Into<u32>) -> Duration {
        self.part.ceiling(n.into())
    }
}

impl Drawn<CircuitBreaker> {
    /// What an outcome of this class says to a breaker.
    pub fn evidence_of(&self, kind: Class) -> Evidence {
        Evidence::of(kind)
    }
}

impl Drawn<AdaptiveThrottle> {
    /// Whether a call of this class was accepted; `None` if it does not count.
    pub fn accepted(&self, kind: Class) -> Option<bool> {
        AdaptiveThrottle::accepted(kind)
    }

    /// Requests in the window.
    pub fn requests(&self, now: Time) -> u32 {
        self.part.counts(now).0
    }

    /// Those of them that were accepted.
    pub fn accepts(&self, now: Time) -> u32 {
        self.part.counts(now).1
    }
}

/// The failures after which a retry quota charges for a retry, in the order of their numbers.
pub const PAID_FOR: [Class; 3] = [Class::Transient, Class::Timeout, Class::Throttled];

/// The one of these with this name.
///
/// # Errors
/// None has it. The error names the key, the value and the names that there are.
pub fn named<T: Copy>(key: &str, value: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    all.iter().copied().find(|one| name(*one) == value).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|one| name(*one)).collect();
        format!("{key} = {value:?}: must be one of {}", names.join(", "))
    })
}

/// The settings of a breaker whose probes keep their place this long, or as long as the other settings say.
pub fn leased(mut settings: BreakerSettings, probe_lease: Option<Duration>) -> BreakerSettings {
    settings.probe_lease = probe_lease.unwrap_or(settings.probe_lease);
    settings
}

/// A retry strategy with the attempts of this policy, this backoff, and this quota for each scope.
pub fn strategy(
    policy: &Policy,
    seed: u64,
    backoff: &Drawn<Backoff>,
    quota: Option<&RetryQuota>,
    retry_unknown: bool,
) -> RetryStrategy {
    let max_attempts = match policy.value("retry.max_attempts") {
        Some(Value::Number(number)) => number as u32,
        _ => 0,
    };
    let quota = quota.map(RetryQuota::settings);
    RetryStrategy::new(seed, StrategySettings { max_attempts, backoff: backoff.part, quota, retry_unknown })
}

/// Why there is no further attempt, and the wait that a spent quota has refused.
pub fn refusal(error: RetryError) -> (&'static str, Option<Duration>) {
    match error {
        RetryError::Attempts => ("attempts", None),
        RetryError::NotSafe => ("not_safe", None),
        RetryError::Quota(wait) => ("quota", Some(wait)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_meaning_and_others_an_error() {
        assert_eq!(named("evidence", "failure", &Evidence::ALL, Evidence::name), Ok(Evidence::Failure));
        let error = named("evidence", "fine", &Evidence::ALL, Evidence::name).unwrap_err();
        assert_eq!(error, "evidence = \"fine\": must be one of success, failure, neutral");
    }

    #[test]
    fn a_draw_is_the_callers_or_the_seeds_next() {
        let (mut one, mut other) = (Drawn::new((), 7), Drawn::new((), 7));
        assert_eq!(one.bits(Some(3), Purpose::Break), 3);
        let draws = [one.bits(None, Purpose::Break), one.bits(None, Purpose::Break)];
        assert_eq!(draws, [other.bits(None, Purpose::Break), other.bits(None, Purpose::Break)]);
        assert_ne!(draws[0], draws[1]);
    }
}
