"""One timer per event loop for all calls that run in it: a dict of deadlines and one `call_later`.

An `asyncio.timeout` per attempt would cost more than everything else together (`docs/performance.md`).
What differs under trio stands in `_trio.py`; the rest of the async shell does not know which of the two runs.
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
    from collections.abc import Generator

    from tidegate._engine.engine import Engine

_OURS: Final = "tidegate: the attempt is stopped"
_COALESCE: Final = 1e-6
"""Seconds between two firings for each deadline kept: the timer takes about a tenth of the loop at most."""


_NO_TASK: Final = "tidegate: an async call belongs to a task of a running event loop"

_ROUNDING: Final = 5e-7
"""Moments are floats here and whole microseconds in the engine."""


class Waiter(ABC):
    """What a parked call waits for: an asyncio future, or what stands for one."""

    __slots__ = ()

    @abstractmethod
    def done(self) -> bool:
        """Is the wait over?"""

    @abstractmethod
    def set_result(self, result: None, /) -> None:
        """Ends the wait."""

    @abstractmethod
    def __await__(self) -> Generator[Any, Any, Any]:
        """Waits."""


class Parked(ABC):
    """Wakes a call from any thread."""

    __slots__ = ("future",)

    future: Waiter | Future[None]

    @abstractmethod
    def __call__(self) -> object:
        """Wakes it; `GONE` where its event loop has ended."""

    @abstractmethod
    def renew(self) -> None:
        """Makes it wait again."""

    def set(self) -> None:
        """Wakes it, on its own event loop."""
        if not self.future.done():
            self.future.set_result(None)


class Timers(ABC):
    """The deadlines of one engine's calls in one event loop. Only that loop's thread touches it."""

    __slots__ = ("__weakref__", "engine", "next", "now", "offset", "parked", "running", "stopped")

    def __init__(self, engine: Engine, key: int) -> None:
        self.engine = engine
        self.next = inf
        # By call: when it is due, what is cancelled to stop its attempt, how often that had been cancelled.
        self.running: dict[int, tuple[float, Any, int]] = {}
        self.parked: dict[int, tuple[float, Waiter | Future[None]]] = {}
        # By call: the step that stopped its attempt, and the same two.
        self.stopped: dict[int, tuple[int, Any, int]] = {}
        clock = engine.clock
        self.now = monotonic if clock is None else lambda: clock.now_us() / 1e6
        self.offset = (
            0.0 if clock is not None else monotonic() - engine.native.now() / 1e6
        )  # both run alike from here on
        engine.timers[key] = self
        if clock is not None:
            clock.watch(self)

    @abstractmethod
    def arm(self, call: int, us: int) -> None:
        """The running task makes an attempt of this call, which is stopped when the engine says so."""

    @abstractmethod
    def disarm(self, call: int, error: BaseException | None) -> tuple[int, bool] | None:
        """An attempt has unwound: None if it was left alone, else our step, and if the error is not ours.

        Not ours is the caller's own cancellation, and an end of the program: those go on as they are.
        """

    @abstractmethod
    def waker(self) -> Parked:
        """What wakes the running task."""

    @abstractmethod
    def _wake_at(self, due: float) -> None:
        """Has `fire` called at this moment."""

    @abstractmethod
    def _stop(self, owner: Any) -> None:
        """Stops an attempt."""

    def drop(self, call: int) -> None:
        """A call is thrown away."""
        self.running.pop(call, None)
        self.stopped.pop(call, None)

    def park(self, call: int, future: Waiter | Future[None], us: int) -> None:
        """Wakes a waiting call after this span; below 0 there is no end."""
        due = self.now() + us * 1e-6 if us >= 0 else inf
        self.parked[call] = (due, future)
        if due < self.next:
            self.schedule(due)
        elif self.engine.clock is not None:
            self.engine.clock.changed(self)

    def schedule(self, due: float) -> None:
        """Makes this the next moment to look."""
        self.next = due
        if self.engine.clock is not None:
            self.engine.clock.changed(self)
        else:
            self._wake_at(due)

    def fire(self) -> None:
        """Steps running calls whose moment has come; those that wait are only woken, and poll (R3)."""
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
        """Sets the timer for what is due next, whatever has happened in this round."""
        dues = [entry[0] for entry in self.running.values()]
        dues += [due for due, future in self.parked.values() if not future.done()]
        if dues and (due := min(dues)) < inf:
            self.schedule(max(due, self.now() + _COALESCE * len(dues)))

    def _step(self, call: int, owner: Any, before: int, now: float) -> None:
        step = self.engine.on(call, TIMER)
        if stops_of(step):
            del self.running[call]
            self.stopped[call] = (step, owner, before)
            self._stop(owner)
        else:
            us = span_of(step) if is_wait(step) else -1
            self.running[call] = (now + us * 1e-6 if us >= 0 else inf, owner, before)


class LoopTimers(Timers):
    """The deadlines in an event loop of asyncio."""

    __slots__ = ("_handle", "_loop")

    def __init__(self, engine: Engine, loop: AbstractEventLoop) -> None:
        key = id(loop)
        self._loop = ref(loop, lambda _: engine.timers.pop(key, None))
        self._handle: Handle | None = None
        super().__init__(engine, key)

    def arm(self, call: int, us: int) -> None:
        """The running task makes an attempt of this call, which is stopped when the engine says so."""
        task = current_task(self._loop())  # told the loop, it need not look for it
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
        """An attempt has unwound: None if it was left alone, else our step, and if the error is not ours."""
        if self.running.pop(call, None) is not None:
            return None
        entry = self.stopped.pop(call, None)
        if entry is None:
            return None
        step, task, before = entry
        foreign = _is_foreign(task, before, error)
        return step, foreign or not isinstance(error, (Exception, CancelledError))

    def waker(self) -> Parked:
        """What wakes the running task."""
        return _LoopParked(get_running_loop())

    def _wake_at(self, due: float) -> None:
        loop = self._loop()
        if self._handle is not None:
            self._handle.cancel()
        if loop is not None:
            self._handle = loop.call_later(max(due - monotonic(), 0.0), self._fire_now)

    def _fire_now(self) -> None:
        self._handle = None
        self.fire()

    def _stop(self, owner: Any) -> None:
        if sys.version_info >= (3, 11):
            owner.cancel()
        else:
            setattr(owner, "_cancel_message", _OURS)  # noqa: B010 - no part of its type
            owner.cancel(_OURS)


def _is_foreign(task: Task[Any], before: int, error: BaseException | None) -> bool:
    """Has somebody else cancelled the task that we have stopped?"""
    if sys.version_info >= (3, 11):
        return task.uncancel() > before
    # Python 3.10 keeps no count. A caller's cancel() after ours leaves its own message on the task; one
    # before ours is the first cancellation that the error has met.
    first = None
    while error is not None:
        first = error if isinstance(error, CancelledError) else first
        error = error.__context__
    foreign = first is not None and first.args != (_OURS,)
    return foreign or getattr(task, "_cancel_message", None) is not _OURS


class _LoopParked(Parked):
    """Wakes a task of asyncio."""

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
    """Does a task of trio run here? Nobody's is where trio has not been imported."""
    trio = sys.modules.get("trio")
    if trio is None:
        return False
    lowlevel = getattr(trio, "lowlevel", None)  # a module that is being imported has none yet
    return lowlevel is not None and bool(lowlevel.in_trio_task())


def timers_of(engine: Engine) -> Timers:
    """The timers of an engine in the running loop."""
    if in_trio():
        from .trio_timers import timers_here

        return timers_here(engine)
    loop = get_running_loop()
    return engine.timers.get(id(loop)) or LoopTimers(engine, loop)


def arm(engine: Engine, call: int, us: int) -> Timers:
    """Puts a call of the task that runs on its loop's timer."""
    timers = timers_of(engine)
    timers.arm(call, us)
    return timers


def arm_at(engine: Engine, call: int, moment: int, waits_for: Any) -> Timers:
    """The same for a moment on the engine's clock, in microseconds: the native half's way here, in asyncio.

    A future knows its loop, which saves asking for the one that runs: that can be a system call.
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
