//! The circuit breaker.

use tidegate::rng::{self, Purpose};
use tidegate::{BreakerSettings, BreakerState, CircuitBreaker, Evidence, Policy, Ticket, Time};

use crate::slab::{Drawn, keep, with};
use crate::{checked, class, maybe, millis, reading, span, time};

/// The settings, with a lease of probes that is no key of a policy; NaN for what follows from the others.
fn settings(policy: &Policy, probe_lease: f64) -> Option<BreakerSettings> {
    let mut settings = policy.breaker()?;
    if !probe_lease.is_nan() {
        settings.probe_lease = span(probe_lease);
    }
    Some(settings)
}

fn number(state: BreakerState) -> u32 {
    match state {
        BreakerState::Closed => 0,
        BreakerState::Open => 1,
        BreakerState::HalfOpen => 2,
    }
}

/// A transition: 1 + 3 · from + to, or 0 for none.
fn change(change: Option<(BreakerState, BreakerState)>) -> u32 {
    change.map_or(0, |(from, to)| 1 + 3 * number(from) + number(to))
}

fn ticket(word: u32) -> Ticket {
    Ticket { number: word as u16, probe: word >> 16 & 1 == 1 }
}

/// What an outcome of a class says: 0 success, 1 failure, 2 neutral.
#[unsafe(no_mangle)]
pub extern "C" fn breaker_evidence(kind: u32) -> u32 {
    match Evidence::of(class(kind)) {
        Evidence::Success => 0,
        Evidence::Failure => 1,
        Evidence::Neutral => 2,
    }
}

fn evidence(number: u32) -> Evidence {
    match number {
        0 => Evidence::Success,
        1 => Evidence::Failure,
        _ => Evidence::Neutral,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn breaker(probe_lease: f64, seed: u64) -> f64 {
    checked(|policy| {
        let part = CircuitBreaker::new(settings(policy, probe_lease)?);
        Some(keep(Drawn::new(part, seed)))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn breaker_retune(part: u32, probe_lease: f64, now: f64) -> f64 {
    checked(|policy| {
        let to = settings(policy, probe_lease)?;
        with(part, |it: &mut Drawn<CircuitBreaker>| it.part.retune(to, time(now)));
        Some(0)
    })
}

/// 0 closed, 1 open, 2 half-open.
#[unsafe(no_mangle)]
pub extern "C" fn breaker_state(part: u32) -> u32 {
    // The same at any moment.
    number(with(part, |it: &mut Drawn<CircuitBreaker>| it.part.state(Time::default())))
}

/// The wait until another try makes sense; NaN where an admission now would not be refused.
#[unsafe(no_mangle)]
pub extern "C" fn breaker_refuses(part: u32, now: f64) -> f64 {
    maybe(with(part, |it: &mut Drawn<CircuitBreaker>| it.part.refuses(time(now))).map(millis))
}

/// A ticket: its number, and 65,536 more for a probe; or −1.
#[unsafe(no_mangle)]
pub extern "C" fn breaker_admit(part: u32, now: f64) -> i32 {
    let admitted = with(part, |it: &mut Drawn<CircuitBreaker>| it.part.admit(time(now)).ok());
    admitted.map_or(-1, |Ticket { number, probe }| i32::from(number) | i32::from(probe) << 16)
}

/// The draw for the jitter of a break: the caller's own, or the next of the seed's.
fn draw(it: &mut Drawn<CircuitBreaker>, own: u32, bits: u64) -> u64 {
    if own != 0 { bits } else { rng::bits(it.seed, it.draw(), Purpose::Break, 0) }
}

#[unsafe(no_mangle)]
pub extern "C" fn breaker_record(part: u32, word: u32, outcome: u32, now: f64, own: u32, bits: u64) -> u32 {
    change(with(part, |it: &mut Drawn<CircuitBreaker>| {
        let bits = draw(it, own, bits);
        it.part.record(ticket(word), evidence(outcome), bits, time(now))
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn breaker_body(part: u32, word: u32, now: f64, own: u32, bits: u64) -> u32 {
    change(with(part, |it: &mut Drawn<CircuitBreaker>| {
        let bits = draw(it, own, bits);
        it.part.on_body_failure(ticket(word), bits, time(now))
    }))
}

/// The end of the break while open, else NaN.
#[unsafe(no_mangle)]
pub extern "C" fn breaker_until(part: u32) -> f64 {
    maybe(with(part, |it: &mut Drawn<CircuitBreaker>| it.part.open_until()).map(reading))
}

#[unsafe(no_mangle)]
pub extern "C" fn breaker_failures(part: u32, now: f64) -> f64 {
    with(part, |it: &mut Drawn<CircuitBreaker>| it.part.failures(time(now))).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn breaker_throughput(part: u32, now: f64) -> f64 {
    with(part, |it: &mut Drawn<CircuitBreaker>| it.part.throughput(time(now))).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn breaker_fresh(part: u32, now: f64) -> u32 {
    with(part, |it: &mut Drawn<CircuitBreaker>| it.part.is_fresh(time(now))).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn breaker_reset(part: u32) {
    with(part, |it: &mut Drawn<CircuitBreaker>| it.part.reset());
}

#[unsafe(no_mangle)]
pub extern "C" fn breaker_forget_probes(part: u32) {
    with(part, |it: &mut Drawn<CircuitBreaker>| it.part.forget_probes());
}
