//! The result of `Caller.acall`: an awaitable that behaves like a coroutine, and whose happy path never leaves this file.
//!
//! The first step begins the call and makes the user's coroutine. From then on the awaitable forwards what the coroutine
//! yields and what is sent to it. When the user's coroutine first suspends, its deadline or attempt timeout is put on the
//! loop's timer; a coroutine that never suspends needs no timer. If the coroutine succeeds, the call has succeeded. In all
//! other cases the Python shell takes over: it makes another coroutine from the engine's step, which is driven instead.
//!
//! The context variable is set to the call's `Inside` when the call begins, and is not reset: readers skip a call that has
//! ended. So the end of a call costs nothing, and tasks made inside the call know which call they were made in.

mod event_loop;
mod kind;
mod slots;

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning, PyStopIteration, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use pyo3::{ffi, intern};
use tidegate::{CallId, Step, Time, wire};

use crate::again::{self, After};
use crate::engine::Begun;
use crate::ffi::{Args, Raised, call_with, call1, new_object, or_none, owned};
use crate::inside;
use crate::runner::Runner;
use crate::scope::{self, Globals};
use crate::transport::Sender;

use event_loop::{forget, in_trio};

pub use kind::{awaitable_type, is_coroutine};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not driven yet; no call has begun.
    New,
    /// The user's coroutine is driven.
    User,
    /// The shell's coroutine is driven.
    Shell,
    Done,
}

/// The references it holds, by their place.
#[derive(Clone, Copy)]
enum Ref {
    Caller,
    Function,
    Args,
    Kwargs,
    /// The coroutine that the awaitable drives.
    Inner,
    /// Tells code inside which call it runs in, from the first attempt on.
    Inside,
    /// The loop's timers, once the call is among them.
    Timers,
}
const REFS: usize = 7;

/// The object. The interpreter's allocator zeroes it, which is a valid value of each field: `Phase::New` is 0.
///
/// Only whoever has set `busy` touches the cells, so that it is sound without a global lock too.
#[repr(C)]
struct Call {
    head: ffi::PyObject,
    busy: AtomicBool,
    phase: Cell<Phase>,
    /// The attempt that the user's coroutine is; 0 before the first.
    attempt: Cell<u8>,
    /// The call's id while the call runs, else 0.
    id: Cell<u64>,
    /// When its timer is due, on the engine's clock; 0 without one.
    due: Cell<u64>,
    refs: [Cell<*mut ffi::PyObject>; REFS],
}

/// What driving it brings.
enum Sent<'py> {
    Yields(Bound<'py, PyAny>),
    Returns(Bound<'py, PyAny>),
}

/// What followed a failed attempt.
enum Next<'py> {
    /// Another one, and what it did.
    Attempt(Result<Sent<'py>, Raised>),
    /// The shell's coroutine, and what that did; or the end.
    Shell(Result<Sent<'py>, Raised>),
}

/// A borrowed awaitable.
struct This<'a, 'py> {
    me: &'a Bound<'py, PyAny>,
    call: &'a Call,
}

/// Nobody else drives it while this lives.
struct Busy<'a>(&'a Call);

impl<'a> Busy<'a> {
    fn take(call: &'a Call) -> Option<Self> {
        if call.busy.swap(true, Ordering::Acquire) { None } else { Some(Self(call)) }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}

impl Call {
    fn get<'py>(&self, py: Python<'py>, which: Ref) -> Option<Bound<'py, PyAny>> {
        // SAFETY: null, or a reference that this object owns.
        unsafe { Bound::from_borrowed_ptr_or_opt(py, self.refs[which as usize].get()) }
    }

    fn put(&self, py: Python<'_>, which: Ref, value: Option<Bound<'_, PyAny>>) {
        let new = value.map_or(ptr::null_mut(), Bound::into_ptr);
        let old = self.refs[which as usize].replace(new);
        // SAFETY: null, or a reference that this object owned; it is not reachable from here any more.
        drop(unsafe { Bound::from_owned_ptr_or_opt(py, old) });
    }
}

impl Call {
    /// Drops all references.
    fn clear(&self, py: Python<'_>) {
        for reference in &self.refs {
            let old = reference.replace(ptr::null_mut());
            // SAFETY: as in `put`.
            drop(unsafe { Bound::from_owned_ptr_or_opt(py, old) });
        }
    }
}

impl<'py> This<'_, 'py> {
    fn py(&self) -> Python<'py> {
        self.me.py()
    }

    fn get(&self, which: Ref) -> Option<Bound<'py, PyAny>> {
        self.call.get(self.py(), which)
    }

    /// The caller that made the awaitable; held until the call ends.
    fn caller(&self) -> Result<Bound<'py, Runner>, Raised> {
        let caller = self.get(Ref::Caller).ok_or_else(ended)?;
        // SAFETY: nothing else is put there.
        Ok(unsafe { caller.cast_into_unchecked::<Runner>() })
    }

    fn function(&self) -> Result<Bound<'py, PyAny>, Raised> {
        Ok(self.get(Ref::Function).ok_or_else(ended)?)
    }

    fn id(&self) -> CallId {
        CallId::from_word(self.call.id.get())
    }

    /// Ends the awaitable and drops all that it held.
    fn end(&self) {
        self.call.phase.set(Phase::Done);
        self.call.id.set(0);
        if let Some(inside) = self.get(Ref::Inside) {
            inside::end(&inside);
        }
        self.call.clear(self.py());
    }

    /// Drives the coroutine by one step.
    #[inline(always)]
    fn send(&self, value: &Bound<'py, PyAny>) -> Result<Sent<'py>, Raised> {
        match self.call.phase.get() {
            Phase::User => self.user(self.drive(value)),
            Phase::New if value.is_none() => self.begin(value),
            Phase::Shell => self.shell(self.drive(value)),
            Phase::New => {
                Err(PyTypeError::new_err("can't send non-None value to a just-started coroutine").into())
            }
            Phase::Done => Err(reused().into()),
        }
    }

    /// Sends a value into the driven coroutine.
    #[inline(always)]
    fn drive(&self, value: &Bound<'py, PyAny>) -> Result<Sent<'py>, Raised> {
        let inner = self.call.refs[Ref::Inner as usize].get();
        let mut result = ptr::null_mut();
        // SAFETY: while the phase says so there is one, and `busy` keeps it from being let go of. It answers as
        // functions do.
        let (sent, result) = unsafe {
            let sent = ffi::PyIter_Send(inner, value.as_ptr(), &raw mut result);
            (sent, owned(self.py(), result)?)
        };
        Ok(if sent == ffi::PySendResult::PYGEN_RETURN { Sent::Returns(result) } else { Sent::Yields(result) })
    }

    /// Begins the call and runs its first attempt until that suspends for the first time.
    fn begin(&self, nothing: &Bound<'py, PyAny>) -> Result<Sent<'py>, Raised> {
        let py = self.py();
        let globals = scope::globals(py)?;
        let caller = self.caller()?;
        let settings = caller.get().settings()?;
        let around = scope::around(py, globals)?;
        let Ok((begun, woken)) = settings.begin(caller.as_any(), around.scope.as_ref()) else {
            let error = Raised.take(py);
            self.end();
            return Err(error.into());
        };
        self.call.id.set(begun.call.to_word());
        let fast = woken.is_none() && begun.is_first_attempt() && settings.is_fast_async();
        if !fast || begun.step.next().is_some() && in_trio(py, globals)? {
            return self.start_in_shell(&caller, around.scope, begun, woken);
        }
        self.expect(1, begun.step, begun.now);
        self.call.phase.set(Phase::User);
        let owner = settings.owner.bind(py);
        let made =
            inside::make(py, &globals.inside, begun.call.to_word(), owner, around.scope).and_then(|inside| {
                drop(call1(globals.set.bind(py), &inside)?);
                self.call.put(py, Ref::Inside, Some(inside));
                self.make(globals)
            });
        match made {
            Err(raised) => self.user(Err(raised)),
            Ok(coroutine) => {
                self.call.put(py, Ref::Inner, Some(coroutine));
                self.user(self.drive(nothing))
            }
        }
    }

    /// Records the attempt that starts now, and when its timer is due.
    fn expect(&self, attempt: u8, step: Step, now: Time) {
        let due = step.next().map(|next| now.as_micros().saturating_add(next.as_micros()).max(1));
        self.call.due.set(due.unwrap_or(0));
        self.call.attempt.set(attempt);
    }

    /// Hands the call to the shell, from its first step on.
    #[cold]
    fn start_in_shell(
        &self,
        caller: &Bound<'py, Runner>,
        scope: Option<Bound<'py, PyAny>>,
        Begun { call, step, .. }: Begun,
        woken: Option<Vec<u64>>,
    ) -> Result<Sent<'py>, Raised> {
        let py = self.py();
        let hand_over = || {
            if let Some(woken) = woken {
                caller.get().settings()?.wake(py, woken)?;
            }
            let (id, step) = (call.to_word(), wire::pack_step(step));
            let (function, args, kwargs) = (self.function()?, self.get(Ref::Args), self.get(Ref::Kwargs));
            let arguments = (or_none(py, scope), id, step, function, args, kwargs);
            Ok(caller.call_method1(intern!(py, "_abegun"), arguments)?)
        };
        let shell = Python::attach(|_| hand_over());
        self.to_shell(shell)
    }

    /// Calls the user's function and returns a coroutine, whatever kind of awaitable the function returns.
    #[inline(always)]
    fn make(&self, globals: &Globals) -> Result<Bound<'py, PyAny>, Raised> {
        let function = self.function()?;
        let args = self.get(Ref::Args);
        let made = match Sender::of(&function, &globals.sender) {
            None => call_with(&function, args.as_ref(), self.get(Ref::Kwargs).as_ref())?,
            Some(sender) => sender.make_coroutine(args.as_ref())?,
        };
        if is_coroutine(&made, globals) {
            return Ok(made);
        }
        let awaited = |caller: Bound<'py, Runner>| {
            caller.call_method1(intern!(self.py(), "_awaited"), (made, function))
        };
        let caller = self.caller()?;
        Ok(Python::attach(|_| awaited(caller))?)
    }

    /// Handles what the user's coroutine yielded, returned or raised.
    #[inline(always)]
    fn user(&self, mut sent: Result<Sent<'py>, Raised>) -> Result<Sent<'py>, Raised> {
        loop {
            match sent {
                Ok(Sent::Yields(value)) => {
                    if self.call.due.get() != 0 && self.call.refs[Ref::Timers as usize].get().is_null() {
                        self.arm(&value).map_err(|raised| self.give_up(raised))?;
                    }
                    return Ok(Sent::Yields(value));
                }
                Ok(Sent::Returns(value)) => match self.accept(&value) {
                    Ok(true) => return self.finish(value),
                    Ok(false) => return self.judged(value),
                    Err(raised) => sent = Err(raised),
                },
                Err(raised) => match self.failed(raised) {
                    Next::Attempt(did) => sent = did,
                    Next::Shell(did) => return did,
                },
            }
        }
    }

    /// Continues after a failed attempt: with the next one if it starts at once, otherwise in the shell.
    #[cold]
    fn failed(&self, raised: Raised) -> Next<'py> {
        let py = self.py();
        Python::attach(|_| {
            let failure = raised.take(py).into_value(py).into_bound(py).into_any();
            match self.again(&failure) {
                Ok(After::Attempt(..)) => Next::Attempt(self.attempt()),
                Ok(After::Raise) => {
                    let error = PyErr::from_value(failure);
                    self.end();
                    Next::Shell(Err(error.into()))
                }
                Ok(After::Shell(step)) => Next::Shell(self.resume(Some(step), false, failure)),
                Ok(After::Unjudged) => Next::Shell(self.resume(None, false, failure)),
                Err(error) => Next::Shell(Err(self.give_up(error.into()))),
            }
        })
    }

    /// Reports a failure to the engine. The shell continues a call that was stopped meanwhile, or that trio must be able to stop.
    fn again(&self, failure: &Bound<'py, PyAny>) -> PyResult<After> {
        let py = self.py();
        if let Some(timers) = self.get(Ref::Timers) {
            if !forget(&timers, self.call.id.get())? {
                return Ok(After::Unjudged);
            }
            self.call.put(py, Ref::Timers, None);
        }
        let (caller, function) = (self.caller().map_err(|raised| raised.take(py))?, self.get(Ref::Function));
        let settings = caller.get().settings().map_err(|raised| raised.take(py))?;
        let function = function.ok_or_else(ended)?;
        let attempt = self.call.attempt.get();
        let after = again::failed(settings, self.id(), attempt, &function, failure)?;
        if let After::Attempt(next, step, now) = after {
            let globals = scope::globals(py).map_err(|raised| raised.take(py))?;
            if step.next().is_some() && in_trio(py, globals).map_err(|raised| raised.take(py))? {
                return Ok(After::Shell(step));
            }
            self.expect(next, step, now);
        }
        Ok(after)
    }

    /// Runs an attempt until it suspends for the first time.
    fn attempt(&self) -> Result<Sent<'py>, Raised> {
        let py = self.py();
        let coroutine = scope::globals(py).and_then(|globals| self.make(globals))?;
        self.call.put(py, Ref::Inner, Some(coroutine));
        self.drive(&py.None().into_bound(py))
    }

    /// Adds the call to the loop's timer, for the running task.
    fn arm(&self, waits_for: &Bound<'py, PyAny>) -> Result<(), Raised> {
        static ARM: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = self.py();
        let caller = self.caller()?;
        let owner = caller.get().settings()?.owner.bind(py);
        let arguments = (owner, self.id().to_word(), self.call.due.get(), waits_for);
        let timers = Python::attach(|_| ARM.import(py, "tidegate._call.timers", "arm_at")?.call1(arguments))?;
        self.call.put(py, Ref::Timers, Some(timers));
        Ok(())
    }

    /// Returns whether the result ends the call; the shell must judge any other one.
    #[inline(always)]
    fn accept(&self, value: &Bound<'py, PyAny>) -> Result<bool, Raised> {
        let kind = &scope::globals(self.py())?.sender;
        Sender::of(&self.function()?, kind).map_or(Ok(true), |sender| sender.accept(value))
    }

    /// Ends the call after the user's coroutine has returned, unless the call was stopped meanwhile.
    #[inline(always)]
    fn finish(&self, value: Bound<'py, PyAny>) -> Result<Sent<'py>, Raised> {
        let py = self.py();
        if again::is_left(&value) {
            return self.judged(value);
        }
        if let Some(timers) = self.get(Ref::Timers) {
            let call = self.id().to_word();
            match Python::attach(|_| forget(&timers, call)) {
                Ok(true) => {}
                Ok(false) => return self.resume(None, true, value),
                Err(error) => return Err(self.give_up(error.into())),
            }
        }
        let caller = self.caller()?;
        let settings = caller.get().settings()?;
        let (call, function) = (self.id(), self.function()?);
        let woken = settings.finished(py, call, self.call.attempt.get());
        self.end();
        if let Some(woken) = woken {
            Python::attach(|_| settings.notify(py, call, &function, &value, woken))?;
        }
        Ok(Sent::Returns(value))
    }

    /// Hands the shell a returned value that it must judge.
    #[cold]
    fn judged(&self, answer: Bound<'py, PyAny>) -> Result<Sent<'py>, Raised> {
        let py = self.py();
        if let Some(timers) = self.get(Ref::Timers) {
            let call = self.id().to_word();
            match Python::attach(|_| forget(&timers, call)) {
                Ok(true) => self.call.put(py, Ref::Timers, None),
                Ok(false) => {} // the call has been stopped meanwhile: the shell learns it from its own timers
                Err(error) => return Err(self.give_up(error.into())),
            }
        }
        self.resume(None, true, answer)
    }

    /// Lets the shell continue after an attempt that failed or was stopped, with the engine's step if there is one.
    #[cold]
    fn resume(&self, step: Option<Step>, ok: bool, value: Bound<'py, PyAny>) -> Result<Sent<'py>, Raised> {
        let py = self.py();
        let hand_over = || {
            let scope = self.get(Ref::Inside).and_then(|inside| inside::around(&inside));
            let scope = or_none(py, scope);
            let (id, attempt) = (self.id().to_word(), self.call.attempt.get());
            let (step, function, timers) =
                (step.map(wire::pack_step), self.function()?, self.get(Ref::Timers));
            let (args, kwargs) = (self.get(Ref::Args), self.get(Ref::Kwargs));
            let arguments = (scope, id, attempt, step, ok, value, function, args, kwargs, timers);
            Ok(self.caller()?.call_method1(intern!(py, "_afailed"), arguments)?)
        };
        let shell = Python::attach(|_| hand_over());
        self.to_shell(shell)
    }

    fn to_shell(&self, shell: Result<Bound<'py, PyAny>, Raised>) -> Result<Sent<'py>, Raised> {
        let py = self.py();
        match shell {
            Err(raised) => Err(self.give_up(raised)),
            Ok(shell) => {
                self.call.phase.set(Phase::Shell);
                self.call.put(py, Ref::Inner, Some(shell));
                for which in [Ref::Args, Ref::Kwargs, Ref::Function] {
                    self.call.put(py, which, None);
                }
                self.shell(self.drive(&py.None().into_bound(py)))
            }
        }
    }

    /// Handles what the shell's coroutine yielded, returned or raised.
    fn shell(&self, sent: Result<Sent<'py>, Raised>) -> Result<Sent<'py>, Raised> {
        match sent {
            Ok(Sent::Returns(value)) => {
                self.end();
                Ok(Sent::Returns(value))
            }
            Err(raised) => Err(self.give_up(raised)),
            yields => yields,
        }
    }

    /// Closes the driven coroutine and removes the call from the loop's timer.
    fn unwind(&self) -> PyResult<()> {
        let py = self.py();
        let closed = match self.get(Ref::Inner) {
            Some(inner) => inner.call_method0(intern!(py, "close")).map(drop),
            None => Ok(()),
        };
        let dropped = match self.get(Ref::Timers) {
            Some(timers) => timers.call_method1(intern!(py, "drop"), (self.call.id.get(),)).map(drop),
            None => Ok(()),
        };
        closed.and(dropped)
    }

    /// Ends the awaitable from outside: closes the driven coroutine and cancels the call unless it has ended.
    /// Returns the given error if there is one, otherwise the error of closing.
    fn cancel(&self, error: Option<PyErr>) -> Option<PyErr> {
        let py = self.py();
        let call = self.id();
        let error = match (error, self.unwind()) {
            (None, Err(first)) => Some(first),
            (Some(first), Err(second)) => {
                second.write_unraisable(py, Some(self.me));
                Some(first)
            }
            (error, Ok(())) => error,
        };
        let (caller, attempt) = (self.get(Ref::Caller), self.call.attempt.get().max(1));
        self.end();
        let caller = caller.and_then(|caller| caller.cast_into::<Runner>().ok());
        let settings = caller.as_ref().map(|caller| caller.get().settings());
        match (settings, error) {
            (Some(Ok(settings)), Some(error)) => Some(settings.give_up(py, call, attempt, error)),
            (Some(Ok(settings)), None) => {
                drop(settings.give_up(py, call, attempt, PyRuntimeError::new_err("closed")));
                None
            }
            (_, error) => error,
        }
    }

    /// The same, on the way out with an error that was raised.
    #[cold]
    fn give_up(&self, raised: Raised) -> Raised {
        let error = raised.take(self.py());
        match Python::attach(|_| self.cancel(Some(error))) {
            Some(error) => error.into(),
            None => Raised::from(ended()),
        }
    }

    /// Throws an exception into the driven coroutine.
    fn throw(&self, args: &Bound<'py, PyTuple>) -> Result<Sent<'py>, Raised> {
        let py = self.py();
        let inner = match self.call.phase.get() {
            Phase::Done => return Err(reused().into()),
            // An awaitable that has not started raises the thrown exception. A coroutine handles all argument forms.
            Phase::New => {
                let caller = self.caller()?;
                self.end();
                caller.call_method1(intern!(py, "_awaited"), (py.None(), py.None()))?
            }
            Phase::User | Phase::Shell => self.get(Ref::Inner).unwrap_or_else(|| py.None().into_bound(py)),
        };
        let sent = match inner.call_method1(intern!(py, "throw"), args) {
            Ok(value) => Ok(Sent::Yields(value)),
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                Ok(Sent::Returns(error.value(py).getattr(intern!(py, "value"))?))
            }
            Err(error) => Err(error.into()),
        };
        match self.call.phase.get() {
            Phase::User => self.user(sent),
            Phase::Shell => self.shell(sent),
            Phase::New | Phase::Done => sent,
        }
    }

    /// Closes the awaitable in any phase.
    fn close(&self) -> PyResult<()> {
        match self.call.phase.get() {
            Phase::New => self.end(),
            Phase::Done => {}
            Phase::User | Phase::Shell => return self.cancel(None).map_or(Ok(()), Err),
        }
        Ok(())
    }

    /// Cleans up when the awaitable is collected.
    fn finalize(&self) -> PyResult<()> {
        let py = self.py();
        if self.call.phase.get() == Phase::New {
            let function = self.function().map_err(|raised| raised.take(py))?.repr()?;
            self.end();
            let text = format!("coroutine 'Caller.acall' of {function} was never awaited");
            let text = std::ffi::CString::new(text.replace('\0', " "))?;
            return PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1);
        }
        self.close()
    }
}

#[cold]
fn ended() -> PyErr {
    PyRuntimeError::new_err("tidegate: this call has ended")
}

#[cold]
fn reused() -> PyErr {
    PyRuntimeError::new_err("cannot reuse already awaited coroutine")
}

/// A new awaitable.
pub fn make<'py>(
    caller: &Bound<'py, PyAny>,
    function: &Bound<'py, PyAny>,
    args: Args<'_, 'py>,
) -> Result<Bound<'py, PyAny>, Raised> {
    let py = caller.py();
    let made = new_object(kind::kind(py)?.bind(py))?;
    // SAFETY: it is one of ours.
    let call = unsafe { &*made.as_ptr().cast::<Call>() };
    call.put(py, Ref::Caller, Some(caller.clone()));
    call.put(py, Ref::Function, Some(function.clone()));
    if !args.is_empty() {
        call.put(py, Ref::Args, Some(args.tuple()?.into_any()));
        call.put(py, Ref::Kwargs, args.dict()?.map(Bound::into_any));
    }
    Ok(made)
}
