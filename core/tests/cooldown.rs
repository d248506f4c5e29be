//! Cooldown in the engine (semantics 16): one throttled answer stops the crowd, and the attempts come back gradually.

use std::collections::BTreeMap;

use crate::host::{Host, SECOND, at, bulkhead, of, verdict};
use Value::{Number, Text};
use tidegate::{
    Action, CallId, Class, Cooldown, CooldownSettings, CooldownState, Duration, Event, Options, Outcome,
    Policy, RecordType, Request, Step, Value, Verdict, Wait,
};

type Pairs = Vec<(&'static str, Value<'static>)>;

fn with(more: &[(&'static str, Value<'static>)]) -> Pairs {
    [&[("cooldown.max", Number(60e6))], more].concat()
}

/// Calls wait.
fn waiting(more: &[(&'static str, Value<'static>)]) -> Pairs {
    [&with(more)[..], &[("cooldown.wait", Number(1.0)), ("cooldown.max_wait", Number(60e6))]].concat()
}

/// Makes up to three attempts, without budget or jitter.
fn retried(more: &[(&'static str, Value<'static>)]) -> Pairs {
    let retry = [
        ("retry.max_attempts", Number(3.0)),
        ("retry.max_retry_after", Number(60e6)),
        ("retry.retry_after", Text("exact")),
        ("retry.backoff.jitter", Text("none")),
        ("retry.budget.kind", Text("none")),
    ];
    [&retry[..], more].concat()
}

fn throttled(seconds: u64) -> Outcome {
    of(Class::Throttled).retry_after(Duration::from_secs(seconds))
}

fn waits(step: Step) -> bool {
    step.action() == Action::Wait { why: Wait::Cooldown }
}

fn attempt(step: Step) -> Option<u8> {
    match step.action() {
        Action::Attempt { attempt, .. } => Some(attempt),
        _ => None,
    }
}

impl Host {
    /// The view of the only route.
    fn cooldown(&self, micros: u64) -> tidegate::CooldownView {
        self.engine.check().unwrap();
        self.engine.snapshot(at(micros)).routes[0].cooldown.unwrap()
    }

    /// When the closing that began at `micros` ends.
    fn end(&self, micros: u64) -> u64 {
        micros + self.cooldown(micros).retry_in.unwrap().as_micros()
    }
}

/// Specification 16.2.1 and 16.3.1: 100 callers at work, one 429 with 10 s, no attempt before the time.
#[test]
fn one_429_stops_a_hundred_callers() {
    let mut host = Host::new(&retried(&waiting(&[("deadline", Number(300e6))])));
    let mut calls: Vec<CallId> = (0..100).map(|_| host.start(Request::default(), 0)).collect();
    let first = calls[0];
    assert!(matches!(
        host.finish(first, 1, throttled(10), SECOND).action(),
        Action::Wait { why: Wait::Backoff }
    ));
    let end = host.end(SECOND);
    assert!((11 * SECOND..=12 * SECOND).contains(&end), "{end}");
    let mut attempts: BTreeMap<CallId, u8> = calls.iter().map(|call| (*call, 1)).collect();
    // The others get their answers, good ones and throttled ones without a time; each begins its next call at once.
    let mut now = SECOND;
    for (n, known) in calls.iter_mut().enumerate().take(100).skip(1) {
        now += 20_000;
        let class = if n % 3 == 0 { Class::Throttled } else { Class::Ok };
        let step = host.finish(*known, 1, of(class), now);
        if class == Class::Ok {
            assert_eq!(verdict(step), Verdict::Ok);
            let (next, step) = host.begin(Request::default(), now);
            assert!(waits(step));
            attempts.insert(next, 0);
            *known = next;
        } else {
            assert_eq!(attempt(step), None);
        }
    }
    assert_eq!(host.end(now), end, "16.2.4: those from before do not double it");
    // Everybody polls, far too often; then each attempt answers after 100 ms.
    let mut started = Vec::new();
    let mut running: Vec<(CallId, u8, u64)> = Vec::new();
    let mut most: Vec<usize> = Vec::new();
    while now < 40 * SECOND && started.len() < 100 {
        now += 50_000;
        for (call, number, at) in std::mem::take(&mut running) {
            if at + 100_000 <= now {
                assert_eq!(verdict(host.finish(call, number, of(Class::Ok), now)), Verdict::Ok);
                attempts.remove(&call);
            } else {
                running.push((call, number, at));
            }
        }
        let waiting: Vec<CallId> = attempts.keys().copied().collect();
        for call in waiting {
            if running.iter().any(|it| it.0 == call) {
                continue;
            }
            if let Some(number) = attempt(host.poll(call, now)) {
                started.push(now);
                running.push((call, number, now));
            }
        }
        most.push(running.len());
        host.engine.check().unwrap();
    }
    assert_eq!(started.len(), 100, "all come back");
    assert!(started.iter().all(|at| *at >= end), "no attempt starts before the time");
    most.retain(|running| *running > 0);
    most.dedup();
    assert_eq!(most[..4], [1, 2, 4, 8], "16.5.2: they double per round trip");
}

/// Specification 16.4.2, 16.4.6, 16.1.1.
#[test]
fn calls_are_refused_with_the_time_unless_they_wait() {
    let mut host = Host::new(&with(&[]));
    let call = host.start(Request::default(), 0);
    assert_eq!(verdict(host.finish(call, 1, throttled(10), 0)), Verdict::Attempts);
    let left = host.cooldown(0).retry_in;
    let refused = host.begin(Request::default(), 0).1;
    assert_eq!(refused.action(), Action::Done { verdict: Verdict::Cooldown, result: None, retry_in: left });

    let mut host = Host::new(&waiting(&[("cooldown.max_waiters", Number(2.0))]));
    let call = host.start(Request::default(), 0);
    let _ = host.finish(call, 1, throttled(10), 0);
    let end = host.end(0);
    let soon = Request { remaining: Some(Duration::from_secs(5)), ..Request::default() };
    assert_eq!(verdict(host.begin(soon, 0).1), Verdict::Cooldown, "beyond its deadline");
    let standing = Request { may_park: false, ..Request::default() };
    assert_eq!(verdict(host.begin(standing, 0).1), Verdict::Cooldown, "its host may not park it");
    let [a, b] = [0, 1].map(|_| host.begin(Request::default(), 0).0);
    assert_eq!(verdict(host.begin(Request::default(), 0).1), Verdict::Cooldown, "max_waiters");
    assert_eq!(host.cooldown(0).waiting, 2);
    assert!(waits(host.poll(a, end - 1)));
    assert_eq!(attempt(host.poll(b, end)), None, "the head goes first");
    assert_eq!(host.wakes(), [a]);
    assert_eq!(attempt(host.poll(a, end)), Some(1));
    assert_eq!(verdict(host.finish(a, 1, of(Class::Ok), end + 5)), Verdict::Ok);
    assert_eq!(host.wakes(), [b], "slow start ends at one attempt at a time");
    assert_eq!(attempt(host.poll(b, end + 5)), Some(1));
    assert_eq!(host.cooldown(end + 5).state, CooldownState::Open);
}

/// Specification 16.4.7.
#[test]
fn a_waiter_is_patient_for_max_wait() {
    let pairs = with(&[
        ("cooldown.wait", Number(1.0)),
        ("cooldown.max_wait", Number(3e6)),
        ("attempt_timeout", Number(10e6)),
    ]);
    let mut host = Host::new(&pairs);
    let call = host.start(Request::default(), 0);
    let _ = host.finish(call, 1, throttled(2), 0);
    let end = host.end(0);
    let [a, b] = [0, 1].map(|_| host.begin(Request::default(), 0).0);
    assert_eq!(attempt(host.poll(a, end)), Some(1));
    assert!(waits(host.poll(b, 3 * SECOND - 1)), "there is one place");
    assert_eq!(verdict(host.poll(b, 3 * SECOND)), Verdict::Cooldown);
    let _ = host.finish(a, 1, throttled(4), 3 * SECOND);
    assert_eq!(
        verdict(host.begin(Request::default(), 3 * SECOND).1),
        Verdict::Cooldown,
        "longer than max_wait"
    );
}

/// Specification 16.4.1, 16.4.3, 16.4.8.
#[test]
fn a_call_that_finds_it_closed_just_before_its_attempt_gives_its_permit_back_and_keeps_its_tokens() {
    let mut pairs = waiting(&bulkhead(1.0, 5.0));
    pairs.extend([
        ("rate_limit.permits", Number(2.0)),
        ("rate_limit.per", Number(1e9)),
        ("bulkhead.acquire_timeout", Text("none")),
    ]);
    let mut host = Host::new(&pairs);
    let first = host.start(Request::default(), 0);
    let second = host.park(0);
    let _ = host.finish(first, 1, throttled(10), SECOND);
    assert_eq!(host.wakes(), [second], "it has the permit");
    assert!(waits(host.poll(second, SECOND)));
    let view = &host.engine.snapshot(at(SECOND)).routes[0];
    assert_eq!((view.pool.unwrap().in_flight, view.rate.as_ref().unwrap().tokens), (0, 0));
    let end = host.end(SECOND);
    let (third, step) = host.begin(Request::default(), SECOND);
    assert!(waits(step), "it comes to the rate limit only then");
    assert_eq!(attempt(host.poll(second, end)), Some(1), "without another token");
    assert!(waits(host.poll(third, end)));
    let _ = host.finish(second, 1, of(Class::Ok), end);
    assert_eq!(verdict(host.poll(third, end)), Verdict::RateLimited);
    host.engine.check().unwrap();
}

/// Specification 16.4.3: R2, "no re-queueing", has this one exception.
#[test]
fn it_goes_to_the_head_of_the_bulkheads_queue_later() {
    let mut pairs = waiting(&bulkhead(1.0, 1.0));
    pairs.push(("bulkhead.acquire_timeout", Text("none")));
    let mut host = Host::new(&pairs);
    let first = host.start(Request::default(), 0);
    let second = host.park(0);
    let _ = host.finish(first, 1, throttled(1), 0);
    assert!(waits(host.poll(second, 0)));
    let end = host.end(0);
    // A third call has the only permit, a fourth one waits for it: both came through before the second one's poll.
    assert_eq!(host.wakes(), [second]);
    let third = host.begin(Request::default(), end).0;
    assert_eq!(attempt(host.poll(second, end)), Some(1), "the one that returns goes first");
    assert!(waits(host.poll(third, end)));
    let _ = host.finish(second, 1, of(Class::Ok), end);
    assert_eq!(attempt(host.poll(third, end)), Some(1));
}

/// Specification 16.3.3, 16.4.5.
#[test]
fn a_retry_waits_for_the_end_or_ends_the_call() {
    let mut host = Host::new(&retried(&with(&[("retry.backoff.base", Number(1e5))])));
    let [a, b] = [0, 1].map(|_| host.start(Request::default(), 0));
    let _ = host.finish(a, 1, throttled(10), 0);
    let end = host.end(0);
    let step = host.finish(b, 1, of(Class::Transient), 0);
    assert_eq!(step.next().map(Duration::as_micros), Some(end), "a failure of any class");
    assert_eq!(attempt(host.poll(a, end)), Some(2));
    let step = host.poll(b, end);
    assert!(waits(step), "{step:?}: it waits for a place although wait is not set");
    assert_eq!(verdict(host.finish(a, 2, of(Class::Ok), end + 1)), Verdict::Ok);
    assert_eq!(host.wakes(), [b]);
    assert_eq!(attempt(host.poll(b, end + 1)), Some(2));
    let _ = host.finish(b, 2, throttled(1), end + 2);

    let mut host = Host::new(&retried(&with(&[("deadline", Number(5e6))])));
    let [a, b] = [0, 1].map(|_| host.start(Request::default(), 0));
    assert_eq!(verdict(host.finish(a, 1, throttled(10), 0)), Verdict::WouldOutliveDeadline);
    assert_eq!(verdict(host.finish(b, 1, of(Class::Transient), 0)), Verdict::WouldOutliveDeadline);
}

/// Specification 16.2.1, 16.2.2: a throttled attempt closes although it is not retried, and closings double.
#[test]
fn closings_without_a_time_double() {
    let mut host = Host::new(&with(&[("cooldown.base", Number(1e6))]));
    let mut now = 0;
    for seconds in [1, 2, 4, 8] {
        let call = host.start(Request { idempotent: false, ..Request::default() }, now);
        assert_eq!(verdict(host.finish(call, 1, of(Class::Throttled), now)), Verdict::Attempts);
        let span = host.end(now) - now;
        assert!((seconds * SECOND..=seconds * SECOND * 11 / 10).contains(&span), "{span}");
        now += span;
    }
}

/// Specification 16.2.5: the refusal of an inner policy says nothing about the downstream.
#[test]
fn refusals_close_nothing() {
    let mut host = Host::new(&with(&[]));
    let limit = [("rate_limit.permits", Number(1.0)), ("rate_limit.per", Number(60e6))];
    let inner = host.engine.policy(Policy::from_pairs("inner", &limit).unwrap()).unwrap();
    let inner = host.engine.route(inner, "r", at(0));
    let outer = host.start(Request::default(), 0);
    let within = Request { parent: Some(outer), ..Request::default() };
    let (call, _) = host.engine.begin(inner, &within, at(0));
    let _ = host.finish(call, 1, of(Class::Ok), 0);
    let (_, step) = host.engine.begin(inner, &within, at(0));
    assert_eq!(verdict(step), Verdict::RateLimited);
    let _ = host.finish(outer, 1, throttled(60), 0);
    assert_eq!(host.cooldown(0).state, CooldownState::Open);

    let outer = host.start(Request::default(), 0);
    let within = Request { parent: Some(outer), ..Request::default() };
    let _ = host.engine.begin(inner, &within, at(0));
    let free = host.engine.policy(Policy::from_pairs("free", &[("deadline", Number(1e6))]).unwrap()).unwrap();
    let free = host.engine.route(free, "r", at(0));
    let (call, _) = host.engine.begin(free, &within, at(0));
    let _ = host.finish(call, 1, throttled(1), 0);
    let _ = host.finish(outer, 1, throttled(1), 0);
    assert_eq!(host.cooldown(0).state, CooldownState::Closed, "the last call within it was answered");
}

/// Specification 16.3.1, 16.3.2.
#[test]
fn no_hedge_starts_until_slow_start_is_over() {
    let hedge = [("hedge.delay", Number(1e5)), ("hedge.max_attempts", Number(2.0))];
    let mut host = Host::new(&with(&hedge));
    let [a, b, other] = [0, 1, 2].map(|_| host.start(Request::default(), 0));
    let _ = host.finish(a, 1, throttled(1), 50_000);
    assert_eq!(host.poll(b, 100_000).action(), Action::Wait { why: Wait::Running });
    let end = host.end(100_000);
    let c = host.start(Request::default(), end);
    assert_eq!(host.poll(c, end + 100_000).action(), Action::Wait { why: Wait::Running });
    let _ = host.finish(c, 1, of(Class::Ok), end + 200_000);
    for call in [b, other] {
        let _ = host.finish(call, 1, of(Class::Ok), end + 200_000);
    }
    assert_eq!(
        host.cooldown(end + 200_000).state,
        CooldownState::Reopening,
        "three calls ran at the closing"
    );
    let c = host.start(Request::default(), end + 200_000);
    let _ = host.finish(c, 1, of(Class::Ok), end + 300_000);
    let d = host.start(Request::default(), end + 300_000);
    assert_eq!(attempt(host.poll(d, end + 400_000)), Some(2));
}

/// Specification 16.5.2, 16.5.4: the breaker's refusal frees the place; slow start ends at the bulkhead's limit.
#[test]
fn a_refusal_behind_it_frees_the_place() {
    let mut pairs = with(&bulkhead(2.0, 0.0));
    pairs.extend([("breaker.consecutive", Number(1.0)), ("breaker.break_duration", Number(60e6))]);
    let mut host = Host::new(&pairs);
    let [a, b] = [0, 1].map(|_| host.start(Request::default(), 0));
    let _ = host.finish(a, 1, throttled(1), 0);
    let end = host.end(0);
    let c = host.start(Request::default(), end);
    assert_eq!(host.cooldown(end).taken, 1);
    assert_eq!(verdict(host.begin(Request::default(), end).1), Verdict::Cooldown);
    let _ = host.finish(b, 1, of(Class::Transient), end);
    let _ = host.finish(c, 1, of(Class::Transient), end);
    assert_eq!((host.cooldown(end).places, host.cooldown(end).taken), (1, 0));
    assert_eq!(verdict(host.begin(Request::default(), end).1), Verdict::BreakerOpen);
    assert_eq!(host.cooldown(end).taken, 0);
}

/// Specification 16.5.5.
#[test]
fn a_place_is_a_lease() {
    let mut host = Host::new(&with(&[("attempt_timeout", Number(2e6))]));
    let call = host.start(Request::default(), 0);
    let _ = host.finish(call, 1, throttled(1), 0);
    let end = host.end(0);
    let silent = host.start(Request::default(), end);
    let refused = host.begin(Request::default(), end).1;
    let lease = Some(Duration::from_secs(3));
    assert_eq!(refused.action(), Action::Done { verdict: Verdict::Cooldown, result: None, retry_in: lease });
    let next = host.start(Request::default(), end + 3 * SECOND);
    let _ = host.finish(silent, 1, of(Class::Ok), end + 3 * SECOND);
    assert_eq!(host.cooldown(end + 3 * SECOND).state, CooldownState::Reopening);
    let _ = host.finish(next, 1, of(Class::Ok), end + 3 * SECOND);
    assert_eq!(host.cooldown(end + 3 * SECOND).state, CooldownState::Open);
}

/// Specification 16.5.6.
#[test]
fn a_call_within_another_takes_no_place() {
    let mut host = Host::new(&waiting(&[]));
    let call = host.start(Request::default(), 0);
    let _ = host.finish(call, 1, throttled(1), 0);
    let end = host.end(0);
    let outer = host.start(Request::default(), end);
    let within = Request { parent: Some(outer), ..Request::default() };
    let inner = host.start(within, end);
    assert_eq!(host.cooldown(end).taken, 1);
    let _ = host.finish(inner, 1, of(Class::Ok), end);
    assert_eq!(host.cooldown(end).state, CooldownState::Reopening);
    let _ = host.finish(outer, 1, of(Class::Ok), end);
    assert_eq!(host.cooldown(end).state, CooldownState::Open);
}

/// Specification 16.6.1, 16.6.2, 16.6.3, 12.1.
#[test]
fn it_is_saved_retuned_and_told() {
    let mut host = Host::with(&waiting(&[]), Options::default().journal(true));
    host.engine.subscribe(true);
    let call = host.start(Request::default(), 0);
    let _ = host.finish(call, 1, throttled(10), 0);
    let end = host.end(0);
    let parked = host.begin(Request::default(), SECOND).0;
    let explained = host.engine.explain_call(parked).unwrap();
    assert_eq!((explained.why, explained.verdict), (Some(Wait::Cooldown), None));
    let left = Duration::from_micros(end - SECOND);
    assert!(explained.numbers.contains(&format!("cooldown: closed for another {left}, 1 waiting")));

    let saved = host.engine.save(at(SECOND));
    let mut again = Host::new(&waiting(&[]));
    again.engine.restore(&saved, Duration::ZERO, at(SECOND)).unwrap();
    assert_eq!(again.end(SECOND), end);
    assert!(waits(again.begin(Request::default(), SECOND).1));

    let open = Policy::from_pairs("p", &[("deadline", Number(60e6))]).unwrap();
    let _ = host.engine.retune(host.policy, open, at(2 * SECOND)).unwrap();
    assert_eq!(host.wakes(), [parked], "without a cooldown nobody waits");
    assert_eq!(attempt(host.poll(parked, 2 * SECOND)), Some(1));
    let mut records = Vec::new();
    host.engine.take_records(&mut records);
    let told: Vec<_> = records.iter().filter(|it| it.what == RecordType::CooldownChanged).collect();
    assert_eq!((told.len(), told[0].change), (1, Some((0.0, 1.0))));
    assert_eq!(told[0].wait, Some(Duration::from_micros(end)));
    let queued: Vec<_> = records.iter().filter(|it| it.why == Some(Wait::Cooldown)).collect();
    assert_eq!(queued.len(), 2, "queued and granted");
}

/// Specification 0.6.2, 16.4.8: waiters of a forced route are refused; a cancelled one leaves its place to the next.
#[test]
fn operators_and_callers_end_a_wait() {
    let mut host = Host::new(&waiting(&[]));
    let call = host.start(Request::default(), 0);
    let _ = host.finish(call, 1, throttled(1), 0);
    let end = host.end(0);
    let [a, b, c] = [0, 1, 2].map(|_| host.begin(Request::default(), 0).0);
    assert!(waits(host.poll(c, end)), "its poll lets the head in");
    assert_eq!(verdict(host.engine.on(a, Event::Cancel, at(end))), Verdict::Cancelled);
    assert_eq!(host.wakes(), [a, b], "its place goes to the next");
    let _ = host.engine.force_open(host.policy, None, true, at(end));
    assert_eq!(verdict(host.poll(b, end)), Verdict::ForcedOpen);
    assert_eq!(verdict(host.poll(c, end)), Verdict::ForcedOpen);
    host.engine.check().unwrap();
    assert_eq!(host.cooldown(end).taken, 0);
}

/// Specification 16.1.2, 16.1.3, 16.1.4.
#[test]
fn mistakes_are_told() {
    let errors = |pairs: &[(&str, Value<'_>)]| {
        let errors = Policy::from_pairs("p", pairs).unwrap_err();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let one = ("cooldown.base", Number(1e6));
    assert_eq!(
        errors(&[one, ("retry.hold", Number(1.0))]),
        ["retry.hold = true: a cooldown holds all calls of the route already; choose hold or cooldown"]
    );
    assert_eq!(
        errors(&[one, ("cooldown.wait", Number(1.0))]),
        ["cooldown.wait = true: needs a bound: cooldown.max_wait or deadline"]
    );
    assert_eq!(
        errors(&[("cooldown.base", Number(6e6))]),
        ["cooldown.base = 6s: must be at most retry.backoff.max (5s)"]
    );
    assert_eq!(
        errors(&[one, ("targets", Text("chat"))]),
        [
            "cooldown = (given): stands beside targets: give the members of the group a cooldown, and the policy none"
        ]
    );
    assert!(Policy::from_pairs("p", &[one, ("cooldown.store", Text("fleet"))]).is_ok());
}

/// Specification 16.5.5. Trace 707 of seed 12: a look at the targets of a group ended the lease.
#[test]
fn a_look_ends_no_lease() {
    let settings = CooldownSettings { lease: Duration::from_secs(5), ..CooldownSettings::default() };
    let mut it = Cooldown::new(settings);
    it.on_throttled(at(0), None, 2, 0, at(0));
    let place = it.admit(at(10 * SECOND)).unwrap();
    assert_eq!((it.asks(at(14 * SECOND)), it.asks(at(15 * SECOND))), (Err(None), Ok(())));
    assert!(it.on_good(at(10 * SECOND), place, 2, at(20 * SECOND)), "no other attempt has had the place");
}

/// Specification 16.2.6, 16.6.1, 16.6.2: the longest closing that the settings allow is `quota_wait`, where that is more.
#[test]
fn a_spent_quota_stays_closed_over_a_retune_and_a_restart() {
    let spends = |wait: f64, deadline: f64| {
        with(&[
            ("cooldown.quota_wait", Number(wait)),
            ("retry.read_errors", Number(1.0)),
            ("deadline", Number(deadline)),
        ])
    };
    let mut host = Host::new(&spends(300e6, 1e6));
    let call = host.start(Request::default(), 0);
    let kind = host.engine.policy_of(host.policy).unwrap().kind_of("quota_spent").unwrap();
    let _ = host.finish(call, 1, Outcome { kind, ..of(Class::Permanent) }, 0);
    let end = host.end(0);
    assert!((300 * SECOND..=330 * SECOND).contains(&end), "{end}");
    let to = Policy::from_pairs("p", &spends(300e6, 2e6)).unwrap();
    let _ = host.engine.retune(host.policy, to, at(SECOND)).unwrap();
    assert_eq!(host.end(SECOND), end);
    let saved = host.engine.save(at(2 * SECOND));
    let mut again = Host::new(&spends(300e6, 2e6));
    again.engine.restore(&saved, Duration::ZERO, at(2 * SECOND)).unwrap();
    assert_eq!(again.end(2 * SECOND), end);
    let to = Policy::from_pairs("p", &spends(90e6, 2e6)).unwrap();
    let _ = host.engine.retune(host.policy, to, at(2 * SECOND)).unwrap();
    assert_eq!(host.end(2 * SECOND), 101 * SECOND, "and is cut to the longest of others");
}

/// Specification 16.5.7: places of ended attempts behind a running one are forgotten once that has ended, too.
#[test]
fn a_look_does_not_stop_at_the_most_places_that_are_remembered() {
    let mut it = Cooldown::new(CooldownSettings::default());
    it.on_throttled(at(0), None, 9_999, 0, at(0));
    let now = at(10 * SECOND);
    let first = it.admit(now).unwrap();
    assert!(!it.on_good(now, first, 9_999, now));
    let slow = it.admit(now).unwrap();
    while it.asks(now) == Ok(()) {
        let place = it.admit(now).unwrap();
        let _ = it.on_good(now, place, 9_999, now);
    }
    it.free(slow);
    assert_eq!(it.asks(now), Ok(()));
}

/// Specification 16.3.4: many keys share the overflow route, and one server's answer says nothing about the others.
#[test]
fn an_overflow_route_is_never_closed() {
    let mut host = Host::with(&with(&[]), Options::default().max_routes(1));
    let _ = host.start(Request::default(), 0);
    host.route = host.engine.route(host.policy, "other", at(0));
    let call = host.start(Request::default(), 0);
    let _ = host.finish(call, 1, throttled(10), 0);
    let _ = host.start(Request::default(), 1);
    host.engine.check().unwrap();
}

/// Specification 16.4.4.
#[test]
fn a_call_keeps_the_permit_for_all_its_attempts_while_its_next_one_waits() {
    let pairs = [&bulkhead(2.0, 0.0)[..], &retried(&with(&[]))].concat();
    let mut host = Host::new(&pairs);
    let calls = [host.start(Request::default(), 0), host.start(Request::default(), 0)];
    let _ = host.finish(calls[0], 1, throttled(1), 1);
    let _ = host.finish(calls[1], 1, throttled(20), 2);
    assert!(waits(host.poll(calls[0], 2 * SECOND)), "the end of the closing was put off");
    let in_flight = |host: &Host| host.engine.snapshot(at(2 * SECOND)).routes[0].pool.unwrap().in_flight;
    assert_eq!(in_flight(&host), 2);
    let _ = host.engine.on(calls[0], Event::Cancel, at(2 * SECOND));
    assert_eq!(in_flight(&host), 1);
}

/// Specification 16.6.2: calls that began before the cooldown was removed do not close the route.
#[test]
fn a_cooldown_that_is_removed_stays_open() {
    let mut host = Host::new(&with(&[]));
    let call = host.start(Request::default(), 0);
    let none = Policy::from_pairs("p", &[("deadline", Number(60e6))]).unwrap();
    let _ = host.engine.retune(host.policy, none, at(1)).unwrap();
    let _ = host.finish(call, 1, throttled(10), 2);
    let view = host.engine.snapshot(at(2)).routes[0].cooldown;
    assert!(view.is_none_or(|view| view.state == CooldownState::Open), "{view:?}");
}
