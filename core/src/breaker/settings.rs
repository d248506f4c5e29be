//! Settings of a breaker, and the length of its breaks.

use crate::rng;
use crate::time::Duration;
use crate::window::WindowKind;

/// Failed half-open rounds are counted up to here, so that a break's length is computed in bounded time.
pub(super) const MAX_ROUNDS: u16 = 1_000;

/// The most probes at a time, so that their leases fit into a list reserved at creation.
const MAX_PLACES: u32 = 1_000;

/// Settings of a [`CircuitBreaker`](crate::CircuitBreaker) (semantics 5.1, 5.2). Any value is safe; the ranges are
/// the useful ones. With neither `failure_ratio` nor `consecutive` it never opens.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BreakerSettings {
    /// Opens when failures are at least this share of the window's results, in (0, 1].
    pub failure_ratio: Option<f64>,
    /// How long a result counts; at least 10 µs.
    pub window: Duration,
    /// `failure_ratio` is ignored below this many results in the window, at least 1.
    pub min_throughput: u32,
    /// How the window moves with time.
    pub window_kind: WindowKind,
    /// Opens after this many failures in a row, at least 1, however far apart they are.
    pub consecutive: Option<u32>,
    /// Length of the first break.
    pub break_duration: Duration,
    /// Factor of each next break while half-open rounds fail, at least 1. Exactly 1 is the rule of the seed document:
    /// every break is `break_duration`, without jitter.
    pub break_factor: f64,
    /// Longest break, before jitter.
    pub max_break_duration: Duration,
    /// Probes at a time, 1 to 1,000.
    pub half_open_max_calls: u32,
    /// Successful probes that close it, at least 1.
    pub successes_to_close: u32,
    /// A probe keeps its place at least this long without reporting.
    pub probe_lease: Duration,
}

impl BreakerSettings {
    /// Breaks of this length, doubling up to ten times it; one probe at a time, whose lease is as long; one success
    /// closes the breaker. The condition for opening must still be set: `failure_ratio` (window 10 s, at least 10
    /// results) or `consecutive`.
    pub const fn new(break_duration: Duration) -> Self {
        Self {
            failure_ratio: None,
            window: Duration::from_secs(10),
            min_throughput: 10,
            window_kind: WindowKind::Sliding,
            consecutive: None,
            break_duration,
            break_factor: 2.0,
            max_break_duration: Duration::from_micros(break_duration.as_micros().saturating_mul(10)),
            half_open_max_calls: 1,
            successes_to_close: 1,
            probe_lease: break_duration,
        }
    }

    /// Probes at a time.
    pub(super) fn places(&self) -> usize {
        self.half_open_max_calls.clamp(1, MAX_PLACES) as usize
    }

    /// The longest possible break, after any number of failed rounds.
    pub(super) fn longest_break(&self) -> Duration {
        if self.break_factor > 1.0 {
            let most = self.max_break_duration.as_micros();
            Duration::from_micros(most).plus(Duration::from_micros(most / 10))
        } else {
            self.break_duration
        }
    }

    /// Length of a break after `failed` failed half-open rounds: d + U(0, d/10), d = `break_duration ·
    /// break_factor^failed`, at most `max_break_duration`, in whole µs (semantics 5.2). `u64::MAX` as `bits` gives
    /// the longest.
    pub(super) fn break_span(&self, failed: u16, bits: u64) -> Duration {
        // Written so that a NaN factor does not grow either.
        let grows = self.break_factor > 1.0;
        if !grows {
            return self.break_duration;
        }
        let first = self.break_duration.as_micros() as f64;
        let most = self.max_break_duration.as_micros() as f64;
        let mut growth = 1.0;
        for _ in 0..failed {
            if first * growth >= most || first == 0.0 {
                break;
            }
            growth *= self.break_factor;
        }
        // Beyond 2^53 the longest break may have been rounded up.
        let span = ((first * growth).min(most) as u64).min(self.max_break_duration.as_micros());
        Duration::from_micros(span).plus(Duration::from_micros(rng::uniform(bits, 0, span / 10)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_break_is_longer_than_the_longest_even_where_f64_rounds() {
        let longest = 68_961_369_294_110_934; // the nearest f64 is greater
        let settings = BreakerSettings {
            break_factor: 12.75,
            max_break_duration: Duration::from_micros(longest),
            ..BreakerSettings::new(Duration::from_micros(1 << 53))
        };
        assert!(longest as f64 as u64 > longest);
        assert_eq!(settings.break_span(9, 0), Duration::from_micros(longest));
        assert_eq!(settings.break_span(9, u64::MAX), Duration::from_micros(longest + longest / 10));
    }
}
