# Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.
"""Retry tokens: the standard retry interface of the Smithy SDKs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate import _native
from tidegate._engine.clock import to_us
from tidegate._engine.options import UNSET

from ._budgets import RetryQuota
from ._delay import Backoff
from ._part import LONGEST, Part, made, seed_of

if TYPE_CHECKING:
    from tidegate._engine.clock import Span


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
    retry_after: Span | None = None
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


def quota_of(quota: RetryQuota | None) -> _native.RetryQuota | None:
    return None if quota is None else (RetryQuota() if quota is UNSET else quota)._native


def facts_of(error: ErrorInfo) -> tuple[bool | None, int | None, bool, bool]:
    after = error.retry_after
    us = None if after is None else to_us(after)
    if us is not None and (isinstance(us, str) or not us >= 0):
        raise ValueError(f"retry_after = {after!r}: must be seconds or a timedelta, 0 or more")
    us = None if us is None else int(min(us, LONGEST))
    return error.is_retry_safe, us, error.is_throttling_error, error.is_timeout_error


def granted(token: _native.RetryToken) -> RetryToken:
    refused = token.refused()
    if refused:
        delay = token.retry_delay() if refused == 3 else None
        raise RetryError(("attempts", "not_safe", "quota")[refused - 1], delay)
    return RetryToken(token)


class RetryToken(Part):
    """A strategy's permission for an attempt.

    It has the state of its call, so that the strategy keeps nothing of a call.
    """

    __slots__ = ()

    def __init__(self, native: _native.RetryToken) -> None:
        self._native: _native.RetryToken = native

    @property
    def retry_count(self) -> int:
        """Retries so far: 0 for the first attempt."""
        return self._native.retry_count()

    @property
    def retry_delay(self) -> float:
        """Seconds to wait before the attempt. The caller waits."""
        return self._native.retry_delay()


class RetryStrategy(Part):
    """Retry tokens: the standard retry interface of the Smithy SDKs (`docs/spec.md`, 2.18).

    It keeps the quota of each scope, and never waits: the caller waits before the attempt.

    Args:
        max_attempts: Attempts in all; the first counts, 1 disables retries. 1 to 255; 3 by default.
        backoff: The delay before each retry; `Backoff()` by default.
        quota: The quota of which every scope gets a copy; `RetryQuota()` by default, and there may be none.
        retry_unknown: Whether an error is retried that does not say if that is safe; no by default.
        seed: Seed of all random draws, 64 bits; by default from the operating system.

    Raises:
        tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule.

    Example:
        >>> strategy = RetryStrategy(max_attempts=2, backoff=Backoff(base=0.025, jitter="none"))
        >>> token = strategy.acquire_initial_retry_token("orders")
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
        options: dict[str, Any] = {"max_attempts": max_attempts}
        self._native: _native.RetryStrategy = made(
            _native.RetryStrategy,
            "retry",
            options,
            (Backoff() if backoff is None else backoff)._native,
            quota_of(quota),
            retry_unknown,
            seed_of(seed),
        )

    def acquire_initial_retry_token(self, scope: str = "") -> RetryToken:
        """The token of a call's first attempt, without a wait. Each scope has a quota of its own."""
        return RetryToken(self._native.acquire_initial_retry_token(scope))

    def refresh_retry_token_for_retry(self, token: RetryToken, error: ErrorInfo) -> RetryToken:
        """The token of the next attempt, in exchange for that of the failed one.

        A `RetryError` says that attempts, quota or safety forbid a further attempt.

        Raises:
            ValueError: If the error's wait is not a span of 0 or more.
        """
        return granted(self._native.refresh_retry_token_for_retry(token._native, *facts_of(error)))

    def record_success(self, token: RetryToken) -> None:
        """A call has succeeded with this token: its scope gets the cost of the last retry back."""
        self._native.record_success(token._native)

    def available(self, scope: str = "") -> int | None:
        """Tokens left in a scope's quota; None without quotas."""
        return self._native.available(scope)
