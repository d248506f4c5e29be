//! The quantile estimators. Question 0 is the estimate (for a sketch: the quantile `with`), question 1 the count; the
//! others are documented at each part.

use crate::Part;
use tidegate::{DDSketch, P2Quantile, WindowedP2Quantile, WordsError};

impl Part for P2Quantile {
    fn feed(&mut self, x: f64) {
        self.observe(x);
    }

    /// 2: the height of marker `with`, 3: its position.
    fn ask(&self, what: u32, with: f64) -> f64 {
        let marker = |choose: fn(([f64; 5], [u64; 5]), usize) -> f64| {
            self.markers().map_or(f64::NAN, |markers| choose(markers, with as usize))
        };
        match what {
            0 => self.estimate().unwrap_or(f64::NAN),
            1 => self.count() as f64,
            2 => marker(|(heights, _), place| heights[place]),
            3 => marker(|(_, positions), place| positions[place] as f64),
            _ => f64::NAN,
        }
    }
}

impl Part for WindowedP2Quantile {
    fn feed(&mut self, x: f64) {
        self.observe(x);
    }

    fn ask(&self, what: u32, _: f64) -> f64 {
        match what {
            0 => self.estimate().unwrap_or(f64::NAN),
            1 => f64::from(self.count()),
            _ => f64::NAN,
        }
    }
}

impl Part for DDSketch {
    fn feed(&mut self, x: f64) {
        self.add(x);
    }

    /// 2: the sum, 3: the least value, 4: the greatest.
    fn ask(&self, what: u32, with: f64) -> f64 {
        match what {
            0 => self.quantile(with).unwrap_or(f64::NAN),
            1 => self.count() as f64,
            2 => self.sum(),
            3 => self.min().unwrap_or(f64::NAN),
            4 => self.max().unwrap_or(f64::NAN),
            _ => f64::NAN,
        }
    }

    fn words(&self) -> Vec<u64> {
        self.to_words()
    }

    fn join(&mut self, words: &[u64]) -> u32 {
        match Self::from_words(words) {
            Ok(other) => self.merge(&other).map_or(u32::MAX, |()| 0),
            Err(error) => 1 + rule(error),
        }
    }
}

/// The rule's number, in the order of `tests/vectors/schema.json`.
fn rule(error: WordsError) -> u32 {
    match error {
        WordsError::TooShort => 0,
        WordsError::Version(_) => 1,
        WordsError::Accuracy(_) => 2,
        WordsError::Length => 3,
        WordsError::EmptyBin => 4,
        WordsError::Order => 5,
        WordsError::Range => 6,
        WordsError::Full => 7,
        WordsError::NotANumber => 8,
        WordsError::Contradiction => 9,
    }
}
