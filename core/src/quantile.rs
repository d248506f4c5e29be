//! Estimators of quantiles in bounded memory (semantics 9), such as the latency that 95 % of the calls do not exceed.
//!
//! [`P2Quantile`] estimates one quantile with five markers. [`WindowedP2Quantile`] does so too, and forgets old
//! values. [`DDSketch`] holds all quantiles within a relative accuracy, and can be merged with the sketches of other
//! processes. All of them accept any unit, and ignore values that are not finite (NaN and the infinities), so that
//! one bad reading spoils nothing.

mod ddsketch;
mod p2;
mod windowed;
mod words;

pub use ddsketch::{DDSketch, MergeError};
pub use p2::P2Quantile;
pub use windowed::WindowedP2Quantile;
pub use words::WordsError;

/// The most values of an estimator; further ones are ignored. Up to here every count is exact as an `f64` and in
/// JSON, and at one value a microsecond it lasts for 285 years.
const MOST_SAMPLES: u64 = (1 << 53) - 1;

/// Relative accuracy of the latencies that processes exchange.
const SHARED: f64 = 0.02;

/// The bucket of a latency in microseconds, as processes of a fleet exchange it; the lowest is 0, that of 1 µs.
pub(crate) fn shared_bucket(us: f64) -> i32 {
    ddsketch::key(DDSketch::new(SHARED).m, us.max(1.0))
}

/// The latency in microseconds that represents a bucket.
pub(crate) fn shared_value(bucket: i32) -> f64 {
    DDSketch::new(SHARED).middle(bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_processes_exchange_is_within_two_hundredths() {
        for us in [1.0, 2.0, 999.0, 1_000.0, 123_456.0, 3.6e9, u64::MAX as f64] {
            let again = shared_value(shared_bucket(us));
            assert!((again - us).abs() <= SHARED * us, "{us}: {again}");
        }
        assert_eq!((shared_bucket(0.0), shared_bucket(1.0)), (0, 0));
    }
}
