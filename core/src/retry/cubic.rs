//! The cubic send rate of the AWS SDKs' adaptive mode (semantics 2.14): a throttle cuts the rate, which then grows
//! back along a cubic curve that is flat where the throttle came.

use crate::state::{Damage, Loader, Saver};
use crate::time::{Duration, Time};

const BETA: f64 = 0.7;
const SCALE: f64 = 0.4;
const SMOOTH: f64 = 0.8;
/// The rate is at least this, in sends per second, and the bucket holds at least one send.
const MIN_RATE: f64 = 0.5;
const MIN_CAPACITY: f64 = 1.0;
/// The send rate is measured in half-second buckets.
const BUCKET: u64 = 500_000;
/// Shortfall of a token, due to rounding, that is ignored. It prevents a loop of waits of a microsecond, and keeps a
/// wait that is whole microseconds except for rounding from growing by one.
const HAIR: f64 = 1e-9;

/// A token bucket whose rate follows the server's throttles. Off, and free, until the first one.
///
/// ```
/// use tidegate::{CubicRate, Time};
/// let second = |n: u64| Time::from_micros(n * 1_000_000);
/// let mut rate = CubicRate::new(second(0));
/// assert!(rate.acquire(second(1)).is_ok(), "never throttled: no limit");
/// rate.on_response(true, second(1));
/// assert!(rate.rate().is_some());
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CubicRate {
    enabled: bool,
    fill: f64,
    capacity: f64,
    tokens: f64,
    refilled: Time,
    last_max: f64,
    throttled: Time,
    /// Seconds from the throttle to the flat point of the curve.
    window: f64,
    /// Sends in the present half second, and the smoothed rate of earlier ones.
    sends: u32,
    bucket: u64,
    measured: f64,
    born: Time,
}

impl CubicRate {
    /// Creates a rate without a limit, measured from `now` on.
    pub fn new(now: Time) -> Self {
        Self {
            enabled: false,
            fill: 0.0,
            capacity: 0.0,
            tokens: 0.0,
            refilled: now,
            last_max: 0.0,
            throttled: now,
            window: 0.0,
            sends: 0,
            bucket: 0,
            measured: 0.0,
            born: now,
        }
    }

    /// Takes one send.
    ///
    /// # Errors
    /// Time until a send is available.
    pub fn acquire(&mut self, now: Time) -> Result<(), Duration> {
        if !self.enabled {
            return Ok(());
        }
        self.refill(now);
        if self.tokens >= 1.0 - HAIR {
            self.tokens = (self.tokens - 1.0).max(0.0);
            return Ok(());
        }
        // Rounded up and never zero: after a wait of zero the call would ask again at once.
        let micros = ((1.0 - HAIR - self.tokens) / self.fill * 1e6).ceil() as u64;
        Err(Duration::from_micros(micros.max(1)))
    }

    /// Time until `sends` sends will be available at the present rate, beyond those already used.
    pub fn wait_for(&mut self, sends: u64, now: Time) -> Duration {
        if !self.enabled {
            return Duration::ZERO;
        }
        self.refill(now);
        let missing = sends as f64 - HAIR - self.tokens;
        if missing <= 0.0 {
            return Duration::ZERO;
        }
        Duration::from_micros(((missing / self.fill * 1e6).ceil() as u64).max(1))
    }

    /// Counts an answer and updates the rate: a throttled answer cuts it, any other lets it grow.
    pub fn on_response(&mut self, throttled: bool, now: Time) {
        self.measure(now);
        let grown = if throttled {
            let reached = if self.enabled { self.measured.min(self.fill) } else { self.measured };
            self.cut(reached, now)
        } else {
            self.curve(now)
        };
        if self.enabled {
            self.set_rate(grown.min(2.0 * self.measured), now);
        }
    }

    /// Allowed sends per second; `None` before the first throttle.
    pub fn rate(&self) -> Option<f64> {
        self.enabled.then_some(self.fill)
    }

    /// Writes all state; before the first throttle that is only the measured rate.
    pub(crate) fn save(&self, to: &mut Saver) {
        // Whole buckets since it began change only the bucket's number.
        to.moment(self.born.after(Duration::from_micros(self.bucket.saturating_mul(BUCKET))));
        to.count(self.sends);
        to.real(self.measured);
        if self.enabled {
            for number in [self.fill, self.capacity, self.tokens, self.last_max] {
                to.real(number);
            }
            to.moment(self.refilled);
            to.moment(self.throttled);
        }
    }

    pub(crate) fn load(from: &mut Loader<'_>) -> Result<Self, Damage> {
        let it = Self::new(from.past()?);
        let mut it = Self { sends: from.count()?, measured: from.positive()?, ..it };
        if from.has_more() {
            it.enabled = true;
            (it.fill, it.capacity) = (from.real()?, from.real()?);
            (it.tokens, it.last_max) = (from.positive()?, from.positive()?);
            (it.refilled, it.throttled) = (from.past()?, from.past()?);
            it.window = flat_after(it.last_max);
            if it.fill < MIN_RATE || it.capacity < MIN_CAPACITY || it.tokens > it.capacity {
                return Err(Damage("must be a rate and a bucket with no more than it can hold"));
            }
        }
        Ok(it)
    }

    /// Applies a throttle at this send rate: restarts the curve, and returns the reduced rate.
    fn cut(&mut self, reached: f64, now: Time) -> f64 {
        self.last_max = reached;
        self.throttled = now;
        self.enabled = true;
        self.window = flat_after(self.last_max);
        reached * BETA
    }

    /// Value of the cubic curve at this moment.
    fn curve(&self, now: Time) -> f64 {
        let dt = now.since(self.throttled).as_micros() as f64 / 1e6 - self.window;
        SCALE * (dt * dt * dt) + self.last_max
    }

    fn set_rate(&mut self, rate: f64, now: Time) {
        self.refill(now);
        self.fill = rate.max(MIN_RATE);
        self.capacity = rate.max(MIN_CAPACITY);
        self.tokens = self.tokens.min(self.capacity);
    }

    fn refill(&mut self, now: Time) {
        let elapsed = now.since(self.refilled).as_micros() as f64 / 1e6;
        self.tokens = (self.tokens + elapsed * self.fill).min(self.capacity);
        self.refilled = now.max(self.refilled);
    }

    /// Updates the smoothed `rate = sends / seconds` at the end of each half second.
    fn measure(&mut self, now: Time) {
        self.sends = self.sends.saturating_add(1);
        let bucket = now.since(self.born).as_micros() / BUCKET;
        if bucket > self.bucket {
            let seconds = (bucket - self.bucket) as f64 * (BUCKET as f64 / 1e6);
            self.measured = f64::from(self.sends) / seconds * SMOOTH + self.measured * (1.0 - SMOOTH);
            self.sends = 0;
            self.bucket = bucket;
        }
    }
}

/// Seconds from a throttle at this rate to the flat point of the curve.
fn flat_after(last_max: f64) -> f64 {
    cube_root(last_max * (1.0 - BETA) / SCALE)
}

/// The float nearest to the cube root, by `+ − × ÷` alone, so that it is the same everywhere. Newton's method, with a
/// fixed number of steps from a start within a factor of two by the exponent, is off by one in the last place for a
/// quarter of all numbers. One more step with the exact remainder corrects that.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 || !x.is_finite() {
        return 0.0;
    }
    let mut y = f64::from_bits(x.to_bits() / 3 + (1023 - 1023 / 3) * (1 << 52));
    for _ in 0..6 {
        y = (2.0 * y + x / (y * y)) / 3.0;
    }
    let (square, beyond) = product(y, y);
    let (cube, rest) = product(square, y);
    y + ((x - cube) - (rest + beyond * y)) / (3.0 * square)
}

/// A product and its rounding error (Dekker 1971, by Veltkamp's splitting).
fn product(a: f64, b: f64) -> (f64, f64) {
    let halves = |x: f64| {
        let wide = 134_217_729.0 * x; // 2^27 + 1
        let high = wide - (wide - x);
        (high, x - high)
    };
    let (whole, (ah, al), (bh, bl)) = (a * b, halves(a), halves(b));
    (whole, ((ah * bh - whole) + ah * bl + al * bh) + al * bl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn follows_the_published_table() {
        let vectors = crate::published::vector("aws_cubic.json");
        let tolerance = vectors["tolerance"].as_f64().unwrap();
        let at = |seconds: &serde_json::Value| Time::from_micros(seconds.as_u64().unwrap() * 1_000_000);
        let mut checked = 0;
        for trace in vectors["traces"].as_array().unwrap() {
            let mut it = CubicRate::new(Time::from_micros(0));
            // The tables start from a rate of `last_max` that was throttled at `last_throttle`.
            it.cut(trace["last_max"].as_f64().unwrap(), at(&trace["last_throttle"]));
            let mut rate = 0.0;
            for row in trace["rows"].as_array().unwrap() {
                let now = at(&row[0]);
                rate = if row[1] == true { it.cut(rate, now) } else { it.curve(now) };
                let expected = row[2].as_f64().unwrap();
                assert!(
                    (rate - expected).abs() <= tolerance * expected,
                    "{} at {row}: {rate}",
                    trace["name"]
                );
                checked += 1;
            }
        }
        assert_eq!(checked, 15);
    }

    proptest! {
        #[test]
        fn the_cube_root_is_one(x in 1e-12f64..1e12) {
            let y = cube_root(x);
            prop_assert!((y * y * y / x - 1.0).abs() < 1e-14, "{y}");
            // Nearest: the cubes of the midpoints to the neighbours lie on either side of `x`.
            let ulp = |y: f64| f64::from_bits(y.to_bits() + 1) - y;
            let beside = |half: f64| {
                // (y + half)³ − x, where half is tiny: exact except for terms far below it.
                let (square, beyond) = product(y, y);
                let (cube, rest) = product(square, y);
                (cube - x) + (rest + beyond * y) + 3.0 * square * half
            };
            prop_assert!(beside(ulp(y) / 2.0) >= 0.0 && beside(-ulp(y) / 2.0) <= 0.0, "{y}");
        }

        /// The rate is always finite and at least the minimum, and the reported wait is always enough.
        #[test]
        fn rates_are_sane_and_waits_suffice(steps in prop::collection::vec((0u64..3_000_000, any::<bool>()), 1..200)) {
            let (mut now, mut rate) = (0, CubicRate::new(Time::from_micros(0)));
            for (gap, throttled) in steps {
                now += gap;
                if let Err(wait) = rate.acquire(Time::from_micros(now)) {
                    prop_assert!(wait <= Duration::from_micros((1e6 / MIN_RATE) as u64 + 1), "{wait}");
                    now += wait.as_micros();
                    prop_assert_eq!(rate.acquire(Time::from_micros(now)), Ok(()));
                }
                rate.on_response(throttled, Time::from_micros(now));
                prop_assert!(rate.rate().is_none_or(|rate| rate.is_finite() && rate >= MIN_RATE));
            }
        }
    }
}
