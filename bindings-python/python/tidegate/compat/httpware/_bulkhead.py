"""httpware's bulkheads: a limit of requests in flight, with bounded patience."""

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
        """The door's own error where no slot came free; a deadline around it stays what it is."""
        if verdict not in ("acquire_timeout", "queue_full"):
            return super().refuse(verdict, retry_in)
        limits: dict[str, Any] = {
            "max_concurrent": self.door.max_concurrent,
            "acquire_timeout": self.door.acquire_timeout,
        }
        message = "bulkhead rejected request: no slot came free within acquire_timeout"
        emit(BULKHEAD, "bulkhead.rejected", message, self.request, **limits)
        return joined(BulkheadFullError(**limits))


class _Bulkhead:
    """What both colours share: in fact the slots are the same for threads and event loops."""

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
    """At most so many requests in flight: a middleware for `httpware.Client`.

    One instance may serve several clients, and threads; those who wait are served in order. The slot is
    given back however the request ends.

    Args:
        max_concurrent: Requests in flight; 1 or more.
        acquire_timeout: Seconds to wait for a slot; None waits for ever, 0 fails fast.
        engine: An engine for its state; one of its own by default. A test gives one with a fake clock.

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
        """The same slots for asynchronous clients: one cap for both colours."""
        return _sharing(AsyncBulkhead, self)

    def __call__(self, request: Any, next: Next) -> Any:  # noqa: A002 - httpware's name
        """Sends a request once there is a slot for it.

        Raises:
            BulkheadFullError: If no slot came free in time.
            Exception: What sending it raised, as it was.
        """
        return drive(*self._begin(REPEATABLE, request, next))


class AsyncBulkhead(_Bulkhead):
    """At most so many requests in flight: a middleware for `httpware.AsyncClient`.

    One instance may serve several clients and event loops; those who wait are served in order. The slot is
    given back however the request ends, by cancellation too.

    Args:
        max_concurrent: Requests in flight; 1 or more.
        acquire_timeout: Seconds to wait for a slot; None waits for ever, 0 fails fast.
        engine: An engine for its state; one of its own by default. A test gives one with a fake clock.

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
        """The same slots for synchronous clients: one cap for both colours."""
        return _sharing(Bulkhead, self)

    async def __call__(self, request: Any, next: AsyncNext) -> Any:  # noqa: A002 - httpware's name
        """Sends a request once there is a slot for it.

        Raises:
            BulkheadFullError: If no slot came free in time.
            asyncio.CancelledError: If the caller was cancelled; the slot is released at once.
            Exception: What sending it raised, as it was.
        """
        from tidegate._call.tasks import drive as drive_async

        return await drive_async(*self._begin(REPEATABLE, request, next))


def _sharing(kind: type[_B], other: _Bulkhead) -> _B:
    made = object.__new__(kind)
    made.__dict__.update(other.__dict__)
    return made
