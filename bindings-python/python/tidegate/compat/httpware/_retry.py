"""httpware's retry middlewares. The engine decides; this file adds httpware's notes, events and errors."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from tidegate._call import outcomes
from tidegate._call.deadline import SCOPE, leave
from tidegate._call.policy import Policy
from tidegate._call.threads import drive
from tidegate._engine.engine import Engine, default_engine
from tidegate._engine.hooks import UNLOGGED
from tidegate._engine.wire import (
    IDEMPOTENT,
    KINDS,
    OPINIONS,
    POLL,
    REPLAYABLE,
    attempt_of,
    is_attempt,
    is_done,
    lane_of,
    pack_outcome,
    span_of,
)
from tidegate.compat._call import PLAIN, ChainRun, FedClock, Start
from tidegate.compat._checks import number, whole
from tidegate.compat._errors import joined
from tidegate.parts import parse_retry_after

from ._budget import RetryBudget
from ._errors import RetryBudgetExhaustedError
from ._events import RETRY, emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from tidegate._call.deadline import Scope

Next: TypeAlias = "Callable[[Any], Any]"
"""The rest of a chain: `next(request)` returns a response or raises."""
AsyncNext: TypeAlias = "Callable[[Any], Awaitable[Any]]"

STATUSES: Final = frozenset({408, 429, 502, 503, 504})
METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})

_CODES: Final = range(100, 600)
_MARK: Final = "httpware.streaming_body"
_STREAMING: Final = (
    "httpware: not retrying \N{EM DASH} request body is a stream that cannot replay across attempts"
)
_RETRY: Final = OPINIONS["retry"]
_DO_NOT: Final = OPINIONS["do_not"]


class Budget(Protocol):
    """Interface of retry budgets: a `RetryBudget` of this package, or httpware's own."""

    def deposit(self) -> None:
        """Counts one request."""

    def try_withdraw(self) -> bool:
        """Takes one retry if one is available; returns whether it did."""
        ...


class _Run(ChainRun):
    """One request and its attempts."""

    __slots__ = ("door", "paid", "retry_after")

    def __init__(self, door: _Retry, call: int, scope: Scope | None, request: Any, next_: Any) -> None:
        super().__init__(door._start, call, scope, request, next_)
        self.door = door
        self.paid: float | None = None
        self.retry_after: float | None = None

    def start(self, attempt: int, us: int) -> Any:
        """Sends the request. The retry withdrawn from the budget has begun, so it is no longer refundable."""
        self.paid = None
        return super().start(attempt, us)

    def judge(self, ok: bool, value: Any) -> int:
        """Returns the outcome by httpware's rules: a returned response is always a success."""
        if ok:
            return 0
        if not isinstance(value, Exception):
            return outcomes.STOPPED
        self.retry_after = None
        response = response_of(value)
        if response is None:
            return outcomes.TRANSIENT if is_transport(value) else outcomes.PERMANENT
        status = response.status_code
        if status not in self.door._statuses:
            return pack_outcome(KINDS["permanent"], _DO_NOT)
        if self.door._respects:
            self.retry_after = _asked_wait(response)
        return pack_outcome(KINDS["throttled" if status == 429 else "transient"], _RETRY, self.retry_after)

    def report(self, attempt: int, ok: bool, value: Any) -> int:
        """Reports the attempt; withdraws a retry that the engine allows from the budget before the wait."""
        step = super().report(attempt, ok, value)
        if ok or is_done(step):
            return step
        budget = self.door.budget
        if isinstance(budget, RetryBudget):
            self.paid = budget._take()
            refused = self.paid is None
        else:
            refused = not budget.try_withdraw()
        if refused:
            self.abandon()
            raise self._exhausted(value) from value
        return step

    def abandon(self) -> None:
        """Cancels the call; refunds a retry that was withdrawn from the budget but not begun."""
        if self.call and self.paid is not None and isinstance(self.door.budget, RetryBudget):
            self.door.budget._give_back(self.paid)
            self.paid = None
        super().abandon()

    def note(self, verdict: str, note: str | None) -> str | None:
        """Returns httpware's note of a verdict and emits its event; else returns the engine's note."""
        error = self.held[lane_of(self.attempts)][1]
        if verdict == "attempts" and self.attempts == 1:
            # The engine names the spent attempt first; httpware asks for the method and the body before it.
            if str(self.request.method).upper() not in self.door._methods:
                verdict = "method"
            elif _is_streaming(self.request):
                verdict = "one_shot_body"
        if verdict == "attempts":
            note = f"httpware: gave up after {self.attempts} attempts"
            message = f"retry gave up after {self.attempts} attempts"
            self._emit("retry.giving_up", message, error, reason="max_attempts")
        elif verdict == "retry_after_too_long":
            asked, most = self.retry_after, self.door._max_delay
            note = f"httpware: Retry-After ({asked}s) exceeded max_delay ({most}s); giving up"
            message = f"retry gave up after {self.attempts} attempts: Retry-After exceeded max_delay"
            self._emit(
                "retry.giving_up",
                message,
                error,
                reason="retry_after_exceeds_max_delay",
                retry_after=asked,
                max_delay=most,
            )
        elif verdict == "one_shot_body":
            note = _STREAMING
            message = "retry refused: the request body is a stream that cannot replay"
            kind = type(error).__qualname__
            emit(RETRY, "retry.streaming_refused", message, self.request, last_exception_type=kind)
        elif verdict == "method":
            note = _STREAMING if _is_streaming(self.request) else None
        elif verdict in ("not_retryable", "opinion"):
            note = None
        return note

    def _exhausted(self, error: BaseException) -> RetryBudgetExhaustedError:
        message = f"retry budget refused after {self.attempts} attempts"
        response = response_of(error)
        status = None if response is None else response.status_code
        attempts = self.attempts
        emit(RETRY, "retry.budget_refused", message, self.request, attempts=attempts, last_status=status)
        return joined(
            RetryBudgetExhaustedError(last_response=response, last_exception=error, attempts=attempts)
        )

    def _emit(self, event: str, message: str, error: BaseException, **more: Any) -> None:
        response = response_of(error)
        emit(
            RETRY,
            event,
            message,
            self.request,
            attempts=self.attempts,
            last_status=None if response is None else response.status_code,
            last_exception_type=type(error).__qualname__,
            **more,
        )


class _Retry:
    """Common base of the sync and the async retry."""

    def __init__(
        self,
        *,
        max_attempts: int,
        base_delay: float,
        max_delay: float,
        retry_status_codes: Collection[int],
        retry_methods: Collection[str],
        respect_retry_after: bool,
        budget: Budget | None,
        sleep: Callable[[float], Any] | None,
        engine: Engine | None,
    ) -> None:
        whole("max_attempts", max_attempts, 1)
        number("base_delay", base_delay, infinite=True)
        number("max_delay", max_delay)
        for name in ("deposit", "try_withdraw") if budget is not None else ():
            if not callable(getattr(budget, name, None)):
                raise ValueError(f"budget must have {name}(), got {budget!r}")
        if sleep is not None and engine is not None:
            raise ValueError("_sleep and engine exclude each other: an engine waits on its own clock")
        self.budget: Budget = RetryBudget() if budget is None else budget
        self._statuses = _statuses(retry_status_codes)
        self._methods = _methods(retry_methods)
        self._respects = respect_retry_after
        self._max_delay = max_delay
        self._sleep = sleep
        self._clock = None if sleep is None else FedClock(sleep=sleep)
        if self._clock is not None:
            engine = Engine(clock=self._clock, logs=False)
        base = min(base_delay, max_delay)
        # The policy keeps no state, so middlewares with the same settings can share it.
        name = f"httpware.retry(max_attempts={max_attempts}, base_delay={base!r}, max_delay={max_delay!r})"
        UNLOGGED.add(name)  # this layer logs httpware's own lines instead
        self._policy = Policy(
            name,
            retry={
                "max_attempts": max_attempts,
                "backoff": {"base": base, "max": max_delay, "multiplier": 2, "jitter": "full"},
                "retry_after": "exact",
                "max_retry_after": max_delay,
                # The only budget is that of this layer, as in httpware; a second one could refuse more.
                "budget": {"kind": "none"},
            },
            engine=default_engine() if engine is None else engine,
        )
        self._start = Start(self._policy, nested=True)

    def _begin(self, flags: int, request: Any, next_: Any) -> tuple[_Run, int]:
        self.budget.deposit()
        if str(request.method).upper() in self._methods:
            flags |= IDEMPOTENT
        if not _is_streaming(request):
            flags |= REPLAYABLE
        call, step, scope = self._start(flags)
        return _Run(self, call, scope, request, next_), step


class Retry(_Retry):
    """Retries failed requests: a middleware for `httpware.Client`.

    Retries a request with one of `retry_methods` whose attempt raised a `StatusError` with one of
    `retry_status_codes`, a `NetworkError` or a `TimeoutError` (of httpware, or the corresponding exceptions
    of httpx and httpx2), while attempts and budget last. Then the last exception is raised, with a note.

    Args:
        max_attempts: Attempts including the first; 1 to 255, 1 switches retries off.
        base_delay: Maximum delay before the first retry, in seconds; doubled each time (full jitter).
        max_delay: Maximum delay before any retry, in seconds; a longer Retry-After ends the call.
        retry_status_codes: Statuses to retry.
        retry_methods: Methods to retry; POST only if it is listed.
        respect_retry_after: Whether the server's Retry-After replaces the backoff.
        budget: The budget that allows or refuses retries; a new one by default. Clients can share one.
        engine: The engine that decides; the default engine of the process if left out. Tests pass one with a
            fake clock.
        _sleep: Called with the seconds of each wait, in place of the engine's own waiting.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> class Request:
        ...     method, url, extensions = "GET", "http://api", {}
        >>> Retry(max_attempts=2)(Request(), lambda request: "answer")
        'answer'
    """

    def __init__(
        self,
        *,
        max_attempts: int = 3,
        base_delay: float = 0.1,
        max_delay: float = 5.0,
        retry_status_codes: Collection[int] = STATUSES,
        retry_methods: Collection[str] = METHODS,
        respect_retry_after: bool = True,
        budget: Budget | None = None,
        engine: Engine | None = None,
        _sleep: Callable[[float], None] | None = None,
    ) -> None:
        super().__init__(
            max_attempts=max_attempts,
            base_delay=base_delay,
            max_delay=max_delay,
            retry_status_codes=retry_status_codes,
            retry_methods=retry_methods,
            respect_retry_after=respect_retry_after,
            budget=budget,
            sleep=None if _sleep is time.sleep else _sleep,
            engine=engine,
        )

    def __call__(self, request: Any, next: Next) -> Any:  # noqa: A002 - httpware's name
        """Sends a request, and retries it while that is allowed.

        Raises:
            RetryBudgetExhaustedError: If a retry was due and the budget refused it.
            Exception: The last attempt's own, the same object, with a note that says why there was no retry.
        """
        return drive(*self._begin(PLAIN, request, next))


class AsyncRetry(_Retry):
    """Retries failed requests, like `Retry`: a middleware for `httpware.AsyncClient`.

    Args:
        max_attempts: Attempts including the first; 1 to 255, 1 switches retries off.
        base_delay: Maximum delay before the first retry, in seconds; doubled each time (full jitter).
        max_delay: Maximum delay before any retry, in seconds; a longer Retry-After ends the call.
        retry_status_codes: Statuses to retry.
        retry_methods: Methods to retry; POST only if it is listed.
        respect_retry_after: Whether the server's Retry-After replaces the backoff.
        budget: The budget that allows or refuses retries; a new one by default. Clients can share one.
        engine: The engine that decides; the default engine of the process if left out. Tests pass one with a
            fake clock.
        _sleep: Called with the seconds of each wait and awaited, in place of the engine's own waiting.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> import asyncio
        >>> class Request:
        ...     method, url, extensions = "GET", "http://api", {}
        >>> async def answer(request):
        ...     return "answer"
        >>> asyncio.run(AsyncRetry()(Request(), answer))
        'answer'
    """

    def __init__(
        self,
        *,
        max_attempts: int = 3,
        base_delay: float = 0.1,
        max_delay: float = 5.0,
        retry_status_codes: Collection[int] = STATUSES,
        retry_methods: Collection[str] = METHODS,
        respect_retry_after: bool = True,
        budget: Budget | None = None,
        engine: Engine | None = None,
        _sleep: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(
            max_attempts=max_attempts,
            base_delay=base_delay,
            max_delay=max_delay,
            retry_status_codes=retry_status_codes,
            retry_methods=retry_methods,
            respect_retry_after=respect_retry_after,
            budget=budget,
            sleep=_sleep,
            engine=engine,
        )

    async def __call__(self, request: Any, next: AsyncNext) -> Any:  # noqa: A002 - httpware's name
        """Sends a request, and retries it while that is allowed.

        Raises:
            RetryBudgetExhaustedError: If a retry was due and the budget refused it.
            asyncio.CancelledError: If the caller was cancelled; a retry not yet begun is refunded.
            Exception: The last attempt's own, the same object, with a note that says why there was no retry.
        """
        run, step = self._begin(PLAIN, request, next)
        if self._clock is not None and self._sleep is not None:
            return await _drive_asleep(run, step, self._clock, self._sleep)
        from tidegate._call.tasks import drive as drive_async

        return await drive_async(run, step)


async def _drive_asleep(
    run: _Run, step: int, clock: FedClock, sleep: Callable[[float], Awaitable[None]]
) -> Any:
    """Carries out a call with the caller's own `sleep` for every wait."""
    try:
        while not is_done(step):
            if not is_attempt(step):
                us = span_of(step)
                due = clock.now_us() + us
                await sleep(us / 1e6)
                clock.reach(due)
                step = run.engine.on(run.call, POLL)
                continue
            attempt = run.attempts = attempt_of(step)
            ok, value = True, None
            token = SCOPE.set((run.engine, run.call, None, run.scope))
            try:
                value = await run.start(attempt, -1)
            except BaseException as error:
                ok, value = False, error
            leave(token)
            step = run.report(attempt, ok, value)
        run.call = 0
        return run.conclude(step)
    except BaseException:
        run.abandon()
        raise


def response_of(error: BaseException) -> Any:
    """Returns the response of an exception, or None. Exceptions of others may have another `response`."""
    try:
        response = getattr(error, "response", None)
        return response if isinstance(getattr(response, "status_code", None), int) else None
    except Exception:
        return None


def _asked_wait(response: Any) -> float | None:
    """Returns the seconds of a response's Retry-After; None if it has none, or cannot be read."""
    try:
        header = response.headers.get("Retry-After")
        return None if header is None else parse_retry_after(header)
    except Exception:
        return None


def is_transport(error: BaseException) -> bool:
    """Returns whether the error is a network error or a timeout of one of the imported client libraries."""
    httpware = sys.modules.get("httpware")
    if httpware is not None and isinstance(error, (httpware.NetworkError, httpware.TimeoutError)):
        return True
    for name in ("httpx2", "httpx"):
        httpx = sys.modules.get(name)
        if httpx is not None and isinstance(
            error, (httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError)
        ):
            return True
    return False


def is_exhausted(error: BaseException | None) -> bool:
    """Returns whether the error is the refusal of a retry budget, ours or httpware's."""
    httpware = sys.modules.get("httpware")
    theirs = () if httpware is None else (httpware.RetryBudgetExhaustedError,)
    return isinstance(error, (RetryBudgetExhaustedError, *theirs))


def _is_streaming(request: Any) -> bool:
    """Returns whether the body can be sent only once: by the mark of httpware's client, else by its type."""
    if (getattr(request, "extensions", None) or {}).get(_MARK):
        return True
    stream = getattr(request, "stream", None)
    library = sys.modules.get(type(request).__module__.partition(".")[0])
    in_memory = getattr(library, "ByteStream", None)
    if stream is None or in_memory is None or isinstance(stream, in_memory):
        return False
    return type(stream).__name__ != "MultipartStream"  # it can be iterated again


def _statuses(given: Collection[int]) -> frozenset[int]:
    wrong = [code for code in given if code not in _CODES]
    if wrong:
        raise ValueError(f"retry_status_codes must be statuses from 100 to 599, got {wrong[0]!r}")
    return frozenset(int(code) for code in given)


def _methods(given: Collection[str]) -> frozenset[str]:
    if isinstance(given, str) or not all(isinstance(method, str) for method in given):
        raise ValueError(f"retry_methods must be a collection of method names, got {given!r}")
    return frozenset(method.upper() for method in given)
