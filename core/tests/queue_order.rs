//! Which waiter of a bulkhead's queue is next (semantics 4.1, 4.4, 4.5).

use crate::host::{Host, SECOND, at, bulkhead, of, verdict};
use Value::{Number, Text};
use tidegate::{Action, Class, Criticality, Policy, Request, Value, Verdict, Wait};

/// A call that comes back between attempts keeps its place before those that began after it and came in the same moment.
#[test]
fn of_calls_that_queue_in_one_moment_the_oldest_is_served_first() {
    let more = [
        ("bulkhead.unit", Text("attempt")),
        ("bulkhead.prioritized", Number(1.0)),
        ("retry.max_attempts", Number(2.0)),
        ("retry.backoff.base", Number(10.0)),
        ("retry.backoff.jitter", Text("none")),
    ];
    let mut host = Host::new(&[&bulkhead(1.0, 8.0)[..], &more].concat());
    let old = host.start(Request::default(), 0);
    let _ = host.finish(old, 1, of(Class::Transient), 5);
    let holder = host.start(Request::default(), 5);
    let young = host.park(15);
    assert!(matches!(host.poll(old, 15).action(), Action::Wait { .. }), "its backoff is over");
    let _ = host.finish(holder, 1, of(Class::Ok), 15);
    assert_eq!(host.wakes(), [old], "it began before {young:?}");
}

/// While the queue is congested the newest waiter of all criticalities is next, not the newest of the first of them.
#[test]
fn while_congested_the_newest_waiter_of_all_is_served() {
    let more = [
        ("bulkhead.acquire_timeout", Number(10.0 * SECOND as f64)),
        ("bulkhead.queue_target", Number(0.4 * SECOND as f64)),
        ("bulkhead.queue_interval", Number(0.5 * SECOND as f64)),
        ("bulkhead.queue_adaptive_lifo", Number(1.0)),
        ("bulkhead.prioritized", Number(1.0)),
    ];
    let mut host = Host::new(&[&bulkhead(1.0, 8.0)[..], &more].concat());
    let holder = host.start(Request::default(), 0);
    let queue = |host: &mut Host, criticality: Criticality, now: u64| {
        let (call, step) = host.begin(Request { criticality, ..Request::default() }, now);
        assert!(matches!(step.action(), Action::Wait { .. }), "{step:?}");
        call
    };
    let _oldest = queue(&mut host, Criticality::Normal, SECOND);
    let _older = queue(&mut host, Criticality::Critical, 2 * SECOND);
    let newest = queue(&mut host, Criticality::Normal, 2 * SECOND + 100);
    let _ = host.finish(holder, 1, of(Class::Ok), 2 * SECOND + 200);
    assert_eq!(host.wakes().last(), Some(&newest), "not empty for two seconds: congested");
}

/// Semantics 0.6.7, 13.9.5: a retune while calls wait, which is when an operator needs it.
#[test]
fn a_retune_orders_the_queue_anew() {
    let pairs = |prioritized: f64| {
        [&bulkhead(1.0, 2.0)[..], &[("bulkhead.prioritized", Number(prioritized))]].concat()
    };
    let retune = |host: &mut Host, prioritized: f64, now: u64| {
        let to = Policy::from_pairs("p", &pairs(prioritized)).unwrap();
        let _ = host.engine.retune(host.policy, to, at(now)).unwrap();
        host.engine.check().unwrap();
    };
    let queue = |host: &mut Host, criticality: Criticality, now: u64| {
        host.begin(Request { criticality, ..Request::default() }, now)
    };
    let mut host = Host::new(&pairs(0.0));
    let holder = host.start(Request::default(), 0);
    let (normal, _) = queue(&mut host, Criticality::Normal, 1);
    let (low, _) = queue(&mut host, Criticality::BestEffort, 2);
    retune(&mut host, 1.0, 3);
    let (critical, step) = queue(&mut host, Criticality::Critical, 4);
    assert_eq!(step.action(), Action::Wait { why: Wait::Queue }, "it displaces the lowest");
    assert_eq!(host.wakes(), [low]);
    assert_eq!(verdict(host.poll(low, 4)), Verdict::Displaced);
    retune(&mut host, 0.0, 5);
    assert_eq!(verdict(queue(&mut host, Criticality::Critical, 6).1), Verdict::QueueFull);
    let _ = host.finish(holder, 1, of(Class::Ok), 7);
    assert_eq!(host.wakes(), [normal], "in the order of arrival");
    assert!(matches!(host.poll(normal, 7).action(), Action::Attempt { .. }));
    let _ = host.finish(normal, 1, of(Class::Ok), 8);
    assert_eq!(host.wakes(), [critical]);
}
