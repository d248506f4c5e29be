"""From pairs to a policy, with all mistakes at once (spec 0.3, 0.7; the keys are those of core's table)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import budgets
from backoff import Backoff

Value: TypeAlias = "str | float | bool"
Pair: TypeAlias = "tuple[str, Value]"

SECOND = 1_000_000
YEAR = 365 * 24 * 3600 * SECOND
METHODS = "GET HEAD OPTIONS PUT DELETE".split()
KNOWN_METHODS = "GET HEAD OPTIONS PUT DELETE QUERY TRACE POST PATCH CONNECT".split()
STATUSES = [408, 429, 502, 503, 504]

# key -> (least, may it be `none`?); at most a year, in µs, a fraction is cut off
SPANS: dict[str, tuple[int, bool]] = {
    "deadline": (1, False),
    "attempt_timeout": (1, False),
    "retry.retry_time_limit": (0, False),
    "retry.max_retry_after": (0, False),
    "retry.backoff.base": (0, False),
    "retry.backoff.throttled_base": (0, False),
    "retry.backoff.max": (0, False),
    "retry.budget.ttl": (10, False),
    "bulkhead.acquire_timeout": (0, True),
}
# key -> (least, greatest, may it be `none`?)
COUNTS: dict[str, tuple[int, int, bool]] = {
    "retry.max_attempts": (1, 255, False),
    "retry.backoff.exponent": (1, 8, False),
    "retry.budget.min_throughput": (0, 10**9, False),
    "retry.budget.min_retries": (0, 10**9, False),
    "retry.budget.max": (1, 1000, False),
    "retry.budget.capacity": (1, 10**9, False),
    "retry.budget.cost": (1, 65535, False),
    "retry.budget.timeout_cost": (1, 65535, False),
    "retry.budget.throttled_cost": (1, 65535, False),
    "bulkhead.max_concurrency": (1, 10**9, False),
    "bulkhead.max_queue": (0, 10**7, True),
}
REALS: dict[str, tuple[float, float]] = {
    "retry.backoff.multiplier": (1.0, 1000.0),
    "retry.backoff.jitter_ratio": (0.0, 1.0),
    "retry.budget.min_retries_per_sec": (0.0, 1e9),
    "retry.budget.percent_can_retry": (0.0, 1e6),
    "retry.budget.ratio": (1e-6, 1.0),
    "retry.budget.share": (0.0, 1e6),
}
CHOICES: dict[str, list[str]] = {
    "preset": ["http", "httpware", "aws_standard", "aws_2026", "grpc"],
    "slot_until": ["body", "headers"],
    "retry.retry_after": ["floor", "exact", "clamp_5s", "ignore"],
    "retry.backoff.kind": ["exponential", "constant", "linear", "polynomial"],
    "retry.backoff.jitter": ["full_floor", "none", "full", "equal", "decorrelated", "bounded"],
    "retry.budget.kind": ["window", "ratio", "share", "tokens", "quota", "none"],
    "retry.budget.rounding": ["floor", "ceil"],
    "bulkhead.kind": ["fixed"],
}
FLAGS = ["retry.respect_retry_after"]

# 0.7
PRESETS: dict[str, list[Pair]] = {
    "http": [
        ("deadline", 30 * SECOND),
        ("retry.max_attempts", 3),
        ("retry.backoff.base", SECOND // 10),
        ("retry.backoff.multiplier", 2),
        ("retry.backoff.max", 5 * SECOND),
        ("retry.backoff.jitter", "full_floor"),
        ("retry.retry_after", "floor"),
        ("retry.max_retry_after", 60 * SECOND),
        ("retry.budget.kind", "window"),
    ],
    "httpware": [
        ("retry.max_attempts", 3),
        ("retry.backoff.base", SECOND // 10),
        ("retry.backoff.multiplier", 2),
        ("retry.backoff.max", 5 * SECOND),
        ("retry.backoff.jitter", "full"),
        ("retry.retry_after", "exact"),
        ("retry.budget.kind", "window"),
    ],
    "aws_standard": [
        ("retry.max_attempts", 3),
        ("retry.backoff.base", SECOND),
        ("retry.backoff.max", 20 * SECOND),
        ("retry.backoff.jitter", "full"),
        ("retry.budget.kind", "quota"),
        ("retry.budget.cost", 5),
        ("retry.budget.timeout_cost", 10),
    ],
    "aws_2026": [
        ("retry.max_attempts", 3),
        ("retry.backoff.base", 50_000),
        ("retry.backoff.throttled_base", SECOND),
        ("retry.backoff.max", 20 * SECOND),
        ("retry.backoff.jitter", "full"),
        ("retry.retry_after", "clamp_5s"),
        ("retry.budget.kind", "quota"),
        ("retry.budget.cost", 14),
        ("retry.budget.timeout_cost", 14),
        ("retry.budget.throttled_cost", 5),
    ],
    "grpc": [
        ("retry.max_attempts", 5),
        ("retry.backoff.jitter", "bounded"),
        ("retry.backoff.jitter_ratio", 0.2),
        ("retry.budget.kind", "tokens"),
        ("retry.budget.max", 10),
        ("retry.budget.ratio", 0.1),
    ],
}


@dataclass
class Policy:
    """A policy that is valid. None means "no limit" for spans."""

    name: str
    deadline: int | None = None
    attempt_timeout: int | None = None
    slot_until_body: bool = True
    max_attempts: int = 1
    time_limit: int | None = None
    methods: tuple[str, ...] = tuple(METHODS)
    statuses: tuple[int, ...] = tuple(STATUSES)
    respect: bool = True
    mode: str = "floor"
    max_retry_after: int = 5 * SECOND
    backoff: Backoff = field(default_factory=Backoff)
    throttled_base: int = 100_000
    budget: dict[str, Value] | None = None
    max_concurrency: int | None = None
    max_queue: int | None = 0
    acquire_timeout: int | None = SECOND

    def new_budget(self) -> budgets.NoBudget:
        """A budget for one route (0.4: "state is kept per (policy, route)")."""
        return new_budget({} if self.budget is None else self.budget, self.budget is not None)


def new_budget(given: dict[str, Value], exists: bool = True) -> budgets.NoBudget:
    """The budget of these `retry.budget.*` keys, without the prefix."""

    def number(key: str, default: float) -> float:
        return float(given.get(key, default))

    kind = given.get("kind", "window") if exists else "none"
    if kind == "window":
        return budgets.Window(
            int(number("ttl", 10 * SECOND)),
            number("min_retries_per_sec", 10.0),
            number("percent_can_retry", 0.2),
            str(given.get("rounding", "floor")),
        )
    if kind == "ratio":
        return budgets.Ratio(number("ratio", 0), int(number("min_throughput", 0)))
    if kind == "share":
        return budgets.Share(number("share", 0.2), int(number("min_retries", 3)))
    if kind == "tokens":
        return budgets.Tokens(int(number("max", 0)), number("ratio", 0))
    if kind == "quota":
        cost = int(number("cost", 5))
        return budgets.Quota(
            int(number("capacity", 500)),
            cost,
            int(number("timeout_cost", 10)),
            int(number("throttled_cost", cost)),
        )
    return budgets.NoBudget()


def whole(value: Value) -> bool:
    """A finite number without a fraction."""
    return (
        not isinstance(value, (str, bool)) and value == value and abs(value) < 1e300 and value == int(value)
    )


def allowed(key: str, value: Value) -> bool:
    """Does the key take this value?"""
    if key in SPANS:
        least, none = SPANS[key]
        return (none and value == "none") or (not isinstance(value, (str, bool)) and least <= value <= YEAR)
    if key in COUNTS:
        low, high, none = COUNTS[key]
        return (none and value == "none") or (whole(value) and low <= float(value) <= high)
    if key in REALS:
        return not isinstance(value, (str, bool)) and REALS[key][0] <= value <= REALS[key][1]
    if key in CHOICES:
        return value in CHOICES[key]
    if key in FLAGS:
        return not isinstance(value, str) and value in (0, 1)
    if key == "retry.statuses":  # ADR 0006: "only statuses that can be retried at all"
        return whole(value) and (value in (408, 429) or 500 <= float(value) <= 599)
    return key == "retry.methods" and value in KNOWN_METHODS


def build(name: str, pairs: list[Pair]) -> Policy | list[str]:
    """The policy of these pairs, or the keys that are wrong, sorted (0.3: "all errors are … at once")."""
    known = [*SPANS, *COUNTS, *REALS, *CHOICES, *FLAGS, "retry.statuses", "retry.methods"]
    wrong = [key for key, value in pairs if key not in known or not allowed(key, value)]
    lists: dict[str, list[Value]] = {}
    given: dict[str, Value] = {}
    for key, value in pairs:
        if key in ("retry.statuses", "retry.methods"):
            lists.setdefault(key, []).append(value)
        elif key in given:
            wrong.append(key)
        else:
            given[key] = value
    named = given.pop("preset", None)
    preset = PRESETS.get(str(named), [])
    both: dict[str, Value] = {**dict(preset), **given}
    if all(key == "slot_until" for key, _ in pairs):  # "an empty policy is an error"
        wrong.append("policy")
    budget = {
        key.removeprefix("retry.budget."): value for key, value in both.items() if "retry.budget." in key
    }
    # "any other key without a default here is required where its component is used"
    needs = [
        (both.get("retry.backoff.kind") == "polynomial", "retry.backoff.exponent"),
        (both.get("retry.backoff.jitter") == "bounded", "retry.backoff.jitter_ratio"),
        (budget.get("kind") == "ratio", "retry.budget.ratio"),
        (budget.get("kind") == "tokens", "retry.budget.ratio"),
        (budget.get("kind") == "tokens", "retry.budget.max"),
        (any(key.startswith("bulkhead.") for key in both), "bulkhead.max_concurrency"),
    ]
    wrong += [key for needed, key in needs if needed and key not in both]
    spans = [
        both.get(f"retry.backoff.{key}", default) for key, default in (("base", 100_000), ("max", 5 * SECOND))
    ]
    if not wrong and float(spans[0]) > float(spans[1]):
        wrong.append("retry.backoff.max")
    if named == "grpc" and both.get("retry.max_attempts", 5) in range(6, 256):  # 0.7: "at most 5 attempts"
        wrong.append("retry.max_attempts")
    if wrong:
        return sorted(set(wrong))

    def span(key: str, default: int | None) -> int | None:
        value = both.get(key, default)
        return None if value is None or value == "none" else int(float(value))

    policy = Policy(name, span("deadline", None), span("attempt_timeout", None))
    policy.slot_until_body = both.get("slot_until", "body") == "body"
    base = span("retry.backoff.base", 100_000) or 0
    policy.backoff = Backoff(
        str(both.get("retry.backoff.kind", "exponential")),
        base,
        float(both.get("retry.backoff.multiplier", 2.0)),
        int(float(both.get("retry.backoff.exponent", 1))),
        span("retry.backoff.max", 5 * SECOND) or 0,
        str(both.get("retry.backoff.jitter", "full_floor")),
        float(both.get("retry.backoff.jitter_ratio", 0.0)),
    )
    policy.throttled_base = span("retry.backoff.throttled_base", base) or 0
    policy.max_retry_after = span("retry.max_retry_after", policy.backoff.max) or 0
    policy.time_limit = span("retry.retry_time_limit", None)
    policy.respect = float(both.get("retry.respect_retry_after", 1)) == 1
    policy.mode = str(both.get("retry.retry_after", "floor"))
    if "retry.statuses" in lists:
        policy.statuses = tuple(int(float(value)) for value in lists["retry.statuses"])
    if "retry.methods" in lists:
        policy.methods = tuple(str(value) for value in lists["retry.methods"])
    if lists or any(key.startswith("retry.") for key in both):  # "a policy without one makes one attempt"
        policy.max_attempts = span("retry.max_attempts", 3) or 0
        policy.budget = budget
    policy.max_concurrency = span("bulkhead.max_concurrency", None)
    policy.max_queue = span("bulkhead.max_queue", 0)
    policy.acquire_timeout = span("bulkhead.acquire_timeout", SECOND)
    return policy
