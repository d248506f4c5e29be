"""CoDel's word on one waiter at a time (spec 4.4): the laws of `codel.py`, for a queue with deadlines."""

from __future__ import annotations

import math
from fractions import Fraction

MOST = 256
"""Waiters shed between two that are granted."""
SCALES = [Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2)]
"""What a criticality makes of the target: best_effort, degraded, normal, critical."""


class Facebook:
    """While the queue was empty within the interval a waiter may wait that long, else only the target."""

    def __init__(self, target: int | None, interval: int, now: int) -> None:
        self.target, self.interval = target, interval
        self.last_empty = now

    def on_empty(self, now: int) -> None:
        """The queue was seen empty."""
        self.last_empty = now

    def congested(self, now: int) -> bool:
        """Has it not been empty for an interval?"""
        return now - self.last_empty >= self.interval

    def should_shed(self, sojourn: int, scale: Fraction, now: int) -> bool:
        """Has this one waited longer than it may?"""
        if self.target is None:
            return False
        return sojourn > (self.target if self.congested(now) else self.interval) * scale


class Rfc8289(Facebook):
    """Section 5.5 with its names. One call of its `dequeue` is a row of words here, up to a "grant"."""

    def __init__(self, target: int, interval: int, now: int) -> None:
        super().__init__(target, interval, now)
        self.bound = target
        self.first_above_time: int | None = None
        self.drop_next = self.count = self.lastcount = 0
        self.dropping = False
        self.run = 0  # shed in this row
        self.entered = False  # was it the first drop? then the next one is granted

    def on_empty(self, now: int) -> None:
        """No packet: the drop state is left."""
        super().on_empty(now)
        self.first_above_time = None
        self.dropping = self.entered = False
        self.run = 0

    def control_law(self, t: int) -> int:
        """Whole µs, rounded down."""
        return t + int(self.interval / math.sqrt(self.count))

    def ok_to_drop(self, sojourn: int, scale: Fraction, now: int) -> bool:
        """Has the sojourn been above the target for an interval?"""
        if sojourn < self.bound * min(scale, Fraction(1)):
            self.first_above_time = None
            return False
        if self.first_above_time is None:
            self.first_above_time = now + self.interval
            return False
        return now >= self.first_above_time

    def should_shed(self, sojourn: int, scale: Fraction, now: int) -> bool:
        """The word; "grant" ends the row."""
        ok = self.ok_to_drop(sojourn, scale, now)
        spared = sojourn < self.bound * scale
        shed = False
        if self.entered:  # the first drop was the last of its row
            self.entered = False
        elif self.dropping:
            if not ok:
                self.dropping = False
            elif self.run > 0:
                self.drop_next = self.control_law(self.drop_next)
            shed = self.dropping and now >= self.drop_next and not spared
            if shed and self.run == MOST:
                self.drop_next = self.control_law(now)
                shed = False
            if shed:
                self.count += 1
        elif ok and not spared:
            delta = self.count - self.lastcount
            recent = now - self.drop_next < 16 * self.interval
            self.count = delta if delta > 1 and recent else 1
            self.drop_next = self.control_law(now)
            self.lastcount = self.count
            shed = self.dropping = self.entered = True
        self.run = self.run + 1 if shed else 0
        return shed
