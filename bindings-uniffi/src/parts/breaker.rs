// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Who is let through: the circuit breaker and the adaptive throttle.

use super::{Pairs, named, settings, time};
use crate::Invalid;
use parking_lot::Mutex;
use std::sync::Arc;
use tidegate::parts::{Drawn, leased};
use tidegate::rng::Purpose;
use tidegate::{Class, Evidence};

/// Refuses calls to a downstream that fails too often, and lets a few through after a break.
#[derive(uniffi::Object)]
pub struct CircuitBreaker(pub(super) Mutex<Drawn<tidegate::CircuitBreaker>>);

#[uniffi::export]
impl CircuitBreaker {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs, probe_lease: Option<u64>, seed: u64) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(Drawn::new(
            tidegate::CircuitBreaker::new(leased(
                settings(&pairs, tidegate::Policy::breaker)?,
                probe_lease.map(tidegate::Duration::from_micros),
            )),
            seed,
        )))))
    }

    /// `closed`, `open` or `half_open`.
    pub fn state(&self) -> String {
        self.0.lock().state(tidegate::Time::default()).name().to_owned()
    }

    /// Lets a call through: a ticket to hand back with what came of it.
    pub fn admit(&self, now: u64) -> Option<Ticket> {
        let now = time(now);
        self.0.lock().admit(now).ok().map(|it| Ticket { number: it.number, probe: it.probe })
    }

    /// Takes what came of an admitted call: the transition that it made, or `None`.
    pub fn record(
        &self,
        ticket: Ticket,
        evidence: &str,
        now: u64,
        bits: Option<u64>,
    ) -> Result<Option<Vec<String>>, Invalid> {
        let ticket = tidegate::Ticket { number: ticket.number, probe: ticket.probe };
        let evidence = named("evidence", evidence, &Evidence::ALL, Evidence::name)?;
        let now = time(now);
        let mut it = self.0.lock();
        let bits = it.bits(bits, Purpose::Break);
        Ok(it
            .record(ticket, evidence, bits, now)
            .map(|(from, to)| vec![from.name().to_owned(), to.name().to_owned()]))
    }

    /// The body failed of a call that was recorded as a success at its head.
    pub fn on_body_failure(&self, ticket: Ticket, now: u64, bits: Option<u64>) -> Option<Vec<String>> {
        let ticket = tidegate::Ticket { number: ticket.number, probe: ticket.probe };
        let now = time(now);
        let mut it = self.0.lock();
        let bits = it.bits(bits, Purpose::Break);
        it.on_body_failure(ticket, bits, now)
            .map(|(from, to)| vec![from.name().to_owned(), to.name().to_owned()])
    }

    /// What an outcome of one of the nine classes says (`docs/spec.md`, 1.2).
    pub fn evidence_of(&self, kind: &str) -> Result<String, Invalid> {
        let kind = named("kind", kind, &Class::ALL, Class::name)?;
        Ok(self.0.lock().evidence_of(kind).name().to_owned())
    }

    /// How long until another try makes sense if an admission now would be refused, else `None`.
    pub fn refuses(&self, now: u64) -> Option<u64> {
        let now = time(now);
        self.0.lock().refuses(now).map(tidegate::Duration::as_micros)
    }

    /// The end of the break while open, on your clock; else `None`.
    pub fn open_until(&self) -> Option<u64> {
        self.0.lock().open_until().map(tidegate::Time::as_micros)
    }

    /// Failures in the window; while open, what is left of those that opened it.
    pub fn failures(&self, now: u64) -> u32 {
        let now = time(now);
        self.0.lock().failures(now)
    }

    /// Results in the window, failures included.
    pub fn throughput(&self, now: u64) -> u32 {
        let now = time(now);
        self.0.lock().throughput(now)
    }

    /// Whether a new breaker would decide the same from now on.
    pub fn is_fresh(&self, now: u64) -> bool {
        let now = time(now);
        self.0.lock().is_fresh(now)
    }

    /// Closed again, with nothing counted. Results of calls admitted before change nothing.
    pub fn reset(&self) {
        self.0.lock().reset();
    }

    /// Releases the places of all probes: after a fork, they belong to the parent process.
    pub fn forget_probes(&self) {
        self.0.lock().forget_probes();
    }

    /// Applies new settings.
    pub fn retune(&self, pairs: Pairs, probe_lease: Option<u64>, now: u64) -> Result<(), Invalid> {
        let to = leased(
            settings(&pairs, tidegate::Policy::breaker)?,
            probe_lease.map(tidegate::Duration::from_micros),
        );
        let now = time(now);
        self.0.lock().retune(to, now);
        Ok(())
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}

/// Refuses a share of the calls to a downstream that does not accept enough of them.
#[derive(uniffi::Object)]
pub struct AdaptiveThrottle(pub(super) Mutex<Drawn<tidegate::AdaptiveThrottle>>);

#[uniffi::export]
impl AdaptiveThrottle {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs, now: u64, seed: u64) -> Result<Arc<Self>, Invalid> {
        Ok(Arc::new(Self(Mutex::new(Drawn::new(
            tidegate::AdaptiveThrottle::new(settings(&pairs, tidegate::Policy::throttle)?, time(now)),
            seed,
        )))))
    }

    /// May a call go through? One that is refused has been counted; record one that is let through.
    pub fn admit(&self, now: u64, bits: Option<u64>) -> bool {
        let now = time(now);
        let mut it = self.0.lock();
        let bits = it.bits(bits, Purpose::Throttle);
        it.admit(bits, now)
    }

    /// A call that was let through has ended. Do not record one that says neither yes nor no.
    pub fn record(&self, accepted: bool, now: u64) {
        let now = time(now);
        self.0.lock().record(accepted, now);
    }

    /// Was a call of one of the nine classes accepted (`docs/spec.md`, 1.2)? `None`: it does not count.
    pub fn accepted(&self, kind: &str) -> Result<Option<bool>, Invalid> {
        let kind = named("kind", kind, &Class::ALL, Class::name)?;
        Ok(self.0.lock().accepted(kind))
    }

    /// Requests in the window.
    pub fn requests(&self, now: u64) -> u32 {
        let now = time(now);
        self.0.lock().requests(now)
    }

    /// Those of them that the downstream accepted.
    pub fn accepts(&self, now: u64) -> u32 {
        let now = time(now);
        self.0.lock().accepts(now)
    }

    /// The probability that a call is refused now, 0 to 1.
    pub fn probability(&self, now: u64) -> f64 {
        let now = time(now);
        self.0.lock().probability(now)
    }

    /// Is nothing in the window?
    pub fn is_fresh(&self, now: u64) -> bool {
        let now = time(now);
        self.0.lock().is_fresh(now)
    }

    /// Applies new settings.
    pub fn retune(&self, pairs: Pairs, now: u64) -> Result<(), Invalid> {
        let to = settings(&pairs, tidegate::Policy::throttle)?;
        let now = time(now);
        self.0.lock().retune(to, now);
        Ok(())
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        #[allow(clippy::clone_on_copy)] // of some parts, which is all the same here
        let twin = self.0.lock().clone();
        Arc::new(Self(Mutex::new(twin)))
    }
}

/// Proof of an admission, to be handed back with what came of it, once.
#[derive(Clone, PartialEq, Eq, Debug, uniffi::Record)]
pub struct Ticket {
    /// The generation while closed; the probe while half-open.
    pub number: u16,
    /// Was it admitted as a probe?
    pub probe: bool,
}
