"""Spans, and the clocks that tests put in the place of the system's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakSet

if TYPE_CHECKING:
    from ._engine import Engine
    from ._timers import Timers

Span: TypeAlias = "float | timedelta"
"""Seconds, or a `timedelta`."""

_live: Final[WeakSet[Clock]] = WeakSet()


class Clock(ABC):
    """A clock that does not run by itself: `tidegate.testing.FakeClock` is the one there is."""

    def __init__(self) -> None:
        _live.add(self)

    @abstractmethod
    def now_us(self) -> int:
        """Microseconds since its origin."""

    @abstractmethod
    def attach(self, engine: Engine) -> None:
        """Drives the manual clock of an engine from now on."""

    @abstractmethod
    def watch(self, timers: Timers) -> None:
        """An event loop has timers on this clock from now on."""

    @abstractmethod
    def changed(self, timers: Timers) -> None:
        """Something was waited for, woken or ended on that loop."""

    @abstractmethod
    def park(self, lock: Any, us: int | None) -> None:
        """Blocks this thread until the lock is released or the span has passed on this clock."""


def live_clocks() -> list[Clock]:
    """The clocks of tests that exist now."""
    return list(_live) if _live else []


def to_us(value: Any) -> Any:
    """Seconds or a `timedelta` as whole microseconds; core names the mistake in anything else."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value if isinstance(value, str) else repr(value)
    try:
        us = float(value) * 1e6
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return float(round(us)) if abs(us) < 1e300 else us
