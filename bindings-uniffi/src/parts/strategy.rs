// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Retry tokens: the standard retry interface of the Smithy SDKs.

use super::budgets::RetryQuota;
use super::delay::Backoff;
use super::{Pairs, settings};
use crate::Invalid;
use parking_lot::Mutex;
use std::sync::Arc;
use tidegate::parts::{attempts, error_info};

/// A strategy's permission for an attempt.
#[derive(uniffi::Object)]
pub struct RetryToken(pub(super) Mutex<tidegate::parts::Attempt>);

#[uniffi::export]
impl RetryToken {
    /// Retries so far: 0 for the first attempt.
    pub fn retry_count(&self) -> u32 {
        self.0.lock().retry_count()
    }

    /// How long to wait before the attempt. The caller waits.
    pub fn retry_delay(&self) -> u64 {
        self.0.lock().retry_delay().as_micros()
    }

    /// Why there is no further attempt: 1 attempts, 2 not safe, 3 quota; or 0.
    pub fn refused(&self) -> u32 {
        self.0.lock().refused()
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}

/// Retry tokens: the standard retry interface of the Smithy SDKs (`docs/spec.md`, 2.18).
#[derive(uniffi::Object)]
pub struct RetryStrategy(pub(super) Mutex<tidegate::parts::Strategy>);

#[uniffi::export]
impl RetryStrategy {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(
        pairs: Pairs,
        backoff: &Backoff,
        quota: Option<Arc<RetryQuota>>,
        retry_unknown: bool,
        seed: u64,
    ) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::parts::Strategy::new(
            settings(&pairs, attempts)?,
            **backoff.0.lock(),
            quota.map(|it| it.0.lock().settings()),
            retry_unknown,
            seed,
        )))))
    }

    /// The token of a call's first attempt, without a wait. Each scope has a quota of its own.
    pub fn acquire_initial_retry_token(&self, scope: &str) -> Arc<RetryToken> {
        Arc::new(RetryToken(Mutex::new(self.0.lock().acquire(scope))))
    }

    /// The token of the next attempt, in exchange for that of the failed one.
    pub fn refresh_retry_token_for_retry(
        &self,
        token: &RetryToken,
        error: Option<bool>,
        after: Option<u64>,
        throttling: bool,
        timeout: bool,
    ) -> Arc<RetryToken> {
        let token = *token.0.lock();
        let error = error_info(error, after, throttling, timeout);
        Arc::new(RetryToken(Mutex::new(self.0.lock().refresh(token, error))))
    }

    /// A call has succeeded with this token: its scope gets the cost of the last retry back.
    pub fn record_success(&self, token: &RetryToken) {
        let token = *token.0.lock();
        self.0.lock().record_success(token);
    }

    /// Tokens left in a scope's quota; `None` without quotas.
    pub fn available(&self, scope: &str) -> Option<u32> {
        self.0.lock().available(scope)
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}
