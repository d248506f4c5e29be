//! Backoff: the delay before a retry, capped before jitter is applied (semantics 2.4, 2.5).

use crate::rng;
use crate::time::Duration;

/// Delay before retry n: growth, cap, jitter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Backoff {
    /// Growth of the delay from one retry to the next.
    pub growth: Growth,
    /// The delay before the first retry.
    pub base: Duration,
    /// The longest delay, before jitter.
    pub max: Duration,
    /// Jitter of the delay.
    pub jitter: Jitter,
}

/// How a delay of base b grows with the number n of the retry (1, 2, …).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Growth {
    /// b
    Constant,
    /// b·n
    Linear,
    /// b·m^(n−1), m at least 1.
    Exponential(f64),
    /// b·n^k
    Polynomial(u8),
}

/// Number of retries over which an exponential delay grows; later delays stay the same. Otherwise a factor of 1 +
/// 10⁻¹² would take 4·10⁹ multiplications.
const LONGEST_GROWTH: u32 = 10_000;

/// Jitter of a delay d. Every bound is rounded down to whole microseconds before the draw.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Jitter {
    /// No jitter.
    None,
    /// U(0, d)
    Full,
    /// U(0.1·d, d): spread nearly as widely as `full`, and never an immediate retry.
    FullFloor,
    /// d/2 + U(0, d/2)
    Equal,
    /// U(b, min(max, 3·previous)), previous = b at first, then the delay drawn. It replaces the growth; delays never
    /// cluster at the cap.
    Decorrelated,
    /// U((1−j)·d, (1+j)·d): d is capped, the draw is not.
    Bounded(f64),
}

impl Backoff {
    /// The delay before retry `n` without jitter, at most `max`.
    ///
    /// Powers saturate in integers. The exponential product is computed left to right in `f64`, one multiplication a
    /// step, so that it is the same everywhere; it stops at the cap, or after 10,000 retries. No `n` and no setting
    /// overflows or takes long.
    pub fn ceiling(&self, n: u32) -> Duration {
        let base = self.base.as_micros();
        let delay = match self.growth {
            Growth::Constant => base,
            Growth::Linear => base.saturating_mul(u64::from(n)),
            Growth::Polynomial(k) => base.saturating_mul(u64::from(n).saturating_pow(u32::from(k))),
            Growth::Exponential(multiplier) => exponential(base, multiplier, n, self.max.as_micros()),
        };
        Duration::from_micros(delay).min(self.max)
    }

    /// The delay before retry `n`, with jitter from 64 random bits. `previous` is the delay before retry n − 1; it is
    /// ignored before the first retry, and by every jitter but `decorrelated`.
    ///
    /// ```
    /// use tidegate::{Backoff, Duration, Growth, Jitter};
    /// let backoff = Backoff {
    ///     growth: Growth::Exponential(2.0),
    ///     base: Duration::from_millis(100),
    ///     max: Duration::from_secs(5),
    ///     jitter: Jitter::FullFloor,
    /// };
    /// assert_eq!(backoff.delay(3, Duration::ZERO, 0), Duration::from_millis(40));
    /// assert_eq!(backoff.delay(3, Duration::ZERO, u64::MAX), Duration::from_millis(400));
    /// ```
    pub fn delay(&self, n: u32, previous: Duration, bits: u64) -> Duration {
        let d = if self.jitter == Jitter::Decorrelated { 0 } else { self.ceiling(n).as_micros() };
        Duration::from_micros(match self.jitter {
            Jitter::None => d,
            Jitter::Full => rng::uniform(bits, 0, d),
            Jitter::FullFloor => rng::uniform(bits, d / 10, d),
            Jitter::Equal => d / 2 + rng::uniform(bits, 0, d / 2),
            Jitter::Decorrelated => {
                let previous = if n <= 1 { self.base } else { previous.max(self.base) };
                let high = previous.as_micros().saturating_mul(3).min(self.max.as_micros());
                rng::uniform(bits, self.base.as_micros().min(high), high)
            }
            Jitter::Bounded(j) => {
                rng::uniform(bits, (d as f64 * (1.0 - j)) as u64, (d as f64 * (1.0 + j)) as u64)
            }
        })
    }

    /// The delay before retry `n` of a call whose draw for retry i is `draw(i)`, so no state is needed. With
    /// `decorrelated` it repeats the draws 1 to `n`, at most the last 10,000.
    pub fn nth_delay(&self, n: u32, draw: impl Fn(u32) -> u64) -> Duration {
        if self.base == Duration::ZERO {
            return Duration::ZERO; // whatever is drawn
        }
        let first =
            if self.jitter == Jitter::Decorrelated { n.saturating_sub(LONGEST_GROWTH) + 1 } else { n };
        (first..=n).fold(self.base, |previous, i| self.delay(i, previous, draw(i)))
    }
}

fn exponential(base: u64, multiplier: f64, n: u32, max: u64) -> u64 {
    let (mut delay, cap) = (base as f64, max as f64);
    if base == 0 || multiplier <= 1.0 || multiplier.is_nan() {
        return base;
    }
    for _ in 1..n.min(LONGEST_GROWTH) {
        if delay >= cap {
            return max;
        }
        delay *= multiplier;
    }
    delay as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn growth() -> impl Strategy<Value = Growth> {
        prop_oneof![
            Just(Growth::Constant),
            Just(Growth::Linear),
            (1.0f64..1_000.0).prop_map(Growth::Exponential),
            (1u8..=8).prop_map(Growth::Polynomial),
        ]
    }

    fn jitter() -> impl Strategy<Value = Jitter> {
        prop_oneof![
            Just(Jitter::None),
            Just(Jitter::Full),
            Just(Jitter::FullFloor),
            Just(Jitter::Equal),
            Just(Jitter::Decorrelated),
            (0.0f64..=1.0).prop_map(Jitter::Bounded),
        ]
    }

    proptest! {
        /// I15: for any n and any setting the delay stays inside its bounds and never falls from one n to the next.
        #[test]
        fn delays_are_bounded_and_monotone(
            growth in growth(), jitter in jitter(), base: u64, max: u64, n in 1u32..=u32::MAX, previous: u64, bits: u64,
        ) {
            let it = Backoff { growth, base: Duration::from_micros(base.min(max)), max: Duration::from_micros(max), jitter };
            let d = it.ceiling(n);
            prop_assert!(d <= it.max);
            prop_assert!(it.ceiling(n.saturating_add(1)) >= d);
            let delay = it.delay(n, Duration::from_micros(previous), bits);
            match jitter {
                Jitter::None => prop_assert_eq!(delay, d),
                Jitter::Full => prop_assert!(delay <= d),
                Jitter::FullFloor => prop_assert!(delay <= d && delay.as_micros() >= d.as_micros() / 10),
                Jitter::Equal => prop_assert!(delay <= d && delay.as_micros() >= d.as_micros() / 2),
                Jitter::Decorrelated => prop_assert!(delay <= it.max && delay >= it.base),
                Jitter::Bounded(j) => prop_assert!(delay.as_micros() as f64 <= d.as_micros() as f64 * (1.0 + j)),
            }
        }
    }

    fn millis(backoff: &Backoff, n: u32) -> u64 {
        backoff.ceiling(n).as_micros() / 1_000
    }

    #[test]
    fn the_growths_are_those_of_the_specification() {
        let of = |growth, base, max| Backoff {
            growth,
            base: Duration::from_millis(base),
            max: Duration::from_millis(max),
            jitter: Jitter::None,
        };
        // Graph: 3 s · n², at most 180 s (semantics 2.4).
        let graph = of(Growth::Polynomial(2), 3_000, 180_000);
        assert_eq!(
            (1..=10).map(|n| millis(&graph, n) / 1_000).collect::<Vec<_>>(),
            [3, 12, 27, 48, 75, 108, 147, 180, 180, 180]
        );
        let linear = of(Growth::Linear, 500, 1_600);
        assert_eq!((1..=4).map(|n| millis(&linear, n)).collect::<Vec<_>>(), [500, 1_000, 1_500, 1_600]);
        let exponential = of(Growth::Exponential(2.0), 100, 5_000);
        assert_eq!([1, 2, 6, 7, u32::MAX].map(|n| millis(&exponential, n)), [100, 200, 3_200, 5_000, 5_000]);
        assert_eq!(millis(&of(Growth::Exponential(1.0), 100, 5_000), u32::MAX), 100);
        assert_eq!(millis(&of(Growth::Constant, 70, 5_000), u32::MAX), 70);
        assert_eq!(millis(&of(Growth::Exponential(2.0), 0, 5_000), u32::MAX), 0);
    }

    #[test]
    fn no_retry_takes_more_than_a_bounded_number_of_steps() {
        let slow = |jitter| Backoff {
            growth: Growth::Exponential(1.0 + 1e-12),
            base: Duration::from_secs(1_000_000),
            max: Duration::from_secs(2_000_000),
            jitter,
        };
        let d = slow(Jitter::None).ceiling(u32::MAX);
        assert_eq!(d, slow(Jitter::None).ceiling(10_000));
        assert!(d > slow(Jitter::None).ceiling(9_000));
        let draws = core::cell::Cell::new(0_u32);
        let draw = |_| {
            draws.set(draws.get() + 1);
            7
        };
        let delay = slow(Jitter::Decorrelated).nth_delay(u32::MAX, draw);
        assert!(delay >= Duration::from_secs(1_000_000) && draws.get() == 10_000, "{} draws", draws.get());
    }

    #[test]
    fn decorrelated_follows_its_own_draws_without_being_told_them() {
        let it = Backoff {
            growth: Growth::Constant,
            base: Duration::from_millis(50),
            max: Duration::from_secs(2),
            jitter: Jitter::Decorrelated,
        };
        let draw = |i: u32| rng::bits(9, 1, rng::Purpose::Backoff, i as u8);
        let mut previous = it.base;
        for n in 1..=20 {
            let delay = it.delay(n, previous, draw(n));
            assert_eq!(it.nth_delay(n, draw), delay);
            assert!(delay >= it.base && delay.as_micros() <= (3 * previous.as_micros()).min(2_000_000));
            previous = delay;
        }
    }
}
