// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! How fast: rate limits, and the cubic send rate.

use super::{Pairs, moment, settings, until};
use parking_lot::Mutex;
use pyo3::{PyResult, pyclass, pymethods};

/// A rate and a burst: a bucket that starts full and refills continuously (`docs/spec.md`, 3.1).
#[pyclass(frozen, module = "tidegate._native")]
pub struct TokenBucket(pub(super) Mutex<tidegate::TokenBucket>);

#[pymethods]
impl TokenBucket {
    #[new]
    fn new(pairs: Pairs, now: f64) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::TokenBucket::new(
            settings(pairs, tidegate::Policy::rate)?,
            moment("now", now)?,
        ))))
    }

    /// Takes `cost` tokens (0 to 2^32 − 1), if there are enough. A cost of 0 is always granted.
    fn try_take(&self, now: f64, cost: u32) -> PyResult<bool> {
        let now = moment("now", now)?;
        Ok(self.0.lock().try_take(cost, now).is_ok())
    }

    /// Takes `cost` tokens, or takes none and says when to come back.
    fn acquire(&self, now: f64, cost: u32) -> PyResult<f64> {
        let now = moment("now", now)?;
        Ok(self.0.lock().try_take(cost, now).err().map_or(0.0, until))
    }

    /// How long until `tokens` in all (0 to 2^64 − 1) will have flowed in beyond what is used; takes none.
    fn wait_for(&self, now: f64, tokens: u64) -> PyResult<f64> {
        let now = moment("now", now)?;
        Ok(until(self.0.lock().wait_for(tokens, now)))
    }

    /// Whole tokens that are available now.
    fn level(&self, now: f64) -> PyResult<u32> {
        let now = moment("now", now)?;
        Ok(self.0.lock().level(now))
    }

    /// Whether it is full, as a new one is.
    fn is_fresh(&self, now: f64) -> PyResult<bool> {
        let now = moment("now", now)?;
        Ok(self.0.lock().is_fresh(now))
    }

    /// Applies new settings.
    fn retune(&self, pairs: Pairs, now: f64) -> PyResult<()> {
        let to = settings(pairs, tidegate::Policy::rate)?;
        let now = moment("now", now)?;
        self.0.lock().retune(to, now);
        Ok(())
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

/// The same rate limit kept as one moment: the generic cell rate algorithm (`docs/spec.md`, 3.3).
#[pyclass(frozen, module = "tidegate._native")]
pub struct Gcra(pub(super) Mutex<tidegate::Gcra>);

#[pymethods]
impl Gcra {
    #[new]
    fn new(pairs: Pairs) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::Gcra::new(settings(pairs, tidegate::Policy::rate)?))))
    }

    /// Takes `cost` tokens (0 to 2^32 − 1), if there are enough. A cost of 0 is always granted.
    fn try_take(&self, now: f64, cost: u32) -> PyResult<bool> {
        let now = moment("now", now)?;
        Ok(self.0.lock().try_take(cost, now).is_ok())
    }

    /// Takes `cost` tokens, or takes none and says when to come back.
    fn acquire(&self, now: f64, cost: u32) -> PyResult<f64> {
        let now = moment("now", now)?;
        Ok(self.0.lock().try_take(cost, now).err().map_or(0.0, until))
    }

    /// Whether it is full, as a new one is.
    fn is_fresh(&self, now: f64) -> PyResult<bool> {
        let now = moment("now", now)?;
        Ok(self.0.lock().is_fresh(now))
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

/// A send rate that throttles cut, and that grows back along a cubic curve (the AWS SDKs' adaptive mode).
#[pyclass(frozen, module = "tidegate._native")]
pub struct CubicRate(pub(super) Mutex<tidegate::CubicRate>);

#[pymethods]
impl CubicRate {
    #[new]
    fn new(now: f64) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::CubicRate::new(moment("now", now)?))))
    }

    /// Takes one send: 0, or the time to wait before asking again.
    fn acquire(&self, now: f64) -> PyResult<f64> {
        let now = moment("now", now)?;
        Ok(self.0.lock().acquire(now).err().map_or(0.0, until))
    }

    /// Counts an answer: a throttled one cuts the rate, any other lets it grow.
    fn on_response(&self, throttled: bool, now: f64) -> PyResult<()> {
        let now = moment("now", now)?;
        self.0.lock().on_response(throttled, now);
        Ok(())
    }

    /// Sends per second that are allowed; `None` before the first throttle.
    fn rate(&self) -> Option<f64> {
        self.0.lock().rate()
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}
