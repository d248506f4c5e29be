"""The arena, what is given back when a call ends, and leases (rules R1, R6, R9; ADR 0005)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import evidence
import sets
import targets
from call import OVERDUE, Call, Step, done, earliest

if TYPE_CHECKING:
    from engine import Engine


def enter(engine: Engine, call: Call, now: int) -> None:
    """Its deadline, its parent, and a slot of the arena, the one freed last if there is any."""
    policy, request, parent = call.route.policy, call.request, call.request.parent
    spans = [span for span in (policy.deadline, request.remaining) if span is not None]
    call.deadline = now + min(spans) if spans else None
    if parent is not None and parent.state not in ("gone", "ended", "lost"):  # R1: else "the id is stale"
        call.parent = parent
        parent.children += 1
        parent.inner = False
        call.nested = parent.nested or parent.route.policy.max_attempts > 1
        call.deadline = earliest(call.deadline, parent.deadline)  # 7.3: "deadlines nest: the earlier wins"
    if engine.free:
        call.slot = engine.free.pop()
        engine.arena[call.slot] = call
    else:
        call.slot = len(engine.arena)
        engine.arena.append(call)
    engine.routes.enter(call.route)
    for ledger in call.route.ledgers():
        ledger.calls += 1


def end(
    engine: Engine, call: Call, verdict: str, result: int | None, retry_in: int | None, now: int, stop: int
) -> Step:
    """R1: the one `Done`. What still runs is stopped."""
    if call.attempt == 0 and verdict != "cancelled" and call.parent is not None:
        call.parent.inner = True
    leave_rates(engine, call, now)
    targets.leave(engine, call, now)
    sets.give_back(engine, call, now)
    targets.give_up(engine, call, now)
    engine.refund(call, now)
    for attempt in list(call.live):
        stop |= engine.stop(call, attempt, now, evidence.CUT)
    sets.give_up(engine, call, now)
    evidence.neutral(call, now)
    leave(engine, call, verdict == "ok", now)
    call.state = "ended"
    call.over = now + OVERDUE if call.out() else None
    bulkhead = call.route.policy.bulkhead
    if not call.children and bulkhead is not None and bulkhead.per_attempt:
        pass_on(engine, call, now)  # R6: the permit of an attempt that will not start
    keep_one(call)
    engine.free_loose(call, now)
    settle(engine, call, now)
    return done(verdict, result, retry_in, stop)


def keep_one(call: Call) -> None:
    """Calls within it go on under a permit of it (13.4.15, ADR 0005)."""
    loose = [attempt for attempt in call.loose if attempt.permit is not None]
    if call.children and call.permit is None and loose:
        call.permit, loose[0].permit = loose[0].permit, None


def leave(engine: Engine, call: Call, well: bool, now: int) -> None:
    """Out of every queue, and out of the place of a hold."""
    route = call.route
    leave_rates(engine, call, now)
    if route.permits is not None and call in route.permits.queue:
        route.permits.remove(call, now)
    if call.hold is not None:
        hold, call.hold = call.hold, None
        hold.leave(engine, call, well, now)
    if route.cooldown is not None:
        route.cooldown.leave(engine, call, now)


def leave_rates(engine: Engine, call: Call, now: int) -> None:
    """Out of the queues for tokens."""
    for tokens in (call.route.rate, call.route.send):
        if tokens is not None:
            tokens.leave(engine, call, now)


def settle(engine: Engine, call: Call, now: int) -> None:
    """ADR 0005: an ended call lingers until its attempts are reported and its nested calls have ended."""
    if call.state == "ended" and not call.out() and not call.children:
        release(engine, call, now)


def release(engine: Engine, call: Call, now: int) -> None:
    """Gives everything back: slot, permit (R2, R6), and the place under the parent."""
    call.state = "gone"
    engine.arena[call.slot] = None
    engine.free.append(call.slot)
    for ledger in call.route.ledgers():
        ledger.calls -= 1
    pass_on(engine, call, now)
    engine.routes.leave(call.route, now)
    if call.parent is not None:
        call.parent.children -= 1
        settle(engine, call.parent, now)


def pass_on(engine: Engine, call: Call, now: int) -> None:
    """R2: "a freed permit changes owner inside the step that freed it"."""
    permits, call.permit = call.permit, None
    if permits is not None:
        permits.give_back(engine, now)


def reap_two(engine: Engine, now: int, but: Call | None) -> None:
    """R9: two slots of the arena are looked at, round robin."""
    for _ in range(min(2, len(engine.arena))):
        call = engine.arena[engine.cursor]
        engine.cursor = (engine.cursor + 1) % len(engine.arena)
        if call is None or call is but:
            continue
        over = call.over
        if call.state == "backoff" and engine.blocked(call):  # it was told to come when those are given up
            over = max(call.retry_at, call.given_up) + OVERDUE
        if over is not None and now >= over:
            reap(engine, call, now)


def reap(engine: Engine, call: Call, now: int) -> None:
    """The host has not come in time."""
    if call.state == "lost":
        if not call.children:
            release(engine, call, now)
    elif call.state == "ended":
        sets.settle(engine, call, call.stopped, None, now)
        call.loose += call.stopped
        call.stopped.clear()
        call.over = None
        keep_one(call)
        engine.free_loose(call, now)
        settle(engine, call, now)
    else:
        targets.leave(engine, call, now)
        engine.refund(call, now)
        for attempt in list(call.live):
            engine.stop(call, attempt, now, evidence.CUT)
        targets.give_up(engine, call, now)
        leave_rates(engine, call, now)
        sets.settle(engine, call, call.stopped, None, now)
        sets.give_back(engine, call, now)
        evidence.neutral(call, now)
        leave(engine, call, False, now)
        call.loose += call.stopped
        call.stopped.clear()
        call.state = "lost"
        call.over = now + OVERDUE
        engine.free_loose(call, now)
        pass_on(engine, call, now)
