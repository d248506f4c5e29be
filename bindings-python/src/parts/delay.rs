// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Delays: the backoff, and what a server asks for.

use super::{Pairs, seconds, settings};
use parking_lot::Mutex;
use pyo3::{PyResult, pyclass, pyfunction, pymethods};
use tidegate::parts::Drawn;

/// The delay before retry n = 1, 2, …: growth, cap, jitter.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Backoff(pub(super) Mutex<Drawn<tidegate::Backoff>>);

#[pymethods]
impl Backoff {
    #[new]
    fn new(pairs: Pairs, seed: u64) -> PyResult<Self> {
        Ok(Self(Mutex::new(Drawn::new(settings(pairs, |policy| Some(policy.backoff()))?, seed))))
    }

    /// How long to wait before retry `n`, 1 to 255.
    fn delay(&self, n: u8, call: Option<u64>) -> f64 {
        seconds(self.0.lock().delay(n, call))
    }

    /// How long before retry `n`, 1 to 255, without jitter.
    fn ceiling(&self, n: u8) -> f64 {
        seconds(self.0.lock().ceiling(n))
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

/// Seconds that a `Retry-After` value asks for, or None; `wall_us` is the Unix time.
#[pyfunction]
pub fn parse_retry_after(value: &[u8], wall_us: u64) -> Option<f64> {
    tidegate::parse_retry_after(value, tidegate::WallTime::from_unix_micros(wall_us)).map(seconds)
}
