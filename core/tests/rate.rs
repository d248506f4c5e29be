//! The token bucket against exact fractions, over a hundred thousand steps (semantics 3.1: "integer arithmetic, no drift").

use tidegate::rng::{self, Purpose};
use tidegate::{Duration, RateSettings, Time, TokenBucket};

/// A fraction in lowest terms.
#[derive(Clone, Copy)]
struct Fraction(u128, u128);

impl Fraction {
    fn new(over: u128, under: u128) -> Self {
        let (mut a, mut b) = (over, under);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        Self(over / a, under / a)
    }

    fn plus(self, other: Self) -> Self {
        Self::new(self.0 * other.1 + other.0 * self.1, self.1 * other.1)
    }

    fn at_most(self, whole: u32) -> Self {
        if self.0 > u128::from(whole) * self.1 { Self(u128::from(whole), 1) } else { self }
    }
}

#[test]
fn a_hundred_thousand_steps_do_not_drift() {
    let rates = [
        (1, 1_000_000, 10),
        (3, 1_000_000, 7),
        (999_983, 1_000_003, 50),
        (7, 3_600_000_000, 3),
        (50, 7, 400),
    ];
    for (seed, (permits, per, burst)) in (0..).zip(rates) {
        let settings = RateSettings { permits, per: Duration::from_micros(per), burst };
        let mut bucket = TokenBucket::new(settings, Time::from_micros(0));
        let mut tokens = Fraction(u128::from(burst), 1);
        let (mut now, mut granted) = (0, 0u32);
        for n in 0..100_000 {
            let draw = |attempt, high| rng::uniform(rng::bits(seed, n, Purpose::Backoff, attempt), 0, high);
            // From nothing to about two tokens at a time.
            let gap = draw(1, 2 * per.div_ceil(u64::from(permits)));
            now += gap;
            tokens = tokens
                .plus(Fraction::new(u128::from(gap) * u128::from(permits), u128::from(per)))
                .at_most(burst);
            let cost = draw(2, 2) as u32;
            let enough = tokens.0 >= u128::from(cost) * tokens.1;
            let at = Time::from_micros(now);
            assert_eq!(bucket.try_take(cost, at).is_ok(), enough, "step {n} of {settings:?}");
            if enough {
                tokens = Fraction::new(tokens.0 - u128::from(cost) * tokens.1, tokens.1);
                granted += cost;
            }
            assert_eq!(u128::from(bucket.level(at)), tokens.0 / tokens.1, "step {n} of {settings:?}");
            let whole = u64::from(bucket.level(at)) + 1;
            let missing = u128::from(whole) * tokens.1 - tokens.0;
            let wait = (missing * u128::from(per)).div_ceil(tokens.1 * u128::from(permits));
            assert_eq!(u128::from(bucket.wait_for(whole, at).as_micros()), wait, "step {n} of {settings:?}");
        }
        let earned = u128::from(now) * u128::from(permits) / u128::from(per);
        assert!(u128::from(granted) <= u128::from(burst) + earned);
        assert!(granted > 10_000, "and it was not idle: {granted}");
    }
}
