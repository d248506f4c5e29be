"""A door for people who come from Smithy clients: retry strategies and tokens, as its design has them.

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

The classes here are those of the design, whose methods answer at once. `tidegate.compat.smithy.aio` has the
same classes with `async` methods, as the clients of smithy-python await them.

What an exception says about itself decides: `is_retry_safe`, `retry_after`, `is_throttling_error`, and
`is_timeout_error` where it has one. An exception that does not say that it is safe is not retried.
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
    """Retries what is safe to retry, up to a number of attempts; nothing bounds the load that this adds.

    Args:
        backoff_strategy: What computes the delays; `ExponentialRetryBackoffStrategy()` by default.
        max_attempts: Attempts in all, the first one counts; 0 to 255, by default 5. 0 and 1 never retry.

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
        """The token of a call's first attempt; there is no wait. Scopes make no difference here."""
        token: SimpleRetryToken = self._acquire(token_scope)
        return token

    def refresh_retry_token_for_retry(
        self, *, token_to_renew: RetryToken, error: Exception
    ) -> SimpleRetryToken:
        """The token of the next attempt, for that of one that has failed.

        Raises:
            RetryError: From `error`: it is not safe to retry, or attempts are used up.
            TypeError: If the token is none of this strategy's.
        """
        token: SimpleRetryToken = self._refresh(token_to_renew, error)
        return token

    def record_success(self, *, token: RetryToken) -> None:
        """Does nothing: there is nothing to give back."""


class StandardRetryStrategy(Standard):
    """Retries what is safe to retry, up to a number of attempts and as long as the quota of its scope lasts.

    The wait before a retry is the backoff strategy's, and never less than the error's `retry_after`.

    Args:
        backoff_strategy: What computes the delays; 0.05 s, doubled up to 20 s, full jitter by default.
        throttling_backoff_strategy: The same after a throttling error; from 1 s on by default.
        max_attempts: Attempts in all, the first one counts; 0 to 255, by default 3. 0 and 1 never retry.
        retry_quota: What bounds the retries of all calls; 500 tokens in each scope by default.

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
        """The token of a call's first attempt; there is no wait. Each scope has a quota of its own."""
        token: StandardRetryToken = self._acquire(token_scope)
        return token

    def refresh_retry_token_for_retry(
        self, *, token_to_renew: RetryToken, error: Exception
    ) -> StandardRetryToken:
        """The token of the next attempt, for that of one that has failed.

        Raises:
            RetryError: From `error`: it is not safe to retry, attempts are used up, or the quota is; then
                `retry_after` is the wait that there would have been.
            TypeError: If the token is none of this strategy's.
        """
        token: StandardRetryToken = self._refresh(token_to_renew, error)
        return token

    def record_success(self, *, token: RetryToken) -> None:
        """Gives back to the scope's quota what the call's last retry has cost, or 1."""
        self._success(token)


class AdaptiveRetryStrategy(Adaptive):
    """A standard strategy that also slows all attempts down after throttling errors.

    Nothing is slowed down before the first one. Then `acquire_…` and `refresh_…` wait, in this thread, until
    the rate allows a send; the rate grows back while there is no throttling error (`parts.CubicRate`).

    Args:
        backoff_strategy: As in `StandardRetryStrategy`.
        throttling_backoff_strategy: As in `StandardRetryStrategy`.
        max_attempts: As in `StandardRetryStrategy`.
        retry_quota: As in `StandardRetryStrategy`.
        _now: The clock, in seconds; for tests.
        _sleep: What waits; for tests.

    Raises:
        ValueError: If `max_attempts` is out of range.
    """

    def __init__(self, *, _sleep: Callable[[float], object] = sleep, **standard: Any) -> None:
        super().__init__(**standard)
        self._sleep = _sleep

    def acquire_initial_retry_token(self, *, token_scope: str | None = None) -> StandardRetryToken:
        """The token of a call's first attempt, once the rate allows a send.

        Raises:
            RetryError: If that would take more than 30 seconds.
        """
        self._send()
        token: StandardRetryToken = self._acquire(token_scope)
        return token

    def refresh_retry_token_for_retry(
        self, *, token_to_renew: RetryToken, error: Exception
    ) -> StandardRetryToken:
        """The token of the next attempt, for that of one that has failed, once the rate allows a send.

        Raises:
            RetryError: As from a standard strategy, or because a send would take more than 30 seconds.
            TypeError: If the token is none of this strategy's.
        """
        self._answered(info_of(error).is_throttling_error)
        token: StandardRetryToken = self._refresh(token_to_renew, error)
        self._send()
        return token

    def record_success(self, *, token: RetryToken) -> None:
        """Lets the rate grow, and gives back to the quota as a standard strategy does."""
        self._answered(False)
        self._success(token)

    def _send(self) -> None:
        until = self._now() + PATIENCE
        while wait := self._wait(until):
            self._sleep(wait)


class RetryStrategyResolver(Resolver):
    """Makes a strategy from options; the same one for the same options, so that they share its quota."""

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
        """The strategy that is meant.

        Args:
            retry_strategy: A strategy, which is answered as it is, or options for one.
            retry_mode: The mode where `retry_strategy` is left out; `standard` by default.
            max_attempts: Attempts in all where `retry_strategy` is left out; the mode's default if None.

        Raises:
            ValueError: If the mode is none, or `max_attempts` is out of range.
            TypeError: If `retry_strategy` is something else.
        """
        strategy: RetryStrategy = self._resolve(retry_strategy, retry_mode, max_attempts)
        return strategy
