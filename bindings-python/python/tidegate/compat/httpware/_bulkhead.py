"""httpware's bulkheads: a limit of requests in flight, with a limited wait for a slot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tidegate._call.policy import Policy
from tidegate._call.threads import drive
from tidegate._engine.engine import Engine
from tidegate.compat._call import REPEATABLE, ChainRun, Start
from tidegate.compat._checks import number, whole
from tidegate.compat._errors import joined

from ._errors import BulkheadFullError
from ._events import BULKHEAD, emit

_B = TypeVar("_B", bound="_Bulkhead")

if TYPE_CHECKING:
    from tidegate._call.deadline import Scope
    from tidegate._engine.errors import TidegateError

    from ._retry import AsyncNext, Next


class _Run(ChainRun):
    __slots__ = ("door",)

    def __init__(self, door: _Bulkhead, call: int, scope: Scope | None, request: Any, next_: Any) -> None:
        super().__init__(door._start, call, scope, request, next_)
        self.door = door

    def refuse(self, verdict: str, retry_in: float | None = None) -> TidegateError:
        """Returns httpware's error if no slot came free; other refusals, as by a deadline, are unchanged."""
        if verdict not in ("acquire_timeout", "queue_full"):
            return super().refuse(verdict, retry_in)
        limits: dict[str, Any] = {
            "max_concurrent": self.door.max_concurrent,
            "acquire_timeout": self.door.acquire_timeout,
        }
        message = "bulkhead rejected request: no slot came free within acquire_timeout"
        emit(BULKHEAD, "bulkhead.rejected", message, self.request, **limits)
        error = joined(BulkheadFullError(**limits))
        if isinstance(self.door, AsyncBulkhead):
            error.__cause__ = TimeoutError()  # as httpware's, which waits under `asyncio.timeout`
        return error


class _Bulkhead:
    """Common base of the sync and the async bulkhead; threads and event loops share the slots."""

    def __init__(
        self,
        *,
        max_concurrent: int,
        acquire_timeout: float | None = 1.0,
        engine: Engine | None = None,
    ) -> None:
        self.max_concurrent = whole("max_concurrent", max_concurrent, 1)
        if acquire_timeout is not None:
            number("acquire_timeout", acquire_timeout, infinite=True)
        self.acquire_timeout = acquire_timeout
        for_ever = acquire_timeout is None or acquire_timeout == float("inf")
        self._policy = Policy(
            bulkhead={
                "max_concurrency": max_concurrent,
                "max_queue": None,
                "acquire_timeout": None if for_ever else acquire_timeout,
            },
            engine=Engine(logs=False) if engine is None else engine,
        )
        self._start = Start(self._policy, nested=False)

    def _begin(self, flags: int, request: Any, next_: Any) -> tuple[_Run, int]:
        call, step, scope = self._start(flags)
        return _Run(self, call, scope, request, next_), step


class Bulkhead(_Bulkhead):
    """Limits the requests in flight: a middleware for `httpware.Client`.

    Several clients and threads can share an instance. Waiters are served in order. The slot is released
    however the request ends.

    Args:
        max_concurrent: Requests in flight; 1 or more.
        acquire_timeout: Seconds to wait for a slot; None waits for ever, 0 fails fast.
        engine: The engine that keeps its state; a new one by default. Tests pass one with a fake clock.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> class Request:
        ...     method, url = "GET", "http://api"
        >>> bulkhead = Bulkhead(max_concurrent=1, acquire_timeout=0)
        >>> bulkhead(Request(), lambda request: "answer")
        'answer'
    """

    def twin(self) -> AsyncBulkhead:
        """Makes a bulkhead for async clients with the same slots: one limit for both."""
        return _sharing(AsyncBulkhead, self)

    def __call__(self, request: Any, next: Next) -> Any:  # noqa: A002 - httpware's name
        """Sends a request once there is a slot for it.

        Raises:
            BulkheadFullError: If no slot came free in time.
            Exception: The exception of the next middleware, unchanged.
        """
        return drive(*self._begin(REPEATABLE, request, next))


class AsyncBulkhead(_Bulkhead):
    """Limits the requests in flight: a middleware for `httpware.AsyncClient`.

    Several clients and event loops can share an instance. Waiters are served in order. The slot is released
    however the request ends, also by a cancellation.

    Args:
        max_concurrent: Requests in flight; 1 or more.
        acquire_timeout: Seconds to wait for a slot; None waits for ever, 0 fails fast.
        engine: The engine that keeps its state; a new one by default. Tests pass one with a fake clock.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> import asyncio
        >>> class Request:
        ...     method, url = "GET", "http://api"
        >>> async def answer(request):
        ...     return "answer"
        >>> asyncio.run(AsyncBulkhead(max_concurrent=1)(Request(), answer))
        'answer'
    """

    def twin(self) -> Bulkhead:
        """Makes a bulkhead for sync clients with the same slots: one limit for both."""
        return _sharing(Bulkhead, self)

    async def __call__(self, request: Any, next: AsyncNext) -> Any:  # noqa: A002 - httpware's name
        """Sends a request once there is a slot for it.

        Raises:
            BulkheadFullError: If no slot came free in time.
            asyncio.CancelledError: If the caller was cancelled; the slot is released at once.
            Exception: The exception of the next middleware, unchanged.
        """
        from tidegate._call.tasks import drive as drive_async

        return await drive_async(*self._begin(REPEATABLE, request, next))


def _sharing(kind: type[_B], other: _Bulkhead) -> _B:
    made = object.__new__(kind)
    made.__dict__.update(other.__dict__)
    return made
