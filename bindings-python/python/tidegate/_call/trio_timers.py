"""The timers of the event loop of trio. Imported only by code that runs in trio."""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import ref

import trio
from trio.lowlevel import current_trio_token, in_trio_run, spawn_system_task

from tidegate._engine.engine import GONE

from .timers import LATE, TURNS, Parked, Timers, Waiter

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

    from tidegate._engine.engine import Engine

_EARLY = 5e-7
"""Tolerance in seconds for the last digit of two clocks that run at the same rate."""


class TrioTimers(Timers):
    """The deadlines in one run of trio.

    Trio has no `call_later`. Instead a system task sleeps until the next due time, while there is one.
    """

    __slots__ = ("_sleep", "_ticks", "_token")

    def __init__(self, engine: Engine, token: trio.lowlevel.TrioToken) -> None:
        key = id(token)
        self._token = ref(token, lambda _: engine.timers.pop(key, None))
        self._ticks = False
        self._sleep: trio.CancelScope | None = None
        super().__init__(engine, key)

    def arm(self, call: int, us: int) -> None:
        """Sets a timer for the running task's attempt: everything from here to `disarm` can be cancelled."""
        scope = trio.CancelScope()
        scope.__enter__()
        due = self.now() + us * 1e-6
        self.running[call] = (due, scope, 0)
        if due < self.next:
            self.schedule(due)

    def disarm(self, call: int, error: BaseException | None) -> tuple[int, bool] | None:
        """Removes the timer of an attempt that has unwound; returns as `Timers.disarm`."""
        running = self.running.pop(call, None)
        if running is not None:
            _leave(running[1], error)
            return None
        entry = self.stopped.pop(call, None)
        if entry is None:
            return None
        step, scope, _ = entry
        ours = _leave(scope, error)
        return step, not (ours or isinstance(error, Exception))

    def waker(self) -> Parked:
        """Makes a waker of the running task."""
        return _TrioParked()

    def _wake_at(self, due: float) -> None:
        if self._sleep is not None:
            self._sleep.deadline = _trio_time(due)
        elif not self._ticks:
            self._ticks = True
            spawn_system_task(self._tick, name="tidegate: timers")

    async def _tick(self) -> None:
        try:
            while self.next < inf:
                with trio.CancelScope(deadline=_trio_time(self.next)) as self._sleep:
                    await trio.sleep_forever()
                self._sleep = None
                if monotonic() - self.next > LATE:
                    for _ in range(TURNS):  # tasks whose data have come run first
                        await trio.lowlevel.checkpoint()
                if monotonic() + _EARLY >= self.next:
                    self.fire()
        finally:
            self._ticks, self._sleep = False, None

    def _stop(self, owner: Any) -> None:
        owner.cancel()


def _leave(scope: trio.CancelScope, error: BaseException | None) -> bool:
    """Exits a scope with this error; returns whether the error was the scope's own cancellation."""
    if isinstance(error, GeneratorExit):
        # A coroutine may be closed from outside its task, where its scopes cannot be exited.
        try:
            return scope.__exit__(GeneratorExit, error, error.__traceback__)
        except RuntimeError:
            return False
    try:
        if error is None:
            return scope.__exit__(None, None, None)
        return scope.__exit__(type(error), error, error.__traceback__)
    except Exception:
        if scope.cancelled_caught:
            return True  # the other exceptions in the group result from our cancellation
        raise


def _trio_time(due: float) -> float:
    """Converts a time on the process's clock to the clock of the trio run."""
    return trio.current_time() + max(due - monotonic(), 0.0)


class Event(Waiter):
    """A `Waiter` on top of `trio.Event`."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = trio.Event()

    def done(self) -> bool:
        return self._event.is_set()

    def set_result(self, result: None, /) -> None:
        self._event.set()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._event.wait().__await__()


class _TrioParked(Parked):
    """Waker of a trio task."""

    __slots__ = ("_token",)

    def __init__(self) -> None:
        self._token = current_trio_token()
        self.future = Event()

    def __call__(self) -> object:
        if in_trio_run() and current_trio_token() is self._token:
            self.set()
            return None
        try:
            self._token.run_sync_soon(self.set)
        except trio.RunFinishedError:
            return GONE
        return None

    def renew(self) -> None:
        self.future = Event()


def timers_here(engine: Engine) -> Timers:
    """Returns the timers of an engine in the trio run of this task."""
    token = current_trio_token()
    return engine.timers.get(id(token)) or TrioTimers(engine, token)


class TrioCrew:
    """The tasks of a race, in trio."""

    def __init__(self) -> None:
        self._manager = trio.open_nursery()
        self._nursery: trio.Nursery | None = None
        self._scopes: dict[int, trio.CancelScope] = {}
        self._all_in = trio.Event()
        self._all_in.set()

    async def __aenter__(self) -> object:
        self._nursery = await self._manager.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._manager.__aexit__(*error)

    def start(self, attempt: int, work: Coroutine[Any, Any, None]) -> None:
        """Starts a task for an attempt."""
        assert self._nursery is not None  # noqa: S101 - it has been entered
        scope = self._scopes[attempt] = trio.CancelScope()
        if len(self._scopes) == 1:
            self._all_in = trio.Event()
        self._nursery.start_soon(self._run, attempt, scope, work, name=f"tidegate: attempt {attempt}")

    async def _run(self, attempt: int, scope: trio.CancelScope, work: Coroutine[Any, Any, None]) -> None:
        try:
            with scope:
                await work
        finally:
            del self._scopes[attempt]
            if not self._scopes:
                self._all_in.set()

    def stop(self, attempt: int) -> None:
        """Cancels the task of an attempt if it still runs."""
        scope = self._scopes.get(attempt)
        if scope is not None:
            scope.cancel()

    async def join(self) -> None:
        """Waits for all tasks. A cancellation meanwhile is raised only after they have ended."""
        with trio.CancelScope(shield=True):
            await self._all_in.wait()
        await trio.lowlevel.checkpoint_if_cancelled()
