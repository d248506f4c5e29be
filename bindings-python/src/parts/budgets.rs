//! Retry budgets, of every kind.

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidegate::{BudgetSettings, Class, QuotaSettings};

use super::{Pairs, missing, moment, time};
use crate::pairs::checked;

/// The earned budget.
#[pyclass(frozen, module = "tidegate._native")]
pub struct EarnedBudget(Mutex<tidegate::EarnedBudget>);

#[pymethods]
impl EarnedBudget {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs) -> PyResult<Self> {
        let Some(BudgetSettings::Earned(settings)) = checked("part", &pairs)?.budget() else {
            return Err(missing());
        };
        Ok(Self(Mutex::new(tidegate::EarnedBudget::new(settings))))
    }

    /// Counts one call, which has started.
    fn on_call(&self, now: f64) -> PyResult<()> {
        let now = time(now)?;
        self.0.lock().on_call(now);
        Ok(())
    }

    /// A call has ended with an answer, good or permanent.
    fn on_answer(&self, now: f64) -> PyResult<()> {
        let now = time(now)?;
        self.0.lock().on_answer(now);
        Ok(())
    }

    /// Takes one retry, if there is one to take.
    fn try_withdraw(&self, now: f64) -> PyResult<bool> {
        let now = time(now)?;
        Ok(self.0.lock().try_withdraw(now))
    }

    /// Gives back a retry that was withdrawn and never started.
    fn refund(&self, now: f64) -> PyResult<()> {
        let now = time(now)?;
        self.0.lock().refund(now);
        Ok(())
    }

    /// Whole retries that could be taken now.
    fn balance(&self, now: f64) -> PyResult<u64> {
        let now = time(now)?;
        Ok(self.0.lock().balance(now))
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

/// The windowed budget.
#[pyclass(frozen, module = "tidegate._native")]
pub struct RetryBudget(Mutex<tidegate::RetryBudget>);

#[pymethods]
impl RetryBudget {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs) -> PyResult<Self> {
        let Some(BudgetSettings::Window(settings)) = checked("part", &pairs)?.budget() else {
            return Err(missing());
        };
        Ok(Self(Mutex::new(tidegate::RetryBudget::new(settings))))
    }

    /// Counts one call.
    fn deposit(&self, now: f64) -> PyResult<()> {
        let now = time(now)?;
        self.0.lock().deposit(now);
        Ok(())
    }

    /// Takes one retry, if there is one to take.
    fn try_withdraw(&self, now: f64) -> PyResult<bool> {
        let now = time(now)?;
        Ok(self.0.lock().try_withdraw(now))
    }

    /// Gives back a retry that was withdrawn at `charged` and never started.
    fn refund(&self, charged: f64, now: f64) -> PyResult<()> {
        let (charged, now) = (moment("withdrawn", charged)?, time(now)?);
        self.0.lock().refund(charged, now);
        Ok(())
    }

    /// Retries that could be taken now.
    fn balance(&self, now: f64) -> PyResult<u64> {
        let now = time(now)?;
        Ok(self.0.lock().balance(now))
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

/// The ratio budget.
#[pyclass(frozen, module = "tidegate._native")]
pub struct RatioBudget(Mutex<tidegate::RatioBudget>);

#[pymethods]
impl RatioBudget {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs) -> PyResult<Self> {
        let Some(BudgetSettings::Ratio(settings)) = checked("part", &pairs)?.budget() else {
            return Err(missing());
        };
        Ok(Self(Mutex::new(tidegate::RatioBudget::new(settings))))
    }

    /// Counts one call.
    fn on_call(&self) {
        self.0.lock().on_call();
    }

    /// Takes one retry, if it is free or there is one to take.
    fn try_withdraw(&self) -> bool {
        self.0.lock().try_withdraw()
    }

    /// Would a retry be free now?
    fn is_free(&self) -> bool {
        self.0.lock().is_free()
    }

    /// Gives back a retry that was paid for and never started.
    fn refund(&self) {
        self.0.lock().refund();
    }

    /// Whole retries that could be taken now.
    fn balance(&self) -> u64 {
        self.0.lock().balance()
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

/// The share budget.
#[pyclass(frozen, module = "tidegate._native")]
pub struct ShareBudget(Mutex<tidegate::ShareBudget>);

#[pymethods]
impl ShareBudget {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs) -> PyResult<Self> {
        let Some(BudgetSettings::Share(settings)) = checked("part", &pairs)?.budget() else {
            return Err(missing());
        };
        Ok(Self(Mutex::new(tidegate::ShareBudget::new(settings))))
    }

    /// Takes one retry, while `calls` are in flight.
    fn try_acquire(&self, calls: u32) -> bool {
        self.0.lock().try_acquire(calls)
    }

    /// A retry has ended, or will not start.
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
        Self(Mutex::new(self.0.lock().clone()))
    }
}

/// The token budget.
#[pyclass(frozen, module = "tidegate._native")]
pub struct TokenBudget(Mutex<tidegate::TokenBudget>);

#[pymethods]
impl TokenBudget {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs) -> PyResult<Self> {
        let Some(BudgetSettings::Tokens(settings)) = checked("part", &pairs)?.budget() else {
            return Err(missing());
        };
        Ok(Self(Mutex::new(tidegate::TokenBudget::new(settings))))
    }

    /// A retryable failure.
    fn on_failure(&self) {
        self.0.lock().on_failure();
    }

    /// A success.
    fn on_success(&self) {
        self.0.lock().on_success();
    }

    /// May there be a retry now?
    fn allows(&self) -> bool {
        self.0.lock().allows()
    }

    /// Failures that would still leave retries allowed.
    fn balance(&self) -> u64 {
        self.0.lock().balance()
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

/// What a retry is paid for after: `transient`, `timeout`, `throttled`.
fn paid_for(kind: &str) -> PyResult<Class> {
    Ok(match kind {
        "transient" => Class::Transient,
        "timeout" => Class::Timeout,
        "throttled" => Class::Throttled,
        _ => {
            let rule = "must be one of transient, timeout, throttled";
            return Err(PyValueError::new_err(format!("kind = {kind:?}: {rule}")));
        }
    })
}

/// The retry quota.
#[pyclass(frozen, module = "tidegate._native")]
pub struct RetryQuota {
    pub(super) settings: QuotaSettings,
    inner: Mutex<tidegate::RetryQuota>,
}

#[pymethods]
impl RetryQuota {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs) -> PyResult<Self> {
        let Some(BudgetSettings::Quota(settings)) = checked("part", &pairs)?.budget() else {
            return Err(missing());
        };
        Ok(Self { settings, inner: Mutex::new(tidegate::RetryQuota::new(settings)) })
    }

    /// Pays for a retry after a failure of this kind; the cost, if there was enough.
    fn try_acquire(&self, kind: &str) -> PyResult<Option<u16>> {
        let class = paid_for(kind)?;
        Ok(self.inner.lock().try_acquire(class))
    }

    /// A call has succeeded, whose last retry cost `cost`.
    fn on_success(&self, cost: u16) {
        self.inner.lock().on_success(cost);
    }

    /// Gives a charge back.
    fn refund(&self, cost: u16) {
        self.inner.lock().refund(cost);
    }

    /// Tokens left.
    fn available(&self) -> u32 {
        self.inner.lock().available()
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self { settings: self.settings, inner: Mutex::new(self.inner.lock().clone()) }
    }
}
