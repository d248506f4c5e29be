//! The one table of keys. Validation reads it; the JSON Schema, the typed options and the reference page are made
//! from it. A new key is one line here and one line where it is used.

use crate::classify::METHODS;
use crate::full::FULL;
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
    /// A finite number between two bounds; `none` where that is allowed.
    Real {
        /// Least.
        min: f64,
        /// Greatest.
        max: f64,
        /// May it be `none`?
        none: bool,
    },
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// HTTP statuses that mean failure; the key is repeated.
    Statuses,
    /// Some of these words; the key is repeated.
    Words(&'static [&'static str]),
    /// Some of these words, or of the names that the policy's own `kinds` declare; the key is repeated.
    KindWords(&'static [&'static str]),
    /// Kinds of failure that the policy declares, each written `name=class`; the key is repeated.
    Kinds,
    /// The name of something that is declared elsewhere.
    Name,
}

impl Domain {
    /// Does the key hold several values?
    pub const fn is_list(&self) -> bool {
        matches!(self, Self::Statuses | Self::Words(_) | Self::KindWords(_) | Self::Kinds)
    }
}

/// The longest span a policy may name: 365 days. Longer is a mistake of units.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
const MICRO: Duration = Duration::from_micros(1);

const fn key(path: &'static str, domain: Domain, default: &'static str, doc: &'static str) -> Key {
    // A page does not load what nobody reads there.
    Key { path, domain, default, doc: if FULL { doc } else { "" } }
}

const fn span(min: Duration) -> Domain {
    Domain::Span { min, max: YEAR, none: false }
}

const fn count(min: u32, max: u32) -> Domain {
    Domain::Count { min, max, none: false }
}

const fn real(min: f64, max: f64) -> Domain {
    Domain::Real { min, max, none: false }
}

/// Strictly between 0 and 1, as quantiles are.
const QUANTILE: Domain = real(0.001, 0.999);
const BUDGETS: Domain = Domain::Choice(if FULL {
    &["earned", "window", "ratio", "share", "tokens", "quota", "none"]
} else {
    &["earned", "window", "none"]
});
const BULKHEADS: Domain = Domain::Choice(if FULL { &["fixed", "aimd", "gradient2"] } else { &["fixed"] });
const UNIT: Domain = Domain::Choice(&["call", "attempt"]);
const WINDOW_KIND: Domain = Domain::Choice(&["sliding", "tumbling"]);
const STORE: Domain = Domain::Choice(&["local", "fleet"]);
const ON_LOSS: Domain = Domain::Choice(&["local", "open", "closed"]);

/// All keys, in the order of the reference page.
#[rustfmt::skip]
pub const TABLE: &[Key] = &[
    key("preset", Domain::Choice(super::presets::NAMES), "", "The built-in policy to start from."),
    key("deadline", span(MICRO), "", "Time for the whole call: queueing, backoff, attempts and reading the body."),
    key("attempt_timeout", span(MICRO), "", "Time for one attempt; running out of it is retryable."),
    key("slot_until", Domain::Choice(&["body", "headers"]), "body", "How long a streamed answer keeps its slot and its deadline."),
    #[cfg(not(tidegate_small))]
    key("kinds", Domain::Kinds, "", "Kinds of failure of your own, each with the class that it is based on, at most 23; retry_on, failure_on and ignore_on may name them."),
    #[cfg(not(tidegate_small))]
    key("store_timeout", span(Duration::from_millis(1)), "50ms", "Where a component is fleet-wide: how long a call waits for the store's answer, and the engine for any; then on_loss holds."),
    #[cfg(not(tidegate_small))]
    key("store_exchange", span(Duration::from_millis(1)), "250ms", "Where breaker or latencies are fleet-wide: how often they are exchanged, at most; an opening is written at once."),
    key("retry.max_attempts", count(1, 255), "3", "Attempts in all; the first counts, 1 disables retries."),
    key("retry.retry_on", Domain::KindWords(super::domain::CLASS_NAMES), "transient throttled timeout never_sent conflict", "Classes and kinds of failure that are retried; infrastructure is transient and never_sent, concurrency is conflict."),
    key("retry.retry_time_limit", span(Duration::ZERO), "", "Elapsed time plus the next wait must fit into this."),
    key("retry.methods", Domain::Words(METHODS), "GET HEAD OPTIONS PUT DELETE", "Methods that may be repeated without an idempotency key."),
    key("retry.statuses", Domain::Statuses, "408 429 502 503 504", "HTTP statuses that are retried."),
    key("retry.respect_retry_after", Domain::Flag, "true", "Wait at least as long as the server's Retry-After says."),
    key("retry.retry_after", Domain::Choice(&["floor", "exact", "clamp_5s", "ignore"]), "floor", "What Retry-After r does: floor waits r plus up to 10 % and never less than the backoff, exact waits r, clamp_5s keeps it within 5 s above the backoff."),
    key("retry.max_retry_after", span(Duration::ZERO), "retry.backoff.max", "A server that asks for a longer wait than this ends the call."),
    #[cfg(not(tidegate_small))]
    key("retry.hold", Domain::Flag, "false", "While a throttled call waits, new calls to the same path, and to paths that begin alike, wait too."),
    #[cfg(not(tidegate_small))]
    key("retry.max_held", count(1, 1_000_000), "200", "hold: calls that may wait so, per route."),
    #[cfg(not(tidegate_small))]
    key("retry.send_rate", Domain::Choice(&["none", "cubic"]), "none", "cubic: a throttle cuts the rate of attempts, which grows back along the curve of the AWS SDKs' adaptive mode."),
    key("retry.backoff.kind", Domain::Choice(&["exponential", "constant", "linear", "polynomial"]), "exponential", "How the delay before retry n grows: base·multiplier^(n−1), base, base·n, base·n^exponent."),
    key("retry.backoff.base", span(Duration::ZERO), "100ms", "The delay before the first retry, before jitter."),
    key("retry.backoff.throttled_base", span(Duration::ZERO), "retry.backoff.base", "The base after a throttled outcome."),
    key("retry.backoff.exponent", count(1, 8), "", "The power of polynomial growth."),
    key("retry.backoff.multiplier", real(1.0, 1_000.0), "2", "The growth from one retry to the next."),
    key("retry.backoff.max", span(Duration::ZERO), "5s", "The longest computed delay, before jitter."),
    key("retry.backoff.jitter", Domain::Choice(&["full_floor", "none", "full", "equal", "decorrelated", "bounded"]), "full_floor", "How the delay d is spread: full_floor draws from [0.1·d, d], full from [0, d], equal from [d/2, d], decorrelated from [base, 3·previous], bounded from [(1−j)·d, (1+j)·d]."),
    key("retry.backoff.jitter_ratio", real(0.0, 1.0), "", "The j of bounded jitter."),
    key("retry.budget.kind", BUDGETS, "earned", "What bounds the added load: earned is what answered calls earn, window a share of recent calls plus a floor, ratio a part of all calls, share a part of the calls in flight, tokens what successes earn, quota what retries cost."),
    #[cfg(not(tidegate_small))]
    key("retry.budget.pool", Domain::Name, "", "A shared budget that is declared as a pool; its own keys stand there."),
    key("retry.budget.ttl", span(Duration::from_micros(10)), "10s", "How long a call or a retry counts."),
    key("retry.budget.min_retries_per_sec", real(0.0, 1e9), "10", "Retries per second that are free of any ratio."),
    key("retry.budget.percent_can_retry", real(0.0, 1e6), "0.2", "Retries allowed per recent call, as a fraction."),
    key("retry.budget.rounding", Domain::Choice(&["floor", "ceil"]), "floor", "How the share of calls is rounded."),
    key("retry.budget.ratio", real(1e-6, 1.0), "", "earned: what a call that ends with an answer earns, in retries; 0.18 where absent. ratio: what a call earns. tokens: what a success gives back."),
    key("retry.budget.start", count(0, 1_000_000_000), "", "earned: retries that a new budget has; where absent max_attempts less 1, at most 4, and 2 in a pool."),
    #[cfg(not(tidegate_small))]
    key("retry.budget.min_throughput", count(0, 1_000_000_000), "0", "ratio: retries are free until this many calls have been made."),
    #[cfg(not(tidegate_small))]
    key("retry.budget.share", real(0.0, 1e6), "0.2", "share: retries in flight per call in flight."),
    #[cfg(not(tidegate_small))]
    key("retry.budget.min_retries", count(0, 1_000_000_000), "3", "share: retries in flight that are always allowed."),
    #[cfg(not(tidegate_small))]
    key("retry.budget.max", count(1, 1_000), "", "tokens: tokens when full; retries need more than half."),
    #[cfg(not(tidegate_small))]
    key("retry.budget.capacity", count(1, 1_000_000_000), "500", "quota: tokens when full."),
    #[cfg(not(tidegate_small))]
    key("retry.budget.cost", count(1, 65_535), "5", "quota: what a retry costs."),
    #[cfg(not(tidegate_small))]
    key("retry.budget.timeout_cost", count(1, 65_535), "10", "quota: what a retry after an attempt timeout costs."),
    #[cfg(not(tidegate_small))]
    key("retry.budget.throttled_cost", count(1, 65_535), "retry.budget.cost", "quota: what a retry after a throttled outcome costs."),
    key("rate_limit.permits", count(1, 1_000_000_000), "", "Calls that may start per span."),
    key("rate_limit.per", span(MICRO), "", "The span."),
    key("rate_limit.burst", count(1, 1_000_000_000), "rate_limit.permits", "Calls that may start at once after a quiet time."),
    key("rate_limit.unit", UNIT, "call", "What takes a token: the call, or each of its attempts."),
    key("rate_limit.wait", Domain::Flag, "false", "Wait for a token instead of being refused."),
    key("rate_limit.max_wait", span(Duration::ZERO), "", "wait: the longest wait; without it there must be a deadline."),
    key("rate_limit.max_waiters", count(1, 10_000_000), "1000", "wait: calls that may wait."),
    #[cfg(not(tidegate_small))]
    key("rate_limit.pool", Domain::Name, "", "A shared rate limit that is declared as a pool; permits, per and burst stand there."),
    #[cfg(not(tidegate_small))]
    key("rate_limit.store", STORE, "local", "Whose rate it is: each process's own, or the whole fleet's through the store that the engine is attached to."),
    #[cfg(not(tidegate_small))]
    key("rate_limit.lease", count(1, 1_000_000_000), "", "fleet: tokens that a process takes from the store at a time; 1 asks for every call. Absent: what 50 ms of the rate bring, at least 1, which is so below 40 a second."),
    #[cfg(not(tidegate_small))]
    key("rate_limit.on_loss", ON_LOSS, "local", "fleet: what holds while the store is gone: local is the process's share of the rate, open lets all calls pass, closed refuses them."),
    key("bulkhead.kind", BULKHEADS, "fixed", "What sets the limit of concurrent calls: fixed is max_concurrency, aimd follows a latency threshold, gradient2 the change of latency."),
    key("bulkhead.max_concurrency", count(1, 1_000_000_000), "", "Calls in flight at once; for aimd and gradient2 the highest limit."),
    key("bulkhead.max_queue", Domain::Count { min: 0, max: 10_000_000, none: true }, "0", "Calls that may wait for a slot; 0 is no queue, none is unbounded."),
    key("bulkhead.acquire_timeout", Domain::Span { min: Duration::ZERO, max: YEAR, none: true }, "1s", "How long a call waits for a slot; 0 fails fast, none waits for ever."),
    key("bulkhead.unit", UNIT, "call", "What takes a slot: the call, or each of its attempts, which gives it back during backoff."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.min_concurrency", count(1, 1_000_000_000), "1", "aimd, gradient2: the lowest limit."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.latency_threshold", span(MICRO), "", "aimd: a completion within it raises the limit, one over it cuts it."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.increase_step", real(1e-6, 1e6), "1", "aimd: what a good completion adds, divided by the limit."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.backoff_ratio", real(0.01, 0.999), "0.9", "aimd: what a cut multiplies the limit by."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.cooldown", span(Duration::ZERO), "1s", "aimd: at most one cut per cooldown."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.latency_quantile", QUANTILE, "", "aimd: compare this quantile of recent latencies with the threshold, instead of each one."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.long_window", count(2, 1_000_000), "600", "gradient2: completions that the long-term latency looks back on."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.rtt_tolerance", real(1.0, 100.0), "1.5", "gradient2: how much longer than the long-term latency is still good."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.headroom", real(0.0, 1e6), "4", "gradient2: how many more than now the limit reaches for."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.variant", Domain::Choice(&["steady", "guarded", "plain", "netflix"]), "steady", "gradient2: steady decides once per round trip and comes back to what the server can take; guarded, plain and netflix are older rules."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.queue_target", span(MICRO), "", "Under sustained congestion a call waits no longer than this (CoDel); needs max_queue."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.queue_interval", span(MICRO), "100ms", "How long a queue that never empties is not yet congested."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.codel", Domain::Choice(&["facebook", "rfc8289"]), "facebook", "The control law behind queue_target."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.queue_adaptive_lifo", Domain::Flag, "false", "While congested, the newest waiter goes first; needs max_queue."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.prioritized", Domain::Flag, "false", "A full queue admits a call of higher criticality in place of the lowest; needs max_queue."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.pool", Domain::Name, "", "A shared bulkhead that is declared as a pool; limit, queue and order stand there."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.store", STORE, "local", "Whose slots they are: each process's own, or the whole fleet's through the store that the engine is attached to."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.lease_ttl", span(Duration::from_secs(1)), "30s", "fleet: how long a slot stays taken whose process does not renew it."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.on_loss", ON_LOSS, "local", "fleet: what holds while the store is gone: local is the process's share of the slots, open is max_concurrency in each process, closed refuses calls."),
    #[cfg(not(tidegate_small))]
    key("bulkhead.latency_store", STORE, "local", "aimd with latency_quantile: fleet compares the quantile of all processes' latencies with the threshold."),
    key("breaker.failure_ratio", real(1e-6, 1.0), "", "Failures among recent calls that open it, as a fraction."),
    key("breaker.window", span(Duration::from_micros(10)), "", "How long a call counts as recent."),
    key("breaker.min_throughput", count(1, 1_000_000_000), "", "Calls that the window must hold before the ratio counts."),
    key("breaker.window_kind", WINDOW_KIND, "sliding", "sliding forgets by tenths of the window, tumbling all at once."),
    key("breaker.consecutive", count(1, 1_000_000), "", "Failures in a row that open it; instead of the ratio, or beside it."),
    key("breaker.break_duration", span(Duration::from_millis(1)), "", "How long it stays open."),
    key("breaker.break_factor", real(1.0, 100.0), "2", "How much longer it stays open after each failed probe; 1 is neither growth nor jitter."),
    key("breaker.max_break_duration", span(Duration::from_millis(1)), "", "The longest break; ten times break_duration where absent."),
    key("breaker.half_open_max_calls", count(1, 1_000), "1", "Probes at once when a break has ended."),
    key("breaker.successes_to_close", count(1, 1_000_000), "1", "Good probes that close it."),
    key("breaker.failure_on", Domain::KindWords(super::domain::ALL_CLASS_NAMES), "", "Classes and kinds that count as failures, besides transient, timeout and never_sent."),
    key("breaker.ignore_on", Domain::KindWords(super::domain::ALL_CLASS_NAMES), "", "Classes and kinds that count neither way."),
    key("breaker.unit", UNIT, "call", "What is counted: the call, or each of its attempts."),
    #[cfg(not(tidegate_small))]
    key("breaker.store", STORE, "local", "fleet: one process that trips opens the breaker for all, through the store that the engine is attached to."),
    #[cfg(not(tidegate_small))]
    key("breaker.quorum", count(1, 10_000), "1", "fleet: processes that must trip within the window, or within break_duration where there is none, before it opens for all."),
    #[cfg(not(tidegate_small))]
    key("breaker.on_loss", ON_LOSS, "local", "fleet: what holds while the store is gone: local is the process's own breaker, open lets all calls pass, closed refuses them."),
    #[cfg(not(tidegate_small))]
    key("throttle.k", real(1.0, 1e6), "2", "Requests per accepted one that are let through."),
    #[cfg(not(tidegate_small))]
    key("throttle.window", span(Duration::from_micros(10)), "2m", "How long a call counts."),
    #[cfg(not(tidegate_small))]
    key("throttle.window_kind", WINDOW_KIND, "sliding", "sliding forgets by tenths of the window, tumbling all at once."),
    #[cfg(not(tidegate_small))]
    key("throttle.min_throughput", count(1, 1_000_000_000), "10", "Calls that the window must hold before any is refused."),
    #[cfg(not(tidegate_small))]
    key("throttle.max_reject", Domain::Real { min: 0.0, max: 1.0, none: true }, "0.9", "The highest probability of a refusal."),
    #[cfg(not(tidegate_small))]
    key("throttle.probe_interval", Domain::Span { min: MICRO, max: YEAR, none: true }, "1s", "At least one call is let through per interval."),
    #[cfg(not(tidegate_small))]
    key("throttle.unit", UNIT, "call", "What is counted and refused: the call, or each of its attempts."),
    #[cfg(not(tidegate_small))]
    key("hedge.delay", span(Duration::ZERO), "", "How long an answer may take before another attempt starts beside it."),
    #[cfg(not(tidegate_small))]
    key("hedge.max_attempts", count(2, 4), "2", "Attempts of one call that may run at once."),
    #[cfg(not(tidegate_small))]
    key("hedge.adaptive_delay_quantile", QUANTILE, "", "The delay is this quantile of recent latencies, once there are five."),
    #[cfg(not(tidegate_small))]
    key("hedge.delay_min", span(Duration::ZERO), "", "The shortest adaptive delay."),
    #[cfg(not(tidegate_small))]
    key("hedge.delay_max", span(MICRO), "", "The longest adaptive delay."),
    #[cfg(not(tidegate_small))]
    key("hedge.budget.kind", Domain::Choice(&["shared", "earned", "window", "ratio", "share", "tokens", "quota", "none"]), "shared", "What bounds the load that hedges add: shared is the retry budget, earned what answered calls earn, window a share of recent calls plus a floor, ratio a part of all calls, share a part of the calls in flight, tokens what successes earn, quota what retries cost."),
    #[cfg(not(tidegate_small))]
    key("hedge.budget.ttl", span(Duration::from_micros(10)), "10s", "How long a call or a retry counts."),
    #[cfg(not(tidegate_small))]
    key("hedge.budget.min_retries_per_sec", real(0.0, 1e9), "10", "Retries per second that are free of any ratio."),
    #[cfg(not(tidegate_small))]
    key("hedge.budget.percent_can_retry", real(0.0, 1e6), "0.2", "Retries allowed per recent call, as a fraction."),
    #[cfg(not(tidegate_small))]
    key("hedge.budget.rounding", Domain::Choice(&["floor", "ceil"]), "floor", "How the share of calls is rounded."),
    #[cfg(not(tidegate_small))]
    key("hedge.budget.ratio", real(1e-6, 1.0), "", "earned: what a call that ends with an answer earns, in retries; 0.18 where absent. ratio: what a call earns. tokens: what a success gives back."),
    #[cfg(not(tidegate_small))]
    key("hedge.budget.start", count(0, 1_000_000_000), "", "earned: retries that a new budget has; where absent max_attempts less 1, at most 4, and 2 in a pool."),
    #[cfg(not(tidegate_small))]
    key("hedge.budget.min_throughput", count(0, 1_000_000_000), "0", "ratio: retries are free until this many calls have been made."),
    #[cfg(not(tidegate_small))]
    key("hedge.budget.share", real(0.0, 1e6), "0.2", "share: retries in flight per call in flight."),
    #[cfg(not(tidegate_small))]
    key("hedge.budget.min_retries", count(0, 1_000_000_000), "3", "share: retries in flight that are always allowed."),
    #[cfg(not(tidegate_small))]
    key("hedge.budget.max", count(1, 1_000), "", "tokens: tokens when full; retries need more than half."),
    #[cfg(not(tidegate_small))]
    key("hedge.budget.capacity", count(1, 1_000_000_000), "500", "quota: tokens when full."),
    #[cfg(not(tidegate_small))]
    key("hedge.budget.cost", count(1, 65_535), "5", "quota: what a retry costs."),
    #[cfg(not(tidegate_small))]
    key("hedge.budget.timeout_cost", count(1, 65_535), "10", "quota: what a retry after an attempt timeout costs."),
    #[cfg(not(tidegate_small))]
    key("hedge.budget.throttled_cost", count(1, 65_535), "hedge.budget.cost", "quota: what a retry after a throttled outcome costs."),
];

/// What the tables of keys are about, in the order of the reference page.
#[rustfmt::skip]
pub const TABLES: &[(&str, &str)] = &[
    ("retry", "When to try again."),
    ("retry.backoff", "How long to wait before a retry."),
    ("retry.budget", "What bounds the load that retries add, per route."),
    ("rate_limit", "How many calls may start per span, per route."),
    ("bulkhead", "How many calls may be in flight at once, per route."),
    ("breaker", "When to stop calling what fails."),
    ("throttle", "Which part of the calls to refuse while a part of them fails."),
    ("hedge", "When to send a second attempt beside a slow one."),
    ("hedge.budget", "What bounds the load that hedges add, per route."),
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
