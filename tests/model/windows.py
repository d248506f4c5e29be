"""Limits that refill by windows of the wall clock (3.8), as counts of windows that have begun."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from levels import Level


@dataclass
class WallClock:
    """3.8.4: as the host reported it last; from there it goes on with the engine's time."""

    micros: int | None = None
    at: int = 0

    def report(self, micros: int, now: int) -> None:
        """The host's report."""
        self.micros, self.at = max(1, micros), now

    def read(self, now: int) -> int:
        """Microseconds since 1970; without a report what no window depends on."""
        return max(0, (self.micros or 0) + now - self.at)


@dataclass
class Windowed(Level):
    """3.8.1: its permits come at once; `number` is the last window that has been counted."""

    anchor: int = 0
    wall: WallClock | None = None
    number: int | None = None

    def present(self, now: int) -> int:
        """The number of the present window; those before the first anchor are one."""
        assert self.wall is not None
        return max(-1, (self.wall.read(now) - self.anchor) // self.per)

    def begins(self, number: int) -> int:
        """When a window begins, on the wall clock."""
        return max(0, self.anchor + number * self.per)

    def refill(self, now: int) -> None:
        """3.8.4, 3.8.5."""
        self.now = max(self.now, now)
        if self.wall is None or self.wall.micros is None:
            return
        present = self.present(now)
        if self.number is None:
            self.number = present
        elif present > self.number:
            self.tokens = min(Fraction(self.burst), self.tokens + (present - self.number) * self.permits)
            self.number = present
        elif self.begins(self.number) - self.begins(present) > self.per:
            self.number = present

    def wait_for(self, tokens: int, now: int) -> int:
        """3.8.6: to the beginning of the window that has them."""
        self.refill(now)
        assert self.wall is not None
        missing = tokens - self.tokens
        if missing <= 0 or tokens == 0:
            return 0
        windows = math.ceil(missing / self.permits)
        if self.number is None:
            return windows * self.per
        until = self.begins(self.number) + windows * self.per
        return max(1, until - self.wall.read(now))

    def share(self, queued: int, now: int) -> int:
        """3.8.9: what is missing of all its permits, in 2^-20 of them."""
        self.refill(now)
        missing = min(Fraction(self.burst), self.burst - self.tokens + queued)
        return math.ceil(missing * 2**20 / self.burst)

    def owe_share(self, share: int, now: int) -> None:
        """3.8.9."""
        self.refill(now)
        self.tokens = min(self.tokens, self.burst - Fraction(self.burst * min(share, 2**20), 2**20))
