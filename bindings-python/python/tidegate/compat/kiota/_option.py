"""The retry option of a client, or of one of its requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tidegate._engine.clock import to_us

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate._engine.clock import Span

    ShouldRetry: TypeAlias = "bool | Callable[[int, Any, Any], bool]"

OPTIONS: Final = "kiota_request_options"
"""The request extension in which kiota keeps options by their keys."""


class Settings(NamedTuple):
    """The parts of an option that the engine uses: seconds, number of retries, seconds."""

    delay: float
    retries: int
    time_limit: float


class RetryHandlerOption:
    """The number of retries, their delay, and their time limit.

    The wait before retry n is `delay`·n², up to 180 s, unless the server sends a Retry-After.

    Args:
        delay: The wait before the first retry: seconds, 0 to 180.
        max_retries: Retries after the first attempt: 0 to 10.
        should_retry: Whether to retry at all; or a callable for each retry that takes its number (from 1),
            the request and the response (429, 503 or 504), and returns whether to retry.
        retries_time_limit: Time limit of attempts and waits together: seconds or a `timedelta`. If the next
            wait would exceed it, the response is returned at once. 0 is no limit.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> option = RetryHandlerOption(delay=1, max_retries=5, retries_time_limit=60)
        >>> option.max_retry, option.max_delay, option.retries_time_limit
        (5, 1, 60)
    """

    DEFAULT_MAX_RETRIES: Final = 10
    MAX_MAX_RETRIES: Final = 10
    DEFAULT_DELAY: Final = 3.0
    MAX_DELAY: Final = 180.0
    DEFAULT_SHOULD_RETRY: Final = True
    DEFAULT_RETRIES_TIME_LIMIT: Final = 1800.0
    RETRY_HANDLER_OPTION_KEY: Final = "RetryHandlerOption"

    def __init__(
        self,
        delay: float = DEFAULT_DELAY,
        max_retries: int = DEFAULT_MAX_RETRIES,
        should_retry: ShouldRetry = DEFAULT_SHOULD_RETRY,
        retries_time_limit: Span = DEFAULT_RETRIES_TIME_LIMIT,
    ) -> None:
        self.max_delay = delay
        self.max_retry = max_retries
        self.should_retry = should_retry
        self.retries_time_limit = retries_time_limit

    @property
    def max_delay(self) -> float:
        """The wait before the first retry, in seconds: `delay` under kiota's name."""
        return self._delay

    @max_delay.setter
    def max_delay(self, value: float) -> None:
        self._delay: float = _within("Delay", value, self.MAX_DELAY, (int, float))

    @property
    def max_retry(self) -> int:
        """Retries after the first attempt."""
        return self._retries

    @max_retry.setter
    def max_retry(self, value: int) -> None:
        self._retries: int = _within("MaxRetries", value, self.MAX_MAX_RETRIES, (int,))

    @property
    def should_retry(self) -> ShouldRetry:
        """Whether to retry, or the callable that decides."""
        return self._should_retry

    @should_retry.setter
    def should_retry(self, value: ShouldRetry) -> None:
        if not isinstance(value, bool) and not callable(value):
            raise ValueError(f"ShouldRetry = {value!r}: must be a bool, or a callable that answers one")
        self._should_retry: ShouldRetry = value

    @property
    def retries_time_limit(self) -> Span:
        """Time limit of attempts and waits together, seconds or a `timedelta`; 0 is no limit."""
        return self._time_limit

    @retries_time_limit.setter
    def retries_time_limit(self, value: Span) -> None:
        us = to_us(value)
        if not isinstance(us, float) or not 0 <= us <= 365 * 86_400e6:
            raise ValueError(f"RetriesTimeLimit = {value!r}: must be a span from 0 s to 365 days")
        self._time_limit: Span = value

    @staticmethod
    def get_key() -> str:
        """Returns the key of this option among those of a request."""
        return RetryHandlerOption.RETRY_HANDLER_OPTION_KEY

    def __repr__(self) -> str:
        return (
            f"RetryHandlerOption(delay={self._delay!r}, max_retries={self._retries!r},"
            f" should_retry={self._should_retry!r}, retries_time_limit={self._time_limit!r})"
        )


def _within(key: str, value: Any, most: float, kinds: tuple[type, ...]) -> Any:
    known: Any = value  # keeps the type that `isinstance` would narrow
    if isinstance(value, bool) or not isinstance(value, kinds) or known != known:
        kind = "a whole number" if kinds == (int,) else "a number of seconds"
        raise ValueError(f"{key} = {value!r}: must be {kind}")
    if known < 0:
        raise ValueError(f"InvalidMinValue. {key} should not be negative, and is {value!r}")
    if known > most:
        raise ValueError(f"MaxLimitExceeded. {key} should not be more than {most:g}, and is {value!r}")
    return value


def settings_of(option: Any) -> Settings:
    """Returns the settings of an option, ours or kiota's own."""
    limit = to_us(getattr(option, "retries_time_limit", RetryHandlerOption.DEFAULT_RETRIES_TIME_LIMIT))
    retries = 0 if option.should_retry is False else option.max_retry
    return Settings(float(option.max_delay), retries, limit / 1e6)
