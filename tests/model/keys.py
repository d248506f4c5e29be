"""The keys of a policy and what values they take (the keys are those of core's table)."""

from __future__ import annotations

import re
from typing import TypeAlias, TypeVar

Value: TypeAlias = "str | float | bool"
Pair: TypeAlias = "tuple[str, Value]"

SECOND = 1_000_000
YEAR = 365 * 24 * 3600 * SECOND
METHODS = "GET HEAD OPTIONS PUT DELETE".split()
KNOWN_METHODS = "GET HEAD OPTIONS PUT DELETE QUERY TRACE POST PATCH CONNECT".split()
RETRY_ON: dict[str, list[str]] = {
    **{name: [name] for name in ("transient", "throttled", "timeout", "never_sent", "conflict")},
    "infrastructure": ["transient", "never_sent"],
    "concurrency": ["conflict"],
}
# what `failure_on` and `ignore_on` may name besides
COUNT_ON: dict[str, list[str]] = {**RETRY_ON, "permanent": ["permanent"], "ignored": ["ignored"]}
LISTS = [
    *["retry.statuses", "retry.throttled_statuses", "retry.methods", "retry.retry_on"],
    *["retry.failover_on", "breaker.failure_on", "breaker.ignore_on", "kinds", "rate_limit.limits"],
    "rate_limit.shares",
]
STATUSES = [408, 429, 502, 503, 504]
KINDS = 23
# 15.5: the kinds that `retry.read_errors` adds, in the order of their numbers
READ_KINDS = "quota_spent unauthorized too_long content_refused".split()

# key -> (least, may it be `none`?); at most a year, in µs, a fraction is cut off
SPANS: dict[str, tuple[int, bool]] = {
    "deadline": (1, False),
    "attempt_timeout": (1, False),
    "first_byte_timeout": (1, False),
    "idle_timeout": (1, False),
    "retry.retry_time_limit": (0, False),
    "retry.max_retry_after": (0, False),
    "retry.backoff.base": (0, False),
    "retry.backoff.throttled_base": (0, False),
    "retry.backoff.max": (0, False),
    "retry.budget.ttl": (10, False),
    "cooldown.base": (1, False),
    "cooldown.max": (1, False),
    "cooldown.max_wait": (0, False),
    "cooldown.quota_wait": (1, False),
    "rate_limit.per": (1, False),
    "rate_limit.max_wait": (0, False),
    "bulkhead.acquire_timeout": (0, True),
    "bulkhead.latency_threshold": (1, False),
    "bulkhead.cut_interval": (0, False),
    "bulkhead.queue_target": (1, False),
    "bulkhead.queue_interval": (1, False),
    "breaker.window": (10, False),
    "breaker.break_duration": (1_000, False),
    "breaker.max_break_duration": (1_000, False),
    "throttle.window": (10, False),
    "throttle.probe_interval": (1, True),
    "hedge.delay": (0, False),
    "hedge.delay_min": (0, False),
    "hedge.delay_max": (1, False),
}
# key -> (least, greatest, may it be `none`?)
COUNTS: dict[str, tuple[int, int, bool]] = {
    "retry.max_attempts": (1, 255, False),
    "retry.max_held": (1, 10**6, False),
    "retry.backoff.exponent": (1, 8, False),
    "retry.budget.start": (0, 10**9, False),
    "retry.budget.min_throughput": (0, 10**9, False),
    "retry.budget.min_retries": (0, 10**9, False),
    "retry.budget.max": (1, 1000, False),
    "retry.budget.capacity": (1, 10**9, False),
    "retry.budget.cost": (1, 65535, False),
    "retry.budget.timeout_cost": (1, 65535, False),
    "retry.budget.throttled_cost": (1, 65535, False),
    "cooldown.max_waiters": (1, 10**7, False),
    "rate_limit.permits": (1, 10**9, False),
    "rate_limit.burst": (1, 10**9, False),
    "rate_limit.max_waiters": (1, 10**7, False),
    "bulkhead.max_concurrency": (1, 10**9, False),
    "bulkhead.max_queue": (0, 10**7, True),
    "bulkhead.min_concurrency": (1, 10**9, False),
    "bulkhead.long_window": (2, 10**6, False),
    "breaker.min_throughput": (1, 10**9, False),
    "breaker.consecutive": (1, 10**6, False),
    "breaker.half_open_max_calls": (1, 1000, False),
    "breaker.successes_to_close": (1, 10**6, False),
    "throttle.min_throughput": (1, 10**9, False),
    "hedge.max_attempts": (2, 4, False),
}
# key -> (least, greatest, may it be `none`?)
REALS: dict[str, tuple[float, float, bool]] = {
    "retry.backoff.multiplier": (1.0, 1000.0, False),
    "retry.backoff.jitter_ratio": (0.0, 1.0, False),
    "retry.budget.min_retries_per_sec": (0.0, 1e9, False),
    "retry.budget.percent_can_retry": (0.0, 1e6, False),
    "retry.budget.ratio": (1e-6, 1.0, False),
    "retry.budget.share": (0.0, 1e6, False),
    "bulkhead.increase_step": (1e-6, 1e6, False),
    "bulkhead.backoff_ratio": (0.01, 0.999, False),
    "bulkhead.latency_quantile": (0.001, 0.999, False),
    "bulkhead.rtt_tolerance": (1.0, 100.0, False),
    "bulkhead.headroom": (0.0, 1e6, False),
    "breaker.failure_ratio": (1e-6, 1.0, False),
    "breaker.break_factor": (1.0, 100.0, False),
    "throttle.k": (1.0, 1e6, False),
    "throttle.max_reject": (0.0, 1.0, True),
    "hedge.adaptive_delay_quantile": (0.001, 0.999, False),
    "rate_limit.estimate_quantile": (0.001, 0.999, False),
}
PRESET_NAMES = "http httpware transient occ graph aws_standard aws_2026 aws_adaptive grpc llm".split()
CHOICES: dict[str, list[str]] = {
    "preset": PRESET_NAMES,
    "slot_until": ["body", "headers"],
    "deadline_until": ["body", "delivery"],
    "counts": ["bytes", "sse_data"],
    "retry.retry_after": ["floor", "exact", "clamp_5s", "ignore"],
    "retry.send_rate": ["none", "cubic"],
    "retry.backoff.kind": ["exponential", "constant", "linear", "polynomial"],
    "retry.backoff.jitter": ["full_floor", "none", "full", "equal", "decorrelated", "bounded"],
    "retry.budget.kind": ["earned", "window", "ratio", "share", "tokens", "quota", "none"],
    "retry.budget.rounding": ["floor", "ceil"],
    "cooldown.store": ["local", "fleet"],
    "rate_limit.unit": ["call", "attempt"],
    "rate_limit.settle_unknown": ["reservation", "zero"],
    "rate_limit.learn": ["none", "down"],
    "rate_limit.fair_by": ["none", "key"],
    "bulkhead.kind": ["fixed", "aimd", "gradient2"],
    "bulkhead.signal": ["latency", "loss", "both"],
    "bulkhead.unit": ["call", "attempt"],
    "bulkhead.variant": ["steady", "guarded", "plain", "netflix"],
    "bulkhead.codel": ["facebook", "rfc8289"],
    "breaker.window_kind": ["sliding", "tumbling"],
    "breaker.unit": ["call", "attempt"],
    "throttle.window_kind": ["sliding", "tumbling"],
    "throttle.unit": ["call", "attempt"],
    "hedge.budget.kind": ["shared", "earned", "window", "ratio", "share", "tokens", "quota", "none"],
}
FLAGS = [
    "retry.respect_retry_after",
    "retry.hold",
    "retry.read_errors",
    "cooldown.wait",
    "rate_limit.wait",
    "rate_limit.prioritized",
    "bulkhead.queue_adaptive_lifo",
    "bulkhead.prioritized",
    "throttle.prioritized",
]
# Keys of the fleet's (10): the model has the store (`fleet.py`), but no engine that waits for it.
FLEET = [
    *["store_timeout", "store_exchange", "rate_limit.store", "rate_limit.lease", "rate_limit.on_loss"],
    *["bulkhead.store", "bulkhead.lease_ttl", "bulkhead.on_loss", "bulkhead.latency_store"],
    *["breaker.store", "breaker.quorum", "breaker.on_loss"],
]
NAMES = ["retry.budget.pool", "rate_limit.pool", "bulkhead.pool", "targets"]
T = TypeVar("T")


def hedges_too(table: dict[str, T]) -> None:
    """A hedge's budget has the keys of the retries' one."""
    for path, domain in list(table.items()):
        table.setdefault(path.replace("retry.budget.", "hedge.budget."), domain)


hedges_too(SPANS)
hedges_too(COUNTS)
hedges_too(REALS)
hedges_too(CHOICES)
KNOWN = [*SPANS, *COUNTS, *REALS, *CHOICES, *FLAGS, *NAMES, *LISTS]


def whole(value: Value) -> bool:
    """A finite number without a fraction."""
    return (
        not isinstance(value, (str, bool)) and value == value and abs(value) < 1e300 and value == int(value)
    )


def allowed(key: str, value: Value, kinds: dict[str, str]) -> bool:
    """Does the key take this value? `kinds` are those that the policy declares."""
    if key in SPANS:
        least, none = SPANS[key]
        return (none and value == "none") or (not isinstance(value, (str, bool)) and least <= value <= YEAR)
    if key in COUNTS:
        low, high, none = COUNTS[key]
        return (none and value == "none") or (whole(value) and low <= float(value) <= high)
    if key in REALS:
        low_real, high_real, none = REALS[key]
        number = not isinstance(value, (str, bool)) and low_real <= value <= high_real
        return (none and value == "none") or number
    if key in CHOICES:
        return value in CHOICES[key]
    if key in FLAGS:
        return not isinstance(value, str) and value in (0, 1)
    if key in NAMES:
        return isinstance(value, str) and value != ""
    if key in ("retry.statuses", "retry.throttled_statuses"):
        # ADR 0006: "only statuses that can be retried at all"
        return whole(value) and (value in (408, 409, 429) or 500 <= float(value) <= 599)
    if key == "retry.retry_on":  # 2.1: "A kind in `retry_on` that can never be retryable is an error"
        return value in RETRY_ON or kinds.get(str(value)) in RETRY_ON
    if key in ("retry.failover_on", "breaker.failure_on", "breaker.ignore_on"):
        return value in COUNT_ON or str(value) in kinds
    if key == "kinds":
        return declared(value) is not None
    if key == "rate_limit.limits":
        return limit(value) is not None
    if key == "rate_limit.shares":
        return share(value) is not None
    return key == "retry.methods" and value in KNOWN_METHODS


def declared(value: Value) -> tuple[str, str] | None:
    """``name=class``: a kind of the policy's own (1.1)."""
    name, sign, base = str(value).partition("=")
    taken = name in COUNT_ON or name in ("ok", "cancelled", "")
    return (name, base) if sign and not taken and base in COUNT_ON and base in COUNT_ON[base] else None


def share(value: Value) -> tuple[str, int] | None:
    """``key=share`` (3.10.3)."""
    found = re.fullmatch(r"(.+)=0*([1-9][0-9]{0,2}|1000)", str(value), re.ASCII)
    if isinstance(value, str) and found and len(found[1].encode()) <= 100 and found[1].isprintable():
        return found[1], int(found[2])
    return None


NAME = re.compile(r"[a-z][a-z0-9_]{0,49}")
UNITS = {"us": 1, "ms": 1000, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}


def span(text: str) -> float:
    """A span with its unit, in µs; 0 for any other text."""
    found = re.fullmatch(r"([0-9]+)(\.[0-9]+)?(us|ms|s|m|h)", text)
    return float(text.removesuffix(found[3])) * UNITS[found[3]] if found else 0


def micros(text: str) -> int:
    """A span of whole µs."""
    return int(span(text))


def limit(value: Value) -> tuple[str, dict[str, str]] | None:
    """``name: permits=… per=… …``: a limit of a set (3.4.1, 3.5.2), as its name and its keys."""
    name, colon, rest = str(value).partition(":")
    parts = [part.partition("=") for part in rest.split()]
    own = {key: text for key, _, text in parts}
    if not colon or not NAME.fullmatch(name) or len(own) < len(parts):
        return None
    known = {"permits", "per", "burst", "weight", "default", "max_debt", "refill", "anchor"}
    if not {"permits", "per"} <= set(own) <= known:
        return None
    per = span(own["per"])
    right = 1 <= per <= YEAR and per == int(per)
    for key, least in (("permits", 1), ("burst", 1), ("default", 0), ("max_debt", 0)):
        text = own.get(key, "1")
        is_none = key == "max_debt" and text == "none"
        right = right and (is_none or (text.isdecimal() and least <= int(text) < 1 << 53))
    if "weight" not in own:
        right = right and not {"default", "max_debt"} & set(own)
    elif not NAME.fullmatch(own["weight"]):
        return None
    burst = own.get("burst", own["permits"])
    if own.get("refill", "continuous") not in ("continuous", "window"):
        return None
    if own.get("refill") == "window":  # 3.8.2, 3.8.3
        anchor = span(own.get("anchor", "0us"))
        right = right and own.get("anchor", "0us")[-1] in "smh"  # a span has its unit
        right = right and anchor < per and anchor == int(anchor) and int(burst) == int(own["permits"])
    elif "anchor" in own:
        return None
    return (name, own) if right and int(own.get("default", "0")) <= int(burst) else None
