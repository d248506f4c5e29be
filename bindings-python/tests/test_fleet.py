"""The fleet's host: commands reach a server over the clients that people have; none waits in vain."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tidegate
from redis_server import RedisServer, redis_cluster, redis_server
from tidegate import _store, fleet
from tidegate.events import Record
from tidegate.fleet import Lost, RedisStore, Refused, attach
from tidegate.testing import FakeClock, MemoryStore

__all__ = ["redis_cluster", "redis_server"]

redis = pytest.importorskip("redis")
try:
    import valkey
except ImportError:  # its newest release needs Python 3.11
    valkey = None

WAITS = 0.05
"""`store_timeout`, as it is by default."""
SLACK = 0.25
"""What a busy machine may add to a wait."""


class Plain:
    """A client of somebody's own: one method."""

    def __init__(self, port: int) -> None:
        self.client = redis.Redis(port=port, socket_timeout=PATIENT)

    def execute(self, words: list[bytes]) -> Any:
        return self.client.execute_command(*words)


class PlainAsync:
    def __init__(self, port: int) -> None:
        self.client = redis.asyncio.Redis(port=port)

    async def execute(self, words: list[bytes]) -> Any:
        return await self.client.execute_command(*words)


CLIENTS: dict[str, Callable[[int], Any]] = {
    "redis": lambda port: redis.Redis(port=port),
    "redis-text": lambda port: redis.Redis(port=port, decode_responses=True, protocol=3),
    "redis-asyncio": lambda port: redis.asyncio.Redis(port=port),
    "own": Plain,
    "own-asyncio": PlainAsync,
}
if valkey is not None:
    CLIENTS["valkey"] = lambda port: valkey.Valkey(port=port)
    CLIENTS["valkey-asyncio"] = lambda port: valkey.asyncio.Valkey(port=port)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """There is never more than one thread for stores."""
    yield
    assert [thread.name for thread in threading.enumerate()].count(_store.THREAD) <= 1


def limited(
    engine: tidegate.Engine, permits: int = 1_000, store_timeout: float | None = None, **rest: Any
) -> tidegate.Policy:
    given = {"permits": permits, "per": 1, "burst": permits, "store": "fleet", **rest}
    return tidegate.Policy("partner", rate_limit=given, store_timeout=store_timeout, engine=engine)


PATIENT = 2.0
"""A `store_timeout` for tests that lose nothing: a busy machine is no lost store."""


def spent(policies: list[tidegate.Policy], seconds: float) -> tuple[int, float]:
    """Calls made in turn for so long: how many were let through, and the longest that one took."""
    made, longest, number = 0, 0.0, 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            policies[number % len(policies)].call(int)
            made += 1
        except tidegate.RateLimited:
            time.sleep(0.001)
        number += 1
        longest = max(longest, time.monotonic() - began)
    return made, longest


def until(check: Callable[[], bool], seconds: float = 8.0) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


# What is attached to what.


def test_a_policy_of_the_fleet_needs_a_store(engine: tidegate.Engine) -> None:
    with pytest.raises(tidegate.PolicyError, match=r"store = fleet needs a store: attach one"):
        limited(engine)
    attach(MemoryStore(), engine=engine)
    assert limited(engine).call(int) == 0


def test_an_engine_has_one_store() -> None:
    store = MemoryStore()
    engine = tidegate.Engine(store=store)
    with pytest.raises(ValueError, match="has a store already"):
        attach(MemoryStore(), engine=engine)
    assert engine.link is not None
    assert engine.link.carrier is store


@pytest.mark.parametrize("given", [3, "redis://localhost", object()])
def test_what_is_no_store_is_named(given: Any) -> None:
    with pytest.raises(TypeError, match=r"store = .* must be a tidegate\.fleet\.RedisStore"):
        attach(given, engine=tidegate.Engine())
    with pytest.raises(TypeError, match="must be a tidegate"):
        tidegate.Engine(store=given)
    with pytest.raises(TypeError, match=r"client = .*must be a client of redis-py or valkey-py"):
        RedisStore(given)
    with pytest.raises(TypeError, match="namespace = 7: must be a string"):
        RedisStore(redis.Redis(), namespace=7)  # type: ignore[arg-type]


def test_the_process_s_own_engine_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate._engine._default", [tidegate.Engine(seed=1)])
    attach(MemoryStore())
    assert tidegate.Policy("own", rate_limit={"permits": 5, "per": 1, "store": "fleet"}).call(int) == 0


def test_importing_it_imports_no_client_and_no_loop() -> None:
    code = (
        "import sys, tidegate, tidegate.fleet as fleet\n"
        "store = fleet.RedisStore(type('C', (), {'execute': lambda self, words: b''})())\n"
        "tidegate.Engine(store=store)\n"
        "print([m for m in ('redis', 'valkey', 'asyncio', 'httpx') if m in sys.modules])\n"
        "import threading; print(threading.active_count())\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split("\n")[:2] == ["[]", "1"], "and there is no thread before the first command"


# In memory: exact figures.


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_two_engines_share_one_rate(clock: FakeClock, colour: str) -> None:
    store = MemoryStore(clock)
    engines = [tidegate.Engine(seed=seed, clock=clock, store=store) for seed in (1, 2)]
    policies = [limited(engine, 100) for engine in engines]

    def through() -> int:
        made = 0
        for number in range(300):
            try:
                policy = policies[number % 2]
                made += 1 + (policy.call(int) if colour == "sync" else asyncio.run(policy.acall(_zero)))
            except tidegate.RateLimited:
                pass
        return made

    assert through() == 100
    clock.tick(0.5)
    assert through() == 50
    assert store.commands < 60, "tokens are leased: most calls ask nobody"
    assert [line.split(" ", 1)[0] for line in store.describe()] == [
        "tidegate:{r|partner|default}:rl",
        "tidegate:{r|partner|default}:rl:p",
    ]


async def _zero() -> int:
    return 0


def test_a_store_that_goes_and_comes_is_told_of_once(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tidegate")
    store = MemoryStore(clock)
    engine = tidegate.Engine(seed=1, clock=clock, store=store)
    told: list[Record] = []
    engine.on_event(told.append, types=["store_degraded", "store_recovered"])
    policy = limited(engine, 50)
    assert policy.call(int) == 0
    store.up = False
    for _ in range(200):
        clock.tick(0.05)
        policy.call(int)
    assert [record.type for record in told] == ["store_degraded"]
    store.up = True
    for _ in range(200):
        clock.tick(0.05)
        policy.call(int)
    assert [record.type for record in told] == ["store_degraded", "store_recovered"]
    lines = [(line.levelname, line.getMessage()) for line in caplog.records]
    assert ("WARNING", "the fleet's store has not answered: Lost: the store is not up") in lines
    assert sum("has not answered" in text for _, text in lines) == 1
    assert any(level == "WARNING" and text.startswith("store degraded") for level, text in lines)
    assert any(level == "INFO" and text.startswith("store recovered") for level, text in lines)


def test_a_server_that_has_forgotten_everything_is_taught_again(clock: FakeClock) -> None:
    store = MemoryStore(clock)
    policy = limited(tidegate.Engine(seed=1, clock=clock, store=store), 100)
    for _ in range(5):
        store.flush()
        clock.tick(1.5)  # what was leased is over
        assert policy.call(int) == 0
        assert store.describe()


def test_the_server_s_errors_are_answers(clock: FakeClock) -> None:
    class ReadOnly(MemoryStore):
        def carry(self, words: list[bytes], key: int, seconds: float) -> bytes:
            if not self.up:
                raise Refused("READONLY You can't write against a read only replica.")
            return super().carry(words, key, seconds)

    store = ReadOnly(clock)
    engine = tidegate.Engine(seed=1, clock=clock, store=store)
    told: list[Record] = []
    engine.on_event(told.append, types=["store_degraded"])
    policy = limited(engine, 50)
    store.up = False
    assert policy.call(int) == 0
    assert len(told) == 1


def test_a_journal_replays_what_the_store_said(clock: FakeClock) -> None:
    store = MemoryStore(clock)
    engine = tidegate.Engine(seed=7, clock=clock, journal=True, store=store)
    policy = limited(engine, 20)
    for _ in range(40):
        clock.tick(0.02)
        try:
            policy.call(int)
        except tidegate.RateLimited:
            pass
    again = tidegate.Engine.replay(engine.journal())
    assert again.link is None, "nobody is asked a second time"
    ends = engine.snapshot()["policies"]["partner"]["ends"]
    assert again.snapshot()["policies"]["partner"]["ends"] == ends
    assert ends["ok"] > 10


def broken(engine: tidegate.Engine, **rest: Any) -> tidegate.Policy:
    given = {"consecutive": 3, "break_duration": 5, "store": "fleet", **rest}
    return tidegate.Policy("partner", breaker=given, store_timeout=PATIENT, engine=engine)


def fails() -> None:
    raise ConnectionError


def trip(policy: tidegate.Policy) -> None:
    for _ in range(3):
        with pytest.raises(ConnectionError):
            policy.call(fails)


def test_one_breaker_opens_for_all_and_closes_for_all(clock: FakeClock) -> None:
    store = MemoryStore(clock)
    here, there = (
        broken(tidegate.Engine(seed=seed, clock=clock, store=store), half_open_max_calls=1) for seed in (1, 2)
    )
    assert there.call(int) == 0
    trip(here)
    clock.tick(0.3)  # later than `store_exchange`: the next call looks
    for _ in range(2):
        try:
            there.call(int)
        except tidegate.BreakerOpen:
            break
    with pytest.raises(tidegate.BreakerOpen) as refused:
        there.call(int)
    assert refused.value.retry_in == pytest.approx(4.7, abs=0.2)
    clock.tick(5.3)
    assert here.call(int) == 0, "its probe"
    clock.tick(0.3)
    assert [there.call(int), here.call(int)] == [0, 0]


def test_a_quorum_is_of_processes(clock: FakeClock) -> None:
    store = MemoryStore(clock)
    policies = [
        broken(tidegate.Engine(seed=seed, clock=clock, store=store), quorum=2, window=30) for seed in range(3)
    ]
    trip(policies[0])
    clock.tick(0.3)
    assert [policies[2].call(int) for _ in range(3)] == [0, 0, 0]
    trip(policies[1])
    clock.tick(0.3)
    ends = []
    for _ in range(3):
        try:
            ends.append(policies[2].call(int))
        except tidegate.BreakerOpen:
            ends.append(-1)
    assert ends[-1] == -1


def isolated(engine: tidegate.Engine, limit: int, **rest: Any) -> tidegate.Policy:
    given = {"max_concurrency": limit, "store": "fleet", **rest}
    return tidegate.Policy("partner", bulkhead=given, store_timeout=PATIENT, engine=engine)


def test_slots_are_the_fleet_s(clock: FakeClock) -> None:
    store = MemoryStore(clock)
    one, two, three = (
        isolated(tidegate.Engine(seed=seed, clock=clock, store=store), 2, max_queue=0, acquire_timeout=0)
        for seed in (1, 2, 3)
    )
    with one.bulkhead(), two.bulkhead(), pytest.raises(tidegate.BulkheadFull):
        three.call(int)
    clock.tick(0.2)
    with two.bulkhead():
        assert three.call(lambda: 3) == 3


# Answers.


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"1 2", b"1 2"),
        (bytearray(b"3"), b"3"),
        ("4 5", b"4 5"),
        (7, b"7"),
        (None, b""),
        (True, b"OK"),
        ([1, 2], b"[1, 2]"),
    ],
)
def test_what_clients_answer_is_bytes(answer: Any, told: bytes) -> None:
    class Client:
        def execute(self, words: list[bytes]) -> Any:
            return answer

    assert RedisStore(Client()).carry([b"GET"], 1, WAITS) == told


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (redis.exceptions.NoScriptError("No matching script."), "NOSCRIPT No matching script."),
        (redis.exceptions.ReadOnlyError("You can't"), "READONLY You can't"),
        (redis.exceptions.BusyLoadingError("is loading"), "LOADING is loading"),
        (redis.exceptions.OutOfMemoryError("used memory"), "OOM used memory"),
        (redis.exceptions.ResponseError("WRONGTYPE Operation"), "WRONGTYPE Operation"),
        (redis.exceptions.ResponseError("unknown command"), "ERR unknown command"),
        (redis.exceptions.NoScriptError("NOSCRIPT No"), "NOSCRIPT No"),
        (redis.exceptions.ConnectionError("refused"), None),
        (redis.exceptions.TimeoutError("slow"), None),
        (OSError("gone"), None),
        (ZeroDivisionError("a bug"), None),
        (Lost("over"), None),
    ],
)
def test_errors_of_the_server_are_told_from_no_answer(error: Exception, told: str | None) -> None:
    class Client:
        def execute(self, words: list[bytes]) -> Any:
            raise error

    with pytest.raises(Exception) as raised:  # noqa: PT011 - which one is what is asked
        RedisStore(Client()).carry([b"GET"], 1, WAITS)
    if told is None:
        assert raised.value is error
    else:
        assert (type(raised.value), str(raised.value)) == (Refused, told)


# On a real server.


@pytest.mark.parametrize("kind", CLIENTS)
def test_every_client_carries(redis_server: RedisServer, kind: str) -> None:
    client = CLIENTS[kind](redis_server.port)
    stores = [RedisStore(client), RedisStore(client)]
    engines = [tidegate.Engine(seed=seed, store=store) for seed, store in enumerate(stores)]
    made, longest = spent([limited(engine, store_timeout=PATIENT) for engine in engines], 1.0)
    assert 1_500 <= made <= 2_300, "a burst and a second's worth, for both together"
    assert longest < PATIENT
    for store in stores:
        store.close()
    if kind == "own-asyncio":
        fleet._loop[0].run_until_complete(client.client.aclose())


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
    fleet._left.clear()


def test_a_pause_is_noticed_in_time_and_so_is_its_end(redis_server: RedisServer) -> None:
    engine = tidegate.Engine(seed=1, store=RedisStore(redis.Redis(port=redis_server.port)))
    told: list[str] = []
    engine.on_event(lambda record: told.append(record.type), types=["store_degraded", "store_recovered"])
    policy = limited(engine, 200)
    spent([policy], 0.1)
    assert told == []
    redis_server.pause()
    _, longest = spent([policy], 2.5)
    assert longest < WAITS + SLACK, "and no call waits for it while it is known to be gone"
    assert told == ["store_degraded"]
    redis_server.go_on()
    until(lambda: spent([policy], 0.05)[1] >= 0 and told == ["store_degraded", "store_recovered"])


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
    policy = limited(engine, 20, on_loss=on_loss)
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


def test_on_a_cluster(redis_cluster: RedisServer) -> None:
    """Both keys of a script are in one slot, and the client finds it; its own `socket_timeout` bounds it."""
    client = redis.RedisCluster(host="127.0.0.1", port=redis_cluster.port, socket_timeout=PATIENT)
    engines = [tidegate.Engine(seed=seed, store=RedisStore(client)) for seed in (1, 2)]
    told: list[Record] = []
    for engine in engines:
        engine.on_event(told.append, types=["store_degraded"])
    made, _ = spent([limited(engine, 200, PATIENT) for engine in engines], 0.5)
    assert 200 <= made <= 340
    assert told == []
    client.close()


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


def test_a_client_that_never_comes_back_holds_up_neither_calls_nor_the_end() -> None:
    code = (
        "import time, threading, tidegate\n"
        "from tidegate.fleet import RedisStore\n"
        "class Hangs:\n"
        "    def execute(self, words): threading.Event().wait()\n"
        "engine = tidegate.Engine(seed=1, logs=False, store=RedisStore(Hangs()))\n"
        "rate = {'permits': 100, 'per': 1, 'store': 'fleet'}\n"
        "policy = tidegate.Policy('p', rate_limit=rate, engine=engine)\n"
        "began = time.monotonic(); policy.call(int); first = time.monotonic() - began\n"
        "began = time.monotonic(); policy.call(int); second = time.monotonic() - began\n"
        "print(first < 0.5 and second < 0.05, first, second)\n"
    )
    began = time.monotonic()
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert told.stdout.startswith("True"), told.stdout
    assert told.stderr == ""
    assert time.monotonic() - began < 10


def test_where_no_thread_can_be_started_commands_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_store, "worker", _store.Worker())
    engine = tidegate.Engine(seed=1, logs=False, store=RedisStore(Plain(1)))
    policy = limited(engine)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", never)
        assert policy.call(int) == 0
    assert _store.worker._thread is None


def test_more_commands_than_fit_are_lost_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a client hangs, the line does not grow for ever."""
    monkeypatch.setattr(_store, "_MOST", 0)
    engine = tidegate.Engine(seed=1, logs=False, store=RedisStore(Plain(1)))
    told: list[str] = []
    engine.on_event(lambda record: told.append(record.type), types=["store_degraded"])
    began = time.monotonic()
    assert limited(engine).call(int) == 0
    assert time.monotonic() - began < WAITS + SLACK
    assert told == ["store_degraded"]
