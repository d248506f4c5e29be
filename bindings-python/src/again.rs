//! Continues after a failed attempt if the next attempt starts at once. Conversions only: this module maps the exception's
//! type to an outcome and reports it to the engine. The Python half handles every reply but an immediate attempt.
//!
//! `tidegate._call.outcomes` decides about the outcome of a type, once per type; this module caches the results.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use tidegate::{Action, CallId, Event, Outcome, Step, Time, Verdict, wire};

use crate::runner::Settings;
use crate::telemetry;

/// How many types are remembered. A program has a few dozen; one that makes classes as it goes shall not keep them all.
const MOST_TYPES: usize = 512;

/// What the engine said of a failure, or that it has not been asked.
pub enum After {
    /// Make this attempt, now: its number, and the step that says so.
    Attempt(u8, Step, Time),
    /// This failure is what the caller gets, as it is.
    Raise,
    /// The Python half carries out this step.
    Shell(Step),
    /// The Python half judges the failure.
    Unjudged,
}

/// Tells the engine of a failed attempt, if the type of its exception says all there is to say of it.
pub fn failed<'py>(
    settings: &Settings,
    call: CallId,
    attempt: u8,
    function: &Bound<'py, PyAny>,
    failure: &Bound<'py, PyAny>,
) -> PyResult<After> {
    let py = failure.py();
    if !settings.is_judged_by_type() {
        return Ok(After::Unjudged);
    }
    if left_with(failure) {
        return Ok(After::Unjudged); // an inner call has left its outcome with the exception
    }
    // A type that cannot be hashed, because of its metaclass, is judged by the Python half.
    let Ok(Some(outcome)) = outcome(&failure.get_type()) else { return Ok(After::Unjudged) };
    let engine = settings.engine();
    let (step, woken, now) = engine.on_at(py, call, Event::Finished { attempt, outcome });
    if let Some(woken) = woken
        && !(woken.is_empty() && telemetry::hush(engine, py)?)
    {
        settings.notify(py, call, function, failure, woken)?;
    }
    Ok(match step.action() {
        Action::Attempt { attempt, hedge: false } if step.stop() == 0 => After::Attempt(attempt, step, now),
        // This verdict adds no note to an exception of a known type, so it is raised directly.
        Action::Done { verdict: Verdict::NotRetryable, result: Some(_), .. } if settings.ends_bare() => {
            settings.mark(failure, call)?;
            After::Raise
        }
        _ => After::Shell(step),
    })
}

/// How many failed answers of inner calls have a judgement that no call around them has taken.
static LEFT_ANSWERS: AtomicUsize = AtomicUsize::new(0);

/// Says how many failed answers have a judgement that an inner call has left (`tidegate._call.left`).
#[pyfunction]
pub fn left_answers(count: usize) {
    LEFT_ANSWERS.store(count, Ordering::Relaxed);
}

/// Has an inner call left its judgement with this answer?
#[inline(always)]
pub fn is_left(value: &Bound<'_, PyAny>) -> bool {
    LEFT_ANSWERS.load(Ordering::Relaxed) != 0 && Python::attach(|_| asks_whether_left(value))
}

#[cold]
fn asks_whether_left(value: &Bound<'_, PyAny>) -> bool {
    static ASK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let answer = ASK.import(py, "tidegate._call.left", "is_left").and_then(|ask| ask.call1((value,)));
    answer.is_ok_and(|answer| answer.is_truthy().unwrap_or(false))
}

/// Has an inner call left its judgement with this exception? One whose attributes raise has none.
fn left_with(failure: &Bound<'_, PyAny>) -> bool {
    let py = failure.py();
    let attributes = failure.getattr(intern!(py, "__dict__"));
    attributes.and_then(|them| them.contains(intern!(py, "__tidegate_left__"))).unwrap_or(false)
}

/// What an exception of this type says; None if that depends on the exception.
fn outcome(kind: &Bound<'_, PyType>) -> PyResult<Option<Outcome>> {
    static KNOWN: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    static ASK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = kind.py();
    if !kind.is_subclass_of::<PyException>()? {
        return Ok(None); // the caller was cancelled or interrupted
    }
    let known = KNOWN.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    let word: i64 = if let Some(word) = known.get_item(kind)? {
        word.extract()?
    } else {
        let word = ASK.import(py, "tidegate._call.outcomes", "of_type")?.call1((kind,))?;
        if known.len() >= MOST_TYPES {
            known.clear();
        }
        known.set_item(kind, &word)?;
        word.extract()?
    };
    let Ok(word) = u64::try_from(word) else { return Ok(None) };
    let finished =
        wire::pack_event(Event::Finished { attempt: 0, outcome: Outcome::of(tidegate::Class::Ok) });
    Ok(match wire::unpack_event(finished | word) {
        Some(Event::Finished { outcome, .. }) => Some(outcome),
        _ => None,
    })
}
