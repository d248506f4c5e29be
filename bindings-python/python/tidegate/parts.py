"""The engine's parts on their own: for programs that have a loop of their own, and want one decision.

No part reads a clock. Where one needs the time it takes `now`: seconds on any clock that does not run back
(`time.monotonic()`, an event loop's `time()`, a simulation's), always the same one for the same part. Spans
are seconds or `timedelta`; what a part answers is seconds. Every part may be used from several threads.

Ranges and defaults are those of the keys of a policy (`docs/reference.md`), and core checks them: a mistake
is a `tidegate.PolicyError`, which is a `ValueError`, with the key, the value and the rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from . import _native
from ._clock import to_us
from ._engine import draw_seed
from ._errors import PolicyError
from ._options import UNSET, pairs_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from ._clock import Span

__all__ = [
    "Backoff",
    "CubicRate",
    "ErrorInfo",
    "RatioBudget",
    "RetryBudget",
    "RetryError",
    "RetryQuota",
    "RetryStrategy",
    "RetryToken",
    "ShareBudget",
    "TokenBudget",
    "parse_retry_after",
]

_U16: Final = (1 << 16) - 1
_U32: Final = (1 << 32) - 1
_U64: Final = (1 << 64) - 1
_LONGEST: Final = 2**53


def parse_retry_after(value: str | bytes, now: datetime | float | None = None) -> float | None:
    """Reads a `Retry-After` value: seconds to wait, or None where it says nothing (RFC 9110, 10.2.3).

    Delay-seconds, or one of the three HTTP dates against the wall clock. A negative number and a past date
    are 0; decimals, units, signs, other digits than ASCII's, wrong dates and garbage are None. Never raises
    for a value, whatever it is.

    Args:
        value: The header's value.
        now: The wall clock: an aware `datetime`, or seconds since 1970; the present if left out.

    Raises:
        ValueError: If `now` is naive, not finite, or before 1970.

    Example:
        >>> parse_retry_after("120")
        120.0
        >>> parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now=784111770)
        7.0
        >>> parse_retry_after("1.5") is None
        True
    """
    if now is None:
        import time

        now = time.time()
    elif isinstance(now, datetime):
        if now.tzinfo is None:
            raise ValueError(f"now = {now!r}: must have a time zone")
        now = now.timestamp()
    if not 0 <= now <= _LONGEST / 1e6:
        raise ValueError(f"now = {now!r}: must be seconds since 1970, at most 2^53 µs")
    header = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return _native.parse_retry_after(header, round(now * 1e6))


class Backoff:
    """The delay before retry n = 1, 2, …: growth, cap, jitter.

    Growth: `constant` base, `linear` base·n, `exponential` base·multiplier^(n−1), `polynomial`
    base·n^exponent, each capped at `max` before jitter. Jitter of a delay d: `none`, `full` U(0, d),
    `full_floor` U(0.1·d, d), `equal` d/2 + U(0, d/2), `decorrelated` U(base, min(max, 3·previous)),
    `bounded` U((1−j)·d, (1+j)·d). Names after "Exponential Backoff And Jitter" (AWS Architecture Blog,
    2015); `docs/spec.md`, 2.4 and 2.5.

    Args:
        kind: How it grows; `exponential` by default.
        base: The delay before the first retry, before jitter; seconds, 0 to 365 days, by default 0.1.
        max: The longest delay, before jitter; seconds, from `base` to 365 days, by default 5.
        multiplier: Of `exponential`; 1 to 1,000, by default 2.
        exponent: Of `polynomial`, which needs it; a whole number from 1 to 8.
        jitter: How it is spread; `full_floor` by default.
        jitter_ratio: The j of `bounded`, which needs it; 0 to 1.
        seed: All the randomness there is, 64 bits; drawn from the operating system where it is left out.

    Example:
        >>> backoff = Backoff(base=0.1, max=5.0, jitter="none")
        >>> [backoff.delay(n) for n in range(1, 8)]
        [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
        >>> 0.01 <= Backoff(base=0.1).delay(1) <= 0.1
        True
    """

    __slots__ = ("_native",)

    def __init__(
        self,
        kind: Literal["exponential", "constant", "linear", "polynomial"] = UNSET,
        base: Span = UNSET,
        max: Span = UNSET,  # noqa: A002 - the key's name
        multiplier: float = UNSET,
        exponent: int = UNSET,
        jitter: Literal["full_floor", "none", "full", "equal", "decorrelated", "bounded"] = UNSET,
        jitter_ratio: float = UNSET,
        seed: int | None = None,
    ) -> None:
        options: dict[str, Any] = {"kind": kind, "base": base, "max": max, "multiplier": multiplier}
        options |= {"exponent": exponent, "jitter": jitter, "jitter_ratio": jitter_ratio}
        self._native: _native.Backoff = _made(_native.Backoff, "backoff", options, _seed(seed))

    def delay(self, n: int, call: int | None = None) -> float:
        """Seconds to wait before retry `n`, 1 to 255.

        Without `call` every delay is a draw of its own. With one, a number of your own for the call that is
        retried, the delay is a function of seed, call and n, and `decorrelated` follows the call's own draws.
        """
        draw = None if call is None else _whole("call", call, 0, _U64)
        return self._native.delay(_whole("n", n, 1, 255), draw)

    def ceiling(self, n: int) -> float:
        """Seconds before retry `n`, 1 to 255, without jitter."""
        return self._native.ceiling(_whole("n", n, 1, 255))


class RetryBudget:
    """A budget over a sliding window: a share of recent calls, plus a floor (Finagle's RetryBudget).

    Every call deposits, every retry withdraws; refused when withdrawn ≥ round(deposits·percent_can_retry) +
    floor(min_retries_per_sec·ttl). Ten slices: an entry counts for 0.9 to 1 `ttl`; memory is constant. It
    bounds attempts ≤ (1 + percent)·calls + min_retries_per_sec·(seconds + 1.1·ttl) (`docs/spec.md`, 2.10).

    Args:
        ttl: How long a deposit or a withdrawal counts; seconds, 10 µs to 365 days, by default 10.
        min_retries_per_sec: Retries per second that are free of any ratio; 0 to 1e9, by default 10.
        percent_can_retry: Retries per recent call, as a fraction; 0 to 1e6, by default 0.2.
        rounding: How the share is rounded; `floor` (default) or `ceil`.

    Example:
        >>> budget = RetryBudget(ttl=10.0, min_retries_per_sec=0, percent_can_retry=0.2)
        >>> for _ in range(10):
        ...     budget.deposit(now=0.0)
        >>> [budget.try_withdraw(now=1.0) for _ in range(3)]
        [True, True, False]
        >>> budget.balance(now=1.0)
        0
    """

    __slots__ = ("_native",)

    def __init__(
        self,
        ttl: Span = UNSET,
        min_retries_per_sec: float = UNSET,
        percent_can_retry: float = UNSET,
        rounding: Literal["floor", "ceil"] = UNSET,
    ) -> None:
        options: dict[str, Any] = {"kind": "window", "ttl": ttl, "min_retries_per_sec": min_retries_per_sec}
        options |= {"percent_can_retry": percent_can_retry, "rounding": rounding}
        self._native: _native.RetryBudget = _made(_native.RetryBudget, "budget", options)

    def deposit(self, now: float) -> None:
        """Counts one call, however many attempts it makes."""
        self._native.deposit(now)

    def try_withdraw(self, now: float) -> bool:
        """Takes one retry, if there is one to take."""
        return self._native.try_withdraw(now)

    def refund(self, withdrawn: float, now: float) -> None:
        """Gives back a retry withdrawn at the moment `withdrawn` that was never started."""
        self._native.refund(withdrawn, now)

    def balance(self, now: float) -> int:
        """Retries that could be taken now."""
        return self._native.balance(now)


class RatioBudget:
    """Each call earns a part of a retry, up to max(1, min_throughput·ratio); no clock (`docs/spec.md`, 2.11).

    In whole micro-tokens: with 0.1 the first retry is earned by call 10. It bounds attempts ≤ (1 +
    ratio)·calls + min_throughput·(max_attempts − 1).

    Args:
        ratio: What a call earns, in retries; above 0 (1e-6) to 1.
        min_throughput: Retries are free until this many calls have been made; 0 (default) to 1e9.

    Example:
        >>> budget = RatioBudget(ratio=0.5)
        >>> budget.on_call(), budget.try_withdraw()
        (None, False)
        >>> budget.on_call(), budget.try_withdraw()
        (None, True)
    """

    __slots__ = ("_native",)

    def __init__(self, ratio: float, min_throughput: int = UNSET) -> None:
        options = {"kind": "ratio", "ratio": ratio, "min_throughput": min_throughput}
        self._native: _native.RatioBudget = _made(_native.RatioBudget, "budget", options)

    def on_call(self) -> None:
        """Counts one call, however many attempts it makes."""
        self._native.on_call()

    def try_withdraw(self) -> bool:
        """Takes one retry, if it is free or there is one to take."""
        return self._native.try_withdraw()

    def refund(self) -> None:
        """Gives back a retry that was paid for and never started; not one that was free."""
        self._native.refund()

    @property
    def is_free(self) -> bool:
        """Would a retry be free now, because there have been few calls?"""
        return self._native.is_free()

    @property
    def balance(self) -> int:
        """Whole retries that could be taken now."""
        return self._native.balance()


class ShareBudget:
    """Retries in flight ≤ max(min_retries, share·calls in flight); no clock (Envoy's `retry_budget`).

    A retry that waits in its backoff is in flight: a thousand simultaneous failures must not all pass
    (`docs/spec.md`, 2.12).

    Args:
        share: Retries in flight per call in flight; 0 to 1e6, by default 0.2.
        min_retries: Retries in flight that are always allowed; 0 to 1e9, by default 3.

    Example:
        >>> budget = ShareBudget(share=0.2, min_retries=1)
        >>> [budget.try_acquire(calls=10) for _ in range(3)]
        [True, True, False]
        >>> budget.on_end()
        >>> budget.in_flight
        1
    """

    __slots__ = ("_native",)

    def __init__(self, share: float = UNSET, min_retries: int = UNSET) -> None:
        options = {"kind": "share", "share": share, "min_retries": min_retries}
        self._native: _native.ShareBudget = _made(_native.ShareBudget, "budget", options)

    def try_acquire(self, calls: int) -> bool:
        """Takes one retry, while `calls` are in flight (0 to 2^32 − 1)."""
        return self._native.try_acquire(_whole("calls", calls, 0, _U32))

    def on_end(self) -> None:
        """A retry that was taken has ended, or will not start."""
        self._native.on_end()

    def balance(self, calls: int) -> int:
        """Retries that could be taken now, while `calls` are in flight."""
        return self._native.balance(_whole("calls", calls, 0, _U32))

    @property
    def in_flight(self) -> int:
        """Retries in flight."""
        return self._native.in_flight()


class TokenBudget:
    """Failures take a token, successes give a part of one, and half must be left; no clock (gRPC A6).

    Starts full and stays within 0 and `max`; a retry is allowed above half of `max` (`docs/spec.md`, 2.13).

    Args:
        max: Tokens when full; a whole number from 1 to 1,000.
        ratio: What a success gives back; above 0 (1e-6) to 1.

    Example:
        >>> budget = TokenBudget(max=4, ratio=0.1)
        >>> budget.on_failure(), budget.allows
        (None, True)
        >>> budget.on_failure(), budget.allows
        (None, False)
    """

    __slots__ = ("_native",)

    def __init__(self, max: int, ratio: float) -> None:  # noqa: A002 - the key's name
        self._native: _native.TokenBudget = _made(
            _native.TokenBudget, "budget", {"kind": "tokens", "max": max, "ratio": ratio}
        )

    def on_failure(self) -> None:
        """A retryable failure, first attempts included."""
        self._native.on_failure()

    def on_success(self) -> None:
        """A success."""
        self._native.on_success()

    @property
    def allows(self) -> bool:
        """May there be a retry now?"""
        return self._native.allows()

    @property
    def balance(self) -> int:
        """Failures until retries are refused."""
        return self._native.balance()


class RetryQuota:
    """Retries cost, successes refund; no clock (the retry quota of the AWS SDKs' standard mode).

    Starts full. A success refunds the cost of the call's last retry only; one at the first try gives 1
    (`docs/spec.md`, 2.14).

    Args:
        capacity: Tokens when full; 1 to 1e9, by default 500.
        cost: What a retry costs; 1 to 65,535, by default 5.
        timeout_cost: What a retry after an attempt timeout costs; 1 to 65,535, by default 10.
        throttled_cost: What a retry after a throttled outcome costs; 1 to 65,535, by default `cost`.

    Example:
        >>> quota = RetryQuota(capacity=12)
        >>> quota.try_acquire(), quota.try_acquire("timeout"), quota.available
        (5, None, 7)
        >>> quota.on_success(cost=5)
        >>> quota.available
        12
    """

    __slots__ = ("_native",)

    def __init__(
        self,
        capacity: int = UNSET,
        cost: int = UNSET,
        timeout_cost: int = UNSET,
        throttled_cost: int = UNSET,
    ) -> None:
        options: dict[str, Any] = {"kind": "quota", "capacity": capacity, "cost": cost}
        options |= {"timeout_cost": timeout_cost, "throttled_cost": throttled_cost}
        self._native: _native.RetryQuota = _made(_native.RetryQuota, "budget", options)

    def try_acquire(self, kind: Literal["transient", "timeout", "throttled"] = "transient") -> int | None:
        """Pays for a retry after a failure of this kind: the cost, or None where there is not enough."""
        return self._native.try_acquire(kind)

    def on_success(self, cost: int = 0) -> None:
        """A call has succeeded, whose last retry cost `cost`: 0 if there was none."""
        self._native.on_success(_whole("cost", cost, 0, _U16))

    def refund(self, cost: int) -> None:
        """Gives a charge back, 0 to 65,535, of a retry that was never started."""
        self._native.refund(_whole("cost", cost, 0, _U16))

    @property
    def available(self) -> int:
        """Tokens left."""
        return self._native.available()


class CubicRate:
    """A send rate that throttles cut, and that grows back along a cubic curve (the AWS SDKs' adaptive mode).

    Off, and free, until the first throttle; never below 0.5 sends a second. The curve is CUBIC's (RFC 9438)
    with β = 0.7 and C = 0.4 (`docs/spec.md`, 2.14).

    Args:
        now: The moment from which sends are measured.

    Example:
        >>> rate = CubicRate(now=0.0)
        >>> rate.acquire(now=1.0), rate.rate
        (0.0, None)
        >>> rate.on_response(throttled=True, now=1.0)
        >>> rate.rate is not None and rate.acquire(now=1.0) > 0
        True
    """

    __slots__ = ("_native",)

    def __init__(self, now: float) -> None:
        self._native = _native.CubicRate(now)

    def acquire(self, now: float) -> float:
        """Takes one send: 0, or the seconds to wait before asking again."""
        return self._native.acquire(now)

    def on_response(self, throttled: bool, now: float) -> None:
        """Counts an answer: a throttled one cuts the rate, any other lets it grow."""
        self._native.on_response(throttled, now)

    @property
    def rate(self) -> float | None:
        """Sends per second that are allowed; None before the first throttle."""
        return self._native.rate()


RetryToken = _native.RetryToken
"""What a strategy hands out for an attempt: `retry_count` (0 for the first) and `retry_delay` in seconds."""


@dataclass(frozen=True, kw_only=True)
class ErrorInfo:
    """What an error says about itself.

    Args:
        is_retry_safe: May it be retried? None where the error does not say.
        retry_after: The wait that the server asked for: seconds or `timedelta`, 0 or more.
        is_throttling_error: Did the server ask for less load?
        is_timeout_error: Did our own timeout end it?
    """

    is_retry_safe: bool | None = None
    retry_after: float | timedelta | None = None
    is_throttling_error: bool = False
    is_timeout_error: bool = False


class RetryError(Exception):
    """There is no further attempt.

    Attributes:
        reason: `attempts` (used up), `quota` (spent), or `not_safe` (or not known to be).
        retry_delay: With `quota`, the seconds that the wait would have had; else None.
    """

    def __init__(self, reason: str, retry_delay: float | None = None) -> None:
        super().__init__(reason, retry_delay)
        self.reason = reason
        self.retry_delay = retry_delay

    def __str__(self) -> str:
        return f"no further attempt: {self.reason}"


class RetryStrategy:
    """Retry tokens: the standard retry interface of the Smithy SDKs (`docs/spec.md`, 2.18).

    A token carries what an attempt needs to know; the strategy keeps the quota of each scope. It waits for
    nobody: `retry_delay` is the caller's to wait.

    Args:
        max_attempts: Attempts in all, the first one counts; 1 to 255, by default 3.
        backoff: The delay before each retry; `Backoff()` by default.
        quota: The quota that every scope gets one like; `RetryQuota()` by default, None for no quota.
        retry_unknown: Is an error that does not say whether it is safe taken as safe? Not by default.
        seed: All the randomness there is, 64 bits; drawn from the operating system where it is left out.

    Example:
        >>> strategy = RetryStrategy(max_attempts=2, backoff=Backoff(base=0.025, jitter="none"))
        >>> token = strategy.acquire_initial_retry_token(token_scope="orders")
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

    __slots__ = ("_native",)

    def __init__(
        self,
        max_attempts: int = UNSET,
        backoff: Backoff | None = None,
        quota: RetryQuota | None = UNSET,
        retry_unknown: bool = False,
        seed: int | None = None,
    ) -> None:
        backoff = Backoff() if backoff is None else backoff
        quota = RetryQuota() if quota is UNSET else quota
        self._native: _native.RetryStrategy = _made(
            _native.RetryStrategy,
            "",
            {"max_attempts": max_attempts},
            _seed(seed),
            backoff._native,
            None if quota is None else quota._native,
            retry_unknown,
        )

    def acquire_initial_retry_token(self, *, token_scope: str = "") -> RetryToken:
        """The token of a call's first attempt: no retry yet, no wait. A scope has a quota of its own."""
        return self._native.acquire(token_scope)

    def refresh_retry_token_for_retry(self, token: RetryToken, error: ErrorInfo) -> RetryToken:
        """The token of the next attempt, after one that failed.

        Raises:
            RetryError: If attempts, quota or safety forbid one.
            ValueError: If the error's `retry_after` is no span of 0 or more.
        """
        us = None if error.retry_after is None else to_us(error.retry_after)
        if us is not None and (isinstance(us, str) or not us >= 0):
            raise ValueError(
                f"retry_after = {error.retry_after!r}: must be seconds or a timedelta, 0 or more"
            )
        after = None if us is None else int(min(us, _LONGEST))
        answer = self._native.refresh(
            token, error.is_retry_safe, after, error.is_throttling_error, error.is_timeout_error
        )
        if isinstance(answer, tuple):
            raise RetryError(*answer)
        return answer

    def record_success(self, token: RetryToken) -> None:
        """A call has succeeded with this token: the cost of its last retry goes back to its scope."""
        self._native.record_success(token)

    def available(self, *, token_scope: str = "") -> int | None:
        """Tokens left in a scope's quota; None without quotas."""
        return self._native.available(token_scope)


def _made(native: Any, table: str, options: Mapping[str, Any], *rest: Any) -> Any:
    """A native part; mistakes are told by the part's own keys, not by a policy's."""
    prefix = f"retry.{table}." if table else "retry."
    try:
        return native(pairs_of({"retry": {table: options} if table else options}), *rest)
    except PolicyError as error:
        mistakes = [
            (key.removeprefix(prefix), value, rule.replace(prefix, "")) for key, value, rule in error.mistakes
        ]
        raise PolicyError(mistakes) from None


def _seed(seed: int | None) -> int:
    return draw_seed() if seed is None else seed & _U64


def _whole(key: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{key} = {value!r}: must be a whole number from {low} to {high}")
    return int(value)
