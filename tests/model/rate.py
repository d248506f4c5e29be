"""Rate limits (3.1 to 3.3) in exact fractions: a bucket of tokens, and GCRA as a debt that is paid off.

Neither shares its arithmetic with core, which counts parts of a token, and moments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

NEVER = 2**64 - 1


@dataclass
class Bucket:
    """3.1: starts full, refills continuously. Fractions of tokens; below 0 where more than all is missing."""

    permits: int
    per: int
    burst: int
    now: int
    tokens: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Full."""
        self.tokens = Fraction(self.burst)

    def refill(self, now: int) -> None:
        """3.2: what has flowed in since the farthest moment that has been seen."""
        if now > self.now:
            self.tokens = min(
                Fraction(self.burst), self.tokens + Fraction((now - self.now) * self.permits, self.per)
            )
            self.now = now

    def wait_for(self, tokens: int, now: int) -> int:
        """Until `tokens` will have flowed in, in whole µs rounded up; linear above the burst."""
        self.refill(now)
        missing = tokens - self.tokens
        if missing <= 0 or tokens == 0:
            return 0
        # A clock that has run back has to come back first.
        return self.now - now + math.ceil(missing * self.per / self.permits)

    def take(self, cost: int, now: int) -> int | None:
        """None where it is granted, else the wait."""
        self.refill(now)
        if cost <= self.tokens or cost == 0:
            self.tokens -= cost
            return None
        return NEVER if cost > self.burst else self.wait_for(cost, now)

    def level(self, now: int) -> int:
        """Whole tokens."""
        self.refill(now)
        return max(0, math.floor(self.tokens))

    def debt(self, now: int) -> tuple[int, int]:
        """0.5: the moment when nothing is missing."""
        wait = self.wait_for(self.burst, now)
        return int(wait > 0), min(NEVER, now + wait)

    def owe(self, debt: tuple[int, int], now: int) -> None:
        """0.5: it will be full at that moment, or later."""
        self.refill(now)
        missing = Fraction(max(0, debt[1] - self.now) * self.permits, self.per)
        self.tokens = min(self.tokens, self.burst - missing)

    def retune(self, permits: int, per: int, burst: int, now: int) -> None:
        """As much is missing as before, and a larger burst adds nothing to what is there.

        Parts of 1/per are rounded against the caller.
        """
        self.refill(now)
        there = max(Fraction(0), self.tokens)
        missing = Fraction(math.ceil((self.burst - self.tokens) * per), per)
        if burst > self.burst:
            missing = max(missing, burst - Fraction(math.floor(there * per), per))
        self.permits, self.per, self.burst = permits, per, burst
        self.tokens = burst - missing


@dataclass
class Gcra:
    """3.3: each token granted is a debt of one interval (whole µs, rounded up); time pays it off.

    At most `burst` intervals of debt. The debt as of `now`, the farthest moment of a grant.
    """

    permits: int
    per: int
    burst: int
    debt: int = 0
    now: int = 0

    def take(self, cost: int, now: int) -> int | None:
        """None where it is granted, else the wait. A clock that has run back finds the debt larger."""
        interval = -(-self.per // self.permits)
        if cost > self.burst:
            return NEVER
        debt = max(0, self.debt - (now - self.now))
        wait = debt + interval * cost - interval * self.burst
        if wait > 0 and cost:
            return wait
        if cost:
            self.debt, self.now = debt + interval * cost, now
        return None
