//! The P² algorithm (semantics 9.1; Jain and Chlamtac, CACM 28(10), 1985): a quantile without keeping the values.

use super::MOST_SAMPLES;
use crate::state::{Damage, Loader, Saver};

/// The first values are kept unchanged, until there is one for each marker.
const MARKERS: usize = 5;

/// Estimates one quantile of all values so far, from five markers: the least value, the greatest, the quantile, and
/// one half way to either side. 88 bytes for any number of values.
///
/// A value may be of any unit and sign. NaN and the infinities are ignored: they are not measurements, and a marker
/// that had become infinite would never recover. Old values never expire. It takes 500 values to recover from a first
/// five with outliers of a thousand times the rest, and 5,000 for ten million times; [`WindowedP2Quantile`] forgets
/// old values.
///
/// The algorithm starts with its middle marker at the median of five values, whatever `p` is. So a quantile far from
/// the middle is estimated too low (or too high) until some 3 ÷ (1 − p) values have moved the marker to its place.
/// After 512 values of one mode the estimate's rank is within 5 % of the count, typically 0.5 %; a quantile in the
/// gap between two modes can be off by a third (`core/tests/quantile_errors.rs`).
///
/// ```
/// use tidegate::P2Quantile;
/// let mut median = P2Quantile::new(0.5);
/// assert_eq!(median.estimate(), None);
/// for millis in 1..=1001 {
///     median.observe(f64::from(millis));
/// }
/// assert_eq!(median.estimate(), Some(501.0));
/// ```
///
/// [`WindowedP2Quantile`]: crate::WindowedP2Quantile
#[derive(Clone, PartialEq, Debug)]
pub struct P2Quantile {
    p: f64,
    /// Ascending; before the fifth value, the values so far, sorted.
    heights: [f64; MARKERS],
    /// Ranks of the markers, from 1. The last marker is the greatest value: its rank is the number of values.
    positions: [u64; MARKERS],
}

const _: () = assert!(size_of::<P2Quantile>() == 88);

impl P2Quantile {
    /// Creates an estimator of the quantile `p` (0.5 is the median). `p` is clamped into 0.001 to 0.999; NaN means
    /// 0.5.
    pub fn new(p: f64) -> Self {
        let p = if p.is_nan() { 0.5 } else { p.clamp(0.001, 0.999) };
        Self { p, heights: [0.0; MARKERS], positions: [1, 2, 3, 4, 0] }
    }

    /// Adds one value. NaN and the infinities are ignored, and so is any value after 2⁵³ − 1 values.
    pub fn observe(&mut self, x: f64) {
        let count = self.count();
        if !x.is_finite() || count >= MOST_SAMPLES {
            return;
        }
        let x = x + 0.0; // negative zero becomes zero: estimates are compared bit for bit
        self.positions[4] = count + 1;
        if count >= MARKERS as u64 {
            return self.update(x);
        }
        let count = count as usize;
        let place = self.heights[..count].partition_point(|height| *height <= x);
        self.heights.copy_within(place..count, place + 1);
        self.heights[place] = x;
    }

    /// The estimate; `None` before the first value. Below five values it is exact: the least value that is not
    /// exceeded by at least the part `p` of the values. From five on it is the middle marker.
    pub fn estimate(&self) -> Option<f64> {
        let count = self.count();
        if count >= MARKERS as u64 {
            return Some(self.heights[2]);
        }
        let rank = (self.p * count as f64).ceil() as usize;
        (count > 0).then(|| self.heights[rank.max(1) - 1])
    }

    /// Number of values added.
    pub fn count(&self) -> u64 {
        self.positions[4]
    }

    /// Heights and ranks (from 1) of the five markers; `None` below five values.
    pub fn markers(&self) -> Option<([f64; 5], [u64; 5])> {
        (self.count() >= MARKERS as u64).then_some((self.heights, self.positions))
    }

    /// Writes the number of values, the heights, and the ranks of the markers between the ends.
    pub(crate) fn save(&self, to: &mut Saver) {
        let count = self.count();
        to.whole(count);
        self.heights.iter().take(count as usize).for_each(|height| to.real(*height));
        if count >= MARKERS as u64 {
            self.positions[1..4].iter().for_each(|rank| to.whole(*rank));
        }
    }

    /// Restores an estimator of the same quantile with its saved values.
    pub(crate) fn load(&self, from: &mut Loader<'_>) -> Result<Self, Damage> {
        let (mut it, count) = (self.fresh(), from.whole()?);
        let there = count.min(MARKERS as u64) as usize;
        for height in &mut it.heights[..there] {
            *height = from.real()? + 0.0; // the estimator never holds a negative zero
        }
        it.positions[4] = count;
        if there == MARKERS {
            for rank in &mut it.positions[1..4] {
                *rank = from.whole()?;
            }
        }
        let ranked = there < MARKERS || it.positions.is_sorted_by(|a, b| a < b);
        if it.heights[..there].is_sorted() && ranked {
            Ok(it)
        } else {
            Err(Damage("markers must be in order"))
        }
    }

    /// The quantile to estimate.
    pub(super) fn p(&self) -> f64 {
        self.p
    }

    /// Creates an empty estimator of the same quantile.
    pub(super) fn fresh(&self) -> Self {
        Self::new(self.p)
    }

    /// Processes a value after the fifth, which is already counted.
    fn update(&mut self, x: f64) {
        let (q, n) = (&mut self.heights, &mut self.positions);
        q[0] = q[0].min(x);
        q[4] = q[4].max(x);
        for i in 1..4 {
            n[i] += u64::from(x < q[i]);
        }
        // Desired places of the middle markers, computed from the count. The paper adds increments, but sums of 0.475
        // would drift.
        let last = (n[4] - 1) as f64;
        let increments = [self.p / 2.0, self.p, 0.5 * (1.0 + self.p)];
        for (i, increment) in (1..4).zip(increments) {
            let d = (1.0 + last * increment) - n[i] as f64;
            if d >= 1.0 && n[i + 1] - n[i] > 1 {
                q[i] = moved(q, n, i, 1.0, i + 1);
                n[i] += 1;
            } else if d <= -1.0 && n[i] - n[i - 1] > 1 {
                q[i] = moved(q, n, i, -1.0, i - 1);
                n[i] -= 1;
            }
        }
    }
}

/// Height of marker `i` after moving one place to the right (`s` = 1) or to the left (−1), towards marker `next`. The
/// height lies on the parabola through the marker and its neighbours or, if that would break the order, on the line.
///
/// The order of the operations is part of the specification: another order changes the last digit.
fn moved(q: &[f64; MARKERS], n: &[u64; MARKERS], i: usize, s: f64, next: usize) -> f64 {
    let before = (n[i] - n[i - 1]) as f64;
    let after = (n[i + 1] - n[i]) as f64;
    let right = (before + s) * (q[i + 1] - q[i]) / after;
    let left = (after - s) * (q[i] - q[i - 1]) / before;
    let parabola = q[i] + s / (n[i + 1] - n[i - 1]) as f64 * (right + left);
    if q[i - 1] < parabola && parabola < q[i + 1] {
        return parabola;
    }
    let gap = if next > i { after } else { -before };
    let line = q[i] + s * (q[next] - q[i]) / gap;
    // Values near the ends of `f64` can overflow the difference. Then the marker keeps its height, and the order.
    if q[i - 1] <= line && line <= q[i + 1] { line } else { q[i] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(p: f64, values: &[f64]) -> P2Quantile {
        let mut it = P2Quantile::new(p);
        for x in values {
            it.observe(*x);
        }
        it
    }

    #[test]
    fn odd_probabilities_are_clamped() {
        for (p, used) in [
            (f64::NAN, 0.5),
            (0.0, 0.001),
            (-7.0, 0.001),
            (1.0, 0.999),
            (f64::INFINITY, 0.999),
            (f64::NEG_INFINITY, 0.001),
            (0.95, 0.95),
        ] {
            assert_eq!(P2Quantile::new(p), P2Quantile { p: used, ..P2Quantile::new(0.5) });
        }
    }

    #[test]
    fn below_five_values_it_is_exact() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(of(0.5, &values[..1]).estimate(), Some(4.0));
        assert_eq!(of(0.5, &values[..2]).estimate(), Some(1.0));
        assert_eq!(of(0.5, &values[..3]).estimate(), Some(3.0));
        assert_eq!(of(0.5, &values).estimate(), Some(2.0));
        assert_eq!(of(0.51, &values).estimate(), Some(3.0));
        assert_eq!(of(0.75, &values).estimate(), Some(3.0));
        assert_eq!(of(0.999, &values).estimate(), Some(4.0));
        assert_eq!(of(0.001, &values).estimate(), Some(1.0));
        assert_eq!(of(0.5, &values).markers(), None);
    }

    #[test]
    fn negative_zero_is_zero() {
        for count in 1..9 {
            let zeros = of(0.5, &vec![-0.0; count]);
            assert_eq!(zeros.estimate().map(f64::to_bits), Some(0));
        }
    }

    #[test]
    fn a_full_estimator_takes_no_more() {
        let mut it = of(0.5, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        it.positions = [1, MOST_SAMPLES / 4, MOST_SAMPLES / 2, MOST_SAMPLES / 4 * 3, MOST_SAMPLES - 1];
        it.observe(3.0);
        assert_eq!(it.count(), MOST_SAMPLES);
        let full = it.clone();
        it.observe(3.0);
        assert_eq!(it, full);
    }

    #[test]
    fn the_greatest_values_overflow_nothing() {
        let mut it = P2Quantile::new(0.5);
        for round in 0..2_000_u32 {
            it.observe(if round % 3 == 0 { f64::MAX } else { f64::MIN });
            let (heights, _) = it.markers().unwrap_or_default();
            assert!(heights.iter().all(|height| height.is_finite()) && heights.is_sorted(), "{heights:?}");
        }
    }

    /// Any number, with special values often.
    fn any_value() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => -1e3f64..1e6,
            1 => prop::sample::select(vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN]),
            1 => any::<u64>().prop_map(f64::from_bits),
        ]
    }

    proptest! {
        #[test]
        fn markers_are_ordered_and_between_the_ends(p in 0.0f64..1.0, values in prop::collection::vec(any_value(), 1..300)) {
            let mut it = P2Quantile::new(p);
            let mut taken = Vec::new();
            for x in values {
                it.observe(x);
                taken.extend(x.is_finite().then_some(x));
                prop_assert_eq!(it.count(), taken.len() as u64);
                let least = taken.iter().copied().reduce(f64::min);
                let greatest = taken.iter().copied().reduce(f64::max);
                prop_assert!(it.estimate() >= least && it.estimate() <= greatest);
                prop_assert_eq!(it.estimate().is_none(), taken.is_empty());
                if let Some((q, n)) = it.markers() {
                    prop_assert!(q.is_sorted(), "{q:?}");
                    prop_assert!(n.is_sorted_by(|a, b| a < b), "{n:?}");
                    prop_assert_eq!((Some(q[0]), Some(q[4]), n[0]), (least, greatest, 1));
                }
            }
        }

        /// Values that are not finite leave no trace: the estimator equals one that never saw them.
        #[test]
        fn what_is_no_number_leaves_no_trace(values in prop::collection::vec(any_value(), 0..100)) {
            let clean: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
            prop_assert_eq!(of(0.9, &values), of(0.9, &clean));
        }

        /// Outliers a thousand times too large move the estimate, and ordinary values bring it back.
        #[test]
        fn comes_back_from_outliers(outliers in prop::collection::vec(-1e5f64..1e5, 1..8), seed in any::<u64>()) {
            let mut it = of(0.5, &outliers);
            let mut bits = seed | 1;
            for _ in 0..5_000 {
                bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                it.observe(100.0 + (bits >> 57) as f64);
            }
            let estimate = it.estimate().unwrap();
            prop_assert!((100.0..228.0).contains(&estimate), "{estimate}");
        }
    }
}
