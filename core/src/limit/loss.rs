//! How an AIMD limit that follows loss grows (semantics 4.6): fast until the first cut, and slowly where the server refused.

use crate::state::{Damage, Loader, Saver};

/// Good answers for each whole step near the limit of the last refusal. With one refusal for each such step, about 1 %
/// of the attempts are refused, however small the server's cap is.
const CAREFUL: u32 = 100;
/// So far above the limit of the last refusal steps are careful.
const ABOVE: u32 = 2;

/// What is known of the server's cap. Copied with the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Growth {
    /// Whether there was no cut yet: each good answer adds a whole step.
    first: bool,
    /// The limit when an attempt was last refused; 0 before that.
    refused_at: u32,
    /// Good answers since the last whole step near it.
    good: u32,
}

impl Default for Growth {
    fn default() -> Self {
        Self { first: true, refused_at: 0, good: 0 }
    }
}

impl Growth {
    /// The limit after a good answer, not yet bounded.
    pub fn after_good(&mut self, limit: f64, step: f64, in_flight: u32) -> f64 {
        let whole = limit as u32;
        if u64::from(in_flight) * 2 < u64::from(whole) {
            return limit;
        }
        if self.first {
            return limit + step;
        }
        if self.refused_at == 0 || whole >= self.refused_at.saturating_add(ABOVE) {
            return limit + step / limit;
        }
        self.good += 1;
        if self.good < CAREFUL {
            return limit;
        }
        self.good = 0;
        f64::from(whole) + 1.0
    }

    /// A throttled attempt cuts the limit, which is `limit` so far.
    pub fn on_refusal(&mut self, limit: f64) {
        self.on_cut();
        self.refused_at = limit as u32;
    }

    /// The limit is cut.
    pub fn on_cut(&mut self) {
        (self.first, self.good) = (false, 0);
    }

    pub fn save(&self, to: &mut Saver) {
        to.flag(self.first);
        to.count(self.refused_at);
        to.count(self.good);
    }

    pub fn load(from: &mut Loader<'_>) -> Result<Self, Damage> {
        let growth = Self { first: from.flag()?, refused_at: from.count()?, good: from.count()? };
        if growth.good >= CAREFUL {
            return Err(Damage("must be fewer than 100 good answers"));
        }
        Ok(growth)
    }
}

#[cfg(test)]
mod tests {
    use crate::limit::{Aimd, AimdSettings, LimitSignal};
    use crate::time::{Duration, Time};

    const FAST: Duration = Duration::from_millis(1);
    const SLOW: Duration = Duration::from_millis(101);

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1_000)
    }

    fn limit(signal: LimitSignal, max_concurrency: u32) -> Aimd {
        Aimd::new(AimdSettings {
            signal,
            max_concurrency,
            min_concurrency: 1,
            latency_threshold: Duration::from_millis(100),
            increase_step: 1.0,
            backoff_ratio: 0.9,
            cut_interval: Duration::from_secs(1),
            latency_quantile: None,
        })
    }

    fn good(limit: &mut Aimd, count: usize) -> u32 {
        (0..count).for_each(|_| limit.on_good(FAST, limit.limit(), at(1)));
        limit.limit()
    }

    #[test]
    fn it_begins_with_20_and_each_good_answer_adds_1_until_the_first_cut() {
        // Specification 4.6.2, 4.6.4.
        assert_eq!(limit(LimitSignal::Loss, 7).limit(), 7);
        assert_eq!(limit(LimitSignal::Both, 300).limit(), 20);
        let mut it = limit(LimitSignal::Loss, 300);
        assert_eq!(good(&mut it, 30), 50);
        it.on_throttled(at(0), at(1));
        assert_eq!(it.limit(), 45);
        assert_eq!(good(&mut it, 99), 45, "near the refusal a whole step takes 100 good answers");
        assert_eq!(good(&mut it, 1), 46);
        assert_eq!(good(&mut it, 600), 52, "up to 2 above it");
        assert!(good(&mut it, 52) == 52 && good(&mut it, 2) == 53, "then 1/limit each");
    }

    #[test]
    fn a_throttle_cuts_unless_it_started_before_the_last_cut() {
        // Specification 4.6.3.
        let mut it = limit(LimitSignal::Loss, 300);
        it.on_throttled(at(0), at(5));
        assert_eq!(it.limit(), 18);
        it.on_throttled(at(5), at(6));
        assert_eq!(it.limit(), 18);
        it.on_throttled(at(6), at(7));
        assert_eq!(it.limit(), 16, "at once, whatever the interval");
    }

    #[test]
    fn nothing_grows_while_less_than_half_is_in_use() {
        // Specification 4.6.5.
        let mut it = limit(LimitSignal::Loss, 300);
        it.on_good(FAST, 9, at(0));
        assert_eq!(it.limit(), 20);
        it.on_good(FAST, 10, at(0));
        assert_eq!(it.limit(), 21);
    }

    #[test]
    fn loss_alone_is_deaf_to_time_and_both_hears_it() {
        // Specification 4.6.1, 4.6.6.
        let mut it = limit(LimitSignal::Loss, 300);
        it.on_good(SLOW, 20, at(0));
        it.on_timeout(at(0));
        it.on_failure(SLOW, at(0));
        assert_eq!(it.limit(), 21);
        let mut it = limit(LimitSignal::Both, 300);
        it.on_good(SLOW, 20, at(0));
        assert_eq!(it.limit(), 18);
        it.on_timeout(at(10));
        assert_eq!(it.limit(), 18, "one cut per interval");
        it.on_throttled(at(11), at(12));
        assert_eq!(it.limit(), 16, "but at once after a throttle");
        assert_eq!(good(&mut it, 100), 17);
        let mut it = limit(LimitSignal::Both, 2);
        it.on_timeout(at(0));
        assert_eq!((it.limit(), good(&mut it, 1)), (1, 2), "careful only where an attempt was refused");
        let mut it = limit(LimitSignal::Latency, 20);
        it.on_throttled(at(0), at(1));
        assert_eq!(it.limit(), 20, "latency alone is deaf to throttles");
    }

    #[test]
    fn a_retune_keeps_the_limit_unless_the_signal_changes() {
        // Specification 4.6.8.
        let mut it = limit(LimitSignal::Loss, 30);
        good(&mut it, 30);
        it.retune(AimdSettings { max_concurrency: 300, ..it.settings() });
        assert_eq!(it.limit(), 30, "it grows by itself");
        assert!(!it.is_fresh(at(1)));
        it.retune(AimdSettings { signal: LimitSignal::Both, ..it.settings() });
        assert_eq!(it.limit(), 20);
        assert!(it.is_fresh(at(1)));
    }
}
