//! Retry tokens.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate::{Duration, ErrorInfo, parts};

use super::Pairs;
use super::budgets::RetryQuota;
use super::delay::Backoff;
use crate::{Invalid, checked};

/// What a strategy hands out for an attempt.
#[derive(uniffi::Object)]
pub struct RetryToken(tidegate::RetryToken);

#[uniffi::export]
impl RetryToken {
    /// Attempts made so far, the first one aside.
    pub fn retry_count(&self) -> u32 {
        self.0.retry_count
    }

    /// Microseconds to wait before the attempt.
    pub fn retry_delay(&self) -> u64 {
        self.0.retry_delay.as_micros()
    }
}

/// What asking for the next attempt has brought.
#[derive(uniffi::Enum)]
pub enum Refreshed {
    /// There is one.
    Next {
        /// Its token.
        token: Arc<RetryToken>,
    },
    /// There is none.
    Refused {
        /// `attempts`, `not_safe` or `quota`.
        why: String,
        /// The wait there would have been, in microseconds.
        wait_us: Option<u64>,
    },
}

/// Retry tokens, each scope with a quota of its own.
#[derive(uniffi::Object)]
pub struct RetryStrategy(Mutex<tidegate::RetryStrategy>);

#[uniffi::export]
impl RetryStrategy {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(
        pairs: Pairs,
        seed: u64,
        backoff: &Backoff,
        quota: Option<Arc<RetryQuota>>,
        retry_unknown: bool,
    ) -> Result<Arc<Self>, Invalid> {
        let (policy, backoff) = (checked("part", &pairs)?, backoff.0.lock());
        let quota = quota.map(|quota| quota.0.lock().clone());
        let strategy = parts::strategy(&policy, seed, &backoff, quota.as_ref(), retry_unknown);
        Ok(Arc::new(Self(Mutex::new(strategy))))
    }

    /// The token of a call's first attempt.
    pub fn acquire(&self, scope: &str) -> Arc<RetryToken> {
        Arc::new(RetryToken(self.0.lock().acquire_initial(scope)))
    }

    /// The token of the next attempt, or why there is none, with the wait there would have been.
    pub fn refresh(
        &self,
        token: &RetryToken,
        safe: Option<bool>,
        retry_after: Option<u64>,
        throttling: bool,
        timeout: bool,
    ) -> Refreshed {
        let error = ErrorInfo {
            is_retry_safe: safe,
            retry_after: retry_after.map(Duration::from_micros),
            is_throttling_error: throttling,
            is_timeout_error: timeout,
        };
        let next = self.0.lock().refresh(token.0, error);
        match next.map_err(parts::refusal) {
            Ok(token) => Refreshed::Next { token: Arc::new(RetryToken(token)) },
            Err((why, wait)) => {
                Refreshed::Refused { why: why.to_owned(), wait_us: wait.map(Duration::as_micros) }
            }
        }
    }

    /// A call has succeeded with this token.
    pub fn record_success(&self, token: &RetryToken) {
        self.0.lock().record_success(token.0);
    }

    /// Tokens left in a scope's quota, if there are quotas.
    pub fn available(&self, scope: &str) -> Option<u32> {
        self.0.lock().available(scope)
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self(Mutex::new(self.0.lock().clone())))
    }
}
