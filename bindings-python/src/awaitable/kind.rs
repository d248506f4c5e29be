//! The type of awaitables, made at its first use.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::slots;
use crate::ffi::{Raised, is_exactly};
use crate::scope::Globals;

static KIND: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The type of awaitables.
#[inline(always)]
pub fn kind(py: Python<'_>) -> Result<&'static Py<PyType>, Raised> {
    match KIND.get(py) {
        Some(kind) => Ok(kind),
        None => Ok(KIND.get_or_try_init(py, || slots::make_type(py).map(Bound::unbind))?),
    }
}

/// Returns whether the value is a coroutine of Python's or an awaitable of ours. Before our type is made, none of ours exists.
#[inline(always)]
pub fn is_coroutine(value: &Bound<'_, PyAny>, globals: &Globals) -> bool {
    is_exactly(value, &globals.coroutine) || KIND.get(value.py()).is_some_and(|kind| is_exactly(value, kind))
}

/// The type of what `acall` returns.
#[pyfunction]
#[pyo3(signature = () -> "type")]
pub fn awaitable_type(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    Ok(kind(py).map_err(|raised| raised.take(py))?.bind(py).clone())
}
