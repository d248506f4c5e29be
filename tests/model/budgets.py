"""What bounds the added load (spec 2.10 to 2.15). Each budget remembers everything that it was ever told."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from window import Window as CountWindow

MICRO = 1_000_000
NEVER = 2**64 - 1

Debt = tuple[int, int]
"""What a budget owes, in its own unit, and until when time alone has paid it."""


def owed(debt: Debt, now: int) -> bool:
    """Is there anything to pay?"""
    return debt[0] > 0 and debt[1] > now


@dataclass
class Charge:
    """A retry that was paid for."""

    cost: int
    at: int


class NoBudget:
    """`none`: everything is allowed."""

    def deposit(self, now: int) -> None:
        """A call starts its first attempt."""

    def withdraw(self, now: int, kind: str, calls: int, counted: bool = True) -> Charge | None:
        """A retry after a failure of class `kind` is decided, with `calls` in flight; None refuses it.

        `counted`: this budget has counted that failure as a retryable one (`tokens`).
        """
        return Charge(0, now)

    def withdraw_hedge(self, now: int, calls: int) -> Charge | None:
        """As written: "A hedge is charged as after a transient failure"."""
        return self.withdraw(now, "transient", calls)

    def refund(self, charge: Charge, now: int) -> None:
        """The retry never started (2.15)."""

    def success(self, last: Charge | None) -> None:
        """A call succeeded; `last` is what its last retry cost."""

    def failure(self) -> None:
        """An attempt failed with a retryable class."""

    def retry_over(self, charge: Charge) -> None:
        """A retry that had started is over."""

    def debt(self, now: int) -> Debt:
        """0.5: what is remembered when the route is evicted."""
        return 0, 0

    def owe(self, debt: Debt, now: int) -> None:
        """0.5: it owes at least this much from here on; only called where something is owed."""

    def answered(self, now: int) -> None:
        """A call ended with an answer, good or permanent."""


@dataclass
class Earned(NoBudget):
    """2.20: "A call that ends with an answer earns `ratio` of a retry; a retry costs 1"."""

    ratio: float = 0.18
    start: int = 2
    balance: int = -1
    recent: CountWindow = field(default_factory=lambda: CountWindow(14 * MICRO, "sliding"))

    def __post_init__(self) -> None:
        """It has its start."""
        self.balance = self.start * MICRO

    def micros(self) -> int:
        """The ratio in micro-tokens."""
        return int(self.ratio * MICRO + 0.5)

    def keep(self, now: int) -> None:
        """As written: "at most what the calls of the last 14 s could earn, and at least 4 or `start`"."""
        _, calls = self.recent.counts(now)
        self.balance = min(self.balance, max(4 * MICRO, self.start * MICRO, calls * self.micros()))

    def deposit(self, now: int) -> None:
        """The call counts for 10 s."""
        self.recent.add(False, now)

    def answered(self, now: int) -> None:
        """It earns."""
        self.balance += self.micros()
        self.keep(now)

    def withdraw(self, now: int, kind: str, calls: int, counted: bool = True) -> Charge | None:
        """A whole one."""
        self.keep(now)
        if self.balance < MICRO:
            return None
        self.balance -= MICRO
        return Charge(MICRO, now)

    def refund(self, charge: Charge, now: int) -> None:
        """What was paid comes back."""
        self.balance += charge.cost
        self.keep(now)

    def debt(self, now: int) -> Debt:
        """What is missing to the start of a new one."""
        self.keep(now)
        return max(0, self.start * MICRO - self.balance), NEVER

    def owe(self, debt: Debt, now: int) -> None:
        """At least so much of the start is missing."""
        self.balance = min(self.balance, max(0, self.start * MICRO - debt[0]))


@dataclass
class Window(NoBudget):
    """2.10: "refuse when withdrawn ≥ round(deposits·percent) + floor(min_retries_per_sec·ttl)"."""

    ttl: int = 10 * MICRO
    min_retries_per_sec: float = 10.0
    percent: float = 0.2
    rounding: str = "floor"
    first: int | None = None
    deposits: list[int] = field(default_factory=list)
    withdrawals: list[int] = field(default_factory=list)
    used: Debt = (0, 0)

    def slice_of(self, at: int) -> int:
        """Slices are counted from the first use of the budget."""
        if self.first is None:
            self.first = at
        return (at - self.first) * 10 // self.ttl

    def recent(self, entries: list[int], now: int) -> int:
        """How many of these count: those of this slice and of the nine before it."""
        here = self.slice_of(now)
        return sum(1 for at in entries if here - self.slice_of(at) < 10)

    def limit(self, now: int) -> int:
        """How many withdrawals the window allows."""
        share = self.recent(self.deposits, now) * self.percent
        whole = math.floor(share) if self.rounding == "floor" else math.ceil(share)
        floor = math.floor(self.min_retries_per_sec * (self.ttl / 1e6))
        return whole + max(0, floor - (self.used[0] if now < self.used[1] else 0))

    def balance(self, now: int) -> int:
        """How many retries could be made now."""
        return max(0, self.limit(now) - self.recent(self.withdrawals, now))

    def deposit(self, now: int) -> None:
        """One deposit per call."""
        self.slice_of(now)
        self.deposits.append(now)

    def withdraw(self, now: int, kind: str, calls: int, counted: bool = True) -> Charge | None:
        """One withdrawal per retry."""
        if self.recent(self.withdrawals, now) >= self.limit(now):
            return None
        self.withdrawals.append(now)
        return Charge(1, now)

    def refund(self, charge: Charge, now: int) -> None:
        """To the slice charged; where that counts no longer, neither does the debt."""
        self.withdrawals.remove(charge.at)

    def forgotten(self, at: int) -> int:
        """When a withdrawal leaves the window."""
        assert self.first is not None
        return self.first - (-(self.slice_of(at) + 10) * self.ttl // 10)

    def counted(self, now: int) -> list[int]:
        """The withdrawals in the window."""
        here = self.slice_of(now)
        return [at for at in self.withdrawals if here - self.slice_of(at) < 10]

    def debt(self, now: int) -> Debt:
        """The withdrawals and what else is used of the floor, until the newest of them leaves the window."""
        counted = [] if self.first is None else self.counted(now)
        used = self.used if now < self.used[1] else (0, 0)
        end = self.forgotten(max(counted)) if counted else 0
        return used[0] + len(counted), max(used[1], end)

    def owe(self, debt: Debt, now: int) -> None:
        """A new one has them at its beginning; another one is charged now for those that it has not."""
        if self.first is None:
            self.first = max(0, debt[1] - self.ttl)
            self.withdrawals = [self.first] * debt[0]
        if self.forgotten(now) < debt[1]:
            # "That part of the floor is used up until the moment."
            live = now < self.used[1]
            self.used = (max(self.used[0], debt[0]), max(self.used[1], debt[1])) if live else debt
            return
        lasting = [at for at in self.counted(now) if self.forgotten(at) >= debt[1]]
        self.withdrawals += [now] * (debt[0] - len(lasting))


@dataclass
class Ratio(NoBudget):
    """2.11: "each call adds `ratio` up to max(1, min_throughput·ratio); a retry costs 1"."""

    ratio: float = 0.1
    min_throughput: int = 0
    calls: int = 0
    balance: int = 0

    def micros(self) -> int:
        """The ratio in micro-tokens."""
        return int(self.ratio * MICRO + 0.5)

    def cap(self) -> int:
        """The most that can be saved."""
        return max(MICRO, self.min_throughput * self.micros())

    def deposit(self, now: int) -> None:
        """Each call earns."""
        self.calls += 1
        self.balance = min(self.cap(), self.balance + self.micros())

    def withdraw(self, now: int, kind: str, calls: int, counted: bool = True) -> Charge | None:
        """A retry costs one token, or nothing while there were few calls."""
        if self.calls <= self.min_throughput:
            return Charge(0, now)
        if self.balance < MICRO:
            return None
        self.balance -= MICRO
        return Charge(MICRO, now)

    def refund(self, charge: Charge, now: int) -> None:
        """What was paid comes back."""
        self.balance = min(self.cap(), self.balance + charge.cost)

    def debt(self, now: int) -> Debt:
        """The calls that it has had."""
        return self.calls, NEVER

    def owe(self, debt: Debt, now: int) -> None:
        """So many calls are no longer free."""
        self.calls = max(self.calls, debt[0])


@dataclass
class Share(NoBudget):
    """2.12: "retries in flight ≤ max(min, share · calls in flight)"."""

    share: float = 0.2
    min_retries: int = 3
    flying: int = 0

    def withdraw(self, now: int, kind: str, calls: int, counted: bool = True) -> Charge | None:
        """This retry counts as in flight from now on."""
        if self.flying + 1 > max(self.min_retries, math.floor(self.share * calls)):
            return None
        self.flying += 1
        return Charge(1, now)

    def refund(self, charge: Charge, now: int) -> None:
        """It never flew."""
        self.flying -= 1

    def retry_over(self, charge: Charge) -> None:
        """It has landed."""
        self.flying -= 1


@dataclass
class Tokens(NoBudget):
    """2.13 (gRPC A6): "−1 per failure, +ratio per success, allowed above half of max"."""

    maximum: int = 10
    ratio: float = 0.1
    balance: int = -1

    def __post_init__(self) -> None:
        """It starts full."""
        self.balance = self.maximum * MICRO

    def withdraw(self, now: int, kind: str, calls: int, counted: bool = True) -> Charge | None:
        """As written: "A retry is paid with the token that its failure took, or takes one itself"."""
        left = self.balance if counted else self.balance - MICRO
        if 2 * left <= self.maximum * MICRO:
            return None
        paid = Charge(self.balance - left, now)
        self.balance = left
        return paid

    def withdraw_hedge(self, now: int, calls: int) -> Charge | None:
        """As written: "while more than half is left, and a whole one"."""
        if 2 * self.balance <= self.maximum * MICRO or self.balance < MICRO:
            return None
        self.balance -= MICRO
        return Charge(MICRO, now)

    def refund(self, charge: Charge, now: int) -> None:
        """What the retry itself took comes back; what its failure took does not."""
        self.balance = min(self.maximum * MICRO, self.balance + charge.cost)

    def success(self, last: Charge | None) -> None:
        """Ratio per success."""
        self.balance = min(self.maximum * MICRO, self.balance + int(self.ratio * MICRO + 0.5))

    def failure(self) -> None:
        """One per failure."""
        self.balance = max(0, self.balance - MICRO)

    def debt(self, now: int) -> Debt:
        """What is missing to the full."""
        return self.maximum * MICRO - self.balance, NEVER

    def owe(self, debt: Debt, now: int) -> None:
        """At least so much is missing."""
        self.balance = min(self.balance, max(0, self.maximum * MICRO - debt[0]))


@dataclass
class Quota(NoBudget):
    """2.14: "success refunds the cost of the call's last retry only, a first-try success 1"."""

    capacity: int = 500
    cost: int = 5
    timeout_cost: int = 10
    throttled_cost: int = 5
    balance: int = -1

    def __post_init__(self) -> None:
        """It starts full."""
        self.balance = self.capacity

    def withdraw(self, now: int, kind: str, calls: int, counted: bool = True) -> Charge | None:
        """The price depends on what went wrong."""
        cost = {"timeout": self.timeout_cost, "throttled": self.throttled_cost}.get(kind, self.cost)
        if cost > self.balance:
            return None
        self.balance -= cost
        return Charge(cost, now)

    def refund(self, charge: Charge, now: int) -> None:
        """What was paid comes back."""
        self.balance = min(self.capacity, self.balance + charge.cost)

    def success(self, last: Charge | None) -> None:
        """Refunds the last retry, or adds one for a first try."""
        self.balance = min(self.capacity, self.balance + (1 if last is None else last.cost))

    def debt(self, now: int) -> Debt:
        """What is missing to the full."""
        return self.capacity - self.balance, NEVER

    def owe(self, debt: Debt, now: int) -> None:
        """At least so much is missing."""
        self.balance = min(self.balance, max(0, self.capacity - debt[0]))
