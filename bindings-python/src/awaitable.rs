//! What `Caller.acall` answers: a coroutine in all but name, whose happy path never leaves this file.
//!
//! Driven for the first time it begins the call, makes the user's coroutine, and from then on passes on what that yields
//! and what it is sent. A deadline or an attempt timeout is put on the loop's timer when the user's coroutine first
//! suspends; one that does not is never seen by it. When it ends well, the call has ended well. For everything else there
//! is the Python shell: a coroutine too, told what the engine has said, that is driven in the place of the user's.
//!
//! The context variable is set to its [`Inside`] when the call begins, and stays: a call that has ended is looked through,
//! so that the way back costs nothing, and tasks made inside it know what they were made in.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning, PyStopIteration, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple, PyType};
use pyo3::{ffi, intern};
use tidegate::{CallId, wire};

use crate::fast::{self, Args, guarded};
use crate::inside;
use crate::runner::{Begun, Raised, Runner};
use crate::scope::{self, Globals};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nobody has driven it yet; no call has begun.
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
    /// The coroutine that is driven.
    Inner,
    /// What runs inside is told by it, from the first attempt on.
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
    /// The call's id while it goes on, else 0.
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
    /// Lets go of everything.
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

    /// The caller that made it: there until it ends.
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

    /// It is over: all it held is let go of.
    fn end(&self) {
        self.call.phase.set(Phase::Done);
        self.call.id.set(0);
        if let Some(inside) = self.get(Ref::Inside) {
            inside::end(&inside);
        }
        self.call.clear(self.py());
    }

    /// Drives it by one step.
    #[inline]
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

    /// Sends a value into the coroutine that is driven.
    #[inline]
    fn drive(&self, value: &Bound<'py, PyAny>) -> Result<Sent<'py>, Raised> {
        let inner = self.call.refs[Ref::Inner as usize].get();
        let mut result = ptr::null_mut();
        // SAFETY: while the phase says so there is one, and `busy` keeps it from being let go of. It answers as
        // functions do.
        let (sent, result) = unsafe {
            let sent = ffi::PyIter_Send(inner, value.as_ptr(), &raw mut result);
            (sent, fast::owned(self.py(), result)?)
        };
        Ok(if sent == ffi::PySendResult::PYGEN_RETURN { Sent::Returns(result) } else { Sent::Yields(result) })
    }

    /// Begins the call and makes its first attempt, up to where that suspends for the first time.
    fn begin(&self, nothing: &Bound<'py, PyAny>) -> Result<Sent<'py>, Raised> {
        let py = self.py();
        let globals = scope::globals(py)?;
        let caller = self.caller()?;
        let settings = caller.get().settings()?;
        let around = scope::around(py, globals)?;
        let Ok(mut begun) = settings.begin(caller.as_any(), around.scope.as_ref(), true) else {
            let error = Raised.take(py);
            self.end();
            return Err(error.into());
        };
        self.call.id.set(begun.call.to_word());
        if begun.woken.is_some() || !begun.is_first_attempt() || !settings.is_fast_async() {
            return self.start_in_shell(&caller, around.scope, &mut begun);
        }
        if let Some(next) = begun.step.next {
            self.call.due.set(begun.now.as_micros().saturating_add(next.as_micros()).max(1));
        }
        self.call.phase.set(Phase::User);
        let owner = settings.owner.bind(py);
        let made = inside::make(py, globals, begun.call.to_word(), owner, around.scope).and_then(|inside| {
            drop(fast::call1(globals.set.bind(py), &inside)?);
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

    /// The shell carries out the call from its first step on.
    #[cold]
    fn start_in_shell(
        &self,
        caller: &Bound<'py, Runner>,
        scope: Option<Bound<'py, PyAny>>,
        begun: &mut Begun,
    ) -> Result<Sent<'py>, Raised> {
        let py = self.py();
        let hand_over = || {
            if let Some(woken) = begun.woken.take() {
                caller.get().settings()?.wake(py, woken)?;
            }
            let (id, step) = (begun.call.to_word(), wire::pack_step(begun.step));
            let (function, args, kwargs) = (self.function()?, self.get(Ref::Args), self.get(Ref::Kwargs));
            let told = (scope::or_none(py, scope), id, step, function, args, kwargs);
            Ok(caller.call_method1(intern!(py, "_abegun"), told)?)
        };
        let shell = Python::attach(|_| hand_over());
        self.to_shell(shell)
    }

    /// Calls the user's function: a coroutine, whatever kind of awaitable it answers.
    #[inline]
    fn make(&self, globals: &Globals) -> Result<Bound<'py, PyAny>, Raised> {
        let function = self.function()?;
        let made = fast::call_with(&function, self.get(Ref::Args).as_ref(), self.get(Ref::Kwargs).as_ref())?;
        if fast::is_coroutine(&made, globals) {
            return Ok(made);
        }
        let awaited = |caller: Bound<'py, Runner>| {
            caller.call_method1(intern!(self.py(), "_awaited"), (made, function))
        };
        let caller = self.caller()?;
        Ok(Python::attach(|_| awaited(caller))?)
    }

    /// What the user's coroutine did.
    #[inline]
    fn user(&self, sent: Result<Sent<'py>, Raised>) -> Result<Sent<'py>, Raised> {
        match sent {
            Ok(Sent::Yields(value)) => {
                if self.call.due.get() != 0 && self.call.refs[Ref::Timers as usize].get().is_null() {
                    self.arm().map_err(|raised| self.give_up(raised))?;
                }
                Ok(Sent::Yields(value))
            }
            Ok(Sent::Returns(value)) => self.finish(value),
            Err(raised) => {
                let value = Python::attach(|_| {
                    raised.take(self.py()).into_value(self.py()).into_bound(self.py()).into_any()
                });
                self.resume(false, value)
            }
        }
    }

    /// Puts the call on the loop's timer, for the task that runs.
    fn arm(&self) -> Result<(), Raised> {
        let caller = self.caller()?;
        let now = caller.get().settings()?.engine.get().read_clock(self.py());
        let left = self.call.due.get().saturating_sub(now.as_micros());
        let call = self.id().to_word();
        let timers = Python::attach(|_| caller.call_method1(intern!(caller.py(), "_arm"), (call, left)))?;
        self.call.put(self.py(), Ref::Timers, Some(timers));
        Ok(())
    }

    /// The user's coroutine has ended well; so has the call, unless it has been stopped meanwhile.
    #[inline]
    fn finish(&self, value: Bound<'py, PyAny>) -> Result<Sent<'py>, Raised> {
        let py = self.py();
        if let Some(timers) = self.get(Ref::Timers) {
            let call = self.id().to_word();
            let forget = || timers.call_method1(intern!(timers.py(), "forget"), (call,))?.is_truthy();
            match Python::attach(|_| forget()) {
                Ok(true) => {}
                Ok(false) => return self.resume(true, value),
                Err(error) => return Err(self.give_up(error.into())),
            }
        }
        let caller = self.caller()?;
        let settings = caller.get().settings()?;
        let woken = settings.finished(py, self.id());
        self.end();
        if let Some(woken) = woken {
            Python::attach(|_| settings.wake(py, woken))?;
        }
        Ok(Sent::Returns(value))
    }

    /// The shell goes on after an attempt that did not end well, or that was stopped.
    #[cold]
    fn resume(&self, ok: bool, value: Bound<'py, PyAny>) -> Result<Sent<'py>, Raised> {
        let py = self.py();
        let hand_over = || {
            let scope = self.get(Ref::Inside).and_then(|inside| inside::around(&inside));
            let scope = scope::or_none(py, scope);
            let (id, function, timers) = (self.id().to_word(), self.function()?, self.get(Ref::Timers));
            let told = (scope, id, ok, value, function, self.get(Ref::Args), self.get(Ref::Kwargs), timers);
            Ok(self.caller()?.call_method1(intern!(py, "_afailed"), told)?)
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

    /// What the shell's coroutine did.
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

    /// Closes what runs, and takes the call off the loop's timer.
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

    /// The end that is none of the call's own: what runs is closed, and the call is cancelled unless it has ended.
    /// Answers the error that matters most, which is the one given if there is one.
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
        let caller = self.get(Ref::Caller);
        self.end();
        let caller = caller.and_then(|caller| caller.cast_into::<Runner>().ok());
        let settings = caller.as_ref().map(|caller| caller.get().settings());
        match (settings, error) {
            (Some(Ok(settings)), Some(error)) => Some(settings.give_up(py, call, error)),
            (Some(Ok(settings)), None) => {
                drop(settings.give_up(py, call, PyRuntimeError::new_err("closed")));
                None
            }
            (_, error) => error,
        }
    }

    /// The same, on the way out with an error.
    #[cold]
    fn give_up(&self, raised: Raised) -> Raised {
        let error = raised.take(self.py());
        match Python::attach(|_| self.cancel(Some(error))) {
            Some(error) => error.into(),
            None => Raised::from(ended()),
        }
    }

    /// Throws an exception in.
    fn throw(&self, args: &Bound<'py, PyTuple>) -> Result<Sent<'py>, Raised> {
        let py = self.py();
        let inner = match self.call.phase.get() {
            Phase::Done => return Err(reused().into()),
            // One that nobody has driven raises what is thrown; a coroutine knows in which forms that can come.
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

    /// Closes it, wherever it stands.
    fn close(&self) -> PyResult<()> {
        match self.call.phase.get() {
            Phase::New => self.end(),
            Phase::Done => {}
            Phase::User | Phase::Shell => return self.cancel(None).map_or(Ok(()), Err),
        }
        Ok(())
    }

    /// Nobody will drive it any more.
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
    let kind = scope::globals(py)?.awaitable.as_ptr();
    // SAFETY: a new object of our type, zeroed; or null.
    let made = unsafe { fast::owned(py, ffi::PyType_GenericAlloc(kind.cast(), 0))? };
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

// The slots. The interpreter calls them attached, with live objects of our type in the first place.

/// Runs `work` on an awaitable that nobody else drives.
///
/// # Safety
/// As of a slot.
unsafe fn driving<'py, T>(
    me: *mut ffi::PyObject,
    work: impl FnOnce(This<'_, 'py>) -> Result<T, Raised>,
) -> Result<T, Raised> {
    guarded(|| {
        // SAFETY: says the caller.
        let (me, call) =
            unsafe { (Bound::from_borrowed_ptr(Python::assume_attached(), me), &*me.cast::<Call>()) };
        let Some(_busy) = Busy::take(call) else {
            return Err(PyValueError::new_err("coroutine already executing").into());
        };
        work(This { me: &me, call })
    })
}

unsafe extern "C" fn send_slot(
    me: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    // SAFETY: as of a slot; `result` is where the answer goes.
    unsafe {
        let sent = driving(me, |this| this.send(&Bound::from_borrowed_ptr(this.py(), value)));
        let (kind, value) = match sent {
            Ok(Sent::Yields(value)) => (ffi::PySendResult::PYGEN_NEXT, value.into_ptr()),
            Ok(Sent::Returns(value)) => (ffi::PySendResult::PYGEN_RETURN, value.into_ptr()),
            Err(Raised) => (ffi::PySendResult::PYGEN_ERROR, ptr::null_mut()),
        };
        *result = value;
        kind
    }
}

/// What was sent as methods say it: a value, or `StopIteration` with one.
fn as_method(sent: Result<Sent<'_>, Raised>) -> *mut ffi::PyObject {
    match sent {
        Ok(Sent::Yields(value)) => value.into_ptr(),
        Ok(Sent::Returns(value)) => Python::attach(|_| {
            let py = value.py();
            // An instance: a tuple or an exception as the value would be taken for arguments.
            let stop = py.get_type::<PyStopIteration>().call1((value,));
            stop.map_or_else(|error| error, PyErr::from_value).restore(py);
            ptr::null_mut()
        }),
        Err(Raised) => ptr::null_mut(),
    }
}

unsafe extern "C" fn next_slot(me: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as of a slot.
    as_method(unsafe { driving(me, |this| this.send(&this.py().None().into_bound(this.py()))) })
}

unsafe extern "C" fn send_method(me: *mut ffi::PyObject, value: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as of a slot.
    as_method(unsafe { driving(me, |this| this.send(&Bound::from_borrowed_ptr(this.py(), value))) })
}

unsafe extern "C" fn throw_method(me: *mut ffi::PyObject, args: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as of a slot; `args` is a tuple.
    let sent = unsafe {
        driving(me, |this| {
            let args = Bound::from_borrowed_ptr(this.py(), args);
            Python::attach(|_| this.throw(&args.cast_into::<PyTuple>().map_err(PyErr::from)?))
        })
    };
    as_method(sent)
}

unsafe extern "C" fn close_method(me: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as of a slot.
    match unsafe { driving(me, |this| Ok(Python::attach(|_| this.close()).map(|()| this.py().None())?)) } {
        Ok(none) => none.into_ptr(),
        Err(Raised) => ptr::null_mut(),
    }
}

unsafe extern "C" fn self_slot(me: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as of a slot.
    unsafe { ffi::Py_INCREF(me) };
    me
}

unsafe extern "C" fn finalize_slot(me: *mut ffi::PyObject) {
    // SAFETY: as of a slot. An error that is on its way is put aside and back.
    unsafe {
        let call = &*me.cast::<Call>();
        if call.phase.get() != Phase::Done {
            Python::attach(|py| {
                let before = PyErr::take(py);
                let done = driving(me, |this| Ok(this.finalize()?));
                if done.is_err()
                    && let Some(error) = PyErr::take(py)
                {
                    error.write_unraisable(py, None);
                }
                if let Some(before) = before {
                    before.restore(py);
                }
            });
        }
        call.phase.set(Phase::Done);
    }
}

/// Frees one that has ended without looking for a finalizer; any other is ended first. With a global lock a reference more
/// and one less do that: the second one comes back here. Without one the interpreter's own way is taken.
#[cfg(not(Py_GIL_DISABLED))]
unsafe extern "C" fn dealloc_slot(me: *mut ffi::PyObject) {
    // SAFETY: as of a slot. A type on the heap is counted by its objects.
    unsafe {
        if (*me.cast::<Call>()).phase.get() != Phase::Done {
            ffi::Py_INCREF(me);
            finalize_slot(me);
            ffi::Py_DECREF(me);
            return;
        }
        let kind = ffi::Py_TYPE(me);
        ffi::PyObject_GC_UnTrack(me.cast());
        clear_slot(me);
        ffi::PyObject_GC_Del(me.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

unsafe extern "C" fn traverse_slot(me: *mut ffi::PyObject, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    // SAFETY: as of a slot; from Python 3.9 on an object of a type on the heap visits its type.
    unsafe {
        let kind = ffi::Py_TYPE(me).cast();
        let held = (*me.cast::<Call>()).refs.iter().map(Cell::get);
        for reference in std::iter::once(kind).chain(held).filter(|reference| !reference.is_null()) {
            match visit(reference, arg) {
                0 => {}
                stop => return stop,
            }
        }
    }
    0
}

unsafe extern "C" fn clear_slot(me: *mut ffi::PyObject) -> c_int {
    // SAFETY: as of a slot; it is garbage, and has been finalized.
    unsafe {
        let call = &*me.cast::<Call>();
        let py = Python::assume_attached();
        call.phase.set(Phase::Done);
        call.clear(py);
    }
    0
}

/// What `inspect` and `asyncio` ask of a coroutine. One that runs is not looked into.
unsafe extern "C" fn attribute(me: *mut ffi::PyObject, which: *mut c_void) -> *mut ffi::PyObject {
    guarded(|| {
        // SAFETY: as of a slot.
        let (me, call) =
            unsafe { (Bound::from_borrowed_ptr(Python::assume_attached(), me), &*me.cast::<Call>()) };
        let py = me.py();
        let idle = Busy::take(call);
        let inner = || idle.as_ref().and_then(|_| call.get(py, Ref::Inner));
        let none = || py.None().into_bound(py);
        let truth = |value: bool| PyBool::new(py, value).to_owned().into_any();
        match which as usize {
            RUNNING => Ok(truth(idle.is_none())),
            SUSPENDED => Ok(truth(idle.is_some() && matches!(call.phase.get(), Phase::User | Phase::Shell))),
            AWAIT => Ok(inner().unwrap_or_else(none)),
            FRAME => match inner() {
                Some(inner) => Ok(inner.getattr(intern!(py, "cr_frame"))?),
                None => Ok(none()),
            },
            _ => Ok(intern!(py, "Caller.acall").clone().into_any()),
        }
    })
    .map_or(ptr::null_mut(), Bound::into_ptr)
}

const NAME: usize = 0;
const RUNNING: usize = 1;
const SUSPENDED: usize = 2;
const AWAIT: usize = 3;
const FRAME: usize = 4;

/// The type of awaitables.
pub fn make_type(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    let method =
        |name: &'static CStr, function: ffi::PyCFunction, flags, doc: &'static CStr| ffi::PyMethodDef {
            ml_name: name.as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: function },
            ml_flags: flags,
            ml_doc: doc.as_ptr(),
        };
    let methods = Box::leak(Box::new([
        method(c"send", send_method, ffi::METH_O, c"Sends a value in: what it yields, or StopIteration."),
        method(c"throw", throw_method, ffi::METH_VARARGS, c"Throws an exception in."),
        method(c"close", close_method, ffi::METH_NOARGS, c"Closes it: its call is cancelled."),
        ffi::PyMethodDef::zeroed(),
    ]));
    let shown = |name: &'static CStr, which: usize| ffi::PyGetSetDef {
        name: name.as_ptr(),
        get: Some(attribute),
        set: None,
        doc: ptr::null(),
        closure: which as *mut c_void,
    };
    let attributes = Box::leak(Box::new([
        shown(c"__name__", NAME),
        shown(c"__qualname__", NAME),
        shown(c"cr_running", RUNNING),
        shown(c"cr_suspended", SUSPENDED),
        shown(c"cr_await", AWAIT),
        shown(c"cr_frame", FRAME),
        ffi::PyGetSetDef::default(),
    ]));
    let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        slot(ffi::Py_tp_doc, c"A call that is awaited.".as_ptr().cast_mut().cast()),
        #[cfg(not(Py_GIL_DISABLED))]
        slot(ffi::Py_tp_dealloc, dealloc_slot as *mut c_void),
        slot(ffi::Py_tp_finalize, finalize_slot as *mut c_void),
        slot(ffi::Py_tp_traverse, traverse_slot as *mut c_void),
        slot(ffi::Py_tp_clear, clear_slot as *mut c_void),
        slot(ffi::Py_am_await, self_slot as *mut c_void),
        slot(ffi::Py_am_send, send_slot as *mut c_void),
        slot(ffi::Py_tp_iter, self_slot as *mut c_void),
        slot(ffi::Py_tp_iternext, next_slot as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(ffi::Py_tp_getset, attributes.as_mut_ptr().cast()),
        ffi::PyType_Slot::default(),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"tidegate._native.Call".as_ptr(),
        basicsize: size_of::<Call>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_HAVE_GC | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION)
            as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the spec describes `Call`; methods and attributes live for ever, the rest is copied.
    let kind = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec))? };
    kind.cast_into::<PyType>().map_err(PyErr::from)
}
