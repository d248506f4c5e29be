"""`scripts=False`: the fleet on a server that forbids Lua, over the clients that people have."""

from __future__ import annotations

import time

import pytest

import tidegate
from fleet_tools import CLIENTS, PATIENT, broken, isolated, limited, passes, spent, trip, until
from redis_server import RedisServer, redis_without_scripts
from tidegate import fleet
from tidegate.fleet import RedisStore, Refused
from tidegate.testing import FakeClock, MemoryStore

__all__ = ["redis_without_scripts"]


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_rate_is_kept_by_windows(redis_without_scripts: RedisServer, kind: str) -> None:
    server = redis_without_scripts
    client = CLIENTS[kind](server.port)
    stores = [RedisStore(client, namespace="shop", scripts=False) for _ in range(2)]
    with pytest.raises(Refused, match="ERR unknown command"):
        stores[0].carry([b"EVAL", b"return 1", b"0"], 1, PATIENT)
    engines = [tidegate.Engine(seed=seed, store=store) for seed, store in enumerate(stores)]
    told: list[str] = []
    for engine in engines:
        engine.on_event(lambda record: told.append(record.type), types=["store_degraded"])
    policies = [limited(engine, 100, PATIENT, lease=5) for engine in engines]
    began = time.monotonic()
    made, longest = spent(policies, 1.3)
    # Any span t spends at most rate · t + 2 bursts and the leases; two windows begin in it at least.
    assert 100 <= made <= 100 * (time.monotonic() - began) + 200 + 10
    assert longest < PATIENT
    assert told == []
    assert b"shop:{r|partner|default}:rw" in server.command("KEYS", "*")
    until(lambda: server.command("DBSIZE") == b":0\r\n", 3.0)  # what is stored ends by itself
    for store in stores:
        store.close()
    if kind == "own-asyncio":
        fleet._loop[0].run_until_complete(client.client.aclose())


@pytest.mark.parametrize("kind", [kind for kind in CLIENTS if not kind.startswith("own")])
def test_a_break_is_everybody_s_until_a_probe_closes_it(
    redis_without_scripts: RedisServer, kind: str
) -> None:
    store = RedisStore(CLIENTS[kind](redis_without_scripts.port), scripts=False)
    here, there = (
        broken(tidegate.Engine(seed=seed, store=store), break_duration=0.4, break_factor=1.0)
        for seed in (1, 2)
    )
    assert there.call(int) == 0
    trip(here)
    with pytest.raises(tidegate.BreakerOpen):
        here.call(int)
    until(lambda: not passes(there), 3.0)
    until(lambda: passes(there), 5.0)
    until(lambda: passes(here), 5.0)
    until(lambda: passes(there) and redis_without_scripts.command("DBSIZE") == b":0\r\n", 5.0)
    store.close()


def test_what_needs_scripts_is_refused_by_name(clock: FakeClock) -> None:
    engine = tidegate.Engine(seed=1, clock=clock, store=MemoryStore(clock, scripts=False))
    with pytest.raises(tidegate.PolicyError, match=r"bulkhead\.store.*scripts"):
        isolated(engine, 3)
    with pytest.raises(tidegate.PolicyError, match=r"breaker\.quorum.*scripts"):
        broken(engine, quorum=2)
    assert limited(engine, 10).call(int) == 0


def test_a_store_that_is_said_to_have_scripts_and_has_none_is_gone(
    redis_without_scripts: RedisServer,
) -> None:
    """Told once, and each call is decided by `on_loss`."""
    store = RedisStore(CLIENTS["redis"](redis_without_scripts.port))
    engine = tidegate.Engine(seed=1, store=store, logs=False)
    told: list[str] = []
    engine.on_event(lambda record: told.append(record.type), types=["store_degraded"])
    began = time.monotonic()
    made, _ = spent([limited(engine, 50, PATIENT)], 0.3)
    assert 50 <= made <= 50 + 50 * (time.monotonic() - began) + 5
    assert told == ["store_degraded"]
    store.close()


@pytest.mark.parametrize("kind", CLIENTS)
def test_every_answer_of_every_plain_command_is_what_the_engine_reads(
    redis_without_scripts: RedisServer, kind: str
) -> None:
    """Clients make other things of some: redis-py says True for the OK of SET and for the 1 of PEXPIRE."""
    client = CLIENTS[kind](redis_without_scripts.port)
    store = RedisStore(client, scripts=False)
    asked = [
        (b"SET k 0 PX 60000 NX", b"OK"),
        (b"SET k 0 PX 60000 NX", b""),
        (b"INCRBY k 5", b"5"),
        (b"PEXPIRE k 1000000", b"1"),
        (b"PEXPIRE none 1000", b"0"),
        (b"PTTL none", b"-2"),
        (b"GET k", b"5"),
        (b"GET none", b""),
        (b"DEL k", b"1"),
        (b"DEL k", b"0"),
    ]
    assert [store.carry(words.split(), 1, PATIENT) for words, _ in asked] == [told for _, told in asked]
    store.close()
    if kind == "own-asyncio":
        fleet._loop[0].run_until_complete(client.client.aclose())
