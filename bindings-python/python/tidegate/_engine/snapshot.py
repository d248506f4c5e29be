"""What a snapshot says, typed. At run time these are plain dicts."""

from __future__ import annotations

from typing import Literal, TypedDict


class Permits(TypedDict):
    """One bulkhead: `limit` permits (an adaptive limit's present value), `in_flight` of them given out."""

    limit: int
    kind: Literal["fixed", "aimd", "gradient2"]
    in_flight: int
    waiting: int
    max_queue: int


class Tokens(TypedDict):
    """One rate limit: whole `tokens` there are, and calls that wait for some."""

    tokens: int
    waiting: int


class SendRate(TypedDict):
    """One send rate: attempts per second, None before the first throttle; and calls that wait."""

    rate: float | None
    waiting: int


class BreakerView(TypedDict):
    """One circuit breaker. `retry_in` is what is left of the break, in seconds, while it is open."""

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
    """The hedges of a route: the delay in seconds, and what their own budget has left, if they have one."""

    delay: float
    budget: int | None


class HoldView(TypedDict):
    """The holds of a route: calls that are held, and paths and prefixes that are."""

    held: int
    holds: int


class RouteView(TypedDict):
    """One route. A component that the policy does not have is None, and so is one that is in a pool."""

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


class PoolView(TypedDict):
    """One pool that policies share. Of the three components it has the one of its kind."""

    kind: Literal["bulkhead", "rate_limit", "budget"]
    budget: int | None
    pool: Permits | None
    rate: Tokens | None


class Counts(TypedDict):
    """What has happened under a policy: attempts, retries, hedges, and ended calls by verdict."""

    attempts: int
    retries: int
    hedges: int
    ends: dict[str, int]


class PolicySnapshot(Counts):
    """One policy: its counts, and its routes by key."""

    routes: dict[str, RouteView]


class Snapshot(TypedDict):
    """An engine: calls that go on, linger (attempts not reported yet), are lost, wait; and all parts."""

    live: int
    lingering: int
    lost: int
    waiting: int
    route_overflows: int
    route_evictions: int
    path_overflows: int
    policies: dict[str, Counts]
    routes: list[RouteView]
    pools: dict[str, PoolView]
