//! The adaptive throttle.

use parking_lot::Mutex;
use pyo3::prelude::*;
use tidegate::ThrottleSettings;
use tidegate::rng::{self, Purpose};

use super::{Pairs, class, missing, time};
use crate::pairs::checked;

fn throttle(pairs: &Pairs) -> PyResult<ThrottleSettings> {
    checked("part", pairs)?.throttle().ok_or_else(missing)
}

/// Was a call of this class accepted? Neither yes nor no where it does not count.
#[pyfunction]
pub fn accepted(kind: &str) -> PyResult<Option<bool>> {
    Ok(tidegate::AdaptiveThrottle::accepted(class(kind)?))
}

/// The adaptive throttle.
#[pyclass(frozen, module = "tidegate._native")]
pub struct AdaptiveThrottle {
    seed: u64,
    inner: Mutex<Inner>,
}

#[derive(Clone)]
struct Inner {
    part: tidegate::AdaptiveThrottle,
    /// The call that the next draw belongs to.
    next: u64,
}

#[pymethods]
impl AdaptiveThrottle {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]", seed, now))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs, seed: u64, now: f64) -> PyResult<Self> {
        let part = tidegate::AdaptiveThrottle::new(throttle(&pairs)?, time(now)?);
        Ok(Self { seed, inner: Mutex::new(Inner { part, next: 0 }) })
    }

    /// The probability that a call is refused now.
    fn probability(&self, now: f64) -> PyResult<f64> {
        let now = time(now)?;
        Ok(self.inner.lock().part.probability(now))
    }

    /// May a call go through?
    fn admit(&self, now: f64, bits: Option<u64>) -> PyResult<bool> {
        let now = time(now)?;
        let mut it = self.inner.lock();
        let bits = bits.unwrap_or_else(|| {
            it.next = it.next.wrapping_add(1);
            rng::bits(self.seed, it.next.wrapping_sub(1), Purpose::Throttle, 0)
        });
        Ok(it.part.admit(bits, now))
    }

    /// A call that was let through has ended.
    fn record(&self, accepted: bool, now: f64) -> PyResult<()> {
        let now = time(now)?;
        self.inner.lock().part.record(accepted, now);
        Ok(())
    }

    /// Requests and accepts in the window.
    #[pyo3(signature = (now) -> "tuple[int, int]")]
    fn counts(&self, now: f64) -> PyResult<(u32, u32)> {
        let now = time(now)?;
        Ok(self.inner.lock().part.counts(now))
    }

    /// Is nothing in the window?
    fn is_fresh(&self, now: f64) -> PyResult<bool> {
        let now = time(now)?;
        Ok(self.inner.lock().part.is_fresh(now))
    }

    /// Goes on with other settings.
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]", now))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn retune(&self, pairs: Pairs, now: f64) -> PyResult<()> {
        let (to, now) = (throttle(&pairs)?, time(now)?);
        self.inner.lock().part.retune(to, now);
        Ok(())
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self { seed: self.seed, inner: Mutex::new(self.inner.lock().clone()) }
    }
}
