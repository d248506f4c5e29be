//! What hosts share when they offer parts on their own: draws from a seed, names, and settings that come from several places. A host adds conversions only.

use std::ops::{Deref, DerefMut};

use crate::rng::{self, Purpose};
use crate::{
    Backoff, BreakerSettings, CircuitBreaker, Class, Duration, ErrorInfo, Evidence, Policy, QuotaSettings,
    RetryError, RetryStrategy, RetryToken, StrategySettings, Value,
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
    #[allow(clippy::unused_self)] // bindings have no functions of a class
    pub fn evidence_of(&self, kind: Class) -> Evidence {
        Evidence::of(kind)
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
        format!("{key} = {}: must be one of {}", crate::text::quoted(value), names.join(", "))
    })
}

/// The settings of a breaker whose probes keep their place this long, or as long as the other settings say.
pub fn leased(mut settings: BreakerSettings, probe_lease: Option<Duration>) -> BreakerSettings {
    settings.probe_lease = probe_lease.unwrap_or(settings.probe_lease);
    settings
}

/// The attempts that this policy allows, which is all that a retry strategy takes of it.
pub fn attempts(policy: &Policy) -> Option<u32> {
    match policy.value("retry.max_attempts") {
        Some(Value::Number(number)) => Some(number as u32),
        _ => None,
    }
}

/// What is known of an error; `after` is in microseconds.
pub fn error_info(safe: Option<bool>, after: Option<u64>, throttling: bool, timeout: bool) -> ErrorInfo {
    ErrorInfo {
        is_retry_safe: safe,
        retry_after: after.map(Duration::from_micros),
        is_throttling_error: throttling,
        is_timeout_error: timeout,
    }
}

/// A token of a strategy, or why there is none.
#[derive(Clone, Copy, Debug)]
pub struct Attempt(RetryToken, Option<RetryError>);

impl Attempt {
    /// Attempts made so far, without the first.
    pub fn retry_count(&self) -> u32 {
        self.0.retry_count
    }

    /// How long to wait before the attempt, or the wait that a spent quota has refused.
    pub fn retry_delay(&self) -> Duration {
        if let Some(RetryError::Quota(wait)) = self.1 { wait } else { self.0.retry_delay }
    }

    /// Why there is no further attempt: 1 attempts, 2 not safe, 3 quota; or 0.
    pub fn refused(&self) -> u32 {
        match self.1 {
            None => 0,
            Some(RetryError::Attempts) => 1,
            Some(RetryError::NotSafe) => 2,
            Some(RetryError::Quota(_)) => 3,
        }
    }
}

/// A retry strategy whose refusals are tokens too.
#[derive(Clone, Debug)]
pub struct Strategy(RetryStrategy);

impl Strategy {
    /// A strategy with this backoff, and this quota for each scope.
    pub fn new(
        max_attempts: u32,
        backoff: Backoff,
        quota: Option<QuotaSettings>,
        retry_unknown: bool,
        seed: u64,
    ) -> Self {
        Self(RetryStrategy::new(seed, StrategySettings { max_attempts, backoff, quota, retry_unknown }))
    }

    /// The token of a call's first attempt.
    pub fn acquire(&mut self, scope: &str) -> Attempt {
        Attempt(self.0.acquire_initial(scope), None)
    }

    /// The token of the next attempt, or why there is none.
    pub fn refresh(&mut self, token: Attempt, error: ErrorInfo) -> Attempt {
        self.0.refresh(token.0, error).map_or_else(|why| Attempt(token.0, Some(why)), |it| Attempt(it, None))
    }

    /// A call has succeeded with this token.
    pub fn record_success(&mut self, token: Attempt) {
        self.0.record_success(token.0);
    }

    /// Tokens left in a scope's quota, if there are quotas.
    pub fn available(&mut self, scope: &str) -> Option<u32> {
        self.0.available(scope)
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
