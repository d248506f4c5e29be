//! The bucket of one limit of a set (semantics 3.4): a token bucket in 64 bits, whose level may fall below 0.

use crate::state::{Damage, Loader, Saver};
use crate::time::{Duration, TOO_FAR, Time, Wall};
use crate::wide;

/// The largest number of a set's settings and weights.
pub(crate) const MOST: u64 = (1 << 53) - 1;

/// The settings of a bucket. All numbers are at most [`MOST`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WeightedSettings {
    /// Tokens that flow in per `per`, continuously; at least 1.
    pub permits: u64,
    /// The period of `permits`.
    pub per: Duration,
    /// Tokens in a full bucket; at least 1.
    pub burst: u64,
    /// The most that the level falls below 0; what is charged beyond is forgiven.
    pub max_debt: u64,
    /// When `permits` come back.
    pub refill: Refill,
}

/// When the tokens of a limit come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refill {
    /// A part with each microsecond.
    Continuous,
    /// All `permits` at once whenever a window of `per` begins on the host's wall clock. Windows are counted from
    /// this span after 1970-01-01T00:00:00Z, and it is below `per`.
    Window(Duration),
}

impl Refill {
    /// When the window of a moment of the wall clock began, in microseconds since 1970.
    fn start(anchor: Duration, per: Duration, wall: u64) -> u64 {
        let (anchor, per) = (anchor.as_micros(), per.as_micros().max(1));
        wall.checked_sub(anchor).map_or(0, |since| anchor + since / per * per)
    }
}

/// A bucket that starts full, in integers: a token has as many parts as `per` has microseconds. It refills continuously,
/// `permits` parts with each microsecond; or by windows, with `permits` whole tokens whenever one begins. A clock that
/// runs back adds nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WeightedBucket {
    settings: WeightedSettings,
    /// Missing parts to a full bucket; more than a full bucket while it is in debt. Below 2^100: a burst and a debt of
    /// 2^53 tokens each, with 2^45 parts.
    missing: u128,
    /// The bucket is filled up to here.
    filled: Time,
    /// When the last window that has been counted began, in microseconds since 1970; `None` until the first look.
    begun: Option<u64>,
    /// The host's wall clock, by which windows begin.
    pub wall: Wall,
}

impl WeightedBucket {
    /// Creates a full bucket.
    pub fn new(settings: WeightedSettings, now: Time) -> Self {
        Self { settings, missing: 0, filled: now, begun: None, wall: Wall::default() }
    }

    pub fn settings(&self) -> WeightedSettings {
        self.settings
    }

    /// Time until `tokens` tokens will have flowed in beyond those already used, rounded up. No tokens need no wait.
    pub fn wait_for(&mut self, tokens: u128, now: Time) -> Duration {
        self.refill(now);
        let needed = tokens.saturating_mul(part(self.settings)).saturating_add(self.missing);
        let over = needed.saturating_sub(full(self.settings));
        if tokens == 0 || over == 0 {
            return Duration::ZERO;
        }
        if let Refill::Window(_) = self.settings.refill {
            return self.wait_for_windows(over, now);
        }
        let micros = wide::div_ceil(over, self.settings.permits.max(1).into());
        self.filled.since(now).plus(Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)))
    }

    /// Takes tokens, which must be there ([`WeightedBucket::wait_for`] is zero).
    pub fn take(&mut self, tokens: u64, now: Time) {
        self.refill(now);
        self.missing += u128::from(tokens) * part(self.settings);
    }

    /// Charges tokens that have been used already. The level may fall below 0, down to the largest debt. Returns the
    /// tokens that are forgiven, rounded up.
    pub fn charge(&mut self, tokens: u64, now: Time) -> u64 {
        self.refill(now);
        let part = part(self.settings);
        let all = self.missing + u128::from(tokens) * part;
        self.missing = all.min(most(self.settings).max(self.missing));
        // At most `tokens`.
        wide::div_ceil(all - self.missing, part) as u64
    }

    /// Gives tokens back that were taken and not used. The bucket never holds more than its burst.
    pub fn give_back(&mut self, tokens: u64, now: Time) {
        self.refill(now);
        self.missing = self.missing.saturating_sub(u128::from(tokens) * part(self.settings));
    }

    /// Whole tokens in the bucket, rounded down; negative while it is in debt.
    pub fn level(&self, now: Time) -> i64 {
        let (full, missing, part) = (full(self.settings), self.missing_at(now), part(self.settings));
        // At most 2^54 tokens either way.
        if missing <= full {
            wide::div(full - missing, part) as i64
        } else {
            -(wide::div_ceil(missing - full, part) as i64)
        }
    }

    /// Whether the level is below 0.
    pub fn is_in_debt(&self, now: Time) -> bool {
        self.missing_at(now) > full(self.settings)
    }

    /// Time until enough windows have begun for these missing parts; at least a microsecond.
    fn wait_for_windows(&self, over: u128, now: Time) -> Duration {
        let per = self.settings.per.as_micros().max(1);
        let windows =
            wide::div_ceil(over, u128::from(self.settings.permits.max(1)).saturating_mul(per.into()));
        let windows = u64::try_from(windows).unwrap_or(u64::MAX);
        let wall = self.wall.at(now);
        let until = self.begun.unwrap_or(wall).saturating_add(windows.saturating_mul(per));
        Duration::from_micros(until.saturating_sub(wall).max(1))
    }

    /// The missing part of a full bucket that refills by windows, once `queued` tokens more are taken: in 2^-20 of it,
    /// rounded up and at most all. 0 for a bucket that refills continuously.
    pub fn missing_share(&mut self, queued: u128, now: Time) -> u64 {
        let Refill::Window(_) = self.settings.refill else { return 0 };
        self.refill(now);
        let full = full(self.settings);
        let missing = queued.saturating_mul(part(self.settings)).saturating_add(self.missing).min(full);
        wide::div_ceil(missing << SHARE_BITS, full) as u64
    }

    /// Takes tokens until the bucket will not be full before the moment; at most a full bucket. One that refills by
    /// windows loses `share` of a full bucket, as [`WeightedBucket::missing_share`] has it.
    pub fn owe(&mut self, until: Time, share: u64, now: Time) {
        self.refill(now);
        if let Refill::Window(_) = self.settings.refill {
            let share = u128::from(share.min(1 << SHARE_BITS));
            let missing = (full(self.settings) * share).div_ceil(1 << SHARE_BITS);
            self.missing = self.missing.max(missing);
            return;
        }
        let wait = u128::from(until.since(self.filled).as_micros());
        let missing = wait.saturating_mul(self.settings.permits.into());
        self.missing = self.missing.max(missing.min(full(self.settings)));
    }

    /// Applies new settings. The missing tokens stay missing, a larger burst fills at the new rate, and a debt above the
    /// new largest one is cut to it.
    pub fn retune(&mut self, to: WeightedSettings, now: Time) {
        self.refill(now);
        let (old, new) = (part(self.settings), part(to));
        let there = full(self.settings).saturating_sub(self.missing);
        let missing = carried(self.missing, old, new);
        let there = there / old * new + there % old * new / old;
        let grown = if to.burst > self.settings.burst { full(to).saturating_sub(there) } else { 0 };
        self.missing = missing.max(grown).min(most(to));
        // Windows of other lengths or another anchor begin after this one.
        self.begun = match to.refill {
            Refill::Window(anchor) => {
                let kept = (to.refill, to.per) == (self.settings.refill, self.settings.per);
                let fresh = self.wall.is_known().then(|| Refill::start(anchor, to.per, self.wall.at(now)));
                if kept { self.begun } else { fresh }
            }
            Refill::Continuous => None,
        };
        self.settings = to;
    }

    /// Writes the missing tokens: the parts of a token, whole tokens, and parts of one. With windows a 0 and the moment
    /// of the wall clock come first.
    pub fn save(&self, to: &mut Saver) {
        let mut it = self.clone();
        it.refill(to.now());
        let (missing, part) = (it.missing, part(self.settings));
        if let Some(begun) = it.begun {
            to.whole(0);
            let wall = if it.wall.is_known() { it.wall.at(to.now()) } else { begun };
            to.whole(wall.max(begun));
        }
        to.whole(self.settings.per.as_micros().max(1));
        to.whole((missing / part) as u64);
        to.whole((missing % part) as u64);
    }

    /// Restores the missing tokens that were saved under any settings, debts included.
    pub fn load(&mut self, from: &mut Loader<'_>) -> Result<(), Damage> {
        let (wall, [old, whole, rest]) = Self::saved(from)?;
        if old == 0 || rest >= old {
            return Err(Damage("must be less than a whole token"));
        }
        let new = part(self.settings);
        let missing = (whole * new).saturating_add((rest * new).div_ceil(old));
        (self.missing, self.filled) = (missing.min(most(self.settings)), from.then());
        if let Refill::Window(anchor) = self.settings.refill {
            self.begun = wall.map(|wall| Refill::start(anchor, self.settings.per, wall));
            // What was saved without windows has flowed in until now; windows begin from now on.
            let elapsed = if wall.is_none() { from.now().since(from.then()) } else { Duration::ZERO };
            let came = u128::from(elapsed.as_micros()) * u128::from(self.settings.permits);
            self.missing = self.missing.saturating_sub(came);
        }
        Ok(())
    }

    /// Reads what [`WeightedBucket::save`] has written: the moment of the wall clock, and the three numbers.
    pub fn saved(from: &mut Loader<'_>) -> Result<(Option<u64>, [u128; 3]), Damage> {
        let first = from.whole()?;
        let (wall, old) = if first == 0 { (Some(from.whole()?), from.whole()?) } else { (None, first) };
        Ok((wall, [old.into(), from.whole()?.into(), from.whole()?.into()]))
    }

    fn missing_at(&self, now: Time) -> u128 {
        let mut it = self.clone();
        it.refill(now);
        it.missing
    }

    /// Fills the bucket up to `now`.
    fn refill(&mut self, now: Time) {
        if let Refill::Window(anchor) = self.settings.refill {
            return self.begin_windows(anchor, now);
        }
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

impl WeightedBucket {
    /// Adds the tokens of the windows that have begun. A wall clock that was set back by more than a window counts its
    /// windows from there; by less, the same window does not begin twice. Nothing begins before the host has reported its
    /// clock.
    fn begin_windows(&mut self, anchor: Duration, now: Time) {
        if !self.wall.is_known() {
            return;
        }
        let per = self.settings.per.as_micros().max(1);
        let start = Refill::start(anchor, self.settings.per, self.wall.at(now));
        let begun = *self.begun.get_or_insert(start);
        if start > begun {
            let came = u128::from((start - begun).div_ceil(per)) * u128::from(self.settings.permits);
            self.missing = self.missing.saturating_sub(came.saturating_mul(part(self.settings)));
        }
        if start > begun || begun - start > per {
            self.begun = Some(start);
        }
        self.filled = now.max(self.filled);
    }
}

/// Precision of the share of a full bucket that evicted routes owe.
const SHARE_BITS: u32 = 20;

/// Parts of a token.
fn part(settings: WeightedSettings) -> u128 {
    u128::from(settings.per.as_micros().max(1))
}

/// Parts of a full bucket.
fn full(settings: WeightedSettings) -> u128 {
    u128::from(settings.burst) * part(settings)
}

/// The most parts that can be missing.
fn most(settings: WeightedSettings) -> u128 {
    (u128::from(settings.burst) + u128::from(settings.max_debt)) * part(settings)
}

/// Parts of old tokens as parts of new tokens, rounded up.
fn carried(missing: u128, old: u128, new: u128) -> u128 {
    (missing / old * new).saturating_add(wide::div_ceil(missing % old * new, old))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::{RateSettings, TokenBucket};
    use proptest::prelude::*;

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    fn settings(permits: u64, per: u64, burst: u64, max_debt: u64) -> WeightedSettings {
        let refill = Refill::Continuous;
        WeightedSettings { permits, per: Duration::from_micros(per), burst, max_debt, refill }
    }

    /// Semantics 3.6.5 and 3.6.6.
    #[test]
    fn a_debt_is_bounded_and_paid_by_time_and_what_exceeds_it_is_forgiven() {
        let mut bucket = WeightedBucket::new(settings(10, 1_000_000, 100, 50), at(0));
        bucket.take(100, at(0));
        assert_eq!((bucket.charge(30, at(0)), bucket.level(at(0))), (0, -30));
        assert_eq!(bucket.wait_for(1, at(0)), Duration::from_micros(3_100_000));
        assert_eq!((bucket.charge(30, at(0)), bucket.level(at(0))), (10, -50));
        assert!(bucket.is_in_debt(at(4_999_999)) && !bucket.is_in_debt(at(5_000_000)));
        bucket.give_back(500, at(0));
        assert_eq!(bucket.level(at(0)), 100, "never more than the burst");
    }

    /// Semantics 3.6.8.
    #[test]
    fn a_retune_keeps_a_debt_up_to_the_new_largest_one() {
        let mut bucket = WeightedBucket::new(settings(1, 10, 4, 4), at(0));
        bucket.take(4, at(0));
        assert_eq!(bucket.charge(3, at(0)), 0);
        bucket.retune(settings(2, 1_000_000, 4, 4), at(0));
        assert_eq!(bucket.level(at(0)), -3);
        bucket.retune(settings(2, 1_000_000, 8, 4), at(0));
        assert_eq!(
            bucket.level(at(0)),
            0,
            "seven are missing of four: none is there, a larger burst has to fill"
        );
        bucket.retune(settings(2, 1_000_000, 4, 2), at(0));
        assert_eq!(bucket.level(at(0)), -2, "eight are missing; the new largest debt is two");
    }

    #[test]
    fn the_farthest_settings_neither_overflow_nor_panic() {
        let year = 365 * 24 * 3_600 * 1_000_000;
        for (permits, per) in [(1, 1), (MOST, 1), (1, year), (MOST, year)] {
            let mut bucket = WeightedBucket::new(settings(permits, per, MOST, MOST), at(0));
            for now in [0, u64::MAX, 7] {
                let _ = (bucket.wait_for(u128::MAX, at(now)), bucket.charge(u64::MAX, at(now)));
                bucket.take(MOST, at(now));
                let _ = (bucket.level(at(now)), bucket.is_in_debt(at(now)));
                bucket.retune(settings(1, year, MOST, MOST), at(now));
                bucket.retune(settings(MOST, 1, MOST, 0), at(now));
            }
            assert!(bucket.level(at(7)) <= MOST.cast_signed());
        }
    }

    proptest! {
        /// Without charges and returns it is the token bucket.
        #[test]
        fn it_is_a_token_bucket(
            permits in 1u32..2_000, per in 1u64..5_000_000, burst in 1u32..50,
            steps in prop::collection::vec((0u64..100_000, 1u32..50), 1..60),
        ) {
            let rate = RateSettings { permits, per: Duration::from_micros(per), burst };
            let mut plain = TokenBucket::new(rate, at(0));
            let mut bucket = WeightedBucket::new(settings(permits.into(), per, burst.into(), 0), at(0));
            let mut now = 0;
            for (gap, cost) in steps {
                now += gap;
                prop_assert_eq!(plain.wait_for(cost.into(), at(now)), bucket.wait_for(cost.into(), at(now)));
                if plain.try_take(cost, at(now)).is_ok() {
                    bucket.take(cost.into(), at(now));
                }
                prop_assert_eq!(i64::from(plain.level(at(now))), bucket.level(at(now)));
            }
        }
    }
}
