//! How fast: rate limits, and the cubic send rate.

use parking_lot::Mutex;
use pyo3::prelude::*;
use tidegate::RateSettings;

use super::{Pairs, missing, seconds, time, until};
use crate::pairs::checked;

/// The settings of a rate limit.
fn rate(pairs: &Pairs) -> PyResult<RateSettings> {
    checked("part", pairs)?.rate().ok_or_else(missing)
}

/// The token bucket.
#[pyclass(frozen, module = "tidegate._native")]
pub struct TokenBucket(Mutex<tidegate::TokenBucket>);

#[pymethods]
impl TokenBucket {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]", now))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs, now: f64) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::TokenBucket::new(rate(&pairs)?, time(now)?))))
    }

    /// Takes tokens: 0, or the seconds until there are enough.
    fn acquire(&self, now: f64, cost: u32) -> PyResult<f64> {
        let now = time(now)?;
        Ok(self.0.lock().try_take(cost, now).err().map_or(0.0, until))
    }

    /// Takes tokens, if there are enough.
    fn try_take(&self, now: f64, cost: u32) -> PyResult<bool> {
        let now = time(now)?;
        Ok(self.0.lock().try_take(cost, now).is_ok())
    }

    /// Seconds until tokens in all will have flowed in beyond what is used.
    fn wait_for(&self, now: f64, tokens: u64) -> PyResult<f64> {
        let now = time(now)?;
        Ok(until(self.0.lock().wait_for(tokens, now)))
    }

    /// Whole tokens that are there now.
    fn level(&self, now: f64) -> PyResult<u32> {
        let now = time(now)?;
        Ok(self.0.lock().level(now))
    }

    /// Is it full, as a new one is?
    fn is_fresh(&self, now: f64) -> PyResult<bool> {
        let now = time(now)?;
        Ok(self.0.lock().is_fresh(now))
    }

    /// Goes on with other settings.
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]", now))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn retune(&self, pairs: Pairs, now: f64) -> PyResult<()> {
        let (to, now) = (rate(&pairs)?, time(now)?);
        self.0.lock().retune(to, now);
        Ok(())
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

/// The generic cell rate algorithm.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Gcra(Mutex<tidegate::Gcra>);

#[pymethods]
impl Gcra {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::Gcra::new(rate(&pairs)?))))
    }

    /// Takes tokens: 0, or the seconds until there are enough.
    fn acquire(&self, now: f64, cost: u32) -> PyResult<f64> {
        let now = time(now)?;
        Ok(self.0.lock().try_take(cost, now).err().map_or(0.0, until))
    }

    /// Takes tokens, if there are enough.
    fn try_take(&self, now: f64, cost: u32) -> PyResult<bool> {
        let now = time(now)?;
        Ok(self.0.lock().try_take(cost, now).is_ok())
    }

    /// Is it full, as a new one is?
    fn is_fresh(&self, now: f64) -> PyResult<bool> {
        let now = time(now)?;
        Ok(self.0.lock().is_fresh(now))
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self(Mutex::new(*self.0.lock()))
    }
}

/// The cubic send rate.
#[pyclass(frozen, module = "tidegate._native")]
pub struct CubicRate(Mutex<tidegate::CubicRate>);

#[pymethods]
impl CubicRate {
    #[new]
    fn new(now: f64) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::CubicRate::new(time(now)?))))
    }

    /// Takes one send: 0, or the seconds until there is one.
    fn acquire(&self, now: f64) -> PyResult<f64> {
        let now = time(now)?;
        Ok(self.0.lock().acquire(now).err().map_or(0.0, seconds))
    }

    /// Counts an answer and moves the rate.
    fn on_response(&self, throttled: bool, now: f64) -> PyResult<()> {
        let now = time(now)?;
        self.0.lock().on_response(throttled, now);
        Ok(())
    }

    /// Sends per second that are allowed, once there has been a throttle.
    fn rate(&self) -> Option<f64> {
        self.0.lock().rate()
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self(Mutex::new(*self.0.lock()))
    }
}
