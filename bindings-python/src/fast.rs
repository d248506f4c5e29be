//! `Caller.call` and `Caller.acall` as the interpreter likes them best, and the happy path of the first.
//!
//! A method of `PyO3` with `**kwargs` makes a tuple and a dict for each call, and a Python function a frame; a vectorcall
//! makes neither. So the two methods are objects of a type of their own: method descriptors, with the attributes of the
//! Python function that documents them, so that `help`, `inspect` and `iscoroutinefunction` see what they would have seen.
//!
//! Everything that is not the happy path goes to the Python half: what was said so far is handed over, nothing is decided
//! twice. Between `begin` and the end no Python code runs but the user's own, so an interrupt cannot lose a call.
//!
//! Reference counts: `Bound` counts down at once. `PyErr` and `Py` do so only while `PyO3` knows that it is attached, which
//! it does not inside a raw slot; so whoever may drop one works inside `Python::attach`.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use pyo3::{ffi, intern};

use crate::again::{self, After};
use crate::awaitable;
use crate::runner::{Begun, Raised, Runner, Settings};
use crate::scope::{self, Around, Globals};
use tidegate::{CallId, wire};

/// The flag of `PEP` 590 in the number of arguments; the limited API names it from 3.12 on.
const ARGUMENTS_OFFSET: usize = 1 << (usize::BITS - 1);
const HAVE_VECTORCALL: u64 = 1 << 11;

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
    unsafe fn new(
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

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Calls a function with them.
    #[inline(always)]
    fn call(&self, function: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Raised> {
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

/// Runs what a slot does. A panic, which would be a bug, becomes an exception.
#[inline(always)]
pub fn guarded<T>(work: impl FnOnce() -> Result<T, Raised>) -> Result<T, Raised> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(PyRuntimeError::new_err("tidegate: a bug in the native half").into()))
}

/// Is it a coroutine: Python's own, or one of ours?
#[inline(always)]
pub fn is_coroutine(value: &Bound<'_, PyAny>, globals: &Globals) -> bool {
    // SAFETY: a live object.
    let kind = unsafe { ffi::Py_TYPE(value.as_ptr()) }.cast();
    kind == globals.coroutine.as_ptr() || kind == globals.awaitable.as_ptr()
}

/// Must the context variable be set for a call of this thread? Frames of a thread are cheaper, but are seen on that thread only.
///
/// Greenlets share a thread and switch at any moment, each with its own context; and what hands contexts to other threads
/// (executors, anyio's and asgiref's portals) takes the variable along.
#[inline(always)]
fn needs_variable(py: Python<'_>, globals: &Globals) -> Result<bool, Raised> {
    let count = globals.modules.bind(py).len();
    if count == globals.seen_for_contexts.load(Ordering::Relaxed) {
        return Ok(globals.needs_variable.load(Ordering::Relaxed));
    }
    look_for_contexts(py, globals, count)
}

#[cold]
fn look_for_contexts(py: Python<'_>, globals: &Globals, count: usize) -> Result<bool, Raised> {
    const NAMES: [&str; 4] = ["greenlet", "concurrent.futures.thread", "anyio.from_thread", "asgiref.sync"];
    let modules = globals.modules.bind(py);
    let mut found = false;
    for name in NAMES {
        found = found || modules.contains(name)?;
    }
    globals.needs_variable.store(found, Ordering::Relaxed);
    globals.seen_for_contexts.store(count, Ordering::Relaxed);
    Ok(found)
}

/// Has a module been imported? It is looked for whenever the number of modules has changed since `seen`.
#[inline(always)]
pub fn has_module(
    py: Python<'_>,
    globals: &Globals,
    seen: &AtomicUsize,
    name: &Bound<'_, PyString>,
) -> Result<bool, Raised> {
    let modules = globals.modules.bind(py);
    let count = modules.len();
    if count == seen.load(Ordering::Relaxed) {
        return Ok(false);
    }
    let found = modules.contains(name)?;
    seen.store(if found { 0 } else { count }, Ordering::Relaxed);
    Ok(found)
}

/// `Caller.call`: the happy path.
fn call<'py>(
    caller: &Bound<'py, PyAny>,
    settings: &Settings,
    function: &Bound<'py, PyAny>,
    args: Args<'_, 'py>,
) -> Result<Bound<'py, PyAny>, Raised> {
    let py = caller.py();
    let globals = scope::globals(py)?;
    let around = scope::around(py, globals)?;
    let variable = needs_variable(py, globals)?;
    let mut begun = settings.begin(caller, around.scope.as_ref())?;
    if begun.woken.is_some() || !begun.is_first_attempt() || !settings.is_fast() {
        let mut shell = || from_the_start(caller, settings, &around, &mut begun, function, args);
        return Ok(Python::attach(|_| shell())?);
    }
    let (call, owner) = (begun.call, settings.owner.bind(py));
    let mut attempt = 1;
    loop {
        let result = if variable {
            within_variable(settings, globals, &around, call, function, args)
        } else {
            scope::enter(call.to_word(), owner, &around);
            let result = args.call(function);
            scope::leave(py, call.to_word(), owner);
            result
        };
        match result {
            Ok(value) if !is_coroutine(&value, globals) => match settings.finished(py, call, attempt) {
                None => return Ok(value),
                Some(woken) => {
                    let tell = || settings.told(py, call, function, &value, woken);
                    return Ok(Python::attach(|_| tell().map(|()| value.clone()))?);
                }
            },
            failed => {
                let more =
                    || from_a_failure(caller, settings, &around, (call, attempt), failed, function, args);
                match Python::attach(|_| more())? {
                    Failed::Again(next) => attempt = next,
                    Failed::Ends(value) => return Ok(value),
                }
            }
        }
    }
}

/// What follows a failed attempt.
enum Failed<'py> {
    /// Another one, at once: its number.
    Again(u8),
    /// The shell has carried out the rest.
    Ends(Bound<'py, PyAny>),
}

/// Calls the function with the context variable set.
#[cold]
fn within_variable<'py>(
    settings: &Settings,
    globals: &Globals,
    around: &Around<'py>,
    call: CallId,
    function: &Bound<'py, PyAny>,
    args: Args<'_, 'py>,
) -> Result<Bound<'py, PyAny>, Raised> {
    let py = function.py();
    let outer = scope::or_none(py, around.scope.clone());
    let scope = (settings.owner.bind(py), call.to_word(), py.None(), outer).into_pyobject(py)?;
    set_for(globals, scope.as_any(), || args.call(function))
}

/// Sets the context variable while something runs.
fn set_for<'py>(
    globals: &Globals,
    scope: &Bound<'py, PyAny>,
    run: impl FnOnce() -> Result<Bound<'py, PyAny>, Raised>,
) -> Result<Bound<'py, PyAny>, Raised> {
    let py = scope.py();
    let token = call1(globals.set.bind(py), scope)?;
    let result = run();
    let error = if result.is_err() { PyErr::take(py) } else { None };
    let reset = call1(globals.reset.bind(py), &token);
    if let Some(error) = error {
        error.restore(py);
    }
    reset.and(result)
}

/// Calls a function inside a scope. No interrupt can come between setting and resetting it.
#[pyfunction]
#[pyo3(signature = (scope, function, *args: "object") -> "object")]
pub fn within<'py>(
    scope: &Bound<'py, PyAny>,
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = scope.py();
    let run = || call_with(function, Some(args.as_any()), None);
    let result = scope::globals(py).and_then(|globals| set_for(globals, scope, run));
    result.map_err(|raised| raised.take(py))
}

/// Goes on after an attempt that has failed: natively with the next one if that comes at once, else in the shell.
#[cold]
fn from_a_failure<'py>(
    caller: &Bound<'py, PyAny>,
    settings: &Settings,
    around: &Around<'py>,
    (call, attempt): (CallId, u8),
    failed: Result<Bound<'py, PyAny>, Raised>,
    function: &Bound<'py, PyAny>,
    args: Args<'_, 'py>,
) -> PyResult<Failed<'py>> {
    let py = caller.py();
    let mut newest = attempt;
    let go_on = || {
        let failure = match failed {
            Err(raised) => raised.take(py).into_value(py).into_bound(py).into_any(),
            Ok(value) => caller.call_method1(intern!(py, "_not_async"), (value, function))?,
        };
        let step = match again::failed(settings, call, attempt, function, &failure)? {
            After::Attempt(next, ..) => {
                newest = next;
                return Ok(Failed::Again(next));
            }
            After::Raise => return Err(PyErr::from_value(failure)),
            After::Shell(step) => Some(wire::pack_step(step)),
            After::Unjudged => None,
        };
        let outer = scope::or_none(py, around.scope.clone());
        let told = (outer, call.to_word(), attempt, step, failure, function, args.tuple()?, args.dict()?);
        caller.call_method1(intern!(py, "_failed"), told).map(Failed::Ends)
    };
    let went = go_on();
    went.map_err(|error| settings.give_up(py, call, newest, error))
}

/// The shell carries out a call from its first step on.
#[cold]
fn from_the_start<'py>(
    caller: &Bound<'py, PyAny>,
    settings: &Settings,
    around: &Around<'py>,
    begun: &mut Begun,
    function: &Bound<'py, PyAny>,
    args: Args<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = caller.py();
    let mut hand_over = || {
        if let Some(woken) = begun.woken.take() {
            settings.wake(py, woken)?;
        }
        let (id, step) = (begun.call.to_word(), wire::pack_step(begun.step));
        let told =
            (scope::or_none(py, around.scope.clone()), id, step, function, args.tuple()?, args.dict()?);
        caller.call_method1(intern!(py, "_begun"), told)
    };
    hand_over().map_err(|error| settings.give_up_unless_ended(py, begun.call, error))
}

/// A method: a descriptor with a vectorcall, and the Python function that documents it.
#[repr(C)]
struct Method {
    head: ffi::PyObject,
    vectorcall: ffi::vectorcallfunc,
    documented: *mut ffi::PyObject,
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
        Ok((caller, function, Args::new(py, args.add(2), given - 2, names)))
    }
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
        call(caller.as_any(), caller.get().settings()?, &function, args)
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

/// The slow way to call a method, with a tuple and a dict.
unsafe extern "C" fn tuple_slot(
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
        // SAFETY: `method` is a Method, since this is a slot of its type; the values outlive the call.
        unsafe {
            let vectorcall = (*method.cast::<Method>()).vectorcall;
            owned(py, vectorcall(method, pointers.as_ptr(), given, names))
        }
    };
    guarded(work).map_or(ptr::null_mut(), Bound::into_ptr)
}

/// Bound to a caller it is a method like any other.
unsafe extern "C" fn get_slot(
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
        let members = Box::leak(Box::new([ffi::PyMemberDef::default(); 2]));
        members[0] = ffi::PyMemberDef {
            name: c"__vectorcalloffset__".as_ptr(),
            type_code: ffi::Py_T_PYSSIZET,
            offset: std::mem::offset_of!(Method, vectorcall) as ffi::Py_ssize_t,
            flags: ffi::Py_READONLY,
            doc: ptr::null(),
        };
        let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
        let mut slots = [
            slot(ffi::Py_tp_members, members.as_mut_ptr().cast()),
            slot(ffi::Py_tp_call, tuple_slot as *mut c_void),
            slot(ffi::Py_tp_descr_get, get_slot as *mut c_void),
            slot(ffi::Py_tp_getattro, attribute_slot as *mut c_void),
            ffi::PyType_Slot::default(),
        ];
        let mut spec = ffi::PyType_Spec {
            name: c"tidegate._native.Method".as_ptr(),
            basicsize: size_of::<Method>() as c_int,
            itemsize: 0,
            flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_METHOD_DESCRIPTOR | HAVE_VECTORCALL) as u32,
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: the spec describes `Method`; its names and members live for ever, the rest is copied.
        let kind = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec))? };
        kind.cast_into::<PyType>().map(Bound::unbind).map_err(PyErr::from)
    });
    kind.map(|kind| kind.bind(py))
}

/// The native method that a Python function documents: `call`, or `acall`.
#[pyfunction]
#[pyo3(signature = (documented: "object") -> "object")]
pub fn native_method(documented: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = documented.py();
    let name: String = documented.getattr("__name__")?.extract()?;
    let kind = method_type(py)?;
    // SAFETY: a new object of this type, zeroed; both fields are set before anyone can see it. The function is never
    // let go of, as the object has no destructor of its own: it lives as long as its class.
    unsafe {
        let made = ffi::PyType_GenericAlloc(kind.as_ptr().cast(), 0);
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        let method = made.as_ptr().cast::<Method>();
        (*method).vectorcall = if name == "acall" { acall_slot } else { call_slot };
        (*method).documented = documented.into_ptr();
        Ok(made)
    }
}
