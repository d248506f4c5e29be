//! The share budget (semantics 2.12; Envoy's `retry_budget`): retries in flight as a share of calls in flight.

/// The settings of a share budget.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ShareSettings {
    /// Retries in flight per call in flight.
    pub share: f64,
    /// Retries in flight that are always allowed.
    pub min_retries: u32,
}

impl Default for ShareSettings {
    /// Envoy's: 20 %, at least 3.
    fn default() -> Self {
        Self { share: 0.2, min_retries: 3 }
    }
}

/// Allows a retry while `retries in flight ≤ max(min_retries, share · calls in flight)`, including the new one. A
/// retry in its backoff is in flight: a thousand simultaneous failures must not all pass.
#[derive(Clone, Debug)]
pub struct ShareBudget {
    settings: ShareSettings,
    in_flight: u32,
}

impl ShareBudget {
    /// Creates a budget with no retry in flight.
    pub fn new(settings: ShareSettings) -> Self {
        Self { settings, in_flight: 0 }
    }

    /// Acquires one retry, while `calls` are in flight.
    pub fn try_acquire(&mut self, calls: u32) -> bool {
        let granted = self.balance(calls) > 0;
        self.in_flight += u32::from(granted);
        granted
    }

    /// Notes that a retry has ended, or will not start; `held` says whether the call had one.
    pub fn on_end(&mut self, held: bool) {
        self.in_flight = self.in_flight.saturating_sub(u32::from(held));
    }

    /// Number of retries available now, while `calls` are in flight.
    pub fn balance(&self, calls: u32) -> u64 {
        let share = (f64::from(calls) * self.settings.share) as u64;
        share.max(u64::from(self.settings.min_retries)).saturating_sub(u64::from(self.in_flight))
    }

    /// Retries in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Applies new settings: retries in flight stay counted.
    pub(crate) fn retune(&mut self, to: ShareSettings) {
        self.settings = to;
    }

    pub(crate) fn forget_calls(&mut self) {
        self.in_flight = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_in_flight_never_exceed_the_share_or_the_minimum() {
        let mut budget = ShareBudget::new(ShareSettings::default());
        assert_eq!((0..10).filter(|_| budget.try_acquire(1)).count(), 3);
        assert_eq!((0..1_000).filter(|_| budget.try_acquire(100)).count(), 17);
        (0..5).for_each(|_| budget.on_end(true));
        budget.on_end(false);
        assert_eq!((0..10).filter(|_| budget.try_acquire(100)).count(), 5);
    }
}
