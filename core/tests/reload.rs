//! A document that is edited while its policies are in use (semantics 0.8).

use tidegate::{
    Action, Class, Document, Engine, Event, Options, Outcome, PolicyError, Request, RouteId, Time,
};

const T0: Time = Time::from_micros(0);

fn read(text: &str) -> Document {
    Document::from_toml(text).expect("the document is right")
}

/// An engine with all policies and pools of a document.
fn engine(of: &Document) -> Engine {
    let mut engine = Engine::new(1, Options::default().journal(true));
    engine.reload(&Document::default(), of, T0).expect("an empty engine takes any document in");
    engine
}

fn route(engine: &mut Engine, policy: &str) -> RouteId {
    let id = engine.policy_named(policy).expect("the engine has this policy");
    engine.route(id, "default", T0)
}

fn shown(mistakes: &[PolicyError]) -> Vec<String> {
    mistakes.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_counted_stays_counted() {
    let old = read("policy.p.retry = { max_attempts = 2, budget = { kind = 'ratio', ratio = 0.5 } }");
    let mut engine = engine(&old);
    let at = route(&mut engine, "p");
    let (call, step) = engine.begin(at, &Request::default(), T0);
    assert!(matches!(step.action(), Action::Attempt { .. }));
    let failed = Event::Finished { attempt: 1, outcome: Outcome::of(Class::Transient) };
    let _ = engine.on(call, failed, T0);
    let before = engine.snapshot(T0).policies[0].1.attempts;
    let new = read("policy.p.retry = { max_attempts = 3, budget = { kind = 'ratio', ratio = 0.4 } }");
    engine.reload(&old, &new, T0).expect("it can be reloaded");
    assert_eq!(engine.policy_of(engine.policy_named("p").unwrap()), new.policy("p").ok());
    assert_eq!((engine.snapshot(T0).policies[0].1.attempts, before), (1, 1));
}

#[test]
fn a_limit_that_grows_admits_those_who_wait() {
    let old =
        read("pool.db.bulkhead = { max_concurrency = 1, max_queue = 9 }\npolicy.p.bulkhead.pool = 'db'");
    let mut engine = engine(&old);
    let at = route(&mut engine, "p");
    let (_, first) = engine.begin(at, &Request::default(), T0);
    let (second, waits) = engine.begin(at, &Request::default(), T0);
    assert!(matches!((first.action(), waits.action()), (Action::Attempt { .. }, Action::Wait { .. })));
    let new =
        read("pool.db.bulkhead = { max_concurrency = 2, max_queue = 9 }\npolicy.p.bulkhead.pool = 'db'");
    let flags = engine.reload(&old, &new, T0).expect("it can be reloaded");
    let mut woken = Vec::new();
    engine.take_wakes(&mut woken);
    assert_eq!((flags.wakes, woken), (true, vec![second]));
    assert!(matches!(engine.on(second, Event::Poll, T0).action(), Action::Attempt { .. }));
}

#[test]
fn all_or_nothing_and_every_mistake_at_once() {
    let old = read(
        "pool.db.bulkhead.max_concurrency = 1\npool.rate.rate_limit = { permits = 1, per = '1s' }\n\
         policy.a.bulkhead.pool = 'db'\npolicy.b.retry.max_attempts = 2",
    );
    let mut engine = engine(&old);
    let elsewhere = read("policy.mine.retry.max_attempts = 5\npool.mine.bulkhead.max_concurrency = 5");
    engine.reload(&Document::default(), &elsewhere, T0).expect("these are new");
    let new = read(
        "pool.db.bulkhead.max_concurrency = 7\npool.rate.bulkhead.max_concurrency = 3\n\
         pool.mine.bulkhead.max_concurrency = 6\npolicy.a.bulkhead = { max_concurrency = 2 }\n\
         policy.b.retry.max_attempts = 4\npolicy.mine.retry.max_attempts = 6\npolicy.new.retry.max_attempts = 2",
    );
    let (view, journal) = (engine.snapshot(T0), engine.journal().count());
    let mistakes = engine.reload(&old, &new, T0).expect_err("four of them cannot go over");
    assert_eq!(
        shown(&mistakes),
        [
            "pool = \"mine\": the engine has one of this name with other settings that is not of this document: rename \
             one of them",
            "pool = \"rate\": a reload changes a pool's settings, not its kind: keep the kind, or give the pool another \
             name",
            "policy = \"a\": a reload keeps the pools that a policy names: name the same ones, or give the policy another \
             name",
            "policy = \"mine\": the engine has one of this name with other settings that is not of this document: rename \
             one of them",
        ]
    );
    assert_eq!(engine.policy_named("new"), None);
    assert_eq!((engine.snapshot(T0), engine.journal().count()), (view, journal));
}

#[test]
fn a_fleets_policy_needs_its_store_before_anything_is_changed() {
    let old = read("policy.a.retry.max_attempts = 2");
    let mut engine = engine(&old);
    let new = read(
        "policy.a.retry.max_attempts = 3\npolicy.b.rate_limit = { permits = 1, per = '1s', store = 'fleet' }",
    );
    let mistakes = engine.reload(&old, &new, T0).expect_err("there is no store");
    assert_eq!(
        shown(&mistakes),
        ["policy = \"b\": rate_limit.store = fleet needs a store: attach one to the engine first"]
    );
    assert_eq!(engine.policy_of(engine.policy_named("a").unwrap()), old.policy("a").ok());
}

#[test]
fn a_policy_that_is_gone_stays_for_its_callers() {
    let old = read("policy.a.retry.max_attempts = 2\npolicy.b.retry.max_attempts = 2");
    let mut engine = engine(&old);
    let at = route(&mut engine, "b");
    engine.reload(&old, &read("policy.a.retry.max_attempts = 2"), T0).expect("it can be reloaded");
    assert!(matches!(engine.begin(at, &Request::default(), T0).1.action(), Action::Attempt { .. }));
}

#[test]
fn a_journal_replays_it() {
    let old = read("policy.a.retry.max_attempts = 2");
    let mut one = engine(&old);
    let at = route(&mut one, "a");
    let _ = one.begin(at, &Request::default(), T0);
    one.reload(&old, &read("policy.a.deadline = '1s'\npolicy.b.deadline = '2s'"), T0)
        .expect("it can be reloaded");
    let inputs: Vec<_> = one.journal().cloned().collect();
    let mut again = Engine::new(1, Options::default());
    let answers = again.replay(inputs);
    assert!(!answers.is_empty());
    assert_eq!(again.snapshot(T0), one.snapshot(T0));
}

#[test]
fn a_digest_is_of_what_a_document_says() {
    let one = read("policy.a = { deadline = '1s', retry.statuses = [503] }\npolicy.b.preset = 'http'");
    let other = Document::from_json(
        r#"{"policy": {"b": {"preset": "http"}, "a": {"retry": {"statuses": [503]}, "deadline": "1000ms"}}}"#,
    )
    .expect("the document is right");
    assert_eq!(one.digest(), other.digest());
    assert_ne!(one.digest(), read("policy.a.deadline = '1s'").digest());
    // FNV-1a of `{"policy": {}}` as it is printed, by hand: it is the same in every process and every version.
    assert_eq!(Document::default().to_json(), "{\n  \"policy\": {}\n}\n");
    assert_eq!(format!("{:016x}", Document::default().digest()), "84ecc21e1e741309");
}

/// Semantics 0.8.4: a group has room for so many targets that were removed and still have attempts.
#[test]
fn a_group_without_room_is_a_mistake_of_the_whole_document() {
    let version = |number: usize| {
        let names: Vec<_> = (0..16).map(|at| format!("'v{number}n{at}'")).collect();
        read(&format!(
            "pool.a.bulkhead.max_concurrency = {}\n\
             targets.chat = {{ pick = 'ladder', default.bulkhead.max_concurrency = 1, members = [{}] }}\n\
             policy.p.targets = 'chat'\n",
            number + 1,
            names.join(", ")
        ))
    };
    let mut now = version(0);
    let mut engine = engine(&now);
    let at = route(&mut engine, "p");
    for number in 1..=4 {
        for _ in 0..16 {
            let (_, step) = engine.begin(at, &Request::default(), T0);
            assert!(matches!(step.action(), Action::Attempt { .. }));
        }
        let to = version(number);
        let reloaded = engine.reload(&now, &to, T0);
        if number < 4 {
            reloaded.unwrap();
            now = to;
        } else {
            let mistakes = shown(&reloaded.unwrap_err());
            assert_eq!(mistakes.len(), 1, "{mistakes:?}");
            assert!(mistakes[0].starts_with("pool = \"chat\": too many targets"), "{mistakes:?}");
        }
    }
    let kept = now.pools().find(|pool| pool.name() == "a").unwrap();
    assert_eq!(engine.pool_of("a"), Some(kept), "nothing has changed");
}
