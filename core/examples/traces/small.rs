//! Policies of what the small engine of JavaScript has, or of what all hosts serve.
//!
//! The small module refuses every other key when a policy is made, so a trace that says too much fails where it is replayed.

use serde_json::Value as Json;

/// What the players of a set of traces have.
#[derive(Clone, Copy)]
pub struct Form {
    /// Nothing that the small engine lacks.
    pub small: bool,
    /// Timeouts of streams, although some hosts do not serve them yet.
    pub streams: bool,
    /// Nothing else that some hosts do not serve yet.
    pub hosts: bool,
}

/// Keys that are the full engine's alone.
const REST: [&str; 27] = [
    "kinds",
    "retry.read_errors",
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
    "bulkhead.signal",
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

/// The timeouts of streams, which some hosts do not serve yet: they refuse a policy that has one.
const STREAMS: [&str; 4] = ["first_byte_timeout", "idle_timeout", "deadline_until", "counts"];

impl Form {
    /// The form of this name; `hosts`: a host plays the traces.
    pub fn of(name: &str, hosts: bool) -> Self {
        Self { small: name == "small", streams: name == "words", hosts }
    }

    /// The policy without what the players lack.
    pub fn without(self, mut policy: Json) -> Json {
        if let Some(pairs) = policy["pairs"].as_array_mut().filter(|_| self.hosts) {
            pairs.retain(|pair| {
                let key = pair[0].as_str().unwrap_or_default();
                key != "targets" && (self.streams || !STREAMS.contains(&key))
            });
        }
        if self.small { without_the_rest(policy) } else { policy }
    }
}

/// The policy without what only the full engine has.
fn without_the_rest(mut policy: Json) -> Json {
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
