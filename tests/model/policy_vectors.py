"""Pairs, and the keys that are wrong with them (family `policy`)."""

from __future__ import annotations

from typing import Any

from keys import Pair
from policy import NotModelled, build

RPM: Pair = ("rate_limit.limits", "rpm: permits=500 per=1m")
TPM: Pair = ("rate_limit.limits", "tpm: permits=200000 per=1m weight=tokens default=2000 max_debt=none")
LIMITS = [
    *["", "rpm", "rpm:", "rpm: permits=1", "rpm: per=1s", "rpm: permits=0 per=1s", "rpm: permits=1 per=0s"],
    *["rpm: permits=1 per=1", "rpm: permits=1 per=8761h", "rpm: permits=1 per=1s burst=0"],
    *["Rpm: permits=1 per=1s", "rpm: permits=1 per=1s permits=1", "rpm: permits=1 per=1s cost=1"],
    *["rpm: permits=1 per=1s default=1", "rpm: permits=1 per=1s max_debt=1"],
    *["t: permits=5 per=1s weight=t default=6", "t: permits=5 per=1s weight=t default=5 max_debt=0"],
    *["t: permits=5 per=1s burst=6 weight=t default=6", "t: permits=5 per=1s weight=T"],
    *[
        "d: permits=5 per=24h refill=window",
        "d: permits=5 per=24h refill=window anchor=8h",
        "d: permits=5 per=1s refill=day",
    ],
    *[
        "d: permits=5 per=24h refill=window anchor=24h",
        "d: permits=5 per=24h anchor=8h",
        "d: permits=5 per=1s anchor=0s",
    ],
    *[
        "d: permits=5 per=24h refill=window burst=6",
        "d: permits=5 burst=5 per=24h refill=window anchor=1.5ms",
    ],
    *["d: permits=5 per=24h refill=continuous", "d: permits=5 per=24h refill=window anchor=1"],
    *["t: permits=9007199254740991 per=1.5s weight=t", "t: permits=9007199254740992 per=1s weight=t"],
]
RATE: list[Pair] = [("rate_limit.permits", 5), ("rate_limit.per", 1_000_000)]
FIXED: list[Pair] = [("bulkhead.max_concurrency", 3)]
AIMD: list[Pair] = [*FIXED, ("bulkhead.kind", "aimd"), ("bulkhead.latency_threshold", 1000)]
BREAKER: list[Pair] = [("breaker.consecutive", 3), ("breaker.break_duration", 1_000_000)]
RATIO: list[Pair] = [
    ("breaker.failure_ratio", 0.5),
    ("breaker.window", 10_000_000),
    ("breaker.min_throughput", 10),
    ("breaker.break_duration", 1_000_000),
]
HEDGE: list[Pair] = [("hedge.delay", 0)]

WAITS: list[Pair] = [("rate_limit.wait", 1), ("rate_limit.max_wait", 1)]
LIMITED: list[list[Pair]] = [[("rate_limit.limits", text)] for text in LIMITS]
COMPONENTS: list[list[Pair]] = [
    RATE,
    RATE[:1],
    RATE[1:],
    [*RATE, ("rate_limit.burst", 0)],
    [*RATE, ("rate_limit.wait", 1)],
    [*RATE, ("rate_limit.wait", 1), ("deadline", 1)],
    [*RATE, ("rate_limit.wait", 1), ("rate_limit.max_wait", 0)],
    [*RATE, ("rate_limit.unit", "attempts")],
    AIMD,
    AIMD[:2],
    [*AIMD, ("bulkhead.min_concurrency", 3)],
    [*AIMD, ("bulkhead.min_concurrency", 4)],
    [*AIMD, ("bulkhead.backoff_ratio", 1)],
    [*AIMD, ("bulkhead.latency_quantile", 1)],
    [*FIXED, ("bulkhead.kind", "gradient2"), ("bulkhead.variant", "plain")],
    [*FIXED, ("bulkhead.queue_target", 1000)],
    [*FIXED, ("bulkhead.queue_target", 1000), ("bulkhead.max_queue", 1)],
    [*FIXED, ("bulkhead.queue_target", 1000), ("bulkhead.max_queue", "none")],
    [*FIXED, ("bulkhead.queue_target", 100_000), ("bulkhead.max_queue", 1)],
    [*FIXED, ("bulkhead.queue_target", 99_999), ("bulkhead.max_queue", 1)],
    [*FIXED, ("bulkhead.prioritized", 1)],
    [*FIXED, ("bulkhead.prioritized", 0)],
    [*FIXED, ("bulkhead.queue_adaptive_lifo", 1)],
    BREAKER,
    BREAKER[:1],
    BREAKER[1:],
    RATIO,
    [RATIO[0], RATIO[3]],
    [*RATIO, BREAKER[0]],
    [*BREAKER, ("breaker.break_factor", 0.9)],
    [*BREAKER, ("breaker.max_break_duration", 999_999)],
    [*BREAKER, ("breaker.max_break_duration", 1_000_000)],
    [*BREAKER, ("breaker.failure_on", "throttled"), ("breaker.ignore_on", "timeout")],
    [*BREAKER, ("breaker.failure_on", "throttled"), ("breaker.ignore_on", "throttled")],
    [*BREAKER, ("breaker.failure_on", "ok")],
    [("throttle.k", 2)],
    [("throttle.k", 0.5)],
    [("throttle.max_reject", "none"), ("throttle.probe_interval", "none")],
    [("throttle.k", 2), *BREAKER],
    HEDGE,
    [("hedge.max_attempts", 2)],
    [*HEDGE, ("hedge.max_attempts", 1)],
    [*HEDGE, ("hedge.max_attempts", 5)],
    [*HEDGE, ("hedge.delay_min", 2), ("hedge.delay_max", 1)],
    [*HEDGE, ("hedge.delay_min", 2), ("hedge.delay_max", 2)],
    [*HEDGE, ("hedge.budget.kind", "ratio")],
    [*HEDGE, ("hedge.budget.kind", "tokens"), ("hedge.budget.ratio", 0.1)],
    [*HEDGE, ("hedge.budget.kind", "shared")],
    [("retry.budget.kind", "shared")],
    [("kinds", "spam=permanent"), ("deadline", 1)],
    [("kinds", "spam=permanent")],
    [("kinds", "spam"), ("deadline", 1)],
    [("kinds", "spam=spam"), ("deadline", 1)],
    [("kinds", "transient=conflict"), ("deadline", 1)],
    [("kinds", "spam=permanent"), ("kinds", "spam=conflict"), ("deadline", 1)],
    [("kinds", "deadlock=conflict"), ("retry.retry_on", "deadlock")],
    [("kinds", "spam=permanent"), ("retry.retry_on", "spam")],
    [("retry.retry_on", "deadlock")],
    [("kinds", "spam=permanent"), *BREAKER, ("breaker.failure_on", "spam")],
    [*((("kinds", f"k{n}=transient")) for n in range(23)), ("deadline", 1)],
    [*((("kinds", f"k{n}=transient")) for n in range(24)), ("deadline", 1)],
    [RPM],
    [RPM, TPM],
    [RPM, RPM],
    [TPM, ("rate_limit.settle_unknown", "zero")],
    [("rate_limit.settle_unknown", "zero")],
    [TPM, *RATE],
    [TPM, ("rate_limit.unit", "attempt")],
    [TPM, ("rate_limit.unit", "call")],
    [RPM, ("rate_limit.unit", "call")],
    [TPM, ("rate_limit.wait", 1), ("rate_limit.max_wait", 1)],
    [*(("rate_limit.limits", f"l{n}: permits=1 per=1s") for n in range(4))],
    [*(("rate_limit.limits", f"l{n}: permits=1 per=1s") for n in range(5))],
    [TPM, ("rate_limit.estimate_quantile", 0.95)],
    [TPM, ("rate_limit.estimate_quantile", 1)],
    [RPM, ("rate_limit.estimate_quantile", 0.95)],
    [("rate_limit.estimate_quantile", 0.95)],
    [RPM, ("rate_limit.learn", "down")],
    [RPM, ("rate_limit.learn", "up")],
    [("rate_limit.learn", "down")],
    [*RATE, ("rate_limit.learn", "none")],
    *LIMITED,
    [RPM, *WAITS, ("rate_limit.prioritized", 1)],
    [RPM, ("rate_limit.prioritized", 1)],
    [RPM, ("rate_limit.prioritized", 0)],
    [*RATE, *WAITS, ("rate_limit.prioritized", 1)],
    [("rate_limit.pool", "x"), ("rate_limit.prioritized", 1)],
    [RPM, *WAITS, ("rate_limit.fair_by", "key")],
    [RPM, *WAITS, ("rate_limit.fair_by", "keys")],
    [RPM, ("rate_limit.fair_by", "none")],
    [RPM, *WAITS, ("rate_limit.shares", "a=1")],
    [RPM, *WAITS, ("rate_limit.shares", "a")],
    [("retry.hold", 1), ("retry.max_held", 0)],
    [("retry.send_rate", "cubic")],
    [("preset", "graph")],
    [("preset", "aws_adaptive")],
    [("preset", "llm")],
    [("preset", "llm"), RPM, TPM],
    [("preset", "llm"), *RATE],
    [("preset", "llm"), ("targets", "models")],
    [("preset", "llm"), ("targets", "models"), ("cooldown.base", 1)],
    [("preset", "llm"), ("retry.hold", 1)],
    [("preset", "llm"), ("retry.hold", 1), ("cooldown.base", 1)],
    [("preset", "llm"), ("retry.max_retry_after", 1)],
    [("preset", "llm"), ("slot_until", "headers")],
    [("preset", "llm"), ("slot_until", "headers"), ("idle_timeout", 1)],
    [("preset", "graph"), ("targets", "models")],
    [("preset", "graph"), ("cooldown.base", 1)],
    [("preset", "aws_adaptive"), ("targets", "models")],
    [("targets", "models"), ("retry.max_attempts", 3), ("retry.failover_on", "permanent")],
    [("targets", "models"), ("retry.read_errors", 1), ("retry.failover_on", "quota_spent")],
    [("targets", "models"), ("retry.failover_on", "quota_spent")],
    [("preset", "llm"), ("targets", "models"), ("retry.read_errors", 0)],
    [("preset", "llm"), ("retry.read_errors", 0)],
    [("retry.failover_on", "permanent")],
    [("cooldown.quota_wait", 0)],
    [("cooldown.quota_wait", 1), ("cooldown.base", 2)],
]


OF_CORE = [("rate_limit.learn", "down")]
"""Besides groups of targets, which documents declare."""


def cases(*, core: bool) -> dict[str, Any]:
    """Keys by themselves, and what components need: what not each host serves in pairs, or all the rest."""
    given: list[list[Pair]] = [
        [],
        [("preset", "http")],
        [("preset", "https")],
        [("deadline", 1)],
        [("deadline", 0)],
        [("deadline", "10s")],
        [("retry.max_attempts", 1)],
        [("retry.max_attempts", 255)],
        [("retry.max_attempts", 256)],
        [("retry.max_attempts", 0)],
        [("retry.max_attempts", 2.5)],
        [("retry.max_attempts", -1)],
        [("retry.max_attempts", "none")],
        [("retrys", 1), ("retry.max_attempts", 0), ("deadline", -1)],
        [("deadline", 31_536_000_000_000)],
        [("deadline", 31_536_000_000_001)],
        [("attempt_timeout", 1.5)],
        [("retry.backoff.kind", "polynomial")],
        [("retry.backoff.kind", "polynomial"), ("retry.backoff.exponent", 8)],
        [("retry.backoff.kind", "polynomial"), ("retry.backoff.exponent", 9)],
        [("retry.backoff.kind", "cubic")],
        [("retry.backoff.jitter", "bounded")],
        [("retry.backoff.jitter", "bounded"), ("retry.backoff.jitter_ratio", 1)],
        [("retry.backoff.jitter", "bounded"), ("retry.backoff.jitter_ratio", 1.01)],
        [("retry.backoff.multiplier", 0.9)],
        [("retry.budget.kind", "ratio")],
        [("retry.budget.kind", "ratio"), ("retry.budget.ratio", 1)],
        [("retry.budget.kind", "ratio"), ("retry.budget.ratio", 0)],
        [("retry.budget.kind", "tokens")],
        [("retry.budget.kind", "tokens"), ("retry.budget.ratio", 0.1), ("retry.budget.max", 1001)],
        [("retry.budget.ttl", 9)],
        [("retry.budget.ttl", 10)],
        [("retry.budget.percent_can_retry", -0.1)],
        [("retry.statuses", 503), ("retry.statuses", 429)],
        [("retry.statuses", 404)],
        [("retry.statuses", 600)],
        [("retry.methods", "GET"), ("retry.methods", "POST")],
        [("retry.methods", "get")],
        [("retry.retry_on", "permanent")],
        [("retry.retry_on", "infrastructure"), ("retry.retry_on", "conflict")],
        [("retry.respect_retry_after", 0)],
        [("retry.respect_retry_after", 2)],
        [("retry.respect_retry_after", "false")],
        [
            ("bulkhead.max_concurrency", 1),
            ("bulkhead.max_queue", "none"),
            ("bulkhead.acquire_timeout", "none"),
        ],
        [("bulkhead.max_queue", 3)],
        [("bulkhead.max_concurrency", 0)],
        [("slot_until", "headers")],
        [("slot_until", "end")],
        [("slot_until", "headers"), ("deadline", 1)],
    ]
    found_wrong = []
    for pairs in [*given, *COMPONENTS]:
        rare = any(pair in OF_CORE or pair[0] == "targets" for pair in pairs)
        if core is not rare:
            continue
        try:
            found = build("p", pairs)
        except NotModelled:
            found = []  # right: only its behaviour is not modelled
        found_wrong.append({"pairs": pairs, "wrong": found if isinstance(found, list) else []})
    return {"spec": ["0.3", "2.1", "2.10", "3.1", "4", "5.1", "6", "8"], "cases": found_wrong}
