//! What a caller makes of a plain function: an object with a vectorcall that runs the function under the policy.
//!
//! A Python function around `Caller.call` costs a frame, a tuple and a dict for each call, which is half of a call again. This object
//! passes the arguments on as they came. `functools.update_wrapper` gives it the function's name, text and signature.

use std::ffi::{c_int, c_void};
use std::ptr;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use pyo3::{ffi, intern};

use crate::ffi::{Args, guarded, make_type, new_object, slot, visit_all};
use crate::method::{ARGUMENTS_OFFSET, HAVE_VECTORCALL, get_slot, tuple_slot};
use crate::runner::Runner;
use crate::{awaitable, call};

/// A decorated function. It begins like a `Method`, whose slots it shares.
#[repr(C)]
struct Decorated {
    head: ffi::PyObject,
    vectorcall: ffi::vectorcallfunc,
    caller: *mut ffi::PyObject,
    function: *mut ffi::PyObject,
    dict: *mut ffi::PyObject,
    weak: *mut ffi::PyObject,
}

/// The caller and the function of a decorated function, held for as long as the call needs them.
///
/// # Safety
/// `me` is a live `Decorated`.
unsafe fn held(py: Python<'_>, me: *mut ffi::PyObject) -> (Bound<'_, Runner>, Bound<'_, PyAny>) {
    // SAFETY: says the caller; both fields are set when the object is made, and cleared only when it is garbage.
    unsafe {
        let me = me.cast::<Decorated>();
        let caller = Bound::from_borrowed_ptr(py, (*me).caller).cast_into_unchecked::<Runner>();
        (caller, Bound::from_borrowed_ptr(py, (*me).function))
    }
}

unsafe extern "C" fn call_slot(
    me: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    flagged: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls slots attached, with the protocol's own arguments.
    unsafe {
        let py = Python::assume_attached();
        let work = || {
            let (caller, function) = held(py, me);
            let args = Args::new(py, args, flagged & !ARGUMENTS_OFFSET, names);
            call::run(caller.as_any(), caller.get().settings()?, &function, args)
        };
        guarded(work).map_or(ptr::null_mut(), Bound::into_ptr)
    }
}

unsafe extern "C" fn acall_slot(
    me: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    flagged: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        let py = Python::assume_attached();
        let work = || {
            let (caller, function) = held(py, me);
            caller.get().settings()?;
            awaitable::make(
                caller.as_any(),
                &function,
                Args::new(py, args, flagged & !ARGUMENTS_OFFSET, names),
            )
        };
        guarded(work).map_or(ptr::null_mut(), Bound::into_ptr)
    }
}

unsafe extern "C" fn traverse_slot(me: *mut ffi::PyObject, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    // SAFETY: as of a slot; the references are null or live.
    unsafe {
        let it = me.cast::<Decorated>();
        visit_all(me, [(*it).caller, (*it).function, (*it).dict], visit, arg)
    }
}

/// Releases what it holds. Garbage is not called, so a null is never seen by a call.
unsafe extern "C" fn clear_slot(me: *mut ffi::PyObject) -> c_int {
    // SAFETY: as of a slot; each field is emptied before its object can run code.
    unsafe {
        let it = me.cast::<Decorated>();
        for field in [&raw mut (*it).dict, &raw mut (*it).caller, &raw mut (*it).function] {
            let object = field.replace(ptr::null_mut());
            if !object.is_null() {
                ffi::Py_DECREF(object);
            }
        }
    }
    0
}

unsafe extern "C" fn dealloc_slot(me: *mut ffi::PyObject) {
    // SAFETY: as of a slot. Weak references are cleared while the object is whole.
    unsafe {
        let kind = ffi::Py_TYPE(me);
        ffi::PyObject_GC_UnTrack(me.cast());
        ffi::PyObject_ClearWeakRefs(me);
        clear_slot(me);
        ffi::PyObject_GC_Del(me.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

/// `repr` of the function, with the policy's name around it.
unsafe extern "C" fn repr_slot(me: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as of a slot.
    let py = unsafe { Python::assume_attached() };
    let work = || {
        // SAFETY: as of a slot.
        let (caller, function) = unsafe { held(py, me) };
        let text = caller.as_any().call_method1(intern!(py, "_shown"), (function,))?;
        Ok(text)
    };
    guarded(work).map_or(ptr::null_mut(), Bound::into_ptr)
}

/// Pickles it by its name, as pickle does with functions.
unsafe extern "C" fn reduce_method(me: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as of a slot.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: as of a slot.
    let me = unsafe { Bound::from_borrowed_ptr(py, me) };
    let work = || Ok(me.getattr(intern!(py, "__qualname__"))?);
    guarded(work).map_or(ptr::null_mut(), Bound::into_ptr)
}

fn decorated_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static KIND: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let kind = KIND.get_or_try_init(py, || {
        let member = |name: &'static std::ffi::CStr, offset: usize| ffi::PyMemberDef {
            name: name.as_ptr(),
            type_code: ffi::Py_T_PYSSIZET,
            offset: offset as ffi::Py_ssize_t,
            flags: ffi::Py_READONLY,
            doc: ptr::null(),
        };
        let members = Box::leak(Box::new([
            member(c"__vectorcalloffset__", std::mem::offset_of!(Decorated, vectorcall)),
            member(c"__dictoffset__", std::mem::offset_of!(Decorated, dict)),
            member(c"__weaklistoffset__", std::mem::offset_of!(Decorated, weak)),
            ffi::PyMemberDef::default(),
        ]));
        let attributes = Box::leak(Box::new([
            ffi::PyGetSetDef {
                name: c"__dict__".as_ptr(),
                get: Some(ffi::PyObject_GenericGetDict),
                set: Some(ffi::PyObject_GenericSetDict),
                doc: ptr::null(),
                closure: ptr::null_mut(),
            },
            ffi::PyGetSetDef::default(),
        ]));
        let methods = Box::leak(Box::new([
            ffi::PyMethodDef {
                ml_name: c"__reduce__".as_ptr(),
                ml_meth: ffi::PyMethodDefPointer { PyCFunction: reduce_method },
                ml_flags: ffi::METH_NOARGS,
                ml_doc: ptr::null(),
            },
            ffi::PyMethodDef::zeroed(),
        ]));
        let mut slots = [
            slot(ffi::Py_tp_members, members.as_mut_ptr().cast()),
            slot(ffi::Py_tp_getset, attributes.as_mut_ptr().cast()),
            slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
            slot(ffi::Py_tp_call, tuple_slot as *mut c_void),
            slot(ffi::Py_tp_repr, repr_slot as *mut c_void),
            slot(ffi::Py_tp_descr_get, get_slot as *mut c_void),
            slot(ffi::Py_tp_traverse, traverse_slot as *mut c_void),
            slot(ffi::Py_tp_clear, clear_slot as *mut c_void),
            slot(ffi::Py_tp_dealloc, dealloc_slot as *mut c_void),
            ffi::PyType_Slot::default(),
        ];
        let flags = ffi::Py_TPFLAGS_METHOD_DESCRIPTOR
            | HAVE_VECTORCALL
            | ffi::Py_TPFLAGS_HAVE_GC
            | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
        // SAFETY: these are slots of a `Decorated`; members, attributes and methods live for ever.
        let kind = unsafe { make_type::<Decorated>(py, c"tidegate._native.Decorated", flags, &mut slots) };
        kind.map(Bound::unbind)
    });
    kind.map(|kind| kind.bind(py))
}

/// A plain function, or one that is async, under the policy of a caller.
#[pyfunction]
#[pyo3(signature = (caller: "Runner", function: "object", is_async) -> "object")]
pub fn decorated<'py>(
    caller: Bound<'py, Runner>,
    function: Bound<'py, PyAny>,
    is_async: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    let made = new_object(decorated_type(py)?).map_err(|raised| raised.take(py))?;
    // SAFETY: a new object of this type, zeroed; its fields are set before anyone can call it.
    unsafe {
        let it = made.as_ptr().cast::<Decorated>();
        (*it).vectorcall = if is_async { acall_slot } else { call_slot };
        (*it).caller = caller.into_ptr();
        (*it).function = function.into_ptr();
    }
    Ok(made)
}
