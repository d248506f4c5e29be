//! The queue of a group of targets (semantics 17.6).

#![allow(missing_docs)]

use crate::host::{SECOND, at, of, verdict};
use Value::{Number, Text};
use proptest::prelude::*;
use tidegate::{
    Action, CallId, Class, Document, Duration, Engine, Event, Options, PolicyId, Pool, PoolKind, RecordType,
    Request, RouteId, Step, Value, Verdict, Wait,
};

struct Host {
    engine: Engine,
    policy: PolicyId,
    route: RouteId,
}

impl Host {
    fn new(toml: &str) -> Self {
        let document = Document::from_toml(toml).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let mut engine = Engine::new(42, Options::default());
        for pool in document.pools() {
            engine.pool(pool.clone(), at(0)).unwrap();
        }
        let policy = engine.policy(document.policy("p").unwrap().clone()).unwrap();
        let route = engine.route(policy, "r", at(0));
        Self { engine, policy, route }
    }

    fn begin(&mut self, micros: u64) -> (CallId, Step) {
        self.begin_as(Request::default(), micros)
    }

    fn begin_as(&mut self, request: Request, micros: u64) -> (CallId, Step) {
        let begun = self.engine.begin(self.route, &request, at(micros));
        self.engine.check().unwrap();
        begun
    }

    /// Begins a call that waits for a target.
    fn wait(&mut self, micros: u64) -> CallId {
        let (call, step) = self.begin(micros);
        assert_eq!(step.action(), Action::Wait { why: Wait::Target });
        call
    }

    fn on(&mut self, call: CallId, event: Event, micros: u64) -> Step {
        let step = self.engine.on(call, event, at(micros));
        self.engine.check().unwrap();
        step
    }

    fn finish(&mut self, call: CallId, attempt: u8, class: Class, micros: u64) -> Step {
        self.on(call, Event::Finished { attempt, outcome: of(class) }, micros)
    }

    fn poll(&mut self, call: CallId, micros: u64) -> Step {
        self.on(call, Event::Poll, micros)
    }

    fn woken(&mut self) -> Vec<CallId> {
        let mut woken = Vec::new();
        self.engine.take_wakes(&mut woken);
        woken
    }

    fn out(&self, name: &str, micros: u64) -> u32 {
        let views = self.engine.snapshot(at(micros)).targets;
        views.into_iter().find(|it| it.name == name).expect("a target").in_flight
    }
}

/// One target with one permit, and a queue for two.
const NARROW: &str = r#"
    [targets.chat]
    pick = "ladder"
    max_queue = 2
    max_wait = "10s"
    members = [{ name = "a", bulkhead = { max_concurrency = 1 } }]
    [policy.p]
    targets = "chat"
    deadline = "60s"
"#;

fn attempt(number: u8) -> Action {
    Action::Attempt { attempt: number, hedge: false }
}

fn refusal(step: Step) -> (Verdict, Option<Duration>) {
    let Action::Done { verdict, retry_in, .. } = step.action() else { panic!("{step:?}") };
    (verdict, retry_in)
}

#[test]
fn a_freed_target_is_granted_to_the_first_waiter_at_the_end_of_the_step_17_6_6() {
    let mut host = Host::new(NARROW);
    let (first, _) = host.begin(0);
    let (second, third) = (host.wait(1), host.wait(2));
    let (_, step) = host.begin(3);
    assert_eq!(refusal(step), (Verdict::NoTarget, None), "17.6.3: the queue is full");
    let step = host.finish(first, 1, Class::Ok, 10);
    assert!(step.flags().wakes);
    assert_eq!(host.woken(), [second]);
    assert_eq!(host.out("a", 10), 1, "it has a new owner");
    let (_, step) = host.begin(11);
    assert_eq!(step.action(), Action::Wait { why: Wait::Target }, "17.6.4: behind the third");
    let step = host.poll(second, 12);
    assert_eq!((step.action(), host.engine.target_of(second, None)), (attempt(1), Some("a")), "17.6.9");
    let _ = host.finish(second, 1, Class::Ok, 13);
    assert_eq!(host.woken(), [third]);
    assert_eq!(host.poll(third, 14).action(), attempt(1));
}

#[test]
fn a_waiter_is_refused_after_max_wait_and_at_its_deadline_17_6_7() {
    let mut host = Host::new(NARROW);
    let (first, _) = host.begin(0);
    let patient = host.wait(1);
    let short = Request { remaining: Some(Duration::from_secs(3)), ..Request::default() };
    let (late, step) = host.begin_as(short, 2);
    assert_eq!(step.next(), Some(Duration::from_secs(1)), "17.6.8: it looks once a second");
    assert_eq!(refusal(host.poll(late, 2 + 3 * SECOND)).0, Verdict::DeadlineQueued);
    let step = host.poll(patient, 9 * SECOND + 500_000);
    assert_eq!(step.next(), Some(Duration::from_micros(500_001)));
    assert_eq!(refusal(host.poll(patient, 10 * SECOND + 1)).0, Verdict::NoTarget);
    // One whose time is over when a target comes free is refused, not granted.
    let (stale, fresh) = (host.wait(11 * SECOND), host.wait(20 * SECOND));
    let _ = host.woken();
    let _ = host.finish(first, 1, Class::Ok, 22 * SECOND);
    assert_eq!(host.woken(), [stale, fresh]);
    assert_eq!(refusal(host.poll(stale, 22 * SECOND)).0, Verdict::NoTarget);
    assert_eq!(host.poll(fresh, 22 * SECOND).action(), attempt(1));
}

#[test]
fn the_first_waiter_comes_when_time_alone_frees_a_target_17_6_8() {
    let mut host = Host::new(
        r#"
        [targets.chat]
        pick = "ladder"
        max_queue = 9
        max_wait = "5s"
        members = [{ name = "a", rate_limit = { permits = 1, per = "200ms" } }]
        [policy.p]
        targets = "chat"
        deadline = "60s"
        "#,
    );
    let (_, step) = host.begin(0);
    assert_eq!(step.action(), attempt(1));
    let (second, step) = host.begin(50_000);
    assert_eq!(step.next(), Some(Duration::from_micros(150_000)));
    let (third, step) = host.begin(60_000);
    assert_eq!(step.next(), Some(Duration::from_secs(1)), "it does not know when its turn comes");
    assert_eq!(host.poll(second, 200_000).action(), attempt(1));
    assert_eq!(host.woken(), [third], "it is the first now, and sets its timer anew");
    assert_eq!(host.poll(third, 200_001).next(), Some(Duration::from_micros(199_999)));
}

#[test]
fn a_call_that_would_wait_in_vain_is_refused_at_once_17_6_5() {
    let toml = |more: &str| {
        format!(
            r#"
            [targets.chat]
            pick = "ladder"
            max_queue = 9
            max_wait = "5s"
            members = [{{ name = "a", {more} }}]
            [policy.p]
            targets = "chat"
            retry.max_attempts = 1
            deadline = "60s"
            "#
        )
    };
    // Its break is longer than the wait.
    let mut host =
        Host::new(&toml(r#"breaker = { consecutive = 1, break_duration = "30s", break_factor = 1 }"#));
    let (call, _) = host.begin(0);
    let _ = host.finish(call, 1, Class::Transient, 0);
    assert_eq!(refusal(host.begin(1).1).0, Verdict::NoTarget);
    let waits = host.begin(26 * SECOND).1;
    assert_eq!(waits.action(), Action::Wait { why: Wait::Target }, "4 s are left");
    // It can never admit such a cost.
    let mut host = Host::new(&toml(r#"rate_limit = { permits = 2, per = "1s" }"#));
    let dear = Request { cost: 3, ..Request::default() };
    assert_eq!(refusal(host.begin_as(dear, 0).1), (Verdict::NoTarget, None));
    // An operator has closed it, and with it those who wait are refused.
    let mut host = Host::new(&toml("bulkhead = { max_concurrency = 1 }"));
    let _ = host.begin(0);
    let waits = host.wait(1);
    let flags = host.engine.force_target("chat", "a", true, at(2)).unwrap();
    assert!(flags.wakes);
    assert_eq!(host.woken(), [waits]);
    assert_eq!(refusal(host.poll(waits, 2)).0, Verdict::NoTarget);
    assert_eq!(refusal(host.begin(3).1).0, Verdict::NoTarget);
    // A host that cannot park does not wait.
    let mut host = Host::new(NARROW);
    let _ = host.begin(0);
    let busy = Request { may_park: false, ..Request::default() };
    assert_eq!(refusal(host.begin_as(busy, 1).1).0, Verdict::NoTarget, "17.6.3");
}

#[test]
fn metered_and_cooling_targets_are_too_many_requests_17_3_6() {
    let toml = r#"
        [targets.chat]
        pick = "ladder"
        members = [
            { name = "metered", rate_limit = { permits = 1, per = "10s" } },
            { name = "cooling", cooldown = { base = "20s" } },
            { name = "small", rate_limit = { permits = 1, per = "5s" }, bulkhead = { max_concurrency = 1 } },
        ]
        [policy.p]
        targets = "chat"
        deadline = "60s"
    "#;
    let mut host = Host::new(toml);
    let _ = host.begin(0);
    let (call, _) = host.begin(1);
    let _ = host.finish(call, 1, Class::Throttled, 2);
    let (last, step) = host.begin(3);
    assert_eq!(step.action(), attempt(1));
    assert_eq!(refusal(host.begin(4).1).0, Verdict::NoTarget, "one lacks a permit");
    let _ = host.finish(last, 1, Class::Ok, 5);
    let spare = Duration::from_micros(5 * SECOND + 3 - 6);
    assert_eq!(refusal(host.begin(6).1), (Verdict::TargetsLimited, Some(spare)));
}

#[test]
fn a_granted_target_that_closes_sends_its_call_back_to_the_head_17_6_9() {
    let toml = r#"
        [targets.chat]
        pick = "ladder"
        max_queue = 9
        max_wait = "30s"
        members = [
            { name = "a", bulkhead = { max_concurrency = 2 }, breaker = { consecutive = 1, break_duration = "5s", break_factor = 1 } },
            { name = "b", bulkhead = { max_concurrency = 1 } },
        ]
        [policy.p]
        targets = "chat"
        deadline = "60s"
    "#;
    let mut host = Host::new(toml);
    let [one, two, three] = [0, 1, 2].map(|now| host.begin(now).0);
    let (first, second) = (host.wait(3), host.wait(4));
    let _ = host.finish(one, 1, Class::Ok, 10);
    assert_eq!(host.woken(), [first]);
    let _ = host.finish(two, 1, Class::Transient, 11); // its breaker opens
    let step = host.poll(first, 12);
    assert_eq!(step.action(), Action::Wait { why: Wait::Target }, "{step:?}");
    assert_eq!(host.out("a", 12), 0);
    let _ = host.finish(three, 1, Class::Ok, 13);
    assert_eq!(host.woken(), [first], "still before the other");
    assert_eq!(host.poll(first, 14).action(), attempt(1));
    assert_eq!(host.engine.target_of(first, None), Some("b"));
    // A retune removes the target that the other one has been granted.
    let _ = host.finish(first, 1, Class::Ok, 15);
    assert_eq!(host.woken(), [second]);
    let pairs = [("pick", Text("ladder")), ("max_queue", Number(1.0)), ("member", Text("c"))];
    let group = Pool::from_pairs("chat", PoolKind::Targets, &pairs).unwrap();
    let _ = host.engine.retune_pool(group, at(16)).unwrap();
    host.engine.check().unwrap();
    assert_eq!(host.poll(second, 17).action(), attempt(1));
    assert_eq!(host.engine.target_of(second, None), Some("c"));
}

#[test]
fn what_was_granted_comes_back_17_6_10() {
    type Leave = fn(&mut Host, CallId) -> Step;
    let cases: [(Leave, Verdict); 3] = [
        (|host, call| host.on(call, Event::Cancel, 20), Verdict::Cancelled),
        (|host, call| host.poll(call, 61 * SECOND), Verdict::DeadlineQueued),
        (
            |host, call| {
                let _ = host.engine.force_open(host.policy, None, true, at(20));
                let step = host.poll(call, 20);
                let _ = host.engine.force_open(host.policy, None, false, at(20));
                step
            },
            Verdict::ForcedOpen,
        ),
    ];
    for (leave, expected) in cases {
        let mut host = Host::new(&NARROW.replace("10s", "90s"));
        let (first, _) = host.begin(0);
        let second = host.wait(1);
        let _ = host.finish(first, 1, Class::Ok, 10);
        assert_eq!(host.out("a", 10), 1);
        assert_eq!(verdict(leave(&mut host, second)), expected);
        assert_eq!(host.out("a", 10), 0);
        assert_eq!(host.begin(62 * SECOND).1.action(), attempt(1));
    }
    // An owner that does not come in 5 s loses the call; the next waiter gets the target.
    let mut host = Host::new(NARROW);
    let (first, _) = host.begin(0);
    let (lost, next) = (host.wait(1), host.wait(2));
    let _ = host.finish(first, 1, Class::Ok, 10);
    let _ = host.woken();
    for second in 1..5 {
        assert_eq!(host.poll(next, second * SECOND).action(), Action::Wait { why: Wait::Target });
    }
    for n in 0..3 {
        let _ = host.poll(next, 10 + 5 * SECOND + n);
    }
    assert_eq!(verdict(host.poll(lost, 6 * SECOND)), Verdict::Lost);
    assert_eq!(host.out("a", 6 * SECOND), 1, "the next one has it, or runs on it");
}

#[test]
fn a_hedge_and_a_failover_pass_no_waiter_17_6_4() {
    let toml = r#"
        [targets.chat]
        pick = "ladder"
        max_queue = 9
        max_wait = "30s"
        members = [
            { name = "a", bulkhead = { max_concurrency = 2 } },
            { name = "b", bulkhead = { max_concurrency = 1 }, rate_limit = { permits = 4, per = "1s" } },
        ]
        [policy.p]
        targets = "chat"
        deadline = "60s"
        hedge = { delay = "10ms", budget = { kind = "none" } }
        retry = { max_attempts = 3, backoff = { base = "1ms", max = "1ms", jitter = "none" }, budget = { kind = "none" } }
    "#;
    let mut host = Host::new(toml);
    let ((one, _), (two, _)) = (host.begin(0), host.begin(0));
    let dear = Request { cost: 3, ..Request::default() };
    let (third, step) = host.begin_as(Request { cost: 2, ..Request::default() }, 0);
    assert_eq!((step.action(), host.engine.target_of(third, None)), (attempt(1), Some("b")));
    let _ = host.finish(third, 1, Class::Ok, 1);
    // Two tokens are left at b: this call waits for three.
    let (waits, step) = host.begin_as(dear, 2);
    assert_eq!(step.action(), Action::Wait { why: Wait::Target });
    assert_eq!(host.on(one, Event::Timer, 10_000).action(), Action::Wait { why: Wait::Running }, "no hedge");
    let step = host.finish(two, 1, Class::Transient, 20_000);
    assert_eq!(step.action(), Action::Wait { why: Wait::Backoff }, "b would admit it, but another one waits");
    assert_eq!(host.woken(), [waits]);
    assert_eq!(host.poll(waits, 20_001).action(), attempt(1));
}

#[test]
fn further_attempts_wait_too_and_end_with_their_failure_17_6_3() {
    let toml = r#"
        [targets.chat]
        pick = "ladder"
        max_queue = 1
        max_wait = "2s"
        members = [{ name = "a", bulkhead = { max_concurrency = 1 } }]
        [policy.p]
        targets = "chat"
        deadline = "60s"
        retry = { max_attempts = 3, backoff = { base = "1s", max = "1s", jitter = "none" } }
    "#;
    let mut host = Host::new(toml);
    let (call, _) = host.begin(0);
    let step = host.finish(call, 1, Class::Transient, 10);
    assert_eq!(step.action(), Action::Wait { why: Wait::Backoff });
    let (other, step) = host.begin(20);
    assert_eq!(step.action(), attempt(1));
    let step = host.poll(call, 10 + SECOND);
    assert_eq!(step.action(), Action::Wait { why: Wait::Target });
    let _ = host.finish(other, 1, Class::Ok, 20 + SECOND);
    assert_eq!(host.poll(call, 21 + SECOND).action(), attempt(2));
    let _ = host.finish(call, 2, Class::Transient, 22 + SECOND);
    let _ = host.begin(23 + SECOND);
    assert_eq!(host.poll(call, 22 + 2 * SECOND).action(), Action::Wait { why: Wait::Target });
    let Action::Done { verdict, result, .. } = host.poll(call, 22 + 4 * SECOND).action() else { panic!() };
    assert_eq!((verdict, result.map(tidegate::AttemptSlot::number)), (Verdict::Readmission, Some(1)));
}

#[test]
fn a_retune_keeps_those_who_wait_17_6_12() {
    let mut host = Host::new(NARROW);
    let _ = host.begin(0);
    let (first, second) = (host.wait(1), host.wait(2));
    let pairs = [("pick", Text("ladder")), ("member", Text("a")), ("bulkhead.max_concurrency", Number(3.0))];
    let group = Pool::from_pairs("chat", PoolKind::Targets, &pairs).unwrap();
    let flags = host.engine.retune_pool(group, at(3)).unwrap();
    assert!(flags.wakes);
    assert_eq!(host.woken(), [first, second]);
    for call in [first, second] {
        assert_eq!(host.poll(call, 4).action(), attempt(1));
    }
    assert_eq!(verdict(host.begin(5).1), Verdict::NoTarget, "it has no queue now");
}

#[test]
fn explanations_and_records_name_the_wait_17_6_2() {
    let mut host = Host::new(NARROW);
    host.engine.subscribe(true);
    let (first, _) = host.begin(0);
    let call = host.wait(1);
    let explained = host.engine.explain_call(call).unwrap();
    assert_eq!((explained.why, explained.until), (Some(Wait::Target), Some(at(10 * SECOND + 1))));
    let _ = host.finish(first, 1, Class::Ok, 10);
    let explained = host.engine.explain_call(call).unwrap();
    assert_eq!((explained.why, explained.until), (Some(Wait::Target), Some(at(5 * SECOND + 10))));
    let mut records = Vec::new();
    host.engine.take_records(&mut records);
    let of = |what| records.iter().filter(|it| it.what == what && it.why == Some(Wait::Target)).count();
    assert_eq!((of(RecordType::Queued), of(RecordType::Granted)), (1, 1));
}

#[test]
fn explanations_of_policies_count_the_wait_17_6_7() {
    let longest = |toml: &str| {
        let host = Host::new(toml);
        host.engine.explain_policy(host.policy).unwrap().max_wait.unwrap().as_micros()
    };
    let without = |toml: &str| longest(&toml.replace("max_queue = 2", "").replace("max_wait = \"10s\"", ""));
    assert_eq!((longest(NARROW), without(NARROW)), (10 * SECOND, 0));
    let retries = NARROW.replace("deadline", "retry.max_attempts = 3\n    deadline");
    assert_eq!(longest(&retries) - without(&retries), 30 * SECOND, "before each attempt");
}

#[test]
fn a_queue_is_declared_with_the_group_17_6_1() {
    let document = Document::from_toml(NARROW).unwrap();
    assert_eq!(Document::from_toml(&document.to_toml()).unwrap(), document);
    assert_eq!(Document::from_json(&document.to_json()).unwrap(), document);
    let wrong = NARROW.replace("max_queue = 2", "max_queue = -1").replace("10s", "0s");
    let errors: Vec<_> = Document::from_toml(&wrong).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "line 4: targets.chat.max_queue = -1: must be a whole number from 0 to 10000000",
            "line 5: targets.chat.max_wait = \"0s\": must be a span from 1us to 365 days",
        ]
    );
    let errors = Document::from_toml(&NARROW.replace("max_queue = 2", "")).unwrap_err();
    assert_eq!(errors[0].key, "targets.chat.max_wait");
    assert_eq!(errors[0].rule, "needs a queue: max_queue of at least 1");
}

/// What happens to one of the calls, or to the group.
#[derive(Clone, Copy, Debug)]
enum Op {
    Begin { cost: u16, remaining: bool },
    Finish(usize, Class),
    Poll(usize),
    Cancel(usize),
    Pass(u64),
    Force(bool, bool),
    Retune(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let class = prop_oneof![
        4 => Just(Class::Ok), 2 => Just(Class::Transient), 2 => Just(Class::Throttled), 1 => Just(Class::Permanent)
    ];
    prop_oneof![
        6 => (0u16..4, any::<bool>()).prop_map(|(cost, remaining)| Op::Begin { cost, remaining }),
        6 => (0usize..8, class).prop_map(|(back, class)| Op::Finish(back, class)),
        6 => (0usize..8).prop_map(Op::Poll),
        1 => (0usize..8).prop_map(Op::Cancel),
        5 => prop_oneof![0u64..5_000, 0u64..400_000, 0u64..9_000_000].prop_map(Op::Pass),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(first, on)| Op::Force(first, on)),
        1 => (0u8..3).prop_map(Op::Retune),
    ]
}

/// A group for the property, with settings that a retune draws.
fn drawn(which: u8) -> Pool {
    let mut pairs = vec![("pick", Text(if which == 1 { "balanced" } else { "ladder" }))];
    pairs.extend([("max_queue", Number(if which == 2 { 0.0 } else { 5.0 }))]);
    pairs.extend((which != 2).then_some(("max_wait", Number(3e6))));
    pairs.extend([("cooldown.base", Number(300e3)), ("breaker.consecutive", Number(2.0))]);
    pairs.extend([("breaker.break_duration", Number(500e3)), ("member", Text("a"))]);
    pairs.extend([("bulkhead.max_concurrency", Number(1.0 + f64::from(which))), ("member", Text("b"))]);
    pairs.extend([("rate_limit.permits", Number(3.0)), ("rate_limit.per", Number(1e6))]);
    pairs.extend([("bulkhead.max_concurrency", Number(2.0))]);
    Pool::from_pairs("chat", PoolKind::Targets, &pairs).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]

    /// Whatever happens, nobody waits for longer than `max_wait` and a second, nothing is out at the end, and a target that would
    /// admit the first waiter has a new owner by the end of the step (17.6.6, 17.6.7, 17.6.10).
    #[test]
    fn nobody_waits_for_ever_and_nothing_is_lost_17_6_7(ops in proptest::collection::vec(op(), 1..80)) {
        let toml = r#"
            [policy.p]
            targets = "chat"
            retry = { max_attempts = 3, backoff = { base = "10ms", max = "10ms", jitter = "none" }, budget = { kind = "none" } }
            hedge = { delay = "50ms", budget = { kind = "none" } }
        "#;
        let document = Document::from_toml(&format!("{toml}\n[targets.chat]\npick = \"ladder\"\nmembers = [\"x\"]")).unwrap();
        let mut engine = Engine::new(7, Options::default());
        engine.pool(drawn(0), at(0)).unwrap();
        let policy = engine.policy(document.policy("p").unwrap().clone()).unwrap();
        let route = engine.route(policy, "r", at(0));
        // Of each call: its newest attempt, and since when it has waited for a target.
        let mut calls: Vec<(CallId, u8, Option<u64>)> = Vec::new();
        let mut now = 0;
        let mut ops = ops;
        // In the end, everybody comes once a second, and all attempts end.
        ops.extend((0..20).flat_map(|_| [Op::Pass(1_000_000)].into_iter().chain((0..8).flat_map(|n| [Op::Poll(n), Op::Finish(n, Class::Ok)]))));
        for op in ops {
            let place = |back: usize| calls.len().checked_sub(1 + back);
            let (number, step) = match op {
                Op::Begin { cost, remaining } => {
                    if calls.len() >= 8 {
                        continue;
                    }
                    let remaining = remaining.then_some(Duration::from_secs(2));
                    let request = Request { cost, remaining, ..Request::default() };
                    let (call, step) = engine.begin(route, &request, at(now));
                    calls.push((call, 0, None));
                    (calls.len() - 1, step)
                }
                Op::Pass(span) => {
                    now += span;
                    continue;
                }
                Op::Force(first, on) => {
                    let _ = engine.force_target("chat", if first { "a" } else { "b" }, on, at(now)).unwrap();
                    engine.check().map_err(TestCaseError::fail)?;
                    continue;
                }
                Op::Retune(which) => {
                    let _ = engine.retune_pool(drawn(which), at(now)).unwrap();
                    engine.check().map_err(TestCaseError::fail)?;
                    continue;
                }
                Op::Finish(back, class) => {
                    let Some(number) = place(back) else { continue };
                    let (call, newest, _) = calls[number];
                    let mut step = engine.on(call, Event::Finished { attempt: newest, outcome: of(class) }, at(now));
                    // Attempts of a race end together.
                    for attempt in (1..newest).rev() {
                        if step.action() == (Action::Wait { why: Wait::Running }) {
                            step = engine.on(call, Event::Finished { attempt, outcome: of(class) }, at(now));
                        }
                    }
                    (number, step)
                }
                Op::Poll(back) => {
                    let Some(number) = place(back) else { continue };
                    (number, engine.on(calls[number].0, Event::Poll, at(now)))
                }
                Op::Cancel(back) => {
                    let Some(number) = place(back) else { continue };
                    (number, engine.on(calls[number].0, Event::Cancel, at(now)))
                }
            };
            engine.check().map_err(TestCaseError::fail)?;
            let (_, attempt, since) = &mut calls[number];
            match step.action() {
                Action::Attempt { attempt: started, .. } => (*attempt, *since) = (started, None),
                Action::Wait { why: Wait::Target } => {
                    let from = *since.get_or_insert(now);
                    prop_assert!(now < from + 3_000_000, "it has waited since {from}, now it is {now}");
                    prop_assert!(step.next().is_some_and(|next| next <= Duration::from_secs(1)));
                }
                Action::Wait { .. } => *since = None,
                Action::Done { .. } => drop(calls.remove(number)),
            }
        }
        prop_assert!(calls.is_empty(), "{calls:?}");
        let out: Vec<_> = engine.snapshot(at(now)).targets.iter().map(|it| it.in_flight).collect();
        prop_assert_eq!(out, [0, 0]);
    }
}
