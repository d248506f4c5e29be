//! Delays: the backoff, and what a server asks for.

use parking_lot::Mutex;
use pyo3::prelude::*;
use tidegate::WallTime;
use tidegate::rng::{self, Purpose};

use super::{Pairs, seconds};
use crate::pairs::checked;

/// Seconds that a `Retry-After` value asks for, or None; `wall_us` is the Unix time.
#[pyfunction]
pub fn parse_retry_after(value: &[u8], wall_us: u64) -> Option<f64> {
    tidegate::parse_retry_after(value, WallTime::from_unix_micros(wall_us)).map(seconds)
}

/// Delays between attempts.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Backoff {
    pub(super) inner: tidegate::Backoff,
    seed: u64,
    /// The call that the next draw without a call of its own belongs to.
    next: Mutex<u64>,
}

#[pymethods]
impl Backoff {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]", seed))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs, seed: u64) -> PyResult<Self> {
        Ok(Self { inner: checked("part", &pairs)?.backoff(), seed, next: Mutex::new(0) })
    }

    /// Seconds before retry `n`.
    #[pyo3(signature = (n, call = None))]
    fn delay(&self, n: u8, call: Option<u64>) -> f64 {
        let call = call.unwrap_or_else(|| {
            let mut next = self.next.lock();
            *next = next.wrapping_add(1);
            next.wrapping_sub(1)
        });
        seconds(self.inner.nth_delay(u32::from(n), |i| rng::bits(self.seed, call, Purpose::Backoff, i as u8)))
    }

    /// Seconds before retry `n` without jitter.
    fn ceiling(&self, n: u8) -> f64 {
        seconds(self.inner.ceiling(u32::from(n)))
    }

    /// Another that draws the same delays from here on.
    fn copy(&self) -> Self {
        Self { inner: self.inner, seed: self.seed, next: Mutex::new(*self.next.lock()) }
    }
}
