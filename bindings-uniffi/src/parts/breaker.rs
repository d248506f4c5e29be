//! The circuit breaker.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate::rng::{self, Purpose};
use tidegate::{BreakerSettings, BreakerState, Duration, Evidence};

use super::{Pairs, argument, class, missing, time};
use crate::{Invalid, checked};

fn breaker(pairs: &Pairs, probe_lease: Option<u64>) -> Result<BreakerSettings, Invalid> {
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

fn evidence(outcome: &str) -> Result<Evidence, Invalid> {
    Ok(match outcome {
        "success" => Evidence::Success,
        "failure" => Evidence::Failure,
        "neutral" => Evidence::Neutral,
        _ => {
            let rule = "must be one of success, failure, neutral";
            return Err(argument(format!("evidence = {outcome:?}: {rule}")));
        }
    })
}

/// What a result of this class says about a downstream's health: `success`, `failure`, `neutral`.
#[uniffi::export]
pub fn evidence_of(kind: &str) -> Result<String, Invalid> {
    Ok(match Evidence::of(class(kind)?) {
        Evidence::Success => "success",
        Evidence::Failure => "failure",
        Evidence::Neutral => "neutral",
    }
    .to_owned())
}

/// Proof of an admission, to be handed back with what came of it, once.
#[derive(uniffi::Object)]
pub struct Ticket(tidegate::Ticket);

#[uniffi::export]
impl Ticket {
    /// The ticket of this number.
    #[uniffi::constructor]
    pub fn new(number: u16, probe: bool) -> Arc<Self> {
        Arc::new(Self(tidegate::Ticket { number, probe }))
    }

    /// The generation while closed; the probe while half-open.
    pub fn number(&self) -> u16 {
        self.0.number
    }

    /// Was it admitted as a probe?
    pub fn probe(&self) -> bool {
        self.0.probe
    }
}

/// The circuit breaker.
#[derive(uniffi::Object)]
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
    pub fn draw(&mut self, seed: u64) -> u64 {
        self.next = self.next.wrapping_add(1);
        rng::bits(seed, self.next.wrapping_sub(1), Purpose::Break, 0)
    }
}

/// A transition.
#[derive(Clone, PartialEq, Eq, Debug, uniffi::Record)]
pub struct BreakerChange {
    /// From this state: `closed`, `open` or `half_open` …
    pub from: String,
    /// … to this.
    pub to: String,
}

type Change = Option<BreakerChange>;

fn change(change: Option<(BreakerState, BreakerState)>) -> Change {
    change.map(|(from, to)| BreakerChange { from: name(from).to_owned(), to: name(to).to_owned() })
}

#[uniffi::export]
impl CircuitBreaker {
    /// A new one with these settings.
    #[uniffi::constructor]
    pub fn new(pairs: Pairs, probe_lease: Option<u64>, seed: u64) -> Result<Arc<Self>, Invalid> {
        let part = tidegate::CircuitBreaker::new(breaker(&pairs, probe_lease)?);
        Ok(Arc::new(Self { seed, inner: Mutex::new(Inner { part, next: 0 }) }))
    }

    /// Where it stands.
    pub fn state(&self) -> String {
        // The same at any moment.
        name(self.inner.lock().part.state(tidegate::Time::default())).to_owned()
    }

    /// Microseconds until another try makes sense, where an admission now would be refused.
    pub fn refuses(&self, now: u64) -> Option<u64> {
        let now = time(now);
        self.inner.lock().part.refuses(now).map(Duration::as_micros)
    }

    /// Lets a call through, or not.
    pub fn admit(&self, now: u64) -> Option<Arc<Ticket>> {
        let now = time(now);
        self.inner.lock().part.admit(now).ok().map(|ticket| Arc::new(Ticket(ticket)))
    }

    /// Takes what came of an admitted call: the transition it made, if any.
    pub fn record(
        &self,
        ticket: &Ticket,
        outcome: &str,
        now: u64,
        bits: Option<u64>,
    ) -> Result<Change, Invalid> {
        let (outcome, now) = (evidence(outcome)?, time(now));
        let mut it = self.inner.lock();
        let bits = bits.unwrap_or_else(|| it.draw(self.seed));
        Ok(change(it.part.record(ticket.0, outcome, bits, now)))
    }

    /// The body failed of a call that was recorded as a success at its head.
    pub fn on_body_failure(&self, ticket: &Ticket, now: u64, bits: Option<u64>) -> Change {
        let now = time(now);
        let mut it = self.inner.lock();
        let bits = bits.unwrap_or_else(|| it.draw(self.seed));
        change(it.part.on_body_failure(ticket.0, bits, now))
    }

    /// The end of the break while open, on the user's clock.
    pub fn open_until(&self) -> Option<u64> {
        self.inner.lock().part.open_until().map(tidegate::Time::as_micros)
    }

    /// Failures in the window.
    pub fn failures(&self, now: u64) -> u32 {
        let now = time(now);
        self.inner.lock().part.failures(now)
    }

    /// Results in the window.
    pub fn throughput(&self, now: u64) -> u32 {
        let now = time(now);
        self.inner.lock().part.throughput(now)
    }

    /// Would a new breaker do the same from here on?
    pub fn is_fresh(&self, now: u64) -> bool {
        let now = time(now);
        self.inner.lock().part.is_fresh(now)
    }

    /// Closed again, with nothing counted.
    pub fn reset(&self) {
        self.inner.lock().part.reset();
    }

    /// Gives all probes' places back.
    pub fn forget_probes(&self) {
        self.inner.lock().part.forget_probes();
    }

    /// Goes on with other settings.
    pub fn retune(&self, pairs: Pairs, probe_lease: Option<u64>, now: u64) -> Result<(), Invalid> {
        let (to, now) = (breaker(&pairs, probe_lease)?, time(now));
        self.inner.lock().part.retune(to, now);
        Ok(())
    }

    /// Another of the same state.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self { seed: self.seed, inner: Mutex::new(self.inner.lock().clone()) })
    }
}
