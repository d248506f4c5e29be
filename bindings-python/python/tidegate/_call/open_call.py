"""A call whose response is being read: it keeps its slot and its deadline until reading ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from tidegate._engine.errors import Unsupported
from tidegate._engine.wire import (
    DEADLINE,
    STALLED,
    TIMER,
    VERDICTS,
    finished,
    is_done,
    span_of,
    verdict_of,
)

from . import outcomes

if TYPE_CHECKING:
    from tidegate._engine.engine import Engine
    from tidegate._engine.errors import TidegateError

    from .policy import Policy


MARGIN: Final = 0.001
"""Seconds added to the client's own timeout, so that the engine's time is up too when it fires."""


def refuse_streams(policy: Policy, keys: tuple[str, ...], what: str) -> None:
    """Refuses a policy that gives one of these keys, which `what` does not serve (semantics 7.7.23).

    What its preset gives is ignored.

    Raises:
        Unsupported: If the policy has one of them.
    """
    for key in keys:
        value = policy._setting(f"own {key}")
        if value is not None and value != "body":
            shown = f"{value / 1e6:g}s" if isinstance(value, (int, float)) else repr(value)
            rule = f"{what} does not serve timeouts of streams: use an HTTP client, or leave the key out"
            raise Unsupported([(key, shown, rule)])


class OpenRun(Protocol):
    """The part of a `Run` that is needed here."""

    engine: Engine
    attempts: int

    @property
    def call(self) -> int:
        """Number of the call; 0 once it has ended."""
        ...

    def refuse(self, verdict: str) -> TidegateError:
        """Returns the error of a call that ends without a result of an attempt."""
        ...

    def judge_error(self, error: BaseException) -> int:
        """Returns the outcome of an exception."""
        ...


class Open:
    """A call whose response is being read, or one that has ended but whose deadline still applies."""

    def __init__(self, run: OpenRun, inner: Any, step: int) -> None:
        self._run = run
        self._inner = inner
        self._call = run.call
        # A running call is ended through the engine, once. For one that has ended, only the clock is checked.
        self._had_call = run.call != 0
        us = span_of(step)
        self._until = run.engine.native.now() + us if us >= 0 else None

    def _event(self) -> int:
        """Returns the event of a timer that has fired."""
        return TIMER

    def _end(self, outcome: int) -> None:
        """Reports to the engine, once, how reading ended."""
        call, self._call = self._call, 0
        if call:
            run = self._run
            outcome = outcomes.CANCELLED if outcome < 0 else outcome
            run.engine.on(call, finished(run.attempts, outcome))

    def _left(self) -> float | None:
        """Returns the seconds left for reading plus a margin; None without a limit."""
        if self._until is None:
            return None
        return max(self._until - self._run.engine.native.now(), 0) / 1e6 + MARGIN

    def _late(self) -> TidegateError | None:
        """Returns the error of a deadline that has passed according to the engine, else None."""
        if self._until is not None and self._run.engine.native.now() >= self._until:
            if not self._call:
                return None if self._had_call else self._run.refuse("deadline")
            step = self._run.engine.on(self._call, self._event())
            if is_done(step):
                self._end(outcomes.CANCELLED)  # reading itself cannot be stopped from here
                if verdict_of(step) in (DEADLINE, STALLED):
                    return self._run.refuse(VERDICTS[verdict_of(step)])
            else:
                us = span_of(step)
                self._until = self._run.engine.native.now() + us if us >= 0 else None
        return None

    def __del__(self) -> None:
        if self._call:
            self._end(outcomes.STOPPED)  # dropped unread: releases the slot
