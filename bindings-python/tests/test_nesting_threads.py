"""Calls on other threads are inside the call whose context they run in (docs/python.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

import tidegate

pytestmark = pytest.mark.usefixtures("both_paths")
AT_ONCE = {"max_attempts": 3, "backoff": {"base": 0, "max": 0}, "budget": None}


class Layers:
    """Two policies, one inside the other, and what the inner one sends."""

    def __init__(self, engine: tidegate.Engine) -> None:
        self.outer = tidegate.Policy("outer", retry=AT_ONCE, engine=engine)
        self.inner = tidegate.Policy("inner", retry=AT_ONCE, engine=engine)
        self.sent = 0

    def send(self) -> None:
        self.sent += 1
        raise ConnectionError

    async def asend(self) -> None:
        self.send()

    def sends(self, call: Callable[[], Any]) -> int:
        """How often two layers send in vain."""
        self.sent = 0
        with pytest.raises(ConnectionError):
            call()
        return self.sent


@pytest.fixture
def layers(engine: tidegate.Engine) -> Layers:
    return Layers(engine)


def test_a_pool_that_is_given_the_context(layers: Layers) -> None:
    with ThreadPoolExecutor(2) as pool:

        def work() -> None:
            pool.submit(copy_context().run, layers.inner.call, layers.send).result()

        assert layers.sends(lambda: layers.outer.call(work)) == 3
        # What the pool is handed without it is nobody's inside: the page says so.
        assert (
            layers.sends(
                lambda: layers.outer.call(lambda: pool.submit(layers.inner.call, layers.send).result())
            )
            == 9
        )


def test_work_in_threads_of_an_event_loop(layers: Layers) -> None:
    async def to_thread() -> None:
        await asyncio.to_thread(layers.inner.call, layers.send)

    async def executor_with_context() -> None:
        run = copy_context().run
        await asyncio.get_running_loop().run_in_executor(None, run, layers.inner.call, layers.send)

    async def executor() -> None:
        await asyncio.get_running_loop().run_in_executor(None, layers.inner.call, layers.send)

    assert layers.sends(lambda: asyncio.run(layers.outer.acall(to_thread))) == 3
    assert layers.sends(lambda: asyncio.run(layers.outer.acall(executor_with_context))) == 3
    assert layers.sends(lambda: asyncio.run(layers.outer.acall(executor))) == 9  # it copies no context


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_anyio_there_and_back(layers: Layers, backend: str) -> None:
    async def there() -> None:
        await anyio.to_thread.run_sync(layers.inner.call, layers.send)

    async def there_and_back() -> None:
        await anyio.to_thread.run_sync(anyio.from_thread.run, layers.inner.acall, layers.asend)

    async def back_from_a_call_in_a_thread() -> None:
        def work() -> None:
            layers.outer.call(anyio.from_thread.run, layers.inner.acall, layers.asend)

        await anyio.to_thread.run_sync(work)

    assert layers.sends(lambda: anyio.run(layers.outer.acall, there, backend=backend)) == 3
    assert layers.sends(lambda: anyio.run(layers.outer.acall, there_and_back, backend=backend)) == 3
    assert layers.sends(lambda: anyio.run(back_from_a_call_in_a_thread, backend=backend)) == 3


def test_a_thread_that_outlives_the_call_is_not_inside_any_more(layers: Layers) -> None:
    kept: list[Any] = []
    layers.outer.call(lambda: kept.append(copy_context()))
    assert layers.sends(lambda: kept[0].run(layers.inner.call, layers.send)) == 3


def test_calls_of_many_threads_at_once_are_not_inside_each_other(layers: Layers) -> None:
    def one(_: int) -> int:
        sent: list[int] = []

        def send() -> None:
            sent.append(1)
            raise ConnectionError

        with pytest.raises(ConnectionError):
            layers.outer.call(send)
        return len(sent)

    with ThreadPoolExecutor(8) as pool:
        context = copy_context()
        assert list(pool.map(one, range(50))) == [3] * 50
        assert [pool.submit(copy_context().run, one, number).result() for number in range(20)] == [3] * 20
        assert context.run(one, 0) == 3
