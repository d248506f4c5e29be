// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Who is let through: the circuit breaker and the adaptive throttle.

use super::{Pairs, moment, named, reading, seconds, settings};
use parking_lot::Mutex;
use pyo3::{PyResult, pyclass, pymethods};
use tidegate::parts::{Drawn, leased};
use tidegate::rng::Purpose;
use tidegate::{Class, Evidence};

/// Refuses calls to a downstream that fails too often, and lets a few through after a break.
#[pyclass(frozen, module = "tidegate._native")]
pub struct CircuitBreaker(pub(super) Mutex<Drawn<tidegate::CircuitBreaker>>);

#[pymethods]
impl CircuitBreaker {
    #[new]
    fn new(pairs: Pairs, probe_lease: Option<u64>, seed: u64) -> PyResult<Self> {
        Ok(Self(Mutex::new(Drawn::new(
            tidegate::CircuitBreaker::new(leased(
                settings(pairs, tidegate::Policy::breaker)?,
                probe_lease.map(tidegate::Duration::from_micros),
            )),
            seed,
        ))))
    }

    /// `closed`, `open` or `half_open`.
    fn state(&self) -> &'static str {
        self.0.lock().state(tidegate::Time::default()).name()
    }

    /// Lets a call through: a ticket to hand back with what came of it.
    fn admit(&self, now: f64) -> PyResult<Option<Ticket>> {
        let now = moment("now", now)?;
        Ok(self.0.lock().admit(now).ok().map(|it| Ticket { number: it.number, probe: it.probe }))
    }

    /// Takes what came of an admitted call: the transition that it made, or `None`.
    #[pyo3(signature = (ticket, evidence, now, bits) -> "Any")]
    fn record(&self, ticket: &Ticket, evidence: &str, now: f64, bits: Option<u64>) -> PyResult<Change> {
        let ticket = tidegate::Ticket { number: ticket.number, probe: ticket.probe };
        let evidence = named("evidence", evidence, &Evidence::ALL, Evidence::name)?;
        let now = moment("now", now)?;
        let mut it = self.0.lock();
        let bits = it.bits(bits, Purpose::Break);
        Ok(it.record(ticket, evidence, bits, now).map(|(from, to)| (from.name(), to.name())))
    }

    /// The body failed of a call that was recorded as a success at its head.
    #[pyo3(signature = (ticket, now, bits) -> "Any")]
    fn on_body_failure(&self, ticket: &Ticket, now: f64, bits: Option<u64>) -> PyResult<Change> {
        let ticket = tidegate::Ticket { number: ticket.number, probe: ticket.probe };
        let now = moment("now", now)?;
        let mut it = self.0.lock();
        let bits = it.bits(bits, Purpose::Break);
        Ok(it.on_body_failure(ticket, bits, now).map(|(from, to)| (from.name(), to.name())))
    }

    /// What an outcome of one of the nine classes says (`docs/spec.md`, 1.2).
    fn evidence_of(&self, kind: &str) -> PyResult<&'static str> {
        let kind = named("kind", kind, &Class::ALL, Class::name)?;
        Ok(self.0.lock().evidence_of(kind).name())
    }

    /// How long until another try makes sense if an admission now would be refused, else `None`.
    fn refuses(&self, now: f64) -> PyResult<Option<f64>> {
        let now = moment("now", now)?;
        Ok(self.0.lock().refuses(now).map(seconds))
    }

    /// The end of the break while open, on your clock; else `None`.
    fn open_until(&self) -> Option<f64> {
        self.0.lock().open_until().map(reading)
    }

    /// Failures in the window; while open, what is left of those that opened it.
    fn failures(&self, now: f64) -> PyResult<u32> {
        let now = moment("now", now)?;
        Ok(self.0.lock().failures(now))
    }

    /// Results in the window, failures included.
    fn throughput(&self, now: f64) -> PyResult<u32> {
        let now = moment("now", now)?;
        Ok(self.0.lock().throughput(now))
    }

    /// Whether a new breaker would decide the same from now on.
    fn is_fresh(&self, now: f64) -> PyResult<bool> {
        let now = moment("now", now)?;
        Ok(self.0.lock().is_fresh(now))
    }

    /// Closed again, with nothing counted. Results of calls admitted before change nothing.
    fn reset(&self) {
        self.0.lock().reset();
    }

    /// Releases the places of all probes: after a fork, they belong to the parent process.
    fn forget_probes(&self) {
        self.0.lock().forget_probes();
    }

    /// Applies new settings.
    fn retune(&self, pairs: Pairs, probe_lease: Option<u64>, now: f64) -> PyResult<()> {
        let to = leased(
            settings(pairs, tidegate::Policy::breaker)?,
            probe_lease.map(tidegate::Duration::from_micros),
        );
        let now = moment("now", now)?;
        self.0.lock().retune(to, now);
        Ok(())
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
    fn new(pairs: Pairs, now: f64, seed: u64) -> PyResult<Self> {
        Ok(Self(Mutex::new(Drawn::new(
            tidegate::AdaptiveThrottle::new(
                settings(pairs, tidegate::Policy::throttle)?,
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
        Ok(it.admit(bits, now))
    }

    /// A call that was let through has ended. Do not record one that says neither yes nor no.
    fn record(&self, accepted: bool, now: f64) -> PyResult<()> {
        let now = moment("now", now)?;
        self.0.lock().record(accepted, now);
        Ok(())
    }

    /// Was a call of one of the nine classes accepted (`docs/spec.md`, 1.2)? `None`: it does not count.
    fn accepted(&self, kind: &str) -> PyResult<Option<bool>> {
        let kind = named("kind", kind, &Class::ALL, Class::name)?;
        Ok(self.0.lock().accepted(kind))
    }

    /// Requests in the window.
    fn requests(&self, now: f64) -> PyResult<u32> {
        let now = moment("now", now)?;
        Ok(self.0.lock().requests(now))
    }

    /// Those of them that the downstream accepted.
    fn accepts(&self, now: f64) -> PyResult<u32> {
        let now = moment("now", now)?;
        Ok(self.0.lock().accepts(now))
    }

    /// The probability that a call is refused now, 0 to 1.
    fn probability(&self, now: f64) -> PyResult<f64> {
        let now = moment("now", now)?;
        Ok(self.0.lock().probability(now))
    }

    /// Is nothing in the window?
    fn is_fresh(&self, now: f64) -> PyResult<bool> {
        let now = moment("now", now)?;
        Ok(self.0.lock().is_fresh(now))
    }

    /// Applies new settings.
    fn retune(&self, pairs: Pairs, now: f64) -> PyResult<()> {
        let to = settings(pairs, tidegate::Policy::throttle)?;
        let now = moment("now", now)?;
        self.0.lock().retune(to, now);
        Ok(())
    }

    /// Another of the same state.
    fn copy(&self) -> Self {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Self(Mutex::new(twin))
    }
}

type Change = Option<(&'static str, &'static str)>;

/// Proof of an admission, to be handed back with what came of it, once.
#[pyclass(frozen, eq, hash, get_all, module = "tidegate._native")]
#[derive(PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The generation while closed; the probe while half-open.
    number: u16,
    /// Was it admitted as a probe?
    probe: bool,
}

#[pymethods]
impl Ticket {
    #[new]
    #[pyo3(signature = (number, probe = false))]
    fn new(number: u16, probe: bool) -> Self {
        Self { number, probe }
    }

    #[pyo3(signature = () -> "tuple[int, bool]")]
    fn __getnewargs__(&self) -> (u16, bool) {
        (self.number, self.probe)
    }

    fn __repr__(&self) -> String {
        format!("Ticket({}, probe={})", self.number, if self.probe { "True" } else { "False" })
    }
}
