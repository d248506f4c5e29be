//! What the independent model found (`tests/model`), each with the schedule that showed it.

mod host;

use Value::{Number, Text};
use host::{Host, SECOND, at, bulkhead, of, verdict};
use tidegate::{Action, Class, Duration, Event, Request, Value, Verdict, Wait};

#[test]
fn a_retry_that_waits_for_stopped_attempts_is_charged_once_and_polls_change_nothing() {
    let mut host = Host::new(&[
        ("attempt_timeout", Number(10.0)),
        ("retry.max_attempts", Number(12.0)),
        ("retry.backoff.base", Number(0.0)),
        ("retry.backoff.jitter", Text("none")),
    ]);
    let call = host.start(Request { abortable: false, ..Request::default() }, 0);
    // Attempt 1 is stopped and never reported; 2 to 8 fail at once.
    assert_eq!(host.poll(call, 10).action, Action::Wait { why: Wait::Backoff });
    assert_eq!(host.poll(call, 10).action, Action::Attempt { attempt: 2, hedge: false });
    for attempt in 2..8 {
        let step = host.finish(call, attempt, of(Class::Transient), 10);
        assert_eq!(step.action, Action::Attempt { attempt: attempt + 1, hedge: false });
    }
    let step = host.finish(call, 8, of(Class::Transient), 10);
    assert_eq!(step.action, Action::Wait { why: Wait::Running });
    let before = host.engine.snapshot(at(10)).routes[0].budget;
    assert_eq!(host.poll(call, 10), step);
    assert_eq!(host.engine.snapshot(at(10)).routes[0].budget, before);
    // Its host was told to come after 60 s: it is not lost when it does.
    let _ = host.begin(Request::default(), 10 + 60 * SECOND);
    let _ = host.begin(Request::default(), 10 + 60 * SECOND);
    assert_eq!(
        host.poll(call, 11 + 60 * SECOND).action,
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

#[test]
fn deadlines_nest_without_the_hosts_help() {
    let mut host = Host::new(&[("deadline", Number(1e6))]);
    let around = host.start(Request::default(), 0);
    let inner = Request { parent: Some(around), ..Request::default() };
    let (_, step) = host.begin(inner, 600_000);
    assert_eq!(step.next, Some(Duration::from_micros(400_000)));
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
