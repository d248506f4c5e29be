//! What the awaitable asks of the event loop that runs it.

use pyo3::exceptions::PyKeyError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::ffi::Raised;
use crate::scope::{self, Globals};

/// Returns whether the running task is trio's. To stop an attempt there, a cancel scope must be entered before the attempt, so the
/// shell runs calls that have a timer.
#[inline(always)]
pub fn in_trio(py: Python<'_>, globals: &Globals) -> Result<bool, Raised> {
    static ASK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if !scope::has_module(py, globals, &globals.seen_for_trio, intern!(py, "trio"))? {
        return Ok(false);
    }
    let ask = || ASK.import(py, "tidegate._call.timers", "in_trio")?.call0()?.extract::<bool>();
    Ok(Python::attach(|_| ask())?)
}

/// Removes a call from the loop's timer. Returns false if the timer had removed it already.
pub fn forget(timers: &Bound<'_, PyAny>, call: u64) -> PyResult<bool> {
    let running = timers.getattr(intern!(timers.py(), "running"))?.cast_into::<PyDict>()?;
    match running.del_item(call) {
        Err(error) if error.is_instance_of::<PyKeyError>(timers.py()) => Ok(false),
        other => other.map(|()| true),
    }
}
