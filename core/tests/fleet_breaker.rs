//! The breaker of a fleet (semantics 10.1, 10.4, 10.7): what one process learns, all know.
#![allow(clippy::disallowed_methods, reason = "a test reads the seed to replay")]

use crate::fleet::{Faults, Pairs, Process, SECOND, Sim};
use Value::{Number, Text};
use tidegate::fleet::{Reply, StoreKind};
use tidegate::{
    Action, BreakerState, Class, Engine, Options, Policy, RecordType, Request, Time, Value, Verdict,
};

fn breaker(more: &[(&'static str, Value<'static>)]) -> Pairs {
    let base = [
        ("breaker.consecutive", Number(5.0)),
        ("breaker.break_duration", Number(2e6)),
        ("breaker.break_factor", Number(1.0)),
        ("breaker.store", Text("fleet")),
    ];
    [&base, more].concat()
}

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("FLEET_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=count).collect(),
    }
}

/// When a process's breaker went to this state, at or after a moment.
fn turned(process: &Process, to: f64, from: u64) -> Option<u64> {
    let turn = process.records.iter().find(|record| {
        record.what == RecordType::BreakerChanged
            && record.change.is_some_and(|change| (change.1 - to).abs() < 0.5)
            && record.at.as_micros() >= from
    });
    turn.map(|record| record.at.as_micros())
}

fn state(process: &Process, now: u64) -> BreakerState {
    process.engine.snapshot(Time::from_micros(now)).routes[0].breaker.unwrap().state
}

#[test]
fn one_process_that_trips_opens_it_for_all_and_one_good_probe_closes_it() {
    for seed in seeds(5) {
        let mut sim = Sim::new(seed, 6, &breaker(&[]), Faults::none());
        sim.load((4_000, 12_000), (1, 1), 0);
        sim.run_to(SECOND);
        sim.processes[0].class = Class::Transient;
        sim.run_to(2 * SECOND);
        let first = turned(&sim.processes[0], 1.0, 0).expect("it tripped");
        for process in &sim.processes[1..] {
            let open = turned(process, 1.0, 0).unwrap_or(u64::MAX);
            // An exchange, the time between two calls, and a round trip.
            assert!(open <= first + 250_000 + 12_000 + 5_000, "seed {seed}: {first}, then {open}");
        }
        sim.processes[0].class = Class::Ok;
        sim.run_to(6 * SECOND);
        for process in &sim.processes {
            let closed = turned(process, 0.0, first).expect("closed again");
            let most = first + 2_000_000 + 250_000 + 20_000;
            assert!(closed >= first + 2_000_000 && closed <= most, "seed {seed}: {closed}");
            assert_eq!(state(process, sim.now), BreakerState::Closed);
            let changes = process.told(RecordType::BreakerChanged);
            assert!(changes <= 3, "seed {seed}: open, half-open, closed; but {changes} changes");
        }
        sim.run(7 * SECOND);
        assert!(sim.ended(Verdict::BreakerOpen) > 100);
    }
}

#[test]
fn a_failed_probe_opens_it_for_all_again() {
    let mut sim = Sim::new(3, 4, &breaker(&[]), Faults::none());
    for process in &mut sim.processes {
        process.class = Class::Transient;
    }
    sim.load((4_000, 12_000), (1, 1), 0);
    sim.run(10 * SECOND);
    for process in &sim.processes {
        assert_ne!(state(process, sim.now), BreakerState::Closed);
        // Four breaks or five, with a probe of each process at most: what another process's probe has found out, it knows.
        assert!(process.started.len() <= 10 + 5, "{} attempts", process.started.len());
    }
}

#[test]
fn a_quorum_opens_it_for_all_and_fewer_only_for_themselves() {
    let mut sim = Sim::new(9, 5, &breaker(&[("breaker.quorum", Number(2.0))]), Faults::none());
    sim.load((4_000, 12_000), (1, 1), 0);
    sim.run_to(SECOND);
    sim.processes[0].class = Class::Transient;
    sim.run_to(2 * SECOND);
    assert_eq!(state(&sim.processes[0], sim.now), BreakerState::Open);
    for process in &sim.processes[1..] {
        assert_eq!(turned(process, 1.0, 0), None, "one vote is no quorum");
    }
    sim.processes[1].class = Class::Transient;
    sim.run_to(3 * SECOND);
    for process in &sim.processes {
        assert_eq!(state(process, sim.now), BreakerState::Open, "two are");
    }
    sim.run(3 * SECOND);
}

#[test]
fn without_the_store_each_goes_by_its_own_or_as_on_loss_says() {
    for (on_loss, refused) in [("local", false), ("open", false), ("closed", true)] {
        let mut faults = Faults::none();
        faults.gone = vec![(SECOND, 60 * SECOND)];
        let mut sim = Sim::new(5, 3, &breaker(&[("breaker.on_loss", Text(on_loss))]), faults);
        sim.load((4_000, 12_000), (1, 1), 0);
        sim.run_to(2 * SECOND);
        sim.processes[0].class = Class::Transient;
        sim.run(4 * SECOND);
        for (number, process) in sim.processes.iter().enumerate() {
            let open = turned(process, 1.0, SECOND).is_some();
            assert_eq!(open, number == 0 && on_loss == "local", "{on_loss}, process {number}");
            let unavailable = process.ended.get(&Verdict::StoreUnavailable).copied().unwrap_or(0);
            assert_eq!(unavailable > 0, refused, "{on_loss}");
            assert_eq!(process.told(RecordType::StoreDegraded), 1);
            assert_eq!(process.longest, 0, "nobody waits for the breaker's store");
        }
    }
}

/// Whatever the network does, once it and the downstream are well again, so is every breaker: nobody is left behind.
#[test]
fn under_any_faults_all_agree_in_the_end() {
    for seed in seeds(25) {
        let quorum = [1.0, 2.0][(seed % 2) as usize];
        let mut faults = Faults::all();
        faults.gone = vec![(2 * SECOND, 3 * SECOND)];
        let mut sim = Sim::new(seed, 5, &breaker(&[("breaker.quorum", Number(quorum))]), faults);
        sim.load((3_000, 20_000), (1, 1), 50);
        for tenth in 1..80 {
            sim.run_to(tenth * SECOND / 10);
            for number in 0..5 {
                let fails = sim.dice.hits(200);
                sim.processes[number].class = if fails { Class::Transient } else { Class::Ok };
            }
        }
        sim.faults = Faults::none();
        for process in &mut sim.processes {
            process.class = Class::Ok;
        }
        sim.run(20 * SECOND);
        for process in &sim.processes {
            assert_eq!(state(process, sim.now), BreakerState::Closed, "seed {seed}");
            assert!(turned(process, 1.0, 0).is_some(), "seed {seed}: none was ever open");
        }
    }
}

/// Semantics 0.6.1: what an operator has forced open stays so, whatever the store answers about the fleet's breaker.
#[test]
fn no_answer_of_the_store_clears_a_forced_opening() {
    for answer in [&b"0 0 0 0"[..], b"1 5000000 7 1", b"2 0 7 1"] {
        let mut engine = Engine::new(3, Options::default());
        let now = |micros| Time::from_micros(micros);
        let _ = engine.attach_store(StoreKind::Lua, "", 7, now(0));
        let policy = engine.policy(Policy::from_pairs("p", &breaker(&[])).unwrap()).unwrap();
        let route = engine.route(policy, "a", now(0));
        let _ = engine.begin(route, &Request::default(), now(0));
        let mut commands = Vec::new();
        engine.take_commands(&mut commands);
        let _ = engine.force_open(policy, Some(route), true, now(1));
        let _ = engine.on_reply(commands[0].id, Reply::Bytes(answer), now(2));
        engine.check().unwrap();
        assert!(engine.snapshot(now(3)).routes[0].forced);
        let (_, step) = engine.begin(route, &Request::default(), now(10_000_000));
        assert!(matches!(step.action(), Action::Done { verdict: Verdict::ForcedOpen, .. }), "{step:?}");
        let _ = engine.force_open(policy, Some(route), false, now(10_000_001));
        let (_, step) = engine.begin(route, &Request::default(), now(20_000_000));
        assert!(matches!(step.action(), Action::Attempt { .. }), "{step:?}");
    }
}
