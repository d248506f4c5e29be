//! Retry tokens.

use parking_lot::Mutex;
use pyo3::prelude::*;
use tidegate::{Duration, ErrorInfo, parts};

use super::budgets::RetryQuota;
use super::delay::Backoff;
use super::{Pairs, seconds};
use crate::pairs::checked;

/// What a strategy hands out for an attempt.
#[pyclass(frozen, module = "tidegate._native")]
pub struct RetryToken(tidegate::RetryToken);

#[pymethods]
impl RetryToken {
    /// Attempts made so far, the first one aside.
    #[getter]
    fn retry_count(&self) -> u32 {
        self.0.retry_count
    }

    /// Seconds to wait before the attempt.
    #[getter]
    fn retry_delay(&self) -> f64 {
        seconds(self.0.retry_delay)
    }
}

/// Retry tokens, each scope with a quota of its own.
#[pyclass(frozen, module = "tidegate._native")]
pub struct RetryStrategy(Mutex<tidegate::RetryStrategy>);

#[pymethods]
impl RetryStrategy {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]", seed, backoff, quota, retry_unknown))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(
        pairs: Pairs,
        seed: u64,
        backoff: &Backoff,
        quota: Option<&RetryQuota>,
        retry_unknown: bool,
    ) -> PyResult<Self> {
        let (policy, backoff) = (checked("part", &pairs)?, backoff.0.lock());
        let quota = quota.map(|quota| quota.0.lock().clone());
        Ok(Self(Mutex::new(parts::strategy(&policy, seed, &backoff, quota.as_ref(), retry_unknown))))
    }

    /// The token of a call's first attempt.
    fn acquire(&self, scope: &str) -> RetryToken {
        RetryToken(self.0.lock().acquire_initial(scope))
    }

    /// The token of the next attempt, or why there is none, with the wait there would have been.
    #[pyo3(signature = (token, safe, retry_after, throttling, timeout) -> "RetryToken | tuple[str, float | None]")]
    fn refresh<'py>(
        &self,
        py: Python<'py>,
        token: &RetryToken,
        safe: Option<bool>,
        retry_after: Option<u64>,
        throttling: bool,
        timeout: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let error = ErrorInfo {
            is_retry_safe: safe,
            retry_after: retry_after.map(Duration::from_micros),
            is_throttling_error: throttling,
            is_timeout_error: timeout,
        };
        let next = self.0.lock().refresh(token.0, error);
        let (why, wait) = match next.map_err(parts::refusal) {
            Ok(token) => return Ok(RetryToken(token).into_pyobject(py)?.into_any()),
            Err(refusal) => refusal,
        };
        Ok((why, wait.map(seconds)).into_pyobject(py)?.into_any())
    }

    /// A call has succeeded with this token.
    fn record_success(&self, token: &RetryToken) {
        self.0.lock().record_success(token.0);
    }

    /// Tokens left in a scope's quota, if there are quotas.
    fn available(&self, scope: &str) -> Option<u32> {
        self.0.lock().available(scope)
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}
