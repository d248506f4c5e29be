//! E4: jitter under contention (AWS, "Exponential Backoff And Jitter", 2015): N clients write one row, and one of them
//! wins.

use crate::dice::Dice;
use crate::table::{Figure, Table};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tidegate::Value::{Number, Text};
use tidegate::{Action, CallId, Class, Engine, Event, Options, Outcome, Policy, Request, Time};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A client's read arrives at the server.
    Read,
    /// A client's write arrives, based on this version of the row.
    Write(u64),
    /// The client learns whether it won.
    Answered(bool),
    /// The client's timer fires.
    Timer,
}

/// Runs one contest. Returns the time until all clients have written, in µs, and the number of writes.
fn contend(clients: u32, (kind, jitter, base): (&str, &str, f64), seed: u64) -> (u64, u64) {
    let mut pairs = vec![
        ("retry.max_attempts", Number(255.0)),
        ("retry.budget.kind", Text("none")),
        ("retry.backoff.kind", Text("exponential")),
        ("retry.backoff.base", Number(base)),
        ("retry.backoff.max", Number(2e6)),
        ("retry.backoff.jitter", Text(jitter)),
    ];
    if kind == "none" {
        pairs.retain(|(key, _)| !key.starts_with("retry.backoff"));
        pairs.push(("retry.backoff.base", Number(0.0)));
    }
    let mut engine = Engine::new(seed, Options::default());
    let policy = Policy::from_pairs("row", &pairs).expect("the policy is written above");
    let policy = engine.policy(policy).expect("an engine takes its first policy");
    let route = engine.route(policy, "row", Time::from_micros(0));
    let mut dice = Dice::new(seed);
    let mut agenda = BinaryHeap::new();
    let mut ids: Vec<CallId> = Vec::new();
    let (mut order, mut version, mut writes, mut last) = (0_u64, 0_u64, 0_u64, 0);
    let trip = |dice: &mut Dice| dice.normal(10_000.0, 2_000.0).max(0.0) as u64;
    for client in 0..clients {
        let (id, step) = engine.begin(route, &Request::default(), Time::from_micros(0));
        assert!(matches!(step.action(), Action::Attempt { .. }), "{step:?}");
        ids.push(id);
        order += 1;
        agenda.push(Reverse((trip(&mut dice), order, client, 1, What::Read)));
    }
    while let Some(Reverse((now, _, client, attempt, what))) = agenda.pop() {
        let mut push = |at, attempt, what| {
            order += 1;
            agenda.push(Reverse((at, order, client, attempt, what)));
        };
        let event = match what {
            What::Read => {
                // The reply to the client, and its write back to the server.
                let at = now + trip(&mut dice) + trip(&mut dice);
                push(at, attempt, What::Write(version));
                continue;
            }
            What::Write(seen) => {
                writes += 1;
                let won = seen == version;
                version += u64::from(won);
                push(now + trip(&mut dice), attempt, What::Answered(won));
                continue;
            }
            What::Answered(won) => {
                let class = if won { Class::Ok } else { Class::Conflict };
                Event::Finished { attempt, outcome: Outcome::of(class) }
            }
            What::Timer => Event::Timer,
        };
        let step = engine.on(ids[client as usize], event, Time::from_micros(now));
        match step.action() {
            Action::Attempt { attempt, .. } => push(now + trip(&mut dice), attempt, What::Read),
            Action::Wait { .. } => {
                let span = step.next().map_or(0, tidegate::Duration::as_micros);
                push(now + span, attempt, What::Timer);
            }
            Action::Done { .. } => last = now,
        }
    }
    (last, writes)
}

/// A tolerance of 5 % in each cell.
const NEAR: [f64; 4] = [0.05; 4];

/// Tidegate draws decorrelated delays up to the cap, while AWS caps the drawn delay: two thirds of its longest delays
/// are the cap itself, so its last client finishes later.
const WIDE: [f64; 4] = [0.1, 0.05, 0.2, 0.05];

/// The name; kind, jitter and base in µs; the published figures; and their tolerances.
type Row = (&'static str, (&'static str, &'static str, f64), [f64; 4], [f64; 4]);

/// Published figures: completion time in ms and calls, for 100 and for 190 clients.
const PUBLISHED: [Row; 5] = [
    ("none", ("none", "none", 0.0), [2_027.0, 2_421.0, 3_538.0, 7_997.0], NEAR),
    ("exponential", ("exponential", "none", 10_000.0), [62_862.0, 1_853.0, 101_357.0, 5_186.0], NEAR),
    ("equal jitter", ("exponential", "equal", 10_000.0), [6_658.0, 812.0, 9_487.0, 1_759.0], NEAR),
    ("full jitter", ("exponential", "full", 10_000.0), [4_879.0, 797.0, 7_427.0, 1_771.0], NEAR),
    ("decorrelated", ("exponential", "decorrelated", 5_000.0), [4_530.0, 1_002.0, 7_887.0, 2_441.0], WIDE),
];

/// E4: completion time and writes for 100 and 190 clients, by kind of backoff; base 5 ms, at most 2 s.
pub fn e4(seeds: u64) -> Table {
    let mut table = Table::new(
        "E4 Jitter under contention: ms until all have written, and writes; ours (published ± 5 %)",
        &["backoff", "100 clients: ms", "writes", "190 clients: ms", "writes"],
    );
    for (name, backoff, published, tolerances) in PUBLISHED {
        let mut figures = Vec::new();
        for (clients, place) in [(100, 0), (190, 2)] {
            let (mut ms, mut writes) = (0.0, 0.0);
            for seed in 1..=seeds {
                let (last, count) = contend(clients, backoff, seed);
                ms += last as f64 / 1_000.0 / seeds as f64;
                writes += count as f64 / seeds as f64;
            }
            for (ours, place) in [(ms, place), (writes, place + 1)] {
                let published = published[place];
                figures.push(Figure::about(ours.round(), published, (tolerances[place] * published).round()));
            }
        }
        table.row(name, figures);
    }
    table
}
