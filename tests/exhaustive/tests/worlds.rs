//! Explores every world completely, up to a depth, and prints the number of states and the time.
//!
//! ```text
//! cargo test -p tidegate-exhaustive                                                    a few actions deep, on every change
//! TIDEGATE_DEEPER=3 cargo test --profile checked -p tidegate-exhaustive -- --nocapture
//! ```
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it says how long it took")]

use std::time::Instant;

use stateright::{Checker, Model};
use tidegate::Value::{Number, Text};
use tidegate_exhaustive::{How, World};

const PLAIN: World = World {
    name: "plain",
    pairs: &[],
    other: None,
    calls: 2,
    routes: 1,
    max_routes: 10,
    hows: &[How::Ok, How::Failure],
    nests: false,
    abortable: true,
    forces: false,
    restarts: false,
};

/// Explores a world, `TIDEGATE_DEEPER` actions deeper. At least some hundred states are required, so that no world is
/// empty by mistake.
fn explore(world: World, depth: usize) {
    let begun = Instant::now();
    let deeper = std::env::var("TIDEGATE_DEEPER").ok().and_then(|text| text.parse().ok());
    let depth = depth + deeper.unwrap_or(0_usize);
    let name = world.name;
    let checker = world.prepare().checker().threads(1).target_max_depth(depth).spawn_bfs().join();
    let (unique, all) = (checker.unique_state_count(), checker.state_count());
    println!("{name}: {unique} states of {all} to depth {depth} in {:.1} s", begun.elapsed().as_secs_f64());
    if let Some((property, path)) = checker.discoveries().into_iter().next() {
        let last = path.last_state().clone();
        let left = checker.model().drains(&last).err();
        panic!("{name}: not always: {property}: {:?} {left:?}\n{:#?}", last.broken, path.into_actions());
    }
    assert!(unique >= 100, "{name}: only {unique} states");
}

/// One permit, a queue of one, retries bounded only by a budget of one token.
#[test]
fn a_bulkhead_of_one_with_a_queue() {
    let pairs = &[
        ("attempt_timeout", Number(1e6)),
        ("bulkhead.max_concurrency", Number(1.0)),
        ("bulkhead.max_queue", Number(1.0)),
        ("bulkhead.acquire_timeout", Number(3e6)),
        ("retry.max_attempts", Number(2.0)),
        ("retry.backoff.base", Number(1e5)),
        ("retry.backoff.jitter", Text("none")),
        ("retry.budget.kind", Text("tokens")),
        ("retry.budget.max", Number(2.0)),
        ("retry.budget.ratio", Number(0.5)),
    ];
    explore(World { name: "bulkhead", pairs, calls: 3, ..PLAIN }, 8);
}

/// The same with permits by attempt, hosts that cannot abort an attempt, and servers that ask for another try.
#[test]
fn permits_by_attempt_and_attempts_that_cannot_be_stopped() {
    let pairs = &[
        ("attempt_timeout", Number(1e6)),
        ("deadline", Number(4e6)),
        ("bulkhead.max_concurrency", Number(1.0)),
        ("bulkhead.max_queue", Number(1.0)),
        ("bulkhead.unit", Text("attempt")),
        ("retry.max_attempts", Number(3.0)),
        ("retry.backoff.base", Number(0.0)),
        ("retry.budget.kind", Text("tokens")),
        ("retry.budget.max", Number(2.0)),
        ("retry.budget.ratio", Number(0.5)),
    ];
    let hows = &[How::Ok, How::Failure, How::Again];
    explore(World { name: "attempts", pairs, hows, abortable: false, ..PLAIN }, 8);
}

/// Hedges and retries on one quota that pays for one of them.
#[test]
fn hedges_and_retries_on_one_quota() {
    let pairs = &[
        ("attempt_timeout", Number(1e6)),
        ("retry.max_attempts", Number(3.0)),
        ("retry.backoff.base", Number(0.0)),
        ("retry.budget.kind", Text("quota")),
        ("retry.budget.capacity", Number(1.0)),
        ("retry.budget.cost", Number(1.0)),
        ("retry.budget.timeout_cost", Number(1.0)),
        ("hedge.delay", Number(1e5)),
        ("bulkhead.max_concurrency", Number(2.0)),
    ];
    explore(World { name: "hedges", pairs, ..PLAIN }, 8);
}

/// Nested calls that share one permit.
#[test]
fn calls_within_calls_on_one_permit() {
    let pairs = &[
        ("attempt_timeout", Number(1e6)),
        ("bulkhead.max_concurrency", Number(1.0)),
        ("bulkhead.max_queue", Number(1.0)),
        ("retry.max_attempts", Number(2.0)),
        ("retry.backoff.base", Number(0.0)),
        ("retry.budget.kind", Text("ratio")),
        ("retry.budget.ratio", Number(0.5)),
    ];
    explore(World { name: "nested", pairs, calls: 3, nests: true, ..PLAIN }, 7);
}

/// A breaker that one failure opens, and a rate of two a second.
#[test]
fn a_breaker_and_a_rate_limit() {
    let pairs = &[
        ("attempt_timeout", Number(1e6)),
        ("breaker.consecutive", Number(1.0)),
        ("breaker.break_duration", Number(5e5)),
        ("breaker.unit", Text("attempt")),
        ("rate_limit.permits", Number(2.0)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.wait", Number(1.0)),
        ("rate_limit.max_wait", Number(2e6)),
        ("retry.max_attempts", Number(2.0)),
        ("retry.backoff.base", Number(0.0)),
        ("retry.budget.kind", Text("ratio")),
        ("retry.budget.ratio", Number(1.0)),
    ];
    explore(World { name: "breaker", pairs, calls: 3, forces: true, ..PLAIN }, 7);
}

/// Two routes, other settings and back, a restart.
#[test]
fn retunes_and_a_restart() {
    let pairs = &[
        ("attempt_timeout", Number(1e6)),
        ("bulkhead.max_concurrency", Number(2.0)),
        ("bulkhead.max_queue", Number(1.0)),
        ("retry.max_attempts", Number(2.0)),
        ("retry.backoff.base", Number(0.0)),
        ("retry.budget.kind", Text("quota")),
        ("retry.budget.capacity", Number(2.0)),
        ("retry.budget.cost", Number(1.0)),
    ];
    let other = &[
        ("attempt_timeout", Number(1e6)),
        ("bulkhead.max_concurrency", Number(1.0)),
        ("bulkhead.max_queue", Number(1.0)),
        ("retry.max_attempts", Number(2.0)),
        ("retry.backoff.base", Number(0.0)),
        ("retry.budget.kind", Text("quota")),
        ("retry.budget.capacity", Number(1.0)),
        ("retry.budget.cost", Number(1.0)),
    ];
    let world =
        World { name: "retunes", pairs, other: Some(other), calls: 3, routes: 2, restarts: true, ..PLAIN };
    explore(world, 6);
}

/// Two routes with room for one: the debt of an evicted route is remembered.
#[test]
fn two_routes_where_there_is_room_for_one() {
    let pairs = &[
        ("attempt_timeout", Number(1e6)),
        ("retry.max_attempts", Number(2.0)),
        ("retry.backoff.base", Number(0.0)),
        ("retry.budget.kind", Text("tokens")),
        ("retry.budget.max", Number(2.0)),
        ("retry.budget.ratio", Number(0.01)),
    ];
    let world = World { name: "evictions", pairs, calls: 3, routes: 2, max_routes: 1, ..PLAIN };
    explore(world, 7);
}
