"""Common base of the sync and the async strategies. The engine decides, through `tidegate.parts`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from tidegate import parts

from ._backoff import ExponentialBackoffJitterType, ExponentialRetryBackoffStrategy, is_count
from ._interfaces import retry_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ._interfaces import RetryBackoffStrategy, RetryToken

RetryMode: TypeAlias = Literal["standard", "simple", "adaptive"]

_MOST: Final = 255
_NO_WAIT: Final = parts.Backoff(base=0, max=0, jitter="none", seed=0)
"""No delays from the engine: the backoff strategy computes them, which may be the user's own."""
PATIENCE: Final = 30.0
"""Maximum wait of an adaptive strategy for a send, in seconds."""


@dataclass(frozen=True, kw_only=True)
class SimpleRetryToken:
    """A token of `SimpleRetryStrategy`.

    Attributes:
        retry_count: Number of retries so far.
        retry_delay: Seconds to wait before the attempt.
    """

    retry_count: int
    retry_delay: float
    _call: Any = field(default=None, repr=False, compare=False)

    @property
    def attempt_count(self) -> int:
        """Number of attempts, including that of this token."""
        return self.retry_count + 1


@dataclass(frozen=True, kw_only=True)
class StandardRetryToken(SimpleRetryToken):
    """A token of `StandardRetryStrategy` and `AdaptiveRetryStrategy`.

    Attributes:
        retry_count: Number of retries so far.
        retry_delay: Seconds to wait before the attempt.
    """

    _charge: Any = field(default=None, repr=False, compare=False)


class StandardRetryQuota:
    """Limit of the retries of all calls of a scope: a retry takes tokens, a success returns some.

    A retry costs 14 tokens, or 5 after a throttling error. A success returns the cost of the call's last
    retry, or 1 without retries. Several strategies can share a quota.

    Args:
        initial_capacity: Capacity of each scope in tokens; 0 to 1e9, 0 for no retries.

    Raises:
        ValueError: If `initial_capacity` is out of range.
    """

    RETRY_COST: Final = 14
    THROTTLING_RETRY_COST: Final = 5
    NO_RETRY_INCREMENT: Final = 1

    def __init__(self, initial_capacity: int = 500) -> None:
        if not is_count(initial_capacity) or initial_capacity > 10**9:
            raise ValueError(
                f"initial_capacity = {initial_capacity!r}: must be a whole number from 0 to 1000000000"
            )
        self._initial = initial_capacity
        quota = parts.RetryQuota(
            capacity=max(initial_capacity, 1),  # 1 is less than the cost of any retry
            cost=self.RETRY_COST,
            timeout_cost=self.RETRY_COST,
            throttled_cost=self.THROTTLING_RETRY_COST,
        )
        self._ledger = parts.RetryStrategy(max_attempts=_MOST, backoff=_NO_WAIT, quota=quota, seed=0)

    @property
    def available_capacity(self) -> int:
        """Tokens left for calls without a scope."""
        return self.available_in(None)

    def available_in(self, token_scope: str | None) -> int:
        """Returns the tokens left in a scope."""
        return min(self._ledger.available(token_scope or "") or 0, self._initial)


@dataclass(frozen=True, kw_only=True)
class RetryStrategyOptions:
    """Settings of a strategy.

    Args:
        retry_mode: `standard` (default), `simple` or `adaptive`.
        max_attempts: Attempts including the first; the mode's own default if None.
    """

    retry_mode: RetryMode = "standard"
    max_attempts: int | None = None


class Deciding:
    """Decides by attempts and safety; keeps nothing per call."""

    token: ClassVar[type[Any]] = SimpleRetryToken

    def __init__(self, backoff_strategy: RetryBackoffStrategy, max_attempts: int) -> None:
        if not is_count(max_attempts):
            raise ValueError(f"max_attempts must be a non-negative integer, got {max_attempts!r}")
        if max_attempts > _MOST:
            raise ValueError(f"max_attempts must be at most {_MOST}, got {max_attempts}")
        self.backoff_strategy = backoff_strategy
        self._max_attempts = max_attempts
        self._decides = parts.RetryStrategy(
            max_attempts=max(max_attempts, 1), backoff=_NO_WAIT, quota=None, seed=0
        )

    @property
    def max_attempts(self) -> int:
        """Attempts including the first. 0 and 1 never retry."""
        return self._max_attempts

    def _acquire(self, scope: str | None) -> Any:
        del scope
        call = self._decides.acquire_initial_retry_token()
        return self.token(retry_count=0, retry_delay=self._delay(0, None), _call=call)

    def _refresh(self, token: RetryToken, error: Exception) -> Any:
        call, delay, _ = self._decide(token, error)
        return self.token(retry_count=call.retry_count, retry_delay=delay, _call=call)

    def _decide(self, token: RetryToken, error: Exception) -> tuple[parts.RetryToken, float, parts.ErrorInfo]:
        """Checks attempts and safety; returns the token and the delay, at least the error's `retry_after`."""
        call = self._own(token)._call
        info = info_of(error)
        try:
            call = self._decides.refresh_retry_token_for_retry(call, info)
        except parts.RetryError as refused:
            why = (
                f"Reached maximum number of allowed attempts: {self._max_attempts}"
                if refused.reason == "attempts"
                else f"Error is not retryable: {error}"
            )
            raise retry_error(why) from error
        return call, max(self._delay(call.retry_count, info), call.retry_delay), info

    def _delay(self, retry: int, info: parts.ErrorInfo | None) -> float:
        del info
        return self.backoff_strategy.compute_next_backoff_delay(retry)

    def _own(self, token: Any) -> Any:
        if not isinstance(token, self.token) or token._call is None:
            kind = type(self).__name__
            raise TypeError(
                f"{kind} requires a {self.token.__name__} that it made, got {type(token).__name__}"
            )
        return token

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Returns itself, so that all copies of a configuration share its limits."""
        return self


class Simple(Deciding):
    """See `SimpleRetryStrategy`."""

    def __init__(
        self, *, backoff_strategy: RetryBackoffStrategy | None = None, max_attempts: int = 5
    ) -> None:
        super().__init__(backoff_strategy or ExponentialRetryBackoffStrategy(), max_attempts)


class Standard(Deciding):
    """See `StandardRetryStrategy`."""

    token = StandardRetryToken

    def __init__(
        self,
        *,
        backoff_strategy: RetryBackoffStrategy | None = None,
        throttling_backoff_strategy: RetryBackoffStrategy | None = None,
        max_attempts: int = 3,
        retry_quota: StandardRetryQuota | None = None,
    ) -> None:
        full = ExponentialBackoffJitterType.FULL
        super().__init__(
            backoff_strategy or ExponentialRetryBackoffStrategy(backoff_scale_value=0.05, jitter_type=full),
            max_attempts,
        )
        self.throttling_backoff_strategy: RetryBackoffStrategy = (
            throttling_backoff_strategy
            or ExponentialRetryBackoffStrategy(backoff_scale_value=1, jitter_type=full)
        )
        self.retry_quota = StandardRetryQuota() if retry_quota is None else retry_quota

    def _acquire(self, scope: str | None) -> Any:
        charge = self.retry_quota._ledger.acquire_initial_retry_token(scope or "")
        call = self._decides.acquire_initial_retry_token()
        return self.token(retry_count=0, retry_delay=self._delay(0, None), _call=call, _charge=charge)

    def _refresh(self, token: RetryToken, error: Exception) -> Any:
        call, delay, info = self._decide(token, error)
        charge = self._own(token)._charge
        try:
            charge = self.retry_quota._ledger.refresh_retry_token_for_retry(charge, info)
        except parts.RetryError:
            raise retry_error("Retry quota exceeded", delay) from error
        return self.token(retry_count=call.retry_count, retry_delay=delay, _call=call, _charge=charge)

    def _success(self, token: RetryToken) -> None:
        self.retry_quota._ledger.record_success(self._own(token)._charge)

    def _delay(self, retry: int, info: parts.ErrorInfo | None) -> float:
        slow = info is not None and info.is_throttling_error
        strategy = self.throttling_backoff_strategy if slow else self.backoff_strategy
        return strategy.compute_next_backoff_delay(retry)


class Adaptive(Standard):
    """See `AdaptiveRetryStrategy`."""

    def __init__(self, *, _now: Callable[[], float] = monotonic, **standard: Any) -> None:
        super().__init__(**standard)
        self._now = _now
        self._rate = parts.CubicRate(_now())

    def _answered(self, throttled: bool) -> None:
        self._rate.on_response(throttled, self._now())

    def _wait(self, until: float) -> float:
        """Returns the seconds to wait before the next request for a send; 0 if the send was granted."""
        now = self._now()
        wait = self._rate.acquire(now)
        if wait and now + wait > until:
            raise retry_error(f"No send within {PATIENCE:g} s at the rate that throttles leave", wait)
        return wait


class Resolver:
    """See `RetryStrategyResolver`."""

    kinds: ClassVar[Mapping[str, Callable[..., Any]]]
    protocol: ClassVar[type[Any]]

    def __init__(self) -> None:
        self._made: dict[tuple[str, int | None], Any] = {}

    def _resolve(self, given: object, mode: RetryMode | None, most: int | None) -> Any:
        if given is None:
            given = RetryStrategyOptions(retry_mode=mode or "standard", max_attempts=most)
        if isinstance(given, RetryStrategyOptions):
            return self._strategy(given.retry_mode, given.max_attempts)
        if isinstance(given, self.protocol):
            return given
        kind = type(given).__name__
        raise TypeError(f"retry_strategy must be RetryStrategy, RetryStrategyOptions, or None, got {kind}")

    def _strategy(self, mode: str, most: int | None) -> Any:
        if mode not in self.kinds:
            raise ValueError(f"Unknown retry mode: {mode}")
        made = self._made.get((mode, most))
        if made is None:
            made = self.kinds[mode](**({} if most is None else {"max_attempts": most}))
            made = self._made.setdefault((mode, most), made)
        return made


def info_of(error: Exception) -> parts.ErrorInfo:
    """Returns the retry information of an error; invalid or missing values count as unknown."""
    after = said(error, "retry_after")
    if isinstance(after, timedelta):
        after = after.total_seconds()
    if isinstance(after, bool) or not isinstance(after, (int, float)) or not after >= 0:
        after = None
    safe = said(error, "is_retry_safe")
    return parts.ErrorInfo(
        is_retry_safe=None if safe is None else bool(safe),
        retry_after=after,
        is_throttling_error=bool(said(error, "is_throttling_error")),
        is_timeout_error=bool(said(error, "is_timeout_error")),
    )


def said(error: Exception, name: str) -> Any:
    """Returns an attribute of an error; None if it is absent or raises."""
    try:
        return getattr(error, name, None)
    except Exception:
        return None
