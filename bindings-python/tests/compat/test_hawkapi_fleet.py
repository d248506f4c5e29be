"""HawkAPI's distributed bulkheads: slots that the processes of a fleet share."""

from __future__ import annotations

import asyncio
import functools
import time
from typing import Any

import pytest

import tidegate
from fleet_tools import PATIENT, redis
from redis_server import RedisServer, redis_server
from tidegate.compat.hawkapi import Bulkhead, BulkheadFullError, LocalBulkheadBackend, RedisBulkheadBackend
from tidegate.fleet import Lost
from tidegate.testing import FakeClock, MemoryStore

__all__ = ["redis_server"]

SENTENCE = 11
"""Of the page that `test_hawkapi_document.py` goes by."""


def processes(
    clock: FakeClock, store: MemoryStore, count: int = 2, **more: Any
) -> list[RedisBulkheadBackend]:
    engines = [tidegate.Engine(seed=seed, clock=clock) for seed in range(count)]
    return [RedisBulkheadBackend(store, engine=engine, **more) for engine in engines]


def test_processes_share_the_slots_of_a_name(clock: FakeClock) -> None:
    here, there = (
        Bulkhead("stripe", limit=2, backend=backend) for backend in processes(clock, MemoryStore(clock))
    )
    with here, there:
        for one in (here, there):
            with pytest.raises(BulkheadFullError) as full, one:
                pass
            assert full.value.limit == 2
    # Both were refused just now, so each still wants slots: one each is their fair part.
    with there, pytest.raises(BulkheadFullError), there:
        pass
    clock.tick(1)  # Nobody wants slots any more.
    with there, there, pytest.raises(BulkheadFullError), here:
        pass
    with here, here:
        pass


def test_slots_come_back_when_they_are_left(clock: FakeClock) -> None:
    store = MemoryStore(clock)
    here, there = (
        Bulkhead("stripe", limit=1, max_wait=5, backend=backend) for backend in processes(clock, store)
    )
    for _ in range(20):
        with here:
            pass
        with there:
            pass
    assert clock.now() < 20


def test_a_holder_that_is_gone_frees_its_slot_after_lease_ttl(clock: FakeClock) -> None:
    store = MemoryStore(clock)
    gone, there = processes(clock, store, lease_ttl=30.0)
    lost = Bulkhead("stripe", limit=1, backend=gone)
    waits = Bulkhead("stripe", limit=1, backend=there)
    lost.__enter__()
    store_of_gone, gone._engine.link = gone._engine.link, None  # type: ignore[union-attr]
    clock.tick(29)
    with pytest.raises(BulkheadFullError), waits:
        pass
    assert asyncio.run(there.reap_expired_leases("stripe")) == 0
    clock.tick(2)
    assert asyncio.run(there.reap_expired_leases("stripe")) == 1
    assert asyncio.run(there.reap_expired_leases("stripe")) == 0
    clock.tick(0.2)
    with waits:
        pass
    gone._engine.link = store_of_gone  # type: ignore[union-attr]
    lost.__exit__(None, None, None)


def test_a_client_that_raises_more_than_an_exception_leaves_nobody_waiting(clock: FakeClock) -> None:
    class Leaving(MemoryStore):
        inline = False
        leaves = False

        def carry(self, words: list[bytes], key: int, seconds: float) -> bytes:
            if self.leaves:
                raise SystemExit(1)
            return super().carry(words, key, seconds)

    store = Leaving(clock)
    backend = RedisBulkheadBackend(store, engine=tidegate.Engine(seed=1, clock=clock))
    Bulkhead("stripe", limit=1, backend=backend)
    store.leaves = True
    with pytest.raises(Lost, match="the store's client has raised SystemExit"):
        asyncio.run(asyncio.wait_for(backend.reap_expired_leases("stripe"), 60))


def test_names_that_are_not_there_are_told() -> None:
    backend = RedisBulkheadBackend(MemoryStore())
    with pytest.raises(ValueError, match="no bulkhead 'stripe' has been made with this backend"):
        asyncio.run(backend.reap_expired_leases("stripe"))
    Bulkhead("stripe", limit=1, backend=backend)
    assert asyncio.run(backend.reap_expired_leases("stripe")) == 0
    with pytest.raises(ValueError, match="already registered with limit=1, got limit=2"):
        Bulkhead("stripe", limit=2, backend=backend)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"lease_ttl": 0.5}, "lease_ttl = 0.5: must be 1 or more"),
        ({"lease_ttl": float("nan")}, "lease_ttl"),
        ({"poll_interval": 0}, "poll_interval = 0: must be more than 0"),
        ({"on_loss": "never"}, "on_loss = 'never': must be local, open or closed"),
    ],
)
def test_arguments_out_of_range_are_named(given: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        RedisBulkheadBackend(MemoryStore(), **given)


def test_what_is_no_client_is_named() -> None:
    with pytest.raises(TypeError, match="client = 'redis': must be a client"):
        RedisBulkheadBackend("redis")
    assert issubclass(RedisBulkheadBackend, LocalBulkheadBackend)


@pytest.mark.parametrize(("on_loss", "entered"), [("local", 1), ("open", 2), ("closed", 0)])
def test_on_loss_says_what_holds(clock: FakeClock, on_loss: str, entered: int) -> None:
    store = MemoryStore(clock)
    here, there = (
        Bulkhead("stripe", limit=2, backend=backend) for backend in processes(clock, store, on_loss=on_loss)
    )
    with here, there:
        pass
    clock.tick(1)
    store.up = False
    clock.tick(1)
    inside: list[Bulkhead] = []
    for _ in range(3):
        try:
            inside.append(here.__enter__())
        except (BulkheadFullError, tidegate.StoreUnavailable):
            pass
    if on_loss != "local":
        assert len(inside) == entered
    else:
        assert 1 <= len(inside) <= 2, "its share of two, as many processes as it has seen"
    for one in inside:
        one.__exit__(None, None, None)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may take as long as a busy machine needs."""
    policy = functools.partial(tidegate.Policy, store_timeout=PATIENT)
    monkeypatch.setattr("tidegate.compat.hawkapi._backend.Policy", policy)


@pytest.mark.usefixtures("patient")
def test_on_a_real_server(redis_server: RedisServer) -> None:
    client = redis.asyncio.Redis(port=redis_server.port)
    backends = [RedisBulkheadBackend(client, engine=tidegate.Engine(seed=seed)) for seed in (1, 2)]
    running = most = 0

    async def enter(one: Bulkhead) -> None:
        nonlocal running, most
        async with one:
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.005)
            running -= 1

    async def main() -> None:
        ones = [Bulkhead("stripe", limit=3, max_wait=30, backend=backend) for backend in backends]
        await asyncio.gather(*(enter(one) for one in ones * 30))
        assert await backends[0].reap_expired_leases("stripe") == 0

    asyncio.run(main())
    assert most == 3
    assert b"hawkapi:bulkhead:" in redis_server.command("KEYS", "*")


@pytest.mark.usefixtures("patient")
def test_expired_leases_are_reaped_on_a_real_server(redis_server: RedisServer) -> None:
    client = redis.asyncio.Redis(port=redis_server.port)
    gone, there = (
        RedisBulkheadBackend(client, lease_ttl=4.0, engine=tidegate.Engine(seed=seed)) for seed in (1, 2)
    )
    lost = Bulkhead("stripe", limit=1, backend=gone)
    waits = Bulkhead("stripe", limit=1, max_wait=0.3, backend=there)
    lost.__enter__()
    link, gone._engine.link = gone._engine.link, None  # type: ignore[union-attr]
    assert asyncio.run(there.reap_expired_leases("stripe")) == 0
    with pytest.raises(BulkheadFullError), waits:
        pass
    end = time.monotonic() + 30
    reaped = 0
    while not reaped:
        assert time.monotonic() < end, "its lease never ends"
        time.sleep(0.05)
        reaped = asyncio.run(there.reap_expired_leases("stripe"))
    assert reaped == 1
    assert asyncio.run(there.reap_expired_leases("stripe")) == 0
    with waits:
        pass
    gone._engine.link = link  # type: ignore[union-attr]
    lost.__exit__(None, None, None)
