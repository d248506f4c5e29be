"""From pairs to a policy, with all mistakes at once (spec 0.3, 0.4, 0.7)."""

from __future__ import annotations

from dataclasses import dataclass, field

import budgets
import check
import groups
import keys
from backoff import Backoff
from keys import SECOND, Pair, Value
from order import OrderKeys
from presets import PRESETS

WINDOWS = ["ttl", "min_retries_per_sec", "percent_can_retry", "rounding"]
Given = dict[str, Value]
Names = tuple[str, ...]


class NotModelled(ValueError):
    """A document, right perhaps, that the model has no behaviour for: whatever it told would be wrong."""


@dataclass
class RateLimit:
    """`rate_limit.*`; a pool has the first line, a policy that names it the rest."""

    permits: int = 0
    per: int = 1
    burst: int = 0
    pool: str | None = None
    per_attempt: bool = False
    wait: bool = False
    max_wait: int | None = None
    max_waiters: int = 1000
    limits: list[LimitKeys] = field(default_factory=list)
    unknown_is_zero: bool = False
    learns: bool = False
    quantile: float | None = None
    order: OrderKeys | None = None


@dataclass
class LimitKeys:
    """A limit of a set (3.4)."""

    permits: int
    per: int
    burst: int
    weight: str | None
    default: int | None
    max_debt: int
    anchor: int | None
    """3.8.1: None where it refills continuously."""


@dataclass
class Bulkhead:
    """`bulkhead.*`; a policy that names a pool has only the last line."""

    kind: str = "fixed"
    max_concurrency: int = 1
    max_queue: int | None = 0
    min_concurrency: int = 1
    signal: str = "latency"
    latency_threshold: int = 0
    increase_step: float = 1.0
    backoff_ratio: float = 0.9
    cut_interval: int = SECOND
    latency_quantile: float | None = None
    long_window: int = 600
    rtt_tolerance: float = 1.5
    headroom: float = 4.0
    variant: str = "steady"
    queue_target: int | None = None
    queue_interval: int = SECOND // 10
    codel: str = "facebook"
    lifo: bool = False
    prioritized: bool = False
    pool: str | None = None
    per_attempt: bool = False
    acquire_timeout: int | None = SECOND


@dataclass
class CooldownKeys:
    """`cooldown.*`."""

    base: int
    max: int
    wait: bool
    max_wait: int | None
    max_waiters: int
    lease: int
    quota_wait: int | None


@dataclass
class BreakerKeys:
    """`breaker.*`."""

    failure_ratio: float | None
    window: int
    min_throughput: int
    window_kind: str
    consecutive: int | None
    break_duration: int
    break_factor: float
    max_break_duration: int
    half_open_max_calls: int
    successes_to_close: int
    failure_on: Names
    ignore_on: Names
    per_attempt: bool


@dataclass
class ThrottleKeys:
    """`throttle.*`."""

    k: float
    window: int
    window_kind: str
    min_throughput: int
    max_reject: float | None
    probe_interval: int | None
    prioritized: bool
    per_attempt: bool


@dataclass
class Hedge:
    """`hedge.*`."""

    delay: int
    max_attempts: int
    quantile: float | None
    delay_min: int | None
    delay_max: int | None
    budget: Given


NO_COMPONENT = ("slot_until", "kinds", "deadline_until", "counts")


@dataclass
class Policy:
    """A policy that is valid. None means "no limit" for spans, and "not there" for components."""

    name: str
    deadline: int | None = None
    attempt_timeout: int | None = None
    slot_until_body: bool = True
    first_byte_timeout: int | None = None
    idle_timeout: int | None = None
    until_delivery: bool = False
    kinds: dict[str, str] = field(default_factory=dict)
    max_attempts: int = 1
    time_limit: int | None = None
    methods: Names = tuple(keys.METHODS)
    statuses: tuple[int, ...] = tuple(keys.STATUSES)
    throttled_statuses: tuple[int, ...] = (429,)
    read_errors: bool = False
    retry_on: Names = tuple(keys.RETRY_ON)[:5]
    failover_on: Names = ()
    respect: bool = True
    mode: str = "floor"
    max_retry_after: int = 5 * SECOND
    hold: bool = False
    max_held: int = 200
    send_rate: bool = False
    backoff: Backoff = field(default_factory=Backoff)
    throttled_base: int = 100_000
    budget: Given | None = None
    budget_pool: str | None = None
    cooldown: CooldownKeys | None = None
    rate: RateLimit | None = None
    bulkhead: Bulkhead | None = None
    breaker: BreakerKeys | None = None
    throttle: ThrottleKeys | None = None
    hedge: Hedge | None = None
    targets: str | None = None


@dataclass
class Pool:
    """A component that policies share by its name (0.4)."""

    name: str
    kind: str
    budget: Given
    rate: RateLimit
    bulkhead: Bulkhead
    group: groups.Keys | None = None


def new_budget(given: Given, exists: bool = True, most: int = 3) -> budgets.NoBudget:
    """The budget of these `retry.budget.*` keys, without the prefix; `most` attempts draw on it."""

    def number(key: str, default: float) -> float:
        return float(given.get(key, default))

    kind = given.get("kind", "earned") if exists else "none"
    if kind == "earned":
        return budgets.Earned(number("ratio", 0.18), int(number("start", min(most - 1, 4))))
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


class Reader:
    """Reads what is given; `none` and an absent key without a default are None."""

    def __init__(self, given: Given, lists: dict[str, list[Value]]) -> None:
        self.given, self.lists = given, lists

    def has(self, table: str) -> bool:
        """Is there any key of this table?"""
        return check.has({**self.given, **dict.fromkeys(self.lists, 0)}, table)

    def maybe(self, key: str, default: float | None = None) -> int | None:
        """A whole number or a span; a fraction of a µs is cut off."""
        value = self.given.get(key, default)
        return None if value is None or value == "none" else int(float(value))

    def whole(self, key: str, default: int = 0) -> int:
        """One that is always there."""
        found = self.maybe(key, default)
        return default if found is None else found

    def real(self, key: str, default: float | None = None) -> float | None:
        """A number with a fraction."""
        value = self.given.get(key, default)
        return None if value is None or value == "none" else float(value)

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        return float(self.given.get(key, default)) == 1

    def word(self, key: str, default: str) -> str:
        """One of a few."""
        return str(self.given.get(key, default))

    def name(self, key: str) -> str | None:
        """The name of a pool."""
        return str(self.given[key]) if key in self.given else None

    def budget(self, table: str) -> Given:
        """A budget's keys without their prefix."""
        return {key.removeprefix(table): value for key, value in self.given.items() if key.startswith(table)}

    def names(self, key: str, words: dict[str, list[str]]) -> Names:
        """Classes, and kinds of the policy's own, that a list names."""
        found = self.lists.get(key, [])
        return tuple(name for word in found for name in words.get(str(word), [str(word)]))


def read_rate(reader: Reader) -> RateLimit:
    """3.1."""
    permits = reader.whole("rate_limit.permits")
    limits = [
        read_limit(found[1]) for found in map(keys.limit, reader.lists.get("rate_limit.limits", [])) if found
    ]
    weighted = any(limit.weight is not None for limit in limits)  # 3.5.5
    return RateLimit(
        permits,
        reader.whole("rate_limit.per", 1),
        reader.whole("rate_limit.burst", permits),
        reader.name("rate_limit.pool"),
        weighted or reader.word("rate_limit.unit", "call") == "attempt",
        reader.flag("rate_limit.wait"),
        reader.maybe("rate_limit.max_wait"),
        reader.whole("rate_limit.max_waiters", 1000),
        limits,
        reader.word("rate_limit.settle_unknown", "reservation") == "zero",
        reader.word("rate_limit.learn", "none") == "down",
        reader.real("rate_limit.estimate_quantile"),
        read_order(reader),
    )


def read_order(reader: Reader) -> OrderKeys | None:
    """3.10: None is the order of arrival."""
    prioritized = reader.flag("rate_limit.prioritized")
    by_key = reader.word("rate_limit.fair_by", "none") == "key"
    shares = dict(found for found in map(keys.share, reader.lists.get("rate_limit.shares", [])) if found)
    return OrderKeys(prioritized, by_key, shares) if prioritized or by_key else None


def read_limit(own: dict[str, str]) -> LimitKeys:
    """3.4.1, 3.5.2, 3.6.6."""
    burst = int(own.get("burst", own["permits"]))
    debt = own.get("max_debt", str(burst))
    return LimitKeys(
        int(own["permits"]),
        keys.micros(own["per"]),
        burst,
        own.get("weight"),
        int(own["default"]) if "default" in own else None,
        0 if debt == "none" else int(debt),
        keys.micros(own.get("anchor", "0us")) if own.get("refill") == "window" else None,
    )


def read_cooldown(policy: Policy, reader: Reader) -> CooldownKeys:
    """16.1, 16.5.5."""
    longest = reader.whole("cooldown.max", policy.max_retry_after)
    return CooldownKeys(
        min(longest, reader.whole("cooldown.base", SECOND)),
        longest,
        reader.flag("cooldown.wait"),
        reader.maybe("cooldown.max_wait"),
        reader.whole("cooldown.max_waiters", 200),
        60 * SECOND if policy.attempt_timeout is None else policy.attempt_timeout + SECOND,
        reader.maybe("cooldown.quota_wait"),
    )


def read_bulkhead(reader: Reader) -> Bulkhead:
    """4."""
    return Bulkhead(
        reader.word("bulkhead.kind", "fixed"),
        reader.whole("bulkhead.max_concurrency"),
        reader.maybe("bulkhead.max_queue", 0),
        reader.whole("bulkhead.min_concurrency", 1),
        reader.word("bulkhead.signal", "latency"),
        reader.whole("bulkhead.latency_threshold"),
        reader.real("bulkhead.increase_step", 1.0) or 0.0,
        reader.real("bulkhead.backoff_ratio", 0.9) or 0.0,
        reader.whole("bulkhead.cut_interval", SECOND),
        reader.real("bulkhead.latency_quantile"),
        reader.whole("bulkhead.long_window", 600),
        reader.real("bulkhead.rtt_tolerance", 1.5) or 0.0,
        reader.real("bulkhead.headroom", 4.0) or 0.0,
        reader.word("bulkhead.variant", "steady"),
        reader.maybe("bulkhead.queue_target"),
        reader.whole("bulkhead.queue_interval", SECOND // 10),
        reader.word("bulkhead.codel", "facebook"),
        reader.flag("bulkhead.queue_adaptive_lifo"),
        reader.flag("bulkhead.prioritized"),
        reader.name("bulkhead.pool"),
        reader.word("bulkhead.unit", "call") == "attempt",
        reader.maybe("bulkhead.acquire_timeout", SECOND),
    )


def read_breaker(reader: Reader) -> BreakerKeys:
    """5."""
    pause = reader.whole("breaker.break_duration")
    return BreakerKeys(
        reader.real("breaker.failure_ratio"),
        reader.whole("breaker.window", 10 * SECOND),
        reader.whole("breaker.min_throughput", 1),
        reader.word("breaker.window_kind", "sliding"),
        reader.maybe("breaker.consecutive"),
        pause,
        reader.real("breaker.break_factor", 2.0) or 0.0,
        reader.whole("breaker.max_break_duration", 10 * pause),
        reader.whole("breaker.half_open_max_calls", 1),
        reader.whole("breaker.successes_to_close", 1),
        reader.names("breaker.failure_on", keys.COUNT_ON),
        reader.names("breaker.ignore_on", keys.COUNT_ON),
        reader.word("breaker.unit", "call") == "attempt",
    )


def read_throttle(reader: Reader) -> ThrottleKeys:
    """6."""
    return ThrottleKeys(
        reader.real("throttle.k", 2.0) or 0.0,
        reader.whole("throttle.window", 120 * SECOND),
        reader.word("throttle.window_kind", "sliding"),
        reader.whole("throttle.min_throughput", 10),
        reader.real("throttle.max_reject", 0.9),
        reader.maybe("throttle.probe_interval", SECOND),
        reader.flag("throttle.prioritized"),
        reader.word("throttle.unit", "call") == "attempt",
    )


def read_hedge(reader: Reader) -> Hedge:
    """8."""
    return Hedge(
        reader.whole("hedge.delay"),
        reader.whole("hedge.max_attempts", 2),
        reader.real("hedge.adaptive_delay_quantile"),
        reader.maybe("hedge.delay_min"),
        reader.maybe("hedge.delay_max"),
        reader.budget("hedge.budget."),
    )


def read_retry(policy: Policy, reader: Reader) -> None:
    """2."""
    base = reader.whole("retry.backoff.base", 100_000)
    policy.backoff = Backoff(
        reader.word("retry.backoff.kind", "exponential"),
        base,
        reader.real("retry.backoff.multiplier", 2.0) or 0.0,
        reader.whole("retry.backoff.exponent", 1),
        reader.whole("retry.backoff.max", 5 * SECOND),
        reader.word("retry.backoff.jitter", "full_floor"),
        reader.real("retry.backoff.jitter_ratio", 0.0) or 0.0,
    )
    policy.throttled_base = reader.whole("retry.backoff.throttled_base", base)
    policy.max_retry_after = reader.whole("retry.max_retry_after", policy.backoff.max)
    policy.time_limit = reader.maybe("retry.retry_time_limit")
    policy.respect = reader.flag("retry.respect_retry_after", True)
    policy.mode = reader.word("retry.retry_after", "floor")
    policy.hold = reader.flag("retry.hold")
    policy.max_held = reader.whole("retry.max_held", 200)
    policy.send_rate = reader.word("retry.send_rate", "none") == "cubic"
    if "retry.statuses" in reader.lists:
        policy.statuses = tuple(int(float(value)) for value in reader.lists["retry.statuses"])
    if "retry.throttled_statuses" in reader.lists:
        policy.throttled_statuses = tuple(
            int(float(value)) for value in reader.lists["retry.throttled_statuses"]
        )
    policy.read_errors = reader.flag("retry.read_errors")
    if "retry.retry_on" in reader.lists:  # "`retry_on` … override by kind"
        policy.retry_on = reader.names("retry.retry_on", keys.RETRY_ON)
    policy.failover_on = reader.names("retry.failover_on", keys.COUNT_ON)
    if "retry.methods" in reader.lists:
        policy.methods = tuple(str(value) for value in reader.lists["retry.methods"])
    if reader.has("retry"):  # "a policy without one makes one attempt"
        policy.max_attempts = reader.whole("retry.max_attempts", 3)
        policy.budget = reader.budget("retry.budget.")
        policy.budget_pool = reader.name("retry.budget.pool")


def refuse_fleet(what: str, pairs: list[Pair]) -> None:
    """Raises for the first key of the fleet's, whatever its value."""
    for key, value in pairs:
        if key in keys.FLEET:
            rule = "the model has no fleet (spec 10); core/tests/fleet_*.rs have"
            raise NotModelled(f"{what}: {key} = {value!r}: {rule}")


def reads_errors(pairs: list[Pair]) -> bool:
    """Does a policy of these pairs, and of their preset, read why an answer failed?"""
    given = dict(pairs)
    usual = dict(PRESETS.get(str(given.get("preset")), [])).get("retry.read_errors", 0)
    return given.get("retry.read_errors", usual) == 1


def all_kinds(declared: dict[str, str], read: bool) -> dict[str, str]:
    """15.5: the kinds of a policy that reads errors are its own, then those that it does not declare."""
    more = {name: "permanent" for name in keys.READ_KINDS if read and name not in declared}
    return {**declared, **more}


def sort_out(pairs: list[Pair]) -> tuple[Reader, list[str]]:
    """What is given, on top of the preset, and the keys that are wrong by themselves."""
    named = [keys.declared(value) for key, value in pairs if key == "kinds"]
    kinds = dict(kind for kind in named if kind is not None)
    least = len(named) - len(kinds)
    kinds = all_kinds(kinds, reads_errors(pairs))
    wrong = [key for key, value in pairs if key not in keys.KNOWN or not keys.allowed(key, value, kinds)]
    if len(kinds) > keys.KINDS or least > 0:
        wrong.append("kinds")
    lists: dict[str, list[Value]] = {}
    given: Given = {}
    for key, value in pairs:
        if key in keys.LISTS:
            lists.setdefault(key, []).append(value)
        elif key in given:
            wrong.append(key)
        else:
            given[key] = value
    # a pool takes the place of what the preset has of it; only what is given beside it is wrong
    pools = [table for table in check.POOLED if f"{table}.pool" in given]
    pooled = {f"{table}.{key}" for table in pools for key in check.POOLED[table]}
    limits = "rate_limit.limits" in lists
    preset = [
        (key, value)
        for key, value in PRESETS.get(str(given.get("preset")), [])
        if key not in pooled and not check.gives_way(key, given, limits)
    ]
    for key in keys.LISTS:
        found = [value for name, value in preset if name == key]
        if found and key not in lists:
            lists[key] = found
    both = {**{key: value for key, value in preset if key not in keys.LISTS}, **given}
    for table, usual in (("retry.budget", "earned"), ("hedge.budget", "shared")):
        # 2.20: "keys that only a window has make it one where the policy names no kind"
        windowed = any(f"{table}.{key}" in given for key in WINDOWS)
        own = f"{table}.kind" in given or f"{table}.pool" in given
        if windowed and not own and both.get(f"{table}.kind", usual) == usual:
            both[f"{table}.kind"] = "window"
    return Reader(both, lists), wrong


def build(name: str, pairs: list[Pair]) -> Policy | list[str]:
    """The policy of these pairs, or the keys that are wrong, sorted (0.3: "all errors are … at once").

    Raises:
        NotModelled: If it is of a fleet.
    """
    refuse_fleet(f"policy {name}", pairs)
    reader, wrong = sort_out(pairs)
    both = reader.given
    if not wrong and all(key in NO_COMPONENT for key, _ in pairs):  # "an empty policy is an error"
        wrong.append("policy")
    every = {**both, **dict.fromkeys(reader.lists, 0)}
    wrong += check.needs(every) + check.exclusions(every)
    wrong += [key for key in check.relations(both) if key not in wrong]
    limits, shares = (reader.lists.get(f"rate_limit.{key}", []) for key in ("limits", "shares"))
    wrong += check.sets(limits, both) + check.order(limits, shares, both, pool=False)
    shared = set(reader.lists.get("breaker.failure_on", [])) & set(reader.lists.get("breaker.ignore_on", []))
    if shared:
        wrong.append("breaker.ignore_on")
    # 0.7: "at most 5 attempts"
    if both.get("preset") == "grpc" and both.get("retry.max_attempts", 5) in range(6, 256):
        wrong.append("retry.max_attempts")
    if wrong:
        return sorted(set(wrong))

    policy = Policy(name, reader.maybe("deadline"), reader.maybe("attempt_timeout"))
    policy.slot_until_body = reader.word("slot_until", "body") == "body"
    policy.first_byte_timeout = reader.maybe("first_byte_timeout")
    policy.idle_timeout = reader.maybe("idle_timeout")
    policy.until_delivery = reader.word("deadline_until", "body") == "delivery"
    policy.kinds = dict(kind for kind in map(keys.declared, reader.lists.get("kinds", [])) if kind)
    read_retry(policy, reader)
    policy.kinds = all_kinds(policy.kinds, policy.read_errors)
    policy.cooldown = read_cooldown(policy, reader) if reader.has("cooldown") else None
    policy.rate = read_rate(reader) if reader.has("rate_limit") else None
    policy.bulkhead = read_bulkhead(reader) if reader.has("bulkhead") else None
    policy.breaker = read_breaker(reader) if reader.has("breaker") else None
    policy.throttle = read_throttle(reader) if reader.has("throttle") else None
    policy.hedge = read_hedge(reader) if reader.has("hedge") else None
    policy.targets = reader.name("targets")
    return policy


def build_pool(name: str, kind: str, pairs: list[Pair]) -> Pool | list[str]:
    """A pool's keys are those of its kind that policies that name it may not have (0.4).

    Raises:
        NotModelled: If it is of a fleet.
    """
    if kind == "targets":
        refuse_fleet(f"targets {name}", pairs)
        group = groups.read(name, pairs)
        if not isinstance(group, groups.Keys):
            return group
        empty = Reader({}, {})
        return Pool(name, kind, {}, read_rate(empty), read_bulkhead(empty), group)
    table = {"budget": "retry.budget", "rate_limit": "rate_limit", "bulkhead": "bulkhead"}[kind]
    pairs = [(f"{table}.{key}", value) for key, value in pairs]  # its keys stand without their table
    refuse_fleet(f"pool {name}", pairs)
    reader, wrong = sort_out(pairs)
    own = [f"{table}.{key}" for key in check.POOLED[table]]
    wrong += [key for key, _ in pairs if key not in own]
    every = {**reader.given, **dict.fromkeys(reader.lists, 0)}
    wrong += check.needs({**every, **({f"{table}.": 0} if kind != "budget" else {})})
    limits, shares = (reader.lists.get(f"rate_limit.{key}", []) for key in ("limits", "shares"))
    wrong += check.sets(limits, reader.given) + check.order(limits, shares, reader.given, pool=True)
    if not wrong:
        wrong += check.relations(reader.given)
    if wrong:
        return sorted(set(wrong))
    return Pool(name, kind, reader.budget("retry.budget."), read_rate(reader), read_bulkhead(reader))
