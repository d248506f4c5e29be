// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Who is let through: the circuit breaker and the adaptive throttle.

use crate::slab::{Drawn, keep, with};
use crate::{checked, class, leased, maybe, millis, reading, time};
use tidegate::rng::Purpose;

fn number(state: tidegate::BreakerState) -> u32 {
    match state {
        tidegate::BreakerState::Closed => 0,
        tidegate::BreakerState::Open => 1,
        tidegate::BreakerState::HalfOpen => 2,
    }
}

/// A transition: 1 + 3 · from + to, or 0 for none.
fn change(change: Option<(tidegate::BreakerState, tidegate::BreakerState)>) -> u32 {
    change.map_or(0, |(from, to)| 1 + 3 * number(from) + number(to))
}

fn ticket(word: u32) -> tidegate::Ticket {
    tidegate::Ticket { number: word as u16, probe: word >> 16 & 1 == 1 }
}

fn evidence(number: u32) -> tidegate::Evidence {
    match number {
        0 => tidegate::Evidence::Success,
        1 => tidegate::Evidence::Failure,
        _ => tidegate::Evidence::Neutral,
    }
}

/// A new one.
#[unsafe(no_mangle)]
pub extern "C" fn circuit_breaker(probe_lease: f64, seed: u64) -> f64 {
    checked(&|policy| {
        Some(keep(Drawn::new(tidegate::CircuitBreaker::new(leased(policy.breaker()?, probe_lease)), seed)))
    })
}

/// How long until another try makes sense if an admission now would be refused, else `None`.
#[unsafe(no_mangle)]
pub extern "C" fn circuit_breaker_refuses(part: u32, now: f64) -> f64 {
    maybe(with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.part.refuses(time(now))).map(millis))
}

/// The end of the break while open, on your clock; else `None`.
#[unsafe(no_mangle)]
pub extern "C" fn circuit_breaker_open_until(part: u32) -> f64 {
    maybe(with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.part.open_until()).map(reading))
}

/// Failures in the window; while open, what is left of those that opened it.
#[unsafe(no_mangle)]
pub extern "C" fn circuit_breaker_failures(part: u32, now: f64) -> f64 {
    with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.part.failures(time(now))).into()
}

/// Results in the window, failures included.
#[unsafe(no_mangle)]
pub extern "C" fn circuit_breaker_throughput(part: u32, now: f64) -> f64 {
    with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.part.throughput(time(now))).into()
}

/// Whether a new breaker would decide the same from now on.
#[unsafe(no_mangle)]
pub extern "C" fn circuit_breaker_is_fresh(part: u32, now: f64) -> u32 {
    with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.part.is_fresh(time(now))).into()
}

/// Closed again, with nothing counted. Results of calls admitted before change nothing.
#[unsafe(no_mangle)]
pub extern "C" fn circuit_breaker_reset(part: u32) {
    with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.part.reset());
}

/// Releases the places of all probes: after a fork, they belong to the parent process.
#[unsafe(no_mangle)]
pub extern "C" fn circuit_breaker_forget_probes(part: u32) {
    with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.part.forget_probes());
}

/// Applies new settings.
#[unsafe(no_mangle)]
pub extern "C" fn circuit_breaker_retune(part: u32, probe_lease: f64, now: f64) -> f64 {
    checked(&|policy| {
        let to = leased(policy.breaker()?, probe_lease);
        with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.part.retune(to, time(now)));
        Some(0)
    })
}

/// What an outcome of a class says: 0 success, 1 failure, 2 neutral.
#[unsafe(no_mangle)]
pub extern "C" fn breaker_evidence(kind: u32) -> u32 {
    match tidegate::Evidence::of(class(kind)) {
        tidegate::Evidence::Success => 0,
        tidegate::Evidence::Failure => 1,
        tidegate::Evidence::Neutral => 2,
    }
}

/// 0 closed, 1 open, 2 half-open.
#[unsafe(no_mangle)]
pub extern "C" fn breaker_state(part: u32) -> u32 {
    // The same at any moment.
    number(with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.part.state(tidegate::Time::default())))
}

/// A ticket: its number, and 65,536 more for a probe; or −1.
#[unsafe(no_mangle)]
pub extern "C" fn breaker_admit(part: u32, now: f64) -> i32 {
    let admitted = with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| it.part.admit(time(now)).ok());
    admitted.map_or(-1, |ticket| i32::from(ticket.number) | i32::from(ticket.probe) << 16)
}

#[unsafe(no_mangle)]
pub extern "C" fn breaker_record(part: u32, word: u32, outcome: u32, now: f64, own: u32, bits: u64) -> u32 {
    change(with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| {
        let bits = it.bits(own, bits, Purpose::Break);
        it.part.record(ticket(word), evidence(outcome), bits, time(now))
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn breaker_body(part: u32, word: u32, now: f64, own: u32, bits: u64) -> u32 {
    change(with(part, |it: &mut Drawn<tidegate::CircuitBreaker>| {
        let bits = it.bits(own, bits, Purpose::Break);
        it.part.on_body_failure(ticket(word), bits, time(now))
    }))
}

/// A new one.
#[unsafe(no_mangle)]
pub extern "C" fn adaptive_throttle(now: f64, seed: u64) -> f64 {
    checked(&|policy| {
        Some(keep(Drawn::new(tidegate::AdaptiveThrottle::new(policy.throttle()?, time(now)), seed)))
    })
}

/// May a call go through? One that is refused has been counted; record one that is let through.
#[unsafe(no_mangle)]
pub extern "C" fn adaptive_throttle_admit(part: u32, now: f64, own: u32, bits: u64) -> u32 {
    with(part, |it: &mut Drawn<tidegate::AdaptiveThrottle>| {
        let bits = it.bits(own, bits, Purpose::Throttle);
        it.part.admit(bits, time(now))
    })
    .into()
}

/// A call that was let through has ended. Do not record one that says neither yes nor no.
#[unsafe(no_mangle)]
pub extern "C" fn adaptive_throttle_record(part: u32, accepted: u32, now: f64) {
    with(part, |it: &mut Drawn<tidegate::AdaptiveThrottle>| it.part.record(accepted != 0, time(now)));
}

/// The probability that a call is refused now, 0 to 1.
#[unsafe(no_mangle)]
pub extern "C" fn adaptive_throttle_probability(part: u32, now: f64) -> f64 {
    with(part, |it: &mut Drawn<tidegate::AdaptiveThrottle>| it.part.probability(time(now)))
}

/// Is nothing in the window?
#[unsafe(no_mangle)]
pub extern "C" fn adaptive_throttle_is_fresh(part: u32, now: f64) -> u32 {
    with(part, |it: &mut Drawn<tidegate::AdaptiveThrottle>| it.part.is_fresh(time(now))).into()
}

/// Applies new settings.
#[unsafe(no_mangle)]
pub extern "C" fn adaptive_throttle_retune(part: u32, now: f64) -> f64 {
    checked(&|policy| {
        let to = policy.throttle()?;
        with(part, |it: &mut Drawn<tidegate::AdaptiveThrottle>| it.part.retune(to, time(now)));
        Some(0)
    })
}

/// Was a call of a class accepted? 0 no, 1 yes, 2 it does not count.
#[unsafe(no_mangle)]
pub extern "C" fn throttle_accepted(kind: u32) -> u32 {
    tidegate::AdaptiveThrottle::accepted(class(kind)).map_or(2, u32::from)
}

/// Calls in the window.
#[unsafe(no_mangle)]
pub extern "C" fn throttle_requests(part: u32, now: f64) -> f64 {
    with(part, |it: &mut Drawn<tidegate::AdaptiveThrottle>| it.part.counts(time(now)).0).into()
}

/// Those of them that were accepted.
#[unsafe(no_mangle)]
pub extern "C" fn throttle_accepts(part: u32, now: f64) -> f64 {
    with(part, |it: &mut Drawn<tidegate::AdaptiveThrottle>| it.part.counts(time(now)).1).into()
}
