//! E6: a map of the loads and pulses after which a server stays dead if its latency grows with its concurrency.

use crate::recovery::{Cell, TIMEOUT, Trigger};
use crate::rules;
use crate::table::{Expected, Figure, Table};
use crate::world::Rule;
use tidegate::Value::{Number, Text};

/// The published capacity in attempts per second.
pub const CAPACITY: f64 = 66.7;
const LOADS: [f64; 5] = [20.0, 30.0, 40.0, 50.0, 60.0];

/// Three attempts after the papers' jittered backoff, without a budget.
pub fn jittered() -> Rule {
    let rule = rules::attempts(3).with(&[
        ("retry.backoff.base", Number(1e6)),
        ("retry.backoff.max", Number(20e6)),
        ("retry.backoff.jitter", Text("full")),
    ]);
    Rule { name: "3 attempts, jittered backoff".into(), ..rule }
}

/// The rows of the map: a policy and, for each load, the share of runs that stay dead. At 60/s noise alone crosses the
/// border where retries are bounded.
fn rows() -> Vec<(Rule, [Option<f64>; 5])> {
    let three = rules::attempts(3);
    let limit = [("bulkhead.max_concurrency", Number(150.0)), ("bulkhead.acquire_timeout", Number(0.0))];
    let named = |rule: Rule, name: &str| Rule { name: name.to_owned(), ..rule };
    let some = |cells: [f64; 5]| cells.map(Some);
    let to_fifty = [Some(0.0), Some(0.0), Some(0.0), Some(0.0), None];
    vec![
        (rules::no_retry(), to_fifty),
        (three.clone(), some([0.0, 0.5, 0.75, 20.0 / 24.0, 1.0])),
        (jittered(), some([0.0, 0.25, 0.5, 0.75, 1.0])),
        (rules::ratio(3), to_fifty),
        (named(three.with(&limit), "3 attempts, limit 150"), some([0.0; 5])),
        (named(rules::ratio(3).with(&limit), "3 attempts, ratio 0.1, limit 150"), some([0.0; 5])),
        (rules::window(), [None; 5]),
        (rules::preset("http"), to_fifty),
    ]
}

/// E6: the share of runs that are dead 100 s after a pulse of 2, 5, 10 or 20 s; one client, τ = 3 s.
pub fn e6(seeds: u64) -> Table {
    let mut table = Table::new(
        "E6 Vulnerability map: share of runs dead 100 s after pulses of 2, 5, 10 and 20 s, C = 66.7/s; ours (published ± tolerance)",
        &["policy", "λ = 20", "30", "40", "50", "60", "attempts/call at 60"],
    );
    for (rule, published) in rows() {
        let rule = rules::timed(rule, TIMEOUT);
        let mut figures = Vec::new();
        let mut attempts: f64 = 0.0;
        for (load, published) in LOADS.into_iter().zip(published) {
            let (mut dead, mut runs) = (0, 0);
            for width in [2, 5, 10, 20] {
                let trigger = Trigger::Pulse(width);
                let cell = Cell { load, ..Cell::safe(&rule, 1, CAPACITY, trigger) };
                let of = cell.runs(seeds);
                dead += of.dead;
                runs += of.runs;
                attempts = of.attempts;
            }
            // One pulse width more or less changes a quarter of the runs.
            let expected =
                published.map(|share| Expected::About(share, if share <= 0.0 { 0.0 } else { 0.25 }));
            figures.push(Figure { ours: dead as f64 / runs as f64, expected });
        }
        figures.push(Figure::shown(attempts));
        table.row(rule.name, figures);
    }
    table
}
