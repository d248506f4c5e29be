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

    /// Whole milliseconds, rounded up, so that a wait told in milliseconds is never short.
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

impl fmt::Display for Duration {
    /// Written with the largest unit that keeps it exact: `2s`, `1.5s`, `250ms`, `40us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// Wall-clock time as the host gives it, for the HTTP dates in `Retry-After` and nothing else.
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

/// Inversions up to this long are two threads reading one clock; they are clamped. Longer ones are a clock set back.
const INVERSION: u64 = 10_000;

/// Makes the host's readings monotonic (rule R10): core's time never goes back, and a clock set back by hours
/// makes no wait longer than configured, because the jump is absorbed by an offset.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    last: u64,
    offset: u64,
    started: bool,
}

impl Clock {
    /// Core's time for a reading of the host's clock.
    #[inline]
    pub(crate) fn observe(&mut self, reading: Time) -> Time {
        let shifted = reading.0.saturating_add(self.offset);
        if shifted >= self.last || !self.started {
            self.started = true;
            self.last = shifted;
        } else if self.last - shifted > INVERSION {
            // Readings as high as `last - offset` have been seen, so this cannot overflow by more than saturation.
            self.offset = self.offset.saturating_add(self.last - shifted);
        }
        Time(self.last)
    }

    /// The latest moment seen.
    pub(crate) fn now(self) -> Time {
        Time(self.last)
    }

    /// What [`Clock::observe`] would answer, without remembering it (for snapshots).
    pub(crate) fn peek(self, reading: Time) -> Time {
        let mut copy = self;
        copy.observe(reading)
    }

    /// Lets core's time jump ahead: every moment before it has a place then, whatever the origin of the host's clock.
    pub(crate) fn skip(&mut self, span: Duration) {
        self.last = self.last.saturating_add(span.0);
        self.offset = self.offset.saturating_add(span.0);
    }

    /// The host's reading at which core's time is `moment`, as far as the host's clock has been seen.
    pub(crate) fn reading_of(self, moment: Time) -> Time {
        Time(moment.0.saturating_sub(self.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(clock: &mut Clock, micros: u64) -> u64 {
        clock.observe(Time(micros)).0
    }

    #[test]
    fn small_inversions_are_clamped_and_do_not_shift_time() {
        let mut clock = Clock::default();
        assert_eq!(at(&mut clock, 50_000), 50_000);
        assert_eq!(at(&mut clock, 40_001), 50_000);
        assert_eq!(at(&mut clock, 50_001), 50_001);
    }

    #[test]
    fn a_clock_set_back_by_an_hour_goes_on_from_where_it_was() {
        let mut clock = Clock::default();
        let hour = 3_600_000_000;
        assert_eq!(at(&mut clock, 2 * hour), 2 * hour);
        assert_eq!(at(&mut clock, hour), 2 * hour);
        assert_eq!(at(&mut clock, hour + 7), 2 * hour + 7);
    }

    #[test]
    fn extreme_origins_do_not_overflow() {
        for origin in [0, 1, 1 << 63, u64::MAX - 1_000_000] {
            let mut clock = Clock::default();
            let first = at(&mut clock, origin);
            assert_eq!(first, origin);
            assert!(at(&mut clock, u64::MAX) >= first);
            assert_eq!(at(&mut clock, 0), u64::MAX);
            assert_eq!(at(&mut clock, u64::MAX), u64::MAX);
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
