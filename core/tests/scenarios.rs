//! Short stories, each the address of one sentence of the semantics or of one rule.

use crate::host::{Host, SECOND, at, bulkhead, http, of, verdict};
use Value::{Number, Text};
use tidegate::{
    Action, CallId, Class, Duration, EDGES, Engine, Event, Opinion, Options, Outcome, Policy, PolicyId,
    Request, RouteId, Value, Verdict, Wait,
};

#[test]
fn a_failure_is_retried_after_a_backoff_within_its_bounds() {
    let mut host = Host::new(&http(&[]));
    let call = host.start(Request::default(), 0);
    let step = host.finish(call, 1, of(Class::Transient), 1_000);
    assert_eq!(step.action(), Action::Wait { why: Wait::Backoff });
    let delay = step.next().unwrap().as_micros();
    assert!((10_000..=100_000).contains(&delay), "U(0.1·d, d) of 100 ms, not {delay}");
    assert_eq!(host.poll(call, 1_000 + delay - 1).action(), Action::Wait { why: Wait::Backoff });
    assert_eq!(host.poll(call, 1_000 + delay).action(), Action::Attempt { attempt: 2, hedge: false });
    assert_eq!(verdict(host.finish(call, 2, of(Class::Ok), 200_000)), Verdict::Ok);
    assert_eq!(verdict(host.poll(call, 200_000)), Verdict::Stale);
}

#[test]
fn the_order_of_a_decision_is_class_method_body_attempts_retry_after_deadline_budget() {
    let none =
        [("retry.budget.min_retries_per_sec", Number(0.0)), ("retry.budget.percent_can_retry", Number(0.0))];
    let mut host = Host::new(&http(&[none[0], none[1], ("deadline", Number(2e6))]));
    let long = of(Class::Throttled).retry_after(Duration::from_secs(3_600));
    let fits_not = of(Class::Throttled).retry_after(Duration::from_secs(3));
    let once = Request { replayable: false, ..Request::default() };
    let unsafe_once = Request { idempotent: false, ..once };
    for (request, outcome, expected) in [
        (unsafe_once, of(Class::Permanent), Verdict::NotRetryable),
        (unsafe_once, Outcome { opinion: Opinion::DoNot, ..of(Class::Transient) }, Verdict::Opinion),
        (unsafe_once, long, Verdict::Method),
        (unsafe_once, of(Class::NeverSent), Verdict::OneShotBody),
        (once, long, Verdict::OneShotBody),
        (Request::default(), long, Verdict::RetryAfterTooLong),
        (Request::default(), fits_not, Verdict::WouldOutliveDeadline),
        (Request::default(), of(Class::Transient), Verdict::Budget),
        (Request::default(), Outcome { opinion: Opinion::Retry, ..of(Class::Permanent) }, Verdict::Budget),
        (Request { idempotent: false, ..Request::default() }, of(Class::NeverSent), Verdict::Budget),
    ] {
        let call = host.start(request, 0);
        assert_eq!(verdict(host.finish(call, 1, outcome, 0)), expected, "{request:?} {outcome:?}");
    }
}

#[test]
fn giving_up_tells_when_to_come_back_and_whose_failure_it_is() {
    let mut host = Host::new(&http(&[("deadline", Number(2e6))]));
    let call = host.start(Request::default(), 0);
    let step = host.finish(call, 1, of(Class::Throttled).retry_after(Duration::from_secs(3_600)), 5);
    let Action::Done { verdict, result, retry_in } = step.action() else { panic!("{step:?}") };
    assert_eq!(verdict, Verdict::RetryAfterTooLong);
    assert_eq!(result.unwrap().number(), 0);
    assert_eq!(retry_in, Some(Duration::from_secs(3_600)));
}

#[test]
fn the_servers_wait_is_kept_and_its_jitter_lies_on_top_and_fits_the_deadline() {
    let mut host = Host::new(&http(&[("deadline", Number(10e6)), ("retry.budget.kind", Text("none"))]));
    for _ in 0..1_000 {
        let call = host.start(Request::default(), 0);
        let step = host.finish(call, 1, of(Class::Throttled).retry_after(Duration::from_secs(5)), 0);
        let delay = step.next().unwrap().as_micros();
        assert!((5 * SECOND..=5_500_000).contains(&delay), "{delay}");
    }
    // 9.5 s fit, and so does some jitter, but not all of it.
    let call = host.start(Request::default(), 0);
    let step = host.finish(call, 1, of(Class::Throttled).retry_after(Duration::from_millis(9_500)), 0);
    assert!((9_500_000..10 * SECOND).contains(&step.next().unwrap().as_micros()), "{step:?}");
    // Exactly at `max_retry_after` is not above it; the deadline decides.
    let call = host.start(Request::default(), 0);
    let step = host.finish(call, 1, of(Class::Throttled).retry_after(Duration::from_secs(60)), 0);
    assert_eq!(self::verdict(step), Verdict::WouldOutliveDeadline);
}

#[test]
fn an_attempt_timeout_stops_the_attempt_and_is_retryable() {
    let mut host = Host::new(&http(&[("attempt_timeout", Number(1e6))]));
    let (call, step) = host.begin(Request::default(), 0);
    assert_eq!(step.next(), Some(Duration::from_secs(1)));
    let step = host.engine.on(call, Event::Timer, at(SECOND - 1));
    assert_eq!(
        (step.stop(), step.next()),
        (0, Some(Duration::from_micros(1))),
        "an early timer is told the rest"
    );
    let step = host.engine.on(call, Event::Timer, at(SECOND));
    assert_eq!((step.stop(), step.action()), (1, Action::Wait { why: Wait::Backoff }));
    // It unwound with a failure, reported twice: nothing new. The next attempt starts when it is due.
    for outcome in [of(Class::Cancelled), of(Class::Ok)] {
        assert_eq!(host.finish(call, 1, outcome, SECOND).action(), Action::Wait { why: Wait::Backoff });
    }
    assert_eq!(host.poll(call, 2 * SECOND).action(), Action::Attempt { attempt: 2, hedge: false });
}

#[test]
fn an_answer_that_a_stopped_attempt_has_all_the_same_is_not_asked_for_again() {
    let budget = ("retry.budget.min_retries_per_sec", Number(0.1));
    let mut host = Host::new(&http(&[("attempt_timeout", Number(1e6)), budget]));
    for begun in [0, 2 * SECOND, 4 * SECOND] {
        let late = begun + SECOND;
        let call = host.start(Request::default(), begun);
        assert_eq!(
            host.engine.on(call, Event::Timer, at(late)).action(),
            Action::Wait { why: Wait::Backoff }
        );
        assert_eq!(
            verdict(host.finish(call, 1, of(Class::Ok), late)),
            Verdict::Ok,
            "and its retry is refunded"
        );
    }
    // Once the next attempt runs, the answer of the one before is late.
    let call = host.start(Request { abortable: false, ..Request::default() }, 6 * SECOND);
    let _ = host.engine.on(call, Event::Timer, at(7 * SECOND));
    assert_eq!(host.poll(call, 8 * SECOND).action(), Action::Attempt { attempt: 2, hedge: false });
    assert_eq!(host.finish(call, 1, of(Class::Ok), 8 * SECOND).action(), Action::Wait { why: Wait::Running });
}

#[test]
fn a_zero_backoff_goes_on_at_once_but_for_the_owner_of_a_stopped_attempt() {
    let mut host = Host::new(&http(&[("attempt_timeout", Number(1e6)), ("retry.backoff.base", Number(0.0))]));
    let call = host.start(Request::default(), 0);
    let step = host.finish(call, 1, of(Class::Transient), 10);
    assert_eq!(step.action(), Action::Attempt { attempt: 2, hedge: false });
    let step = host.engine.on(call, Event::Timer, at(10 + SECOND));
    assert_eq!((step.stop(), step.action()), (2, Action::Wait { why: Wait::Backoff }));
    assert_eq!(step.next(), Some(Duration::ZERO));
    assert_eq!(host.poll(call, 10 + SECOND).action(), Action::Attempt { attempt: 3, hedge: false });
}

#[test]
fn the_deadline_cuts_an_attempt_and_is_not_retryable() {
    let mut host = Host::new(&http(&[("deadline", Number(1e6)), ("attempt_timeout", Number(5e6))]));
    let (call, step) =
        host.begin(Request { remaining: Some(Duration::from_millis(500)), ..Request::default() }, 0);
    assert_eq!(step.next(), Some(Duration::from_millis(500)), "7.3: the earlier deadline wins");
    let step = host.engine.on(call, Event::Timer, at(500_000));
    assert_eq!((verdict(step), step.stop()), (Verdict::Deadline, 1));
    let (_, step) = host.begin(Request { remaining: Some(Duration::ZERO), ..Request::default() }, 0);
    assert_eq!(verdict(step), Verdict::DeadlineBefore);
}

#[test]
fn a_late_outcome_of_a_host_that_cannot_stop_is_taken_as_it_is() {
    let mut host = Host::new(&http(&[("deadline", Number(1e6)), ("attempt_timeout", Number(5e5))]));
    let blocking = Request { abortable: false, ..Request::default() };
    let call = host.start(blocking, 0);
    assert_eq!(verdict(host.finish(call, 1, of(Class::Ok), 3 * SECOND)), Verdict::Ok);
}

#[test]
fn a_freed_permit_is_handed_to_the_first_waiter_in_the_same_step() {
    let mut host = Host::new(&bulkhead(1.0, 2.0));
    let first = host.start(Request::default(), 0);
    let (second, third) = (host.park(1), host.park(2));
    assert_eq!(verdict(host.begin(Request::default(), 3).1), Verdict::QueueFull);
    let step = host.finish(first, 1, of(Class::Ok), 10);
    assert!(step.flags().wakes);
    assert_eq!(host.wakes(), [second]);
    // Nobody barges in between hand-over and claim: a newcomer queues.
    let fourth = host.park(11);
    // R6: a granted call that is cancelled before it was woken passes its permit on in the same step.
    let step = host.engine.on(second, Event::Cancel, at(12));
    assert_eq!(verdict(step), Verdict::Cancelled);
    assert_eq!(host.wakes(), [third]);
    assert_eq!(host.poll(third, 13).action(), Action::Attempt { attempt: 1, hedge: false });
    assert_eq!(host.poll(fourth, 14).action(), Action::Wait { why: Wait::Queue });
}

#[test]
fn a_grant_that_nobody_claims_goes_on_after_five_seconds() {
    let mut host =
        Host::new(&[&bulkhead(1.0, 2.0)[..], &[("bulkhead.acquire_timeout", Text("none"))]].concat());
    let first = host.start(Request::default(), 0);
    let (sleeper, patient) = (host.park(0), host.park(0));
    let _ = host.finish(first, 1, of(Class::Ok), 0);
    assert_eq!(host.wakes(), [sleeper]);
    assert_eq!(host.poll(patient, 5 * SECOND - 1).action(), Action::Wait { why: Wait::Queue });
    assert_eq!(host.poll(patient, 5 * SECOND).action(), Action::Attempt { attempt: 1, hedge: false });
    assert_eq!(verdict(host.poll(sleeper, 5 * SECOND)), Verdict::Lost);
    assert_eq!(verdict(host.poll(sleeper, 5 * SECOND)), Verdict::Stale);
}

#[test]
fn an_unclaimed_grant_is_found_by_the_reaper_too() {
    let mut host = Host::new(&bulkhead(1.0, 1.0));
    let first = host.start(Request::default(), 0);
    let sleeper = host.park(0);
    let _ = host.finish(first, 1, of(Class::Ok), 0);
    assert_eq!(host.wakes(), [sleeper]);
    // Nothing else happens on this route; calls on another one pass by.
    let (policy, here) = (host.policy, host.route);
    host.route = host.engine.route(policy, "elsewhere", at(5 * SECOND));
    for _ in 0..2 {
        let other = host.start(Request::default(), 5 * SECOND);
        let _ = host.finish(other, 1, of(Class::Ok), 5 * SECOND);
    }
    let snapshot = host.engine.snapshot(at(5 * SECOND));
    assert_eq!((snapshot.lost, snapshot.waiting), (1, 0));
    host.route = here;
    host.start(Request::default(), 5 * SECOND);
    assert_eq!(verdict(host.poll(sleeper, 5 * SECOND)), Verdict::Lost);
}

#[test]
fn acquire_timeouts() {
    let mut host = Host::new(&[&bulkhead(1.0, 2.0)[..], &[("deadline", Number(3e6))]].concat());
    let first = host.start(Request::default(), 0);
    let waiter = host.park(0);
    let step = host.poll(waiter, SECOND - 1);
    assert_eq!(
        (step.action(), step.next()),
        (Action::Wait { why: Wait::Queue }, Some(Duration::from_micros(1)))
    );
    assert_eq!(verdict(host.poll(waiter, SECOND)), Verdict::AcquireTimeout);
    let (waiter, _) =
        host.begin(Request { remaining: Some(Duration::from_millis(5)), ..Request::default() }, SECOND);
    assert_eq!(verdict(host.poll(waiter, SECOND + 5_000)), Verdict::DeadlineQueued);
    // A waiter whose patience has ended when a permit comes free is failed, not granted (4.4).
    let late = host.park(SECOND + 6_000);
    let _ = host.finish(first, 1, of(Class::Ok), 2 * SECOND + 6_000);
    assert_eq!(host.wakes(), [late]);
    assert_eq!(verdict(host.poll(late, 2 * SECOND + 6_000)), Verdict::AcquireTimeout);
    // 0 fails fast, and so does a host that cannot park.
    let mut host =
        Host::new(&[&bulkhead(1.0, 2.0)[..], &[("bulkhead.acquire_timeout", Number(0.0))]].concat());
    host.start(Request::default(), 0);
    assert_eq!(verdict(host.begin(Request::default(), 0).1), Verdict::AcquireTimeout);
    let (_, step) = host.begin(Request { may_park: false, ..Request::default() }, 0);
    assert_eq!(verdict(step), Verdict::QueueFull);
}

#[test]
fn an_attempt_that_cannot_be_stopped_keeps_its_permit_until_it_is_reported() {
    let mut host = Host::new(&[&bulkhead(1.0, 1.0)[..], &[("deadline", Number(1e6))]].concat());
    let call = host.start(Request { abortable: false, ..Request::default() }, 0);
    let waiter = host.park(900_000);
    let step = host.engine.on(call, Event::Timer, at(SECOND));
    assert_eq!((verdict(step), step.stop()), (Verdict::Deadline, 1));
    assert!(host.wakes().is_empty(), "R12: it still runs");
    assert_eq!(verdict(host.finish(call, 1, of(Class::Ok), 1_100_000)), Verdict::Stale);
    assert_eq!(host.wakes(), [waiter]);
    // … at most 60 s later it is presumed gone.
    let mut host = Host::new(&[&bulkhead(1.0, 0.0)[..], &[("deadline", Number(1e6))]].concat());
    let call = host.start(Request { abortable: false, ..Request::default() }, 0);
    let _ = host.engine.on(call, Event::Timer, at(SECOND));
    assert_eq!(verdict(host.begin(Request::default(), 60 * SECOND).1), Verdict::QueueFull);
    host.start(Request::default(), 61 * SECOND);
}

#[test]
fn at_most_four_attempts_of_a_call_run_at_once() {
    let more = [
        ("attempt_timeout", Number(1e6)),
        ("retry.max_attempts", Number(50.0)),
        ("retry.backoff.base", Number(0.0)),
    ];
    let mut host = Host::new(&[&more[..], &[("retry.budget.kind", Text("none"))]].concat());
    let call = host.start(Request { abortable: false, ..Request::default() }, 0);
    for attempt in 1..=3u8 {
        let now = u64::from(attempt) * SECOND;
        assert_eq!(host.engine.on(call, Event::Timer, at(now)).action(), Action::Wait { why: Wait::Backoff });
        assert_eq!(host.poll(call, now).action(), Action::Attempt { attempt: attempt + 1, hedge: false });
    }
    let _ = host.engine.on(call, Event::Timer, at(4 * SECOND));
    let step = host.poll(call, 4 * SECOND);
    assert_eq!(
        (step.action(), step.next()),
        (Action::Wait { why: Wait::Running }, Some(Duration::from_secs(60)))
    );
    let step = host.finish(call, 2, of(Class::Transient), 5 * SECOND);
    assert_eq!(
        step.action(),
        Action::Attempt { attempt: 5, hedge: false },
        "one has unwound: the next may start"
    );
    // The others never report. After 60 s they are presumed gone, and their lanes serve again.
    let _ = host.engine.on(call, Event::Timer, at(6 * SECOND));
    assert_eq!(host.poll(call, 66 * SECOND - 1).action(), Action::Wait { why: Wait::Running });
    assert_eq!(host.poll(call, 66 * SECOND).action(), Action::Attempt { attempt: 6, hedge: false });
    for attempt in 6..9 {
        let step = host.finish(call, attempt, of(Class::Transient), 66 * SECOND);
        assert_eq!(step.action(), Action::Attempt { attempt: attempt + 1, hedge: false });
    }
    assert_eq!(verdict(host.finish(call, 9, of(Class::Ok), 66 * SECOND)), Verdict::Ok);
}

#[test]
fn nested_calls_share_the_permit_and_do_not_multiply_retries() {
    let mut host = Host::new(&http(&bulkhead(1.0, 0.0)));
    let outer = host.start(Request::default(), 0);
    let nested = Request { parent: Some(outer), ..Request::default() };
    let inner = host.start(nested, 0);
    assert_eq!(verdict(host.finish(inner, 1, of(Class::Transient), 0)), Verdict::Nested);
    // A call that outlives the one around it keeps the permit occupied.
    let inner = host.start(nested, 0);
    assert_eq!(verdict(host.finish(outer, 1, of(Class::Ok), 0)), Verdict::Ok);
    assert_eq!(verdict(host.begin(Request::default(), 0).1), Verdict::QueueFull);
    assert_eq!(verdict(host.finish(inner, 1, of(Class::Ok), 0)), Verdict::Ok);
    host.start(Request::default(), 0);
    // Within a call that makes one attempt, an inner policy retries as it says.
    let mut host = Host::new(&bulkhead(1.0, 0.0));
    let retrying = host.engine.policy(Policy::from_pairs("q", &http(&[])).unwrap()).unwrap();
    let outer = host.start(Request::default(), 0);
    host.route = host.engine.route(retrying, "r", at(0));
    let inner = host.start(Request { parent: Some(outer), ..Request::default() }, 0);
    assert_eq!(host.finish(inner, 1, of(Class::Transient), 0).action(), Action::Wait { why: Wait::Backoff });
}

#[test]
fn a_streamed_answer_keeps_slot_and_deadline_until_its_body_ends() {
    let settings =
        [&bulkhead(1.0, 0.0)[..], &[("deadline", Number(2e6)), ("attempt_timeout", Number(1e6))]].concat();
    let mut host = Host::new(&settings);
    let streamed = Request { slot_until_body: true, ..Request::default() };
    let call = host.start(streamed, 0);
    let step = host.engine.on(call, Event::Headers { attempt: 1 }, at(10));
    assert_eq!(step.action(), Action::Wait { why: Wait::Body });
    assert_eq!(
        step.next(),
        Some(Duration::from_micros(2 * SECOND - 10)),
        "the attempt timeout ends at the headers"
    );
    assert_eq!(verdict(host.begin(streamed, 20).1), Verdict::QueueFull);
    assert_eq!(
        verdict(host.finish(call, 1, of(Class::Transient), 30)),
        Verdict::NotRetryable,
        "never mid-body"
    );
    let call = host.start(streamed, 40);
    let _ = host.engine.on(call, Event::Headers { attempt: 1 }, at(50));
    let step = host.engine.on(call, Event::Timer, at(40 + 2 * SECOND));
    assert_eq!((verdict(step), step.stop()), (Verdict::Deadline, 1));
}

#[test]
fn the_budget_bounds_retries_and_a_cancelled_backoff_is_refunded() {
    let budget =
        [("retry.budget.min_retries_per_sec", Number(0.1)), ("retry.budget.percent_can_retry", Number(0.0))];
    let mut host = Host::new(&http(&budget));
    let (one, two) = (host.start(Request::default(), 0), host.start(Request::default(), 0));
    assert_eq!(host.finish(one, 1, of(Class::Transient), 0).action(), Action::Wait { why: Wait::Backoff });
    assert_eq!(verdict(host.finish(two, 1, of(Class::Transient), 0)), Verdict::Budget);
    let _ = host.engine.on(one, Event::Cancel, at(1));
    let three = host.start(Request::default(), 2);
    assert_eq!(host.finish(three, 1, of(Class::Transient), 2).action(), Action::Wait { why: Wait::Backoff });
}

#[test]
fn draws_do_not_depend_on_how_calls_interleave() {
    let delays = |order: &[usize]| {
        let mut host = Host::new(&http(&[("retry.budget.start", Number(4.0))]));
        let calls: Vec<_> = (0..4).map(|n| host.start(Request::default(), n)).collect();
        let mut delays = [0; 4];
        for n in order {
            let step = host.finish(calls[*n], 1, of(Class::Transient), 100);
            delays[*n] = step.next().unwrap().as_micros();
        }
        delays
    };
    let one = delays(&[0, 1, 2, 3]);
    assert_eq!(one, delays(&[3, 1, 0, 2]), "R7");
    assert!(one[0] != one[1] && one[1] != one[2], "{one:?}");
}

#[test]
fn routes_are_bounded_and_the_pinned_ones_stay() {
    let mut engine = Engine::new(1, Options::default().max_routes(3));
    let policy = engine.policy(Policy::from_pairs("p", &http(&bulkhead(1.0, 0.0))).unwrap()).unwrap();
    let busy = engine.route(policy, "busy", at(0));
    let (call, _) = engine.begin(busy, &Request::default(), at(0));
    for n in 0..1_000 {
        let route = engine.route(policy, &format!("flood {n}"), at(n));
        let (call, step) = engine.begin(route, &Request::default(), at(n));
        assert!(matches!(step.action(), Action::Attempt { .. }), "{step:?}");
        let _ = engine.on(call, Event::Finished { attempt: 1, outcome: of(Class::Ok) }, at(n));
    }
    assert_eq!(engine.route(policy, "busy", at(2_000)), busy, "a route with a call is never evicted");
    let snapshot = engine.snapshot(at(2_000));
    assert_eq!((snapshot.routes.len(), snapshot.route_evictions, snapshot.route_overflows), (3, 998, 0));
    assert_eq!(
        verdict(engine.on(call, Event::Finished { attempt: 1, outcome: of(Class::Ok) }, at(2_000))),
        Verdict::Ok
    );
    // A stale route is answered, not obeyed.
    let old = engine.route(policy, "old", at(2_000));
    for n in 0..3 {
        engine.route(policy, &format!("new {n}"), at(2_000));
    }
    let (id, step) = engine.begin(old, &Request::default(), at(2_001));
    assert_eq!(verdict(step), Verdict::StaleRoute);
    assert_eq!(verdict(engine.on(id, Event::Poll, at(2_001))), Verdict::Stale);
}

#[test]
fn when_every_route_is_pinned_new_keys_share_the_overflow_route() {
    let mut engine = Engine::new(1, Options::default().max_routes(2));
    let policy = engine.policy(Policy::from_pairs("p", &bulkhead(1.0, 0.0)).unwrap()).unwrap();
    for key in ["a", "b"] {
        let route = engine.route(policy, key, at(0));
        let _ = engine.begin(route, &Request::default(), at(0));
    }
    let (c, d) = (engine.route(policy, "c", at(0)), engine.route(policy, "d", at(0)));
    assert_eq!(c, d);
    let (call, step) = engine.begin(c, &Request::default(), at(0));
    assert!(matches!(step.action(), Action::Attempt { .. }));
    assert_eq!(
        verdict(engine.begin(d, &Request::default(), at(0)).1),
        Verdict::QueueFull,
        "the pool is shared too"
    );
    let snapshot = engine.snapshot(at(0));
    assert_eq!(snapshot.route_overflows, 2);
    assert!(snapshot.routes.iter().any(|route| route.key == "overflow" && route.active == 1));
    let _ = engine.on(call, Event::Cancel, at(0));
    assert_eq!(engine.check(), Ok(()));
}

#[test]
fn after_a_fork_the_childs_engine_has_no_calls_and_other_draws() {
    let mut host = Host::new(&http(&bulkhead(1.0, 5.0)));
    let call = host.start(Request::default(), 0);
    let waiter = host.park(0);
    let _ = host.engine.after_fork(43, at(1));
    assert_eq!(verdict(host.poll(call, 2)), Verdict::Stale);
    assert_eq!(verdict(host.poll(waiter, 2)), Verdict::Stale);
    assert_eq!(host.engine.check(), Ok(()));
    host.start(Request::default(), 2);
}

#[test]
fn the_same_name_with_other_settings_is_a_clash() {
    let mut host = Host::new(&bulkhead(1.0, 0.0));
    let again = Policy::from_pairs("p", &bulkhead(1.0, 0.0)).unwrap();
    assert_eq!(host.engine.policy(again), Ok(host.policy));
    let other = Policy::from_pairs("p", &bulkhead(2.0, 0.0)).unwrap();
    let clash = host.engine.policy(other).unwrap_err();
    let told = "policy = \"p\": somebody holds a policy of this name with other settings: ";
    assert!(clash.to_string().starts_with(told), "{clash}");
}

#[test]
fn ids_that_name_nothing_are_answered() {
    let mut host = Host::new(&bulkhead(1.0, 0.0));
    for word in [0, 1, u64::MAX, 1 << 52] {
        assert_eq!(verdict(host.poll(CallId::from_word(word), 0)), Verdict::Stale);
        let (_, step) = host.engine.begin(RouteId::from_word(word), &Request::default(), at(0));
        assert_eq!(verdict(step), Verdict::StaleRoute);
    }
    let nowhere = host.engine.route(PolicyId::from_word(9), "r", at(0));
    assert_eq!(verdict(host.engine.begin(nowhere, &Request::default(), at(0)).1), Verdict::StaleRoute);
}

/// `docs/architecture.md` lists the transitions that the engine makes, in the same order.
#[test]
fn the_table_of_the_docs_is_the_table_that_runs() {
    let rows = EDGES.iter().map(|(from, to, when)| format!("| {from} | {to} | {when} |\n"));
    let table = format!("| From | To | When |\n|---|---|---|\n{}", rows.collect::<String>());
    let page = include_str!("../../docs/architecture.md");
    assert!(page.contains(&table), "docs/architecture.md should hold:\n{table}");
}

/// The policies whose budgets keep their books per call: whatever ends a call, nothing is left behind.
#[test]
fn share_and_quota_get_back_what_a_call_held_whatever_ends_it() {
    let share = [("retry.budget.kind", Text("share")), ("retry.budget.min_retries", Number(1.0))];
    let quota = [("retry.budget.kind", Text("quota")), ("retry.budget.capacity", Number(5.0))];
    for budget in [share, quota] {
        let more = [("attempt_timeout", Number(1e6)), ("retry.backoff.base", Number(1e5))];
        let mut host = Host::new(&[&more[..], &budget].concat());
        let paid = |host: &mut Host, now: u64| {
            let call = host.start(Request::default(), now);
            let step = host.finish(call, 1, of(Class::Transient), now);
            (call, step)
        };
        for round in 0..3u64 {
            let now = round * 10 * SECOND;
            let (call, step) = paid(&mut host, now);
            assert_eq!(
                step.action(),
                Action::Wait { why: Wait::Backoff },
                "round {round}: the one retry is there"
            );
            assert_eq!(verdict(paid(&mut host, now).1), Verdict::Budget, "and only one");
            if round > 0 {
                assert!(matches!(host.poll(call, now + SECOND).action(), Action::Attempt { attempt: 2, .. }));
            }
            let step = match round {
                0 => host.engine.on(call, Event::Cancel, at(now)),
                _ => host.finish(call, 2, of(Class::Ok), now + SECOND),
            };
            assert!(matches!(step.action(), Action::Done { .. }));
        }
    }
}

#[test]
fn the_modes_of_retry_after() {
    let throttled = of(Class::Throttled).retry_after(Duration::from_secs(3));
    let delay = |mode: &str, outcome: Outcome| {
        let more = [("retry.retry_after", Text(mode)), ("retry.backoff.jitter", Text("none"))];
        let mut host = Host::new(&[&more[..], &[("retry.backoff.base", Number(1e6))]].concat());
        let call = host.start(Request::default(), 0);
        let step = host.finish(call, 1, outcome, 0);
        if matches!(step.action(), Action::Attempt { .. }) { 0 } else { step.next().unwrap().as_micros() }
    };
    assert!((3_000_000..=3_300_000).contains(&delay("floor", throttled)));
    assert_eq!(delay("exact", throttled), 3_000_000);
    assert_eq!(delay("exact", of(Class::Throttled).retry_after(Duration::ZERO)), 0);
    assert_eq!(delay("ignore", of(Class::Throttled).retry_after(Duration::from_secs(3_600))), 1_000_000);
    assert_eq!(delay("clamp_5s", throttled), 3_000_000);
    assert_eq!(delay("clamp_5s", of(Class::Throttled).retry_after(Duration::ZERO)), 1_000_000);
    let mut host = Host::new(&[
        ("retry.retry_after", Text("clamp_5s")),
        ("retry.backoff.jitter", Text("none")),
        ("retry.max_retry_after", Number(60e6)),
    ]);
    let call = host.start(Request::default(), 0);
    let step = host.finish(call, 1, of(Class::Throttled).retry_after(Duration::from_secs(30)), 0);
    assert_eq!(step.next(), Some(Duration::from_millis(5_100)));
}

#[test]
fn retry_on_narrows_what_is_retried() {
    for (preset, retried, not) in
        [("occ", Class::Conflict, Class::Transient), ("transient", Class::NeverSent, Class::Conflict)]
    {
        let mut host = Host::new(&[("preset", Text(preset))]);
        let (one, two) = (host.start(Request::default(), 0), host.start(Request::default(), 0));
        assert_eq!(host.finish(one, 1, of(retried), 0).action(), Action::Wait { why: Wait::Backoff });
        assert_eq!(verdict(host.finish(two, 1, of(not), 0)), Verdict::NotRetryable);
    }
}
