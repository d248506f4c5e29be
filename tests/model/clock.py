"""Time that never goes back (R10), for the engine and for the parts that a host may use on their own."""

from __future__ import annotations

SWING = 30_000_000
TOO_FAR = 2**53
LATEST_START = 2**62


class Clock:
    """The engine's time for the host's readings, in µs.

    A line is what is added to a reading on it: the clock runs along one until it is set back.
    """

    def __init__(self) -> None:
        self.now: int | None = None
        self.highest = 0
        self.line_before: int | None = None

    def __call__(self, reading: int) -> int:
        """R10: time is what the clock gains on its highest reading."""
        if self.now is None:
            self.now, self.highest = min(reading, LATEST_START), reading
            return self.now
        gained = reading - self.highest
        if gained < -SWING:  # "the clock was set back"
            if gained >= -TOO_FAR:
                self.line_before = self.now - self.highest
            self.highest = reading
        elif gained > TOO_FAR:  # "no clock runs that far"
            self.highest = reading
        elif gained > SWING and self.is_back(reading):
            assert self.line_before is not None
            self.now = max(self.now, reading + self.line_before)
            self.highest = self.now - self.line_before
        elif gained > 0:
            self.now += gained
            self.highest = reading
        return self.now

    def reading_at(self, moment: int) -> int:
        """What the host's clock says at a moment, as far as it has been seen."""
        return max(0, self.highest + moment - (self.now or 0))

    def is_back(self, reading: int) -> bool:
        """Has it jumped to the line on which it ran before? That says no more than has been gained."""
        assert self.now is not None
        if self.line_before is None:
            return False
        says = reading + self.line_before
        return self.now - SWING <= says <= self.now + reading - self.highest
