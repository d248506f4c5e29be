//! The engine's clock. It is tokio's, so a paused clock drives every wait.

use std::time::{Duration as Span, SystemTime, UNIX_EPOCH};

use tidegate::{Duration, Time, WallTime};
use tokio::time::Instant;

/// The engine's time at the clock's origin, in microseconds: about twelve days, so that moments before the origin are
/// positive too. Such moments occur if the paused clock of one test runtime is ahead of another's.
const BASE: u64 = 1 << 40;

/// A clock that counts microseconds since an origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub fn new() -> Self {
        Self(Instant::now())
    }

    /// The current time, for the engine and for tokio.
    #[inline]
    pub fn now(self) -> (Time, Instant) {
        let at = Instant::now();
        (self.time(at), at)
    }

    #[inline]
    fn time(self, at: Instant) -> Time {
        Time::from_micros(match at.checked_duration_since(self.0) {
            Some(since) => BASE.saturating_add(micros(since)),
            None => BASE.saturating_sub(micros(self.0.saturating_duration_since(at))),
        })
    }
}

#[inline]
fn micros(span: Span) -> u64 {
    // Not `as_micros`, which divides 128 bits: every call runs this code.
    span.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(span.subsec_micros()))
}

/// The wall clock, against which HTTP dates are compared.
#[expect(clippy::disallowed_methods, reason = "the one reading of the wall clock")]
pub(crate) fn wall() -> WallTime {
    WallTime::from_unix_micros(micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
}

/// Converts a span to the engine's type, in whole microseconds.
#[inline]
pub(crate) fn span(span: Span) -> Duration {
    Duration::from_micros(micros(span))
}

/// Converts a span to the type of std.
#[inline]
pub(crate) const fn std(span: Duration) -> Span {
    Span::from_micros(span.as_micros())
}

/// The moment `span` after `at`. If the clock cannot represent it, a moment a century later.
#[inline]
pub(crate) fn after(at: Instant, span: Duration) -> Instant {
    at.checked_add(std(span)).unwrap_or_else(|| at + Span::from_secs(800_000 * 3600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_before_the_origin_have_a_place() {
        let now = Instant::now();
        let clock = Clock(now + Span::from_secs(5));
        assert_eq!(clock.time(now).as_micros(), BASE - 5_000_000);
        assert_eq!(clock.time(now + Span::from_secs(6)).as_micros(), BASE + 1_000_000);
    }

    #[test]
    fn spans_are_whole_microseconds_and_saturate() {
        assert_eq!(span(Span::new(2, 1_999)).as_micros(), 2_000_001);
        assert_eq!(span(Span::MAX), Duration::MAX);
        let now = Instant::now();
        assert!(after(now, Duration::MAX) > now + Span::from_secs(1_000_000_000));
    }
}
