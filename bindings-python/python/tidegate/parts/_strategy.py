"""Retry tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate import _native
from tidegate._engine.clock import to_us
from tidegate._engine.options import UNSET

from ._budgets import RetryQuota
from ._delay import Backoff
from ._part import LONGEST, Part, made, seed_of

if TYPE_CHECKING:
    from datetime import timedelta


RetryToken = _native.RetryToken
"""Permission of a strategy for an attempt: `retry_count` (0 for the first) and `retry_delay` in seconds."""


@dataclass(frozen=True, kw_only=True)
class ErrorInfo:
    """Information about an error that decides about a retry.

    Args:
        is_retry_safe: Whether it may be retried; None if unknown.
        retry_after: The wait that the server requested: seconds or `timedelta`, 0 or more.
        is_throttling_error: Whether the server requested less load.
        is_timeout_error: Whether our own timeout ended the attempt.
    """

    is_retry_safe: bool | None = None
    retry_after: float | timedelta | None = None
    is_throttling_error: bool = False
    is_timeout_error: bool = False


class RetryError(Exception):
    """There is no further attempt.

    Attributes:
        reason: `attempts` (used up), `quota` (used up), or `not_safe` (not safe, or not known to be).
        retry_delay: With `quota`, the delay in seconds that the retry would have had; else None.
    """

    def __init__(self, reason: str, retry_delay: float | None = None) -> None:
        super().__init__(reason, retry_delay)
        self.reason = reason
        self.retry_delay = retry_delay

    def __str__(self) -> str:
        return f"no further attempt: {self.reason}"


class RetryStrategy(Part):
    """Retry tokens: the standard retry interface of the Smithy SDKs (`docs/spec.md`, 2.18).

    A token contains the state of a call; the strategy keeps the quota of each scope. The strategy never
    waits: the caller has to wait for `retry_delay` before the attempt.

    Args:
        max_attempts: Attempts including the first; 1 to 255, by default 3.
        backoff: The delay before each retry; `Backoff()` by default.
        quota: The quota of which every scope gets a copy; `RetryQuota()` by default, None for no quota.
        retry_unknown: Whether an error of unknown safety is retried; False by default.
        seed: Seed of the random generator, 64 bits; drawn from the operating system if left out.

    Example:
        >>> strategy = RetryStrategy(max_attempts=2, backoff=Backoff(base=0.025, jitter="none"))
        >>> token = strategy.acquire_initial_retry_token(token_scope="orders")
        >>> token.retry_count, token.retry_delay
        (0, 0.0)
        >>> error = ErrorInfo(is_retry_safe=True, retry_after=3)
        >>> token = strategy.refresh_retry_token_for_retry(token, error)
        >>> token.retry_count, token.retry_delay
        (1, 3.0)
        >>> strategy.refresh_retry_token_for_retry(token, error)
        Traceback (most recent call last):
            ...
        tidegate.parts.RetryError: no further attempt: attempts
    """

    __slots__ = ()

    def __init__(
        self,
        max_attempts: int = UNSET,
        backoff: Backoff | None = None,
        quota: RetryQuota | None = UNSET,
        retry_unknown: bool = False,
        seed: int | None = None,
    ) -> None:
        backoff = Backoff() if backoff is None else backoff
        quota = RetryQuota() if quota is UNSET else quota
        self._native: _native.RetryStrategy = made(
            _native.RetryStrategy,
            "retry",
            {"max_attempts": max_attempts},
            seed_of(seed),
            backoff._native,
            None if quota is None else quota._native,
            retry_unknown,
        )

    def acquire_initial_retry_token(self, *, token_scope: str = "") -> RetryToken:
        """Returns the token of a call's first attempt, without a wait. Each scope has its own quota."""
        return self._native.acquire(token_scope)

    def refresh_retry_token_for_retry(self, token: RetryToken, error: ErrorInfo) -> RetryToken:
        """Returns the token of the next attempt, in exchange for that of the failed attempt.

        Raises:
            RetryError: If attempts, quota or safety forbid a retry.
            ValueError: If the error's `retry_after` is not a span of 0 or more.
        """
        us = None if error.retry_after is None else to_us(error.retry_after)
        if us is not None and (isinstance(us, str) or not us >= 0):
            raise ValueError(
                f"retry_after = {error.retry_after!r}: must be seconds or a timedelta, 0 or more"
            )
        after = None if us is None else int(min(us, LONGEST))
        answer = self._native.refresh(
            token, error.is_retry_safe, after, error.is_throttling_error, error.is_timeout_error
        )
        if isinstance(answer, tuple):
            raise RetryError(*answer)
        return answer

    def record_success(self, token: RetryToken) -> None:
        """Reports a success with this token, which returns the cost of the call's last retry to its scope."""
        self._native.record_success(token)

    def available(self, *, token_scope: str = "") -> int | None:
        """Returns the tokens left in a scope's quota; None without quotas."""
        return self._native.available(token_scope)
