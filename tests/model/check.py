"""What keys of a policy must have to do with each other (spec 0.3: "all errors are reported at once")."""

from __future__ import annotations

from keys import Value, limit, share

Given = dict[str, Value]

# What stands in a pool and not in the policies that name it (0.4).
POOLED: dict[str, list[str]] = {
    "rate_limit": [
        *["permits", "per", "burst", "limits", "settle_unknown", "learn", "estimate_quantile"],
        *["prioritized", "fair_by", "shares"],
    ],
    "bulkhead": [
        *["kind", "max_concurrency", "max_queue", "min_concurrency", "signal", "latency_threshold"],
        "increase_step",
        *["backoff_ratio", "cut_interval", "latency_quantile", "long_window", "rtt_tolerance", "headroom"],
        *["variant", "queue_target", "queue_interval", "codel", "queue_adaptive_lifo", "prioritized"],
    ],
    "retry.budget": [
        *[
            "kind",
            "ttl",
            "min_retries_per_sec",
            "percent_can_retry",
            "rounding",
            "ratio",
            "start",
            "min_throughput",
        ],
        *["share", "min_retries", "max", "capacity", "cost", "timeout_cost", "throttled_cost"],
    ],
}


def has(given: Given, table: str) -> bool:
    """Is there any key of this table?"""
    return any(key.startswith(table + ".") for key in given)


def number(given: Given, key: str, default: float) -> float:
    """A number, or its default."""
    value = given.get(key, default)
    return default if isinstance(value, str) else float(value)


def relations(given: Given) -> list[str]:
    """Mistakes between keys that are right by themselves, among those that are given."""
    wrong: list[str] = []
    if number(given, "retry.backoff.base", 100_000) > number(given, "retry.backoff.max", 5_000_000):
        wrong.append("retry.backoff.max")
    longest = number(given, "retry.backoff.max", 5_000_000)
    longest = number(given, "cooldown.max", number(given, "retry.max_retry_after", longest))
    if number(given, "cooldown.base", 0) > longest:
        wrong.append("cooldown.base")
    if number(given, "bulkhead.min_concurrency", 1) > number(given, "bulkhead.max_concurrency", 10**9):
        wrong.append("bulkhead.max_concurrency")
    if given.get("bulkhead.signal", "latency") != "latency" and given.get("bulkhead.kind") != "aimd":
        wrong.append("bulkhead.signal")  # 4.6.1
    controls = ["bulkhead.queue_target"] if any(key.endswith("queue_target") for key in given) else []
    switches = ("bulkhead.queue_adaptive_lifo", "bulkhead.prioritized")
    controls += [key for key in switches if number(given, key, 0) == 1]
    if (
        given.get("bulkhead.max_queue", 0) == 0 and "bulkhead.pool" not in given
    ):  # 4.4: "need `max_queue ≥ 1`"
        wrong += controls
    if number(given, "bulkhead.queue_target", 0) >= number(given, "bulkhead.queue_interval", 100_000):
        wrong.append("bulkhead.queue_target")  # 4.4: "`queue_target < queue_interval`"
    if number(given, "breaker.max_break_duration", 10**18) < number(given, "breaker.break_duration", 0):
        wrong.append("breaker.max_break_duration")
    streams = "idle_timeout" in given or "first_byte_timeout" in given
    if "counts" in given and not streams:  # 7.7.14
        wrong.append("counts")
    if "idle_timeout" in given and given.get("slot_until") == "headers":  # 7.7.12
        wrong.append("idle_timeout")
    if number(given, "hedge.delay_min", 0) > number(given, "hedge.delay_max", 10**18):
        wrong.append("hedge.delay_max")
    return wrong


def needs(given: Given) -> list[str]:
    """As written: "Any other key without a default here is required where its component is used"."""
    rate, breaker = has(given, "rate_limit"), has(given, "breaker")
    wait = number(given, "rate_limit.wait", 0) == 1
    has_rate = "rate_limit.pool" in given or "rate_limit.limits" in given
    ratio = "breaker.failure_ratio" in given
    signal = given.get("bulkhead.signal", "latency")
    wanted = [
        (given.get("retry.backoff.kind") == "polynomial", "retry.backoff.exponent"),
        (given.get("retry.backoff.jitter") == "bounded", "retry.backoff.jitter_ratio"),
        (rate and not has_rate, "rate_limit.permits"),
        (rate and not has_rate, "rate_limit.per"),
        ("rate_limit.settle_unknown" in given, "rate_limit.limits"),
        ("rate_limit.learn" in given, "rate_limit.limits"),
        ("rate_limit.estimate_quantile" in given, "rate_limit.limits"),
        (has(given, "bulkhead") and "bulkhead.pool" not in given, "bulkhead.max_concurrency"),
        (given.get("bulkhead.kind") == "aimd" and signal != "loss", "bulkhead.latency_threshold"),
        (breaker, "breaker.break_duration"),
        (breaker and "breaker.consecutive" not in given, "breaker.failure_ratio"),
        (ratio, "breaker.window"),
        (ratio, "breaker.min_throughput"),
        (has(given, "hedge"), "hedge.delay"),
        ("hedge.delay_min" in given or "hedge.delay_max" in given, "hedge.adaptive_delay_quantile"),
    ]
    for table in ("retry.budget", "hedge.budget"):
        wanted.append((given.get(f"{table}.kind") in ("ratio", "tokens"), f"{table}.ratio"))
        wanted.append((given.get(f"{table}.kind") == "tokens", f"{table}.max"))
    unbounded = wait and "deadline" not in given and "rate_limit.max_wait" not in given
    waits = number(given, "cooldown.wait", 0) == 1
    endless = waits and "deadline" not in given and "cooldown.max_wait" not in given
    missing = [key for needed, key in wanted if needed and key not in given]
    return missing + ["rate_limit.wait"] * unbounded + ["cooldown.wait"] * endless


def sets(limits: list[Value], given: Given) -> list[str]:
    """What the limits of a set have to do with each other, and with the rest of the rate limit (3.4, 3.5)."""
    if not limits:
        return []
    read = [found for found in map(limit, limits) if found]
    names = [name for name, _ in read]
    wrong = ["rate_limit.limits"] if len(set(names)) < len(names) or len(names) > 4 else []
    wrong += [f"rate_limit.{key}" for key in ("permits", "per", "burst") if f"rate_limit.{key}" in given]
    weighted = any("weight" in own for _, own in read)
    if "rate_limit.estimate_quantile" in given and not weighted:  # 3.9.1
        wrong.append("rate_limit.estimate_quantile")
    return wrong + ["rate_limit.unit"] * (weighted and given.get("rate_limit.unit") == "call")


def order(limits: list[Value], shares: list[Value], given: Given, *, pool: bool) -> list[str]:
    """What the order of a queue needs (3.10.13)."""
    if "rate_limit.pool" in given:
        return []  # each of these keys is one of the pool's
    wrong = []
    by_key = given.get("rate_limit.fair_by") == "key"
    queues = pool or number(given, "rate_limit.wait", 0) == 1
    if number(given, "rate_limit.prioritized", 0) == 1 and not (limits and queues):
        wrong.append("rate_limit.prioritized")
    if by_key and not (limits and pool):
        wrong.append("rate_limit.fair_by")
    read = [found[0] for found in map(share, shares) if found]
    if shares and (not by_key or len(set(read)) < len(read)):
        wrong.append("rate_limit.shares")
    return wrong


def gives_way(key: str, given: Given, limits: bool) -> bool:
    """0.7.12: does a preset's key give way to what the policy itself gives?"""
    targets = "targets" in given
    if key == "retry.hold":
        return targets or has(given, "cooldown")
    if key.startswith("cooldown."):
        return targets or number(given, "retry.hold", 0) == 1
    if key == "idle_timeout":
        return given.get("slot_until") == "headers"
    if key == "retry.failover_on":
        return not targets or number(given, "retry.read_errors", 1) != 1
    return (key == "retry.send_rate" and targets) or (key == "rate_limit.learn" and not limits)


def exclusions(given: Given) -> list[str]:
    """What cannot stand together (0.3, 0.4)."""
    wrong = ["throttle"] if has(given, "breaker") and has(given, "throttle") else []
    if has(given, "cooldown") and number(given, "retry.hold", 0) == 1:
        wrong.append("retry.hold")
    for table, keys in POOLED.items():
        if f"{table}.pool" in given:
            wrong += [f"{table}.{key}" for key in keys if f"{table}.{key}" in given]
    if "retry.failover_on" in given and "targets" not in given:  # 17.4.8
        wrong.append("retry.failover_on")
    if "targets" in given:  # 17.1.6
        wrong += [table for table in ("breaker", "throttle", "cooldown") if has(given, table)]
        wrong += ["retry.hold"] if number(given, "retry.hold", 0) == 1 else []
        wrong += ["retry.send_rate"] if given.get("retry.send_rate", "none") != "none" else []
    return wrong
