//! Scopes around a call: the context variable of the shells, and the frames of native calls on this thread.
//!
//! A call made by a thread is a `Frame` while its function runs. Setting a context variable would cost as much as the rest
//! of the call, so native calls set none. Code that begins a call or enters a deadline calls [`around`], which converts
//! the frame to the tuple that the shells store in the variable.
//!
//! A frame is valid only while the variable has the same value as at the begin of the call. So code in another context
//! (for example a task with a deadline) does not count as running inside a call on the same thread.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use crate::ffi::{self, Raised};
use crate::inside;
use crate::transport::Sender;

/// What is looked up once.
pub struct Globals {
    /// How many modules there were when what moves contexts between threads was looked for, and whether it was there.
    pub seen_for_contexts: AtomicUsize,
    pub needs_variable: AtomicBool,
    /// How many there were when `trio` was looked for.
    pub seen_for_trio: AtomicUsize,
    variable: Py<PyAny>,
    get: Py<PyAny>,
    pub set: Py<PyAny>,
    pub reset: Py<PyAny>,
    pub modules: Py<PyDict>,
    pub coroutine: Py<PyType>,
    pub inside: Py<PyType>,
    pub sender: Py<PyType>,
}

/// The globals of the process; made when they are first needed.
#[inline(always)]
pub fn globals(py: Python<'_>) -> Result<&'static Globals, Raised> {
    static GLOBALS: PyOnceLock<Globals> = PyOnceLock::new();
    match GLOBALS.get(py) {
        Some(globals) => Ok(globals),
        None => Ok(make_globals(py, &GLOBALS)?),
    }
}

#[cold]
fn make_globals<'a>(py: Python<'_>, place: &'a PyOnceLock<Globals>) -> PyResult<&'a Globals> {
    place.get_or_try_init(py, || {
        let default = PyDict::new(py);
        default.set_item("default", py.None())?;
        let variable = py.import("contextvars")?.getattr("ContextVar")?;
        let variable = variable.call(("tidegate.scope",), Some(&default))?;
        let coroutine = py.import("types")?.getattr("CoroutineType")?;
        Ok(Globals {
            seen_for_contexts: AtomicUsize::new(0),
            needs_variable: AtomicBool::new(false),
            seen_for_trio: AtomicUsize::new(0),
            get: variable.getattr("get")?.unbind(),
            set: variable.getattr("set")?.unbind(),
            reset: variable.getattr("reset")?.unbind(),
            variable: variable.unbind(),
            modules: py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?.unbind(),
            coroutine: coroutine.cast_into::<PyType>()?.unbind(),
            inside: inside::make_type(py)?.unbind(),
            sender: py.get_type::<Sender>().unbind(),
        })
    })
}

/// Must the context variable be set for a call of this thread? Frames of a thread are cheaper, but are seen on that thread only.
///
/// Greenlets share a thread and switch at any moment, each with its own context; and what hands contexts to other threads
/// (executors, anyio's and asgiref's portals) takes the variable along.
#[inline(always)]
pub fn needs_variable(py: Python<'_>, globals: &Globals) -> Result<bool, Raised> {
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

/// A call whose function runs on this thread, and which no context variable tells of.
struct Frame {
    call: u64,
    /// The Python half of its engine.
    owner: Py<PyAny>,
    /// What the variable said when it began.
    said: Py<PyAny>,
    /// What was around it.
    around: Option<Py<PyAny>>,
    /// Itself as the shells know it, once somebody has asked.
    handle: Option<Py<PyAny>>,
}

thread_local! {
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

/// What surrounds the code that runs here.
pub struct Around<'py> {
    /// The variable's own value.
    pub said: Bound<'py, PyAny>,
    /// The innermost scope; none where there is none.
    pub scope: Option<Bound<'py, PyAny>>,
}

/// What surrounds the code that runs here.
#[inline(always)]
pub fn around<'py>(py: Python<'py>, globals: &Globals) -> Result<Around<'py>, Raised> {
    let said = ffi::call0(globals.get.bind(py))?;
    let within = FRAMES.with_borrow(|frames| frames.last().is_some_and(|frame| frame.said.is(&said)));
    let scope = if within { frame_scope(py, &said)? } else { inside::live(&said, &globals.inside) };
    Ok(Around { said, scope })
}

/// The innermost call of this thread, as the shells know it.
#[cold]
fn frame_scope<'py>(py: Python<'py>, said: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let top = FRAMES.with_borrow(|frames| {
        let frame = frames.last().filter(|frame| frame.said.is(said))?;
        let cloned = |scope: &Option<Py<PyAny>>| scope.as_ref().map(|scope| scope.bind(py).clone());
        Some((frame.call, frame.owner.bind(py).clone(), cloned(&frame.around), cloned(&frame.handle)))
    });
    let (call, owner, outer) = match top {
        None => return Ok(None),
        Some((_, _, _, Some(handle))) => return Ok(Some(handle)),
        Some((call, owner, outer, None)) => (call, owner, outer),
    };
    // `FRAMES` must not be borrowed here: making a tuple can run a finalizer, which can make calls.
    let made = (owner, call, py.None(), ffi::or_none(py, outer)).into_pyobject(py)?.into_any();
    let handle = made.clone().unbind();
    let unused = FRAMES.with_borrow_mut(|frames| {
        match frames.iter_mut().rfind(|frame| frame.call == call && frame.handle.is_none()) {
            Some(frame) => frame.handle.replace(handle),
            None => Some(handle),
        }
    });
    drop(unused.map(|scope| scope.into_bound(py)));
    Ok(Some(made))
}

/// A call's function is about to run on this thread.
pub fn enter(call: u64, owner: &Bound<'_, PyAny>, around: &Around<'_>) {
    let frame = Frame {
        call,
        owner: owner.clone().unbind(),
        said: around.said.clone().unbind(),
        around: around.scope.clone().map(Bound::unbind),
        handle: None,
    };
    FRAMES.with_borrow_mut(|frames| frames.push(frame));
}

/// It has run. Found by its number, since a greenlet may have let others run in between.
pub fn leave(py: Python<'_>, call: u64, owner: &Bound<'_, PyAny>) {
    let frame = FRAMES.with_borrow_mut(|frames| {
        let at = frames.iter().rposition(|frame| frame.call == call && frame.owner.is(owner))?;
        Some(frames.remove(at))
    });
    if let Some(Frame { owner, said, around, handle, .. }) = frame {
        for reference in [Some(owner), Some(said), around, handle].into_iter().flatten() {
            drop(reference.into_bound(py));
        }
    }
}

/// Sets the context variable while something runs.
pub fn set_for<T>(
    globals: &Globals,
    scope: &Bound<'_, PyAny>,
    run: impl FnOnce() -> Result<T, Raised>,
) -> Result<T, Raised> {
    let py = scope.py();
    ffi::set_while(globals.set.bind(py), globals.reset.bind(py), scope, run)
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
    let run = || ffi::call_with(function, Some(args.as_any()), None);
    let result = globals(py).and_then(|globals| set_for(globals, scope, run));
    result.map_err(|raised| raised.take(py))
}

/// The context variable that the shells keep scopes in.
#[pyfunction]
#[pyo3(signature = () -> "object")]
pub fn scope_variable(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    Ok(globals(py).map_err(|raised| raised.take(py))?.variable.bind(py).clone())
}

/// The scope of the code that runs here, or None.
#[pyfunction]
#[pyo3(signature = () -> "object")]
pub fn scope(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let around = globals(py).and_then(|globals| around(py, globals));
    Ok(ffi::or_none(py, around.map_err(|raised| raised.take(py))?.scope))
}
