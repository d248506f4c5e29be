//! Settings of a caller for the happy path, and the calls between the native and the Python half. No logic here: a call
//! that succeeds at its first attempt stays native; all others are passed to the Python half with the engine's step.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tidegate::{CallId, Class, Event, Outcome, PolicyId, Request, RouteId, wire};

use crate::engine::{Begun, Engine};
use crate::ffi::{Raised, or_none};
use crate::scope;
use crate::state::Traits;

/// A number that no route ever has: an engine keeps far fewer. A call on it is refused with `StaleRoute`.
const UNMADE_ROUTE: u64 = (1 << 20) - 1;

/// The native half of a `Caller`.
#[pyclass(subclass, frozen, module = "tidegate._native")]
pub struct Runner {
    settings: OnceLock<Settings>,
}

/// How a caller's calls begin. Fixed when it is made, but for the route, which can be evicted, and for whether its
/// policy has an attempt timeout, which the engine knows and `retune` can change.
pub struct Settings {
    engine: Py<Engine>,
    /// The Python half of the engine.
    pub owner: Py<PyAny>,
    policy: PolicyId,
    /// The key of the route. The first call makes the route, so that one without calls is not listed.
    key: String,
    route: AtomicU64,
    request: Request,
    traits: Arc<Traits>,
    /// Is there nothing that every attempt has to be shown or hear of?
    plain: bool,
    /// Does the type of an exception say what it was? Then a failed attempt is judged natively too.
    judged: bool,
    /// Is an exception raised as it is, where its verdict has no note: is there no fallback?
    bare: bool,
    /// The engine's mark on exceptions that end calls, for `Engine.explain`; 0 where that knows of none.
    token: u64,
    /// What each call will use of the limits that count weights.
    weights: Vec<(String, u64)>,
}

impl Settings {
    /// May a first attempt be made natively by a thread? What blocks and has a timeout is the shell's.
    pub fn is_fast(&self) -> bool {
        self.plain && !self.traits.timed.load(Ordering::Relaxed) && !self.hedges()
    }

    /// Does the type of an exception say what it was?
    pub fn is_judged_by_type(&self) -> bool {
        self.plain && self.judged
    }

    /// Does nobody look at an exception before the caller gets it?
    pub fn ends_bare(&self) -> bool {
        self.bare
    }

    /// Notes on an exception which call it ended. One that refuses attributes goes without.
    #[cold]
    pub fn mark(&self, failure: &Bound<'_, PyAny>, call: CallId) -> PyResult<()> {
        if self.token == 0 {
            return Ok(());
        }
        let py = failure.py();
        match failure.setattr(intern!(py, "__tidegate__"), (self.token, call.to_word())) {
            Err(error) if !error.is_instance_of::<PyException>(py) => Err(error),
            _ => Ok(()),
        }
    }

    /// The engine.
    pub(crate) fn engine(&self) -> &Engine {
        self.engine.get()
    }

    /// May a first attempt be made natively in an event loop?
    pub fn is_fast_async(&self) -> bool {
        self.plain && !self.hedges()
    }

    /// May attempts of its calls run beside each other? A call that is solo never hedges.
    fn hedges(&self) -> bool {
        self.traits.hedged.load(Ordering::Relaxed)
            && !self.request.solo
            && self.request.idempotent
            && self.request.replayable
    }

    /// Begins a call. `scope` is what surrounds it. Returns the calls to wake, too.
    #[inline(always)]
    pub fn begin<'py>(
        &self,
        caller: &Bound<'py, PyAny>,
        scope: Option<&Bound<'py, PyAny>>,
    ) -> Result<(Begun, Option<Vec<u64>>), Raised> {
        self.begin_as(caller, scope, self.request)
    }

    /// The same with a request that differs from that of the caller's other calls.
    #[inline(always)]
    fn begin_as<'py>(
        &self,
        caller: &Bound<'py, PyAny>,
        scope: Option<&Bound<'py, PyAny>>,
        mut request: Request,
    ) -> Result<(Begun, Option<Vec<u64>>), Raised> {
        if let Some(scope) = scope {
            let around = inherited(caller, scope)?;
            (request.remaining, request.parent, request.criticality) =
                (around.remaining, around.parent, around.criticality);
        }
        let route = RouteId::from_word(self.route.load(Ordering::Relaxed));
        if !self.weights.is_empty() {
            let (begun, woken) = self.begin_weighted(caller.py(), route, &request)?; // taken apart for the reason below
            return Ok((begun, woken));
        }
        let (begun, woken) = self.engine.get().begin_with(caller.py(), route, &request);
        if begun.is_stale_route() || begun.is_above_burst() {
            // Taken apart and put together again: returned as it is, every call's answer would be kept in memory, and the
            // copies of it wait for its fields (ADR 0082).
            let (begun, woken) = self.begin_renewed(caller.py(), begun, woken, &request)?;
            return Ok((begun, woken));
        }
        Ok((begun, woken))
    }

    /// Continues after an answer that is about the route: makes that anew, or says which weight is missing.
    #[cold]
    fn begin_renewed(
        &self,
        py: Python<'_>,
        mut begun: Begun,
        mut woken: Option<Vec<u64>>,
        request: &Request,
    ) -> Result<(Begun, Option<Vec<u64>>), Raised> {
        while begun.is_stale_route() {
            (begun, woken) = self.engine.get().begin_with(py, self.renew(py), request);
        }
        if begun.is_above_burst() {
            let route = RouteId::from_word(self.route.load(Ordering::Relaxed));
            self.engine.get().check_unweighted(py, route)?;
        }
        Ok((begun, woken))
    }

    /// The same with weights.
    #[cold]
    fn begin_weighted(
        &self,
        py: Python<'_>,
        route: RouteId,
        request: &Request,
    ) -> Result<(Begun, Option<Vec<u64>>), Raised> {
        let (mut begun, mut woken) = self.engine.get().begin_weighted(py, route, request, &self.weights)?;
        while begun.is_stale_route() {
            (begun, woken) = self.engine.get().begin_weighted(py, self.renew(py), request, &self.weights)?;
        }
        Ok((begun, woken))
    }

    /// Makes the route: at the first call, and after it was evicted.
    #[cold]
    fn renew(&self, py: Python<'_>) -> RouteId {
        let (mut state, now) = self.engine.get().at_now(py);
        let route = state.core.route(self.policy, &self.key, now);
        self.route.store(route.to_word(), Ordering::Relaxed);
        route
    }

    /// An attempt has ended well.
    #[inline(always)]
    pub fn finished(&self, py: Python<'_>, call: CallId, attempt: u8) -> Option<Vec<u64>> {
        let outcome = Outcome::of(Class::Ok);
        self.engine.get().on_with(py, call, Event::Finished { attempt, outcome }).1
    }

    /// Gives a call up, on the way out with an error that matters more than a waker's. One that has ended does not mind.
    ///
    /// `attempt` is the newest that is known of here. An interrupt can strike anywhere in the shell: then whatever attempt
    /// may be out is reported.
    #[cold]
    pub fn give_up(&self, py: Python<'_>, call: CallId, attempt: u8, error: PyErr) -> PyErr {
        let interrupted = error.is_instance_of::<PyKeyboardInterrupt>(py);
        let last = if interrupted { u8::MAX } else { attempt.saturating_add(1) };
        let woken = self.engine.get().give_up(py, call, 1..=last);
        self.woken(py, woken, error)
    }

    /// Wakes the calls that can continue, and returns the error.
    fn woken(&self, py: Python<'_>, woken: Option<Vec<u64>>, error: PyErr) -> PyErr {
        if let Some(woken) = woken
            && let Err(second) = self.wake(py, woken)
        {
            second.write_unraisable(py, None);
        }
        error
    }

    /// The same after the shell has carried the call out from its first step on. Where the shell has ended the call, it knows
    /// which attempts still run in threads of their own: each keeps its permit until its thread reports it (R12).
    #[cold]
    pub fn give_up_unless_ended(&self, py: Python<'_>, call: CallId, error: PyErr) -> PyErr {
        if error.is_instance_of::<PyKeyboardInterrupt>(py) {
            return self.give_up(py, call, 1, error);
        }
        let woken = self.engine.get().give_up_live(py, call, 1..=2);
        self.woken(py, woken, error)
    }

    /// Passes the records of a step to hooks, with the attempt that they are about, and wakes the calls that can continue.
    pub fn notify(
        &self,
        py: Python<'_>,
        call: CallId,
        function: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        woken: Vec<u64>,
    ) -> PyResult<()> {
        let arguments = (call.to_word(), function, value, woken);
        self.owner.bind(py).call_method1(intern!(py, "delivered"), arguments).map(drop)
    }

    /// Wakes the owners of these calls.
    pub fn wake(&self, py: Python<'_>, calls: Vec<u64>) -> PyResult<()> {
        self.owner.bind(py).call_method1(intern!(py, "wake"), (calls,)).map(drop)
    }
}

/// What a call takes from around it: the time that is left, the call it is nested in, and how much it matters.
#[cold]
fn inherited<'py>(caller: &Bound<'py, PyAny>, scope: &Bound<'py, PyAny>) -> PyResult<Request> {
    let words = caller.call_method1(intern!(caller.py(), "_inherit"), (scope,))?;
    let (limit, parent, criticality): (u64, u64, u64) = words.extract()?;
    let request = wire::unpack_request(criticality & 3, limit, parent, 0);
    request.ok_or_else(|| PyValueError::new_err("no request has these words"))
}

impl Runner {
    /// Its settings.
    #[inline(always)]
    pub fn settings(&self) -> Result<&Settings, Raised> {
        self.settings.get().ok_or_else(|| unmade().into())
    }
}

#[cold]
fn unmade() -> PyErr {
    PyRuntimeError::new_err("tidegate: this caller has not been made")
}

#[pymethods]
impl Runner {
    #[new]
    #[pyo3(signature = (*_args: "object", **_kwargs: "object"))]
    #[allow(clippy::needless_pass_by_value)] // `__init__` takes them
    fn new(_args: Bound<'_, PyTuple>, _kwargs: Option<Bound<'_, PyDict>>) -> Self {
        Self { settings: OnceLock::new() }
    }

    /// How its calls begin.
    #[pyo3(signature = (native, owner: "object", policy, key, flags, limit, plain, judged, bare, token, weights: "dict[str, int] | None" = None))]
    #[allow(clippy::too_many_arguments)] // passed once, when a caller is made
    fn _settle(
        &self,
        native: Py<Engine>,
        owner: Py<PyAny>,
        policy: u32,
        key: String,
        flags: u64,
        limit: u64,
        plain: bool,
        judged: bool,
        bare: bool,
        token: u64,
        weights: Option<BTreeMap<String, u64>>,
        py: Python<'_>,
    ) -> PyResult<()> {
        let Some(request) = wire::unpack_request(flags, limit, 0, 0) else {
            return Err(PyValueError::new_err(format!("no request has the flags {flags:#x}")));
        };
        let traits = native.get().traits(py, policy);
        let (policy, route) = (PolicyId::from_word(policy), AtomicU64::new(UNMADE_ROUTE));
        let settings = Settings {
            engine: native,
            owner,
            policy,
            key,
            route,
            request,
            traits,
            plain,
            judged,
            bare,
            token,
            weights: weights.unwrap_or_default().into_iter().collect(),
        };
        let again = |_| PyRuntimeError::new_err("tidegate: this caller has been made already");
        self.settings.set(settings).map_err(again)
    }

    /// The route of its calls; a number that no route has until the first call.
    #[getter]
    fn _route(&self) -> PyResult<u64> {
        Ok(self.settings.get().ok_or_else(unmade)?.route.load(Ordering::Relaxed))
    }

    /// Begins a call of a loop or a generator, whose attempts cannot run concurrently: the scope around it, its number and its
    /// first step. With `until_body` it keeps its permit until its generator ends. Returns None, and begins no
    /// call, if it would block a thread and the policy has an attempt timeout.
    #[pyo3(signature = (until_body = false, blocking = false) -> "Any")]
    fn _start<'py>(
        me: &Bound<'py, Self>,
        until_body: bool,
        blocking: bool,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let py = me.py();
        let start = || {
            let settings = me.get().settings()?;
            if blocking && settings.traits.timed.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let scope = scope::around(py, scope::globals(py)?)?.scope;
            let own = settings.request;
            let request = Request { solo: true, slot_until_body: own.slot_until_body || until_body, ..own };
            let (begun, woken) = settings.begin_as(me.as_any(), scope.as_ref(), request)?;
            if let Some(woken) = woken {
                settings.wake(py, woken).map_err(|error| settings.give_up(py, begun.call, 1, error))?;
            }
            Ok(Some(
                (or_none(py, scope), begun.call.to_word(), wire::pack_step(begun.step)).into_pyobject(py)?,
            ))
        };
        start().map_err(|raised: Raised| raised.take(py))
    }

    /// Has the policy an attempt timeout?
    fn _is_timed(&self) -> PyResult<bool> {
        Ok(self.settings.get().ok_or_else(unmade)?.traits.timed.load(Ordering::Relaxed))
    }
}
