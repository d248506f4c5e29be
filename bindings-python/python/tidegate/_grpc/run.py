"""One call of gRPC under a policy, in a thread or in an event loop."""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

import grpc  # type: ignore[import-untyped,unused-ignore]

from tidegate._call import outcomes
from tidegate._call.caller import limit_of
from tidegate._call.deadline import criticality_of, current, inherited
from tidegate._call.open_call import MARGIN, refuse_streams
from tidegate._call.policy import Policy
from tidegate._call.run import HEAD, Run
from tidegate._engine.wire import (
    CRITICALITIES,
    IDEMPOTENT,
    MAY_PARK,
    REPLAYABLE,
    SLOT_UNTIL_BODY,
    SOLO,
    TIMER,
    WAIT_BODY,
    criticality_in,
    finished,
    is_stale_route,
    lane_of,
    pack_request,
    with_criticality,
)

from .errors import as_grpc

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate._engine.errors import TidegateError

BEFORE: Final = "retry-attempt"
"""The mark of a repeat (semantics 2.9). gRPC removes `grpc-previous-rpc-attempts` from what programs set."""
_NORMAL: Final = pack_request(CRITICALITIES["normal"])


class Details(
    namedtuple("Details", "method timeout metadata credentials wait_for_ready compression"),
    grpc.ClientCallDetails,  # type: ignore[misc,unused-ignore]
):
    """The details of an attempt: those of the call, with the attempt's time and number."""


class Guard:
    """What all calls of a channel share: policy, route, and which methods may be repeated.

    Raises:
        TypeError: If `policy` is not a Policy.
    """

    def __init__(
        self, policy: Policy | None, route: str, idempotent: bool | Callable[[str], bool], is_async: bool
    ) -> None:
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(f"policy = {policy!r}: must be a tidegate.Policy")
        self.policy = Policy(preset="grpc", retry={"max_attempts": 4}) if policy is None else policy
        self.route = route
        self.idempotent = idempotent
        self.is_async = is_async

    def repeats(self, method: str) -> bool:
        """Returns whether a call of this method may be made twice."""
        return self.idempotent(method) if callable(self.idempotent) else bool(self.idempotent)

    def begin(self, continuation: Callable[..., Any], details: Any, request: Any, kind: type[GrpcRun]) -> Any:
        """Begins a call; returns its run and its first step."""
        policy = self.policy
        run = kind(self, continuation, details, request)
        refuse_streams(
            policy, ("first_byte_timeout", "idle_timeout", "deadline_until"), "the adapter for gRPC"
        )
        engine, native = policy.engine, policy.engine.native
        flags = MAY_PARK | SOLO | _NORMAL | run.flags
        method = details.method.decode() if isinstance(details.method, bytes) else details.method
        if self.repeats(method):
            flags |= IDEMPOTENT
        limit, parent = limit_of(details.timeout), 0
        scope = run.scope = current()
        if scope is not None:
            around, parent = inherited(scope, engine)
            limit = min(limit, around) if limit and around else limit or around
            flags = with_criticality(flags, criticality_of(scope, criticality_in(flags)))
        step = 0
        while not run.call:
            route = native.route(policy._number, self.route)
            run.call, step = engine.begun(native.begin(route, flags, limit, parent, 0))
            if not is_stale_route(step):
                break
        return run, step


class GrpcRun(Run):
    """A unary call in a thread: the answer has arrived when its attempt ends."""

    __slots__ = ("continuation", "details", "guard", "request", "until")

    flags = REPLAYABLE
    streams = False

    def __init__(self, guard: Guard, continuation: Callable[..., Any], details: Any, request: Any) -> None:
        policy = guard.policy
        super().__init__(policy.engine, policy, guard.route, None, 0, classify=policy._classify_by)
        self.guard = guard
        self.continuation = continuation
        self.details = details
        self.request = request
        self.until: int | None = None

    def outgoing(self, attempt: int, us: int) -> Any:
        """Returns the details of an attempt, which has `us` microseconds (negative: no limit)."""
        given = self.details
        metadata = given.metadata
        if attempt > 1:
            metadata = (*(metadata or ()), (BEFORE, str(attempt - 1)))
        compression = getattr(given, "compression", None)
        timeout = us / 1e6 + MARGIN if us >= 0 else None
        return Details(given.method, timeout, metadata, given.credentials, given.wait_for_ready, compression)

    def start(self, attempt: int, us: int) -> Any:
        """Makes an attempt and waits for its answer."""
        call = self.continuation(self.outgoing(attempt, us), self.request)
        error = call.exception()
        if error is not None:
            raise error
        return call

    def left(self) -> int:
        """Returns the microseconds until the deadline, by which a stream ends; negative without one."""
        native = self.engine.native
        us = native.time_left(self.call, True)
        self.until = None if us < 0 else native.now() + us
        return us

    def judge(self, ok: bool, value: Any) -> int:
        """Returns the outcome of an attempt; a stream is judged when it ends."""
        return HEAD if ok and self.streams else super().judge(ok, value)

    def report(self, attempt: int, ok: bool, value: Any) -> int:
        """Reports the end of an attempt; the attempt of a stream goes on, and ends with its status.

        Under an `attempt_timeout`, which does not bound a stream, a stream that has started counts as a head.
        """
        if not (ok and self.streams) or self.policy._setting("attempt_timeout") is not None:
            return super().report(attempt, ok, value)
        self.held[lane_of(attempt)] = (ok, value)
        return WAIT_BODY

    def refuse(self, verdict: str, retry_in: float | None = None) -> TidegateError:
        """Returns our error in a class that is also one of gRPC."""
        return as_grpc(super().refuse(verdict, retry_in), self.guard.is_async)

    def ended(self, call: int, attempt: int, error: BaseException | None) -> None:
        """Reports how a stream has ended; None for a good end."""
        engine = self.engine
        if self.until is not None and engine.native.now() >= self.until:
            engine.on(call, TIMER)
        outcome = 0 if error is None else super().judge(False, error)
        engine.on(call, finished(attempt, outcomes.CANCELLED if outcome < 0 else outcome))


class Streaming(GrpcRun):
    """A call with a stream, in a thread: it is made once, and holds its permit until gRPC has ended it."""

    __slots__ = ()

    flags = SLOT_UNTIL_BODY
    streams = True

    def start(self, attempt: int, us: int) -> Any:
        """Starts the call. Its time is the deadline's: an `attempt_timeout` does not bound a stream."""
        return self.continuation(self.outgoing(attempt, self.left()), self.request)

    def stream(self, step: int) -> Any:
        """Returns the call, whose end ends ours."""
        answer = self.held.pop(lane_of(self.attempts))[1]
        number, attempt, weak = self.call, self.attempts, ref(answer)

        def over() -> None:
            kept = weak()
            if kept is None:
                self.ended(number, attempt, Dropped())
            else:
                self.ended(number, attempt, None if kept.code() is grpc.StatusCode.OK else _ended(kept))

        self.call = 0
        if not answer.add_callback(over):
            over()
        return answer

    def deliver(self, value: Any, verdict: str, note: str | None, retry_in: float | None) -> Any:
        """Returns a call that began although its time was up; gRPC ends it."""
        return value


class Dropped(BaseException):
    """A stream that nobody reads any more: neither a success nor a failure."""


def _ended(call: Any) -> BaseException:
    """Returns the error of a stream that has ended with a status other than `OK`."""
    return Status(call.code(), call.trailing_metadata())


class Status(grpc.RpcError):  # type: ignore[misc,unused-ignore]
    """A status with which a stream has ended, to be judged."""

    __module__ = "grpc"

    def __init__(self, code: Any, metadata: Any) -> None:
        super().__init__()
        self._code, self._metadata = code, metadata

    def code(self) -> Any:
        """Returns the status."""
        return self._code

    def trailing_metadata(self) -> Any:
        """Returns the server's metadata, which may say when to come back."""
        return self._metadata


class AsyncRun(GrpcRun):
    """A unary call in an event loop."""

    __slots__ = ()

    def outgoing(self, attempt: int, us: int) -> Any:
        """Returns the details of an attempt, in the class of `grpc.aio`."""
        made = super().outgoing(attempt, us)
        metadata = grpc.aio.Metadata(*made.metadata) if made.metadata is not None else None
        return grpc.aio.ClientCallDetails(
            made.method, made.timeout, metadata, made.credentials, made.wait_for_ready
        )

    async def start(self, attempt: int, us: int) -> Any:
        """Makes an attempt and waits for its answer."""
        call = await self.continuation(self.outgoing(attempt, us), self.request)
        await call
        return call


class AsyncStreaming(AsyncRun):
    """A call with a stream, in an event loop."""

    __slots__ = ()

    flags = SLOT_UNTIL_BODY
    streams = True

    async def start(self, attempt: int, us: int) -> Any:
        """Starts the call. Its time is the deadline's: an `attempt_timeout` does not bound a stream."""
        return await self.continuation(self.outgoing(attempt, self.left()), self.request)

    def stream(self, step: int) -> Any:
        """Returns the call, whose end ends ours."""
        answer = self.held.pop(lane_of(self.attempts))[1]
        number, attempt = self.call, self.attempts

        def over(ended: Any) -> None:
            code = _at_once(ended.code())
            if code is grpc.StatusCode.OK:
                self.ended(number, attempt, None)
            elif code is None or ended.cancelled():
                self.ended(number, attempt, Dropped())
            else:
                self.ended(number, attempt, Status(code, _at_once(ended.trailing_metadata())))

        self.call = 0
        answer.add_done_callback(over)
        return answer

    def deliver(self, value: Any, verdict: str, note: str | None, retry_in: float | None) -> Any:
        """Returns a call that began although its time was up; gRPC ends it."""
        return value


def _at_once(asked: Any) -> Any:
    """Returns what a coroutine returns that has nothing to wait for; None if it would wait."""
    try:
        asked.send(None)
    except StopIteration as done:
        return done.value
    asked.close()
    return None
