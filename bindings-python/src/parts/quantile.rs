// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Estimators of quantiles in bounded memory: what latency do 95 % of the calls not exceed?

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::{PyResult, pyclass, pymethods};

/// One quantile of all values so far, from five markers: the P² algorithm (`docs/spec.md`, 9.1).
#[pyclass(frozen, module = "tidegate._native")]
pub struct P2Quantile(pub(super) Mutex<tidegate::P2Quantile>);

#[pymethods]
impl P2Quantile {
    #[new]
    fn new(p: f64) -> Self {
        Self(Mutex::new(tidegate::P2Quantile::new(p)))
    }

    /// Adds one value. NaN and the infinities are ignored.
    fn observe(&self, x: f64) {
        self.0.lock().observe(x);
    }

    /// The estimate; `None` before the first value.
    fn estimate(&self) -> Option<f64> {
        self.0.lock().estimate()
    }

    /// Number of values.
    fn count(&self) -> u64 {
        self.0.lock().count()
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

/// One quantile of the last ½ to 1 windows, whatever came before (`docs/spec.md`, 9.2).
#[pyclass(frozen, module = "tidegate._native")]
pub struct WindowedP2Quantile(pub(super) Mutex<tidegate::WindowedP2Quantile>);

#[pymethods]
impl WindowedP2Quantile {
    #[new]
    fn new(p: f64, window: u32) -> Self {
        Self(Mutex::new(tidegate::WindowedP2Quantile::new(p, window)))
    }

    /// Adds one value. NaN and the infinities are ignored.
    fn observe(&self, x: f64) {
        self.0.lock().observe(x);
    }

    /// The estimate; `None` before the first value, exact below five.
    fn estimate(&self) -> Option<f64> {
        self.0.lock().estimate()
    }

    /// Number of values behind the estimate.
    fn count(&self) -> u32 {
        self.0.lock().count()
    }

    /// Forgets all values.
    fn reset(&self) {
        self.0.lock().reset();
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

/// All quantiles within a relative accuracy, and sketches that can be merged (`docs/spec.md`, 9.3).
#[pyclass(frozen, module = "tidegate._native")]
pub struct DDSketch(pub(super) Mutex<tidegate::DDSketch>);

#[pymethods]
impl DDSketch {
    #[new]
    fn new(alpha: f64) -> Self {
        Self(Mutex::new(tidegate::DDSketch::new(alpha)))
    }

    /// Adds one value. NaN and the infinities are ignored.
    fn add(&self, x: f64) {
        self.0.lock().add(x);
    }

    /// Estimate of the value of rank ⌊q·(count − 1)⌋, counted from 0: 0 is the least, 1 the greatest.
    fn quantile(&self, q: f64) -> Option<f64> {
        self.0.lock().quantile(q)
    }

    /// Number of values.
    fn count(&self) -> u64 {
        self.0.lock().count()
    }

    /// The sum of the values, in the order in which they came.
    fn sum(&self) -> f64 {
        self.0.lock().sum()
    }

    /// The least value, exactly; `None` of an empty sketch.
    fn min(&self) -> Option<f64> {
        self.0.lock().min()
    }

    /// The greatest value, exactly; `None` of an empty sketch.
    fn max(&self) -> Option<f64> {
        self.0.lock().max()
    }

    /// The relative accuracy that is kept: at most what was asked for.
    fn alpha(&self) -> f64 {
        self.0.lock().alpha()
    }

    /// (1 + alpha)/(1 − alpha): no bin is wider. Sketches of the same gamma can be merged.
    fn gamma(&self) -> f64 {
        self.0.lock().gamma()
    }

    /// Forgets all values and keeps the accuracy.
    fn clear(&self) {
        self.0.lock().clear();
    }

    /// The sketch as whole numbers of 64 bits: five, and one for each bin that holds values. Exact.
    #[pyo3(signature = () -> "list[int]")]
    fn to_words(&self) -> Vec<u64> {
        self.0.lock().to_words()
    }

    /// Takes in all that another sketch holds, as if each of its values had been added here.
    fn merge(&self, other: &Self) -> PyResult<()> {
        let other = &other.0.lock().clone();
        self.0.lock().merge(other).map_err(|error| PyValueError::new_err(format!("other: {error}")))
    }

    /// Are they equal, to the last count?
    fn equals(&self, other: &Self) -> bool {
        let other = &other.0.lock().clone();
        self.0.lock().eq(other)
    }

    /// The sketch that these words are.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn from_words(words: Vec<u64>) -> PyResult<Self> {
        match tidegate::DDSketch::from_words(&words) {
            Ok(sketch) => Ok(Self(Mutex::new(sketch))),
            Err(error) => Err(PyValueError::new_err(format!("words: {error}"))),
        }
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}
