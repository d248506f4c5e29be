"""An engine and what the shells keep beside it: who waits, how to wake them, what a fork leaves behind."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from . import _native
from ._wire import CANCEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._clock import Clock
    from ._timers import Timers


def draw_seed() -> int:
    """64 bits from the operating system."""
    return int.from_bytes(os.urandom(8), "little")


class Engine:
    """Holds everything that policies share: routes, slots, budgets.

    A process has one engine by default. Make one of your own to isolate a test or a hot upstream.

    Args:
        seed: All the randomness there is (64 bits); drawn from the operating system where it is left out.
        clock: A `tidegate.testing.FakeClock` in the place of the system's monotonic clock.
    """

    def __init__(self, *, seed: int | None = None, clock: Clock | None = None) -> None:
        self.native: Final = _native.Engine(
            draw_seed() if seed is None else seed & (1 << 64) - 1, clock is not None
        )
        self.clock: Final = clock
        self.waiters: Final[dict[int, Callable[[], object]]] = {}
        self.timers: Final[dict[int, Timers]] = {}
        self.configs: Final[dict[int, dict[str, Any]]] = {}
        self.tunings = 0
        if clock is not None:
            clock.attach(self)
        _engines.add(self)

    def on(self, call: int, event: int) -> int:
        """Tells a call what happened, and wakes whoever can go on because of it."""
        reply = self.native.on(call, event)
        if isinstance(reply, int):
            return reply
        self.wake(reply[1])
        return reply[0]

    def begun(self, reply: tuple[int, int] | tuple[int, int, list[int]]) -> tuple[int, int]:
        """The call and the step of a `begin`, after waking whoever can go on because of it."""
        if len(reply) == 3:
            self.wake(reply[2])
        return reply[0], reply[1]

    def wake(self, calls: Iterable[int]) -> None:
        """Wakes the owners of these calls. An owner whose event loop is gone gives its place up at once."""
        pending = list(calls)
        while pending:
            call = pending.pop(0)
            waker = self.waiters.get(call)
            if waker is not None and waker() is GONE:
                self.waiters.pop(call, None)
                for timers in list(self.timers.values()):
                    timers.parked.pop(call, None)
                reply = self.native.on(call, CANCEL)
                if not isinstance(reply, int):
                    pending.extend(reply[1])

    def park(self, lock: Any, us: int) -> None:
        """Blocks this thread until the lock is released or the span has passed; below 0 there is no end."""
        if self.clock is None:
            lock.acquire(True, us / 1e6 if us >= 0 else -1)
        else:
            self.clock.park(lock, us if us >= 0 else None)

    def snapshot(self) -> dict[str, Any]:
        """The state of everything, pulled: calls, waiters, and by policy and route what has happened."""
        return self.native.snapshot()


GONE: Final = object()
"""A waker's answer: nobody can be woken there any more."""

_engines: Final[WeakSet[Engine]] = WeakSet()
_default: list[Engine] = []


def default_engine() -> Engine:
    """The engine of the process, made when it is first needed."""
    if not _default:
        _default.append(Engine())
    return _default[0]


def _after_fork_in_child() -> None:
    for engine in list(_engines):
        engine.waiters.clear()
        engine.timers.clear()
        engine.native.after_fork(draw_seed())
    races = sys.modules.get(f"{__package__}._race_sync")
    if races is not None:
        races.forget_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
