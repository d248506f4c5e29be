"""The fleet's host where servers are several: a cluster of three nodes, and a primary behind Sentinel."""

from __future__ import annotations

import asyncio
import importlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tidegate
from fleet_tools import (
    PATIENT,
    SLACK,
    WAITS,
    closed_behind_commands,
    isolated,
    limited,
    passes,
    redis,
    spent,
    trip,
    until,
    valkey,
)
from redis_server import Cluster, Sentinel, redis_cluster, redis_sentinel
from tidegate.fleet import RedisStore

__all__ = ["redis_cluster", "redis_sentinel"]

LIBRARIES = ["redis", *(["valkey"] if valkey is not None else [])]
KINDS = [f"{library}{colour}" for library in LIBRARIES for colour in ("", "-asyncio")]


def _of(kind: str, module: str = "") -> Any:
    """A module of a library, of its half."""
    library, _, colour = kind.partition("-")
    return importlib.import_module(".".join(filter(None, [library, colour, module])))


# Clusters.


@contextmanager
def _clustered(kind: str, port: int, namespace: str, **more: Any) -> Iterator[RedisStore]:
    """A store over a cluster's client, which is used as it is; closed on the loop that it was used on."""
    library = kind.split("-")[0]
    module = _of(kind)
    never = _of(kind, "retry").Retry(importlib.import_module(f"{library}.backoff").NoBackoff(), 0)
    made = module.RedisCluster if library == "redis" else module.ValkeyCluster
    client = made(host="127.0.0.1", port=port, socket_timeout=PATIENT, retry=never)
    store = RedisStore(client, namespace=namespace, **more)
    try:
        yield store
    finally:  # what a failed test leaves open, a later one would be blamed for
        store.close()
        closed_behind_commands(client.aclose if kind.endswith("asyncio") else client.close)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_routes_each_decision_to_its_node(redis_cluster: Cluster, kind: str) -> None:
    """Both keys of a script are in one slot; routes are spread; a node that lost the scripts gets them."""
    with _clustered(kind, redis_cluster.port, f"rate-{kind}") as store:
        engines = [tidegate.Engine(seed=seed, store=store) for seed in (1, 2)]
        told: list[str] = []
        for engine in engines:
            engine.on_event(lambda record: told.append(record.type), types=["store_degraded"])
        policies = [limited(engine, 20, PATIENT, lease=1) for engine in engines]
        for route in range(12):
            callers = [policy.at(route=f"tenant {route}") for policy in policies]
            made, began = 0, time.monotonic()
            for number in range(60):
                try:
                    made += 1 + callers[number % 2].call(int)
                except tidegate.RateLimited:
                    pass
            flowed = 20 * (time.monotonic() - began)
            assert 20 <= made <= 20 + flowed + 2, "a burst for both together, and what flowed in"
            if route == 6:
                redis_cluster.nodes[1].command("SCRIPT", "FLUSH")
        assert told == []
        keys = [node.command("KEYS", f"rate-{kind}:*") for node in redis_cluster.nodes]
        assert all(b"tenant" in found for found in keys), "every node has had work"


@pytest.mark.parametrize("kind", KINDS)
def test_a_break_and_slots_are_a_cluster_s_too(redis_cluster: Cluster, kind: str) -> None:
    with _clustered(kind, redis_cluster.port, f"slots-{kind}") as store:
        one, two, three = (
            isolated(tidegate.Engine(seed=seed, store=store), 2, max_queue=0, acquire_timeout=0)
            for seed in (1, 2, 3)
        )
        with one.bulkhead(), two.bulkhead(), pytest.raises(tidegate.BulkheadFull):
            three.call(int)
        here, there = (
            tidegate.Policy(
                "broken",
                breaker={"consecutive": 3, "break_duration": 5, "store": "fleet"},
                store_timeout=PATIENT,
                engine=policy.engine,
            )
            for policy in (one, two)
        )
        assert there.call(int) == 0
        trip(here)
        until(lambda: not passes(there), 3.0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_without_scripts(redis_cluster: Cluster, kind: str) -> None:
    with _clustered(kind, redis_cluster.port, f"plain-{kind}", scripts=False) as store:
        engines = [tidegate.Engine(seed=seed, store=store) for seed in (1, 2)]
        told: list[str] = []
        for engine in engines:
            engine.on_event(lambda record: told.append(record.type), types=["store_degraded"])
        began = time.monotonic()
        made, longest = spent([limited(engine, 100, PATIENT, lease=5) for engine in engines], 1.2)
        assert made >= min(100, 1.2 / longest - 2), "as many as the machine could ask for"
        assert made <= 100 * (time.monotonic() - began) + 200 + 10, "and two bursts"
        assert told == []


def test_a_node_that_stands_still_holds_up_no_call(redis_cluster: Cluster) -> None:
    """The client's own timeout is two seconds: the store's thread waits for it, and calls do not."""
    with _clustered("redis", redis_cluster.port, "still") as store:
        engine = tidegate.Engine(seed=1, store=store, logs=False)
        policy = limited(engine, 50, WAITS)
        routes = [policy.at(route=f"tenant {route}") for route in range(6)]
        assert [caller.call(int) for caller in routes] == [0] * 6
        for node in redis_cluster.nodes:
            node.pause()
        longest = 0.0
        try:
            for caller in routes * 30:
                began = time.monotonic()
                caller.call(int)
                longest = max(longest, time.monotonic() - began)
                time.sleep(0.005)
        finally:
            for node in redis_cluster.nodes:
                node.go_on()
        assert longest < WAITS + SLACK


# Sentinel.


def _behind(kind: str, sentinel: Sentinel, port: int | None = None, **more: Any) -> Any:
    found = [("127.0.0.1", sentinel.port if port is None else port)]
    return _of(kind, "sentinel").Sentinel(found, **more).master_for(sentinel.NAME)


@pytest.mark.parametrize("kind", KINDS)
def test_a_failover_is_followed(redis_sentinel: Sentinel, kind: str) -> None:
    client = _behind(kind, redis_sentinel)
    store = RedisStore(client)
    engine = tidegate.Engine(seed=1, store=store)
    told: list[str] = []
    engine.on_event(lambda record: told.append(record.type), types=["store_degraded", "store_recovered"])
    policy = limited(engine, 200, PATIENT)
    spent([policy], 0.2)
    assert told == []
    policy.retune(rate_limit={"permits": 200, "per": 1, "burst": 200, "store": "fleet"}, store_timeout=0.2)
    assert b":rl" in redis_sentinel.primary.command("KEYS", "*")
    redis_sentinel.primary.kill()
    made, longest = spent([policy], 0.5)
    assert made >= 50, "its own share"
    assert longest < 0.2 + SLACK
    assert told == ["store_degraded"]
    replica = redis_sentinel.replica
    assert replica is not None
    until(lambda: spent([policy], 0.05)[1] >= 0 and "store_recovered" in told, 30.0)
    assert b"role:master" in replica.command("INFO", "replication")
    spent([policy], 0.2)
    assert b":rl" in replica.command("KEYS", "*")
    store.close()


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_client_that_belongs_to_a_loop_stays_there(redis_sentinel: Sentinel, library: str) -> None:
    """Neither its connections nor those to the sentinels are used from the store's thread."""
    client = _behind(f"{library}-asyncio", redis_sentinel)
    manager = client.connection_pool.sentinel_manager

    async def main() -> None:
        assert await client.set("mine", "1")
        store = RedisStore(client)
        policy = limited(tidegate.Engine(seed=1, store=store), 1_000, PATIENT, lease=1)
        for _ in range(20):
            assert await policy.acall(_zero) == 0
        assert await client.get("mine") == b"1"
        assert redis_sentinel.primary.clients() >= 2, "the store's own"
        store.close()
        await client.aclose()
        await client.connection_pool.disconnect()
        for one in manager.sentinels:
            await one.aclose()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


async def _zero() -> int:
    return 0


def test_connections_to_sentinels_are_closed_with_the_store(redis_sentinel: Sentinel) -> None:
    client = _behind("redis", redis_sentinel)
    before = redis_sentinel.clients()
    store = RedisStore(client)
    assert store.carry([b"PTTL", b"k"], 1, PATIENT) == b"-2"
    assert redis_sentinel.clients() > before
    store.close()
    until(lambda: redis_sentinel.clients() == before)
    assert client.ping(), "the given client is as it was"
    client.connection_pool.disconnect()
    for one in client.connection_pool.sentinel_manager.sentinels:
        one.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentinel_that_stands_still_holds_the_thread_for_a_second_and_no_call(
    redis_sentinel: Sentinel, kind: str
) -> None:
    """Also where the given manager has no timeout of its own."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        client = _behind(kind, redis_sentinel, deaf.getsockname()[1])
        store = RedisStore(client)
        took: list[float] = []

        def asks() -> None:
            began = time.monotonic()
            with pytest.raises(Exception, match="No master found"):
                store.carry([b"PTTL", b"k"], 1, WAITS)
            took.append(time.monotonic() - began)

        thread = threading.Thread(target=asks, daemon=True)
        thread.start()
        thread.join(10)
        assert took, "it waits for ever"
        assert took[0] < 1 + SLACK
        began = time.monotonic()
        engine = tidegate.Engine(seed=1, store=store, logs=False)
        assert limited(engine, 50, WAITS).call(int) == 0
        assert time.monotonic() - began < WAITS + SLACK
        store.close()


def test_tls_behind_sentinel_stays_tls() -> None:
    """The class of its connections is what says so."""
    for kind in KINDS:
        module = _of(kind, "sentinel")
        client = module.Sentinel([("127.0.0.1", 1)], ssl=True, ssl_ca_certs="ca.pem").master_for("shop")
        assert client.connection_pool.connection_class is module.SentinelManagedSSLConnection
        store = RedisStore(client)
        pool = store._own[WAITS].connection_pool
        ours = importlib.import_module(f"{kind.split('-')[0]}.sentinel")
        assert pool.connection_class is ours.SentinelManagedSSLConnection
        assert pool.connection_kwargs["ssl_ca_certs"] == "ca.pem"
        assert pool.connection_kwargs["socket_timeout"] == WAITS


def test_a_manager_of_ones_own_class_stays_one(redis_sentinel: Sentinel) -> None:
    asked: list[str] = []

    class Mine(redis.sentinel.Sentinel):  # type: ignore[misc,name-defined]
        def discover_master(self, service_name: str) -> Any:
            asked.append(service_name)
            return super().discover_master("shop")

    client = Mine([("127.0.0.1", redis_sentinel.port)]).master_for("by another name")
    store = RedisStore(client)
    assert store.carry([b"PTTL", b"k"], 1, PATIENT) == b"-2"
    assert asked == ["by another name"]
    store.close()
