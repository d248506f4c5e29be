"""Stores that misbehave: whatever a client does, no call waits longer than it may, and nothing is left."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import tidegate
from fleet_tools import SLACK, WAITS, limited, passes, until
from tidegate import fleet
from tidegate._engine import store as _store
from tidegate.fleet import Lost, RedisStore, Refused
from tidegate.testing import FakeClock, MemoryStore


class Dictionary:
    """The whole of a store of one's own: one method, and here a dictionary behind it."""

    def __init__(self) -> None:
        self.held: dict[bytes, tuple[bytes, float]] = {}

    def execute(self, words: list[bytes]) -> bytes | int | str | None:
        command, key, *rest = words
        value, ends = self.held.get(key, (b"", 0.0))
        if ends <= time.monotonic():
            value, ends = b"", 0.0
        if command == b"GET":
            return value or None
        if command == b"PTTL":
            return int((ends - time.monotonic()) * 1000) if value else -2
        if command == b"DEL":
            return int(self.held.pop(key, None) is not None)
        if command == b"INCRBY":
            value = str(int(value or 0) + int(rest[0])).encode()
            self.held[key] = (value, ends or time.monotonic() + 60)
            return int(value)
        if command == b"PEXPIRE":
            self.held[key] = (value, time.monotonic() + int(rest[0]) / 1000)
            return 1
        if command == b"SET":  # SET key value PX milliseconds [NX]
            if value and rest[-1] == b"NX":
                return None
            self.held[key] = (rest[0], time.monotonic() + int(rest[2]) / 1000)
            return "OK"
        raise Refused(f"ERR unknown command {command!r}")


def test_one_method_makes_a_store() -> None:
    store = RedisStore(Dictionary(), scripts=False)
    policies = [limited(tidegate.Engine(seed=seed, store=store), 20, 2.0, lease=1) for seed in (1, 2)]
    began, made = time.monotonic(), 0
    for number in range(80):
        try:
            made += 1 + policies[number % 2].call(int)
        except tidegate.RateLimited:
            pass
    assert 20 <= made <= 40 + 20 * (time.monotonic() - began)


class Unsayable(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


class UnsayableRefusal(Refused):
    def __str__(self) -> str:
        raise ZeroDivisionError


class Unrepresentable:
    def __repr__(self) -> str:
        raise ZeroDivisionError


class Awaits:
    """Awaitable in name only."""

    __await__ = None


def raises(error: BaseException) -> Callable[[list[bytes]], Any]:
    def execute(words: list[bytes]) -> Any:
        raise error

    return execute


async def _never() -> None:
    await asyncio.Event().wait()


async def _cancelled() -> None:
    raise asyncio.CancelledError


async def _of_another_loop() -> None:
    other = asyncio.new_event_loop()
    try:
        await other.create_future()
    finally:
        other.close()


async def _closes_its_loop() -> bytes:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)
    return b"1 0 1"


HOSTILE: dict[str, Callable[[list[bytes]], Any]] = {
    "raises": raises(OSError("reset")),
    "raises Lost": raises(Lost("over")),
    "refuses": raises(Refused("READONLY You can't write against a read only replica.")),
    "refuses without a word": raises(Refused()),
    "refuses with what is no text": raises(Refused(7, b"\xff")),
    "raises what cannot be said": raises(Unsayable()),
    "refuses and cannot say why": raises(UnsayableRefusal()),
    "ends the program": raises(SystemExit(3)),
    "interrupts": raises(KeyboardInterrupt()),
    "stops its generator": raises(GeneratorExit()),
    "stops iterating": raises(StopIteration(b"1 0 1")),
    "recurses": raises(RecursionError()),
    "answers nothing": lambda words: None,
    "answers text": lambda words: "what?",
    "answers a list": lambda words: [1, b"0", None],
    "answers itself": lambda words: words,
    "answers with what cannot be represented": lambda words: Unrepresentable(),
    "answers a class": lambda words: Refused,
    "answers a number beyond all": lambda words: 10**30,
    "answers below all": lambda words: b"-1 -5 -7",
    "answers megabytes": lambda words: b"1 " * 1_000_000,
    "answers what is not awaitable": lambda words: Awaits(),
    "answers a generator": lambda words: (word for word in words),
    "never ends, in asyncio": lambda words: _never(),
    "is cancelled, in asyncio": lambda words: _cancelled(),
    "awaits another loop": lambda words: _of_another_loop(),
    "stops its loop": lambda words: _closes_its_loop(),
}


class Client:
    def __init__(self, execute: Callable[[list[bytes]], Any]) -> None:
        self.execute = execute


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    before = {thread.ident for thread in threading.enumerate() if thread.name != _store.THREAD}
    yield
    until(lambda: not _store.worker._queue)
    after = [thread for thread in threading.enumerate() if thread.name != _store.THREAD]
    assert [thread for thread in after if thread.ident not in before] == []
    assert [thread.name for thread in threading.enumerate()].count(_store.THREAD) <= 1
    for loop in fleet._loop:
        until(loop_is_idle(loop))


def loop_is_idle(loop: asyncio.AbstractEventLoop) -> Callable[[], bool]:
    return lambda: all(task.done() for task in asyncio.all_tasks(loop))


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("how", HOSTILE)
def test_whatever_a_client_does_no_call_is_broken_or_held_up(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tidegate")
    engine = tidegate.Engine(seed=1, store=RedisStore(Client(HOSTILE[how])))
    told: list[str] = []
    engine.on_event(lambda record: told.append(record.type), types=["store_degraded"])
    policy = limited(engine, 50, on_loss="open")
    began = time.monotonic()
    assert policy.call(int) == 0
    assert time.monotonic() - began < WAITS + SLACK
    until(lambda: told == ["store_degraded"], 2.0)
    began = time.monotonic()
    for _ in range(20):
        assert policy.call(int) == 0
    assert time.monotonic() - began < SLACK, "nobody waits for what is known to be gone"
    worker = _store.worker._thread
    assert worker is not None
    assert worker.is_alive(), "the thread is everybody's"
    gc.collect()


def test_the_thread_goes_on_for_others() -> None:
    for how in HOSTILE:
        if "asyncio" not in how:
            engine = tidegate.Engine(seed=1, store=RedisStore(Client(HOSTILE[how])), logs=False)
            limited(engine, 50, on_loss="open").call(int)
    good = RedisStore(Dictionary(), scripts=False)
    told: list[str] = []
    engine = tidegate.Engine(seed=2, store=good)
    engine.on_event(lambda record: told.append(record.type), types=["store_degraded"])
    assert limited(engine, 20, 2.0, lease=1).call(int) == 0
    assert told == []


def test_answers_that_come_late_change_nothing() -> None:
    """A client that is slower than `store_timeout`: its answers are of commands that have been given up."""
    let = threading.Event()
    memory = MemoryStore()

    def execute(words: list[bytes]) -> bytes:
        let.wait(5)
        return memory.carry(words, 3, 1.0)

    engine = tidegate.Engine(seed=1, store=RedisStore(Client(execute)), logs=False)
    told: list[str] = []
    engine.on_event(lambda record: told.append(record.type), types=["store_degraded", "store_recovered"])
    policy = limited(engine, 100, on_loss="closed")
    began = time.monotonic()
    with pytest.raises(tidegate.StoreUnavailable):
        policy.call(int)
    assert time.monotonic() - began < WAITS + SLACK
    let.set()
    until(lambda: not _store.worker._queue)
    time.sleep(0.02)
    assert told == ["store_degraded"], "a late answer does not bring it back"
    until(lambda: passes(policy) and told == ["store_degraded", "store_recovered"], 10.0)


def test_answers_after_the_store_is_closed() -> None:
    store = RedisStore(Dictionary(), scripts=False)
    policy = limited(tidegate.Engine(seed=1, store=store), 20, 2.0, lease=1)
    assert policy.call(int) == 0
    store.close()
    store.close()
    assert policy.call(int) == 0


def test_answers_to_an_engine_that_is_gone() -> None:
    let, ended = threading.Event(), threading.Event()

    def execute(words: list[bytes]) -> bytes:
        let.wait(5)
        ended.set()
        return b"1 0 1"

    engine = tidegate.Engine(seed=1, store=RedisStore(Client(execute)), logs=False)
    policy = limited(engine, 100, on_loss="open")
    assert policy.call(int) == 0
    del engine, policy
    gc.collect()
    let.set()
    assert ended.wait(5)


@pytest.mark.parametrize("how", ["interrupts", "ends the program"])
def test_an_interrupt_where_the_store_is_in_the_thread_of_the_call(clock: FakeClock, how: str) -> None:
    """It is the caller's own thread, so it is the caller's interrupt; the engine has heard all the same."""

    class Interrupted(MemoryStore):
        def carry(self, words: list[bytes], key: int, seconds: float) -> bytes:
            if not self.up:
                return bytes(HOSTILE[how](words))
            return super().carry(words, key, seconds)

    store = Interrupted(clock)
    engine = tidegate.Engine(seed=1, clock=clock, store=store)
    policy = limited(engine, 50, on_loss="open", lease=1)
    assert policy.call(int) == 0
    store.up = False
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        policy.call(int)
    assert policy.call(int) == 0, "open, and nobody is asked"


@pytest.mark.parametrize("answer", ["1 0 1", 7, None, bytearray(b"1 0 1")])
def test_a_carrier_of_one_s_own_that_answers_with_no_bytes(clock: FakeClock, answer: Any) -> None:
    class Wrong(MemoryStore):
        def carry(self, words: list[bytes], key: int, seconds: float) -> bytes:
            return answer  # type: ignore[no-any-return]

    engine = tidegate.Engine(seed=1, clock=clock, store=Wrong(clock), logs=False)
    told: list[str] = []
    engine.on_event(lambda record: told.append(record.type), types=["store_degraded"])
    assert limited(engine, 50, on_loss="open").call(int) == 0
    assert told == ["store_degraded"]


@pytest.mark.parametrize("how", ["raises what cannot be said", "refuses and cannot say why"])
def test_in_the_thread_of_the_call_what_cannot_be_said_breaks_it_no_more(clock: FakeClock, how: str) -> None:
    class Wrong(MemoryStore):
        def carry(self, words: list[bytes], key: int, seconds: float) -> bytes:
            return bytes(HOSTILE[how](words))

    engine = tidegate.Engine(seed=1, clock=clock, store=Wrong(clock))
    assert limited(engine, 50, on_loss="open").call(int) == 0
