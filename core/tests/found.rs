//! What the independent model (`tests/model`) and the fuzz targets (`tests/fuzz`) found, each with the schedule that showed it.

use crate::host::{Host, SECOND, at, bulkhead, of, verdict};
use Value::{Number, Text};
use tidegate::{
    Action, AdaptiveThrottle, Backoff, Class, Criticality, Duration, Engine, Event, Growth, Jitter, Options,
    Policy, Pool, PoolKind, RatioBudget, RatioSettings, Request, RetryBudget, ThrottleSettings, TokenBudget,
    TokenSettings, Value, Verdict, Wait, WindowSettings,
};

#[test]
fn a_retry_that_waits_for_stopped_attempts_is_charged_once_and_polls_change_nothing() {
    let mut host = Host::new(&[
        ("attempt_timeout", Number(10.0)),
        ("retry.max_attempts", Number(12.0)),
        ("retry.backoff.base", Number(0.0)),
        ("retry.backoff.jitter", Text("none")),
        ("retry.budget.kind", Text("window")),
    ]);
    let call = host.start(Request { abortable: false, ..Request::default() }, 0);
    // Attempt 1 is stopped and never reported; 2 to 8 fail at once.
    assert_eq!(host.poll(call, 10).action(), Action::Wait { why: Wait::Backoff });
    assert_eq!(host.poll(call, 10).action(), Action::Attempt { attempt: 2, hedge: false });
    for attempt in 2..8 {
        let step = host.finish(call, attempt, of(Class::Transient), 10);
        assert_eq!(step.action(), Action::Attempt { attempt: attempt + 1, hedge: false });
    }
    let step = host.finish(call, 8, of(Class::Transient), 10);
    assert_eq!(step.action(), Action::Wait { why: Wait::Running });
    let before = host.engine.snapshot(at(10)).routes[0].budget;
    assert_eq!(host.poll(call, 10), step);
    assert_eq!(host.engine.snapshot(at(10)).routes[0].budget, before);
    // Its host was told to come after 60 s: it is not lost when it does.
    let _ = host.begin(Request::default(), 10 + 60 * SECOND);
    let _ = host.begin(Request::default(), 10 + 60 * SECOND);
    assert_eq!(
        host.poll(call, 11 + 60 * SECOND).action(),
        Action::Attempt { attempt: 9, hedge: false },
        "R9: overdue is 60 s after the moment told"
    );
}

#[test]
fn a_free_retry_that_never_starts_mints_nothing() {
    let mut host = Host::new(&[
        ("retry.budget.kind", Text("ratio")),
        ("retry.budget.ratio", Number(0.1)),
        ("retry.budget.min_throughput", Number(1.0)),
    ]);
    let free = host.start(Request::default(), 0);
    let _ = host.finish(free, 1, of(Class::Transient), 0);
    let next = host.start(Request::default(), 0);
    let _ = host.engine.on(free, Event::Cancel, at(0));
    assert_eq!(verdict(host.finish(next, 1, of(Class::Transient), 0)), Verdict::Budget);
}

/// Trace 760 of seed 77: core counted the refusal as a drop unless the route had a cooldown too.
#[test]
fn the_refusal_of_an_inner_policy_is_no_drop_of_gradient2_4_3_11() {
    let pairs = [("bulkhead.kind", Text("gradient2")), ("bulkhead.max_concurrency", Number(3.0))];
    for (inner_is_refused, limit) in [(true, 3), (false, 1)] {
        let mut host = Host::new(&pairs);
        let _ = host.start(Request::default(), 0);
        let around = host.start(Request::default(), 0);
        if inner_is_refused {
            let late =
                Request { parent: Some(around), remaining: Some(Duration::ZERO), ..Request::default() };
            assert_eq!(verdict(host.begin(late, 1).1), Verdict::DeadlineBefore);
        }
        let _ = host.finish(around, 1, of(Class::Throttled), 2);
        let pool = host.engine.snapshot(at(2)).routes[0].pool.unwrap();
        assert_eq!(pool.limit, limit, "refused: {inner_is_refused}");
    }
}

#[test]
fn deadlines_nest_without_the_hosts_help() {
    let mut host = Host::new(&[("deadline", Number(1e6))]);
    let around = host.start(Request::default(), 0);
    let inner = Request { parent: Some(around), ..Request::default() };
    let (_, step) = host.begin(inner, 600_000);
    assert_eq!(step.next(), Some(Duration::from_micros(400_000)));
    let (_, step) = host.begin(inner, SECOND);
    assert_eq!(verdict(step), Verdict::DeadlineBefore);
}

#[test]
fn a_report_of_an_attempt_that_never_was_frees_nothing() {
    let mut host = Host::new(&bulkhead(1.0, 0.0));
    let call = host.start(Request { abortable: false, ..Request::default() }, 0);
    let _ = host.engine.on(call, Event::Cancel, at(0));
    for attempt in [0, 9, 17, 255] {
        assert_eq!(verdict(host.finish(call, attempt, of(Class::Ok), 1)), Verdict::Stale);
        assert_eq!(verdict(host.begin(Request::default(), 1).1), Verdict::QueueFull);
    }
    assert_eq!(verdict(host.finish(call, 1, of(Class::Ok), 2)), Verdict::Stale);
    host.start(Request::default(), 2);
}

#[test]
fn a_racing_hedge_gives_nothing_back_to_a_budget_that_it_never_paid() {
    let hedging = |kind, min_retries| {
        [
            ("hedge.delay", Number(10.0)),
            ("retry.max_attempts", Number(2.0)),
            ("retry.budget.kind", Text(kind)),
            ("retry.budget.min_retries", Number(min_retries)),
            ("retry.budget.share", Number(0.0)),
        ]
    };
    let mut host = Host::new(&hedging("window", 1.0));
    let old = host.start(Request::default(), 0);
    let hedge = Action::Attempt { attempt: 2, hedge: true };
    assert_eq!(host.poll(old, 10).action(), hedge);
    let to = Policy::from_pairs("p", &hedging("share", 1.0)).unwrap();
    let _ = host.engine.retune(host.policy, to, at(10)).unwrap();
    host.engine.check().unwrap();
    // The one retry of the new budget goes to another call; the old one's end must not free it.
    let (new, third) = (host.start(Request::default(), 10), host.start(Request::default(), 10));
    assert_eq!(host.poll(new, 20).action(), hedge);
    let _ = host.finish(old, 2, of(Class::Ok), 20);
    host.engine.check().unwrap();
    assert_eq!(host.poll(third, 20).action(), Action::Wait { why: Wait::Running });
}

#[test]
fn parts_take_settings_that_no_policy_may_have() {
    let mut tokens = TokenBudget::new(TokenSettings { max: 1, ratio: f64::INFINITY });
    tokens.on_failure();
    tokens.on_success();
    assert!(tokens.allows());
    let mut ratio = RatioBudget::new(RatioSettings { ratio: f64::INFINITY, min_throughput: 2 });
    (0..3).for_each(|_| ratio.on_call());
    ratio.refund();
    assert!(ratio.try_withdraw());
    // A window of nothing numbers its slices up to the last number there is.
    let mut window = RetryBudget::new(WindowSettings { ttl: Duration::ZERO, ..WindowSettings::default() });
    for now in [0, u64::MAX, u64::MAX, u64::MAX] {
        window.deposit(at(now));
        assert_eq!(window.balance(at(now)), 0);
    }
    let settings = ThrottleSettings {
        k: f64::INFINITY,
        window: Duration::from_secs(1),
        min_throughput: 0,
        max_reject: Some(1e9),
        ..ThrottleSettings::default()
    };
    let p = AdaptiveThrottle::new(settings, at(0)).probability(at(0));
    assert!((0.0..=1.0).contains(&p), "{p}");
    let base = Duration::from_millis(1);
    let backoff = Backoff {
        growth: Growth::Exponential(f64::NAN),
        base,
        max: Duration::from_secs(1),
        jitter: Jitter::None,
    };
    assert_eq!([1, 2, 9].map(|n| backoff.ceiling(n)), [base; 3]);
}

#[test]
fn a_policy_that_names_a_budget_may_give_up_its_retries_and_take_them_up_again() {
    let mut engine = Engine::new(1, Options::default());
    let retries = [("kind", Text("ratio")), ("ratio", Number(0.5))];
    engine.pool(Pool::from_pairs("spare", PoolKind::Budget, &retries).unwrap(), at(0)).unwrap();
    let with = |attempts| {
        let pairs = [("retry.max_attempts", Number(attempts)), ("retry.budget.pool", Text("spare"))];
        Policy::from_pairs("p", &pairs).unwrap()
    };
    let policy = engine.policy(with(3.0)).unwrap();
    let route = engine.route(policy, "r", at(0));
    engine.retune(policy, with(1.0), at(0)).unwrap();
    for _ in 0..4 {
        let (call, _) = engine.begin(route, &Request::default(), at(0));
        let _ = engine.on(call, Event::Finished { attempt: 1, outcome: of(Class::Ok) }, at(0));
    }
    assert_eq!(
        engine.snapshot(at(0)).pools[0].budget,
        Some(1),
        "its calls earn for all who share the budget"
    );
    engine.retune(policy, with(3.0), at(0)).unwrap();
}

#[test]
fn a_bulkhead_that_comes_while_calls_wait_for_a_rate_gives_them_no_permits_of_its_own() {
    let rate = [
        ("rate_limit.permits", Number(1.0)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.wait", Number(1.0)),
        ("rate_limit.max_wait", Number(9e6)),
    ];
    let mut host = Host::new(&rate);
    let runs = host.start(Request::default(), 0);
    let (waits, _) = host.begin(Request::default(), 0);
    let with = [&rate[..], &bulkhead(2.0, 0.0)].concat();
    host.engine.retune(host.policy, Policy::from_pairs("p", &with).unwrap(), at(0)).unwrap();
    host.engine.check().unwrap();
    assert_eq!(host.poll(waits, SECOND).action(), Action::Attempt { attempt: 1, hedge: false });
    host.engine.check().unwrap();
    for call in [runs, waits] {
        let _ = host.finish(call, 1, of(Class::Ok), SECOND);
    }
    assert_eq!(host.engine.snapshot(at(SECOND)).routes[0].pool.unwrap().in_flight, 0);
}

#[test]
fn a_call_that_costs_more_than_a_retuned_rate_holds_is_refused_and_waits_for_nothing() {
    let rate = |permits: f64| {
        let pairs = [
            ("rate_limit.permits", Number(permits)),
            ("rate_limit.per", Number(1e6)),
            ("rate_limit.unit", Text("attempt")),
            ("rate_limit.wait", Number(1.0)),
            ("rate_limit.max_wait", Number(60e6)),
            ("retry.max_attempts", Number(3.0)),
            ("retry.backoff.base", Number(0.0)),
        ];
        Policy::from_pairs("p", &pairs).unwrap()
    };
    let mut engine = Engine::new(1, Options::default());
    let policy = engine.policy(rate(5.0)).unwrap();
    let route = engine.route(policy, "a", at(0));
    let cost = |cost| Request { cost, idempotent: true, replayable: true, ..Request::default() };
    let (running, step) = engine.begin(route, &cost(5), at(0));
    assert!(matches!(step.action(), Action::Attempt { .. }));
    let (dear, step) = engine.begin(route, &cost(5), at(0));
    assert!(matches!(step.action(), Action::Wait { why: Wait::Rate }));
    let (cheap, _) = engine.begin(route, &cost(1), at(0));
    let flags = engine.retune(policy, rate(4.0), at(0)).unwrap();
    assert!(flags.wakes);
    let step = engine.on(dear, Event::Poll, at(0));
    assert_eq!(verdict(step), Verdict::CostAboveBurst);
    // Five tokens are missing where four is all there can be: two flow in until it has its own.
    let step = engine.on(cheap, Event::Poll, at(SECOND / 4));
    assert!(matches!(step.action(), Action::Wait { why: Wait::Rate }), "it pays for the five: {step:?}");
    let step = engine.on(cheap, Event::Poll, at(SECOND / 2));
    assert!(matches!(step.action(), Action::Attempt { .. }), "who stood behind it goes on: {step:?}");
    // One that has begun before asks for its next attempt.
    let failed = Event::Finished { attempt: 1, outcome: of(Class::Transient) };
    let mut step = engine.on(running, failed, at(9 * SECOND));
    if let Action::Wait { .. } = step.action() {
        step = engine.on(running, Event::Timer, at(10 * SECOND));
    }
    assert_eq!(verdict(step), Verdict::Readmission, "{step:?}");
}

/// R12: a permit of a call counts all its attempts once, a permit of an attempt counts one.
#[test]
fn r12_a_retry_beside_an_attempt_that_still_ends_holds_a_permit_of_its_own_where_the_unit_says_so() {
    for (unit, both) in [("call", 1), ("attempt", 2)] {
        let mut host = Host::new(&[
            ("attempt_timeout", Number(10.0)),
            ("retry.max_attempts", Number(3.0)),
            ("retry.backoff.base", Number(0.0)),
            ("retry.backoff.jitter", Text("none")),
            ("bulkhead.max_concurrency", Number(2.0)),
            ("bulkhead.unit", Text(unit)),
        ]);
        let permits = |host: &Host, now: u64| {
            host.engine.snapshot(at(now)).routes[0].pool.as_ref().map(|pool| pool.in_flight)
        };
        let call = host.start(Request { abortable: false, ..Request::default() }, 0);
        assert_eq!(host.poll(call, 10).action(), Action::Wait { why: Wait::Backoff });
        assert_eq!(host.poll(call, 10).action(), Action::Attempt { attempt: 2, hedge: false });
        assert_eq!(permits(&host, 10), Some(both), "{unit}: two attempts run");
        assert_eq!(verdict(host.finish(call, 2, of(Class::Ok), 11)), Verdict::Ok);
        assert_eq!(permits(&host, 11), Some(1), "{unit}: the first attempt still runs");
        let _ = host.finish(call, 1, of(Class::Timeout), 12);
        assert_eq!(permits(&host, 12), Some(0), "{unit}: both have ended");
    }
}

/// R6.1, 13.1.4: the permit of an attempt that will not start goes to the next waiter at once, also while an earlier attempt is
/// still ending.
#[test]
fn a_permit_for_a_next_attempt_does_not_wait_for_the_end_of_the_last_one() {
    let more = [
        ("bulkhead.unit", Text("attempt")),
        ("attempt_timeout", Number(1_000.0)),
        ("retry.max_attempts", Number(2.0)),
        ("retry.backoff.base", Number(0.0)),
    ];
    let mut host = Host::new(&[&bulkhead(2.0, 8.0)[..], &more].concat());
    let call = host.start(Request { abortable: false, ..Request::default() }, 0);
    let holder = host.start(Request::default(), 500);
    assert_eq!(host.poll(call, 1_000).action(), Action::Wait { why: Wait::Backoff });
    assert_eq!(host.poll(call, 1_000).action(), Action::Wait { why: Wait::Queue });
    let next = host.park(1_000);
    let _ = host.finish(holder, 1, of(Class::Ok), 1_001);
    assert_eq!(host.wakes(), [call], "it has the permit");
    assert_eq!(verdict(host.engine.on(call, Event::Cancel, at(1_002))), Verdict::Cancelled);
    assert_eq!(host.wakes(), [next]);
    host.engine.check().unwrap();
    assert_eq!(host.poll(next, 1_002).action(), Action::Attempt { attempt: 1, hedge: false });
    // The first attempt still runs under a permit of its own (R12).
    let after = host.park(1_002);
    let _ = host.finish(call, 1, of(Class::Cancelled), 1_003);
    assert_eq!(host.wakes(), [after]);
}

/// R3.2, 3.10.9: a newcomer that displaces the head, and whose tokens are there, does not wait for them.
#[test]
fn a_newcomer_that_displaces_the_head_takes_its_tokens_at_once() {
    let pairs = [
        ("rate_limit.limits", Text("slow: permits=10 per=100s burst=10")),
        ("rate_limit.wait", Number(1.0)),
        ("rate_limit.max_wait", Number(100e6)),
        ("rate_limit.max_waiters", Number(1.0)),
        ("rate_limit.prioritized", Number(1.0)),
    ];
    let mut host = Host::new(&pairs);
    let of = |cost, criticality| Request { cost, criticality, ..Request::default() };
    let _ = host.start(of(6, Criticality::Normal), 0);
    let (head, step) = host.begin(of(8, Criticality::BestEffort), 0);
    assert_eq!(step.action(), Action::Wait { why: Wait::Rate });
    let (_, step) = host.begin(of(3, Criticality::Critical), 0);
    assert_eq!(step.action(), Action::Attempt { attempt: 1, hedge: false });
    assert_eq!(host.wakes(), [head]);
    assert_eq!(verdict(host.poll(head, 0)), Verdict::RateLimited);
    host.engine.check().unwrap();
}
