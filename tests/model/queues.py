"""Permits, and the queue for them (spec 4, rules R2, R6, R9)."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING

from aimd import Aimd
from call import OVERDUE, UNCLAIMED, Call, earliest
from gradient2 import VARIANTS
from shedding import SCALES, Facebook, Rfc8289

if TYPE_CHECKING:
    from engine import Engine
    from policy import Bulkhead


class Permits:
    """A bulkhead: how many may be out, how many are, and who waits."""

    def __init__(self, keys: Bulkhead, now: int) -> None:
        self.keys = keys
        self.in_flight = 0
        self.queue: list[Call] = []
        self.granted: list[Call] = []
        settings = asdict(keys)
        self.aimd = Aimd(settings) if keys.kind == "aimd" else None
        self.gradient = VARIANTS[keys.variant](settings) if keys.kind == "gradient2" else None
        if keys.codel == "rfc8289" and keys.queue_target is not None:
            self.codel: Facebook = Rfc8289(keys.queue_target, keys.queue_interval, now)
        else:
            self.codel = Facebook(keys.queue_target, keys.queue_interval, now)

    def limit(self) -> int:
        """How many permits there are; what follows latencies shows its whole part."""
        if self.aimd is not None:
            return int(self.aimd.limit)
        return self.keys.max_concurrency if self.gradient is None else int(self.gradient.limit)

    def follows_loss(self) -> bool:
        """4.6: do throttled attempts cut the limit?"""
        return self.aimd is not None and self.aimd.signal() != "latency"

    # ---- coming ----

    def arrive(self, now: int) -> None:
        """The queue "is empty" at the moment a newcomer finds it so."""
        if not self.queue:
            self.codel.on_empty(now)

    def at_once(self) -> bool:
        """A permit for one that does not queue: nobody passes those who wait."""
        if self.queue or self.in_flight >= self.limit():
            return False
        self.in_flight += 1
        return True

    def full(self) -> bool:
        """No more places to wait?"""
        return self.keys.max_queue is not None and len(self.queue) >= self.keys.max_queue

    def victim(self, newcomer: Call) -> Call | None:
        """As written: "The oldest of the lowest criticality that is lower than the newcomer's"."""
        if not self.keys.prioritized or not self.queue:
            return None
        lowest = min(waiter.request.criticality for waiter in self.queue)
        if lowest >= newcomer.request.criticality:
            return None
        return next(waiter for waiter in self.queue if waiter.request.criticality == lowest)

    def enqueue(self, call: Call, now: int) -> None:
        """By arrival; `prioritized`: by moment and ordinal."""
        call.arrived = now
        self.queue.append(call)
        if self.keys.prioritized:
            self.queue.sort(key=lambda waiter: (waiter.arrived, waiter.ordinal))

    def remove(self, call: Call, now: int) -> None:
        """One leaves the queue."""
        self.queue.remove(call)
        if not self.queue:
            self.codel.on_empty(now)

    # ---- going ----

    def hand_out(self, engine: Engine, now: int) -> None:
        """R2: "a freed permit changes owner inside the step that freed it"; all that can be handed out is."""
        while self.queue and self.in_flight < self.limit():
            newest = self.keys.lifo and self.codel.congested(now)
            waiter = self.queue[-1 if newest else 0]
            if impatient(waiter, now):  # 4.4: "is failed, not granted"
                self.remove(waiter, now)
                engine.refuse(waiter, out_of_patience(waiter), now, None)
            elif self.codel.should_shed(now - waiter.arrived, self.scale(waiter), now):
                self.remove(waiter, now)
                engine.refuse(waiter, "queue_shed", now, None)
            else:
                self.remove(waiter, now)
                waiter.state, waiter.permit = "granted", self
                waiter.over = now + UNCLAIMED
                self.granted.append(waiter)
                self.in_flight += 1
                engine.wake(waiter, None)

    def scale(self, waiter: Call) -> Fraction:
        """What its criticality makes of the allowance."""
        return SCALES[waiter.request.criticality] if self.keys.prioritized else Fraction(1)

    def give_back(self, engine: Engine, now: int) -> None:
        """A permit comes back, and goes on."""
        self.in_flight -= 1
        self.hand_out(engine, now)

    def revoke(self, engine: Engine, now: int) -> None:
        """R9: "reaped by the next event that touches it": grants that nobody claimed in 5 s."""
        while self.granted:
            call = self.granted[0]
            claimed = call.state != "granted" or call.permit is not self
            if not claimed and (call.over is None or now < call.over):
                return
            self.granted.pop(0)
            if not claimed:
                engine.reap(call, now)

    # ---- what it learns ----

    def learn(self, engine: Engine, kind: str, took: int, started: int, now: int) -> None:
        """The columns for AIMD and Gradient2 of 1.2; what has grown is handed out at once."""
        if self.aimd is not None:
            if kind == "ok":
                self.aimd.latency(took, now, self.in_flight)
            elif kind == "throttled":
                self.aimd.throttled(started, now)
            elif kind in ("transient", "permanent"):
                self.aimd.failure(took, now)
            elif kind == "timeout":
                self.aimd.timeout(now)
        if self.gradient is not None:
            if kind == "ok":
                self.gradient.latency(took, started, self.in_flight, now)
            elif kind in ("timeout", "throttled"):
                self.gradient.drop(started, self.in_flight, now)
        self.hand_out(engine, now)


def impatient(call: Call, now: int) -> bool:
    """Has this waiter's patience ended: its `acquire_timeout` or its deadline?"""
    until = earliest(call.patience, call.deadline)
    return until is not None and now >= until


def out_of_patience(call: Call) -> str:
    """Which of the two ended it: the earlier, and the deadline where they are the same."""
    if call.deadline is not None and (call.patience is None or call.deadline <= call.patience):
        return "deadline_queued"
    return "acquire_timeout"


def overdue(call: Call) -> int | None:
    """R9: "a waiter is overdue 60 s after its patience"."""
    until = earliest(call.patience, call.deadline)
    return None if until is None else until + OVERDUE
