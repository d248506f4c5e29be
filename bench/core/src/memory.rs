//! Memory in bytes: of a call, of a call with a hedge, of a route by the shape of its policy. Needs the counting
//! allocator as the global one.

use std::fmt::Write as _;

use crate::counting::{Tally, tally};
use crate::scenarios::{World, at};
use Value::{Number, Text};
use tidegate::{Event, Request, Value};

/// A power of two, so that no spare capacity of a vector is counted as a call's.
const MANY: usize = 1 << 16;

/// Policies that differ in their components.
const SHAPES: &[(&str, &[(&str, Value<'static>)])] = &[
    ("deadline", &[]),
    ("retry with a budget", &[("preset", Text("http"))]),
    ("bulkhead", &[("bulkhead.max_concurrency", Number(1e9))]),
    (
        "bulkhead, aimd",
        &[
            ("bulkhead.kind", Text("aimd")),
            ("bulkhead.max_concurrency", Number(100.0)),
            ("bulkhead.latency_threshold", Number(1e6)),
        ],
    ),
    (
        "bulkhead, gradient2",
        &[("bulkhead.kind", Text("gradient2")), ("bulkhead.max_concurrency", Number(100.0))],
    ),
    ("rate limit", &[("rate_limit.permits", Number(1e6)), ("rate_limit.per", Number(1e6))]),
    (
        "breaker, consecutive",
        &[("breaker.consecutive", Number(5.0)), ("breaker.break_duration", Number(5e6))],
    ),
    (
        "breaker, ratio",
        &[
            ("breaker.failure_ratio", Number(0.5)),
            ("breaker.window", Number(10e6)),
            ("breaker.min_throughput", Number(20.0)),
            ("breaker.break_duration", Number(5e6)),
        ],
    ),
    ("throttle", &[("throttle.k", Number(2.0))]),
    ("hedge", &[("hedge.delay", Number(50e3)), ("hedge.budget.kind", Text("none"))]),
    (
        "hedge, adaptive",
        &[
            ("hedge.delay", Number(50e3)),
            ("hedge.adaptive_delay_quantile", Number(0.95)),
            ("hedge.budget.kind", Text("none")),
        ],
    ),
    ("hold", &[("preset", Text("http")), ("retry.hold", Number(1.0))]),
    ("send rate", &[("preset", Text("http")), ("retry.send_rate", Text("cubic"))]),
    ("full", crate::scenarios::FULL),
];

/// Bytes per live call with one running attempt, and with two.
///
/// # Panics
/// Never: the policy is valid.
pub fn per_call() -> (f64, f64) {
    let pairs =
        [("deadline", Number(30e6)), ("hedge.delay", Number(1e3)), ("hedge.budget.kind", Text("none"))];
    let mut world = World::new(&pairs);
    let begin = |world: &mut World| world.engine.begin(world.route, &Request::default(), at(0)).0;
    begin(&mut world);
    let mut calls = Vec::with_capacity(MANY);
    let own = tally();
    for _ in 1..MANY {
        calls.push(begin(&mut world));
    }
    let alone = tally().since(own);
    for call in &calls {
        let _ = world.engine.on(*call, Event::Timer, at(1_000));
    }
    let racing = tally().since(own);
    let each = |tally: Tally| tally.bytes as f64 / MANY as f64;
    (each(alone), each(racing))
}

/// Bytes per route by the shape of its policy, including a key of 32 bytes.
pub fn per_route() -> Vec<(&'static str, f64)> {
    let measured = |(name, pairs): &(&'static str, &[(&'static str, Value<'static>)])| {
        // A preset sets a deadline by itself.
        let bare =
            [("deadline", Number(30e6))].into_iter().filter(|_| !pairs.iter().any(|pair| pair.0 == "preset"));
        let pairs: Vec<_> = bare.chain(pairs.iter().copied()).collect();
        (*name, one_shape(&pairs))
    };
    SHAPES.iter().map(measured).collect()
}

/// Bytes per route of a policy of these pairs, including a key of 32 bytes.
pub fn one_shape(pairs: &[(&str, Value<'_>)]) -> f64 {
    let mut world = World::new(pairs);
    let keys: Vec<String> = (1..MANY).map(|n| format!("https://host-{n:011}.example:443")).collect();
    let before = tally();
    for key in &keys {
        world.new_route(key);
    }
    tally().since(before).bytes as f64 / MANY as f64
}

/// All figures as text.
pub fn table() -> String {
    let (alone, racing) = per_call();
    let mut text = String::from("\nbytes\n");
    let _ = writeln!(text, "{:>24} {alone:>8.1}", "call, one attempt");
    let _ = writeln!(text, "{:>24} {racing:>8.1}", "call, two attempts");
    for (name, bytes) in per_route() {
        let _ = writeln!(text, "{:>24} {bytes:>8.1}", format!("route: {name}"));
    }
    text
}
