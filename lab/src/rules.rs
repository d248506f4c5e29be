//! The policies that the experiments compare.

use crate::world::Rule;
use tidegate::Value::{Number, Text};

/// A second in the unit of spans.
const SECOND: f64 = 1e6;

/// One attempt.
pub fn no_retry() -> Rule {
    Rule::new("no retry", &[("retry.max_attempts", Number(1.0))])
}

/// So many attempts at once after each other, as the papers' "retries" are: without backoff or budget.
pub fn attempts(most: u8) -> Rule {
    let pairs = [
        ("retry.max_attempts", Number(f64::from(most))),
        ("retry.backoff.base", Number(0.0)),
        ("retry.budget.kind", Text("none")),
    ];
    Rule::new(&format!("{most} attempts"), &pairs)
}

/// Four attempts and the papers' adaptive bucket: each call earns a tenth of a retry.
pub fn ratio(most: u8) -> Rule {
    let rule =
        attempts(most).with(&[("retry.budget.kind", Text("ratio")), ("retry.budget.ratio", Number(0.1))]);
    Rule { name: format!("{most} attempts, ratio 0.1"), ..rule }
}

/// A preset as it is.
pub fn preset(name: &'static str) -> Rule {
    Rule::new(name, &[("preset", Text(name))])
}

/// The preset `http` with the budget that was its default before: a fifth of recent calls and ten a second.
pub fn window() -> Rule {
    let rule = preset("http").with(&[("retry.budget.kind", Text("window"))]);
    Rule { name: "http, window".into(), ..rule }
}

/// The same policy with an attempt timeout in seconds.
#[must_use]
pub fn timed(rule: Rule, seconds: f64) -> Rule {
    rule.with(&[("attempt_timeout", Number(seconds * SECOND))])
}

/// All presets.
pub const PRESETS: [&str; 9] =
    ["http", "httpware", "transient", "occ", "graph", "aws_standard", "aws_2026", "aws_adaptive", "grpc"];
