//! `Caller.call`: the happy path of a call that a thread makes.
//!
//! Everything else is passed to the Python half together with the engine's last step, so that nothing is decided twice.
//! Between `begin` and the end only the user's Python code runs, so an interrupt cannot lose a call.

use pyo3::intern;
use pyo3::prelude::*;
use tidegate::{CallId, wire};

use crate::again::{self, After};
use crate::awaitable::is_coroutine;
use crate::engine::Begun;
use crate::ffi::{Args, Raised, or_none};
use crate::inside;
use crate::runner::Settings;
use crate::scope::{self, Around, Globals};
use crate::transport::Sender;

/// `Caller.call`: the happy path.
pub fn run<'py>(
    caller: &Bound<'py, PyAny>,
    settings: &Settings,
    function: &Bound<'py, PyAny>,
    args: Args<'_, 'py>,
) -> Result<Bound<'py, PyAny>, Raised> {
    let py = caller.py();
    let globals = scope::globals(py)?;
    let around = scope::around(py, globals)?;
    let variable = scope::needs_variable(py, globals)?;
    let (begun, woken) = settings.begin(caller, around.scope.as_ref())?;
    if woken.is_some() || !begun.is_first_attempt() || !settings.is_fast() {
        let shell = || from_the_start(caller, settings, &around, begun, woken, function, args);
        return Ok(Python::attach(|_| shell())?);
    }
    let (call, owner) = (begun.call, settings.owner.bind(py));
    let mut attempt = 1;
    loop {
        let result = if variable {
            within_variable(settings, globals, &around, call, function, args)
        } else {
            scope::enter(call.to_word(), owner, &around);
            let result = run_attempt(globals, function, args);
            scope::leave(py, call.to_word(), owner);
            result
        };
        match result {
            Ok((value, true)) if !is_coroutine(&value, globals) && !again::is_left(&value) => {
                match settings.finished(py, call, attempt) {
                    None => return Ok(value),
                    Some(woken) => {
                        let notify = || settings.notify(py, call, function, &value, woken);
                        return Ok(Python::attach(|_| notify().map(|()| value.clone()))?);
                    }
                }
            }
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

/// Calls the function. Returns its result, and false if the shell must judge it.
#[inline(always)]
fn run_attempt<'py>(
    globals: &Globals,
    function: &Bound<'py, PyAny>,
    args: Args<'_, 'py>,
) -> Result<(Bound<'py, PyAny>, bool), Raised> {
    match Sender::of(function, &globals.sender) {
        None => Ok((args.call(function)?, true)),
        Some(sender) => sender.send(args),
    }
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
) -> Result<(Bound<'py, PyAny>, bool), Raised> {
    let py = function.py();
    let owner = settings.owner.bind(py);
    let scope = inside::make(py, &globals.inside, call.to_word(), owner, around.scope.clone())?;
    let result = scope::set_for(globals, &scope, || run_attempt(globals, function, args));
    inside::end(&scope);
    result
}

/// Continues after a failed attempt: natively if the next one starts at once, otherwise in the shell.
#[cold]
fn from_a_failure<'py>(
    caller: &Bound<'py, PyAny>,
    settings: &Settings,
    around: &Around<'py>,
    (call, attempt): (CallId, u8),
    failed: Result<(Bound<'py, PyAny>, bool), Raised>,
    function: &Bound<'py, PyAny>,
    args: Args<'_, 'py>,
) -> PyResult<Failed<'py>> {
    let py = caller.py();
    let mut newest = attempt;
    let go_on = || {
        let failure = match failed {
            Err(raised) => raised.take(py).into_value(py).into_bound(py).into_any(),
            Ok((value, judged)) if !judged || again::is_left(&value) => value,
            Ok((value, _)) => caller.call_method1(intern!(py, "_not_async"), (value, function))?,
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
        let outer = or_none(py, around.scope.clone());
        let arguments =
            (outer, call.to_word(), attempt, step, failure, function, args.tuple()?, args.dict()?);
        caller.call_method1(intern!(py, "_failed"), arguments).map(Failed::Ends)
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
    Begun { call, step, .. }: Begun,
    woken: Option<Vec<u64>>,
    function: &Bound<'py, PyAny>,
    args: Args<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = caller.py();
    let hand_over = || {
        if let Some(woken) = woken {
            settings.wake(py, woken)?;
        }
        let (id, step) = (call.to_word(), wire::pack_step(step));
        let arguments = (or_none(py, around.scope.clone()), id, step, function, args.tuple()?, args.dict()?);
        caller.call_method1(intern!(py, "_begun"), arguments)
    };
    hand_over().map_err(|error| settings.give_up_unless_ended(py, call, error))
}
