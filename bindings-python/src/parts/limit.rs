// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! How much at once: the controllers of adaptive limits, and of a queue.

use super::{Pairs, moment, seconds, settings, span};
use parking_lot::Mutex;
use pyo3::{PyResult, pyclass, pymethods};

/// A concurrency limit that grows while a latency is kept, and shrinks by a factor when it is not.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Aimd(pub(super) Mutex<tidegate::Aimd>);

#[pymethods]
impl Aimd {
    #[new]
    fn new(pairs: Pairs) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::Aimd::new(settings(pairs, tidegate::Policy::aimd)?))))
    }

    /// Calls that may be in flight.
    fn limit(&self) -> u32 {
        self.0.lock().limit()
    }

    /// The limit with the fraction that it keeps inside.
    fn exact(&self) -> f64 {
        self.0.lock().exact()
    }

    /// A call has ended well, after `latency`: 0 or more.
    fn on_latency(&self, latency: f64, now: f64) -> PyResult<()> {
        let latency = span("latency", latency)?;
        let now = moment("now", now)?;
        self.0.lock().on_latency(latency, now);
        Ok(())
    }

    /// A call has failed after `latency`. Only a failure slower than the threshold counts, as a breach.
    fn on_failure(&self, latency: f64, now: f64) -> PyResult<()> {
        let latency = span("latency", latency)?;
        let now = moment("now", now)?;
        self.0.lock().on_failure(latency, now);
        Ok(())
    }

    /// A call was stopped by its timeout, which is a breach whatever the quantile is.
    fn on_timeout(&self, now: f64) -> PyResult<()> {
        let now = moment("now", now)?;
        self.0.lock().on_timeout(now);
        Ok(())
    }

    /// Whether it is as new: at its maximum, with no recent cut and no estimate.
    fn is_fresh(&self, now: f64) -> PyResult<bool> {
        let now = moment("now", now)?;
        Ok(self.0.lock().is_fresh(now))
    }

    /// Applies new settings.
    fn retune(&self, pairs: Pairs) -> PyResult<()> {
        let to = settings(pairs, tidegate::Policy::aimd)?;
        self.0.lock().retune(to);
        Ok(())
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

/// A concurrency limit that finds the knee of the latency curve by itself (`docs/spec.md`, 4.3).
#[pyclass(frozen, module = "tidegate._native")]
pub struct Gradient2(pub(super) Mutex<tidegate::Gradient2>);

#[pymethods]
impl Gradient2 {
    #[new]
    fn new(pairs: Pairs) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::Gradient2::new(settings(pairs, tidegate::Policy::gradient2)?))))
    }

    /// Calls that may be in flight.
    fn limit(&self) -> u32 {
        self.0.lock().limit()
    }

    /// The limit with the fraction that it keeps inside.
    fn exact(&self) -> f64 {
        self.0.lock().exact()
    }

    /// The long-term latency in seconds; `None` before the first sample.
    fn baseline(&self) -> Option<f64> {
        self.0.lock().baseline().map(|micros| micros / 1e6)
    }

    /// A call has ended well.
    fn on_latency(&self, rtt: f64, started: f64, in_flight: u32, now: f64) -> PyResult<()> {
        let rtt = span("rtt", rtt)?;
        let started = moment("started", started)?;
        let now = moment("now", now)?;
        self.0.lock().on_latency(rtt, started, in_flight, now);
        Ok(())
    }

    /// A call was stopped by its timeout, or throttled by the server. `plain` and `netflix` ignore it.
    fn on_drop(&self, started: f64, in_flight: u32, now: f64) -> PyResult<()> {
        let started = moment("started", started)?;
        let now = moment("now", now)?;
        self.0.lock().on_drop(started, in_flight, now);
        Ok(())
    }

    /// Whether it is as new: before its first sample or drop.
    fn is_fresh(&self) -> bool {
        self.0.lock().is_fresh()
    }

    /// Applies new settings.
    fn retune(&self, pairs: Pairs) -> PyResult<()> {
        let to = settings(pairs, tidegate::Policy::gradient2)?;
        self.0.lock().retune(to);
        Ok(())
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

/// Decides at dequeue whether a waiter is served or shed: controlled delay (`docs/spec.md`, 4.4).
#[pyclass(frozen, module = "tidegate._native")]
pub struct CoDel(pub(super) Mutex<tidegate::CoDel>);

#[pymethods]
impl CoDel {
    #[new]
    fn new(pairs: Pairs, now: f64) -> PyResult<Self> {
        Ok(Self(Mutex::new(tidegate::CoDel::new(
            settings(pairs, tidegate::Policy::codel)?,
            moment("now", now)?,
        ))))
    }

    /// The queue is empty: before a waiter comes, or after the last one has left.
    fn on_empty(&self, now: f64) -> PyResult<()> {
        let now = moment("now", now)?;
        self.0.lock().on_empty(now);
        Ok(())
    }

    /// Whether to shed this waiter. Ask once for each waiter that is taken out.
    fn should_shed(&self, sojourn: f64, now: f64, scale: f64) -> PyResult<bool> {
        let sojourn = span("sojourn", sojourn)?;
        let now = moment("now", now)?;
        Ok(self.0.lock().should_shed(sojourn, scale, now))
    }

    /// Whether the queue has not been empty for a whole interval; then serve the newest waiter first.
    fn congested(&self, now: f64) -> PyResult<bool> {
        let now = moment("now", now)?;
        Ok(self.0.lock().congested(now))
    }

    /// How long that a waiter of scale 1 may have waited, under the law of `facebook`.
    fn allowance(&self, now: f64) -> PyResult<f64> {
        let now = moment("now", now)?;
        Ok(seconds(self.0.lock().allowance(now)))
    }

    /// Applies new settings.
    fn retune(&self, pairs: Pairs) -> PyResult<()> {
        let to = settings(pairs, tidegate::Policy::codel)?;
        self.0.lock().retune(to);
        Ok(())
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}
