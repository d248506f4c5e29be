"""The cubic send rate of the AWS SDKs' adaptive mode (spec 2.14; published table in `aws_cubic.json`)."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

BETA = 0.7
SCALE = 0.4
SMOOTH = 0.8
MIN_RATE = 0.5
MIN_CAPACITY = 1.0
BUCKET = 500_000
HAIR = 1e-9
"""What rounding may leave missing from a token that was waited for."""


def cube_root(x: float) -> float:
    """The nearest float."""
    if x <= 0.0:
        return 0.0
    with localcontext() as context:
        context.prec = 50
        return float(Decimal(x) ** (Decimal(1) / Decimal(3)))


class Cubic:
    """A token bucket whose rate follows the server's throttles. Off, and free, until the first one."""

    def __init__(self, now: int) -> None:
        self.born = self.refilled = self.throttled = now
        self.enabled = False
        self.fill = self.capacity = self.tokens = 0.0
        self.last_max = self.flat = self.measured = 0.0
        self.sends = self.bucket = 0

    def refill(self, now: int) -> None:
        """What has flowed in since the last look, at most the capacity."""
        self.tokens = min(self.tokens + (now - self.refilled) / 1e6 * self.fill, self.capacity)
        self.refilled = now

    def take(self, cost: int, now: int) -> bool:
        """One send, if there is a token."""
        if not self.enabled:
            return True
        self.refill(now)
        if cost - HAIR - self.tokens > 0.0:
            return False
        self.tokens = max(0.0, self.tokens - cost)
        return True

    def wait_for(self, tokens: int, now: int) -> int:
        """(tokens queued − tokens there) / rate, rounded up to whole µs but for a hair; never 0 where there are too few."""
        if not self.enabled:
            return 0
        self.refill(now)
        missing = tokens - HAIR - self.tokens
        if missing <= 0.0:
            return 0
        return max(1, math.ceil(missing / self.fill * 1e6))

    def response(self, throttled: bool, now: int) -> None:
        """A throttle cuts it, any other lets it grow, to at most twice the rate that is measured."""
        self.measure(now)
        if throttled:
            reached = min(self.measured, self.fill) if self.enabled else self.measured
            rate = self.cut(reached, now)
        else:
            rate = self.curve(now)
        if self.enabled:
            rate = min(rate, 2.0 * self.measured)
            self.refill(now)
            self.fill, self.capacity = max(rate, MIN_RATE), max(rate, MIN_CAPACITY)
            self.tokens = min(self.tokens, self.capacity)

    def cut(self, reached: float, now: int) -> float:
        """The rate before the cut is where the curve will be flat again."""
        self.enabled, self.last_max, self.throttled = True, reached, now
        self.flat = cube_root(reached * (1.0 - BETA) / SCALE)
        return reached * BETA

    def curve(self, now: int) -> float:
        """.4·(t − t_throttle − K)^3 + last_max."""
        dt = (now - self.throttled) / 1e6 - self.flat
        return SCALE * (dt * dt * dt) + self.last_max

    def measure(self, now: int) -> None:
        """`rate = count/(bucket − last)` over half seconds since its birth, smoothed."""
        self.sends += 1
        bucket = (now - self.born) // BUCKET
        if bucket > self.bucket:
            seconds = (bucket - self.bucket) * 0.5
            self.measured = self.sends / seconds * SMOOTH + self.measured * (1.0 - SMOOTH)
            self.sends, self.bucket = 0, bucket
