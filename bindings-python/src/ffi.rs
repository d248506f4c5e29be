//! Helpers for types and slots written against the interpreter's C API: calls, pending exceptions, types, objects. They
//! are independent of engines.
//!
//! Reference counts: dropping a `Bound` decrements at once. Dropping a `PyErr` or `Py` does so only while `PyO3` knows that
//! the thread is attached, which is not so inside a raw slot. Code there that may drop one must run in `Python::attach`.

mod args;

use std::ffi::{CStr, c_int, c_ulong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

pub use args::Args;

/// An exception is set in the interpreter: how the happy path says it, which a `PyErr` would make twice as wide.
pub struct Raised;

impl From<PyErr> for Raised {
    #[cold]
    fn from(error: PyErr) -> Self {
        Python::attach(|py| error.restore(py));
        Self
    }
}

impl Raised {
    /// The exception itself, taken back from the interpreter.
    #[cold]
    #[allow(clippy::unused_self)] // it stands for what is taken
    pub fn take(self, py: Python<'_>) -> PyErr {
        PyErr::fetch(py)
    }
}

/// What a function of the interpreter answers.
///
/// # Safety
/// A new reference, or null with an exception set.
#[inline(always)]
pub unsafe fn owned(py: Python<'_>, object: *mut ffi::PyObject) -> Result<Bound<'_, PyAny>, Raised> {
    // SAFETY: says the caller.
    unsafe { Bound::from_owned_ptr_or_opt(py, object) }.ok_or(Raised)
}

/// Calls a function without arguments.
#[inline(always)]
pub fn call0<'py>(function: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Raised> {
    // SAFETY: a live object, and what a call answers.
    unsafe { owned(function.py(), ffi::PyObject_CallNoArgs(function.as_ptr())) }
}

/// Calls a function with one argument.
#[inline(always)]
pub fn call1<'py>(
    function: &Bound<'py, PyAny>,
    argument: &Bound<'py, PyAny>,
) -> Result<Bound<'py, PyAny>, Raised> {
    let null = ptr::null_mut::<ffi::PyObject>();
    // SAFETY: live objects, a list that ends with a null, and what a call answers.
    unsafe {
        let called = ffi::PyObject_CallFunctionObjArgs(function.as_ptr(), argument.as_ptr(), null);
        owned(function.py(), called)
    }
}

/// Calls a function with a tuple and a dict.
pub fn call_with<'py>(
    function: &Bound<'py, PyAny>,
    args: Option<&Bound<'py, PyAny>>,
    kwargs: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>, Raised> {
    let py = function.py();
    let kwargs = kwargs.map_or(ptr::null_mut(), Bound::as_ptr);
    // SAFETY: live objects, a tuple and a dict (or null), as the awaitable keeps them.
    let result = unsafe {
        match args {
            None if kwargs.is_null() => ffi::PyObject_CallNoArgs(function.as_ptr()),
            None => ffi::PyObject_Call(function.as_ptr(), PyTuple::empty(py).as_ptr(), kwargs),
            Some(args) => ffi::PyObject_Call(function.as_ptr(), args.as_ptr(), kwargs),
        }
    };
    // SAFETY: that is what calls answer.
    unsafe { owned(py, result) }
}

/// Sets a context variable through its methods `set` and `reset`, runs a closure, and restores the variable.
pub fn set_while<'py, T>(
    set: &Bound<'py, PyAny>,
    reset: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
    run: impl FnOnce() -> Result<T, Raised>,
) -> Result<T, Raised> {
    let py = value.py();
    let token = call1(set, value)?;
    let result = run();
    let error = if result.is_err() { PyErr::take(py) } else { None };
    let reset = call1(reset, &token);
    if let Some(error) = error {
        error.restore(py);
    }
    reset.and(result)
}

/// Runs what a slot does. A panic, which would be a bug, becomes an exception.
#[inline(always)]
pub fn guarded<T>(work: impl FnOnce() -> Result<T, Raised>) -> Result<T, Raised> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(PyRuntimeError::new_err("tidegate: a bug in the native half").into()))
}

/// A new object of a type that `make_type` has made, zeroed.
pub fn new_object<'py>(kind: &Bound<'py, PyType>) -> Result<Bound<'py, PyAny>, Raised> {
    // SAFETY: a type, and what its allocator answers.
    unsafe { owned(kind.py(), ffi::PyType_GenericAlloc(kind.as_ptr().cast(), 0)) }
}

/// Is it an object of exactly this type?
#[inline(always)]
pub fn is_exactly(value: &Bound<'_, PyAny>, kind: &Py<PyType>) -> bool {
    // SAFETY: a live object.
    unsafe { ffi::Py_TYPE(value.as_ptr()).cast() == kind.as_ptr() }
}

/// A type whose objects begin with `T`, which begins with a `PyObject`.
///
/// # Safety
/// The slots are functions for objects of this type, and what they point to lives for ever; the last one is the default.
pub unsafe fn make_type<'py, T>(
    py: Python<'py>,
    name: &'static CStr,
    flags: c_ulong,
    slots: &mut [ffi::PyType_Slot],
) -> PyResult<Bound<'py, PyType>> {
    let mut spec = ffi::PyType_Spec {
        name: name.as_ptr(),
        basicsize: size_of::<T>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | flags) as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the spec describes `T`, says the caller; its name lives for ever, the rest is copied.
    let kind = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec))? };
    kind.cast_into::<PyType>().map_err(PyErr::from)
}

/// A slot of a type.
pub fn slot(slot: c_int, function: *mut c_void) -> ffi::PyType_Slot {
    ffi::PyType_Slot { slot, pfunc: function }
}

/// Visits the type of an object, as one of a type on the heap does from Python 3.9 on, and what it holds.
///
/// # Safety
/// As of a slot for `tp_traverse`; the references are null or live.
pub unsafe fn visit_all(
    me: *mut ffi::PyObject,
    held: impl IntoIterator<Item = *mut ffi::PyObject>,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: says the caller.
    unsafe {
        let kind = ffi::Py_TYPE(me).cast();
        for reference in std::iter::once(kind).chain(held).filter(|reference| !reference.is_null()) {
            match visit(reference, arg) {
                0 => {}
                stop => return stop,
            }
        }
    }
    0
}

/// Frees an object that the garbage collector knows. A type on the heap is counted by its objects.
///
/// # Safety
/// As of a slot for `tp_dealloc`; `clear` lets go of what the object holds.
pub unsafe fn free(me: *mut ffi::PyObject, clear: unsafe extern "C" fn(*mut ffi::PyObject) -> c_int) {
    // SAFETY: says the caller.
    unsafe {
        let kind = ffi::Py_TYPE(me);
        ffi::PyObject_GC_UnTrack(me.cast());
        clear(me);
        ffi::PyObject_GC_Del(me.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

/// A scope, or None.
pub fn or_none<'py>(py: Python<'py>, scope: Option<Bound<'py, PyAny>>) -> Bound<'py, PyAny> {
    scope.unwrap_or_else(|| py.None().into_bound(py))
}
