//! Policies of what the small engine of JavaScript has, or of what all hosts serve.
//!
//! The small module refuses every other key when a policy is made, so a trace that says too much fails where it is replayed.

use serde_json::Value as Json;

/// Keys that are the full engine's alone.
const REST: [&str; 25] = [
    "kinds",
    "retry.hold",
    "retry.max_held",
    "retry.send_rate",
    "retry.budget.min_throughput",
    "retry.budget.share",
    "retry.budget.min_retries",
    "retry.budget.max",
    "retry.budget.capacity",
    "retry.budget.cost",
    "retry.budget.timeout_cost",
    "retry.budget.throttled_cost",
    "bulkhead.latency_threshold",
    "bulkhead.increase_step",
    "bulkhead.backoff_ratio",
    "bulkhead.cut_interval",
    "bulkhead.latency_quantile",
    "bulkhead.long_window",
    "bulkhead.headroom",
    "bulkhead.variant",
    "bulkhead.queue_target",
    "bulkhead.queue_interval",
    "bulkhead.queue_adaptive_lifo",
    "bulkhead.codel",
    "bulkhead.prioritized",
];
/// Tables of such keys.
const TABLES: [&str; 3] = ["throttle.", "hedge.", "cooldown."];

/// Values that are the full engine's alone.
const VALUES: [(&str, &[&str]); 3] = [
    ("preset", &["aws_standard", "aws_2026", "grpc"]),
    ("retry.budget.kind", &["ratio", "share", "tokens", "quota"]),
    ("bulkhead.kind", &["aimd", "gradient2"]),
];

/// Keys that some hosts do not serve yet: they refuse a policy that has one.
const UNSERVED: [&str; 5] = ["first_byte_timeout", "idle_timeout", "deadline_until", "counts", "targets"];

/// The policy without what some hosts do not serve yet.
pub fn as_hosts_serve(mut policy: Json) -> Json {
    if let Some(pairs) = policy["pairs"].as_array_mut() {
        pairs.retain(|pair| !UNSERVED.contains(&pair[0].as_str().unwrap_or_default()));
    }
    policy
}

/// The policy without what only the full engine has.
pub fn without_the_rest(mut policy: Json) -> Json {
    if let Some(pairs) = policy["pairs"].as_array_mut() {
        pairs.retain(|pair| {
            let (key, value) = (pair[0].as_str().unwrap_or_default(), pair[1].as_str().unwrap_or_default());
            let rest = REST.contains(&key) || TABLES.iter().any(|it| key.starts_with(it));
            let full = VALUES.iter().any(|(of, values)| *of == key && values.contains(&value));
            !rest && !full
        });
    }
    policy
}
