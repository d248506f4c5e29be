// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Who is let through: the circuit breaker and the adaptive throttle.

use super::{Drawn, Pairs, class, leased, moment, reading, seconds, settings};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::{PyResult, pyclass, pyfunction, pymethods};
use tidegate::rng::Purpose;

/// Refuses calls to a downstream that fails too often, and lets a few through after a break.
#[pyclass(frozen, module = "tidegate._native")]
pub struct CircuitBreaker(pub(super) Mutex<Drawn<tidegate::CircuitBreaker>>);

#[pymethods]
impl CircuitBreaker {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]", probe_lease, seed))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs, probe_lease: Option<u64>, seed: u64) -> PyResult<Self> {
        Ok(Self(Mutex::new(Drawn::new(
            tidegate::CircuitBreaker::new(leased(settings(&pairs, tidegate::Policy::breaker)?, probe_lease)),
            seed,
        ))))
    }

    /// How long until another try makes sense if an admission now would be refused, else `None`.
    fn refuses(&self, now: f64) -> PyResult<Option<f64>> {
        let now = moment("now", now)?;
        Ok(self.0.lock().part.refuses(now).map(seconds))
    }

    /// The end of the break while open, on your clock; else `None`.
    fn open_until(&self) -> Option<f64> {
        self.0.lock().part.open_until().map(reading)
    }

    /// Failures in the window; while open, what is left of those that opened it.
    fn failures(&self, now: f64) -> PyResult<u32> {
        let now = moment("now", now)?;
        Ok(self.0.lock().part.failures(now))
    }

    /// Results in the window, failures included.
    fn throughput(&self, now: f64) -> PyResult<u32> {
        let now = moment("now", now)?;
        Ok(self.0.lock().part.throughput(now))
    }

    /// Whether a new breaker would decide the same from now on.
    fn is_fresh(&self, now: f64) -> PyResult<bool> {
        let now = moment("now", now)?;
        Ok(self.0.lock().part.is_fresh(now))
    }

    /// Closed again, with nothing counted. Results of calls admitted before change nothing.
    fn reset(&self) {
        self.0.lock().part.reset();
    }

    /// Releases the places of all probes: after a fork, they belong to the parent process.
    fn forget_probes(&self) {
        self.0.lock().part.forget_probes();
    }

    /// Applies new settings.
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]", probe_lease, now))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn retune(&self, pairs: Pairs, probe_lease: Option<u64>, now: f64) -> PyResult<()> {
        let to = leased(settings(&pairs, tidegate::Policy::breaker)?, probe_lease);
        let now = moment("now", now)?;
        self.0.lock().part.retune(to, now);
        Ok(())
    }

    /// Where it stands.
    fn state(&self) -> &'static str {
        // The same at any moment.
        name(self.0.lock().part.state(tidegate::Time::default()))
    }

    /// Lets a call through, or not.
    fn admit(&self, now: f64) -> PyResult<Option<Ticket>> {
        let now = moment("now", now)?;
        Ok(self.0.lock().part.admit(now).ok().map(Ticket))
    }

    /// Takes what came of an admitted call: the transition it made, if any.
    #[pyo3(signature = (ticket, outcome, now, bits) -> "tuple[str, str] | None")]
    fn record(&self, ticket: &Ticket, outcome: &str, now: f64, bits: Option<u64>) -> PyResult<Change> {
        let (outcome, now) = (evidence(outcome)?, moment("now", now)?);
        let mut it = self.0.lock();
        let bits = it.bits(bits, Purpose::Break);
        Ok(change(it.part.record(ticket.0, outcome, bits, now)))
    }

    /// The body failed of a call that was recorded as a success at its head.
    #[pyo3(signature = (ticket, now, bits) -> "tuple[str, str] | None")]
    fn on_body_failure(&self, ticket: &Ticket, now: f64, bits: Option<u64>) -> PyResult<Change> {
        let now = moment("now", now)?;
        let mut it = self.0.lock();
        let bits = it.bits(bits, Purpose::Break);
        Ok(change(it.part.on_body_failure(ticket.0, bits, now)))
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

/// Refuses a share of the calls to a downstream that does not accept enough of them.
#[pyclass(frozen, module = "tidegate._native")]
pub struct AdaptiveThrottle(pub(super) Mutex<Drawn<tidegate::AdaptiveThrottle>>);

#[pymethods]
impl AdaptiveThrottle {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]", now, seed))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs, now: f64, seed: u64) -> PyResult<Self> {
        Ok(Self(Mutex::new(Drawn::new(
            tidegate::AdaptiveThrottle::new(
                settings(&pairs, tidegate::Policy::throttle)?,
                moment("now", now)?,
            ),
            seed,
        ))))
    }

    /// May a call go through? One that is refused has been counted; record one that is let through.
    fn admit(&self, now: f64, bits: Option<u64>) -> PyResult<bool> {
        let now = moment("now", now)?;
        let mut it = self.0.lock();
        let bits = it.bits(bits, Purpose::Throttle);
        Ok(it.part.admit(bits, now))
    }

    /// A call that was let through has ended. Do not record one that says neither yes nor no.
    fn record(&self, accepted: bool, now: f64) -> PyResult<()> {
        let now = moment("now", now)?;
        self.0.lock().part.record(accepted, now);
        Ok(())
    }

    /// The probability that a call is refused now, 0 to 1.
    fn probability(&self, now: f64) -> PyResult<f64> {
        let now = moment("now", now)?;
        Ok(self.0.lock().part.probability(now))
    }

    /// Is nothing in the window?
    fn is_fresh(&self, now: f64) -> PyResult<bool> {
        let now = moment("now", now)?;
        Ok(self.0.lock().part.is_fresh(now))
    }

    /// Applies new settings.
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]", now))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn retune(&self, pairs: Pairs, now: f64) -> PyResult<()> {
        let to = settings(&pairs, tidegate::Policy::throttle)?;
        let now = moment("now", now)?;
        self.0.lock().part.retune(to, now);
        Ok(())
    }

    /// Requests and accepts in the window.
    #[pyo3(signature = (now) -> "tuple[int, int]")]
    fn counts(&self, now: f64) -> PyResult<(u32, u32)> {
        let now = moment("now", now)?;
        Ok(self.0.lock().part.counts(now))
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

/// Was a call of this class accepted? Neither yes nor no where it does not count.
#[pyfunction]
pub fn accepted(kind: &str) -> PyResult<Option<bool>> {
    Ok(tidegate::AdaptiveThrottle::accepted(class(kind)?))
}

/// What a result of this class says about a downstream's health: `success`, `failure`, `neutral`.
#[pyfunction]
pub fn evidence_of(kind: &str) -> PyResult<&'static str> {
    Ok(match tidegate::Evidence::of(class(kind)?) {
        tidegate::Evidence::Success => "success",
        tidegate::Evidence::Failure => "failure",
        tidegate::Evidence::Neutral => "neutral",
    })
}

fn evidence(outcome: &str) -> PyResult<tidegate::Evidence> {
    Ok(match outcome {
        "success" => tidegate::Evidence::Success,
        "failure" => tidegate::Evidence::Failure,
        "neutral" => tidegate::Evidence::Neutral,
        _ => {
            let rule = "must be one of success, failure, neutral";
            return Err(PyValueError::new_err(format!("evidence = {outcome:?}: {rule}")));
        }
    })
}

fn name(state: tidegate::BreakerState) -> &'static str {
    match state {
        tidegate::BreakerState::Closed => "closed",
        tidegate::BreakerState::Open => "open",
        tidegate::BreakerState::HalfOpen => "half_open",
    }
}

type Change = Option<(&'static str, &'static str)>;

fn change(change: Option<(tidegate::BreakerState, tidegate::BreakerState)>) -> Change {
    change.map(|(from, to)| (name(from), name(to)))
}

/// Proof of an admission, to be handed back with what came of it, once.
#[pyclass(frozen, eq, hash, module = "tidegate._native")]
#[derive(PartialEq, Eq, Hash)]
pub struct Ticket(tidegate::Ticket);

#[pymethods]
impl Ticket {
    #[new]
    #[pyo3(signature = (number, probe = false))]
    fn new(number: u16, probe: bool) -> Self {
        Self(tidegate::Ticket { number, probe })
    }

    /// The generation while closed; the probe while half-open.
    #[getter]
    fn number(&self) -> u16 {
        self.0.number
    }

    /// Was it admitted as a probe?
    #[getter]
    fn probe(&self) -> bool {
        self.0.probe
    }

    #[pyo3(signature = () -> "tuple[int, bool]")]
    fn __getnewargs__(&self) -> (u16, bool) {
        (self.0.number, self.0.probe)
    }

    fn __repr__(&self) -> String {
        format!("Ticket({}, probe={})", self.0.number, if self.0.probe { "True" } else { "False" })
    }
}
