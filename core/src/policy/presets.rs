//! Built-in policies (semantics 0.7), each a list of pairs that a policy may start from and override.

use super::check::Value::{self, Number, Text};

/// A preset: its name, and the pairs it stands for.
type Preset = (&'static str, &'static [(&'static str, Value<'static>)]);

/// The names, for the table of keys; a test keeps them equal to [`PRESETS`].
pub(super) const NAMES: &[&str] =
    &["http", "httpware", "transient", "occ", "aws_standard", "aws_2026", "grpc"];

const SECOND: f64 = 1e6;

/// The presets whose components exist.
pub(super) const PRESETS: &[Preset] = &[
    // The safe default for HTTP.
    (
        "http",
        &[
            ("deadline", Number(30.0 * SECOND)),
            ("retry.max_attempts", Number(3.0)),
            ("retry.backoff.base", Number(0.1 * SECOND)),
            ("retry.backoff.multiplier", Number(2.0)),
            ("retry.backoff.max", Number(5.0 * SECOND)),
            ("retry.backoff.jitter", Text("full_floor")),
            ("retry.max_retry_after", Number(60.0 * SECOND)),
            ("retry.budget.kind", Text("window")),
        ],
    ),
    // As the httpware library has it: full jitter, the server's wait to the letter, no deadline.
    (
        "httpware",
        &[
            ("retry.max_attempts", Number(3.0)),
            ("retry.backoff.base", Number(0.1 * SECOND)),
            ("retry.backoff.multiplier", Number(2.0)),
            ("retry.backoff.max", Number(5.0 * SECOND)),
            ("retry.backoff.jitter", Text("full")),
            ("retry.retry_after", Text("exact")),
            ("retry.budget.kind", Text("window")),
        ],
    ),
    // Faults of the infrastructure.
    (
        "transient",
        &[
            ("attempt_timeout", Number(30.0 * SECOND)),
            ("retry.max_attempts", Number(3.0)),
            ("retry.retry_on", Text("infrastructure")),
            ("retry.backoff.base", Number(0.1 * SECOND)),
            ("retry.backoff.max", Number(5.0 * SECOND)),
            ("retry.backoff.jitter", Text("decorrelated")),
        ],
    ),
    // Optimistic concurrency: another try may win.
    (
        "occ",
        &[
            ("retry.max_attempts", Number(3.0)),
            ("retry.retry_on", Text("concurrency")),
            ("retry.backoff.base", Number(0.05 * SECOND)),
            ("retry.backoff.max", Number(2.0 * SECOND)),
            ("retry.backoff.jitter", Text("decorrelated")),
        ],
    ),
    // The AWS SDKs' standard mode.
    (
        "aws_standard",
        &[
            ("retry.max_attempts", Number(3.0)),
            ("retry.backoff.base", Number(SECOND)),
            ("retry.backoff.multiplier", Number(2.0)),
            ("retry.backoff.max", Number(20.0 * SECOND)),
            ("retry.backoff.jitter", Text("full")),
            ("retry.budget.kind", Text("quota")),
            ("retry.budget.cost", Number(5.0)),
            ("retry.budget.timeout_cost", Number(10.0)),
        ],
    ),
    // The same as of 2026: quicker after a fault, slower after a throttle.
    (
        "aws_2026",
        &[
            ("retry.max_attempts", Number(3.0)),
            ("retry.backoff.base", Number(0.05 * SECOND)),
            ("retry.backoff.throttled_base", Number(SECOND)),
            ("retry.backoff.multiplier", Number(2.0)),
            ("retry.backoff.max", Number(20.0 * SECOND)),
            ("retry.backoff.jitter", Text("full")),
            ("retry.retry_after", Text("clamp_5s")),
            ("retry.budget.kind", Text("quota")),
            ("retry.budget.cost", Number(14.0)),
            ("retry.budget.timeout_cost", Number(14.0)),
            ("retry.budget.throttled_cost", Number(5.0)),
        ],
    ),
    // gRPC A6: the document gives backoff and attempts, at most 5.
    (
        "grpc",
        &[
            ("retry.max_attempts", Number(5.0)),
            ("retry.backoff.jitter", Text("bounded")),
            ("retry.backoff.jitter_ratio", Number(0.2)),
            ("retry.budget.kind", Text("tokens")),
            ("retry.budget.max", Number(10.0)),
            ("retry.budget.ratio", Number(0.1)),
        ],
    ),
];

/// The pairs of a preset; none for a name that does not exist.
pub(super) fn pairs(name: &str) -> &'static [(&'static str, Value<'static>)] {
    PRESETS.iter().find(|preset| preset.0 == name).map_or(&[], |preset| preset.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_in_the_table_are_the_presets() {
        assert_eq!(NAMES, PRESETS.iter().map(|preset| preset.0).collect::<Vec<_>>());
    }
}
