"""Compatibility layer for Smithy clients: retry strategies and tokens of the Smithy retry design.

    strategy = StandardRetryStrategy(max_attempts=3)
    token = strategy.acquire_initial_retry_token(token_scope="orders")
    while True:
        time.sleep(token.retry_delay)
        try:
            answer = send()
        except Exception as error:
            token = strategy.refresh_retry_token_for_retry(token_to_renew=token, error=error)
            continue
        strategy.record_success(token=token)
        return answer

The classes here are those of the design, with synchronous methods. `tidegate.compat.smithy.aio` has the same
classes with `async` methods, which the clients of smithy-python expect.

Attributes of the exception decide about a retry: `is_retry_safe`, `retry_after`, `is_throttling_error`, and
the optional `is_timeout_error`. An exception is retried only if it declares that it is safe.
"""

from __future__ import annotations

from time import sleep
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from . import aio as aio
from ._backoff import ExponentialBackoffJitterType, ExponentialRetryBackoffStrategy
from ._interfaces import (
    CallError,
    ClientTimeoutError,
    ErrorRetryInfo,
    Fault,
    HasFault,
    RetryBackoffStrategy,
    RetryError,
    RetryStrategy,
    RetryToken,
    SmithyError,
)
from ._strategies import (
    PATIENCE,
    Adaptive,
    Resolver,
    RetryMode,
    RetryStrategyOptions,
    Simple,
    SimpleRetryToken,
    Standard,
    StandardRetryQuota,
    StandardRetryToken,
    info_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "AdaptiveRetryStrategy",
    "CallError",
    "ClientTimeoutError",
    "ErrorRetryInfo",
    "ExponentialBackoffJitterType",
    "ExponentialRetryBackoffStrategy",
    "Fault",
    "HasFault",
    "RetryBackoffStrategy",
    "RetryError",
    "RetryMode",
    "RetryStrategy",
    "RetryStrategyOptions",
    "RetryStrategyResolver",
    "RetryToken",
    "SimpleRetryStrategy",
    "SimpleRetryToken",
    "SmithyError",
    "StandardRetryQuota",
    "StandardRetryStrategy",
    "StandardRetryToken",
]


class SimpleRetryStrategy(Simple):
    """Retries safe errors up to a number of attempts, without a limit of the load that this adds.

    Args:
        backoff_strategy: Computes the delays; `ExponentialRetryBackoffStrategy()` by default.
        max_attempts: Attempts including the first; 0 to 255, by default 5. 0 and 1 never retry.

    Raises:
        ValueError: If `max_attempts` is out of range.

    Example:
        >>> strategy = SimpleRetryStrategy(max_attempts=2)
        >>> token = strategy.acquire_initial_retry_token()
        >>> failure = CallError("reset", is_retry_safe=True, retry_after=3)
        >>> strategy.refresh_retry_token_for_retry(token_to_renew=token, error=failure)
        SimpleRetryToken(retry_count=1, retry_delay=3.0)
    """

    def acquire_initial_retry_token(self, *, token_scope: str | None = None) -> SimpleRetryToken:
        """Returns the token of a call's first attempt, without a wait. The scope has no effect here."""
        token: SimpleRetryToken = self._acquire(token_scope)
        return token

    def refresh_retry_token_for_retry(
        self, *, token_to_renew: RetryToken, error: Exception
    ) -> SimpleRetryToken:
        """Returns the token of the next attempt, in exchange for that of the failed attempt.

        Raises:
            RetryError: From `error`, if it is not safe to retry or attempts are used up.
            TypeError: If the token is not one of this strategy.
        """
        token: SimpleRetryToken = self._refresh(token_to_renew, error)
        return token

    def record_success(self, *, token: RetryToken) -> None:
        """Does nothing, since there is no quota."""


class StandardRetryStrategy(Standard):
    """Retries safe errors up to a number of attempts, while the quota of the call's scope lasts.

    The wait before a retry is that of the backoff strategy, but at least the error's `retry_after`.

    Args:
        backoff_strategy: Computes the delays; 0.05 s, doubled up to 20 s, full jitter by default.
        throttling_backoff_strategy: Computes the delays after throttling errors; starts at 1 s by default.
        max_attempts: Attempts including the first; 0 to 255, by default 3. 0 and 1 never retry.
        retry_quota: Limits the retries of all calls; 500 tokens in each scope by default.

    Raises:
        ValueError: If `max_attempts` is out of range.

    Example:
        >>> strategy = StandardRetryStrategy()
        >>> token = strategy.acquire_initial_retry_token(token_scope="orders")
        >>> failure = CallError("slow down", is_retry_safe=True, is_throttling_error=True)
        >>> token = strategy.refresh_retry_token_for_retry(token_to_renew=token, error=failure)
        >>> strategy.retry_quota.available_in("orders"), strategy.retry_quota.available_capacity
        (495, 500)
        >>> strategy.record_success(token=token)
        >>> strategy.retry_quota.available_in("orders")
        500
    """

    def acquire_initial_retry_token(self, *, token_scope: str | None = None) -> StandardRetryToken:
        """Returns the token of a call's first attempt, without a wait. Each scope has its own quota."""
        token: StandardRetryToken = self._acquire(token_scope)
        return token

    def refresh_retry_token_for_retry(
        self, *, token_to_renew: RetryToken, error: Exception
    ) -> StandardRetryToken:
        """Returns the token of the next attempt, in exchange for that of the failed attempt.

        Raises:
            RetryError: From `error`, if it is not safe to retry, or if attempts or quota are used up. Without
                quota, `retry_after` is the delay that the retry would have had.
            TypeError: If the token is not one of this strategy.
        """
        token: StandardRetryToken = self._refresh(token_to_renew, error)
        return token

    def record_success(self, *, token: RetryToken) -> None:
        """Returns the cost of the call's last retry to the scope's quota, or 1 without retries."""
        self._success(token)


class AdaptiveRetryStrategy(Adaptive):
    """A standard strategy that also limits the rate of all attempts after throttling errors.

    There is no limit before the first throttling error. After it, `acquire_…` and `refresh_…` block this
    thread until the rate allows a send. The rate grows back while no throttling error occurs
    (`parts.CubicRate`).

    Args:
        backoff_strategy: As in `StandardRetryStrategy`.
        throttling_backoff_strategy: As in `StandardRetryStrategy`.
        max_attempts: As in `StandardRetryStrategy`.
        retry_quota: As in `StandardRetryStrategy`.
        _now: The clock, in seconds; for tests.
        _sleep: Waits for a number of seconds; for tests.

    Raises:
        ValueError: If `max_attempts` is out of range.
    """

    def __init__(self, *, _sleep: Callable[[float], object] = sleep, **standard: Any) -> None:
        super().__init__(**standard)
        self._sleep = _sleep

    def acquire_initial_retry_token(self, *, token_scope: str | None = None) -> StandardRetryToken:
        """Returns the token of a call's first attempt, once the rate allows a send.

        Raises:
            RetryError: If that wait would exceed 30 seconds.
        """
        self._send()
        token: StandardRetryToken = self._acquire(token_scope)
        return token

    def refresh_retry_token_for_retry(
        self, *, token_to_renew: RetryToken, error: Exception
    ) -> StandardRetryToken:
        """Returns the token of the next attempt, once the rate allows a send.

        Raises:
            RetryError: As in a standard strategy, or if the wait for a send would exceed 30 seconds.
            TypeError: If the token is not one of this strategy.
        """
        self._answered(info_of(error).is_throttling_error)
        token: StandardRetryToken = self._refresh(token_to_renew, error)
        self._send()
        return token

    def record_success(self, *, token: RetryToken) -> None:
        """Lets the rate grow, and returns tokens to the quota as a standard strategy does."""
        self._answered(False)
        self._success(token)

    def _send(self) -> None:
        until = self._now() + PATIENCE
        while wait := self._wait(until):
            self._sleep(wait)


class RetryStrategyResolver(Resolver):
    """Makes a strategy from options. Equal options get the same strategy, and so share its quota."""

    kinds = MappingProxyType(
        {
            "simple": SimpleRetryStrategy,
            "standard": StandardRetryStrategy,
            "adaptive": AdaptiveRetryStrategy,
        }
    )
    protocol = RetryStrategy

    def resolve_retry_strategy(
        self,
        *,
        retry_strategy: RetryStrategy | RetryStrategyOptions | None = None,
        retry_mode: RetryMode | None = None,
        max_attempts: int | None = None,
    ) -> RetryStrategy:
        """Returns the strategy for the given arguments.

        Args:
            retry_strategy: A strategy, which is returned unchanged, or options for one.
            retry_mode: The mode if `retry_strategy` is left out; `standard` by default.
            max_attempts: Attempts including the first, if `retry_strategy` is left out; the mode's default if
                None.

        Raises:
            ValueError: If the mode is unknown, or `max_attempts` is out of range.
            TypeError: If `retry_strategy` is neither a strategy nor options.
        """
        strategy: RetryStrategy = self._resolve(retry_strategy, retry_mode, max_attempts)
        return strategy
