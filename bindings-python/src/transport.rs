//! Sends the first attempt of a request over httpx, and accepts a response that is a success with a complete body. `_http/httpx_run.py`
//! handles all other responses, and all further attempts.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use crate::ffi::{Args, Raised, call1, is_exactly, set_while};

/// Lowest status that core has to judge: a status below it is ok (`docs/spec.md`, 1.4.10).
const FAILURES: i64 = 400;

/// Function of a transport's calls. The native half recognises it and calls the inner transport directly. The arguments of a call
/// are the request, the request to send, and the start and the end of its time limit.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Sender {
    /// The inner transport. Its method is looked up for each request, because test tools replace it.
    inner: Py<PyAny>,
    method: Py<PyString>,
    /// Type of a body that is in memory.
    whole_body: Py<PyType>,
    /// Methods `set` and `reset` of the context variable that limits blocking I/O.
    limit: (Py<PyAny>, Py<PyAny>),
    /// Report of a call that succeeded at its first attempt; each response gets a copy.
    report: Py<PyDict>,
    /// Whether the newest response had a complete body.
    whole: AtomicBool,
}

#[pymethods]
impl Sender {
    #[new]
    #[pyo3(signature = (inner: "object", method, whole_body: "type", until: "object", report: "dict[str, object]"))]
    fn new(
        inner: Py<PyAny>,
        method: Py<PyString>,
        whole_body: Py<PyType>,
        until: &Bound<'_, PyAny>,
        report: Py<PyDict>,
    ) -> PyResult<Self> {
        let limit = (until.getattr("set")?.unbind(), until.getattr("reset")?.unbind());
        Ok(Self { inner, method, whole_body, limit, report, whole: AtomicBool::new(false) })
    }

    /// Whether the newest response had a complete body.
    #[getter]
    fn whole(&self) -> bool {
        self.whole.load(Ordering::Relaxed)
    }

    /// Sends `sent`, and returns a response or a coroutine. Calls do not use this slot, but refuse functions without it.
    #[pyo3(signature = (request: "object", sent: "object", began: "int", until: "float | None") -> "Any")]
    fn __call__<'py>(
        &self,
        request: &Bound<'py, PyAny>,
        sent: &Bound<'py, PyAny>,
        began: &Bound<'py, PyAny>,
        until: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = (request, began); // `Quick._run` reads them when the call leaves the happy path
        self.call_inner_until(sent, until).map_err(|raised| raised.take(sent.py()))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("{}.{}", self.inner.bind(py).repr()?, self.method.bind(py)))
    }

    #[allow(clippy::needless_pass_by_value)] // so the interpreter calls it
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.inner)
    }
}

impl Sender {
    /// Returns the function as a sender, if its type is `kind`, the type of senders.
    #[inline(always)]
    pub fn of<'a>(function: &'a Bound<'_, PyAny>, kind: &Py<PyType>) -> Option<&'a Self> {
        if is_exactly(function, kind) { function.cast_exact::<Self>().ok().map(Bound::get) } else { None }
    }

    /// Calls the inner transport. Returns a response or a coroutine.
    fn call_inner<'py>(&self, sent: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Raised> {
        let py = sent.py();
        call1(&self.inner.bind(py).getattr(self.method.bind(py))?, sent)
    }

    /// Calls the inner transport with the arguments of a call. Returns its coroutine.
    pub fn make_coroutine<'py>(&self, args: Option<&Bound<'py, PyAny>>) -> Result<Bound<'py, PyAny>, Raised> {
        let args = args.and_then(|args| args.cast::<PyTuple>().ok()).ok_or_else(missing)?;
        self.call_inner(&args.get_item(1)?)
    }

    /// Sends a request in this thread. Returns the response, and whether `accept` accepted it.
    pub fn send<'py>(&self, args: Args<'_, 'py>) -> Result<(Bound<'py, PyAny>, bool), Raised> {
        let (Some(sent), Some(until)) = (args.positional(1), args.positional(3)) else {
            return Err(missing().into());
        };
        let response = self.call_inner_until(&sent, &until)?;
        let accepted = self.accept(&response)?;
        Ok((response, accepted))
    }

    /// Calls the inner transport. Its blocking I/O ends at `until`, in seconds on the process's monotonic clock; None sets no limit.
    fn call_inner_until<'py>(
        &self,
        sent: &Bound<'py, PyAny>,
        until: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>, Raised> {
        if until.is_none() {
            return self.call_inner(sent);
        }
        let (set, reset) = (self.limit.0.bind(sent.py()), self.limit.1.bind(sent.py()));
        set_while(set, reset, until, || self.call_inner(sent))
    }

    /// Accepts a success with a complete body: attaches the call's report and returns true. The shell must judge or read any other
    /// response.
    pub fn accept(&self, response: &Bound<'_, PyAny>) -> Result<bool, Raised> {
        let py = response.py();
        let whole = is_exactly(&response.getattr(intern!(py, "stream"))?, &self.whole_body);
        self.whole.store(whole, Ordering::Relaxed);
        let status: i64 = response.getattr(intern!(py, "status_code"))?.extract()?;
        if status >= FAILURES || !whole {
            return Ok(false);
        }
        let report = self.report.bind(py).copy()?;
        response.getattr(intern!(py, "extensions"))?.set_item(intern!(py, "tidegate"), report)?;
        Ok(true)
    }
}

#[cold]
fn missing() -> PyErr {
    PyTypeError::new_err(
        "a sender takes four arguments: the request, the request to send, and the start and the end of its time limit",
    )
}
