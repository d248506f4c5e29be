//! Which waiter of a bulkhead's queue is next (semantics 4.1, 4.4, 4.5).

use crate::host::{Host, SECOND, bulkhead, of};
use Value::{Number, Text};
use tidegate::{Action, Class, Criticality, Request, Value};

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
    assert!(matches!(host.poll(old, 15).action, Action::Wait { .. }), "its backoff is over");
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
        assert!(matches!(step.action, Action::Wait { .. }), "{step:?}");
        call
    };
    let _oldest = queue(&mut host, Criticality::Normal, SECOND);
    let _older = queue(&mut host, Criticality::Critical, 2 * SECOND);
    let newest = queue(&mut host, Criticality::Normal, 2 * SECOND + 100);
    let _ = host.finish(holder, 1, of(Class::Ok), 2 * SECOND + 200);
    assert_eq!(host.wakes().last(), Some(&newest), "not empty for two seconds: congested");
}
