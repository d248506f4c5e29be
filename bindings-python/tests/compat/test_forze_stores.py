"""Forze's stores: what a fleet shares, by the seed's section "Fleet-wide state"."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import timedelta
from typing import Any

import pytest

import tidegate
from compat.forze_page import OnClock, policy, says
from fleet_tools import redis, until
from redis_server import RedisServer, redis_server
from tidegate.compat import forze
from tidegate.compat.forze import (
    AdaptiveBulkheadStrategy,
    CircuitBreakerStrategy,
    CoreException,
    RateLimitStrategy,
    ResilienceDepsModule,
    ResilienceSpec,
    redis_circuit_breaker_store,
    redis_latency_digest_store,
    redis_rate_limit_store,
)
from tidegate.testing import MemoryStore

__all__ = ["redis_server"]

SECOND = timedelta(seconds=1)
LIMITED = policy("vendor_rl", RateLimitStrategy(permits=20, per=SECOND))
BROKEN = policy(
    "vendor_cb",
    CircuitBreakerStrategy(
        failure_ratio=0.5, min_throughput=4, sampling_window=10 * SECOND, break_duration=5 * SECOND
    ),
)
INFRASTRUCTURE = forze.exc.infrastructure("the vendor is down")


def replica(on: OnClock, engine: tidegate.Engine | None = None, **stores: Any) -> forze.ResilienceExecutor:
    spec = ResilienceSpec(policies={each.name: each for each in (LIMITED, BROKEN)})
    engine = tidegate.Engine(seed=len(stores), clock=on.clock) if engine is None else engine
    module = ResilienceDepsModule(
        spec=spec, engine=engine, on_event=lambda *event: on.events.append(event), **stores
    )
    return module.executor


@says(43)
def test_the_declared_rate_is_the_fleet_s() -> None:
    on = OnClock()
    store = MemoryStore(on.clock)
    replicas = [replica(on, rate_limit_store=redis_rate_limit_store(store)) for _ in range(3)]
    ends = [end for one in replicas for end in on.outcomes(one, "vendor_rl", *range(20))]
    assert ends.count("throttled:rate_limited") == 40
    apart = [replica(on) for _ in range(2)]
    ends = [end for one in apart for end in on.outcomes(one, "vendor_rl", *range(20))]
    assert ends.count("throttled:rate_limited") == 0, "without a store each keeps its own"


@says(43)
def test_one_replica_tripping_opens_the_circuit_for_all() -> None:
    on = OnClock()
    part = redis_circuit_breaker_store(MemoryStore(on.clock))
    here, there = (replica(on, breaker_store=part) for _ in range(2))
    assert on.outcomes(there, "vendor_cb", 1) == [1]
    on.outcomes(here, "vendor_cb", *[INFRASTRUCTURE] * 4)
    on.clock.tick(0.3)
    ends = on.outcomes(there, "vendor_cb", 1, 2, 3)
    assert ends[-1] == "infrastructure:core.infrastructure"
    assert on.events[-1][:2] == ("breaker_open", "vendor_cb")
    on.clock.tick(6)
    assert on.outcomes(here, "vendor_cb", 1) == [1]


@says(44)
def test_on_a_store_s_error_each_replica_goes_on_by_itself() -> None:
    on = OnClock()
    store = MemoryStore(on.clock)
    shared = {
        "rate_limit_store": redis_rate_limit_store(store),
        "breaker_store": redis_circuit_breaker_store(store),
    }
    one = replica(on, **shared)
    assert on.outcomes(one, "vendor_rl", 1) == [1]
    store.up = False
    on.clock.tick(2)
    ends = on.outcomes(one, "vendor_rl", *range(25))
    assert 20 <= sum(isinstance(end, int) for end in ends) <= 21, "no call fails for the store's sake"
    assert on.outcomes(one, "vendor_cb", 7) == [7]
    degraded = [event for event in on.events if event[0].endswith("_degraded")]
    assert degraded == [
        ("rate_limit_store_degraded", "vendor_rl", None),
        ("breaker_store_degraded", "vendor_cb", None),
    ]


@says(43)
def test_a_latency_quantile_is_the_fleet_s() -> None:
    """Only of adaptive bulkheads that have one; capacity stays each process's own."""
    on = OnClock()
    store = MemoryStore(on.clock)
    adaptive = policy(
        "vendor_db",
        AdaptiveBulkheadStrategy(
            max_concurrency=10, latency_threshold=timedelta(milliseconds=100), latency_quantile=0.9
        ),
    )
    spec = ResilienceSpec(policies={"vendor_db": adaptive})
    slow, quick = (
        ResilienceDepsModule(
            spec=spec,
            engine=tidegate.Engine(seed=seed, clock=on.clock),
            latency_digest_store=redis_latency_digest_store(store),
        ).executor
        for seed in (1, 2)
    )

    async def takes(seconds: float) -> None:
        on.clock.tick(seconds)

    async def main() -> None:
        for _ in range(60):
            await slow.run(lambda: takes(0.11), policy="vendor_db")
            for _ in range(2):
                await quick.run(lambda: takes(0.001), policy="vendor_db")

    asyncio.run(main())
    limits = [one.inspect(policy="vendor_db")[0].concurrency_limit for one in (slow, quick)]
    assert all(limit is not None and limit < 10 for limit in limits)


def test_a_retune_stays_with_the_fleet() -> None:
    on = OnClock()
    store = MemoryStore(on.clock)
    one = replica(on, rate_limit_store=redis_rate_limit_store(store))
    one.retune(policy("vendor_rl", RateLimitStrategy(permits=40, per=SECOND)))
    ends = on.outcomes(one, "vendor_rl", *range(60))
    assert 20 <= sum(isinstance(end, int) for end in ends) <= 40
    assert store.commands > 0


@pytest.mark.parametrize("part", ["breaker_store", "rate_limit_store", "latency_digest_store"])
def test_what_is_no_store_is_refused_and_not_ignored(part: str) -> None:
    with pytest.raises(CoreException, match=f"{part} = 'redis': must be made by redis_") as caught:
        ResilienceDepsModule(**{part: "redis"})
    assert caught.value.kind == "configuration"


def test_stores_are_of_one_client_and_their_own_part() -> None:
    one, two = MemoryStore(), MemoryStore()
    with pytest.raises(CoreException, match=r"rate_limit_store = .*must be of the same client and namespace"):
        ResilienceDepsModule(
            breaker_store=redis_circuit_breaker_store(one), rate_limit_store=redis_rate_limit_store(two)
        )
    with pytest.raises(CoreException, match=r"breaker_store = .*must be made by redis_circuit_breaker_store"):
        ResilienceDepsModule(breaker_store=redis_rate_limit_store(one))
    with pytest.raises(CoreException, match=r"rate_limit_store: client = 3: must be a client of redis-py"):
        ResilienceDepsModule(rate_limit_store=redis_rate_limit_store(3))
    engine = tidegate.Engine(store=one)
    with pytest.raises(CoreException, match=r"rate_limit_store: .*has a store already"):
        ResilienceDepsModule(rate_limit_store=redis_rate_limit_store(two), engine=engine)
    assert ResilienceDepsModule(rate_limit_store=redis_rate_limit_store(one), engine=engine).executor
    with pytest.raises(ValueError, match="local_cache_ttl"):
        redis_latency_digest_store(one, local_cache_ttl=-1)


def test_on_a_real_server(redis_server: RedisServer) -> None:
    client = redis.asyncio.Redis(port=redis_server.port)
    on = OnClock()
    replicas = [
        replica(on, tidegate.Engine(seed=seed), rate_limit_store=redis_rate_limit_store(client))
        for seed in (1, 2)
    ]

    async def work() -> int:
        return 1

    async def main() -> int:
        made = 0
        until = time.monotonic() + 1
        while time.monotonic() < until:
            for one in replicas:
                try:
                    made += await one.run(work, policy="vendor_rl")
                except CoreException:
                    await asyncio.sleep(0.002)
        return made

    assert 20 <= asyncio.run(main()) <= 50
    links = [one.engine.link for one in replicas]
    assert links[0] is not None
    assert links[1] is not None
    assert links[0].carrier is links[1].carrier, "one client, one set of connections"


@says(43)
def test_one_replica_tripping_opens_the_circuit_for_all_on_a_real_server(redis_server: RedisServer) -> None:
    part = redis_circuit_breaker_store(redis.asyncio.Redis(port=redis_server.port), namespace="vendors")
    on = OnClock()
    here, there = (replica(on, tidegate.Engine(seed=seed), breaker_store=part) for seed in (1, 2))

    async def works() -> int:
        return 1

    async def fails() -> int:
        raise forze.exc.infrastructure("the vendor is down")  # one that is kept would keep the replicas

    async def refused() -> bool:
        try:
            await there.run(works, policy="vendor_cb")
        except CoreException:
            return True
        return False

    async def main() -> None:
        assert not await refused()
        for _ in range(4):
            with pytest.raises(CoreException):
                await here.run(fails, policy="vendor_cb")
        end = time.monotonic() + 5
        while not await refused():
            assert time.monotonic() < end, "it has seen no failure itself, and hears of none"
            with contextlib.suppress(CoreException):
                await here.run(
                    works, policy="vendor_cb"
                )  # says it again, where the store was too slow at first
            await asyncio.sleep(0.01)

    asyncio.run(main())
    assert b"vendors:{r|vendor_cb|" in redis_server.command("KEYS", "*")


@says(43)
def test_a_latency_quantile_is_the_fleet_s_on_a_real_server(redis_server: RedisServer) -> None:
    """One replica sees quick answers only, and its limit falls all the same."""
    adaptive = policy(
        "vendor_db",
        AdaptiveBulkheadStrategy(
            max_concurrency=10,
            latency_threshold=timedelta(milliseconds=10),
            latency_quantile=0.9,
            cooldown=timedelta(milliseconds=100),
        ),
    )
    client = redis.Redis(port=redis_server.port)
    slow, quick = (
        ResilienceDepsModule(
            spec=ResilienceSpec(policies={"vendor_db": adaptive}),
            engine=tidegate.Engine(seed=seed),
            latency_digest_store=redis_latency_digest_store(client, local_cache_ttl=0.02),
        ).executor
        for seed in (1, 2)
    )

    async def takes(seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def fell() -> bool:
        # Three slow ones for each quick one, so that the quantile is theirs. Their own limit falls first, and
        # may refuse one of them before the other replica hears of it.
        runs = (slow.run(lambda: takes(0.03), policy="vendor_db") for _ in range(3))
        for end in await asyncio.gather(*runs, return_exceptions=True):
            assert end is None or (isinstance(end, CoreException) and "Bulkhead full" in str(end))
        await quick.run(lambda: takes(0), policy="vendor_db")
        limit = quick.inspect(policy="vendor_db")[0].concurrency_limit
        return limit is not None and limit < 10

    async def main() -> None:
        end = time.monotonic() + 15
        while not await fell():
            assert time.monotonic() < end, "its own answers were quick, and it hears of no others"

    asyncio.run(main())
    until(lambda: redis_server.command("KEYS", "*:dd:*") != b"*0\r\n")
