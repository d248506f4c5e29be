"""HawkAPI's named bulkheads: a context manager, and a decorator for endpoints."""

from __future__ import annotations

import functools
import inspect
import math
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tidegate._call import lazy, outcomes
from tidegate._call.run import Run, abandon
from tidegate._call.threads import park
from tidegate._engine.errors import Unsupported
from tidegate._engine.wire import FINISHED_1, VERDICTS, is_done, is_wait, verdict_of
from tidegate.compat._call import REPEATABLE
from tidegate.compat._checks import number, whole
from tidegate.compat._errors import joined

from ._backend import LocalBulkheadBackend, default
from ._errors import BulkheadFullError, HTTPException

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ._metrics import Metrics

F = TypeVar("F", bound="Callable[..., Any]")


class Bulkhead:
    """A named limit of concurrency: `async with bulkhead:`, or `with` in a thread.

    Bulkheads with the same name share their slots within a process. Any number of tasks and threads can use
    an instance at once. Every entry takes a separate slot, also inside another entry of the same name.

    Args:
        name: Its name; 1 to 90 bytes.
        limit: Slots; 1 or more.
        max_wait: Seconds to wait for a slot; 0 fails fast.
        backend: The backend that keeps the slots; the default backend of the process if left out.
        metrics: Whether to export metrics to Prometheus; needs `prometheus-client`.

    Raises:
        ValueError: If an argument is out of range, or the name is already registered with another limit.
        Unsupported: If the backend is not of this package.

    Example:
        >>> stripe = Bulkhead("stripe", limit=10, max_wait=0.5)
        >>> with stripe:
        ...     pass
    """

    __slots__ = ("_held", "_max_wait", "_metrics", "_start", "limit", "name")

    def __init__(
        self,
        name: str,
        limit: int,
        max_wait: float = 0.0,
        *,
        backend: LocalBulkheadBackend | None = None,
        metrics: bool = False,
    ) -> None:
        number("max_wait", max_wait, infinite=True)
        given: object = default if backend is None else backend
        if not isinstance(given, LocalBulkheadBackend):
            rule = "must be a LocalBulkheadBackend or a RedisBulkheadBackend, or left out"
            raise Unsupported([("backend", repr(backend), rule)])
        backend = given
        self._start = backend.register(name, limit, max_wait)
        self.name = name
        self.limit = limit
        self._max_wait = max_wait
        self._metrics: Metrics | None = None
        if metrics:
            from ._metrics import Metrics

            self._metrics = Metrics(name, limit, max_wait)
        # Slots are interchangeable: each exit returns any one of them. So an exit may happen in another
        # context, another task or another order than the entries.
        self._held: list[int] = []

    async def __aenter__(self) -> Bulkhead:
        run, step, began = self._begin(REPEATABLE)
        try:
            if is_wait(step):
                step = await lazy.park(run, step)
        except BaseException:
            run.abandon()
            raise
        return self._entered(run, step, began)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave(error)

    def __enter__(self) -> Bulkhead:
        run, step, began = self._begin(REPEATABLE)
        try:
            if is_wait(step):
                step = park(run, step)
        except BaseException:
            run.abandon()
            raise
        return self._entered(run, step, began)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave(error)

    def _begin(self, flags: int) -> tuple[Run, int, int]:
        start = self._start
        began = start.engine.native.now()
        call, step, scope = start(flags)
        return Run(start.engine, start.policy, "default", scope, call), step, began

    def _entered(self, run: Run, step: int, began: int) -> Bulkhead:
        if not is_done(step):
            self._held.append(run.call)
            if self._metrics is not None:
                self._metrics.acquired((run.engine.native.now() - began) / 1e6)
            return self
        run.call = 0
        verdict = VERDICTS[verdict_of(step)]
        if verdict not in ("acquire_timeout", "queue_full"):
            raise run.refuse(verdict)
        waited = (run.engine.native.now() - began) / 1e6 if self._max_wait > 0 else 0.0
        if self._metrics is not None:
            self._metrics.rejected(waited)
        raise joined(BulkheadFullError(self.name, self.limit, waited))

    def _leave(self, error: BaseException | None) -> None:
        try:
            call = self._held.pop()
        except IndexError:
            raise RuntimeError(f"unpaired release of bulkhead {self.name!r}: no slot of it is held") from None
        if self._metrics is not None:
            self._metrics.in_flight.dec()
        engine = self._start.engine
        if error is not None and not isinstance(error, Exception):
            abandon(engine, call, 1)
        else:
            engine.on(call, FINISHED_1 | (0 if error is None else outcomes.PERMANENT))

    def __repr__(self) -> str:
        return f"Bulkhead({self.name!r}, limit={self.limit}, max_wait={self._max_wait})"


def bulkhead(
    name: str,
    limit: int,
    max_wait: float = 0.0,
    *,
    backend: LocalBulkheadBackend | None = None,
    status_code: int = 503,
    retry_after: float = 1.0,
    metrics: bool = False,
) -> Callable[[F], F]:
    """Limits the concurrency of an endpoint; refuses further requests with a status.

    Args:
        name: The bulkhead's name; endpoints with the same name share its slots.
        limit: Slots; 1 or more.
        max_wait: Seconds to wait for a slot; 0 fails fast.
        backend: The backend that keeps the slots; the default backend of the process if left out.
        status_code: The status of a refusal, 400 to 599.
        retry_after: Seconds for its Retry-After header, rounded up to whole ones, at least 1.
        metrics: Whether to export metrics to Prometheus; needs `prometheus-client`.

    Returns:
        A decorator for functions and async functions. What a function returns to be awaited is awaited in a
        slot, which it takes then. The decorated function raises `HTTPException` if this
        bulkhead refuses. The refusal of another bulkhead, inside the endpoint, is raised unchanged.

    Raises:
        ValueError: If an argument is out of range, or the name is already registered with another limit.
        TypeError: By the decorator, for a generator function: it runs after its call.

    Example:
        >>> @bulkhead("reports", limit=1, status_code=429, retry_after=2.5)
        ... def report():
        ...     return "done"
        >>> report()
        'done'
    """
    number("retry_after", retry_after)
    if not 400 <= whole("status_code", status_code, 0) <= 599:
        raise ValueError(f"status_code must be from 400 to 599, got {status_code!r}")
    slots = Bulkhead(name, limit, max_wait, backend=backend, metrics=metrics)
    headers = {"Retry-After": str(max(1, math.ceil(retry_after)))}

    def refusal() -> HTTPException:
        return joined(HTTPException(status_code, "bulkhead_full", headers=dict(headers)))

    async def within(start: Callable[[], Any]) -> Any:
        try:
            await slots.__aenter__()
        except BulkheadFullError as error:
            raise refusal() from error
        try:
            answer = await start()
        except BaseException as error:
            slots._leave(error)
            raise
        slots._leave(None)
        return answer

    async def awaited(answer: Any) -> Any:
        try:
            return await within(lambda: answer)
        finally:
            if inspect.iscoroutine(answer):
                answer.close()  # a refused one has not been awaited

    def decorate(handler: F) -> F:
        if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
            raise TypeError(
                f"bulkhead {name!r}: {handler!r} is a generator, which runs after it has been called; take"
                " the slot inside it, in a `with` or `async with` block"
            )

        @functools.wraps(handler)
        async def awaiting(*args: Any, **kwargs: Any) -> Any:
            return await within(lambda: handler(*args, **kwargs))

        @functools.wraps(handler)
        def calling(*args: Any, **kwargs: Any) -> Any:
            try:
                slots.__enter__()
            except BulkheadFullError as error:
                raise refusal() from error
            try:
                answer = handler(*args, **kwargs)
            except BaseException as error:
                slots._leave(error)
                raise
            slots._leave(None)
            return awaited(answer) if inspect.isawaitable(answer) else answer

        is_async = any(map(inspect.iscoroutinefunction, (handler, type(handler).__call__)))
        return cast("F", awaiting if is_async else calling)

    return decorate
