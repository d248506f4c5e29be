"""The stages that a call passes before an attempt (semantics 13.1 and 13.2).

Each stage answers None where the call may go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import cooldown as cooling
import evidence
import sets
import targets
from call import Call, Step, later
from holds import Hold
from queues import Permits

if TYPE_CHECKING:
    from engine import Engine
    from policy import RateLimit
    from rates import Tokens

STAGES = ["look", "hold", "cooldown", "rate", "queue", "again", "guard", "send", "last", "target"]
MAX_WAITERS = 1000
"""Of a send rate."""


def proceed(engine: Engine, call: Call, first: str, now: int) -> Step:
    """From this stage on."""
    for name in STAGES[STAGES.index(first) :]:
        step = ASK[name](engine, call, now)
        if step is not None:
            return step
    return engine.start(call, now)


def after(why: str) -> str:
    """The stage that comes after the one it waited for."""
    return STAGES[STAGES.index(why) + 1]


def refuse(engine: Engine, call: Call, verdict: str, retry_in: int | None, now: int) -> Step:
    """As written: "Any refusal there is `readmission`, with the last failure as the result"."""
    if call.attempt == 0:
        return engine.end(call, verdict, None, retry_in, now)
    return engine.end_with_last(call, "readmission", retry_in, now)


def park(engine: Engine, call: Call, why: str, now: int) -> Step:
    """It waits, and its owner is told why and until when."""
    call.state, call.why = "waiting", why
    return engine.parked(call, now)


def asked(call: Call, per_attempt: bool) -> bool:
    """Before attempts 2 and up only what has `unit = "attempt"` is asked again."""
    return call.attempt == 0 or per_attempt


def look(engine: Engine, call: Call, now: int) -> Step | None:
    """The early look "costs nothing and refuses where an admission now would be refused"."""
    group = call.route.group
    if group is not None and not targets.could_pass(engine, call, now):  # 17.3.4
        return refuse(engine, call, group.verdict(call, now), group.earliest(call, now), now)
    breaker, keys = call.route.breaker, call.route.policy.breaker
    if breaker is None or keys is None or not asked(call, keys.per_attempt):
        return None
    wait = breaker.refusal(now)
    return None if wait is None else refuse(engine, call, "breaker_open", wait, now)


def hold(engine: Engine, call: Call, now: int) -> Step | None:
    """2.19; "hold is not" asked again."""
    holds, path = call.route.holds, call.request.path
    if holds is None or path is None or call.attempt > 0:
        return None
    holds.look(now)
    found: Hold | None = holds.match(path)
    if found is None:
        return None
    found.hand_out(engine, now, None)
    if found.free(now) and not found.queue:
        found.taken += 1
        call.hold = found
        return None
    full = holds.waiting() >= call.route.policy.max_held or not call.request.may_park
    if full or (call.deadline is not None and found.moment >= call.deadline):
        return refuse(engine, call, "hold_full", max(0, found.moment - now), now)
    call.hold = found
    found.queue.append(call)
    return park(engine, call, "hold", now)


def cooldown(engine: Engine, call: Call, now: int) -> Step | None:
    """16.4: at its stage."""
    there = call.route.cooldown
    if there is None or there.open:
        return None
    there.let_in(engine, now, None)
    span = cooling.ask(engine, call, call.attempt > 0, now)
    return None if span is None else parked_or_refused(engine, call, span, call.attempt > 0, now)


def again(engine: Engine, call: Call, now: int) -> Step | None:
    """16.4.3: just before its attempt."""
    there, policy = call.route.cooldown, call.route.policy
    if there is None or there.open:
        return None
    span = cooling.ask(engine, call, True, now)
    if span is None:
        return None
    cooling.free(engine, call, now)
    per_attempt = policy.breaker.per_attempt if policy.breaker is not None else False
    per_attempt = policy.throttle.per_attempt if policy.throttle is not None else per_attempt
    if asked(call, per_attempt):
        evidence.neutral(call, now)
        call.probe = False
    if call.permit is not None and asked(call, policy.bulkhead is not None and policy.bulkhead.per_attempt):
        permits, call.permit = call.permit, None
        permits.give_back(engine, now)
    step = parked_or_refused(engine, call, span, True, now)
    call.keeps = call.state == "waiting"
    return step


def last(engine: Engine, call: Call, now: int) -> Step | None:
    """16.4.1: "after a wait for the send rate it looks once more"."""
    return None if call.route.send is None else again(engine, call, now)


def parked_or_refused(engine: Engine, call: Call, span: int, returns: bool, now: int) -> Step:
    """It waits, or it is refused."""
    found = cooling.park(engine, call, span, returns, now)
    return refuse(engine, call, found[0], found[1], now) if isinstance(found, tuple) else found


def rate(engine: Engine, call: Call, now: int) -> Step | None:
    """3.1."""
    tokens, keys = call.route.rate, call.route.policy.rate
    if tokens is None or keys is None or not asked(call, keys.per_attempt):
        return None
    if isinstance(tokens, sets.Limits):
        return take_set(engine, call, tokens, keys, now)
    wait = call.request.may_park and keys.wait
    return take(engine, call, tokens, "rate", keys.max_waiters if wait else 0, keys.max_wait, now)


def send(engine: Engine, call: Call, now: int) -> Step | None:
    """2.14: "the send rate always"."""
    tokens = call.route.send
    if tokens is None:
        return None
    return take(engine, call, tokens, "send", MAX_WAITERS if call.request.may_park else 0, None, now)


def target(engine: Engine, call: Call, now: int) -> Step | None:
    """17.2: "the last stage before each attempt"."""
    group = call.route.group
    if group is None:
        return None
    chosen = targets.choose(engine, call, now)
    if chosen is None:
        call.patience = group.patience(call, now)
        if call.patience is None:
            return refuse(engine, call, group.verdict(call, now), group.earliest(call, now), now)
        group.waiting.append(call)
        return park(engine, call, "target", now)
    targets.take(call, chosen, now)
    return None


def take(
    engine: Engine, call: Call, tokens: Tokens, why: str, places: int, max_wait: int | None, now: int
) -> Step | None:
    """As written: "A newcomer takes tokens where nobody waits and there are enough. Else it queues"."""
    tokens.hand_out(engine, now, None)
    if tokens.at_once(tokens.cost(call), now):
        return None
    wait = tokens.turn_in(call, now)
    too_long = max_wait is not None and wait > max_wait
    too_late = call.deadline is not None and now + wait >= call.deadline
    if len(tokens.queue) >= places or too_long or too_late:
        return refuse(engine, call, "rate_limited", wait, now)
    tokens.enqueue(call, now)
    return park(engine, call, why, now)


def take_set(engine: Engine, call: Call, limits: sets.Limits, keys: RateLimit, now: int) -> Step | None:
    """3.4.3 to 3.4.6."""
    limits.hand_out(engine, now, None)
    if limits.take_at_once(call, now):
        return None
    if limits.order is not None:
        return take_in_order(engine, call, limits, keys, now)
    wait = limits.wait_of([*limits.queue, call], now)
    too_long = keys.max_wait is not None and wait > keys.max_wait
    too_late = call.deadline is not None and now + wait >= call.deadline
    places = keys.max_waiters if call.request.may_park and keys.wait else 0
    if len(limits.queue) >= places or too_long or too_late:
        return refuse(engine, call, "rate_limited", wait, now)
    limits.park(call, keys, now)
    return park(engine, call, "rate", now)


def take_in_order(engine: Engine, call: Call, limits: sets.Limits, keys: RateLimit, now: int) -> Step | None:
    """3.10.9 to 3.10.11."""
    assert limits.order is not None
    limits.order.join(call)
    if limits.queue and limits.take_in_order(call, now):
        return None
    least = limits.least_wait(call, now)
    too_long = keys.max_wait is not None and least > keys.max_wait
    too_late = call.deadline is not None and now + least >= call.deadline
    full = len(limits.queue) >= keys.max_waiters
    victim = limits.order.victim(call) if full else None
    wait = limits.wait_of([*limits.queue, call], now)
    waits = call.request.may_park and keys.wait
    if not waits or too_long or too_late or (full and victim is None):
        limits.order.leave(call)
        return refuse(engine, call, "rate_limited", wait, now)
    if victim is not None:
        victim.again = now + limits.wait_of(limits.queue, now)
        limits.remove(victim)
        engine.refuse(victim, "rate_limited", now, None)
        if limits.take_in_order(call, now):  # the head has left
            limits.came_back(engine, now)
            return None
    limits.park(call, keys, now)
    head = limits.head()
    if victim is not None and head is not None and head is not call:
        engine.wake(head, None)
    return park(engine, call, "rate", now)


def queue(engine: Engine, call: Call, now: int) -> Step | None:
    """4.1, 4.4."""
    permits, keys = call.route.permits, call.route.policy.bulkhead
    if permits is None or keys is None or not asked(call, keys.per_attempt):
        return None
    if call.shares or any(holds(other, permits) for other in ancestors(call)):  # 0.4: "shares it"
        call.shares = True  # to its end
        return None
    permits.revoke(engine, now)
    permits.arrive(now)
    if permits.at_once():
        call.permit = permits
        return None
    full = permits.full() and not call.keeps
    victim = permits.victim(call) if full else None
    if (full and victim is None) or not call.request.may_park:
        return refuse(engine, call, "queue_full", None, now)
    if keys.acquire_timeout == 0:
        return refuse(engine, call, "acquire_timeout", None, now)
    if victim is not None:
        permits.remove(victim, now)
        engine.refuse(victim, "displaced", now, None)
    call.patience = later(now, keys.acquire_timeout)
    permits.enqueue(call, now)
    if call.keeps and not keys.prioritized:  # 16.4.3: "at the head"
        permits.queue.insert(0, permits.queue.pop())
    return park(engine, call, "queue", now)


def guard(engine: Engine, call: Call, now: int) -> Step | None:
    """5, 6: the breaker or the throttle."""
    breaker, breaker_keys = call.route.breaker, call.route.policy.breaker
    if breaker is not None and breaker_keys is not None and asked(call, breaker_keys.per_attempt):
        ticket = breaker.admit(now)
        if isinstance(ticket, int):
            return refuse(engine, call, "breaker_open", ticket, now)
        call.ticket, call.probe = ticket, ticket.probe
    throttle_keys = call.route.policy.throttle
    guarded = call.route.throttle is not None  # an overflow route has none
    if guarded and throttle_keys is not None and asked(call, throttle_keys.per_attempt):
        if not engine.throttle_admits(call, now):
            return refuse(engine, call, "throttled", throttle_keys.probe_interval, now)
        call.counted = True
    return None


def ancestors(call: Call) -> list[Call]:
    """ADR 0005: "all calls around it, however deep"."""
    found: list[Call] = []
    parent = call.parent
    while parent is not None:
        found.append(parent)
        parent = parent.parent
    return found


def holds(call: Call, permits: Permits) -> bool:
    """Does a call, or an attempt of it, have a permit of this bulkhead, or share one?"""
    if call.shares and call.route.permits is permits:
        return True
    attempts = [*call.live, *call.stopped]
    return call.permit is permits or any(attempt.permit is permits for attempt in attempts)


ASK: dict[str, Callable[[Engine, Call, int], Step | None]] = {
    "look": look,
    "hold": hold,
    "cooldown": cooldown,
    "rate": rate,
    "queue": queue,
    "again": again,
    "guard": guard,
    "send": send,
    "last": last,
    "target": target,
}
