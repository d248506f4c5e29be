//! The cooldown of a fleet (semantics 16.7): one 429 stops all processes, and each comes back with one attempt.
#![allow(clippy::disallowed_methods, reason = "a test reads the seed to replay")]

use crate::fleet::{Faults, Pairs, Process, SECOND, Sim};
use Value::{Number, Text};
use tidegate::fleet::{MemoryStore, Reply, StoreCommand, StoreKind};
use tidegate::{
    Action, CallId, Class, CooldownState, Duration, Engine, Event, Options, Outcome, Policy, RecordType,
    Request, RouteId, Time, Value, Verdict,
};

fn cooldown(more: &[(&'static str, Value<'static>)]) -> Pairs {
    let base = [
        ("cooldown.base", Number(1e6)),
        ("cooldown.max", Number(60e6)),
        ("cooldown.store", Text("fleet")),
        ("retry.max_attempts", Number(1.0)),
    ];
    [&base, more].concat()
}

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("FLEET_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=count).collect(),
    }
}

/// When a process's cooldown closed, at or after a moment.
fn closed(process: &Process, from: u64) -> Option<u64> {
    let turn = process.records.iter().find(|record| {
        record.what == RecordType::CooldownChanged
            && record.change.is_some_and(|change| (change.1 - 1.0).abs() < 0.5)
            && record.at.as_micros() >= from
    });
    turn.map(|record| record.at.as_micros())
}

fn started_between(process: &Process, from: u64, to: u64) -> usize {
    process.started.iter().filter(|(at, _)| (from..to).contains(at)).count()
}

/// Specification 16.7.1, 16.7.2, 16.7.4, 16.7.6: whatever the delays and the repeated answers.
#[test]
fn one_429_closes_all_processes_and_each_comes_back_with_one_attempt() {
    for seed in seeds(20) {
        let mut faults = Faults::none();
        if seed % 2 == 0 {
            (faults.delay, faults.answered_twice) = ((100, 20_000), 300);
        }
        let mut sim = Sim::new(seed, 6, &cooldown(&[]), faults);
        sim.service = (20_000, 20_000);
        sim.load((4_000, 12_000), (1, 1), 0);
        sim.run_to(SECOND);
        sim.processes[0].class = Class::Throttled;
        sim.processes[0].retry_after = Some(Duration::from_secs(3));
        sim.run_to(SECOND + 60_000);
        sim.processes[0].class = Class::Ok;
        let first = closed(&sim.processes[0], 0).expect("it was throttled");
        sim.run_to(6 * SECOND);
        for (number, process) in sim.processes.iter().enumerate() {
            let known = closed(process, 0).unwrap_or(u64::MAX);
            // An exchange, the time between two calls, and a round trip there and back.
            let most = first + 250_000 + 12_000 + 2 * 40_000;
            assert!(known <= most, "seed {seed}, process {number}: {first}, then {known}");
            assert_eq!(
                started_between(process, known + 1, first + 3 * SECOND),
                0,
                "seed {seed}: before its time"
            );
            let back = process.started.iter().find(|it| it.0 > known).expect("it comes back").0;
            // The jitter of a closing, a round trip, and the time between two calls.
            let latest = first + 3_300_000 + 150_000 + 12_000;
            assert!(back <= latest, "seed {seed}, process {number}: back at {back}, not by {latest}");
            assert_eq!(started_between(process, back, back + 20_000), 1, "seed {seed}: one at first");
        }
        sim.run(7 * SECOND);
        assert!(sim.ended(Verdict::Cooldown) > 500);
    }
}

/// Specification 16.7.5: a closing without a time is doubled for each in a row, of whichever process.
#[test]
fn closings_in_a_row_are_the_fleets() {
    let mut sim = Sim::new(4, 4, &cooldown(&[]), Faults::none());
    for process in &mut sim.processes {
        process.class = Class::Throttled;
    }
    sim.load((2_000, 4_000), (1, 1), 0);
    sim.run(40 * SECOND);
    // 1, 2, 4, 8, 16 and 32 s, with at most a tenth more: five closings are over by 40 s. Before a process knows of a
    // closing it may make an attempt, and more of them before the first.
    for process in &sim.processes {
        let late = started_between(process, 2 * SECOND, 40 * SECOND);
        assert!((1..=5).contains(&late), "{late} attempts since 2 s");
    }
    let all: usize = sim.processes.iter().map(|it| started_between(it, 7 * SECOND, 40 * SECOND)).sum();
    assert!(all <= 12, "three closings end, with an attempt of each process at most: {all}");
}

/// Specification 16.7.7: the report was lost, with the store; it is repeated once the store is back.
#[test]
fn a_closing_that_the_store_has_not_heard_of_is_told_again() {
    for flushed in [false, true] {
        let mut faults = Faults::none();
        faults.gone = if flushed { vec![] } else { vec![(SECOND, 3 * SECOND)] };
        let mut sim = Sim::new(6, 3, &cooldown(&[]), faults);
        sim.load((4_000, 12_000), (1, 1), 0);
        sim.run_to(SECOND);
        sim.processes[0].class = Class::Throttled;
        sim.processes[0].retry_after = Some(Duration::from_secs(20));
        if flushed {
            sim.run_to(SECOND + 20_000);
            // Before the others have asked again.
            sim.store = MemoryStore::new();
        }
        sim.run_to(10 * SECOND);
        for process in &sim.processes {
            let known = closed(process, 0).expect("the fleet knows");
            // The store is tried again within 3 s of its return.
            assert!(known <= if flushed { 2 * SECOND } else { 7 * SECOND }, "flushed {flushed}: {known}");
            assert_eq!(started_between(process, known + 1, 21 * SECOND), 0, "flushed {flushed}");
        }
        let told: usize = sim.processes.iter().map(|it| it.told(RecordType::CooldownChanged)).sum();
        assert!(told <= 6, "flushed {flushed}: {told} changes");
        sim.run(10 * SECOND);
    }
}

/// Specification 16.7.8: while the store is lost each goes by its own, and no call waits.
#[test]
fn without_the_store_each_has_its_own() {
    let mut faults = Faults::none();
    faults.gone = vec![(SECOND, 60 * SECOND)];
    let mut sim = Sim::new(5, 3, &cooldown(&[]), faults);
    sim.load((4_000, 12_000), (1, 1), 0);
    sim.run_to(2 * SECOND);
    sim.processes[1].class = Class::Throttled;
    sim.processes[1].retry_after = Some(Duration::from_secs(5));
    sim.run(6 * SECOND);
    for (number, process) in sim.processes.iter().enumerate() {
        assert_eq!(closed(process, 0).is_some(), number == 1, "process {number}");
        assert_eq!(process.longest, 0, "nobody waits for the store");
        assert_eq!(process.told(RecordType::StoreDegraded), 1);
    }
}

/// Whatever the network does: no process starts an attempt before the time of a closing that it knows, and once all is
/// well again every process is open.
#[test]
fn under_any_faults_all_are_open_in_the_end() {
    for seed in seeds(25) {
        let mut faults = Faults::all();
        faults.gone = vec![(2 * SECOND, 3 * SECOND)];
        let mut short = cooldown(&[]);
        short[1] = ("cooldown.max", Number(2e6));
        let mut sim = Sim::new(seed, 5, &short, faults);
        sim.load((3_000, 20_000), (1, 1), 50);
        for tenth in 1..80 {
            sim.run_to(tenth * SECOND / 10);
            for number in 0..5 {
                let fails = sim.dice.hits(100);
                let it = &mut sim.processes[number];
                it.class = if fails { Class::Throttled } else { Class::Ok };
                it.retry_after = (seed % 2 == 0).then_some(Duration::from_millis(700));
            }
        }
        sim.faults = Faults::none();
        for process in &mut sim.processes {
            process.class = Class::Ok;
        }
        sim.run(20 * SECOND);
        for process in &sim.processes {
            let view = process.engine.snapshot(Time::from_micros(sim.now)).routes[0].cooldown.unwrap();
            assert_eq!(view.state, CooldownState::Open, "seed {seed}");
            assert!(closed(process, 0).is_some(), "seed {seed}: none was ever closed");
        }
    }
}

/// One process, whose answers the test gives.
struct Alone {
    engine: Engine,
    route: RouteId,
}

impl Alone {
    fn new(pairs: &Pairs) -> Self {
        let mut engine = Engine::new(1, Options::default());
        let _ = engine.attach_store(StoreKind::Lua, "", 1, at(0));
        let policy = engine.policy(Policy::from_pairs("api", pairs).unwrap()).unwrap();
        let route = engine.route(policy, "eu", at(0));
        Self { engine, route }
    }

    fn begin(&mut self, now: u64) -> (CallId, Action) {
        let (call, step) = self.engine.begin(self.route, &Request::default(), at(now));
        (call, step.action())
    }

    fn finish(&mut self, call: CallId, outcome: Outcome, now: u64) {
        let _ = self.engine.on(call, Event::Finished { attempt: 1, outcome }, at(now));
    }

    fn commands(&mut self) -> Vec<StoreCommand> {
        let mut commands = Vec::new();
        self.engine.take_commands(&mut commands);
        commands
    }

    /// The first argument of each command that is out: what it asks.
    fn asked(&mut self) -> Vec<String> {
        self.commands().iter().map(|it| String::from_utf8_lossy(&it.words[4]).into_owned()).collect()
    }

    fn answer(&mut self, answer: &str, now: u64) {
        for command in self.commands() {
            let _ = self.engine.on_reply(command.id, Reply::Bytes(answer.as_bytes()), at(now));
        }
        self.engine.check().unwrap();
    }

    /// What is left of the closing.
    fn left(&self, now: u64) -> Option<u64> {
        self.engine.snapshot(at(now)).routes[0].cooldown.unwrap().retry_in.map(Duration::as_micros)
    }
}

fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

fn throttled(seconds: u64) -> Outcome {
    Outcome::of(Class::Throttled).retry_after(Duration::from_secs(seconds))
}

/// Specification 16.7.1: what is written.
#[test]
fn a_closing_is_written_at_once_and_read_now_and_then() {
    let mut it = Alone::new(&cooldown(&[]));
    let (call, _) = it.begin(0);
    let read = it.commands();
    assert_eq!(read[0].words[4], b"0 0", "a read");
    let _ = it.engine.on_reply(read[0].id, Reply::Bytes(b"0 0 0"), at(1_000));
    let (other, _) = it.begin(100_000);
    it.finish(call, throttled(3), 200_000);
    let left = it.left(200_000).unwrap();
    assert_eq!(it.asked(), [format!("{left} 1")]);
    // One from before it puts off the end.
    it.finish(other, throttled(10), 210_000);
    let left = it.left(210_000).unwrap();
    assert!(left >= 10 * SECOND);
    assert_eq!(it.asked(), [format!("{left} 1")]);
    // Without an answer nothing is asked, until the answer is overdue.
    let _ = it.begin(240_000);
    assert!(it.asked().is_empty());
}

/// Specification 16.7.3 and 16.7.4.
#[test]
fn an_answer_counts_from_its_arrival_at_most_from_its_timeout_and_once() {
    for (after, left) in [(1_000, 5_000_000), (50_000, 5_000_000), (1_050_000, 4_000_000)] {
        let mut it = Alone::new(&cooldown(&[]));
        let _ = it.begin(0);
        it.answer("5000000 7 1", after);
        assert_eq!(it.left(after), Some(left), "after {after}");
        // The same closing again, which was told later.
        let _ = it.begin(3 * SECOND);
        it.answer("4900000 7 1", 3 * SECOND);
        assert_eq!(it.left(3 * SECOND), Some(left + after - 3 * SECOND), "the same epoch");
        let _ = it.begin(4 * SECOND);
        it.answer("4900000 8 1", 4 * SECOND);
        assert_eq!(it.left(4 * SECOND), Some(4_900_000), "a later one");
        // A shorter one takes nothing away.
        let _ = it.begin(5 * SECOND);
        it.answer("100 9 1", 5 * SECOND);
        assert_eq!(it.left(5 * SECOND), Some(3_900_000));
    }
    let mut it = Alone::new(&cooldown(&[]));
    let _ = it.begin(0);
    it.answer("5000000 7 1", 20 * SECOND);
    assert_eq!(it.left(20 * SECOND), None, "an answer that came late: the closing is over");
}

/// Specification 10.11.1.
#[test]
fn a_store_closes_for_no_longer_than_the_policy_allows() {
    let huge = (1_u64 << 53) - 1;
    for (more, longest) in
        [(&[][..], 66 * SECOND), (&[("cooldown.quota_wait", Number(300e6))][..], 330 * SECOND)]
    {
        let mut it = Alone::new(&cooldown(more));
        let _ = it.begin(0);
        it.answer(&format!("{huge} {huge} {huge}"), 1_000);
        assert_eq!(it.left(1_000), Some(longest));
        // Reopened, and throttled without a time: doubled, and at most `max`.
        let over = longest + 2_000;
        let (call, action) = it.begin(over);
        assert!(matches!(action, Action::Attempt { .. }), "{action:?}");
        it.answer("0 0 0", over + 1);
        it.finish(call, Outcome::of(Class::Throttled), over + 2);
        assert!((60 * SECOND..=66 * SECOND).contains(&it.left(over + 2).unwrap()));
    }
    for none in ["1 2", "1 2 3 4", "x 2 3", "9007199254740992 1 1"] {
        let mut it = Alone::new(&cooldown(&[]));
        let _ = it.begin(0);
        it.answer(none, 1_000);
        assert_eq!(it.left(1_000), None, "{none} is no answer");
        assert!(it.engine.snapshot(at(1_000)).store.unwrap().up, "{none}: the matter of one route");
    }
}

/// Specification 16.7.7: a store that forgets at once is not told for ever.
#[test]
fn a_store_that_forgets_is_told_once_an_exchange() {
    let mut it = Alone::new(&cooldown(&[]));
    let (call, _) = it.begin(0);
    it.answer("0 0 0", 1);
    it.finish(call, throttled(10), 1_000);
    assert_eq!(it.asked().len(), 1);
    for exchange in 1..10 {
        let now = exchange * 300_000;
        let _ = it.begin(now);
        let mut commands = 0;
        loop {
            let out = it.commands();
            if out.is_empty() {
                break;
            }
            commands += out.len();
            for command in out {
                let _ = it.engine.on_reply(command.id, Reply::Bytes(b"0 0 0"), at(now));
            }
        }
        assert!(commands <= 2, "{commands}");
    }
}

/// Specification 16.7.8 and 16.6.1: the time left is saved; the rest is asked for again.
#[test]
fn what_is_left_is_saved_and_a_new_process_learns_it_from_the_store() {
    let mut it = Alone::new(&cooldown(&[]));
    let _ = it.begin(0);
    it.answer("5000000 7 2", 1_000);
    let saved = it.engine.save(at(1_000));
    let mut back = Engine::new(2, Options::default());
    let _ = back.attach_store(StoreKind::Lua, "", 2, at(0));
    let policy = back.policy(Policy::from_pairs("api", &cooldown(&[])).unwrap()).unwrap();
    let _ = back.restore(&saved, Duration::ZERO, at(0)).unwrap();
    let route = back.route(policy, "eu", at(0));
    let mut back = Alone { engine: back, route };
    assert_eq!(back.left(0), Some(5_000_000));
    let _ = back.begin(0);
    back.answer("4999000 7 2", 1_000);
    assert_eq!(back.left(1_000), Some(4_999_000), "it is not put off");
}

/// A retune takes the cooldown, or its store, away while a command is out and a call is at work; then it comes back.
#[test]
fn an_answer_after_a_retune_that_takes_the_cooldown_away_changes_nothing() {
    let local: Vec<_> = cooldown(&[]).into_iter().filter(|(key, _)| *key != "cooldown.store").collect();
    let none = vec![("retry.max_attempts", Number(1.0))];
    for without in [local, none] {
        let mut engine = Engine::new(1, Options::default());
        let _ = engine.attach_store(StoreKind::Lua, "", 1, at(0));
        let policy = engine.policy(Policy::from_pairs("api", &cooldown(&[])).unwrap()).unwrap();
        let route = engine.route(policy, "eu", at(0));
        let mut it = Alone { engine, route };
        let (call, _) = it.begin(0);
        let out = it.commands();
        assert_eq!(out.len(), 1, "the read of the first call");
        let to = Policy::from_pairs("api", &without).unwrap();
        let _ = it.engine.retune(policy, to, at(500)).unwrap();
        for command in out {
            let _ = it.engine.on_reply(command.id, Reply::Bytes(b"9000000 7 1"), at(2_000));
        }
        it.engine.check().unwrap();
        assert_eq!(it.left(2_000), None, "the answer was for settings that are gone");
        let to = Policy::from_pairs("api", &cooldown(&[])).unwrap();
        let _ = it.engine.retune(policy, to, at(3_000)).unwrap();
        let _ = it.begin(4_000);
        assert_eq!(it.asked(), ["0 0"], "it asks anew");
        it.finish(call, throttled(3), 5_000);
        assert!(it.left(5_000).is_some());
        it.engine.check().unwrap();
    }
}

/// Semantics 0.6.9: one step changes 64 routes; an answer for a later one finds it changed, too.
#[test]
fn an_answer_for_a_route_whose_turn_to_be_retuned_has_not_come_changes_nothing() {
    let local: Vec<_> = cooldown(&[]).into_iter().filter(|(key, _)| *key != "cooldown.store").collect();
    let none = vec![("retry.max_attempts", Number(1.0))];
    for without in [local, none] {
        let mut engine = Engine::new(1, Options::default());
        let _ = engine.attach_store(StoreKind::Lua, "", 1, at(0));
        let policy = engine.policy(Policy::from_pairs("api", &cooldown(&[])).unwrap()).unwrap();
        let routes: Vec<_> = (0..70).map(|n| engine.route(policy, &format!("{n}"), at(0))).collect();
        let mut it = Alone { engine, route: routes[69] };
        let _ = it.begin(0);
        let out = it.commands();
        assert_eq!(out.len(), 1, "the read of the first call");
        let _ = it.engine.retune(policy, Policy::from_pairs("api", &without).unwrap(), at(500)).unwrap();
        assert!(it.engine.has_chores());
        let _ = it.engine.on_reply(out[0].id, Reply::Bytes(b"9000000 7 1"), at(2_000));
        it.engine.check().unwrap();
        assert!(matches!(it.begin(2_000).1, Action::Attempt { .. }));
    }
}

/// A fork while commands are out.
#[test]
fn forks_leave_no_command_that_blocks() {
    let mut it = Alone::new(&cooldown(&[]));
    let (call, _) = it.begin(0);
    let out = it.commands();
    let _ = it.engine.after_fork(9, at(500));
    it.finish(call, throttled(3), 1_000);
    for command in out {
        let _ = it.engine.on_reply(command.id, Reply::Bytes(b"9000000 7 1"), at(2_000));
    }
    assert_eq!(it.left(2_000), None, "the answer was its parent's, and so was the call");
    let _ = it.begin(300_000);
    assert_eq!(it.asked(), ["0 0"]);
}

/// Specification 10.1.6 and 10.9.4.
#[test]
fn it_needs_a_store_that_runs_scripts() {
    let policy = || Policy::from_pairs("api", &cooldown(&[])).unwrap();
    let mut engine = Engine::new(1, Options::default());
    let told = engine.policy(policy()).unwrap_err().to_string();
    assert!(told.contains("cooldown.store = fleet needs a store: attach one to the engine first"), "{told}");
    let _ = engine.attach_store(StoreKind::Plain, "", 1, at(0));
    let told = engine.policy(policy()).unwrap_err().to_string();
    assert!(told.contains("cooldown.store = fleet needs a store that runs scripts"), "{told}");
}
