"""Timeouts of streams (semantics 7.7), common to all clients: which pieces count, and the silence so far.

A piece costs no event and no timer: the reader notes for how long reads have waited, and reports it when the
call's timer fires. No client library is imported here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidegate._call.open_call import MARGIN, Open
from tidegate._engine.wire import progress
from tidegate._native import Events

if TYPE_CHECKING:
    from tidegate._call.policy import Policy

    from .meter import Meter


class Limits:
    """The timeouts that a policy has for streams.

    Attributes:
        first_byte: Whether it has a `first_byte_timeout`; core keeps its length.
        idle: The `idle_timeout` in microseconds; None without one.
        until_delivery: Whether the deadline ends at the delivery.
        events: Whether only data of server-sent events count.
    """

    __slots__ = ("events", "first_byte", "idle", "until_delivery")

    def __init__(self, first_byte: bool, idle: int | None, until_delivery: bool, events: bool) -> None:
        self.first_byte = first_byte
        self.idle = idle
        self.until_delivery = until_delivery
        self.events = events


NONE: Final = Limits(False, None, False, False)
"""No timeouts, for a body whose usage alone is read."""


def limits_of(policy: Policy) -> Limits | None:
    """Returns the timeouts that a policy has for streams; None without any."""
    first_byte = policy._setting("first_byte_timeout") is not None
    idle = policy._setting("idle_timeout")
    until_delivery = policy._setting("deadline_until") == "delivery"
    if not first_byte and idle is None and not until_delivery:
        return None
    silence = int(idle) if isinstance(idle, (int, float)) else None
    return Limits(first_byte, silence, until_delivery, policy._setting("counts") == "sse_data")


class Pieces:
    """Which pieces of one body count.

    Attributes:
        events: The reader of events; None if each byte counts.
        failure: The outcome of the last failure that an event of the stream has reported; 0 without one.
        meter: The reader of the usage, where a policy settles with it.
    """

    __slots__ = ("events", "failure", "meter")

    def __init__(self, limits: Limits, encoding: str, meter: Meter | None = None) -> None:
        # A body with a content coding cannot be read here: each of its bytes counts.
        self.events = Events() if limits.events and encoding.lower() == "identity" else None
        self.failure = 0
        self.meter = meter

    @property
    def plain(self) -> bool:
        """Whether each byte counts, so that no piece has to be read."""
        return self.events is None and self.meter is None

    def counts(self, piece: bytes) -> bool:
        """Reads a piece and returns whether it counts."""
        if self.meter is not None:
            self.meter.read(piece)
        if self.events is None:
            return len(piece) > 0
        read: tuple[bool, int] = self.events.read(piece)
        counts, failure = read
        self.failure = failure or self.failure
        return counts


class Silence(Open):
    """A delivered body whose silence is bounded. Its call runs."""

    def __init__(self, run: Any, inner: Any, step: int, pieces: Pieces) -> None:
        super().__init__(run, inner, step)
        self._now = run.engine.native.now
        self._pieces = pieces
        self._waited = 0  # since the last piece that counts, in microseconds
        self._began = -1  # of the read that waits; negative while nothing reads

    def _event(self) -> int:
        """Returns the report of the silence so far."""
        age = self._waited
        if self._began >= 0:
            age += max(self._now() - self._began, 0)
        return progress(self._run.attempts, age)

    def _ended(self) -> None:
        """Notes the end of a read that has waited."""
        self._waited += max(self._now() - self._began, 0)
        self._began = -1

    def _heard(self, piece: bytes) -> None:
        """Reads a piece: one that counts ends the silence, and a failure in it ends the call."""
        if self._pieces.counts(piece):
            self._waited = 0
        if self._pieces.failure and self._call:
            self._end(self._pieces.failure)  # a failed body, which the caller reads to its end

    def _finish(self) -> None:
        """Ends the call of a body that has been read to its end."""
        if self._pieces.meter is not None:
            self._pieces.meter.whole = True
        self._end(0)

    def _end(self, outcome: int) -> None:
        meter = self._pieces.meter
        if meter is not None and self._call and outcome == 0:
            self._run.settle(self._run.attempts, meter.usage())  # type: ignore[attr-defined]
        super()._end(outcome)

    def _seconds(self, slack: int = 0) -> float | None:
        """Returns for how long a read may wait, plus a margin; None without a limit."""
        run: Any = self._run
        if not self._call:
            return None
        left = None if run.limits.idle is None else run.limits.idle - self._waited + slack
        if run.until is not None:
            until = run.until - self._now()
            left = until if left is None else min(left, until)
        return None if left is None else max(left, 0) / 1e6 + MARGIN
