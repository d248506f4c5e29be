"""One HTTP call, common to all clients: replay of the body, outcome of a response, report to the caller.

How a client sends, reads, rewinds and releases a request is in its own subclass of `HttpRun`. No client is
imported here.
"""

from __future__ import annotations

import inspect
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tidegate._call import outcomes
from tidegate._call.left import taken_answer, taken_status
from tidegate._call.notes import note_of
from tidegate._call.open_call import MARGIN
from tidegate._call.run import HEAD, Run
from tidegate._call.usage import amounts, estimated
from tidegate._engine.errors import TidegateError
from tidegate._engine.wire import (
    TIMER,
    finished,
    is_done,
    lane_of,
    pack_span,
    stops_of,
    with_opinion,
)
from tidegate._native import asks_for_stream

from .errors import as_http
from .meter import Meter
from .options import opinion
from .silence import NONE, Pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidegate._call.usage import Usage, Used, Weigh

    from .front import Front, Origin
    from .silence import Limits

_SERVER_SAYS: Final = frozenset({b"x-should-retry", b"grpc-retry-pushback-ms"})
_REFUSED: Final = with_opinion(outcomes.PERMANENT, "do_not")
"""The outcome of an attempt whose body could not be sent again."""


def is_seekable(file: Any) -> bool:
    """Returns whether a file can be rewound to an earlier position."""
    if not (hasattr(file, "seek") and hasattr(file, "tell")) or inspect.iscoroutinefunction(file.seek):
        return False
    try:
        return bool(file.seekable()) if hasattr(file, "seekable") else True
    except Exception:
        return False


class BodyLost(Exception):
    """Raised for a file that could not be rewound to its position before the first attempt."""


class HttpRun(Run):
    """A request under a policy."""

    __slots__ = ("beginnings", "body_lost", "factory", "file", "gone", "header", "holds", "limits", "offset",
                 "predicate", "request", "said", "until", "until_body", "us_until", "usage")  # fmt: skip

    library: ClassVar[str]
    """The client library's module, which defines its exceptions."""
    can_race: ClassVar[bool] = False
    """Whether attempts can run concurrently. `discard` closes the response of an attempt that lost."""

    def __init__(self, front: Front, request: Any, options: Mapping[str, Any]) -> None:
        policy = front.policy_of(options) if options else front.policy
        super().__init__(policy.engine, policy, "", None, 0, classify=policy._classify_by)
        self.request = request
        self.until_body = False
        self.factory: Callable[[], Any] | None = None
        self.file: Any = None
        self.offset: Any = None
        self.header = True
        self.predicate: Callable[[Any], bool | None] | None = None
        self.body_lost = False
        self.said: str | None = None
        self.gone: list[Any] = []
        self.beginnings: dict[int, bytes] | None = {} if policy._reads_errors else None
        self.limits: Limits | None = None
        self.usage: Used | None = None
        self.holds = False
        self.us_until: int | None = None
        self.until: int | None = None

    # Each client implements these.

    def final(self, value: Any) -> None:
        """Puts `x-should-retry: false` into a failed response, which SDKs obey (15.8)."""
        raise NotImplementedError

    def retries_before(self) -> str | None:
        """Returns the value of the request's `x-stainless-retry-count`; None if it has none."""
        raise NotImplementedError

    def method(self) -> str:
        """Returns the HTTP method in capitals."""
        raise NotImplementedError

    def origin(self) -> Origin:
        """Returns the origin that the request goes to."""
        raise NotImplementedError

    def path(self) -> str:
        """Returns the path, by which holds tell targets apart."""
        raise NotImplementedError

    def keyed(self) -> bool:
        """Returns whether the request carries an `Idempotency-Key`."""
        raise NotImplementedError

    def replay(self) -> tuple[bool, Any, Any]:
        """Returns whether the body can be sent again, the file to rewind for that, and the offset.

        An offset of None is asked from the file before the first attempt.
        """
        raise NotImplementedError

    def accepts(self) -> str:
        """Returns the request's `Accept`; nothing without one."""
        raise NotImplementedError

    def content(self) -> bytes | None:
        """Returns the body of the request if it is in memory, else None."""
        raise NotImplementedError

    def whole(self, value: Any) -> tuple[bytes, str] | None:
        """Returns the body of a response, if all of it is in memory, and its content coding."""
        return None

    def answer(self, value: Any) -> tuple[int, Callable[[], list[tuple[bytes, bytes]]]]:
        """Returns the status of a response, and a function for its headers, called where they are read."""
        raise NotImplementedError

    def streams(self, value: Any) -> bool:
        """Returns whether the body of this response has yet to be read."""
        raise NotImplementedError

    def guard(self, value: Any, step: int) -> None:
        """Applies the deadline to the body; the end of reading it ends the call."""
        raise NotImplementedError

    def attach(self, value: Any, info: dict[str, Any]) -> None:
        """Attaches the report of the call to its response."""
        raise NotImplementedError

    def own_errors(self) -> type[BaseException]:
        """Returns the base class of the client library's errors."""
        raise NotImplementedError

    def is_timeout(self, error: BaseException) -> bool:
        """Returns whether the client timed out at a point where the request may have been sent."""
        raise NotImplementedError

    # Common to all clients.

    def asks_for_stream(self) -> bool:
        """Returns whether the request asks for a stream, by its headers, its path or its body (7.7.4)."""
        if "text/event-stream" in self.accepts():
            return True
        body = self.content() if self.method() == "POST" else None
        return body is not None and asks_for_stream(self.path().encode(), body)

    def weighed(self, weigh: Weigh, given: dict[str, int] | None) -> dict[str, int] | None:
        """Returns the weights of the request: those of its caller, else those of `weigh`."""
        body = self.content() if given is None else None
        if body is None:
            return given  # a body that cannot be read beforehand: the limits' defaults hold
        return amounts(weigh, estimated(self.path(), body), "weigh") or None

    def pieces(self, encoding: str, coded: str | None = None) -> Pieces:
        """Returns the reader of a body; `coded` is what is still packed where its usage is read."""
        limits = NONE if self.limits is None else self.limits
        meter = None if self.usage is None else Meter(encoding if coded is None else coded)
        return Pieces(limits, encoding, meter)

    def settle(self, attempt: int, usage: Usage | None) -> None:
        """Settles an attempt with what its answer has used; without a usage its reservation counts."""
        if usage is None or self.usage is None:
            return
        for name, total in amounts(self.usage, usage, "usage").items():
            if not self.engine.native.settle(self.id, attempt, name, total):
                unknown = outcomes.Unknown(f"{name!r} is no weight that the attempt counts")
                outcomes.warn_once(self.usage, unknown, "usage")

    def is_held(self, value: Any) -> bool:
        """Returns whether a response is delivered with its first piece, and not with its head."""
        if not self.holds or self.method() in ("CONNECT", "HEAD"):
            return False
        status = self.answer(value)[0]
        return status < 400 and status not in (101, 204, 304)

    def time_of(self, us: int) -> int:
        """Returns the microseconds of an attempt for which its step has `us`, negative for no limit."""
        # The step's own time may end earlier, with a report of silence.
        return us if self.limits is None else self.engine.native.time_left(self.call)

    def renew(self, attempt: int) -> bool:
        """Rewinds the body's file before an attempt. Returns whether the attempt is a repeat."""
        if attempt == 1:
            if self.file is not None and self.offset is None:
                self.offset = self.file.tell()
            return False
        if self.file is not None and not self.rewind():
            raise BodyLost
        return True

    def rewind(self) -> bool:
        """Rewinds the file to its position before the first attempt; returns False on any failure."""
        try:
            self.file.seek(self.offset)
            return bool(self.file.tell() == self.offset)
        except Exception:
            return False

    def seconds_for(self, us: int) -> float | None:
        """Stores when an attempt's time ends; returns its seconds with a margin, None without a limit."""
        if us < 0:
            self.us_until = None
            return None
        self.us_until = self.engine.native.now() + us
        return us / 1e6 + MARGIN

    def judge(self, ok: bool, value: Any) -> int:
        """Returns the outcome of a response or an exception; vetoes retries if the body cannot be resent."""
        try:
            outcome = self._judge_answer(value) if ok else self.judge_error(value)
        except Exception:  # its attributes raise: judge it by its type
            outcome = 0 if ok else outcomes.of_type(type(value))
            outcome = outcomes.TRANSIENT if outcome == outcomes.ASK else outcome
        if outcome != outcomes.STOPPED:
            before = outcome
            if self.classify is not None:
                outcome = outcomes.by(self.classify, value, outcome, self.policy)
                self.said = "classify" if outcome != before else None
            before = outcome
            if self.predicate is not None:
                outcome = opinion(self.predicate, value, outcome)
                self.said = "the predicate" if outcome != before else self.said
        if outcome == 0 and ok and self.until_body and self.streams(value):
            return HEAD
        if outcome > 0 and self.file is not None and not self.rewind():
            self.body_lost = True
            return with_opinion(outcome, "do_not")
        return outcome

    def _judge_answer(self, value: Any) -> int:
        """Returns the outcome of a response, by its status and headers."""
        status, headers = self.answer(value)
        if self.policy._learns:
            self.engine.native.note_quotas(self.call, headers())
        left = taken_answer(value, self.owner)
        if left or status < 400:
            return left
        refused = taken_status(status, self.owner)
        if refused is not None:
            return refused
        wall = int(self.engine.wall() * 1e6)
        native = self.engine.native
        if self.beginnings is not None:
            body = self.beginnings.get(id(value), b"")
            return native.classify_read(self.policy._number, status, headers(), body, wall)
        return native.classify(self.policy._number, status, headers(), wall)

    def begins(self, value: Any) -> bool:
        """Returns whether the beginning of this response is to be read."""
        return self.beginnings is not None and self.answer(value)[0] >= 400

    def keep(self, value: Any, beginning: bytes) -> None:
        """Keeps the beginning of a response until it is judged."""
        if self.beginnings is not None:
            self.beginnings[id(value)] = beginning

    def judge_error(self, error: BaseException) -> int:
        """Returns the outcome of an exception."""
        if isinstance(error, TidegateError):
            return outcomes.of_exception(error, self.policy, self.owner)
        outcome = self.judge_library(error)
        if self.policy._on is None or outcome == outcomes.STOPPED:
            return outcome
        from tidegate._call.judge import wanted

        return wanted(self.policy._on, error, outcome)

    def judge_library(self, error: BaseException) -> int:
        """Returns the outcome of an exception of the client library, by core's table (semantics 1.5)."""
        if not isinstance(error, Exception):
            return outcomes.STOPPED
        from tidegate._call.judge import of_client

        return of_client(error, self.policy, self.own_errors(), self.owner)

    def report(self, attempt: int, ok: bool, value: Any) -> int:
        """Reports the end of an attempt to the engine, preceded by `TIMER` if its time was up."""
        if isinstance(value, BodyLost):
            # The attempt was never made, so the result of the previous attempt stays the result.
            self.body_lost = True
            self.held[lane_of(attempt)] = self.held.get(lane_of(attempt - 1), (False, value))
            return self.engine.on(self.call, finished(attempt, _REFUSED))
        if ok and self.usage is not None:
            self._settle_whole(attempt, value)
        if ok or self.us_until is None or not self.is_timeout(value):
            return super().report(attempt, ok, value)
        if self.engine.native.now() < self.us_until:
            return super().report(attempt, ok, value)
        step = self.engine.on(self.call, TIMER)
        if not stops_of(step):
            return super().report(attempt, ok, value)
        self.held[lane_of(attempt)] = (False, value)
        after = self.engine.on(self.call, finished(attempt, outcomes.TIMEOUT))
        return step if is_done(step) else after

    def _settle_whole(self, attempt: int, value: Any) -> None:
        """Settles an attempt whose good answer is in memory; others are settled when they have been read."""
        whole = self.whole(value) if self.answer(value)[0] < 400 else None
        if whole is not None:
            meter = Meter(whole[1])
            meter.read(whole[0])
            meter.whole = True
            self.settle(attempt, meter.usage())

    def refuse(self, verdict: str, retry_in: float | None = None) -> TidegateError:
        """Returns our error in a class that is also an exception class of the client library."""
        return as_http(super().refuse(verdict, retry_in), self.library, self.request)

    def left(self) -> float:
        """Returns the seconds left of the attempt's time; infinity without a limit."""
        return inf if self.us_until is None else (self.us_until - self.engine.native.now()) / 1e6

    def stream(self, step: int) -> Any:
        """Returns a response before its body is read.

        The attempt timeout no longer applies, the deadline does (7.1).
        """
        response = self.held[lane_of(self.attempts)][1]
        self.guard(response, step)
        self._inform(response, "ok", None, None)
        self.held = {}  # no reference cycle with the body: a response dropped unread frees its slot at once
        return response

    def deliver(self, value: Any, verdict: str, note: str | None, retry_in: float | None) -> Any:
        """Returns the response with the report attached.

        The deadline still applies to its body although the call has ended.
        """
        # A successful streamed response arrives here if its attempt had already been stopped.
        if (verdict != "ok" or self.until_body) and self.until is not None and self.streams(value):
            us = max(self.until - self.engine.native.now(), 0)
            self.guard(value, pack_span(us))
        self._inform(value, verdict, note, retry_in)
        return value

    def _inform(self, value: Any, verdict: str, note: str | None, retry_in: float | None) -> None:
        """Attaches the report of the call to a response."""
        retry_at = None
        if retry_in is not None:
            from datetime import datetime, timezone

            retry_at = datetime.fromtimestamp(self.engine.wall() + retry_in, timezone.utc)
        info = {
            "attempts": self.made or self.attempts,
            "reason": verdict,
            "note": self._why_not(value) if verdict == "opinion" else note,
            "retry_at": retry_at,
            "call": self.id,
        }
        if self.beginnings is not None and verdict != "ok":
            self._tell_sdk(value, verdict, info)
        if self.engine.explains and (verdict != "ok" or self.attempts > 1):
            self.engine.mark(value, self.id)
        try:
            self.attach(value, info)
        except Exception:  # noqa: S110 - a response that refuses attributes is delivered without a report
            pass

    def _tell_sdk(self, value: Any, verdict: str, info: dict[str, Any]) -> None:
        """Tells an SDK not to repeat a failed response, and its user that the SDK repeats requests too."""
        try:
            if verdict != "nested" and self.answer(value)[0] >= 400:  # a call around this one may repeat it
                self.final(value)
            before = self.retries_before()
        except Exception:  # a test double of a response, or headers that cannot be changed
            return
        if before is not None and before.strip() not in ("", "0"):
            count = before.strip()[:10]
            warning = f"the SDK retries too (x-stainless-retry-count: {count}): set its max_retries to 0"
            info["note"] = f"{info['note']}; {warning}" if info["note"] else f"tidegate: {warning}"

    def _why_not(self, value: Any) -> str | None:
        """Returns the note for a response not retried because of its status, the server, or a classifier."""
        status, headers = self.answer(value)
        asked = {name.lower() for name, _ in headers()} & _SERVER_SAYS
        if self.said is not None:
            note = f"tidegate: not retried: {self.said} said not to"
        elif asked:
            note = f"tidegate: not retried: the server said not to ({min(asked).decode()})"
        else:
            note = f"tidegate: not retried: {status} is none of retry.statuses"
        return self.note("opinion", note)

    def note(self, verdict: str, note: str | None) -> str | None:
        """Returns the note of a verdict; that of a one-shot body if the file could not be rewound."""
        return note_of("one_shot_body", 0, None, None) if self.body_lost and verdict == "opinion" else note

    def intact(self, value: Any) -> bool:
        """Returns whether a response can still be read: a drained one can, a closed one cannot."""
        return all(value is not gone for gone in self.gone)
