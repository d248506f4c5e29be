//! The policies that the experiments compare.

use crate::world::Rule;
use tidegate::Value::{Number, Text};

/// One second in the unit of spans, µs.
const SECOND: f64 = 1e6;

/// A policy of one attempt.
pub fn no_retry() -> Rule {
    Rule::new("no retry", &[("retry.max_attempts", Number(1.0))])
}

/// This many attempts, each at once after the one before, as in the papers: without backoff or budget.
pub fn attempts(most: u8) -> Rule {
    let pairs = [
        ("retry.max_attempts", Number(f64::from(most))),
        ("retry.backoff.base", Number(0.0)),
        ("retry.budget.kind", Text("none")),
    ];
    Rule::new(&format!("{most} attempts"), &pairs)
}

/// At most `most` attempts and the papers' adaptive bucket: each call earns a tenth of a retry.
pub fn ratio(most: u8) -> Rule {
    let rule =
        attempts(most).with(&[("retry.budget.kind", Text("ratio")), ("retry.budget.ratio", Number(0.1))]);
    Rule { name: format!("{most} attempts, ratio 0.1"), ..rule }
}

/// A preset without changes.
pub fn preset(name: &'static str) -> Rule {
    Rule::new(name, &[("preset", Text(name))])
}

/// The preset `http` with the previous default budget: a fifth of recent calls and ten per second.
pub fn window() -> Rule {
    let rule = preset("http").with(&[("retry.budget.kind", Text("window"))]);
    Rule { name: "http, window".into(), ..rule }
}

/// The policy with an attempt timeout in seconds.
#[must_use]
pub fn timed(rule: Rule, seconds: f64) -> Rule {
    rule.with(&[("attempt_timeout", Number(seconds * SECOND))])
}

/// All presets.
pub const PRESETS: [&str; 9] =
    ["http", "httpware", "transient", "occ", "graph", "aws_standard", "aws_2026", "aws_adaptive", "grpc"];
