# Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.
"""How fast: rate limits, and the cubic send rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate import _native
from tidegate._engine.options import UNSET

from ._part import U32, U64, Part, made, whole

if TYPE_CHECKING:
    from typing import TypedDict

    from typing_extensions import Unpack

    from tidegate._engine.clock import Span

    class TokenBucketKeys(TypedDict, total=False):
        """The keys of `TokenBucket`."""

        permits: int
        per: Span
        burst: int


class TokenBucket(Part):
    """A rate and a burst: a bucket that starts full and refills continuously (`docs/spec.md`, 3.1).

    Integers only, so nothing drifts; a clock that runs back adds no tokens, and a silence of hours gives one
    burst. Within any span t it grants at most `burst` + t·`permits`/`per`.

    Args:
        permits: Tokens that flow in per `per`. 1 to 1,000,000,000.
        per: The span that `permits` belong to. Seconds or `timedelta`, 1 µs to 365 days.
        burst: Tokens that may be taken at once, after a quiet time. 1 to 1,000,000,000; `permits` by default.
        now: The moment from which it fills, on your clock.

    Raises:
        tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule.

    Example:
        >>> bucket = TokenBucket(permits=3, per=1.0, burst=2, now=0.0)
        >>> bucket.try_take(now=0.0, cost=2), bucket.try_take(now=0.0)
        (True, False)
        >>> bucket.acquire(now=0.0)
        0.333334
        >>> bucket.acquire(now=0.333334)
        0.0
    """

    __slots__ = ()

    def __init__(self, permits: int, per: Span, burst: int = UNSET, *, now: float) -> None:
        options: dict[str, Any] = {"permits": permits, "per": per, "burst": burst}
        self._native: _native.TokenBucket = made(_native.TokenBucket, "rate_limit", options, now)

    def try_take(self, now: float, cost: int = 1) -> bool:
        """Takes `cost` tokens (0 to 2^32 − 1), if there are enough. A cost of 0 is always granted."""
        try:
            return self._native.try_take(now, cost)
        except (OverflowError, TypeError):
            whole("cost", cost, 0, U32)
            raise

    def acquire(self, now: float, cost: int = 1) -> float:
        """Takes `cost` tokens, or takes none and says when to come back.

        0 where they were taken. Else the seconds until there are enough, rounded up to a microsecond;
        infinity for a cost above the burst.
        """
        try:
            return self._native.acquire(now, cost)
        except (OverflowError, TypeError):
            whole("cost", cost, 0, U32)
            raise

    def wait_for(self, now: float, tokens: int = 1) -> float:
        """Seconds until `tokens` in all (0 to 2^64 − 1) will have flowed in beyond what is used; takes none.

        Linear, also above the burst: the third of three waiters that need one token each waits for 3.
        """
        try:
            return self._native.wait_for(now, tokens)
        except (OverflowError, TypeError):
            whole("tokens", tokens, 0, U64)
            raise

    def level(self, now: float) -> int:
        """Whole tokens that are available now."""
        return self._native.level(now)

    def is_fresh(self, now: float) -> bool:
        """Whether it is full, as a new one is."""
        return self._native.is_fresh(now)

    def retune(self, now: float, **settings: Unpack[TokenBucketKeys]) -> None:
        """Applies new settings, with the same keys as before, and keeps the tokens.

        They are capped at the new burst; a larger burst fills at the new rate. Changing the settings back and
        forth adds no tokens.
        """
        options: dict[str, Any] = {**settings}
        made(self._native.retune, "rate_limit", options, now)


class Gcra(Part):
    """The same rate limit kept as one moment: the generic cell rate algorithm (`docs/spec.md`, 3.3).

    ITU-T I.371. It decides as a `TokenBucket` of the same settings wherever `permits` divide `per` in
    microseconds; elsewhere its interval is rounded up to whole microseconds, so that it never grants more.
    Starts full. A clock that runs back adds no tokens.

    Args:
        permits: Tokens that flow in per `per`. 1 to 1,000,000,000.
        per: The span that `permits` belong to. Seconds or `timedelta`, 1 µs to 365 days.
        burst: Tokens that may be taken at once, after a quiet time. 1 to 1,000,000,000; `permits` by default.

    Raises:
        tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule.

    Example:
        >>> limit = Gcra(permits=1, per=1.0, burst=2)
        >>> limit.try_take(now=0.0, cost=2)
        True
        >>> limit.acquire(now=0.4)
        0.6
    """

    __slots__ = ()

    def __init__(self, permits: int, per: Span, burst: int = UNSET) -> None:
        options: dict[str, Any] = {"permits": permits, "per": per, "burst": burst}
        self._native: _native.Gcra = made(_native.Gcra, "rate_limit", options)

    def try_take(self, now: float, cost: int = 1) -> bool:
        """Takes `cost` tokens (0 to 2^32 − 1), if there are enough. A cost of 0 is always granted."""
        try:
            return self._native.try_take(now, cost)
        except (OverflowError, TypeError):
            whole("cost", cost, 0, U32)
            raise

    def acquire(self, now: float, cost: int = 1) -> float:
        """Takes `cost` tokens, or takes none and says when to come back.

        0 where they were taken. Else the seconds until there are enough, rounded up to a microsecond;
        infinity for a cost above the burst.
        """
        try:
            return self._native.acquire(now, cost)
        except (OverflowError, TypeError):
            whole("cost", cost, 0, U32)
            raise

    def is_fresh(self, now: float) -> bool:
        """Whether it is full, as a new one is."""
        return self._native.is_fresh(now)


class CubicRate(Part):
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

    __slots__ = ()

    def __init__(self, now: float) -> None:
        self._native: _native.CubicRate = _native.CubicRate(now)

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
