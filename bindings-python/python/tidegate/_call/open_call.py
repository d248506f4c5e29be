"""A call whose answer is being consumed: its slot and its deadline last until that ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from tidegate._engine.wire import DEADLINE, TIMER, finished, is_done, span_of, verdict_of

from . import outcomes

if TYPE_CHECKING:
    from tidegate._engine.engine import Engine
    from tidegate._engine.errors import TidegateError


MARGIN: Final = 0.001
"""A client's own timeout is this much longer than the time left: when it fires, the engine agrees."""


class OpenRun(Protocol):
    """What is asked of the run."""

    engine: Engine
    attempts: int

    @property
    def call(self) -> int:
        """Its id; 0 where it has ended."""
        ...

    def refuse(self, verdict: str) -> TidegateError:
        """The error of an end that has no result of its own."""
        ...

    def judge_error(self, error: BaseException) -> int:
        """The outcome of an exception."""
        ...


class Open:
    """A call whose answer is being read; or one that has ended with a failure, whose deadline still holds."""

    def __init__(self, run: OpenRun, inner: Any, step: int) -> None:
        self._run = run
        self._inner = inner
        self._call = run.call
        # A call that goes on is ended by the engine, once; of one that has ended only the clock is left.
        self._had_call = run.call != 0
        us = span_of(step)
        self._until = run.engine.native.now() + us if us >= 0 else None

    def _end(self, outcome: int) -> None:
        """Tells the engine, once, how reading ended."""
        call, self._call = self._call, 0
        if call:
            run = self._run
            outcome = outcomes.CANCELLED if outcome < 0 else outcome
            run.engine.on(call, finished(run.attempts, outcome))

    def _left(self) -> float | None:
        """Seconds that are left for reading, None without end."""
        if self._until is None:
            return None
        return max(self._until - self._run.engine.native.now(), 0) / 1e6 + MARGIN

    def _late(self) -> TidegateError | None:
        """The error of a deadline that has passed, if the engine says that it has."""
        if self._until is not None and self._run.engine.native.now() >= self._until:
            if not self._call:
                return None if self._had_call else self._run.refuse("deadline")
            step = self._run.engine.on(self._call, TIMER)
            if is_done(step):
                self._end(outcomes.CANCELLED)  # what cannot be stopped is reported
                if verdict_of(step) == DEADLINE:
                    return self._run.refuse("deadline")
            else:
                us = span_of(step)
                self._until = self._run.engine.native.now() + us if us >= 0 else None
        return None

    def __del__(self) -> None:
        if self._call:
            self._end(outcomes.STOPPED)  # thrown away unread: the slot is released
