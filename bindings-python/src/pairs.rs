//! Conversion of settings to pairs of key and value, which core validates, and of its mistakes to exceptions.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidegate::{Clash, Policy, PolicyError as Mistake, Pool, PoolKind, Value};

pyo3::import_exception!(tidegate._engine.errors, PolicyError);

/// What a host says of one key.
#[derive(FromPyObject)]
pub enum Given {
    Number(f64),
    Text(String),
}

/// Pairs as core takes them.
pub fn plain(pairs: &[(String, Given)]) -> Vec<(&str, Value<'_>)> {
    let pairs = pairs.iter().map(|(key, given)| match given {
        Given::Number(number) => (key.as_str(), Value::Number(*number)),
        Given::Text(text) => (key.as_str(), Value::Text(text)),
    });
    pairs.collect()
}

/// The policy of these pairs, or `PolicyError` with every mistake there is.
pub fn checked(name: &str, pairs: &[(String, Given)]) -> PyResult<Policy> {
    Policy::from_pairs(name, &plain(pairs)).map_err(|errors| raise(&errors))
}

/// The pool of these pairs, or `PolicyError` with every mistake there is.
pub fn checked_pool(name: &str, kind: &str, pairs: &[(String, Given)]) -> PyResult<Pool> {
    let Some(kind) = PoolKind::of_name(kind) else {
        return Err(PyValueError::new_err(format!("no pool is a {kind}")));
    };
    Pool::from_pairs(name, kind, &plain(pairs)).map_err(|errors| raise(&errors))
}

/// What an engine does not take in.
pub fn clashes(what: &str, clash: &Clash) -> PyErr {
    PolicyError::new_err((vec![(what.to_owned(), format!("{:?}", clash.name), clash.rule.to_owned())],))
}

/// All mistakes as one exception.
pub fn raise(mistakes: &[Mistake]) -> PyErr {
    let triple = |mistake: &Mistake| {
        let line = mistake.line.map_or_else(String::new, |line| format!(" (line {line})"));
        (mistake.key.clone(), mistake.value.clone(), format!("{}{line}", mistake.rule))
    };
    PolicyError::new_err((mistakes.iter().map(triple).collect::<Vec<_>>(),))
}
