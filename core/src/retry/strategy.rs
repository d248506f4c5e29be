//! Retry tokens: the standard interface of SDKs (semantics 2.18). A token carries the state of an attempt, so the
//! strategy stores nothing per request except the quota of its scope.

use std::collections::BTreeMap;

use super::{Backoff, QuotaSettings, RetryQuota};
use crate::outcome::Class;
use crate::rng::{self, Purpose};
use crate::time::Duration;

/// Scopes beyond this many share one quota, because names of scopes may come from outside.
const MOST_SCOPES: usize = 10_000;

/// Settings of a [`RetryStrategy`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StrategySettings {
    /// Attempts in all, including the first. 0 and 1 never retry.
    pub max_attempts: u32,
    /// The delay before each retry.
    pub backoff: Backoff,
    /// The quota of each scope; `None` for no quota.
    pub quota: Option<QuotaSettings>,
    /// Whether to treat an error as safe to retry if it does not say so. Default: no.
    pub retry_unknown: bool,
}

/// A strategy's token for an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryToken {
    /// Attempts made so far, without the first.
    pub retry_count: u32,
    /// How long to wait before the attempt.
    pub retry_delay: Duration,
    scope: u32,
    ordinal: u64,
    cost: u16,
}

/// Properties of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ErrorInfo {
    /// Whether it may be retried; `None` if unknown.
    pub is_retry_safe: Option<bool>,
    /// The wait that the server asked for.
    pub retry_after: Option<Duration>,
    /// Whether the server asked for less load.
    pub is_throttling_error: bool,
    /// Whether our own timeout caused it.
    pub is_timeout_error: bool,
}

/// Why there is no further attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetryError {
    /// All attempts are used up.
    Attempts,
    /// The quota of the scope is spent. Contains the wait before the refused retry, for callers that want to wait
    /// before they fail.
    Quota(Duration),
    /// The error is not safe to retry, or not known to be.
    NotSafe,
}

/// Issues tokens; each scope has a quota of its own.
///
/// ```
/// use tidegate::{Backoff, Duration, ErrorInfo, Growth, Jitter, RetryError, RetryStrategy, StrategySettings};
/// let backoff = Backoff {
///     growth: Growth::Exponential(2.0),
///     base: Duration::from_millis(25),
///     max: Duration::from_secs(20),
///     jitter: Jitter::None,
/// };
/// let settings = StrategySettings { max_attempts: 2, backoff, quota: None, retry_unknown: false };
/// let mut strategy = RetryStrategy::new(1, settings);
/// let token = strategy.acquire_initial("");
/// assert_eq!((token.retry_count, token.retry_delay), (0, Duration::ZERO));
/// let error = ErrorInfo { is_retry_safe: Some(true), ..ErrorInfo::default() };
/// let token = strategy.refresh(token, error).unwrap();
/// assert_eq!((token.retry_count, token.retry_delay), (1, Duration::from_millis(25)));
/// assert_eq!(strategy.refresh(token, error), Err(RetryError::Attempts));
/// ```
#[derive(Clone, Debug)]
pub struct RetryStrategy {
    seed: u64,
    settings: StrategySettings,
    scopes: BTreeMap<Box<str>, u32>,
    quotas: Vec<RetryQuota>,
    calls: u64,
}

impl RetryStrategy {
    /// Creates a strategy with full quotas.
    pub fn new(seed: u64, settings: StrategySettings) -> Self {
        Self { seed, settings, scopes: BTreeMap::new(), quotas: Vec::new(), calls: 0 }
    }

    /// The token of a call's first attempt: no retry yet, no wait.
    pub fn acquire_initial(&mut self, scope: &str) -> RetryToken {
        let scope = self.scope(scope);
        self.calls += 1;
        RetryToken { retry_count: 0, retry_delay: Duration::ZERO, scope, ordinal: self.calls - 1, cost: 0 }
    }

    /// The token of the next attempt, after one that failed.
    ///
    /// # Errors
    /// Attempts, quota or safety forbid a further attempt.
    pub fn refresh(&mut self, token: RetryToken, error: ErrorInfo) -> Result<RetryToken, RetryError> {
        if !error.is_retry_safe.unwrap_or(self.settings.retry_unknown) {
            return Err(RetryError::NotSafe);
        }
        let retry_count = token.retry_count.saturating_add(1);
        if retry_count >= self.settings.max_attempts {
            return Err(RetryError::Attempts);
        }
        let draw = |n: u32| rng::bits(self.seed, token.ordinal, Purpose::Backoff, n.min(255) as u8);
        let computed = self.settings.backoff.nth_delay(retry_count, draw);
        let retry_delay = computed.max(error.retry_after.unwrap_or(Duration::ZERO));
        let class = match error {
            ErrorInfo { is_throttling_error: true, .. } => Class::Throttled,
            ErrorInfo { is_timeout_error: true, .. } => Class::Timeout,
            _ => Class::Transient,
        };
        let cost = match self.quotas.get_mut(token.scope as usize) {
            Some(quota) => quota.try_acquire(class).ok_or(RetryError::Quota(retry_delay))?,
            None => 0,
        };
        Ok(RetryToken { retry_count, retry_delay, cost, ..token })
    }

    /// Reports that a call succeeded with this token, and refunds its last retry to its scope.
    pub fn record_success(&mut self, token: RetryToken) {
        if let Some(quota) = self.quotas.get_mut(token.scope as usize) {
            quota.on_success(token.cost);
        }
    }

    /// Tokens left in a scope's quota, if there are quotas.
    pub fn available(&mut self, scope: &str) -> Option<u32> {
        let scope = self.scope(scope);
        self.quotas.get(scope as usize).map(RetryQuota::available)
    }

    fn scope(&mut self, scope: &str) -> u32 {
        let Some(quota) = self.settings.quota else { return 0 };
        if let Some(number) = self.scopes.get(scope) {
            return *number;
        }
        if self.scopes.len() >= MOST_SCOPES {
            return (MOST_SCOPES - 1) as u32;
        }
        let number = self.quotas.len() as u32;
        self.quotas.push(RetryQuota::new(quota));
        self.scopes.insert(scope.into(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::{Growth, Jitter};

    const SAFE: ErrorInfo = ErrorInfo {
        is_retry_safe: Some(true),
        retry_after: None,
        is_throttling_error: false,
        is_timeout_error: false,
    };

    fn strategy(capacity: u32) -> RetryStrategy {
        let backoff = Backoff {
            growth: Growth::Exponential(2.0),
            base: Duration::from_millis(25),
            max: Duration::from_secs(20),
            jitter: Jitter::None,
        };
        let quota = QuotaSettings { capacity, cost: 14, timeout_cost: 14, throttled_cost: 5 };
        RetryStrategy::new(
            1,
            StrategySettings { max_attempts: 3, backoff, quota: Some(quota), retry_unknown: false },
        )
    }

    /// Runs one operation as scripted in the SDKs' shared tests; returns the remaining quota.
    fn operation(strategy: &mut RetryStrategy, statuses: &[u16]) -> u32 {
        let mut token = strategy.acquire_initial("");
        for status in statuses {
            if *status == 200 {
                strategy.record_success(token);
            } else if let Ok(next) = strategy.refresh(token, SAFE) {
                token = next;
            }
        }
        strategy.available("").unwrap()
    }

    #[test]
    fn the_sdks_pinned_cases() {
        for (capacity, statuses, left) in [
            (500, &[500, 500, 200][..], 486),
            (500, &[502, 502, 502], 472),
            (14, &[500, 502], 0),
            (0, &[500], 0),
            (20, &[500, 502], 6),
        ] {
            assert_eq!(operation(&mut strategy(capacity), statuses), left, "{capacity} {statuses:?}");
        }
        let mut shared = strategy(30);
        assert_eq!(operation(&mut shared, &[500, 502, 200]), 16);
        assert_eq!(operation(&mut shared, &[500, 200]), 16);
    }

    #[test]
    fn safety_attempts_quota_and_the_servers_wait() {
        let mut it = strategy(14);
        let token = it.acquire_initial("a");
        assert_eq!(it.refresh(token, ErrorInfo::default()), Err(RetryError::NotSafe), "unknown is not safe");
        let refused = ErrorInfo { is_retry_safe: Some(false), ..SAFE };
        assert_eq!(it.refresh(token, refused), Err(RetryError::NotSafe));
        let asked = ErrorInfo { retry_after: Some(Duration::from_secs(3)), ..SAFE };
        let token = it.refresh(token, asked).unwrap();
        assert_eq!((token.retry_count, token.retry_delay), (1, Duration::from_secs(3)));
        assert_eq!(it.refresh(token, SAFE), Err(RetryError::Quota(Duration::from_millis(50))));
        let other = it.acquire_initial("b");
        assert!(it.refresh(other, SAFE).is_ok(), "a scope has its own quota");
    }

    #[test]
    fn scopes_are_bounded() {
        let mut it = strategy(14);
        for n in 0..MOST_SCOPES + 50 {
            it.acquire_initial(&n.to_string());
        }
        assert_eq!(it.quotas.len(), MOST_SCOPES);
    }
}
