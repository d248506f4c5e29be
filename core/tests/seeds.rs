//! What the seeds' documents say and no vector shows. `docs/seeds.md` lists all their statements; `seeds_table.rs` reads it.

use crate::host::{Host, of, verdict};
use tidegate::Value::{Number, Text};
use tidegate::{
    Action, Backoff, Class, Criticality, Duration, ErrorInfo, Growth, HttpFailure, Jitter, Policy,
    QuotaSettings, Request, RetryError, RetryStrategy, StrategySettings, Value, Verdict, Wait, WallTime,
};

/// httpware, "`AsyncRetry`": full jitter, 0.1 s doubled each time, 5 s at most.
#[test]
fn httpware_waits_are_drawn_from_zero_to_a_doubling_ceiling() {
    let mut most = [0; 8];
    let mut least = [u64::MAX; 8];
    for call in 0..300 {
        let mut host = Host::new(&[("preset", Text("httpware")), ("retry.max_attempts", Number(9.0))]);
        for _ in 0..call {
            host.start(Request::default(), 0); // another ordinal, other draws
        }
        let (call, mut now) = (host.start(Request::default(), 0), 0);
        for n in 0..8 {
            let step = host.finish(call, n as u8 + 1, of(Class::Transient), now);
            let waits = step.action() == Action::Wait { why: Wait::Backoff };
            let delay = if waits { step.next().unwrap().as_micros() } else { 0 };
            most[n] = most[n].max(delay);
            least[n] = least[n].min(delay);
            now += delay;
            if waits {
                assert!(matches!(host.poll(call, now).action(), Action::Attempt { .. }));
            }
        }
    }
    for (n, (least, most)) in least.into_iter().zip(most).enumerate() {
        let ceiling = (100_000 << n).min(5_000_000);
        assert!(most <= ceiling && most > ceiling / 20 * 19, "{n}: {most}");
        assert!(least < ceiling / 20, "{n}: {least}");
    }
}

/// httpware, "`AsyncRetry`", and Graph's table of statuses: these are retried and no others; 500 is not.
#[test]
fn the_presets_retry_the_statuses_of_their_documents() {
    for (preset, statuses) in [("httpware", &[408, 429, 502, 503, 504][..]), ("graph", &[429, 503, 504])] {
        let retried = |status: &u16| {
            let mut host = Host::new(&[("preset", Text(preset))]);
            let failure = HttpFailure { status: *status, headers: &[] };
            let outcome =
                host.engine.classify_read(host.policy, &failure, b"", WallTime::from_unix_micros(0));
            let call = host.start(Request::default(), 0);
            matches!(host.finish(call, 1, outcome, 0).action(), Action::Wait { why: Wait::Backoff })
        };
        assert_eq!((100..600).filter(retried).collect::<Vec<u16>>(), statuses, "{preset}");
    }
}

/// httpware, "`AsyncRetry`": idempotent methods, and POST when it is listed.
#[test]
fn httpware_retries_idempotent_methods_and_those_that_are_listed() {
    let retried = |pairs: &[(&str, Value<'_>)]| {
        let host = Host::new(pairs);
        let methods = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH", "CONNECT"];
        methods
            .into_iter()
            .filter(|method| host.engine.retries_method(host.policy, method))
            .collect::<Vec<_>>()
    };
    let preset = ("preset", Text("httpware"));
    assert_eq!(retried(&[preset]), ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"]);
    let listed = [preset, ("retry.methods", Text("GET")), ("retry.methods", Text("POST"))];
    assert_eq!(retried(&listed), ["GET", "POST"]);
}

/// httpware, "The token-bucket formula": `int(deposits · 0.2) + int(10 · 10)`.
#[test]
fn httpware_budget_grants_a_fifth_of_the_calls_and_a_hundred() {
    for (calls, granted) in [(100, 100), (150, 130), (1_000, 300), (1_004, 300), (1_005, 301)] {
        let mut host = Host::new(&[("preset", Text("httpware")), ("retry.max_attempts", Number(2.0))]);
        let started: Vec<_> = (0..calls).map(|_| host.start(Request::default(), 0)).collect();
        let retried = started.into_iter().filter(|call| {
            let step = host.finish(*call, 1, of(Class::Transient), 0);
            step.action() == Action::Wait { why: Wait::Backoff } || verdict(step) != Verdict::Budget
        });
        assert_eq!(retried.count(), granted, "{calls} calls");
    }
}

/// httpware, "`RetryBudget`": 10 s are its window.
#[test]
fn httpware_budget_is_whole_again_after_ten_seconds() {
    let pairs = [
        ("preset", Text("httpware")),
        ("retry.budget.percent_can_retry", Number(0.0)),
        ("retry.max_attempts", Number(2.0)),
    ];
    let mut host = Host::new(&pairs);
    let mut granted = |now| {
        let started: Vec<_> = (0..200).map(|_| host.start(Request::default(), now)).collect();
        let steps: Vec<_> =
            started.into_iter().map(|call| host.finish(call, 1, of(Class::Transient), now)).collect();
        steps.iter().filter(|step| step.action() == Action::Wait { why: Wait::Backoff }).count()
    };
    assert_eq!((granted(0), granted(8_999_999), granted(10_000_000)), (100, 0, 100));
}

/// forze, "Managing the queue": normal is what a call is when nobody says otherwise, and the tiers are in this order.
#[test]
fn forze_criticality_is_normal_by_default() {
    assert_eq!(Request::default().criticality, Criticality::Normal);
    let tiers = [Criticality::BestEffort, Criticality::Degraded, Criticality::Normal, Criticality::Critical];
    assert!(tiers.is_sorted_by(|low, high| low < high));
}

const SAFE: ErrorInfo = ErrorInfo {
    is_retry_safe: Some(true),
    retry_after: None,
    is_throttling_error: false,
    is_timeout_error: false,
};

const BACKOFF: Backoff = Backoff {
    growth: Growth::Exponential(2.0),
    base: Duration::from_millis(25),
    max: Duration::from_secs(20),
    jitter: Jitter::None,
};

fn strategy(quota: Option<QuotaSettings>) -> RetryStrategy {
    let settings = StrategySettings { max_attempts: 3, backoff: BACKOFF, quota, retry_unknown: false };
    RetryStrategy::new(1, settings)
}

/// smithy, "Example Usage": the document's loop, attempt by attempt.
#[test]
fn smithy_loop_waits_refreshes_and_gives_the_error_that_ended_it() {
    let run = |answers: &[Option<ErrorInfo>]| {
        let mut strategy = strategy(None);
        let mut token = strategy.acquire_initial("");
        let (mut waited, mut sent) = (Vec::new(), 0);
        for answer in answers {
            waited.push(token.retry_delay.as_micros() / 1_000);
            sent += 1;
            match answer.map(|error| strategy.refresh(token, error)) {
                None => strategy.record_success(token),
                Some(Ok(next)) => {
                    assert_eq!(next.retry_count, sent);
                    token = next;
                    continue;
                }
                Some(Err(error)) => return (waited, sent, Some(error)),
            }
            break;
        }
        (waited, sent, None)
    };
    assert_eq!(run(&[None]), (vec![0], 1, None));
    assert_eq!(run(&[Some(SAFE), Some(SAFE), None]), (vec![0, 25, 50], 3, None));
    assert_eq!(run(&[Some(SAFE); 3]), (vec![0, 25, 50], 3, Some(RetryError::Attempts)));
    let unknown = ErrorInfo { is_retry_safe: None, ..SAFE };
    assert_eq!(run(&[Some(unknown)]), (vec![0], 1, Some(RetryError::NotSafe)));
}

/// smithy, "Error Classification": never less than the error's `retry_after`, never less than the backoff.
#[test]
fn smithy_delay_is_at_least_what_the_error_asks_for() {
    for (asked, delay) in [(0, 25), (10, 25), (25, 25), (3_000, 3_000), (3_600_000, 3_600_000)] {
        let mut strategy = strategy(None);
        let token = strategy.acquire_initial("");
        let error = ErrorInfo { retry_after: Some(Duration::from_millis(asked)), ..SAFE };
        assert_eq!(strategy.refresh(token, error).unwrap().retry_delay, Duration::from_millis(delay));
    }
}

/// smithy, "Error Classification": the kinds of error cost what the quota says.
#[test]
fn smithy_throttling_and_other_errors_cost_what_they_should() {
    let throttling = ErrorInfo { is_throttling_error: true, ..SAFE };
    let timeout = ErrorInfo { is_timeout_error: true, ..SAFE };
    for (error, left) in [(SAFE, 486), (throttling, 495), (timeout, 490)] {
        let quota = QuotaSettings { capacity: 500, cost: 14, timeout_cost: 10, throttled_cost: 5 };
        let mut strategy = strategy(Some(quota));
        let token = strategy.acquire_initial("s");
        let token = strategy.refresh(token, error).unwrap();
        assert_eq!(strategy.available("s"), Some(left));
        strategy.record_success(token);
        assert_eq!(strategy.available("s"), Some(500), "a success brings back the last retry's cost");
    }
}

/// smithy, "Backoff Strategy": the number of the retry is all that a delay depends on, other calls or none.
#[test]
fn smithy_backoff_is_stateless() {
    let second = |others: usize| {
        let mut strategy = strategy(None);
        let token = strategy.acquire_initial("");
        for _ in 0..others {
            let other = strategy.acquire_initial("");
            let other = strategy.refresh(other, SAFE).unwrap();
            strategy.refresh(other, SAFE).unwrap();
        }
        let token = strategy.refresh(token, SAFE).unwrap();
        strategy.refresh(token, SAFE).unwrap().retry_delay
    };
    assert_eq!((second(0), second(7)), (Duration::from_millis(50), Duration::from_millis(50)));
}

/// smithy, "Specification": a spent quota holds back retries, never calls.
#[test]
fn smithy_first_token_is_never_refused() {
    let quota = QuotaSettings { capacity: 0, cost: 14, timeout_cost: 10, throttled_cost: 5 };
    let mut strategy = strategy(Some(quota));
    for _ in 0..3 {
        let token = strategy.acquire_initial("s");
        assert_eq!((token.retry_count, token.retry_delay), (0, Duration::ZERO));
        assert_eq!(strategy.refresh(token, SAFE), Err(RetryError::Quota(Duration::from_millis(25))));
    }
}

/// smithy, "Error Classification": `is_retry_safe` false always refuses, `None` unless the strategy is told otherwise.
#[test]
fn smithy_errors_that_do_not_say_are_refused_unless_told() {
    for (retry_unknown, safe, granted) in
        [(false, None, false), (true, None, true), (false, Some(false), false), (true, Some(false), false)]
    {
        let backoff = Backoff { base: Duration::ZERO, ..BACKOFF };
        let settings = StrategySettings { max_attempts: 3, backoff, quota: None, retry_unknown };
        let mut strategy = RetryStrategy::new(1, settings);
        let token = strategy.acquire_initial("");
        let refreshed = strategy.refresh(token, ErrorInfo { is_retry_safe: safe, ..SAFE });
        assert_eq!(refreshed.is_ok(), granted, "{retry_unknown} {safe:?}");
    }
}

/// The numbers that forze's document gives, where a key is left out.
#[test]
fn forze_defaults_are_those_of_its_document() {
    let values = |pairs: &[(&'static str, Value<'static>)], expected: &[(&str, f64)]| {
        let policy = Policy::from_pairs("p", pairs).unwrap();
        for (key, number) in expected {
            assert_eq!(policy.value(key), Some(Number(*number)), "{key}");
        }
    };
    values(
        &[("throttle.window_kind", Text("sliding"))],
        &[("throttle.k", 2.0), ("throttle.window", 120e6), ("throttle.min_throughput", 10.0)],
    );
    values(
        &[
            ("bulkhead.kind", Text("aimd")),
            ("bulkhead.max_concurrency", Number(16.0)),
            ("bulkhead.latency_threshold", Number(300e3)),
            ("bulkhead.max_queue", Number(4.0)),
            ("bulkhead.queue_target", Number(20e3)),
        ],
        &[
            ("bulkhead.queue_interval", 100e3),
            ("bulkhead.min_concurrency", 1.0),
            ("bulkhead.backoff_ratio", 0.9),
            ("bulkhead.increase_step", 1.0),
            ("bulkhead.cut_interval", 1e6),
        ],
    );
}

fn wrong(pairs: &[(&str, Value<'_>)]) -> Vec<String> {
    let errors = Policy::from_pairs("p", pairs).err().unwrap_or_default();
    errors.into_iter().map(|error| error.key).collect()
}

/// httpware, "`AsyncBulkhead`": patience below 0 is an error.
#[test]
fn negative_patience_is_an_error() {
    let patience = |micros| {
        wrong(&[("bulkhead.max_concurrency", Number(1.0)), ("bulkhead.acquire_timeout", Number(micros))])
    };
    assert_eq!(patience(-1.0), ["bulkhead.acquire_timeout"]);
    assert_eq!(patience(0.0), [""; 0]);
}

/// forze, "Bulkheads": there is one place for the three kinds.
#[test]
fn the_kinds_of_a_bulkhead_exclude_one_another() {
    let kinds = |kinds: &[&'static str]| {
        let mut pairs =
            vec![("bulkhead.max_concurrency", Number(4.0)), ("bulkhead.latency_threshold", Number(1e5))];
        pairs.extend(kinds.iter().map(|kind| ("bulkhead.kind", Text(kind))));
        wrong(&pairs)
    };
    assert_eq!(kinds(&["aimd"]), [""; 0]);
    assert_eq!(kinds(&["aimd", "gradient2"]), ["bulkhead.kind"]);
}

/// Semantics 11: no setting makes a delay negative or no number.
#[test]
fn a_delay_that_is_no_number_is_an_error() {
    let spans =
        ["retry.backoff.base", "retry.backoff.max", "retry.max_retry_after", "attempt_timeout", "deadline"];
    for key in spans {
        for number in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(wrong(&[(key, Number(number))]), [key], "{number}");
        }
    }
}
