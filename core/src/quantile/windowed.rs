//! Windowed P² (semantics 9.2): two overlapping estimators, so that old values are forgotten and there is always an
//! estimate.

use super::p2::P2Quantile;
use crate::state::{Damage, Loader, Saver};

/// Half a window has at least as many values as P² needs for its markers.
const LEAST_HALF: u32 = 5;

/// Estimates one quantile of recent values: of the last ½ to 1 windows, whatever came before. No heap.
///
/// Each value goes to the older estimator, and also to the younger once the older has half a window. When the older
/// has a whole window, the next value makes the younger one the estimator in use, and an empty one begins. NaN and
/// the infinities are ignored, as by [`P2Quantile`].
///
/// ```
/// use tidegate::WindowedP2Quantile;
/// let mut p95 = WindowedP2Quantile::new(0.95, 512);
/// for _ in 0..10_000 {
///     p95.observe(0.020);
/// }
/// for _ in 0..512 {
///     p95.observe(0.080); // the upstream has become slower; after a window nothing else is remembered
/// }
/// assert_eq!(p95.estimate(), Some(0.080));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct WindowedP2Quantile {
    older: P2Quantile,
    younger: P2Quantile,
    half: u32,
}

impl WindowedP2Quantile {
    /// Creates an estimator of the quantile `p` over `window` values. `p` is clamped as by [`P2Quantile::new`]. An
    /// odd window is shortened by one value, and one below 10 becomes 10.
    pub fn new(p: f64, window: u32) -> Self {
        Self { older: P2Quantile::new(p), younger: P2Quantile::new(p), half: (window / 2).max(LEAST_HALF) }
    }

    /// Adds one value. NaN and the infinities are ignored.
    pub fn observe(&mut self, x: f64) {
        if !x.is_finite() {
            return;
        }
        if self.older.count() >= 2 * u64::from(self.half) {
            let fresh = self.younger.fresh();
            self.older = core::mem::replace(&mut self.younger, fresh);
        }
        if self.older.count() >= u64::from(self.half) {
            self.younger.observe(x);
        }
        self.older.observe(x);
    }

    /// The estimate; `None` before the first value of an epoch, exact below five.
    pub fn estimate(&self) -> Option<f64> {
        self.older.estimate()
    }

    /// Number of values behind the estimate: after the first half window, between half a window and a window.
    pub fn count(&self) -> u32 {
        // Never more than twice `half`, which was halved from a `u32`; the smallest half gives 10.
        self.older.count() as u32
    }

    /// Writes both estimators and their quantile; nothing without values.
    pub(crate) fn save(&self, to: &mut Saver) {
        if self.count() > 0 {
            to.real(self.older.p());
            to.list(|to| self.older.save(to));
            to.list(|to| self.younger.save(to));
        }
    }

    /// Restores an estimator of the same quantile and window; creates a fresh one if the quantile differs.
    pub(crate) fn load(&self, from: &mut Loader<'_>) -> Result<Self, Damage> {
        let mut it = self.clone();
        it.reset();
        if !from.has_more() {
            return Ok(it);
        }
        if from.real()?.to_bits() != it.older.p().to_bits() {
            return Ok(from.dropped(it));
        }
        it.older = from.list(|from| it.older.load(from))?;
        it.younger = from.list(|from| it.younger.load(from))?;
        let (count, half) = (it.older.count(), u64::from(it.half));
        if count > 2 * half || it.younger.count() != count.saturating_sub(half) {
            return Err(Damage("must hold as many values as the window"));
        }
        Ok(it)
    }

    /// Begins a fresh epoch: forgets all values.
    pub fn reset(&mut self) {
        self.older = self.older.fresh();
        self.younger = self.older.fresh();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_and_odd_windows_are_made_even_and_long_enough() {
        for (window, used) in [(0, 10), (9, 10), (11, 10), (12, 12), (513, 512)] {
            let mut it = WindowedP2Quantile::new(0.5, window);
            let most = (0..5_000).map(|n| {
                it.observe(f64::from(n));
                it.count()
            });
            assert_eq!(most.max(), Some(used), "{window}");
        }
        assert_eq!(WindowedP2Quantile::new(0.5, u32::MAX).half, u32::MAX / 2);
    }

    #[test]
    fn a_reset_estimator_is_a_new_one() {
        let mut it = WindowedP2Quantile::new(0.9, 20);
        for n in 0..33 {
            it.observe(f64::from(n));
        }
        it.reset();
        assert_eq!(it, WindowedP2Quantile::new(0.9, 20));
        assert_eq!((it.estimate(), it.count()), (None, 0));
    }

    proptest! {
        /// Between half a window and a window of values, only the latest ones.
        #[test]
        fn answers_for_the_latest_values(
            p in 0.0f64..1.0,
            window in 0u32..80,
            values in prop::collection::vec(0.0f64..1e4, 1..400),
        ) {
            let mut it = WindowedP2Quantile::new(p, window);
            let whole = (window / 2 * 2).max(10) as usize;
            for end in 1..=values.len() {
                it.observe(values[end - 1]);
                let before = it.clone();
                it.observe(f64::NAN);
                it.observe(f64::INFINITY);
                prop_assert_eq!(&it, &before, "what is no number leaves no trace");
                let count = it.count() as usize;
                prop_assert!(count <= whole && count >= end.min(whole / 2), "{count} of {end}");
                let mut plain = P2Quantile::new(p);
                for x in &values[end - count..end] {
                    plain.observe(*x);
                }
                prop_assert_eq!(it.estimate(), plain.estimate());
            }
        }

        /// After a window of ordinary values, earlier values have no effect.
        #[test]
        fn forgets_garbage_within_a_window(garbage in prop::collection::vec(any::<u64>(), 0..200)) {
            let mut it = WindowedP2Quantile::new(0.95, 64);
            for bits in &garbage {
                it.observe(f64::from_bits(*bits));
            }
            for n in 0..64 {
                it.observe(f64::from(n % 8));
            }
            let estimate = it.estimate().unwrap();
            prop_assert!((0.0..=7.0).contains(&estimate), "{estimate}");
        }
    }
}
