# Generated from core/src/policy/table.rs by `cargo xtask generate`; do not edit.
"""The typed options of a policy: what is left out is left to core's one table of keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias


class _Unset:
    """Left to core's table."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "..."

    def __reduce__(self) -> str:
        return "UNSET"


UNSET: Final[Any] = _Unset()


class Options:
    """Shows what was given, and nothing of what was left out."""

    def __repr__(self) -> str:
        given = ((field.name, getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]
        shown = ", ".join(f"{name}={value!r}" for name, value in given if value is not UNSET)
        return f"{type(self).__name__}({shown})"


Preset: TypeAlias = Literal["http", "httpware", "transient", "occ", "aws_standard", "aws_2026", "grpc"]
"""The built-in policies that a policy may start from."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Bulkhead(Options):
    """How many calls may be in flight at once, per route.

    Args:
        kind: What sets the limit of concurrent calls. `"fixed"` (default).
        max_concurrency: Calls in flight at once. 1 to 1,000,000,000; required.
        max_queue: Calls that may wait for a slot; 0 is no queue, none is unbounded. 0 to 10,000,000, or None;
            0 by default.
        acquire_timeout: How long a call waits for a slot; 0 fails fast, none waits for ever. Seconds or
            `timedelta`, 0 to 365 days, or None; 1 s by default.
    """

    kind: Literal["fixed"] = UNSET
    max_concurrency: int = UNSET
    max_queue: int | None = UNSET
    acquire_timeout: float | timedelta | None = UNSET


@dataclass(frozen=True, kw_only=True, repr=False)
class Budget(Options):
    """What bounds the load that retries add, per route.

    Args:
        kind: What bounds the added load: window is a share of recent calls plus a floor, ratio a part of all
            calls, share a part of the calls in flight, tokens what successes earn, quota what retries cost.
            `"window"` (default), `"ratio"`, `"share"`, `"tokens"`, `"quota"`, `"none"`.
        ttl: How long a call or a retry counts. Seconds or `timedelta`, 10 µs to 365 days; 10 s by default.
        min_retries_per_sec: Retries per second that are free of any ratio. At least 0; 10 by default.
        percent_can_retry: Retries allowed per recent call, as a fraction. At least 0; 0.2 by default.
        rounding: How the share of calls is rounded. `"floor"` (default), `"ceil"`.
        ratio: ratio: what a call earns, in retries. tokens: what a success gives back. 0.000001 to 1;
            required with kind `"ratio"` and with kind `"tokens"`.
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

    kind: Literal["window", "ratio", "share", "tokens", "quota", "none"] = UNSET
    ttl: float | timedelta = UNSET
    min_retries_per_sec: float = UNSET
    percent_can_retry: float = UNSET
    rounding: Literal["floor", "ceil"] = UNSET
    ratio: float = UNSET
    min_throughput: int = UNSET
    share: float = UNSET
    min_retries: int = UNSET
    max: int = UNSET
    capacity: int = UNSET
    cost: int = UNSET
    timeout_cost: int = UNSET
    throttled_cost: int = UNSET


@dataclass(frozen=True, kw_only=True, repr=False)
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


@dataclass(frozen=True, kw_only=True, repr=False)
class Retry(Options):
    """When to try again.

    Args:
        max_attempts: Attempts in all; the first counts, 1 disables retries. 1 to 255; 3 by default.
        retry_on: Classes of failure that are retried; infrastructure is transient and never_sent, concurrency
            is conflict. One of transient, throttled, timeout, never_sent, conflict, infrastructure,
            concurrency; transient throttled timeout never_sent conflict by default.
        retry_time_limit: Elapsed time plus the next wait must fit into this. Seconds or `timedelta`, 0 to 365
            days; off by default.
        methods: Methods that may be repeated without an idempotency key. One of GET, HEAD, OPTIONS, PUT,
            DELETE, QUERY, TRACE, POST, PATCH; GET HEAD OPTIONS PUT DELETE by default.
        statuses: HTTP statuses that are retried. A status that can be retried: 408, 429 or 500 to 599; 408
            429 502 503 504 by default.
        respect_retry_after: Wait at least as long as the server's Retry-After says. True or False; True by
            default.
        retry_after: What Retry-After r does: floor waits r plus up to 10 % and never less than the backoff,
            exact waits r, clamp_5s keeps it within 5 s above the backoff. `"floor"` (default), `"exact"`,
            `"clamp_5s"`, `"ignore"`.
        max_retry_after: A server that asks for a longer wait than this ends the call. Seconds or `timedelta`,
            0 to 365 days; `retry.backoff.max` by default.
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
    backoff: Backoff | Mapping[str, Any] = UNSET
    budget: Budget | Mapping[str, Any] | Literal["none"] | None = UNSET


PRESENCE: Final = {
    "retry": "retry.max_attempts",
    "retry.backoff": "retry.backoff.kind",
    "retry.budget": "retry.budget.kind",
    "bulkhead": "bulkhead.kind",
}
"""The key that says that a component is there where all its keys are left to core."""
