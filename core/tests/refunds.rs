//! What comes back to a budget, and to which: stories of refunds that few other tests would miss.

use crate::host::{Host, SECOND, at, of, verdict};
use Value::{Number, Text};
use tidegate::{Action, Class, Event, Request, Value, Verdict, Wait};

const AT_ONCE: [(&str, Value<'static>); 3] =
    [("retry.max_attempts", Number(4.0)), ("retry.backoff.base", Number(0.0)), ("hedge.delay", Number(10e3))];

fn left(host: &Host, now: u64) -> Option<u64> {
    host.engine.snapshot(at(now)).routes[0].budget
}

#[test]
fn a_hedge_that_wins_gives_back_what_the_calls_last_retry_cost() {
    // 50 tokens, 5 each: the retry takes five, and so does the hedge where it draws on the same quota.
    for (hedges, before, after) in [("none", 9, 10), ("shared", 8, 9)] {
        let quota = [
            ("retry.budget.kind", Text("quota")),
            ("retry.budget.capacity", Number(50.0)),
            ("hedge.budget.kind", Text(hedges)),
        ];
        let mut host = Host::new(&[&AT_ONCE[..], &quota].concat());
        let call = host.start(Request::default(), 0);
        let retry = host.finish(call, 1, of(Class::Transient), 0).action();
        assert_eq!(retry, Action::Attempt { attempt: 2, hedge: false });
        assert_eq!(host.poll(call, 10_000).action(), Action::Attempt { attempt: 3, hedge: true });
        assert_eq!(left(&host, 10_000), Some(before), "{hedges}");
        assert_eq!(verdict(host.finish(call, 3, of(Class::Ok), 20_000)), Verdict::Ok);
        assert_eq!(left(&host, 20_000), Some(after), "{hedges}");
    }
}

#[test]
fn a_failed_hedge_with_a_budget_of_its_own_is_a_failure_for_the_retries_tokens() {
    let tokens = [
        ("retry.budget.kind", Text("tokens")),
        ("retry.budget.max", Number(10.0)),
        ("retry.budget.ratio", Number(0.1)),
    ];
    for (hedges, before, after) in [("none", 5, 4), ("shared", 4, 4)] {
        let own = [("hedge.budget.kind", Text(hedges))];
        let mut host = Host::new(&[&AT_ONCE[..], &tokens, &own].concat());
        let call = host.start(Request::default(), 0);
        assert_eq!(host.poll(call, 10_000).action(), Action::Attempt { attempt: 2, hedge: true });
        assert_eq!(left(&host, 10_000), Some(before), "{hedges}");
        assert!(matches!(host.finish(call, 2, of(Class::Transient), 15_000).action(), Action::Wait { .. }));
        assert_eq!(left(&host, 15_000), Some(after), "{hedges}: one token each, whoever took it");
    }
}

#[test]
fn a_cancelled_backoff_gives_its_retry_back_to_the_tenth_of_the_window_that_paid() {
    let window = [
        ("retry.backoff.base", Number(5e6)),
        ("retry.budget.kind", Text("window")),
        ("retry.budget.min_retries_per_sec", Number(0.1)),
    ];
    let mut host = Host::new(&window);
    let call = host.start(Request::default(), 0);
    assert!(matches!(host.finish(call, 1, of(Class::Transient), 0).action(), Action::Wait { .. }));
    assert_eq!(left(&host, 2 * SECOND), Some(0));
    let cancelled = host.engine.on(call, Event::Cancel, at(2 * SECOND));
    assert_eq!(verdict(cancelled), Verdict::Cancelled);
    assert_eq!(left(&host, 2 * SECOND), Some(1));
}

#[test]
fn a_late_answer_gives_back_its_retry_once() {
    // 20 tokens, 10 for a retry after a timeout: two retries are paid, and one of them never starts.
    let quota = [
        ("attempt_timeout", Number(1e3)),
        ("retry.backoff.base", Number(1e6)),
        ("retry.budget.kind", Text("quota")),
        ("retry.budget.capacity", Number(20.0)),
        ("retry.budget.cost", Number(10.0)),
    ];
    let mut host = Host::new(&quota);
    let (one, other) = (host.start(Request::default(), 0), host.start(Request::default(), 0));
    for call in [one, other] {
        assert!(matches!(host.poll(call, 1_000).action(), Action::Wait { .. }));
    }
    assert_eq!(left(&host, 1_000), Some(0));
    assert_eq!(verdict(host.finish(one, 1, of(Class::Ok), 1_001)), Verdict::Ok);
    // 10 come back, and a success at the first try gives 1: enough for one retry, not for two.
    assert_eq!(left(&host, 1_001), Some(1));
    let calls = [host.start(Request::default(), 1_001), host.start(Request::default(), 1_001)];
    assert!(matches!(host.poll(calls[0], 2_001).action(), Action::Wait { .. }));
    assert_eq!(verdict(host.poll(calls[1], 2_001)), Verdict::Budget);
}

/// Semantics 2.15.3: while a call waits in a queue its links are where the moment of its charge was.
#[test]
fn a_late_answer_of_a_queued_call_gives_its_retry_back_to_the_tenth_that_paid() {
    let window = [
        ("attempt_timeout", Number(1e3)),
        ("retry.max_attempts", Number(2.0)),
        ("retry.backoff.base", Number(0.0)),
        ("retry.budget.kind", Text("window")),
        ("retry.budget.min_retries_per_sec", Number(0.1)),
        ("bulkhead.max_concurrency", Number(1.0)),
        ("bulkhead.max_queue", Number(8.0)),
        ("bulkhead.unit", Text("attempt")),
    ];
    let mut host = Host::new(&window);
    let call = host.start(Request { abortable: false, ..Request::default() }, 0);
    assert!(matches!(host.poll(call, 1_000).action(), Action::Wait { .. }));
    assert_eq!(
        host.poll(call, 1_000).action(),
        Action::Wait { why: Wait::Queue },
        "attempt 1 has the permit"
    );
    assert_eq!(left(&host, 1_000), Some(0));
    assert_eq!(verdict(host.finish(call, 1, of(Class::Ok), 1_001)), Verdict::Ok);
    assert_eq!(left(&host, 1_001), Some(1));
}
