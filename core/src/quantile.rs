//! Estimators of quantiles in bounded memory (semantics 9): what latency do 95 % of the calls not exceed?
//!
//! [`P2Quantile`] follows one quantile with five markers, [`WindowedP2Quantile`] does and forgets, and [`DDSketch`] holds
//! all quantiles within a relative accuracy and can be merged with the sketches of other processes. All of them take
//! any unit, and all ignore what is no number (NaN and the infinities), so that one bad reading spoils nothing.

mod ddsketch;
mod p2;
mod windowed;
mod words;

pub use ddsketch::{DDSketch, MergeError};
pub use p2::P2Quantile;
pub use windowed::WindowedP2Quantile;
pub use words::WordsError;

/// An estimator that has taken in this many values is full and takes no more. Up to here every count is exact as an
/// `f64` and in JSON, and at one value a microsecond it lasts for 285 years.
const FULL: u64 = (1 << 53) - 1;
