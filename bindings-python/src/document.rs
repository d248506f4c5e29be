//! Policy documents: text in, named pairs out. Core parses and validates them; this module only converts.

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use tidegate::{Document as Core, PolicyId, Value};

use crate::engine::Engine;
use crate::pairs::{clashes, raise};

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

    /// Takes a policy into an engine: its number. Raises `KeyError` with the known names.
    fn take(&self, py: Python<'_>, engine: &Bound<'_, Engine>, name: &str) -> PyResult<u32> {
        let policy = self.core.policy(name).map_err(|unknown| PyKeyError::new_err(unknown.to_string()))?;
        let taken = engine.get().state.lock(py).take_in(policy.clone());
        taken.map(PolicyId::to_word).map_err(|clash| clashes("policy", &clash))
    }

    /// Takes an engine over from this version of a document to another, as a whole or not at all: the calls to wake.
    ///
    /// Raises `PolicyError` with everything that cannot go over.
    #[pyo3(signature = (engine, to) -> "list[int]")]
    fn reload(&self, py: Python<'_>, engine: &Bound<'_, Engine>, to: &Self) -> PyResult<Vec<u64>> {
        let (mut state, now) = engine.get().at_now(py);
        let is_new = |policy: &&tidegate::Policy| state.core.policy_named(policy.name()).is_none();
        let new: Vec<_> = to.core.policies().filter(is_new).map(tidegate::Policy::name).collect();
        let reloaded = state.reload(&self.core, &to.core, now);
        if reloaded.is_ok() {
            // `take` acquires a policy when a caller first uses it. Until then no owner holds it.
            for id in new.into_iter().filter_map(|name| state.core.policy_named(name)).collect::<Vec<_>>() {
                state.release(id, true, now);
            }
        }
        let woken = reloaded.map(|flags| {
            let named = |policy: &tidegate::Policy| state.core.policy_named(policy.name());
            for id in to.core.policies().filter_map(named).collect::<Vec<_>>() {
                state.traits(id.to_word());
            }
            state.woken(flags).unwrap_or_default()
        });
        drop(state);
        woken.map_err(|mistakes| raise(&mistakes))
    }

    /// A number for what it says, as 16 hexadecimal digits: the same for documents that say the same.
    fn digest(&self) -> String {
        format!("{:016x}", self.core.digest())
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
