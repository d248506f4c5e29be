//! Restoring into an engine that is not quite the one that was saved: what goes on, what starts fresh, what is named.

use crate::saved::{Pairs, WHOLE, at, call, engine, moved, view, whole};
use Value::{Number, Text};
use tidegate::{
    Action, Class, Duration, Engine, Event, LimitKind, Options, Outcome, Policy, Pool, PoolKind, Request,
    RouteView, SavePages, Value, Verdict,
};

/// What is dropped of the state of [`whole`] under other settings, and what the engine has then.
fn changed(change: Pairs<'_>) -> (Vec<&'static str>, RouteView) {
    let changes = |key: &str| change.iter().any(|(changed, _)| key == *changed);
    let pairs: Vec<_> = WHOLE.iter().filter(|(key, _)| !changes(key)).chain(change).copied().collect();
    let pairs: Vec<_> = pairs.into_iter().filter(|(_, value)| *value != Text("")).collect();
    let (engine, _, restored) = moved(&whole(), 2_300_000, &pairs, 0, 5);
    let dropped = restored.dropped.into_iter().map(|(what, name, part)| {
        assert_eq!((what, name.as_str()), ("policy", "p"));
        part
    });
    (dropped.collect(), view(&engine, 5))
}

#[test]
fn other_settings_keep_what_still_means_the_same_and_name_the_rest() {
    let (dropped, same) = changed(&[]);
    assert_eq!(dropped, [""; 0]);
    let breaker = same.breaker.unwrap();
    assert_eq!((same.budget, breaker.throughput, breaker.failures), (Some(101), 8, 1));
    assert_eq!((same.rate.unwrap().tokens, same.hold.unwrap().holds), (3, 1));
    assert_eq!((same.pool.unwrap().limit, same.pool.unwrap().kind), (9, LimitKind::Aimd));
    assert_eq!(same.hedge.unwrap().delay, Duration::from_micros(80_004));
    assert_eq!(same.hedge.unwrap().budget, Some(1));
    assert!(same.send.unwrap().rate.unwrap() > 1.0);

    // Numbers that a retune changes without forgetting.
    let (dropped, other) = changed(&[
        ("retry.budget.min_retries_per_sec", Number(1.0)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.burst", Number(2.0)),
        ("bulkhead.max_concurrency", Number(7.0)),
        ("breaker.min_throughput", Number(100.0)),
        ("hedge.delay_max", Number(5e4)),
    ]);
    assert_eq!(dropped, [""; 0]);
    // Eight tokens were missing of twelve: they are more than there are of two.
    assert_eq!((other.budget, other.rate.unwrap().tokens, other.pool.unwrap().limit), (Some(11), 0, 7));
    assert_eq!((other.breaker, other.hedge.unwrap().delay), (same.breaker, Duration::from_millis(50)));

    for (change, part) in [
        (("retry.budget.ttl", Number(9e6)), "budget"),
        (("retry.budget.kind", Text("quota")), "budget"),
        (("bulkhead.latency_quantile", Number(0.6)), "limit"),
        (("breaker.window", Number(9e6)), "breaker"),
        (("breaker.window_kind", Text("tumbling")), "breaker"),
        (("hedge.adaptive_delay_quantile", Number(0.8)), "hedge"),
        (("hedge.budget.kind", Text("share")), "hedge_budget"),
        (("retry.hold", Number(0.0)), "holds"),
        (("retry.send_rate", Text("")), "send"),
    ] {
        let change = if part == "hedge_budget" {
            vec![change, ("hedge.budget.ratio", Text(""))]
        } else {
            vec![change]
        };
        let (dropped, other) = changed(&change);
        assert_eq!(dropped, [part], "{change:?}");
        match part {
            "breaker" => assert_eq!(other.breaker.unwrap().throughput, 0),
            "limit" => assert_eq!(other.pool.unwrap().limit, 9, "the estimate is gone, the limit is not"),
            "hedge" => assert_eq!(other.hedge.unwrap().delay, Duration::from_secs(1)),
            "budget" => assert_eq!(other.budget, Some(0), "without its burst, as after a retune"),
            "hedge_budget" => assert_eq!(other.hedge.unwrap().budget, Some(3)),
            _ => assert!(other.hold.is_none() || other.send.is_none()),
        }
    }
    let (bare, _, restored) = moved(&whole(), 2_300_000, &[("deadline", Number(1e6))], 0, 5);
    let parts: Vec<_> = restored.dropped.iter().map(|(_, _, part)| *part).collect();
    assert_eq!(parts, ["budget", "rate", "send", "limit", "breaker", "hedge", "hedge_budget", "holds"]);
    assert!(view(&bare, 5).breaker.is_none());
}

#[test]
fn another_kind_of_limit_starts_fresh() {
    let pairs = [("bulkhead.kind", Text("gradient2")), ("bulkhead.max_concurrency", Number(50.0))];
    let (mut old, id) = engine(&pairs);
    let route = old.route(id, "r", at(0));
    let calls: Vec<_> = (0..20).map(|_| old.begin(route, &Request::default(), at(1)).0).collect();
    for call in calls {
        let _ = old.on(call, Event::Finished { attempt: 1, outcome: Outcome::of(Class::Timeout) }, at(2));
    }
    let learned = view(&old, 3).pool.unwrap();
    assert_eq!((learned.limit, learned.kind), (10, LimitKind::Gradient2));
    let (new, _, restored) = moved(&old, 3, &pairs, 0, 0);
    assert_eq!((restored.dropped.len(), view(&new, 0).pool.unwrap()), (0, learned));
    let (new, _, restored) = moved(&old, 3, &[("bulkhead.max_concurrency", Number(50.0))], 0, 0);
    assert_eq!(restored.dropped, [("policy", "p".to_owned(), "limit")]);
    assert_eq!(view(&new, 0).pool.map(|pool| (pool.limit, pool.kind)), Some((50, LimitKind::Fixed)));
}

#[test]
fn a_limit_at_its_maximum_moves_with_it() {
    let pairs = |most: f64| {
        [
            ("bulkhead.kind", Text("aimd")),
            ("bulkhead.max_concurrency", Number(most)),
            ("bulkhead.latency_threshold", Number(1e6)),
            ("bulkhead.latency_quantile", Number(0.5)),
        ]
    };
    let (mut old, id) = engine(&pairs(4.0));
    assert_eq!(call(&mut old, id, Class::Ok, 0, 10), Verdict::Ok);
    let (new, _, restored) = moved(&old, 10, &pairs(9.0), 0, 0);
    assert_eq!((restored.routes, view(&new, 0).pool.unwrap().limit), (1, 9));
    call(&mut old, id, Class::Timeout, 20, 30);
    assert_eq!(
        view(&moved(&old, 40, &pairs(9.0), 0, 0).0, 0).pool.unwrap().limit,
        3,
        "and one below it does not"
    );
}

#[test]
fn a_break_is_no_longer_than_the_settings_of_now_allow() {
    let pairs = |span: f64| [("breaker.consecutive", Number(1.0)), ("breaker.break_duration", Number(span))];
    let (mut old, id) = engine(&pairs(60e6));
    call(&mut old, id, Class::Transient, 0, 1);
    let left = |to: f64| view(&moved(&old, 2, &pairs(to), 0, 0).0, 0).breaker.unwrap().retry_in.unwrap();
    assert!(left(60e6) > Duration::from_secs(59));
    assert_eq!(left(1e6), Duration::from_millis(1_100), "with the longest jitter");
}

#[test]
fn holds_are_bounded() {
    // SHA-256 of "/0", cut to 128 bits; the other paths are never asked for.
    let hash = |n: u32| match n {
        0 => "06c901ba18e7c2418ebcfc5e2ed24023".to_owned(),
        n => format!("{n:032x}"),
    };
    let saved = |paths: u32| {
        let holds: Vec<_> = (0..paths).map(|n| format!("[\"0{}\",1,5000000,0]", hash(n))).collect();
        let holds = holds.join(",");
        format!(
            "{{\"tidegate\":1,\"oldest\":0,\"policies\":[[0,\"p\",0]],\"routes\":[[0,\"r\",{{\"holds\":[{holds}]}}]],\"calls\":0}}"
        )
    };
    let restore = |paths| engine(WHOLE).0.restore(&saved(paths), Duration::ZERO, at(0)).is_ok();
    assert!(restore(1_024) && !restore(1_025));
    // A hold lets at least one call through at a time, or nobody would ever come out of it.
    let (mut one, id) = engine(WHOLE);
    one.restore(&saved(1), Duration::ZERO, at(0)).unwrap();
    let route = one.route(id, "r", at(0));
    let path = one.path_id(route, "0", at(0));
    assert_eq!(view(&one, 0).hold.unwrap().holds, 1);
    let (waiter, _) = one.begin(route, &Request { path, ..Request::default() }, at(0));
    let step = one.on(waiter, Event::Poll, at(5_000_000));
    assert!(matches!(step.action(), Action::Attempt { .. }), "{step:?}");
}

#[test]
fn every_kind_of_budget_goes_on() {
    let kinds: [(Pairs<'_>, u64); 4] = [
        (&[("retry.budget.start", Number(9.0))], 5),
        (
            &[
                ("retry.budget.kind", Text("tokens")),
                ("retry.budget.max", Number(20.0)),
                ("retry.budget.ratio", Number(1.0)),
            ],
            4,
        ),
        (&[("retry.budget.kind", Text("quota")), ("retry.budget.capacity", Number(50.0))], 6),
        (
            &[
                ("retry.budget.kind", Text("ratio")),
                ("retry.budget.ratio", Number(0.5)),
                ("retry.budget.min_throughput", Number(8.0)),
            ],
            1,
        ),
    ];
    for (kind, left) in kinds {
        let pairs =
            [&[("retry.backoff.base", Number(0.0)), ("retry.max_attempts", Number(3.0))], kind].concat();
        let (mut old, id) = engine(&pairs);
        for n in 0..2 {
            assert_eq!(call(&mut old, id, Class::Transient, n, n), Verdict::Attempts);
        }
        assert_eq!(view(&old, 3).budget, Some(left), "{kind:?}");
        let (mut new, id, restored) = moved(&old, 3, &pairs, 0, 0);
        assert!(restored.dropped.is_empty());
        assert_eq!(view(&new, 0).budget, Some(left), "{kind:?}");
        for n in 3..9 {
            assert_eq!(
                call(&mut new, id, Class::Transient, n, n),
                call(&mut old, id, Class::Transient, n, n)
            );
            assert_eq!(view(&new, n).budget, view(&old, n).budget);
        }
    }
    // Other settings: what is missing to the full stays missing.
    let (mut old, id) = engine(&[("retry.budget.kind", Text("quota")), ("retry.backoff.base", Number(0.0))]);
    assert_eq!(call(&mut old, id, Class::Transient, 0, 0), Verdict::Attempts);
    let smaller = [("retry.budget.kind", Text("quota")), ("retry.budget.capacity", Number(40.0))];
    assert_eq!(view(&moved(&old, 0, &smaller, 0, 0).0, 0).budget, Some(6));
}

#[test]
fn pools_go_on_by_their_names() {
    let build = |pools: &[(&str, PoolKind, Pairs<'_>)], pairs: Pairs<'_>| {
        let mut engine = Engine::new(1, Options::default());
        for (name, kind, pairs) in pools {
            engine.pool(Pool::from_pairs(name, *kind, pairs).unwrap(), at(0)).unwrap();
        }
        let id = engine.policy(Policy::from_pairs("p", pairs).unwrap()).unwrap();
        (engine, id)
    };
    let rate: (_, _, Pairs<'_>) =
        ("tokens", PoolKind::RateLimit, &[("permits", Number(5.0)), ("per", Number(60e6))]);
    let budget: (_, _, Pairs<'_>) =
        ("ledger", PoolKind::Budget, &[("kind", Text("quota")), ("capacity", Number(20.0))]);
    let pairs = [
        ("rate_limit.pool", Text("tokens")),
        ("retry.budget.pool", Text("ledger")),
        ("retry.backoff.base", Number(0.0)),
        ("breaker.consecutive", Number(9.0)),
        ("breaker.break_duration", Number(1e6)),
    ];
    let (mut old, id) = build(&[rate, budget], &pairs);
    assert_eq!(call(&mut old, id, Class::Transient, 0, 0), Verdict::Attempts);
    let shared = old.snapshot(at(0)).pools;
    let kinds: Vec<_> = shared.iter().map(|pool| (pool.name.as_str(), pool.kind)).collect();
    assert_eq!(kinds, [("ledger", PoolKind::Budget), ("tokens", PoolKind::RateLimit)]);
    assert_eq!((shared[0].budget, shared[1].rate.map(|rate| rate.tokens)), (Some(2), Some(4)));
    let saved = old.save(at(0));

    let (mut new, _) = build(&[rate, budget], &pairs);
    assert_eq!(new.restore(&saved, Duration::ZERO, at(9)).unwrap().unknown, []);
    assert_eq!(new.snapshot(at(9)).pools, shared);

    // The pool is gone, and the policy has its own budget: a pool's state is not a route's.
    let own = [("retry.budget.kind", Text("quota"))];
    let (mut less, _) = build(&[rate], &[&own[..], &[("rate_limit.pool", Text("tokens"))]].concat());
    let restored = less.restore(&saved, Duration::ZERO, at(9)).unwrap();
    assert_eq!(restored.unknown, [("pool", "ledger".to_owned())]);
    assert_eq!(restored.dropped, [("policy", "p".to_owned(), "breaker")]);
    assert_eq!(less.snapshot(at(9)).pools, shared[1..]);
    assert_eq!(view(&less, 9).budget, Some(100));

    // Another kind under the same name.
    let other: (_, _, Pairs<'_>) = ("ledger", PoolKind::Bulkhead, &[("max_concurrency", Number(3.0))]);
    let (mut odd, _) = build(&[rate, other], &[("rate_limit.pool", Text("tokens"))]);
    let restored = odd.restore(&saved, Duration::ZERO, at(9)).unwrap();
    let dropped = restored.dropped.iter().map(|(what, name, part)| (*what, name.as_str(), *part));
    assert_eq!(dropped.collect::<Vec<_>>(), [("pool", "ledger", "budget"), ("policy", "p", "breaker")]);
}

#[test]
fn what_this_engine_does_not_have_is_named() {
    let mut old = Engine::new(42, Options::default());
    for name in ["gone", "p", "idle"] {
        let id = old.policy(Policy::from_pairs(name, WHOLE).unwrap()).unwrap();
        if name != "idle" {
            assert_eq!(call(&mut old, id, Class::Ok, 0, 1), Verdict::Ok);
        }
    }
    let (new, _, restored) = moved(&old, 2, WHOLE, 0, 0);
    assert_eq!((restored.unknown, restored.routes), (vec![("policy", "gone".to_owned())], 1));
    assert_eq!(new.snapshot(at(0)).routes.len(), 1);
}

#[test]
fn forced_openings_survive() {
    let (mut old, id) = engine(WHOLE);
    let route = old.route(id, "r", at(0));
    old.route(id, "other", at(0));
    old.force_open(id, Some(route), true, at(0));
    let (mut new, id, restored) = moved(&old, 0, WHOLE, 0, 0);
    assert_eq!(restored.routes, 2, "one has its send rate's clock, one is forced");
    assert_eq!(call(&mut new, id, Class::Ok, 0, 1), Verdict::ForcedOpen);
    let other = new.route(id, "other", at(0));
    assert!(matches!(new.begin(other, &Request::default(), at(1)).1.action(), Action::Attempt { .. }));

    old.force_open(id, None, true, at(0));
    let (mut new, id) = engine(WHOLE);
    let early = new.route(id, "early", at(0));
    new.restore(&old.save(at(0)), Duration::ZERO, at(0)).unwrap();
    for route in [early, new.route(id, "r", at(0)), new.route(id, "late", at(0))] {
        assert!(matches!(
            new.begin(route, &Request::default(), at(1)).1.action(),
            Action::Done { verdict: Verdict::ForcedOpen, .. }
        ));
    }
    assert!(new.snapshot(at(1)).routes.iter().all(|route| route.forced));
    // What was forced here stays so, and clearing it clears all.
    new.force_open(id, None, false, at(1));
    assert_eq!(call(&mut new, id, Class::Ok, 1, 2), Verdict::Ok);
}

#[test]
fn where_there_is_too_little_room_the_least_recently_used_routes_stay_out() {
    let pairs = [("breaker.consecutive", Number(1.0)), ("breaker.break_duration", Number(60e6))];
    let policy = || Policy::from_pairs("p", &pairs).unwrap();
    let mut old = Engine::new(1, Options::default());
    let id = old.policy(policy()).unwrap();
    for (n, key) in ["open", "a", "b", "c", "d"].iter().enumerate() {
        let route = old.route(id, key, at(0));
        let (call, _) = old.begin(route, &Request::default(), at(0));
        let class = if n == 0 { Class::Transient } else { Class::Ok };
        let _ = old.on(call, Event::Finished { attempt: 1, outcome: Outcome::of(class) }, at(1));
    }
    let mut new = Engine::new(1, Options::default().max_routes(4));
    let id = new.policy(policy()).unwrap();
    new.route(id, "early", at(0));
    new.route(id, "b", at(0));
    let restored = new.restore(&old.save(at(1)), Duration::ZERO, at(1)).unwrap();
    assert_eq!((restored.routes, restored.left_out), (3, 2));
    let keys = |engine: &Engine| {
        engine.snapshot(at(1)).routes.into_iter().map(|route| route.key).collect::<Vec<_>>()
    };
    assert_eq!(keys(&new), ["early", "b", "d", "open"]);
    // A new key takes the place of the oldest that is neither open nor in use.
    new.route(id, "new", at(1));
    assert_eq!(keys(&new), ["new", "b", "d", "open"]);
    new.check().unwrap();
}

#[test]
fn the_overflow_route_goes_on_as_itself() {
    let mut old = Engine::new(1, Options::default().max_routes(1));
    let policy = || {
        Policy::from_pairs(
            "p",
            &[
                ("retry.budget.kind", Text("ratio")),
                ("retry.budget.ratio", Number(0.1)),
                ("retry.budget.min_throughput", Number(5.0)),
                ("breaker.consecutive", Number(5.0)),
                ("breaker.break_duration", Number(1e6)),
            ],
        )
        .unwrap()
    };
    let id = old.policy(policy()).unwrap();
    let busy = old.route(id, "busy", at(0));
    let (call, _) = old.begin(busy, &Request::default(), at(0));
    let other = old.route(id, "other", at(0));
    let (second, _) = old.begin(other, &Request::default(), at(0));
    for call in [call, second] {
        let _ = old.on(call, Event::Finished { attempt: 1, outcome: Outcome::of(Class::Ok) }, at(1));
    }
    let mut new = Engine::new(1, Options::default());
    let id = new.policy(policy()).unwrap();
    assert_eq!(new.restore(&old.save(at(1)), Duration::ZERO, at(1)).unwrap().routes, 2);
    let keys: Vec<_> = new.snapshot(at(1)).routes.into_iter().map(|route| route.key).collect();
    assert_eq!(keys, ["busy", "overflow"]);
    new.route(id, "overflow", at(1));
    assert_eq!(new.snapshot(at(1)).routes.len(), 3, "a key of this name is another");
}

/// A policy leaves between two pages of a saved state, and another one gets its number.
#[test]
fn a_policy_has_nothing_of_one_that_had_its_number_while_pages_were_written() {
    let rate = [
        ("rate_limit.permits", Number(1.0)),
        ("rate_limit.per", Number(3_600e6)),
        ("rate_limit.burst", Number(9.0)),
    ];
    let named = |name: &str| Policy::from_pairs(name, &rate).unwrap();
    // Forty routes are more than a page, and thirty of them are evicted where there is room for ten.
    for (max_routes, pages_between) in [(1_000, 1), (1_000, 4), (10, 1), (10, 2)] {
        let mut old = Engine::new(7, Options::default().max_routes(max_routes));
        let was = old.policy(named("was")).unwrap();
        let use_all = |engine: &mut Engine, policy, keys: u64| {
            for n in 0..keys {
                let route = engine.route(policy, &n.to_string(), at(n));
                let (call, _) = engine.begin(route, &Request::default(), at(n));
                let outcome = Outcome::of(Class::Ok);
                let _ = engine.on(call, Event::Finished { attempt: 1, outcome }, at(n));
            }
        };
        use_all(&mut old, was, 40);
        let mut pages = SavePages::default();
        for _ in 0..pages_between {
            assert!(old.save_page(&mut pages, at(50)));
        }
        old.release_policy(was, false, at(50));
        let is = old.policy(named("is")).unwrap();
        assert_ne!(was, is);
        while old.save_page(&mut pages, at(50)) {}
        let mut new = Engine::new(8, Options::default().max_routes(1_000));
        let is = new.policy(named("is")).unwrap();
        let saved = pages.finish();
        let restored = new.restore(&saved, Duration::ZERO, at(50)).unwrap();
        assert_eq!(restored.routes, 0, "{max_routes} {pages_between}: {saved}");
        use_all(&mut new, is, 40);
        let views = new.snapshot(at(50)).routes;
        assert!(views.iter().all(|route| route.rate.unwrap().tokens == 8), "{max_routes} {pages_between}");
    }
}
