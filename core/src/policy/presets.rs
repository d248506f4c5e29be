//! Built-in policies (semantics 0.7), each a list of pairs that a policy may start from and override.

use super::check::Value::{self, Number, Text};

/// The presets whose components exist.
pub(super) const NAMES: &[&str] = &["http"];

const SECOND: f64 = 1e6;

/// The pairs of a preset; its name has been checked against [`NAMES`].
pub(super) fn pairs(name: &str) -> &'static [(&'static str, Value<'static>)] {
    match name {
        "http" => HTTP,
        _ => &[],
    }
}

/// The safe default for HTTP.
const HTTP: &[(&str, Value<'static>)] = &[
    ("deadline", Number(30.0 * SECOND)),
    ("retry.max_attempts", Number(3.0)),
    ("retry.backoff.base", Number(0.1 * SECOND)),
    ("retry.backoff.multiplier", Number(2.0)),
    ("retry.backoff.max", Number(5.0 * SECOND)),
    ("retry.backoff.jitter", Text("full_floor")),
    ("retry.max_retry_after", Number(60.0 * SECOND)),
    ("retry.budget.kind", Text("window")),
];
