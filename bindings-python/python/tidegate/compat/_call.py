"""Common code of compatibility layers: the begin of a call, its run, and a clock for injected functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate._call import outcomes
from tidegate._call.deadline import current, inherited
from tidegate._call.run import Run
from tidegate._engine.clock import Clock
from tidegate._engine.wire import (
    CRITICALITIES,
    IDEMPOTENT,
    MAY_PARK,
    REPLAYABLE,
    is_stale_route,
    pack_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate._call.deadline import Scope
    from tidegate._call.policy import Policy
    from tidegate._call.timers import Timers
    from tidegate._engine.engine import Engine

PLAIN = pack_request(CRITICALITIES["normal"]) | MAY_PARK
"""The flags of a request without further information."""
REPEATABLE = PLAIN | IDEMPOTENT | REPLAYABLE


class Start:
    """Begins the calls of one policy.

    Args:
        policy: The policy; all its calls share one route.
        nested: Whether a call inside another call of the same engine is a part of it, so that retries do not
            multiply. False for bulkheads whose nested entry must take a second slot.
    """

    __slots__ = ("_nested", "_route", "engine", "policy")

    def __init__(self, policy: Policy, nested: bool) -> None:
        self.policy = policy
        self.engine = policy.engine
        self._nested = nested
        self._route = self.engine.native.route(policy._number, "default")

    def __call__(self, flags: int) -> tuple[int, int, Scope | None]:
        """Begins a call; returns its number, its first step and its scope."""
        engine = self.engine
        scope = current()
        limit = parent = 0
        if scope is not None:
            limit, parent = inherited(scope, engine)
            parent = parent if self._nested else 0
        call, step = engine.begun(engine.native.begin(self._route, flags, limit, parent, 0))
        while is_stale_route(step):
            self._route = engine.native.route(self.policy._number, "default")
            call, step = engine.begun(engine.native.begin(self._route, flags, limit, parent, 0))
        return call, step, scope


class ChainRun(Run):
    """One request in a middleware chain: an attempt is `next(request)`."""

    __slots__ = ("next", "request")

    def __init__(self, start: Start, call: int, scope: Scope | None, request: Any, next_: Any) -> None:
        super().__init__(start.engine, start.policy, "default", scope, call)
        self.request = request
        self.next = next_

    def start(self, attempt: int, us: int) -> Any:
        """Passes the request to the next middleware."""
        del attempt, us
        return self.next(self.request)

    def judge(self, ok: bool, value: Any) -> int:
        """Returns ok or permanent: the caller gets every failure, there is no second attempt."""
        if ok:
            return 0
        return outcomes.PERMANENT if isinstance(value, Exception) else outcomes.STOPPED


class FedClock(Clock):
    """A clock driven by the `_now` and `_sleep` functions that tests inject."""

    def __init__(
        self, now: Callable[[], float] | None = None, sleep: Callable[[float], Any] | None = None
    ) -> None:
        super().__init__()
        self._now = now
        self._sleep = sleep
        self._us = 0
        self._engine: Engine | None = None

    def now_us(self) -> int:
        """Returns its time in microseconds."""
        return self._us

    def attach(self, engine: Engine) -> None:
        """Sets the engine that it drives; there is only one."""
        self._engine = engine
        self.read()

    def read(self) -> None:
        """Reads the time from `now`."""
        if self._now is not None:
            self.reach(round(self._now() * 1e6))

    def reach(self, us: int) -> None:
        """Moves the clock forward to this time, in microseconds; it never goes back."""
        self._us = max(us, self._us)
        if self._engine is not None:
            self._engine.native.set_now(self._us)

    def park(self, lock: Any, us: int | None) -> None:
        """Waits by one call of `sleep`."""
        del lock
        if self._sleep is not None and us is not None:
            due = self._us + us
            self._sleep(us / 1e6)
            self.reach(due)

    def watch(self, timers: Timers) -> None:
        """Does nothing: no event loop has timers on this clock."""

    def changed(self, timers: Timers) -> None:
        """Does nothing: no event loop has timers on this clock."""
