//! The bound on added load (semantics 2.17), for each kind of budget: an adversary built against it comes within 1 % of
//! the bound, and never over it. That the bound holds for any schedule is in `rules.rs`.

use Value::{Number, Text};
use tidegate::{
    Action, CallId, Class, Engine, Event, Opinion, Options, Outcome, Policy, PolicyId, Pool, PoolKind,
    Request, RouteId, Time, Value,
};

/// A world in which every retry is at once, so that only the budget bounds it.
struct Adversary {
    engine: Engine,
    policy: PolicyId,
    route: RouteId,
    now: u64,
    calls: u64,
    attempts: u64,
}

impl Adversary {
    fn new(budget: &[(&str, Value<'_>)], max_attempts: f64) -> Self {
        let mut pairs =
            vec![("retry.backoff.base", Number(0.0)), ("retry.max_attempts", Number(max_attempts))];
        pairs.extend_from_slice(budget);
        let mut engine = Engine::new(3, Options::default());
        let policy = engine.policy(Policy::from_pairs("p", &pairs).unwrap()).unwrap();
        let route = engine.route(policy, "r", Time::from_micros(0));
        Self { engine, policy, route, now: 0, calls: 0, attempts: 0 }
    }

    /// One call, each attempt of which ends as the script says; beyond its end, as its last word.
    fn call(&mut self, script: &[Class]) {
        self.call_of(&script.iter().map(|class| Outcome::of(*class)).collect::<Vec<_>>());
    }

    /// The same with whole outcomes.
    fn call_of(&mut self, script: &[Outcome]) {
        let now = Time::from_micros(self.now);
        let (call, step) = self.engine.begin(self.route, &Request::default(), now);
        self.calls += 1;
        let mut action = step.action();
        let mut place = 0;
        while let Action::Attempt { attempt, .. } = action {
            self.attempts += 1;
            action = self.finish(call, attempt, script[place.min(script.len() - 1)]);
            place += 1;
        }
        assert!(matches!(action, Action::Done { .. }), "{action:?}");
    }

    fn finish(&mut self, call: CallId, attempt: u8, outcome: Outcome) -> Action {
        let event = Event::Finished { attempt, outcome };
        self.engine.on(call, event, Time::from_micros(self.now)).action()
    }

    /// `attempts ≤ (1 + r)·calls + floor·seconds + burst`, and at least 99 % of it.
    fn is_tight(&self, r: f64, floor: f64, burst: f64) {
        let bound = (1.0 + r) * self.calls as f64 + floor * self.now as f64 / 1e6 + burst;
        let attempts = self.attempts as f64;
        assert!(attempts <= bound + 1e-6, "{attempts} attempts, bound {bound}");
        assert!(attempts >= 0.99 * bound, "{attempts} attempts are not within 1 % of {bound}");
    }
}

impl Adversary {
    /// Begins a call and polls once, so that a hedge without delay starts. The call, and the attempts that run.
    fn race(&mut self) -> (CallId, Vec<u8>) {
        let now = Time::from_micros(self.now);
        let (call, step) = self.engine.begin(self.route, &Request::default(), now);
        self.calls += 1;
        let mut running = Vec::new();
        for action in [step.action(), self.engine.on(call, Event::Poll, now).action()] {
            if let Action::Attempt { attempt, .. } = action {
                running.push(attempt);
                self.attempts += 1;
            }
        }
        (call, running)
    }

    /// Ends an attempt; if another one follows at once, that counts and succeeds.
    fn end(&mut self, call: CallId, attempt: u8, class: Class) {
        if let Action::Attempt { attempt, .. } = self.finish(call, attempt, Outcome::of(class)) {
            self.attempts += 1;
            self.finish(call, attempt, Outcome::of(Class::Ok));
        }
    }

    /// The bound as it is printed: that of `engine.explain_policy`.
    fn bound(&self) -> f64 {
        let load = self.engine.explain_policy(self.policy).unwrap().load;
        load.per_call * self.calls as f64 + load.per_second * self.now as f64 / 1e6 + load.burst
    }
}

const FAIL: &[Class] = &[Class::Transient];

#[test]
fn earned() {
    let asked = Outcome { opinion: Opinion::Retry, ..Outcome::of(Class::Permanent) };
    for (ratio, start) in [(0.18, 2.0), (1.0 / 3.0, 0.0), (1.0, 500.0)] {
        let budget = [("retry.budget.ratio", Number(ratio)), ("retry.budget.start", Number(start))];
        let mut world = Adversary::new(&budget, 4.0);
        // Every call is answered, and every answer is asked for again.
        for _ in 0..20_000 {
            world.call_of(&[asked]);
        }
        world.is_tight(ratio, 0.0, start);
        let bound = world.bound();
        world.now += 1_000_000_000;
        assert!((world.bound() - bound).abs() < 1e-9, "time adds nothing");
    }
}

#[test]
fn window() {
    for (rounding, per_ttl) in [("floor", 0.0), ("ceil", 1.0)] {
        let mut world = Adversary::new(&[("retry.budget.rounding", Text(rounding))], 255.0);
        for _ in 0..10_000 {
            world.call(FAIL);
            world.now += 100_000;
        }
        let windows = (world.now as f64 / 10e6).ceil();
        world.is_tight(0.2, 10.0, 110.0 + per_ttl * windows);
    }
}

#[test]
fn ratio() {
    for (ratio, min_throughput) in [(0.1, 0.0), (0.1, 50.0), (1.0, 10.0)] {
        let budget = [
            ("retry.budget.kind", Text("ratio")),
            ("retry.budget.ratio", Number(ratio)),
            ("retry.budget.min_throughput", Number(min_throughput)),
        ];
        let mut world = Adversary::new(&budget, 4.0);
        for _ in 0..20_000 {
            world.call(FAIL);
        }
        world.is_tight(ratio, 0.0, min_throughput * 3.0);
    }
}

#[test]
fn tokens() {
    let budget = [
        ("retry.budget.kind", Text("tokens")),
        ("retry.budget.max", Number(10.0)),
        ("retry.budget.ratio", Number(0.1)),
    ];
    let mut world = Adversary::new(&budget, 5.0);
    // Success pays for retries only where the retry itself succeeds: one failure, its retry, nine more successes.
    for _ in 0..1_000 {
        world.call(&[Class::Transient, Class::Ok]);
        (0..9).for_each(|_| world.call(&[Class::Ok]));
    }
    world.is_tight(0.1, 0.0, 5.0);
}

#[test]
fn quota() {
    let mut world = Adversary::new(&[("retry.budget.kind", Text("quota"))], 3.0);
    for _ in 0..20_000 {
        world.call(&[Class::Transient, Class::Ok]);
    }
    // And then everything fails.
    for _ in 0..100 {
        world.call(FAIL);
    }
    world.is_tight(1.0, 0.0, 100.0);
}

#[test]
fn share_and_none_are_bounded_by_max_attempts_alone() {
    for kind in ["share", "none"] {
        let mut world = Adversary::new(&[("retry.budget.kind", Text(kind))], 4.0);
        (0..100).for_each(|_| world.call(FAIL));
        world.is_tight(3.0, 0.0, 0.0);
    }
}

/// Each kind that bounds attempts by calls alone, with its settings.
const KINDS: [&[(&str, Value<'_>)]; 5] = [
    &[("retry.budget.kind", Text("earned"))],
    &[("retry.budget.kind", Text("window")), ("retry.budget.min_retries_per_sec", Number(1.0))],
    &[
        ("retry.budget.kind", Text("ratio")),
        ("retry.budget.ratio", Number(0.1)),
        ("retry.budget.min_throughput", Number(20.0)),
    ],
    &[
        ("retry.budget.kind", Text("tokens")),
        ("retry.budget.max", Number(10.0)),
        ("retry.budget.ratio", Number(0.1)),
    ],
    &[("retry.budget.kind", Text("quota")), ("retry.budget.capacity", Number(50.0))],
];

#[test]
fn an_opinion_that_overrides_the_class_is_charged_as_any_retry_is() {
    // A server answers 400, 404 or 418 with `x-should-retry: true`, or a predicate says so: permanent, ignored, and kinds of
    // failure that `retry_on` leaves out.
    for budget in KINDS {
        for class in [Class::Permanent, Class::Ignored, Class::Conflict] {
            let mut world = Adversary::new(budget, 5.0);
            let asked = Outcome { opinion: Opinion::Retry, ..Outcome::of(class) };
            for _ in 0..2_000 {
                world.call_of(&[asked]);
                world.call_of(&[asked, Outcome::of(Class::Ok)]);
                world.now += 1_000;
            }
            let (attempts, bound) = (world.attempts as f64, world.bound());
            assert!(attempts <= bound, "{budget:?} {class:?}: {attempts} attempts, bound {bound}");
            assert!(attempts > world.calls as f64, "{budget:?} {class:?}: no retry at all");
        }
    }
}

const HEDGED: [(&str, Value<'_>); 3] = [
    ("retry.budget.kind", Text("tokens")),
    ("hedge.delay", Number(0.0)),
    ("hedge.budget.kind", Text("shared")),
];

#[test]
fn hedges_from_tokens_reach_the_printed_bound_and_no_more() {
    for max in [1.0, 2.0, 5.0, 10.0] {
        // A success is worth next to nothing, so the burst shows: half of the tokens, and the one that is just above half.
        let budget =
            [&HEDGED[..], &[("retry.budget.max", Number(max)), ("retry.budget.ratio", Number(1e-3))]];
        let mut world = Adversary::new(&budget.concat(), 2.0);
        for place in 0..10 {
            let (call, running) = world.race();
            let class = if place == 8 { Class::Ok } else { Class::Cancelled };
            world.end(call, running[0], class);
        }
        let whole = if max < 1.5 { 11.0 } else { world.bound().floor() };
        assert!((world.attempts as f64 - whole).abs() < 1e-9, "max {max}: {whole}, bound {}", world.bound());
        // Every call is raced, and its first attempt wins.
        let budget = [&HEDGED[..], &[("retry.budget.max", Number(max)), ("retry.budget.ratio", Number(0.1))]];
        let mut world = Adversary::new(&budget.concat(), 2.0);
        for _ in 0..5_000 {
            let (call, running) = world.race();
            world.end(call, running[0], Class::Ok);
        }
        let (attempts, bound) = (world.attempts as f64, world.bound());
        assert!((bound * 0.99..=bound).contains(&attempts), "max {max}: {attempts} attempts, bound {bound}");
    }
}

#[test]
fn a_retry_that_a_hedge_decides_is_charged_as_any_other() {
    // All first attempts fail while no token is left, successes fill the tokens again, then the hedges fail.
    let budget = [&HEDGED[..], &[("retry.budget.max", Number(10.0)), ("retry.budget.ratio", Number(0.1))]];
    let mut world = Adversary::new(&budget.concat(), 3.0);
    let mut races = Vec::new();
    for _ in 0..2_000 {
        let (call, running) = world.race();
        match running[..] {
            [_, _] => races.push((call, running)),
            _ => world.end(call, running[0], Class::Ok),
        }
    }
    assert!(races.len() > 150, "{}", races.len());
    for (call, running) in &races {
        world.end(*call, running[0], Class::Transient);
    }
    (0..60).for_each(|_| world.call(&[Class::Ok]));
    for (call, running) in &races {
        world.end(*call, running[1], Class::Transient);
    }
    let (attempts, bound) = (world.attempts as f64, world.bound());
    assert!(attempts <= bound, "{attempts} attempts, bound {bound}");
}

#[test]
fn an_explicit_budget_bounds_hedges_of_a_policy_without_retries() {
    for budget in KINDS {
        let hedge = [("hedge.delay", Number(0.0))];
        let mut world = Adversary::new(&[budget, &hedge].concat(), 1.0);
        for _ in 0..500 {
            let (call, running) = world.race();
            world.end(call, running[0], Class::Permanent);
        }
        let (attempts, bound) = (world.attempts as f64, world.bound());
        assert!(attempts <= bound, "{budget:?}: {attempts} attempts, bound {bound}");
        let with_retries = Adversary::new(&[budget, &hedge].concat(), 2.0).bound();
        world.calls = 0;
        assert!((world.bound() - with_retries).abs() < 1e-9, "{budget:?}");
    }
}

impl Adversary {
    /// Gives the policy, or its pool, other settings.
    fn retune(&mut self, budget: &[(&str, Value<'_>)], pooled: bool) {
        let now = Time::from_micros(self.now);
        if pooled {
            let flags = self.engine.retune_pool(pool(budget), now).unwrap();
            assert!(!flags.wakes);
            return;
        }
        let mut pairs = vec![("retry.backoff.base", Number(0.0)), ("retry.max_attempts", Number(5.0))];
        pairs.extend_from_slice(budget);
        let flags = self.engine.retune(self.policy, Policy::from_pairs("p", &pairs).unwrap(), now).unwrap();
        assert!(!flags.wakes);
    }

    /// One whose budget is a pool.
    fn pooled(budget: &[(&str, Value<'_>)]) -> Self {
        let pairs = [
            ("retry.backoff.base", Number(0.0)),
            ("retry.max_attempts", Number(5.0)),
            ("retry.budget.pool", Text("b")),
        ];
        let mut engine = Engine::new(3, Options::default());
        engine.pool(pool(budget), Time::from_micros(0)).unwrap();
        let policy = engine.policy(Policy::from_pairs("p", &pairs).unwrap()).unwrap();
        let route = engine.route(policy, "r", Time::from_micros(0));
        Self { engine, policy, route, now: 0, calls: 0, attempts: 0 }
    }
}

fn pool(budget: &[(&str, Value<'_>)]) -> Pool {
    let own: Vec<_> = budget.iter().map(|(key, value)| (&key["retry.budget.".len()..], *value)).collect();
    Pool::from_pairs("b", PoolKind::Budget, &own).unwrap()
}

/// Settings of one budget, large and small, and of others, that an operator goes to and fro between.
fn settings() -> Vec<Vec<(&'static str, Value<'static>)>> {
    let of = |kind, more: &[(&'static str, f64)]| {
        let more = more.iter().map(|(key, value)| (*key, Number(*value)));
        [("retry.budget.kind", Text(kind))].into_iter().chain(more).collect()
    };
    let tokens = |max| of("tokens", &[("retry.budget.max", max), ("retry.budget.ratio", 0.1)]);
    let quota = |capacity| of("quota", &[("retry.budget.capacity", capacity)]);
    let ratio =
        |ratio, free| of("ratio", &[("retry.budget.ratio", ratio), ("retry.budget.min_throughput", free)]);
    let window =
        |ttl, floor| of("window", &[("retry.budget.ttl", ttl), ("retry.budget.min_retries_per_sec", floor)]);
    let earned = |start| of("earned", &[("retry.budget.start", start)]);
    vec![
        earned(30.0),
        earned(0.0),
        tokens(100.0),
        tokens(1.0),
        quota(500.0),
        quota(1.0),
        ratio(0.1, 50.0),
        ratio(0.2, 0.0),
        window(10e6, 10.0),
        window(9e6, 0.0),
    ]
}

#[test]
fn settings_that_shrink_and_grow_again_never_fill_a_budget() {
    let all = settings();
    for pooled in [false, true] {
        for pair in 0..all.len() * all.len() {
            // A pool is retuned as a policy is: half of the pairs are enough.
            if pooled && pair % 2 == 0 {
                continue;
            }
            let (one, other) = (&all[pair / all.len()], &all[pair % all.len()]);
            let mut world = if pooled { Adversary::pooled(one) } else { Adversary::new(one, 5.0) };
            // The bound is that of the settings that allow more, each in its own terms.
            let (mut per_call, mut per_second, mut burst) = (0_f64, 0_f64, 0_f64);
            for (place, budget) in [one, other].into_iter().cycle().take(60).enumerate() {
                if place > 0 {
                    world.retune(budget, pooled);
                }
                if place < 2 {
                    let load = world.engine.explain_policy(world.policy).unwrap().load;
                    (per_call, per_second) = (per_call.max(load.per_call), per_second.max(load.per_second));
                    burst = burst.max(load.burst);
                }
                // All fails, then three succeed, the first of them after a retry.
                (0..5).for_each(|_| world.call(FAIL));
                world.call(&[Class::Transient, Class::Ok]);
                (0..2).for_each(|_| world.call(&[Class::Ok]));
                world.now += 20_000;
            }
            let bound = per_call * world.calls as f64 + per_second * world.now as f64 / 1e6 + burst;
            let attempts = world.attempts;
            assert!(
                attempts as f64 <= bound,
                "{one:?} to {other:?}, pool {pooled}: {attempts}, bound {bound}"
            );
        }
    }
}

#[test]
fn retries_in_flight_stay_counted_where_a_share_shrinks_and_grows() {
    let share = |least| [("retry.budget.kind", Text("share")), ("retry.budget.min_retries", Number(least))];
    let mut world = Adversary::new(&share(3.0), 5.0);
    let calls: Vec<_> = (0..9).map(|_| world.race()).collect();
    let retried = |world: &mut Adversary, at: usize| {
        let (call, running) = &calls[at];
        matches!(world.finish(*call, running[0], Outcome::of(Class::Transient)), Action::Attempt { .. })
    };
    assert_eq!((0..4).filter(|at| retried(&mut world, *at)).count(), 3);
    world.retune(&share(0.0), false);
    assert!(!retried(&mut world, 4));
    world.retune(&share(3.0), false);
    assert!(!retried(&mut world, 5), "the three are still in flight");
    world.retune(&share(4.0), false);
    assert!(retried(&mut world, 6) && !retried(&mut world, 7));
}
