"""Cooldown (spec 16): who may start an attempt after a throttled one, and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rng
from call import Attempt, Call, Step, earliest, later
from classify import Outcome

if TYPE_CHECKING:
    from engine import Engine
    from policy import CooldownKeys


class Cooldown:
    """Open, or closed until a moment and then with places."""

    def __init__(self, keys: CooldownKeys) -> None:
        self.keys = keys
        self.open = True
        self.until = 0
        self.closed_at: int | None = None
        self.row = 0
        self.places = 1
        self.leases: dict[int, int] = {}
        self.in_flight = 0
        self.given = 0
        self.forgiven = False
        self.returning: list[Call] = []
        self.arriving: list[Call] = []

    def waiting(self) -> int:
        """How many calls wait."""
        return len(self.returning) + len(self.arriving)

    def left(self, now: int) -> int | None:
        """What is left of a closing."""
        return self.until - now if not self.open and now < self.until else None

    def has_room(self, now: int) -> bool:
        """Is a place free?"""
        return sum(1 for end in self.leases.values() if now < end) < self.places

    def place(self, now: int) -> int | None:
        """A place for one more attempt, if there is any; 0 where none is needed."""
        if self.open:
            return 0
        self.leases = {number: end for number, end in self.leases.items() if now < end}
        if self.left(now) is not None or len(self.leases) >= self.places:
            return None
        self.given += 1
        self.leases[self.given] = now + self.keys.lease
        return self.given

    def throttled(
        self, started: int, asked: int | None, in_flight: int, bits: int, now: int, lenient: bool = False
    ) -> None:
        """16.2, and 4.6.7 where it is lenient."""
        before = self.closed_at is not None and started <= self.closed_at
        if before and asked is None:
            return
        if asked is None and lenient and not self.forgiven:
            self.forgiven = True
            return
        span = min(self.keys.max, self.keys.base * 2**self.row if asked is None else asked)
        if self.shut(before, span, in_flight, bits, now) and not before:
            self.row = min(32, self.row + 1)

    def spent(self, started: int, asked: int | None, in_flight: int, bits: int, now: int) -> None:
        """16.2.6: a quota is spent, or a key is none."""
        wait = self.keys.quota_wait
        before = self.closed_at is not None and started <= self.closed_at
        if wait is None or (before and asked is None):
            return
        span = min(max(self.keys.max, wait), wait if asked is None else asked)
        self.shut(before, span, in_flight, bits, now)

    def shut(self, before: bool, span: int, in_flight: int, bits: int, now: int) -> bool:
        """16.2.3, 16.2.4. Did it close, or put off the end?"""
        end = now + span + rng.uniform(bits, 0, span // 10)
        if before and end <= self.until:
            return False
        if not before:
            self.closed_at, self.in_flight = now, in_flight
        self.forgiven = False
        self.until = max(self.until, end)
        self.open, self.places, self.leases = False, 1, {}
        return True

    def good(self, started: int, place: int, most: int) -> None:
        """16.2.2, 16.5."""
        self.forgiven = False
        if self.closed_at is None or started > self.closed_at:
            self.row = 0
        if self.open or place not in self.leases:
            return
        del self.leases[place]
        self.places += 1
        if self.places >= most:
            self.open, self.leases = True, {}

    def let_in(self, engine: Engine, now: int, own: Call | None) -> None:
        """As written: "When the closing is over, the heads take the free places"."""
        while self.waiting() and self.left(now) is None:
            head = (self.returning or self.arriving)[0]
            late = head.patience is not None and now >= head.patience
            place = 0 if late else self.place(now)
            if place is None:
                return
            (self.returning if head in self.returning else self.arriving).remove(head)
            if late:
                out = head.deadline is not None and now >= head.deadline
                engine.refuse(head, "deadline_queued" if out else "cooldown", now, own)
            else:
                head.place, head.state = place, "granted"
                engine.wake(head, own)

    def leave(self, engine: Engine, call: Call, now: int) -> None:
        """A call ends: out of its list, and its place is free."""
        listed = next((one for one in (self.returning, self.arriving) if call in one), None)
        if listed is not None:
            listed.remove(call)
            self.let_in(engine, now, None)
        free(engine, call, now)


def free(engine: Engine, call: Call, now: int) -> None:
    """16.5.2: "any other end … frees its place"."""
    cooldown, place = call.route.cooldown, call.place
    call.place = 0
    if cooldown is not None and place:
        cooldown.leases.pop(place, None)
        cooldown.let_in(engine, now, None)


def attempt_over(engine: Engine, call: Call, attempt: Attempt, outcome: Outcome, now: int) -> None:
    """What an attempt that was not throttled tells."""
    cooldown = call.route.cooldown
    if cooldown is None or outcome.kind == "throttled":
        return
    if outcome.kind != "ok":
        free(engine, call, now)
        return
    was_open, place = cooldown.open, call.place
    call.place = 0
    permits = call.route.permits
    cooldown.good(attempt.started, place, cooldown.in_flight if permits is None else permits.limit())
    if not was_open:
        cooldown.let_in(engine, now, None)


def close(engine: Engine, call: Call, attempt: Attempt, outcome: Outcome, now: int) -> None:
    """16.2: an attempt was throttled, or its quota was spent."""
    cooldown = call.route.cooldown
    if cooldown is None:
        return
    if outcome.kind == "throttled":
        throttled(engine, call, attempt, outcome, now)
    if is_spent(call, outcome):
        bits = rng.bits(engine.seed, call.ordinal, rng.COOLDOWN, attempt.number)
        in_flight = max(1, call.route.active - cooldown.waiting())
        cooldown.spent(attempt.started, outcome.retry_after, in_flight, bits, now)
        cooldown.let_in(engine, now, None)


def is_spent(call: Call, outcome: Outcome) -> bool:
    """16.2.6: by the kinds of 15.5.2."""
    return call.route.policy.read_errors and outcome.name in ("quota_spent", "unauthorized")


def throttled(engine: Engine, call: Call, attempt: Attempt, outcome: Outcome, now: int) -> None:
    """16.2.1 to 16.2.5."""
    cooldown = call.route.cooldown
    assert cooldown is not None
    if not call.inner:  # else "a policy refused" it, and nothing was heard of the server
        bits = rng.bits(engine.seed, call.ordinal, rng.COOLDOWN, attempt.number)
        in_flight = max(1, call.route.active - cooldown.waiting())
        permits = call.route.permits
        lenient = permits is not None and permits.follows_loss()
        cooldown.throttled(attempt.started, outcome.retry_after, in_flight, bits, now, lenient)
    free(engine, call, now)
    cooldown.let_in(engine, now, None)


def ask(engine: Engine, call: Call, returns: bool, now: int) -> int | None:
    """None: the attempt may start, as far as this is concerned. Else when another try makes sense."""
    cooldown = call.route.cooldown
    assert cooldown is not None
    left = cooldown.left(now)
    if left is not None:
        return left
    around, within = call.parent, False
    for _ in range(8):
        within = within or (around is not None and around.route is call.route)
        around = None if around is None else around.parent
    if cooldown.open or within or (call.place in cooldown.leases and now < cooldown.leases[call.place]):
        return None
    if cooldown.returning or (cooldown.arriving and not returns):
        return 0
    place = cooldown.place(now)
    if place is None:
        return min(cooldown.leases.values()) - now
    call.place = place
    return None


def park(engine: Engine, call: Call, span: int, returns: bool, now: int) -> tuple[str, int] | Step:
    """16.4: it waits, or it is refused."""
    cooldown, keys = call.route.cooldown, call.route.policy.cooldown
    assert cooldown is not None and keys is not None
    first, left = call.attempt == 0, cooldown.left(now)
    in_vain = left is not None and (
        (call.deadline is not None and now + left >= call.deadline)
        or (first and keys.max_wait is not None and left > keys.max_wait)
    )
    full = not returns and cooldown.waiting() >= keys.max_waiters
    if not call.request.may_park or (first and (not keys.wait or full)) or in_vain:
        return "cooldown", span
    call.patience = earliest(call.deadline, later(now, keys.max_wait) if first else None)
    (cooldown.returning if returns else cooldown.arriving).append(call)
    call.state, call.why = "waiting", "cooldown"
    return engine.parked(call, now)
