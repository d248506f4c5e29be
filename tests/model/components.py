"""Components of a route or a pool, made of a policy's settings."""

from __future__ import annotations

from breaker import Breaker
from breaker import Settings as BreakerSettings
from policy import Policy
from rates import RateBucket, Tokens


def new_rate(permits: int, per: int, burst: int, now: int) -> Tokens:
    """3.1: "the bucket starts full"."""
    return Tokens(RateBucket(permits, per, burst, now), burst)


def new_breaker(policy: Policy) -> Breaker:
    """5; a probe's lease is "its attempt timeout and one second", else `break_duration`."""
    b = policy.breaker
    assert b is not None
    lease = b.break_duration if policy.attempt_timeout is None else policy.attempt_timeout + 1_000_000
    return Breaker(
        BreakerSettings(
            failure_ratio=b.failure_ratio,
            window=b.window,
            min_throughput=b.min_throughput,
            window_kind=b.window_kind,
            consecutive=b.consecutive,
            break_duration=b.break_duration,
            break_factor=b.break_factor,
            max_break_duration=b.max_break_duration,
            half_open_max_calls=b.half_open_max_calls,
            successes_to_close=b.successes_to_close,
            probe_lease=lease,
        )
    )
