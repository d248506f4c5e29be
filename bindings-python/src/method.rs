//! `Caller.call` and `Caller.acall` as method descriptors with a vectorcall.
//!
//! A `PyO3` method with `**kwargs` makes a tuple and a dict for each call, and a Python function makes a frame; a
//! vectorcall makes neither. So the two methods are objects of our own type: method descriptors with the attributes of the
//! Python function that documents them. `help`, `inspect` and `iscoroutinefunction` see them like that function.

use std::ffi::{c_ulong, c_void};
use std::ptr;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use pyo3::{ffi, intern};

use crate::ffi::{Args, Raised, guarded, make_type, new_object, owned, slot};
use crate::runner::Runner;
use crate::{awaitable, call};

/// The flag of `PEP` 590 in the number of arguments; the limited API names it from 3.12 on.
pub const ARGUMENTS_OFFSET: usize = 1 << (usize::BITS - 1);
pub const HAVE_VECTORCALL: c_ulong = 1 << 11;

/// A method: a descriptor with a vectorcall, and the Python function that documents it.
#[repr(C)]
struct Method {
    head: ffi::PyObject,
    vectorcall: ffi::vectorcallfunc,
    documented: *mut ffi::PyObject,
    /// Its text, which `help` reads past the attributes.
    doc: *mut ffi::PyObject,
}

/// What both methods begin with: the caller, the function, and the rest of the arguments.
///
/// # Safety
/// As the vectorcall protocol says.
unsafe fn arguments<'a, 'py>(
    py: Python<'py>,
    args: *const *mut ffi::PyObject,
    flagged: usize,
    names: *mut ffi::PyObject,
    name: &str,
) -> Result<(Bound<'py, Runner>, Bound<'py, PyAny>, Args<'a, 'py>), Raised> {
    let given = flagged & !ARGUMENTS_OFFSET;
    if given < 2 {
        let text = format!("Caller.{name}() missing the function to call");
        return Err(PyTypeError::new_err(text).into());
    }
    // SAFETY: there are at least two live objects, and the rest is as the protocol says.
    unsafe {
        let caller = Bound::from_borrowed_ptr(py, *args).cast_into::<Runner>().map_err(PyErr::from)?;
        let function = Bound::from_borrowed_ptr(py, *args.add(1));
        if !function.is_callable() {
            return Err(refuse(&caller, &function).into());
        }
        Ok((caller, function, Args::new(py, args.add(2), given - 2, names)))
    }
}

/// What tells a caller of `call(work())` to write `call(work)`.
#[cold]
fn refuse(caller: &Bound<'_, Runner>, function: &Bound<'_, PyAny>) -> PyErr {
    let refused = caller.call_method1(intern!(caller.py(), "_uncallable"), (function,));
    refused.err().unwrap_or_else(|| PyTypeError::new_err("the first argument must be a function"))
}

unsafe extern "C" fn call_slot(
    _method: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    flagged: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls slots attached.
    let py = unsafe { Python::assume_attached() };
    let work = || {
        // SAFETY: these are the protocol's own arguments.
        let (caller, function, args) = unsafe { arguments(py, args, flagged, names, "call")? };
        call::run(caller.as_any(), caller.get().settings()?, &function, args)
    };
    guarded(work).map_or(ptr::null_mut(), Bound::into_ptr)
}

unsafe extern "C" fn acall_slot(
    _method: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    flagged: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls slots attached.
    let py = unsafe { Python::assume_attached() };
    let work = || {
        // SAFETY: these are the protocol's own arguments.
        let (caller, function, args) = unsafe { arguments(py, args, flagged, names, "acall")? };
        caller.get().settings()?;
        awaitable::make(caller.as_any(), &function, args)
    };
    guarded(work).map_or(ptr::null_mut(), Bound::into_ptr)
}

/// The slow way to call a method, or another object that begins like one, with a tuple and a dict.
pub unsafe extern "C" fn tuple_slot(
    method: *mut ffi::PyObject,
    args: *mut ffi::PyObject,
    kwargs: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls slots attached, with a tuple and a dict or null.
    let py = unsafe { Python::assume_attached() };
    let work = || {
        // SAFETY: as above.
        let (args, kwargs) =
            unsafe { (Bound::from_borrowed_ptr(py, args), Bound::from_borrowed_ptr_or_opt(py, kwargs)) };
        let mut values: Vec<_> = args.cast_into::<PyTuple>().map_err(PyErr::from)?.iter().collect();
        let (given, mut names) = (values.len(), None);
        if let Some(kwargs) = kwargs {
            let kwargs = kwargs.cast_into::<PyDict>().map_err(PyErr::from)?;
            names = Some(PyTuple::new(py, kwargs.keys())?);
            values.extend(kwargs.values());
        }
        let pointers: Vec<_> = values.iter().map(Bound::as_ptr).collect();
        let names = names.as_ref().map_or(ptr::null_mut(), Bound::as_ptr);
        // SAFETY: `method` begins like a Method, since this is a slot of its type; the values outlive the call.
        unsafe {
            let vectorcall = (*method.cast::<Method>()).vectorcall;
            owned(py, vectorcall(method, pointers.as_ptr(), given, names))
        }
    };
    guarded(work).map_or(ptr::null_mut(), Bound::into_ptr)
}

/// Bound to an object it is a method like any other.
pub unsafe extern "C" fn get_slot(
    method: *mut ffi::PyObject,
    caller: *mut ffi::PyObject,
    _class: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls slots attached, with live objects; no caller is null.
    unsafe {
        if caller.is_null() {
            ffi::Py_INCREF(method);
            return method;
        }
        let py = Python::assume_attached();
        let work = || {
            static KIND: PyOnceLock<Py<PyType>> = PyOnceLock::new();
            let kind = KIND.import(py, "types", "MethodType")?;
            Ok(kind.call1((Bound::from_borrowed_ptr(py, method), Bound::from_borrowed_ptr(py, caller)))?)
        };
        guarded(work).map_or(ptr::null_mut(), Bound::into_ptr)
    }
}

/// Its attributes are those of the Python function.
unsafe extern "C" fn attribute_slot(
    method: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: `method` is a Method with a function; both are live.
    unsafe { ffi::PyObject_GetAttr((*method.cast::<Method>()).documented, name) }
}

/// The types of methods live as long as the process: they stand in a class of the package.
fn method_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static KIND: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let kind = KIND.get_or_try_init(py, || {
        let members = Box::leak(Box::new([ffi::PyMemberDef::default(); 3]));
        members[0] = ffi::PyMemberDef {
            name: c"__vectorcalloffset__".as_ptr(),
            type_code: ffi::Py_T_PYSSIZET,
            offset: std::mem::offset_of!(Method, vectorcall) as ffi::Py_ssize_t,
            flags: ffi::Py_READONLY,
            doc: ptr::null(),
        };
        members[1] = ffi::PyMemberDef {
            name: c"__doc__".as_ptr(),
            type_code: ffi::Py_T_OBJECT_EX,
            offset: std::mem::offset_of!(Method, doc) as ffi::Py_ssize_t,
            flags: ffi::Py_READONLY,
            doc: ptr::null(),
        };
        let mut slots = [
            slot(ffi::Py_tp_members, members.as_mut_ptr().cast()),
            slot(ffi::Py_tp_call, tuple_slot as *mut c_void),
            slot(ffi::Py_tp_descr_get, get_slot as *mut c_void),
            slot(ffi::Py_tp_getattro, attribute_slot as *mut c_void),
            ffi::PyType_Slot::default(),
        ];
        let flags = ffi::Py_TPFLAGS_METHOD_DESCRIPTOR | HAVE_VECTORCALL;
        // SAFETY: these are slots of a `Method`; its members live for ever.
        let kind = unsafe { make_type::<Method>(py, c"tidegate._native.Method", flags, &mut slots) };
        kind.map(Bound::unbind)
    });
    kind.map(|kind| kind.bind(py))
}

/// The native method that a Python function documents: `call`, or `acall`.
#[pyfunction]
#[pyo3(signature = (documented: "object") -> "object")]
pub fn native_method(documented: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = documented.py();
    let name: String = documented.getattr("__name__")?.extract()?;
    let doc = documented.getattr("__doc__")?;
    let kind = method_type(py)?;
    let made = new_object(kind).map_err(|raised| raised.take(py))?;
    // SAFETY: a new object of this type, zeroed; its fields are set before anyone can see it. The function is never
    // let go of, as the object has no destructor of its own: it lives as long as its class.
    unsafe {
        let method = made.as_ptr().cast::<Method>();
        (*method).vectorcall = if name == "acall" { acall_slot } else { call_slot };
        (*method).documented = documented.into_ptr();
        (*method).doc = doc.into_ptr();
    }
    Ok(made)
}
