"""Routes and the components of a route or a pool, made of a policy's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cooldown as cooling
import targets
from breaker import Breaker
from breaker import Settings as BreakerSettings
from call import Ledger, Route
from cubic import Cubic
from holds import Holds
from policy import Policy, new_budget
from quantile import WindowedP2
from queues import Permits
from rates import RateBucket, Tokens
from routes import OVERFLOW
from sets import Limits
from throttle import Settings as ThrottleSettings
from throttle import Throttle

if TYPE_CHECKING:
    from engine import Engine

LATENCIES = 512
"""The window of the adaptive delay's quantile (8.2)."""


def new_rate(permits: int, per: int, burst: int, now: int) -> Tokens:
    """3.1: "the bucket starts full"."""
    return Tokens(RateBucket(permits, per, burst, now), burst)


def new_breaker(policy: Policy) -> Breaker:
    """5; a probe's lease is "its attempt timeout and one second", else `break_duration`."""
    b = policy.breaker
    assert b is not None
    lease = b.break_duration if policy.attempt_timeout is None else policy.attempt_timeout + 1_000_000
    return Breaker(
        BreakerSettings(
            failure_ratio=b.failure_ratio,
            window=b.window,
            min_throughput=b.min_throughput,
            window_kind=b.window_kind,
            consecutive=b.consecutive,
            break_duration=b.break_duration,
            break_factor=b.break_factor,
            max_break_duration=b.max_break_duration,
            half_open_max_calls=b.half_open_max_calls,
            successes_to_close=b.successes_to_close,
            probe_lease=lease,
        )
    )


def new_route(engine: Engine, policy: Policy, key: str, now: int) -> Route:
    """State per (policy, key), and what its pools share."""
    hedge, retries = policy.hedge, policy.max_attempts > 1
    # "shared" is the retry budget, with the settings that it has there, retries or none
    one_budget = hedge is not None and hedge.budget.get("kind", "shared") == "shared"
    most = policy.max_attempts if retries or hedge is None else hedge.max_attempts
    ledger = Ledger(new_budget(policy.budget or {}, retries or one_budget, most))
    if policy.budget_pool is not None:
        ledger = shared(engine, policy.budget_pool, now)
    hedge_ledger = ledger
    if hedge is not None and not one_budget:
        hedge_ledger = Ledger(new_budget(hedge.budget, True, hedge.max_attempts))
    route = Route(policy, key, ledger, hedge_ledger)
    route.is_forced = lambda: engine.forced(route)
    if policy.rate is not None:
        pool = policy.rate.pool
        keys = policy.rate
        if pool:
            route.rate = shared(engine, pool, now)
        elif keys.limits:
            route.rate = route.own_rate = Limits(keys, now, engine.wall)
        else:
            bucket = RateBucket(keys.permits, keys.per, keys.burst, now)
            route.rate, route.own_rate = Tokens(bucket, keys.burst), bucket.exact
    if policy.bulkhead is not None:
        pool = policy.bulkhead.pool
        route.permits = shared(engine, pool, now) if pool else Permits(policy.bulkhead, now)
    # 0.5: an overflow route has nothing that refuses one key's calls because of another's failures
    guarded = key != OVERFLOW
    if policy.breaker is not None and guarded:
        route.breaker = new_breaker(policy)
    if policy.throttle is not None and guarded:
        t = policy.throttle
        settings = ThrottleSettings(
            t.k, t.window, t.window_kind, t.min_throughput, t.max_reject, t.probe_interval
        )
        route.throttle = Throttle(settings, now)
    if policy.targets is not None:
        route.group = shared(engine, policy.targets, now)
    route.send = Tokens(Cubic(now), None, restless=True) if policy.send_rate else None
    if policy.cooldown is not None and guarded:
        route.cooldown = cooling.Cooldown(policy.cooldown)
    route.holds = Holds() if policy.hold and guarded else None
    if hedge is not None and hedge.quantile is not None:
        route.latencies = WindowedP2(hedge.quantile, LATENCIES)
    return route


def shared(engine: Engine, name: str, now: int) -> Any:
    """As written: "A pool is the component itself, shared"."""
    if name not in engine.pooled:
        pool = engine.pools[name]
        if pool.kind == "budget":
            engine.pooled[name] = Ledger(new_budget(pool.budget))
        elif pool.kind == "rate_limit":
            keys = pool.rate
            single = new_rate(keys.permits, keys.per, keys.burst, now)
            engine.pooled[name] = Limits(keys, now, engine.wall) if keys.limits else single
        elif pool.kind == "targets":
            assert pool.group is not None
            engine.pooled[name] = targets.new_group(pool.group, now)
        else:
            engine.pooled[name] = Permits(pool.bulkhead, now)
    return engine.pooled[name]
