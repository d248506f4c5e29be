// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! How many retries: the budgets, of every kind.

use super::{Pairs, moment, named, settings};
use parking_lot::Mutex;
use pyo3::{PyResult, pyclass, pymethods};
use tidegate::Class;
use tidegate::parts::PAID_FOR;

/// The default budget of a policy: each call that ends with an answer earns a part of a retry.
#[pyclass(frozen, module = "tidegate._native")]
pub struct EarnedBudget(pub(super) Mutex<tidegate::EarnedBudget>);

#[pymethods]
impl EarnedBudget {
    #[new]
    fn new(pairs: Pairs) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::EarnedBudget::new(settings(pairs, |policy| match policy.budget() {
            Some(tidegate::BudgetSettings::Earned(it)) => Some(it),
            _ => None,
        })?))))
    }

    /// Counts one call, which has started, however many attempts it makes.
    fn on_call(&self, now: f64) -> PyResult<()> {
        let now = moment("now", now)?;
        self.0.lock().on_call(now);
        Ok(())
    }

    /// Reports an answer: a success or a permanent error. At most once per call.
    fn on_answer(&self, now: f64) -> PyResult<()> {
        let now = moment("now", now)?;
        self.0.lock().on_answer(now);
        Ok(())
    }

    /// Takes one retry, if one is available.
    fn try_withdraw(&self, now: f64) -> PyResult<bool> {
        let now = moment("now", now)?;
        Ok(self.0.lock().try_withdraw(now))
    }

    /// Refunds a retry that was withdrawn and never started.
    fn refund(&self, now: f64) -> PyResult<()> {
        let now = moment("now", now)?;
        self.0.lock().refund(now);
        Ok(())
    }

    /// Whole retries that could be taken now.
    fn balance(&self, now: f64) -> PyResult<u64> {
        let now = moment("now", now)?;
        Ok(self.0.lock().balance(now))
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

/// A budget over a sliding window: a share of recent calls, plus a floor (Finagle's `RetryBudget`).
#[pyclass(frozen, module = "tidegate._native")]
pub struct RetryBudget(pub(super) Mutex<tidegate::RetryBudget>);

#[pymethods]
impl RetryBudget {
    #[new]
    fn new(pairs: Pairs) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::RetryBudget::new(settings(pairs, |policy| match policy.budget() {
            Some(tidegate::BudgetSettings::Window(it)) => Some(it),
            _ => None,
        })?))))
    }

    /// Counts one call, however many attempts it makes.
    fn deposit(&self, now: f64) -> PyResult<()> {
        let now = moment("now", now)?;
        self.0.lock().deposit(now);
        Ok(())
    }

    /// Takes one retry, if one is available.
    fn try_withdraw(&self, now: f64) -> PyResult<bool> {
        let now = moment("now", now)?;
        Ok(self.0.lock().try_withdraw(now))
    }

    /// Refunds a retry withdrawn at the moment `withdrawn` that was never started.
    fn refund(&self, withdrawn: f64, now: f64) -> PyResult<()> {
        let withdrawn = moment("withdrawn", withdrawn)?;
        let now = moment("now", now)?;
        self.0.lock().refund(withdrawn, now);
        Ok(())
    }

    /// Retries that could be taken now.
    fn balance(&self, now: f64) -> PyResult<u64> {
        let now = moment("now", now)?;
        Ok(self.0.lock().balance(now))
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

/// Each call earns a part of a retry, up to max(1, `min_throughput`·`ratio`); no clock.
#[pyclass(frozen, module = "tidegate._native")]
pub struct RatioBudget(pub(super) Mutex<tidegate::RatioBudget>);

#[pymethods]
impl RatioBudget {
    #[new]
    fn new(pairs: Pairs) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::RatioBudget::new(settings(pairs, |policy| match policy.budget() {
            Some(tidegate::BudgetSettings::Ratio(it)) => Some(it),
            _ => None,
        })?))))
    }

    /// Counts one call, however many attempts it makes.
    fn on_call(&self) {
        self.0.lock().on_call();
    }

    /// Takes one retry, if it is free or one is available.
    fn try_withdraw(&self) -> bool {
        self.0.lock().try_withdraw()
    }

    /// Refunds a retry that was paid for and never started; not one that was free.
    fn refund(&self) {
        self.0.lock().refund();
    }

    /// Whether a retry would be free now, because there have been few calls.
    fn is_free(&self) -> bool {
        self.0.lock().is_free()
    }

    /// Whole retries that could be taken now.
    fn balance(&self) -> u64 {
        self.0.lock().balance()
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

/// Retries in flight ≤ max(`min_retries`, `share`·calls in flight); no clock (Envoy's `retry_budget`).
#[pyclass(frozen, module = "tidegate._native")]
pub struct ShareBudget(pub(super) Mutex<tidegate::ShareBudget>);

#[pymethods]
impl ShareBudget {
    #[new]
    fn new(pairs: Pairs) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::ShareBudget::new(settings(pairs, |policy| match policy.budget() {
            Some(tidegate::BudgetSettings::Share(it)) => Some(it),
            _ => None,
        })?))))
    }

    /// Takes one retry, while `calls` are in flight (0 to 2^32 − 1).
    fn try_acquire(&self, calls: u32) -> bool {
        self.0.lock().try_acquire(calls)
    }

    /// A retry that was taken has ended, or will not start.
    fn on_end(&self) {
        self.0.lock().on_end(true);
    }

    /// Retries that could be taken now, while `calls` are in flight.
    fn balance(&self, calls: u32) -> u64 {
        self.0.lock().balance(calls)
    }

    /// Retries in flight.
    fn in_flight(&self) -> u32 {
        self.0.lock().in_flight()
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

/// Failures take a token, successes give a part of one, and half must be left; no clock (gRPC A6).
#[pyclass(frozen, module = "tidegate._native")]
pub struct TokenBudget(pub(super) Mutex<tidegate::TokenBudget>);

#[pymethods]
impl TokenBudget {
    #[new]
    fn new(pairs: Pairs) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::TokenBudget::new(settings(pairs, |policy| match policy.budget() {
            Some(tidegate::BudgetSettings::Tokens(it)) => Some(it),
            _ => None,
        })?))))
    }

    /// A retryable failure, first attempts included.
    fn on_failure(&self) {
        self.0.lock().on_failure();
    }

    /// A success.
    fn on_success(&self) {
        self.0.lock().on_success();
    }

    /// Whether a retry is allowed now.
    fn allows(&self) -> bool {
        self.0.lock().allows()
    }

    /// Failures until retries are refused.
    fn balance(&self) -> u64 {
        self.0.lock().balance()
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

/// Retries cost, successes refund; no clock (the retry quota of the AWS SDKs' standard mode).
#[pyclass(frozen, module = "tidegate._native")]
pub struct RetryQuota(pub(super) Mutex<tidegate::RetryQuota>);

#[pymethods]
impl RetryQuota {
    #[new]
    fn new(pairs: Pairs) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::RetryQuota::new(settings(pairs, |policy| match policy.budget() {
            Some(tidegate::BudgetSettings::Quota(it)) => Some(it),
            _ => None,
        })?))))
    }

    /// Pays for a retry after a failure of this kind: the cost, or `None` if the tokens are too few.
    fn try_acquire(&self, kind: &str) -> PyResult<Option<u16>> {
        let kind = named("kind", kind, &PAID_FOR, Class::name)?;
        Ok(self.0.lock().try_acquire(kind))
    }

    /// Reports a success of a call whose last retry cost `cost`: 0 if it had none.
    fn on_success(&self, cost: u16) {
        self.0.lock().on_success(cost);
    }

    /// Refunds the charge of a retry that was never started; 0 to 65,535.
    fn refund(&self, cost: u16) {
        self.0.lock().refund(cost);
    }

    /// Tokens left.
    fn available(&self) -> u32 {
        self.0.lock().available()
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}
