"""Randomness without a source (spec 2.5, R7): a draw is a function of the seed and of what it is for."""

from __future__ import annotations

MASK = (1 << 64) - 1
BACKOFF = 1
RETRY_AFTER = 2
THROTTLE = 3
BREAK = 4
LINK = 9
COOLDOWN = 10


def split_mix(state: int) -> int:
    """The first output of SplitMix64 started at `state` (Steele, Lea, Flood 2014)."""
    z = (state + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def bits(seed: int, ordinal: int, purpose: int, attempt: int) -> int:
    """2.5: "SplitMix64 over (seed, the engine's call ordinal, purpose, attempt)"."""
    call = split_mix((seed ^ split_mix(ordinal)) & MASK)
    return split_mix(call ^ (purpose << 8 | attempt))


def uniform(x: int, low: int, high: int) -> int:
    """2.5: "U(a, b) = a + ((x·(b−a+1)) >> 64)"; a range that is upside down is its lower end."""
    return low + ((x * (max(high - low, 0) + 1)) >> 64)
