//! Random numbers of a simulation, from one seed, with only such operations as give the same bits on every platform.

/// A `SplitMix64` generator and the distributions that the experiments draw from.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// A generator that gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        let mut dice = Self { state: seed.wrapping_mul(0xd134_2543_de82_ef95) };
        dice.bits();
        dice
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in `0..n`.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u32
    }

    /// True with this probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// An exponential span in microseconds with this mean, in microseconds; at least 1.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> u64 {
        ((-ln(1.0 - self.unit()) * mean) as u64).max(1)
    }

    /// A normal number, as the sum of twelve uniform ones: the tails end at 6 deviations.
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.unit()).sum();
        mean + deviation * (sum - 6.0)
    }
}

/// The natural logarithm of a positive normal number, by a series: std's may differ in the last bit between platforms.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let mantissa = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 0x3ff0_0000_0000_0000);
    // 2·atanh((m − 1)/(m + 1)), with m within a factor of √2 of 1.
    let (m, e) = if mantissa > core::f64::consts::SQRT_2 {
        (mantissa / 2.0, exponent + 1)
    } else {
        (mantissa, exponent)
    };
    let t = (m - 1.0) / (m + 1.0);
    let t2 = t * t;
    let mut sum = 0.0;
    let mut odd = 17.0;
    while odd > 0.0 {
        sum = sum * t2 + 1.0 / odd;
        odd -= 2.0;
    }
    2.0 * t * sum + f64::from(e) * core::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_right_to_twelve_digits() {
        let known = [
            (1.0, 0.0),
            (2.0, core::f64::consts::LN_2),
            (0.5, -core::f64::consts::LN_2),
            (1e-9, -20.723_265_836_946_4),
        ];
        for (x, expected) in known {
            assert!((ln(x) - expected).abs() < 1e-12 * (1.0 + expected.abs()), "ln {x} = {}", ln(x));
        }
        assert!((ln(1.414) - 0.346_422_567_474_380_94).abs() < 1e-12, "{}", ln(1.414));
    }

    #[test]
    fn the_distributions_have_their_means() {
        let mut dice = Dice::new(1);
        let n = 200_000;
        let exponential: u64 = (0..n).map(|_| dice.exponential(1_000.0)).sum();
        let normal: f64 = (0..n).map(|_| dice.normal(10.0, 2.0)).sum();
        let hits = (0..n).filter(|_| dice.chance(0.3)).count();
        let n = f64::from(n);
        assert!((exponential as f64 / n - 1_000.0).abs() < 15.0);
        assert!((normal / n - 10.0).abs() < 0.03);
        assert!((hits as f64 / n - 0.3).abs() < 0.005);
    }
}
