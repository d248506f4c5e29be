//! The one table of keys. Validation reads it; the JSON Schema, the typed options and the reference page are made
//! from it. A new key is one line here and one line where it is used.

use crate::classify::METHODS;
use crate::time::Duration;

/// One key of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its path, dotted.
    pub path: &'static str,
    /// What values it takes.
    pub domain: Domain,
    /// Its default, as it would be written; empty where there is none.
    pub default: &'static str,
    /// What it means, in one sentence.
    pub doc: &'static str,
}

/// What values a key takes.
#[derive(Clone, Copy, Debug)]
pub enum Domain {
    /// A span of time between two bounds, in microseconds; `none` where that is allowed.
    Span {
        /// Shortest.
        min: Duration,
        /// Longest.
        max: Duration,
        /// May it be `none`?
        none: bool,
    },
    /// A whole number between two bounds; `none` where that is allowed.
    Count {
        /// Least.
        min: u32,
        /// Greatest.
        max: u32,
        /// May it be `none`?
        none: bool,
    },
    /// A finite number between two bounds.
    Real {
        /// Least.
        min: f64,
        /// Greatest.
        max: f64,
    },
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// HTTP statuses that mean failure; the key is repeated.
    Statuses,
    /// Some of these words; the key is repeated.
    Words(&'static [&'static str]),
}

impl Domain {
    /// Does the key hold several values?
    pub const fn is_list(&self) -> bool {
        matches!(self, Self::Statuses | Self::Words(_))
    }
}

/// The longest span a policy may name: 365 days. Longer is a mistake of units.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
const MICRO: Duration = Duration::from_micros(1);

const fn key(path: &'static str, domain: Domain, default: &'static str, doc: &'static str) -> Key {
    Key { path, domain, default, doc }
}

const fn span(min: Duration) -> Domain {
    Domain::Span { min, max: YEAR, none: false }
}

const fn count(min: u32, max: u32) -> Domain {
    Domain::Count { min, max, none: false }
}

/// All keys, in the order of the reference page.
#[rustfmt::skip]
pub const TABLE: &[Key] = &[
    key("preset", Domain::Choice(super::presets::NAMES), "", "The built-in policy to start from."),
    key("deadline", span(MICRO), "", "Time for the whole call: queueing, backoff, attempts and reading the body."),
    key("attempt_timeout", span(MICRO), "", "Time for one attempt; running out of it is retryable."),
    key("slot_until", Domain::Choice(&["body", "headers"]), "body", "How long a streamed answer keeps its slot and its deadline."),
    key("retry.max_attempts", count(1, 255), "3", "Attempts in all; the first counts, 1 disables retries."),
    key("retry.retry_on", Domain::Words(super::domain::CLASS_NAMES), "transient throttled timeout never_sent conflict", "Classes of failure that are retried; infrastructure is transient and never_sent, concurrency is conflict."),
    key("retry.retry_time_limit", span(Duration::ZERO), "", "Elapsed time plus the next wait must fit into this."),
    key("retry.methods", Domain::Words(METHODS), "GET HEAD OPTIONS PUT DELETE", "Methods that may be repeated without an idempotency key."),
    key("retry.statuses", Domain::Statuses, "408 429 502 503 504", "HTTP statuses that are retried."),
    key("retry.respect_retry_after", Domain::Flag, "true", "Wait at least as long as the server's Retry-After says."),
    key("retry.retry_after", Domain::Choice(&["floor", "exact", "clamp_5s", "ignore"]), "floor", "What Retry-After r does: floor waits r plus up to 10 % and never less than the backoff, exact waits r, clamp_5s keeps it within 5 s above the backoff."),
    key("retry.max_retry_after", span(Duration::ZERO), "retry.backoff.max", "A server that asks for a longer wait than this ends the call."),
    key("retry.backoff.kind", Domain::Choice(&["exponential", "constant", "linear", "polynomial"]), "exponential", "How the delay before retry n grows: base·multiplier^(n−1), base, base·n, base·n^exponent."),
    key("retry.backoff.base", span(Duration::ZERO), "100ms", "The delay before the first retry, before jitter."),
    key("retry.backoff.throttled_base", span(Duration::ZERO), "retry.backoff.base", "The base after a throttled outcome."),
    key("retry.backoff.exponent", count(1, 8), "", "The power of polynomial growth."),
    key("retry.backoff.multiplier", Domain::Real { min: 1.0, max: 1_000.0 }, "2", "The growth from one retry to the next."),
    key("retry.backoff.max", span(Duration::ZERO), "5s", "The longest computed delay, before jitter."),
    key("retry.backoff.jitter", Domain::Choice(&["full_floor", "none", "full", "equal", "decorrelated", "bounded"]), "full_floor", "How the delay d is spread: full_floor draws from [0.1·d, d], full from [0, d], equal from [d/2, d], decorrelated from [base, 3·previous], bounded from [(1−j)·d, (1+j)·d]."),
    key("retry.backoff.jitter_ratio", Domain::Real { min: 0.0, max: 1.0 }, "", "The j of bounded jitter."),
    key("retry.budget.kind", Domain::Choice(&["window", "ratio", "share", "tokens", "quota", "none"]), "window", "What bounds the added load: window is a share of recent calls plus a floor, ratio a part of all calls, share a part of the calls in flight, tokens what successes earn, quota what retries cost."),
    key("retry.budget.ttl", span(Duration::from_micros(10)), "10s", "How long a call or a retry counts."),
    key("retry.budget.min_retries_per_sec", Domain::Real { min: 0.0, max: 1e9 }, "10", "Retries per second that are free of any ratio."),
    key("retry.budget.percent_can_retry", Domain::Real { min: 0.0, max: 1e6 }, "0.2", "Retries allowed per recent call, as a fraction."),
    key("retry.budget.rounding", Domain::Choice(&["floor", "ceil"]), "floor", "How the share of calls is rounded."),
    key("retry.budget.ratio", Domain::Real { min: 1e-6, max: 1.0 }, "", "ratio: what a call earns, in retries. tokens: what a success gives back."),
    key("retry.budget.min_throughput", count(0, 1_000_000_000), "0", "ratio: retries are free until this many calls have been made."),
    key("retry.budget.share", Domain::Real { min: 0.0, max: 1e6 }, "0.2", "share: retries in flight per call in flight."),
    key("retry.budget.min_retries", count(0, 1_000_000_000), "3", "share: retries in flight that are always allowed."),
    key("retry.budget.max", count(1, 1_000), "", "tokens: tokens when full; retries need more than half."),
    key("retry.budget.capacity", count(1, 1_000_000_000), "500", "quota: tokens when full."),
    key("retry.budget.cost", count(1, 65_535), "5", "quota: what a retry costs."),
    key("retry.budget.timeout_cost", count(1, 65_535), "10", "quota: what a retry after an attempt timeout costs."),
    key("retry.budget.throttled_cost", count(1, 65_535), "retry.budget.cost", "quota: what a retry after a throttled outcome costs."),
    key("bulkhead.kind", Domain::Choice(&["fixed"]), "fixed", "What sets the limit of concurrent calls."),
    key("bulkhead.max_concurrency", count(1, 1_000_000_000), "", "Calls in flight at once."),
    key("bulkhead.max_queue", Domain::Count { min: 0, max: 10_000_000, none: true }, "0", "Calls that may wait for a slot; 0 is no queue, none is unbounded."),
    key("bulkhead.acquire_timeout", Domain::Span { min: Duration::ZERO, max: YEAR, none: true }, "1s", "How long a call waits for a slot; 0 fails fast, none waits for ever."),
];

/// What the tables of keys are about, in the order of the reference page.
#[rustfmt::skip]
pub const TABLES: &[(&str, &str)] = &[
    ("retry", "When to try again."),
    ("retry.backoff", "How long to wait before a retry."),
    ("retry.budget", "What bounds the load that retries add, per route."),
    ("bulkhead", "How many calls may be in flight at once, per route."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_keys_is_described_and_every_key_is_a_sentence() {
        for key in TABLE {
            for (dot, _) in key.path.match_indices('.') {
                let table = &key.path[..dot];
                assert!(TABLES.iter().any(|(path, _)| *path == table), "{table} is missing in TABLES");
            }
            assert!(
                key.doc.ends_with('.') && !key.doc.contains(['|', '"', '\\']),
                "{}: {}",
                key.path,
                key.doc
            );
        }
        for (path, _) in TABLES {
            assert!(super::super::suggest::is_table(path), "{path} has no keys");
        }
    }
}
