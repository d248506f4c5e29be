//! No probe of a circuit breaker, however lost, late or forged, keeps it half-open or gets it past its limit. A debug
//! build runs 100,000 schedules, a release build or `TIDEGATE_DEEP=1` a million.
#![allow(clippy::disallowed_methods, reason = "TIDEGATE_DEEP asks for more schedules")]

use tidegate::{BreakerSettings, BreakerState, CircuitBreaker, Duration, Evidence, Ticket, Time, rng};

fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

fn evidence(n: u64) -> Evidence {
    [Evidence::Success, Evidence::Failure, Evidence::Neutral][n as usize % 3]
}

/// A seeded generator of 64 bits, good enough to make schedules (Marsaglia's xorshift64*).
struct Dice(u64);

impl Dice {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: u64) -> u64 {
        rng::uniform(self.bits(), 0, limit - 1)
    }
}

/// A host that loses calls, reports them late, and reports calls that never were.
struct Schedule {
    dice: Dice,
    settings: BreakerSettings,
    breaker: CircuitBreaker,
    host: u64,
    /// Time without the jumps back: what leases are counted in.
    passed: u64,
    /// Admitted, and not reported yet, whether they ever will be or not; with their lease's end if they are probes.
    out: Vec<(Ticket, u64)>,
}

/// What happened in all schedules together.
#[derive(Default, Debug)]
struct Tally {
    probes: u64,
    refused: u64,
    late: u64,
    forged: u64,
    lapsed: u64,
    closed: u64,
    reopened: u64,
}

impl Schedule {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let settings = BreakerSettings {
            consecutive: Some(1 + dice.below(2) as u32),
            break_duration: Duration::from_micros(1 + dice.below(200)),
            break_factor: [1.0, 2.0][dice.below(2) as usize],
            half_open_max_calls: 1 + dice.below(4) as u32,
            successes_to_close: 1 + dice.below(4) as u32,
            probe_lease: Duration::from_micros(1 + dice.below(300)),
            ..BreakerSettings::new(Duration::from_micros(200))
        };
        let breaker = CircuitBreaker::new(settings);
        Self { dice, settings, breaker, host: 1 << 45, passed: 0, out: vec![] }
    }

    /// Time is counted by what the breaker sees of it, so it sees each step before anything else happens. A clock that is set back
    /// by up to 30 s makes its time stand still, and a longer jump ahead may be a return (R10; `clocks.rs`): neither happens here.
    fn look(&mut self) {
        let _ = self.breaker.is_fresh(at(self.host));
    }

    fn tick(&mut self) {
        let roll = self.dice.below(64);
        if roll == 0 {
            self.host -= 30_000_001 + self.dice.below(36_000_000_000);
            self.look();
            return;
        }
        let gap = match roll {
            1 => self.dice.below(30_000_000),
            2..20 => 0,
            _ => self.dice.below(120),
        };
        self.host += gap;
        self.passed += gap;
        self.look();
    }

    /// Probes of this round that have neither reported nor outlived their lease.
    fn running(&self) -> usize {
        self.out.iter().filter(|(ticket, ends)| ticket.probe && *ends > self.passed).count()
    }

    /// Reports one of those that are out.
    fn report(&mut self, place: usize, evidence: Evidence, tally: &mut Tally) {
        let (ticket, ends) = self.out.swap_remove(place);
        let before = self.breaker.state(at(self.host));
        tally.late += u64::from(ticket.probe && ends <= self.passed);
        let bits = self.dice.bits();
        if let Some((from, to)) = self.breaker.record(ticket, evidence, bits, at(self.host)) {
            assert_eq!(from, before);
            match (from, to, evidence) {
                (BreakerState::Closed, BreakerState::Open, Evidence::Failure) => assert!(!ticket.probe),
                (BreakerState::HalfOpen, BreakerState::Open, Evidence::Failure) => tally.reopened += 1,
                (BreakerState::HalfOpen, BreakerState::Closed, Evidence::Success) => tally.closed += 1,
                illegal => panic!("no such edge: {illegal:?}"),
            }
            // Whatever is out is of an older generation now, and must change nothing: it is reported as such.
            for (ticket, _) in std::mem::take(&mut self.out) {
                if self.dice.below(2) == 0 {
                    self.harmless(ticket);
                }
            }
        }
    }

    /// Reports a ticket that must change nothing.
    fn harmless(&mut self, ticket: Ticket) {
        let now = at(self.host);
        let seen = |it: &CircuitBreaker| {
            (it.state(now), it.open_until(), it.refuses(now), it.failures(now), it.throughput(now))
        };
        let before = seen(&self.breaker);
        let says = evidence(self.dice.below(3));
        let bits = self.dice.bits();
        assert_eq!(self.breaker.record(ticket, says, bits, now), None, "{ticket:?} {says:?}");
        assert_eq!(seen(&self.breaker), before, "{ticket:?} {says:?}");
    }

    fn step(&mut self, tally: &mut Tally) {
        self.tick();
        let now = at(self.host);
        match self.dice.below(16) {
            0..=7 => {
                let before = self.breaker.state(now);
                let early = self.breaker.refuses(now);
                let answer = self.breaker.admit(now);
                assert_eq!(answer.err(), early);
                let places = self.settings.half_open_max_calls as usize;
                let Ok(ticket) = answer else {
                    tally.refused += 1;
                    let full = before == BreakerState::HalfOpen && self.running() >= places;
                    assert!(before == BreakerState::Open || full, "a free place is refused");
                    return;
                };
                assert_eq!(ticket.probe, before != BreakerState::Closed);
                let ends = self.passed + self.settings.probe_lease.as_micros();
                let twin = |other: &(Ticket, u64)| other.0 == ticket && ticket.probe;
                assert!(!self.out.iter().any(twin), "two probes share {ticket:?}");
                self.out.push((ticket, ends));
                tally.probes += u64::from(ticket.probe);
                tally.lapsed += u64::from(ticket.probe && self.out.len() > places);
                assert!(!ticket.probe || self.running() <= places, "{} probes at a time", self.running());
            }
            // The rest of those that are out is never reported, or much later.
            8..=11 if !self.out.is_empty() => {
                let place = self.dice.below(self.out.len() as u64) as usize;
                let says = evidence(self.dice.below(3));
                self.report(place, says, tally);
            }
            12 => {
                let forged = Ticket {
                    number: 30_000 + self.dice.below(30_000) as u16,
                    probe: self.dice.below(2) == 0,
                };
                tally.forged += 1;
                self.harmless(forged);
            }
            _ => {}
        }
    }

    /// The downstream is healthy again, and calls come: one wait at most, and as many successes as it takes.
    fn heal(&mut self) {
        let mut waits = 0;
        let most =
            self.settings.max_break_duration.plus(Duration::from_micros(200)).max(self.settings.probe_lease);
        for _ in 0..=self.settings.successes_to_close {
            if let Err(wait) = self.breaker.admit(at(self.host)) {
                assert!(wait <= most, "{wait}");
                waits += 1;
                self.host += wait.as_micros();
                self.passed += wait.as_micros();
            } else {
                // That probe was lost as well; its place comes back with its lease.
                self.host += self.settings.probe_lease.as_micros();
            }
            let ticket = self.breaker.admit(at(self.host)).expect("after the wait that was told");
            let _ = self.breaker.record(ticket, Evidence::Success, 0, at(self.host));
            if self.breaker.state(at(self.host)) == BreakerState::Closed {
                break;
            }
        }
        assert_eq!(self.breaker.state(at(self.host)), BreakerState::Closed, "{:?}", self.settings);
        assert!(waits <= 1, "{waits} waits");
    }
}

#[test]
fn no_schedule_keeps_it_half_open_or_gets_past_its_limit() {
    let deep = !cfg!(debug_assertions) || std::env::var_os("TIDEGATE_DEEP").is_some();
    let schedules = if deep { 1_000_000 } else { 100_000 };
    let mut tally = Tally::default();
    for seed in 0..schedules {
        let mut schedule = Schedule::new(seed);
        for _ in 0..40 {
            schedule.step(&mut tally);
        }
        schedule.heal();
    }
    println!("{schedules} schedules of 40 steps: {tally:?}");
    // The schedules have to reach what they are about.
    let Tally { probes, refused, late, forged, lapsed, closed, reopened } = tally;
    let least = [probes, refused, late, forged, lapsed, closed, reopened].into_iter().min().unwrap();
    assert!(least > schedules / 20, "{tally:?}");
}
