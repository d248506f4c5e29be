//! The slots of awaitables, and their type. The interpreter calls slots attached, with a live object of our type as the
//! first argument.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use pyo3::exceptions::{PyBaseException, PyStopIteration, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple, PyType};
use pyo3::{ffi, intern};

use super::{Busy, Call, Phase, Ref, Sent, This};
#[cfg(not(Py_GIL_DISABLED))]
use crate::ffi::free;
use crate::ffi::{Raised, guarded, make_type as new_type, slot, visit_all};

/// Runs `work` on an awaitable that nobody else drives.
///
/// # Safety
/// As of a slot.
unsafe fn driving<'py, T>(
    me: *mut ffi::PyObject,
    work: impl FnOnce(This<'_, 'py>) -> Result<T, Raised>,
) -> Result<T, Raised> {
    guarded(|| {
        // SAFETY: says the caller.
        let (me, call) =
            unsafe { (Bound::from_borrowed_ptr(Python::assume_attached(), me), &*me.cast::<Call>()) };
        let Some(_busy) = Busy::take(call) else {
            return Err(PyValueError::new_err("coroutine already executing").into());
        };
        work(This { me: &me, call })
    })
}

unsafe extern "C" fn send_slot(
    me: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    // SAFETY: as of a slot; `result` is where the answer goes.
    unsafe {
        let sent = driving(me, |this| this.send(&Bound::from_borrowed_ptr(this.py(), value)));
        let (kind, value) = match sent {
            Ok(Sent::Yields(value)) => (ffi::PySendResult::PYGEN_NEXT, value.into_ptr()),
            Ok(Sent::Returns(value)) => (ffi::PySendResult::PYGEN_RETURN, value.into_ptr()),
            Err(Raised) => (ffi::PySendResult::PYGEN_ERROR, ptr::null_mut()),
        };
        *result = value;
        kind
    }
}

/// What was sent as methods say it: a value, or `StopIteration` with one.
fn as_method(sent: Result<Sent<'_>, Raised>) -> *mut ffi::PyObject {
    match sent {
        Ok(Sent::Yields(value)) => value.into_ptr(),
        Ok(Sent::Returns(value)) => {
            stop(&value);
            ptr::null_mut()
        }
        Err(Raised) => ptr::null_mut(),
    }
}

/// Raises `StopIteration` with a value.
fn stop(value: &Bound<'_, PyAny>) {
    if !value.is_instance_of::<PyTuple>() && !value.is_instance_of::<PyBaseException>() {
        // SAFETY: both are live.
        return unsafe { ffi::PyErr_SetObject(ffi::PyExc_StopIteration, value.as_ptr()) };
    }
    // The interpreter would take a tuple for constructor arguments, and an exception for the one to raise.
    Python::attach(|py| {
        let stop = py.get_type::<PyStopIteration>().call1((value,));
        stop.map_or_else(|error| error, PyErr::from_value).restore(py);
    });
}

/// From `CPython` 3.12 on `await` takes the result from here, and only coroutines and generators can return it without an
/// exception ([ADR 0086](../../../docs/adr/0086-results-of-awaited-calls.md)). Null without an exception means None.
unsafe extern "C" fn next_slot(me: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as of a slot.
    match unsafe { driving(me, |this| this.send(&this.py().None().into_bound(this.py()))) } {
        Ok(Sent::Returns(value)) if value.is_none() => ptr::null_mut(),
        sent => as_method(sent),
    }
}

unsafe extern "C" fn send_method(me: *mut ffi::PyObject, value: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as of a slot.
    as_method(unsafe { driving(me, |this| this.send(&Bound::from_borrowed_ptr(this.py(), value))) })
}

unsafe extern "C" fn throw_method(me: *mut ffi::PyObject, args: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as of a slot; `args` is a tuple.
    let sent = unsafe {
        driving(me, |this| {
            let args = Bound::from_borrowed_ptr(this.py(), args);
            Python::attach(|_| this.throw(&args.cast_into::<PyTuple>().map_err(PyErr::from)?))
        })
    };
    as_method(sent)
}

unsafe extern "C" fn close_method(me: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as of a slot.
    match unsafe { driving(me, |this| Ok(Python::attach(|_| this.close()).map(|()| this.py().None())?)) } {
        Ok(none) => none.into_ptr(),
        Err(Raised) => ptr::null_mut(),
    }
}

unsafe extern "C" fn self_slot(me: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as of a slot.
    unsafe { ffi::Py_INCREF(me) };
    me
}

unsafe extern "C" fn finalize_slot(me: *mut ffi::PyObject) {
    // SAFETY: as of a slot. An error that is on its way is put aside and back.
    unsafe {
        let call = &*me.cast::<Call>();
        if call.phase.get() != Phase::Done {
            Python::attach(|py| {
                let before = PyErr::take(py);
                let done = driving(me, |this| Ok(this.finalize()?));
                if done.is_err()
                    && let Some(error) = PyErr::take(py)
                {
                    error.write_unraisable(py, None);
                }
                if let Some(before) = before {
                    before.restore(py);
                }
            });
        }
        call.phase.set(Phase::Done);
    }
}

/// Frees one that has ended without looking for a finalizer; any other is ended first. With a global lock a reference more
/// and one less do that: the second one comes back here. Without one the interpreter's own way is taken.
#[cfg(not(Py_GIL_DISABLED))]
unsafe extern "C" fn dealloc_slot(me: *mut ffi::PyObject) {
    // SAFETY: as of a slot.
    unsafe {
        if (*me.cast::<Call>()).phase.get() != Phase::Done {
            ffi::Py_INCREF(me);
            finalize_slot(me);
            ffi::Py_DECREF(me);
            return;
        }
        free(me, clear_slot);
    }
}

unsafe extern "C" fn traverse_slot(me: *mut ffi::PyObject, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    // SAFETY: as of a slot.
    unsafe { visit_all(me, (*me.cast::<Call>()).refs.iter().map(Cell::get), visit, arg) }
}

unsafe extern "C" fn clear_slot(me: *mut ffi::PyObject) -> c_int {
    // SAFETY: as of a slot; it is garbage, and has been finalized.
    unsafe {
        let call = &*me.cast::<Call>();
        let py = Python::assume_attached();
        call.phase.set(Phase::Done);
        call.clear(py);
    }
    0
}

/// What `inspect` and `asyncio` ask of a coroutine. One that runs is not looked into.
unsafe extern "C" fn attribute(me: *mut ffi::PyObject, which: *mut c_void) -> *mut ffi::PyObject {
    guarded(|| {
        // SAFETY: as of a slot.
        let (me, call) =
            unsafe { (Bound::from_borrowed_ptr(Python::assume_attached(), me), &*me.cast::<Call>()) };
        let py = me.py();
        let idle = Busy::take(call);
        let inner = || idle.as_ref().and_then(|_| call.get(py, Ref::Inner));
        let none = || py.None().into_bound(py);
        let truth = |value: bool| PyBool::new(py, value).to_owned().into_any();
        match which as usize {
            RUNNING => Ok(truth(idle.is_none())),
            SUSPENDED => Ok(truth(idle.is_some() && matches!(call.phase.get(), Phase::User | Phase::Shell))),
            AWAIT => Ok(inner().unwrap_or_else(none)),
            FRAME => match inner() {
                Some(inner) => Ok(inner.getattr(intern!(py, "cr_frame"))?),
                None => Ok(none()),
            },
            _ => Ok(intern!(py, "Caller.acall").clone().into_any()),
        }
    })
    .map_or(ptr::null_mut(), Bound::into_ptr)
}

const NAME: usize = 0;
const RUNNING: usize = 1;
const SUSPENDED: usize = 2;
const AWAIT: usize = 3;
const FRAME: usize = 4;

/// The type of awaitables.
pub fn make_type(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    let method =
        |name: &'static CStr, function: ffi::PyCFunction, flags, doc: &'static CStr| ffi::PyMethodDef {
            ml_name: name.as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: function },
            ml_flags: flags,
            ml_doc: doc.as_ptr(),
        };
    let methods = Box::leak(Box::new([
        method(c"send", send_method, ffi::METH_O, c"Sends a value in: what it yields, or StopIteration."),
        method(c"throw", throw_method, ffi::METH_VARARGS, c"Throws an exception in."),
        method(c"close", close_method, ffi::METH_NOARGS, c"Closes it: its call is cancelled."),
        ffi::PyMethodDef::zeroed(),
    ]));
    let shown = |name: &'static CStr, which: usize| ffi::PyGetSetDef {
        name: name.as_ptr(),
        get: Some(attribute),
        set: None,
        doc: ptr::null(),
        closure: which as *mut c_void,
    };
    let attributes = Box::leak(Box::new([
        shown(c"__name__", NAME),
        shown(c"__qualname__", NAME),
        shown(c"cr_running", RUNNING),
        shown(c"cr_suspended", SUSPENDED),
        shown(c"cr_await", AWAIT),
        shown(c"cr_frame", FRAME),
        ffi::PyGetSetDef::default(),
    ]));
    let mut slots = [
        slot(ffi::Py_tp_doc, c"A call that is awaited.".as_ptr().cast_mut().cast()),
        #[cfg(not(Py_GIL_DISABLED))]
        slot(ffi::Py_tp_dealloc, dealloc_slot as *mut c_void),
        slot(ffi::Py_tp_finalize, finalize_slot as *mut c_void),
        slot(ffi::Py_tp_traverse, traverse_slot as *mut c_void),
        slot(ffi::Py_tp_clear, clear_slot as *mut c_void),
        slot(ffi::Py_am_await, self_slot as *mut c_void),
        slot(ffi::Py_am_send, send_slot as *mut c_void),
        slot(ffi::Py_tp_iter, self_slot as *mut c_void),
        slot(ffi::Py_tp_iternext, next_slot as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(ffi::Py_tp_getset, attributes.as_mut_ptr().cast()),
        ffi::PyType_Slot::default(),
    ];
    let flags = ffi::Py_TPFLAGS_HAVE_GC | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
    // SAFETY: these are slots of a `Call`; methods and attributes live for ever.
    unsafe { new_type::<Call>(py, c"tidegate._native.Call", flags, &mut slots) }
}
