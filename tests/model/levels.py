"""The level of a limit of a set, which may fall below 0 (3.6.5)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import rate


@dataclass
class Level(rate.Bucket):
    """A bucket whose level may fall below 0."""

    def charge(self, tokens: int, most: int, now: int) -> None:
        """3.6.5, 3.6.6: what has been used already; beyond the largest debt it is forgiven."""
        self.refill(now)
        self.tokens = min(self.tokens, max(self.tokens - tokens, Fraction(-most)))

    def give_back(self, tokens: int, now: int) -> None:
        """3.6.3: "at most to a full burst"."""
        self.refill(now)
        self.tokens = min(Fraction(self.burst), self.tokens + tokens)

    def share(self, queued: int, now: int) -> int:
        """3.8.9: of a limit without windows time alone is remembered."""
        return 0
