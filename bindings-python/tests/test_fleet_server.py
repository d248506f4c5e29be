"""The fleet's host on a real server, over the clients that people have: paused, killed, flushed, forked."""

from __future__ import annotations

import asyncio
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tidegate
from fleet_tools import (
    CLIENTS,
    PATIENT,
    SLACK,
    WAITS,
    broken,
    closed_behind_commands,
    isolated,
    limited,
    redis,
    spent,
    trip,
    until,
)
from redis_server import RedisServer, redis_server
from tidegate import fleet
from tidegate._engine import store as _store
from tidegate.events import Record
from tidegate.fleet import RedisStore

__all__ = ["redis_server"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """There is never more than one thread for stores."""
    yield
    assert [thread.name for thread in threading.enumerate()].count(_store.THREAD) <= 1


async def _zero() -> int:
    return 0


@pytest.mark.parametrize("kind", CLIENTS)
def test_every_client_carries(redis_server: RedisServer, kind: str) -> None:
    client = CLIENTS[kind](redis_server.port)
    stores = [RedisStore(client), RedisStore(client)]
    engines = [tidegate.Engine(seed=seed, store=store) for seed, store in enumerate(stores)]
    began = time.monotonic()
    made, longest = spent([limited(engine, store_timeout=PATIENT) for engine in engines], 1.0)
    flowed = 1_000 * (time.monotonic() - began)
    assert 1_500 <= made <= 1_000 + flowed + 300, "a burst and a second's worth, for both together"
    assert longest < PATIENT
    for store in stores:
        store.close()
    if kind == "own-asyncio":
        closed_behind_commands(client.client.aclose)


@pytest.mark.parametrize("kind", [kind for kind in CLIENTS if not kind.startswith("own")])
def test_no_command_outlives_its_time(redis_server: RedisServer, kind: str) -> None:
    """Whatever timeout the given client has, or none."""
    store = RedisStore(CLIENTS[kind](redis_server.port))
    assert store.carry([b"PTTL", b"k"], 1, WAITS) == b"-2"
    redis_server.pause()
    began = time.monotonic()
    with pytest.raises(Exception, match=r"(?i)time"):
        store.carry([b"PTTL", b"k"], 1, WAITS)
    assert WAITS * 0.9 <= time.monotonic() - began < WAITS + SLACK
    redis_server.go_on()
    assert store.carry([b"PTTL", b"k"], 1, PATIENT) == b"-2"
    store.close()


def test_what_a_fork_forgets_stays_open_and_is_not_used(redis_server: RedisServer) -> None:
    store = RedisStore(redis.Redis(port=redis_server.port))
    store.carry([b"PTTL", b"k"], 1, WAITS)
    assert redis_server.clients() == 1
    store.forget()
    store.carry([b"PTTL", b"k"], 1, WAITS)
    assert redis_server.clients() == 2
    store.close()
    until(lambda: redis_server.clients() == 1)
    for _, loops in fleet._left:
        for loop in loops:
            loop.close()
    fleet._left.clear()


def test_a_pause_is_noticed_in_time_and_so_is_its_end(redis_server: RedisServer) -> None:
    """On a busy machine an answer can be late without a pause: the store may be lost and found before."""
    engine = tidegate.Engine(seed=1, store=RedisStore(redis.Redis(port=redis_server.port)))
    told: list[str] = []
    engine.on_event(lambda record: told.append(record.type), types=["store_degraded", "store_recovered"])
    policy = limited(engine, 200)
    until(lambda: spent([policy], 0.1)[0] > 0 and told[-1:] != ["store_degraded"])
    redis_server.pause()
    longest = 0.0

    def is_noticed() -> bool:
        nonlocal longest
        longest = max(longest, spent([policy], 0.1)[1])
        return told[-1:] == ["store_degraded"]

    until(is_noticed)
    assert max(longest, spent([policy], 0.5)[1]) < WAITS + SLACK, "no call waits for a store that is lost"
    assert told[-1] == "store_degraded"
    redis_server.go_on()
    until(lambda: spent([policy], 0.05)[1] >= 0 and told[-1] == "store_recovered")


def test_killed_and_started_again_it_is_found_again(redis_server: RedisServer) -> None:
    engine = tidegate.Engine(seed=1, store=RedisStore(redis.Redis(port=redis_server.port)))
    told: list[str] = []
    engine.on_event(lambda record: told.append(record.type), types=["store_degraded", "store_recovered"])
    policy = limited(engine, 200)
    spent([policy], 0.1)
    redis_server.kill()
    made, longest = spent([policy], 1.5)
    assert made >= 200, "its own share, which is all of it where there is one process"
    assert longest < WAITS + SLACK
    redis_server.start()
    until(lambda: spent([policy], 0.05)[1] >= 0 and told == ["store_degraded", "store_recovered"])


@pytest.mark.parametrize("on_loss", ["open", "closed"])
def test_on_loss_says_what_holds(redis_server: RedisServer, on_loss: str) -> None:
    engine = tidegate.Engine(seed=1, store=RedisStore(redis.Redis(port=redis_server.port)))
    policy = limited(engine, 20, PATIENT, on_loss=on_loss)
    assert policy.call(int) == 0
    redis_server.kill()
    ends: list[str] = []
    for _ in range(100):
        try:
            policy.call(int)
            ends.append("ok")
        except tidegate.Rejected as error:
            ends.append(error.reason)
    assert ends[-1] == ("ok" if on_loss == "open" else "store_unavailable")


def test_flushed_it_gives_one_burst_more_and_no_more(redis_server: RedisServer) -> None:
    engine = tidegate.Engine(seed=1, store=RedisStore(redis.Redis(port=redis_server.port)))
    policy = limited(engine, 100, PATIENT, lease=5)
    told: list[Record] = []
    engine.on_event(told.append, types=["store_degraded"])
    first, _ = spent([policy], 0.5)
    redis_server.command("FLUSHALL")
    second, _ = spent([policy], 0.5)
    assert told == []
    assert first <= 100 + 50 + 10
    assert 100 <= second <= 100 + 50 + 10


def test_connections_are_the_store_s_own_and_can_be_closed(redis_server: RedisServer) -> None:
    client = redis.Redis(port=redis_server.port)
    assert client.ping()
    store = RedisStore(client)
    policy = limited(tidegate.Engine(seed=1, store=store), 1_000_000, PATIENT, lease=10)
    spent([policy], 0.2)
    assert redis_server.clients() == 2
    assert client.connection_pool.connection_kwargs.get("socket_timeout") != PATIENT
    until(lambda: not _store.worker._queue)
    store.close()
    until(lambda: redis_server.clients() == 1)
    assert client.ping()
    assert policy.call(int) == 0


def test_what_is_left_of_a_time_has_no_connection_of_its_own(redis_server: RedisServer) -> None:
    store = RedisStore(redis.Redis(port=redis_server.port))
    for us in range(13_000, 50_000, 500):
        assert store.carry([b"GET", b"nothing"], 1, us / 1e6) == b""
    assert redis_server.clients() == 1
    store.close()


def test_loops_and_threads_on_one_engine_have_one_thread_and_no_task(redis_server: RedisServer) -> None:
    store = RedisStore(redis.asyncio.Redis(port=redis_server.port))
    engine = tidegate.Engine(seed=1, store=store)
    policy = limited(engine, 100_000, PATIENT, lease=20)
    failures: list[BaseException] = []

    async def loop() -> None:
        for _ in range(300):
            await asyncio.gather(*(policy.acall(_zero) for _ in range(5)))
        assert len(asyncio.all_tasks()) == 1

    def threads() -> None:
        for _ in range(1_500):
            policy.call(int)

    def guarded(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    works: list[Callable[[], object]] = [threads, threads, lambda: asyncio.run(loop())]
    running = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
        assert not thread.is_alive()
    assert failures == []
    assert engine.snapshot()["policies"]["partner"]["ends"] == {"ok": 4_500}
    store.close()


def test_under_trio(redis_server: RedisServer) -> None:
    import trio

    engine = tidegate.Engine(seed=1, store=RedisStore(redis.Redis(port=redis_server.port)))
    policy = limited(engine, 1_000, PATIENT, lease=1)

    async def main() -> int:
        return sum([1 + await policy.acall(_trio_zero) for _ in range(50)])

    async def _trio_zero() -> int:
        await trio.lowlevel.checkpoint()
        return 0

    assert trio.run(main) == 50


def test_a_breaker_opens_for_all_on_a_real_server(redis_server: RedisServer) -> None:
    client = redis.Redis(port=redis_server.port)
    here, there = (broken(tidegate.Engine(seed=seed, store=RedisStore(client))) for seed in (1, 2))
    assert there.call(int) == 0
    trip(here)

    def refused() -> bool:
        try:
            there.call(int)
        except tidegate.BreakerOpen as error:
            return error.retry_in is not None and error.retry_in <= 5.5
        return False

    until(refused, 3.0)


def test_slots_of_a_real_server_are_given_back_and_never_too_many(redis_server: RedisServer) -> None:
    client = redis.Redis(port=redis_server.port)
    policies = [
        isolated(
            tidegate.Engine(seed=seed, store=RedisStore(client)), 3, max_queue=None, acquire_timeout=None
        )
        for seed in (1, 2)
    ]
    running, most, guard = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal running, most
        with guard:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with guard:
            running -= 1

    def loop(policy: tidegate.Policy) -> None:
        for _ in range(40):
            policy.call(work)

    threads = [threading.Thread(target=loop, args=(policy,)) for policy in policies * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert most == 3
    assert sum(policy.snapshot()["ends"]["ok"] for policy in policies) == 320


PROCESS = """
import sys, time, redis, tidegate
from tidegate.fleet import RedisStore
engine = tidegate.Engine(store=RedisStore(redis.Redis(port=int(sys.argv[1]))))
rate = {"permits": 500, "per": 1, "burst": 500, "store": "fleet"}
policy = tidegate.Policy("partner", rate_limit=rate, engine=engine, store_timeout=2)
print("ready", flush=True)
sys.stdin.readline()
made, until = 0, time.monotonic() + 1.5
while time.monotonic() < until:
    try:
        policy.call(int)
        made += 1
    except tidegate.RateLimited:
        time.sleep(0.001)
print(made, flush=True)
"""


def test_processes_share_one_rate(redis_server: RedisServer) -> None:
    command = [sys.executable, "-c", PROCESS, str(redis_server.port)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, **pipes) for _ in range(3)]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    made = [int(process.communicate(timeout=30)[0]) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert 900 <= sum(made) <= 500 + 750 + 3 * 50, "a burst and 1.5 s worth, and what was leased"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_has_connections_and_a_thread_of_its_own(redis_server: RedisServer) -> None:
    engine = tidegate.Engine(seed=1, store=RedisStore(redis.Redis(port=redis_server.port)))
    policy = limited(engine, 10_000, PATIENT, lease=1)
    assert policy.call(int) == 0
    before = redis_server.clients()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            told = []
            engine.on_event(lambda record: told.append(record.type), types=["store_degraded"])
            for _ in range(20):
                policy.call(int)
            here = [thread.name for thread in threading.enumerate()].count(_store.THREAD)
            os.write(write, f"{told} {here}".encode())
        finally:
            os._exit(0)
    os.close(write)
    said = os.read(read, 100)
    os.close(read)
    assert os.waitpid(child, 0)[1] == 0
    assert said == b"[] 1"
    until(lambda: redis_server.clients() == before)
    assert policy.call(int) == 0


def test_the_sketch_of_the_guide_for_all_languages_runs(redis_server: RedisServer) -> None:
    guide = pathlib.Path(__file__).parents[2] / "docs/fleet.md"
    (sketch,) = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
    assert 'host="cache"' in sketch
    here = sketch.replace('host="cache"', f"port={redis_server.port}")
    code = f"import redis, tidegate\n{here}\nassert partner.call(lambda: 7) == 7\n"
    for _ in range(10):  # on a busy machine the store may be later than the guide's 50 ms allow
        subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
        if b"shop:{r|partner|default}:rl" in redis_server.command("KEYS", "*"):
            return
    raise AssertionError("the policy has never reached the store")
