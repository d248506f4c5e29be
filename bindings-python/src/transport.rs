//! The first attempt of a request over httpx: sends it, and says whether its response is a success with its whole body. All
//! else is done by `_http/httpx_fast.py` and `_http/httpx_run.py`.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use crate::ffi::{Args, Raised, call1, is_exactly, set_while};

/// Statuses from this one on have to be judged.
const FAILURES: i64 = 400;

/// Sends the first attempts of a transport. It is the function of their calls, which the native half calls directly, with
/// the request, the request as it is sent, and the start and the end of its time limit.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Sender {
    /// The transport that sends. Its method is looked up each time, because tests replace it.
    inner: Py<PyAny>,
    method: Py<PyString>,
    /// The type of a body that is in memory.
    whole_body: Py<PyType>,
    /// `set` and `reset` of the context variable that limits blocking I/O.
    limit: (Py<PyAny>, Py<PyAny>),
    /// What a response tells of a call that has succeeded at once.
    report: Py<PyDict>,
    /// Had the newest response its whole body?
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

    /// Had the newest response its whole body?
    #[getter]
    fn whole(&self) -> bool {
        self.whole.load(Ordering::Relaxed)
    }

    /// Sends `sent` for `request`: a response, or a coroutine of one. Calls do not need it, but the function of a call can be
    /// called.
    #[pyo3(signature = (request: "object", sent: "object", began: "int", until: "float | None") -> "Any")]
    fn __call__<'py>(
        &self,
        request: &Bound<'py, PyAny>,
        sent: &Bound<'py, PyAny>,
        began: &Bound<'py, PyAny>,
        until: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = (request, began); // of use to who continues the call
        self.send_until(sent, until).map_err(|raised| raised.take(sent.py()))
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
    /// The sender that a function is, if it is one; `kind` is the type of senders.
    #[inline(always)]
    pub fn of<'a>(function: &'a Bound<'_, PyAny>, kind: &Py<PyType>) -> Option<&'a Self> {
        if is_exactly(function, kind) { function.cast_exact::<Self>().ok().map(Bound::get) } else { None }
    }

    /// Calls the transport: a response, or a coroutine of one.
    fn begin<'py>(&self, sent: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Raised> {
        let py = sent.py();
        call1(&self.inner.bind(py).getattr(self.method.bind(py))?, sent)
    }

    /// Calls the transport with the arguments of a call, and makes its coroutine.
    pub fn start<'py>(&self, args: Option<&Bound<'py, PyAny>>) -> Result<Bound<'py, PyAny>, Raised> {
        let args = args.and_then(|args| args.cast::<PyTuple>().ok()).ok_or_else(missing)?;
        self.begin(&args.get_item(1)?)
    }

    /// Sends a request in this thread. Returns the response, and whether it is a success with its whole body.
    pub fn send<'py>(&self, args: Args<'_, 'py>) -> Result<(Bound<'py, PyAny>, bool), Raised> {
        let (Some(sent), Some(until)) = (args.at(1), args.at(3)) else {
            return Err(missing().into());
        };
        let response = self.send_until(&sent, &until)?;
        let done = self.is_done(&response)?;
        Ok((response, done))
    }

    /// Calls the transport, with blocking I/O limited unless `until` is None.
    fn send_until<'py>(
        &self,
        sent: &Bound<'py, PyAny>,
        until: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>, Raised> {
        if until.is_none() {
            return self.begin(sent);
        }
        let (set, reset) = (self.limit.0.bind(sent.py()), self.limit.1.bind(sent.py()));
        set_while(set, reset, until, || self.begin(sent))
    }

    /// Is a response a success with its whole body? Then it tells of its call from now on.
    pub fn is_done(&self, response: &Bound<'_, PyAny>) -> Result<bool, Raised> {
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
    PyTypeError::new_err("a sender takes the request, what is sent, and the start and the end of its limit")
}
