"""The sentences of the Smithy retry design, and what the tests of its door share."""

from __future__ import annotations

from typing import Any

from compat.pages import Page
from tidegate.compat.smithy import (
    CallError,
    ExponentialBackoffJitterType,
    ExponentialRetryBackoffStrategy,
)

PAGE = Page(
    {
        1: "Implementations of the RetryStrategy will produce RetryTokens that carry metadata",
        2: "… the number of attempts that have occurred and the amount of time that must pass",
        3: "Passing state through tokens … allows the RetryStrategy itself to be isolated",
        4: "retry_count: Retry count is the total number of attempts minus the initial attempt",
        5: "retry_delay: Delay in seconds to wait before the retry attempt",
        6: "backoff_strategy: The strategy used by returned tokens to compute delay duration values",
        7: "max_attempts: Upper limit on total attempt count (initial attempt plus retries)",
        8: "acquire: Called before any retries (for the first attempt at the operation)",
        9: "token_scope: An arbitrary string … to separate tokens into scopes",
        10: "acquire raises RetryError: If the retry strategy has no available tokens",
        11: "refresh: Replace an existing retry token from a failed attempt with a new token",
        12: "refresh raises RetryError: If no further retry attempts are allowed",
        13: "record_success: Return token after successful completion of an operation",
        14: "exceptions may implement the ErrorRetryInfo and/or HasFault protocols",
        15: "is_retry_safe: True does not mean a retry will occur, but … is allowed to occur",
        16: "is_retry_safe: None indicates that there is not enough information",
        17: "retry_after: The amount of time that should pass before a retry",
        18: "is_throttling_error: Whether the error is a throttling error",
        19: "fault: Whether the client or server is at fault; None: not enough information",
        20: "MUST raise a RetryError if … is_retry_safe is False",
        21: "SHOULD raise a RetryError if it is None",
        22: "SHOULD use a delay that is at least as long as retry_after but MAY choose to wait longer",
        23: "Each RetryStrategy has a configurable RetryBackoffStrategy",
        24: "stateless class that computes the next backoff delay based solely on the number",
        25: "compute_next_backoff_delay(self, retry_attempt: int) -> float",
        26: "ExponentialRetryBackoffStrategy … uses exponential backoff with configurable jitter",
        27: "could use a token bucket to limit retries client-wide",
        28: "Example usage: no token: send once",
        29: "Example usage: sleep, send, refresh on failure, raise retry_error from e, record success",
    }
)
says = PAGE.says

SAFE = {"is_retry_safe": True}
NONE = ExponentialBackoffJitterType.NONE


def failure(**said: Any) -> CallError:
    return CallError("reset", **{**SAFE, **said})


def plain(scale: float = 1.0, most: float = 20.0) -> ExponentialRetryBackoffStrategy:
    return ExponentialRetryBackoffStrategy(backoff_scale_value=scale, max_backoff=most, jitter_type=NONE)


class Clock:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)
