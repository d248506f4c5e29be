// Generated from core/src/policy/table.rs by `cargo xtask generate`; do not edit.

use std::time::Duration;

use crate::builder::{Bound, Builder};

impl Builder {
    /// `preset`: The built-in policy to start from.
    ///
    /// One of http, httpware, transient, occ, graph, `aws_standard`, `aws_2026`, `aws_adaptive`, grpc; default: none.
    pub fn preset(self, value: &str) -> Self {
        self.set("preset", value)
    }

    /// `deadline`: Time for the whole call: queueing, backoff, attempts and reading the body.
    ///
    /// A span from 1us to 365 days; default: off.
    pub fn deadline(self, value: Duration) -> Self {
        self.set("deadline", value)
    }

    /// `attempt_timeout`: Time for one attempt; running out of it is retryable.
    ///
    /// A span from 1us to 365 days; default: off.
    pub fn attempt_timeout(self, value: Duration) -> Self {
        self.set("attempt_timeout", value)
    }

    /// `slot_until`: How long a streamed answer keeps its slot and its deadline.
    ///
    /// One of body, headers; default: `body`.
    pub fn slot_until(self, value: &str) -> Self {
        self.set("slot_until", value)
    }

    /// `kinds`: Kinds of failure of your own, each with the class that it is based on, at most 23; `retry_on`, `failure_on` and
    /// `ignore_on` may name them.
    ///
    /// Names of a to z, 0 to 9 and _, each with its class; default: off.
    pub fn kinds(self, values: impl IntoIterator<Item = &'static str>) -> Self {
        values.into_iter().fold(self, |builder, value| builder.set("kinds", value))
    }

    /// `store_timeout`: Where a component is fleet-wide: how long a call waits for the store's answer, and the engine for any;
    /// then `on_loss` holds.
    ///
    /// A span from 1ms to 365 days; default: `50ms`.
    pub fn store_timeout(self, value: Duration) -> Self {
        self.set("store_timeout", value)
    }

    /// `store_exchange`: Where breaker or latencies are fleet-wide: how often they are exchanged, at most; an opening is written
    /// at once.
    ///
    /// A span from 1ms to 365 days; default: `250ms`.
    pub fn store_exchange(self, value: Duration) -> Self {
        self.set("store_exchange", value)
    }

    /// `retry.max_attempts`: Attempts in all; the first counts, 1 disables retries.
    ///
    /// A whole number from 1 to 255; default: `3`.
    pub fn retry_max_attempts(self, value: u32) -> Self {
        self.set("retry.max_attempts", value)
    }

    /// `retry.retry_on`: Classes and kinds of failure that are retried; infrastructure is transient and `never_sent`, concurrency
    /// is conflict.
    ///
    /// One of transient, throttled, timeout, `never_sent`, conflict, infrastructure, concurrency, or a name declared in kinds;
    /// default: `transient` `throttled` `timeout` `never_sent` `conflict`.
    pub fn retry_retry_on(self, values: impl IntoIterator<Item = &'static str>) -> Self {
        values.into_iter().fold(self, |builder, value| builder.set("retry.retry_on", value))
    }

    /// `retry.retry_time_limit`: Elapsed time plus the next wait must fit into this.
    ///
    /// A span from 0s to 365 days; default: off.
    pub fn retry_retry_time_limit(self, value: Duration) -> Self {
        self.set("retry.retry_time_limit", value)
    }

    /// `retry.methods`: Methods that may be repeated without an idempotency key.
    ///
    /// One of GET, HEAD, OPTIONS, PUT, DELETE, QUERY, TRACE, POST, PATCH; default: `GET` `HEAD` `OPTIONS` `PUT` `DELETE`.
    pub fn retry_methods(self, values: impl IntoIterator<Item = &'static str>) -> Self {
        values.into_iter().fold(self, |builder, value| builder.set("retry.methods", value))
    }

    /// `retry.statuses`: HTTP statuses that are retried.
    ///
    /// A status that can be retried: 408, 429 or 500 to 599; default: `408` `429` `502` `503` `504`.
    pub fn retry_statuses(self, values: impl IntoIterator<Item = u16>) -> Self {
        values.into_iter().fold(self, |builder, value| builder.set("retry.statuses", value))
    }

    /// `retry.respect_retry_after`: Wait at least as long as the server's Retry-After says.
    ///
    /// True or false; default: `true`.
    pub fn retry_respect_retry_after(self, value: bool) -> Self {
        self.set("retry.respect_retry_after", value)
    }

    /// `retry.retry_after`: What Retry-After r does: floor waits r plus up to 10 % and never less than the backoff, exact waits
    /// r, `clamp_5s` keeps it within 5 s above the backoff.
    ///
    /// One of floor, exact, `clamp_5s`, ignore; default: `floor`.
    pub fn retry_retry_after(self, value: &str) -> Self {
        self.set("retry.retry_after", value)
    }

    /// `retry.max_retry_after`: A server that asks for a longer wait than this ends the call.
    ///
    /// A span from 0s to 365 days; default: that of `retry.backoff.max`.
    pub fn retry_max_retry_after(self, value: Duration) -> Self {
        self.set("retry.max_retry_after", value)
    }

    /// `retry.hold`: While a throttled call waits, new calls to the same path, and to paths that begin alike, wait too.
    ///
    /// True or false; default: `false`.
    pub fn retry_hold(self, value: bool) -> Self {
        self.set("retry.hold", value)
    }

    /// `retry.max_held`: hold: calls that may wait so, per route.
    ///
    /// A whole number from 1 to 1000000; default: `200`.
    pub fn retry_max_held(self, value: u32) -> Self {
        self.set("retry.max_held", value)
    }

    /// `retry.send_rate`: cubic: a throttle cuts the rate of attempts, which grows back along the curve of the AWS SDKs' adaptive
    /// mode.
    ///
    /// One of none, cubic; default: `none`.
    pub fn retry_send_rate(self, value: &str) -> Self {
        self.set("retry.send_rate", value)
    }

    /// `retry.backoff.kind`: How the delay before retry n grows: base·multiplier^(n−1), base, base·n, base·n^exponent.
    ///
    /// One of exponential, constant, linear, polynomial; default: `exponential`.
    pub fn retry_backoff_kind(self, value: &str) -> Self {
        self.set("retry.backoff.kind", value)
    }

    /// `retry.backoff.base`: The delay before the first retry, before jitter.
    ///
    /// A span from 0s to 365 days; default: `100ms`.
    pub fn retry_backoff_base(self, value: Duration) -> Self {
        self.set("retry.backoff.base", value)
    }

    /// `retry.backoff.throttled_base`: The base after a throttled outcome.
    ///
    /// A span from 0s to 365 days; default: that of `retry.backoff.base`.
    pub fn retry_backoff_throttled_base(self, value: Duration) -> Self {
        self.set("retry.backoff.throttled_base", value)
    }

    /// `retry.backoff.exponent`: The power of polynomial growth.
    ///
    /// A whole number from 1 to 8; default: required with `polynomial`.
    pub fn retry_backoff_exponent(self, value: u32) -> Self {
        self.set("retry.backoff.exponent", value)
    }

    /// `retry.backoff.multiplier`: The growth from one retry to the next.
    ///
    /// A finite number from 1 to 1000; default: `2`.
    pub fn retry_backoff_multiplier(self, value: f64) -> Self {
        self.set("retry.backoff.multiplier", value)
    }

    /// `retry.backoff.max`: The longest computed delay, before jitter.
    ///
    /// A span from 0s to 365 days; default: `5s`.
    pub fn retry_backoff_max(self, value: Duration) -> Self {
        self.set("retry.backoff.max", value)
    }

    /// `retry.backoff.jitter`: How the delay d is spread: `full_floor` draws from \\[0.1·d, d], full from \\[0, d], equal from
    /// \\[d/2, d], decorrelated from \\[base, 3·previous], bounded from \\[(1−j)·d, (1+j)·d].
    ///
    /// One of `full_floor`, none, full, equal, decorrelated, bounded; default: `full_floor`.
    pub fn retry_backoff_jitter(self, value: &str) -> Self {
        self.set("retry.backoff.jitter", value)
    }

    /// `retry.backoff.jitter_ratio`: The j of bounded jitter.
    ///
    /// A finite number from 0 to 1; default: required with `bounded`.
    pub fn retry_backoff_jitter_ratio(self, value: f64) -> Self {
        self.set("retry.backoff.jitter_ratio", value)
    }

    /// `retry.budget.kind`: What bounds the added load: earned is what answered calls earn, window a share of recent calls plus a
    /// floor, ratio a part of all calls, share a part of the calls in flight, tokens what successes earn, quota what retries
    /// cost.
    ///
    /// One of earned, window, ratio, share, tokens, quota, none; default: `earned`.
    pub fn retry_budget_kind(self, value: &str) -> Self {
        self.set("retry.budget.kind", value)
    }

    /// `retry.budget.pool`: A shared budget that is declared as a pool; its own keys stand there.
    ///
    /// A name of 1 to 100 bytes without control characters; default: off.
    pub fn retry_budget_pool(self, value: &str) -> Self {
        self.set("retry.budget.pool", value)
    }

    /// `retry.budget.ttl`: How long a call or a retry counts.
    ///
    /// A span from 10us to 365 days; default: `10s`.
    pub fn retry_budget_ttl(self, value: Duration) -> Self {
        self.set("retry.budget.ttl", value)
    }

    /// `retry.budget.min_retries_per_sec`: Retries per second that are free of any ratio.
    ///
    /// A finite number from 0 to 1000000000; default: `10`.
    pub fn retry_budget_min_retries_per_sec(self, value: f64) -> Self {
        self.set("retry.budget.min_retries_per_sec", value)
    }

    /// `retry.budget.percent_can_retry`: Retries allowed per recent call, as a fraction.
    ///
    /// A finite number from 0 to 1000000; default: `0.2`.
    pub fn retry_budget_percent_can_retry(self, value: f64) -> Self {
        self.set("retry.budget.percent_can_retry", value)
    }

    /// `retry.budget.rounding`: How the share of calls is rounded.
    ///
    /// One of floor, ceil; default: `floor`.
    pub fn retry_budget_rounding(self, value: &str) -> Self {
        self.set("retry.budget.rounding", value)
    }

    /// `retry.budget.ratio`: earned: what a call that ends with an answer earns, in retries; 0.18 where absent. ratio: what a
    /// call earns. tokens: what a success gives back.
    ///
    /// A finite number from 0.000001 to 1; default: required with `ratio` and with `tokens`.
    pub fn retry_budget_ratio(self, value: f64) -> Self {
        self.set("retry.budget.ratio", value)
    }

    /// `retry.budget.start`: earned: retries that a new budget has; where absent `max_attempts` less 1, at most 4, and 2 in a
    /// pool.
    ///
    /// A whole number from 0 to 1000000000; default: off.
    pub fn retry_budget_start(self, value: u32) -> Self {
        self.set("retry.budget.start", value)
    }

    /// `retry.budget.min_throughput`: ratio: retries are free until this many calls have been made.
    ///
    /// A whole number from 0 to 1000000000; default: `0`.
    pub fn retry_budget_min_throughput(self, value: u32) -> Self {
        self.set("retry.budget.min_throughput", value)
    }

    /// `retry.budget.share`: share: retries in flight per call in flight.
    ///
    /// A finite number from 0 to 1000000; default: `0.2`.
    pub fn retry_budget_share(self, value: f64) -> Self {
        self.set("retry.budget.share", value)
    }

    /// `retry.budget.min_retries`: share: retries in flight that are always allowed.
    ///
    /// A whole number from 0 to 1000000000; default: `3`.
    pub fn retry_budget_min_retries(self, value: u32) -> Self {
        self.set("retry.budget.min_retries", value)
    }

    /// `retry.budget.max`: tokens: tokens when full; retries need more than half.
    ///
    /// A whole number from 1 to 1000; default: required with `tokens`.
    pub fn retry_budget_max(self, value: u32) -> Self {
        self.set("retry.budget.max", value)
    }

    /// `retry.budget.capacity`: quota: tokens when full.
    ///
    /// A whole number from 1 to 1000000000; default: `500`.
    pub fn retry_budget_capacity(self, value: u32) -> Self {
        self.set("retry.budget.capacity", value)
    }

    /// `retry.budget.cost`: quota: what a retry costs.
    ///
    /// A whole number from 1 to 65535; default: `5`.
    pub fn retry_budget_cost(self, value: u32) -> Self {
        self.set("retry.budget.cost", value)
    }

    /// `retry.budget.timeout_cost`: quota: what a retry after an attempt timeout costs.
    ///
    /// A whole number from 1 to 65535; default: `10`.
    pub fn retry_budget_timeout_cost(self, value: u32) -> Self {
        self.set("retry.budget.timeout_cost", value)
    }

    /// `retry.budget.throttled_cost`: quota: what a retry after a throttled outcome costs.
    ///
    /// A whole number from 1 to 65535; default: that of `retry.budget.cost`.
    pub fn retry_budget_throttled_cost(self, value: u32) -> Self {
        self.set("retry.budget.throttled_cost", value)
    }

    /// `rate_limit.permits`: Calls that may start per span.
    ///
    /// A whole number from 1 to 1000000000; default: required unless there is `pool`.
    pub fn rate_limit_permits(self, value: u32) -> Self {
        self.set("rate_limit.permits", value)
    }

    /// `rate_limit.per`: The span.
    ///
    /// A span from 1us to 365 days; default: required unless there is `pool`.
    pub fn rate_limit_per(self, value: Duration) -> Self {
        self.set("rate_limit.per", value)
    }

    /// `rate_limit.burst`: Calls that may start at once after a quiet time.
    ///
    /// A whole number from 1 to 1000000000; default: that of `rate_limit.permits`.
    pub fn rate_limit_burst(self, value: u32) -> Self {
        self.set("rate_limit.burst", value)
    }

    /// `rate_limit.unit`: What takes a token: the call, or each of its attempts.
    ///
    /// One of call, attempt; default: `call`.
    pub fn rate_limit_unit(self, value: &str) -> Self {
        self.set("rate_limit.unit", value)
    }

    /// `rate_limit.wait`: Wait for a token instead of being refused.
    ///
    /// True or false; default: `false`.
    pub fn rate_limit_wait(self, value: bool) -> Self {
        self.set("rate_limit.wait", value)
    }

    /// `rate_limit.max_wait`: wait: the longest wait; without it there must be a deadline.
    ///
    /// A span from 0s to 365 days; default: off.
    pub fn rate_limit_max_wait(self, value: Duration) -> Self {
        self.set("rate_limit.max_wait", value)
    }

    /// `rate_limit.max_waiters`: wait: calls that may wait.
    ///
    /// A whole number from 1 to 10000000; default: `1000`.
    pub fn rate_limit_max_waiters(self, value: u32) -> Self {
        self.set("rate_limit.max_waiters", value)
    }

    /// `rate_limit.pool`: A shared rate limit that is declared as a pool; permits, per and burst stand there.
    ///
    /// A name of 1 to 100 bytes without control characters; default: off.
    pub fn rate_limit_pool(self, value: &str) -> Self {
        self.set("rate_limit.pool", value)
    }

    /// `rate_limit.store`: Whose rate it is: each process's own, or the whole fleet's through the store that the engine is
    /// attached to.
    ///
    /// One of local, fleet; default: `local`.
    pub fn rate_limit_store(self, value: &str) -> Self {
        self.set("rate_limit.store", value)
    }

    /// `rate_limit.lease`: fleet: tokens that a process takes from the store at a time; 1 asks for every call. Absent: what 50 ms
    /// of the rate bring, at least 1, which is so below 40 a second.
    ///
    /// A whole number from 1 to 1000000000; default: off.
    pub fn rate_limit_lease(self, value: u32) -> Self {
        self.set("rate_limit.lease", value)
    }

    /// `rate_limit.on_loss`: fleet: what holds while the store is gone: local is the process's share of the rate, open lets all
    /// calls pass, closed refuses them.
    ///
    /// One of local, open, closed; default: `local`.
    pub fn rate_limit_on_loss(self, value: &str) -> Self {
        self.set("rate_limit.on_loss", value)
    }

    /// `bulkhead.kind`: What sets the limit of concurrent calls: fixed is `max_concurrency`, aimd follows a latency threshold,
    /// gradient2 the change of latency.
    ///
    /// One of fixed, aimd, gradient2; default: `fixed`.
    pub fn bulkhead_kind(self, value: &str) -> Self {
        self.set("bulkhead.kind", value)
    }

    /// `bulkhead.max_concurrency`: Calls in flight at once; for aimd and gradient2 the highest limit.
    ///
    /// A whole number from 1 to 1000000000; default: required unless there is `pool`.
    pub fn bulkhead_max_concurrency(self, value: u32) -> Self {
        self.set("bulkhead.max_concurrency", value)
    }

    /// `bulkhead.max_queue`: Calls that may wait for a slot; 0 is no queue, none is unbounded.
    ///
    /// A whole number from 0 to 10000000, or none; default: `0`.
    pub fn bulkhead_max_queue(self, value: impl Into<Bound<u32>>) -> Self {
        let bound: Bound<u32> = value.into();
        self.set("bulkhead.max_queue", bound)
    }

    /// `bulkhead.acquire_timeout`: How long a call waits for a slot; 0 fails fast, none waits for ever.
    ///
    /// A span from 0s to 365 days, or none; default: `1s`.
    pub fn bulkhead_acquire_timeout(self, value: impl Into<Bound<Duration>>) -> Self {
        let bound: Bound<Duration> = value.into();
        self.set("bulkhead.acquire_timeout", bound)
    }

    /// `bulkhead.unit`: What takes a slot: the call, or each of its attempts, which gives it back during backoff.
    ///
    /// One of call, attempt; default: `call`.
    pub fn bulkhead_unit(self, value: &str) -> Self {
        self.set("bulkhead.unit", value)
    }

    /// `bulkhead.min_concurrency`: aimd, gradient2: the lowest limit.
    ///
    /// A whole number from 1 to 1000000000; default: `1`.
    pub fn bulkhead_min_concurrency(self, value: u32) -> Self {
        self.set("bulkhead.min_concurrency", value)
    }

    /// `bulkhead.latency_threshold`: aimd: a completion within it raises the limit, one over it cuts it.
    ///
    /// A span from 1us to 365 days; default: required with `aimd`.
    pub fn bulkhead_latency_threshold(self, value: Duration) -> Self {
        self.set("bulkhead.latency_threshold", value)
    }

    /// `bulkhead.increase_step`: aimd: what a good completion adds, divided by the limit.
    ///
    /// A finite number from 0.000001 to 1000000; default: `1`.
    pub fn bulkhead_increase_step(self, value: f64) -> Self {
        self.set("bulkhead.increase_step", value)
    }

    /// `bulkhead.backoff_ratio`: aimd: what a cut multiplies the limit by.
    ///
    /// A finite number from 0.01 to 0.999; default: `0.9`.
    pub fn bulkhead_backoff_ratio(self, value: f64) -> Self {
        self.set("bulkhead.backoff_ratio", value)
    }

    /// `bulkhead.cooldown`: aimd: at most one cut per cooldown.
    ///
    /// A span from 0s to 365 days; default: `1s`.
    pub fn bulkhead_cooldown(self, value: Duration) -> Self {
        self.set("bulkhead.cooldown", value)
    }

    /// `bulkhead.latency_quantile`: aimd: compare this quantile of recent latencies with the threshold, instead of each one.
    ///
    /// A finite number from 0.001 to 0.999; default: off.
    pub fn bulkhead_latency_quantile(self, value: f64) -> Self {
        self.set("bulkhead.latency_quantile", value)
    }

    /// `bulkhead.long_window`: gradient2: completions that the long-term latency looks back on.
    ///
    /// A whole number from 2 to 1000000; default: `600`.
    pub fn bulkhead_long_window(self, value: u32) -> Self {
        self.set("bulkhead.long_window", value)
    }

    /// `bulkhead.rtt_tolerance`: gradient2: how much longer than the long-term latency is still good.
    ///
    /// A finite number from 1 to 100; default: `1.5`.
    pub fn bulkhead_rtt_tolerance(self, value: f64) -> Self {
        self.set("bulkhead.rtt_tolerance", value)
    }

    /// `bulkhead.headroom`: gradient2: how many more than now the limit reaches for.
    ///
    /// A finite number from 0 to 1000000; default: `4`.
    pub fn bulkhead_headroom(self, value: f64) -> Self {
        self.set("bulkhead.headroom", value)
    }

    /// `bulkhead.variant`: gradient2: steady decides once per round trip and comes back to what the server can take; guarded,
    /// plain and netflix are older rules.
    ///
    /// One of steady, guarded, plain, netflix; default: `steady`.
    pub fn bulkhead_variant(self, value: &str) -> Self {
        self.set("bulkhead.variant", value)
    }

    /// `bulkhead.queue_target`: Under sustained congestion a call waits no longer than this (`CoDel`); needs `max_queue`.
    ///
    /// A span from 1us to 365 days; default: off.
    pub fn bulkhead_queue_target(self, value: Duration) -> Self {
        self.set("bulkhead.queue_target", value)
    }

    /// `bulkhead.queue_interval`: How long a queue that never empties is not yet congested.
    ///
    /// A span from 1us to 365 days; default: `100ms`.
    pub fn bulkhead_queue_interval(self, value: Duration) -> Self {
        self.set("bulkhead.queue_interval", value)
    }

    /// `bulkhead.codel`: The control law behind `queue_target`.
    ///
    /// One of facebook, rfc8289; default: `facebook`.
    pub fn bulkhead_codel(self, value: &str) -> Self {
        self.set("bulkhead.codel", value)
    }

    /// `bulkhead.queue_adaptive_lifo`: While congested, the newest waiter goes first; needs `max_queue`.
    ///
    /// True or false; default: `false`.
    pub fn bulkhead_queue_adaptive_lifo(self, value: bool) -> Self {
        self.set("bulkhead.queue_adaptive_lifo", value)
    }

    /// `bulkhead.prioritized`: A full queue admits a call of higher criticality in place of the lowest; needs `max_queue`.
    ///
    /// True or false; default: `false`.
    pub fn bulkhead_prioritized(self, value: bool) -> Self {
        self.set("bulkhead.prioritized", value)
    }

    /// `bulkhead.pool`: A shared bulkhead that is declared as a pool; limit, queue and order stand there.
    ///
    /// A name of 1 to 100 bytes without control characters; default: off.
    pub fn bulkhead_pool(self, value: &str) -> Self {
        self.set("bulkhead.pool", value)
    }

    /// `bulkhead.store`: Whose slots they are: each process's own, or the whole fleet's through the store that the engine is
    /// attached to.
    ///
    /// One of local, fleet; default: `local`.
    pub fn bulkhead_store(self, value: &str) -> Self {
        self.set("bulkhead.store", value)
    }

    /// `bulkhead.lease_ttl`: fleet: how long a slot stays taken whose process does not renew it.
    ///
    /// A span from 1s to 365 days; default: `30s`.
    pub fn bulkhead_lease_ttl(self, value: Duration) -> Self {
        self.set("bulkhead.lease_ttl", value)
    }

    /// `bulkhead.on_loss`: fleet: what holds while the store is gone: local is the process's share of the slots, open is
    /// `max_concurrency` in each process, closed refuses calls.
    ///
    /// One of local, open, closed; default: `local`.
    pub fn bulkhead_on_loss(self, value: &str) -> Self {
        self.set("bulkhead.on_loss", value)
    }

    /// `bulkhead.latency_store`: aimd with `latency_quantile`: fleet compares the quantile of all processes' latencies with the
    /// threshold.
    ///
    /// One of local, fleet; default: `local`.
    pub fn bulkhead_latency_store(self, value: &str) -> Self {
        self.set("bulkhead.latency_store", value)
    }

    /// `breaker.failure_ratio`: Failures among recent calls that open it, as a fraction.
    ///
    /// A finite number from 0.000001 to 1; default: required unless there is `consecutive`.
    pub fn breaker_failure_ratio(self, value: f64) -> Self {
        self.set("breaker.failure_ratio", value)
    }

    /// `breaker.window`: How long a call counts as recent.
    ///
    /// A span from 10us to 365 days; default: required with `failure_ratio`.
    pub fn breaker_window(self, value: Duration) -> Self {
        self.set("breaker.window", value)
    }

    /// `breaker.min_throughput`: Calls that the window must hold before the ratio counts.
    ///
    /// A whole number from 1 to 1000000000; default: required with `failure_ratio`.
    pub fn breaker_min_throughput(self, value: u32) -> Self {
        self.set("breaker.min_throughput", value)
    }

    /// `breaker.window_kind`: sliding forgets by tenths of the window, tumbling all at once.
    ///
    /// One of sliding, tumbling; default: `sliding`.
    pub fn breaker_window_kind(self, value: &str) -> Self {
        self.set("breaker.window_kind", value)
    }

    /// `breaker.consecutive`: Failures in a row that open it; instead of the ratio, or beside it.
    ///
    /// A whole number from 1 to 1000000; default: off.
    pub fn breaker_consecutive(self, value: u32) -> Self {
        self.set("breaker.consecutive", value)
    }

    /// `breaker.break_duration`: How long it stays open.
    ///
    /// A span from 1ms to 365 days; default: required.
    pub fn breaker_break_duration(self, value: Duration) -> Self {
        self.set("breaker.break_duration", value)
    }

    /// `breaker.break_factor`: How much longer it stays open after each failed probe; 1 is neither growth nor jitter.
    ///
    /// A finite number from 1 to 100; default: `2`.
    pub fn breaker_break_factor(self, value: f64) -> Self {
        self.set("breaker.break_factor", value)
    }

    /// `breaker.max_break_duration`: The longest break; ten times `break_duration` where absent.
    ///
    /// A span from 1ms to 365 days; default: off.
    pub fn breaker_max_break_duration(self, value: Duration) -> Self {
        self.set("breaker.max_break_duration", value)
    }

    /// `breaker.half_open_max_calls`: Probes at once when a break has ended.
    ///
    /// A whole number from 1 to 1000; default: `1`.
    pub fn breaker_half_open_max_calls(self, value: u32) -> Self {
        self.set("breaker.half_open_max_calls", value)
    }

    /// `breaker.successes_to_close`: Good probes that close it.
    ///
    /// A whole number from 1 to 1000000; default: `1`.
    pub fn breaker_successes_to_close(self, value: u32) -> Self {
        self.set("breaker.successes_to_close", value)
    }

    /// `breaker.failure_on`: Classes and kinds that count as failures, besides transient, timeout and `never_sent`.
    ///
    /// One of transient, throttled, timeout, `never_sent`, conflict, permanent, ignored, infrastructure, concurrency, or a name
    /// declared in kinds; default: off.
    pub fn breaker_failure_on(self, values: impl IntoIterator<Item = &'static str>) -> Self {
        values.into_iter().fold(self, |builder, value| builder.set("breaker.failure_on", value))
    }

    /// `breaker.ignore_on`: Classes and kinds that count neither way.
    ///
    /// One of transient, throttled, timeout, `never_sent`, conflict, permanent, ignored, infrastructure, concurrency, or a name
    /// declared in kinds; default: off.
    pub fn breaker_ignore_on(self, values: impl IntoIterator<Item = &'static str>) -> Self {
        values.into_iter().fold(self, |builder, value| builder.set("breaker.ignore_on", value))
    }

    /// `breaker.unit`: What is counted: the call, or each of its attempts.
    ///
    /// One of call, attempt; default: `call`.
    pub fn breaker_unit(self, value: &str) -> Self {
        self.set("breaker.unit", value)
    }

    /// `breaker.store`: fleet: one process that trips opens the breaker for all, through the store that the engine is attached
    /// to.
    ///
    /// One of local, fleet; default: `local`.
    pub fn breaker_store(self, value: &str) -> Self {
        self.set("breaker.store", value)
    }

    /// `breaker.quorum`: fleet: processes that must trip within the window, or within `break_duration` where there is none,
    /// before it opens for all.
    ///
    /// A whole number from 1 to 10000; default: `1`.
    pub fn breaker_quorum(self, value: u32) -> Self {
        self.set("breaker.quorum", value)
    }

    /// `breaker.on_loss`: fleet: what holds while the store is gone: local is the process's own breaker, open lets all calls
    /// pass, closed refuses them.
    ///
    /// One of local, open, closed; default: `local`.
    pub fn breaker_on_loss(self, value: &str) -> Self {
        self.set("breaker.on_loss", value)
    }

    /// `throttle.k`: Requests per accepted one that are let through.
    ///
    /// A finite number from 1 to 1000000; default: `2`.
    pub fn throttle_k(self, value: f64) -> Self {
        self.set("throttle.k", value)
    }

    /// `throttle.window`: How long a call counts.
    ///
    /// A span from 10us to 365 days; default: `2m`.
    pub fn throttle_window(self, value: Duration) -> Self {
        self.set("throttle.window", value)
    }

    /// `throttle.window_kind`: sliding forgets by tenths of the window, tumbling all at once.
    ///
    /// One of sliding, tumbling; default: `sliding`.
    pub fn throttle_window_kind(self, value: &str) -> Self {
        self.set("throttle.window_kind", value)
    }

    /// `throttle.min_throughput`: Calls that the window must hold before any is refused.
    ///
    /// A whole number from 1 to 1000000000; default: `10`.
    pub fn throttle_min_throughput(self, value: u32) -> Self {
        self.set("throttle.min_throughput", value)
    }

    /// `throttle.max_reject`: The highest probability of a refusal.
    ///
    /// A finite number from 0 to 1, or none; default: `0.9`.
    pub fn throttle_max_reject(self, value: impl Into<Bound<f64>>) -> Self {
        let bound: Bound<f64> = value.into();
        self.set("throttle.max_reject", bound)
    }

    /// `throttle.probe_interval`: At least one call is let through per interval.
    ///
    /// A span from 1us to 365 days, or none; default: `1s`.
    pub fn throttle_probe_interval(self, value: impl Into<Bound<Duration>>) -> Self {
        let bound: Bound<Duration> = value.into();
        self.set("throttle.probe_interval", bound)
    }

    /// `throttle.unit`: What is counted and refused: the call, or each of its attempts.
    ///
    /// One of call, attempt; default: `call`.
    pub fn throttle_unit(self, value: &str) -> Self {
        self.set("throttle.unit", value)
    }

    /// `hedge.delay`: How long an answer may take before another attempt starts beside it.
    ///
    /// A span from 0s to 365 days; default: required.
    pub fn hedge_delay(self, value: Duration) -> Self {
        self.set("hedge.delay", value)
    }

    /// `hedge.max_attempts`: Attempts of one call that may run at once.
    ///
    /// A whole number from 2 to 4; default: `2`.
    pub fn hedge_max_attempts(self, value: u32) -> Self {
        self.set("hedge.max_attempts", value)
    }

    /// `hedge.adaptive_delay_quantile`: The delay is this quantile of recent latencies, once there are five.
    ///
    /// A finite number from 0.001 to 0.999; default: required with `delay_min` and with `delay_max`.
    pub fn hedge_adaptive_delay_quantile(self, value: f64) -> Self {
        self.set("hedge.adaptive_delay_quantile", value)
    }

    /// `hedge.delay_min`: The shortest adaptive delay.
    ///
    /// A span from 0s to 365 days; default: off.
    pub fn hedge_delay_min(self, value: Duration) -> Self {
        self.set("hedge.delay_min", value)
    }

    /// `hedge.delay_max`: The longest adaptive delay.
    ///
    /// A span from 1us to 365 days; default: off.
    pub fn hedge_delay_max(self, value: Duration) -> Self {
        self.set("hedge.delay_max", value)
    }

    /// `hedge.budget.kind`: What bounds the load that hedges add: shared is the retry budget, earned what answered calls earn,
    /// window a share of recent calls plus a floor, ratio a part of all calls, share a part of the calls in flight, tokens what
    /// successes earn, quota what retries cost.
    ///
    /// One of shared, earned, window, ratio, share, tokens, quota, none; default: `shared`.
    pub fn hedge_budget_kind(self, value: &str) -> Self {
        self.set("hedge.budget.kind", value)
    }

    /// `hedge.budget.ttl`: How long a call or a retry counts.
    ///
    /// A span from 10us to 365 days; default: `10s`.
    pub fn hedge_budget_ttl(self, value: Duration) -> Self {
        self.set("hedge.budget.ttl", value)
    }

    /// `hedge.budget.min_retries_per_sec`: Retries per second that are free of any ratio.
    ///
    /// A finite number from 0 to 1000000000; default: `10`.
    pub fn hedge_budget_min_retries_per_sec(self, value: f64) -> Self {
        self.set("hedge.budget.min_retries_per_sec", value)
    }

    /// `hedge.budget.percent_can_retry`: Retries allowed per recent call, as a fraction.
    ///
    /// A finite number from 0 to 1000000; default: `0.2`.
    pub fn hedge_budget_percent_can_retry(self, value: f64) -> Self {
        self.set("hedge.budget.percent_can_retry", value)
    }

    /// `hedge.budget.rounding`: How the share of calls is rounded.
    ///
    /// One of floor, ceil; default: `floor`.
    pub fn hedge_budget_rounding(self, value: &str) -> Self {
        self.set("hedge.budget.rounding", value)
    }

    /// `hedge.budget.ratio`: earned: what a call that ends with an answer earns, in retries; 0.18 where absent. ratio: what a
    /// call earns. tokens: what a success gives back.
    ///
    /// A finite number from 0.000001 to 1; default: required with `ratio` and with `tokens`.
    pub fn hedge_budget_ratio(self, value: f64) -> Self {
        self.set("hedge.budget.ratio", value)
    }

    /// `hedge.budget.start`: earned: retries that a new budget has; where absent `max_attempts` less 1, at most 4, and 2 in a
    /// pool.
    ///
    /// A whole number from 0 to 1000000000; default: off.
    pub fn hedge_budget_start(self, value: u32) -> Self {
        self.set("hedge.budget.start", value)
    }

    /// `hedge.budget.min_throughput`: ratio: retries are free until this many calls have been made.
    ///
    /// A whole number from 0 to 1000000000; default: `0`.
    pub fn hedge_budget_min_throughput(self, value: u32) -> Self {
        self.set("hedge.budget.min_throughput", value)
    }

    /// `hedge.budget.share`: share: retries in flight per call in flight.
    ///
    /// A finite number from 0 to 1000000; default: `0.2`.
    pub fn hedge_budget_share(self, value: f64) -> Self {
        self.set("hedge.budget.share", value)
    }

    /// `hedge.budget.min_retries`: share: retries in flight that are always allowed.
    ///
    /// A whole number from 0 to 1000000000; default: `3`.
    pub fn hedge_budget_min_retries(self, value: u32) -> Self {
        self.set("hedge.budget.min_retries", value)
    }

    /// `hedge.budget.max`: tokens: tokens when full; retries need more than half.
    ///
    /// A whole number from 1 to 1000; default: required with `tokens`.
    pub fn hedge_budget_max(self, value: u32) -> Self {
        self.set("hedge.budget.max", value)
    }

    /// `hedge.budget.capacity`: quota: tokens when full.
    ///
    /// A whole number from 1 to 1000000000; default: `500`.
    pub fn hedge_budget_capacity(self, value: u32) -> Self {
        self.set("hedge.budget.capacity", value)
    }

    /// `hedge.budget.cost`: quota: what a retry costs.
    ///
    /// A whole number from 1 to 65535; default: `5`.
    pub fn hedge_budget_cost(self, value: u32) -> Self {
        self.set("hedge.budget.cost", value)
    }

    /// `hedge.budget.timeout_cost`: quota: what a retry after an attempt timeout costs.
    ///
    /// A whole number from 1 to 65535; default: `10`.
    pub fn hedge_budget_timeout_cost(self, value: u32) -> Self {
        self.set("hedge.budget.timeout_cost", value)
    }

    /// `hedge.budget.throttled_cost`: quota: what a retry after a throttled outcome costs.
    ///
    /// A whole number from 1 to 65535; default: that of `hedge.budget.cost`.
    pub fn hedge_budget_throttled_cost(self, value: u32) -> Self {
        self.set("hedge.budget.throttled_cost", value)
    }
}
