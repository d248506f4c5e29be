//! How much at once: the controllers of adaptive limits, and of a queue.

use parking_lot::Mutex;
use pyo3::prelude::*;
use tidegate::{AimdSettings, CodelSettings, Gradient2Settings};

use super::{Pairs, missing, moment, seconds, span, time};
use crate::pairs::checked;

fn aimd(pairs: &Pairs) -> PyResult<AimdSettings> {
    checked("part", pairs)?.aimd().ok_or_else(missing)
}

fn gradient2(pairs: &Pairs) -> PyResult<Gradient2Settings> {
    checked("part", pairs)?.gradient2().ok_or_else(missing)
}

fn codel(pairs: &Pairs) -> PyResult<CodelSettings> {
    checked("part", pairs)?.codel().ok_or_else(missing)
}

/// Additive increase, multiplicative decrease.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Aimd(Mutex<tidegate::Aimd>);

#[pymethods]
impl Aimd {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::Aimd::new(aimd(&pairs)?))))
    }

    /// Calls that may be in flight.
    fn limit(&self) -> u32 {
        self.0.lock().limit()
    }

    /// The limit with its fraction.
    fn exact(&self) -> f64 {
        self.0.lock().exact()
    }

    /// A call has ended well.
    fn on_latency(&self, latency: f64, now: f64) -> PyResult<()> {
        let (latency, now) = (span("latency", latency)?, time(now)?);
        self.0.lock().on_latency(latency, now);
        Ok(())
    }

    /// A call has failed.
    fn on_failure(&self, latency: f64, now: f64) -> PyResult<()> {
        let (latency, now) = (span("latency", latency)?, time(now)?);
        self.0.lock().on_failure(latency, now);
        Ok(())
    }

    /// A call was cut by a timeout.
    fn on_timeout(&self, now: f64) -> PyResult<()> {
        let now = time(now)?;
        self.0.lock().on_timeout(now);
        Ok(())
    }

    /// Is it as if new?
    fn is_fresh(&self, now: f64) -> PyResult<bool> {
        let now = time(now)?;
        Ok(self.0.lock().is_fresh(now))
    }

    /// Goes on with other settings.
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn retune(&self, pairs: Pairs) -> PyResult<()> {
        let to = aimd(&pairs)?;
        self.0.lock().retune(to);
        Ok(())
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

/// The gradient of latency.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Gradient2(Mutex<tidegate::Gradient2>);

#[pymethods]
impl Gradient2 {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::Gradient2::new(gradient2(&pairs)?))))
    }

    /// Calls that may be in flight.
    fn limit(&self) -> u32 {
        self.0.lock().limit()
    }

    /// The limit with its fraction.
    fn exact(&self) -> f64 {
        self.0.lock().exact()
    }

    /// The long-term latency in seconds, once there has been a sample.
    fn baseline(&self) -> Option<f64> {
        self.0.lock().baseline().map(|micros| micros / 1e6)
    }

    /// A call has ended well.
    fn on_latency(&self, rtt: f64, started: f64, in_flight: u32, now: f64) -> PyResult<()> {
        let (rtt, started, now) = (span("rtt", rtt)?, moment("started", started)?, time(now)?);
        self.0.lock().on_latency(rtt, started, in_flight, now);
        Ok(())
    }

    /// A call was cut by a timeout, or throttled.
    fn on_drop(&self, started: f64, in_flight: u32, now: f64) -> PyResult<()> {
        let (started, now) = (moment("started", started)?, time(now)?);
        self.0.lock().on_drop(started, in_flight, now);
        Ok(())
    }

    /// Is it as if new?
    fn is_fresh(&self) -> bool {
        self.0.lock().is_fresh()
    }

    /// Goes on with other settings.
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn retune(&self, pairs: Pairs) -> PyResult<()> {
        let to = gradient2(&pairs)?;
        self.0.lock().retune(to);
        Ok(())
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

/// Controlled delay.
#[pyclass(frozen, module = "tidegate._native")]
pub struct CoDel(Mutex<tidegate::CoDel>);

#[pymethods]
impl CoDel {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]", now))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs, now: f64) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::CoDel::new(codel(&pairs)?, time(now)?))))
    }

    /// The queue has just been seen empty.
    fn on_empty(&self, now: f64) -> PyResult<()> {
        let now = time(now)?;
        self.0.lock().on_empty(now);
        Ok(())
    }

    /// Has the queue not been empty for a whole interval?
    fn congested(&self, now: f64) -> PyResult<bool> {
        let now = time(now)?;
        Ok(self.0.lock().congested(now))
    }

    /// Seconds that a waiter of scale 1 may have waited.
    fn allowance(&self, now: f64) -> PyResult<f64> {
        let now = time(now)?;
        Ok(seconds(self.0.lock().allowance(now)))
    }

    /// Is the waiter at hand shed?
    fn should_shed(&self, sojourn: f64, scale: f64, now: f64) -> PyResult<bool> {
        let (sojourn, now) = (span("sojourn", sojourn)?, time(now)?);
        Ok(self.0.lock().should_shed(sojourn, scale, now))
    }

    /// Goes on with other settings.
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn retune(&self, pairs: Pairs) -> PyResult<()> {
        let to = codel(&pairs)?;
        self.0.lock().retune(to);
        Ok(())
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}
