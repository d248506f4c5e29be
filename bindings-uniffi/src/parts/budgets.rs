// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! How many retries: the budgets, of every kind.

use super::{Pairs, named, settings, time};
use crate::Invalid;
use parking_lot::Mutex;
use std::sync::Arc;
use tidegate::Class;
use tidegate::parts::PAID_FOR;

/// The default budget of a policy: each call that ends with an answer earns a part of a retry.
#[derive(uniffi::Object)]
pub struct EarnedBudget(pub(super) Mutex<tidegate::EarnedBudget>);

#[uniffi::export]
impl EarnedBudget {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::EarnedBudget::new(settings(&pairs, |policy| match policy
            .budget()
        {
            Some(tidegate::BudgetSettings::Earned(it)) => Some(it),
            _ => None,
        })?)))))
    }

    /// Counts one call, which has started, however many attempts it makes.
    pub fn on_call(&self, now: u64) {
        let now = time(now);
        self.0.lock().on_call(now);
    }

    /// Reports an answer: a success or a permanent error. At most once per call.
    pub fn on_answer(&self, now: u64) {
        let now = time(now);
        self.0.lock().on_answer(now);
    }

    /// Takes one retry, if one is available.
    pub fn try_withdraw(&self, now: u64) -> bool {
        let now = time(now);
        self.0.lock().try_withdraw(now)
    }

    /// Refunds a retry that was withdrawn and never started.
    pub fn refund(&self, now: u64) {
        let now = time(now);
        self.0.lock().refund(now);
    }

    /// Whole retries that could be taken now.
    pub fn balance(&self, now: u64) -> u64 {
        let now = time(now);
        self.0.lock().balance(now)
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}

/// A budget over a sliding window: a share of recent calls, plus a floor (Finagle's `RetryBudget`).
#[derive(uniffi::Object)]
pub struct RetryBudget(pub(super) Mutex<tidegate::RetryBudget>);

#[uniffi::export]
impl RetryBudget {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::RetryBudget::new(settings(&pairs, |policy| {
            match policy.budget() {
                Some(tidegate::BudgetSettings::Window(it)) => Some(it),
                _ => None,
            }
        })?)))))
    }

    /// Counts one call, however many attempts it makes.
    pub fn deposit(&self, now: u64) {
        let now = time(now);
        self.0.lock().deposit(now);
    }

    /// Takes one retry, if one is available.
    pub fn try_withdraw(&self, now: u64) -> bool {
        let now = time(now);
        self.0.lock().try_withdraw(now)
    }

    /// Refunds a retry withdrawn at the moment `withdrawn` that was never started.
    pub fn refund(&self, withdrawn: u64, now: u64) {
        let withdrawn = time(withdrawn);
        let now = time(now);
        self.0.lock().refund(withdrawn, now);
    }

    /// Retries that could be taken now.
    pub fn balance(&self, now: u64) -> u64 {
        let now = time(now);
        self.0.lock().balance(now)
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}

/// Each call earns a part of a retry, up to max(1, `min_throughput`·`ratio`); no clock.
#[derive(uniffi::Object)]
pub struct RatioBudget(pub(super) Mutex<tidegate::RatioBudget>);

#[uniffi::export]
impl RatioBudget {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::RatioBudget::new(settings(&pairs, |policy| {
            match policy.budget() {
                Some(tidegate::BudgetSettings::Ratio(it)) => Some(it),
                _ => None,
            }
        })?)))))
    }

    /// Counts one call, however many attempts it makes.
    pub fn on_call(&self) {
        self.0.lock().on_call();
    }

    /// Takes one retry, if it is free or one is available.
    pub fn try_withdraw(&self) -> bool {
        self.0.lock().try_withdraw()
    }

    /// Refunds a retry that was paid for and never started; not one that was free.
    pub fn refund(&self) {
        self.0.lock().refund();
    }

    /// Whether a retry would be free now, because there have been few calls.
    pub fn is_free(&self) -> bool {
        self.0.lock().is_free()
    }

    /// Whole retries that could be taken now.
    pub fn balance(&self) -> u64 {
        self.0.lock().balance()
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}

/// Retries in flight ≤ max(`min_retries`, `share`·calls in flight); no clock (Envoy's `retry_budget`).
#[derive(uniffi::Object)]
pub struct ShareBudget(pub(super) Mutex<tidegate::ShareBudget>);

#[uniffi::export]
impl ShareBudget {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::ShareBudget::new(settings(&pairs, |policy| {
            match policy.budget() {
                Some(tidegate::BudgetSettings::Share(it)) => Some(it),
                _ => None,
            }
        })?)))))
    }

    /// Takes one retry, while `calls` are in flight (0 to 2^32 − 1).
    pub fn try_acquire(&self, calls: u32) -> bool {
        self.0.lock().try_acquire(calls)
    }

    /// A retry that was taken has ended, or will not start.
    pub fn on_end(&self) {
        self.0.lock().on_end(true);
    }

    /// Retries that could be taken now, while `calls` are in flight.
    pub fn balance(&self, calls: u32) -> u64 {
        self.0.lock().balance(calls)
    }

    /// Retries in flight.
    pub fn in_flight(&self) -> u32 {
        self.0.lock().in_flight()
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}

/// Failures take a token, successes give a part of one, and half must be left; no clock (gRPC A6).
#[derive(uniffi::Object)]
pub struct TokenBudget(pub(super) Mutex<tidegate::TokenBudget>);

#[uniffi::export]
impl TokenBudget {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::TokenBudget::new(settings(&pairs, |policy| {
            match policy.budget() {
                Some(tidegate::BudgetSettings::Tokens(it)) => Some(it),
                _ => None,
            }
        })?)))))
    }

    /// A retryable failure, first attempts included.
    pub fn on_failure(&self) {
        self.0.lock().on_failure();
    }

    /// A success.
    pub fn on_success(&self) {
        self.0.lock().on_success();
    }

    /// Whether a retry is allowed now.
    pub fn allows(&self) -> bool {
        self.0.lock().allows()
    }

    /// Failures until retries are refused.
    pub fn balance(&self) -> u64 {
        self.0.lock().balance()
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}

/// Retries cost, successes refund; no clock (the retry quota of the AWS SDKs' standard mode).
#[derive(uniffi::Object)]
pub struct RetryQuota(pub(super) Mutex<tidegate::RetryQuota>);

#[uniffi::export]
impl RetryQuota {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(tidegate::RetryQuota::new(settings(&pairs, |policy| {
            match policy.budget() {
                Some(tidegate::BudgetSettings::Quota(it)) => Some(it),
                _ => None,
            }
        })?)))))
    }

    /// Pays for a retry after a failure of this kind: the cost, or `None` if the tokens are too few.
    pub fn try_acquire(&self, kind: &str) -> Result<Option<u16>, Invalid> {
        let kind = named("kind", kind, &PAID_FOR, Class::name)?;
        Ok(self.0.lock().try_acquire(kind))
    }

    /// Reports a success of a call whose last retry cost `cost`: 0 if it had none.
    pub fn on_success(&self, cost: u16) {
        self.0.lock().on_success(cost);
    }

    /// Refunds the charge of a retry that was never started; 0 to 65,535.
    pub fn refund(&self, cost: u16) {
        self.0.lock().refund(cost);
    }

    /// Tokens left.
    pub fn available(&self) -> u32 {
        self.0.lock().available()
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}
