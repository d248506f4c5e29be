//! E15: layers that each retry (AWS Builders' Library: five layers with three attempts each make 243 calls at the
//! database).

use crate::dice::Dice;
use crate::rules;
use crate::table::{Expected, Figure, Table};
use crate::world::Rule;
use tidegate::Value::{Number, Text};
use tidegate::{Action, CallId, Class, Engine, Event, Options, Outcome, Request, RouteId, Time, Verdict};

const LAYERS: usize = 5;
/// Calls to the top layer: 1,000 per second for 40 s.
const CALLS: u64 = 40_000;
const GAP: u64 = 1_000;

/// Layers in front of a database that fails a share of its calls.
struct Stack {
    /// One engine for each layer, or one for all layers, where each layer's call is nested in the one above.
    engines: Vec<(Engine, Vec<RouteId>)>,
    nested: bool,
    failing: f64,
    dice: Dice,
    reached: u64,
}

impl Stack {
    fn new(rule: &Rule, nested: bool, failing: f64) -> Self {
        let layers = if nested { 1 } else { LAYERS };
        let engines = (0..layers as u64).map(|layer| {
            let mut engine = Engine::new(layer, Options::default());
            let policy = engine.policy(rule.policy()).expect("an engine takes its first policy");
            let route = |layer| engine.route(policy, &format!("layer {layer}"), Time::from_micros(0));
            let routes = (0..LAYERS).map(route).collect();
            (engine, routes)
        });
        Self { engines: engines.collect(), nested, failing, dice: Dice::new(1), reached: 0 }
    }

    /// Makes a call at a layer. Returns whether it succeeded.
    fn call(&mut self, layer: usize, parent: Option<CallId>, now: Time) -> bool {
        if layer == LAYERS {
            self.reached += 1;
            return !self.dice.chance(self.failing);
        }
        let engine = if self.nested { 0 } else { layer };
        let request = Request { parent: parent.filter(|_| self.nested), ..Request::default() };
        let (engine_at, routes) = &mut self.engines[engine];
        let (id, mut step) = engine_at.begin(routes[layer], &request, now);
        loop {
            match step.action() {
                Action::Attempt { attempt, .. } => {
                    let class =
                        if self.call(layer + 1, Some(id), now) { Class::Ok } else { Class::Transient };
                    let event = Event::Finished { attempt, outcome: Outcome::of(class) };
                    step = self.engines[engine].0.on(id, event, now);
                }
                Action::Wait { .. } => step = self.engines[engine].0.on(id, Event::Timer, now),
                Action::Done { verdict, .. } => return verdict == Verdict::Ok,
            }
        }
    }
}

/// Calls at the database per call at the top.
fn amplification(rule: &Rule, nested: bool, failing: f64) -> f64 {
    let mut stack = Stack::new(rule, nested, failing);
    let calls = |stack: &mut Stack, part: std::ops::Range<u64>| {
        for n in part {
            stack.call(0, None, Time::from_micros(n * GAP));
        }
    };
    // Warms the service up, which then spends its saved tokens; only the rest is measured.
    stack.failing = 0.0;
    calls(&mut stack, 0..CALLS / 4);
    stack.failing = failing;
    calls(&mut stack, CALLS / 4..CALLS / 2);
    stack.reached = 0;
    calls(&mut stack, CALLS / 2..CALLS);
    stack.reached as f64 / (CALLS / 2) as f64
}

/// E15: calls at the database per call at the top of five layers; 1,000 calls per second, half of 40 s.
pub fn e15(_seeds: u64) -> Table {
    let mut table = Table::new(
        "E15 Five layers of three attempts: calls at the database per call at the top; ours (arithmetic or bound)",
        &["policy of each layer", "all fail", "half fail"],
    );
    let at_once =
        |rule: Rule| rule.with(&[("retry.backoff.base", Number(0.0)), ("retry.max_attempts", Number(3.0))]);
    let three = rules::attempts(3);
    let exact = |value: f64| Some(Expected::About(value, 0.01 * value));
    let most = |value: f64| Some(Expected::AtMost(value));
    let named = |rule: Rule, name: &str| Rule { name: name.to_owned(), ..rule };
    let fifth = |ratio: f64| (1.0 + ratio) * (1.0 + ratio) * (1.0 + ratio) * (1.0 + ratio) * (1.0 + ratio);
    let tenth = [("retry.budget.kind", Text("ratio")), ("retry.budget.ratio", Number(0.1))];
    let rows = [
        (named(three.clone(), "3 attempts, each layer a process"), false, [exact(243.0), None]),
        (named(three.clone(), "3 attempts, nested in one process"), true, [exact(3.0), most(3.0)]),
        (
            named(three.with(&tenth), "ratio 0.1, each a process"),
            false,
            [most(1.01 * fifth(0.1)), most(fifth(0.1))],
        ),
        (named(at_once(rules::window()), "window, each a process"), false, [None, None]),
        (
            named(at_once(rules::preset("http")), "http, each a process"),
            false,
            [most(1.05), most(fifth(0.18))],
        ),
        (
            named(at_once(rules::preset("http")), "http, nested in one process"),
            true,
            [most(1.18), most(1.18)],
        ),
    ];
    for (rule, nested, expected) in rows {
        let figures = [1.0, 0.5].into_iter().zip(expected);
        let figures = figures
            .map(|(failing, expected)| Figure { ours: amplification(&rule, nested, failing), expected });
        let figures = figures.collect();
        table.row(rule.name.clone(), figures);
    }
    table
}
