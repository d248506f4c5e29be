//! The retry quota (semantics 2.14; the AWS SDKs' standard mode): retries cost, successes refund.

use crate::outcome::Class;
use crate::state::{Damage, Loader, Saver};

/// The settings of a quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaSettings {
    /// Tokens when full.
    pub capacity: u32,
    /// Cost of a retry.
    pub cost: u16,
    /// Cost of a retry after an attempt timeout.
    pub timeout_cost: u16,
    /// Cost of a retry after a throttled outcome.
    pub throttled_cost: u16,
}

impl Default for QuotaSettings {
    /// 500; 5 a retry, 10 after a timeout.
    fn default() -> Self {
        Self { capacity: 500, cost: 5, timeout_cost: 10, throttled_cost: 5 }
    }
}

/// Starts full. Refuses a retry that costs more than the remaining tokens. A success refunds only the cost of the
/// call's last retry; a success at the first try gives 1. Never above `capacity`.
///
/// ```
/// use tidegate::{Class, QuotaSettings, RetryQuota};
/// let mut quota = RetryQuota::new(QuotaSettings { capacity: 15, ..QuotaSettings::default() });
/// let cost = quota.try_acquire(Class::Transient).unwrap();
/// assert_eq!((cost, quota.available()), (5, 10));
/// quota.on_success(cost);
/// assert_eq!(quota.available(), 15);
/// ```
#[derive(Clone, Debug)]
pub struct RetryQuota {
    settings: QuotaSettings,
    /// Tokens missing to the full quota. More than `capacity` after a retune to a smaller one.
    spent: u32,
}

/// The largest capacity that a policy may name, and so the largest debt.
const MOST: u32 = 1_000_000_000;

impl RetryQuota {
    /// Creates a full quota.
    pub fn new(settings: QuotaSettings) -> Self {
        Self { settings, spent: 0 }
    }

    /// The settings in force.
    pub fn settings(&self) -> QuotaSettings {
        self.settings
    }

    /// Creates an empty quota: every retry has to be earned.
    pub(crate) fn spent(settings: QuotaSettings) -> Self {
        Self { settings, spent: settings.capacity }
    }

    /// Pays for a retry after a failure of this class. Returns the cost, or `None` if too few tokens are left.
    pub fn try_acquire(&mut self, class: Class) -> Option<u16> {
        let cost = match class {
            Class::Timeout => self.settings.timeout_cost,
            Class::Throttled => self.settings.throttled_cost,
            _ => self.settings.cost,
        };
        let enough = self.available() >= u32::from(cost);
        self.spent += if enough { u32::from(cost) } else { 0 };
        enough.then_some(cost)
    }

    /// Counts a successful call whose last retry cost `cost`, 0 without a retry.
    pub fn on_success(&mut self, cost: u16) {
        self.refund(cost.max(1));
    }

    /// Refunds a charge.
    pub fn refund(&mut self, cost: u16) {
        self.spent = self.spent.saturating_sub(u32::from(cost));
    }

    /// Tokens left.
    pub fn available(&self) -> u32 {
        self.settings.capacity.saturating_sub(self.spent)
    }

    pub(crate) fn balance(&self) -> u64 {
        u64::from(self.available()) / u64::from(self.settings.cost.max(1))
    }

    /// Applies new settings: the number of missing tokens stays, even if it exceeds the capacity.
    pub(crate) fn retune(&mut self, to: QuotaSettings) {
        self.settings = to;
    }

    /// Tokens missing to the full quota.
    pub(crate) fn debt(&self) -> u64 {
        self.spent.into()
    }

    /// Takes tokens until at least `missing` are missing.
    pub(crate) fn owe(&mut self, missing: u64) {
        self.spent = self.spent.max(u32::try_from(missing).unwrap_or(u32::MAX).min(MOST));
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.spent == 0
    }

    /// Writes the number of missing tokens, which a retune keeps too.
    pub(crate) fn save(&self, to: &mut Saver) {
        if !self.is_fresh() {
            to.text("quota");
            to.count(self.spent);
        }
    }

    pub(crate) fn load(from: &mut Loader<'_>, settings: QuotaSettings) -> Result<Self, Damage> {
        Ok(Self { settings, spent: from.count()?.min(MOST) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs one call: a status for each attempt, retried until 200, the third attempt, or an empty quota.
    fn call(quota: &mut RetryQuota, statuses: &[u16]) -> usize {
        let mut last = 0;
        for (place, status) in statuses.iter().enumerate() {
            if *status == 200 {
                quota.on_success(last);
                return place + 1;
            }
            match quota.try_acquire(Class::Transient) {
                Some(cost) if place < 2 => last = cost,
                Some(cost) => quota.refund(cost),
                None => return place + 1,
            }
        }
        statuses.len()
    }

    #[test]
    fn follows_the_sdks_shared_vector() {
        // Quota 15: [500, 502, 200] leaves 10, then [500, 200] leaves 10 (research/testing.md 3.0).
        let mut quota = RetryQuota::new(QuotaSettings { capacity: 15, ..QuotaSettings::default() });
        assert_eq!((call(&mut quota, &[500, 502, 200]), quota.available()), (3, 10));
        assert_eq!((call(&mut quota, &[500, 200]), quota.available()), (2, 10));
        // 500 → after three retries 458 → success 472 → next clean success 473 (research/seeds.md 5).
        let mut quota = RetryQuota::new(QuotaSettings { cost: 14, ..QuotaSettings::default() });
        let costs: Vec<_> = (0..3).filter_map(|_| quota.try_acquire(Class::Transient)).collect();
        assert_eq!((costs.len(), quota.available()), (3, 458));
        quota.on_success(costs[2]);
        assert_eq!(quota.available(), 472);
        quota.on_success(0);
        assert_eq!(quota.available(), 473);
    }
}
