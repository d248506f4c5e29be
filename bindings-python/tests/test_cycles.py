"""What a call leaves behind is freed at once, without the garbage collector.

An exception keeps the frames of its traceback, and these what they hold: responses, buffers, connections. If
a frame of ours referred to the exception, all of it would stay until the collector's next run.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
import trio

import tidegate
import tidegate.httpx
from conftest import quick
from tidegate.testing import FakeClock


class Held:
    """What a frame of the user's holds."""


class Work:
    """Functions that fail, and weak references to what their frames hold."""

    def __init__(self) -> None:
        self.held: list[weakref.ref[Held]] = []
        self.failures = 100
        self.error: Callable[[], BaseException] = ConnectionError

    def run(self) -> str:
        held = Held()
        self.held.append(weakref.ref(held))
        if len(self.held) <= self.failures:
            raise self.error()
        return "done"

    async def arun(self) -> str:
        await asyncio.sleep(0)
        return self.run()

    async def trun(self) -> str:
        await trio.lowlevel.checkpoint()
        return self.run()

    async def hang(self) -> None:
        held = Held()
        self.held.append(weakref.ref(held))
        await asyncio.Event().wait()

    def kept(self) -> int:
        return sum(ref() is not None for ref in self.held)


@pytest.fixture
def work() -> Iterator[Work]:
    gc.collect()
    gc.disable()
    try:
        yield Work()
    finally:
        gc.enable()


RETRY: dict[str, Any] = {"max_attempts": 3, "backoff": {"base": 0.01}, "budget": {"kind": "window"}}
HEDGE: dict[str, Any] = {"max_attempts": 2, "delay": 0.001}


def engine() -> tidegate.Engine:
    return tidegate.Engine(seed=1, clock=FakeClock(autojump=True))


def fails(run: Callable[[], object], error: Any = ConnectionError) -> None:
    try:
        run()
    except error:
        return
    raise AssertionError("it has not failed")


async def afails(run: Callable[[], Awaitable[object]], error: Any = ConnectionError) -> None:
    """In the loop, since the frames of `asyncio.run` refer to the exception that leaves it."""
    try:
        await run()
    except error:
        return
    raise AssertionError("it has not failed")


def call(work: Work, **settings: Any) -> None:
    policy = quick(engine(), **settings)
    fails(lambda: policy.call(work.run), work.error)


def acall(work: Work, **settings: Any) -> None:
    policy = quick(engine(), **settings)
    asyncio.run(afails(lambda: policy.acall(work.arun)))


def decorated(work: Work, **settings: Any) -> None:
    policy = quick(engine(), **settings)
    fails(policy(lambda: work.run()))

    @policy
    async def alike() -> str:
        return work.run()

    asyncio.run(afails(alike))


def in_trio(work: Work, **settings: Any) -> None:
    policy = quick(engine(), **settings)
    trio.run(afails, lambda: policy.acall(work.trun))


@pytest.mark.parametrize("how", [call, acall, decorated, in_trio])
@pytest.mark.parametrize(
    "settings", [{"deadline": 5}, {"retry": RETRY}, {"retry": RETRY, "hedge": HEDGE}], ids=str
)
def test_an_exception_that_was_caught_is_gone(
    work: Work, how: Callable[..., None], settings: dict[str, Any]
) -> None:
    how(work, **settings)
    assert work.held and work.kept() == 0


@pytest.mark.parametrize("settings", [{"retry": RETRY}, {"retry": RETRY, "hedge": HEDGE}], ids=str)
def test_failures_before_a_success_are_gone(work: Work, settings: dict[str, Any]) -> None:
    work.failures = 1
    policy = quick(engine(), **settings)
    assert policy.call(work.run) == "done"
    work.failures = 3
    assert asyncio.run(policy.acall(work.arun)) == "done"
    assert len(work.held) == 4 and work.kept() == 0


def test_an_interrupt_is_gone(work: Work) -> None:
    work.error = KeyboardInterrupt
    call(work, retry=RETRY)
    assert work.held and work.kept() == 0


@pytest.mark.parametrize("settings", [{"deadline": 0.01}, {"attempt_timeout": 0.01, "retry": RETRY}], ids=str)
def test_what_ran_out_of_time_is_gone(work: Work, settings: dict[str, Any]) -> None:
    policy = quick(engine(), **settings)
    asyncio.run(afails(lambda: policy.acall(work.hang), TimeoutError))
    assert work.held and work.kept() == 0


@pytest.mark.parametrize("settings", [{"deadline": 5}, {"retry": RETRY, "hedge": HEDGE}], ids=str)
def test_what_was_cancelled_is_gone(work: Work, settings: dict[str, Any]) -> None:
    policy = quick(tidegate.Engine(seed=1), **settings)

    async def main() -> None:
        task = asyncio.ensure_future(policy.acall(work.hang))
        for _ in range(20):
            await asyncio.sleep(0)
        assert work.held
        task.cancel()
        await afails(lambda: task, asyncio.CancelledError)

    asyncio.run(main())
    assert work.kept() == 0


def test_errors_that_a_fallback_replaces_are_gone(work: Work) -> None:
    policy = quick(engine(), retry=RETRY, fallback=lambda _: "instead")
    assert policy.call(work.run) == "instead"
    assert asyncio.run(policy.acall(work.arun)) == "instead"
    assert len(work.held) == 6 and work.kept() == 0


@pytest.mark.parametrize("retry", [{"max_attempts": 1}, RETRY], ids=str)
def test_errors_of_a_transport_are_gone(work: Work, retry: dict[str, Any]) -> None:
    work.error = lambda: httpx.ConnectError("refused")
    policy = quick(engine(), deadline=5, retry=retry)
    inner = httpx.MockTransport(lambda _: work.run())  # type: ignore[arg-type, return-value]
    with httpx.Client(transport=tidegate.httpx.Transport(inner, policy)) as client:
        fails(lambda: client.get("http://a.test/"), httpx.ConnectError)
    assert work.held and work.kept() == 0


def test_a_failed_answer_that_is_dropped_unread_is_gone(work: Work) -> None:
    """And with it, its connection: its stream has our deadline, and no reference back to the answer."""

    class Endless(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"x"

    policy = quick(engine(), deadline=5, retry={"statuses": [503]})
    inner = httpx.MockTransport(lambda _: httpx.Response(500, stream=Endless()))
    transport = tidegate.httpx.Transport(inner, policy)
    response = transport.handle_request(httpx.Request("GET", "http://a.test/"))
    gone = weakref.ref(response.stream)
    del response
    assert gone() is None


@pytest.mark.parametrize("more", [{}, {"idle_timeout": 5}], ids=str)
def test_an_error_of_a_body_is_gone(work: Work, more: dict[str, Any]) -> None:
    class Broken(httpx.SyncByteStream, httpx.AsyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"x"
            work.run()

        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"x"
            work.run()

    work.error = lambda: httpx.ReadError("broken")
    policy = quick(engine(), deadline=5, **more)
    inner = httpx.MockTransport(lambda _: httpx.Response(200, stream=Broken()))
    with httpx.Client(transport=tidegate.httpx.Transport(inner, policy)) as client:
        fails(lambda: client.get("http://a.test/"), httpx.ReadError)

    async def main() -> None:
        async with httpx.AsyncClient(transport=tidegate.httpx.AsyncTransport(inner, policy)) as client:
            await afails(lambda: client.get("http://a.test/"), httpx.ReadError)

    asyncio.run(main())
    assert len(work.held) == 2 and work.kept() == 0
