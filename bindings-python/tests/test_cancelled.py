"""A call that is cancelled at any of its awaits, and at any two of them, leaves nothing behind (rules 6, 14).

Every scenario is driven turn by turn of its event loop, on a clock that stands still but for the moments at
which something is due. First without a cancellation, which counts the turns; then once for each turn, and
once for each pair of turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import anyio
import pytest
import trio

import tidegate
from tidegate.testing import FakeClock

MOST = 200
"""Turns that a scenario takes at most."""
EACH = 5
"""After so many turns the clock goes on; by then nothing can happen any more without it."""


class World:
    """What a scenario has: a policy on a clock, and bodies that wait on it, slowly on their way out too."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.engine = tidegate.Engine(seed=1, clock=self.clock)
        self.inside = 0
        self.errors: list[BaseException] = []

    def policy(self, **settings: Any) -> tidegate.Policy:
        backoff = {"base": 1, "max": 1, "jitter": "none"}
        base = {"retry": {"max_attempts": 2, "backoff": backoff}, "bulkhead": {"max_concurrency": 2}}
        return tidegate.Policy(engine=self.engine, **{**base, **settings})

    async def body(self, fails: bool = False) -> str:
        self.inside += 1
        try:
            await self.clock.sleep(1)
            await anyio.lowlevel.checkpoint()
            if fails:
                raise ConnectionError
            return "done"
        except BaseException:
            await anyio.lowlevel.cancel_shielded_checkpoint()
            raise
        finally:
            self.inside -= 1

    def step_clock(self) -> None:
        """To what is due next, if anything is."""
        due = self.clock._next()
        if due is not None:
            self.clock.move(max(due, self.clock._us))
            self.clock._fire()

    def check(self) -> None:
        view = self.engine.snapshot()
        assert (view["live"], view["lingering"], view["lost"], view["waiting"]) == (0, 0, 0, 0)
        assert self.engine.waiters == {}
        for timers in self.engine.timers.values():
            assert (timers.running, timers.parked, timers.stopped) == ({}, {}, {})
        for route in view["routes"]:
            assert route["active"] == 0
            assert route["pool"] is None or route["pool"]["in_flight"] == 0
        assert (self.inside, self.clock._sleepers) == (0, [])


async def retried(world: World) -> None:
    await world.policy().acall(world.body, True)


async def stopped(world: World) -> None:
    """An attempt timeout, the wait, and a second one; the deadline last."""
    policy = world.policy(attempt_timeout=0.5, deadline=2.2)
    await policy.acall(world.body)


async def queued(world: World) -> None:
    policy = world.policy(
        bulkhead={"max_concurrency": 1, "max_queue": 4, "acquire_timeout": None}, deadline=30
    )

    async def quiet() -> None:
        try:
            await policy.acall(world.body)
        except Exception as error:
            world.errors.append(error)

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(quiet)


async def hedged(world: World) -> None:
    await world.policy(hedge={"delay": 0.3, "budget": {"kind": "none"}}, deadline=30).acall(world.body)


async def hedged_and_failing(world: World) -> None:
    """One is stopped after the other, while a hedge runs."""
    backoff = {"base": 1, "max": 1, "jitter": "none"}
    hedge = {"delay": 0.3, "budget": {"kind": "none"}}
    policy = world.policy(hedge=hedge, attempt_timeout=0.6, retry={"max_attempts": 3, "backoff": backoff})
    await policy.acall(world.body, True)


async def hedging_in_vain(world: World) -> None:
    """Stopped before a hedge is due: a wait in which nothing is out, and one more."""
    await world.policy(hedge={"delay": 0.4}, attempt_timeout=0.3).acall(world.body)


async def looped(world: World) -> None:
    async for attempt in world.policy(deadline=30).attempts():
        with attempt:
            await world.body(fails=attempt.num == 1)


async def admitted(world: World) -> None:
    async with world.policy(attempt_timeout=0.5).bulkhead():
        await world.body()


async def generated(world: World) -> None:
    @world.policy(deadline=30)
    async def items() -> AsyncIterator[str]:
        yield await world.body()
        yield await world.body()

    stream: Any = items()
    try:
        async for _ in stream:
            await anyio.lowlevel.checkpoint()
    finally:
        with anyio.CancelScope(shield=True):
            await stream.aclose()


async def fallen_back(world: World) -> None:
    async def instead(error: Exception) -> str:
        return await world.body()

    await world.policy(fallback=instead).acall(world.body, True)


async def nested(world: World) -> None:
    policy = world.policy(bulkhead={"max_concurrency": 1}, deadline=30)
    await policy.acall(policy.acall, world.body, True)


SCENARIOS: list[Callable[[World], Coroutine[Any, Any, None]]] = [
    retried, stopped, queued, hedged, hedged_and_failing, hedging_in_vain, looped, admitted, generated,
    fallen_back, nested,
]  # fmt: skip


def on_asyncio(scenario: Any, world: World, at: tuple[int, ...]) -> tuple[int, bool]:
    """Turns that it took, and whether it ended by the cancellation."""

    async def main() -> tuple[int, bool]:
        task = asyncio.ensure_future(scenario(world))
        turn = 0
        while not task.done():
            if turn in at:
                task.cancel()
            await asyncio.sleep(0)
            if turn % EACH == EACH - 1:
                world.step_clock()
            turn += 1
            assert turn < MOST, "it does not end"
        assert asyncio.all_tasks() == {asyncio.current_task()}
        if task.cancelled():
            return turn, True
        error = task.exception()
        assert error is None or isinstance(error, Exception)
        return turn, False

    return asyncio.run(main())


def on_trio(scenario: Any, world: World, at: tuple[int, ...]) -> tuple[int, bool]:
    """The same; a second cancellation there is that of the scope around."""

    async def main() -> tuple[int, bool]:
        done, turn = trio.Event(), 0
        scopes = [trio.CancelScope() for _ in range(2)]

        async def run() -> None:
            try:
                with scopes[1], scopes[0]:
                    await scenario(world)
            except Exception as error:
                world.errors.append(error)
            finally:
                done.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            while not done.is_set():
                if turn in at:
                    scopes[at.index(turn)].cancel()
                await trio.lowlevel.checkpoint()
                if turn % EACH == EACH - 1:
                    world.step_clock()
                turn += 1
                assert turn < MOST, "it does not end"
        return turn, any(scope.cancelled_caught for scope in scopes)

    return trio.run(main)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("run", [on_asyncio, on_trio], ids=["asyncio", "trio"])
def test_at_every_await_and_at_every_two(scenario: Any, run: Any) -> None:
    world = World()
    turns, _ = run(scenario, world, ())
    world.check()
    assert turns >= 4
    cancelled = 0
    for first in range(turns):
        for second in range(first, turns):
            world = World()
            at = (first,) if first == second else (first, second)
            try:
                cancelled += run(scenario, world, at)[1]
                world.check()
            except BaseException as error:
                raise AssertionError(f"cancelled at {at}") from error
    assert cancelled > turns  # some come too late; most do not
