"""The strategies of `tidegate.compat.smithy` with `async` methods, which smithy-python's clients expect."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ._strategies import (
    PATIENCE,
    Adaptive,
    Resolver,
    RetryMode,
    RetryStrategyOptions,
    Simple,
    SimpleRetryToken,
    Standard,
    StandardRetryToken,
    info_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._interfaces import RetryBackoffStrategy, RetryToken

__all__ = [
    "AdaptiveRetryStrategy",
    "RetryStrategy",
    "RetryStrategyResolver",
    "SimpleRetryStrategy",
    "StandardRetryStrategy",
]


@runtime_checkable
class RetryStrategy(Protocol):
    """Same as `tidegate.compat.smithy.RetryStrategy`, with async methods."""

    @property
    def backoff_strategy(self) -> RetryBackoffStrategy: ...  # noqa: D102
    @property
    def max_attempts(self) -> int: ...  # noqa: D102

    async def acquire_initial_retry_token(self, *, token_scope: str | None = None) -> RetryToken:
        """Returns the token of a call's first attempt."""
        ...

    async def refresh_retry_token_for_retry(
        self, *, token_to_renew: RetryToken, error: Exception
    ) -> RetryToken:
        """Returns the token of the next attempt, in exchange for that of the failed attempt."""
        ...

    async def record_success(self, *, token: RetryToken) -> None:
        """Reports that the attempt of a token has succeeded."""
        ...


class SimpleRetryStrategy(Simple):
    """Same as `tidegate.compat.smithy.SimpleRetryStrategy`, with async methods."""

    async def acquire_initial_retry_token(self, *, token_scope: str | None = None) -> SimpleRetryToken:
        """Returns the token of a call's first attempt, without a wait."""
        token: SimpleRetryToken = self._acquire(token_scope)
        return token

    async def refresh_retry_token_for_retry(
        self, *, token_to_renew: RetryToken, error: Exception
    ) -> SimpleRetryToken:
        """Returns the token of the next attempt, or raises `RetryError`."""
        token: SimpleRetryToken = self._refresh(token_to_renew, error)
        return token

    async def record_success(self, *, token: RetryToken) -> None:
        """Does nothing, since there is no quota."""


class StandardRetryStrategy(Standard):
    """Same as `tidegate.compat.smithy.StandardRetryStrategy`, with async methods."""

    async def acquire_initial_retry_token(self, *, token_scope: str | None = None) -> StandardRetryToken:
        """Returns the token of a call's first attempt, without a wait."""
        token: StandardRetryToken = self._acquire(token_scope)
        return token

    async def refresh_retry_token_for_retry(
        self, *, token_to_renew: RetryToken, error: Exception
    ) -> StandardRetryToken:
        """Returns the token of the next attempt, or raises `RetryError`."""
        token: StandardRetryToken = self._refresh(token_to_renew, error)
        return token

    async def record_success(self, *, token: RetryToken) -> None:
        """Returns the cost of the call's last retry to the scope's quota, or 1 without retries."""
        self._success(token)


async def _sleep(seconds: float) -> None:
    import asyncio

    await asyncio.sleep(seconds)


class AdaptiveRetryStrategy(Adaptive):
    """Same as `tidegate.compat.smithy.AdaptiveRetryStrategy`, but only the calling task waits for a send."""

    def __init__(self, *, _sleep: Callable[[float], Awaitable[object]] = _sleep, **standard: Any) -> None:
        super().__init__(**standard)
        self._sleep = _sleep

    async def acquire_initial_retry_token(self, *, token_scope: str | None = None) -> StandardRetryToken:
        """Returns the token of a call's first attempt, once the rate allows a send."""
        await self._send()
        token: StandardRetryToken = self._acquire(token_scope)
        return token

    async def refresh_retry_token_for_retry(
        self, *, token_to_renew: RetryToken, error: Exception
    ) -> StandardRetryToken:
        """Returns the token of the next attempt once the rate allows a send, or raises `RetryError`."""
        self._answered(info_of(error).is_throttling_error)
        token: StandardRetryToken = self._refresh(token_to_renew, error)
        await self._send()
        return token

    async def record_success(self, *, token: RetryToken) -> None:
        """Lets the rate grow, and returns tokens to the quota as a standard strategy does."""
        self._answered(False)
        self._success(token)

    async def _send(self) -> None:
        until = self._now() + PATIENCE
        while wait := self._wait(until):
            await self._sleep(wait)


class RetryStrategyResolver(Resolver):
    """Same as `tidegate.compat.smithy.RetryStrategyResolver`, for the strategies of this module."""

    kinds = MappingProxyType(
        {
            "simple": SimpleRetryStrategy,
            "standard": StandardRetryStrategy,
            "adaptive": AdaptiveRetryStrategy,
        }
    )
    protocol = RetryStrategy

    async def resolve_retry_strategy(
        self,
        *,
        retry_strategy: RetryStrategy | RetryStrategyOptions | None = None,
        retry_mode: RetryMode | None = None,
        max_attempts: int | None = None,
    ) -> RetryStrategy:
        """Returns the strategy for the given arguments."""
        strategy: RetryStrategy = self._resolve(retry_strategy, retry_mode, max_attempts)
        return strategy
