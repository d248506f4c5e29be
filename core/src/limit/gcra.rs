//! The generic cell rate algorithm (semantics 3.3; I.371): a rate limit whose whole state is one moment.

use super::rate::RateSettings;
use crate::time::{Duration, TOO_FAR, Time};

/// A rate limit stored as one moment: when, at the declared rate, all granted tokens will have been earned (the
/// "theoretical arrival time"). It decides like a [`TokenBucket`](crate::TokenBucket) of the same settings if
/// `permits` divide `per`. Otherwise its interval is rounded up to whole microseconds, so it never grants more. It
/// starts full. A clock that runs back adds no tokens.
///
/// ```
/// use tidegate::{Duration, Gcra, RateSettings, Time};
/// let at = Time::from_micros;
/// let mut limit = Gcra::new(RateSettings { permits: 1, per: Duration::from_secs(1), burst: 2 });
/// assert!(limit.try_take(2, at(0)).is_ok());
/// assert_eq!(limit.try_take(1, at(400_000)), Err(Duration::from_millis(600)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gcra {
    /// Interval between two tokens; `None` if no tokens ever flow in (`permits` 0).
    interval: Option<u64>,
    burst: u32,
    earned: Time,
}

impl Gcra {
    /// Creates a full limit.
    pub fn new(settings: RateSettings) -> Self {
        let per = settings.per.as_micros().max(1);
        let permits = u64::from(settings.permits);
        let interval = (permits > 0).then(|| per.div_ceil(permits));
        Self { interval, burst: settings.burst, earned: Time::from_micros(0) }
    }

    /// Takes `cost` tokens. A cost of 0 is always granted.
    ///
    /// # Errors
    /// Time until there are enough tokens; [`Duration::MAX`] for a cost above the burst, with `permits` 0, and if the
    /// debt would reach beyond the end of the clock (584,000 years).
    #[inline]
    pub fn try_take(&mut self, cost: u32, now: Time) -> Result<(), Duration> {
        if cost == 0 {
            return Ok(());
        }
        let Some(interval) = self.interval.filter(|_| cost <= self.burst) else {
            return Err(Duration::MAX);
        };
        // 64 by 32 bits each: nothing here leaves 128 bits.
        let debt = u128::from(interval) * u128::from(self.burst);
        if u128::from(self.earned.since(now).as_micros()) > debt + u128::from(TOO_FAR) {
            // The debt is at most a burst; more came from an invalid reading of the clock.
            self.earned = now.after(Duration::from_micros(u64::try_from(debt).unwrap_or(u64::MAX)));
        }
        let earned = u128::from(self.earned.max(now).as_micros()) + u128::from(interval) * u128::from(cost);
        let earliest = earned.saturating_sub(u128::from(interval) * u128::from(self.burst));
        let Ok(earned) = u64::try_from(earned) else {
            return Err(Duration::MAX);
        };
        // Not after `earned`, so it fits as well.
        let earliest = Time::from_micros(earliest as u64);
        if now < earliest {
            return Err(earliest.since(now));
        }
        self.earned = Time::from_micros(earned);
        Ok(())
    }

    /// The state: the moment at which the limit is full again.
    pub fn full_at(&self) -> Time {
        self.earned
    }

    /// Whether it is full, like a new one.
    pub fn is_fresh(&self, now: Time) -> bool {
        self.earned <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::TokenBucket;
    use proptest::prelude::*;

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    #[test]
    fn the_farthest_settings_neither_overflow_nor_panic_nor_mint() {
        for (permits, per, burst) in [
            (0, 0, 0),
            (0, 1, 3),
            (u32::MAX, 0, 1),
            (1, u64::MAX, u32::MAX),
            (1, u64::MAX, 3),
            (1, 1 << 40, u32::MAX),
        ] {
            let mut limit = Gcra::new(RateSettings { permits, per: Duration::from_micros(per), burst });
            let mut granted = 0;
            for now in [0, 1, u64::MAX, 0, 5] {
                for cost in [1, burst, u32::MAX] {
                    granted += u64::from(cost) * u64::from(limit.try_take(cost, at(now)).is_ok());
                }
            }
            // A full burst, and what two advances may have filled.
            assert!(granted <= 3 * u64::from(burst), "{granted} with {permits} {per} {burst}");
        }
    }

    #[test]
    fn rounds_its_interval_up_so_that_it_never_grants_more_than_is_declared() {
        let mut limit = Gcra::new(RateSettings { permits: 3, per: Duration::from_secs(1), burst: 1 });
        let granted = (0..3_000_000).step_by(1_000).filter(|now| limit.try_take(1, at(*now)).is_ok()).count();
        assert_eq!(granted, 9);
        assert!(!limit.is_fresh(at(2_999_000)) && limit.is_fresh(limit.full_at()));
    }

    proptest! {
        /// If both are exact, they decide the same.
        #[test]
        fn agrees_with_the_token_bucket(
            permits in 1u32..20, interval in 1u64..50_000, burst in 1u32..20, origin in prop_oneof![Just(0u64), Just(1 << 53)],
            steps in prop::collection::vec((0u64..60_000, 0u32..22), 1..100),
        ) {
            let per = Duration::from_micros(interval * u64::from(permits));
            let settings = RateSettings { permits, per, burst };
            let (mut limit, mut bucket) = (Gcra::new(settings), TokenBucket::new(settings, at(origin)));
            let mut now = origin;
            for (gap, cost) in steps {
                now += gap;
                prop_assert_eq!(limit.try_take(cost, at(now)), bucket.try_take(cost, at(now)));
                prop_assert_eq!(limit.is_fresh(at(now)), bucket.is_fresh(at(now)));
            }
        }
    }
}
