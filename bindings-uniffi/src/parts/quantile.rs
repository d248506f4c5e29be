// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Estimators of quantiles in bounded memory: what latency do 95 % of the calls not exceed?

use super::argument;
use crate::Invalid;
use parking_lot::Mutex;
use std::sync::Arc;

/// One quantile of all values so far, from five markers: the P² algorithm (`docs/spec.md`, 9.1).
#[derive(uniffi::Object)]
pub struct P2Quantile(pub(super) Mutex<tidegate::P2Quantile>);

#[uniffi::export]
impl P2Quantile {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(p: f64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(tidegate::P2Quantile::new(p))))
    }

    /// Adds one value. NaN and the infinities are ignored.
    pub fn observe(&self, x: f64) {
        self.0.lock().observe(x);
    }

    /// The estimate; `None` before the first value.
    pub fn estimate(&self) -> Option<f64> {
        self.0.lock().estimate()
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.0.lock().count()
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}

/// One quantile of the last ½ to 1 windows, whatever came before (`docs/spec.md`, 9.2).
#[derive(uniffi::Object)]
pub struct WindowedP2Quantile(pub(super) Mutex<tidegate::WindowedP2Quantile>);

#[uniffi::export]
impl WindowedP2Quantile {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(p: f64, window: u32) -> Arc<Self> {
        Arc::new(Self(Mutex::new(tidegate::WindowedP2Quantile::new(p, window))))
    }

    /// Adds one value. NaN and the infinities are ignored.
    pub fn observe(&self, x: f64) {
        self.0.lock().observe(x);
    }

    /// The estimate; `None` before the first value, exact below five.
    pub fn estimate(&self) -> Option<f64> {
        self.0.lock().estimate()
    }

    /// Number of values behind the estimate.
    pub fn count(&self) -> u32 {
        self.0.lock().count()
    }

    /// Forgets all values.
    pub fn reset(&self) {
        self.0.lock().reset();
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}

/// All quantiles within a relative accuracy, and sketches that can be merged (`docs/spec.md`, 9.3).
#[derive(uniffi::Object)]
pub struct DDSketch(pub(super) Mutex<tidegate::DDSketch>);

#[uniffi::export]
impl DDSketch {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(alpha: f64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(tidegate::DDSketch::new(alpha))))
    }

    /// Adds one value. NaN and the infinities are ignored.
    pub fn add(&self, x: f64) {
        self.0.lock().add(x);
    }

    /// Estimate of the value of rank ⌊q·(count − 1)⌋, counted from 0: 0 is the least, 1 the greatest.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        self.0.lock().quantile(q)
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.0.lock().count()
    }

    /// The sum of the values, in the order in which they came.
    pub fn sum(&self) -> f64 {
        self.0.lock().sum()
    }

    /// The least value, exactly; `None` of an empty sketch.
    pub fn min(&self) -> Option<f64> {
        self.0.lock().min()
    }

    /// The greatest value, exactly; `None` of an empty sketch.
    pub fn max(&self) -> Option<f64> {
        self.0.lock().max()
    }

    /// The relative accuracy that is kept: at most what was asked for.
    pub fn alpha(&self) -> f64 {
        self.0.lock().alpha()
    }

    /// (1 + alpha)/(1 − alpha): no bin is wider. Sketches of the same gamma can be merged.
    pub fn gamma(&self) -> f64 {
        self.0.lock().gamma()
    }

    /// Forgets all values and keeps the accuracy.
    pub fn clear(&self) {
        self.0.lock().clear();
    }

    /// The sketch as whole numbers of 64 bits: five, and one for each bin that holds values. Exact.
    pub fn to_words(&self) -> Vec<u64> {
        self.0.lock().to_words()
    }

    /// Takes in all that another sketch holds, as if each of its values had been added here.
    pub fn merge(&self, other: &Self) -> Result<(), Invalid> {
        let other = &other.0.lock().clone();
        self.0.lock().merge(other).map_err(|error| argument(format!("other: {error}")))
    }

    /// Are they equal, to the last count?
    pub fn equals(&self, other: &Self) -> bool {
        let other = &other.0.lock().clone();
        self.0.lock().eq(other)
    }

    /// The sketch that these words are.
    #[uniffi::constructor]
    pub fn from_words(words: Vec<u64>) -> Result<Arc<Self>, Invalid> {
        match tidegate::DDSketch::from_words(&words) {
            Ok(sketch) => Ok(Arc::new(Self(Mutex::new(sketch)))),
            Err(error) => Err(argument(format!("words: {error}"))),
        }
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}
