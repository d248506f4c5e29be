//! Timeouts of a stream (semantics 7.7). The scripts of `tests/model/scripts_streams.txt` show what single reports do.

#![allow(missing_docs)] // sentences

use crate::host::{Host, SECOND, at, of, verdict};
use Value::{Number, Text};
use proptest::prelude::*;
use tidegate::{
    Action, CallId, Class, Duration, Engine, Event, Options, Policy, Request, Step, Time, Value, Verdict,
    Wait,
};

const STREAM: Request = Request {
    remaining: None,
    parent: None,
    path: tidegate::PathId::NONE,
    criticality: tidegate::Criticality::Normal,
    replayable: true,
    idempotent: true,
    abortable: true,
    may_park: true,
    slot_until_body: true,
    solo: false,
    stream: true,
    cost: 1,
};

fn progress(host: &mut Host, call: CallId, attempt: u8, age: u64, micros: u64) -> Step {
    let age = Duration::from_micros(age);
    host.engine.on(call, Event::Progress { attempt, age }, at(micros))
}

fn head(host: &mut Host, call: CallId, attempt: u8, micros: u64) -> Step {
    host.engine.on(call, Event::Headers { attempt }, at(micros))
}

fn mistakes(pairs: &[(&str, Value<'_>)]) -> Vec<String> {
    Policy::from_pairs("p", pairs).unwrap_err().iter().map(ToString::to_string).collect()
}

/// Semantics 7.7.12, 7.7.14.
#[test]
fn keys_that_could_do_nothing_are_mistakes() {
    assert_eq!(
        mistakes(&[("slot_until", Text("headers")), ("idle_timeout", Number(2e6))]),
        [
            "idle_timeout = 2s: slot_until = \"headers\" ends the call before its body is read: leave one of them \
             out"
        ]
    );
    assert_eq!(
        mistakes(&[("deadline", Number(1e6)), ("counts", Text("sse_data"))]),
        ["counts = \"sse_data\": means something only beside first_byte_timeout or idle_timeout"]
    );
    // Neither bounds anything by itself.
    assert_eq!(mistakes(&[("deadline_until", Text("delivery"))]).len(), 1);
    let both = [("first_byte_timeout", Number(1e6)), ("counts", Text("sse_data"))];
    assert!(Policy::from_pairs("p", &both).is_ok());
}

/// Semantics 7.7.23.
#[test]
fn a_host_that_does_not_serve_streams_refuses_their_keys() {
    let refused = |pairs: &[(&str, Value<'_>)], streams: bool| {
        let mut engine = Engine::new(1, Options::default().streams(streams));
        let policy = Policy::from_pairs("p", pairs).unwrap();
        engine.policy(policy).err().map(|clash| clash.to_string())
    };
    for key in ["first_byte_timeout", "idle_timeout"] {
        let told = refused(&[(key, Number(1e6))], false).unwrap();
        assert!(
            told.starts_with("policy = \"p\": this language does not serve first_byte_timeout"),
            "{told}"
        );
        assert_eq!(refused(&[(key, Number(1e6))], true), None);
    }
    assert_eq!(refused(&[("deadline", Number(1e6))], false), None);
    assert!(refused(&[("deadline", Number(1e6)), ("deadline_until", Text("delivery"))], false).is_some());

    let mut engine = Engine::new(1, Options::default().streams(false));
    let policy = |pairs: &[(&str, Value<'_>)]| Policy::from_pairs("p", pairs).unwrap();
    let id = engine.policy(policy(&[("deadline", Number(1e6))])).unwrap();
    assert!(engine.retune(id, policy(&[("idle_timeout", Number(1e6))]), at(0)).is_err());
    assert_eq!(engine.policy_of(id).unwrap().value("idle_timeout"), None);
}

/// Semantics 7.7.1: the estimators and the hedge's delay see the time to the first piece.
#[test]
fn a_hedge_overtakes_a_stream_whose_first_piece_does_not_come() {
    let mut host = Host::new(&[
        ("first_byte_timeout", Number(5e6)),
        ("idle_timeout", Number(1e6)),
        ("hedge.delay", Number(2e6)),
        ("hedge.budget.kind", Text("none")),
    ]);
    let (call, step) = host.begin(STREAM, 0);
    assert_eq!(step.next(), Some(Duration::from_secs(1)), "a report, if there is something to report");
    let step = host.poll(call, 2 * SECOND);
    assert_eq!(step.action(), Action::Attempt { attempt: 2, hedge: true });
    let step = head(&mut host, call, 2, 3 * SECOND);
    assert_eq!((step.action(), step.stop()), (Action::Wait { why: Wait::Body }, 1), "the race has been won");
    assert_eq!(progress(&mut host, call, 1, SECOND, 4 * SECOND).action(), Action::Wait { why: Wait::Body });
    assert_eq!(verdict(progress(&mut host, call, 2, SECOND, 4 * SECOND)), Verdict::StreamStalled);
    assert_eq!(verdict(host.poll(call, 4 * SECOND)), Verdict::Stale);
}

/// Semantics 7.7.3: each attempt of a race has a first byte's timeout of its own.
#[test]
fn each_attempt_of_a_race_has_its_own_first_byte_timeout() {
    let mut host = Host::new(&[
        ("first_byte_timeout", Number(3e6)),
        ("retry.max_attempts", Number(2.0)),
        ("hedge.delay", Number(1e6)),
        ("hedge.budget.kind", Text("none")),
    ]);
    let (call, step) = host.begin(STREAM, 0);
    assert_eq!(step.next(), Some(Duration::from_secs(1)));
    assert_eq!(host.poll(call, SECOND).next(), Some(Duration::from_secs(2)));
    assert_eq!(host.engine.time_left(call, at(SECOND)).attempt, Some(Duration::from_secs(3)));
    let step = host.poll(call, 3 * SECOND);
    assert_eq!((step.stop(), step.next()), (1, Some(Duration::from_secs(1))));
    assert_eq!(verdict(host.poll(call, 4 * SECOND)), Verdict::Attempts);
}

/// Semantics 7.7.19: in a race the last report's answer holds.
#[test]
fn reports_of_a_race_end_the_silent_attempt_alone() {
    let mut host = Host::new(&[
        ("idle_timeout", Number(10e6)),
        ("hedge.delay", Number(1e6)),
        ("hedge.budget.kind", Text("none")),
    ]);
    let call = host.start(STREAM, 0);
    assert!(matches!(host.poll(call, SECOND).action(), Action::Attempt { attempt: 2, .. }));
    assert_eq!(progress(&mut host, call, 1, 4 * SECOND, 5 * SECOND).next(), Some(Duration::from_secs(6)));
    let step = progress(&mut host, call, 1, 10 * SECOND, 11 * SECOND);
    assert_eq!((step.action(), step.stop()), (Action::Wait { why: Wait::Running }, 1));
    assert_eq!(verdict(host.finish(call, 2, of(Class::Ok), 12 * SECOND)), Verdict::Ok);
}

/// Semantics 7.7.15: neither the caller's deadline nor one of a call around it goes on.
#[test]
fn a_delivered_call_has_no_deadline_of_any_kind() {
    let pairs = [("deadline", Number(5e6)), ("deadline_until", Text("delivery"))];
    let mut host = Host::new(&pairs);
    let parent = host.start(Request { slot_until_body: false, ..STREAM }, 0);
    let remaining = Some(Duration::from_secs(2));
    let call = host.start(Request { parent: Some(parent), remaining, ..STREAM }, SECOND);
    assert_eq!(head(&mut host, call, 1, 2 * SECOND).next(), None);
    assert_eq!(host.poll(call, 4_000 * SECOND).action(), Action::Wait { why: Wait::Body });
    // A call within the stream has its own deadline, and none of the stream's.
    let (inner, step) = host.begin(Request { parent: Some(call), ..STREAM }, 4_000 * SECOND);
    assert_eq!(step.next(), Some(Duration::from_secs(5)));
    assert_eq!(verdict(host.poll(inner, 4_005 * SECOND)), Verdict::Deadline);
    assert_eq!(verdict(host.finish(call, 1, of(Class::Ok), 4_006 * SECOND)), Verdict::Ok);
}

/// Semantics 7.7.16: settings that a retune gives hold for later calls.
#[test]
fn a_call_keeps_the_idle_timeout_with_which_it_began() {
    let mut host = Host::new(&[("idle_timeout", Number(1e6))]);
    let call = host.start(STREAM, 0);
    assert_eq!(head(&mut host, call, 1, 0).next(), Some(Duration::from_secs(1)));
    let to = Policy::from_pairs("p", &[("idle_timeout", Number(9e6))]).unwrap();
    host.engine.retune(host.policy, to, at(0)).unwrap();
    assert_eq!(verdict(progress(&mut host, call, 1, SECOND, SECOND)), Verdict::StreamStalled);
}

proptest! {
    /// A body is ended by the first report of `idle_timeout` or more, and by none below it; and each answer asks for the next
    /// report in time: when it comes then, no silence is longer than `idle_timeout` unnoticed.
    #[test]
    fn silence_is_noticed_in_time_and_nothing_else_is(
        idle in 1_u64..1_000,
        pieces in prop::collection::vec(0_u64..1_500, 1..40),
    ) {
        let mut host = Host::new(&[("idle_timeout", Number(idle as f64))]);
        let call = host.start(STREAM, 0);
        let mut next = head(&mut host, call, 1, 0).next().unwrap().as_micros();
        let (mut now, mut last, mut silent) = (0, 0, None);
        'reading: for gap in pieces {
            let piece = last + gap;
            while now + next <= piece {
                now += next;
                let step = progress(&mut host, call, 1, now - last, now);
                if let Action::Done { verdict, .. } = step.action() {
                    prop_assert_eq!(verdict, Verdict::StreamStalled);
                    silent = Some(now - last);
                    break 'reading;
                }
                next = step.next().unwrap().as_micros();
            }
            prop_assert!(gap <= idle, "a silence of {} was not noticed", gap);
            last = piece;
        }
        prop_assert!(silent.is_none_or(|silent| silent == idle));
        let left = host.engine.on(call, Event::Poll, Time::from_micros(now)).action();
        prop_assert_eq!(silent.is_some(), matches!(left, Action::Done { verdict: Verdict::Stale, .. }));
    }
}

#[test]
fn an_explanation_shows_the_timeouts_and_warns_of_a_body_without_any() {
    let explained = |pairs: &[(&str, Value<'_>)]| {
        let host = Host::new(pairs);
        host.engine.explain_policy(host.policy).unwrap().to_string()
    };
    let bounded =
        [("first_byte_timeout", Number(3e6)), ("idle_timeout", Number(2e6)), ("deadline", Number(9e6))];
    let text = explained(&bounded);
    assert!(
        text.contains(
            "\n  stream: first_byte_timeout 3s, idle_timeout 2s, deadline_until body, counts bytes\n"
        ),
        "{text}"
    );
    assert!(!text.contains("a body that hangs"), "{text}");
    let text = explained(&[("deadline", Number(9e6)), ("deadline_until", Text("delivery"))]);
    assert!(text.contains("deadline_until delivery without idle_timeout: a body that hangs"), "{text}");
    assert!(!explained(&[("deadline", Number(9e6))]).contains("stream"));
}
