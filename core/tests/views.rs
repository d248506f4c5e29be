//! What a snapshot shows of each component, as it happens.

use crate::saved::{SECOND, at, call, engine, view};
use Value::{Number, Text};
use tidegate::{
    Action, BreakerState, BreakerView, Class, Duration, Event, HedgeView, HoldView, LimitKind, Outcome, Pool,
    PoolKind, PoolView, RateView, Request, SendView, Value, Verdict, Wait,
};

#[test]
fn a_policy_of_nothing_shows_nothing() {
    let (mut engine, id) = engine(&[("deadline", Number(1e6))]);
    assert_eq!(call(&mut engine, id, Class::Ok, 0, 1), Verdict::Ok);
    let route = view(&engine, 1);
    assert_eq!((route.policy.as_str(), route.key.as_str(), route.active, route.forced), ("p", "r", 0, false));
    assert!(route.pool.is_none() && route.rate.is_none() && route.send.is_none());
    assert!(
        route.breaker.is_none() && route.throttle.is_none() && route.hedge.is_none() && route.hold.is_none()
    );
    assert!(engine.snapshot(at(1)).pools.is_empty());
}

#[test]
fn a_breaker_shows_its_state_its_counts_and_the_end_of_its_break() {
    let (mut engine, id) = engine(&[
        ("breaker.failure_ratio", Number(0.5)),
        ("breaker.window", Number(10e6)),
        ("breaker.min_throughput", Number(3.0)),
        ("breaker.break_duration", Number(5e6)),
        ("breaker.break_factor", Number(1.0)),
    ]);
    let shown = |engine: &tidegate::Engine, now| view(engine, now).breaker.unwrap();
    assert_eq!(call(&mut engine, id, Class::Ok, 0, 1), Verdict::Ok);
    call(&mut engine, id, Class::Transient, 1, 2);
    let closed = BreakerView { state: BreakerState::Closed, failures: 1, throughput: 2, retry_in: None };
    assert_eq!(shown(&engine, 3), closed);
    call(&mut engine, id, Class::Transient, 3, 4);
    let open = BreakerView { state: BreakerState::Open, failures: 2, throughput: 3, ..closed };
    let after = |span| BreakerView { retry_in: Some(Duration::from_micros(span)), ..open };
    assert_eq!(shown(&engine, 4), after(5 * SECOND));
    assert_eq!(shown(&engine, SECOND + 4), after(4 * SECOND));
    assert_eq!(shown(&engine, 5 * SECOND + 5), after(0), "over, and nobody has come");
    let route = engine.route(id, "r", at(6 * SECOND));
    let _ = engine.begin(route, &Request::default(), at(6 * SECOND));
    assert_eq!(shown(&engine, 6 * SECOND).state, BreakerState::HalfOpen);
    assert_eq!(shown(&engine, 6 * SECOND).retry_in, None);
    assert_eq!(shown(&engine, 20 * SECOND).throughput, 0, "the window has gone by");
}

#[test]
fn a_throttle_shows_requests_accepts_and_its_probability() {
    let (mut engine, id) = engine(&[("throttle.k", Number(1.0)), ("throttle.min_throughput", Number(4.0))]);
    for n in 0..4 {
        call(&mut engine, id, if n < 3 { Class::Transient } else { Class::Ok }, n, n);
    }
    let before = engine.snapshot(at(5));
    let throttle = before.routes[0].throttle.unwrap();
    assert_eq!((throttle.requests, throttle.accepts), (4, 1));
    assert!((throttle.probability - 0.6).abs() < 1e-12, "(4 − 1 · 1) / 5");
    assert_eq!(engine.snapshot(at(5)), before, "looking changes nothing");
}

#[test]
fn rates_show_what_is_left_and_who_waits() {
    let (mut engine, id) = engine(&[
        ("rate_limit.permits", Number(1.0)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.burst", Number(2.0)),
        ("rate_limit.wait", Number(1.0)),
        ("rate_limit.max_wait", Number(9e6)),
        ("retry.send_rate", Text("cubic")),
        ("retry.max_attempts", Number(1.0)),
    ]);
    let shown =
        |engine: &tidegate::Engine, now| (view(engine, now).rate.unwrap(), view(engine, now).send.unwrap());
    assert_eq!(call(&mut engine, id, Class::Ok, 0, 0), Verdict::Ok);
    assert_eq!(
        shown(&engine, 0),
        (RateView { tokens: 1, waiting: 0, fleet: None }, SendView { rate: None, waiting: 0 })
    );
    call(&mut engine, id, Class::Throttled, 0, 600_000);
    let route = engine.route(id, "r", at(600_000));
    let (_, step) = engine.begin(route, &Request::default(), at(600_000));
    assert_eq!(step.action(), Action::Wait { why: Wait::Rate });
    let (rate, send) = shown(&engine, 600_000);
    assert_eq!((rate, send.waiting), (RateView { tokens: 0, waiting: 1, fleet: None }, 0));
    assert!(send.rate.is_some_and(|rate| rate >= 0.5));
    assert_eq!(engine.snapshot(at(600_000)).waiting, 1);
    assert_eq!(view(&engine, 3 * SECOND).rate.unwrap().tokens, 2);
}

#[test]
fn hedges_show_the_delay_that_holds_now_and_holds_who_is_held() {
    let (mut engine, id) = engine(&[
        ("hedge.delay", Number(2e6)),
        ("hedge.max_attempts", Number(2.0)),
        ("hedge.adaptive_delay_quantile", Number(0.5)),
        ("hedge.delay_min", Number(1e3)),
        ("hedge.delay_max", Number(9e6)),
        ("hedge.budget.kind", Text("share")),
        ("hedge.budget.min_retries", Number(4.0)),
        ("retry.hold", Number(1.0)),
        ("bulkhead.kind", Text("aimd")),
        ("bulkhead.max_concurrency", Number(6.0)),
        ("bulkhead.latency_threshold", Number(5e6)),
        ("bulkhead.max_queue", Number(2.0)),
    ]);
    let hedge = |engine: &tidegate::Engine, now| view(engine, now).hedge.unwrap();
    let route = engine.route(id, "r", at(0));
    assert_eq!(hedge(&engine, 0), HedgeView { delay: Duration::from_secs(2), budget: Some(4) });
    for n in 0..5 {
        call(&mut engine, id, Class::Ok, n * 10_000, n * 10_000 + 7_000);
    }
    assert_eq!(hedge(&engine, 60_000).delay, Duration::from_millis(7));

    let request = Request { path: engine.path_id(route, "/a", at(60_000)), ..Request::default() };
    let (first, _) = engine.begin(route, &request, at(60_000));
    let outcome = Outcome { retry_after: Some(Duration::from_secs(1)), ..Outcome::of(Class::Throttled) };
    let _ = engine.on(first, Event::Finished { attempt: 1, outcome }, at(60_000));
    let held = view(&engine, 60_000);
    assert_eq!((held.hold, held.active), (Some(HoldView { held: 0, holds: 1 }), 1));
    let (_, step) = engine.begin(route, &request, at(70_000));
    assert_eq!(step.action(), Action::Wait { why: Wait::Hold });
    assert_eq!(view(&engine, 70_000).hold, Some(HoldView { held: 1, holds: 1 }));
    let pool = PoolView { limit: 6, kind: LimitKind::Aimd, in_flight: 1, waiting: 0, max_queue: 2 };
    assert_eq!(view(&engine, 70_000).pool, Some(pool));
    assert_eq!(
        [LimitKind::Fixed, LimitKind::Aimd, LimitKind::Gradient2].map(LimitKind::name),
        ["fixed", "aimd", "gradient2"]
    );
    let _ = engine.on(first, Event::Cancel, at(80_000));
    engine.force_open(id, None, true, at(90_000));
    let forced = view(&engine, 9 * SECOND);
    assert_eq!((forced.forced, forced.hold), (true, Some(HoldView { held: 0, holds: 0 })), "it is over");
}

#[test]
fn a_shared_bulkhead_is_shown_once_and_under_its_own_name() {
    let (mut engine, _) = engine(&[("deadline", Number(1e6))]);
    let pairs = [("max_concurrency", Number(2.0)), ("max_queue", Number(1.0))];
    engine.pool(Pool::from_pairs("db", PoolKind::Bulkhead, &pairs).unwrap(), at(0)).unwrap();
    let user = tidegate::Policy::from_pairs("user", &[("bulkhead.pool", Text("db"))]).unwrap();
    let id = engine.policy(user).unwrap();
    for key in ["a", "b", "c"] {
        let route = engine.route(id, key, at(0));
        let _ = engine.begin(route, &Request::default(), at(0));
    }
    let shown = engine.snapshot(at(1));
    assert!(shown.routes.iter().all(|route| route.pool.is_none()));
    let db = &shown.pools[0];
    assert_eq!((db.name.as_str(), db.kind, shown.pools.len()), ("db", PoolKind::Bulkhead, 1));
    let pool = PoolView { limit: 2, kind: LimitKind::Fixed, in_flight: 2, waiting: 1, max_queue: 1 };
    assert_eq!((db.pool, db.rate, db.budget), (Some(pool), None, None));
}
