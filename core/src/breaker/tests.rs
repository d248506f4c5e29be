//! Behaviour that cannot be observed from outside: numbers that wrap around.

use super::*;

fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

fn breaker(half_open_max_calls: u32) -> CircuitBreaker {
    CircuitBreaker::new(BreakerSettings {
        consecutive: Some(1),
        break_factor: 1.0,
        half_open_max_calls,
        ..BreakerSettings::new(Duration::from_micros(10))
    })
}

#[test]
fn generations_come_round_without_zero() {
    let mut it = breaker(1);
    it.generation = u16::MAX;
    let last = it.admit(at(0)).unwrap();
    assert_eq!(last, Ticket { number: u16::MAX, probe: false });
    assert!(it.record(last, Evidence::Failure, 0, at(0)).is_some());
    let probe = it.admit(at(10)).unwrap();
    assert!(it.record(probe, Evidence::Success, 0, at(10)).is_some());
    assert_eq!(it.admit(at(11)), Ok(Ticket { number: 1, probe: false }));
    it.reset();
    assert_eq!(it.admit(at(11)), Ok(Ticket { number: 2, probe: false }));
}

#[test]
fn probes_come_round_without_zero_and_past_those_that_are_out() {
    let mut it = breaker(3);
    let ticket = it.admit(at(0)).unwrap();
    let _ = it.record(ticket, Evidence::Failure, 0, at(0));
    assert_eq!(it.admit(at(10)), Ok(Ticket { number: 1, probe: true }));
    it.last_probe = u16::MAX - 1;
    assert_eq!(it.admit(at(11)), Ok(Ticket { number: u16::MAX, probe: true }));
    assert_eq!(it.admit(at(12)), Ok(Ticket { number: 2, probe: true }));
    assert_eq!(it.admit(at(13)), Err(Duration::from_micros(7)));
}

#[test]
fn a_ticket_of_the_generation_to_come_changes_nothing_before_it_has_come() {
    let mut it = breaker(1);
    let ticket = it.admit(at(0)).unwrap();
    let _ = it.record(ticket, Evidence::Failure, 0, at(0));
    let early = Ticket { number: it.generation, probe: false };
    assert_eq!(it.record(early, Evidence::Failure, 0, at(5)), None);
    assert_eq!(it.on_body_failure(early, 0, at(5)), None);
    assert_eq!(it.open_until(), Some(at(10)));
    let _ = it.admit(at(10)).unwrap();
    assert_eq!(it.record(early, Evidence::Failure, 0, at(11)), None);
    assert_eq!((it.state(at(11)), it.throughput(at(11))), (BreakerState::HalfOpen, 1));
}

#[test]
fn no_probes_at_all_are_taken_for_one() {
    let mut it = breaker(0);
    let reserved = it.probes.capacity();
    let ticket = it.admit(at(0)).unwrap();
    let _ = it.record(ticket, Evidence::Failure, 0, at(0));
    assert!(it.admit(at(10)).is_ok());
    assert_eq!(it.admit(at(10)), Err(Duration::from_micros(10)));
    assert_eq!((it.probes.len(), it.probes.capacity()), (1, reserved));
}

#[test]
fn nothing_is_allocated_after_creation() {
    let mut it = breaker(1_000);
    let reserved = it.probes.capacity();
    let ticket = it.admit(at(0)).unwrap();
    let _ = it.record(ticket, Evidence::Failure, 0, at(0));
    let admitted = (0..2_000).filter(|n| it.admit(at(10 + n / 300)).is_ok()).count();
    assert_eq!(admitted, 1_000);
    assert_eq!((it.probes.len(), it.probes.capacity()), (1_000, reserved));

    let mut it = breaker(1);
    it.retune(BreakerSettings { half_open_max_calls: 500, ..it.settings }, at(0));
    assert!(it.probes.capacity() >= 500, "the room for more probes is made when they are allowed");
}

#[test]
fn sizes_are_as_documented() {
    assert!(size_of::<CircuitBreaker>() <= 320, "{}", size_of::<CircuitBreaker>());
    assert_eq!(size_of::<Probe>(), 16);
    assert!(size_of::<crate::AdaptiveThrottle>() <= 256, "{}", size_of::<crate::AdaptiveThrottle>());
}

#[test]
fn results_from_before_a_break_of_the_fleet_do_not_count_after_it() {
    let mut it = breaker(1);
    let early = it.admit(at(0)).unwrap();
    it.open_for(Duration::from_micros(10), at(1));
    let probe = it.admit(at(11)).unwrap();
    assert!(it.record(probe, Evidence::Success, 0, at(12)).is_some());
    assert_eq!(it.record(early, Evidence::Failure, 0, at(13)), None, "it ran before the break");
    assert_eq!(it.state(at(13)), BreakerState::Closed);
}
