//! Targets for calls that have failed (semantics 17.7), and timeouts of targets (17.1.13).

#![allow(missing_docs)]

use crate::host::{SECOND, at, of, verdict};
use crate::targets::{Host, LADDER, attempt, kind};
use tidegate::{
    Action, AttemptSlot, Class, Document, Duration, Event, Outcome, Pool, PoolKind, Verdict, Wait,
};

#[test]
fn a_kind_that_the_policy_does_not_declare_fails_over_as_permanent_17_4_8() {
    let mut host =
        Host::new(&LADDER.replace("retry.max", "retry.failover_on = [\"permanent\"]\n    retry.max"));
    let (call, _) = host.start(0);
    let kind = tidegate::Kind::new(10).unwrap();
    let step = host.finish(call, 1, Outcome { kind, ..of(Class::Permanent) }, 10);
    assert_eq!((step.action(), host.target(call, step)), (attempt(2), "b".into()), "1.1.4");
}

/// A slow target may have the longer timeout, so that of two attempts the newer one is out of time first.
#[test]
fn of_two_attempts_out_of_time_at_one_event_the_newest_decides_7_1_7() {
    let mut host = Host::new(
        r#"
        [targets.chat]
        pick = "ladder"
        members = [{ name = "slow", attempt_timeout = "30s" }, { name = "plain" }]
        [policy.p]
        targets = "chat"
        attempt_timeout = "5s"
        retry = { max_attempts = 2, budget = { kind = "none" } }
        hedge = { delay = "2s", max_attempts = 2, budget = { kind = "none" } }
    "#,
    );
    let (call, _) = host.begin(0);
    let step = host.on(call, Event::Timer, 2 * SECOND);
    assert_eq!(
        (step.action(), host.target(call, step)),
        (Action::Attempt { attempt: 2, hedge: true }, "plain".into())
    );
    let step = host.on(call, Event::Timer, 40 * SECOND);
    let result = Some(AttemptSlot::of(2));
    assert_eq!(
        (step.stop(), step.action()),
        (3, Action::Done { verdict: Verdict::Attempts, result, retry_in: None })
    );
}

#[test]
fn a_target_has_an_attempt_timeout_of_its_own_17_1_13() {
    let toml = r#"
        [targets.chat]
        pick = "ladder"
        members = [
            { name = "quick", attempt_timeout = "1s", breaker = { consecutive = 1, break_duration = "60s", break_factor = 1 } },
            { name = "slow", attempt_timeout = "30s" },
            { name = "plain" },
        ]
        [policy.p]
        targets = "chat"
        attempt_timeout = "5s"
        retry = { max_attempts = 4, budget = { kind = "none" } }
        hedge = { delay = "2s", max_attempts = 3, budget = { kind = "none" } }
    "#;
    let mut host = Host::new(toml);
    let (call, step) = host.begin(0);
    assert_eq!((step.next(), host.target(call, step)), (Some(Duration::from_secs(1)), "quick".into()));
    let step = host.on(call, Event::Timer, SECOND);
    assert_eq!(
        (step.stop(), step.action()),
        (1, Action::Wait { why: Wait::Backoff }),
        "its timeout, not the policy's"
    );
    let step = host.on(call, Event::Poll, SECOND);
    assert_eq!((step.action(), host.target(call, step)), (attempt(2), "slow".into()));
    assert_eq!(host.engine.time_left(call, at(SECOND)).attempt, Some(Duration::from_secs(30)));
    // In a race each attempt has its own: the hedge at `plain` has the policy's.
    let step = host.on(call, Event::Timer, 3 * SECOND);
    assert_eq!(
        (step.action(), host.target(call, step)),
        (Action::Attempt { attempt: 3, hedge: true }, "plain".into())
    );
    let step = host.on(call, Event::Timer, 8 * SECOND);
    assert_eq!(step.stop(), 1 << 2, "only the hedge");
    assert_eq!(step.action(), Action::Wait { why: Wait::Running });
    let step = host.on(call, Event::Timer, 31 * SECOND);
    assert_eq!(step.stop() & 1 << 1, 1 << 1);
    // A retune changes no attempt that runs (17.1.13), and the rule of half a timeout goes by the target's (1.1.9).
    let mut host = Host::new(&toml.replace("attempt_timeout = \"5s\"", "deadline = \"700ms\""));
    let (call, _) = host.start(0);
    assert_eq!(verdict(host.on(call, Event::Timer, 700_000)), Verdict::Deadline);
    assert!(
        host.view("quick", 700_000).breaker.unwrap().retry_in.is_some(),
        "it ran for more than half of its second"
    );
    let errors = Document::from_toml(&toml.replace("30s", "61m")).unwrap_err();
    assert_eq!(
        (&*errors[0].key, &*errors[0].rule),
        ("targets.chat.members.slow.attempt_timeout", "must be at most 1h for a target")
    );
    let explained = Host::new(toml);
    let explained = explained.engine.explain_policy(explained.policy).unwrap();
    assert!(
        explained.max_time.is_some_and(|it| it >= Duration::from_secs(120)),
        "four attempts of at most 30 s"
    );
}

/// A small model, and a larger one for what is too long for it.
const RUNGS: &str = r#"
    [targets.chat]
    pick = "ladder"
    max_queue = 9
    max_wait = "9s"
    members = [
        { name = "small", bulkhead = { max_concurrency = 1 } },
        { name = "large", only_after = ["too_long", "timeout"] },
        { name = "last", only_after = ["throttled"] },
    ]
    [policy.p]
    targets = "chat"
    retry = { max_attempts = 4, read_errors = true, budget = { kind = "none" }, backoff = { base = "1s", max = "1s", jitter = "none" } }
"#;

#[test]
fn a_rung_is_for_calls_that_failed_so_17_7_2() {
    let mut host = Host::new(RUNGS);
    let (call, first) = host.start(0);
    let (other, step) = host.begin(1);
    assert_eq!(
        (&*first, step.action()),
        ("small", Action::Wait { why: Wait::Target }),
        "the others are no targets for it"
    );
    let too_long = kind(&host, "too_long");
    let step = host.finish(call, 1, too_long, 10);
    assert_eq!(
        (step.action(), host.target(call, step)),
        (attempt(2), "large".into()),
        "17.7.3: although another one waits"
    );
    // It stays there: what is too long for one target is so for the others.
    let step = host.finish(call, 2, of(Class::Throttled), 20);
    assert_eq!(
        (step.action(), step.next()),
        (Action::Wait { why: Wait::Backoff }, Some(Duration::from_secs(1)))
    );
    let step = host.on(call, Event::Poll, 20 + SECOND);
    assert_eq!((step.action(), host.target(call, step)), (attempt(3), "large".into()));
    assert_eq!(host.view("last", 20).skipped, 0, "17.7.5");
    // What no target lists is the call's failure.
    let refused = kind(&host, "content_refused");
    assert_eq!(verdict(host.finish(call, 3, refused, 30 + SECOND)), Verdict::NotRetryable);
    let step = host.on(other, Event::Poll, 31 + SECOND);
    assert_eq!((step.action(), host.target(other, step)), (attempt(1), "small".into()));
}

#[test]
fn a_retried_failure_opens_its_rungs_beside_the_others_17_7_1() {
    let mut host = Host::new(RUNGS);
    let (call, _) = host.start(0);
    let step = host.finish(call, 1, of(Class::Throttled), 10);
    assert_eq!((step.action(), host.target(call, step)), (attempt(2), "last".into()));
    let step = host.finish(call, 2, of(Class::Timeout), 20);
    assert_eq!((step.action(), host.target(call, step)), (attempt(3), "large".into()));
    let step = host.finish(call, 3, of(Class::Transient), 30);
    assert_eq!(step.action(), Action::Wait { why: Wait::Backoff });
    let step = host.on(call, Event::Poll, 30 + SECOND);
    assert_eq!(
        (step.action(), host.target(call, step)),
        (attempt(4), "small".into()),
        "the first of all that are open to it"
    );
}

#[test]
fn mistakes_in_only_after_name_key_and_rule_17_7_4() {
    let errors = |from: &str, to: &str| {
        let errors = Document::from_toml(&RUNGS.replace(from, to)).unwrap_err();
        errors.into_iter().map(|it| (it.key, it.rule)).next().unwrap()
    };
    let (key, rule) = errors("\"too_long\"", "\"too_lnog\"");
    assert_eq!(key, "targets.chat.members.large.only_after");
    assert!(rule.starts_with("no policy with these targets has such a kind"), "{rule}");
    let (key, rule) = errors("[\"too_long\", \"timeout\"]", "\"too_long\"");
    assert_eq!(key, "targets.chat.members.large.only_after");
    assert!(rule.starts_with("must be a list"), "{rule}");
    let (key, rule) = errors("[\"too_long\", \"timeout\"]", "[\"ok\"]");
    assert_eq!(
        (&*key, &*rule),
        (
            "targets.chat.members.large.only_after",
            "must be a class or a kind of failure, such as throttled or too_long"
        )
    );
    let (key, rule) = errors("name = \"small\",", "name = \"small\", only_after = [\"timeout\"],");
    assert_eq!(
        (&*key, &*rule),
        ("targets.chat.members", "one of them must have no only_after, because first attempts need a target")
    );
    let document = Document::from_toml(RUNGS).unwrap();
    assert_eq!(Document::from_toml(&document.to_toml()).unwrap(), document);
    assert_eq!(Document::from_json(&document.to_json()).unwrap(), document);
    let group = document.pools().next().unwrap();
    assert_eq!(&Pool::from_pairs("chat", PoolKind::Targets, &group.to_pairs()).unwrap(), group);
}

/// 17.7.2, 17.1.9: what a call may do at a target that is gone says nothing about one that takes its place.
#[test]
fn a_target_in_the_place_of_a_removed_one_is_not_opened_by_its_failures() {
    let toml = |last: &str| {
        format!(
            r#"
            [targets.chat]
            pick = "ladder"
            members = ["a", {last}]
            [policy.p]
            targets = "chat"
            retry = {{ max_attempts = 5, budget = {{ kind = "none" }} }}
        "#
        )
    };
    let mut host = Host::new(&toml(r#"{ name = "b", only_after = ["permanent"] }"#));
    let (call, _) = host.start(0);
    let step = host.finish(call, 1, of(Class::Permanent), 1);
    assert_eq!((step.action(), host.target(call, step)), (attempt(2), "b".into()));
    let step = host.finish(call, 2, of(Class::Transient), 2);
    assert_eq!(step.action(), Action::Wait { why: Wait::Backoff });
    let other = Document::from_toml(&toml(r#"{ name = "c", only_after = ["throttled"] }"#)).unwrap();
    let _ = host.engine.retune_pool(other.pools().next().unwrap().clone(), at(3)).unwrap();
    let step = host.on(call, Event::Poll, 2 + SECOND);
    assert_eq!(verdict(step), Verdict::Readmission, "no target lists its failure");
}
