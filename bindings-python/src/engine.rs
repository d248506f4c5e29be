//! Core's engine behind one short lock, for the Python half. Converts arguments and results; makes no decisions.
//!
//! Words have the layout of `core/src/wire.rs`. The lock is never held while Python code can run: ids are copied under
//! it, and Python objects are made after its release. Core does no I/O, so the only other input is the clock.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyTuple};
use tidegate::answer::Quotas;
use tidegate::{
    Action, CallId, Class, Domain, Engine as Core, Event, HttpFailure, Kind, Link, Options, Outcome, Policy,
    PolicyId, Request, RouteId, SnapshotPages, Step, TABLE, Time, Value, Verdict, WallTime, WeightError,
    wire,
};

use crate::lock::{Guard, Lock};
use crate::pairs::{Given, checked, checked_pool, clashes};
use crate::snapshot;
use crate::state::{State, Traits};

/// A call that has begun: its id, what to do first, and when that was said. The calls that can go on because of it are returned
/// beside it: what holds no list can be passed in registers.
#[derive(Clone, Copy)]
pub struct Begun {
    pub call: CallId,
    pub step: Step,
    pub now: Time,
}

impl Begun {
    /// Is it the happy path's first step: start attempt 1, and nothing beside it?
    pub fn is_first_attempt(&self) -> bool {
        matches!(self.step.action(), Action::Attempt { attempt: 1, hedge: false })
            && self.step.stop() == 0
            && !self.step.flags().commands
    }

    /// Was it refused because it takes more than a limit ever holds?
    pub fn is_above_burst(&self) -> bool {
        matches!(self.step.action(), Action::Done { verdict: Verdict::CostAboveBurst, .. })
    }

    /// Was it refused because there is no such route: not yet, or no longer?
    pub fn is_stale_route(&self) -> bool {
        matches!(self.step.action(), Action::Done { verdict: Verdict::StaleRoute, .. })
    }
}

/// The engine of the core behind one short lock.
///
/// Without `manual_clock` it reads the system's monotonic clock itself, so that a call costs two crossings.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Engine {
    manual: bool,
    pub state: Lock<State>,
}

/// The headers of an answer as core reads them.
fn lent(headers: &[(Vec<u8>, Vec<u8>)]) -> Vec<(&[u8], &[u8])> {
    headers.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect()
}

impl Engine {
    /// The lock, then the time: readings are in the order in which the engine sees them.
    #[inline(always)]
    pub fn at_now<'a>(&'a self, py: Python<'a>) -> (Guard<'a, State>, Time) {
        let mut state = self.state.lock(py);
        let now = state.now();
        (state, now)
    }

    /// Begins a call.
    #[inline(always)]
    pub fn begin_with(&self, py: Python<'_>, route: RouteId, request: &Request) -> (Begun, Option<Vec<u64>>) {
        let (mut state, now) = self.at_now(py);
        state.note_wall(now);
        let mut own = None;
        let (route, request) = state.mode.begins(route, request, &mut own);
        let (call, step) = state.core.begin(route, request, now);
        let woken = state.woken(step.flags());
        (Begun { call, step, now }, woken)
    }

    /// Begins a call with weights: names and amounts of what it will use of each limit.
    pub fn begin_weighted(
        &self,
        py: Python<'_>,
        route: RouteId,
        request: &Request,
        weights: &[(String, u64)],
    ) -> PyResult<(Begun, Option<Vec<u64>>)> {
        let (mut state, now) = self.at_now(py);
        state.note_wall(now);
        let mut own = None;
        let inactive = state.mode.inactive.is_some();
        let (route, request) = state.mode.begins(route, request, &mut own);
        let named = weights.iter().map(|(name, amount)| (&**name, *amount));
        let (call, step) = match state.core.weights(route, named) {
            // The answer to a stale route makes the route anew, and calls of an inactive engine pass.
            Err(WeightError::StaleRoute) => state.core.begin(route, request, now),
            Err(_) if inactive => state.core.begin(route, request, now),
            Err(error) => return Err(PyValueError::new_err(error.to_string())),
            Ok(weights) => state.core.begin_weighted(route, request, weights, now),
        };
        let woken = state.woken(step.flags());
        Ok((Begun { call, step, now }, woken))
    }

    /// Raises the error of a call that began without weights where a limit counts one and has no default.
    #[cold]
    pub fn check_unweighted(&self, py: Python<'_>, route: RouteId) -> PyResult<()> {
        let state = self.state.lock(py);
        match state.core.weights(route, []) {
            Err(error @ WeightError::Missing { .. }) => Err(PyValueError::new_err(error.to_string())),
            _ => Ok(()),
        }
    }

    /// Tells a call what happened.
    #[inline(always)]
    pub fn on_with(&self, py: Python<'_>, call: CallId, event: Event) -> (Step, Option<Vec<u64>>) {
        let (step, woken, _) = self.on_at(py, call, event);
        (step, woken)
    }

    /// The same, and when that was.
    #[inline(always)]
    pub fn on_at(&self, py: Python<'_>, call: CallId, event: Event) -> (Step, Option<Vec<u64>>, Time) {
        let (mut state, now) = self.at_now(py);
        let step = state.core.on(call, event, now);
        (step, state.woken(step.flags()), now)
    }

    /// Cancels a call and reports these attempts as unwound: the calls that can go on because of it.
    pub fn give_up(&self, py: Python<'_>, call: CallId, attempts: RangeInclusive<u8>) -> Option<Vec<u64>> {
        let woken = self.on_with(py, call, Event::Cancel).1;
        self.unwound(py, call, attempts, woken)
    }

    /// The same, unless the call has ended before: then its shell knows which attempts still run.
    pub fn give_up_live(
        &self,
        py: Python<'_>,
        call: CallId,
        attempts: RangeInclusive<u8>,
    ) -> Option<Vec<u64>> {
        let (step, woken) = self.on_with(py, call, Event::Cancel);
        let ended = matches!(step.action(), Action::Done { verdict: Verdict::Stale, .. });
        if ended { woken } else { self.unwound(py, call, attempts, woken) }
    }

    /// Reports these attempts as unwound.
    fn unwound(
        &self,
        py: Python<'_>,
        call: CallId,
        attempts: RangeInclusive<u8>,
        mut woken: Option<Vec<u64>>,
    ) -> Option<Vec<u64>> {
        for attempt in attempts {
            let outcome = Outcome::of(Class::Cancelled);
            if let (_, Some(more)) = self.on_with(py, call, Event::Finished { attempt, outcome }) {
                woken.get_or_insert_default().extend(more);
            }
        }
        woken
    }

    /// What callers look at before each call, kept up to date.
    pub fn traits(&self, py: Python<'_>, policy: u32) -> Arc<Traits> {
        Arc::clone(self.state.lock(py).traits(policy))
    }

    /// The engine's time.
    pub fn read_clock(&self, py: Python<'_>) -> Time {
        self.at_now(py).1
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (seed, manual_clock = false, journal = false, max_routes = 10_000, history = 0))]
    fn new(seed: u64, manual_clock: bool, journal: bool, max_routes: u32, history: u32) -> Self {
        let options = Options::default()
            .journal(journal)
            .max_routes(max_routes)
            .history(history)
            .weights(true)
            .quotas(true)
            .wall_clock(true);
        let core = Core::new(seed, options);
        let state = State::new(core, manual_clock.then_some(0));
        Self { manual: manual_clock, state: Lock::new(state) }
    }

    /// Takes a policy in: pairs of dotted keys and numbers or words, spans in microseconds.
    ///
    /// Raises `PolicyError` with every mistake there is.
    #[pyo3(signature = (name, pairs: "list[tuple[str, float | str]]") -> "int")]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn policy(&self, py: Python<'_>, name: &str, pairs: Vec<(String, Given)>) -> PyResult<u32> {
        let policy = checked(name, &pairs)?;
        let taken = self.state.lock(py).take_in(policy);
        taken.map(PolicyId::to_word).map_err(|clash| clashes("policy", &clash))
    }

    /// One owner of a policy less; `keep` keeps what it has counted for whoever makes it again.
    fn release(&self, py: Python<'_>, policy: u32, keep: bool) {
        let (mut state, now) = self.at_now(py);
        state.release(PolicyId::from_word(policy), keep, now);
    }

    /// Takes a pool in: a `bulkhead`, a `rate_limit` or a `budget`, its pairs without the name of their table; or a
    /// group of `targets`, whose pairs begin a target with `member`.
    ///
    /// Raises `PolicyError` with every mistake there is.
    #[pyo3(signature = (name, kind, pairs: "list[tuple[str, float | str]]") -> "None")]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn pool(&self, py: Python<'_>, name: &str, kind: &str, pairs: Vec<(String, Given)>) -> PyResult<()> {
        let pool = checked_pool(name, kind, &pairs)?;
        let (mut state, now) = self.at_now(py);
        state.core.pool(pool, now).map_err(|clash| clashes("pool", &clash))
    }

    /// Gives a pool other settings: the calls that can go on now because of it.
    ///
    /// Raises `PolicyError` with every mistake there is.
    #[pyo3(signature = (name, kind, pairs: "list[tuple[str, float | str]]") -> "list[int]")]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn retune_pool(
        &self,
        py: Python<'_>,
        name: &str,
        kind: &str,
        pairs: Vec<(String, Given)>,
    ) -> PyResult<Vec<u64>> {
        let pool = checked_pool(name, kind, &pairs)?;
        let (mut state, now) = self.at_now(py);
        let retuned = state.core.retune_pool(pool, now);
        let woken = retuned.map(|flags| state.woken(flags));
        drop(state);
        woken.map(Option::unwrap_or_default).map_err(|clash| clashes("pool", &clash))
    }

    /// Refuses all calls of a policy or of one of its routes, or ends that: the calls to wake.
    #[pyo3(signature = (policy, route: "int | None", on) -> "list[int]")]
    fn force_open(&self, py: Python<'_>, policy: u32, route: Option<u64>, on: bool) -> Vec<u64> {
        let (mut state, now) = self.at_now(py);
        let route = route.map(RouteId::from_word);
        let flags = state.core.force_open(PolicyId::from_word(policy), route, on, now);
        state.woken(flags).unwrap_or_default()
    }

    /// The name of the target that the newest attempt of a call goes to; None for a call without one.
    #[pyo3(signature = (call) -> "str | None")]
    fn target_of(&self, py: Python<'_>, call: u64) -> Option<String> {
        let state = self.state.lock(py);
        state.core.target_of(CallId::from_word(call), None).map(ToOwned::to_owned)
    }

    /// The limit of a set that refused a call, the weight that it counts, the call's amount of it, and all this in words; None
    /// where no set refused it. Ask after the step that ended the call.
    #[pyo3(signature = (call) -> "tuple[str, str | None, int | None, str] | None")]
    fn refusal_of(&self, py: Python<'_>, call: u64) -> Option<(String, Option<String>, Option<u64>, String)> {
        let state = self.state.lock(py);
        let refusal = state.core.refusal_of(CallId::from_word(call))?;
        let (weight, amount) = refusal.weight.unzip();
        Some((refusal.limit.to_owned(), weight.map(ToOwned::to_owned), amount, refusal.to_string()))
    }

    /// Refuses all attempts at a target of a group, or ends that. Raises `PolicyError` where there is none.
    fn force_target(&self, py: Python<'_>, group: &str, target: &str, on: bool) -> PyResult<()> {
        let (mut state, now) = self.at_now(py);
        let forced = state.core.force_target(group, target, on, now);
        forced.map(drop).map_err(|clash| clashes("target", &clash))
    }

    /// Says the state of the device's link: 0 ok, 1 metered, 2 offline.
    fn set_link(&self, py: Python<'_>, link: usize) {
        let (mut state, now) = self.at_now(py);
        if let Some(link) = Link::ALL.get(link) {
            state.core.set_link(*link, now);
        }
    }

    /// The name of a path, for `begin`; 0 where its policy holds nothing.
    fn target(&self, py: Python<'_>, route: u64, path: &str) -> u64 {
        let (mut state, now) = self.at_now(py);
        state.core.path_id(RouteId::from_word(route), path, now).to_word()
    }

    /// The kinds of failure that a policy declares, in the order of their numbers, from 9 on: name and base class.
    #[pyo3(signature = (policy) -> "list[tuple[str, str]]")]
    fn kinds(&self, py: Python<'_>, policy: u32) -> Vec<(String, &'static str)> {
        let state = self.state.lock(py);
        let Some(policy) = state.core.policy_of(PolicyId::from_word(policy)) else { return Vec::new() };
        let class = |name| policy.kind_of(name).map_or("", |kind| policy.class_of(kind).name());
        policy.kinds().map(|name| (name.to_owned(), class(name))).collect()
    }

    /// Gives a policy other settings: the calls that can go on now because of it.
    ///
    /// Raises `PolicyError` with every mistake there is.
    #[pyo3(signature = (policy, name, pairs: "list[tuple[str, float | str]]") -> "list[int]")]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn retune(
        &self,
        py: Python<'_>,
        policy: u32,
        name: &str,
        pairs: Vec<(String, Given)>,
    ) -> PyResult<Vec<u64>> {
        let to = checked(name, &pairs)?;
        let (mut state, now) = self.at_now(py);
        let retuned = state.change(PolicyId::from_word(policy), to, now);
        let woken = retuned.map(|flags| state.woken(flags));
        state.traits(policy);
        drop(state);
        woken.map(Option::unwrap_or_default).map_err(|clash| clashes("policy", &clash))
    }

    /// The route of a key under a policy.
    fn route(&self, py: Python<'_>, policy: u32, key: &str) -> u64 {
        let (mut state, now) = self.at_now(py);
        state.core.route(PolicyId::from_word(policy), key, now).to_word()
    }

    /// Begins a call: its id and its first step, and the calls that can go on now where the step says so. `weights` are what
    /// it will use of each limit that counts a weight.
    ///
    /// Raises `ValueError` for a weight that no limit counts, and for one that is missing.
    #[allow(clippy::too_many_arguments)] // the words of a request, and its weights
    #[pyo3(signature = (route, flags, remaining, parent, target, weights: "dict[str, int] | None" = None) -> "tuple[int, int] | tuple[int, int, list[int]]")]
    fn begin<'py>(
        &self,
        py: Python<'py>,
        route: u64,
        flags: u64,
        remaining: u64,
        parent: u64,
        target: u64,
        weights: Option<BTreeMap<String, u64>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let Some(request) = wire::unpack_request(flags, remaining, parent, target) else {
            return Err(PyValueError::new_err(format!("no request has the flags {flags:#x}")));
        };
        let route = RouteId::from_word(route);
        let (begun, woken) = match weights {
            None => self.begin_with(py, route, &request),
            Some(weights) => {
                let weights: Vec<_> = weights.into_iter().collect();
                self.begin_weighted(py, route, &request, &weights)?
            }
        };
        if begun.is_above_burst() {
            self.check_unweighted(py, route)?;
        }
        let (call, step) = (begun.call.to_word(), wire::pack_step(begun.step));
        match woken {
            None => (call, step).into_pyobject(py),
            Some(woken) => (call, step, woken).into_pyobject(py),
        }
    }

    /// Settles the total that an attempt has used of a weight so far. False where the attempt has ended, or counts no such
    /// weight.
    fn settle(&self, py: Python<'_>, call: u64, attempt: u8, name: &str, total: u64) -> bool {
        let (mut state, now) = self.at_now(py);
        state.core.settle_weight(CallId::from_word(call), attempt, name, total, now)
    }

    /// Reports the headers of an answer, which may say what is left of a quota.
    #[pyo3(signature = (call, headers: "list[tuple[bytes, bytes]]"))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn note_quotas(&self, py: Python<'_>, call: u64, headers: Vec<(Vec<u8>, Vec<u8>)>) {
        let quotas = Quotas::read(&lent(&headers), WallTime::from_unix_micros(0));
        let (mut state, now) = self.at_now(py);
        state.core.note_quotas(CallId::from_word(call), quotas.left(), now);
    }

    /// Tells a call what happened: its next step, paired with the calls that can go on now where the step says so.
    #[pyo3(signature = (call, event) -> "int | tuple[int, list[int]]")]
    fn on<'py>(&self, py: Python<'py>, call: u64, event: u64) -> PyResult<Bound<'py, PyAny>> {
        let Some(event) = wire::unpack_event(event) else {
            return Err(PyValueError::new_err(format!("no event has the word {event:#x}")));
        };
        let (step, woken) = self.on_with(py, CallId::from_word(call), event);
        let step: Bound<'py, PyInt> = wire::pack_step(step).into_pyobject(py)?;
        match woken {
            None => Ok(step.into_any()),
            Some(woken) => Ok((step, woken).into_pyobject(py)?.into_any()),
        }
    }

    /// The caller of a call gave up: it is cancelled, and its last attempt has unwound, and so has the one after, which
    /// may have been started by a step that an interrupt has lost. The calls that can go on now; None where there is
    /// nobody to tell anything.
    #[pyo3(signature = (call, attempts) -> "list[int] | None")]
    fn abandon(&self, py: Python<'_>, call: u64, attempts: u8) -> Option<Vec<u64>> {
        self.give_up(py, CallId::from_word(call), attempts..=attempts.saturating_add(1))
    }

    /// Microseconds that a call or its newest attempt still has, below 0 without end.
    #[pyo3(signature = (call, whole = false))]
    fn time_left(&self, py: Python<'_>, call: u64, whole: bool) -> i64 {
        let (state, now) = self.at_now(py);
        let left = state.core.time_left(CallId::from_word(call), now);
        let left = if whole { left.call } else { left.attempt };
        left.and_then(|span| i64::try_from(span.as_micros()).ok()).unwrap_or(-1)
    }

    /// A caller got something in the place of an error of a call on this route, or did not.
    fn note_fallback(&self, py: Python<'_>, route: u64, ok: bool) {
        let (mut state, now) = self.at_now(py);
        state.core.note_fallback(RouteId::from_word(route), ok, now);
    }

    /// Does a fallback stand in for this end: a verdict's number, and a failure's kind where there is one, judged by the
    /// policy's classifier or not?
    #[pyo3(signature = (policy, verdict, failure, judged) -> "bool")]
    fn falls_back(
        &self,
        py: Python<'_>,
        policy: u32,
        verdict: u8,
        failure: Option<u8>,
        judged: bool,
    ) -> bool {
        let Some(verdict) = Verdict::ALL.get(usize::from(verdict)) else { return false };
        let policy = PolicyId::from_word(policy);
        self.state.lock(py).core.falls_back(policy, *verdict, failure.and_then(Kind::new), judged)
    }

    /// May what a call does be done twice under a policy?
    fn may_do_twice(&self, py: Python<'_>, policy: u32) -> bool {
        self.state.lock(py).core.policy_of(PolicyId::from_word(policy)).is_some_and(Policy::may_do_twice)
    }

    /// The outcome of an HTTP answer, at its place in the word of a Finished event.
    #[pyo3(signature = (policy, status, headers: "list[tuple[bytes, bytes]]", wall_us) -> "int")]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn classify(
        &self,
        py: Python<'_>,
        policy: u32,
        status: u16,
        headers: Vec<(Vec<u8>, Vec<u8>)>,
        wall_us: u64,
    ) -> u64 {
        let headers = lent(&headers);
        let failure = HttpFailure { status, headers: &headers };
        let wall = WallTime::from_unix_micros(wall_us);
        let policy = PolicyId::from_word(policy);
        wire::pack_outcome(self.state.lock(py).core.classify_read(policy, &failure, b"", wall))
    }

    /// The outcome of an HTTP answer of whose body the beginning was read, at its place in the word of a Finished event.
    #[pyo3(signature = (policy, status, headers: "list[tuple[bytes, bytes]]", body, wall_us) -> "int")]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn classify_read(
        &self,
        py: Python<'_>,
        policy: u32,
        status: u16,
        headers: Vec<(Vec<u8>, Vec<u8>)>,
        body: &[u8],
        wall_us: u64,
    ) -> u64 {
        let headers = lent(&headers);
        let failure = HttpFailure { status, headers: &headers };
        let wall = WallTime::from_unix_micros(wall_us);
        let policy = PolicyId::from_word(policy);
        wire::pack_outcome(self.state.lock(py).core.classify_read(policy, &failure, body, wall))
    }

    /// Does a host read the beginning of a failed answer's body under a policy?
    fn reads_errors(&self, py: Python<'_>, policy: u32) -> bool {
        self.state.lock(py).core.policy_of(PolicyId::from_word(policy)).is_some_and(Policy::reads_errors)
    }

    /// May a request of this method be repeated without an idempotency key?
    fn retries_method(&self, py: Python<'_>, policy: u32, method: &str) -> bool {
        self.state.lock(py).core.retries_method(PolicyId::from_word(policy), method)
    }

    /// The value of a policy's key that is in force, in its pool where it stands there: a number (spans in
    /// microseconds), a word, or None.
    #[pyo3(signature = (policy, key) -> "float | str | None")]
    fn setting<'py>(&self, py: Python<'py>, policy: u32, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let state = self.state.lock(py);
        let value = match state.core.setting(PolicyId::from_word(policy), key) {
            None => None,
            Some(Value::Number(number)) => Some(Given::Number(number)),
            Some(Value::Text(text)) => Some(Given::Text(text.to_owned())),
        };
        drop(state);
        Ok(match value {
            None => None,
            Some(Given::Number(number)) => Some(number.into_pyobject(py)?.into_any()),
            Some(Given::Text(text)) => Some(text.into_pyobject(py)?.into_any()),
        })
    }

    /// Microseconds on this engine's clock.
    fn now(&self, py: Python<'_>) -> u64 {
        self.read_clock(py).as_micros()
    }

    /// Sets the manual clock, in microseconds.
    fn set_now(&self, py: Python<'_>, us: u64) -> PyResult<()> {
        if !self.manual {
            return Err(PyValueError::new_err(
                "this engine reads the system's clock; make it with manual_clock = True",
            ));
        }
        self.state.lock(py).manual = Some(us);
        Ok(())
    }

    /// The state of everything, as plain dictionaries and lists.
    #[pyo3(signature = () -> "dict[str, object]")]
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut pages = SnapshotPages::default();
        loop {
            let (state, now) = self.at_now(py);
            let more = state.core.snapshot_page(&mut pages, now);
            drop(state);
            if !more {
                return snapshot::dict(py, pages.finish());
            }
            py.detach(|| {}); // lets calls of other threads run between two pages
        }
    }

    /// In the child of a fork: drops the parent's calls and takes a seed of its own.
    fn after_fork(&self, py: Python<'_>, seed: u64) {
        let (mut state, now) = self.at_now(py);
        let _ = state.core.after_fork(seed, now);
        state.commands.clear();
    }

    /// The version of the core.
    #[classattr]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

/// Core's table of keys: what each takes (`span`, `count`, `real`, `flag`, `choice`, `list`, `kinds`, `name`) and its default, as a
/// document would write it; empty where there is none.
#[pyfunction]
#[pyo3(signature = () -> "dict[str, tuple[str, str]]")]
pub fn keys(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for key in TABLE {
        let domain = match key.domain {
            Domain::Span { .. } => "span",
            Domain::Count { .. } => "count",
            Domain::Real { .. } => "real",
            Domain::Flag => "flag",
            Domain::Choice(_) => "choice",
            Domain::Statuses | Domain::Words(_) | Domain::KindWords(_) | Domain::Limits | Domain::Shares => {
                "list"
            }
            Domain::Kinds => "kinds",
            Domain::Name => "name",
        };
        dict.set_item(key.path, (domain, key.default))?;
    }
    Ok(dict)
}

/// Microseconds on the process's monotonic clock, which every engine without a manual clock shares.
#[pyfunction(name = "monotonic")]
pub fn monotonic_us() -> u64 {
    crate::state::monotonic_us()
}
