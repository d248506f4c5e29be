//! What calls reserve of what they name: by how much of it attempts have used (semantics 3.9).

use crate::full::Name;
use crate::quantile::WindowedP2Quantile;
use crate::state::{Damage, Loader, Saver};

/// Attempts whose totals an estimate is made from: between half of them and all.
const WINDOW: u32 = 512;
/// Attempts that must have settled before it scales anything.
const ENOUGH: u32 = 20;

/// A scale from 1/16 to 16, in steps of at most a 16th: (16 + code mod 16) / 16 times 2^(code div 16 - 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) struct Scale(u8);

impl Scale {
    /// Changes nothing.
    pub const ONE: Self = Self(64);
    const MOST: u8 = 128;

    /// What is reserved of an amount, rounded up; an amount is below 2^53.
    pub fn of(self, amount: u64) -> u64 {
        let sixteenths = u64::from(16 + self.0 % 16) << (self.0 / 16);
        // At most 2^53 · 16 · 2^8, over 2^8.
        let parts = u128::from(amount) * u128::from(sixteenths);
        parts.div_ceil(256) as u64
    }

    /// The smallest scale of at least this ratio; the largest one for ratios above all.
    fn at_least(ratio: f64) -> Self {
        let fits = |code: &u8| f64::from(u32::from(16 + code % 16) << (code / 16)) / 256.0 >= ratio;
        Self((0..Self::MOST).find(fits).unwrap_or(Self::MOST))
    }

    /// The largest scale up to this one at which an amount is at most `most`.
    fn within(self, amount: u64, most: u64) -> Self {
        (0..self.0).rev().fold(self, |it, less| if it.of(amount) > most { Self(less) } else { it })
    }
}

/// What attempts have used of a weight, as parts of what their calls named.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Estimate {
    quantile: f64,
    ratios: WindowedP2Quantile,
}

impl Estimate {
    pub fn new(quantile: f64) -> Self {
        Self { quantile, ratios: WindowedP2Quantile::new(quantile, WINDOW) }
    }

    /// The same estimate, if it is of the same quantile.
    pub fn kept(self, was: Option<&Self>) -> Self {
        was.filter(|was| was.quantile.to_bits() == self.quantile.to_bits()).cloned().unwrap_or(self)
    }

    /// Notes what an attempt has used of what its call named.
    pub fn note(&mut self, used: u64, named: u64) {
        if named > 0 {
            self.ratios.observe(used as f64 / named as f64);
        }
    }

    /// The scale for an amount, at which it takes at most `most`.
    pub fn scale(&self, amount: u64, most: u64) -> Scale {
        let enough = self.ratios.count() >= ENOUGH;
        let ratio = if enough { self.ratios.estimate() } else { None };
        ratio.map_or(Scale::ONE, |ratio| Scale::at_least(ratio).within(amount, most))
    }

    pub fn save(&self, name: &Name, to: &mut Saver) {
        if self.ratios.count() > 0 {
            to.text(&["~", &**name].concat());
            to.list(|to| self.ratios.save(to));
        }
    }

    pub fn load(&mut self, from: &mut Loader<'_>) -> Result<(), Damage> {
        self.ratios = from.list(|from| self.ratios.load(from))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::MOST;

    #[test]
    fn scales_grow_by_at_most_a_16th_from_a_16th_to_16() {
        let all: Vec<u64> = (0..=128).map(|code| Scale(code).of(256)).collect();
        assert_eq!((all[0], all[64], all[128]), (16, 256, 4_096));
        assert!(all.windows(2).all(|two| two[0] < two[1] && two[1] * 16 <= two[0] * 17));
        assert_eq!(Scale::ONE.of(MOST), MOST);
        assert_eq!(Scale(128).of(MOST), MOST * 16);
        assert_eq!((Scale(0).of(1), Scale(0).of(0)), (1, 0));
    }

    #[test]
    fn a_scale_is_not_below_its_ratio_and_within_the_burst() {
        for (ratio, scaled) in [(0.0, 16), (0.5, 128), (0.51, 136), (1.0, 256), (2.5, 640), (99.0, 4_096)] {
            assert_eq!(Scale::at_least(ratio).of(256), scaled, "{ratio}");
        }
        assert_eq!(Scale::at_least(f64::NAN), Scale(128));
        assert_eq!(Scale::at_least(4.0).within(256, 700).of(256), 672);
        assert_eq!(Scale::at_least(4.0).within(256, 256), Scale::ONE);
    }
}
