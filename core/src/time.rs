//! Moments and spans: integer microseconds, on a clock that the host owns.
//!
//! Core never reads a clock. A [`Time`] is whatever the host's monotonic clock says, in microseconds since an origin
//! of the host's choosing; decisions depend on differences only. Microseconds in a `u64` stay exact in a JSON number
//! and in a JavaScript number for 285 years (`docs/adr/0002-microseconds.md`).

use core::fmt;

use crate::text;

/// A moment on the host's monotonic clock, in microseconds. One clock per engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(u64);

impl Time {
    /// The farthest moment; core uses it for "never".
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment `micros` microseconds after the clock's origin.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the clock's origin.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// This moment plus a span; saturates at [`Time::NEVER`].
    #[must_use]
    pub const fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The span from `earlier` to this moment; zero if `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

/// A span of time in microseconds. Never negative, saturating.
///
/// ```
/// use tidegate::Duration;
/// assert_eq!(Duration::from_secs(2).as_micros(), 2_000_000);
/// assert_eq!(Duration::from_millis(1500).to_string(), "1.5s");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Duration(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span; as a limit it means "none".
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// A span of `millis` milliseconds; saturates.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// A span of `secs` seconds; saturates.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole milliseconds, rounded up, so that a wait given in milliseconds is never too short.
    pub const fn as_millis_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// The sum; saturates at [`Duration::MAX`].
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference; zero where `other` is longer.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Duration {
    /// Written with the largest unit that keeps it exact: `2s`, `1.5s`, `250ms`, `40us`.
    pub(crate) fn text(self) -> String {
        let (mut unit, name) = match self.0 {
            u64::MAX => return "none".into(),
            0 => return "0s".into(),
            n if n >= 1_000_000 => (1_000_000, "s"),
            n if n >= 1_000 => (1_000, "ms"),
            _ => (1, "us"),
        };
        let mut written = text::whole(self.0 / unit);
        let mut rest = self.0 % unit;
        if rest > 0 {
            written.push('.');
        }
        while rest > 0 {
            unit /= 10;
            written.push(char::from(b'0' + (rest / unit) as u8));
            rest %= unit;
        }
        written + name
    }
}

/// Whole microseconds, rounded down; saturates at [`Duration::MAX`].
///
/// ```
/// use tidegate::Duration;
///
/// assert_eq!(Duration::from(std::time::Duration::from_millis(1_500)), Duration::from_micros(1_500_000));
/// ```
impl From<std::time::Duration> for Duration {
    fn from(span: std::time::Duration) -> Self {
        Self(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Duration {
    /// Written with the largest unit that keeps it exact: `2s`, `1.5s`, `250ms`, `40us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// Wall-clock time as the host gives it, for the HTTP dates in `Retry-After` and for limits that refill by windows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WallTime(u64);

impl WallTime {
    /// Microseconds since the Unix epoch.
    pub const fn from_unix_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_unix_micros(self) -> u64 {
        self.0
    }
}

/// The host's wall clock, as it was last reported; from there it goes on with core's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wall {
    micros: u64,
    at: Time,
}

impl Wall {
    pub fn new(wall: WallTime, now: Time) -> Self {
        Self { micros: wall.0.max(1), at: now }
    }

    /// Core's time skips a span in which the wall clock does not advance.
    pub fn skip(&mut self, span: Duration) {
        self.at = self.at.after(span);
    }

    /// Whether the host has reported it.
    pub fn is_known(self) -> bool {
        self.micros > 0
    }

    /// Microseconds since 1970 at a moment of core's time.
    pub fn at(self, now: Time) -> u64 {
        self.micros.saturating_add(now.since(self.at).0).saturating_sub(self.at.since(now).0)
    }
}

/// A reading up to this far below the highest one is a swing: core's time pauses until the clock has passed it again.
/// A reading further below means that the clock was set back.
const SWING: u64 = 30_000_000;

/// No clock advances this far between two readings (285 years). A reading beyond it is garbage, or has another
/// origin.
pub(crate) const TOO_FAR: u64 = 1 << 53;

/// The largest start moment, so that later moments do not overflow.
const LATEST_START: u64 = 1 << 62;

/// Makes the host's readings monotonic (rule R10). Core's time advances only by what the clock gains over its highest
/// reading, so a clock that swings to and fro adds no time.
///
/// Invariants, each with a property test below. (1) Time never goes back. (2) While no reading is more than `SWING`
/// below the highest, time has advanced by exactly (highest reading − first reading): the two differ by a constant,
/// because each step adds to both what the reading is above the highest. (3) Between two readings time advances by no
/// more than the clock does. (4) Time pauses for at most `SWING` of the clock's own running after the last set-back,
/// because a reading further below always moves `reading`.
///
/// A clock that jumps ahead cannot be distinguished from a pause of the process, so a jump counts. It counts once:
/// when a clock returns to the line on which it ran before it was set back (`mark`), core's time advances only by
/// what that line is ahead of it. So two clocks that are read in turn add no time, however far apart they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// The highest reading since the clock was last set back.
    reading: u64,
    /// Core's time at that reading.
    now: u64,
    /// A point on the line that the clock followed before it was last set back: its reading, and core's time then.
    mark: Option<(u64, u64)>,
    started: bool,
}

impl Clock {
    /// Core's time for a reading of the host's clock.
    #[inline]
    pub(crate) fn observe(&mut self, reading: Time) -> Time {
        let (before, reading) = (self.reading, reading.0);
        if reading >= before && reading - before <= SWING && self.started {
            self.reading = reading;
            self.now = self.now.saturating_add(reading - before);
        } else {
            self.jump(reading);
        }
        Time(self.now)
    }

    /// Handles the first reading, one below the highest, or one far above it.
    #[inline(never)]
    fn jump(&mut self, reading: u64) {
        let (before, now) = (self.reading, self.now);
        if !self.started {
            (self.started, self.now) = (true, now.saturating_add(reading).min(LATEST_START));
        } else if reading < before {
            if before - reading <= SWING {
                return;
            }
            if before - reading <= TOO_FAR {
                self.mark = Some((before, now));
            }
        } else if reading - before <= TOO_FAR {
            // Core's time by the line that the clock followed before it was set back, if this is that line again.
            let line = self.mark.map(|(mark, then)| {
                then.saturating_add(reading.saturating_sub(mark)).saturating_sub(mark.saturating_sub(reading))
            });
            // Never more than the clock has gained: between two readings garbage may have moved the clock elsewhere.
            let most = now.saturating_add(reading - before);
            if let Some(line) = line.filter(|line| line.saturating_add(SWING) >= now && *line <= most) {
                self.now = now.max(line);
                self.reading = reading.saturating_add(self.now - line);
                return;
            }
            self.now = most;
        }
        self.reading = reading;
    }

    /// The latest moment seen.
    pub(crate) fn now(self) -> Time {
        Time(self.now)
    }

    /// What [`Clock::observe`] would answer, without remembering it (for snapshots).
    pub(crate) fn peek(self, reading: Time) -> Time {
        let mut copy = self;
        copy.observe(reading)
    }

    /// Makes core's time jump ahead, so that earlier moments can be represented whatever the origin of the host's
    /// clock.
    pub(crate) fn skip(&mut self, span: Duration) {
        self.now = self.now.saturating_add(span.0);
        if let Some((_, then)) = &mut self.mark {
            *then = then.saturating_add(span.0);
        }
    }

    /// The host's reading at which core's time is `moment`, as far as the host's clock has been seen.
    pub(crate) fn reading_of(self, moment: Time) -> Time {
        let ahead = moment.0.saturating_sub(self.now);
        let behind = self.now.saturating_sub(moment.0);
        Time(self.reading.saturating_add(ahead).saturating_sub(behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000;

    fn at(clock: &mut Clock, micros: u64) -> u64 {
        clock.observe(Time(micros)).0
    }

    #[test]
    fn spans_of_the_standard_library_are_whole_microseconds() {
        assert_eq!(Duration::from(std::time::Duration::from_nanos(2_999)), Duration::from_micros(2));
        assert_eq!(Duration::from(std::time::Duration::MAX), Duration::MAX);
    }

    /// Core's time after these readings, in the order given.
    fn after(readings: impl IntoIterator<Item = u64>) -> u64 {
        let mut clock = Clock::default();
        readings.into_iter().map(|reading| at(&mut clock, reading)).last().unwrap()
    }

    #[test]
    fn readings_of_threads_that_overtake_each_other_do_not_shift_time() {
        assert_eq!(after([50_000, 40_001]), 50_000);
        assert_eq!(after([50_000, 40_001, 50_001]), 50_001);
    }

    #[test]
    fn a_clock_set_back_by_an_hour_goes_on_from_where_it_was() {
        let hour = 3_600 * S;
        assert_eq!(after([2 * hour, hour]), 2 * hour);
        assert_eq!(after([2 * hour, hour, hour + 7]), 2 * hour + 7);
        // After a set-back of less than 30 s time pauses until the clock is past it.
        assert_eq!(after([100 * S, 70 * S, 99 * S]), 100 * S);
        assert_eq!(after([100 * S, 70 * S, 101 * S]), 101 * S);
    }

    /// Museum 65: WSL2 steps its clock by ±11 s every few seconds.
    #[test]
    fn a_clock_that_swings_by_eleven_seconds_mints_no_time() {
        let swings = (0..1_000).map(|n| 1_000 * S + n + if n % 2 == 0 { 11 * S } else { 0 });
        assert_eq!(after(swings), 1_011 * S + 998, "1,000 readings within a millisecond");
        let both_ways = (0..1_000).map(|n| 1_000 * S + n - 11 * S * (n % 3));
        assert_eq!(after(both_ways), 1_000 * S + 999);
    }

    #[test]
    fn a_clock_that_returns_to_where_it_was_counts_once() {
        let hour = 3_600 * S;
        let swings = (0..1_000).map(|n| 10 * hour + n * S + if n % 2 == 0 { hour } else { 0 });
        // An hour for the first jump, which could have been a pause; then only true time, or the half of it that is
        // seen.
        assert!(after(swings) <= 11 * hour + 1_000 * S);
    }

    #[test]
    fn a_clock_that_garbage_has_moved_gains_no_more_than_it_runs() {
        // Far beyond the line on which the clock ran before it was set back. That line decides nothing there.
        let garbage = 1 << 60;
        assert_eq!(after([100 * S, 50 * S, garbage, garbage + 60 * S]), 160 * S);
    }

    #[test]
    fn a_clock_that_returns_to_its_line_counts_once_after_a_restore_too() {
        let mut clock = Clock::default();
        at(&mut clock, 7_200 * S);
        assert_eq!(at(&mut clock, 3_600 * S), 7_200 * S, "set back by an hour");
        clock.skip(Duration::from_secs(1_000));
        assert_eq!(at(&mut clock, 7_260 * S), 8_260 * S, "a minute since then, and what was skipped");
    }

    #[test]
    fn a_reading_that_no_clock_has_neither_mints_nor_ends_time() {
        for garbage in [u64::MAX, u64::MAX - 1, 1 << 63] {
            let mut clock = Clock::default();
            assert_eq!(at(&mut clock, 5 * S), 5 * S);
            for n in 1..100 {
                assert_eq!(at(&mut clock, garbage), 4 * S + n * S, "no time has passed");
                assert_eq!(at(&mut clock, 5 * S + n * S), 4 * S + n * S, "the clock is right again");
                assert_eq!(at(&mut clock, 6 * S + n * S), 5 * S + n * S, "and goes on");
            }
        }
    }

    #[test]
    fn extreme_origins_leave_room_for_the_future() {
        for origin in [0, 1, 1 << 62, 1 << 63, u64::MAX - S] {
            let mut clock = Clock::default();
            let first = at(&mut clock, origin);
            assert_eq!(first, origin.min(1 << 62));
            assert_eq!(at(&mut clock, origin + S), first + S);
            assert_eq!(clock.reading_of(Time(first + 2 * S)), Time(origin.saturating_add(2 * S)));
            assert_eq!(clock.reading_of(Time(first)), Time(origin), "a moment that is over");
            assert!(at(&mut clock, 0) < 1 << 63);
        }
    }

    /// Readings of an advancing true time through a clock that is off by up to `off` µs, by varying amounts.
    fn swinging(off: u64) -> impl Strategy<Value = Vec<(u64, u64)>> {
        let step = (prop_oneof![Just(0), 0..2_000u64, 0..5 * S, 0..600 * S], 0..=off);
        prop::collection::vec(step, 1..200).prop_map(|steps| {
            let mut truth = 0;
            let reading = |(gap, off)| {
                truth += gap;
                (truth, 3_600 * S + truth + off)
            };
            steps.into_iter().map(reading).collect()
        })
    }

    proptest! {
        /// Invariants 1 to 3, and their purpose: time advances by no more than the time that truly passed, plus the
        /// swing.
        #[test]
        fn a_swing_of_any_shape_mints_nothing(readings in swinging(SWING)) {
            let mut clock = Clock::default();
            let first = readings[0].1;
            let (mut last, mut highest) = (0, first);
            for (truth, reading) in readings {
                let now = at(&mut clock, reading);
                prop_assert!(now >= last);
                prop_assert!(last == 0 || now - last <= reading.saturating_sub(highest));
                highest = highest.max(reading);
                prop_assert_eq!(now - first, highest - first);
                prop_assert!(now - first <= truth + SWING);
                last = now;
            }
        }

        /// Museum 73: a clock that goes back by any amount, as often as it likes, along two lines.
        #[test]
        fn two_clocks_read_in_turn_mint_nothing(readings in swinging(1), apart in 0..10 * 3_600 * S, which: u64) {
            let mut clock = Clock::default();
            let mut first = None;
            for (n, (truth, reading)) in readings.into_iter().enumerate() {
                let now = at(&mut clock, reading + apart * (which >> (n % 64) & 1));
                prop_assert!(now - *first.get_or_insert(now) <= truth + apart + SWING);
            }
        }

        /// Any readings at all: time never goes back, never comes near its end, and runs again within 30 s.
        #[test]
        fn no_readings_stop_it(readings in prop::collection::vec(any::<u64>(), 1..100)) {
            let mut clock = Clock::default();
            let mut last = 0;
            for reading in readings {
                let now = at(&mut clock, reading);
                prop_assert!(now >= last && now < 1 << 63);
                let reading = reading.min(u64::MAX - 2 * SWING);
                let (then, mut other) = (clock.now().0, clock);
                at(&mut other, reading);
                prop_assert!(at(&mut other, reading + SWING + 1) > then || clock.reading > reading);
                last = now;
            }
        }
    }

    #[test]
    fn spans_are_written_with_a_unit() {
        for (micros, text) in [
            (0, "0s"),
            (40, "40us"),
            (1_500, "1.5ms"),
            (250_000, "250ms"),
            (60_000_000, "60s"),
            (1_000_001, "1.000001s"),
        ] {
            assert_eq!(Duration(micros).to_string(), text);
        }
        assert_eq!(Duration::MAX.to_string(), "none");
    }
}
