//! What a snapshot shows of every part (semantics 12: counters are pulled).

use Value::{Number, Text};
use tidegate::{
    Action, BreakerState, Class, Duration, Engine, Event, Options, Outcome, Policy, PolicyId, Pool, PoolKind,
    Request, RouteId, RouteView, Time, Value,
};

const SECOND: f64 = 1e6;

fn at(seconds: u64) -> Time {
    Time::from_micros(seconds * 1_000_000)
}

fn take_in(engine: &mut Engine, pairs: &[(&str, Value<'_>)]) -> (PolicyId, RouteId) {
    let policy = engine.policy(Policy::from_pairs("p", pairs).unwrap()).unwrap();
    (policy, engine.route(policy, "r", at(0)))
}

fn view(engine: &Engine, now: Time) -> RouteView {
    engine.snapshot(now).routes[0].clone()
}

/// A call of one attempt that ends like this.
fn call(engine: &mut Engine, route: RouteId, outcome: Outcome, now: Time) {
    let (call, step) = engine.begin(route, &Request::default(), now);
    assert!(matches!(step.action, Action::Attempt { .. }), "{step:?}");
    let _ = engine.on(call, Event::Finished { attempt: 1, outcome }, now);
}

#[test]
fn a_breaker_says_where_it_stands_and_until_when() {
    let mut engine = Engine::new(1, Options::default());
    let pairs = [
        ("breaker.consecutive", Number(2.0)),
        ("breaker.break_duration", Number(5.0 * SECOND)),
        ("breaker.break_factor", Number(1.0)),
    ];
    let (_, route) = take_in(&mut engine, &pairs);
    let breaker = |engine: &Engine, now| view(engine, now).breaker.map(|it| (it.state, it.retry_in));
    assert_eq!(breaker(&engine, at(0)), Some((BreakerState::Closed, None)));
    for _ in 0..2 {
        call(&mut engine, route, Outcome::of(Class::Transient), at(1));
    }
    assert_eq!(breaker(&engine, at(2)), Some((BreakerState::Open, Some(Duration::from_secs(4)))));
    assert_eq!(breaker(&engine, at(6)), Some((BreakerState::Open, None)), "a call now would be a probe");
    call(&mut engine, route, Outcome::of(Class::Ok), at(6));
    assert_eq!(breaker(&engine, at(6)), Some((BreakerState::Closed, None)));
}

#[test]
fn a_throttle_says_how_likely_it_refuses_and_looking_changes_nothing() {
    let mut engine = Engine::new(1, Options::default());
    let pairs = [("throttle.min_throughput", Number(4.0)), ("throttle.probe_interval", Text("none"))];
    let (_, route) = take_in(&mut engine, &pairs);
    assert_eq!(view(&engine, at(0)).throttle, Some(0.0));
    for _ in 0..4 {
        call(&mut engine, route, Outcome::of(Class::Transient), at(1));
    }
    assert_eq!(view(&engine, at(1)).throttle, Some(4.0 / 5.0));
    assert_eq!(view(&engine, at(500)).throttle, Some(0.0), "the window has passed");
    assert_eq!(view(&engine, at(1)).throttle, Some(4.0 / 5.0));
}

#[test]
fn a_rate_limit_says_its_tokens_and_a_forced_route_that_it_is() {
    let mut engine = Engine::new(1, Options::default());
    let pairs = [("rate_limit.permits", Number(10.0)), ("rate_limit.per", Number(SECOND))];
    let (policy, route) = take_in(&mut engine, &pairs);
    for _ in 0..3 {
        call(&mut engine, route, Outcome::of(Class::Ok), at(0));
    }
    let seen = view(&engine, at(0));
    assert_eq!(seen.rate.map(|rate| (rate.tokens, rate.waiting)), Some((7, 0)));
    assert_eq!(
        (seen.breaker, seen.throttle, seen.pool, seen.budget, seen.forced),
        (None, None, None, None, false)
    );
    assert_eq!(view(&engine, Time::from_micros(100_000)).rate.map(|rate| rate.tokens), Some(8));
    let _ = engine.force_open(policy, Some(route), true, at(0));
    assert!(view(&engine, at(0)).forced);
    let _ = engine.force_open(policy, Some(route), false, at(0));
    assert!(!view(&engine, at(0)).forced);
}

#[test]
fn a_hold_says_what_it_holds_and_for_how_long() {
    let mut engine = Engine::new(1, Options::default());
    let (_, route) = take_in(&mut engine, &[("preset", Text("graph")), ("retry.max_held", Number(5.0))]);
    let begin = |engine: &mut Engine| {
        let target = engine.target(route, "/me/messages", at(0));
        engine.begin(route, &Request { target, ..Request::default() }, at(0))
    };
    let (first, _) = begin(&mut engine);
    let throttled = Outcome::of(Class::Throttled).retry_after(Duration::from_secs(20));
    let _ = engine.on(first, Event::Finished { attempt: 1, outcome: throttled }, at(0));
    let (_, step) = begin(&mut engine);
    assert!(matches!(step.action, Action::Wait { .. }), "{step:?}");
    let seen = view(&engine, at(5));
    assert_eq!(seen.held, 1);
    let [(path, left)] = &seen.holds[..] else { panic!("{:?}", seen.holds) };
    assert!(path.contains("messages"), "{path}");
    assert!(*left >= Duration::from_secs(15) && *left <= Duration::from_secs(17), "{left}");
}

#[test]
fn pools_are_seen_by_their_names() {
    let mut engine = Engine::new(1, Options::default());
    let mut pool = |name: &str, kind, pairs: &[(&str, Value<'_>)]| {
        engine.pool(Pool::from_pairs(name, kind, pairs).unwrap(), at(0)).unwrap();
    };
    pool("db", PoolKind::Bulkhead, &[("max_concurrency", Number(2.0)), ("max_queue", Number(3.0))]);
    pool("api", PoolKind::RateLimit, &[("permits", Number(9.0)), ("per", Number(SECOND))]);
    pool("all", PoolKind::Budget, &[("min_retries_per_sec", Number(1.0))]);
    let pairs =
        [("bulkhead.pool", Text("db")), ("rate_limit.pool", Text("api")), ("retry.budget.pool", Text("all"))];
    let (policy, route) = take_in(&mut engine, &pairs);
    let _ = engine.begin(route, &Request::default(), at(0));
    assert_eq!(engine.setting(policy, "bulkhead.max_queue"), Some(Number(3.0)), "it stands in the pool");
    assert_eq!(engine.setting(policy, "bulkhead.acquire_timeout"), Some(Number(SECOND)));
    assert_eq!(engine.setting(policy, "retry.budget.min_retries_per_sec"), Some(Number(1.0)));
    assert_eq!(engine.setting(policy, "bulkhead.pool"), Some(Text("db")));
    let seen = engine.snapshot(at(0));
    let [all, api, db] = &seen.pools[..] else { panic!("{:?}", seen.pools) };
    assert_eq!((all.name.as_str(), all.kind, all.budget), ("all", PoolKind::Budget, Some(10)));
    assert_eq!((api.name.as_str(), api.rate.map(|rate| rate.tokens)), ("api", Some(8)));
    let permits = db.pool.map(|pool| (pool.limit, pool.in_flight, pool.waiting, pool.max_queue));
    assert_eq!((db.name.as_str(), permits), ("db", Some((2, 1, 0, 3))));
    assert_eq!((seen.routes[0].pool, seen.routes[0].rate, seen.routes[0].budget), (None, None, None));
    assert_eq!(engine.pool_of("db").and_then(|pool| pool.value("max_queue")), Some(Number(3.0)));
    assert_eq!(engine.pool_of("dbs"), None);
}
