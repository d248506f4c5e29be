//! ADR 0022: no step does more than so much, whatever waits. Work is counted, not timed.

use std::collections::VecDeque;

use crate::host::{Host, SECOND, at, bulkhead, http, of, verdict};
use Value::{Number, Text};
use tidegate::{
    Action, CallId, Class, Engine, Event, Meter, Options, Policy, PolicyId, ReadPages, Request, SavePages,
    SavedPart, Series, Snapshot, SnapshotPages, Step, Value, Verdict, Wait,
};

/// What a step may grant, refuse, take back or free besides its own call.
pub const MOST: u32 = 256;

pub const WAITERS: usize = 20_000;

/// Polls whoever is woken until nobody is, and counts ends by verdict and starts. No step may do more than its part.
fn settle(host: &mut Host, now: u64) -> (Vec<Verdict>, Vec<CallId>) {
    let (mut ended, mut started) = (Vec::new(), Vec::new());
    let mut woken: VecDeque<_> = host.wakes().into();
    let mut events = 0;
    while let Some(call) = woken.pop_front() {
        events += 1;
        assert!(events < 5 * WAITERS, "wakes come to an end");
        let step = host.poll(call, now);
        assert!(host.engine.work() <= MOST, "{} in one step", host.engine.work());
        match step.action() {
            Action::Done { verdict: Verdict::Stale, .. } | Action::Wait { .. } => {} // woken twice, or too early
            Action::Done { verdict, .. } => ended.push(verdict),
            Action::Attempt { .. } => started.push(call),
        }
        woken.extend(host.wakes());
    }
    (ended, started)
}

fn small(host: &Host, step: Step) -> Step {
    assert!(host.engine.work() <= MOST, "{} in one step: {step:?}", host.engine.work());
    step
}

fn queue(limit: f64, patience: u64) -> Vec<(&'static str, Value<'static>)> {
    let more =
        [("bulkhead.max_queue", Text("none")), ("bulkhead.acquire_timeout", Number(patience as f64 * 1e6))];
    vec![("bulkhead.max_concurrency", Number(limit)), more[0], more[1]]
}

#[test]
fn waiters_out_of_patience_are_refused_a_part_at_a_time_and_one_behind_them_is_granted() {
    let mut host = Host::new(&queue(1.0, 1));
    let holder = host.start(Request::default(), 0);
    for _ in 0..WAITERS {
        host.park(0);
    }
    let patient = host.park(SECOND);
    let step = host.finish(holder, 1, of(Class::Ok), SECOND + 1);
    assert_eq!(verdict(small(&host, step)), Verdict::Ok);
    assert!(host.engine.has_chores());
    // A permit is free, and a newcomer does not pass those who wait (R2).
    let newcomer = host.park(SECOND + 1);
    host.engine.check().unwrap();
    let (ended, started) = settle(&mut host, SECOND + 1);
    assert_eq!((ended.len(), started), (WAITERS, vec![patient]));
    assert!(ended.iter().all(|verdict| *verdict == Verdict::AcquireTimeout));
    assert!(!host.engine.has_chores());
    host.engine.check().unwrap();
    assert_eq!(verdict(host.finish(patient, 1, of(Class::Ok), SECOND + 1)), Verdict::Ok);
    assert_eq!(settle(&mut host, SECOND + 1).1, [newcomer]);
}

#[test]
fn waiters_whose_owners_do_not_come_hold_nobody_up() {
    let mut host = Host::new(&queue(1.0, 1));
    let holder = host.start(Request::default(), 0);
    for _ in 0..WAITERS {
        host.park(0);
    }
    let patient = host.park(SECOND);
    let step = host.finish(holder, 1, of(Class::Ok), SECOND + 1);
    let _ = small(&host, step);
    // Nobody who is woken comes; only the one behind them looks, as it does once a second.
    let mut looks = 0;
    while host.poll(patient, SECOND + 2).action() == (Action::Wait { why: Wait::Queue }) {
        assert!(host.engine.work() <= MOST);
        host.wakes();
        looks += 1;
        assert!(looks <= WAITERS as u32 / MOST + 1, "each event does a part of the work");
    }
    host.engine.check().unwrap();
}

#[test]
fn a_limit_that_grows_and_one_that_is_forced_and_cleared_are_bounded() {
    let mut host = Host::new(&queue(1.0, 60));
    host.start(Request::default(), 0);
    for _ in 0..WAITERS {
        host.park(0);
    }
    let wide = Policy::from_pairs("p", &queue(1e6, 60)).unwrap();
    assert!(host.engine.retune(host.policy, wide, at(1)).unwrap().wakes);
    assert!(host.engine.work() <= MOST);
    let (ended, started) = settle(&mut host, 1);
    assert_eq!((ended.len(), started.len()), (0, WAITERS));
    host.engine.check().unwrap();

    let mut host = Host::new(&queue(1.0, 60));
    let holder = host.start(Request::default(), 0);
    for _ in 0..WAITERS {
        host.park(0);
    }
    assert!(host.engine.force_open(host.policy, None, true, at(1)).wakes);
    assert!(host.engine.work() <= MOST);
    let (ended, started) = settle(&mut host, 1);
    assert!(ended.iter().all(|verdict| *verdict == Verdict::ForcedOpen) && started.is_empty());
    assert_eq!(ended.len(), WAITERS, "each owner's event goes on with it");
    assert_eq!(verdict(host.finish(holder, 1, of(Class::Ok), 2)), Verdict::Ok);
    host.engine.check().unwrap();

    // Cleared while it is being carried out: whoever has not been refused goes on waiting.
    let holder = {
        let _ = host.engine.force_open(host.policy, None, false, at(3));
        host.start(Request::default(), 3)
    };
    let waiting: Vec<_> = (0..WAITERS).map(|_| host.park(3)).collect();
    let _ = host.engine.force_open(host.policy, None, true, at(4));
    let _ = host.engine.force_open(host.policy, None, false, at(4));
    let (ended, _) = settle(&mut host, 4);
    assert!(ended.len() <= MOST as usize && !host.engine.has_chores());
    assert_eq!(verdict(host.finish(holder, 1, of(Class::Ok), 5)), Verdict::Ok);
    assert_eq!(settle(&mut host, 5).1.len(), 1);
    assert!(waiting.len() == WAITERS && host.engine.check().is_ok());
}

#[test]
fn a_waiter_of_a_forced_route_that_comes_early_is_refused_by_its_own_event() {
    let mut host = Host::new(&queue(1.0, 60));
    host.start(Request::default(), 0);
    let waiting: Vec<_> = (0..WAITERS).map(|_| host.park(0)).collect();
    let _ = host.engine.force_open(host.policy, None, true, at(1));
    let step = host.poll(waiting[WAITERS - 1], 1);
    assert_eq!(verdict(small(&host, step)), Verdict::ForcedOpen);
}

#[test]
fn tokens_and_places_are_handed_out_a_part_at_a_time() {
    let pairs = [
        ("rate_limit.permits", Number(50_000.0)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.wait", Number(1.0)),
        ("rate_limit.max_wait", Number(60e6)),
        ("rate_limit.max_waiters", Number(50_000.0)),
    ];
    let mut host = Host::new(&pairs);
    for _ in 0..50_000 {
        host.start(Request::default(), 0);
    }
    let waiting: Vec<_> = (0..WAITERS)
        .map(|_| {
            let (call, step) = host.begin(Request::default(), 0);
            assert_eq!(step.action(), Action::Wait { why: Wait::Rate });
            call
        })
        .collect();
    let step = host.poll(waiting[0], SECOND);
    assert!(matches!(small(&host, step).action(), Action::Attempt { .. }));
    let (ended, started) = settle(&mut host, SECOND);
    assert_eq!((ended.len(), started.len()), (0, WAITERS - 1));
    host.engine.check().unwrap();

    let pairs = http(&[
        ("retry.hold", Number(1.0)),
        ("retry.max_held", Number(100_000.0)),
        ("deadline", Number(30e6)),
        ("retry.max_retry_after", Number(50e6)),
    ]);
    let mut host = Host::new(&pairs);
    let path = host.engine.path_id(host.route, "/a", at(0));
    let request = Request { path, ..Request::default() };
    let first = host.start(request, 0);
    let throttled = of(Class::Throttled).retry_after(tidegate::Duration::from_secs(20));
    assert!(matches!(host.finish(first, 1, throttled, 0).action(), Action::Wait { .. }));
    let held: Vec<_> = (0..2_000)
        .map(|_| {
            let (call, step) = host.begin(request, 0);
            assert_eq!(step.action(), Action::Wait { why: Wait::Hold });
            call
        })
        .collect();
    // All their deadlines have passed when the hold's moment is looked at next.
    let (_, step) = host.begin(request, 40 * SECOND);
    let _ = small(&host, step);
    let (ended, _) = settle(&mut host, 40 * SECOND);
    assert!(ended.iter().all(|it| *it == Verdict::DeadlineQueued), "{ended:?}");
    assert_eq!(ended.len(), held.len());
    host.engine.check().unwrap();
}

#[test]
fn grants_that_nobody_claims_and_calls_that_linger_are_cleared_a_part_at_a_time() {
    let mut host = Host::new(&queue(WAITERS as f64, 60));
    let running: Vec<_> = (0..WAITERS).map(|_| host.start(Request::default(), 0)).collect();
    for _ in 0..WAITERS {
        host.park(0);
    }
    for call in running {
        assert_eq!(verdict(host.finish(call, 1, of(Class::Ok), 0)), Verdict::Ok);
    }
    host.wakes();
    // 5 s later a newcomer takes back what nobody has claimed.
    let (_, step) = host.begin(Request::default(), 6 * SECOND);
    let _ = small(&host, step);
    for _ in 0..2 * WAITERS as u32 / MOST {
        let step = host.poll(CallId::from_word(0), 6 * SECOND);
        assert_eq!(verdict(small(&host, step)), Verdict::Stale);
    }
    assert_eq!(host.engine.snapshot(at(6 * SECOND)).lost as usize, WAITERS);
    assert!(!host.engine.has_chores());

    // 10,000 calls within each other, all ended but the innermost.
    let mut host = Host::new(&bulkhead(1.0, 5.0));
    let first = host.start(Request::default(), 0);
    let mut chain = vec![first];
    for depth in 1..10_000 {
        let nested = Request { parent: Some(chain[depth - 1]), ..Request::default() };
        chain.push(host.start(nested, 0));
    }
    for call in &chain[..9_999] {
        assert_eq!(verdict(host.finish(*call, 1, of(Class::Ok), 0)), Verdict::Ok);
    }
    let waiter = host.park(0);
    let step = host.finish(chain[9_999], 1, of(Class::Ok), 1);
    assert_eq!(verdict(small(&host, step)), Verdict::Ok);
    for _ in 0..=10_000 / MOST {
        let step = host.engine.on(waiter, Event::Timer, at(2));
        let _ = small(&host, step);
    }
    assert_eq!(host.engine.snapshot(at(2)).lingering, 0);
    host.engine.check().unwrap();
}

/// An engine of so many routes, each with something to remember, and one call in every tenth.
fn many(routes: u32, max: u32) -> (Engine, PolicyId, Vec<CallId>) {
    let mut engine = Engine::new(3, Options::default().max_routes(max));
    let pairs = [bulkhead(4.0, 0.0), http(&[("retry.max_attempts", Number(2.0))])].concat();
    let policy = engine.policy(Policy::from_pairs("p", &pairs).unwrap()).unwrap();
    let mut running = Vec::new();
    for n in 0..routes {
        let route = engine.route(policy, &format!("key{n}"), at(u64::from(n)));
        let (call, _) = engine.begin(route, &Request::default(), at(u64::from(n)));
        if n % 10 == 0 {
            running.push(call);
        } else {
            let step =
                engine.on(call, Event::Finished { attempt: 1, outcome: of(Class::Ok) }, at(u64::from(n)));
            assert_eq!(verdict(step), Verdict::Ok);
        }
    }
    (engine, policy, running)
}

/// Sends events that name no call until the engine has no work left.
fn drain(engine: &mut Engine, now: u64) {
    let mut events = 0;
    while engine.has_chores() {
        assert_eq!(verdict(engine.on(CallId::from_word(0), Event::Poll, at(now))), Verdict::Stale);
        assert!(engine.work() <= MOST, "{} in one step", engine.work());
        events += 1;
        assert!(events < 200, "each event does a part of the work");
    }
}

#[test]
fn a_retune_and_a_forced_opening_reach_the_routes_a_part_at_a_time_and_each_before_its_next_call() {
    let (mut engine, policy, _running) = many(2_000, 10_000);
    let begin = |engine: &mut Engine, key: &str, now: u64| {
        let route = engine.route(policy, key, at(now));
        engine.begin(route, &Request::default(), at(now)).1
    };
    let pairs = [bulkhead(1.0, 0.0), http(&[("retry.max_attempts", Number(2.0))])].concat();
    let flags = engine.retune(policy, Policy::from_pairs("p", &pairs).unwrap(), at(3_000));
    assert!(flags.is_ok() && engine.work() <= MOST && engine.has_chores());
    assert_eq!(
        verdict(begin(&mut engine, "key1990", 3_001)),
        Verdict::QueueFull,
        "one is there, and one is the limit"
    );
    assert!(engine.has_chores());
    drain(&mut engine, 3_002);
    let limits = engine.snapshot(at(3_002));
    let limits = limits.routes.iter().map(|route| route.pool.as_ref().unwrap().limit).max();
    assert_eq!(limits, Some(1));

    let _ = engine.force_open(policy, None, true, at(4_000));
    assert!(engine.work() <= MOST && engine.has_chores());
    assert_eq!(verdict(begin(&mut engine, "key1991", 4_001)), Verdict::ForcedOpen);
    // Cleared before all have been reached; and one is forced by itself, which the rest of the clearing spares.
    let _ = engine.force_open(policy, None, false, at(4_002));
    let one = engine.route(policy, "key1992", at(4_003));
    let _ = engine.force_open(policy, Some(one), true, at(4_003));
    assert!(engine.has_chores());
    assert!(matches!(begin(&mut engine, "key1991", 4_004).action(), Action::Attempt { .. }));
    drain(&mut engine, 4_005);
    let forced = engine.snapshot(at(4_005)).routes.iter().filter(|route| route.forced).count();
    assert_eq!(forced, 1);
    assert_eq!(verdict(begin(&mut engine, "key1992", 4_006)), Verdict::ForcedOpen);
    assert!(matches!(begin(&mut engine, "key1993", 4_006).action(), Action::Attempt { .. }));
    engine.check().unwrap();
}

/// Two engines of one history: one finishes each change before the next call, the other does not. Their answers and their
/// saved states are equal, with evictions and what they owe.
#[test]
fn a_route_that_takes_a_change_over_later_answers_as_if_it_had_at_once() {
    let mut evictions = 0;
    for seed in 0..10_u64 {
        let mut state = seed * 2 + 1;
        let mut draw = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let settings = |kind: u64| {
            let rate = [(2.0, 5.0), (1.0, 1.0), (5.0, 2.0)][kind as usize];
            let mut pairs = http(&[
                ("rate_limit.permits", Number(rate.0)),
                ("rate_limit.per", Number(1e6)),
                ("rate_limit.burst", Number(rate.1)),
                ("breaker.consecutive", Number([1.0, 2.0, 3.0][kind as usize])),
                ("breaker.break_duration", Number(3e6)),
            ]);
            pairs.extend(if kind == 1 { vec![] } else { bulkhead(2.0, 0.0) });
            pairs.extend(if kind == 1 {
                vec![
                    ("retry.budget.kind", Text("tokens")),
                    ("retry.budget.ratio", Number(0.1)),
                    ("retry.budget.max", Number(10.0)),
                ]
            } else {
                vec![("retry.budget.kind", Text("window")), ("retry.budget.min_retries_per_sec", Number(1.0))]
            });
            Policy::from_pairs("p", &pairs).unwrap()
        };
        let mut engines = [0, 1].map(|_| {
            let mut engine = Engine::new(3, Options::default().max_routes(300));
            let policy = engine.policy(settings(0)).unwrap();
            (engine, policy)
        });
        let (mut now, mut calls) = (0, Vec::new());
        for step in 0..1_500 {
            now += draw(20_000);
            let key = format!("key{}", draw(340));
            let (what, kind, pick) = (draw(200), draw(3), draw(1 << 20) as usize);
            let class = if draw(3) == 0 { Class::Transient } else { Class::Ok };
            let answers = engines.each_mut().map(|(engine, policy)| {
                let answer = match what {
                    0 if step > 400 => {
                        drain(engine, now); // of two changes a route takes over the last
                        let flags = engine.retune(*policy, settings(kind), at(now));
                        return (format!("{:?}", flags.is_ok()), None);
                    }
                    1 | 2 if step > 400 => {
                        let _ = engine.force_open(*policy, None, what == 1, at(now));
                        return (String::new(), None);
                    }
                    3 if step > 400 => {
                        let route = engine.route(*policy, &key, at(now));
                        let _ = engine.force_open(*policy, Some(route), kind > 0, at(now));
                        return (String::new(), None);
                    }
                    4..80 if !calls.is_empty() => {
                        let call = calls[pick % calls.len()];
                        let outcome = of(class);
                        engine.on(call, Event::Finished { attempt: 1, outcome }, at(now))
                    }
                    _ => {
                        let route = engine.route(*policy, &key, at(now));
                        let (call, step) = engine.begin(route, &Request::default(), at(now));
                        assert!(engine.work() <= MOST);
                        return (format!("{:?}", step.action()), Some(call));
                    }
                };
                assert!(engine.work() <= MOST);
                (format!("{:?}", answer.action()), None)
            });
            assert_eq!(answers[0], answers[1], "seed {seed}, step {step}: {what} {key} at {now}");
            calls.extend(answers[0].1);
            let old = calls.len().saturating_sub(60);
            calls.drain(..old);
            drain(&mut engines[0].0, now);
            if step % 100 == 0 {
                engines[1].0.check().unwrap();
            }
        }
        let [one, other] = engines.map(|(mut engine, _)| {
            drain(&mut engine, now);
            (engine.save(at(now)), engine.snapshot(at(now)).route_evictions)
        });
        assert_eq!(one.1, other.1, "seed {seed}: evictions");
        evictions += one.1;
        let apart = one.0.bytes().zip(other.0.bytes()).take_while(|(one, other)| one == other).count();
        let shown = |text: &str| text[apart.saturating_sub(160)..(apart + 40).min(text.len())].to_owned();
        assert!(one.0 == other.0, "seed {seed}: {}\n{}", shown(&one.0), shown(&other.0));
    }
    assert!(evictions > 0);
}

#[test]
fn a_snapshot_and_a_saved_state_come_in_pages() {
    let (engine, ..) = many(2_000, 10_000);
    let (whole, now) = (engine.snapshot(at(5_000)), at(5_000));
    assert_eq!((whole.routes.len(), whole.live), (2_000, 200));
    let (mut pages, mut seen, mut count) = (SnapshotPages::default(), 0, 1);
    while engine.snapshot_page(&mut pages, now) {
        assert!(pages.routes() - seen <= 128, "{} routes in a page", pages.routes() - seen);
        (seen, count) = (pages.routes(), count + 1);
    }
    assert!(count >= 2_000 / 128 && !engine.snapshot_page(&mut pages, now), "the last page is the last");
    assert_eq!(pages.finish(), whole);

    let (mut pages, mut seen, mut count) = (SavePages::default(), 0, 1);
    while engine.save_page(&mut pages, now) {
        assert!(pages.routes() - seen <= 12, "{} routes in a page", pages.routes() - seen);
        (seen, count) = (pages.routes(), count + 1);
    }
    assert!(count >= 2_000 / 12);
    assert_eq!(pages.clone().finish(), engine.save(now));

    let mut lists = Vec::new();
    let rest = loop {
        match pages.take_part().unwrap() {
            SavedPart::Routes(list) => lists.push(list),
            SavedPart::Rest(rest) => break rest,
        }
    };
    assert_eq!((lists.len(), pages.take_part()), (2_000_usize.div_ceil(64), None));
    let routes: Vec<_> = lists.iter().map(|list| &list[1..list.len() - 1]).collect();
    let field = format!(",\"routes\":[{}]", routes.join(","));
    let whole = engine.save(now);
    assert_eq!(whole.replacen(&field, "", 1), rest);
    assert_eq!(whole.len(), rest.len() + field.len());
}

#[test]
fn what_pages_have_read_is_handed_on_in_parts() {
    let (mut engine, ..) = many(300, 1_000);
    let (now, mut meters) = (at(5_000), [(); 2].map(|()| Meter::new(1_000)));
    let whole = engine.snapshot(now);
    let (mut pages, mut routes) = (SnapshotPages::default(), Vec::new());
    while engine.snapshot_page(&mut pages, now) {
        let part = pages.take_routes();
        assert!(part.len() <= 128, "{} routes in a part", part.len());
        routes.extend(part);
    }
    assert_eq!(Snapshot { routes, ..pages.finish() }, whole);

    engine.subscribe(true);
    let route = engine.route(PolicyId::from_word(0), "key1", now);
    for _ in 0..100 {
        let (call, _) = engine.begin(route, &Request::default(), now);
        let _ = engine.on(call, Event::Finished { attempt: 1, outcome: of(Class::Ok) }, now);
    }
    let mut records = Vec::new();
    engine.take_records(&mut records);
    for meter in &mut meters {
        for record in &records {
            meter.add(&engine, record);
        }
    }
    let [mut meter, mut other] = meters;
    let (mut pages, mut parts) = (ReadPages::default(), Vec::new());
    let mut take = |pages: &mut ReadPages| {
        let part = pages.take(16);
        let some = !part.is_empty();
        assert!(part.len() <= 16);
        parts.extend(part);
        some
    };
    while meter.read_page(&engine, &mut pages, now) {
        while take(&mut pages) {}
    }
    while take(&mut pages) {}
    let mut expected = other.read(&engine, now);
    let by_name = |it: &Series| (it.family, it.policy.clone(), it.route.clone(), it.labels.clone());
    parts.sort_by_key(by_name);
    expected.sort_by_key(by_name);
    assert!(parts.len() > 300, "{} series", parts.len());
    assert_eq!(parts, expected);
}

#[test]
fn what_changes_between_two_pages_makes_no_saved_state_that_cannot_be_restored() {
    let (mut engine, policy, running) = many(600, 600);
    let (mut saved, mut view, mut n) = (SavePages::default(), SnapshotPages::default(), 0);
    let now = |n: u32| at(10_000 + u64::from(n));
    while engine.save_page(&mut saved, now(n)) | engine.snapshot_page(&mut view, now(n)) {
        // New keys take the places of others, and known ones are used: a key that was saved comes back elsewhere.
        for key in [format!("new{n}"), format!("key{}", n * 7 % 600), "key5".to_owned()] {
            let route = engine.route(policy, &key, now(n));
            let (call, _) = engine.begin(route, &Request::default(), now(n));
            let step = engine.on(call, Event::Finished { attempt: 1, outcome: of(Class::Ok) }, now(n));
            assert_eq!(verdict(step), Verdict::Ok);
        }
        n += 1;
    }
    assert!(n >= 50 && engine.snapshot(now(n)).route_evictions > 0);
    for call in running {
        assert_eq!(verdict(engine.on(call, Event::Cancel, now(n))), Verdict::Cancelled);
    }
    let (view, saved) = (view.finish(), saved.finish());
    assert!(view.routes.len() >= 590 && view.live >= 60, "{} routes", view.routes.len());
    let (mut other, ..) = many(0, 600);
    let restored = other.restore(&saved, tidegate::Duration::ZERO, at(0)).unwrap();
    assert!(restored.routes >= 590 && restored.dropped.is_empty(), "{restored:?}");
    // Those used last are those that stay where there is less room.
    let (mut small, ..) = many(0, 10);
    let restored = small.restore(&saved, tidegate::Duration::ZERO, at(0)).unwrap();
    assert_eq!(restored.routes, 10, "{restored:?}");
    assert!(small.snapshot(at(0)).routes.iter().any(|route| route.key.starts_with("key")));
}
