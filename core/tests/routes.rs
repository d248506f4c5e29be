//! Bounded routes (semantics 0.5): what an evicted route owes is remembered, and pinned routes turn no other key away.

use crate::host::{SECOND, at, of};
use Value::{Number, Text};
use std::collections::BTreeMap;
use tidegate::rng::{self, Purpose};
use tidegate::{
    Action, BreakerState, Class, Engine, Event, Options, Policy, PolicyId, Request, RouteId, Snapshot, Value,
    Verdict,
};

/// An engine with few routes, and one policy.
struct Keys {
    engine: Engine,
    policy: PolicyId,
    draws: u64,
}

impl Keys {
    fn new(max_routes: u32, pairs: &[(&str, Value<'_>)]) -> Self {
        let mut engine = Engine::new(11, Options::default().max_routes(max_routes));
        let policy = engine.policy(Policy::from_pairs("p", pairs).unwrap()).unwrap();
        Self { engine, policy, draws: 0 }
    }

    fn route(&mut self, key: &str, now: u64) -> RouteId {
        self.engine.route(self.policy, key, at(now))
    }

    /// One call, all attempts of which end like this: how many there were, and the verdict.
    fn call(&mut self, key: &str, class: Class, now: u64) -> (u64, Verdict) {
        let route = self.route(key, now);
        self.call_on(route, class, now)
    }

    fn call_on(&mut self, route: RouteId, class: Class, now: u64) -> (u64, Verdict) {
        let (call, mut step) = self.engine.begin(route, &Request::default(), at(now));
        let mut attempts = 0;
        loop {
            match step.action() {
                Action::Attempt { attempt, .. } => {
                    attempts += 1;
                    let event = Event::Finished { attempt, outcome: of(class) };
                    step = self.engine.on(call, event, at(now));
                }
                Action::Done { verdict, .. } => return (attempts, verdict),
                Action::Wait { .. } => panic!("nothing waits here"),
            }
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.draws += 1;
        rng::uniform(rng::bits(5, self.draws, Purpose::Backoff, 0), 0, n - 1)
    }

    fn snapshot(&self, now: u64) -> Snapshot {
        self.engine.snapshot(at(now))
    }
}

const BREAKER: [(&str, Value<'static>); 3] = [
    ("breaker.consecutive", Number(1.0)),
    ("breaker.break_duration", Number(1e6)),
    ("breaker.break_factor", Number(1.0)),
];

#[test]
fn dead_hosts_never_turn_a_good_one_away() {
    for (max_routes, dead) in [(1_000, 32), (1_000, 999), (1_000, 20_000), (8, 100), (1, 40)] {
        let mut keys = Keys::new(max_routes, &BREAKER);
        for n in 0..dead {
            let (attempts, _) = keys.call(&format!("dead {n}"), Class::Transient, 0);
            assert_eq!(attempts, 1, "the breaker of another host refuses it");
        }
        // While the breaks last, and long after.
        for now in [1, 3_600 * SECOND] {
            for n in 0..1_500 {
                let (attempts, verdict) = keys.call(&format!("good {n} at {now}"), Class::Ok, now);
                assert_eq!((attempts, verdict), (1, Verdict::Ok), "{dead} dead of {max_routes}, at {now}");
            }
        }
        let after = keys.snapshot(3_600 * SECOND);
        assert!(after.route_evictions >= 1_500 - u64::from(max_routes), "the dead make room: {after:?}");
    }
}

#[test]
fn breaks_that_are_over_pin_nothing() {
    let mut keys = Keys::new(4, &BREAKER);
    for key in ["a", "b", "c", "d"] {
        keys.call(key, Class::Transient, 0);
    }
    assert_eq!(keys.call("e", Class::Transient, 1).0, 1);
    assert_eq!(keys.snapshot(1).route_overflows, 1);
    assert_eq!(keys.call("e", Class::Ok, 2), (1, Verdict::Ok), "the overflow route has no breaker");
    for key in ["a", "b", "c", "d"] {
        assert_eq!(keys.call(key, Class::Ok, 3), (0, Verdict::BreakerOpen), "an open breaker stays");
    }
    keys.call("f", Class::Ok, 2 * SECOND);
    let after = keys.snapshot(2 * SECOND);
    assert_eq!((after.route_overflows, after.route_evictions), (2, 1));
    assert!(after.routes.iter().all(|route| route.key != "overflow" || route.breaker.is_none()));
    let open = |route: &&tidegate::RouteView| route.breaker.is_some_and(|it| it.state == BreakerState::Open);
    assert_eq!(after.routes.iter().filter(open).count(), 3, "{after:?}");
}

#[test]
fn one_that_is_forced_open_stays_and_the_others_do_not() {
    let mut keys = Keys::new(2, &BREAKER);
    let forced = keys.route("forced", 0);
    let _ = keys.engine.force_open(keys.policy, Some(forced), true, at(0));
    for n in 0..50 {
        assert_eq!(keys.call(&format!("{n}"), Class::Ok, n), (1, Verdict::Ok));
    }
    assert_eq!(keys.call_on(forced, Class::Ok, 60), (0, Verdict::ForcedOpen));
    assert_eq!(keys.snapshot(60).route_overflows, 0);
    // Cleared, it goes like any other.
    let _ = keys.engine.force_open(keys.policy, Some(forced), false, at(61));
    for n in 0..3 {
        keys.call(&format!("more {n}"), Class::Ok, 62);
    }
    assert_eq!(keys.call_on(forced, Class::Ok, 63), (0, Verdict::StaleRoute));
}

/// Grants of one key, by moment.
#[derive(Default)]
struct Grants(Vec<u64>);

impl Grants {
    /// In no window are there more than `burst` and what flows in. The last grant closes the windows to look at.
    fn add(&mut self, now: u64, permits: u64, per: u64, burst: u64) {
        self.0.push(now);
        for (place, since) in self.0.iter().enumerate() {
            let granted = (self.0.len() - place) as u64;
            let flowed = (now - since) * permits / per;
            assert!(granted <= burst + flowed, "{granted} grants in {} us", now - since);
        }
    }
}

/// Keys come once or now and then, in bursts, until `flood` of them have come. Some keys hold their routes meanwhile, so that
/// others share the overflow route, and some callers keep the ids of their routes.
fn no_key_gets_more_than_rate_and_one_burst(max_routes: u32, flood: u64) {
    let (permits, per, burst) = (5, 3_600 * SECOND, 5);
    let rate = [
        ("rate_limit.permits", Number(permits as f64)),
        ("rate_limit.per", Number(per as f64)),
        ("rate_limit.burst", Number(burst as f64)),
    ];
    let mut keys = Keys::new(max_routes, &rate);
    let mut grants: BTreeMap<String, Grants> = BTreeMap::new();
    let mut kept: BTreeMap<String, RouteId> = BTreeMap::new();
    let mut holding = Vec::new();
    let (mut now, mut refused) = (0, 0_u64);
    for n in 0..flood {
        now += keys.below(20_000);
        // A hundred keys come again and again, the others once.
        let key = if keys.below(4) == 0 { format!("again {}", keys.below(100)) } else { format!("{n}") };
        let again = key.starts_with("again");
        for _ in 0..=keys.below(8) {
            let old = kept.get(&key).copied().filter(|_| again);
            let route = old.unwrap_or_else(|| keys.route(&key, now));
            let (call, step) = keys.engine.begin(route, &Request::default(), at(now));
            match step.action() {
                Action::Attempt { attempt, .. } => {
                    grants.entry(key.clone()).or_default().add(now, permits, per, burst);
                    if keys.below(40) == 0 && holding.len() < 12 {
                        holding.push((call, attempt));
                    } else {
                        let event = Event::Finished { attempt, outcome: of(Class::Ok) };
                        let _ = keys.engine.on(call, event, at(now));
                    }
                }
                Action::Done { verdict: Verdict::StaleRoute, .. } => {
                    kept.remove(&key);
                    continue;
                }
                _ => refused += 1,
            }
            if keys.below(2) == 0 {
                kept.insert(key.clone(), route);
            }
        }
        if keys.below(30) == 0 && !holding.is_empty() {
            let place = keys.below(holding.len() as u64) as usize;
            let (call, attempt) = holding.remove(place);
            let event = Event::Finished { attempt, outcome: of(Class::Ok) };
            let _ = keys.engine.on(call, event, at(now));
        }
        if !again {
            grants.remove(&key);
            kept.remove(&key);
        }
    }
    let after = keys.snapshot(now);
    assert!(
        refused > 0 && after.route_evictions > 0,
        "{refused} refused, {} evictions",
        after.route_evictions
    );
    assert!(max_routes > 8 || after.route_overflows > 0);
    let sum: usize = grants.values().map(|it| it.0.len()).sum();
    assert!(sum >= 100, "the keys that came again had something: {sum}");
}

#[test]
fn however_many_keys_flood_the_map_no_key_gets_more_than_its_rate_and_one_burst() {
    for max_routes in 1..=8 {
        no_key_gets_more_than_rate_and_one_burst(max_routes, 3_000);
    }
    no_key_gets_more_than_rate_and_one_burst(1_000, 76_000);
}

#[test]
#[ignore = "half a minute; cargo xtask deep"]
fn a_million_keys_get_no_more_either() {
    no_key_gets_more_than_rate_and_one_burst(10_000, 1_000_000);
    no_key_gets_more_than_rate_and_one_burst(8, 1_000_000);
}

#[test]
fn no_budget_starts_anew_for_a_key_that_owes() {
    type Pairs = &'static [(&'static str, Value<'static>)];
    let kinds: [(&str, Pairs, f64, f64); 5] = [
        ("earned", &[("retry.budget.ratio", Number(0.18)), ("retry.budget.start", Number(4.0))], 0.18, 4.0),
        ("window", &[("retry.budget.min_retries_per_sec", Number(1.0))], 0.2, 11.0),
        (
            "ratio",
            &[("retry.budget.ratio", Number(0.1)), ("retry.budget.min_throughput", Number(5.0))],
            0.1,
            10.0,
        ),
        ("tokens", &[("retry.budget.max", Number(10.0)), ("retry.budget.ratio", Number(0.1))], 0.1, 5.0),
        ("quota", &[("retry.budget.capacity", Number(50.0))], 1.0, 10.0),
    ];
    for (kind, more, ratio, burst) in kinds {
        for max_routes in [1, 2, 8, 100] {
            let mut pairs = vec![
                ("retry.backoff.base", Number(0.0)),
                ("retry.max_attempts", Number(3.0)),
                ("retry.budget.kind", Text(kind)),
            ];
            pairs.extend_from_slice(more);
            let mut keys = Keys::new(max_routes, &pairs);
            let (mut calls, mut retries) = (0_u64, 0_u64);
            for round in 0..200 {
                for _ in 0..2 {
                    let (attempts, _) = keys.call("owes", Class::Transient, round);
                    (calls, retries) = (calls + 1, retries + attempts - 1);
                }
                for n in 0..=max_routes {
                    keys.call(&format!("{round}.{n}"), Class::Ok, round);
                }
            }
            let bound = ratio * calls as f64 + burst;
            assert!(retries as f64 <= bound, "{kind}, {max_routes} routes: {retries} retries, bound {bound}");
            assert!(retries >= 3 && keys.snapshot(200).route_evictions >= 200, "{kind}: {retries} retries");
        }
    }
}

#[test]
fn a_windows_debt_is_forgotten_with_the_window_and_not_prolonged_by_evictions() {
    let pairs = [
        ("retry.backoff.base", Number(0.0)),
        ("retry.budget.kind", Text("window")),
        ("retry.budget.min_retries_per_sec", Number(0.2)),
        ("retry.budget.percent_can_retry", Number(0.0)),
    ];
    let mut keys = Keys::new(1, &pairs);
    assert_eq!(keys.call("owes", Class::Transient, 0).0, 3);
    for second in 1..10 {
        keys.call("other", Class::Ok, second * SECOND);
        assert_eq!(keys.call("owes", Class::Transient, second * SECOND).0, 1, "after {second} s");
    }
    keys.call("other", Class::Ok, 10 * SECOND);
    assert_eq!(keys.call("owes", Class::Transient, 10 * SECOND).0, 3);
}

#[test]
fn a_hedges_own_budget_is_remembered_too() {
    let pairs = [
        ("retry.max_attempts", Number(3.0)),
        ("hedge.delay", Number(1_000.0)),
        ("hedge.max_attempts", Number(2.0)),
        ("hedge.budget.kind", Text("quota")),
        ("hedge.budget.capacity", Number(5.0)),
    ];
    let mut keys = Keys::new(1, &pairs);
    let mut hedged = Vec::new();
    for n in 0..3 {
        let route = keys.route("owes", n * SECOND);
        let (call, _) = keys.engine.begin(route, &Request::default(), at(n * SECOND));
        let step = keys.engine.on(call, Event::Timer, at(n * SECOND + 1_000));
        hedged.push(matches!(step.action(), Action::Attempt { attempt: 2, hedge: true }));
        let _ = keys.engine.on(call, Event::Cancel, at(n * SECOND + 2_000));
        keys.call("other", Class::Permanent, n * SECOND + 3_000);
    }
    assert_eq!(hedged, [true, false, false]);
    assert!(keys.snapshot(3 * SECOND).route_evictions >= 5);
}

/// A key inherits what others owe only where they have written into all four of its cells, and then the least of it.
#[test]
fn keys_that_owe_little_do_not_inherit_what_others_owe() {
    let quota = [
        ("retry.max_attempts", Number(3.0)),
        ("retry.backoff.base", Number(0.0)),
        ("retry.budget.kind", Text("quota")),
        ("retry.budget.capacity", Number(1_000.0)),
        ("retry.budget.cost", Number(500.0)),
    ];
    let mut keys = Keys::new(1, &quota);
    // Of 256 cells in each row, some 32 hold what these owe.
    for n in 0..32 {
        assert_eq!(keys.call(&format!("much {n}"), Class::Transient, 0).0, 3);
    }
    let left = |keys: &mut Keys, key: &str| {
        keys.route(key, 0);
        keys.snapshot(0).routes[0].budget.unwrap_or(0)
    };
    assert_eq!(left(&mut keys, "much 7"), 0);
    // All four cells of a key that owes nothing are rarely taken, and those of different rows are different ones.
    let free = (0..1_000).filter(|n| left(&mut keys, &format!("nothing {n}")) == 2).count();
    assert!(free >= 990, "{free} of 1,000 keys owe nothing");
    // Each of these owes one retry; only where all four of its cells are taken does it owe more.
    let little = (0..200).filter(|n| {
        let key = format!("little {n}");
        let route = keys.route(&key, 0);
        let (call, _) = keys.engine.begin(route, &Request::default(), at(0));
        let _ = keys.engine.on(call, Event::Finished { attempt: 1, outcome: of(Class::Transient) }, at(0));
        let _ = keys.engine.on(call, Event::Finished { attempt: 2, outcome: of(Class::Permanent) }, at(0));
        left(&mut keys, "somebody else");
        left(&mut keys, &key) == 1
    });
    let little = little.count();
    assert!(little >= 190, "{little} of 200 keys owe what they have spent");
}

#[test]
fn long_keys_that_begin_alike_do_not_inherit_from_each_other() {
    let rate = [("rate_limit.permits", Number(1.0)), ("rate_limit.per", Number(3_600e6))];
    let mut keys = Keys::new(1, &rate);
    let begin = "https://a-host-with-a-long-name.example:8443/and/a/path".repeat(8);
    for end in ["a", "b", "c"] {
        assert_eq!(keys.call(&format!("{begin}{end}"), Class::Ok, 0).0, 1, "{end}");
    }
    assert_eq!(keys.call(&format!("{begin}a"), Class::Ok, 0), (0, Verdict::RateLimited));
}

#[test]
fn a_retune_forgives_no_evicted_route() {
    let rate = |permits: f64, burst: f64| {
        let pairs = [
            ("rate_limit.permits", Number(permits)),
            ("rate_limit.per", Number(1e6)),
            ("rate_limit.burst", Number(burst)),
        ];
        Policy::from_pairs("p", &pairs).unwrap()
    };
    let mut engine = Engine::new(3, Options::default().max_routes(1));
    let policy = engine.policy(rate(5.0, 5.0)).unwrap();
    let mut keys = Keys { engine, policy, draws: 0 };
    for _ in 0..5 {
        assert_eq!(keys.call("owes", Class::Ok, 0).0, 1);
    }
    keys.call("other", Class::Ok, 0);
    // At one token a second it is five seconds until the bucket is full, where it was one.
    let _ = keys.engine.retune(keys.policy, rate(1.0, 5.0), at(0)).unwrap();
    assert_eq!(keys.call("owes", Class::Ok, 0), (0, Verdict::RateLimited));
    assert_eq!(keys.call("owes", Class::Ok, SECOND).0, 1);
    assert_eq!(keys.call("owes", Class::Ok, SECOND), (0, Verdict::RateLimited));
    // Shrunk and grown again it owes as before.
    for permits in [1_000.0, 1.0] {
        keys.call("other", Class::Ok, SECOND);
        let _ = keys.engine.retune(keys.policy, rate(permits, 5.0), at(SECOND)).unwrap();
    }
    assert_eq!(keys.call("owes", Class::Ok, SECOND), (0, Verdict::RateLimited));
}

/// Attempts of a key that fails, beyond the first of each call, under settings one after the other.
fn retries_of_one_that_is_evicted(keys: &mut Keys, settings: &[&[(&str, Value<'static>)]]) -> u64 {
    let (mut retries, mut now) = (0, 0);
    for (n, pairs) in settings.iter().enumerate() {
        let mut all = vec![("retry.backoff.base", Number(0.0)), ("retry.max_attempts", Number(3.0))];
        all.extend_from_slice(pairs);
        let _ = keys.engine.retune(keys.policy, Policy::from_pairs("p", &all).unwrap(), at(now)).unwrap();
        let none = all.contains(&("retry.budget.kind", Text("none")));
        for _ in 0..if none { 0 } else { 10 } {
            retries += keys.call("owes", Class::Transient, now).0 - 1;
        }
        // It is evicted, but not at first: so the first retune finds its route, and the second what is remembered of it.
        if n > 0 {
            keys.call(&format!("other {n}"), Class::Permanent, now);
        }
        now += SECOND;
    }
    retries
}

#[test]
fn settings_that_shrink_and_grow_around_an_eviction_give_no_second_start() {
    let earned = |start| [("retry.budget.kind", Text("earned")), ("retry.budget.start", Number(start))];
    let ratio =
        |free| [("retry.budget.kind", Text("ratio")), LITTLE, ("retry.budget.min_throughput", Number(free))];
    let (full, none) = (earned(2.0), earned(0.0));
    let mut keys = Keys::new(1, &full);
    assert_eq!(retries_of_one_that_is_evicted(&mut keys, &[&full, &none, &full, &none, &full]), 2);
    let (full, none) = (ratio(2.0), ratio(0.0));
    let mut keys = Keys::new(1, &full);
    // Two free calls with two retries each.
    assert_eq!(retries_of_one_that_is_evicted(&mut keys, &[&full, &none, &full, &none, &full]), 4);
}

/// So little that no call of a test earns a retry.
const LITTLE: (&str, Value<'static>) = ("retry.budget.ratio", Number(0.01));

#[test]
fn a_budget_that_is_gone_for_a_while_is_owed_to_when_it_comes_back() {
    let none: &[_] = &[("retry.budget.kind", Text("none"))];
    let share: &[_] = &[("retry.budget.kind", Text("share")), ("retry.budget.min_retries", Number(0.0))];
    let window: &[_] = &[
        ("retry.budget.kind", Text("window")),
        ("retry.budget.ttl", Number(100e3)),
        ("retry.budget.min_retries_per_sec", Number(0.0)),
        ("retry.budget.percent_can_retry", Number(0.0)),
    ];
    let kinds: [(&[_], u64); 4] = [
        (&[("retry.budget.kind", Text("earned")), ("retry.budget.start", Number(2.0))], 2),
        (&[("retry.budget.kind", Text("tokens")), ("retry.budget.max", Number(10.0)), LITTLE], 3),
        (&[("retry.budget.kind", Text("quota")), ("retry.budget.capacity", Number(20.0))], 4),
        (&[("retry.budget.kind", Text("ratio")), ("retry.budget.min_throughput", Number(2.0)), LITTLE], 4),
    ];
    for (kind, burst) in kinds {
        for between in [none, share, window] {
            let mut keys = Keys::new(1, kind);
            let retries = retries_of_one_that_is_evicted(&mut keys, &[kind, between, kind, between, kind]);
            assert_eq!(retries, burst, "{kind:?} {between:?}");
        }
        for (other, _) in kinds.into_iter().filter(|(other, _)| *other != kind) {
            let mut keys = Keys::new(1, kind);
            let retries = retries_of_one_that_is_evicted(&mut keys, &[kind, other, kind, none, other]);
            assert_eq!(retries, burst, "{kind:?} {other:?}");
        }
    }
}

#[test]
fn a_burst_that_shrinks_and_grows_around_an_eviction_is_no_second_burst() {
    let rate = |burst: f64| {
        let pairs = [("rate_limit.permits", Number(1.0)), ("rate_limit.per", Number(3_600e6))];
        Policy::from_pairs("p", &[&pairs[..], &[("rate_limit.burst", Number(burst))]].concat()).unwrap()
    };
    for evicted in [false, true] {
        let hourly = [("rate_limit.permits", Number(1.0)), ("rate_limit.per", Number(3_600e6))];
        let mut keys = Keys::new(1, &hourly);
        let mut granted = 0;
        for (burst, calls) in [(5.0, 4), (1.0, 0), (5.0, 9), (2.0, 0), (5.0, 9)] {
            let _ = keys.engine.retune(keys.policy, rate(burst), at(0)).unwrap();
            for _ in 0..calls {
                granted += keys.call("owes", Class::Ok, 0).0;
            }
            if evicted {
                keys.call("other", Class::Ok, 0);
            }
        }
        assert!(granted <= 5, "{granted} tokens, evicted: {evicted}");
        assert!(granted >= 4, "{granted} tokens, evicted: {evicted}");
    }
}

#[test]
fn calls_that_wait_in_the_overflow_route_take_their_tokens_from_the_keys_rate() {
    let rate = [
        ("rate_limit.permits", Number(1.0)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.burst", Number(4.0)),
        ("rate_limit.wait", Number(1.0)),
        ("rate_limit.max_wait", Number(10e6)),
    ];
    let mut keys = Keys::new(1, &rate);
    let holder = keys.route("holder", 0);
    let (held, _) = keys.engine.begin(holder, &Request::default(), at(0));
    // Four of eight start at once, and four wait.
    let shared = keys.route("key", 0);
    let begun: Vec<_> = (0..8).map(|_| keys.engine.begin(shared, &Request::default(), at(0)).0).collect();
    let _ = keys.engine.on(held, Event::Finished { attempt: 1, outcome: of(Class::Ok) }, at(0));
    let own = keys.route("key", 0);
    assert_ne!(own, shared);
    let (mut granted, mut asked) = (4, 0);
    for second in 1..=8_u64 {
        let now = at(second * SECOND);
        for call in &begun {
            let step = keys.engine.on(*call, Event::Timer, now);
            granted += u64::from(matches!(step.action(), Action::Attempt { .. }));
        }
        let request = Request { may_park: false, ..Request::default() };
        let (_, step) = keys.engine.begin(own, &request, now);
        asked += u64::from(matches!(step.action(), Action::Attempt { .. }));
        assert!(granted + asked <= 4 + second, "{granted} and {asked} tokens in {second} s");
    }
    assert_eq!((granted, asked), (8, 4), "nothing is lost either");
}

#[test]
fn long_keys_that_begin_alike_share_nothing() {
    let mut keys = Keys::new(100, &BREAKER);
    let begin = "ä".repeat(400);
    for end in ["a", "b", "c"] {
        let key = format!("{begin}{end}");
        assert_eq!(keys.call(&key, Class::Transient, 0).0, 1, "{end}");
        assert_eq!(keys.call(&key, Class::Ok, 0), (0, Verdict::BreakerOpen), "{end}");
    }
    let after = keys.snapshot(0);
    assert_eq!(after.routes.len(), 3);
    for route in after.routes {
        assert!(route.key.len() <= 512 && route.key.starts_with("ää"), "{}", route.key);
    }
}

#[test]
fn an_id_of_the_overflow_route_ends_when_its_key_has_a_route_again() {
    let rate = [
        ("rate_limit.permits", Number(1.0)),
        ("rate_limit.per", Number(3_600e6)),
        ("rate_limit.burst", Number(5.0)),
    ];
    let mut keys = Keys::new(1, &rate);
    let holder = keys.route("holder", 0);
    let (held, _) = keys.engine.begin(holder, &Request::default(), at(0));
    let shared = keys.route("key", 0);
    for _ in 0..3 {
        assert_eq!(keys.call_on(shared, Class::Ok, 0).0, 1);
    }
    let _ = keys.engine.on(held, Event::Finished { attempt: 1, outcome: of(Class::Ok) }, at(0));
    let own = keys.route("key", 0);
    assert_ne!(own, shared);
    let granted = (0..9).filter(|_| keys.call_on(own, Class::Ok, 0).0 == 1).count();
    assert_eq!(granted, 2, "three of the five were spent on the overflow route");
    assert_eq!(keys.call_on(shared, Class::Ok, 0), (0, Verdict::StaleRoute));
}

/// What a key can do to a terminal or a log: new lines, colours, turned lines.
const HOSTILE: &str = "a\nERROR all is lost\r\u{1b}[31m\u{85}\u{2028}\u{202e}txt\u{2066}\u{feff}";

fn is_harmless(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() || "\u{2028}\u{202e}\u{2066}\u{feff}".contains(c))
}

#[test]
fn a_key_steers_no_log() {
    let mut keys = Keys::new(10, &BREAKER);
    keys.engine = Engine::new(1, Options::default().journal(true));
    keys.policy = keys.engine.policy(Policy::from_pairs("p", &BREAKER).unwrap()).unwrap();
    keys.engine.subscribe(true);
    let route = keys.route(HOSTILE, 0);
    keys.call_on(route, Class::Transient, 0);
    keys.call_on(route, Class::Ok, 1);
    let view = &keys.snapshot(1).routes[0];
    assert_eq!(
        view.key,
        "a\\u{a}ERROR all is lost\\u{d}\\u{1b}[31m\\u{85}\\u{2028}\\u{202e}txt\\u{2066}\\u{feff}"
    );
    assert_eq!(keys.engine.key_of(route), Some(view.key.as_str()));
    let mut inputs = Vec::new();
    keys.engine.take_journal(&mut inputs);
    for input in &inputs {
        let line = input.to_string();
        assert!(is_harmless(&line), "{line:?}");
        assert_eq!(line.parse::<tidegate::Input>().as_ref(), Ok(input));
    }
    // State is kept under the key itself.
    assert_eq!(keys.route(HOSTILE, 2), route);
    assert_ne!(keys.route(&view.key.clone(), 2), route);
    let saved = keys.engine.save(at(2));
    let mut other = Keys::new(10, &BREAKER);
    other.engine.restore(&saved, tidegate::Duration::ZERO, at(0)).unwrap();
    assert_eq!(other.call(HOSTILE, Class::Ok, 0), (0, Verdict::BreakerOpen));
}
