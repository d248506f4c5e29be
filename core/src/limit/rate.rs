//! The token bucket (semantics 3.1, 3.2): a rate, and a burst that may be spent at once.

use crate::debt::Debt;
use crate::state::{Damage, Loader, Saver};
use crate::time::{Duration, TOO_FAR, Time};
use crate::wide;

/// The settings of a rate limit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateSettings {
    /// Tokens that flow in per `per`, continuously; at least 1. With 0, no tokens flow in after the first burst.
    pub permits: u32,
    /// The period of `permits`; above 0. A period of 0 counts as 1 µs.
    pub per: Duration,
    /// Tokens in a full bucket; at least 1 (0 grants nothing).
    pub burst: u32,
}

/// A bucket that starts full and refills continuously. Integer arithmetic only, so rounding does not accumulate: a
/// token has as many parts as `per` has microseconds, and each microsecond adds `permits` parts.
///
/// A clock that runs back adds no tokens: the moment up to which the bucket has been filled never moves back, and the
/// wait in a refusal includes the time until the clock is there again. After hours of silence one burst is available.
///
/// ```
/// use tidegate::{Duration, RateSettings, Time, TokenBucket};
/// let at = Time::from_micros;
/// let mut bucket = TokenBucket::new(RateSettings { permits: 3, per: Duration::from_secs(1), burst: 2 }, at(0));
/// assert!(bucket.try_take(2, at(0)).is_ok());
/// assert_eq!(bucket.try_take(1, at(0)), Err(Duration::from_micros(333_334)), "a third of a second, rounded up");
/// assert!(bucket.try_take(1, at(333_334)).is_ok());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TokenBucket {
    settings: RateSettings,
    /// Missing parts to a full bucket; more than a full bucket after a retune to a smaller burst. At most that of the
    /// largest burst and rate, < 2^97, hence 128 bits.
    missing: u128,
    /// The bucket is filled up to here.
    filled: Time,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub fn new(settings: RateSettings, now: Time) -> Self {
        Self { settings, missing: 0, filled: now }
    }

    /// The settings in force.
    pub fn settings(&self) -> RateSettings {
        self.settings
    }

    /// Takes `cost` tokens. A cost of 0 is always granted.
    ///
    /// # Errors
    /// Time until there are enough tokens, rounded up and never zero; [`Duration::MAX`] for a cost above the burst,
    /// which the bucket can never pay.
    #[inline]
    pub fn try_take(&mut self, cost: u32, now: Time) -> Result<(), Duration> {
        self.refill(now);
        let missing = self.missing + u128::from(cost) * part(self.settings);
        if missing <= full(self.settings) || cost == 0 {
            self.missing = missing;
            return Ok(());
        }
        Err(if cost > self.settings.burst { Duration::MAX } else { self.wait_for(u64::from(cost), now) })
    }

    /// Time until `tokens` tokens in all will have flowed in beyond those already used, rounded up. Linear, also
    /// above the burst: queued calls take their tokens as they arrive, so the bucket is never full before the last of
    /// them.
    pub fn wait_for(&mut self, tokens: u64, now: Time) -> Duration {
        self.refill(now);
        // Both factors are below 2^64, so the product fits.
        let needed = (u128::from(tokens) * part(self.settings)).saturating_add(self.missing);
        let missing = if tokens == 0 { 0 } else { needed.saturating_sub(full(self.settings)) };
        match self.settings.permits {
            _ if missing == 0 => Duration::ZERO,
            0 => Duration::MAX,
            permits => {
                let micros = wide::div_ceil(missing, permits.into());
                let behind = self.filled.since(now);
                behind.plus(Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)))
            }
        }
    }

    /// Takes `cost` tokens, or all available ones if there are fewer: the tokens were granted elsewhere.
    pub(crate) fn drain(&mut self, cost: u32, now: Time) {
        self.refill(now);
        let drained = self.missing + u128::from(cost) * part(self.settings);
        self.missing = drained.min(full(self.settings)).max(self.missing);
    }

    /// Whole tokens available now.
    pub fn level(&mut self, now: Time) -> u32 {
        self.refill(now);
        // At most `burst`, a `u32`.
        (full(self.settings).saturating_sub(self.missing) / part(self.settings)) as u32
    }

    /// Whether the bucket is full, like a new one.
    pub fn is_fresh(&mut self, now: Time) -> bool {
        self.refill(now);
        self.missing == 0
    }

    /// Missing tokens, as the moment when the bucket will be full.
    pub(crate) fn debt(&mut self, now: Time) -> Debt {
        self.debt_with(0, now)
    }

    /// Missing tokens, as the moment when the bucket will be full if `tokens` more are taken.
    pub(crate) fn debt_with(&mut self, tokens: u64, now: Time) -> Debt {
        match self.wait_for(tokens.saturating_add(self.settings.burst.into()), now) {
            Duration::ZERO => Debt::NONE,
            wait => Debt { amount: 1, until: now.after(wait) },
        }
    }

    /// Takes tokens until at least this much is missing, even if that is more than a full bucket.
    pub(crate) fn owe(&mut self, debt: Debt, now: Time) {
        self.refill(now);
        let wait = u128::from(debt.until.since(self.filled).as_micros());
        let missing = match self.settings.permits {
            0 if wait > 0 => full(self.settings),
            permits => wait * u128::from(permits),
        };
        self.missing = self.missing.max(missing.min(most(self.settings)));
    }

    /// Converts a debt to other settings: the same number of tokens, paid at the new rate.
    pub(crate) fn translated(debt: Debt, from: RateSettings, to: RateSettings, now: Time) -> Debt {
        let mut bucket = Self::new(from, now);
        bucket.owe(debt, now);
        bucket.settings = RateSettings { burst: from.burst, ..to };
        bucket.missing = carried(bucket.missing, from, to);
        bucket.debt(now)
    }

    /// Applies new settings. A larger burst fills at the new rate. With a smaller one the number of missing tokens
    /// stays, even if that is more than a full bucket. So a change to and fro adds no tokens.
    pub fn retune(&mut self, to: RateSettings, now: Time) {
        self.refill(now);
        let there = full(self.settings).saturating_sub(self.missing);
        let missing = carried(self.missing, self.settings, to);
        // A larger burst keeps the available tokens, rounded down.
        let (old, new) = (part(self.settings), part(to));
        let there = there / old * new + there % old * new / old;
        let grown = if to.burst > self.settings.burst { full(to).saturating_sub(there) } else { 0 };
        self.missing = missing.max(grown);
        self.settings = to;
    }

    /// Writes the missing tokens, whole ones and parts of one; nothing for a full bucket.
    pub(crate) fn save(&self, to: &mut Saver) {
        let mut it = self.clone();
        if !it.is_fresh(to.now()) {
            let part = part(it.settings);
            to.whole(it.settings.per.as_micros().max(1));
            // At most twice the largest burst, and less than `per`.
            to.whole((it.missing / part) as u64);
            to.whole((it.missing % part) as u64);
        }
    }

    /// Restores the saved tokens, by the rules of a retune.
    pub(crate) fn load(from: &mut Loader<'_>, settings: RateSettings) -> Result<Self, Damage> {
        let (old, whole, rest) =
            (u128::from(from.whole()?), u128::from(from.whole()?), u128::from(from.whole()?));
        let new = part(settings);
        let Some(parts) = (rest * new).checked_div(old).filter(|_| rest < old) else {
            return Err(Damage("must be less than a whole token"));
        };
        // Factors below 2^53 and 2^64, so the products fit.
        let there = from.version() == 1;
        let parts = if there { parts } else { (rest * new).div_ceil(old) };
        let parts = (whole * new).saturating_add(parts);
        let missing = if there { full(settings).saturating_sub(parts) } else { parts.min(most(settings)) };
        Ok(Self { settings, missing, filled: from.then() })
    }

    /// Fills the bucket up to `now`.
    #[inline]
    fn refill(&mut self, now: Time) {
        let elapsed = now.since(self.filled).as_micros();
        if elapsed > TOO_FAR || self.filled.since(now).as_micros() > TOO_FAR {
            self.filled = now; // garbage, or another origin: add no tokens, and do not wait for the clock's return
            return;
        }
        let came = u128::from(elapsed) * u128::from(self.settings.permits);
        self.missing = self.missing.saturating_sub(came);
        self.filled = now.max(self.filled);
    }
}

/// Number of parts in one token.
fn part(settings: RateSettings) -> u128 {
    u128::from(settings.per.as_micros().max(1))
}

/// Converts missing parts to parts of a token of other settings, rounded up. Whole tokens and the rest are converted
/// separately, so each product is below 2^128.
fn carried(missing: u128, from: RateSettings, to: RateSettings) -> u128 {
    let (old, new) = (part(from), part(to));
    let missing = (missing / old * new).saturating_add(wide::div_ceil(missing % old * new, old));
    missing.min(most(to))
}

/// Upper bound of the missing parts: more tokens than any burst has.
fn most(settings: RateSettings) -> u128 {
    u128::from(u32::MAX) * part(settings)
}

/// Number of parts in a full bucket.
fn full(settings: RateSettings) -> u128 {
    u128::from(settings.burst) * part(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    fn settings(permits: u32, per: u64, burst: u32) -> RateSettings {
        RateSettings { permits, per: Duration::from_micros(per), burst }
    }

    #[test]
    fn a_clock_that_runs_back_mints_nothing_and_the_wait_is_until_it_is_there_again() {
        let mut bucket = TokenBucket::new(settings(1, 1_000_000, 2), at(10_000_000));
        assert_eq!(bucket.try_take(2, at(10_000_000)), Ok(()));
        for now in [0, 9_999_999, 5, 10_000_000] {
            assert_eq!(bucket.level(at(now)), 0);
        }
        assert_eq!(bucket.try_take(1, at(9_000_000)), Err(Duration::from_secs(2)));
        assert_eq!(bucket.try_take(1, at(11_000_000)), Ok(()));
    }

    #[test]
    fn a_jump_of_hours_gives_one_burst() {
        let mut bucket = TokenBucket::new(settings(1_000_000, 1, 5), at(0));
        for hours in 1..4 {
            let now = at(hours * 3_600_000_000);
            assert_eq!(bucket.try_take(6, now), Err(Duration::MAX));
            assert_eq!(bucket.try_take(5, now), Ok(()));
            assert!(bucket.try_take(1, now).is_err());
        }
    }

    #[test]
    fn a_retune_keeps_the_tokens_to_the_part_of_a_token() {
        let mut bucket = TokenBucket::new(settings(1, 10, 4), at(0));
        assert_eq!(bucket.try_take(4, at(0)), Ok(()));
        // Half a token is available; at two a second the other half takes a quarter of a second.
        bucket.retune(settings(2, 1_000_000, 10), at(5));
        assert_eq!(bucket.wait_for(1, at(5)), Duration::from_micros(250_000));
        assert!(bucket.level(at(4_749_000)) == 9 && !bucket.is_fresh(at(4_750_004)));
        assert!(bucket.is_fresh(at(4_750_005)));
        bucket.retune(settings(2, 1_000_000, 3), at(5_000_000));
        assert_eq!(bucket.level(at(5_000_000)), 3);
        bucket.retune(settings(2, 1_000_000, 10), at(5_000_000));
        assert_eq!(bucket.level(at(5_000_000)), 3, "to and fro mints nothing");
    }

    #[test]
    fn the_farthest_settings_neither_overflow_nor_panic() {
        for (permits, per, burst) in
            [(0, 0, 0), (0, u64::MAX, u32::MAX), (u32::MAX, u64::MAX, u32::MAX), (u32::MAX, 0, 1), (1, 1, 0)]
        {
            let mut bucket = TokenBucket::new(settings(permits, per, burst), at(0));
            for (cost, now) in [(1, 0), (u32::MAX, u64::MAX), (0, 0), (u32::MAX, u64::MAX)] {
                let granted = bucket.try_take(cost, at(now)).is_ok();
                assert!(!granted || cost <= burst, "{cost} of {burst}");
                assert!(bucket.wait_for(u64::MAX, at(now)) > Duration::ZERO);
            }
            bucket.retune(settings(u32::MAX, u64::MAX, u32::MAX), at(7));
            bucket.retune(settings(1, 1, 1), at(7));
            assert!(bucket.level(at(7)) <= 1);
        }
        let mut dry = TokenBucket::new(settings(0, 1, 1), at(0));
        assert_eq!((dry.try_take(1, at(0)), dry.try_take(1, at(9))), (Ok(()), Err(Duration::MAX)));
    }

    proptest! {
        /// The wait in a refusal is exact: a microsecond earlier there are too few tokens, then there are enough.
        #[test]
        fn a_refusal_says_when_to_come_back(
            permits in 1u32..2_000, per in 1u64..5_000_000, burst in 1u32..50,
            steps in prop::collection::vec((0u64..100_000, 1u32..50), 1..60),
        ) {
            let mut bucket = TokenBucket::new(settings(permits, per, burst), at(0));
            let mut now = 0;
            for (gap, cost) in steps {
                now += gap;
                if let Err(wait) = bucket.try_take(cost, at(now)) {
                    if cost > burst {
                        prop_assert_eq!(wait, Duration::MAX);
                        continue;
                    }
                    let early = at(now + wait.as_micros() - 1);
                    prop_assert!(wait > Duration::ZERO);
                    prop_assert!(bucket.clone().try_take(cost, early).is_err());
                    prop_assert!(bucket.clone().try_take(cost, at(now).after(wait)).is_ok());
                }
            }
        }

        /// Whatever the clock does, the granted tokens are at most the burst and what the farthest advance has
        /// brought.
        #[test]
        fn no_more_than_burst_and_rate_in_any_window(
            permits in 1u32..50, per in 1u64..1_000, burst in 1u32..20,
            steps in prop::collection::vec((0u64..4_000, any::<bool>(), 1u32..5), 1..120),
        ) {
            let mut bucket = TokenBucket::new(settings(permits, per, burst), at(10_000));
            let (mut now, mut farthest) = (10_000u64, 10_000u64);
            let mut grants: Vec<(u64, u64)> = vec![];
            for (gap, back, cost) in steps {
                now = if back { now.saturating_sub(gap) } else { now + gap };
                farthest = farthest.max(now);
                if bucket.try_take(cost, at(now)).is_ok() {
                    grants.push((farthest, u64::from(cost)));
                    for start in 0..grants.len() {
                        let all: u64 = grants[start..].iter().map(|(_, cost)| cost).sum();
                        let span = farthest - grants[start].0;
                        prop_assert!((all - u64::from(burst).min(all)) * per <= span * u64::from(permits));
                    }
                }
            }
        }
    }
}
