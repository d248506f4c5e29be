"""CoDel (4.4): the Facebook form from a list of moments, RFC 8289 as its pseudo-code, on a queue."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

MOST = 256
"""Waiters shed between two that are granted. RFC 8289 itself knows no bound for its loop."""


@dataclass
class Waiter:
    """When it came, and what its criticality makes of the target."""

    at: int
    scale: Fraction


@dataclass
class Queue:
    """A queue and when it was seen empty. Subclasses say what is shed."""

    target: int
    interval: int
    born: int
    waiting: list[Waiter] = field(default_factory=list)
    empties: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Born empty."""
        self.empties = [self.born]

    def enqueue(self, now: int, scale: Fraction) -> None:
        """One more; where nobody waited, the queue has just been seen empty."""
        if not self.waiting:
            self.empty(now)
        self.waiting.append(Waiter(now, scale))

    def empty(self, now: int) -> None:
        """Seen empty."""
        self.empties.append(now)

    def congested(self, now: int) -> bool:
        """Has it not been empty within the last interval?"""
        return all(now - then >= self.interval for then in self.empties)

    def dequeue(self, now: int) -> tuple[int, bool]:
        """How many are shed, and whether one is granted then."""
        raise NotImplementedError


@dataclass
class Facebook(Queue):
    """While it was empty within the interval a waiter may wait that long, else only the target."""

    def allowance(self, now: int) -> int:
        """For a scale of 1."""
        return self.target if self.congested(now) else self.interval

    def dequeue(self, now: int) -> tuple[int, bool]:
        """Sheds those that have waited longer than their allowance."""
        allowance = self.allowance(now)
        shed = 0
        while self.waiting:
            waiter = self.waiting.pop(0)
            if now - waiter.at > allowance * waiter.scale:
                shed += 1
                continue
            if not self.waiting:
                self.empty(now)
            return shed, True
        self.empty(now)
        return shed, False


@dataclass
class Rfc8289(Queue):
    """Section 5.5's pseudo-code, with its names.

    Ours is: no exemption for the last packet (a waiter has no size), the bound, and criticality. A lenient
    waiter (scale above 1) between the target and its own is passed over: neither dropped nor a sign of a
    short queue.
    """

    first_above_time: int = 0
    drop_next: int = 0
    count: int = 0
    lastcount: int = 0
    dropping: bool = False

    def empty(self, now: int) -> None:
        """What the pseudo-code does when there is no packet."""
        super().empty(now)
        self.first_above_time = 0
        self.dropping = False

    def control_law(self, t: int) -> int:
        """Whole µs, rounded down."""
        return t + int(self.interval / math.sqrt(self.count))

    def dodequeue(self, now: int) -> tuple[Waiter | None, bool]:
        """The next packet, and whether it may be dropped."""
        if not self.waiting:
            self.empty(now)
            return None, False
        waiter = self.waiting.pop(0)
        sojourn = now - waiter.at
        if sojourn < self.target * min(waiter.scale, Fraction(1)):
            self.first_above_time = 0
            return waiter, False
        if self.first_above_time == 0:
            # Moments are above 0 in all vectors, as 0 stands for "not".
            self.first_above_time = now + self.interval
            return waiter, False
        return waiter, now >= self.first_above_time

    def spared(self, waiter: Waiter, now: int) -> bool:
        """Still within its own target."""
        return now - waiter.at < self.target * waiter.scale

    def dequeue(self, now: int) -> tuple[int, bool]:
        """Drops what the control law says, then grants."""
        shed = 0
        waiter, ok = self.dodequeue(now)
        if self.dropping:
            if not ok:
                self.dropping = False
            while waiter and self.dropping and now >= self.drop_next and not self.spared(waiter, now):
                if shed == MOST:
                    self.drop_next = self.control_law(now)
                    break
                shed += 1
                self.count += 1
                waiter, ok = self.dodequeue(now)
                if not ok:
                    self.dropping = False
                else:
                    self.drop_next = self.control_law(self.drop_next)
        elif ok and waiter and not self.spared(waiter, now):
            shed += 1
            waiter, _ = self.dodequeue(now)
            self.dropping = waiter is not None
            delta = self.count - self.lastcount
            recent = now - self.drop_next < 16 * self.interval
            self.count = delta if delta > 1 and recent else 1
            self.drop_next = self.control_law(now)
            self.lastcount = self.count
        if waiter and not self.waiting:
            self.empty(now)
        return shed, waiter is not None
