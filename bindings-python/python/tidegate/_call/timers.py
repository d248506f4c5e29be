"""One timer per event loop for all calls that run in it: a dict of deadlines and one `call_later`.

An `asyncio.timeout` per attempt would cost more than the rest of a call (`docs/performance.md`). The trio
variant is in `trio_timers.py`; the rest of the async shell does not depend on the library.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from asyncio import CancelledError, current_task, get_running_loop
from asyncio.events import _get_running_loop
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from tidegate._engine.engine import GONE
from tidegate._engine.wire import TIMER, is_wait, span_of, stops_of

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future, Handle, Task
    from collections.abc import Callable, Generator

    from tidegate._engine.engine import Engine

_OURS: Final = "tidegate: the attempt is stopped"
_COALESCE: Final = 1e-6
"""Seconds between two firings, per deadline kept: it limits the timer to about a tenth of the loop's time."""


_NO_TASK: Final = "tidegate: an async call belongs to a task of a running event loop"

LATE: Final = 0.1
"""Seconds after which a timer is late: the loop was busy, or the process was stopped."""
TURNS: Final = 4
"""Turns of the loop for which a late timer waits, so that what has arrived meanwhile is read before it fires.

When a stopped process goes on, the first turn has no data; the second has them, a task reads in the third.
"""

_ROUNDING: Final = 5e-7
"""Tolerance in seconds: times are floats here, and whole microseconds in the engine."""


class Waiter(ABC):
    """Interface that a parked call waits on: the part of an asyncio future that is needed here."""

    __slots__ = ()

    @abstractmethod
    def done(self) -> bool:
        """Returns whether the wait is over."""

    @abstractmethod
    def set_result(self, result: None, /) -> None:
        """Ends the wait."""

    @abstractmethod
    def __await__(self) -> Generator[Any, Any, Any]:
        """Waits."""


class Parked(ABC):
    """Waker of a parked call, callable from any thread."""

    __slots__ = ("future",)

    future: Waiter | Future[None]

    @abstractmethod
    def __call__(self) -> object:
        """Wakes the call; returns `GONE` if its event loop has ended."""

    @abstractmethod
    def renew(self) -> None:
        """Prepares the next wait."""

    def set(self) -> None:
        """Wakes the call; must run in the call's own event loop."""
        if not self.future.done():
            self.future.set_result(None)


class Timers(ABC):
    """The deadlines of one engine's calls in one event loop. Only that loop's thread uses it."""

    __slots__ = ("__weakref__", "engine", "next", "now", "offset", "parked", "reports", "running", "stopped")

    def __init__(self, engine: Engine, key: int) -> None:
        self.engine = engine
        self.next = inf
        # By call: when it is due, the task or scope to cancel, and the count of earlier cancellations of it.
        self.running: dict[int, tuple[float, Any, int]] = {}
        self.parked: dict[int, tuple[float, Waiter | Future[None]]] = {}
        # By call: the step that stopped its attempt, the task or scope, and the count.
        self.stopped: dict[int, tuple[int, Any, int]] = {}
        # By call whose body is read: makes the event of a timer that has fired, in place of `TIMER`.
        self.reports: dict[int, Callable[[], int]] = {}
        clock = engine.clock
        self.now = monotonic if clock is None else lambda: clock.now_us() / 1e6
        self.offset = (
            0.0 if clock is not None else monotonic() - engine.native.now() / 1e6
        )  # constant, since both clocks run at the same rate
        engine.timers[key] = self
        if clock is not None:
            clock.watch(self)

    @abstractmethod
    def arm(self, call: int, us: int) -> None:
        """Sets a timer of `us` microseconds for the attempt that the running task makes for this call.

        When it fires, the engine decides whether to stop the attempt.
        """

    @abstractmethod
    def disarm(self, call: int, error: BaseException | None) -> tuple[int, bool] | None:
        """Removes the timer of an attempt that has unwound.

        Returns None if the timer did not stop it. Else returns the step that did, and whether `error` is
        foreign: a cancellation by the caller, or an exception that ends the program. A foreign error is
        raised unchanged.
        """

    @abstractmethod
    def waker(self) -> Parked:
        """Makes a waker of the running task."""

    @abstractmethod
    def _wake_at(self, due: float) -> None:
        """Schedules `fire` for this time."""

    @abstractmethod
    def _stop(self, owner: Any) -> None:
        """Stops an attempt."""

    def drop(self, call: int) -> None:
        """Removes the entries of a call whose coroutine was dropped."""
        self.running.pop(call, None)
        self.stopped.pop(call, None)
        self.reports.pop(call, None)

    def park(self, call: int, future: Waiter | Future[None], us: int) -> None:
        """Sets a timer that wakes a waiting call after `us` microseconds; negative means no limit."""
        due = self.now() + us * 1e-6 if us >= 0 else inf
        self.parked[call] = (due, future)
        if due < self.next:
            self.schedule(due)
        elif self.engine.clock is not None:
            self.engine.clock.changed(self)

    def schedule(self, due: float) -> None:
        """Sets the time of the next firing."""
        self.next = due
        if self.engine.clock is not None:
            self.engine.clock.changed(self)
        else:
            self._wake_at(due)

    def fire(self) -> None:
        """Steps running calls that are due, and wakes waiting ones that are due, which then poll (R3)."""
        self.next = inf
        try:
            self._fire(self.now() + _ROUNDING)
        finally:
            self._again()

    def _fire(self, now: float) -> None:
        for call, (due, owner, before) in list(self.running.items()):
            if due <= now:
                self._step(call, owner, before, now)
        for due, future in list(self.parked.values()):
            if due <= now and not future.done():
                future.set_result(None)

    def _again(self) -> None:
        """Sets the timer for the next due time, also after an exception in this round."""
        dues = [entry[0] for entry in self.running.values()]
        dues += [due for due, future in self.parked.values() if not future.done()]
        if dues and (due := min(dues)) < inf:
            self.schedule(max(due, self.now() + _COALESCE * len(dues)))

    def _step(self, call: int, owner: Any, before: int, now: float) -> None:
        reports = self.reports.get(call)
        step = self.engine.on(call, TIMER if reports is None else reports())
        if stops_of(step):
            del self.running[call]
            self.stopped[call] = (step, owner, before)
            self._stop(owner)
        else:
            us = span_of(step) if is_wait(step) else -1
            self.running[call] = (now + us * 1e-6 if us >= 0 else inf, owner, before)


class LoopTimers(Timers):
    """The deadlines in an event loop of asyncio."""

    __slots__ = ("_due", "_handle", "_loop")

    def __init__(self, engine: Engine, loop: AbstractEventLoop) -> None:
        key = id(loop)
        for other, timers in list(engine.timers.items()):
            if isinstance(timers, LoopTimers) and timers._forget_if_closed():
                engine.timers.pop(other, None)  # its handle may keep the loop alive
        self._due = inf
        self._loop = ref(loop, lambda _: engine.timers.pop(key, None))
        self._handle: Handle | None = None
        super().__init__(engine, key)

    def _forget_if_closed(self) -> bool:
        """Forgets the calls of a loop that was closed before its tasks had ended. Returns whether it is.

        Nothing else refers to such tasks: they are collected, which ends their calls and frees their permits.
        """
        loop = self._loop()
        if loop is None or not loop.is_closed():
            return False
        for call in self.parked:
            self.engine.waiters.pop(call, None)
        for known in (self.running, self.parked, self.stopped, self.reports):
            known.clear()
        return True

    def arm(self, call: int, us: int) -> None:
        """Sets a timer for the attempt that the running task makes for this call."""
        task = current_task(self._loop())  # passing the loop saves a look-up
        if task is None:
            raise RuntimeError(_NO_TASK)
        due = self.now() + us * 1e-6
        before = 0
        if sys.version_info >= (3, 11):
            before = task.cancelling()
        self.running[call] = (due, task, before)
        if due < self.next:
            self.schedule(due)

    def disarm(self, call: int, error: BaseException | None) -> tuple[int, bool] | None:
        """Removes the timer of an attempt that has unwound; returns as `Timers.disarm`."""
        if self.running.pop(call, None) is not None:
            return None
        entry = self.stopped.pop(call, None)
        if entry is None:
            return None
        step, task, before = entry
        foreign = _is_foreign(task, before, error)
        return step, foreign or not isinstance(error, (Exception, CancelledError))

    def waker(self) -> Parked:
        """Makes a waker of the running task."""
        return _LoopParked(get_running_loop())

    def _wake_at(self, due: float) -> None:
        loop = self._loop()
        if self._handle is not None:
            self._handle.cancel()
        if loop is not None:
            left = max(due - monotonic(), 0.0)
            self._due = monotonic() + left
            self._handle = loop.call_later(left, self._fire_now)

    def _fire_now(self, turns: int = TURNS) -> None:
        # A loop runs what is due before the tasks whose data have come. A client that was late would take its
        # own delay for the silence of each server.
        loop = self._loop()
        if turns > 0 and loop is not None and monotonic() - self._due > LATE:
            self._handle = loop.call_soon(self._fire_now, turns - 1)
            return
        self._handle = None
        self.fire()

    def _stop(self, owner: Any) -> None:
        if sys.version_info >= (3, 11):
            owner.cancel()
        else:
            setattr(owner, "_cancel_message", _OURS)  # noqa: B010 - not declared by its type
            owner.cancel(_OURS)


def _is_foreign(task: Task[Any], before: int, error: BaseException | None) -> bool:
    """Returns whether the task that we have stopped was also cancelled by other code."""
    if sys.version_info >= (3, 11):
        return task.uncancel() > before
    # Python 3.10 does not count cancellations. A foreign cancel() after ours leaves its own message on the
    # task. One before ours is the innermost CancelledError in the error's chain of contexts.
    first = None
    while error is not None:
        first = error if isinstance(error, CancelledError) else first
        error = error.__context__
    foreign = first is not None and first.args != (_OURS,)
    return foreign or getattr(task, "_cancel_message", None) is not _OURS


class _LoopParked(Parked):
    """Waker of an asyncio task."""

    __slots__ = ("loop",)

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop = loop
        self.future = loop.create_future()

    def __call__(self) -> object:
        if _get_running_loop() is self.loop:
            self.set()
            return None
        try:
            self.loop.call_soon_threadsafe(self.set)
        except RuntimeError:
            return GONE
        return None

    def renew(self) -> None:
        self.future = self.loop.create_future()


def in_trio() -> bool:
    """Returns whether a trio task is running; False without a look-up if trio has not been imported."""
    trio = sys.modules.get("trio")
    if trio is None:
        return False
    lowlevel = getattr(trio, "lowlevel", None)  # missing while trio is still being imported
    return lowlevel is not None and bool(lowlevel.in_trio_task())


def timers_of(engine: Engine) -> Timers:
    """Returns the timers of an engine in the running loop."""
    if in_trio():
        from .trio_timers import timers_here

        return timers_here(engine)
    loop = get_running_loop()
    return engine.timers.get(id(loop)) or LoopTimers(engine, loop)


def arm(engine: Engine, call: int, us: int) -> Timers:
    """Sets a timer for an attempt of the running task; returns the loop's timers."""
    timers = timers_of(engine)
    timers.arm(call, us)
    return timers


def arm_at(engine: Engine, call: int, moment: int, waits_for: Any) -> Timers:
    """Sets a timer for a time on the engine's clock, in microseconds. The native half calls it, in asyncio.

    The loop is taken from the future `waits_for`, since asking for the running loop can be a system call.
    """
    loop = getattr(waits_for, "_loop", None) or get_running_loop()
    timers = engine.timers.get(id(loop)) or LoopTimers(engine, loop)
    task = current_task(loop)
    if task is None:
        raise RuntimeError(_NO_TASK)
    due = moment * 1e-6 + timers.offset
    before = 0
    if sys.version_info >= (3, 11):
        before = task.cancelling()
    timers.running[call] = (due, task, before)
    if due < timers.next:
        timers.schedule(due)
    return timers
