//! Engines that are saved and restored, for short stories.

#![allow(missing_docs, dead_code)] // test support; not every story uses all of it

use Value::{Number, Text};
use tidegate::{
    Action, Class, Duration, Engine, Event, Options, Outcome, Policy, PolicyId, Request, Restored, RouteView,
    Time, Value, Verdict, Wait,
};

pub type Pairs<'a> = &'a [(&'a str, Value<'a>)];

pub const SECOND: u64 = 1_000_000;

pub fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

pub fn engine(pairs: Pairs<'_>) -> (Engine, PolicyId) {
    let mut engine = Engine::new(42, Options::default());
    let id = engine.policy(Policy::from_pairs("p", pairs).unwrap()).unwrap();
    (engine, id)
}

/// A call on route `r` that ends so, and is cancelled where it would be tried again.
pub fn call(engine: &mut Engine, policy: PolicyId, class: Class, from: u64, to: u64) -> Verdict {
    let route = engine.route(policy, "r", at(from));
    let (id, mut step) = engine.begin(route, &Request::default(), at(from));
    while let Action::Attempt { attempt, .. } = step.action() {
        step = engine.on(id, Event::Finished { attempt, outcome: Outcome::of(class) }, at(to));
    }
    if let Action::Wait { .. } = step.action() {
        step = engine.on(id, Event::Cancel, at(to));
    }
    match step.action() {
        Action::Done { verdict, .. } => verdict,
        action => panic!("{action:?}"),
    }
}

pub fn view(engine: &Engine, now: u64) -> RouteView {
    engine.snapshot(at(now)).routes.into_iter().next().unwrap()
}

/// The engine of other settings that goes on from this one.
pub fn moved(
    from: &Engine,
    saved: u64,
    pairs: Pairs<'_>,
    elapsed: u64,
    now: u64,
) -> (Engine, PolicyId, Restored) {
    let (mut to, id) = engine(pairs);
    let restored = to.restore(&from.save(at(saved)), Duration::from_micros(elapsed), at(now)).unwrap();
    (to, id, restored)
}

/// A policy of everything, and an engine of it that has something to remember in every part.
pub const WHOLE: Pairs<'static> = &[
    ("retry.budget.kind", Text("window")),
    ("retry.max_attempts", Number(2.0)),
    ("retry.backoff.jitter", Text("none")),
    ("retry.send_rate", Text("cubic")),
    ("retry.hold", Number(1.0)),
    ("rate_limit.permits", Number(3.0)),
    ("rate_limit.per", Number(7e6)),
    ("rate_limit.burst", Number(12.0)),
    ("bulkhead.kind", Text("aimd")),
    ("bulkhead.max_concurrency", Number(10.0)),
    ("bulkhead.latency_threshold", Number(1e5)),
    ("bulkhead.latency_quantile", Number(0.5)),
    ("breaker.failure_ratio", Number(0.9)),
    ("breaker.window", Number(10e6)),
    ("breaker.min_throughput", Number(5.0)),
    ("breaker.break_duration", Number(5e6)),
    ("hedge.delay", Number(1e6)),
    ("hedge.max_attempts", Number(2.0)),
    ("hedge.adaptive_delay_quantile", Number(0.9)),
    ("hedge.delay_min", Number(1.0)),
    ("hedge.delay_max", Number(9e6)),
    ("hedge.budget.kind", Text("ratio")),
    ("hedge.budget.ratio", Number(0.5)),
];

pub fn whole() -> Engine {
    let (mut engine, id) = engine(WHOLE);
    let route = engine.route(id, "r", at(0));
    let (slow, _) = engine.begin(route, &Request { idempotent: false, ..Request::default() }, at(0));
    let _ =
        engine.on(slow, Event::Finished { attempt: 1, outcome: Outcome::of(Class::Timeout) }, at(150_000));
    for n in 1..=7 {
        let from = n * 200_000;
        assert_eq!(call(&mut engine, id, Class::Ok, from, from + 80_000 + n), Verdict::Ok);
    }
    let path = engine.path_id(route, "/a/b", at(2 * SECOND));
    let (held, _) = engine.begin(route, &Request { path, ..Request::default() }, at(2 * SECOND));
    let outcome = Outcome { retry_after: Some(Duration::from_millis(900)), ..Outcome::of(Class::Throttled) };
    let step = engine.on(held, Event::Finished { attempt: 1, outcome }, at(2_100_000));
    assert_eq!(step.action(), Action::Wait { why: Wait::Backoff });
    let _ = engine.on(held, Event::Cancel, at(2_200_000));
    engine
}
