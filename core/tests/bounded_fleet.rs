//! ADR 0022 for components of the fleet: a step does no more than its part, however many calls wait for the store. Work is counted, not timed.

use crate::bounded::{MOST, WAITERS};
use crate::host::at;
use Value::{Number, Text};
use tidegate::fleet::{Reply, StoreKind};
use tidegate::{Action, Engine, Event, Options, Policy, Request, Value, Verdict};

#[test]
fn waiters_of_a_rate_whose_store_is_lost_are_refused_a_part_at_a_time() {
    refused_in_parts(&[("rate_limit.permits", Number(100_000.0)), ("rate_limit.per", Number(1e6))]);
}

/// ADR 0073.
#[test]
fn waiters_of_a_set_whose_store_is_lost_are_refused_a_part_at_a_time() {
    refused_in_parts(&[("rate_limit.limits", Text("a: permits=100000 per=1s"))]);
}

fn refused_in_parts(limit: &[(&str, Value<'_>)]) {
    let mut engine = Engine::new(3, Options::default().journal(true));
    let _ = engine.attach_store(StoreKind::Lua, "", 7, at(0));
    let pairs = [
        ("rate_limit.store", Text("fleet")),
        ("rate_limit.on_loss", Text("closed")),
        ("rate_limit.wait", Number(1.0)),
        ("rate_limit.max_wait", Number(10e6)),
        ("rate_limit.max_waiters", Number(50_000.0)),
    ];
    let policy = engine.policy(Policy::from_pairs("p", &[limit, &pairs].concat()).unwrap()).unwrap();
    let route = engine.route(policy, "a", at(0));
    let request = Request { may_park: true, ..Request::default() };
    for _ in 0..WAITERS {
        assert!(matches!(engine.begin(route, &request, at(0)).1.action(), Action::Wait { .. }));
    }
    let (mut commands, mut woken) = (Vec::new(), Vec::new());
    engine.take_commands(&mut commands);
    engine.take_wakes(&mut woken);
    woken.clear();
    assert!(engine.on_reply(commands[0].id, Reply::Lost, at(1)).wakes);
    assert!(engine.work() <= MOST && engine.has_chores());
    let mut refused = 0;
    engine.take_wakes(&mut woken);
    while let Some(call) = woken.pop() {
        let action = engine.on(call, Event::Poll, at(1)).action();
        assert!(engine.work() <= MOST);
        refused += usize::from(matches!(action, Action::Done { verdict: Verdict::StoreUnavailable, .. }));
        engine.take_wakes(&mut woken);
    }
    assert_eq!(refused, WAITERS);
    engine.check().unwrap();
    // A journal is handed over, not copied.
    let (journal, mut inputs) = (engine.journal().next().map(std::ptr::from_ref), Vec::new());
    engine.take_journal(&mut inputs);
    assert!(
        inputs.len() > 2 * WAITERS
            && inputs.first().map(std::ptr::from_ref) == journal
            && engine.journal().next().is_none()
    );
}

/// Runs calls that wait for the store's first answer about the slots of a bulkhead: how each ended, and how many still wait.
fn unserved(more: &[(&'static str, Value<'static>)], reply: Reply<'_>) -> (Vec<Verdict>, usize) {
    let mut engine = Engine::new(3, Options::default());
    let _ = engine.attach_store(StoreKind::Lua, "", 7, at(0));
    let base = [("bulkhead.max_concurrency", Number(4.0)), ("bulkhead.store", Text("fleet"))];
    let policy = engine.policy(Policy::from_pairs("p", &[&base, more].concat()).unwrap()).unwrap();
    let route = engine.route(policy, "a", at(0));
    let request = Request { may_park: true, ..Request::default() };
    for _ in 0..WAITERS {
        assert!(matches!(engine.begin(route, &request, at(0)).1.action(), Action::Wait { .. }));
    }
    let (mut commands, mut woken, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    engine.take_commands(&mut commands);
    engine.take_wakes(&mut woken);
    woken.clear();
    assert!(engine.on_reply(commands[0].id, reply, at(1)).wakes);
    assert!(engine.work() <= MOST && engine.has_chores());
    engine.take_wakes(&mut woken);
    while let Some(call) = woken.pop() {
        let action = engine.on(call, Event::Poll, at(1)).action();
        assert!(engine.work() <= MOST);
        ended.extend(match action {
            Action::Done { verdict, .. } if verdict != Verdict::Stale => Some(verdict),
            _ => None,
        });
        engine.take_wakes(&mut woken);
    }
    assert!(!engine.has_chores());
    engine.check().unwrap();
    let waiting = WAITERS - ended.len();
    (ended, waiting)
}

#[test]
fn waiters_for_slots_that_the_store_does_not_have_are_refused_a_part_at_a_time() {
    // The store is lost, and `on_loss` refuses all calls.
    let (ended, waiting) = unserved(&[("bulkhead.on_loss", Text("closed"))], Reply::Lost);
    assert!(ended.iter().all(|verdict| *verdict == Verdict::StoreUnavailable));
    assert_eq!((ended.len(), waiting), (WAITERS, 0));
    // The fleet is full: the queue keeps 100 calls.
    let full = Reply::Bytes(b"0 0 4 0 0");
    let (ended, waiting) = unserved(&[("bulkhead.max_queue", Number(100.0))], full);
    assert!(ended.iter().all(|verdict| *verdict == Verdict::QueueFull));
    assert_eq!((ended.len(), waiting), (WAITERS - 100, 100));
    // No call waits if `acquire_timeout` is 0.
    let hasty = [("bulkhead.max_queue", Number(30_000.0)), ("bulkhead.acquire_timeout", Number(0.0))];
    let (ended, waiting) = unserved(&hasty, full);
    assert!(ended.iter().all(|verdict| *verdict == Verdict::AcquireTimeout));
    assert_eq!((ended.len(), waiting), (WAITERS, 0));
}
