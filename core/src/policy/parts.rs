//! The settings of a policy's parts, for hosts that offer one part by itself. They are checked like those of a
//! policy, so that no language duplicates ranges or defaults.

use super::{LimitSettings, Policy};
use crate::breaker::BreakerSettings;
use crate::codel::CodelSettings;
use crate::limit::{AimdSettings, Gradient2Settings, RateSettings};
use crate::retry::{Backoff, BudgetSettings};
use crate::throttle::ThrottleSettings;

impl Policy {
    /// The delays between attempts; defaults where the policy sets none.
    pub fn backoff(&self) -> Backoff {
        self.retry.backoff
    }

    /// The retry budget of a policy that retries, or whose hedges use it, if it has one of its own.
    pub fn budget(&self) -> Option<BudgetSettings> {
        self.retry.budget
    }

    /// The rate limit.
    ///
    /// ```
    /// use tidegate::{Policy, Value::Number};
    /// let policy = Policy::from_pairs("p", &[("rate_limit.permits", Number(5.0)), ("rate_limit.per", Number(1e6))]).unwrap();
    /// assert_eq!(policy.rate().unwrap().burst, 5, "as many as permits, by default");
    /// assert_eq!(policy.breaker(), None);
    /// ```
    pub fn rate(&self) -> Option<RateSettings> {
        self.rate_limit.as_ref().filter(|limit| limit.limits.is_none()).map(|limit| limit.bucket)
    }

    /// The limit of an `aimd` bulkhead.
    pub fn aimd(&self) -> Option<AimdSettings> {
        match self.bulkhead.as_ref()?.limit {
            LimitSettings::Aimd(settings) => Some(*settings),
            LimitSettings::Fixed(_) | LimitSettings::Gradient2(..) => None,
        }
    }

    /// The limit of a `gradient2` bulkhead.
    pub fn gradient2(&self) -> Option<Gradient2Settings> {
        match self.bulkhead.as_ref()?.limit {
            LimitSettings::Gradient2(settings) => Some(*settings),
            LimitSettings::Fixed(_) | LimitSettings::Aimd(..) => None,
        }
    }

    /// The control of a bulkhead's queue.
    pub fn codel(&self) -> Option<CodelSettings> {
        self.bulkhead.as_ref()?.codel
    }

    /// The circuit breaker.
    pub fn breaker(&self) -> Option<BreakerSettings> {
        self.breaker.as_ref().map(|breaker| breaker.settings)
    }

    /// The adaptive throttle.
    pub fn throttle(&self) -> Option<ThrottleSettings> {
        self.throttle.as_ref().map(|throttle| throttle.settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Value::{self, Number, Text};

    fn policy(pairs: &[(&str, Value<'_>)]) -> Policy {
        Policy::from_pairs("p", pairs).unwrap()
    }

    #[test]
    fn a_policy_has_the_parts_that_it_names_and_no_others() {
        let none = policy(&[("retry.max_attempts", Number(2.0))]);
        assert!(none.rate().is_none() && none.aimd().is_none() && none.gradient2().is_none());
        assert!(none.codel().is_none() && none.breaker().is_none() && none.throttle().is_none());
        assert!(matches!(none.budget(), Some(BudgetSettings::Earned(it)) if it.start == 1));
        let aimd = policy(&[
            ("bulkhead.kind", Text("aimd")),
            ("bulkhead.max_concurrency", Number(9.0)),
            ("bulkhead.latency_threshold", Number(1e6)),
            ("bulkhead.max_queue", Number(3.0)),
            ("bulkhead.queue_target", Number(5e3)),
        ]);
        assert_eq!(aimd.aimd().unwrap().max_concurrency, 9);
        assert_eq!(aimd.codel().unwrap().interval.as_micros(), 100_000);
        assert_eq!(aimd.gradient2(), None);
        let gradient =
            policy(&[("bulkhead.kind", Text("gradient2")), ("bulkhead.max_concurrency", Number(9.0))]);
        assert_eq!(gradient.gradient2().unwrap().long_window, 600);
        assert!(gradient.aimd().is_none() && gradient.codel().is_none());
        let breaker =
            policy(&[("breaker.consecutive", Number(3.0)), ("breaker.break_duration", Number(1e6))]);
        assert_eq!(breaker.breaker().unwrap().max_break_duration.as_micros(), 10_000_000);
        let throttle = policy(&[("throttle.max_reject", Text("none"))]);
        assert_eq!(throttle.throttle().unwrap().max_reject, None);
    }
}
