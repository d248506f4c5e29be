// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Retry tokens: the standard retry interface of the Smithy SDKs.

use super::budgets::RetryQuota;
use super::delay::Backoff;
use super::{Pairs, seconds, settings};
use parking_lot::Mutex;
use pyo3::{PyResult, pyclass, pymethods};
use tidegate::parts::{attempts, error_info};

/// A strategy's permission for an attempt.
#[pyclass(frozen, module = "tidegate._native")]
pub struct RetryToken(pub(super) Mutex<tidegate::parts::Attempt>);

#[pymethods]
impl RetryToken {
    /// Retries so far: 0 for the first attempt.
    fn retry_count(&self) -> u32 {
        self.0.lock().retry_count()
    }

    /// How long to wait before the attempt. The caller waits.
    fn retry_delay(&self) -> f64 {
        seconds(self.0.lock().retry_delay())
    }

    /// Why there is no further attempt: 1 attempts, 2 not safe, 3 quota; or 0.
    fn refused(&self) -> u32 {
        self.0.lock().refused()
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

/// Retry tokens: the standard retry interface of the Smithy SDKs (`docs/spec.md`, 2.18).
#[pyclass(frozen, module = "tidegate._native")]
pub struct RetryStrategy(pub(super) Mutex<tidegate::parts::Strategy>);

#[pymethods]
impl RetryStrategy {
    #[new]
    fn new(
        pairs: Pairs,
        backoff: &Backoff,
        quota: Option<&RetryQuota>,
        retry_unknown: bool,
        seed: u64,
    ) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::parts::Strategy::new(
            settings(pairs, attempts)?,
            **backoff.0.lock(),
            quota.map(|it| it.0.lock().settings()),
            retry_unknown,
            seed,
        ))))
    }

    /// The token of a call's first attempt, without a wait. Each scope has a quota of its own.
    fn acquire_initial_retry_token(&self, scope: &str) -> RetryToken {
        RetryToken(Mutex::new(self.0.lock().acquire(scope)))
    }

    /// The token of the next attempt, in exchange for that of the failed one.
    fn refresh_retry_token_for_retry(
        &self,
        token: &RetryToken,
        error: Option<bool>,
        after: Option<u64>,
        throttling: bool,
        timeout: bool,
    ) -> RetryToken {
        let token = *token.0.lock();
        let error = error_info(error, after, throttling, timeout);
        RetryToken(Mutex::new(self.0.lock().refresh(token, error)))
    }

    /// A call has succeeded with this token: its scope gets the cost of the last retry back.
    fn record_success(&self, token: &RetryToken) {
        let token = *token.0.lock();
        self.0.lock().record_success(token);
    }

    /// Tokens left in a scope's quota; `None` without quotas.
    fn available(&self, scope: &str) -> Option<u32> {
        self.0.lock().available(scope)
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}
