//! Limits on outgoing load: on its rate ([`TokenBucket`], [`Gcra`]) and on its concurrency ([`Aimd`], [`Gradient2`]).
//!
//! Each is only a controller: it takes events and returns a number. The engine manages permits, waiters and wakeups.

mod aimd;
mod gcra;
mod gradient2;
mod loss;
mod rate;
mod weighted;

pub(crate) use aimd::Outside;
pub use aimd::{Aimd, AimdSettings, LimitSignal};
pub use gcra::Gcra;
pub use gradient2::{Gradient2, Gradient2Settings, Gradient2Variant};
pub use rate::{RateSettings, TokenBucket};
pub(crate) use weighted::{MOST, Refill, WeightedBucket, WeightedSettings};

/// The range of a concurrency limit, normalized: at least one call, and never a minimum above the maximum.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Range {
    min: f64,
    max: f64,
}

impl Range {
    fn new(min: u32, max: u32) -> Self {
        let max = max.max(1);
        Self { min: f64::from(min.clamp(1, max)), max: f64::from(max) }
    }

    /// `x` within the range. NaN becomes the minimum: `f64::clamp` would keep it, and a limit that is NaN once stays
    /// NaN (as in the reference implementation of Gradient2, after one RTT of 0).
    fn bound(self, x: f64) -> f64 {
        between(x, self.min, self.max)
    }
}

/// `x` within `[low, high]`; NaN is `low`.
fn between(x: f64, low: f64, high: f64) -> f64 {
    if x >= high {
        high
    } else if x > low {
        x
    } else {
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_in_order_and_bounds_everything() {
        assert_eq!(Range::new(0, 0), Range { min: 1.0, max: 1.0 });
        assert_eq!(Range::new(9, 4), Range { min: 4.0, max: 4.0 });
        let range = Range::new(2, 8);
        for (x, bounded) in [
            (0.0f64, 2.0f64),
            (f64::NAN, 2.0),
            (f64::NEG_INFINITY, 2.0),
            (1.9, 2.0),
            (7.5, 7.5),
            (8.1, 8.0),
            (f64::INFINITY, 8.0),
        ] {
            assert_eq!(range.bound(x).to_bits(), bounded.to_bits(), "{x}");
        }
    }
}
