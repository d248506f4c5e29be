"""The order of a set's queue (3.10), with a search among all waiters for each question."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from routes import OVERFLOW

if TYPE_CHECKING:
    from call import Call

SHARES = [1, 4, 16, 64]
"""3.10.2: by criticality, best effort first."""
PARTS = 1 << 32
"""3.10.5: starts are counted in so many parts of a microsecond."""
MOST_KEYS = 10_000
LONGEST = (1 << 53) - 1

Flow = tuple[int, str]
"""A criticality and a key."""


@dataclass
class OrderKeys:
    """The keys of a queue's order."""

    prioritized: bool
    by_key: bool
    shares: dict[str, int]


@dataclass
class Level:
    """The criticalities, or the keys of one: who is next among them."""

    starts: dict[str, int] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)
    """Which start was set first, of equal ones."""
    time: int = 0

    def joins(self, name: str, number: int) -> None:
        """One that had no waiter has one."""
        self.starts[name] = max(self.starts.get(name, 0), self.time)
        self.since[name] = number

    def served(self, name: str, charge: int, share: int, number: int) -> None:
        """3.10.5: its waiter has got its tokens."""
        self.time = self.starts[name]
        self.starts[name] += -(-charge * PARTS // share)
        self.since[name] = number

    def next(self, waiting: set[str]) -> str:
        """The smallest start of those that wait."""
        return min(waiting, key=lambda name: (self.starts[name], self.since[name]))

    def rests(self) -> None:
        """None of them waits."""
        self.time = max([self.time, *self.starts.values()])


class Order:
    """Start-time fair queueing over criticality, and over keys within it."""

    def __init__(self, keys: OrderKeys) -> None:
        self.keys = keys
        self.waiters: list[tuple[Call, Flow]] = []
        self.tiers = Level()
        self.levels: dict[int, Level] = {}
        self.number = 0

    # ---- who waits ----

    def waiting_tiers(self) -> set[str]:
        """The criticalities with waiters."""
        return {str(tier) for _, (tier, _) in self.waiters}

    def waiting_keys(self, tier: int) -> set[str]:
        """The keys with waiters of a criticality."""
        return {key for _, (other, key) in self.waiters if other == tier}

    def of(self, flow: Flow) -> list[Call]:
        """The waiters of a key within a criticality, by arrival."""
        return [call for call, other in self.waiters if other == flow]

    def flow_of(self, call: Call) -> Flow:
        """Where a waiter is."""
        return next(flow for other, flow in self.waiters if other is call)

    def kept(self) -> set[Flow]:
        """3.10.12: the keys that wait, or that are ahead of the others."""
        ahead = {
            (tier, key)
            for tier, level in self.levels.items()
            for key, start in level.starts.items()
            if start > level.time
        }
        return {flow for flow in ahead | {flow for _, flow in self.waiters} if flow[1] != OVERFLOW}

    # ---- coming and going ----

    def join(self, call: Call) -> None:
        """A newcomer, or a call before a further attempt."""
        tier = call.request.criticality if self.keys.prioritized else 0
        key = call.route.key if self.keys.by_key else ""
        kept = self.kept()
        if (tier, key) not in kept and len(kept) >= MOST_KEYS:
            key = OVERFLOW
        level = self.levels.setdefault(tier, Level())
        self.number += 1
        if str(tier) not in self.waiting_tiers():
            self.tiers.joins(str(tier), self.number)
        if key not in self.waiting_keys(tier):
            level.joins(key, self.number)
        self.waiters.append((call, (tier, key)))

    def head(self) -> Call | None:
        """3.10.4: "the first"."""
        if not self.waiters:
            return None
        tier = int(self.tiers.next(self.waiting_tiers()))
        return self.of((tier, self.levels[tier].next(self.waiting_keys(tier))))[0]

    def serve(self, call: Call, charge: int) -> None:
        """3.10.5, 3.10.6: it has got its tokens."""
        tier, key = self.flow_of(call)
        self.number += 1
        share = SHARES[tier] if self.keys.prioritized else 1
        self.tiers.served(str(tier), min(charge, LONGEST), share, self.number)
        share = self.keys.shares.get(key, 1)
        self.levels[tier].served(key, min(charge, LONGEST), share, self.number)
        self.leave(call)

    def leave(self, call: Call) -> None:
        """One waits no longer; starts stay."""
        tier, _ = self.flow_of(call)
        self.waiters = [waiter for waiter in self.waiters if waiter[0] is not call]
        if not self.waiting_keys(tier):
            self.levels[tier].rests()
        if not self.waiters:
            self.tiers.rests()

    # ---- a full queue ----

    def victim(self, newcomer: Call) -> Call | None:
        """3.10.11; the newcomer is among the waiters already."""
        own = self.flow_of(newcomer)
        tier = min(tier for _, (tier, _) in self.waiters)
        longest = max(
            self.waiting_keys(tier), key=lambda key: (self.length((tier, key)), self.levels[tier].since[key])
        )
        if tier == own[0] and self.length(own) >= self.length((tier, longest)):
            return None
        return self.of((tier, longest))[-1]

    def length(self, flow: Flow) -> Fraction:
        """Waiters per share."""
        return Fraction(len(self.of(flow)), self.keys.shares.get(flow[1], 1))
