"""Sets of limits (3.4), weights (3.5), and what attempts reserve and settle (3.6), in exact fractions."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import answers
from budgets import NEVER, Debt
from call import MAX_PARK, OVERDUE, Attempt, Call, Step, earliest, later, span
from estimates import Estimate
from levels import Level
from order import Order
from rates import Tokens
from windows import WallClock, Windowed

if TYPE_CHECKING:
    from engine import Engine
    from policy import LimitKeys, RateLimit

UNSERVED = ("never_sent", "throttled", "conflict", "permanent")
"""3.6.4: after these an attempt without a total counts nothing."""


MEASURES = ("requests", "tokens", "input-tokens", "output-tokens")
"""3.7.2: "another weight learns nothing"; to a set without any of them nothing is reported."""


@dataclass
class Reservation:
    """What an attempt has taken of each weight, and what its host has told so far."""

    amounts: dict[str, int]
    totals: dict[str, int] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)
    """What the call has named; without it nothing is learned (3.9.2)."""


class Several:
    """In the place of a bucket: a set has one for each limit, and asks them itself."""

    def take(self, cost: int, now: int) -> bool:
        """Never asked."""
        raise AssertionError("a set takes from its limits")

    def wait_for(self, tokens: int, now: int) -> int:
        """Never asked."""
        raise AssertionError("a set asks its limits")


class Limits(Tokens):
    """A set, and its one queue (3.4.4)."""

    def __init__(self, keys: RateLimit, now: int, wall: WallClock) -> None:
        super().__init__(Several(), None)
        self.limits: list[tuple[LimitKeys, Level]] = [
            (limit, new_level(limit, now, wall)) for limit in keys.limits
        ]
        self.unknown_is_zero = keys.unknown_is_zero
        measured = [(limit.weight or "requests").replace("_", "-") in MEASURES for limit in keys.limits]
        self.learns = keys.learns and any(measured)
        self.estimates: dict[str, Estimate] = {}
        if keys.quantile is not None:
            self.estimates = {weight: Estimate(keys.quantile) for weight in self.weights()}
        self.order = None if keys.order is None else Order(keys.order)
        # 3.7.5: what answers may still take away, which comes back half as fast as tokens flow in.
        self.spared = [Level(limit.permits, 2 * limit.per, limit.burst, now) for limit in keys.limits]

    def weights(self) -> set[str]:
        """The names that calls may give amounts for."""
        return {limit.weight for limit, _ in self.limits if limit.weight is not None}

    def amounts(self, named: dict[str, int] | None) -> dict[str, int] | None:
        """3.5.3; None where a weight has neither an amount nor a default."""
        if named is None or not set(named) <= self.weights():
            named = {}
        found = {}
        for weight in self.weights():
            usual = [it.default for it, _ in self.limits if it.weight == weight and it.default is not None]
            if weight not in named and not usual:
                return None
            found[weight] = named[weight] if weight in named else max(usual)
        return found

    def costs(self, call: Call) -> list[int]:
        """3.5.1: in the order of the limits."""
        return [
            call.request.cost if limit.weight is None else call.amounts[limit.weight]
            for limit, _ in self.limits
        ]

    def weigh(self, call: Call) -> bool:
        """3.5.4: gives a call its weights; False if it takes more than a burst, or has no amount."""
        amounts = self.amounts(call.request.weights)
        if amounts is None:
            return False
        call.named = call.amounts = amounts
        fits = all(cost <= it.burst for cost, (_, it) in zip(self.costs(call), self.limits, strict=True))
        if fits and self.estimates:  # 3.9.5: once for all attempts
            call.amounts = {weight: self.scaled(weight, amount) for weight, amount in amounts.items()}
        return fits

    def scaled(self, weight: str, amount: int) -> int:
        """3.9.3 and 3.9.4: within the smallest of the bursts."""
        least = min(level.burst for limit, level in self.limits if limit.weight == weight)
        return self.estimates[weight].reserve(amount, least)

    def wait_of(self, calls: list[Call], now: int) -> int:
        """Until the tokens of all these would be there: the latest of the limits' turns (3.4.5)."""
        waits = []
        for at, (_, level) in enumerate(self.limits):
            waits.append(level.wait_for(sum(self.costs(call)[at] for call in calls), now))
        return max(waits)

    def taken(self, call: Call, now: int) -> bool:
        """3.4.3: all or none."""
        if self.wait_of([call], now) > 0:
            return False
        for cost, (_, level) in zip(self.costs(call), self.limits, strict=True):
            assert level.take(cost, now) is None
        call.reserved = Reservation(dict(call.amounts), named=dict(call.named)) if call.amounts else None
        return True

    def take_at_once(self, call: Call, now: int) -> bool:
        """Nobody passes those who wait."""
        return not self.queue and self.taken(call, now)

    def came_back(self, engine: Engine, now: int) -> None:
        """3.6.3: to the waiters; a head that must still wait is woken, because its turn is earlier now."""
        head = self.head()
        self.hand_out(engine, now, None)
        if head is not None and self.head() is head:
            engine.wake(head, None)

    def hand_out(self, engine: Engine, now: int, own: Call | None) -> None:
        """3.4.4: to the head, while all limits have its tokens; then the new head is woken."""
        moved = False
        while (head := self.head()) is not None:
            if head.deadline is not None and now >= head.deadline:
                self.remove(head)
                engine.refuse(head, "deadline_queued", now, own)
            elif self.taken(head, now):
                self.serve(head)
                self.queue.remove(head)
                head.state = "granted"
                engine.wake(head, own)
            else:
                break
            moved = True
        if moved and head is not None:
            engine.wake(head, own)

    def leave(self, engine: Engine, call: Call, now: int) -> None:
        """A waiter leaves without tokens."""
        if call in self.queue:
            self.remove(call)
            self.wake_head(engine, now)

    def park(self, call: Call, keys: RateLimit, now: int) -> None:
        """The last in the queue: its `max_wait` bounds the true wait."""
        call.patience = earliest(call.deadline, later(now, keys.max_wait))
        call.over = later(call.patience, OVERDUE)
        self.queue.append(call)

    def turn_in_queue(self, call: Call, now: int) -> int:
        """3.4.5: "behind the head it is an estimate", after all tokens that are queued."""
        return self.wait_of([call] if self.head() is call else self.queue, now)

    # ---- the order of the queue (3.10); `queue` is in the order of arrival ----

    def head(self) -> Call | None:
        """3.4.4, 3.10.4: the next waiter."""
        return super().head() if self.order is None else self.order.head()

    def remove(self, call: Call) -> None:
        """A waiter leaves without tokens."""
        self.queue.remove(call)
        if self.order is not None:
            self.order.leave(call)

    def serve(self, call: Call) -> None:
        """3.10.6: it is charged the longest time that a limit takes to bring its tokens."""
        if self.order is not None:
            times = [
                math.ceil(Fraction(cost * limit.per, limit.permits))
                for cost, (limit, _) in zip(self.costs(call), self.limits, strict=True)
            ]
            self.order.serve(call, max(times))

    def take_in_order(self, call: Call, now: int) -> bool:
        """3.10.9: a newcomer, which is among the waiters already, where it is the first of them."""
        assert self.order is not None
        if self.order.head() is not call or not self.taken(call, now):
            return False
        self.serve(call)
        return True

    def least_wait(self, call: Call, now: int) -> int:
        """3.10.10: behind the waiters of its own criticality and key alone."""
        assert self.order is not None
        return self.wait_of(self.order.of(self.order.flow_of(call)), now)

    def step(self, call: Call, now: int) -> Step:
        """When a waiter looks again."""
        turn = now + self.turn_in_queue(call, now)
        turn = turn if self.head() is call else max(turn, now + 1)
        until = earliest(turn, call.patience, now + MAX_PARK)
        return {"action": "wait", "why": "rate", "next_us": span(until, now), "stop": 0}

    # ---- what attempts have used ----

    def tell(self, reserved: Reservation, weight: str, total: int, now: int) -> None:
        """3.6.2: "What exceeds the reservation is charged at once"."""
        before = reserved.totals.get(weight)
        if before is not None and total <= before:
            return
        charged = max(reserved.amounts[weight], before or 0)
        reserved.totals[weight] = total
        for limit, level in self.limits:
            if limit.weight == weight and total > charged:
                level.charge(total - charged, limit.max_debt, now)

    def settle_one(self, reserved: Reservation, kind: str | None, now: int) -> bool:
        """3.6.3, 3.6.4; `kind` None: nobody knows how it ended. Did any come back?"""
        nothing = self.unknown_is_zero or kind in UNSERVED
        back = False
        for weight, total in reserved.totals.items() if reserved.named else ():
            if weight in self.estimates:
                self.estimates[weight].note(total, reserved.named[weight])
        for limit, level in self.limits:
            if limit.weight is None:
                continue
            kept = reserved.amounts[limit.weight]
            used = reserved.totals.get(limit.weight, 0 if nothing else kept)
            if kept > used:
                level.give_back(kept - used, now)
                back = True
        return back

    def learn(self, left: dict[str, int], now: int) -> None:
        """3.7.1 to 3.7.5."""
        for measure, rest in left.items():
            those = [
                (limit.per, at)
                for at, (limit, _) in enumerate(self.limits)
                if (limit.weight or "requests").replace("_", "-") == measure
            ]
            if not those:
                continue
            at = min(those)[1]
            level, spared = self.limits[at][1], self.spared[at]
            level.refill(now)
            spared.refill(now)
            taken = min(math.floor(level.tokens) - rest, math.floor(spared.tokens))
            if taken > 0:
                level.tokens -= taken
                spared.tokens -= taken

    def in_debt(self, now: int) -> bool:
        """3.6.8; a look changes nothing."""
        looked = [copy.copy(level) for _, level in self.limits]
        for level in looked:
            level.refill(now)
        return any(level.tokens < 0 for level in looked)

    # ---- what an evicted route owes ----

    def owed_by_waiters(self, now: int) -> Debt:
        """0.5: with the tokens that waiters will take."""
        return self.debt(now, waiters=True)

    def debt(self, now: int, waiters: bool = False) -> Debt:
        """When all limits will be full."""
        waits, shares = [], []
        for at, level in enumerate(copy.copy(level) for _, level in self.limits):
            queued = sum(self.costs(call)[at] for call in self.queue) if waiters else 0
            waits.append(level.wait_for(level.burst + queued, now))
            shares.append(level.share(queued, now))
        return (1 + max(shares) if max(waits) > 0 else 0, min(NEVER, now + max(waits)))

    def owe(self, debt: Debt, now: int) -> None:
        """Each limit is not full before."""
        for _, level in self.limits:
            if isinstance(level, Windowed):
                level.owe_share(debt[0] - 1, now)
                continue
            level.refill(now)
            missing = Fraction((debt[1] - level.now) * level.permits, level.per)
            level.tokens = min(level.tokens, max(Fraction(0), level.burst - missing))


def new_level(limit: LimitKeys, now: int, wall: WallClock) -> Level:
    """3.8.1: with windows or without."""
    if limit.anchor is None:
        return Level(limit.permits, limit.per, limit.burst, now)
    return Windowed(limit.permits, limit.per, limit.burst, now, anchor=limit.anchor, wall=wall)


def of(call: Call) -> Limits | None:
    """The set of a call's route."""
    return call.route.rate if isinstance(call.route.rate, Limits) else None


def start(call: Call, attempt: Attempt) -> None:
    """The attempt that starts has what was reserved for it."""
    attempt.reserved, call.reserved = call.reserved, None


def settle(engine: Engine, call: Call, attempts: list[Attempt], kind: str | None, now: int) -> None:
    """3.6.7: once; what comes back goes to the waiters when all have been settled."""
    limits, back = of(call), False
    for attempt in sorted(attempts, key=lambda it: -it.number):  # 3.9.2: the newest first
        reserved, attempt.reserved = attempt.reserved, None
        if limits is not None and reserved is not None:
            back = limits.settle_one(reserved, kind, now) or back
    if limits is not None and back:
        limits.came_back(engine, now)


def give_up(engine: Engine, call: Call, now: int) -> None:
    """Stopped attempts that need no report have ended."""
    if call.request.abortable:
        settle(engine, call, call.stopped, None, now)


def give_back(engine: Engine, call: Call, now: int) -> None:
    """3.6.4: "nothing where it did not start"."""
    limits, reserved = of(call), call.reserved
    call.reserved = None
    if limits is None or reserved is None:
        return
    nothing = Reservation(reserved.amounts, dict.fromkeys(reserved.amounts, 0))
    if limits.settle_one(nothing, None, now):
        limits.came_back(engine, now)


def out_of_patience(call: Call, now: int) -> bool:
    """3.4.5: "a waiter whose `max_wait` has passed"."""
    return of(call) is not None and call.patience is not None and now >= call.patience


def turn(call: Call, now: int) -> int:
    """When its tokens would be there."""
    limits = of(call)
    assert limits is not None
    return limits.turn_in_queue(call, now)


def told(call: Call, number: int, weight: str, total: int, now: int) -> bool:
    """3.6.2: a host tells what an attempt has used so far."""
    limits = of(call)
    found = next((it for it in [*call.live, *call.stopped] if it.number == number), None)
    if limits is None or found is None or found.reserved is None or weight not in found.reserved.amounts:
        return False
    limits.tell(found.reserved, weight, total, now)
    return True


def heard(engine: Engine, call: Call, headers: list[tuple[str, str]], moment: int) -> None:
    """3.7.6: a host reports the head of an answer."""
    limits = of(call)
    found = answers.quotas(headers, 0)
    left = {measure: quota["remaining"] for measure, quota in found.items() if "remaining" in quota}
    if limits is not None and limits.learns and call.state not in ("gone", "ended", "lost") and left:
        limits.learn(left, engine.clock(moment))
