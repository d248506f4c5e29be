"""The protocols of the Smithy retry design, and errors that implement them."""

from __future__ import annotations

import sys
from typing import Literal, Protocol, TypeAlias, runtime_checkable

Fault: TypeAlias = "Literal['client', 'server'] | None"
"""The side that caused an error; None if unknown."""


@runtime_checkable
class ErrorRetryInfo(Protocol):
    """Information for retries that an exception can have. The exception need not inherit from this class.

    Attributes:
        is_retry_safe: Whether a retry is allowed. True does not mean that there will be one; None means
            unknown.
        retry_after: Seconds that should pass before a retry. A strategy may wait longer.
        is_throttling_error: Whether the server requested less load.
    """

    @property
    def is_retry_safe(self) -> bool | None: ...
    @property
    def retry_after(self) -> float | None: ...
    @property
    def is_throttling_error(self) -> bool: ...


@runtime_checkable
class HasFault(Protocol):
    """An exception with a fault. It need not inherit from this class."""

    @property
    def fault(self) -> Fault: ...


class RetryBackoffStrategy(Protocol):
    """Computes delays. Stateless: a delay depends only on the number of the retry."""

    def compute_next_backoff_delay(self, retry_attempt: int) -> float:
        """Returns the seconds to wait before a retry.

        Args:
            retry_attempt: 0 is the first attempt, 1 the first retry, and so on.
        """
        ...


class RetryToken(Protocol):
    """Permission of a strategy for the next attempt.

    Attributes:
        retry_count: Number of retries so far.
        retry_delay: Seconds to wait before the attempt.
    """

    @property
    def retry_count(self) -> int: ...
    @property
    def retry_delay(self) -> float: ...


@runtime_checkable
class RetryStrategy(Protocol):
    """Decides about further attempts, and issues tokens for them.

    Attributes:
        backoff_strategy: Computes the delays of its tokens.
        max_attempts: Attempts including the first.
    """

    @property
    def backoff_strategy(self) -> RetryBackoffStrategy: ...
    @property
    def max_attempts(self) -> int: ...

    def acquire_initial_retry_token(self, *, token_scope: str | None = None) -> RetryToken:
        """Returns the token of a call's first attempt.

        Args:
            token_scope: Any string; tokens of different scopes are independent.

        Raises:
            RetryError: If the strategy has no tokens left.
        """
        ...

    def refresh_retry_token_for_retry(self, *, token_to_renew: RetryToken, error: Exception) -> RetryToken:
        """Returns the token of the next attempt, in exchange for that of the failed attempt.

        Args:
            token_to_renew: The token of the failed attempt.
            error: The error of that attempt.

        Raises:
            RetryError: If there is no further attempt.
        """
        ...

    def record_success(self, *, token: RetryToken) -> None:
        """Reports that the attempt of a token has succeeded."""
        ...


class SmithyError(Exception):
    """Base class of the errors of this package."""


class RetryError(SmithyError):
    """There is no further attempt; the failure of the last one is its `__cause__`.

    Attributes:
        retry_after: If the quota refused: the delay in seconds that the retry would have had. Else None.
    """

    def __init__(self, message: str = "", *, retry_after: float | None = None) -> None:
        Exception.__init__(self, message)
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[object, ...]:
        return retry_error, (*self.args, self.retry_after)


_joint: dict[type, type[RetryError]] = {}


def retry_error(message: str = "", retry_after: float | None = None) -> RetryError:
    """Makes a `RetryError`. Where smithy-core is loaded it is also smithy-core's, which its clients catch."""
    theirs = getattr(sys.modules.get("smithy_core.exceptions"), "RetryError", None)
    if theirs is None:
        return RetryError(message, retry_after=retry_after)
    if theirs not in _joint:
        body = {"__module__": RetryError.__module__, "__doc__": RetryError.__doc__}
        _joint[theirs] = type("RetryError", (RetryError, theirs), body)
    return _joint[theirs](message, retry_after=retry_after)


class CallError(SmithyError):
    """A failed call with the information that strategies need: an `ErrorRetryInfo` with a fault.

    Args:
        message: Description of the failure.
        fault: The side that caused it.
        is_retry_safe: Whether a retry is allowed; None if unknown.
        retry_after: Seconds that should pass before a retry.
        is_throttling_error: Whether the server requested less load.
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
