//! Policy documents: text in, named pairs out. Core reads and checks them; here they only change hands.

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use tidegate::{Document as Core, PolicyError as Mistake, Value};

pyo3::import_exception!(tidegate._engine.errors, PolicyError);

/// A policy document that has been read and checked.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Document {
    core: Core,
}

#[pymethods]
impl Document {
    /// Reads a document: TOML, or JSON where `json` says so.
    ///
    /// Raises `PolicyError` with every mistake of every policy, each with its line.
    #[new]
    fn new(text: &str, json: bool) -> PyResult<Self> {
        let read = if json { Core::from_json(text) } else { Core::from_toml(text) };
        read.map(|core| Self { core }).map_err(|mistakes| raise(&mistakes))
    }

    /// The names of its policies.
    #[pyo3(signature = () -> "list[str]")]
    fn names(&self) -> Vec<&str> {
        self.core.policies().map(tidegate::Policy::name).collect()
    }

    /// Its pools: name, kind, and pairs without the name of their table.
    #[pyo3(signature = () -> "list[tuple[str, str, list[tuple[str, float | str]]]]")]
    fn pools<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for pool in self.core.pools() {
            list.append((pool.name(), pool.kind().name(), listed(py, pool.to_pairs())?))?;
        }
        Ok(list)
    }

    /// The pairs of a policy, its preset spelled out. Raises `KeyError` with the known names.
    #[pyo3(signature = (name) -> "list[tuple[str, float | str]]")]
    fn pairs<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let policy = self.core.policy(name).map_err(|unknown| PyKeyError::new_err(unknown.to_string()))?;
        listed(py, policy.to_pairs())
    }
}

fn listed<'py>(py: Python<'py>, pairs: Vec<(&str, Value<'_>)>) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for (key, value) in pairs {
        match value {
            Value::Number(number) => list.append((key, number))?,
            Value::Text(text) => list.append((key, text))?,
        }
    }
    Ok(list)
}

/// All mistakes as one exception.
pub fn raise(mistakes: &[Mistake]) -> PyErr {
    let triple = |mistake: &Mistake| {
        let line = mistake.line.map_or_else(String::new, |line| format!(" (line {line})"));
        (mistake.key.clone(), mistake.value.clone(), format!("{}{line}", mistake.rule))
    };
    PolicyError::new_err((mistakes.iter().map(triple).collect::<Vec<_>>(),))
}
