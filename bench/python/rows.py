"""What the benches of this folder share: the policies, what is called through them, and tidegate's rows."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from time import monotonic_ns
from typing import Any

import tidegate

engine = tidegate.Engine(seed=1)
RETRY = tidegate.Retry(max_attempts=3)
PERMITS = tidegate.Bulkhead(max_concurrency=100)
retry = tidegate.Policy(retry=RETRY, engine=engine)
plain = tidegate.Policy(retry=RETRY, bulkhead=PERMITS, engine=engine)
full = tidegate.Policy(retry=RETRY, bulkhead=PERMITS, deadline=30.0, engine=engine)
timed = tidegate.Policy(retry=RETRY, bulkhead=PERMITS, deadline=30.0, attempt_timeout=5.0, engine=engine)
again = tidegate.Policy(
    retry={"max_attempts": 3, "backoff": {"base": 0, "max": 0}, "budget": None}, engine=engine
)

calls_made = itertools.count()
running: list[Any] = [None]
"""The loop that a bench runs in."""


def work() -> int:
    """What is called."""
    return 1


async def awork() -> int:
    """What is awaited."""
    return 1


async def asuspends() -> int:
    """What is awaited, and waits for something: a future, as all input and output does."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(future.set_result, 1)
    return int(await future)


def fails_once() -> int:
    """Fails every other time."""
    if next(calls_made) % 2 == 0:
        raise ConnectionError
    return 1


async def afails_once() -> int:
    """Fails every other time."""
    return fails_once()


def bare_retry() -> int:
    """The least that one retry can cost."""
    try:
        return fails_once()
    except ConnectionError:
        return fails_once()


async def bare_aretry() -> int:
    """The least that one retry can cost."""
    return bare_retry()


def through(fn: Callable[[], Any]) -> Callable[[], Any]:
    """A call of it from a function, as every row makes its call."""

    def run() -> Any:
        return fn()

    return run


def loop(attempts: Callable[[], Any], body: Callable[[], object]) -> Callable[[], None]:
    """A call as a loop over its attempts."""

    def run() -> None:
        for attempt in attempts():
            with attempt:
                body()

    return run


def aloop(
    attempts: Callable[[], Any], body: Callable[[], Awaitable[object]]
) -> Callable[[], Awaitable[None]]:
    """A call as a loop over its attempts, awaited."""

    async def run() -> None:
        async for attempt in attempts():
            with attempt:
                await body()

    return run


# Groups: a title, whether it is awaited, the bare call, and tidegate's rows. Peers add theirs below.
Row = tuple[str, Callable[[], Any], str]
GROUPS: dict[str, tuple[bool, Callable[[], Any], list[Row]]] = {
    "sync": (
        False,
        through(work),
        [
            ("tidegate: retry", lambda: retry.call(work), ""),
            ("tidegate: retry, bulkhead", lambda: plain.call(work), ""),
            ("tidegate: retry, bulkhead, deadline", lambda: full.call(work), ""),
            ("tidegate: retry, as a loop", loop(retry.attempts, work), ""),
        ],
    ),
    "asyncio": (
        True,
        through(awork),
        [
            ("tidegate: retry", lambda: retry.acall(awork), ""),
            ("tidegate: retry, bulkhead", lambda: plain.acall(awork), ""),
            ("tidegate: retry, bulkhead, deadline", lambda: full.acall(awork), ""),
            ("tidegate: … and attempt_timeout", lambda: timed.acall(awork), ""),
            ("tidegate: retry, as a loop", aloop(retry.attempts, awork), ""),
        ],
    ),
    "asyncio, suspended once": (
        True,
        through(asuspends),
        [
            ("tidegate: retry, bulkhead", lambda: plain.acall(asuspends), ""),
            ("tidegate: … and deadline, attempt_timeout", lambda: timed.acall(asuspends), ""),
        ],
    ),
    "one retry without a wait, sync": (
        False,
        through(bare_retry),
        [
            ("tidegate: retry", lambda: again.call(fails_once), ""),
            ("tidegate: retry, as a loop", loop(again.attempts, fails_once), ""),
        ],
    ),
    "one retry without a wait, asyncio": (
        True,
        through(bare_aretry),
        [
            ("tidegate: retry", lambda: again.acall(afails_once), ""),
            ("tidegate: retry, as a loop", aloop(again.attempts, afails_once), ""),
        ],
    ),
}
SYNC, ASYNC, SUSPENDED, SYNC_RETRY, ASYNC_RETRY = (rows for _, _, rows in GROUPS.values())

_scope: ContextVar[object] = ContextVar("_scope", default=None)
GROUPS["what a call contains, each alone"] = (
    False,
    through(work),
    [
        ("two readings of the clock", lambda: (monotonic_ns(), monotonic_ns()), ""),
        ("a context variable, set and reset", lambda: _scope.reset(_scope.set(engine)), ""),
    ],
)
