//! Answers of the store that come after what they were asked for has changed (semantics 10.1, 10.7): nothing is leased to
//! nobody, no break is prolonged, and no slowness is taken for a new one.

use crate::fleet::{Faults, Pairs, SECOND, Sim};
use Value::{Number, Text};
use tidegate::fleet::{MemoryStore, Reply, SLOTS, StoreCommand, StoreKind};
use tidegate::{
    Action, Class, Engine, Event, Options, Policy, PolicyId, RecordType, Request, RouteId, Time, Value,
};

/// One process whose commands a test carries by hand.
struct Alone {
    engine: Engine,
    policy: PolicyId,
    route: RouteId,
    store: MemoryStore,
    now: u64,
}

impl Alone {
    fn new(pairs: &[(&str, Value<'_>)]) -> Self {
        let mut engine = Engine::new(1, Options::default().max_routes(1));
        let _ = engine.attach_store(StoreKind::Lua, "", 1, Time::from_micros(0));
        let policy = engine.policy(Policy::from_pairs("api", pairs).unwrap()).unwrap();
        let route = engine.route(policy, "eu", Time::from_micros(0));
        let mut store = MemoryStore::new();
        // It knows the scripts, so that each question is one command.
        for script in tidegate::fleet::SCRIPTS {
            let words = ["EVAL", script.source, "2", "{k}", "{q}"].map(|word| word.as_bytes().to_vec());
            let _ = store.execute(&words, 0);
        }
        Self { engine, policy, route, store, now: 0 }
    }

    fn time(&self) -> Time {
        Time::from_micros(self.now)
    }

    fn commands(&mut self) -> Vec<StoreCommand> {
        let mut commands = Vec::new();
        self.engine.take_commands(&mut commands);
        commands
    }

    /// What the store answers now.
    fn execute(&mut self, command: &StoreCommand) -> String {
        let answer = self.store.execute(&command.words, crate::fleet::STORE_CLOCK + self.now);
        String::from_utf8(answer.unwrap_or_else(|error| panic!("{error}"))).unwrap()
    }

    fn answer(&mut self, command: &StoreCommand, answer: &str) {
        let _ =
            self.engine.on_reply(command.id, Reply::Bytes(answer.as_bytes()), Time::from_micros(self.now));
    }

    /// A call that takes so long, and the commands that its end gives out.
    fn call(&mut self, takes: u64) -> Vec<StoreCommand> {
        let (call, step) = self.engine.begin(self.route, &Request::default(), self.time());
        let Action::Attempt { attempt, .. } = step.action() else { panic!("{step:?}") };
        self.now += takes;
        let outcome = tidegate::Outcome::of(Class::Ok);
        let _ = self.engine.on(call, Event::Finished { attempt, outcome }, self.time());
        self.commands()
    }

    /// Slots in use, as the store has them.
    fn used(&mut self) -> usize {
        let lines = self.store.describe(crate::fleet::STORE_CLOCK + self.now);
        let slots =
            lines.iter().find(|line| line.contains(":bh ")).map(|line| line.split(' ').skip(3).count());
        slots.unwrap_or(0)
    }
}

fn slots(store: &'static str) -> Pairs {
    vec![("bulkhead.max_concurrency", Number(3.0)), ("bulkhead.store", Text(store))]
}

/// A call asks for a slot and is cancelled; then the route goes, or its permits become the process's own.
#[test]
fn a_slot_granted_to_nobody_goes_back() {
    for evicted in [true, false] {
        let mut it = Alone::new(&slots("fleet"));
        let (call, step) = it.engine.begin(it.route, &Request::default(), it.time());
        assert!(matches!(step.action(), Action::Wait { .. }), "{step:?}");
        let asked = it.commands().remove(0);
        let _ = it.engine.on(call, Event::Cancel, it.time());
        if evicted {
            let _ = it.engine.route(it.policy, "us", it.time());
            assert_eq!(it.engine.snapshot(it.time()).route_evictions, 1);
        } else {
            let local = Policy::from_pairs("api", &slots("local")).unwrap();
            let _ = it.engine.retune(it.policy, local, it.time()).unwrap();
        }
        it.now = 10_000;
        let answer = it.execute(&asked);
        assert!(answer.starts_with("1 ") && it.used() == 1, "{answer}");
        it.answer(&asked, &answer);
        let commands = it.commands();
        assert_eq!(commands.len(), 1, "evicted: {evicted}");
        let answer = it.execute(&commands[0]);
        assert_eq!((answer.as_str(), it.used()), ("1 0", 0), "evicted: {evicted}");
        it.answer(&commands[0], &answer);
        assert!(it.commands().is_empty());
        it.engine.check().unwrap();
    }
}

/// The settings change while a command is out: what it brings lasts as long as it was asked for.
#[test]
fn a_lease_lasts_as_long_as_it_was_asked_for() {
    let lasting =
        |seconds: f64| [slots("fleet"), vec![("bulkhead.lease_ttl", Number(seconds * 1e6))]].concat();
    let mut it = Alone::new(&lasting(3.0));
    let (call, _) = it.engine.begin(it.route, &Request::default(), it.time());
    let asked = it.commands().remove(0);
    let _ =
        it.engine.retune(it.policy, Policy::from_pairs("api", &lasting(60.0)).unwrap(), it.time()).unwrap();
    let answer = it.execute(&asked);
    it.answer(&asked, &answer);
    assert!(matches!(it.engine.on(call, Event::Poll, it.time()).action(), Action::Attempt { .. }));
    // Its renewal never arrives, and after three seconds the store gives the slot to another.
    let _ = it.commands();
    it.now = 3 * SECOND + 1;
    let _ = it.engine.on(call, Event::Timer, it.time());
    let again = it.commands();
    let acquires = |command: &&StoreCommand| command.words[3 + SLOTS.keys.len()] == b"0";
    assert_eq!(
        again.iter().filter(acquires).count(),
        1,
        "it asks for a slot in the place of the one that is over"
    );
}

/// A look at the fleet's breaker whose answer comes late: what is left of the break is counted from the question.
#[test]
fn no_break_is_prolonged_by_a_late_answer() {
    let pairs = [
        ("breaker.consecutive", Number(5.0)),
        ("breaker.break_duration", Number(2e6)),
        ("breaker.store", Text("fleet")),
        ("store_timeout", Number(1e6)),
    ];
    for (late, left) in
        [(0, Some(2_000_000)), (900_000, Some(1_100_000)), (1_999_999, Some(1)), (20_000_000, None)]
    {
        let mut it = Alone::new(&pairs);
        let (_, step) = it.engine.begin(it.route, &Request::default(), it.time());
        assert!(matches!(step.action(), Action::Attempt { .. }));
        let look = it.commands().remove(0);
        it.now = late;
        it.answer(&look, "1 2000000 77 0");
        let (_, step) =
            it.engine.begin(it.route, &Request { may_park: false, ..Request::default() }, it.time());
        match left {
            Some(left) => {
                let Action::Done { retry_in, .. } = step.action() else { panic!("{late}: {step:?}") };
                assert_eq!(retry_in.map(tidegate::Duration::as_micros), Some(left), "{late}");
            }
            None => assert!(matches!(step.action(), Action::Attempt { .. }), "{late}: a probe, not {step:?}"),
        }
    }
}

fn latencies(interval: f64) -> Pairs {
    vec![
        ("bulkhead.kind", Text("aimd")),
        ("bulkhead.max_concurrency", Number(20.0)),
        ("bulkhead.latency_threshold", Number(30e3)),
        ("bulkhead.latency_quantile", Number(0.5)),
        ("bulkhead.cut_interval", Number(interval)),
        ("bulkhead.latency_store", Text("fleet")),
    ]
}

/// When the limits of a process shrank.
fn cuts(sim: &Sim, process: usize) -> Vec<u64> {
    let records = sim.processes[process].records.iter();
    let shrunk = records
        .filter(|it| it.what == RecordType::LimitChanged && it.change.is_some_and(|(from, to)| to < from));
    shrunk.map(|it| it.at.as_micros()).collect()
}

const SLOW: (u64, u64) = (60_000, 80_000);
const FAST: (u64, u64) = (5_000, 10_000);

#[test]
fn one_slowness_cuts_once_and_one_that_lasts_goes_on_cutting() {
    for interval in [SECOND, 2 * SECOND, 8 * SECOND] {
        for seed in 1..=8 {
            let mut sim = Sim::new(seed, 5, &latencies(interval as f64), Faults::none());
            sim.service = FAST;
            sim.load((10_000, 20_000), (1, 1), 0);
            sim.run_to(3 * SECOND);
            sim.service = SLOW;
            sim.run_to(3 * SECOND + interval / 2 + 300_000);
            sim.service = FAST;
            sim.run_to(3 * SECOND + 6 * interval);
            for process in 0..5 {
                let cuts = cuts(&sim, process);
                assert_eq!(cuts.len(), 1, "seed {seed}, interval {interval}, process {process}: {cuts:?}");
            }
            let before = sim.now;
            sim.service = SLOW;
            sim.run(before + 6 * interval);
            for process in 0..5 {
                let cuts: Vec<u64> = cuts(&sim, process).into_iter().filter(|at| *at > before).collect();
                assert!(cuts.len() >= 3, "seed {seed}, interval {interval}, process {process}: {cuts:?}");
            }
        }
    }
}

/// A process whose own calls are fast keeps what the fleet's slowness has cut, until the fleet is known to be well.
#[test]
fn a_cut_for_the_fleet_is_not_undone_by_fast_calls_of_its_own() {
    let mut sim = Sim::new(3, 5, &latencies(2e6), Faults::none());
    for slow in &mut sim.processes[1..] {
        slow.service = Some(SLOW);
    }
    sim.service = FAST;
    sim.load((10_000, 20_000), (1, 1), 0);
    sim.run(12 * SECOND);
    let limits: Vec<(f64, f64)> = sim.processes[0]
        .records
        .iter()
        .filter(|it| it.what == RecordType::LimitChanged)
        .filter_map(|it| it.change)
        .collect();
    assert!(limits.len() >= 3 && limits.iter().all(|(from, to)| to < from), "{limits:?}");
}

/// What was measured while the store was gone is not told as new when it is back.
#[test]
fn latencies_of_an_outage_are_not_told_after_it() {
    let mut it = Alone::new(&latencies(1e6));
    let first = it.call(10_000).remove(0);
    let _ = it.engine.on_reply(first.id, Reply::Lost, it.time());
    let probe = (0..40).find_map(|_| it.call(70_000).pop()).expect("it tries the store again");
    assert_eq!(probe.words.len(), 8, "script, keys, pid, slice, quantile; no bucket: {:?}", probe.words);
    let answer = it.execute(&probe);
    it.answer(&probe, &answer);
    it.now += 300_000;
    let next = it.call(10_000).remove(0);
    assert_eq!(next.words[8..], first.words[8..], "the call of now, alone");
}

/// A call that ended long ago and was not told yet says nothing about now.
#[test]
fn a_latency_that_has_waited_for_long_is_not_told() {
    let mut it = Alone::new(&latencies(1e6));
    let first = it.call(10_000).remove(0);
    let answer = it.execute(&first);
    it.answer(&first, &answer);
    assert!(it.call(70_000).is_empty(), "it waits for the next exchange");
    it.now += 3_600 * SECOND;
    let next = it.call(10_000).remove(0);
    // Pid, slice, quantile; then one bucket and how many.
    assert_eq!(next.words.len(), first.words.len(), "{:?}", next.words);
    assert_eq!(next.words[8..], first.words[8..], "the call of now, alone");
}
