//! Estimators of quantiles.

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// P².
#[pyclass(frozen, module = "tidegate._native")]
pub struct P2Quantile(Mutex<tidegate::P2Quantile>);

#[pymethods]
impl P2Quantile {
    #[new]
    fn new(p: f64) -> Self {
        Self(Mutex::new(tidegate::P2Quantile::new(p)))
    }

    /// Takes in one value.
    fn observe(&self, x: f64) {
        self.0.lock().observe(x);
    }

    /// The estimate, once there is a value.
    fn estimate(&self) -> Option<f64> {
        self.0.lock().estimate()
    }

    /// How many values have been taken in.
    fn count(&self) -> u64 {
        self.0.lock().count()
    }

    /// Heights and ranks of the five markers, once there are five values.
    #[pyo3(signature = () -> "tuple[list[float], list[int]] | None")]
    fn markers(&self) -> Option<([f64; 5], [u64; 5])> {
        self.0.lock().markers()
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

/// P² that forgets.
#[pyclass(frozen, module = "tidegate._native")]
pub struct WindowedP2Quantile(Mutex<tidegate::WindowedP2Quantile>);

#[pymethods]
impl WindowedP2Quantile {
    #[new]
    fn new(p: f64, window: u32) -> Self {
        Self(Mutex::new(tidegate::WindowedP2Quantile::new(p, window)))
    }

    /// Takes in one value.
    fn observe(&self, x: f64) {
        self.0.lock().observe(x);
    }

    /// The estimate, once there is a value.
    fn estimate(&self) -> Option<f64> {
        self.0.lock().estimate()
    }

    /// How many values are behind the estimate.
    fn count(&self) -> u32 {
        self.0.lock().count()
    }

    /// Forgets all.
    fn reset(&self) {
        self.0.lock().reset();
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

/// All quantiles within a relative accuracy.
#[pyclass(frozen, module = "tidegate._native")]
pub struct DDSketch(Mutex<tidegate::DDSketch>);

#[pymethods]
impl DDSketch {
    #[new]
    fn new(alpha: f64) -> Self {
        Self(Mutex::new(tidegate::DDSketch::new(alpha)))
    }

    /// The sketch that these words are.
    #[staticmethod]
    #[pyo3(signature = (words: "list[int]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn from_words(words: Vec<u64>) -> PyResult<Self> {
        match tidegate::DDSketch::from_words(&words) {
            Ok(sketch) => Ok(Self(Mutex::new(sketch))),
            Err(error) => Err(PyValueError::new_err(format!("words: {error}"))),
        }
    }

    /// The sketch as words of 64 bits.
    #[pyo3(signature = () -> "list[int]")]
    fn to_words(&self) -> Vec<u64> {
        self.0.lock().to_words()
    }

    /// Takes in one value.
    fn add(&self, x: f64) {
        self.0.lock().add(x);
    }

    /// Takes in all that another sketch holds.
    fn merge(&self, other: &Self) -> PyResult<()> {
        // A copy, so that two threads that merge two sketches into each other never hold one lock and want the other.
        let other = other.0.lock().clone();
        let merged = self.0.lock().merge(&other);
        merged.map_err(|error| PyValueError::new_err(format!("other: {error}")))
    }

    /// What stands for the value of this quantile, if there is any.
    fn quantile(&self, q: f64) -> Option<f64> {
        self.0.lock().quantile(q)
    }

    /// How many values have been taken in.
    fn count(&self) -> u64 {
        self.0.lock().count()
    }

    /// The sum of the values.
    fn sum(&self) -> f64 {
        self.0.lock().sum()
    }

    /// The least value, exactly.
    fn min(&self) -> Option<f64> {
        self.0.lock().min()
    }

    /// The greatest value, exactly.
    fn max(&self) -> Option<f64> {
        self.0.lock().max()
    }

    /// The relative accuracy that is kept.
    fn alpha(&self) -> f64 {
        self.0.lock().alpha()
    }

    /// No bin is wider than this ratio.
    fn gamma(&self) -> f64 {
        self.0.lock().gamma()
    }

    /// Forgets all values.
    fn clear(&self) {
        self.0.lock().clear();
    }

    /// Are they equal, to the last count?
    fn equals(&self, other: &Self) -> bool {
        let other = other.0.lock().clone();
        *self.0.lock() == other
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}
