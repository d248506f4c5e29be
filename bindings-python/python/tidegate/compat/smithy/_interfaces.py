"""The protocols of the Smithy retry design, and the errors that speak them."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias, runtime_checkable

Fault: TypeAlias = "Literal['client', 'server'] | None"
"""Whose fault an error is; None where there is not enough information to tell."""


@runtime_checkable
class ErrorRetryInfo(Protocol):
    """What an exception may say about itself. It need not inherit from this.

    Attributes:
        is_retry_safe: Whether a retry is allowed. True does not mean that there will be one; None means that
            there is not enough information.
        retry_after: Seconds that should pass before a retry. A strategy may wait longer.
        is_throttling_error: Whether the other side asked for less load.
    """

    @property
    def is_retry_safe(self) -> bool | None: ...
    @property
    def retry_after(self) -> float | None: ...
    @property
    def is_throttling_error(self) -> bool: ...


@runtime_checkable
class HasFault(Protocol):
    """An exception that says whose fault it is. It need not inherit from this."""

    @property
    def fault(self) -> Fault: ...


class RetryBackoffStrategy(Protocol):
    """Computes delays. Stateless: the number of the retry is all that it goes by."""

    def compute_next_backoff_delay(self, retry_attempt: int) -> float:
        """Seconds to wait before a retry.

        Args:
            retry_attempt: 0 is the first attempt, 1 the first retry, and so on.
        """
        ...


class RetryToken(Protocol):
    """What a strategy hands out for the next attempt.

    Attributes:
        retry_count: Attempts so far, the first one aside.
        retry_delay: Seconds to wait before the attempt.
    """

    @property
    def retry_count(self) -> int: ...
    @property
    def retry_delay(self) -> float: ...


@runtime_checkable
class RetryStrategy(Protocol):
    """Decides whether there is another attempt, and hands out tokens for it.

    Attributes:
        backoff_strategy: What computes the delays of its tokens.
        max_attempts: Attempts in all; the first one counts.
    """

    @property
    def backoff_strategy(self) -> RetryBackoffStrategy: ...
    @property
    def max_attempts(self) -> int: ...

    def acquire_initial_retry_token(self, *, token_scope: str | None = None) -> RetryToken:
        """The token of a call's first attempt.

        Args:
            token_scope: Any string; tokens of different scopes have nothing to do with each other.

        Raises:
            RetryError: If the strategy has no tokens left.
        """
        ...

    def refresh_retry_token_for_retry(self, *, token_to_renew: RetryToken, error: Exception) -> RetryToken:
        """The token of the next attempt, for that of one that has failed.

        Args:
            token_to_renew: The token of the attempt that has failed.
            error: How it failed.

        Raises:
            RetryError: If there is no further attempt.
        """
        ...

    def record_success(self, *, token: RetryToken) -> None:
        """Gives a token back, after its attempt has succeeded."""
        ...


class SmithyError(Exception):
    """Base of the errors of this door."""


class RetryError(SmithyError):
    """There is no further attempt; the failure that asked for one is its `__cause__`.

    Attributes:
        retry_after: Where the quota refused: the seconds that the wait would have had. Else None.
    """

    def __init__(self, message: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, self.__dict__


class CallError(SmithyError):
    """A failed call that says what a strategy wants to know: an `ErrorRetryInfo` with a fault.

    Args:
        message: What happened.
        fault: Whose fault it is.
        is_retry_safe: Whether a retry is allowed; None where that is not known.
        retry_after: Seconds that should pass before a retry.
        is_throttling_error: Whether the other side asked for less load.
        is_timeout_error: Whether our own timeout ended it.

    Example:
        >>> isinstance(CallError("slow down", fault="server", is_retry_safe=True), ErrorRetryInfo)
        True
    """

    def __init__(
        self,
        message: str = "",
        *,
        fault: Fault = None,
        is_retry_safe: bool | None = None,
        retry_after: float | None = None,
        is_throttling_error: bool = False,
        is_timeout_error: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.fault: Fault = fault
        self.is_retry_safe = is_retry_safe
        self.retry_after = retry_after
        self.is_throttling_error = is_throttling_error
        self.is_timeout_error = is_timeout_error

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, self.__dict__


class ClientTimeoutError(CallError):
    """Our own timeout ended the call: the client's fault, and safe to retry."""

    def __init__(self, message: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(
            message, fault="client", is_retry_safe=True, retry_after=retry_after, is_timeout_error=True
        )
