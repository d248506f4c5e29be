//! Groups of targets (semantics 17).

#![allow(missing_docs)]

use crate::host::{SECOND, at, of, verdict};
use Value::{Number, Text};
use tidegate::{
    Action, CallId, Class, Document, Duration, Engine, Event, Input, Options, Outcome, PolicyId, Pool,
    PoolKind, RecordType, Request, RouteId, Step, TargetView, Value, Verdict, Wait,
};

pub struct Host {
    pub engine: Engine,
    pub policy: PolicyId,
    pub route: RouteId,
}

impl Host {
    pub fn new(toml: &str) -> Self {
        Self::with(toml, Options::default())
    }

    fn with(toml: &str, options: Options) -> Self {
        let document = Document::from_toml(toml).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let mut engine = Engine::new(42, options);
        for pool in document.pools() {
            engine.pool(pool.clone(), at(0)).unwrap();
        }
        let policy = engine.policy(document.policy("p").unwrap().clone()).unwrap();
        let route = engine.route(policy, "r", at(0));
        Self { engine, policy, route }
    }

    pub fn begin(&mut self, micros: u64) -> (CallId, Step) {
        let begun = self.engine.begin(self.route, &Request::default(), at(micros));
        self.engine.check().unwrap();
        begun
    }

    /// Begins a call whose first attempt starts, and returns its target.
    pub fn start(&mut self, micros: u64) -> (CallId, String) {
        let (call, step) = self.begin(micros);
        assert_eq!(step.action(), Action::Attempt { attempt: 1, hedge: false });
        (call, self.target(call, step))
    }

    pub fn target(&self, call: CallId, step: Step) -> String {
        assert!(step.flags().target, "{step:?}");
        self.engine.target_of(call, None).expect("it has a target").to_owned()
    }

    pub fn on(&mut self, call: CallId, event: Event, micros: u64) -> Step {
        let step = self.engine.on(call, event, at(micros));
        self.engine.check().unwrap();
        step
    }

    pub fn finish(&mut self, call: CallId, attempt: u8, outcome: Outcome, micros: u64) -> Step {
        self.on(call, Event::Finished { attempt, outcome }, micros)
    }

    /// One call that ends with this class at its only attempt.
    fn call(&mut self, class: Class, from: u64, to: u64) -> String {
        let (call, target) = self.start(from);
        let _ = self.finish(call, 1, of(class), to);
        let _ = self.on(call, Event::Cancel, to);
        target
    }

    pub fn view(&self, name: &str, micros: u64) -> TargetView {
        let views = self.engine.snapshot(at(micros)).targets;
        views.into_iter().find(|it| it.name == name).expect("a target")
    }
}

/// Three targets, and a policy that retries.
pub const LADDER: &str = r#"
    [targets.chat]
    pick = "ladder"
    members = ["a", "b", "c"]
    default.breaker = { consecutive = 1, break_duration = "10s", break_factor = 1 }
    [policy.p]
    targets = "chat"
    retry.max_attempts = 4
    retry.backoff = { base = "1s", max = "1s", jitter = "none" }
"#;

/// An outcome of this kind.
pub fn kind(host: &Host, name: &str) -> Outcome {
    let kind = host.engine.policy_of(host.policy).unwrap().kind_of(name).unwrap();
    Outcome { kind, ..of(Class::Permanent) }
}

pub fn attempt(number: u8) -> Action {
    Action::Attempt { attempt: number, hedge: false }
}

#[test]
fn a_ladder_takes_the_first_target_that_admits_17_2_3() {
    let mut host = Host::new(LADDER);
    assert_eq!(host.start(0).1, "a");
    host.engine.force_target("chat", "a", true, at(1)).unwrap();
    assert_eq!(host.start(2).1, "b");
    host.engine.force_target("chat", "a", false, at(3)).unwrap();
    assert_eq!(host.start(4).1, "a", "17.3.5");
    let clash = host.engine.force_target("chat", "z", true, at(5)).unwrap_err();
    assert_eq!(clash.name, "chat/z");
}

#[test]
fn after_a_failure_the_next_attempt_goes_at_once_to_an_untried_target_17_4_1() {
    let mut host = Host::new(LADDER);
    let (call, first) = host.start(0);
    let asked = of(Class::Throttled).retry_after(Duration::from_secs(900));
    let step = host.finish(call, 1, asked, 10);
    assert_eq!(
        (step.action(), first, host.target(call, step)),
        (attempt(2), "a".into(), "b".into()),
        "17.4.3"
    );
    let step = host.finish(call, 2, of(Class::Transient), 20);
    assert_eq!((step.action(), host.target(call, step)), (attempt(3), "c".into()));
    // All are tried: the backoff runs, and then all count as untried (17.4.4).
    let step = host.finish(call, 3, of(Class::Throttled), 30);
    assert_eq!(
        (step.action(), step.next()),
        (Action::Wait { why: Wait::Backoff }, Some(Duration::from_secs(1)))
    );
    let step = host.on(call, Event::Poll, 30 + SECOND);
    assert_eq!((step.action(), host.target(call, step)), (attempt(4), "a".into()), "17.4.5");
    let step = host.finish(call, 4, of(Class::Transient), 40 + SECOND);
    assert_eq!(verdict(step), Verdict::Attempts, "17.4.2");
}

#[test]
fn the_rules_of_any_retry_decide_about_failover_17_4_2() {
    let refused = |more: &str, request: Request, outcome: Outcome| {
        let mut host = Host::new(&format!("{LADDER}\n{more}"));
        let (call, _) = host.engine.begin(host.route, &request, at(0));
        verdict(host.finish(call, 1, outcome, 10))
    };
    let plain = Request::default();
    let failed = of(Class::Transient);
    assert_eq!(refused("", Request { idempotent: false, ..plain }, failed), Verdict::Method);
    assert_eq!(refused("", Request { replayable: false, ..plain }, failed), Verdict::OneShotBody);
    assert_eq!(refused("", plain, of(Class::Permanent)), Verdict::NotRetryable);
    let budget = r#"retry.budget = { kind = "earned", start = 0, ratio = 0.1 }"#;
    assert_eq!(refused(budget, plain, failed), Verdict::Budget);
    assert_eq!(refused(r#"retry.retry_time_limit = "9us""#, plain, failed), Verdict::TimeLimit);
    let mut host = Host::new(LADDER);
    let (around, _) = host.start(0);
    let nested = Request { parent: Some(around), ..Request::default() };
    let (call, _) = host.engine.begin(host.route, &nested, at(1));
    assert_eq!(verdict(host.finish(call, 1, failed, 2)), Verdict::Nested);
}

#[test]
fn where_no_target_admits_the_call_is_refused_with_the_earliest_time_17_3() {
    let mut host = Host::new(LADDER);
    // One call opens all three breakers, one after the other.
    let (call, _) = host.start(100);
    let _ = host.finish(call, 1, of(Class::Transient), 1_000);
    let _ = host.finish(call, 2, of(Class::Transient), 2_000);
    let step = host.finish(call, 3, of(Class::Transient), 3_000);
    // 17.4.4: at least until the first of them admits again.
    assert_eq!(step.action(), Action::Wait { why: Wait::Backoff });
    assert_eq!(step.next(), Some(Duration::from_micros(10 * SECOND + 1_000 - 3_000)));
    let step = host.begin(4_000).1;
    let Action::Done { verdict, retry_in, result } = step.action() else { panic!("{step:?}") };
    assert_eq!((verdict, result), (Verdict::NoTarget, None), "17.3.1");
    assert_eq!(retry_in, Some(Duration::from_micros(10 * SECOND + 1_000 - 4_000)), "17.3.2");
    // A probe of the first one's breaker.
    let step = host.on(call, Event::Poll, 10 * SECOND + 1_000);
    assert_eq!((step.action(), host.target(call, step)), (attempt(4), "a".into()));
}

#[test]
fn a_failed_probe_ends_its_attempt_and_not_the_call_17_4_7() {
    let mut host = Host::new(LADDER);
    assert_eq!(host.call(Class::Transient, 0, 10), "a");
    let (call, target) = host.start(11 * SECOND);
    assert_eq!(target, "a", "the probe");
    let step = host.finish(call, 1, of(Class::Transient), 11 * SECOND + 1);
    assert_eq!((step.action(), host.target(call, step)), (attempt(2), "b".into()));
    assert_eq!(host.view("a", 11 * SECOND + 1).breaker.unwrap().retry_in, Some(Duration::from_secs(10)));
}

#[test]
fn rates_and_permits_of_targets_hold_for_all_policies_17_1_7() {
    let toml = r#"
        [targets.chat]
        pick = "ladder"
        members = [
            { name = "rated", rate_limit = { permits = 1, per = "1s" } },
            { name = "narrow", bulkhead = { max_concurrency = 1 } },
        ]
        [policy.p]
        targets = "chat"
        retry = { max_attempts = 2, backoff = { base = "10ms", max = "10ms", jitter = "none" } }
        [policy.q]
        targets = "chat"
        deadline = "9s"
    "#;
    let mut host = Host::new(toml);
    let document = Document::from_toml(toml).unwrap();
    let q = host.engine.policy(document.policy("q").unwrap().clone()).unwrap();
    let other = host.engine.route(q, "elsewhere", at(0));
    let (call, target) = host.start(0);
    assert_eq!(target, "rated");
    let (second, step) = host.engine.begin(other, &Request::default(), at(1));
    assert_eq!(host.target(second, step), "narrow");
    let step = host.begin(2).1;
    let Action::Done { verdict: why, retry_in, .. } = step.action() else { panic!("{step:?}") };
    assert_eq!((why, retry_in), (Verdict::NoTarget, Some(Duration::from_micros(SECOND - 2))), "17.3.3");
    // The permit is the attempt's: it returns with its end (17.2.10).
    let step = host.engine.on(second, Event::Finished { attempt: 1, outcome: of(Class::Ok) }, at(3));
    assert_eq!(verdict(step), Verdict::Ok);
    assert_eq!(host.start(4).1, "narrow");
    // Between attempts: the failed call waits for the token of the other.
    let step = host.finish(call, 1, of(Class::Transient), 5);
    assert_eq!(step.next(), Some(Duration::from_micros(SECOND - 5)), "17.4.4");
    let views = host.engine.snapshot(at(6)).targets;
    let counts: Vec<_> = views.iter().map(|it| (it.attempts, it.skipped, it.in_flight)).collect();
    assert_eq!(counts, [(1, 2, 0), (2, 0, 1)], "17.2.14");
}

#[test]
fn an_attempt_that_cannot_be_stopped_keeps_its_permit_17_2_10() {
    let toml = r#"
        [targets.t]
        pick = "ladder"
        members = [{ name = "one", bulkhead = { max_concurrency = 1 } }]
        [policy.p]
        targets = "t"
        deadline = "1s"
    "#;
    for (abortable, free) in [(true, true), (false, false)] {
        let mut host = Host::new(toml);
        let request = Request { abortable, ..Request::default() };
        let (call, _) = host.engine.begin(host.route, &request, at(0));
        assert_eq!(verdict(host.on(call, Event::Timer, SECOND)), Verdict::Deadline);
        let admitted = |step: Step| matches!(step.action(), Action::Attempt { .. });
        assert_eq!(admitted(host.begin(SECOND + 1).1), free);
        if !free {
            let _ = host.finish(call, 1, of(Class::Ok), SECOND + 2);
            assert!(admitted(host.begin(SECOND + 3).1));
        }
    }
    // A host that never reports loses the permit 60 s after the deadline (R9).
    let mut host = Host::new(toml);
    let request = Request { abortable: false, ..Request::default() };
    let _ = host.engine.begin(host.route, &request, at(0));
    let mut last = host.begin(62 * SECOND).1;
    for n in 1..4 {
        last = host.begin(62 * SECOND + n).1;
    }
    assert_eq!(verdict(last), Verdict::NoTarget, "the second call has it");
    assert_eq!(host.view("one", 62 * SECOND).in_flight, 1);
}

#[test]
fn a_hedge_goes_to_another_target_or_does_not_start_17_4_6() {
    let toml = |members: &str| {
        format!(
            r#"
            [targets.t]
            pick = "ladder"
            members = [{members}]
            [policy.p]
            targets = "t"
            hedge = {{ delay = "1s", max_attempts = 3, budget = {{ kind = "none" }} }}
            retry = {{ max_attempts = 3 }}
            "#
        )
    };
    let mut host = Host::new(&toml(r#""a", "b""#));
    let (call, first) = host.start(0);
    let step = host.on(call, Event::Timer, SECOND);
    assert_eq!(step.action(), Action::Attempt { attempt: 2, hedge: true });
    assert_eq!((first, host.target(call, step)), ("a".into(), "b".into()));
    let of_attempts = [0, 1, 2, 3].map(|attempt| host.engine.target_of(call, Some(attempt)));
    assert_eq!(of_attempts, [None, Some("a"), Some("b"), None]);
    let step = host.on(call, Event::Timer, 2 * SECOND);
    assert_eq!(step.action(), Action::Wait { why: Wait::Running }, "there is no third");
    let step = host.finish(call, 2, of(Class::Ok), 2 * SECOND + 1);
    assert_eq!((verdict(step), step.stop()), (Verdict::Ok, 1));
    assert_eq!((host.view("a", 3 * SECOND).in_flight, host.view("b", 3 * SECOND).in_flight), (0, 0));

    let mut host = Host::new(&toml(r#""a""#));
    let (call, _) = host.start(0);
    assert_eq!(host.on(call, Event::Timer, SECOND).action(), Action::Wait { why: Wait::Running });
}

#[test]
fn the_better_of_two_has_less_to_do_in_less_time_17_2_5() {
    let toml = r#"
        [targets.t]
        pick = "balanced"
        members = ["quick", "slow"]
        [policy.p]
        targets = "t"
        deadline = "60s"
    "#;
    let mut host = Host::new(toml);
    let mut now = 0;
    let mut seen = [0; 2];
    for _ in 0..40 {
        now += SECOND;
        let (call, target) = host.start(now);
        let took = if target == "quick" { 1_000 } else { 100_000 };
        seen[usize::from(target == "slow")] += 1;
        assert_eq!(verdict(host.finish(call, 1, of(Class::Ok), now + took)), Verdict::Ok);
    }
    assert!(seen[1] <= 2, "{seen:?}: a fresh target has the mean (17.2.8), then its own time");
    assert_eq!(host.view("quick", now).estimate, Some(Duration::from_micros(1_000)), "17.2.6");
    // A hundred at once: the slow one gets some of them, because in flight counts too.
    let calls: Vec<_> = (0..150).map(|n| host.start(now + SECOND + n)).collect();
    let slow = calls.iter().filter(|(_, target)| target == "slow").count();
    assert!((1..=4).contains(&slow), "{slow} of 150 with 100 times the latency");
}

#[test]
fn fast_errors_attract_nothing_17_2_7() {
    let toml = r#"
        [targets.t]
        pick = "balanced"
        members = ["good", "broken"]
        [policy.p]
        targets = "t"
        deadline = "60s"
    "#;
    let mut host = Host::new(toml);
    let (mut now, mut broken) = (0, 0);
    for _ in 0..100 {
        now += SECOND;
        let (call, target) = host.start(now);
        let (class, took) = if target == "good" { (Class::Ok, 50_000) } else { (Class::Transient, 100) };
        broken += u32::from(target == "broken");
        let _ = host.finish(call, 1, of(class), now + took);
    }
    assert!(broken <= 10, "{broken} of 100 went to the target that fails at once");
}

#[test]
fn shares_decide_who_is_drawn_17_2_4() {
    let toml = r#"
        [targets.t]
        pick = "balanced"
        members = [{ name = "rare" }, { name = "often", share = 30 }, { name = "too", share = 30 }]
        [policy.p]
        targets = "t"
        deadline = "60s"
    "#;
    let mut host = Host::new(toml);
    for n in 0..600 {
        host.call(Class::Ok, n * SECOND, n * SECOND + 1_000);
    }
    let [rare, often, too] = ["rare", "often", "too"].map(|name| host.view(name, 0).attempts);
    assert_eq!(rare + often + too, 600);
    assert!(rare < 40 && often > 200 && too > 200, "{rare} {often} {too}");
}

#[test]
fn bodies_that_fail_are_their_targets_failures_17_2_12() {
    let mut host = Host::new(&LADDER.replace("[policy.p]", "[policy.p]\nslot_until = \"body\""));
    let request = Request { slot_until_body: true, ..Request::default() };
    let (call, _) = host.engine.begin(host.route, &request, at(0));
    let step = host.on(call, Event::Headers { attempt: 1 }, 10);
    assert_eq!(step.action(), Action::Wait { why: Wait::Body });
    assert_eq!(host.view("a", 20).in_flight, 1, "the permit lasts until the body has ended");
    let _ = host.finish(call, 1, of(Class::Transient), 20);
    assert!(host.view("a", 20).breaker.unwrap().retry_in.is_some(), "its breaker is open");
    assert_eq!(host.start(30).1, "b");
    assert_eq!(host.view("a", 30).in_flight, 0);
}

#[test]
fn a_retune_keeps_what_stays_and_drains_what_goes_17_1_8() {
    let mut host = Host::new(LADDER);
    assert_eq!(host.call(Class::Transient, 0, 10), "a");
    let (call, target) = host.start(20);
    assert_eq!(target, "b");
    let member = |name| ("member", Text(name));
    let group = |pairs: &[(&str, Value<'_>)]| Pool::from_pairs("chat", PoolKind::Targets, pairs).unwrap();
    let breaker = [("breaker.consecutive", Number(1.0)), ("breaker.break_duration", Number(10e6))];
    let to = [&[("pick", Text("ladder"))], &breaker[..], &[member("new"), member("a")]].concat();
    let _ = host.engine.retune_pool(group(&to), at(30)).unwrap();
    host.engine.check().unwrap();
    let names =
        |host: &Host| host.engine.snapshot(at(30)).targets.into_iter().map(|it| it.name).collect::<Vec<_>>();
    assert_eq!(names(&host), ["new", "a"], "17.1.9");
    assert!(host.view("a", 30).breaker.unwrap().retry_in.is_some(), "its break goes on");
    assert_eq!(host.engine.target_of(call, None), Some("b"), "the running attempt is not interrupted");
    let step = host.finish(call, 1, of(Class::Transient), 40);
    assert_eq!(host.target(call, step), "new");
    assert_eq!(host.engine.target_of(call, None), Some("new"));
    let policy = tidegate::Policy::from_pairs("p", &[("deadline", Number(1e6))]).unwrap();
    assert!(host.engine.retune(host.policy, policy, at(50)).is_err(), "17.1.10");
}

#[test]
fn targets_are_saved_by_name_17_1_11() {
    let mut host = Host::new(LADDER);
    assert_eq!(host.call(Class::Transient, 0, 10), "a");
    let saved = host.engine.save(at(SECOND));
    let mut other = Host::new(LADDER);
    let restored = other.engine.restore(&saved, Duration::ZERO, at(0)).unwrap();
    assert!(restored.unknown.is_empty() && restored.dropped.is_empty(), "{restored:?}");
    assert_eq!(other.start(SECOND).1, "b");
    let mut bare = Host::new(&LADDER.replace(r#""a", "#, ""));
    let restored = bare.engine.restore(&saved, Duration::ZERO, at(0)).unwrap();
    assert_eq!(restored.unknown, [("target", "chat/a".to_owned())]);
}

#[test]
fn a_journal_replays_groups_and_choices_17_1_1() {
    let mut host = Host::with(LADDER, Options::default().journal(true));
    let _ = host.engine.force_target("chat", "a", true, at(1));
    let (call, target) = host.start(2);
    assert_eq!(target, "b");
    let step = host.finish(call, 1, of(Class::Transient), 3);
    let mut inputs = Vec::new();
    host.engine.take_journal(&mut inputs);
    let lines: Vec<_> = inputs.iter().map(ToString::to_string).collect();
    let inputs =
        lines.iter().map(|line| line.parse::<Input>().unwrap_or_else(|error| panic!("{line}: {error}")));
    let mut again = Engine::new(42, Options::default());
    let answers = again.replay(inputs);
    assert_eq!(answers.last(), Some(&tidegate::Answer::Step(step)));
    assert_eq!(again.target_of(call, None), Some("c"));
}

#[test]
fn records_and_words_name_the_target_17_2_11() {
    let mut host = Host::new(LADDER);
    host.engine.subscribe_to(&[RecordType::AttemptStarted, RecordType::AttemptDone]);
    let (call, _) = host.start(0);
    let step = host.finish(call, 1, of(Class::Transient), 5);
    let word = tidegate::wire::pack_step(step);
    assert_eq!((word & 3, word >> 21 & 1), (1, 1), "bit 21 of an attempt");
    assert_eq!(tidegate::wire::unpack_step(word), Some(step));
    let mut records = Vec::new();
    host.engine.take_records(&mut records);
    let names: Vec<_> = records.iter().map(|it| host.engine.key_of(it.target.unwrap()).unwrap()).collect();
    assert_eq!(names, ["chat/a", "chat/a", "chat/b"]);
}

#[test]
fn groups_are_checked_and_printed_17_1() {
    let errors = |toml: &str| -> Vec<String> {
        Document::from_toml(toml).unwrap_err().iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        errors("[targets.x]\npick = 'first'\nmembers = ['a', 'a']"),
        [
            "line 2: targets.x.pick = 'first': must be one of ladder, balanced",
            "line 3: targets.x.members = 'a': is the name of another target of this group",
        ]
    );
    assert_eq!(
        errors("[targets.x]\npik = 'ladder'"),
        [
            "line 1: targets.x.members = (absent): is required: a list of the group's targets, in the order of a ladder",
            "line 1: targets.x.pick = (absent): is required: ladder (the first that admits) or balanced (the better of two)",
            "line 2: targets.x.pik = 'ladder': no such key; did you mean pick? the keys of a group are pick, max_queue, max_wait, default, members",
        ]
    );
    let foreign = "a target has attempt_timeout, rate_limit (permits, per, burst), bulkhead without a queue, breaker, and cooldown (base, \
                   max, quota_wait); all else belongs to the policies that name the group";
    assert_eq!(
        errors(
            "[targets.x]\npick = 'ladder'\nmembers = [{ name = 'a', bulkhead = { max_queue = 3 } }, 'b']\ndefault.deadline = '1s'"
        ),
        [
            format!("line 3: targets.x.members.a.bulkhead.max_queue = 3: {foreign}"),
            format!("line 4: targets.x.default.deadline = '1s': {foreign}"),
        ]
    );
    assert_eq!(
        errors("policy.p.targets = 'y'\n[targets.x]\npick = 'ladder'\nmembers = ['a']"),
        ["line 1: policy.p.targets = \"y\": no such group; did you mean x? the groups of targets are x"]
    );
    let both = "[targets.x]\npick = 'ladder'\nmembers = ['a']\n[policy.p]\ntargets = 'x'\n";
    assert_eq!(
        errors(&format!("{both}breaker = {{ consecutive = 1, break_duration = '1s' }}"))[0],
        "line 4: policy.p.breaker = (given): stands beside targets: give the members of the group a breaker, and the policy none"
    );
    let printed = Document::from_toml(&format!(
        "{both}[targets.y]\npick = 'balanced'\ndefault.cooldown.base = '2s'\ndefault.breaker = {{ consecutive = 1, break_duration = '1s' }}\n\
         members = ['a', {{ name = 'b', share = 3, breaker.consecutive = 2 }}]"
    ))
    .unwrap();
    assert_eq!(Document::from_toml(&printed.to_toml()).unwrap(), printed, "{}", printed.to_toml());
    assert_eq!(Document::from_json(&printed.to_json()).unwrap(), printed, "{}", printed.to_json());
    let pool =
        Document::from_toml("[pool.x.budget]\nkind = 'share'\n[targets.x]\npick = 'ladder'\nmembers = ['a']");
    assert_eq!(pool.unwrap_err().len(), 1, "17.1.12");
}

#[test]
fn an_engine_without_the_group_refuses_the_policy_17_1_1() {
    let policy =
        tidegate::Policy::from_pairs("p", &[("targets", Text("chat")), ("deadline", Number(1e6))]).unwrap();
    let clash = Engine::new(1, Options::default()).policy(policy).unwrap_err();
    assert_eq!(
        clash.rule,
        "targets names a group that this engine does not have; load a document that has both the group and the policy"
    );
}

/// Semantics 1.1.9 says when an attempt that the deadline cuts is a timeout.
#[test]
fn a_stopped_attempt_is_neutral_for_its_target_unless_it_ran_long_enough_17_2_13() {
    for (remaining, open) in [(4, false), (5, true)] {
        let mut host =
            Host::new(&LADDER.replace("targets = \"chat\"", "targets = \"chat\"\n    deadline = \"10s\""));
        let request = Request { remaining: Some(Duration::from_secs(remaining)), ..Request::default() };
        let (call, _) = host.engine.begin(host.route, &request, at(0));
        let step = host.on(call, Event::Timer, remaining * SECOND);
        assert_eq!(verdict(step), Verdict::Deadline);
        let breaker = host.view("a", remaining * SECOND).breaker.unwrap();
        assert_eq!(breaker.retry_in.is_some(), open, "{remaining} s of 10 s");
        assert_eq!(host.view("a", remaining * SECOND).in_flight, 0);
    }
}

/// A call that waits for a target is in flight under its policy.
#[test]
fn a_waiter_keeps_the_tokens_and_the_permit_of_its_policy_17_6_11() {
    let mut host = Host::new(
        r#"
        [targets.chat]
        pick = "ladder"
        max_queue = 5
        members = [{ name = "a", bulkhead = { max_concurrency = 1 } }]
        [policy.p]
        targets = "chat"
        bulkhead = { max_concurrency = 2 }
        rate_limit = { permits = 3, per = "1h" }
    "#,
    );
    let (first, _) = host.start(0);
    let (waiter, step) = host.begin(0);
    assert_eq!(step.action(), Action::Wait { why: Wait::Target });
    assert_eq!(verdict(host.begin(0).1), Verdict::QueueFull, "two permits are out");
    let _ = host.finish(first, 1, of(Class::Ok), 1);
    assert_eq!(host.on(waiter, Event::Poll, 1).action(), attempt(1));
    assert_eq!(verdict(host.begin(1).1), Verdict::RateLimited, "three tokens are spent");
    let _ = host.finish(waiter, 1, of(Class::Ok), 2);
    assert_eq!(host.engine.snapshot(at(2)).routes[0].pool.unwrap().in_flight, 0);
}

/// Semantics 5.3.1: the breaker of a target that comes back does not take a probe of the one before it for its own.
#[test]
fn a_probe_of_a_targets_breaker_that_was_removed_closes_no_later_one() {
    const BREAKER: &str = "breaker = { consecutive = 1, break_duration = '1s', break_factor = 1 }";
    let text = |guard: &str| {
        format!(
            "[targets.chat]\npick = 'ladder'\nmembers = ['a']\ndefault.{guard}\n[policy.p]\ntargets = 'chat'"
        )
    };
    let pool = |guard: &str| Document::from_toml(&text(guard)).unwrap().pools().next().unwrap().clone();
    let mut host = Host::new(&text(BREAKER));
    let probe = |host: &mut Host, micros: u64| {
        let _ = host.call(Class::Transient, micros, micros);
        host.start(micros + SECOND).0
    };
    let first = probe(&mut host, 0);
    for guard in ["bulkhead.max_concurrency = 9", BREAKER] {
        let _ = host.engine.retune_pool(pool(guard), at(SECOND)).unwrap();
    }
    let second = probe(&mut host, SECOND);
    let state = |host: &Host| host.view("a", 2 * SECOND).breaker.unwrap().state;
    assert_eq!(verdict(host.finish(first, 1, of(Class::Ok), 2 * SECOND)), Verdict::Ok);
    assert_eq!(state(&host), tidegate::BreakerState::HalfOpen, "its own probe runs still");
    assert_eq!(verdict(host.finish(second, 1, of(Class::Ok), 2 * SECOND)), Verdict::Ok);
    assert_eq!(state(&host), tidegate::BreakerState::Closed);
}
