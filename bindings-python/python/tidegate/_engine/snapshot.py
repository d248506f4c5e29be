"""Types of a snapshot's parts. At run time these are plain dicts."""

from __future__ import annotations

from typing import Literal, TypedDict


class Permits(TypedDict):
    """One bulkhead: `limit` permits (the current value if adaptive), of which `in_flight` are held."""

    limit: int
    kind: Literal["fixed", "aimd", "gradient2"]
    in_flight: int
    waiting: int
    max_queue: int


class LimitView(TypedDict):
    """One limit of a set.

    `weight` is what it counts, None for calls. `tokens` is what is left, below 0 while the limit is in debt.
    `reserved`, `settled` and `forgiven` are totals so far: what attempts reserved, what they used, and what
    they used beyond the largest debt.
    """

    weight: str | None
    tokens: int
    burst: int
    reserved: int
    settled: int
    forgiven: int


class Tokens(TypedDict):
    """One rate limit: whole `tokens` available, the number of waiting calls, and a set's `limits` by name."""

    tokens: int
    waiting: int
    limits: dict[str, LimitView]


class SendRate(TypedDict):
    """One send rate: attempts per second, None before the first throttle; and the number of waiting calls."""

    rate: float | None
    waiting: int


class BreakerView(TypedDict):
    """One circuit breaker. While it is open, `retry_in` is the rest of the break in seconds."""

    state: Literal["closed", "open", "half_open"]
    failures: int
    throughput: int
    retry_in: float | None


class ThrottleView(TypedDict):
    """One adaptive throttle: calls in its window, those accepted, and the probability of a refusal now."""

    requests: int
    accepts: int
    probability: float


class HedgeView(TypedDict):
    """The hedges of a route: the delay in seconds, and the rest of their own budget, None without one."""

    delay: float
    budget: int | None


class HoldView(TypedDict):
    """The holds of a route: number of held calls, and number of held paths and prefixes."""

    held: int
    holds: int


class CooldownView(TypedDict):
    """The cooldown of a route: seconds left of a closing, places while it reopens, and waiting calls."""

    state: Literal["open", "closed", "reopening"]
    retry_in: float | None
    places: int
    taken: int
    waiting: int


class RouteView(TypedDict):
    """One route. A component is None if the policy does not have it, or if it is in a pool."""

    policy: str
    key: str
    active: int
    forced: bool
    budget: int | None
    pool: Permits | None
    rate: Tokens | None
    send: SendRate | None
    breaker: BreakerView | None
    throttle: ThrottleView | None
    hedge: HedgeView | None
    hold: HoldView | None
    cooldown: CooldownView | None


class PoolView(TypedDict):
    """One pool that policies share. Of its three components, only the one of its kind is set."""

    kind: Literal["bulkhead", "rate_limit", "budget"]
    budget: int | None
    pool: Permits | None
    rate: Tokens | None


class TargetView(TypedDict):
    """One target of a group. A component is None if the target does not have it.

    `forced` says whether an operator refuses all attempts at it. `attempts` and `skipped` are totals so far:
    attempts that went to it, and choices in which it did not admit the attempt. `in_flight` attempts have not
    been reported. `estimate` is the moving average of the time to the delivery of an answer in seconds, None
    before the first one.
    """

    group: str
    name: str
    forced: bool
    attempts: int
    skipped: int
    in_flight: int
    estimate: float | None
    pool: Permits | None
    rate: Tokens | None
    breaker: BreakerView | None


class Counts(TypedDict):
    """Counters of a policy: attempts, retries, hedges, and ended calls by verdict."""

    attempts: int
    retries: int
    hedges: int
    ends: dict[str, int]


class PolicySnapshot(Counts):
    """One policy: its counts, and its routes by key."""

    routes: dict[str, RouteView]


class Snapshot(TypedDict):
    """An engine: its parts, and how many calls run, linger (attempts not yet reported), are lost, or wait.

    `targets` has the targets of all groups, in the order of the groups' names and of their members.
    `late_settlements` came after the end of their attempt.
    """

    live: int
    lingering: int
    lost: int
    waiting: int
    route_overflows: int
    route_evictions: int
    path_overflows: int
    late_settlements: int
    policies: dict[str, Counts]
    routes: list[RouteView]
    pools: dict[str, PoolView]
    targets: list[TargetView]
