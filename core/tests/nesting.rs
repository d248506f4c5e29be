//! Calls within calls (semantics 0.4, 7.3; ADR 0005): a call never waits for itself, at any depth.

use crate::host::{Host, SECOND, at, bulkhead, http, of, verdict};
use Value::{Number, Text};
use tidegate::{
    Action, CallId, Class, Engine, Event, Options, Policy, Pool, PoolKind, Request, RouteId, Step, Value,
    Verdict, Wait,
};

const DEPTHS: [usize; 4] = [10, 34, 1_000, 10_000];

fn within(parent: CallId) -> Request {
    Request { parent: Some(parent), ..Request::default() }
}

fn started(step: Step) -> bool {
    matches!(step.action(), Action::Attempt { attempt: 1, .. })
}

/// A step frees 256 calls at most; the next ones go on with the rest (ADR 0022).
fn drain(engine: &mut Engine, now: u64) {
    for _ in 0..100 {
        if engine.has_chores() {
            assert_eq!(verdict(engine.on(CallId::from_word(0), Event::Poll, at(now))), Verdict::Stale);
        }
    }
}

/// Begins a chain of nested calls on these routes in turn, and ends it: from the inside out, or the other way round.
fn recurse(engine: &mut Engine, routes: &[RouteId], depth: usize, inside_out: bool) {
    let mut chain = Vec::new();
    for level in 0..depth {
        let request = chain.last().map_or(Request::default(), |parent| within(*parent));
        let (call, step) = engine.begin(routes[level % routes.len()], &request, at(level as u64));
        assert!(started(step), "depth {level}: {step:?}");
        chain.push(call);
    }
    if inside_out {
        chain.reverse();
    }
    for call in chain {
        let step = engine.on(call, Event::Finished { attempt: 1, outcome: of(Class::Ok) }, at(depth as u64));
        assert_eq!(verdict(step), Verdict::Ok);
    }
    drain(engine, depth as u64);
    // Nothing is left of it: the next call has the permit.
    for route in routes {
        let (call, step) = engine.begin(*route, &Request::default(), at(depth as u64));
        assert!(started(step), "the permit is free again: {step:?}");
        let step = engine.on(call, Event::Finished { attempt: 1, outcome: of(Class::Ok) }, at(depth as u64));
        assert_eq!(verdict(step), Verdict::Ok);
    }
}

#[test]
fn recursion_through_one_policy_shares_one_permit_at_any_depth() {
    for depth in DEPTHS {
        for queue in [0.0, 5.0] {
            for inside_out in [true, false] {
                let mut host = Host::new(&bulkhead(1.0, queue));
                let route = host.route;
                recurse(&mut host.engine, &[route], depth, inside_out);
            }
        }
    }
}

#[test]
fn recursion_through_policies_in_turn_shares_one_permit_of_each() {
    for depth in DEPTHS {
        let mut host = Host::new(&bulkhead(1.0, 5.0));
        let mut routes = vec![host.route];
        // One without permits, one with its own, and one whose permits are given back between attempts.
        for (name, pairs) in [
            ("plain", http(&[])),
            ("second", bulkhead(1.0, 0.0)),
            ("by attempt", [bulkhead(1.0, 0.0), vec![("bulkhead.unit", Text("attempt"))]].concat()),
        ] {
            let policy = host.engine.policy(Policy::from_pairs(name, &pairs).unwrap()).unwrap();
            routes.push(host.engine.route(policy, "r", at(0)));
        }
        recurse(&mut host.engine, &routes, depth, true);
        recurse(&mut host.engine, &routes, depth, false);
    }
}

#[test]
fn a_pool_that_several_policies_name_is_shared_within_a_call_too() {
    for depth in DEPTHS {
        let mut engine = Engine::new(1, Options::default());
        let own = [("max_concurrency", Number(1.0)), ("max_queue", Number(9.0))];
        engine.pool(Pool::from_pairs("db", PoolKind::Bulkhead, &own).unwrap(), at(0)).unwrap();
        let routes: Vec<_> = ["a", "b", "c"]
            .iter()
            .map(|name| {
                let pairs = [("bulkhead.pool", Text("db")), ("bulkhead.acquire_timeout", Number(1e6))];
                let policy = engine.policy(Policy::from_pairs(name, &pairs).unwrap()).unwrap();
                engine.route(policy, name, at(0))
            })
            .collect();
        recurse(&mut engine, &routes, depth, true);
    }
}

#[test]
fn a_parent_that_ends_early_keeps_the_permit_for_those_within_it() {
    for depth in DEPTHS {
        let mut host = Host::new(&bulkhead(1.0, 0.0));
        let first = host.start(Request::default(), 0);
        let mut last = first;
        for _ in 1..depth {
            let next = host.start(within(last), 0);
            // The one in the middle ends; it lingers, and what follows still shares the permit of the first.
            assert_eq!(verdict(host.finish(last, 1, of(Class::Ok), 0)), Verdict::Ok);
            last = next;
        }
        assert_eq!(verdict(host.begin(Request::default(), 1).1), Verdict::QueueFull, "the permit is out");
        assert_eq!(verdict(host.finish(last, 1, of(Class::Ok), 1)), Verdict::Ok);
        drain(&mut host.engine, 1);
        // A parent that is gone is a stale id: no permit comes from it.
        let other = host.start(within(first), 2);
        assert_eq!(verdict(host.begin(within(first), 2).1), Verdict::QueueFull);
        assert_eq!(verdict(host.finish(other, 1, of(Class::Ok), 2)), Verdict::Ok);
    }
}

#[test]
fn deadlines_and_the_ban_on_retries_reach_any_depth() {
    for depth in DEPTHS {
        let mut host = Host::new(&http(&[("deadline", Number(30e6))]));
        let short = Request { remaining: Some(tidegate::Duration::from_secs(2)), ..Request::default() };
        let mut last = host.start(short, 0);
        for _ in 1..depth {
            last = host.start(within(last), 0);
        }
        let step = host.poll(last, SECOND);
        assert_eq!(step.next(), Some(tidegate::Duration::from_secs(1)), "the first call's deadline holds");
        let other = host.start(within(last), SECOND);
        let step = host.finish(other, 1, of(Class::Transient), SECOND);
        assert_eq!(verdict(step), Verdict::Nested, "depth {depth}");
        assert_eq!(verdict(host.poll(last, 2 * SECOND)), Verdict::Deadline);
    }
}

#[test]
fn a_call_shares_what_the_call_around_it_shares_although_the_permit_is_out_no_more() {
    let pairs = [bulkhead(1.0, 0.0), http(&[("bulkhead.unit", Text("attempt"))])].concat();
    let mut host = Host::new(&pairs);
    let outer = host.start(Request::default(), 0);
    let inner = host.start(within(outer), 0);
    // The outer call is between two attempts: its permit is another's now.
    let step = host.finish(outer, 1, of(Class::Transient), 0);
    assert_eq!(step.action(), Action::Wait { why: Wait::Backoff });
    host.start(Request::default(), 1);
    host.start(within(inner), 1);
}

#[test]
fn a_bulkhead_that_comes_with_a_retune_is_shared_by_calls_that_began_before_it() {
    let mut host = Host::new(&[("deadline", Number(30e6))]);
    let other = host.engine.policy(Policy::from_pairs("other", &[("deadline", Number(9e6))]).unwrap());
    let other = host.engine.route(other.unwrap(), "r", at(0));
    let outer = host.start(Request::default(), 0);
    let (middle, _) = host.engine.begin(other, &within(outer), at(0));
    let _ = host.engine.retune(host.policy, Policy::from_pairs("p", &bulkhead(1.0, 5.0)).unwrap(), at(1));
    host.start(within(middle), 2);
    assert_eq!(host.begin(Request::default(), 2).1.action(), Action::Wait { why: Wait::Queue });
}

/// 13.4.15: the attempt that could not be stopped had the permit; once it is reported, the calls within keep it.
#[test]
fn calls_within_keep_a_permit_after_the_last_attempt_of_the_ended_call_around_them() {
    let mut host = Host::new(&[&bulkhead(1.0, 8.0)[..], &[("bulkhead.unit", Text("attempt"))]].concat());
    let outer = host.start(Request { abortable: false, ..Request::default() }, 0);
    let inner = host.start(within(outer), 0);
    assert_eq!(verdict(host.engine.on(outer, Event::Cancel, at(1))), Verdict::Cancelled);
    assert_eq!(verdict(host.finish(outer, 1, of(Class::Cancelled), 2)), Verdict::Stale);
    let waiter = host.park(3);
    host.engine.check().unwrap();
    assert_eq!(verdict(host.finish(inner, 1, of(Class::Ok), 4)), Verdict::Ok);
    assert_eq!(host.wakes(), [waiter]);
    host.engine.check().unwrap();
}
