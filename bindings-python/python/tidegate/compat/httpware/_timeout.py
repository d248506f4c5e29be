"""httpware's overall timeout: a deadline for everything inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidegate._call.policy import Policy
from tidegate._engine.engine import Engine
from tidegate.compat._call import REPEATABLE, ChainRun, Start
from tidegate.compat._checks import number
from tidegate.compat._errors import joined

from ._errors import OverallTimeoutError
from ._events import TIMEOUT, emit

if TYPE_CHECKING:
    from tidegate._call.deadline import Scope
    from tidegate._engine.errors import TidegateError

    from ._retry import AsyncNext

_SLACK: Final = 1_000
"""Maximum time in microseconds between the begin of a call and the reading of the clock in its run."""


class _Run(ChainRun):
    __slots__ = ("door", "due", "expired")

    def __init__(self, door: AsyncTimeout, call: int, scope: Scope | None, request: Any, next_: Any) -> None:
        super().__init__(door._start, call, scope, request, next_)
        self.door = door
        self.due = self.engine.native.now() + int(door.timeout * 1e6) - _SLACK
        self.expired = False

    def refuse(self, verdict: str, retry_in: float | None = None) -> TidegateError:
        """Returns httpware's error for the end of the own time only, not for an earlier outer deadline."""
        if verdict != "deadline" or self.engine.native.now() < self.due:
            return super().refuse(verdict, retry_in)
        self.expired = True
        seconds = self.door.timeout
        emit(TIMEOUT, "timeout.exceeded", "overall timeout exceeded", self.request, timeout=seconds)
        return joined(OverallTimeoutError(f"overall timeout of {seconds}s exceeded"))

    def conclude(self, step: int) -> Any:
        """Ends the call. The error of the own time has a `TimeoutError` as its cause, as httpware's has."""
        try:
            return super().conclude(step)
        except OverallTimeoutError as error:
            if self.expired:
                cause = TimeoutError()  # httpware's comes from `asyncio.timeout`
                cause.__cause__, error.__cause__ = error.__cause__, cause
            raise


class AsyncTimeout:
    """Limits the time of everything inside it, retries and their waits included; for async clients only.

    Any timeout error from inside is raised unchanged.

    Args:
        timeout: Seconds; above 0.
        engine: The engine that keeps its state; a new one by default. Tests pass one with a fake clock.

    Raises:
        ValueError: If `timeout` is out of range.

    Example:
        >>> import asyncio
        >>> class Request:
        ...     method, url = "GET", "http://api"
        >>> async def answer(request):
        ...     return "answer"
        >>> asyncio.run(AsyncTimeout(timeout=5.0)(Request(), answer))
        'answer'
    """

    def __init__(self, *, timeout: float, engine: Engine | None = None) -> None:
        self.timeout = number("timeout", timeout, above=True)
        self._policy = Policy(deadline=timeout, engine=Engine(logs=False) if engine is None else engine)
        self._start = Start(self._policy, nested=False)

    async def __call__(self, request: Any, next: AsyncNext) -> Any:  # noqa: A002 - httpware's name
        """Sends a request within the time limit.

        Raises:
            OverallTimeoutError: If the time ran out; also an `httpware.TimeoutError`, if that is imported.
            Exception: The exception of the next middleware, unchanged.
        """
        from tidegate._call.tasks import drive as drive_async

        call, step, scope = self._start(REPEATABLE)
        return await drive_async(_Run(self, call, scope, request, next), step)
