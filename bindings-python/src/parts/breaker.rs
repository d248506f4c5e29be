//! The circuit breaker.

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tidegate::rng::{self, Purpose};
use tidegate::{BreakerSettings, BreakerState, Duration, Evidence};

use super::{Pairs, class, missing, reading, seconds, time};
use crate::pairs::checked;

fn breaker(pairs: &Pairs, probe_lease: Option<u64>) -> PyResult<BreakerSettings> {
    let mut settings = checked("part", pairs)?.breaker().ok_or_else(missing)?;
    if let Some(lease) = probe_lease {
        settings.probe_lease = Duration::from_micros(lease);
    }
    Ok(settings)
}

fn name(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::Open => "open",
        BreakerState::HalfOpen => "half_open",
    }
}

fn evidence(outcome: &str) -> PyResult<Evidence> {
    Ok(match outcome {
        "success" => Evidence::Success,
        "failure" => Evidence::Failure,
        "neutral" => Evidence::Neutral,
        _ => {
            let rule = "must be one of success, failure, neutral";
            return Err(PyValueError::new_err(format!("evidence = {outcome:?}: {rule}")));
        }
    })
}

/// What a result of this class says about a downstream's health: `success`, `failure`, `neutral`.
#[pyfunction]
pub fn evidence_of(kind: &str) -> PyResult<&'static str> {
    Ok(match Evidence::of(class(kind)?) {
        Evidence::Success => "success",
        Evidence::Failure => "failure",
        Evidence::Neutral => "neutral",
    })
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

/// The circuit breaker.
#[pyclass(frozen, module = "tidegate._native")]
pub struct CircuitBreaker {
    seed: u64,
    inner: Mutex<Inner>,
}

#[derive(Clone)]
struct Inner {
    part: tidegate::CircuitBreaker,
    /// The result that the next draw belongs to.
    next: u64,
}

impl Inner {
    fn draw(&mut self, seed: u64) -> u64 {
        self.next = self.next.wrapping_add(1);
        rng::bits(seed, self.next.wrapping_sub(1), Purpose::Break, 0)
    }
}

type Change = Option<(&'static str, &'static str)>;

fn change(change: Option<(BreakerState, BreakerState)>) -> Change {
    change.map(|(from, to)| (name(from), name(to)))
}

#[pymethods]
impl CircuitBreaker {
    #[new]
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]", probe_lease, seed))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn new(pairs: Pairs, probe_lease: Option<u64>, seed: u64) -> PyResult<Self> {
        let part = tidegate::CircuitBreaker::new(breaker(&pairs, probe_lease)?);
        Ok(Self { seed, inner: Mutex::new(Inner { part, next: 0 }) })
    }

    /// Where it stands.
    fn state(&self) -> &'static str {
        // The same at any moment.
        name(self.inner.lock().part.state(tidegate::Time::default()))
    }

    /// Seconds until another try makes sense, where an admission now would be refused.
    fn refuses(&self, now: f64) -> PyResult<Option<f64>> {
        let now = time(now)?;
        Ok(self.inner.lock().part.refuses(now).map(seconds))
    }

    /// Lets a call through, or not.
    fn admit(&self, now: f64) -> PyResult<Option<Ticket>> {
        let now = time(now)?;
        Ok(self.inner.lock().part.admit(now).ok().map(Ticket))
    }

    /// Takes what came of an admitted call: the transition it made, if any.
    #[pyo3(signature = (ticket, outcome, now, bits) -> "tuple[str, str] | None")]
    fn record(&self, ticket: &Ticket, outcome: &str, now: f64, bits: Option<u64>) -> PyResult<Change> {
        let (outcome, now) = (evidence(outcome)?, time(now)?);
        let mut it = self.inner.lock();
        let bits = bits.unwrap_or_else(|| it.draw(self.seed));
        Ok(change(it.part.record(ticket.0, outcome, bits, now)))
    }

    /// The body failed of a call that was recorded as a success at its head.
    #[pyo3(signature = (ticket, now, bits) -> "tuple[str, str] | None")]
    fn on_body_failure(&self, ticket: &Ticket, now: f64, bits: Option<u64>) -> PyResult<Change> {
        let now = time(now)?;
        let mut it = self.inner.lock();
        let bits = bits.unwrap_or_else(|| it.draw(self.seed));
        Ok(change(it.part.on_body_failure(ticket.0, bits, now)))
    }

    /// The end of the break while open.
    fn open_until(&self) -> Option<f64> {
        self.inner.lock().part.open_until().map(reading)
    }

    /// Failures in the window.
    fn failures(&self, now: f64) -> PyResult<u32> {
        let now = time(now)?;
        Ok(self.inner.lock().part.failures(now))
    }

    /// Results in the window.
    fn throughput(&self, now: f64) -> PyResult<u32> {
        let now = time(now)?;
        Ok(self.inner.lock().part.throughput(now))
    }

    /// Would a new breaker do the same from here on?
    fn is_fresh(&self, now: f64) -> PyResult<bool> {
        let now = time(now)?;
        Ok(self.inner.lock().part.is_fresh(now))
    }

    /// Closed again, with nothing counted.
    fn reset(&self) {
        self.inner.lock().part.reset();
    }

    /// Gives all probes' places back.
    fn forget_probes(&self) {
        self.inner.lock().part.forget_probes();
    }

    /// Goes on with other settings.
    #[pyo3(signature = (pairs: "list[tuple[str, float | str]]", probe_lease, now))]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn retune(&self, pairs: Pairs, probe_lease: Option<u64>, now: f64) -> PyResult<()> {
        let (to, now) = (breaker(&pairs, probe_lease)?, time(now)?);
        self.inner.lock().part.retune(to, now);
        Ok(())
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        Self { seed: self.seed, inner: Mutex::new(self.inner.lock().clone()) }
    }
}
