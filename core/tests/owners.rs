//! Policies that nobody holds (semantics 0.9): what goes, what stays, and that nothing is refilled meanwhile.

use Value::Number;
use proptest::prelude::*;
use tidegate::{
    Action, CallId, Class, Duration, Engine, Event, Options, Outcome, Policy, PolicyId, Pool, PoolKind,
    Request, Time, Value, Verdict,
};

fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

/// Five calls an hour.
fn limited(name: &str, permits: f64) -> Policy {
    Policy::from_pairs(name, &[("rate_limit.permits", Number(permits)), ("rate_limit.per", Number(3.6e9))])
        .unwrap()
}

fn begin(engine: &mut Engine, policy: PolicyId, key: &str) -> (CallId, bool) {
    let route = engine.route(policy, key, at(0));
    let (call, step) = engine.begin(route, &Request::default(), at(0));
    (call, matches!(step.action(), Action::Attempt { .. }))
}

fn finish(engine: &mut Engine, call: CallId) {
    let outcome = Outcome::of(Class::Ok);
    let _ = engine.on(call, Event::Finished { attempt: 1, outcome }, at(0));
    engine.check().unwrap();
}

#[test]
fn thousands_of_policies_that_are_dropped_leave_nothing() {
    let mut engine = Engine::new(1, Options::default());
    let first = engine.policy(limited("first", 5.0)).unwrap();
    for n in 0..200_000 {
        let id = engine.policy(limited(&format!("p{n}"), 5.0)).unwrap();
        if n % 10 == 0 {
            let (call, started) = begin(&mut engine, id, "r");
            assert!(started, "policy {n} owes what another one owed");
            let _ = engine.on(call, Event::Finished { attempt: 1, outcome: Outcome::of(Class::Ok) }, at(0));
        }
        engine.release_policy(id, false, at(0));
        assert_eq!(engine.policy_of(id), None, "policy {n}");
    }
    engine.check().unwrap();
    let view = engine.snapshot(at(0));
    assert_eq!(view.policies.len(), 1);
    assert!(view.routes.is_empty() && engine.policy_named("first") == Some(first));
}

#[test]
fn a_policy_with_calls_stays_until_they_have_ended() {
    let mut engine = Engine::new(1, Options::default());
    let id = engine.policy(limited("p", 5.0)).unwrap();
    let (call, _) = begin(&mut engine, id, "r");
    engine.release_policy(id, false, at(0));
    let other = engine.policy(limited("p", 5.0)).unwrap();
    assert_ne!(id, other, "the name is free");
    assert_eq!(engine.snapshot(at(0)).routes.len(), 1);
    let step = engine.on(call, Event::Finished { attempt: 1, outcome: Outcome::of(Class::Ok) }, at(0));
    assert!(matches!(step.action(), Action::Done { verdict: Verdict::Ok, .. }));
    engine.release_policy(other, false, at(0));
    assert!(engine.snapshot(at(0)).policies.is_empty() && engine.snapshot(at(0)).routes.is_empty());
}

#[test]
fn two_owners_that_disagree_are_told_the_way_out_and_one_that_is_alone_retunes() {
    let mut engine = Engine::new(1, Options::default());
    let id = engine.policy(limited("p", 5.0)).unwrap();
    assert_eq!(engine.policy(limited("p", 5.0)), Ok(id), "a second owner");
    engine.release_policy(id, true, at(0));
    let told = engine.policy(limited("p", 6.0)).unwrap_err().to_string();
    assert!(told.contains("`retune`") && told.contains("another name"), "{told}");
    assert!((0..5).all(|_| begin(&mut engine, id, "r").1));
    engine.release_policy(id, true, at(0));
    assert_eq!(engine.policy(limited("p", 6.0)), Ok(id), "nobody else holds it");
    assert!(!begin(&mut engine, id, "r").1, "what was spent is spent");
}

#[test]
fn of_policies_that_are_kept_the_first_released_goes_after_1024_others() {
    let mut engine = Engine::new(1, Options::default());
    for n in 0..1_025 {
        let id = engine.policy(limited(&format!("p{n}"), 1.0)).unwrap();
        let (call, _) = begin(&mut engine, id, "r");
        finish(&mut engine, call);
        engine.release_policy(id, true, at(0));
    }
    assert_eq!(engine.snapshot(at(0)).policies.len(), 1_024);
    for (name, granted) in [("p1", false), ("p1024", false), ("p0", true)] {
        let id = engine.policy(limited(name, 1.0)).unwrap();
        assert_eq!(begin(&mut engine, id, "r").1, granted, "{name}");
    }
}

#[test]
fn a_policy_of_many_routes_goes_in_steps() {
    let mut engine = Engine::new(1, Options::default());
    let id = engine.policy(limited("p", 5.0)).unwrap();
    let kept = engine.policy(limited("kept", 5.0)).unwrap();
    for n in 0..1_000 {
        engine.route(id, &n.to_string(), at(0));
    }
    engine.release_policy(id, false, at(0));
    for left in [744, 488, 232, 0] {
        assert_eq!(engine.snapshot(at(0)).routes.iter().filter(|route| route.policy == "p").count(), left);
        assert!(engine.work() <= 256);
        begin(&mut engine, kept, "r");
        engine.check().unwrap();
    }
}

proptest! {
    /// Whoever takes policies in, retunes them by name, and lets them go: while somebody holds one, and for as long as it is
    /// kept, no rate limit grants more than its burst; and a journal says it all.
    #[test]
    fn nothing_is_refilled_by_letting_go(
        ops in prop::collection::vec((0u8..4, 0usize..3, any::<bool>()), 1..120),
    ) {
        let options = Options::default().journal(true);
        let mut engine = Engine::new(1, options);
        let mut held: Vec<(usize, PolicyId)> = Vec::new();
        let mut granted = [0; 3];
        for (what, name, other) in ops {
            let built = limited(&format!("p{name}"), if other { 5.0 } else { 4.0 });
            match what {
                0 => if let Ok(id) = engine.policy(built) {
                    held.push((name, id));
                },
                1 => if let Some(place) = held.iter().position(|it| it.0 == name) {
                    engine.release_policy(held.remove(place).1, true, at(0));
                },
                2 => if let Some((_, id)) = held.iter().find(|it| it.0 == name) {
                    let _ = engine.retune(*id, built, at(0)).unwrap();
                },
                _ => if let Some((_, id)) = held.iter().find(|it| it.0 == name) {
                    let (call, started) = begin(&mut engine, *id, "r");
                    granted[name] += u32::from(started);
                    if started {
                        finish(&mut engine, call);
                    }
                },
            }
            engine.check().unwrap();
            prop_assert!(granted.iter().all(|sum| *sum <= 5), "{granted:?}");
        }
        let inputs: Vec<_> = engine.journal().map(|it| it.to_string().parse().unwrap()).collect();
        let mut again = Engine::new(1, options);
        again.replay(inputs);
        prop_assert_eq!(again.snapshot(at(0)), engine.snapshot(at(0)));
    }
}

fn pool_named(name: &str) -> Pool {
    let pairs = [("permits", Number(1.0)), ("per", Number(3.6e9))];
    Pool::from_pairs(name, PoolKind::RateLimit, &pairs).unwrap()
}

fn pooled(name: &str, pool: &str) -> Policy {
    Policy::from_pairs(name, &[("rate_limit.pool", Value::Text(pool))]).unwrap()
}

/// Semantics 0.9.11 and 0.9.12.
#[test]
fn pools_that_no_policy_names_any_more_are_bounded() {
    let mut engine = Engine::new(1, Options::default());
    engine.pool(pool_named("waiting"), at(0)).unwrap();
    engine.pool(pool_named("held"), at(0)).unwrap();
    let held = engine.policy(pooled("held", "held")).unwrap();
    let (call, _) = begin(&mut engine, held, "r");
    finish(&mut engine, call);
    for n in 0..3_000 {
        let name = format!("pool {n}");
        engine.pool(pool_named(&name), at(0)).unwrap();
        let id = engine.policy(pooled("p", &name)).unwrap();
        let (call, started) = begin(&mut engine, id, "r");
        assert!(started, "pool {n} owes what another one owed");
        finish(&mut engine, call);
        engine.release_policy(id, false, at(0));
    }
    // The last one was added beside 1,024 others.
    let view = engine.snapshot(at(0));
    assert_eq!(view.pools.len(), 2 + 1_025);
    assert!(engine.pool_of("waiting").is_some() && engine.pool_of("held").is_some());
    assert!(engine.pool_of("pool 1974").is_none() && engine.pool_of("pool 1975").is_some());

    // What is kept keeps its debt, and what is held goes on.
    engine.pool(pool_named("pool 2999"), at(0)).unwrap();
    let again = engine.policy(pooled("p", "pool 2999")).unwrap();
    assert!(!begin(&mut engine, again, "r").1, "the token of the pool was spent");
    assert!(!begin(&mut engine, held, "r").1);
    // A pool that is gone is named as such, and can be added anew.
    let clash = engine.policy(pooled("q", "pool 0")).unwrap_err();
    assert!(
        clash.rule.contains("names a pool that this engine does not have; make the pool first"),
        "{clash}"
    );
    engine.pool(pool_named("pool 0"), at(0)).unwrap();
    engine.policy(pooled("q", "pool 0")).unwrap();
    let other = Policy::from_pairs("r", &[("bulkhead.pool", Value::Text("pool 0"))]).unwrap();
    let clash = engine.policy(other).unwrap_err();
    assert!(clash.rule.starts_with("bulkhead.pool names a pool that is of another kind"), "{clash}");
    engine.check().unwrap();
}

/// Semantics 0.9.3: a policy without an owner is retuned as of the last reading, whatever core's time is.
#[test]
fn a_policy_that_comes_back_with_other_settings_does_not_stop_the_clock() {
    const HOUR: u64 = 3_600_000_000;
    let mut engine = Engine::new(1, Options::default());
    let id = engine.policy(limited("p", 5.0)).unwrap();
    let _ = engine.route(id, "r", at(HOUR));
    let _ = engine.route(id, "r", at(5)); // the clock is set back
    engine.release_policy(id, true, at(5));
    assert_eq!(engine.policy(limited("p", 4.0)), Ok(id));
    let _ = engine.route(id, "r", at(1_000_005));
    assert_eq!(engine.now(), at(HOUR + 1_000_000), "the clock has gone on for a second");
}

/// Semantics 0.9.6: what a removed policy knew goes with it, also at a restart.
#[test]
fn a_restart_gives_a_new_policy_nothing_of_a_removed_one_of_its_name() {
    let mut engine = Engine::new(1, Options::default());
    let old = engine.policy(limited("p", 2.0)).unwrap();
    let (_, running) = begin(&mut engine, old, "r");
    let (_, last) = begin(&mut engine, old, "r");
    assert!(running && last && !begin(&mut engine, old, "r").1);
    engine.release_policy(old, false, at(0)); // its calls run on
    let new = engine.policy(limited("p", 2.0)).unwrap();
    let started_after = |engine: &Engine| {
        let mut next = Engine::new(2, Options::default());
        let id = next.policy(limited("p", 2.0)).unwrap();
        let restored = next.restore(&engine.save(at(0)), Duration::ZERO, at(0)).unwrap();
        assert_eq!((&restored.unknown[..], &restored.dropped[..]), (&[][..], &[][..]));
        (0..3).filter(|_| begin(&mut next, id, "r").1).count()
    };
    assert_eq!(started_after(&engine), 2, "the new policy owes nothing");
    assert!(begin(&mut engine, new, "r").1);
    assert_eq!(started_after(&engine), 1, "the token that its own call took");
}
