//! Built-in policies (semantics 0.7), each a list of pairs that a policy may start from and override.

use super::check::Value::{self, Number, Text};
use super::whole::PRESETS;

/// A preset: its name, and its pairs.
pub(super) type Preset = (&'static str, &'static [(&'static str, Value<'static>)]);

const SECOND: f64 = 1e6;

/// The safe default for HTTP.
pub(super) const HTTP: Preset = (
    "http",
    &[
        ("deadline", Number(30.0 * SECOND)),
        ("retry.max_attempts", Number(3.0)),
        ("retry.backoff.base", Number(0.1 * SECOND)),
        ("retry.backoff.multiplier", Number(2.0)),
        ("retry.backoff.max", Number(5.0 * SECOND)),
        ("retry.backoff.jitter", Text("full_floor")),
        ("retry.max_retry_after", Number(60.0 * SECOND)),
    ],
);

/// As in the httpware library: full jitter, the server's wait exactly, no deadline.
pub(super) const HTTPWARE: Preset = (
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
);

/// Faults of the infrastructure.
pub(super) const TRANSIENT: Preset = (
    "transient",
    &[
        ("attempt_timeout", Number(30.0 * SECOND)),
        ("retry.max_attempts", Number(3.0)),
        ("retry.retry_on", Text("infrastructure")),
        ("retry.retry_on", Text("timeout")),
        ("retry.backoff.base", Number(0.1 * SECOND)),
        ("retry.backoff.max", Number(5.0 * SECOND)),
        ("retry.backoff.jitter", Text("decorrelated")),
    ],
);

/// Optimistic concurrency: another try may win. A conflict is not a sign of overload, so retries need not be
/// earned.
pub(super) const OCC: Preset = (
    "occ",
    &[
        ("retry.max_attempts", Number(3.0)),
        ("retry.retry_on", Text("concurrency")),
        ("retry.backoff.base", Number(0.05 * SECOND)),
        ("retry.backoff.max", Number(2.0 * SECOND)),
        ("retry.backoff.jitter", Text("decorrelated")),
        ("retry.budget.kind", Text("window")),
    ],
);

/// Microsoft Graph's retry handler: few statuses, any method whose body can be sent again, long patience. While a
/// throttled call waits, calls to the same path wait too. Ten retries are more than calls earn.
pub(super) const GRAPH: Preset = (
    "graph",
    &[
        ("retry.max_attempts", Number(11.0)),
        ("retry.retry_time_limit", Number(1_800.0 * SECOND)),
        ("retry.methods", Text("GET")),
        ("retry.methods", Text("HEAD")),
        ("retry.methods", Text("OPTIONS")),
        ("retry.methods", Text("PUT")),
        ("retry.methods", Text("DELETE")),
        ("retry.methods", Text("POST")),
        ("retry.methods", Text("PATCH")),
        ("retry.statuses", Number(429.0)),
        ("retry.statuses", Number(503.0)),
        ("retry.statuses", Number(504.0)),
        ("retry.hold", Number(1.0)),
        ("retry.backoff.kind", Text("polynomial")),
        ("retry.backoff.base", Number(3.0 * SECOND)),
        ("retry.backoff.exponent", Number(2.0)),
        ("retry.backoff.max", Number(180.0 * SECOND)),
        ("retry.backoff.jitter", Text("none")),
        ("retry.budget.kind", Text("window")),
    ],
);

/// The AWS SDKs' standard mode.
pub(super) const AWS_STANDARD: Preset = (
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
);

/// The same as of 2026: faster after a fault, slower after a throttle.
pub(super) const AWS_2026: Preset = (
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
);

/// The standard mode; in addition, a throttle cuts the rate of attempts.
pub(super) const AWS_ADAPTIVE: Preset = (
    "aws_adaptive",
    &[
        ("retry.max_attempts", Number(3.0)),
        ("retry.send_rate", Text("cubic")),
        ("retry.backoff.base", Number(SECOND)),
        ("retry.backoff.multiplier", Number(2.0)),
        ("retry.backoff.max", Number(20.0 * SECOND)),
        ("retry.backoff.jitter", Text("full")),
        ("retry.budget.kind", Text("quota")),
        ("retry.budget.cost", Number(5.0)),
        ("retry.budget.timeout_cost", Number(10.0)),
    ],
);

/// gRPC A6: the document gives backoff and attempts, at most 5.
pub(super) const GRPC: Preset = (
    "grpc",
    &[
        ("retry.max_attempts", Number(5.0)),
        ("retry.backoff.jitter", Text("bounded")),
        ("retry.backoff.jitter_ratio", Number(0.2)),
        ("retry.budget.kind", Text("tokens")),
        ("retry.budget.max", Number(10.0)),
        ("retry.budget.ratio", Number(0.1)),
    ],
);

/// Services of language models: metered in tokens, slow, and clear about why they refuse. A POST is repeated: it
/// costs tokens twice at most, and changes nothing. The deadline holds for an answer that takes minutes.
pub(super) const LLM: Preset = (
    "llm",
    &[
        ("deadline", Number(600.0 * SECOND)),
        ("first_byte_timeout", Number(180.0 * SECOND)),
        ("idle_timeout", Number(120.0 * SECOND)),
        ("deadline_until", Text("delivery")),
        ("counts", Text("sse_data")),
        ("cooldown.wait", Number(1.0)),
        ("rate_limit.learn", Text("down")),
        ("retry.max_attempts", Number(4.0)),
        ("retry.methods", Text("GET")),
        ("retry.methods", Text("HEAD")),
        ("retry.methods", Text("OPTIONS")),
        ("retry.methods", Text("PUT")),
        ("retry.methods", Text("DELETE")),
        ("retry.methods", Text("POST")),
        ("retry.statuses", Number(408.0)),
        ("retry.statuses", Number(409.0)),
        ("retry.statuses", Number(429.0)),
        ("retry.statuses", Number(500.0)),
        ("retry.statuses", Number(502.0)),
        ("retry.statuses", Number(503.0)),
        ("retry.statuses", Number(504.0)),
        ("retry.statuses", Number(529.0)),
        ("retry.throttled_statuses", Number(429.0)),
        ("retry.throttled_statuses", Number(529.0)),
        ("retry.read_errors", Number(1.0)),
        ("retry.failover_on", Text("quota_spent")),
        ("retry.max_retry_after", Number(120.0 * SECOND)),
        ("retry.backoff.base", Number(0.5 * SECOND)),
        ("retry.backoff.max", Number(8.0 * SECOND)),
        ("retry.backoff.jitter", Text("full")),
        ("retry.budget.start", Number(10.0)),
    ],
);

/// The names, for the table of keys.
pub(super) const NAMES: &[&str] = &names::<{ PRESETS.len() }>();

const fn names<const N: usize>() -> [&'static str; N] {
    let (mut names, mut at) = ([""; N], 0);
    while at < N {
        names[at] = PRESETS[at].0;
        at += 1;
    }
    names
}

/// The pairs of a preset; empty for an unknown name.
pub(super) fn pairs(name: &str) -> &'static [(&'static str, Value<'static>)] {
    PRESETS.iter().find(|preset| preset.0 == name).map_or(&[], |preset| preset.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::time::Duration;

    #[test]
    fn graph_is_as_its_publication_has_it() {
        let policy = Policy::from_pairs("p", &[("preset", Text("graph"))]).unwrap();
        let retry = &policy.retry;
        let delay = |n| retry.backoff.delay(n, Duration::ZERO, 0).as_micros() / 1_000_000;
        let delays: Vec<_> = (1..=10).map(delay).collect();
        assert_eq!(delays, [3, 12, 27, 48, 75, 108, 147, 180, 180, 180], "3 s times n², at most 180 s");
        assert_eq!((retry.max_attempts, retry.time_limit), (11, Duration::from_secs(1_800)));
        assert_eq!(retry.statuses, [429, 503, 504]);
        assert!(["POST", "PATCH", "GET"].iter().all(|method| retry.methods.contains(method)));
        assert_eq!(retry.hold.as_deref(), Some(&200));
    }

    /// Semantics 0.7.11: whatever a service of language models answers, the preset knows what to do.
    #[test]
    fn llm_repeats_what_may_pass_and_nothing_else() {
        use crate::classify::{HttpFailure, classify};
        use crate::outcome::{Class, Opinion};
        use crate::time::WallTime;

        let policy = Policy::from_pairs("p", &[("preset", Text("llm"))]).unwrap();
        let outcome = |status, body: &[u8]| {
            let failure = HttpFailure { status, headers: &[] };
            let outcome = classify(&policy, &failure, body, WallTime::from_unix_micros(0));
            (policy.name_of(outcome.kind).unwrap().to_owned(), outcome.opinion)
        };
        let is = |class: Class| (class.name().to_owned(), Opinion::None);
        assert_eq!(outcome(409, b""), is(Class::Conflict));
        assert_eq!(outcome(429, b""), is(Class::Throttled));
        assert_eq!(outcome(529, b""), is(Class::Throttled));
        assert_eq!(outcome(500, b""), is(Class::Transient));
        assert_eq!(outcome(404, b""), is(Class::Permanent));
        let spent = br#"{"error": {"code": "insufficient_quota"}}"#;
        assert_eq!(outcome(429, spent), ("quota_spent".into(), Opinion::None));
        assert_eq!(outcome(401, b""), ("unauthorized".into(), Opinion::None));
        let retry = &policy.retry;
        assert!(retry.methods.contains("POST") && !retry.methods.contains("PATCH"));
        assert_eq!((retry.max_attempts, retry.max_retry_after), (4, Duration::from_secs(120)));
        assert_eq!(retry.backoff.delay(1, Duration::ZERO, u64::MAX), Duration::from_millis(500));
        assert_eq!(retry.backoff.delay(9, Duration::ZERO, u64::MAX), Duration::from_secs(8));
        assert_eq!(policy.deadline, Duration::from_secs(600));
        assert_eq!(policy.value("retry.budget.start"), Some(Number(10.0)));
        let stream = policy.stream.as_deref().unwrap();
        assert_eq!((stream.first_byte, stream.idle), (Duration::from_secs(180), Duration::from_secs(120)));
        assert!(stream.until_delivery && stream.events);
        let cooldown = policy.cooldown.as_deref().unwrap();
        assert!(cooldown.wait && cooldown.settings.max == Duration::from_secs(120));
    }

    /// Semantics 0.7.12 and 0.7.13.
    #[test]
    fn keys_of_a_preset_give_way_and_are_not_the_policys_own() {
        let of = |preset, pairs: &[_]| {
            let all = [&[("preset", Text(preset))], pairs].concat();
            Policy::from_pairs("p", &all).unwrap()
        };
        let targets = ("targets", Text("models"));
        let llm = of("llm", &[targets]);
        assert_eq!((llm.value("cooldown.wait"), llm.value("rate_limit.learn")), (None, None));
        assert_eq!(llm.value("retry.failover_on"), Some(Text("quota_spent")));
        assert_eq!(of("llm", &[]).value("retry.failover_on"), None);
        assert_eq!(
            of("llm", &[targets, ("retry.read_errors", Number(0.0))]).value("retry.failover_on"),
            None
        );
        assert!(of("llm", &[("retry.hold", Number(1.0))]).cooldown.is_none());
        assert_eq!(of("llm", &[("slot_until", Text("headers"))]).value("idle_timeout"), None);
        assert!(of("graph", &[targets]).retry.hold.is_none());
        assert!(of("graph", &[("cooldown.base", Number(1e6))]).retry.hold.is_none());
        assert!(!of("aws_adaptive", &[targets]).retry.send_rate.is_on());
        let own = of("llm", &[("idle_timeout", Number(60e6)), ("counts", Text("bytes"))]);
        assert!(own.is_own("idle_timeout") && own.is_own("counts") && !own.is_own("first_byte_timeout"));
        assert!(own.has_own_streams() && !of("llm", &[]).has_own_streams());
        assert!(!own.is_own("attempt_timeout"), "nobody gives it");
    }

    #[test]
    fn aws_adaptive_is_aws_standard_with_a_send_rate() {
        let of = |name| Policy::from_pairs("p", &[("preset", Text(name))]).unwrap();
        let (standard, mut adaptive) = (of("aws_standard"), of("aws_adaptive"));
        assert!(adaptive.retry.send_rate.is_on() && !standard.retry.send_rate.is_on());
        adaptive.retry.send_rate = standard.retry.send_rate;
        assert_eq!(adaptive, standard);
    }
}
