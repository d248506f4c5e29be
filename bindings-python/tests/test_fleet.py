"""The fleet's host in memory: what is attached to what, what processes share, what answers mean."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import tidegate
from fleet_tools import SLACK, WAITS, Plain, broken, isolated, limited, redis, trip
from tidegate._engine import store as _store
from tidegate.events import Record
from tidegate.fleet import Lost, RedisStore, Refused, attach
from tidegate.testing import FakeClock, MemoryStore

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


def test_a_store_is_named_without_the_settings_of_its_client() -> None:
    class Mine:
        def execute(self, words: list[bytes]) -> bytes | int | None:
            raise NotImplementedError

        def __repr__(self) -> str:
            return "Mine(password='secret')"

    engine = tidegate.Engine(store=RedisStore(Mine(), namespace="shop"))
    with pytest.raises(ValueError, match=r"a store already, RedisStore\(Mine\(…\), namespace='shop'"):
        attach(RedisStore(Mine(), namespace="again"), engine=engine)


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
    monkeypatch.setattr("tidegate._engine.engine._default", [tidegate.Engine(seed=1)])
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


def test_metrics_say_whether_the_store_is_there(clock: FakeClock) -> None:
    prometheus_client = pytest.importorskip("prometheus_client")
    import tidegate.prometheus

    store = MemoryStore(clock)
    engine = tidegate.Engine(seed=1, clock=clock, store=store)
    registry = prometheus_client.CollectorRegistry()
    tidegate.prometheus.instrument(engine, registry=registry)
    policy = limited(engine, 50)

    def value(name: str) -> float:
        samples = [sample for family in registry.collect() for sample in family.samples]
        return sum(sample.value for sample in samples if sample.name == name)

    assert policy.call(int) == 0
    assert (value("tidegate_fleet_up"), value("tidegate_fleet_fallbacks_total")) == (1, 0)
    store.up = False
    clock.tick(2)
    for _ in range(5):
        policy.call(int)
    assert value("tidegate_fleet_up") == 0
    assert value("tidegate_fleet_fallbacks_total") >= 1


def test_adaptive_limits_go_by_the_latencies_of_all(clock: FakeClock) -> None:
    store = MemoryStore(clock)
    given = {
        "kind": "aimd",
        "max_concurrency": 10,
        "latency_threshold": 0.1,
        "latency_quantile": 0.9,
        "latency_store": "fleet",
    }
    slow, quick = (
        tidegate.Policy(
            "partner", bulkhead=given, engine=tidegate.Engine(seed=seed, clock=clock, store=store)
        )
        for seed in (1, 2)
    )
    alone = tidegate.Policy(
        "partner",
        bulkhead={**given, "latency_store": "local"},
        engine=tidegate.Engine(seed=3, clock=clock),
    )
    for _ in range(60):
        slow.call(clock.tick, 0.11)
        for policy in (quick, quick, alone):
            policy.call(clock.tick, 0.001)
    limits = [policy.snapshot()["routes"]["default"]["pool"]["limit"] for policy in (slow, quick, alone)]
    assert limits[2] == 10
    assert limits[0] < 10
    assert limits[1] < 10, "its own calls were quick"


# Answers.


@pytest.mark.parametrize(
    ("command", "answer", "told"),
    [
        (b"GET", b"1 2", b"1 2"),
        (b"GET", bytearray(b"3"), b"3"),
        (b"GET", "4 5", b"4 5"),
        (b"GET", 7, b"7"),
        (b"GET", None, b""),
        (b"SET", True, b"OK"),
        (b"PEXPIRE", True, b"1"),
        (b"PEXPIRE", False, b"0"),
        (b"GET", [1, 2], b"[1, 2]"),
    ],
)
def test_what_clients_answer_is_bytes(command: bytes, answer: Any, told: bytes) -> None:
    class Client:
        def execute(self, words: list[bytes]) -> Any:
            return answer

    assert RedisStore(Client()).carry([command], 1, WAITS) == told


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


# A thread and its end.


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
        "print(first < 5 and second < 0.5, first, second)\n"
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
