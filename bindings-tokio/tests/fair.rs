//! The order of a set's queue, declared by typed settings (semantics 3.10).
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_tokio::settings::{Budget, Bulkhead, FairBy, RateLimit, Retry};
use tidegate_tokio::{Criticality, Engine, Policy};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::support::{nothing_left, plain};

/// A call a second.
const CALLS: [&str; 1] = ["calls: permits=1 per=1s"];
const SECOND: Duration = Duration::from_secs(1);

/// Takes the first token, begins a call for each of these keys and criticalities, and returns the order in which they get
/// their tokens, by their places.
async fn served(policy: &Policy, calls: &[(&str, Criticality)]) -> Vec<usize> {
    policy.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
    let (begun, order) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let mut waiting = JoinSet::new();
    for (place, &(key, criticality)) in calls.iter().enumerate() {
        let (caller, order) = (policy.caller().route(key).criticality(criticality), Arc::clone(&order));
        waiting.spawn(async move {
            let noted = caller.run(|_| async {
                order.lock().unwrap().push(place);
                Ok::<_, io::Error>(())
            });
            noted.await.unwrap();
        });
    }
    while let Some(ended) = waiting.join_next().await {
        ended.unwrap();
    }
    assert_eq!(begun.elapsed(), SECOND * calls.len() as u32);
    let order = order.lock().unwrap();
    order.clone()
}

/// A policy whose calls wait for tokens of this pool.
fn pooled(engine: &Engine, limits: RateLimit) -> Policy {
    engine.pool(limits.into_pool("shared").unwrap()).unwrap();
    let shared = RateLimit::in_pool("shared").wait(true).max_wait(60 * SECOND);
    plain(engine, "tenants", 1).rate_limit(shared).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn keys_that_wait_share_a_pool_by_their_shares() {
    let engine = Engine::new(7);
    // Names of tenants are known to the program only when it runs.
    let big = String::from("big");
    let fair = RateLimit::of_limits(CALLS).fair_by(FairBy::Key).shares([format!("{big}=3")]);
    let calls = [[("small", Criticality::Normal); 6], [(&*big, Criticality::Normal); 6]].concat();
    let order = served(&pooled(&engine, fair), &calls).await;
    assert_eq!(order, [0, 6, 7, 8, 1, 9, 10, 11, 2, 3, 4, 5], "spec 3.10.3: three to one while both wait");
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn critical_calls_come_before_others_of_their_pool() {
    for (prioritized, expected) in [(true, [0, 3, 4, 1, 2]), (false, [0, 1, 2, 3, 4])] {
        let engine = Engine::new(7);
        let limits = RateLimit::of_limits(CALLS).prioritized(prioritized);
        let calls = [&[("x", Criticality::Normal); 3][..], &[("y", Criticality::Critical); 2]].concat();
        // Spec 3.10.4: the first call has begun to wait before the critical ones.
        assert_eq!(served(&pooled(&engine, limits), &calls).await, expected);
        nothing_left(&engine);
    }
}

#[tokio::test(start_paused = true)]
async fn a_policys_own_limits_can_be_prioritized() {
    let engine = Engine::new(7);
    let limits = RateLimit::of_limits(CALLS).prioritized(true).wait(true).max_wait(60 * SECOND);
    let policy = plain(&engine, "own", 1).rate_limit(limits).build().unwrap();
    let calls =
        [Criticality::BestEffort, Criticality::BestEffort, Criticality::Normal, Criticality::Critical];
    assert_eq!(served(&policy, &calls.map(|criticality| ("default", criticality))).await, [0, 2, 3, 1]);
    nothing_left(&engine);
}

#[test]
fn a_pools_settings_are_checked_and_changed() {
    let wrong = |limits: RateLimit| limits.into_pool("shared").unwrap_err().to_string();
    let single = wrong(RateLimit::new(1, SECOND).fair_by(FairBy::Key));
    assert!(single.starts_with("fair_by = key: needs limits, "), "spec 3.10.13: {single}");
    let waits = wrong(RateLimit::of_limits(CALLS).wait(true));
    assert_eq!(waits, "wait = 1: belongs to the policies that use the pool");
    let engine = Engine::new(7);
    let pools = [
        RateLimit::of_limits(CALLS).into_pool("limits").unwrap(),
        Bulkhead::fixed(2).into_pool("db").unwrap(),
        Budget::tokens(0.1, 10).into_pool("retries").unwrap(),
    ];
    for pool in pools.clone() {
        engine.pool(pool).unwrap();
    }
    engine.retune_pool(Bulkhead::fixed(3).into_pool("db").unwrap()).unwrap();
    assert!(engine.pool(pools[1].clone()).is_err(), "the pool has other settings now");
    let policy = Policy::builder("uses all")
        .engine(&engine)
        .retry(Retry::new().budget(Budget::in_pool("retries")))
        .rate_limit(RateLimit::in_pool("limits"))
        .bulkhead(Bulkhead::in_pool("db"));
    assert!(policy.build().is_ok());
}
