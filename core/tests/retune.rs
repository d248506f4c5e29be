//! Other settings for a policy in use (semantics 0.6): stories, and the rules under random retunes.

use crate::world::{POLICIES, World, op};
use Value::{Number, Text};
use proptest::prelude::*;
use tidegate::{
    Action, BreakerState, CallId, Class, Duration, Engine, Event, Options, Outcome, Policy, PolicyId,
    Request, RouteId, Step, Time, Value, Verdict, Wait,
};

type Pairs = Vec<(&'static str, Value<'static>)>;

struct Host {
    engine: Engine,
    policy: PolicyId,
    route: RouteId,
}

fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

fn built(pairs: &Pairs) -> Policy {
    Policy::from_pairs("p", pairs).unwrap()
}

impl Host {
    fn new(pairs: &Pairs) -> Self {
        let mut engine = Engine::new(42, Options::default());
        let policy = engine.policy(built(pairs)).unwrap();
        let route = engine.route(policy, "r", at(0));
        Self { engine, policy, route }
    }

    /// Retunes, and answers whom that woke.
    fn retune(&mut self, pairs: &Pairs, micros: u64) -> Vec<CallId> {
        let flags = self.engine.retune(self.policy, built(pairs), at(micros)).unwrap();
        self.engine.check().unwrap();
        let mut wakes = Vec::new();
        self.engine.take_wakes(&mut wakes);
        assert_eq!(flags.wakes, !wakes.is_empty());
        wakes
    }

    fn begin(&mut self, micros: u64) -> (CallId, Step) {
        let (call, step) = self.engine.begin(self.route, &Request::default(), at(micros));
        self.engine.check().unwrap();
        (call, step)
    }

    fn start(&mut self, micros: u64) -> CallId {
        let (call, step) = self.begin(micros);
        assert_eq!(step.action(), Action::Attempt { attempt: 1, hedge: false });
        call
    }

    fn park(&mut self, micros: u64) -> CallId {
        let (call, step) = self.begin(micros);
        assert_eq!(step.action(), Action::Wait { why: Wait::Queue });
        call
    }

    fn finish(&mut self, call: CallId, attempt: u8, class: Class, micros: u64) -> Step {
        let step = self.engine.on(call, Event::Finished { attempt, outcome: Outcome::of(class) }, at(micros));
        self.engine.check().unwrap();
        step
    }

    fn poll(&mut self, call: CallId, micros: u64) -> Step {
        self.engine.on(call, Event::Poll, at(micros))
    }

    fn in_flight(&self) -> u32 {
        self.engine.snapshot(at(0)).routes[0].pool.unwrap().in_flight
    }
}

fn verdict(step: Step) -> Verdict {
    match step.action() {
        Action::Done { verdict, .. } => verdict,
        action => panic!("not done: {action:?}"),
    }
}

fn bulkhead(limit: f64, queue: f64) -> Pairs {
    vec![
        ("bulkhead.max_concurrency", Number(limit)),
        ("bulkhead.max_queue", Number(queue)),
        ("bulkhead.acquire_timeout", Text("none")),
    ]
}

fn budget(ttl: f64, floor: f64) -> Pairs {
    vec![
        ("retry.backoff.jitter", Text("none")),
        ("retry.backoff.base", Number(1e3)),
        ("retry.budget.ttl", Number(ttl)),
        ("retry.budget.min_retries_per_sec", Number(floor)),
        ("retry.budget.percent_can_retry", Number(0.0)),
    ]
}

#[test]
fn a_limit_that_grows_admits_waiters_in_the_same_step() {
    let mut host = Host::new(&bulkhead(1.0, 5.0));
    let first = host.start(0);
    let waiters = [host.park(0), host.park(0), host.park(0)];
    assert_eq!(host.retune(&bulkhead(3.0, 5.0), 10), waiters[..2]);
    for waiter in &waiters[..2] {
        assert_eq!(host.poll(*waiter, 10).action(), Action::Attempt { attempt: 1, hedge: false });
    }
    assert_eq!(host.poll(waiters[2], 10).action(), Action::Wait { why: Wait::Queue });
    assert_eq!(verdict(host.finish(first, 1, Class::Ok, 20)), Verdict::Ok);
    assert_eq!(host.poll(waiters[2], 20).action(), Action::Attempt { attempt: 1, hedge: false });
}

#[test]
fn a_limit_that_shrinks_evicts_nobody_and_admits_nobody_until_there_is_room() {
    let mut host = Host::new(&bulkhead(3.0, 5.0));
    let running = [host.start(0), host.start(0), host.start(0)];
    assert_eq!(host.retune(&bulkhead(1.0, 1.0), 10), []);
    assert_eq!(host.in_flight(), 3);
    let waiter = host.park(10);
    assert_eq!(verdict(host.begin(10).1), Verdict::QueueFull);
    for call in &running[..2] {
        assert_eq!(verdict(host.finish(*call, 1, Class::Ok, 20)), Verdict::Ok);
        assert_eq!(host.poll(waiter, 20).action(), Action::Wait { why: Wait::Queue });
    }
    assert_eq!(verdict(host.finish(running[2], 1, Class::Ok, 30)), Verdict::Ok);
    assert_eq!(host.poll(waiter, 30).action(), Action::Attempt { attempt: 1, hedge: false });
    assert_eq!(host.in_flight(), 1);
}

#[test]
fn waiters_beyond_a_shorter_queue_keep_their_place() {
    let mut host = Host::new(&bulkhead(1.0, 3.0));
    let first = host.start(0);
    let waiters = [host.park(0), host.park(0)];
    assert_eq!(host.retune(&bulkhead(1.0, 0.0), 10), []);
    assert_eq!(verdict(host.begin(10).1), Verdict::QueueFull);
    let _ = host.finish(first, 1, Class::Ok, 20);
    assert_eq!(host.poll(waiters[0], 20).action(), Action::Attempt { attempt: 1, hedge: false });
}

#[test]
fn a_bulkhead_taken_away_admits_all_who_wait_and_one_put_back_counts_them() {
    let plain = vec![("deadline", Number(1e9))];
    let mut host = Host::new(&bulkhead(1.0, 5.0));
    let mut calls = vec![host.start(0), host.park(0), host.park(0)];
    assert_eq!(host.retune(&plain, 10), calls[1..]);
    assert_eq!(host.engine.snapshot(at(10)).routes[0].pool, None);
    assert_eq!(host.poll(calls[1], 10).action(), Action::Attempt { attempt: 1, hedge: false });
    assert_eq!(host.poll(calls[2], 10).action(), Action::Attempt { attempt: 1, hedge: false });
    calls.push(host.start(10));
    assert_eq!(host.retune(&bulkhead(2.0, 5.0), 20), []);
    assert_eq!(host.in_flight(), 4);
    let waiter = host.park(20);
    for (call, room) in calls.into_iter().zip([false, false, true, true]) {
        assert_eq!(verdict(host.finish(call, 1, Class::Ok, 30)), Verdict::Ok);
        let admitted = host.poll(waiter, 30).action() != Action::Wait { why: Wait::Queue };
        assert_eq!(admitted, room);
    }
}

#[test]
fn a_new_bulkhead_counts_the_calls_in_flight_and_a_nested_one_with_its_ancestor() {
    let mut host = Host::new(&vec![("deadline", Number(1e9))]);
    let outer = host.start(0);
    let nested = Request { parent: Some(outer), ..Request::default() };
    let (inner, _) = host.engine.begin(host.route, &nested, at(0));
    let other = host.start(0);
    assert_eq!(host.retune(&bulkhead(2.0, 5.0), 10), []);
    assert_eq!(host.in_flight(), 2);
    let waiter = host.park(10);
    assert_eq!(verdict(host.finish(inner, 1, Class::Ok, 20)), Verdict::Ok);
    assert_eq!(host.poll(waiter, 20).action(), Action::Wait { why: Wait::Queue });
    assert_eq!(verdict(host.finish(other, 1, Class::Ok, 20)), Verdict::Ok);
    assert_eq!(host.poll(waiter, 20).action(), Action::Attempt { attempt: 1, hedge: false });
    assert_eq!(verdict(host.finish(outer, 1, Class::Ok, 20)), Verdict::Ok);
    assert_eq!(host.in_flight(), 1);
}

#[test]
fn calls_in_flight_finish_under_the_settings_they_began_under() {
    let three = vec![
        ("retry.max_attempts", Number(3.0)),
        ("retry.budget.kind", Text("none")),
        ("retry.backoff.base", Number(0.0)),
        ("attempt_timeout", Number(5e6)),
    ];
    let one = vec![("retry.max_attempts", Number(1.0)), ("attempt_timeout", Number(1e6))];
    let mut host = Host::new(&three);
    let old = host.start(0);
    assert_eq!(host.retune(&one, 10), []);
    let (new, step) = host.begin(10);
    assert_eq!(step.next(), Some(Duration::from_secs(1)));
    assert_eq!(verdict(host.finish(new, 1, Class::Transient, 20)), Verdict::Attempts);
    let step = host.finish(old, 1, Class::Transient, 20);
    assert_eq!(step.action(), Action::Attempt { attempt: 2, hedge: false });
    assert_eq!(step.next(), Some(Duration::from_secs(5)));
    // And twice more, so that three generations of settings are in use at once.
    assert_eq!(host.retune(&three, 30), []);
    let third = host.start(30);
    assert_eq!(host.retune(&one, 40), []);
    assert_eq!(
        host.finish(old, 2, Class::Transient, 50).action(),
        Action::Attempt { attempt: 3, hedge: false }
    );
    assert_eq!(
        host.finish(third, 1, Class::Transient, 50).action(),
        Action::Attempt { attempt: 2, hedge: false }
    );
    assert_eq!(verdict(host.finish(old, 3, Class::Transient, 60)), Verdict::Attempts);
    assert_eq!(verdict(host.finish(third, 2, Class::Ok, 60)), Verdict::Ok);
    let snapshot = host.engine.snapshot(at(60));
    assert_eq!(snapshot.policies.len(), 1);
    let (name, counts) = &snapshot.policies[0];
    assert_eq!((name.as_str(), counts.attempts, counts.retries), ("p", 6, 3));
    assert_eq!((counts.ended(Verdict::Attempts), counts.ended(Verdict::Ok)), (2, 1));
}

/// A retune to one attempt removes the retry budget. Calls in flight then make no retries, because without a budget each of
/// them could make all its attempts and exceed the printed bound.
#[test]
fn a_retune_to_one_attempt_ends_retries_that_a_budget_paid() {
    let three = vec![("retry.max_attempts", Number(3.0)), ("retry.backoff.base", Number(0.0))];
    let one = vec![("retry.max_attempts", Number(1.0))];
    let mut host = Host::new(&three);
    let [first, second] = [host.start(0), host.start(0)];
    assert_eq!(host.retune(&one, 10), []);
    assert_eq!(verdict(host.finish(first, 1, Class::Transient, 20)), Verdict::Budget);
    // With kind `none` the operator asked for retries without a budget.
    let free = vec![("retry.max_attempts", Number(2.0)), ("retry.budget.kind", Text("none"))];
    assert_eq!(host.retune(&free, 30), []);
    assert_eq!(
        host.finish(second, 1, Class::Transient, 40).action(),
        Action::Attempt { attempt: 2, hedge: false }
    );
}

#[test]
fn old_settings_are_forgotten_when_their_calls_have_ended() {
    let mut host = Host::new(&vec![("deadline", Number(1e9))]);
    for n in 0..70_000_u32 {
        let call = host.engine.begin(host.route, &Request::default(), at(0)).0;
        let settings = vec![("deadline", Number(f64::from(n + 1)))];
        assert!(host.engine.retune(host.policy, built(&settings), at(0)).is_ok(), "after {n}");
        let step =
            host.engine.on(call, Event::Finished { attempt: 1, outcome: Outcome::of(Class::Ok) }, at(0));
        assert_eq!(verdict(step), Verdict::Ok);
    }
    assert_eq!(host.engine.snapshot(at(0)).policies[0].1.ended(Verdict::Ok), 70_000);
}

#[test]
fn a_budget_keeps_what_it_has_counted_where_the_ttl_changes() {
    let left_at = |host: &Host, now| host.engine.snapshot(at(now)).routes[0].budget;
    let left = |host: &Host| left_at(host, 1_000);
    let mut host = Host::new(&budget(10e6, 0.3));
    for _ in 0..2 {
        let call = host.start(0);
        assert_eq!(host.finish(call, 1, Class::Transient, 0).action(), Action::Wait { why: Wait::Backoff });
    }
    assert_eq!(left(&host), Some(1));
    host.retune(&budget(10e6, 0.5), 10);
    assert_eq!(left(&host), Some(3));
    host.retune(&budget(10e6, 0.1), 10);
    assert_eq!(left(&host), Some(0));
    host.retune(&budget(20e6, 0.1), 10);
    assert_eq!(left(&host), Some(0));
    host.retune(&budget(20e6, 0.2), 10);
    assert_eq!(left_at(&host, 9_999_999), Some(0), "no second floor before the first would have come back");
    assert_eq!(left_at(&host, 10_000_000), Some(2), "and two count for 20 s from now on");
    host.retune(&vec![("retry.budget.kind", Text("none"))], 10);
    assert_eq!(left(&host), None);
}

#[test]
fn a_ttl_that_shrinks_and_grows_again_grants_no_second_floor() {
    let mut host = Host::new(&budget(10e6, 1.0));
    let mut retries = 0;
    for second in 0..=30_u64 {
        let now = second * 1_000_000;
        host.retune(&budget(if second % 2 == 0 { 10e6 } else { 1e6 }, 1.0), now);
        for _ in 0..20 {
            let call = host.start(now);
            let step = host.finish(call, 1, Class::Transient, now);
            retries += u64::from(step.action() == Action::Wait { why: Wait::Backoff });
        }
        assert!(retries <= second + 11, "{retries} retries in {second} s");
    }
    assert!(retries >= 30, "{retries}");
}

#[test]
fn every_kind_of_budget_goes_on_with_what_it_has_counted() {
    let kind = |kind, more: &[(&'static str, f64)]| -> Pairs {
        let first = [("retry.budget.kind", Text(kind)), ("retry.backoff.jitter", Text("none"))];
        first.into_iter().chain(more.iter().map(|(key, value)| (*key, Number(*value)))).collect()
    };
    for (before, then, after, now) in [
        // Six failures of ten tokens: none above half. Of twenty, four.
        (
            kind("tokens", &[("retry.budget.max", 10.0), ("retry.budget.ratio", 0.1)]),
            0,
            kind("tokens", &[("retry.budget.max", 20.0), ("retry.budget.ratio", 0.1)]),
            4,
        ),
        // Each retry in flight costs 5 of 40: two are left, and of 50 four.
        (
            kind("quota", &[("retry.budget.capacity", 40.0)]),
            2,
            kind("quota", &[("retry.budget.capacity", 50.0)]),
            4,
        ),
        (
            kind("share", &[("retry.budget.min_retries", 8.0)]),
            2,
            kind("share", &[("retry.budget.min_retries", 7.0)]),
            1,
        ),
        // Six calls earn three retries; as many are taken, and a lower price gives none back.
        (kind("ratio", &[("retry.budget.ratio", 0.5)]), 0, kind("ratio", &[("retry.budget.ratio", 1.0)]), 0),
    ] {
        let mut host = Host::new(&before);
        for _ in 0..6 {
            let call = host.start(0);
            let _ = host.finish(call, 1, Class::Transient, 0);
        }
        let left = |host: &Host| host.engine.snapshot(at(0)).routes[0].budget;
        assert_eq!(left(&host), Some(then), "{before:?}");
        host.retune(&after, 0);
        assert_eq!(left(&host), Some(now), "{after:?}");
    }
}

#[test]
fn a_retry_paid_to_a_budget_that_is_gone_is_not_refunded_by_the_next() {
    let mut host = Host::new(&budget(10e6, 0.1));
    let old = host.start(0);
    assert_eq!(host.finish(old, 1, Class::Transient, 0).action(), Action::Wait { why: Wait::Backoff });
    let quota = ("retry.budget.capacity", Number(5.0));
    host.retune(&vec![("retry.budget.kind", Text("quota")), quota], 0);
    assert_eq!(
        host.engine.snapshot(at(0)).routes[0].budget,
        Some(0),
        "another kind starts without its burst"
    );
    for _ in 0..5 {
        let call = host.start(0);
        assert_eq!(verdict(host.finish(call, 1, Class::Ok, 0)), Verdict::Ok);
    }
    let new = host.start(0);
    assert_eq!(host.finish(new, 1, Class::Transient, 0).action(), Action::Wait { why: Wait::Backoff });
    assert_eq!(verdict(host.engine.on(old, Event::Cancel, at(0))), Verdict::Cancelled);
    assert_eq!(host.engine.snapshot(at(0)).routes[0].budget, Some(0));
    // What was paid to this one is.
    assert_eq!(verdict(host.engine.on(new, Event::Cancel, at(0))), Verdict::Cancelled);
    assert_eq!(host.engine.snapshot(at(0)).routes[0].budget, Some(1));
}

#[test]
fn retune_refuses_what_it_cannot_do() {
    let mut host = Host::new(&bulkhead(1.0, 1.0));
    let other = Policy::from_pairs("q", &bulkhead(1.0, 1.0)).unwrap();
    let clash = host.engine.retune(host.policy, other, at(0)).unwrap_err();
    assert_eq!(clash.to_string(), "policy = \"q\": retune changes a policy's settings, not its name");
    let nowhere = PolicyId::from_word(7);
    assert!(host.engine.retune(nowhere, built(&bulkhead(1.0, 1.0)), at(0)).is_err());
    // The place of old settings is no policy.
    let call = host.start(0);
    host.retune(&bulkhead(2.0, 1.0), 0);
    let stale = host.engine.route(PolicyId::from_word(1), "r", at(0));
    assert_eq!(verdict(host.engine.begin(stale, &Request::default(), at(0)).1), Verdict::StaleRoute);
    assert!(host.engine.retune(PolicyId::from_word(1), built(&bulkhead(1.0, 1.0)), at(0)).is_err());
    assert_eq!(verdict(host.finish(call, 1, Class::Ok, 0)), Verdict::Ok);
    // The same settings again are the same policy, under the new ones.
    assert_eq!(host.engine.policy(built(&bulkhead(2.0, 1.0))), Ok(host.policy));
}

/// Semantics 0.6.10: nothing is congested where there is no limit.
#[test]
fn a_bulkhead_that_is_removed_admits_the_waiters_that_its_queue_would_shed() {
    let queue = vec![
        ("bulkhead.max_concurrency", Number(1.0)),
        ("bulkhead.max_queue", Number(8.0)),
        ("bulkhead.acquire_timeout", Number(60e6)),
        ("bulkhead.queue_target", Number(10e3)),
        ("bulkhead.queue_interval", Number(100e3)),
    ];
    let mut host = Host::new(&queue);
    let _ = host.start(0);
    let waiters = [host.park(1), host.park(2), host.park(3)];
    let none = vec![("retry.max_attempts", Number(1.0))];
    assert_eq!(host.retune(&none, 5_000_000), waiters);
    for waiter in waiters {
        let step = host.engine.on(waiter, Event::Poll, at(5_000_000));
        assert_eq!(step.action(), Action::Attempt { attempt: 1, hedge: false });
    }
}

proptest! {
    /// Every rule at every step while settings change under the calls; and at the end nothing is left behind.
    #[test]
    fn every_rule_holds_while_policies_are_retuned(
        script in prop::collection::vec(
            (op(), prop::option::weighted(0.15, (0..POLICIES.len(), 0..POLICIES.len()))), 1..200,
        ),
        seed: u64,
    ) {
        let run = || {
            let mut world = World::new(1_000_000, seed);
            for (op, retune) in &script {
                world.run(op);
                if let Some((policy, to)) = *retune {
                    world.retune(policy, to);
                }
            }
            world.drain();
            world.words
        };
        prop_assert_eq!(run(), run());
    }
}

/// Semantics 0.6.14 and 0.6.15: of the hedges' own budget, too.
#[test]
fn a_hedge_that_an_earlier_budget_paid_for_frees_no_place_in_the_new_one() {
    let hedged = |kind: &'static str, more: &[(&'static str, Value<'static>)]| -> Pairs {
        let pairs = [("hedge.delay", Number(0.0)), ("hedge.budget.kind", Text(kind))];
        [&pairs[..], more].concat()
    };
    let one = [("hedge.budget.share", Number(0.01)), ("hedge.budget.min_retries", Number(1.0))];
    let share = hedged("share", &one);
    let quota = hedged("quota", &[]);
    for retunes in [&[&share][..], &[&quota, &share]] {
        let mut host = Host::new(if retunes.len() == 1 { &quota } else { &share });
        let hedge = |host: &mut Host| {
            let (call, _) = host.begin(0);
            let step = host.engine.on(call, Event::Poll, at(0));
            host.engine.check().unwrap();
            (call, matches!(step.action(), Action::Attempt { hedge: true, .. }))
        };
        let (first, hedges) = hedge(&mut host);
        assert!(hedges);
        for to in retunes {
            host.retune(to, 0);
        }
        assert!(hedge(&mut host).1, "the one place of the new budget is free");
        let failed = Event::Finished { attempt: 2, outcome: Outcome::of(Class::Transient) };
        let _ = host.engine.on(first, failed, at(0));
        host.engine.check().unwrap();
        assert!(!hedge(&mut host).1, "the place is taken still");
    }
}

/// Semantics 5.3.1: a breaker that comes back does not take the result of a probe of the one before it.
#[test]
fn a_breaker_that_was_removed_and_comes_back_at_once_is_a_new_one_everywhere() {
    let breaker: Pairs = vec![
        ("breaker.consecutive", Number(1.0)),
        ("breaker.break_duration", Number(1e6)),
        ("breaker.break_factor", Number(1.0)),
    ];
    let mut host = Host::new(&breaker);
    // More routes than one step changes; each has a probe.
    let routes: Vec<_> = (0..100).map(|n| host.engine.route(host.policy, &format!("r{n}"), at(0))).collect();
    for &route in &routes {
        host.route = route;
        let call = host.start(0);
        let _ = host.finish(call, 1, Class::Transient, 0);
    }
    let mut probe = |&route: &RouteId| {
        host.route = route;
        host.start(1_000_000)
    };
    let probes: Vec<_> = routes.iter().map(&mut probe).collect();
    host.retune(&vec![("retry.max_attempts", Number(1.0))], 1_000_000);
    host.retune(&breaker, 1_000_000);
    for probe in probes {
        assert_eq!(verdict(host.finish(probe, 1, Class::Ok, 1_000_000)), Verdict::Ok);
    }
    let states = host.engine.snapshot(at(1_000_000)).routes.into_iter().map(|it| it.breaker.unwrap().state);
    assert!(states.into_iter().all(|state| state == BreakerState::Closed));
}

#[test]
fn a_probe_of_a_breaker_that_was_removed_closes_no_later_one() {
    let breaker: Pairs = vec![
        ("breaker.consecutive", Number(1.0)),
        ("breaker.break_duration", Number(1e6)),
        ("breaker.break_factor", Number(1.0)),
    ];
    let mut host = Host::new(&breaker);
    // Opens the breaker, and starts a probe after the break.
    let probe = |host: &mut Host, micros: u64| {
        let call = host.start(micros);
        let _ = host.finish(call, 1, Class::Transient, micros);
        host.start(micros + 1_000_000)
    };
    let state = |host: &Host| host.engine.snapshot(at(2_000_000)).routes[0].breaker.unwrap().state;
    let first = probe(&mut host, 0);
    host.retune(&bulkhead(9.0, 0.0), 1_000_000);
    host.retune(&breaker, 1_000_000);
    let second = probe(&mut host, 1_000_000);
    assert_eq!(verdict(host.finish(first, 1, Class::Ok, 2_000_000)), Verdict::Ok);
    assert_eq!(state(&host), BreakerState::HalfOpen, "its own probe runs still");
    assert_eq!(verdict(host.finish(second, 1, Class::Ok, 2_000_000)), Verdict::Ok);
    assert_eq!(state(&host), BreakerState::Closed);
}
