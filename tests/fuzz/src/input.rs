//! Bytes as a source of choices. When they are used up, every choice is the first one, so any prefix of an input is an
//! input too and shrinks well.

use arbitrary::Unstructured;
use tidegate::{Duration, Time};

/// Choices that a fuzzer makes.
pub struct Input<'a>(Unstructured<'a>);

/// Spans that are often equal to each other or multiples of each other.
const SPANS: [u64; 14] = [
    0,
    1,
    999,
    1_000,
    10_000,
    50_000,
    100_000,
    1_000_000,
    3_000_000,
    5_000_000,
    61_000_000,
    7_200_000_000,
    1 << 53,
    u64::MAX,
];

/// Numbers at the limits of what a part accepts.
const REALS: [f64; 20] = [
    0.0,
    -0.0,
    0.1,
    0.5,
    0.9,
    1.0,
    2.0,
    100.0,
    1e9,
    -1.0,
    f64::MIN_POSITIVE,
    5e-324,
    1e-300,
    1e300,
    f64::MAX,
    f64::MIN,
    f64::EPSILON,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];

impl<'a> Input<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Self(Unstructured::new(data))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        self.0.arbitrary().unwrap_or_default()
    }

    pub fn word(&mut self) -> u64 {
        self.0.arbitrary().unwrap_or_default()
    }

    /// A number below `n`, which is at least 1.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.int_in_range(0..=n - 1).unwrap_or_default()
    }

    pub fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// True in about this many of 256 cases; false when the bytes are used up.
    pub fn chance(&mut self, of_256: u8) -> bool {
        !self.is_empty() && self.byte() < of_256
    }

    /// Microseconds: mostly one of `SPANS`, sometimes any number.
    pub fn micros(&mut self) -> u64 {
        match self.byte() {
            place @ 0..=223 => SPANS[usize::from(place) % SPANS.len()],
            224..=239 => u64::from(self.byte()) << 10 | u64::from(self.byte()),
            _ => self.word(),
        }
    }

    pub fn span(&mut self) -> Duration {
        Duration::from_micros(self.micros())
    }

    pub fn time(&mut self) -> Time {
        Time::from_micros(self.micros())
    }

    /// Any number, including NaN and infinities.
    pub fn real(&mut self) -> f64 {
        match self.byte() {
            place @ 0..=199 => REALS[usize::from(place) % REALS.len()],
            200..=227 => f64::from(self.byte()) / 16.0,
            _ => f64::from_bits(self.word()),
        }
    }

    /// Any count, mostly a small one.
    pub fn count(&mut self) -> u32 {
        match self.byte() {
            n @ 0..=199 => u32::from(n) % 20,
            200..=215 => u32::MAX,
            216..=227 => 1_000_000_000,
            _ => self.word() as u32,
        }
    }

    /// At most this many of the remaining bytes.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let asked = self.below(most + 1);
        self.0.bytes(asked.min(self.0.len())).unwrap_or_default()
    }

    /// All remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        self.0.bytes(self.0.len()).unwrap_or_default()
    }
}
