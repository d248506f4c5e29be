"""Spans, and clocks that replace the system's clock in tests and replays."""

from __future__ import annotations

import time
from _thread import allocate_lock
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakSet

if TYPE_CHECKING:
    from tidegate._call.timers import Timers

    from .engine import Engine

Span: TypeAlias = "float | timedelta"
"""Seconds, or a `timedelta`."""

_live: Final[WeakSet[Clock]] = WeakSet()


class Clock(ABC):
    """A clock that does not advance by itself, such as `tidegate.testing.FakeClock`."""

    def __init__(self) -> None:
        _live.add(self)

    @abstractmethod
    def now_us(self) -> int:
        """Returns the microseconds since its origin."""

    def wall(self) -> float:
        """Returns the wall clock time that corresponds to it, in seconds since 1970."""
        return time.time()

    @abstractmethod
    def attach(self, engine: Engine) -> None:
        """Adds an engine whose time this clock sets from now on."""

    @abstractmethod
    def watch(self, timers: Timers) -> None:
        """Adds the timers of an event loop that use this clock."""

    @abstractmethod
    def changed(self, timers: Timers) -> None:
        """Notifies the clock that a wait on that loop began, was woken or ended."""

    @abstractmethod
    def park(self, lock: Any, us: int | None) -> None:
        """Blocks this thread until the lock is released or `us` microseconds have passed on this clock."""


class ManualClock(Clock):
    """A clock that its owner moves, and that each waiting thread moves forward. Replays use one."""

    def __init__(self) -> None:
        super().__init__()
        self._us = 0
        self._began = time.time()
        self._engines: list[Engine] = []
        self._guard = allocate_lock()

    def now_us(self) -> int:
        """Returns the microseconds since the clock was made."""
        return self._us

    def wall(self) -> float:
        """Returns its wall clock time, in seconds since 1970; it began at the real time."""
        return self._began + self._us / 1e6

    def attach(self, engine: Engine) -> None:
        """Adds an engine whose time this clock sets from now on."""
        self._engines.append(engine)
        engine.native.set_now(self._us)

    def watch(self, timers: Timers) -> None:
        """Does nothing: an event loop's waits are not watched."""

    def changed(self, timers: Timers) -> None:
        """Does nothing: an event loop's waits are not watched."""

    def park(self, lock: Any, us: int | None) -> None:
        """Moves the clock by the time that this thread would wait; without a limit, waits for the lock."""
        if us is None:
            lock.acquire()
        elif not lock.acquire(False):
            self.move(self._us + us)

    def move(self, us: int) -> None:
        """Moves the clock and its engines forward to a time in microseconds."""
        with self._guard:
            self._us = max(us, self._us)
            for engine in self._engines:
                engine.native.set_now(self._us)


def live_clocks() -> list[Clock]:
    """Returns the test clocks that exist now."""
    return list(_live) if _live else []


def to_us(value: Any) -> Any:
    """Converts seconds or a `timedelta` to whole microseconds. Other values stay text, which core rejects."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value if isinstance(value, str) else repr(value)
    try:
        us = float(value) * 1e6
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return float(round(us)) if abs(us) < 1e300 else us
