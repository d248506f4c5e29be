//! Retry budgets, of every kind.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate::{BudgetSettings, Class, QuotaSettings};

use super::{Pairs, argument, missing, time};
use crate::{Invalid, checked};

/// The earned budget.
#[derive(uniffi::Object)]
pub struct EarnedBudget(Mutex<tidegate::EarnedBudget>);

#[uniffi::export]
impl EarnedBudget {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        let Some(BudgetSettings::Earned(settings)) = checked("part", &pairs)?.budget() else {
            return Err(missing());
        };
        Ok(Arc::new(Self(Mutex::new(tidegate::EarnedBudget::new(settings)))))
    }

    /// Counts one call, which has started.
    pub fn on_call(&self, now: u64) {
        let now = time(now);
        self.0.lock().on_call(now);
    }

    /// A call has ended with an answer, good or permanent.
    pub fn on_answer(&self, now: u64) {
        let now = time(now);
        self.0.lock().on_answer(now);
    }

    /// Takes one retry, if there is one to take.
    pub fn try_withdraw(&self, now: u64) -> bool {
        let now = time(now);
        self.0.lock().try_withdraw(now)
    }

    /// Gives back a retry that was withdrawn and never started.
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
        Arc::new(Self(Mutex::new(self.0.lock().clone())))
    }
}

/// The windowed budget.
#[derive(uniffi::Object)]
pub struct RetryBudget(Mutex<tidegate::RetryBudget>);

#[uniffi::export]
impl RetryBudget {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        let Some(BudgetSettings::Window(settings)) = checked("part", &pairs)?.budget() else {
            return Err(missing());
        };
        Ok(Arc::new(Self(Mutex::new(tidegate::RetryBudget::new(settings)))))
    }

    /// Counts one call.
    pub fn deposit(&self, now: u64) {
        let now = time(now);
        self.0.lock().deposit(now);
    }

    /// Takes one retry, if there is one to take.
    pub fn try_withdraw(&self, now: u64) -> bool {
        let now = time(now);
        self.0.lock().try_withdraw(now)
    }

    /// Gives back a retry that was withdrawn at `charged` and never started.
    pub fn refund(&self, charged: u64, now: u64) {
        let (charged, now) = (time(charged), time(now));
        self.0.lock().refund(charged, now);
    }

    /// Retries that could be taken now.
    pub fn balance(&self, now: u64) -> u64 {
        let now = time(now);
        self.0.lock().balance(now)
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self(Mutex::new(self.0.lock().clone())))
    }
}

/// The ratio budget.
#[derive(uniffi::Object)]
pub struct RatioBudget(Mutex<tidegate::RatioBudget>);

#[uniffi::export]
impl RatioBudget {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        let Some(BudgetSettings::Ratio(settings)) = checked("part", &pairs)?.budget() else {
            return Err(missing());
        };
        Ok(Arc::new(Self(Mutex::new(tidegate::RatioBudget::new(settings)))))
    }

    /// Counts one call.
    pub fn on_call(&self) {
        self.0.lock().on_call();
    }

    /// Takes one retry, if it is free or there is one to take.
    pub fn try_withdraw(&self) -> bool {
        self.0.lock().try_withdraw()
    }

    /// Would a retry be free now?
    pub fn is_free(&self) -> bool {
        self.0.lock().is_free()
    }

    /// Gives back a retry that was paid for and never started.
    pub fn refund(&self) {
        self.0.lock().refund();
    }

    /// Whole retries that could be taken now.
    pub fn balance(&self) -> u64 {
        self.0.lock().balance()
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self(Mutex::new(self.0.lock().clone())))
    }
}

/// The share budget.
#[derive(uniffi::Object)]
pub struct ShareBudget(Mutex<tidegate::ShareBudget>);

#[uniffi::export]
impl ShareBudget {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        let Some(BudgetSettings::Share(settings)) = checked("part", &pairs)?.budget() else {
            return Err(missing());
        };
        Ok(Arc::new(Self(Mutex::new(tidegate::ShareBudget::new(settings)))))
    }

    /// Takes one retry, while `calls` are in flight.
    pub fn try_acquire(&self, calls: u32) -> bool {
        self.0.lock().try_acquire(calls)
    }

    /// A retry has ended, or will not start.
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
        Arc::new(Self(Mutex::new(self.0.lock().clone())))
    }
}

/// The token budget.
#[derive(uniffi::Object)]
pub struct TokenBudget(Mutex<tidegate::TokenBudget>);

#[uniffi::export]
impl TokenBudget {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        let Some(BudgetSettings::Tokens(settings)) = checked("part", &pairs)?.budget() else {
            return Err(missing());
        };
        Ok(Arc::new(Self(Mutex::new(tidegate::TokenBudget::new(settings)))))
    }

    /// A retryable failure.
    pub fn on_failure(&self) {
        self.0.lock().on_failure();
    }

    /// A success.
    pub fn on_success(&self) {
        self.0.lock().on_success();
    }

    /// May there be a retry now?
    pub fn allows(&self) -> bool {
        self.0.lock().allows()
    }

    /// Failures that would still leave retries allowed.
    pub fn balance(&self) -> u64 {
        self.0.lock().balance()
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self(Mutex::new(self.0.lock().clone())))
    }
}

/// What a retry is paid for after: `transient`, `timeout`, `throttled`.
fn paid_for(kind: &str) -> Result<Class, Invalid> {
    Ok(match kind {
        "transient" => Class::Transient,
        "timeout" => Class::Timeout,
        "throttled" => Class::Throttled,
        _ => {
            let rule = "must be one of transient, timeout, throttled";
            return Err(argument(format!("kind = {kind:?}: {rule}")));
        }
    })
}

/// The retry quota.
#[derive(uniffi::Object)]
pub struct RetryQuota {
    pub(super) settings: QuotaSettings,
    inner: Mutex<tidegate::RetryQuota>,
}

#[uniffi::export]
impl RetryQuota {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs) -> Result<Arc<Self>, Invalid> {
        let Some(BudgetSettings::Quota(settings)) = checked("part", &pairs)?.budget() else {
            return Err(missing());
        };
        Ok(Arc::new(Self { settings, inner: Mutex::new(tidegate::RetryQuota::new(settings)) }))
    }

    /// Pays for a retry after a failure of this kind; the cost, if there was enough.
    pub fn try_acquire(&self, kind: &str) -> Result<Option<u16>, Invalid> {
        let class = paid_for(kind)?;
        Ok(self.inner.lock().try_acquire(class))
    }

    /// A call has succeeded, whose last retry cost `cost`.
    pub fn on_success(&self, cost: u16) {
        self.inner.lock().on_success(cost);
    }

    /// Gives a charge back.
    pub fn refund(&self, cost: u16) {
        self.inner.lock().refund(cost);
    }

    /// Tokens left.
    pub fn available(&self) -> u32 {
        self.inner.lock().available()
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self { settings: self.settings, inner: Mutex::new(self.inner.lock().clone()) })
    }
}
