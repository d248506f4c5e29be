//! The engine's clock: tokio's, so that a paused one drives every wait.

use std::time::{Duration as Span, SystemTime, UNIX_EPOCH};

use tidegate::{Duration, Time, WallTime};
use tokio::time::Instant;

/// Where the engine's time begins: twelve days, so that moments before the origin have a place too. They come where a
/// test's paused clock has run ahead, and another runtime's has not.
const BASE: u64 = 1 << 40;

/// Microseconds since an origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub fn new() -> Self {
        Self(Instant::now())
    }

    /// Now, as the engine takes it and as tokio does.
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
    // Not `as_micros`: that divides 128 bits, and stands on every call's way.
    span.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(span.subsec_micros()))
}

/// The wall clock, which HTTP dates are compared with.
#[expect(clippy::disallowed_methods, reason = "the one reading of the wall clock")]
pub(crate) fn wall() -> WallTime {
    WallTime::from_unix_micros(micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
}

/// A span as the engine has it: whole microseconds.
#[inline]
pub(crate) fn span(span: Span) -> Duration {
    Duration::from_micros(micros(span))
}

/// A span as Rust has it.
#[inline]
pub(crate) const fn std(span: Duration) -> Span {
    Span::from_micros(span.as_micros())
}

/// The moment that lies a span after another; one farther than the clock can say is a century away.
#[inline]
pub(crate) fn after(at: Instant, span: Duration) -> Instant {
    at.checked_add(std(span)).unwrap_or_else(|| at + Span::from_hours(800_000))
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
