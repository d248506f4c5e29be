//! Scope of an awaited call: the value of the context variable for code inside the call, also after the call has ended.
//!
//! It is a separate object, since a context keeps its values alive, and would keep the awaitable alive too. Tasks and
//! threads that were started inside a call inherit the value, and read it when they make calls of their own.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::ffi::{
    Raised, free, guarded, is_exactly, make_type as new_type, new_object, or_none, slot, visit_all,
};

/// The object. All but `call` is fixed when it is made, before anybody sees it.
#[repr(C)]
struct Inside {
    head: ffi::PyObject,
    /// The call's id while it goes on, else 0.
    call: AtomicU64,
    /// The Python half of its engine.
    owner: *mut ffi::PyObject,
    /// The scope around it, or null.
    around: *mut ffi::PyObject,
}

/// What tells of a call that has begun.
pub fn make<'py>(
    py: Python<'py>,
    kind: &Py<PyType>,
    call: u64,
    owner: &Bound<'py, PyAny>,
    around: Option<Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>, Raised> {
    let made = new_object(kind.bind(py))?;
    // SAFETY: a new object of our type, zeroed; nobody else has seen it.
    unsafe {
        let inside = made.as_ptr().cast::<Inside>();
        (*inside).call.store(call, Ordering::Relaxed);
        (*inside).owner = owner.clone().into_ptr();
        (*inside).around = around.map_or(ptr::null_mut(), Bound::into_ptr);
    }
    Ok(made)
}

/// The call has ended.
pub fn end(inside: &Bound<'_, PyAny>) {
    // SAFETY: what `make` has made.
    unsafe { (*inside.as_ptr().cast::<Inside>()).call.store(0, Ordering::Relaxed) };
}

/// The scope around the call.
pub fn around<'py>(inside: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    // SAFETY: what `make` has made; null, or a reference that it owns.
    unsafe { Bound::from_borrowed_ptr_or_opt(inside.py(), (*inside.as_ptr().cast::<Inside>()).around) }
}

/// The scope that holds here: calls that have ended are looked through.
pub fn live<'py>(said: &Bound<'py, PyAny>, kind: &Py<PyType>) -> Option<Bound<'py, PyAny>> {
    if said.is_none() {
        return None;
    }
    let mut scope = said.clone();
    loop {
        // SAFETY: one of ours, as its type says.
        let ended = || unsafe { (*scope.as_ptr().cast::<Inside>()).call.load(Ordering::Relaxed) == 0 };
        if !is_exactly(&scope, kind) || !ended() {
            return Some(scope);
        }
        scope = around(&scope)?;
    }
}

// The slots. The interpreter calls them attached, with a live object of our type as the first argument.

unsafe extern "C" fn dealloc_slot(me: *mut ffi::PyObject) {
    // SAFETY: as of a slot.
    unsafe { free(me, clear_slot) };
}

unsafe extern "C" fn traverse_slot(me: *mut ffi::PyObject, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    // SAFETY: as of a slot.
    unsafe {
        let inside = me.cast::<Inside>();
        visit_all(me, [(*inside).owner, (*inside).around], visit, arg)
    }
}

unsafe extern "C" fn clear_slot(me: *mut ffi::PyObject) -> c_int {
    // SAFETY: as of a slot; it is garbage.
    unsafe {
        let inside = me.cast::<Inside>();
        let owner = std::mem::replace(&mut (*inside).owner, ptr::null_mut());
        let around = std::mem::replace(&mut (*inside).around, ptr::null_mut());
        ffi::Py_XDECREF(owner);
        ffi::Py_XDECREF(around);
    }
    0
}

/// As the shells know scopes: engine, call, no deadline of its own, and what is around it.
unsafe extern "C" fn scope_attribute(me: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject {
    guarded(|| {
        // SAFETY: as of a slot; null, or references that it owns.
        let (me, call, owner) = unsafe {
            let py = Python::assume_attached();
            let inside = me.cast::<Inside>();
            let owner = Bound::from_borrowed_ptr_or_opt(py, (*inside).owner);
            (Bound::from_borrowed_ptr(py, me), (*inside).call.load(Ordering::Relaxed), owner)
        };
        let py = me.py();
        let scope = (or_none(py, owner), call, py.None(), or_none(py, around(&me)));
        Ok(scope.into_pyobject(py)?.into_any())
    })
    .map_or(ptr::null_mut(), Bound::into_ptr)
}

/// Its type.
pub fn make_type(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    let attributes = Box::leak(Box::new([ffi::PyGetSetDef::default(), ffi::PyGetSetDef::default()]));
    attributes[0].name = c"_scope".as_ptr();
    attributes[0].get = Some(scope_attribute);
    let mut slots = [
        slot(ffi::Py_tp_dealloc, dealloc_slot as *mut c_void),
        slot(ffi::Py_tp_traverse, traverse_slot as *mut c_void),
        slot(ffi::Py_tp_clear, clear_slot as *mut c_void),
        slot(ffi::Py_tp_getset, attributes.as_mut_ptr().cast()),
        ffi::PyType_Slot::default(),
    ];
    let flags = ffi::Py_TPFLAGS_HAVE_GC | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
    // SAFETY: these are slots of an `Inside`; its attributes live for ever.
    unsafe { new_type::<Inside>(py, c"tidegate._native.Inside", flags, &mut slots) }
}
