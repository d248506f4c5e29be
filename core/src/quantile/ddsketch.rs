//! `DDSketch` (semantics 9.3; Masson, Rim and Lee, VLDB 2019): all quantiles within a relative accuracy, and sketches
//! that can be merged without loss of accuracy.
//!
//! # The bins
//!
//! A value `(1 + s) · 2^e` belongs to bin `⌊m · (e + s(4 − s)/3)⌋`: the exponent and a quadratic approximate the
//! logarithm. Each octave has `m` bins, a whole number, so no bin crosses a power of two, and the significand is a
//! 52-bit integer. The whole mapping is therefore integer arithmetic without rounding, the same on every machine.
//!
//! Why the accuracy holds: the logarithm has slope 1/ln 2 everywhere; this function has a slope between 4/3 (at both
//! ends of an octave) and 3/2 per unit of ln x. A bin from L to U thus has `ln(U/L) ≤ 3/(4m)`. Its representative
//! value, `2LU/(L + U)`, has the same relative distance from both ends: `(U − L)/(U + L) = tanh(ln(U/L)/2) < 3/(8m)`.
//! So `m = ⌈3/(8α)⌉` bins an octave keep within α. The exact logarithm would need 8 % fewer bins, and would not be
//! the same everywhere. The cubic term of `tanh` leaves a margin (3·10⁻¹⁰ of a value at the finest) far above the few
//! 10⁻¹⁶ that rounding costs.

use core::fmt;
use std::collections::VecDeque;

use super::MOST_SAMPLES;

/// Smaller values count as zero: down to here an `f64` has all its digits.
pub(super) const LEAST: f64 = f64::MIN_POSITIVE;
/// Bins at most, so 16 KiB.
pub(super) const BINS: usize = 2_048;
/// Distance from the lowest bin to the highest.
pub(super) const SPAN: i32 = BINS as u16 as i32 - 1;
/// Bins per octave at least (α = 0.25) and at most (α = 0.001).
pub(super) const COARSEST: u16 = 2;
pub(super) const FINEST: u16 = 375;

/// A sketch of the added values: the number of values in each bin of a nearly logarithmic scale.
///
/// A quantile is within [`alpha`](Self::alpha) of the true one, relative to it, for every value from the least normal
/// `f64` (2·10⁻³⁰⁸) to the greatest. Smaller values count as zero. So do negative values, which for a latency mean
/// that a clock ran back. NaN and the infinities are ignored.
///
/// There are at most 2,048 bins. If values lie further apart, all values below the highest 2,048 bins share the
/// lowest of them, so high quantiles stay right. At α = 0.01 that happens only if the greatest value is more than
/// 10¹⁶ times another.
///
/// ```
/// use tidegate::DDSketch;
/// let (mut here, mut there) = (DDSketch::new(0.01), DDSketch::new(0.01));
/// (1..=500).for_each(|ms| here.add(f64::from(ms)));
/// (501..=1001).for_each(|ms| there.add(f64::from(ms)));
/// here.merge(&there).unwrap();
/// let median = here.quantile(0.5).unwrap();
/// assert!((median - 501.0).abs() <= 0.01 * 501.0);
/// assert_eq!((here.count(), here.max()), (1001, Some(1001.0)));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct DDSketch {
    /// Bins per octave. Determines γ and α.
    pub(super) m: u16,
    /// Values less than [`LEAST`].
    pub(super) zeros: u64,
    pub(super) count: u64,
    pub(super) sum: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    /// Number of the first of `bins`; 0 while there are no bins.
    pub(super) first: i32,
    /// Values in each bin, from the lowest nonempty bin to the highest.
    pub(super) bins: VecDeque<u64>,
}

/// Why two sketches cannot be merged. Both are left unchanged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum MergeError {
    /// Their bins differ, because they were made with different α.
    Accuracy {
        /// α of the receiving sketch.
        ours: f64,
        /// α of the other sketch.
        theirs: f64,
    },
    /// Together they would hold more than 2⁵³ − 1 values.
    Full,
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accuracy { ours, theirs } => {
                write!(f, "sketches of accuracy {ours} and {theirs} have different bins and cannot be merged")
            }
            Self::Full => f.write_str("the two sketches hold more than 2^53 - 1 values"),
        }
    }
}

impl core::error::Error for MergeError {}

impl DDSketch {
    /// Creates an empty sketch with the relative accuracy `alpha` or slightly better (see [`Self::alpha`]). `alpha`
    /// is clamped into 0.001 to 0.25; NaN means 0.01.
    pub fn new(alpha: f64) -> Self {
        let alpha = if alpha.is_nan() { 0.01 } else { alpha.clamp(0.001, 0.25) };
        Self::empty((0.375 / alpha).ceil() as u16)
    }

    pub(super) fn empty(m: u16) -> Self {
        Self { m, zeros: 0, count: 0, sum: 0.0, min: 0.0, max: 0.0, first: 0, bins: VecDeque::new() }
    }

    /// Adds one value. NaN and the infinities are ignored, and so is any value after 2⁵³ − 1 values.
    pub fn add(&mut self, x: f64) {
        if !x.is_finite() || self.count >= MOST_SAMPLES {
            return;
        }
        let x = if x > 0.0 { x } else { 0.0 };
        self.take_in(x, x, x);
        self.count += 1;
        if x < LEAST {
            self.zeros += 1;
        } else {
            *self.bin(key(self.m, x)) += 1;
        }
    }

    /// Number of values added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of the values, in the order in which they came; at most the greatest `f64`.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// The least value, exactly; `None` of an empty sketch.
    pub fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    /// The greatest value, exactly; `None` of an empty sketch.
    pub fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }

    /// The guaranteed relative accuracy: 3/(8m) for `m` bins an octave. At most the value given to [`Self::new`], and
    /// less than 3 % below it for α up to 0.01.
    pub fn alpha(&self) -> f64 {
        0.375 / f64::from(self.m)
    }

    /// γ = (1 + α)/(1 − α): no bin is wider than this ratio. Sketches of the same γ can be merged.
    pub fn gamma(&self) -> f64 {
        (1.0 + self.alpha()) / (1.0 - self.alpha())
    }

    /// Estimate of the value of rank ⌊q · (count − 1)⌋, counted from 0 in ascending order: `quantile(0.0)` is the
    /// least value and `quantile(1.0)` the greatest, both exactly. `q` is clamped into 0 to 1.
    ///
    /// `None` for an empty sketch, and for NaN.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if self.count == 0 || q.is_nan() {
            return None;
        }
        let last = self.count - 1;
        let rank = (q.clamp(0.0, 1.0) * last as f64) as u64;
        if rank == 0 {
            return Some(self.min);
        }
        if rank >= last {
            return Some(self.max);
        }
        let mut below = self.zeros;
        let mut found = 0.0;
        if rank >= below {
            let holds = |(_, count): &(i32, &u64)| {
                below += **count;
                rank < below
            };
            found = (self.first..).zip(&self.bins).find(holds).map_or(0.0, |(number, _)| self.middle(number));
        }
        Some(found.clamp(self.min, self.max))
    }

    /// Merges another sketch, as if each of its values had been added here. Only `sum` may differ in its last digits,
    /// because the order of additions differs.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.m != other.m {
            return Err(MergeError::Accuracy { ours: self.alpha(), theirs: other.alpha() });
        }
        if self.count > MOST_SAMPLES - other.count {
            return Err(MergeError::Full);
        }
        if other.count == 0 {
            return Ok(());
        }
        self.take_in(other.sum, other.min, other.max);
        self.count += other.count;
        self.zeros += other.zeros;
        for (number, count) in (other.first..).zip(&other.bins).filter(|(_, count)| **count > 0) {
            *self.bin(number) += count;
        }
        Ok(())
    }

    /// Removes all values; keeps the accuracy and the memory.
    pub fn clear(&mut self) {
        let mut bins = core::mem::take(&mut self.bins);
        bins.clear();
        *self = Self { bins, ..Self::empty(self.m) };
    }

    /// Updates the summary figures; must run before the count is raised.
    fn take_in(&mut self, sum: f64, min: f64, max: f64) {
        self.sum = (self.sum + sum).min(f64::MAX);
        self.min = if self.count == 0 { min } else { self.min.min(min) };
        self.max = if self.count == 0 { max } else { self.max.max(max) };
    }

    /// Number of the highest bin, if there is one.
    pub(super) fn top(&self) -> i32 {
        self.first + i32::from(self.bins.len() as u16) - 1
    }

    /// The bin of this number; creates a missing one. The caller must add to it, because the bins at both ends are
    /// never empty.
    fn bin(&mut self, key: i32) -> &mut u64 {
        if self.bins.is_empty() {
            self.first = key;
            self.bins.push_back(0);
        }
        let top = self.top();
        if key > top {
            let lowest = key - SPAN;
            if self.first < lowest {
                // Values below the highest 2,048 bins go into the lowest of them.
                let gone = (lowest - self.first) as usize;
                let collapsed: u64 = self.bins.drain(..gone.min(self.bins.len())).sum();
                if self.bins.is_empty() {
                    self.bins.push_back(0);
                }
                self.first = lowest;
                self.bins[0] += collapsed;
            }
            self.bins.resize((key - self.first) as usize + 1, 0);
        }
        let key = key.max(top - SPAN);
        while self.first > key {
            self.bins.push_front(0);
            self.first -= 1;
        }
        &mut self.bins[(key - self.first) as usize]
    }

    /// Representative value of a bin, in a fixed order of operations.
    pub(super) fn middle(&self, key: i32) -> f64 {
        let m = i32::from(self.m);
        let (octave, place) = (key.div_euclid(m), key.rem_euclid(m));
        let edge = |place: i32| 3.0 - (4.0 - 3.0 * f64::from(place) / f64::from(m)).sqrt();
        let (lower, upper) = (edge(place), edge(place + 1));
        // Bins hold normal numbers, so the exponent is normal too, and multiplying by a power of two does not round.
        let power = f64::from_bits(((octave + 1_023).clamp(1, 2_046) as u64) << 52);
        2.0 * (lower * upper) / (lower + upper) * power
    }
}

/// The bin of a normal positive number, in integer arithmetic throughout.
pub(super) fn key(m: u16, x: f64) -> i32 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i32 - 1_023;
    let s = bits & ((1 << 52) - 1);
    // s(4 − s) · m in units of 2⁻¹⁰⁴, at most 3 · 2¹⁰⁴ · 375: 114 bits.
    let scaled = u128::from(s) * u128::from((1 << 54) - s) * u128::from(m);
    let place = (scaled >> 104) as i32 / 3;
    exponent * i32::from(m) + place
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Significand at which a bin of the first octave begins, as the 52 bits of an `f64`.
    fn begin(m: u16, place: i32) -> u64 {
        let (mut low, mut high) = (0, 1 << 52);
        while low < high {
            let middle = u64::midpoint(low, high);
            if key(m, f64::from_bits(1_023 << 52 | middle)) >= place {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Each value of a bin lies between its first and its last, so checking the ends proves all values between.
    #[test]
    fn both_ends_of_every_bin_are_within_the_accuracy() {
        let mut bins = 0;
        for m in COARSEST..=FINEST {
            let sketch = DDSketch::empty(m);
            assert_eq!(begin(m, 0), 0);
            for place in 0..i32::from(m) {
                let (first, next) = (begin(m, place), begin(m, place + 1));
                assert!(first < next, "bin {place} of {m} is empty");
                for octave in [-1_022, -1, 0, 1, 52, 1_023] {
                    let at = |s: u64| f64::from_bits(((octave + 1_023) as u64) << 52 | s);
                    let number = octave * i32::from(m) + place;
                    let stands = sketch.middle(number);
                    for x in [at(first), at(next - 1)] {
                        assert_eq!(key(m, x), number, "{x} in {m}");
                        assert!((stands - x).abs() / x < sketch.alpha(), "{stands} for {x} in {m}");
                    }
                    assert_eq!(key(m, stands), number, "{stands} stands for a bin of {m} and is not in it");
                }
                bins += 1;
            }
        }
        assert_eq!(bins, (2..=375).sum::<i32>());
    }

    #[test]
    fn the_mapping_goes_with_the_octaves_and_ascends() {
        let mut values: Vec<f64> = (0..200_000).map(|n| 1.0 + f64::from(n) / 200_000.0).collect();
        values.extend([f64::from_bits(2.0_f64.to_bits() - 1), 2.0]);
        for m in [COARSEST, 19, 38, 74, FINEST] {
            assert!(values.is_sorted_by_key(|x| key(m, *x)));
            assert_eq!((key(m, 1.0), key(m, 2.0), key(m, 0.5)), (0, i32::from(m), -i32::from(m)));
            assert_eq!(key(m, LEAST), -1_022 * i32::from(m));
            assert_eq!(key(m, f64::MAX), 1_024 * i32::from(m) - 1);
        }
    }

    #[test]
    fn the_accuracy_asked_for_is_kept() {
        for (asked, m) in [
            (0.01, 38),
            (0.02, 19),
            (0.05, 8),
            (0.25, 2),
            (0.001, 375),
            (f64::NAN, 38),
            (0.0, 375),
            (-1.0, 375),
            (1.0, 2),
            (f64::INFINITY, 2),
        ] {
            assert_eq!(DDSketch::new(asked).m, m, "{asked}");
        }
        for n in 1_000..=250_000 {
            let asked = f64::from(n) / 1e6;
            let sketch = DDSketch::new(asked);
            assert!(sketch.alpha() <= asked, "{} for {asked}", sketch.alpha());
            assert!(asked > 0.01 || sketch.alpha() > asked * 0.97, "{} for {asked}", sketch.alpha());
        }
    }

    #[test]
    fn bins_collapse_from_below_and_never_number_more() {
        // One value in each of 3,000 bins, in either order.
        let middles: Vec<f64> = (0..3_000).map(|number| DDSketch::new(0.01).middle(number)).collect();
        let (mut up, mut down) = (DDSketch::new(0.01), DDSketch::new(0.01));
        for x in &middles {
            up.add(*x);
        }
        for x in middles.iter().rev() {
            down.add(*x);
        }
        for sketch in [&up, &down] {
            assert_eq!((sketch.bins.len(), sketch.first, sketch.bins[0]), (BINS, 952, 953));
            assert!(sketch.bins.iter().skip(1).all(|count| *count == 1));
            assert_eq!(sketch.quantile(0.2), Some(middles[952]), "what is lower has been collapsed");
            assert_eq!(sketch.quantile(0.0), Some(middles[0]));
        }
        // A jump beyond all existing bins, and one that keeps some.
        up.add(f64::MAX);
        assert_eq!((up.bins.len(), up.bins[0], up.bins[BINS - 1]), (BINS, 3_000, 1));
        down.add(DDSketch::new(0.01).middle(3_100));
        assert_eq!((down.bins.len(), down.first, down.bins[0]), (BINS, 1_053, 1_054));
        assert_eq!(down.count(), 3_001);
    }

    #[test]
    fn a_full_sketch_takes_no_more() {
        let mut sketch = DDSketch::new(0.05);
        sketch.add(1.0);
        sketch.bins[0] = MOST_SAMPLES - 1;
        sketch.count = MOST_SAMPLES - 1;
        let most = sketch.clone();
        sketch.add(2.0);
        assert_eq!(sketch.count(), MOST_SAMPLES);
        let full = sketch.clone();
        sketch.add(3.0);
        assert_eq!(sketch.merge(&most), Err(MergeError::Full));
        assert_eq!(sketch, full);
        assert_eq!(sketch.merge(&DDSketch::new(0.05)), Ok(()));
        assert_eq!(sketch.quantile(0.75), Some(sketch.middle(0)));
        assert_eq!(DDSketch::from_words(&sketch.to_words()), Ok(full));
    }

    #[test]
    fn a_cleared_sketch_is_a_new_one() {
        let mut sketch = DDSketch::new(0.02);
        for n in 1..100 {
            sketch.add(f64::from(n));
        }
        sketch.clear();
        assert_eq!(sketch, DDSketch::new(0.02));
    }
}
