"""Errors: each is also an instance of httpware's class of the same name, if httpware has been imported."""

from __future__ import annotations

from typing import Any

from tidegate._engine.errors import BreakerOpen, BulkheadFull, DeadlineExceeded
from tidegate.compat._errors import DoorError


class RetryBudgetExhaustedError(DoorError):
    """A retry was due, and the budget refused it.

    Attributes:
        last_response: The response of the last attempt; None without one.
        last_exception: The exception of the last attempt.
        attempts: Attempts made.
    """

    code = "retry_budget_exhausted"
    _twin = ("httpware", "RetryBudgetExhaustedError")

    def __init__(self, *, last_response: Any, last_exception: BaseException | None, attempts: int) -> None:
        super().__init__(f"retry budget exhausted after {attempts} attempt(s)", reason="budget")
        self.last_response = last_response
        self.last_exception = last_exception
        self.attempts = attempts


class BulkheadFullError(BulkheadFull, DoorError):
    """No slot came free within `acquire_timeout`.

    Attributes:
        max_concurrent: The configured limit.
        acquire_timeout: The configured time limit of a wait in seconds; None is unlimited.
    """

    _twin = ("httpware", "BulkheadFullError")

    def __init__(self, *, max_concurrent: int, acquire_timeout: float | None) -> None:
        super().__init__(
            f"bulkhead full (max_concurrent={max_concurrent}, acquire_timeout={acquire_timeout})",
            max_concurrency=max_concurrent,
            acquire_timeout=acquire_timeout,
            reason="acquire_timeout",
        )
        self.max_concurrent = max_concurrent


class CircuitOpenError(BreakerOpen, DoorError):
    """The circuit is open, or its probe is in flight.

    Attributes:
        retry_after: Seconds until a probe is admitted; None while one is in flight.
    """

    _twin = ("httpware", "CircuitOpenError")

    def __init__(self, *, retry_after: float | None) -> None:
        why = (
            "a probe request is already in flight"
            if retry_after is None
            else f"retry_after={retry_after:.3f}s"
        )
        super().__init__(f"circuit open ({why})", retry_in=retry_after)
        self.retry_after = retry_after


class OverallTimeoutError(DeadlineExceeded, DoorError):
    """The time of an `AsyncTimeout` ran out; also an `httpware.TimeoutError`, if that has been imported."""

    _twin = ("httpware", "TimeoutError")
