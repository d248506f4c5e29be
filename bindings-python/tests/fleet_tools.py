"""What the tests of a fleet share: the clients that people have, policies of the fleet, and patience."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

import tidegate
from tidegate import fleet
from tidegate._engine import store as _store

if os.environ.get("TIDEGATE_REDIS_REQUIRED"):
    import redis
else:
    redis = pytest.importorskip("redis")
try:
    import valkey
except ImportError:  # its newest release needs Python 3.11
    valkey = None

WAITS = 0.05
"""`store_timeout`, as it is by default."""
SLACK = 5.0
"""What a busy machine may add to a wait."""


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


def passes(policy: tidegate.Caller) -> bool:
    """Is a call let through?"""
    try:
        policy.call(int)
    except tidegate.Rejected:
        return False
    return True


def broken(engine: tidegate.Engine, **rest: Any) -> tidegate.Policy:
    given = {"consecutive": 3, "break_duration": 5, "store": "fleet", **rest}
    return tidegate.Policy("partner", breaker=given, store_timeout=PATIENT, engine=engine)


def fails() -> None:
    raise ConnectionError


def trip(policy: tidegate.Policy) -> None:
    for _ in range(3):
        with pytest.raises(ConnectionError):
            policy.call(fails)


def isolated(engine: tidegate.Engine, limit: int, **rest: Any) -> tidegate.Policy:
    given = {"max_concurrency": limit, "store": "fleet", **rest}
    return tidegate.Policy("partner", bulkhead=given, store_timeout=PATIENT, engine=engine)


class Plain:
    """A client of somebody's own: one method."""

    def __init__(self, port: int) -> None:
        self.client = redis.Redis(port=port, socket_timeout=PATIENT)

    def execute(self, words: list[bytes]) -> Any:
        return self.client.execute_command(*words)


def closed_behind_commands(ends: Callable[[], Any]) -> None:
    """Closes a client in the thread of stores, and on their loop: a command under way comes first."""
    over: Future[None] = Future()

    def job(in_time: bool) -> None:
        try:
            assert in_time
            ended = ends()
            if hasattr(ended, "__await__"):
                fleet._loop[0].run_until_complete(ended)
            over.set_result(None)
        except BaseException as error:
            over.set_exception(error)

    _store.worker.put(job, 60_000_000)
    over.result(60)


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
