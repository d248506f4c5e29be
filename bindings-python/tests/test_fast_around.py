"""The native happy path: what is around a call."""

from __future__ import annotations

import asyncio
import copy
import sys
import types
from typing import Any

import pytest

import tidegate
from fast import suspend
from tidegate._call.deadline import SCOPE, current
from tidegate.testing import FakeClock

# What is around a call.

MOVERS = ("greenlet", "concurrent.futures.thread", "anyio.from_thread", "asgiref.sync")
"""Modules that move contexts to other threads or stacks: where one is loaded, calls set the variable."""


@pytest.fixture(autouse=True, params=["frames", "variable"])
def told_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test twice: with the frames of a thread, and with the context variable."""
    for name in MOVERS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    if request.param == "variable":
        monkeypatch.setitem(sys.modules, "greenlet", types.ModuleType("greenlet"))
    return str(request.param)


def tries_of(call: Any) -> int:
    made: list[int] = []

    def failing() -> None:
        made.append(1)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        call(failing)
    return len(made)


async def atries_of(policy: tidegate.Policy) -> int:
    made: list[int] = []

    async def failing() -> None:
        made.append(1)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await policy.acall(failing)
    return len(made)


def quicker(engine: tidegate.Engine) -> tidegate.Policy:
    return tidegate.Policy(
        engine=engine, retry={"max_attempts": 3, "backoff": {"base": 0, "max": 0}, "budget": None}
    )


def test_calls_nest_on_a_thread(engine: tidegate.Engine) -> None:
    outer, inner, third = quicker(engine), quicker(engine), quicker(tidegate.Engine(seed=2))
    assert outer.call(lambda: tries_of(inner.call)) == 1
    assert outer.call(lambda: third.call(lambda: tries_of(inner.call))) == 1
    assert third.call(lambda: tries_of(inner.call)) == 3
    assert outer.call(lambda: (inner.call(int), tries_of(inner.call))[1]) == 1
    assert outer.call(lambda: asyncio.run(atries_of(inner))) == 1
    assert outer.call(lambda: next(iter([tries_of(inner.call)]))) == 1
    assert tries_of(inner.call) == 3
    assert current() is None

    def loops() -> int:
        made = 0
        try:
            for attempt in inner.attempts():
                with attempt:
                    made += 1
                    raise ConnectionError
        except ConnectionError:
            pass
        return made

    assert outer.call(loops) == 1
    assert loops() == 3


def test_deadlines_hold_inside_calls_that_set_nothing(clock: FakeClock, fake: tidegate.Engine) -> None:
    outer, inner = tidegate.Policy(engine=fake, retry={}), tidegate.Policy(engine=fake, retry={})

    def within() -> None:
        with tidegate.deadline(5):
            assert inner.call(lambda: current()) is not None
            clock.tick(6)
            with pytest.raises(tidegate.DeadlineExceeded):
                inner.call(int)
        inner.call(int)

    outer.call(within)
    with tidegate.deadline(3):
        outer.call(lambda: clock.tick(4))
        with pytest.raises(tidegate.DeadlineExceeded):
            outer.call(int)


def test_calls_nest_in_tasks(engine: tidegate.Engine) -> None:
    outer, inner = quicker(engine), quicker(engine)

    async def gathered() -> list[int]:
        return await asyncio.gather(*(atries_of(inner) for _ in range(3)))

    async def later(gate: asyncio.Event) -> int:
        await gate.wait()
        return await atries_of(inner)

    async def main() -> None:
        assert await outer.acall(atries_of, inner) == 1
        assert await outer.acall(gathered) == [1, 1, 1]
        assert await outer.acall(asyncio.to_thread, tries_of, inner.call) == 1
        assert await atries_of(inner) == 3
        assert await outer.acall(twice) == (1, 1)
        assert current() is None
        gate = asyncio.Event()

        async def spawn() -> asyncio.Task[int]:
            return asyncio.create_task(later(gate))

        task = await outer.acall(spawn)
        older = asyncio.create_task(later(gate))
        gate.set()
        assert await task == 3  # the call that it was made in has ended
        assert await older == 3
        assert await outer.acall(asyncio.wait_for, asyncio.create_task(later(gate)), 1) == 3
        assert await outer.acall(mixed) == 1

    async def twice() -> tuple[int, int]:
        await inner.acall(suspend)
        return await atries_of(inner), await atries_of(inner)

    async def mixed() -> int:
        return inner.call(lambda: tries_of(inner.call))

    asyncio.run(main())


def test_siblings_are_not_nested_while_a_call_is_suspended(engine: tidegate.Engine) -> None:
    outer, inner = quicker(engine), quicker(engine)

    async def main() -> None:
        gate = asyncio.Event()
        await outer.acall(suspend)
        holder = asyncio.create_task(outer.acall(gate.wait))
        await suspend(2)
        assert engine.snapshot()["live"] == 1
        assert await atries_of(inner) == 3
        assert tries_of(inner.call) == 3
        gate.set()
        await holder

    asyncio.run(main())


@pytest.mark.parametrize("mover", MOVERS)
def test_where_contexts_are_moved_the_variable_tells(
    engine: tidegate.Engine, monkeypatch: pytest.MonkeyPatch, mover: str, told_by: str
) -> None:
    outer, inner = quicker(engine), quicker(engine)
    before = SCOPE.get()
    assert (outer.call(SCOPE.get) is before) == (told_by == "frames")
    monkeypatch.setitem(sys.modules, mover, types.ModuleType(mover))
    assert outer.call(SCOPE.get)._scope[0] is engine
    assert outer.call(lambda: tries_of(inner.call)) == 1
    assert tries_of(outer.call) == 3
    assert outer.call(lambda: contextless(tries_of, inner.call)) == 3
    assert SCOPE.get() is before
    for name in MOVERS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert outer.call(SCOPE.get) is before


def contextless(fn: Any, *args: Any) -> Any:
    from contextvars import Context

    return Context().run(fn, *args)


def test_an_older_context_is_not_the_inside_of_a_call(engine: tidegate.Engine) -> None:
    outer, inner = quicker(engine), quicker(engine)
    with tidegate.deadline(60):
        assert outer.call(lambda: contextless(tries_of, inner.call)) == 3
    assert outer.call(lambda: copy.copy(tries_of(inner.call))) == 1
