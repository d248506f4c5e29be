//! What evicted routes owe survives a restart (semantics 0.5, ADR 0019), also where settings or `max_routes` are others.

use crate::host::{SECOND, at, of};
use Value::{Number, Text};
use tidegate::{
    Action, Class, Duration, Engine, Event, Options, Policy, PolicyId, Request, SavePages, Value,
};

type Pairs<'a> = &'a [(&'a str, Value<'a>)];

const RATE: [(&str, Value<'static>); 3] = [
    ("rate_limit.permits", Number(1.0)),
    ("rate_limit.per", Number(3_600e6)),
    ("rate_limit.burst", Number(5.0)),
];

const SET: [(&str, Value<'static>); 1] = [("rate_limit.limits", Text("a: permits=1 per=1h burst=5"))];

fn engine(seed: u64, max_routes: u32, pairs: Pairs<'_>) -> (Engine, PolicyId) {
    let mut engine = Engine::new(seed, Options::default().max_routes(max_routes));
    let all = [&[("retry.backoff.base", Number(0.0))], pairs].concat();
    let policy = engine.policy(Policy::from_pairs("p", &all).unwrap()).unwrap();
    (engine, policy)
}

/// The attempts of one call of a key, all of which end like this.
fn call(engine: &mut Engine, policy: PolicyId, key: &str, class: Class, now: u64) -> u64 {
    let route = engine.route(policy, key, at(now));
    let (call, mut step) = engine.begin(route, &Request::default(), at(now));
    let mut attempts = 0;
    while let Action::Attempt { attempt, .. } = step.action() {
        attempts += 1;
        step = engine.on(call, Event::Finished { attempt, outcome: of(class) }, at(now));
    }
    attempts
}

#[test]
fn an_evicted_key_begins_no_new_burst_after_a_restart() {
    let tokens = [
        ("retry.budget.kind", Text("tokens")),
        ("retry.budget.max", Number(4.0)),
        ("retry.budget.ratio", Number(0.1)),
    ];
    let window = [
        ("retry.budget.min_retries_per_sec", Number(0.2)),
        ("retry.budget.percent_can_retry", Number(0.0)),
        ("retry.budget.ttl", Number(60e6)),
    ];
    let kinds: [(Pairs<'_>, Class, u64); 6] = [
        (&RATE, Class::Ok, 5),
        (&SET, Class::Ok, 5),
        (&[("retry.budget.start", Number(2.0))], Class::Transient, 2),
        (&tokens, Class::Transient, 1),
        (&window, Class::Transient, 12),
        (
            &[("retry.budget.kind", Text("quota")), ("retry.budget.capacity", Number(10.0))],
            Class::Transient,
            2,
        ),
    ];
    for (pairs, class, burst) in kinds {
        let spends = |engine: &mut Engine, policy, now| -> u64 {
            let first = u64::from(class == Class::Transient);
            (0..20).map(|_| call(engine, policy, "owes", class, now).saturating_sub(first)).sum()
        };
        // The restored engine has another seed, and rows that are as long, longer and shorter.
        for (before, after) in [(1, 1), (1, 3_000), (3_000, 1)] {
            let (mut old, policy) = engine(7, before, pairs);
            assert_eq!(spends(&mut old, policy, 0), burst, "{pairs:?}");
            for n in 0..2 * before {
                call(&mut old, policy, &format!("other {n}"), Class::Permanent, 0);
            }
            let saved = old.save(at(0));
            // Where there are many routes, one that owes is spared while others owe nothing.
            assert!(before > 1 || saved.contains("\"debts\":[[0,"), "{saved}");
            assert!(saved.len() < 700_000, "{} bytes", saved.len());
            let (mut new, policy) = engine(8, after, pairs);
            new.restore(&saved, Duration::from_micros(SECOND), at(0)).unwrap();
            call(&mut new, policy, "other", Class::Permanent, 0);
            assert_eq!(spends(&mut new, policy, 0), 0, "{pairs:?} {before} {after}");
            // Once more, without any call between.
            let (mut third, policy) = engine(9, after, pairs);
            let (mut idle, _) = engine(10, after, pairs);
            idle.restore(&saved, Duration::ZERO, at(0)).unwrap();
            third.restore(&idle.save(at(0)), Duration::ZERO, at(0)).unwrap();
            assert_eq!(spends(&mut third, policy, 0), 0, "{pairs:?} {before} {after}");
        }
    }
}

#[test]
fn routes_that_find_no_room_are_remembered_too() {
    for pairs in [&RATE[..], &SET] {
        let (mut old, policy) = engine(7, 10, pairs);
        for n in 0..10 {
            for _ in 0..5 {
                assert_eq!(call(&mut old, policy, &n.to_string(), Class::Ok, n), 1);
            }
        }
        let (mut new, policy) = engine(8, 2, pairs);
        let restored = new.restore(&old.save(at(9)), Duration::ZERO, at(0)).unwrap();
        assert_eq!((restored.routes, restored.left_out), (2, 8));
        for n in 0..10 {
            assert_eq!(call(&mut new, policy, &n.to_string(), Class::Ok, 0), 0, "{n}");
        }
    }
}

/// A window's floor counts as used up for one `ttl` after the restart that brought it, and later restarts do not use it
/// up again.
#[test]
fn a_budget_that_replaces_another_at_a_restart_is_spent_once() {
    let quota: Pairs<'_> = &[("retry.budget.kind", Text("quota")), ("retry.budget.capacity", Number(20.0))];
    let window: Pairs<'_> = &[
        ("retry.budget.kind", Text("window")),
        ("retry.budget.ttl", Number(10e6)),
        ("retry.budget.min_retries_per_sec", Number(0.3)),
        ("retry.budget.percent_can_retry", Number(0.0)),
    ];
    let (mut old, policy) = engine(1, 1, quota);
    assert_eq!(call(&mut old, policy, "owes", Class::Transient, 0), 3);
    let (mut first, _) = engine(2, 1, window);
    first.restore(&old.save(at(0)), Duration::ZERO, at(0)).unwrap();
    let saved = first.save(at(8 * SECOND));
    let (mut second, policy) = engine(3, 1, window);
    second.restore(&saved, Duration::ZERO, at(8 * SECOND)).unwrap();
    assert_eq!(second.save(at(8 * SECOND)), saved);
    // Another key takes the place of its route, and its own comes back after the window.
    assert_eq!(call(&mut second, policy, "other", Class::Permanent, 9 * SECOND), 1);
    assert_eq!(call(&mut second, policy, "owes", Class::Transient, 11 * SECOND), 3);
}

#[test]
fn a_restart_under_other_settings_forgives_nothing() {
    let tokens: Pairs<'_> = &[
        ("retry.budget.kind", Text("tokens")),
        ("retry.budget.max", Number(10.0)),
        ("retry.budget.ratio", Number(0.1)),
    ];
    let quota: Pairs<'_> = &[("retry.budget.kind", Text("quota")), ("retry.budget.capacity", Number(20.0))];
    let none: Pairs<'_> = &[("retry.budget.kind", Text("none"))];
    let window: Pairs<'_> = &[
        ("retry.budget.kind", Text("window")),
        ("retry.budget.ttl", Number(10e6)),
        ("retry.budget.min_retries_per_sec", Number(0.3)),
        ("retry.budget.percent_can_retry", Number(0.0)),
    ];
    for (evicted, max_routes) in [(false, 1), (true, 1), (false, 10_000)] {
        for settings in [[tokens, quota, tokens], [tokens, none, quota], [quota, window, tokens]] {
            let (mut saved, mut retries): (Option<String>, u64) = (None, 0);
            for (n, pairs) in settings.into_iter().enumerate() {
                let (mut engine, policy) = engine(n as u64, max_routes, pairs);
                if let Some(saved) = &saved {
                    engine.restore(saved, Duration::ZERO, at(0)).unwrap();
                }
                for _ in 0..if pairs == none { 0 } else { 9 } {
                    retries += call(&mut engine, policy, "owes", Class::Transient, 0) - 1;
                }
                if evicted {
                    call(&mut engine, policy, "other", Class::Permanent, 0);
                }
                saved = Some(engine.save(at(0)));
            }
            let once = if settings[0] == tokens { 3 } else { 4 };
            assert_eq!(retries, once, "{settings:?}, evicted: {evicted}");
        }
    }
    // A sketch of each sort, of as many cells as a page looks at.
    let (mut old, policy) = engine(1, 10_000, tokens);
    assert_eq!(call(&mut old, policy, "owes", Class::Transient, 0), 3);
    for pairs in [window, quota] {
        let all = [&[("retry.backoff.base", Number(0.0))], pairs].concat();
        let _ = old.retune(policy, Policy::from_pairs("p", &all).unwrap(), at(0)).unwrap();
    }
    let (mut new, policy) = engine(2, 10_000, quota);
    assert!(new.restore(&old.save(at(0)), Duration::ZERO, at(0)).is_ok(), "{}", old.save(at(0)));
    assert_eq!(call(&mut new, policy, "owes", Class::Transient, 0), 1);
    // A rate that is ten times as fast has as many tokens missing, and they come ten times as fast.
    let (mut old, policy) = engine(1, 1, &RATE);
    assert_eq!((0..9).map(|_| call(&mut old, policy, "owes", Class::Ok, 0)).sum::<u64>(), 5);
    call(&mut old, policy, "other", Class::Ok, 0);
    let faster = [RATE[0], ("rate_limit.per", Number(360e6)), RATE[2]];
    let (mut new, policy) = engine(2, 1, &faster);
    new.restore(&old.save(at(0)), Duration::ZERO, at(0)).unwrap();
    assert_eq!(call(&mut new, policy, "owes", Class::Ok, 359 * SECOND), 0);
    assert_eq!(call(&mut new, policy, "owes", Class::Ok, 361 * SECOND), 1);
    assert_eq!(call(&mut new, policy, "owes", Class::Ok, 362 * SECOND), 0);
}

#[test]
fn damaged_debts_are_refused_and_change_nothing() {
    let (mut old, policy) = engine(7, 1, &RATE);
    for key in ["owes", "other"] {
        call(&mut old, policy, key, Class::Ok, 0);
    }
    let saved = old.save(at(0));
    for (part, other, rule) in [
        (",256],\"debts\"", ",100],\"debts\"", "must be a row of 256 to 65,536 cells, a power of two"),
        ("[[0,\"rate\"", "[[0,\"rat\"", "must be of a component that owes"),
        ("[[0,\"rate\"", "[[1,\"rate\"", "must be of a policy that is named"),
        ("\"rate\",\"rate\"", "\"rate\",\"many\"", "must be a kind of budget"),
        (",0,[", ",0,[9000,1,5,", "must be within its rows"),
    ] {
        assert!(saved.contains(part), "{part}: {saved}");
        let (mut new, _) = engine(8, 1, &RATE);
        let error = new.restore(&saved.replacen(part, other, 1), Duration::ZERO, at(0)).unwrap_err();
        assert_eq!(error.to_string(), format!("saved state, debts: {rule}"));
        assert_eq!(new.save(at(0)), engine(8, 1, &RATE).0.save(at(0)));
    }
}

#[test]
fn a_page_of_debts_is_bounded_and_a_retune_between_two_begins_them_anew() {
    let (mut old, policy) = engine(7, 5_000, &RATE);
    for n in 0..9_000 {
        call(&mut old, policy, &n.to_string(), Class::Ok, 0);
    }
    let mut pages = SavePages::default();
    let (mut before, mut count, mut retuned) = (0, 0, false);
    while old.save_page(&mut pages, at(0)) {
        let looked_at = pages.cells().saturating_sub(before);
        assert!(looked_at <= 8_192, "{looked_at} cells in a page");
        (before, count) = (pages.cells(), count + u64::from(looked_at > 0));
        if !retuned && pages.cells() > 0 {
            retuned = true;
            let pairs =
                [&[("retry.backoff.base", Number(0.0))], &RATE[..], &[("rate_limit.per", Number(7_200e6))]];
            let policy_of =
                Policy::from_pairs("p", &[pairs[0], &pairs[1][..1], &pairs[1][2..], pairs[2]].concat());
            let _ = old.retune(policy, policy_of.unwrap(), at(0)).unwrap();
        }
    }
    assert!(retuned && count >= 20, "{count} pages");
    let debts = |saved: &str| {
        let place = saved.find("\"debts\"").unwrap()..saved.find("\"policies\"").unwrap();
        saved[place].to_owned()
    };
    assert_eq!(debts(&pages.finish()), debts(&old.save(at(0))));
}
