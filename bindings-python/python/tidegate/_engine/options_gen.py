# Generated from core/src/policy/components by `cargo xtask generate`; do not edit.
"""The typed options of a policy: what is left out is left to core's one table of keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from .frozen import UNSET, Options

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import TypedDict


class Named(Protocol):
    """What goes by its name: a `Pool`."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


Preset: TypeAlias = Literal[
    "http",
    "httpware",
    "transient",
    "occ",
    "graph",
    "aws_standard",
    "aws_2026",
    "aws_adaptive",
    "grpc",
    "llm",
]
"""The built-in policies that a policy may start from."""

Base: TypeAlias = Literal[
    "transient",
    "throttled",
    "timeout",
    "never_sent",
    "conflict",
    "permanent",
    "ignored",
]
"""The classes that a kind of failure of your own can be based on."""


class HedgeBudget(Options):
    """What bounds the load that hedges add, per route.

    Args:
        kind: What bounds the load that hedges add: shared is the retry budget, earned what answered calls
            earn, window a share of recent calls plus a floor, ratio a part of all calls, share a part of the
            calls in flight, tokens what successes earn, quota what retries cost. `"shared"` (default),
            `"earned"`, `"window"`, `"ratio"`, `"share"`, `"tokens"`, `"quota"`, `"none"`.
        ttl: How long a call or a retry counts. Seconds or `timedelta`, 10 µs to 365 days; 10 s by default.
        min_retries_per_sec: Retries per second that are free of any ratio. At least 0; 10 by default.
        percent_can_retry: Retries allowed per recent call, as a fraction. At least 0; 0.2 by default.
        rounding: How the share of calls is rounded. `"floor"` (default), `"ceil"`.
        ratio: earned: what a call that ends with an answer earns, in retries; 0.18 where absent. ratio: what
            a call earns. tokens: what a success gives back. 0.000001 to 1; required with kind `"ratio"` and
            with kind `"tokens"`.
        start: earned: retries that a new budget has; where absent max_attempts less 1, at most 4, and 2 in a
            pool. 0 to 1,000,000,000; off by default.
        min_throughput: ratio: retries are free until this many calls have been made. 0 to 1,000,000,000; 0 by
            default.
        share: share: retries in flight per call in flight. At least 0; 0.2 by default.
        min_retries: share: retries in flight that are always allowed. 0 to 1,000,000,000; 3 by default.
        max: tokens: tokens when full; retries need more than half. 1 to 1,000; required with kind `"tokens"`.
        capacity: quota: tokens when full. 1 to 1,000,000,000; 500 by default.
        cost: quota: what a retry costs. 1 to 65,535; 5 by default.
        timeout_cost: quota: what a retry after an attempt timeout costs. 1 to 65,535; 10 by default.
        throttled_cost: quota: what a retry after a throttled outcome costs. 1 to 65,535; `hedge.budget.cost`
            by default.
    """

    kind: Literal["shared", "earned", "window", "ratio", "share", "tokens", "quota", "none"] = UNSET
    ttl: float | timedelta = UNSET
    min_retries_per_sec: float = UNSET
    percent_can_retry: float = UNSET
    rounding: Literal["floor", "ceil"] = UNSET
    ratio: float = UNSET
    start: int = UNSET
    min_throughput: int = UNSET
    share: float = UNSET
    min_retries: int = UNSET
    max: int = UNSET
    capacity: int = UNSET
    cost: int = UNSET
    timeout_cost: int = UNSET
    throttled_cost: int = UNSET


class Hedge(Options):
    """When to send a second attempt beside a slow one.

    Args:
        delay: How long an answer may take before another attempt starts beside it. Seconds or `timedelta`, 0
            to 365 days; required.
        max_attempts: Attempts of one call that may run at once. 2 to 4; 2 by default.
        adaptive_delay_quantile: The delay is this quantile of recent latencies, once there are five. 0.001 to
            0.999; required with `delay_min` and with `delay_max`.
        delay_min: The shortest adaptive delay. Seconds or `timedelta`, 0 to 365 days; off by default.
        delay_max: The longest adaptive delay. Seconds or `timedelta`, 1 µs to 365 days; off by default.
        budget: What bounds the load that hedges add, per route. A `HedgeBudget`, or a dict of its keys; None
            or `"none"` for none.
    """

    delay: float | timedelta = UNSET
    max_attempts: int = UNSET
    adaptive_delay_quantile: float = UNSET
    delay_min: float | timedelta = UNSET
    delay_max: float | timedelta = UNSET
    budget: HedgeBudget | Mapping[str, Any] | Literal["none"] | None = UNSET


class Throttle(Options):
    """Which part of the calls to refuse while a part of them fails.

    Args:
        k: Requests per accepted one that are let through. At least 1; 2 by default.
        window: How long a call counts. Seconds or `timedelta`, 10 µs to 365 days; 120 s by default.
        window_kind: sliding forgets by tenths of the window, tumbling all at once. `"sliding"` (default),
            `"tumbling"`.
        min_throughput: Calls that the window must hold before any is refused. 1 to 1,000,000,000; 10 by
            default.
        max_reject: The highest probability of a refusal. 0 to 1, or None; 0.9 by default.
        probe_interval: At least one call is let through per interval. Seconds or `timedelta`, 1 µs to 365
            days, or None; 1 s by default.
        prioritized: Calls of higher criticality are refused later: k times 0.625, 0.75, 1 and 2, at least
            1.1. True or False; False by default.
        unit: What is counted and refused: the call, or each of its attempts. `"call"` (default), `"attempt"`.
    """

    k: float = UNSET
    window: float | timedelta = UNSET
    window_kind: Literal["sliding", "tumbling"] = UNSET
    min_throughput: int = UNSET
    max_reject: float | None = UNSET
    probe_interval: float | timedelta | None = UNSET
    prioritized: bool = UNSET
    unit: Literal["call", "attempt"] = UNSET


class Breaker(Options):
    """When to stop calling what fails.

    Args:
        failure_ratio: Failures among recent calls that open it, as a fraction. 0.000001 to 1; required unless
            there is `consecutive`.
        window: How long a call counts as recent. Seconds or `timedelta`, 10 µs to 365 days; required with
            `failure_ratio`.
        min_throughput: Calls that the window must hold before the ratio counts. 1 to 1,000,000,000; required
            with `failure_ratio`.
        window_kind: sliding forgets by tenths of the window, tumbling all at once. `"sliding"` (default),
            `"tumbling"`.
        consecutive: Failures in a row that open it; instead of the ratio, or beside it. 1 to 1,000,000; off
            by default.
        break_duration: How long it stays open. Seconds or `timedelta`, 0.001 s to 365 days; required.
        break_factor: How much longer it stays open after each failed probe; 1 is neither growth nor jitter. 1
            to 100; 2 by default.
        max_break_duration: The longest break; ten times break_duration where absent. Seconds or `timedelta`,
            0.001 s to 365 days; off by default.
        half_open_max_calls: Probes at once when a break has ended. 1 to 1,000; 1 by default.
        successes_to_close: Good probes that close it. 1 to 1,000,000; 1 by default.
        failure_on: Classes and kinds that count as failures, besides transient, timeout and never_sent. One
            of transient, throttled, timeout, never_sent, conflict, permanent, ignored, infrastructure,
            concurrency, or a name declared in kinds; off by default.
        ignore_on: Classes and kinds that count neither way. One of transient, throttled, timeout, never_sent,
            conflict, permanent, ignored, infrastructure, concurrency, or a name declared in kinds; off by
            default.
        unit: What is counted: the call, or each of its attempts. `"call"` (default), `"attempt"`.
        store: fleet: one process that trips opens the breaker for all, through the store that the engine is
            attached to. `"local"` (default), `"fleet"`.
        quorum: fleet: processes that must trip within the window, or within break_duration where there is
            none, before it opens for all. 1 to 10,000; 1 by default.
        on_loss: fleet: what holds while the store is gone: local is the process's own breaker, open lets all
            calls pass, closed refuses them. `"local"` (default), `"open"`, `"closed"`.
    """

    failure_ratio: float = UNSET
    window: float | timedelta = UNSET
    min_throughput: int = UNSET
    window_kind: Literal["sliding", "tumbling"] = UNSET
    consecutive: int = UNSET
    break_duration: float | timedelta = UNSET
    break_factor: float = UNSET
    max_break_duration: float | timedelta = UNSET
    half_open_max_calls: int = UNSET
    successes_to_close: int = UNSET
    failure_on: Collection[str] = UNSET
    ignore_on: Collection[str] = UNSET
    unit: Literal["call", "attempt"] = UNSET
    store: Literal["local", "fleet"] = UNSET
    quorum: int = UNSET
    on_loss: Literal["local", "open", "closed"] = UNSET


class Bulkhead(Options):
    """How many calls may be in flight at once, per route.

    Args:
        kind: What sets the limit of concurrent calls: fixed is max_concurrency, aimd follows a latency
            threshold, gradient2 the change of latency. `"fixed"` (default), `"aimd"`, `"gradient2"`.
        max_concurrency: Calls in flight at once; for aimd and gradient2 the highest limit. 1 to
            1,000,000,000; required unless there is `pool`.
        max_queue: Calls that may wait for a slot; 0 is no queue, none is unbounded. 0 to 10,000,000, or None;
            0 by default.
        acquire_timeout: How long a call waits for a slot; 0 fails fast, none waits for ever. Seconds or
            `timedelta`, 0 to 365 days, or None; 1 s by default.
        unit: What takes a slot: the call, or each of its attempts, which gives it back during backoff.
            `"call"` (default), `"attempt"`.
        min_concurrency: aimd, gradient2: the lowest limit. 1 to 1,000,000,000; 1 by default.
        signal: aimd: what cuts the limit: a latency above the threshold, loss (an answer that asks for fewer
            requests), or both. `"latency"` (default), `"loss"`, `"both"`.
        latency_threshold: aimd that follows latency: a completion within it raises the limit, one over it
            cuts it. Seconds or `timedelta`, 1 µs to 365 days; required with kind `"aimd"`, unless signal is
            `"loss"`.
        increase_step: aimd: what a good completion adds, divided by the limit. At least 0.000001; 1 by
            default.
        backoff_ratio: aimd: what a cut multiplies the limit by. 0.01 to 0.999; 0.9 by default.
        cut_interval: aimd: at most one cut per interval. Seconds or `timedelta`, 0 to 365 days; 1 s by
            default.
        latency_quantile: aimd: compare this quantile of recent latencies with the threshold, instead of each
            one. 0.001 to 0.999; off by default.
        long_window: gradient2: completions that the long-term latency looks back on. 2 to 1,000,000; 600 by
            default.
        rtt_tolerance: gradient2: how much longer than the long-term latency is still good. 1 to 100; 1.5 by
            default.
        headroom: gradient2: how many more than now the limit reaches for. At least 0; 4 by default.
        variant: gradient2: steady decides once per round trip and comes back to what the server can take;
            guarded, plain and netflix are older rules. `"steady"` (default), `"guarded"`, `"plain"`,
            `"netflix"`.
        queue_target: Under sustained congestion a call waits no longer than this (CoDel); needs max_queue.
            Seconds or `timedelta`, 1 µs to 365 days; off by default.
        queue_interval: How long a queue that never empties is not yet congested. Seconds or `timedelta`, 1 µs
            to 365 days; 0.1 s by default.
        codel: The control law behind queue_target. `"facebook"` (default), `"rfc8289"`.
        queue_adaptive_lifo: While congested, the newest waiter goes first; needs max_queue. True or False;
            False by default.
        prioritized: A full queue admits a call of higher criticality in place of the lowest; needs max_queue.
            True or False; False by default.
        pool: A shared bulkhead that is declared as a pool; limit, queue and order stand there. The name of a
            `Pool`, or the pool itself; off by default.
        store: Whose slots they are: each process's own, or the whole fleet's through the store that the
            engine is attached to. `"local"` (default), `"fleet"`.
        lease_ttl: fleet: how long a slot stays taken whose process does not renew it. Seconds or `timedelta`,
            1 s to 365 days; 30 s by default.
        on_loss: fleet: what holds while the store is gone: local is the process's share of the slots, open is
            max_concurrency in each process, closed refuses calls. `"local"` (default), `"open"`, `"closed"`.
        latency_store: aimd with latency_quantile: fleet compares the quantile of all processes' latencies
            with the threshold. `"local"` (default), `"fleet"`.
    """

    kind: Literal["fixed", "aimd", "gradient2"] = UNSET
    max_concurrency: int = UNSET
    max_queue: int | None = UNSET
    acquire_timeout: float | timedelta | None = UNSET
    unit: Literal["call", "attempt"] = UNSET
    min_concurrency: int = UNSET
    signal: Literal["latency", "loss", "both"] = UNSET
    latency_threshold: float | timedelta = UNSET
    increase_step: float = UNSET
    backoff_ratio: float = UNSET
    cut_interval: float | timedelta = UNSET
    latency_quantile: float = UNSET
    long_window: int = UNSET
    rtt_tolerance: float = UNSET
    headroom: float = UNSET
    variant: Literal["steady", "guarded", "plain", "netflix"] = UNSET
    queue_target: float | timedelta = UNSET
    queue_interval: float | timedelta = UNSET
    codel: Literal["facebook", "rfc8289"] = UNSET
    queue_adaptive_lifo: bool = UNSET
    prioritized: bool = UNSET
    pool: str | Named = UNSET
    store: Literal["local", "fleet"] = UNSET
    lease_ttl: float | timedelta = UNSET
    on_loss: Literal["local", "open", "closed"] = UNSET
    latency_store: Literal["local", "fleet"] = UNSET


class RateLimit(Options):
    """How many calls may start per span, per route.

    Args:
        permits: Calls that may start per span. 1 to 1,000,000,000; required unless there is `pool`.
        per: The span. Seconds or `timedelta`, 1 µs to 365 days; required unless there is `pool`.
        burst: Calls that may start at once after a quiet time. 1 to 1,000,000,000; `rate_limit.permits` by
            default.
        unit: What takes a token: the call, or each of its attempts. `"call"` (default), `"attempt"`.
        wait: Wait for a token instead of being refused. True or False; False by default.
        max_wait: wait: the longest wait; without it there must be a deadline. Seconds or `timedelta`, 0 to
            365 days; off by default.
        max_waiters: wait: calls that may wait. 1 to 10,000,000; 1000 by default.
        pool: A shared rate limit that is declared as a pool; permits, per and burst stand there. The name of
            a `Pool`, or the pool itself; off by default.
        store: Whose rate it is: each process's own, or the whole fleet's through the store that the engine is
            attached to. `"local"` (default), `"fleet"`.
        lease: fleet: tokens that a process takes from the store at a time; 1 asks for every call. Absent:
            what 50 ms of the rate bring, at least 1, which is so below 40 a second. 1 to 1,000,000,000; off
            by default.
        on_loss: fleet: what holds while the store is gone: local is the process's share of the rate, open
            lets all calls pass, closed refuses them. `"local"` (default), `"open"`, `"closed"`.
        limits: Several limits by name, at most 4, that a call takes all at once or none: instead of permits,
            per and burst. A limit with a weight counts the amount that each call names, such as tokens. Texts
            such as `tpm: permits=200000 per=1m weight=tokens`, perhaps with burst, default and max_debt, or
            `usd: permits=5000000 per=24h weight=usd max_debt=none refill=window anchor=8h`, whose permits
            come back at once; a document has a table for each; required with `estimate_quantile`.
        settle_unknown: limits: what an attempt counts that may have been served and of which no amount was
            settled: what it had reserved, or nothing. `"reservation"` (default), `"zero"`.
        learn: limits: what an answer's headers say is left of the service's own quota: down lowers a limit to
            it and never raises one, none ignores it. `"none"` (default), `"down"`.
        estimate_quantile: limits: from 20 settled attempts on, what a call names of a weight is scaled by
            this quantile of what attempts have used of it, between a 16th and 16 times. 0.001 to 0.999; off
            by default.
        prioritized: limits: the queue serves critical, normal, degraded and best-effort calls 64 to 16 to 4
            to 1, and a full one gives the place of a less critical call to a more critical one. True or
            False; False by default.
        fair_by: limits, in a pool: key shares the limits among the route keys that wait, instead of serving
            calls in the order in which they came. `"none"` (default), `"key"`.
        shares: fair_by: how much some keys get, 1 to 1,000, where every other key gets 1. Texts such as
            `acme=4`, a route key and its share from 1 to 1,000; a document may have a table; off by default.
    """

    permits: int = UNSET
    per: float | timedelta = UNSET
    burst: int = UNSET
    unit: Literal["call", "attempt"] = UNSET
    wait: bool = UNSET
    max_wait: float | timedelta = UNSET
    max_waiters: int = UNSET
    pool: str | Named = UNSET
    store: Literal["local", "fleet"] = UNSET
    lease: int = UNSET
    on_loss: Literal["local", "open", "closed"] = UNSET
    limits: Collection[str] = UNSET
    settle_unknown: Literal["reservation", "zero"] = UNSET
    learn: Literal["none", "down"] = UNSET
    estimate_quantile: float = UNSET
    prioritized: bool = UNSET
    fair_by: Literal["none", "key"] = UNSET
    shares: Collection[str] = UNSET


class Cooldown(Options):
    """How long no attempt starts after one that was throttled, per route, and how few at first afterwards.

    Args:
        base: How long no attempt starts after a throttled one whose server names no time; doubled for each
            such closing in a row. Seconds or `timedelta`, 1 µs to 365 days; 1 s by default.
        max: The longest that no attempt starts, whatever time the server names. Seconds or `timedelta`, 1 µs
            to 365 days; `retry.max_retry_after` by default.
        wait: Wait for the end of a cooldown instead of being refused. True or False; False by default.
        max_wait: wait: the longest wait; without it there must be a deadline. Seconds or `timedelta`, 0 to
            365 days; off by default.
        max_waiters: wait: calls that may wait. 1 to 10,000,000; 200 by default.
        quota_wait: How long no attempt starts after one whose quota is spent or whose key is not accepted
            (kinds quota_spent and unauthorized), unless the server names a time. Absent: such an attempt
            changes nothing; a target has 5 minutes. Seconds or `timedelta`, 1 µs to 365 days; off by default.
        store: fleet: a closing in one process closes all, through the store that the engine is attached to;
            each process reopens with one attempt. `"local"` (default), `"fleet"`.
    """

    base: float | timedelta = UNSET
    max: float | timedelta = UNSET
    wait: bool = UNSET
    max_wait: float | timedelta = UNSET
    max_waiters: int = UNSET
    quota_wait: float | timedelta = UNSET
    store: Literal["local", "fleet"] = UNSET


class Budget(Options):
    """What bounds the load that retries add, per route.

    Args:
        kind: What bounds the added load: earned is what answered calls earn, window a share of recent calls
            plus a floor, ratio a part of all calls, share a part of the calls in flight, tokens what
            successes earn, quota what retries cost. `"earned"` (default), `"window"`, `"ratio"`, `"share"`,
            `"tokens"`, `"quota"`, `"none"`.
        pool: A shared budget that is declared as a pool; its own keys stand there. The name of a `Pool`, or
            the pool itself; off by default.
        ttl: How long a call or a retry counts. Seconds or `timedelta`, 10 µs to 365 days; 10 s by default.
        min_retries_per_sec: Retries per second that are free of any ratio. At least 0; 10 by default.
        percent_can_retry: Retries allowed per recent call, as a fraction. At least 0; 0.2 by default.
        rounding: How the share of calls is rounded. `"floor"` (default), `"ceil"`.
        ratio: earned: what a call that ends with an answer earns, in retries; 0.18 where absent. ratio: what
            a call earns. tokens: what a success gives back. 0.000001 to 1; required with kind `"ratio"` and
            with kind `"tokens"`.
        start: earned: retries that a new budget has; where absent max_attempts less 1, at most 4, and 2 in a
            pool. 0 to 1,000,000,000; off by default.
        min_throughput: ratio: retries are free until this many calls have been made. 0 to 1,000,000,000; 0 by
            default.
        share: share: retries in flight per call in flight. At least 0; 0.2 by default.
        min_retries: share: retries in flight that are always allowed. 0 to 1,000,000,000; 3 by default.
        max: tokens: tokens when full; retries need more than half. 1 to 1,000; required with kind `"tokens"`.
        capacity: quota: tokens when full. 1 to 1,000,000,000; 500 by default.
        cost: quota: what a retry costs. 1 to 65,535; 5 by default.
        timeout_cost: quota: what a retry after an attempt timeout costs. 1 to 65,535; 10 by default.
        throttled_cost: quota: what a retry after a throttled outcome costs. 1 to 65,535; `retry.budget.cost`
            by default.
    """

    kind: Literal["earned", "window", "ratio", "share", "tokens", "quota", "none"] = UNSET
    pool: str | Named = UNSET
    ttl: float | timedelta = UNSET
    min_retries_per_sec: float = UNSET
    percent_can_retry: float = UNSET
    rounding: Literal["floor", "ceil"] = UNSET
    ratio: float = UNSET
    start: int = UNSET
    min_throughput: int = UNSET
    share: float = UNSET
    min_retries: int = UNSET
    max: int = UNSET
    capacity: int = UNSET
    cost: int = UNSET
    timeout_cost: int = UNSET
    throttled_cost: int = UNSET


class Backoff(Options):
    """How long to wait before a retry.

    Args:
        kind: How the delay before retry n grows: base·multiplier^(n−1), base, base·n, base·n^exponent.
            `"exponential"` (default), `"constant"`, `"linear"`, `"polynomial"`.
        base: The delay before the first retry, before jitter. Seconds or `timedelta`, 0 to 365 days; 0.1 s by
            default.
        throttled_base: The base after a throttled outcome. Seconds or `timedelta`, 0 to 365 days;
            `retry.backoff.base` by default.
        exponent: The power of polynomial growth. 1 to 8; required with kind `"polynomial"`.
        multiplier: The growth from one retry to the next. 1 to 1000; 2 by default.
        max: The longest computed delay, before jitter. Seconds or `timedelta`, 0 to 365 days; 5 s by default.
        jitter: How the delay d is spread: full_floor draws from [0.1·d, d], full from [0, d], equal from
            [d/2, d], decorrelated from [base, 3·previous], bounded from [(1−j)·d, (1+j)·d]. `"full_floor"`
            (default), `"none"`, `"full"`, `"equal"`, `"decorrelated"`, `"bounded"`.
        jitter_ratio: The j of bounded jitter. 0 to 1; required with jitter `"bounded"`.
    """

    kind: Literal["exponential", "constant", "linear", "polynomial"] = UNSET
    base: float | timedelta = UNSET
    throttled_base: float | timedelta = UNSET
    exponent: int = UNSET
    multiplier: float = UNSET
    max: float | timedelta = UNSET
    jitter: Literal["full_floor", "none", "full", "equal", "decorrelated", "bounded"] = UNSET
    jitter_ratio: float = UNSET


class Retry(Options):
    """When to try again.

    Args:
        max_attempts: Attempts in all; the first counts, 1 disables retries. 1 to 255; 3 by default.
        retry_on: Classes and kinds of failure that are retried; infrastructure is transient and never_sent,
            concurrency is conflict. One of transient, throttled, timeout, never_sent, conflict,
            infrastructure, concurrency, or a name declared in kinds; transient throttled timeout never_sent
            conflict by default.
        retry_time_limit: Elapsed time plus the next wait must fit into this. Seconds or `timedelta`, 0 to 365
            days; off by default.
        methods: Methods that may be repeated without an idempotency key. One of GET, HEAD, OPTIONS, PUT,
            DELETE, QUERY, TRACE, POST, PATCH; GET HEAD OPTIONS PUT DELETE by default.
        statuses: HTTP statuses that are retried. A status that can be retried: 408, 409, 429 or 500 to 599;
            408 429 502 503 504 by default.
        respect_retry_after: Wait at least as long as the server's Retry-After says. True or False; True by
            default.
        retry_after: What Retry-After r does: floor waits r plus up to 10 % and never less than the backoff,
            exact waits r, clamp_5s keeps it within 5 s above the backoff. `"floor"` (default), `"exact"`,
            `"clamp_5s"`, `"ignore"`.
        max_retry_after: A server that asks for a longer wait than this ends the call. Seconds or `timedelta`,
            0 to 365 days; `retry.backoff.max` by default.
        throttled_statuses: HTTP statuses by which the server asks for less load. A status that can be
            retried: 408, 409, 429 or 500 to 599; 429 by default.
        read_errors: Read why an answer failed, from its quota headers and up to 64 kB of its body, and wait
            for that at most 1 s; adds the kinds quota_spent, unauthorized, too_long and content_refused. True
            or False; False by default.
        hold: While a throttled call waits, new calls to the same path, and to paths that begin alike, wait
            too. True or False; False by default.
        max_held: hold: calls that may wait so, per route. 1 to 1,000,000; 200 by default.
        send_rate: cubic: a throttle cuts the rate of attempts, which grows back along the curve of the AWS
            SDKs' adaptive mode. `"none"` (default), `"cubic"`.
        backoff: How long to wait before a retry. A `Backoff`, or a dict of its keys.
        budget: What bounds the load that retries add, per route. A `Budget`, or a dict of its keys; None or
            `"none"` for none.
    """

    max_attempts: int = UNSET
    retry_on: Collection[str] = UNSET
    retry_time_limit: float | timedelta = UNSET
    methods: Collection[str] = UNSET
    statuses: Collection[int] = UNSET
    respect_retry_after: bool = UNSET
    retry_after: Literal["floor", "exact", "clamp_5s", "ignore"] = UNSET
    max_retry_after: float | timedelta = UNSET
    throttled_statuses: Collection[int] = UNSET
    read_errors: bool = UNSET
    hold: bool = UNSET
    max_held: int = UNSET
    send_rate: Literal["none", "cubic"] = UNSET
    backoff: Backoff | Mapping[str, Any] = UNSET
    budget: Budget | Mapping[str, Any] | Literal["none"] | None = UNSET


if TYPE_CHECKING:

    class PolicyOptions(TypedDict, total=False):
        """A policy's own keys, and its components; None is as good as left out."""

        preset: Preset | None
        deadline: float | timedelta | None
        attempt_timeout: float | timedelta | None
        slot_until: Literal["body", "headers"] | None
        kinds: Mapping[str, Base] | None
        store_timeout: float | timedelta | None
        store_exchange: float | timedelta | None
        first_byte_timeout: float | timedelta | None
        idle_timeout: float | timedelta | None
        deadline_until: Literal["body", "delivery"] | None
        counts: Literal["bytes", "sse_data"] | None
        retry: Retry | Mapping[str, Any] | None
        cooldown: Cooldown | Mapping[str, Any] | None
        rate_limit: RateLimit | Mapping[str, Any] | None
        bulkhead: Bulkhead | Mapping[str, Any] | None
        breaker: Breaker | Mapping[str, Any] | None
        throttle: Throttle | Mapping[str, Any] | None
        hedge: Hedge | Mapping[str, Any] | None


SETTINGS: Final = (
    "preset",
    "deadline",
    "attempt_timeout",
    "slot_until",
    "kinds",
    "store_timeout",
    "store_exchange",
    "first_byte_timeout",
    "idle_timeout",
    "deadline_until",
    "counts",
    "retry",
    "cooldown",
    "rate_limit",
    "bulkhead",
    "breaker",
    "throttle",
    "hedge",
)
"""The names of the same."""


PRESENCE: Final = {
    "retry": "retry.max_attempts",
    "retry.backoff": "retry.backoff.kind",
    "retry.budget": "retry.budget.kind",
    "cooldown": "cooldown.max_waiters",
    "rate_limit": "rate_limit.unit",
    "bulkhead": "bulkhead.kind",
    "breaker": "breaker.window_kind",
    "throttle": "throttle.k",
    "hedge": "hedge.max_attempts",
    "hedge.budget": "hedge.budget.kind",
}
"""The key that says that a component is there where all its keys are left to core."""

PRESET_TABLES: Final = frozenset({"retry", "retry.backoff", "retry.budget"})
"""The components of which presets set keys."""

POOLS: Final = {
    "bulkhead": "bulkhead",
    "rate_limit": "rate_limit",
    "budget": "retry.budget",
}
"""The kinds of pools, and the tables of their keys."""
