"""Commands that wait for the store's thread at the same time share a round trip (ADR 0081)."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

import tidegate
from fleet_tools import CLIENTS, PATIENT, Plain, limited, redis, until
from redis_server import RedisServer, redis_server
from tidegate._engine import store as _store
from tidegate.fleet import RedisStore, Refused
from tidegate.testing import MemoryStore

__all__ = ["redis_server"]

OURS = [kind for kind in CLIENTS if not kind.startswith("own")]


@contextmanager
def busy() -> Iterator[None]:
    """Keeps the store's thread busy, so that commands queue up behind it."""
    begun, over = threading.Event(), threading.Event()

    def job(in_time: bool) -> None:
        begun.set()
        assert over.wait(60)

    _store.worker.put(job, 60_000_000)
    assert begun.wait(60)
    try:
        yield
    finally:
        over.set()


def at_once(policy: tidegate.Caller, calls: int) -> list[Any]:
    """Results or errors of calls whose commands were all queued before the first was sent."""

    def one(_: int) -> Any:
        try:
            return policy.call(int)
        except tidegate.Rejected as error:
            return error.code

    with ThreadPoolExecutor(calls) as pool:
        with busy():
            results = pool.map(one, range(calls))
            until(lambda: len(_store.worker._queue) == calls)
        return list(results)


class Watched(MemoryStore):
    """A store that runs several commands at once, as `RedisStore` does; notes how many."""

    inline = False  # type: ignore[misc]
    pipelines = True

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []
        self.seconds: list[float] = []

    def carry(self, words: list[bytes], key: int, seconds: float) -> bytes:
        self.batches.append(1)
        return super().carry(words, key, seconds)

    def carry_all(self, commands: list[list[bytes]], seconds: float) -> list[Any]:
        self.batches.append(len(commands))
        self.seconds.append(seconds)
        return [MemoryStore.carry(self, words, 3, seconds) for words in commands]


@pytest.mark.parametrize("kind", OURS)
def test_each_command_has_its_own_answer(redis_server: RedisServer, kind: str) -> None:
    store = RedisStore(CLIENTS[kind](redis_server.port))
    assert store.pipelines
    answers = store.carry_all(
        [
            [b"SET", b"k", b"v", b"PX", b"60000"],
            [b"GET", b"k"],
            [b"EVALSHA", b"0" * 40, b"1", b"k"],
            [b"INCRBY", b"k", b"1"],
            [b"GET", b"none"],
            [b"SET", b"k", b"w", b"PX", b"60000", b"NX"],
            [b"PTTL", b"none"],
        ],
        PATIENT,
    )
    refused = [(at, str(answer)) for at, answer in enumerate(answers) if isinstance(answer, Refused)]
    assert [(at, text.split(" ", 1)[0]) for at, text in refused] == [(2, "NOSCRIPT"), (3, "ERR")]
    told = [answer for answer in answers if not isinstance(answer, Refused)]
    assert told == [b"OK", b"v", b"", b"", b"-2"]
    store.close()


@pytest.mark.parametrize("kind", OURS)
def test_a_server_that_does_not_answer_is_given_up_in_time(redis_server: RedisServer, kind: str) -> None:
    store = RedisStore(CLIENTS[kind](redis_server.port))
    assert store.carry_all([[b"PTTL", b"k"]] * 2, 0.05) == [b"-2", b"-2"]
    redis_server.pause()
    with pytest.raises(Exception, match=r"(?i)time"):
        store.carry_all([[b"PTTL", b"k"]] * 2, 0.05)
    redis_server.go_on()
    assert store.carry_all([[b"PTTL", b"k"]] * 2, PATIENT) == [b"-2", b"-2"]
    store.close()


def test_calls_at_once_share_a_round_trip_and_keep_the_rate(redis_server: RedisServer) -> None:
    store = RedisStore(redis.Redis(port=redis_server.port))
    policy = limited(tidegate.Engine(seed=1, store=store), 20, PATIENT, lease=1, per=3600)
    assert policy.call(int) == 0

    def reads() -> int:
        line = re.search(rb"total_reads_processed:(\d+)", redis_server.command("INFO", "stats"))
        assert line is not None
        return int(line[1])

    before = reads()
    results = at_once(policy, 40)
    assert reads() - before < 20, "40 commands alone would be 40 reads of the server"
    assert sorted(map(str, results)) == ["0"] * 19 + ["rate_limited"] * 21
    store.close()


def test_an_event_loop_s_calls_share_one(redis_server: RedisServer) -> None:
    store = RedisStore(redis.asyncio.Redis(port=redis_server.port))
    policy = limited(tidegate.Engine(seed=1, store=store), 1_000, PATIENT, lease=1)

    async def zero() -> int:
        return 0

    async def main() -> list[int]:
        return list(await asyncio.gather(*(policy.acall(zero) for _ in range(200))))

    assert asyncio.run(main()) == [0] * 200
    store.close()


def test_no_more_than_64_share_one() -> None:
    store = Watched()
    policy = limited(tidegate.Engine(seed=1, store=store), 1_000, PATIENT, lease=1)
    assert policy.call(int) == 0
    store.batches.clear()
    assert at_once(policy, 70) == [0] * 70
    assert store.batches[:1] == [64]
    assert sum(store.batches) >= 70


def test_only_similar_time_limits_share_one() -> None:
    """The shortest counts for all, and none is given up long before its own time."""
    first = _queued(Watched(), 50_000)
    limits = (24_999, 25_000, 50_000, 100_000, 100_001)
    sharing = [us for us in limits if _queued(first.carrier, us).can_share(first)]
    assert sharing == [25_000, 50_000, 100_000]
    assert not _queued(Watched(), 50_000).can_share(first), "another store"


def _queued(
    store: Any, us: int, kind: type[_store.QueuedCommand] = _store.QueuedCommand
) -> _store.QueuedCommand:
    engine = tidegate.Engine(seed=1, store=MemoryStore())
    assert engine.link is not None
    queued = kind(engine, engine.link, (1, [b"GET", b"k"], 1, us))
    queued.carrier = store
    return queued


@pytest.mark.parametrize("error", [OSError("reset"), SystemExit(1), KeyboardInterrupt()])
def test_a_store_that_raises_fails_all_of_them_and_the_thread_goes_on(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    class Raises(Watched):
        broken = False

        def carry_all(self, commands: list[list[bytes]], seconds: float) -> list[Any]:
            if self.broken:
                raise error
            return super().carry_all(commands, seconds)

    store = Raises()
    policy = limited(tidegate.Engine(seed=1, store=store), 100, PATIENT, lease=1, on_loss="closed")
    assert policy.call(int) == 0
    store.broken = True
    assert at_once(policy, 5) == ["store_unavailable"] * 5
    store.broken = False
    assert _store.worker._thread is not None
    assert _store.worker._thread.is_alive()
    until(lambda: _passes(policy))
    assert ("could not be delivered" in caplog.text) is not isinstance(error, Exception)


def _passes(policy: tidegate.Caller) -> bool:
    try:
        policy.call(int)
    except tidegate.Rejected:
        return False
    return True


def test_an_answer_that_cannot_be_delivered_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    told = []

    class Failing(_store.QueuedCommand):
        __slots__ = ()

        def reply(self, answer: Any) -> None:
            told.append(answer)
            raise SystemExit(1)

    _store.run_all([_queued(Watched(), 50_000, Failing) for _ in range(2)])
    assert told == [b"", b""]
    assert caplog.text.count("could not be delivered") == 2


def test_clients_of_the_user_s_own_are_asked_one_by_one(redis_server: RedisServer) -> None:
    class Counts(RedisStore):
        carried = 0

        def carry(self, words: list[bytes], key: int, seconds: float) -> bytes:
            self.carried += 1
            return super().carry(words, key, seconds)

    class CountsAll(Counts):
        def carry_all(self, commands: list[list[bytes]], seconds: float) -> list[bytes | Exception]:
            self.carried += len(commands)
            return super().carry_all(commands, seconds)

    store = Counts(redis.Redis(port=redis_server.port))
    assert not store.pipelines, "its own carry sees each command"
    assert CountsAll(redis.Redis(port=redis_server.port)).pipelines, "it has both"
    assert not RedisStore(Plain(redis_server.port)).pipelines
    policy = limited(tidegate.Engine(seed=1, store=store), 100, PATIENT, lease=1)
    assert policy.call(int) == 0
    store.carried = 0
    assert at_once(policy, 10) == [0] * 10
    assert store.carried >= 10
    store.close()


def test_what_is_late_shares_nothing() -> None:
    store = Watched()
    worker = _store.Worker()
    late = (_queued(store, 50_000), 0)
    worker._queue.append(late)
    worker._run(_queued(store, 50_000), 2**62)
    assert store.batches == [1]
    assert list(worker._queue) == [late]
