//! The circuit breaker against the rule as it is written, over the list of everything; and what holds for any history.

use crate::clock::Clock;
use proptest::prelude::*;
use tidegate::{
    BreakerSettings, BreakerState, CircuitBreaker, Duration, Evidence, Ticket, Time, WindowKind, rng,
};

type Transition = Option<(BreakerState, BreakerState)>;

fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

/// The rule as it is written. Tickets are indices into the list of all admissions.
struct Naive {
    settings: BreakerSettings,
    state: BreakerState,
    generation: u32,
    until: u64,
    failed_rounds: i32,
    successes: u32,
    streak: u32,
    /// (moment, failed)
    results: Vec<(u64, bool)>,
    /// (generation, is a probe)
    admissions: Vec<(u32, bool)>,
    /// (admission, end of the lease) of those that have a place
    places: Vec<(usize, u64)>,
}

impl Naive {
    fn new(settings: BreakerSettings) -> Self {
        Self {
            settings,
            state: BreakerState::Closed,
            generation: 0,
            until: 0,
            failed_rounds: 0,
            successes: 0,
            streak: 0,
            results: vec![],
            admissions: vec![],
            places: vec![],
        }
    }

    /// Failures and throughput.
    fn counts(&mut self, now: u64) -> (u32, u32) {
        let slices = if self.settings.window_kind == WindowKind::Sliding { 10 } else { 1 };
        let Some(&(first, _)) = self.results.first() else { return (0, 0) };
        let slice = |t: u64| (t - first) * slices / self.settings.window.as_micros();
        let recent: Vec<_> = self.results.iter().filter(|(t, _)| slice(now) - slice(*t) < slices).collect();
        let counts = (recent.iter().filter(|(_, failed)| *failed).count() as u32, recent.len() as u32);
        if recent.is_empty() {
            self.results.clear();
        }
        counts
    }

    fn refusal(&self, now: u64) -> Option<u64> {
        let running: Vec<u64> = self.places.iter().map(|place| place.1).filter(|ends| *ends > now).collect();
        match self.state {
            BreakerState::Open if now < self.until => Some(self.until - now),
            BreakerState::HalfOpen if running.len() >= self.settings.half_open_max_calls as usize => {
                Some(running.iter().min().unwrap() - now)
            }
            _ => None,
        }
    }

    fn admit(&mut self, now: u64) -> Result<usize, u64> {
        if let Some(wait) = self.refusal(now) {
            return Err(wait);
        }
        let probe = self.state != BreakerState::Closed;
        self.admissions.push((self.generation, probe));
        if probe {
            if self.state == BreakerState::Open {
                self.state = BreakerState::HalfOpen;
                self.successes = 0;
            }
            if self.places.len() == self.settings.half_open_max_calls as usize {
                self.places.sort_by_key(|place| place.1);
                self.places.remove(0);
            }
            let lease = self.settings.probe_lease.as_micros();
            self.places.push((self.admissions.len() - 1, now + lease));
        }
        Ok(self.admissions.len() - 1)
    }

    fn open(&mut self, bits: u64, now: u64) -> (BreakerState, BreakerState) {
        let mut span = self.settings.break_duration.as_micros();
        if self.settings.break_factor > 1.0 {
            let mut grown = span as f64;
            for _ in 0..self.failed_rounds {
                grown *= self.settings.break_factor;
            }
            span = grown.min(self.settings.max_break_duration.as_micros() as f64) as u64;
            span += rng::uniform(bits, 0, span / 10);
        }
        let from = self.state;
        (self.state, self.until) = (BreakerState::Open, now + span);
        self.generation += 1;
        self.places.clear();
        (from, BreakerState::Open)
    }

    fn record(&mut self, admission: usize, evidence: Evidence, bits: u64, now: u64) -> Transition {
        let (generation, probe) = self.admissions[admission];
        if generation != self.generation {
            return None;
        }
        if probe {
            let place = self.places.iter().position(|place| place.0 == admission)?;
            self.places.remove(place);
            return match evidence {
                Evidence::Failure => {
                    self.failed_rounds += 1;
                    Some(self.open(bits, now))
                }
                Evidence::Success if self.successes + 1 >= self.settings.successes_to_close => {
                    let settings = self.settings;
                    let (generation, admissions) =
                        (self.generation + 1, std::mem::take(&mut self.admissions));
                    *self = Self { generation, admissions, ..Self::new(settings) };
                    Some((BreakerState::HalfOpen, BreakerState::Closed))
                }
                Evidence::Success => {
                    self.successes += 1;
                    None
                }
                Evidence::Neutral => None,
            };
        }
        if self.state != BreakerState::Closed || evidence == Evidence::Neutral {
            return None;
        }
        self.counts(now);
        self.results.push((now, evidence == Evidence::Failure));
        self.judge(evidence == Evidence::Failure, bits, now)
    }

    fn on_body_failure(&mut self, admission: usize, bits: u64, now: u64) -> Transition {
        if self.admissions[admission] != (self.generation, false) || self.state != BreakerState::Closed {
            return None;
        }
        let (failures, throughput) = self.counts(now);
        if failures < throughput {
            self.results.iter_mut().rfind(|(_, failed)| !failed).unwrap().1 = true;
        } else {
            self.results.push((now, true));
        }
        self.judge(true, bits, now)
    }

    fn judge(&mut self, failed: bool, bits: u64, now: u64) -> Transition {
        self.streak = if failed { self.streak + 1 } else { 0 };
        let (failures, throughput) = self.counts(now);
        let share = self.settings.failure_ratio.is_some_and(|ratio| {
            throughput >= self.settings.min_throughput && f64::from(failures) >= ratio * f64::from(throughput)
        });
        let row = self.settings.consecutive.is_some_and(|row| self.streak >= row);
        (failed && (share || row)).then(|| self.open(bits, now))
    }
}

fn settings() -> impl Strategy<Value = BreakerSettings> {
    (
        (
            proptest::option::of(0.05f64..=1.0),
            prop_oneof![10u64..2_000, Just(100_000)],
            1u32..6,
            any::<bool>(),
            proptest::option::of(1u32..5),
        ),
        (1u64..5_000, prop_oneof![Just(1.0), 1.0f64..4.0], 1u64..20_000, 1u32..5, 1u32..5, 0u64..3_000),
    )
        .prop_map(|(opens, halves)| BreakerSettings {
            failure_ratio: opens.0,
            window: Duration::from_micros(opens.1),
            min_throughput: opens.2,
            window_kind: if opens.3 { WindowKind::Tumbling } else { WindowKind::Sliding },
            consecutive: opens.4,
            break_duration: Duration::from_micros(halves.0),
            break_factor: halves.1,
            max_break_duration: Duration::from_micros(halves.2),
            half_open_max_calls: halves.3,
            successes_to_close: halves.4,
            probe_lease: Duration::from_micros(halves.5),
        })
}

/// Frozen, a little later, hours later, hours back.
fn gap() -> impl Strategy<Value = i64> {
    prop_oneof![4 => 0i64..400, 3 => Just(0i64), 2 => 0i64..6_000, 1 => -36_000_000_000i64..36_000_000_000]
}

fn evidence(n: u8) -> Evidence {
    [Evidence::Success, Evidence::Failure, Evidence::Neutral][usize::from(n) % 3]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn agrees_with_the_list_of_everything(
        settings in settings(),
        steps in prop::collection::vec((gap(), 0u8..10, any::<u64>(), 0u8..3, any::<prop::sample::Index>()), 1..200),
    ) {
        let mut breaker = CircuitBreaker::new(settings);
        let mut naive = Naive::new(settings);
        let mut tickets: Vec<Ticket> = vec![];
        let mut host = 1u64 << 45;
        let mut clock = Clock::new(host);
        let _ = breaker.is_fresh(at(host));
        for (gap, op, bits, says, which) in steps {
            host = host.saturating_add_signed(gap);
            let core = clock.read(host);
            let now = at(host);
            // Time is counted by what the breaker sees of it.
            let _ = breaker.is_fresh(now);
            let known = tickets.len().saturating_sub(if op == 9 { 60 } else { 4 })..tickets.len();
            match op {
                0..=3 => {
                    prop_assert_eq!(breaker.refuses(now).map(Duration::as_micros), naive.refusal(core));
                    match (breaker.admit(now), naive.admit(core)) {
                        (Ok(ticket), Ok(place)) => {
                            prop_assert_eq!(place, tickets.len());
                            prop_assert_eq!(ticket.probe, naive.admissions[place].1);
                            tickets.push(ticket);
                        }
                        (found, expected) => prop_assert_eq!(
                            found.map_err(Duration::as_micros).err(), expected.err()
                        ),
                    }
                }
                _ if known.is_empty() => {}
                4 => {
                    let place = known.start + which.index(known.len());
                    let found = breaker.on_body_failure(tickets[place], bits, now);
                    prop_assert_eq!(found, naive.on_body_failure(place, bits, core));
                }
                _ => {
                    let place = known.start + which.index(known.len());
                    let found = breaker.record(tickets[place], evidence(says), bits, now);
                    prop_assert_eq!(found, naive.record(place, evidence(says), bits, core));
                }
            }
            prop_assert_eq!(breaker.state(now), naive.state);
            prop_assert_eq!((breaker.failures(now), breaker.throughput(now)), naive.counts(core));
            let until = (naive.state == BreakerState::Open).then(|| clock.reading_at(naive.until));
            prop_assert_eq!(breaker.open_until().map(Time::as_micros), until);
        }
    }

    /// A fresh breaker and one that says it is fresh do the same from then on.
    #[test]
    fn one_that_is_fresh_is_as_good_as_new(
        settings in settings(),
        before in prop::collection::vec((0u64..3_000, 0u8..3), 1..30),
        after in prop::collection::vec((0u64..3_000, 0u8..3, any::<u64>()), 1..60),
    ) {
        let mut used = CircuitBreaker::new(settings);
        let mut now = 77;
        for (gap, says) in before {
            now += gap;
            if let Ok(ticket) = used.admit(at(now)) {
                let _ = used.record(ticket, evidence(says), 0, at(now));
            }
        }
        now += 200_000;
        if used.state(at(now)) != BreakerState::Closed {
            used.reset();
        }
        if let Ok(ticket) = used.admit(at(now)) {
            let _ = used.record(ticket, Evidence::Success, 0, at(now));
        }
        now += 100_000;
        prop_assert!(used.is_fresh(at(now)));
        let mut new = CircuitBreaker::new(settings);
        for (gap, says, bits) in after {
            now += gap;
            let (one, two) = (used.admit(at(now)), new.admit(at(now)));
            prop_assert_eq!(one.is_ok(), two.is_ok());
            prop_assert_eq!(one.err(), two.err());
            if let (Ok(one), Ok(two)) = (one, two) {
                let says = evidence(says);
                prop_assert_eq!(used.record(one, says, bits, at(now)), new.record(two, says, bits, at(now)));
            }
            prop_assert_eq!(used.throughput(at(now)), new.throughput(at(now)));
        }
    }

    /// No settings and no readings of the clock make it panic, and no wait is longer than configured.
    #[test]
    fn nothing_breaks_it(
        ratio in any::<f64>(), factor in any::<f64>(),
        spans in prop::array::uniform4(prop_oneof![Just(0), 1u64..1_000_000, any::<u64>(), Just(u64::MAX)]), counts in any::<[u32; 3]>(), consecutive in proptest::option::of(any::<u32>()),
        steps in prop::collection::vec((any::<u64>(), any::<u16>(), any::<bool>(), 0u8..3, any::<u64>()), 1..60),
    ) {
        let settings = BreakerSettings {
            failure_ratio: Some(ratio),
            window: Duration::from_micros(spans[0]),
            min_throughput: counts[0] % 3,
            window_kind: WindowKind::Sliding,
            consecutive: consecutive.map(|row| row % 3),
            break_duration: Duration::from_micros(spans[1]),
            break_factor: factor,
            max_break_duration: Duration::from_micros(spans[2]),
            half_open_max_calls: counts[1],
            successes_to_close: counts[2] % 4,
            probe_lease: Duration::from_micros(spans[3]),
        };
        let longest = settings.max_break_duration.plus(Duration::from_micros(spans[2] / 10));
        let longest = longest.max(settings.break_duration).max(settings.probe_lease);
        let mut breaker = CircuitBreaker::new(settings);
        for (reading, number, probe, says, bits) in steps {
            let now = at(reading);
            let _ = breaker.record(Ticket { number, probe }, evidence(says), bits, now);
            match breaker.admit(now) {
                Ok(ticket) => {
                    let _ = breaker.record(ticket, evidence(says), bits, now);
                    let _ = breaker.on_body_failure(ticket, bits, now);
                }
                Err(wait) => prop_assert!(wait > Duration::ZERO && wait <= longest, "{wait}"),
            }
            prop_assert!(breaker.failures(now) <= breaker.throughput(now));
            if bits % 13 == 0 {
                breaker.retune(BreakerSettings { window: Duration::from_micros(bits % 3), ..settings }, now);
            }
        }
    }
}
