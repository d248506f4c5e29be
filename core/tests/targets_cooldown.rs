//! Cooldowns of targets: which one an attempt goes to while some are closed, and failures that go elsewhere (semantics 17.4.4,
//! 17.4.8 and 17.5).

#![allow(missing_docs)]

use crate::host::{SECOND, at, of, verdict};
use crate::targets::{Host, attempt, kind};
use Value::{Number, Text};
use tidegate::{Action, Class, Document, Duration, Pool, PoolKind, Value, Verdict, Wait};

/// Two targets with cooldowns, and a policy that reads why an answer failed.
const COOLED: &str = r#"
    [targets.chat]
    pick = "ladder"
    default.cooldown = { base = "1s", max = "30s" }
    members = ["a", "b"]
    [policy.p]
    targets = "chat"
    retry.max_attempts = 4
    retry.read_errors = true
    retry.failover_on = ["quota_spent"]
    retry.backoff = { base = "1ms", max = "1ms", jitter = "none" }
    retry.max_retry_after = "100s"
"#;

#[test]
fn a_throttled_target_is_left_until_its_time_and_taken_up_by_one_attempt_17_5_2() {
    let mut host = Host::new(COOLED);
    let (call, first) = host.start(0);
    let (other, same) = host.start(0);
    assert_eq!((&*first, &*same), ("a", "a"));
    let step = host.finish(call, 1, of(Class::Throttled).retry_after(Duration::from_secs(10)), 10);
    assert_eq!((step.action(), host.target(call, step)), (attempt(2), "b".into()));
    let view = host.view("a", 10).cooldown.unwrap();
    assert_eq!(view.state.name(), "closed");
    let left = view.retry_in.unwrap().as_micros();
    assert!((10 * SECOND..=11 * SECOND).contains(&left), "{left}");
    // What had started may end well: the row ends, and the closing stays.
    let _ = host.finish(other, 1, of(Class::Ok), 20);
    assert_eq!(host.start(30).1, "b");
    let back = 11 * SECOND + 20;
    let (probe, target) = host.start(back);
    assert_eq!((&*target, &*host.start(back).1), ("a", "b"), "one attempt at first");
    let _ = host.finish(probe, 1, of(Class::Ok), back + 1);
    assert_eq!(
        (&*host.start(back + 2).1, &*host.start(back + 2).1),
        ("a", "a"),
        "then two, which were in flight"
    );
    assert_eq!(host.view("a", back + 2).cooldown.unwrap().state.name(), "open");
}

#[test]
fn where_all_targets_cool_the_call_waits_for_the_first_17_4_4() {
    let mut host = Host::new(COOLED);
    let (call, _) = host.start(0);
    let _ = host.finish(call, 1, of(Class::Throttled).retry_after(Duration::from_secs(20)), 0);
    let step = host.finish(call, 2, of(Class::Throttled).retry_after(Duration::from_secs(5)), 0);
    assert_eq!(step.action(), Action::Wait { why: Wait::Backoff });
    let wait = host.view("b", 0).cooldown.unwrap().retry_in.unwrap();
    // The backoff heeds the longest time that a server has named, which is more than the earliest target's.
    assert!(step.next().unwrap() >= wait, "{step:?}");
    let (_, refused) = host.begin(1);
    assert_eq!(verdict(refused), Verdict::TargetsLimited, "17.3.6");
    let Action::Done { retry_in, .. } = refused.action() else { unreachable!() };
    assert_eq!(retry_in.unwrap().as_micros(), wait.as_micros() - 1, "17.3.2");
}

#[test]
fn a_spent_quota_closes_its_target_and_another_one_is_tried_at_once_17_4_8_17_5_3() {
    let mut host = Host::new(COOLED);
    let (call, first) = host.start(0);
    let spent = kind(&host, "quota_spent");
    let step = host.finish(call, 1, spent, 10);
    assert_eq!((&*first, step.action(), host.target(call, step)), ("a", attempt(2), "b".into()));
    let left = host.view("a", 10).cooldown.unwrap().retry_in.unwrap().as_micros();
    assert!((300 * SECOND..=330 * SECOND).contains(&left), "five minutes by default: {left}");
    // The second target's quota is spent, too: no other target admits an attempt, so the failure is the call's.
    let step = host.finish(call, 2, spent.retry_after(Duration::from_secs(900)), 20);
    assert_eq!(verdict(step), Verdict::NotRetryable);
    let left = host.view("b", 20).cooldown.unwrap().retry_in.unwrap().as_micros();
    assert!((300 * SECOND..=330 * SECOND).contains(&left), "a told time counts up to quota_wait: {left}");
    assert_eq!(host.engine.force_target("chat", "a", false, at(30)), Ok(tidegate::Flags::default()));
    assert_eq!(host.start(40).1, "a", "17.3.5: clearing resets the cooldown");
}

#[test]
fn a_failure_that_is_not_listed_fails_over_to_nobody_17_4_8() {
    let mut host = Host::new(COOLED);
    for name in ["unauthorized", "too_long", "permanent"] {
        let (call, _) = host.start(0);
        let step = host.finish(call, 1, kind(&host, name), 10);
        assert_eq!(verdict(step), Verdict::NotRetryable, "{name}");
    }
    assert_eq!(host.start(20).1, "b", "17.5.3: a key that is not accepted closes its target, too");
}

#[test]
fn the_keys_of_a_targets_cooldown_have_defaults_of_their_own_17_5_1() {
    let document = Document::from_toml(COOLED).unwrap();
    let group = document.pools().next().unwrap();
    let of = |key| group.to_pairs().into_iter().find(|pair| pair.0 == key).map(|pair| pair.1);
    assert_eq!((of("cooldown.max"), of("cooldown.quota_wait")), (Some(Number(30e6)), Some(Number(300e6))));
    let pool = |pairs: &[(&str, Value<'_>)]| {
        let all = [&[("pick", Text("ladder")), ("member", Text("a"))], pairs].concat();
        Pool::from_pairs("g", PoolKind::Targets, &all)
    };
    let base = |micros| ("cooldown.base", Number(micros));
    assert!(pool(&[base(60e6)]).is_ok());
    let error = pool(&[base(61e6)]).unwrap_err().remove(0);
    assert_eq!(error.to_string(), "cooldown.base = 61s: must be at most cooldown.max (60s)");
    assert!(pool(&[base(1e6), ("cooldown.wait", Number(1.0))]).is_err());
}

/// 16.6.2, 17.1.8: the longest closing that the settings allow is `quota_wait`, where that is more than `max`.
#[test]
fn a_retune_of_the_group_keeps_the_closing_of_a_spent_quota() {
    let mut host = Host::new(COOLED);
    let (call, _) = host.start(0);
    let spent = kind(&host, "quota_spent");
    let _ = host.finish(call, 1, spent, 0);
    let left = |host: &Host| host.view("a", 0).cooldown.unwrap().retry_in.unwrap();
    let before = left(&host);
    let to = Document::from_toml(&COOLED.replace("members", "max_queue = 5\n    members")).unwrap();
    let _ = host.engine.retune_pool(to.pools().next().unwrap().clone(), at(0)).unwrap();
    assert_eq!(left(&host), before);
}

/// Another target has the first attempt, so a hedge takes no place from it.
#[test]
fn a_hedge_may_take_the_place_of_a_slow_start_17_5_5() {
    let mut host = Host::new(
        r#"
        [targets.chat]
        pick = "ladder"
        members = ["a", { name = "b", cooldown = { base = "1s", max = "30s" } }]
        [policy.p]
        targets = "chat"
        retry = { max_attempts = 3, budget = { kind = "none" } }
        hedge = { delay = "1s", max_attempts = 2, budget = { kind = "none" } }
    "#,
    );
    host.engine.force_target("chat", "a", true, at(0)).unwrap();
    let (call, first) = host.start(0);
    assert_eq!(first, "b");
    let _ = host.finish(call, 1, of(Class::Throttled).retry_after(Duration::from_secs(1)), 0);
    let _ = host.on(call, tidegate::Event::Cancel, 0);
    host.engine.force_target("chat", "a", false, at(0)).unwrap();
    let now = 2 * SECOND;
    let calls = [host.start(now), host.start(now)];
    assert!(calls.iter().all(|(_, target)| target == "a"), "{calls:?}");
    let due = now + SECOND;
    let step = host.on(calls[0].0, tidegate::Event::Timer, due);
    assert_eq!(step.action(), Action::Attempt { attempt: 2, hedge: true });
    assert_eq!((host.target(calls[0].0, step), host.view("b", due).cooldown.unwrap().taken), ("b".into(), 1));
    let step = host.on(calls[1].0, tidegate::Event::Timer, due);
    assert_eq!(step.action(), Action::Wait { why: Wait::Running }, "there is one place at first");
}
