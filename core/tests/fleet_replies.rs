//! Whatever a store answers, late, twice, to the wrong command or never: the rules hold (R1 to R12), the books of every
//! engine balance after each event, all is well again when the store is, and a journal replays it byte for byte.
//!
//! A story that fails prints its seed; `FLEET_SEED=n` replays it alone.
#![allow(clippy::disallowed_methods, reason = "a test reads the seed to replay")]

use crate::fleet::{Dice, Faults, Pairs, SECOND, Sim, seed_of};
use Value::{Number, Text};
use tidegate::fleet::{CommandId, Reply, StoreKind};
use tidegate::{Class, Engine, Input, Options, Time, Value};

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("FLEET_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=count).collect(),
    }
}

/// Components of the fleet's, as many of them as the seed says.
fn settings(dice: &mut Dice, kind: StoreKind) -> Pairs {
    let losses = ["local", "open", "closed"];
    let loss = |dice: &mut Dice| Text(losses[dice.up_to(2) as usize]);
    let scripts = kind == StoreKind::Lua;
    let mut pairs: Pairs = vec![("deadline", Number(2e6))];
    if dice.hits(700) {
        pairs.extend([
            ("rate_limit.permits", Number(300.0)),
            ("rate_limit.per", Number(1e6)),
            ("rate_limit.burst", Number(40.0)),
            ("rate_limit.lease", Number([1.0, 4.0, 20.0][dice.up_to(2) as usize])),
            ("rate_limit.store", Text("fleet")),
            ("rate_limit.on_loss", loss(dice)),
        ]);
        if dice.hits(500) {
            pairs.extend([("rate_limit.wait", Number(1.0)), ("rate_limit.max_wait", Number(300e3))]);
        }
    }
    if dice.hits(600) || pairs.len() == 1 {
        pairs.extend([
            ("breaker.consecutive", Number(4.0)),
            ("breaker.break_duration", Number(300e3)),
            ("breaker.store", Text("fleet")),
            ("breaker.on_loss", loss(dice)),
        ]);
        if scripts && dice.hits(300) {
            pairs.push(("breaker.quorum", Number(2.0)));
        }
    }
    match dice.up_to(2) {
        0 if scripts => pairs.extend([
            ("bulkhead.max_concurrency", Number(6.0)),
            ("bulkhead.max_queue", Number(5.0)),
            ("bulkhead.acquire_timeout", Number(300e3)),
            ("bulkhead.lease_ttl", Number(1e6)),
            ("bulkhead.store", Text("fleet")),
            ("bulkhead.on_loss", loss(dice)),
        ]),
        1 if scripts => pairs.extend([
            ("bulkhead.kind", Text("aimd")),
            ("bulkhead.max_concurrency", Number(8.0)),
            ("bulkhead.max_queue", Number(5.0)),
            ("bulkhead.acquire_timeout", Number(300e3)),
            ("bulkhead.latency_threshold", Number(30e3)),
            ("bulkhead.latency_quantile", Number(0.9)),
            ("bulkhead.latency_store", Text("fleet")),
        ]),
        _ => {}
    }
    pairs
}

/// A schedule in which the store says and does what it likes, then one in which it is a store again.
fn story(seed: u64, kind: StoreKind, journal: bool) -> (Sim, Pairs) {
    let mut dice = Dice::new(seed);
    let pairs = settings(&mut dice, kind);
    let mut faults = Faults::all();
    faults.garbled = [50, 300, 900][dice.up_to(2) as usize];
    faults.answered_twice = 200;
    faults.gone = vec![(SECOND, 3 * SECOND / 2)];
    let options = Options::default().journal(journal);
    let mut sim = Sim::with(kind, options, seed, 1 + dice.up_to(3) as usize, &pairs, faults);
    sim.service = (1_000, 60_000);
    sim.load((2_000, 30_000), (1, 2), 100);
    for tenth in 1..30 {
        sim.run_to(tenth * SECOND / 10);
        for number in 0..sim.processes.len() {
            let fails = dice.hits(200);
            sim.processes[number].class = if fails { Class::Transient } else { Class::Ok };
            // Answers to commands that were given long ago, or never.
            let id = CommandId::from_word(dice.up_to(400));
            if dice.hits(100) && !sim.is_out(number, id) {
                let _ = sim.processes[number].engine.on_reply(
                    id,
                    Reply::Bytes(b"5 0 1"),
                    Time::from_micros(sim.now),
                );
            }
        }
    }
    (sim, pairs)
}

#[test]
fn whatever_a_store_answers_the_rules_hold_and_all_is_well_when_it_is() {
    for seed in seeds(50) {
        let kind = StoreKind::ALL[(seed % 2) as usize];
        let (mut sim, pairs) = story(seed, kind, false);
        sim.faults = Faults::none();
        for process in &mut sim.processes {
            process.class = Class::Ok;
        }
        sim.service = (1_000, 5_000);
        sim.run_to(12 * SECOND);
        let before: Vec<u64> = sim.processes.iter().map(|it| it.started.len() as u64).collect();
        sim.run(15 * SECOND);
        for (process, before) in sim.processes.iter().zip(before) {
            // At most the deadline, whatever the store says; waits of each stage are far below.
            assert!(process.longest <= 700_000, "seed {seed}: waited {} {pairs:?}", process.longest);
            let snapshot = process.engine.snapshot(Time::from_micros(sim.now));
            let store = snapshot.store.unwrap();
            assert!(store.up && store.commands == 0, "seed {seed}: {store:?} {pairs:?}");
            let started = process.started.len() as u64 - before;
            assert!(started > 40, "seed {seed}: only {started} calls in three good seconds {pairs:?}");
        }
    }
}

#[test]
fn a_journal_replays_whatever_a_store_answered() {
    for seed in seeds(12) {
        let kind = StoreKind::ALL[(seed % 2) as usize];
        let (sim, _) = story(seed + 1_000, kind, true);
        for (number, mut process) in sim.processes.into_iter().enumerate() {
            let mut inputs = Vec::new();
            process.engine.take_journal(&mut inputs);
            assert!(inputs.iter().filter(|it| matches!(it, Input::Reply { .. })).count() > 2, "seed {seed}");
            let read: Vec<Input> = inputs.iter().map(|it| it.to_string().parse().unwrap()).collect();
            assert_eq!(read, inputs, "seed {seed}: by way of text");
            let seed_here = seed_of(seed + 1_000, number);
            let mut again = Engine::new(seed_here, Options::default().journal(true));
            again.subscribe(true);
            let _ = again.replay(read);
            let mut records = Vec::new();
            again.take_records(&mut records);
            let now = Time::from_micros(sim.now);
            process.engine.take_records(&mut process.records);
            assert_eq!(again.snapshot(now), process.engine.snapshot(now), "seed {seed}, process {number}");
            let rest: Vec<_> = process.records.iter().rev().take(records.len()).rev().copied().collect();
            assert_eq!(records, rest, "seed {seed}, process {number}: everything that was decided");
            let mut commands = (Vec::new(), Vec::new());
            again.take_commands(&mut commands.0);
            process.engine.take_commands(&mut commands.1);
            assert_eq!(commands.0, commands.1, "seed {seed}: what is still to be sent");
            let mut written = Vec::new();
            again.take_journal(&mut written);
            assert_eq!(written, inputs, "seed {seed}: a replay writes the journal that it read");
        }
    }
}
