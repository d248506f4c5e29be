//! Backoff: the delay before a retry, capped before it is spread (semantics 2.4, 2.5).

use crate::rng;
use crate::time::Duration;

/// Exponential backoff with jitter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Backoff {
    /// The delay before the first retry.
    pub base: Duration,
    /// The growth from one retry to the next; at least 1.
    pub multiplier: f64,
    /// The longest delay, before jitter.
    pub max: Duration,
    /// How the delay is spread.
    pub jitter: Jitter,
}

/// How a delay d is spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Jitter {
    /// Not at all.
    None,
    /// U(0.1·d, d): spread as widely as `full`, and never a retry at once.
    FullFloor,
}

impl Backoff {
    /// The delay before retry `n` (1, 2, …), without jitter: `base · multiplier^(n−1)`, at most `max`.
    ///
    /// The product is taken left to right in `f64`, one multiplication a step, so that it is the same everywhere; it
    /// stops at the cap, so no `n` and no setting overflows. Bounds are rounded down to whole microseconds.
    pub fn ceiling(&self, n: u32) -> Duration {
        let max = self.max.as_micros() as f64;
        let mut delay = self.base.as_micros() as f64;
        if delay > 0.0 && self.multiplier > 1.0 {
            for _ in 1..n {
                if delay >= max {
                    break;
                }
                delay *= self.multiplier;
            }
        }
        if delay >= max { self.max } else { Duration::from_micros(delay as u64) }
    }

    /// The delay before retry `n`, spread by 64 random bits.
    ///
    /// ```
    /// use tidegate::{Backoff, Duration, Jitter};
    /// let backoff = Backoff {
    ///     base: Duration::from_millis(100),
    ///     multiplier: 2.0,
    ///     max: Duration::from_secs(5),
    ///     jitter: Jitter::FullFloor,
    /// };
    /// assert_eq!(backoff.delay(3, 0), Duration::from_millis(40));
    /// assert_eq!(backoff.delay(3, u64::MAX), Duration::from_millis(400));
    /// ```
    pub fn delay(&self, n: u32, bits: u64) -> Duration {
        let ceiling = self.ceiling(n).as_micros();
        Duration::from_micros(match self.jitter {
            Jitter::None => ceiling,
            Jitter::FullFloor => rng::uniform(bits, ceiling / 10, ceiling),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn backoff(base: u64, multiplier: f64, max: u64) -> Backoff {
        Backoff {
            base: Duration::from_micros(base),
            multiplier,
            max: Duration::from_micros(max),
            jitter: Jitter::FullFloor,
        }
    }

    proptest! {
        /// I15: for any n and any setting the delay stays inside its bounds and never falls from one n to the next.
        #[test]
        fn delays_are_bounded_and_monotone(
            base in 0u64..=u64::MAX, multiplier in 1.0f64..1_000.0, max in 0u64..=u64::MAX, n in 1u32..=u32::MAX, bits: u64,
        ) {
            let it = backoff(base.min(max), multiplier, max);
            let ceiling = it.ceiling(n);
            prop_assert!(ceiling <= it.max);
            prop_assert!(it.ceiling(n.saturating_add(1)) >= ceiling);
            let delay = it.delay(n, bits);
            prop_assert!(delay <= ceiling && delay.as_micros() >= ceiling.as_micros() / 10);
        }
    }

    #[test]
    fn a_multiplier_of_one_is_constant_even_for_huge_n() {
        assert_eq!(backoff(1_000, 1.0, 5_000_000).ceiling(u32::MAX), Duration::from_micros(1_000));
        assert_eq!(backoff(0, 2.0, 5_000_000).ceiling(u32::MAX), Duration::ZERO);
    }
}
