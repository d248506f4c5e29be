# Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.
"""Delays: the backoff, and what a server asks for."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from tidegate import _native
from tidegate._engine.options import UNSET

from ._part import LONGEST, U8, U64, Part, made, seed_of, whole

if TYPE_CHECKING:
    from tidegate._engine.clock import Span


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
    if not 0 <= now <= LONGEST / 1e6:
        raise ValueError(f"now = {now!r}: must be seconds since 1970, at most 2^53 µs")
    header = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return _native.parse_retry_after(header, round(now * 1e6))


class Backoff(Part):
    """The delay before retry n = 1, 2, …: growth, cap, jitter.

    Growth: `constant` base, `linear` base·n, `exponential` base·multiplier^(n−1), `polynomial`
    base·n^exponent, each capped at `max` before jitter. Jitter of a delay d: `none`, `full` U(0, d),
    `full_floor` U(0.1·d, d), `equal` d/2 + U(0, d/2), `decorrelated` U(base, min(max, 3·previous)), `bounded`
    U((1−j)·d, (1+j)·d). Names after "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015);
    `docs/spec.md`, 2.4 and 2.5.

    Args:
        kind: How the delay before retry n grows: base·multiplier^(n−1), base, base·n, base·n^exponent.
            `"exponential"` (default), `"constant"`, `"linear"`, `"polynomial"`.
        base: The delay before the first retry, before jitter. Seconds or `timedelta`, 0 to 365 days; 0.1 s by
            default.
        max: The longest computed delay, before jitter. Seconds or `timedelta`, 0 to 365 days; 5 s by default.
        multiplier: The growth from one retry to the next. 1 to 1000; 2 by default.
        exponent: The power of polynomial growth. 1 to 8; required with kind `"polynomial"`.
        jitter: How the delay d is spread: full_floor draws from [0.1·d, d], full from [0, d], equal from
            [d/2, d], decorrelated from [base, 3·previous], bounded from [(1−j)·d, (1+j)·d]. `"full_floor"`
            (default), `"none"`, `"full"`, `"equal"`, `"decorrelated"`, `"bounded"`.
        jitter_ratio: The j of bounded jitter. 0 to 1; required with jitter `"bounded"`.
        seed: Seed of all random draws, 64 bits; by default from the operating system.

    Raises:
        tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule.

    Example:
        >>> backoff = Backoff(base=0.1, max=5.0, jitter="none")
        >>> [backoff.delay(n) for n in range(1, 8)]
        [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
        >>> 0.01 <= Backoff(base=0.1).delay(1) <= 0.1
        True
    """

    __slots__ = ()

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
        options: dict[str, Any] = {
            "kind": kind,
            "base": base,
            "max": max,
            "multiplier": multiplier,
            "exponent": exponent,
            "jitter": jitter,
            "jitter_ratio": jitter_ratio,
        }
        self._native: _native.Backoff = made(_native.Backoff, "retry.backoff", options, seed_of(seed))

    def delay(self, n: int, call: int | None = None) -> float:
        """Seconds to wait before retry `n`, 1 to 255.

        Without `call` every delay is a draw of its own. With one, a number of your own for the call that is
        retried, the delay is a function of seed, call and n, and `decorrelated` follows the call's own draws.
        """
        return self._native.delay(whole("n", n, 1, U8), None if call is None else whole("call", call, 0, U64))

    def ceiling(self, n: int) -> float:
        """Seconds before retry `n`, 1 to 255, without jitter."""
        return self._native.ceiling(whole("n", n, 1, U8))
