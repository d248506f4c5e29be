"""httpware's retry budget, on `tidegate.parts.RetryBudget`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from tidegate.compat._checks import number
from tidegate.parts import RetryBudget as _Part

if TYPE_CHECKING:
    from collections.abc import Callable


class RetryBudget:
    """Limits retries to a share of recent requests, plus a floor (Finagle's budget).

    Each request deposits once. Each retry withdraws, and is refused once `withdrawn >= int(deposits *
    percent_can_retry) + int(min_retries_per_sec * ttl)`. Threads, event loops, sync and async clients can
    share an instance.

    Args:
        ttl: The sliding window, in seconds; above 0, at most 365 days. An entry counts for 0.9 to 1 `ttl`.
        min_retries_per_sec: Retries per second that are allowed at any traffic; 0 to 1e9.
        percent_can_retry: Retries per recent request, as a fraction; 0 to 1e6.
        rounding: Rounding of the share: `floor`, as httpware documents, or `ceil`, as in its releases from
            0.8.3 on.
        _now: The clock: a function that returns seconds and never goes back.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> budget = RetryBudget(min_retries_per_sec=0, percent_can_retry=0.5)
        >>> budget.deposit(), budget.deposit()
        (None, None)
        >>> budget.try_withdraw(), budget.try_withdraw()
        (True, False)
    """

    __slots__ = ("_now", "_part")

    def __init__(
        self,
        *,
        ttl: float = 10.0,
        min_retries_per_sec: float = 10.0,
        percent_can_retry: float = 0.2,
        rounding: Literal["floor", "ceil"] = "floor",
        _now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = _now
        self._part = _Part(
            ttl=number("ttl", ttl, above=True),
            min_retries_per_sec=number("min_retries_per_sec", min_retries_per_sec),
            percent_can_retry=number("percent_can_retry", percent_can_retry),
            rounding=rounding,
        )

    def deposit(self) -> None:
        """Counts one request, however many attempts it makes."""
        self._part.deposit(self._now())

    def try_withdraw(self) -> bool:
        """Takes one retry if one is available; returns whether it did. Never blocks."""
        return self._part.try_withdraw(self._now())

    def _take(self) -> float | None:
        """Takes one retry; returns the time of that, or None if the budget refuses."""
        now = self._now()
        return now if self._part.try_withdraw(now) else None

    def _give_back(self, taken: float) -> None:
        """Refunds a retry that was withdrawn but never started."""
        self._part.refund(taken, self._now())
