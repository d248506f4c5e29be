"""How long to wait before a retry (spec 2.4, 2.5, 2.7). Spans are whole microseconds."""

from __future__ import annotations

from dataclasses import dataclass

import rng

FIVE_SECONDS = 5_000_000


@dataclass(frozen=True)
class Backoff:
    """The `retry.backoff.*` keys."""

    kind: str = "exponential"
    base: int = 100_000
    multiplier: float = 2.0
    exponent: int = 1
    max: int = 5_000_000
    jitter: str = "full_floor"
    jitter_ratio: float = 0.0


def growth(backoff: Backoff, base: int, n: int) -> int:
    """2.4: the delay before retry n, "capped at `max` before jitter"; no overflow for any n."""
    if backoff.kind == "constant":
        delay = base
    elif backoff.kind == "linear":
        delay = base * n
    elif backoff.kind == "polynomial":
        delay = base * n**backoff.exponent
    else:
        product = float(base)
        for _ in range(min(n, 10_000) - 1):  # products in f64 from left to right, then truncated
            product *= backoff.multiplier
        delay = backoff.max if product >= backoff.max else int(product)
    return min(delay, backoff.max)


def draw(backoff: Backoff, base: int, xs: list[int]) -> int:
    """2.5: the delay before retry n with its jitter; `xs` are the 64 random bits of retries 1 to n.

    Every bound is rounded down to whole µs first.
    """
    d, x = growth(backoff, base, len(xs)), xs[-1]
    if backoff.jitter == "none":
        return d
    if backoff.jitter == "full":
        return rng.uniform(x, 0, d)
    if backoff.jitter == "full_floor":
        return rng.uniform(x, d // 10, d)
    if backoff.jitter == "equal":
        return d // 2 + rng.uniform(x, 0, d // 2)
    if backoff.jitter == "bounded":  # "d is capped, the draw is not"
        return rng.uniform(x, int((1.0 - backoff.jitter_ratio) * d), int((1.0 + backoff.jitter_ratio) * d))
    # decorrelated: U(b, min(max, 3·previous)), "previous = b at first, then the delay drawn"
    previous = low = min(base, backoff.max)
    for each in xs:
        previous = rng.uniform(each, low, min(backoff.max, 3 * previous))
    return previous


def with_retry_after(mode: str, computed: int, r: int, left: int | None, x: int) -> int:
    """2.7: what the server's wait `r` makes of the computed delay; `left` is the time to the deadline."""
    if mode == "exact":
        return r
    if mode == "clamp_5s":
        return min(max(r, computed), computed + FIVE_SECONDS)
    if mode == "ignore":
        return computed
    high = r + r // 10
    if left is not None and high >= left:  # "the jitter cut to fit the deadline, never below r"
        high = max(r, left - 1)
    return max(computed, rng.uniform(x, r, high))
