//! What runs around a call: the context variable of the shells, and the calls of this thread that need none.
//!
//! A call that a thread makes is a `Frame` while its function runs. Setting a context variable costs as much as
//! everything else of a call together, so nothing is set: whoever begins a call, or enters a deadline, asks
//! [`around`], and only then does a frame become the tuple that the shells keep in the variable.
//!
//! A frame counts where the variable still has the value that it had when the call began. So a context of its own
//! (a task of an older loop with a deadline, say) is not mistaken for the inside of a call on the same thread.

use std::cell::RefCell;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

use crate::awaitable;

/// What is looked up once.
pub struct Globals {
    variable: Py<PyAny>,
    get: Py<PyAny>,
    pub set: Py<PyAny>,
    pub reset: Py<PyAny>,
    pub modules: Py<PyDict>,
    pub coroutine: Py<PyType>,
    pub awaitable: Py<PyType>,
}

/// The globals of the process; made when they are first needed.
pub fn globals(py: Python<'_>) -> PyResult<&'static Globals> {
    static GLOBALS: PyOnceLock<Globals> = PyOnceLock::new();
    GLOBALS.get_or_try_init(py, || {
        let default = PyDict::new(py);
        default.set_item("default", py.None())?;
        let variable = py.import("contextvars")?.getattr("ContextVar")?;
        let variable = variable.call(("tidegate.scope",), Some(&default))?;
        let coroutine = py.import("types")?.getattr("CoroutineType")?;
        Ok(Globals {
            get: variable.getattr("get")?.unbind(),
            set: variable.getattr("set")?.unbind(),
            reset: variable.getattr("reset")?.unbind(),
            variable: variable.unbind(),
            modules: py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?.unbind(),
            coroutine: coroutine.cast_into::<PyType>()?.unbind(),
            awaitable: awaitable::make_type(py)?.unbind(),
        })
    })
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
    told: Option<Py<PyAny>>,
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
pub fn around<'py>(py: Python<'py>, globals: &Globals) -> PyResult<Around<'py>> {
    let said = globals.get.bind(py).call0()?;
    let top = FRAMES.with_borrow(|frames| {
        let frame = frames.last().filter(|frame| frame.said.is(&said))?;
        let cloned = |scope: &Option<Py<PyAny>>| scope.as_ref().map(|scope| scope.bind(py).clone());
        Some((frame.call, frame.owner.bind(py).clone(), cloned(&frame.around), cloned(&frame.told)))
    });
    let scope = match top {
        None => awaitable::live(py, &said, globals),
        Some((_, _, _, Some(told))) => Some(told),
        Some((call, owner, outer, None)) => {
            // Nothing is borrowed here: making a tuple can run a finalizer, and that can make calls.
            let made = (owner, call, py.None(), or_none(py, outer)).into_pyobject(py)?;
            let told = made.clone().into_any().unbind();
            let unused = FRAMES.with_borrow_mut(|frames| {
                match frames.iter_mut().rfind(|frame| frame.call == call && frame.told.is_none()) {
                    Some(frame) => frame.told.replace(told),
                    None => Some(told),
                }
            });
            drop(unused.map(|scope| scope.into_bound(py)));
            Some(made.into_any())
        }
    };
    Ok(Around { said, scope })
}

fn none(py: Python<'_>) -> Bound<'_, PyAny> {
    py.None().into_bound(py)
}

/// A scope, or None.
pub fn or_none<'py>(py: Python<'py>, scope: Option<Bound<'py, PyAny>>) -> Bound<'py, PyAny> {
    scope.unwrap_or_else(|| none(py))
}

/// A call's function is about to run on this thread.
pub fn enter(call: u64, owner: &Bound<'_, PyAny>, around: &Around<'_>) {
    let frame = Frame {
        call,
        owner: owner.clone().unbind(),
        said: around.said.clone().unbind(),
        around: around.scope.clone().map(Bound::unbind),
        told: None,
    };
    FRAMES.with_borrow_mut(|frames| frames.push(frame));
}

/// It has run. Found by its number, since a greenlet may have let others run in between.
pub fn leave(py: Python<'_>, call: u64, owner: &Bound<'_, PyAny>) {
    let frame = FRAMES.with_borrow_mut(|frames| {
        let at = frames.iter().rposition(|frame| frame.call == call && frame.owner.is(owner))?;
        Some(frames.remove(at))
    });
    if let Some(Frame { owner, said, around, told, .. }) = frame {
        for reference in [Some(owner), Some(said), around, told].into_iter().flatten() {
            drop(reference.into_bound(py));
        }
    }
}

/// The context variable that the shells keep scopes in.
#[pyfunction]
#[pyo3(signature = () -> "object")]
pub fn scope_variable(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    Ok(globals(py)?.variable.bind(py).clone())
}

/// The scope of the code that runs here, or None.
#[pyfunction]
#[pyo3(signature = () -> "object")]
pub fn scope(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    Ok(or_none(py, around(py, globals(py)?)?.scope))
}

/// The type of what `acall` answers.
#[pyfunction]
#[pyo3(signature = () -> "type")]
pub fn awaitable_type(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    Ok(globals(py)?.awaitable.bind(py).clone())
}
