//! The arguments of a vectorcall.

use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::{Raised, owned};

/// The arguments of a call, as the interpreter passes them.
#[derive(Clone, Copy)]
pub struct Args<'a, 'py> {
    py: Python<'py>,
    /// Positional ones first, then the values of those with names.
    values: &'a [*mut ffi::PyObject],
    positional: usize,
    /// A tuple of names, or null.
    names: *mut ffi::PyObject,
}

impl<'py> Args<'_, 'py> {
    /// # Safety
    /// `values` are as many live objects as `positional` and the tuple `names` (or null) say, for as long as it lives.
    pub unsafe fn new(
        py: Python<'py>,
        values: *const *mut ffi::PyObject,
        positional: usize,
        names: *mut ffi::PyObject,
    ) -> Self {
        // SAFETY: `names` is null or a tuple, says the caller.
        let named = if names.is_null() { 0 } else { unsafe { ffi::PyTuple_Size(names) as usize } };
        let length = positional + named;
        // SAFETY: says the caller; a slice of nothing may not be null.
        let values = if length == 0 { &[] } else { unsafe { std::slice::from_raw_parts(values, length) } };
        let names = if named == 0 { ptr::null_mut() } else { names };
        Self { py, values, positional, names }
    }

    /// Positional arguments.
    pub fn tuple(&self) -> PyResult<Bound<'py, PyTuple>> {
        // SAFETY: the values are live objects.
        let borrow = |value: &*mut ffi::PyObject| unsafe { Bound::from_borrowed_ptr(self.py, *value) };
        PyTuple::new(self.py, self.values[..self.positional].iter().map(borrow))
    }

    /// Arguments with names; none where there are none.
    pub fn dict(&self) -> PyResult<Option<Bound<'py, PyDict>>> {
        if self.names.is_null() {
            return Ok(None);
        }
        let dict = PyDict::new(self.py);
        for (at, value) in self.values[self.positional..].iter().enumerate() {
            // SAFETY: `names` is a tuple with a name for each of these values, which are live.
            let (name, value) = unsafe {
                let name = ffi::PyTuple_GetItem(self.names, at as ffi::Py_ssize_t);
                (Bound::from_borrowed_ptr(self.py, name), Bound::from_borrowed_ptr(self.py, *value))
            };
            dict.set_item(name, value)?;
        }
        Ok(Some(dict))
    }

    /// Returns a positional argument by its index.
    pub fn positional(&self, index: usize) -> Option<Bound<'py, PyAny>> {
        let value = self.values[..self.positional].get(index)?;
        // SAFETY: the values are live objects.
        Some(unsafe { Bound::from_borrowed_ptr(self.py, *value) })
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Calls a function with them.
    #[inline(always)]
    pub fn call(&self, function: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Raised> {
        let f = function.as_ptr();
        let null = ptr::null_mut::<ffi::PyObject>();
        // SAFETY: `f` and the values are live; the list of arguments ends with a null.
        let result = unsafe {
            match (self.names.is_null(), self.values) {
                (true, []) => ffi::PyObject_CallNoArgs(f),
                (true, [a]) => ffi::PyObject_CallFunctionObjArgs(f, *a, null),
                (true, [a, b]) => ffi::PyObject_CallFunctionObjArgs(f, *a, *b, null),
                (true, [a, b, c]) => ffi::PyObject_CallFunctionObjArgs(f, *a, *b, *c, null),
                _ => {
                    let (args, kwargs) = (self.tuple()?, self.dict()?);
                    ffi::PyObject_Call(f, args.as_ptr(), kwargs.as_ref().map_or(null, Bound::as_ptr))
                }
            }
        };
        // SAFETY: that is what calls answer.
        unsafe { owned(self.py, result) }
    }
}
