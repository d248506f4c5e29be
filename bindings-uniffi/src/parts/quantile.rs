//! Estimators of quantiles.

use std::sync::Arc;

use parking_lot::Mutex;

use super::argument;
use crate::Invalid;

/// The five markers of a P² estimate.
#[derive(Clone, PartialEq, Debug, uniffi::Record)]
pub struct Markers {
    /// Their heights.
    pub heights: Vec<f64>,
    /// Their ranks.
    pub ranks: Vec<u64>,
}

/// P².
#[derive(uniffi::Object)]
pub struct P2Quantile(Mutex<tidegate::P2Quantile>);

#[uniffi::export]
impl P2Quantile {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(p: f64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(tidegate::P2Quantile::new(p))))
    }

    /// Takes in one value.
    pub fn observe(&self, x: f64) {
        self.0.lock().observe(x);
    }

    /// The estimate, once there is a value.
    pub fn estimate(&self) -> Option<f64> {
        self.0.lock().estimate()
    }

    /// How many values have been taken in.
    pub fn count(&self) -> u64 {
        self.0.lock().count()
    }

    /// Heights and ranks of the five markers, once there are five values.
    pub fn markers(&self) -> Option<Markers> {
        let (heights, ranks) = self.0.lock().markers()?;
        Some(Markers { heights: heights.to_vec(), ranks: ranks.to_vec() })
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self(Mutex::new(self.0.lock().clone())))
    }
}

/// P² that forgets.
#[derive(uniffi::Object)]
pub struct WindowedP2Quantile(Mutex<tidegate::WindowedP2Quantile>);

#[uniffi::export]
impl WindowedP2Quantile {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(p: f64, window: u32) -> Arc<Self> {
        Arc::new(Self(Mutex::new(tidegate::WindowedP2Quantile::new(p, window))))
    }

    /// Takes in one value.
    pub fn observe(&self, x: f64) {
        self.0.lock().observe(x);
    }

    /// The estimate, once there is a value.
    pub fn estimate(&self) -> Option<f64> {
        self.0.lock().estimate()
    }

    /// How many values are behind the estimate.
    pub fn count(&self) -> u32 {
        self.0.lock().count()
    }

    /// Forgets all.
    pub fn reset(&self) {
        self.0.lock().reset();
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self(Mutex::new(self.0.lock().clone())))
    }
}

/// All quantiles within a relative accuracy.
#[derive(uniffi::Object)]
pub struct DDSketch(Mutex<tidegate::DDSketch>);

#[uniffi::export]
impl DDSketch {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(alpha: f64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(tidegate::DDSketch::new(alpha))))
    }

    /// The sketch that these words are.
    #[uniffi::constructor]
    pub fn from_words(words: Vec<u64>) -> Result<Arc<Self>, Invalid> {
        match tidegate::DDSketch::from_words(&words) {
            Ok(sketch) => Ok(Arc::new(Self(Mutex::new(sketch)))),
            Err(error) => Err(argument(format!("words: {error}"))),
        }
    }

    /// The sketch as words of 64 bits.
    pub fn to_words(&self) -> Vec<u64> {
        self.0.lock().to_words()
    }

    /// Takes in one value.
    pub fn add(&self, x: f64) {
        self.0.lock().add(x);
    }

    /// Takes in all that another sketch holds.
    pub fn merge(&self, other: &Self) -> Result<(), Invalid> {
        // A copy, so that two threads that merge two sketches into each other never hold one lock and want the other.
        let other = other.0.lock().clone();
        let merged = self.0.lock().merge(&other);
        merged.map_err(|error| argument(format!("other: {error}")))
    }

    /// What stands for the value of this quantile, if there is any.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        self.0.lock().quantile(q)
    }

    /// How many values have been taken in.
    pub fn count(&self) -> u64 {
        self.0.lock().count()
    }

    /// The sum of the values.
    pub fn sum(&self) -> f64 {
        self.0.lock().sum()
    }

    /// The least value, exactly.
    pub fn min(&self) -> Option<f64> {
        self.0.lock().min()
    }

    /// The greatest value, exactly.
    pub fn max(&self) -> Option<f64> {
        self.0.lock().max()
    }

    /// The relative accuracy that is kept.
    pub fn alpha(&self) -> f64 {
        self.0.lock().alpha()
    }

    /// No bin is wider than this ratio.
    pub fn gamma(&self) -> f64 {
        self.0.lock().gamma()
    }

    /// Forgets all values.
    pub fn clear(&self) {
        self.0.lock().clear();
    }

    /// Are they equal, to the last count?
    pub fn equals(&self, other: &Self) -> bool {
        let other = other.0.lock().clone();
        *self.0.lock() == other
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self(Mutex::new(self.0.lock().clone())))
    }
}
