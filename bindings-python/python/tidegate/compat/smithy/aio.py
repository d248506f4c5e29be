"""The strategies of `tidegate.compat.smithy` with `async` methods: smithy-python's clients await them."""

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
    """As `tidegate.compat.smithy.RetryStrategy`, with methods to await."""

    @property
    def backoff_strategy(self) -> RetryBackoffStrategy: ...  # noqa: D102
    @property
    def max_attempts(self) -> int: ...  # noqa: D102

    async def acquire_initial_retry_token(self, *, token_scope: str | None = None) -> RetryToken:
        """The token of a call's first attempt."""
        ...

    async def refresh_retry_token_for_retry(
        self, *, token_to_renew: RetryToken, error: Exception
    ) -> RetryToken:
        """The token of the next attempt, for that of one that has failed."""
        ...

    async def record_success(self, *, token: RetryToken) -> None:
        """Gives a token back, after its attempt has succeeded."""
        ...


class SimpleRetryStrategy(Simple):
    """As `tidegate.compat.smithy.SimpleRetryStrategy`, with methods to await."""

    async def acquire_initial_retry_token(self, *, token_scope: str | None = None) -> SimpleRetryToken:
        """The token of a call's first attempt; there is no wait."""
        token: SimpleRetryToken = self._acquire(token_scope)
        return token

    async def refresh_retry_token_for_retry(
        self, *, token_to_renew: RetryToken, error: Exception
    ) -> SimpleRetryToken:
        """The token of the next attempt, or `RetryError`."""
        token: SimpleRetryToken = self._refresh(token_to_renew, error)
        return token

    async def record_success(self, *, token: RetryToken) -> None:
        """Does nothing: there is nothing to give back."""


class StandardRetryStrategy(Standard):
    """As `tidegate.compat.smithy.StandardRetryStrategy`, with methods to await."""

    async def acquire_initial_retry_token(self, *, token_scope: str | None = None) -> StandardRetryToken:
        """The token of a call's first attempt; there is no wait."""
        token: StandardRetryToken = self._acquire(token_scope)
        return token

    async def refresh_retry_token_for_retry(
        self, *, token_to_renew: RetryToken, error: Exception
    ) -> StandardRetryToken:
        """The token of the next attempt, or `RetryError`."""
        token: StandardRetryToken = self._refresh(token_to_renew, error)
        return token

    async def record_success(self, *, token: RetryToken) -> None:
        """Gives back to the scope's quota what the call's last retry has cost, or 1."""
        self._success(token)


async def _sleep(seconds: float) -> None:
    import asyncio

    await asyncio.sleep(seconds)


class AdaptiveRetryStrategy(Adaptive):
    """As `tidegate.compat.smithy.AdaptiveRetryStrategy`; only the task that asks waits for a send."""

    def __init__(self, *, _sleep: Callable[[float], Awaitable[object]] = _sleep, **standard: Any) -> None:
        super().__init__(**standard)
        self._sleep = _sleep

    async def acquire_initial_retry_token(self, *, token_scope: str | None = None) -> StandardRetryToken:
        """The token of a call's first attempt, once the rate allows a send."""
        await self._send()
        token: StandardRetryToken = self._acquire(token_scope)
        return token

    async def refresh_retry_token_for_retry(
        self, *, token_to_renew: RetryToken, error: Exception
    ) -> StandardRetryToken:
        """The token of the next attempt once the rate allows a send, or `RetryError`."""
        self._answered(info_of(error).is_throttling_error)
        token: StandardRetryToken = self._refresh(token_to_renew, error)
        await self._send()
        return token

    async def record_success(self, *, token: RetryToken) -> None:
        """Lets the rate grow, and gives back to the quota as a standard strategy does."""
        self._answered(False)
        self._success(token)

    async def _send(self) -> None:
        until = self._now() + PATIENCE
        while wait := self._wait(until):
            await self._sleep(wait)


class RetryStrategyResolver(Resolver):
    """As `tidegate.compat.smithy.RetryStrategyResolver`; its strategies are those of this module."""

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
        """The strategy that is meant."""
        strategy: RetryStrategy = self._resolve(retry_strategy, retry_mode, max_attempts)
        return strategy
