//! The duration of the longest steps (ADR 0022): `steps` prints microseconds; `steps NAME` carries out one of them, for
//! callgrind (`--toggle-collect='steps::measured*'`).

use std::hint::black_box;
use std::time::Instant;

use tidegate::Value::{Number, Text};
use tidegate::{
    Action, CallId, Class, Engine, Event, Options, Outcome, Policy, PolicyId, Request, SavePages,
    SnapshotPages, Time, Value,
};

const MANY: u32 = 100_000;

fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

/// Runs the measured step and nothing else.
#[inline(never)]
fn measured<T>(step: impl FnOnce() -> T) -> T {
    step()
}

fn engine(pairs: &[(&'static str, Value<'static>)], max: u32) -> (Engine, PolicyId) {
    let mut engine = Engine::new(7, Options::default().max_routes(max));
    let policy = engine.policy(Policy::from_pairs("p", pairs).expect("settings")).expect("a policy");
    (engine, policy)
}

fn api(limit: f64) -> Vec<(&'static str, Value<'static>)> {
    vec![
        ("preset", Text("http")),
        ("bulkhead.max_concurrency", Number(limit)),
        ("breaker.consecutive", Number(5.0)),
        ("breaker.break_duration", Number(5e6)),
        ("rate_limit.permits", Number(100.0)),
        ("rate_limit.per", Number(1e6)),
    ]
}

/// An engine with many routes, each with a call that has ended.
fn routes() -> (Engine, PolicyId) {
    let (mut engine, policy) = engine(&api(10.0), MANY);
    for n in 0..MANY {
        let route = engine.route(policy, &format!("key{n}"), at(u64::from(n)));
        let (call, _) = engine.begin(route, &Request::default(), at(u64::from(n)));
        let outcome = Outcome::of(if n % 7 == 0 { Class::Permanent } else { Class::Ok });
        let _ = engine.on(call, Event::Finished { attempt: 1, outcome }, at(u64::from(n) + 5));
    }
    (engine, policy)
}

/// An engine with many calls that wait for one permit, and the call that holds it.
fn waiters() -> (Engine, PolicyId, CallId) {
    let pairs = [
        ("bulkhead.max_concurrency", Number(1.0)),
        ("bulkhead.max_queue", Text("none")),
        ("bulkhead.acquire_timeout", Number(1e6)),
    ];
    let (mut engine, policy) = engine(&pairs, 10);
    let route = engine.route(policy, "key", at(0));
    let (holder, _) = engine.begin(route, &Request::default(), at(0));
    let request = Request { may_park: true, ..Request::default() };
    for _ in 0..MANY {
        assert!(matches!(engine.begin(route, &request, at(0)).1.action(), Action::Wait { .. }));
    }
    (engine, policy, holder)
}

/// Sends events that name no call until no work is left. Returns the time of each step, in microseconds.
fn rest(engine: &mut Engine, now: u64) -> Vec<f64> {
    let mut spans = Vec::new();
    while engine.has_chores() {
        let start = Instant::now();
        let _ = black_box(engine.on(CallId::from_word(0), Event::Poll, at(now)));
        spans.push(start.elapsed().as_secs_f64() * 1e6);
        engine.take_wakes(&mut Vec::new());
    }
    spans
}

fn timed<T>(step: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    black_box(measured(step));
    start.elapsed().as_secs_f64() * 1e6
}

/// Runs one of the longest steps, and the steps that finish its work.
fn run(name: &str) -> Vec<f64> {
    match name {
        "expired" => {
            let (mut engine, _, holder) = waiters();
            let finished = Event::Finished { attempt: 1, outcome: Outcome::of(Class::Ok) };
            let first = timed(|| engine.on(holder, finished, at(2_000_000)));
            [vec![first], rest(&mut engine, 2_000_000)].concat()
        }
        "forced" => {
            let (mut engine, policy, _) = waiters();
            let first = timed(|| engine.force_open(policy, None, true, at(10)));
            [vec![first], rest(&mut engine, 10)].concat()
        }
        "retune" => {
            let (mut engine, policy) = routes();
            let to = Policy::from_pairs("p", &api(5.0)).expect("settings");
            let first = timed(|| engine.retune(policy, to, at(200_000)).map(|_| ()));
            [vec![first], rest(&mut engine, 200_000)].concat()
        }
        "force-routes" => {
            let (mut engine, policy) = routes();
            let first = timed(|| engine.force_open(policy, None, true, at(200_000)));
            [vec![first], rest(&mut engine, 200_000)].concat()
        }
        "snapshot" => {
            let (engine, _) = routes();
            let (mut pages, mut spans, mut more) = (SnapshotPages::default(), Vec::new(), true);
            while more {
                spans.push(timed(|| more = engine.snapshot_page(&mut pages, at(200_000))));
            }
            spans
        }
        "save" => {
            let (engine, _) = routes();
            let (mut pages, mut spans, mut more) = (SavePages::default(), Vec::new(), true);
            while more {
                spans.push(timed(|| more = engine.save_page(&mut pages, at(200_000))));
            }
            spans
        }
        "journal" => {
            let mut engine = Engine::new(7, Options::default().journal(true));
            for n in 0..u64::from(10 * MANY) {
                let _ = engine.on(CallId::from_word(0), Event::Poll, at(n));
            }
            let mut out = Vec::new();
            vec![timed(|| engine.take_journal(&mut out))]
        }
        _ => panic!("usage: steps [expired | forced | retune | force-routes | snapshot | save | journal]"),
    }
}

fn main() {
    if let Some(name) = std::env::args().nth(1) {
        println!("{name}: {} steps", run(&name).len());
        return;
    }
    println!("| 100,000 of each | steps | median (µs) | 99 % (µs) | longest (µs) |\n|---|--:|--:|--:|--:|");
    for name in ["expired", "forced", "retune", "force-routes", "snapshot", "save", "journal"] {
        let mut spans = run(name);
        let first = spans[0];
        spans.sort_by(f64::total_cmp);
        let (count, part) = (spans.len(), |part: usize| spans[(spans.len() - 1) * part / 100]);
        println!(
            "| {name} | {count} | {:.0} | {:.0} | {:.0} (first {first:.0}) |",
            part(50),
            part(99),
            part(100)
        );
    }
}
