//! A response that the Python half still has to judge: its status is 400 or more, or its body has not been read.
//!
//! A transport returns it in place of the response. Raising it would cost a traceback for each such response.

use pyo3::prelude::*;

/// A response that has not been judged yet.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Unread {
    /// The transport's response.
    #[pyo3(get)]
    response: Py<PyAny>,
}

#[pymethods]
impl Unread {
    #[new]
    #[pyo3(signature = (response: "object"))]
    fn new(response: Py<PyAny>) -> Self {
        Self { response }
    }
}

impl Unread {
    /// The transport's response.
    pub fn response<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.response.bind(py).clone()
    }
}
