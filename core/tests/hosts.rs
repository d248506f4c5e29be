//! What hosts say of a call, and ask about it, beside the events of its attempts.

#![allow(missing_docs)] // sentences

use crate::host::{Host, SECOND, at, of, verdict};
use Value::{Number, Text};
use tidegate::{Action, CallId, Class, Duration, Record, RecordType, Request, RouteId, Value, Verdict, Wait};

const ATTEMPT_2: Action = Action::Attempt { attempt: 2, hedge: true };

fn hedging(more: &[(&'static str, Value<'static>)]) -> Host {
    Host::new(&[&[("hedge.delay", Number(100.0)), ("hedge.budget.kind", Text("none"))], more].concat())
}

#[test]
fn a_call_that_is_solo_is_never_hedged_and_has_no_timer_for_it() {
    let mut host = hedging(&[]);
    let call = host.start(Request::default(), 0);
    assert_eq!(host.poll(call, 100).action(), ATTEMPT_2);

    let solo = Request { solo: true, ..Request::default() };
    let (call, step) = host.begin(solo, 0);
    assert_eq!(step.next(), None);
    let step = host.poll(call, 10 * SECOND);
    assert_eq!((step.action(), step.next()), (Action::Wait { why: Wait::Running }, None));
    // Without retries a failure would start the next attempt of a race at once.
    assert_eq!(verdict(host.finish(call, 1, of(Class::Transient), 11 * SECOND)), Verdict::Attempts);
}

#[test]
fn a_call_that_is_solo_is_retried_as_ever() {
    let mut host = hedging(&[("retry.max_attempts", Number(3.0)), ("retry.backoff.jitter", Text("none"))]);
    let call = host.start(Request { solo: true, ..Request::default() }, 0);
    let step = host.finish(call, 1, of(Class::Transient), 10);
    assert_eq!(step.action(), Action::Wait { why: Wait::Backoff });
    let due = 10 + step.next().unwrap().as_micros();
    assert_eq!(host.poll(call, due).action(), Action::Attempt { attempt: 2, hedge: false });
    let step = host.poll(call, due + 10 * SECOND);
    assert_eq!(step.action(), Action::Wait { why: Wait::Running });
    assert_eq!(verdict(host.finish(call, 2, of(Class::Ok), due + 11 * SECOND)), Verdict::Ok);
}

#[test]
fn the_time_of_an_attempt_is_told_apart_from_the_moment_of_the_next_hedge() {
    let left = |host: &Host, call: CallId, micros: u64| host.engine.time_left(call, at(micros)).attempt;
    let whole = |host: &Host, call: CallId, micros: u64| host.engine.time_left(call, at(micros)).call;
    let span = |micros: u64| Some(Duration::from_micros(micros));
    let mut host = hedging(&[("attempt_timeout", Number(5_000.0)), ("deadline", Number(9_000.0))]);
    let (call, step) = host.begin(Request::default(), 0);
    assert_eq!(step.next(), span(100)); // the hedge
    assert_eq!(left(&host, call, 0), span(5_000));
    assert_eq!(host.poll(call, 100).action(), ATTEMPT_2);
    assert_eq!(left(&host, call, 100), span(5_000)); // the hedge has a time of its own
    assert_eq!(left(&host, call, 5_000), span(100));
    assert_eq!(whole(&host, call, 5_000), span(4_000));

    let remaining = Some(Duration::from_micros(3_000));
    let call = host.start(Request { remaining, ..Request::default() }, 10_000);
    assert_eq!(left(&host, call, 11_000), span(2_000)); // the earlier of the two
    assert_eq!(whole(&host, call, 11_000), span(2_000));
    assert_eq!(verdict(host.finish(call, 1, of(Class::Ok), 12_000)), Verdict::Ok);
    assert_eq!(left(&host, call, 12_000), None);
    assert_eq!(whole(&host, call, 12_000), None);

    let mut host = hedging(&[]);
    let call = host.start(Request::default(), 0);
    assert_eq!(left(&host, call, 0), None);
    assert_eq!(whole(&host, call, 0), None);
}

#[test]
fn a_call_without_limits_is_live_until_it_ends() {
    let mut host = hedging(&[]);
    let live = |host: &Host, call: CallId| host.engine.time_left(call, at(0)).live;
    let call = host.start(Request::default(), 0);
    assert!(live(&host, call));
    assert_eq!(verdict(host.finish(call, 1, of(Class::Ok), 10)), Verdict::Ok);
    assert!(!live(&host, call) && !live(&host, CallId::from_word(0)));
}

#[test]
fn a_call_that_waits_has_a_deadline_and_no_time_of_an_attempt() {
    let mut host = hedging(&[
        ("deadline", Number(9_000.0)),
        ("bulkhead.max_concurrency", Number(1.0)),
        ("bulkhead.max_queue", Number(1.0)),
    ]);
    let first = host.start(Request::default(), 0);
    let (call, step) = host.begin(Request { may_park: true, ..Request::default() }, 1_000);
    assert_eq!(step.action(), Action::Wait { why: Wait::Queue });
    let left = host.engine.time_left(call, at(3_000));
    assert_eq!((left.attempt, left.call, left.live), (None, Some(Duration::from_micros(7_000)), true));
    assert_eq!(verdict(host.finish(first, 1, of(Class::Ok), 3_000)), Verdict::Ok);
}

#[test]
fn a_fallback_is_told_with_its_route_and_whether_it_worked() {
    let mut host = hedging(&[]);
    let mut records: Vec<Record> = Vec::new();
    host.engine.note_fallback(host.route, true, at(5)); // nobody listens yet
    host.engine.subscribe(true);
    for ok in [true, false] {
        host.engine.note_fallback(host.route, ok, at(10));
    }
    host.engine.note_fallback(RouteId::from_word(7 << 20), true, at(10)); // no route of this engine
    host.engine.take_records(&mut records);
    let told: Vec<_> = records.iter().map(|it| (it.what, it.policy, it.route, it.kind, it.at)).collect();
    let expected = |class: Class| {
        (RecordType::Fallback, Some(host.policy), Some(host.route), Some(class.into()), at(10))
    };
    assert_eq!(told, [expected(Class::Ok), expected(Class::Permanent)]);
    let view = host.engine.snapshot(at(10));
    let counts: Vec<_> = view.policies.iter().map(|(_, it)| (it.fallbacks, it.fallback_failures)).collect();
    assert_eq!(counts, [(2, 1)], "counted also while nobody listens");
}
