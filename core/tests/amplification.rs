//! The bound on added load (semantics 2.17), for each kind of budget: an adversary built against it comes within 1 % of
//! the bound, and never over it. That the bound holds for any schedule is in `rules.rs`.

use Value::{Number, Text};
use tidegate::{Action, CallId, Class, Engine, Event, Options, Outcome, Policy, Request, Time, Value};

/// A world in which every retry is at once, so that only the budget bounds it.
struct Adversary {
    engine: Engine,
    route: tidegate::RouteId,
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
        Self { engine, route, now: 0, calls: 0, attempts: 0 }
    }

    /// One call, each attempt of which ends as the script says; beyond its end, as its last word.
    fn call(&mut self, script: &[Class]) {
        let now = Time::from_micros(self.now);
        let (call, step) = self.engine.begin(self.route, &Request::default(), now);
        self.calls += 1;
        let mut action = step.action;
        let mut place = 0;
        while let Action::Attempt { attempt, .. } = action {
            self.attempts += 1;
            action = self.finish(call, attempt, script[place.min(script.len() - 1)]);
            place += 1;
        }
        assert!(matches!(action, Action::Done { .. }), "{action:?}");
    }

    fn finish(&mut self, call: CallId, attempt: u8, class: Class) -> Action {
        let event = Event::Finished { attempt, outcome: Outcome::of(class) };
        self.engine.on(call, event, Time::from_micros(self.now)).action
    }

    /// `attempts ≤ (1 + r)·calls + floor·seconds + burst`, and at least 99 % of it.
    fn is_tight(&self, r: f64, floor: f64, burst: f64) {
        let bound = (1.0 + r) * self.calls as f64 + floor * self.now as f64 / 1e6 + burst;
        let attempts = self.attempts as f64;
        assert!(attempts <= bound + 1e-6, "{attempts} attempts, bound {bound}");
        assert!(attempts >= 0.99 * bound, "{attempts} attempts are not within 1 % of {bound}");
    }
}

const FAIL: &[Class] = &[Class::Transient];

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
