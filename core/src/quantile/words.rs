//! A sketch as 64-bit words (semantics 9.3): compact, versioned and exact, for a store or for another process.
//!
//! | Word | What it holds, low bits first |
//! |---|---|
//! | 0 | version 8 (1) · bins per octave 16 · number of entries 16 · number of the first bin + 2²³ in 24 (0 without entries) |
//! | 1 | values that count as zero |
//! | 2, 3, 4 | sum, least and greatest value: the bits of an `f64` (0 of an empty sketch) |
//! | 5 … | one entry for each bin that holds values, ascending: values 53 · distance from the entry before 11 (0 of the first) |
//!
//! Each sketch has exactly one form, so equal words mean equal sketches.

use core::fmt;
use std::collections::VecDeque;

use super::MOST_SAMPLES;
use super::ddsketch::{BINS, COARSEST, DDSketch, FINEST, LEAST, SPAN, key};

const VERSION: u64 = 1;
const HEAD: usize = 5;
/// Numbers of bins may be negative; adding this makes them unsigned.
const BIAS: i32 = 1 << 23;
const COUNT_BITS: u32 = 53;

/// Why words are not a valid sketch: the broken rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordsError {
    /// There are fewer than five words.
    TooShort,
    /// The version is not 1.
    Version(u8),
    /// Bins per octave are not 2 to 375.
    Accuracy(u16),
    /// The number of entries differs from that in the first word.
    Length,
    /// An entry holds no value.
    EmptyBin,
    /// Bins are not ascending, or the first entry has a distance.
    Order,
    /// Bins span more than 2,048 numbers, or lie beyond those possible for an `f64`.
    Range,
    /// There are more than 2⁵³ − 1 values.
    Full,
    /// Sum, least or greatest value is negative (negative zero too), infinite or NaN.
    NotANumber,
    /// Sum, least and greatest value contradict each other or the bins.
    Contradiction,
}

impl fmt::Display for WordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => f.write_str("a sketch has at least five words"),
            Self::Version(found) => write!(f, "version {found} of a sketch is not known; this is version 1"),
            Self::Accuracy(found) => write!(f, "a sketch has 2 to 375 bins per octave, not {found}"),
            Self::Length => f.write_str("there are not as many entries as the first word says"),
            Self::EmptyBin => f.write_str("each entry holds at least one value"),
            Self::Order => f.write_str("bins ascend from the first, which has distance 0"),
            Self::Range => f.write_str("bins lie within 2,048 of each other and within those of an f64"),
            Self::Full => f.write_str("a sketch holds at most 2^53 - 1 values"),
            Self::NotANumber => f.write_str("sum, least and greatest value are finite and not negative"),
            Self::Contradiction => {
                f.write_str("sum, least and greatest value agree with each other and with the bins")
            }
        }
    }
}

impl core::error::Error for WordsError {}

impl DDSketch {
    /// The sketch as words: five, and one for each nonempty bin. Exact: [`Self::from_words`] returns an equal sketch.
    ///
    /// ```
    /// use tidegate::{DDSketch, WordsError};
    /// let mut sketch = DDSketch::new(0.01);
    /// sketch.add(0.25);
    /// let mut words = sketch.to_words();
    /// assert_eq!(words.len(), 6);
    /// assert_eq!(DDSketch::from_words(&words), Ok(sketch));
    /// words[0] += 1;
    /// assert_eq!(DDSketch::from_words(&words), Err(WordsError::Version(2)));
    /// ```
    pub fn to_words(&self) -> Vec<u64> {
        let held = self.bins.iter().filter(|count| **count > 0).count();
        let first = if held == 0 { 0 } else { (self.first + BIAS) as u64 };
        let head = VERSION | u64::from(self.m) << 8 | (held as u64) << 24 | first << 40;
        let mut words = Vec::with_capacity(HEAD + held);
        words.extend([head, self.zeros, self.sum.to_bits(), self.min.to_bits(), self.max.to_bits()]);
        let mut before = 0;
        for (place, count) in self.bins.iter().enumerate().filter(|(_, count)| **count > 0) {
            words.push(((place - before) as u64) << COUNT_BITS | count);
            before = place;
        }
        words
    }

    /// Reads a sketch from words. Words may come from anywhere: a broken rule is an error, and costs no more memory
    /// than a sketch.
    pub fn from_words(words: &[u64]) -> Result<Self, WordsError> {
        let [head, zeros, sum, min, max, entries @ ..] = words else { return Err(WordsError::TooShort) };
        if head & 0xff != VERSION {
            return Err(WordsError::Version(*head as u8));
        }
        let m = (head >> 8) as u16;
        if !(COARSEST..=FINEST).contains(&m) {
            return Err(WordsError::Accuracy(m));
        }
        if entries.len() != (head >> 24 & 0xffff) as usize {
            return Err(WordsError::Length);
        }
        let (first, bins) = read_bins(m, (head >> 40) as i32, entries)?;
        let held = bins.iter().try_fold(*zeros, |sum, count| sum.checked_add(*count));
        let count = held.filter(|held| *held <= MOST_SAMPLES).ok_or(WordsError::Full)?;
        let (sum, min, max) = (f64::from_bits(*sum), f64::from_bits(*min), f64::from_bits(*max));
        if [sum, min, max].iter().any(|x| !x.is_finite() || x.is_sign_negative()) {
            return Err(WordsError::NotANumber);
        }
        let sketch = Self { m, zeros: *zeros, count, sum, min, max, first, bins };
        if sketch.agrees() { Ok(sketch) } else { Err(WordsError::Contradiction) }
    }

    /// Whether the summary figures agree with the bins, as far as that can be checked.
    fn agrees(&self) -> bool {
        if self.count == 0 {
            return self.sum == 0.0 && self.min == 0.0 && self.max == 0.0;
        }
        // A sum of nonnegative values is never less than one of them, rounded or not.
        let figures = self.min <= self.max && self.max <= self.sum;
        let zeros = (self.min < LEAST) == (self.zeros > 0) && (self.max < LEAST) == self.bins.is_empty();
        let highest = self.max < LEAST || key(self.m, self.max) == self.top();
        // Below the highest 2,048 bins the least value's bin has been collapsed.
        let lowest = self.min < LEAST || key(self.m, self.min).max(self.top() - SPAN) == self.first;
        figures && zeros && highest && lowest
    }
}

/// Reads the bins from entries, and the number of the first bin.
fn read_bins(m: u16, first: i32, entries: &[u64]) -> Result<(i32, VecDeque<u64>), WordsError> {
    let mut bins = VecDeque::new();
    if entries.is_empty() {
        return if first == 0 { Ok((0, bins)) } else { Err(WordsError::Range) };
    }
    let first = first - BIAS;
    for (place, entry) in entries.iter().enumerate() {
        let (distance, count) = ((entry >> COUNT_BITS) as usize, entry & ((1 << COUNT_BITS) - 1));
        if (distance == 0) != (place == 0) {
            return Err(WordsError::Order);
        }
        if count == 0 {
            return Err(WordsError::EmptyBin);
        }
        bins.resize(bins.len() + distance.max(1) - 1, 0);
        bins.push_back(count);
        if bins.len() > BINS {
            return Err(WordsError::Range);
        }
    }
    let top = first + i32::from(bins.len() as u16) - 1;
    if first < key(m, LEAST) || top > key(m, f64::MAX) { Err(WordsError::Range) } else { Ok((first, bins)) }
}
