// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Who is let through: the circuit breaker and the adaptive throttle.

use crate::handles::{keep, with};
use crate::{checked, maybe, millis, numbered, reading, span, time};
use tidegate::parts::{Drawn, leased};
use tidegate::rng::Purpose;
use tidegate::{Class, Evidence};
use wasm_bindgen::prelude::wasm_bindgen;

/// A transition: 1 + 3 · from + to, or 0 for none.
fn change(change: Option<(tidegate::BreakerState, tidegate::BreakerState)>) -> u32 {
    change.map_or(0, |(from, to)| 1 + 3 * from as u32 + to as u32)
}

fn ticket_of(word: u32) -> tidegate::Ticket {
    tidegate::Ticket { number: word as u16, probe: word >> 16 & 1 == 1 }
}

/// A ticket's number, and 65,536 more for a probe; or −1.
fn ticket_word(ticket: Option<tidegate::Ticket>) -> i32 {
    ticket.map_or(-1, |ticket| i32::from(ticket.number) | i32::from(ticket.probe) << 16)
}

/// A new one.
#[wasm_bindgen]
pub fn circuit_breaker(probe_lease: f64, seed: u64) -> f64 {
    checked(&|policy| {
        Some(keep(Drawn::new(
            tidegate::CircuitBreaker::new(leased(
                policy.breaker()?,
                (!probe_lease.is_nan()).then(|| span(probe_lease)),
            )),
            seed,
        )))
    })
}

/// `closed`, `open` or `half_open`.
#[wasm_bindgen]
pub fn circuit_breaker_state(part: u32) -> u32 {
    with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.state(tidegate::Time::default())) as u32
}

/// Lets a call through: a ticket to hand back with what came of it.
#[wasm_bindgen]
pub fn circuit_breaker_admit(part: u32, now: f64) -> i32 {
    let now = time(now);
    ticket_word(with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.admit(now)).ok())
}

/// Takes what came of an admitted call: the transition that it made, or `None`.
#[wasm_bindgen]
pub fn circuit_breaker_record(part: u32, ticket: u32, evidence: u32, now: f64, own: u32, bits: u64) -> u32 {
    let ticket = ticket_of(ticket);
    let evidence = numbered(evidence, &Evidence::ALL);
    let now = time(now);
    let bits = (own != 0).then_some(bits);
    change(with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| {
        let bits = it.bits(bits, Purpose::Break);
        it.record(ticket, evidence, bits, now)
    }))
}

/// The body failed of a call that was recorded as a success at its head.
#[wasm_bindgen]
pub fn circuit_breaker_on_body_failure(part: u32, ticket: u32, now: f64, own: u32, bits: u64) -> u32 {
    let ticket = ticket_of(ticket);
    let now = time(now);
    let bits = (own != 0).then_some(bits);
    change(with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| {
        let bits = it.bits(bits, Purpose::Break);
        it.on_body_failure(ticket, bits, now)
    }))
}

/// What an outcome of one of the nine classes says (`docs/spec.md`, 1.2).
#[wasm_bindgen]
pub fn circuit_breaker_evidence_of(part: u32, kind: u32) -> u32 {
    let kind = numbered(kind, &Class::ALL);
    with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.evidence_of(kind)) as u32
}

/// How long until another try makes sense if an admission now would be refused, else `None`.
#[wasm_bindgen]
pub fn circuit_breaker_refuses(part: u32, now: f64) -> f64 {
    let now = time(now);
    maybe(with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.refuses(now)).map(millis))
}

/// The end of the break while open, on your clock; else `None`.
#[wasm_bindgen]
pub fn circuit_breaker_open_until(part: u32) -> f64 {
    maybe(with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.open_until()).map(reading))
}

/// Failures in the window; while open, what is left of those that opened it.
#[wasm_bindgen]
pub fn circuit_breaker_failures(part: u32, now: f64) -> f64 {
    let now = time(now);
    with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.failures(now)).into()
}

/// Results in the window, failures included.
#[wasm_bindgen]
pub fn circuit_breaker_throughput(part: u32, now: f64) -> f64 {
    let now = time(now);
    with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.throughput(now)).into()
}

/// Whether a new breaker would decide the same from now on.
#[wasm_bindgen]
pub fn circuit_breaker_is_fresh(part: u32, now: f64) -> u32 {
    let now = time(now);
    with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.is_fresh(now)).into()
}

/// Closed again, with nothing counted. Results of calls admitted before change nothing.
#[wasm_bindgen]
pub fn circuit_breaker_reset(part: u32) {
    with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.reset());
}

/// Releases the places of all probes: after a fork, they belong to the parent process.
#[wasm_bindgen]
pub fn circuit_breaker_forget_probes(part: u32) {
    with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.forget_probes());
}

/// Applies new settings.
#[wasm_bindgen]
pub fn circuit_breaker_retune(part: u32, probe_lease: f64, now: f64) -> f64 {
    checked(&|policy| {
        let to = leased(policy.breaker()?, (!probe_lease.is_nan()).then(|| span(probe_lease)));
        with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.retune(to, time(now)));
        Some(0)
    })
}

/// A new one.
#[wasm_bindgen]
pub fn adaptive_throttle(now: f64, seed: u64) -> f64 {
    checked(&|policy| {
        Some(keep(Drawn::new(tidegate::AdaptiveThrottle::new(policy.throttle()?, time(now)), seed)))
    })
}

/// May a call go through? One that is refused has been counted; record one that is let through.
#[wasm_bindgen]
pub fn adaptive_throttle_admit(part: u32, now: f64, own: u32, bits: u64) -> u32 {
    let now = time(now);
    let bits = (own != 0).then_some(bits);
    with(part, |it: &mut Drawn<tidegate::AdaptiveThrottle>| {
        let bits = it.bits(bits, Purpose::Throttle);
        it.admit(bits, now)
    })
    .into()
}

/// A call that was let through has ended. Do not record one that says neither yes nor no.
#[wasm_bindgen]
pub fn adaptive_throttle_record(part: u32, accepted: u32, now: f64) {
    let accepted = accepted != 0;
    let now = time(now);
    with(part, |it: &mut Drawn<tidegate::AdaptiveThrottle>| it.record(accepted, now));
}

/// Was a call of one of the nine classes accepted (`docs/spec.md`, 1.2)? `None`: it does not count.
#[wasm_bindgen]
pub fn adaptive_throttle_accepted(part: u32, kind: u32) -> u32 {
    let kind = numbered(kind, &Class::ALL);
    with(part, |it: &mut Drawn<tidegate::AdaptiveThrottle>| it.accepted(kind)).map_or(2, u32::from)
}

/// Requests in the window.
#[wasm_bindgen]
pub fn adaptive_throttle_requests(part: u32, now: f64) -> f64 {
    let now = time(now);
    with(part, |it: &mut Drawn<tidegate::AdaptiveThrottle>| it.requests(now)).into()
}

/// Those of them that the downstream accepted.
#[wasm_bindgen]
pub fn adaptive_throttle_accepts(part: u32, now: f64) -> f64 {
    let now = time(now);
    with(part, |it: &mut Drawn<tidegate::AdaptiveThrottle>| it.accepts(now)).into()
}

/// The probability that a call is refused now, 0 to 1.
#[wasm_bindgen]
pub fn adaptive_throttle_probability(part: u32, now: f64) -> f64 {
    let now = time(now);
    with(part, |it: &mut Drawn<tidegate::AdaptiveThrottle>| it.probability(now))
}

/// Is nothing in the window?
#[wasm_bindgen]
pub fn adaptive_throttle_is_fresh(part: u32, now: f64) -> u32 {
    let now = time(now);
    with(part, |it: &mut Drawn<tidegate::AdaptiveThrottle>| it.is_fresh(now)).into()
}

/// Applies new settings.
#[wasm_bindgen]
pub fn adaptive_throttle_retune(part: u32, now: f64) -> f64 {
    checked(&|policy| {
        let to = policy.throttle()?;
        with(part, |it: &mut Drawn<tidegate::AdaptiveThrottle>| it.retune(to, time(now)));
        Some(0)
    })
}
