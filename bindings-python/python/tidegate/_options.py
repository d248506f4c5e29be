"""The typed options of a policy, and how they become the pairs that core checks.

No default and no range stands here: both are in core's one table of keys (`core/src/policy/table.rs`), and
what is left out is left to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from ._clock import to_us
from ._errors import PolicyError
from ._native import keys

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta


class _Unset:
    """Left to core's table."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "..."

    def __reduce__(self) -> str:
        return "UNSET"


UNSET: Final[Any] = _Unset()


class _Options:
    """Shows what was given, and nothing of what was left out."""

    def __repr__(self) -> str:
        given = ((field.name, getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]
        shown = ", ".join(f"{name}={value!r}" for name, value in given if value is not UNSET)
        return f"{type(self).__name__}({shown})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Backoff(_Options):
    """How long to wait before a retry. Spans are seconds or `timedelta`.

    Args:
        kind: How the delay before retry n grows: `"exponential"` (default) base · multiplier^(n−1),
            `"constant"` base, `"linear"` base · n, `"polynomial"` base · n^exponent.
        base: The delay before the first retry, before jitter, at least 0; 0.1 s by default.
        throttled_base: The base after a throttled outcome; `base` by default.
        exponent: The power of polynomial growth, 1 to 8.
        multiplier: Growth from one retry to the next, 1 to 1,000; 2 by default.
        max: The longest computed delay, before jitter, at least `base`; 5 s by default.
        jitter: How the delay d is spread: `"full_floor"` (default) draws from [0.1·d, d], `"full"` from [0,
            d], `"equal"` from [d/2, d], `"decorrelated"` from [base, 3 · previous], `"bounded"` from
            [(1−j)·d, (1+j)·d]; `"none"` takes d.
        jitter_ratio: The j of bounded jitter, 0 to 1.
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
class Budget(_Options):
    """What bounds the load that retries add, per route.

    Args:
        kind: `"window"` (default): a share of recent calls plus a floor; `"ratio"`: a part of all calls;
            `"share"`: a part of the calls in flight; `"tokens"`: what successes earn; `"quota"`: what
            retries cost; `"none"`.
        ttl: window: how long a call or a retry counts, seconds or `timedelta`, more than 0; 10 s by default.
        min_retries_per_sec: window: retries per second that are free of any ratio, at least 0; 10 by default.
        percent_can_retry: window: retries allowed per recent call, as a fraction, at least 0; 0.2 by default.
        rounding: window: how the share of calls is rounded, `"floor"` (default) or `"ceil"`.
        ratio: ratio: what a call earns, in retries; tokens: what a success gives back; up to 1.
        min_throughput: ratio: retries are free until this many calls have been made; 0 by default.
        share: share: retries in flight per call in flight; 0.2 by default.
        min_retries: share: retries in flight that are always allowed; 3 by default.
        max: tokens: tokens when full, 1 to 1,000; retries need more than half.
        capacity: quota: tokens when full; 500 by default.
        cost: quota: what a retry costs; 5 by default.
        timeout_cost: quota: what a retry after an attempt timeout costs; 10 by default.
        throttled_cost: quota: what a retry after a throttled outcome costs; `cost` by default.
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
class Retry(_Options):
    """When to try again.

    Args:
        max_attempts: Attempts in all, 1 to 255; the first counts, 1 disables retries; 3 by default.
        retry_time_limit: Elapsed time plus the next wait must fit into this: seconds or `timedelta`; off by
            default.
        methods: HTTP methods that may be repeated without an idempotency key; GET HEAD OPTIONS PUT DELETE by
            default.
        statuses: HTTP statuses that are retried: 408, 429, 500 to 599; 408 429 502 503 504 by default.
        respect_retry_after: Wait at least as long as the server's Retry-After says; true by default.
        retry_after: What a Retry-After of r does: `"floor"` (default) waits r plus up to 10 %, and never
            less than the backoff; `"exact"` waits r; `"clamp_5s"` keeps it within 5 s above the backoff;
            `"ignore"`.
        max_retry_after: A server that asks for a longer wait than this ends the call: seconds or
            `timedelta`; the backoff's `max` by default, 60 s in the preset `http`.
        backoff: A `Backoff`, or a dict of its keys.
        budget: A `Budget`, or a dict of its keys; `None` or `"none"` for no budget.
    """

    max_attempts: int = UNSET
    retry_time_limit: float | timedelta = UNSET
    methods: Collection[str] = UNSET
    statuses: Collection[int] = UNSET
    respect_retry_after: bool = UNSET
    retry_after: Literal["floor", "exact", "clamp_5s", "ignore"] = UNSET
    max_retry_after: float | timedelta = UNSET
    backoff: Backoff | Mapping[str, Any] = UNSET
    budget: Budget | Mapping[str, Any] | Literal["none"] | None = UNSET


@dataclass(frozen=True, kw_only=True, repr=False)
class Bulkhead(_Options):
    """How many calls may be in flight at once, per route.

    Args:
        kind: `"fixed"`: the limit is `max_concurrency`.
        max_concurrency: Calls in flight at once, at least 1. Required.
        max_queue: Calls that may wait for a slot; 0 (default) is no queue, None is unbounded.
        acquire_timeout: How long a call waits for a slot: seconds or `timedelta`; 0 fails fast, None waits
            for ever; 1 s by default.
    """

    kind: Literal["fixed"] = UNSET
    max_concurrency: int = UNSET
    max_queue: int | None = UNSET
    acquire_timeout: float | timedelta | None = UNSET


TABLE: Final = keys()
"""Core's table: key → (what it takes, its default as a document would write it)."""

# A component that is there, with every key left to core, still has to be seen to be there.
_PRESENCE: Final = {
    "retry": "retry.max_attempts",
    "retry.budget": "retry.budget.kind",
    "retry.backoff": "retry.backoff.kind",
    "bulkhead": "bulkhead.kind",
}


def pairs_of(config: Mapping[str, Any]) -> list[tuple[str, float | str]]:
    """The pairs of a policy's options, for core to check."""
    pairs: list[tuple[str, float | str]] = []
    for key, value in config.items():
        if value is not None:
            _flatten(key, value, pairs, "preset" in config)
    return pairs


def _flatten(path: str, value: Any, pairs: list[tuple[str, float | str]], preset: bool) -> None:
    if value is UNSET:
        return
    if path in _PRESENCE:
        if value is None or value == "none":
            value = {"kind": "none"}
        items = {f.name: getattr(value, f.name) for f in fields(value)} if is_dataclass(value) else value
        if not isinstance(items, Mapping):
            raise PolicyError(
                [(path, repr(value), "must be its options: the typed ones, or a dict of the same keys")]
            )
        before = len(pairs)
        for key, item in items.items():
            _flatten(f"{path}.{key}", item, pairs, preset)
        if len(pairs) == before and not preset:
            marker = _PRESENCE[path]
            domain, default = TABLE[marker]
            pairs.append((marker, float(default) if domain == "count" else default))
        return
    domain = TABLE.get(path, ("unknown", ""))[0]
    if isinstance(value, Mapping):
        for key, item in value.items():
            _flatten(f"{path}.{key}", item, pairs, preset)
    elif domain == "list" and not isinstance(value, (str, int, float)):
        values = list(value) or [""]
        pairs.extend((path, _plain(item, "count" if isinstance(item, int) else "choice")) for item in values)
    else:
        pairs.append((path, _plain(value, domain)))


def _plain(value: Any, domain: str) -> float | str:
    """A value as core takes it: a number or a word. Core names the mistake in what is neither."""
    if value is None:
        return "none"
    if domain == "span":
        us: float | str = to_us(value)
        return us
    if isinstance(value, bool):
        return float(value) if domain == "flag" else repr(value)
    if isinstance(value, (int, float)):
        if domain == "flag":
            return repr(value)
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    return value if isinstance(value, str) else repr(value)
