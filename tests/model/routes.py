"""Bounded routes (spec 0.5): who goes, what is remembered of it, and the overflow route.

Debts are pairs (amount, until). A sketch is four dictionaries, one a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import rng
from budgets import NEVER, Debt, owed

if TYPE_CHECKING:
    from collections.abc import Callable

    from call import Route
    from policy import Policy

OVERFLOW = "(overflow)"
"""The key of the route that keys share; not one that a script has."""

ROWS = 4
IDLE_SEEN = 8
PINNED_SEEN = 4


def greater(one: Debt, other: Debt, now: int) -> Debt:
    """The debt that satisfies both."""
    if not owed(one, now):
        return other
    if not owed(other, now):
        return one
    return max(one[0], other[0]), max(one[1], other[1])


class Sketch:
    """As written: "in each of the four the greater amount and the later moment stay"."""

    def __init__(self, secret: int, width: int) -> None:
        self.secret, self.width = secret, width
        self.rows: list[dict[int, Debt]] = [{} for _ in range(ROWS)]

    def columns(self, key: str) -> list[int]:
        """The key's column in each row."""
        data = key.encode()
        number = rng.split_mix(self.secret ^ len(data))
        for at in range(0, len(data), 8):
            number = rng.split_mix(number ^ int.from_bytes(data[at : at + 8], "little"))
        first, step = number % 2**32, number >> 32 | 1
        return [(first + row * step) % 2**32 % self.width for row in range(ROWS)]

    def note(self, key: str, debt: Debt, now: int) -> None:
        """A debt of this key, to be remembered."""
        for row, column in zip(self.rows, self.columns(key), strict=True):
            row[column] = greater(row.get(column, (0, 0)), debt, now)

    def read(self, key: str, now: int) -> Debt:
        """What it owes, or more."""
        cells = [row.get(column, (0, 0)) for row, column in zip(self.rows, self.columns(key), strict=True)]
        if not all(owed(cell, now) for cell in cells):
            return 0, 0
        return min(cell[0] for cell in cells), min(cell[1] for cell in cells)


class Routes:
    """All routes, and those without calls in the order of their last use."""

    def __init__(
        self, seed: int, most: int, shut: Callable[[Route, int], bool], pinned: Callable[[Route, int], bool]
    ) -> None:
        self.secret, self.most, self.shut, self.pinned = rng.split_mix(seed), most, shut, pinned
        self.width = 256
        while self.width < min(most, 65_536):
            self.width *= 2
        self.there: dict[tuple[str, str], Route] = {}
        self.idle: list[Route] = []
        self.parked: list[Route] = []
        self.sketches: dict[tuple[str, str], Sketch] = {}
        self.leaving: list[Policy] = []
        self.left = 0

    def sketch(self, policy: str, owner: str) -> Sketch:
        """The debts of one component of a policy's evicted routes."""
        return self.sketches.setdefault((policy, owner), Sketch(self.secret, self.width))

    def find(self, policy: Policy, key: str, now: int, new: Callable[[str], Route]) -> Route:
        """The route that calls of a key go by."""
        name = policy.name
        if (name, key) in self.there:
            return self.there[name, key]
        kept = sum(1 for _, known in self.there if known != OVERFLOW)
        if kept >= self.most and not self.evict(now):
            route = self.there.get((name, OVERFLOW)) or self.add(new(OVERFLOW))
            route.owe(self.owed(name, key, now), now)
            self.sketch(name, "overflow").note(key, (1, NEVER), now)
            return route
        route = self.add(new(key))
        route.owe(self.owed(name, key, now), now)
        if owed(self.sketch(name, "overflow").read(key, now), now):
            shared = self.there[name, OVERFLOW]
            debts = shared.owed(now, waiters=True)
            if shared.active == 0 and not any(owed(debt, now) for debt in debts.values()):
                del self.sketches[name, "overflow"]
            route.owe(debts, now)
        return route

    def owed(self, policy: str, key: str, now: int) -> dict[str, Debt]:
        """What is remembered of a key."""
        return {owner: self.sketch(policy, owner).read(key, now) for owner in ("rate", "budget", "hedges")}

    def add(self, route: Route) -> Route:
        """A new one has been used just now."""
        self.there[route.policy.name, route.key] = route
        self.idle.append(route)
        return route

    def evict(self, now: int) -> bool:
        """As written: "the first that owes nothing is evicted, else the least recently used"."""
        for _ in range(PINNED_SEEN):
            if not self.parked:
                break
            route = self.parked.pop(0)
            if self.pinned(route, now):
                self.parked.append(route)
            else:
                self.idle.insert(0, route)
        victim: Route | None = None
        for route in self.idle[:IDLE_SEEN]:
            if self.pinned(route, now):
                self.idle.remove(route)
                self.parked.append(route)
            elif not any(owed(debt, now) for debt in route.owed(now).values()):
                victim = route
                break
            elif victim is None:
                victim = route
        if victim is None:
            return False
        self.idle.remove(victim)
        del self.there[victim.policy.name, victim.key]
        for owner, debt in victim.owed(now).items():
            if owed(debt, now):
                self.sketch(victim.policy.name, owner).note(victim.key, debt, now)
        return True

    def leave_with(self, policy: Policy) -> None:
        """0.9: a policy that nobody holds goes with its routes, those with calls at a later release."""
        old, self.left = policy.name, self.left + 1
        policy.name = f"{old}, released {self.left}"  # what is found by its name is not found any more
        for name, key in [place for place in self.there if place[0] == old]:
            self.there[policy.name, key] = self.there.pop((name, key))
        for name, owner in [place for place in self.sketches if place[0] == old]:
            del self.sketches[name, owner]
        self.leaving.append(policy)
        self.look_for_leaving()

    def look_for_leaving(self) -> None:
        """0.9.7: "this is looked for when a policy is released"."""
        for gone in self.leaving:
            for place in [it for it in self.there if it[0] == gone.name and self.there[it].active == 0]:
                route = self.there.pop(place)
                (self.idle if route in self.idle else self.parked).remove(route)

    def enter(self, route: Route) -> None:
        """A call more."""
        if route.active == 0:
            (self.idle if route in self.idle else self.parked).remove(route)
        route.active += 1

    def leave(self, route: Route, now: int) -> None:
        """A call less; an overflow route or one in debt is idle like others until an eviction sees it."""
        route.active -= 1
        if route.active == 0:
            parked = self.shut(route, now) and (route.key != OVERFLOW or route.is_forced())
            (self.parked if parked else self.idle).append(route)
