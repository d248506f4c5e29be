"""One timer per event loop for all calls that run in it: a dict of deadlines and one `call_later`.

An `asyncio.timeout` per attempt would cost more than everything else together (`docs/performance.md`).
"""

from __future__ import annotations

import sys
from asyncio import CancelledError, current_task, get_running_loop
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from ._wire import SPAN_SHIFT, STOPS, TIMER, WAIT

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future, Handle, Task

    from ._engine import Engine

_OURS: Final = "tidegate: the attempt is stopped"
_COALESCE: Final = 1e-6
"""Seconds between two firings for each deadline kept: the timer takes about a tenth of the loop at most."""


_NO_TASK: Final = "tidegate: an async call belongs to a task of a running event loop"

_ROUNDING: Final = 5e-7
"""Moments are floats here and whole microseconds in the engine."""


class Timers:
    """The deadlines of one engine's calls in one event loop. Only that loop's thread touches it."""

    __slots__ = (
        "__weakref__",
        "_handle",
        "_loop",
        "engine",
        "next",
        "now",
        "offset",
        "parked",
        "running",
        "stopped",
    )

    def __init__(self, engine: Engine, loop: AbstractEventLoop) -> None:
        key = id(loop)
        self.engine = engine
        self._loop = ref(loop, lambda _: engine.timers.pop(key, None))
        self._handle: Handle | None = None
        self.next = inf
        self.running: dict[int, tuple[float, Task[Any], int]] = {}
        self.parked: dict[int, tuple[float, Future[None]]] = {}
        self.stopped: dict[int, tuple[int, Task[Any], int]] = {}
        clock = engine.clock
        self.now = monotonic if clock is None else lambda: clock.now_us() / 1e6
        self.offset = (
            0.0 if clock is not None else monotonic() - engine.native.now() / 1e6
        )  # both run alike from here on
        engine.timers[key] = self
        if clock is not None:
            clock.watch(self)

    @property
    def loop(self) -> AbstractEventLoop | None:
        """The event loop, while it lives."""
        return self._loop()

    def arm(self, loop: AbstractEventLoop, call: int, us: int) -> None:
        """The running task is the owner of this call's attempt, and is stopped when the engine says so."""
        task = current_task(loop)  # told the loop, it need not look for it
        if task is None:
            raise RuntimeError(_NO_TASK)
        due = self.now() + us * 1e-6
        before = 0
        if sys.version_info >= (3, 11):
            before = task.cancelling()
        self.running[call] = (due, task, before)
        if due < self.next:
            self.schedule(due)

    def drop(self, call: int) -> None:
        """A call is thrown away."""
        self.running.pop(call, None)
        self.stopped.pop(call, None)

    def disarm(self, call: int, error: BaseException | None) -> tuple[int, bool] | None:
        """An attempt has unwound: None if it was left alone, else our step and if the caller gave up too."""
        if self.running.pop(call, None) is not None:
            return None
        entry = self.stopped.pop(call, None)
        if entry is None:
            return None
        step, task, before = entry
        if sys.version_info >= (3, 11):
            return step, task.uncancel() > before
        # Python 3.10 keeps no count. A caller's cancel() after ours leaves its own message on the task; one
        # before ours is the first cancellation that the error has met.
        first = None
        while error is not None:
            first = error if isinstance(error, CancelledError) else first
            error = error.__context__
        foreign = first is not None and first.args != (_OURS,)
        return step, foreign or getattr(task, "_cancel_message", None) is not _OURS

    def park(self, call: int, future: Future[None], us: int) -> None:
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
            return
        loop = self._loop()
        if self._handle is not None:
            self._handle.cancel()
        if loop is not None:
            self._handle = loop.call_later(max(due - monotonic(), 0.0), self.fire)

    def fire(self) -> None:
        """Steps running calls whose moment has come; those that wait are only woken, and poll (R3)."""
        self._handle = None
        self.next = inf
        try:
            self._fire(self.now() + _ROUNDING)
        finally:
            self._again()

    def _fire(self, now: float) -> None:
        for call, (due, task, before) in list(self.running.items()):
            if due <= now:
                self._step(call, task, before, now)
        for due, future in list(self.parked.values()):
            if due <= now and not future.done():
                future.set_result(None)

    def _again(self) -> None:
        """Sets the timer for what is due next, whatever has happened in this round."""
        dues = [entry[0] for entry in self.running.values()]
        dues += [due for due, future in self.parked.values() if not future.done()]
        if dues and (due := min(dues)) < inf:
            self.schedule(max(due, self.now() + _COALESCE * len(dues)))

    def _step(self, call: int, task: Task[Any], before: int, now: float) -> None:
        step = self.engine.on(call, TIMER)
        if step & STOPS:
            del self.running[call]
            self.stopped[call] = (step, task, before)
            if sys.version_info >= (3, 11):
                task.cancel()
            else:
                setattr(task, "_cancel_message", _OURS)  # noqa: B010 - no part of its type
                task.cancel(_OURS)
        else:
            us = (step >> SPAN_SHIFT) - 1 if step & 3 == WAIT else -1
            self.running[call] = (now + us * 1e-6 if us >= 0 else inf, task, before)


def timers_of(engine: Engine) -> Timers:
    """The timers of an engine in the running loop."""
    loop = get_running_loop()
    return engine.timers.get(id(loop)) or Timers(engine, loop)


def arm(engine: Engine, call: int, us: int) -> Timers:
    """Puts a call of the task that runs on its loop's timer."""
    loop = get_running_loop()
    timers = engine.timers.get(id(loop)) or Timers(engine, loop)
    timers.arm(loop, call, us)
    return timers


def arm_at(engine: Engine, call: int, moment: int, waits_for: Any) -> Timers:
    """The same for a moment on the engine's clock, in microseconds: the native half's way here.

    A future knows its loop, which saves asking for the one that runs: that can be a system call.
    """
    loop = getattr(waits_for, "_loop", None) or get_running_loop()
    timers = engine.timers.get(id(loop)) or Timers(engine, loop)
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
