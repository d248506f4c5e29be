//! What `explain` says: of each preset and a full pipeline as reviewed texts (`snapshots/`), of calls as stories.
//!
//! `UPDATE=1 cargo test -p tidegate --test suite explain::` writes the texts anew; read the difference before it is committed.
#![allow(clippy::disallowed_methods, reason = "a test reads and writes its texts")]

use std::path::PathBuf;

use crate::host::{Host, SECOND, at, http, of, verdict};
use RecordType::{AttemptDone, AttemptStarted, CallDone, RetryScheduled, RetrySuppressed};
use Value::{Number, Text};
use tidegate::{
    CallId, Class, Criticality, Domain, Duration, Engine, Event, Input, Load, Options, Policy,
    PolicyExplanation, Pool, PoolKind, RecordType, Request, TABLE, Value, Verdict, Wait,
};

fn is_as_reviewed(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let reviewed = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(text, reviewed, "{name}");
}

fn explained(pairs: &[(&str, Value<'_>)]) -> PolicyExplanation {
    let mut engine = Engine::new(1, Options::default());
    let policy = engine.policy(Policy::from_pairs("p", pairs).unwrap()).unwrap();
    engine.explain_policy(policy).unwrap()
}

/// All components, in the strangest order.
fn pipeline() -> Vec<(&'static str, Value<'static>)> {
    vec![
        ("attempt_timeout", Number(2e6)),
        ("hedge.delay", Number(0.5e6)),
        ("hedge.budget.kind", Text("ratio")),
        ("hedge.budget.ratio", Number(0.05)),
        ("retry.hold", Number(1.0)),
        ("retry.send_rate", Text("cubic")),
        ("retry.max_attempts", Number(4.0)),
        ("retry.statuses", Number(503.0)),
        ("retry.statuses", Number(429.0)),
        ("retry.budget.kind", Text("window")),
        ("breaker.failure_ratio", Number(0.5)),
        ("breaker.window", Number(10e6)),
        ("breaker.min_throughput", Number(20.0)),
        ("breaker.break_duration", Number(5e6)),
        ("breaker.half_open_max_calls", Number(2.0)),
        ("bulkhead.kind", Text("aimd")),
        ("bulkhead.max_concurrency", Number(50.0)),
        ("bulkhead.latency_threshold", Number(0.25e6)),
        ("bulkhead.max_queue", Number(100.0)),
        ("bulkhead.queue_target", Number(5e3)),
        ("bulkhead.unit", Text("attempt")),
        ("rate_limit.permits", Number(100.0)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.wait", Number(1.0)),
        ("rate_limit.max_wait", Number(1e6)),
        ("deadline", Number(20e6)),
    ]
}

#[test]
fn presets_and_a_full_pipeline_are_explained_as_reviewed() {
    let Domain::Choice(presets) = TABLE[0].domain else { panic!() };
    assert_eq!(TABLE[0].path, "preset");
    for preset in presets {
        // grpc leaves the backoff to the document.
        is_as_reviewed(preset, &explained(&[("preset", Text(preset))]).to_string());
    }
    is_as_reviewed("pipeline", &explained(&pipeline()).to_string());
    let mut engine = Engine::new(1, Options::default());
    let pool = [("max_concurrency", Number(10.0)), ("max_queue", Text("none"))];
    engine.pool(Pool::from_pairs("db", PoolKind::Bulkhead, &pool).unwrap(), at(0)).unwrap();
    let budget = [("kind", Text("share")), ("share", Number(0.3))];
    engine.pool(Pool::from_pairs("spare", PoolKind::Budget, &budget).unwrap(), at(0)).unwrap();
    let pairs = [
        ("bulkhead.pool", Text("db")),
        ("bulkhead.acquire_timeout", Text("none")),
        ("retry.budget.pool", Text("spare")),
    ];
    let policy = engine.policy(Policy::from_pairs("pooled", &pairs).unwrap()).unwrap();
    is_as_reviewed("pooled", &engine.explain_policy(policy).unwrap().to_string());
}

#[test]
fn the_components_stand_in_their_one_order() {
    let names: Vec<_> = explained(&pipeline()).components.iter().map(|it| it.name).collect();
    assert_eq!(
        names.join(" "),
        "deadline hold rate_limit bulkhead breaker send_rate retry retry.budget retry.backoff hedge hedge.budget attempt_timeout"
    );
    assert!(explained(&pipeline()).components.iter().all(|it| it.meaning.ends_with('.')));
}

#[test]
fn the_bounds_are_those_of_the_specification() {
    let load = |pairs: &[(&str, Value<'_>)]| explained(pairs).load;
    let of = |per_call, per_second, burst| Load { per_call, per_second, burst };
    assert_eq!(load(&http(&[])), of(1.18, 0.0, 2.0));
    let earned = [("retry.budget.ratio", Number(0.1)), ("retry.budget.start", Number(7.0))];
    assert_eq!(load(&http(&earned)), of(1.1, 0.0, 7.0));
    assert_eq!(load(&[("preset", Text("httpware"))]), of(1.2, 10.0, 110.0));
    assert_eq!(load(&http(&[("retry.budget.rounding", Text("ceil"))])), of(1.2, 10.1, 111.0));
    let ratio = [("retry.budget.kind", Text("ratio")), ("retry.budget.ratio", Number(0.25))];
    let more = [("retry.budget.min_throughput", Number(10.0)), ("retry.max_attempts", Number(4.0))];
    assert_eq!(load(&[&ratio[..], &more].concat()), of(1.25, 0.0, 30.0));
    assert_eq!(load(&[("preset", Text("grpc"))]), of(1.1, 0.0, 5.0));
    assert_eq!(load(&[("preset", Text("aws_standard"))]), of(2.0, 0.0, 100.0));
    assert_eq!(load(&http(&[("retry.budget.kind", Text("none"))])), of(3.0, 0.0, 0.0));
    assert_eq!(load(&http(&[("retry.budget.kind", Text("share"))])), of(3.0, 0.0, 0.0));
    assert_eq!(load(&[("deadline", Number(1.0))]), of(1.0, 0.0, 0.0));
    let hedge = [("hedge.delay", Number(1e3)), ("hedge.max_attempts", Number(3.0))];
    assert_eq!(load(&[hedge[0], hedge[1], ("hedge.budget.kind", Text("none"))]), of(3.0, 0.0, 0.0));
    assert_eq!(
        load(&[hedge[0], hedge[1]]),
        of(1.18, 0.0, 2.0),
        "the default budget, as many to start with as hedges"
    );
    let tokens = [("kind", Text("tokens")), ("max", Number(10.0)), ("ratio", Number(0.1))];
    let of_table = |table: &str| -> Vec<_> {
        let key = |key: &str| -> &'static str { Box::leak(format!("{table}.budget.{key}").into()) };
        tokens.iter().map(|(name, value)| (key(name), *value)).collect()
    };
    assert_eq!(load(&[&hedge[..], &of_table("retry")].concat()), of(1.1, 0.0, 6.0), "shared: one more");
    let own = [&of_table("hedge")[..], &hedge].concat();
    assert_eq!(load(&own), of(1.1, 0.0, 6.0), "its own: one more too");
}

#[test]
fn the_longest_wait_is_the_sum_of_what_a_call_may_wait_for() {
    let wait = |pairs: &[(&str, Value<'_>)]| explained(pairs).max_wait.map(Duration::as_micros);
    let retry = [
        ("retry.max_attempts", Number(3.0)),
        ("retry.backoff.base", Number(0.1e6)),
        ("retry.backoff.max", Number(5e6)),
        ("retry.retry_after", Text("ignore")),
    ];
    let with = |more: &[(&'static str, Value<'static>)]| wait(&[&retry[..], more].concat());
    assert_eq!(with(&[]), Some(300_000), "0.1 s and 0.2 s");
    assert_eq!(with(&[("retry.backoff.throttled_base", Number(1e6))]), Some(3_000_000));
    assert_eq!(with(&[("retry.retry_time_limit", Number(0.25e6))]), Some(250_000));
    assert_eq!(with(&[("deadline", Number(0.2e6))]), Some(200_000));
    let bounded = [("retry.backoff.jitter", Text("bounded")), ("retry.backoff.jitter_ratio", Number(0.5))];
    assert_eq!(with(&bounded), Some(450_000));
    assert_eq!(with(&[("retry.backoff.jitter", Text("decorrelated"))]), Some(10_000_000));
    let server = |mode| {
        let mut pairs = retry;
        pairs[3] = ("retry.retry_after", Text(mode));
        wait(&[&pairs[..], &[("retry.max_retry_after", Number(60e6))]].concat())
    };
    assert_eq!(server("exact"), Some(120 * SECOND));
    assert_eq!(server("floor"), Some(132 * SECOND), "and a tenth on top");
    assert_eq!(server("clamp_5s"), Some(10_300_000), "5 s more than computed");
    let queue = [("bulkhead.max_concurrency", Number(1.0)), ("bulkhead.acquire_timeout", Number(2e6))];
    assert_eq!(with(&queue), Some(300_000), "there is no queue");
    let queue = [queue[0], queue[1], ("bulkhead.max_queue", Number(1.0))];
    assert_eq!(with(&queue), Some(2_300_000));
    assert_eq!(with(&[&queue[..], &[("bulkhead.unit", Text("attempt"))]].concat()), Some(6_300_000));
    assert_eq!(with(&[queue[0], queue[2], ("bulkhead.acquire_timeout", Text("none"))]), None);
    let rate = [
        ("rate_limit.permits", Number(1.0)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.wait", Number(1.0)),
        ("rate_limit.max_wait", Number(3e6)),
    ];
    assert_eq!(with(&rate), Some(3_300_000));
    assert_eq!(with(&[("retry.hold", Number(1.0))]), None);
    let timed = explained(&[&retry[..], &[("attempt_timeout", Number(1e6))]].concat());
    assert_eq!(timed.max_time, Some(Duration::from_micros(3_300_000)));
    assert_eq!(explained(&retry).max_time, None, "an attempt may hang");
}

#[test]
fn each_warning_stands_where_it_is_due_and_nowhere_else() {
    let warned = |pairs: &[(&str, Value<'_>)], word: &str| {
        explained(pairs).warnings.iter().filter(|warning| warning.starts_with(word)).count() == 1
    };
    let bulkhead = |unit| {
        [
            ("bulkhead.max_concurrency", Number(1.0)),
            ("bulkhead.max_queue", Text("none")),
            ("bulkhead.unit", Text(unit)),
        ]
    };
    let call = bulkhead("call");
    let deadline = ("deadline", Number(1e6));
    let none = ("bulkhead.acquire_timeout", Text("none"));
    for (word, with, without) in [
        ("neither", vec![("retry.max_attempts", Number(2.0))], deadline),
        ("max_queue none", vec![call[0], call[1], none], deadline),
        (
            "max_queue 0",
            vec![("bulkhead.max_concurrency", Number(16.0))],
            ("bulkhead.max_queue", Number(1.0)),
        ),
        ("retry without", vec![("retry.budget.kind", Text("none"))], ("retry.max_attempts", Number(1.0))),
        (
            "hedge without",
            vec![("hedge.delay", Number(1.0)), ("hedge.budget.kind", Text("none"))],
            ("hedge.budget.kind", Text("window")),
        ),
        (
            "rate_limit counts",
            vec![
                ("preset", Text("http")),
                ("rate_limit.permits", Number(1.0)),
                ("rate_limit.per", Number(1e6)),
            ],
            ("rate_limit.unit", Text("attempt")),
        ),
        (
            "attempt_timeout is not",
            vec![deadline, ("attempt_timeout", Number(1e6))],
            ("attempt_timeout", Number(999_999.0)),
        ),
        (
            "acquire_timeout is not",
            vec![deadline, call[0], call[1]],
            ("bulkhead.acquire_timeout", Number(999_999.0)),
        ),
        ("hold or send_rate", vec![("retry.hold", Number(1.0))], deadline),
        (
            "bulkhead counts",
            vec![("preset", Text("http")), call[0], call[2]],
            ("bulkhead.unit", Text("attempt")),
        ),
    ] {
        assert!(warned(&with, word), "{word}: {:?}", explained(&with).warnings);
        let mended: Vec<_> =
            with.iter().copied().filter(|pair| pair.0 != without.0).chain([without]).collect();
        assert!(!warned(&mended, word), "{word}: {:?}", explained(&mended).warnings);
    }
    assert!(explained(&http(&[])).warnings.is_empty());
}

#[test]
fn memory_is_counted_by_component() {
    let bytes = |pairs: &[(&str, Value<'_>)]| explained(pairs).memory_per_route;
    let bare = bytes(&[("deadline", Number(1.0))]);
    let probes = |n| {
        let pairs = [
            ("breaker.consecutive", Number(1.0)),
            ("breaker.break_duration", Number(1e6)),
            ("breaker.half_open_max_calls", Number(n)),
        ];
        bytes(&pairs)
    };
    assert_eq!(probes(11.0) - probes(1.0), 160, "16 bytes a probe");
    assert!(bare < probes(1.0) && bytes(&pipeline()) > probes(2.0), "{bare}");
    assert!(bytes(&pipeline()) < 4_096, "{}", bytes(&pipeline()));
}

fn journaled(pairs: &[(&str, Value<'_>)]) -> Host {
    let mut engine = Engine::new(42, Options::default().journal(true));
    let policy = engine.policy(Policy::from_pairs("p", pairs).unwrap()).unwrap();
    let route = engine.route(policy, "eu", at(0));
    Host { engine, policy, route }
}

#[test]
fn a_call_that_waits_says_why_and_until_when() {
    let mut host = journaled(&http(&[
        ("bulkhead.max_concurrency", Number(1.0)),
        ("bulkhead.max_queue", Number(3.0)),
        ("bulkhead.unit", Text("attempt")),
        ("attempt_timeout", Number(2e6)),
    ]));
    let first = host.start(Request::default(), 0);
    let second = host.park(10);
    let stands = |host: &Host, call| {
        let it = host.engine.explain_call(call).unwrap();
        (it.why, it.until.map(tidegate::Time::as_micros))
    };
    assert_eq!(stands(&host, first), (Some(Wait::Running), Some(2_000_000)));
    assert_eq!(stands(&host, second), (Some(Wait::Queue), Some(1_000_010)));
    is_as_reviewed("call_queued", &host.engine.explain_call(second).unwrap().to_string());
    let step = host.finish(first, 1, of(Class::Transient), 500);
    assert_eq!(stands(&host, first), (Some(Wait::Backoff), Some(500 + step.next().unwrap().as_micros())));
    assert_eq!(stands(&host, second), (Some(Wait::Queue), Some(5_000_500)), "granted, not claimed");
    let third = host.park(600);
    let _ = host.engine.force_open(host.policy, None, true, at(600));
    let refused = host.engine.explain_call(third).unwrap();
    assert_eq!((refused.verdict, refused.why), (Some(Verdict::ForcedOpen), None));
    assert_eq!(refused.numbers[0], "forced open by an operator");
    let body = Request { slot_until_body: true, ..Request::default() };
    let _ = host.engine.force_open(host.policy, None, false, at(600));
    let _ = host.engine.on(second, Event::Cancel, at(601));
    let _ = host.poll(third, 601);
    let reading = host.start(body, 700);
    let _ = host.engine.on(reading, Event::Headers { attempt: 1 }, at(800));
    assert_eq!(stands(&host, reading), (Some(Wait::Body), Some(30_000_700)));
    assert_eq!(host.engine.explain_call(CallId::from_word(0)), None);
}

#[test]
fn calls_that_are_held_or_wait_for_a_rate_say_so() {
    let mut host = journaled(&http(&[
        ("retry.hold", Number(1.0)),
        ("rate_limit.permits", Number(1.0)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.wait", Number(1.0)),
    ]));
    let path = host.engine.path_id(host.route, "/a", at(0));
    let like = Request { path, ..Request::default() };
    let call = host.start(like, 0);
    let paced = host.begin(Request { criticality: Criticality::Critical, ..Request::default() }, 10).0;
    let it = host.engine.explain_call(paced).unwrap();
    assert_eq!((it.why, it.until), (Some(Wait::Rate), Some(at(SECOND))));
    let _ = host.finish(call, 1, of(Class::Throttled).retry_after(Duration::from_secs(5)), 20);
    let held = host.begin(like, 30).0;
    let it = host.engine.explain_call(held).unwrap();
    assert_eq!((it.why, it.until), (Some(Wait::Hold), Some(at(30 * SECOND + 30))));
    assert!(it.numbers.contains(&"holds: 1 open, 1 waiting".to_owned()), "{:?}", it.numbers);
}

#[test]
fn a_call_that_has_ended_is_explained_from_the_journal() {
    let budget =
        [("retry.budget.min_retries_per_sec", Number(0.0)), ("retry.budget.percent_can_retry", Number(1.0))];
    let mut host = journaled(&http(&budget));
    let call = host.start(Request::default(), 0);
    let step = host.finish(call, 1, of(Class::Transient), 1_000);
    let due = 1_000 + step.next().unwrap().as_micros();
    let _ = host.poll(call, due);
    assert_eq!(verdict(host.finish(call, 2, of(Class::Transient), due + 500)), Verdict::Budget);
    let _ = host.start(Request::default(), due + 600);
    let it = host.engine.explain_call(call).unwrap();
    assert_eq!((it.verdict, it.attempts, it.at, it.began), (Some(Verdict::Budget), 2, at(due + 500), at(0)));
    assert_eq!(it.numbers, ["retry budget: 0 retries left"], "before the call that came later");
    let story: Vec<_> = it.story.iter().map(|record| record.what).collect();
    let expected =
        [AttemptStarted, AttemptDone, RetryScheduled, AttemptStarted, AttemptDone, RetrySuppressed, CallDone];
    assert_eq!(story, expected);
    is_as_reviewed("call_ended", &it.to_string());

    // A journal that was taken explains nothing here, and everything where it is replayed.
    let mut inputs: Vec<Input> = Vec::new();
    host.engine.take_journal(&mut inputs);
    assert_eq!(host.engine.explain_call(call), None);
    let mut again = Engine::new(42, Options::default().journal(true));
    again.replay(inputs);
    assert_eq!(again.explain_call(call), Some(it));
}

#[test]
fn a_refused_call_is_explained_by_what_refused_it() {
    let mut host =
        journaled(&[("breaker.consecutive", Number(1.0)), ("breaker.break_duration", Number(1e6))]);
    let call = host.start(Request::default(), 0);
    let _ = host.finish(call, 1, of(Class::Transient), 10);
    let (refused, step) = host.begin(Request::default(), 510);
    assert_eq!(verdict(step), Verdict::BreakerOpen);
    let it = host.engine.explain_call(refused).unwrap();
    assert_eq!((it.verdict, it.attempts), (Some(Verdict::BreakerOpen), 0));
    assert!(it.numbers[0].starts_with("breaker: open, refuses for another "), "{it}");
    assert!(it.until.unwrap() >= at(10 + SECOND));
    // After a fork the seed is another, but the journal's is the first one's.
    let _ = host.engine.after_fork(99, at(600));
    assert_eq!(host.engine.explain_call(refused), Some(it));
    assert_eq!(host.engine.explain_policy(tidegate::PolicyId::from_word(7)), None);
}

#[test]
fn a_history_explains_calls_without_a_journal_and_is_bounded() {
    let pairs = http(&[("bulkhead.max_concurrency", Number(1.0)), ("retry.max_attempts", Number(2.0))]);
    let mut host = Host::with(&pairs, Options::default().history(64));
    let works = host.start(Request::default(), 0);
    let (refused, _) = host.begin(Request::default(), 5);
    let _ = host.finish(works, 1, of(Class::Ok), 10);
    assert_eq!(host.engine.explain_call(works), None, "what just works leaves nothing");
    let it = host.engine.explain_call(refused).unwrap();
    assert_eq!((it.verdict, it.attempts, it.began), (Some(Verdict::QueueFull), 0, at(5)));
    assert_eq!(it.numbers[0], "now: bulkhead: 0 of 1 permits out, 0 of 0 places in the queue taken");

    let retried = host.start(Request::default(), 20);
    let _ = host.finish(retried, 1, of(Class::Transient), 30);
    let _ = host.engine.on(retried, Event::Timer, at(SECOND));
    let _ = host.finish(retried, 2, of(Class::Ok), SECOND + 10);
    let it = host.engine.explain_call(retried).unwrap();
    assert_eq!((it.verdict, it.attempts), (Some(Verdict::Ok), 2), "{it}");
    assert_eq!(it.story.iter().map(|record| record.what).collect::<Vec<_>>(), [RetryScheduled]);

    let holder = host.start(Request::default(), 2 * SECOND);
    for _ in 0..1_000 {
        let (late, _) = host.begin(Request::default(), 2 * SECOND);
        assert!(host.engine.explain_call(late).is_some());
    }
    assert_eq!(host.engine.explain_call(refused), None, "64 records later");
    let _ = host.finish(holder, 1, of(Class::Ok), 3 * SECOND);
    assert!(!host.engine.has_records(), "nobody listens");
}
