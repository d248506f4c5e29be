"""The happy path of a transport: the native half begins and ends calls whose first attempt succeeds.

A request without options of its own and with a body in memory goes through a `Quick` caller of its route.
Everything else (a wait, a failure, a response that has yet to be read) is passed to an `HttpxRun`, as without
this fast path.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from tidegate._call import caller
from tidegate._call.caller import Caller
from tidegate._call.lazy import resume as aresume
from tidegate._call.open_call import MARGIN
from tidegate._call.threads import discard_held, drive, settle
from tidegate._engine.wire import IDEMPOTENT, MAY_PARK, REPLAYABLE
from tidegate._native import scope

from .front import key_of
from .httpx_run import PHASES
from .options import AROUND, NONE, NORMAL

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .front import Front
    from .httpx_run import Family, HttpxRun

_MOST_PLANS: Final = 10_000
_around: Final = AROUND.get


class Quick(Caller):
    """Caller of one route whose first attempts are native; an `HttpxRun` does the rest."""

    __slots__ = (
        "_ahead",
        "_family",
        "_fitting",
        "_front",
        "_inner",
        "_kind",
        "_now",
        "left",
        "repeats",
        "span",
        "tunings",
    )

    _judged_by_type = False  # an `HttpxRun` judges responses and the client's exceptions
    _family: Family
    _front: Front
    _inner: Any
    _kind: type[HttpxRun]
    _now: Callable[[], int]
    repeats: bool
    """Whether the policy retries its HTTP method."""
    span: int | None
    """Time limit of a first attempt in microseconds; None for no limit."""
    left: float
    """`span` in seconds, plus a margin."""
    tunings: int
    _fitting: dict[str, Any] | None
    """Timeouts of an earlier request that are all within the limit."""
    _ahead: float | None
    """What a time on the engine's clock, in seconds, lacks to the end of a limit that begins then, on the
    process's monotonic clock; None if the engine has another clock."""

    def outgoing(self, request: Any, whole: bool) -> tuple[Any, int, float] | None:
        """Returns the request with timeouts within the limit, and the limit's start and end.

        The start is on the engine's clock, the end on the process's monotonic clock. Returns None inside a
        scope, where less time may be left. `whole` says that the transport returns complete bodies, so that
        the timeouts are not needed again after it returns.
        """
        if self.span is None or scope() is not None:
            return None
        left = self.left
        extensions = request.extensions
        given = extensions.get("timeout") or NONE
        if whole and given == self._fitting:  # a client gives equal timeouts to most of its requests
            began = self._now()
            ahead = self._ahead
            return request, began, monotonic() + left if ahead is None else began * 1e-6 + ahead
        if whole and len(given) == 4:
            for own in given.values():
                if own is None or own > left:
                    break
            else:
                self._fitting = dict(given)
                return request, self._now(), monotonic() + left
        # A dict of our own: the transport reads it again with the body, and the timeout may change by then.
        timeouts = dict(given)
        for phase in PHASES:
            own = timeouts.get(phase)
            if own is None or own > left:
                timeouts[phase] = left
        sent = object.__new__(type(request))
        sent.__dict__.update(request.__dict__)
        sent.extensions = {**extensions, "timeout": timeouts}
        return sent, self._now(), monotonic() + left

    def _begun(
        self, scope: Any, call: int, step: int, fn: Any, args: Any, kwargs: dict[str, Any] | None
    ) -> Any:
        return drive(*self._fresh(scope, call, step, self._flags, fn, args, kwargs))

    def _failed(
        self,
        scope: Any,
        call: int,
        attempt: int,
        step: int | None,
        failure: Any,
        fn: Any,
        args: Any,
        kwargs: Any,
    ) -> Any:
        run = self._run(scope, call, fn, args, kwargs)
        try:
            step = settle(run, attempt, not isinstance(failure, BaseException), failure)
        except BaseException:
            run.abandon()
            discard_held(run)
            raise
        finally:
            del failure  # no cycle: exception, traceback, frame, exception
        return drive(run, step)

    def _afailed(
        self,
        scope: Any,
        call: int,
        attempt: int,
        step: int | None,
        ok: bool,
        value: Any,
        fn: Any,
        args: Any,
        kwargs: Any,
        timers: Any,
    ) -> Coroutine[Any, Any, Any]:
        return aresume(self._run(scope, call, fn, args, kwargs), attempt, step, ok, value, timers)

    def _run(self, scope: Any, call: int, fn: Any, args: Any, kwargs: Any) -> HttpxRun:
        """Makes the run of a request that was sent as `sent`, and began at `began` on the engine's clock."""
        request, sent, began, _ = args
        front = self._front
        run: HttpxRun = self._kind(front, request, NONE, self._family, self._inner)
        run.call, run.scope, run.route = call, scope, self._route_key
        policy_deadline, slot = front.facts(front.policy)
        run.until_body = slot != 0
        run.header = front.retry_header
        if sent is not request:
            run.timeouts = sent.extensions["timeout"]
        if self.span is not None:
            run.us_until = began + self.span
            run.until = None if policy_deadline is None else began + policy_deadline
        return run


class Plans:
    """The `Quick` callers of a transport, by method and origin."""

    __slots__ = ("_bytes", "_engine", "_family", "_front", "_inner", "_kind", "_quick")

    def __init__(self, front: Front, family: Family, inner: Any, kind: type[HttpxRun]) -> None:
        self._front = front
        self._family = family
        self._inner = inner
        self._kind = kind
        self._bytes = family.bytes
        self._engine = front.policy.engine
        self._quick: dict[tuple[str, Any, Any, Any], Quick] = {}

    def of(self, request: Any) -> Quick | None:
        """Returns the caller of a request; None if the request needs the slow path."""
        if (
            type(request.stream) is not self._bytes
            or "tidegate" in request.extensions
            or _around() is not None
        ):
            return None
        try:
            where = request.url._uri_reference
            quick = self._quick[request.method, where.scheme, where.host, where.port]
        except (AttributeError, KeyError):
            return self._checked(request)
        if quick.tunings != self._engine.tunings:
            self._quick.clear()
            return self._checked(request)
        if quick.repeats:
            return quick
        return None if "idempotency-key" in request.headers else quick

    def _checked(self, request: Any) -> Quick | None:
        quick = self._made(request)
        return quick if quick is None or quick.repeats or "idempotency-key" not in request.headers else None

    def _made(self, request: Any) -> Quick | None:
        where = getattr(request.url, "_uri_reference", None)
        front = self._front
        policy = front.policy
        tunings = policy.engine.tunings  # read before the settings whose changes it counts
        if (
            where is None
            or not caller.FAST
            or policy._classify_by is not None
            or policy._holds
            or policy._reads_errors
            or policy._learns
        ):
            return None
        if front.limits_of(policy) is not None or front.weigh is not None or front.usage is not None:
            return None
        deadline, slot = front.facts(policy)
        timeout = policy._setting("attempt_timeout")
        spans = [int(us) for us in (deadline, timeout) if isinstance(us, (int, float))]
        quick = Quick()
        quick.tunings = tunings
        quick._front, quick._family = front, self._family
        quick._inner, quick._kind = self._inner, self._kind
        quick.span = min(spans) if spans else None
        quick.left = (quick.span or 0) / 1e6 + MARGIN
        quick._now, quick._fitting = policy.engine.native.now, None
        real = policy.engine.clock is None
        quick._ahead = monotonic() - quick._now() * 1e-6 + quick.left if real else None
        flags = MAY_PARK | NORMAL | REPLAYABLE | slot
        quick.repeats = front.retries(policy, request.method)
        if quick.repeats:
            flags |= IDEMPOTENT
        url = request.url
        quick._bind(policy, key_of((url.scheme, url.host, url.port)), flags, 0, None)
        if len(self._quick) >= _MOST_PLANS:
            self._quick.clear()
        self._quick[request.method, where.scheme, where.host, where.port] = quick
        return quick
