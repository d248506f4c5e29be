"""Hedges (spec 8): when one is due, and whether it may start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import link
import sets
import targets
from call import Call, Paid, Route, Step

if TYPE_CHECKING:
    from breaker import Ticket
    from engine import Engine


def room(call: Call) -> bool:
    """Could the call hedge at all now, whatever stands against it at the moment?"""
    policy = call.route.policy
    if policy.hedge is None or not call.request.idempotent or not call.request.replayable:
        return False
    most = policy.max_attempts if policy.max_attempts > 1 else policy.hedge.max_attempts
    few = len(call.live) < policy.hedge.max_attempts and call.attempt < most
    return few and not call.probe


def delay(route: Route) -> int:
    """8.2: the quantile, "fallback `delay` until five samples, clamped to [`delay_min`, `delay_max`]"."""
    keys = route.policy.hedge
    assert keys is not None
    if route.latencies is None or len(route.latencies.samples) < 5:
        return keys.delay
    found = int(route.latencies.estimate() or 0.0)
    found = found if keys.delay_min is None else max(found, keys.delay_min)
    return found if keys.delay_max is None else min(found, keys.delay_max)


def due(engine: Engine, call: Call, now: int) -> int | None:
    """As written: "`delay` after the newest attempt of the call started", on a link that is ok (2.22)."""
    if (
        call.state != "running"
        or call.no_hedge
        or call.throttled
        or call.newest is None
        or not call.live
        or not room(call)
        or engine.link == "metered"
    ):
        return None
    then = call.newest.started + delay(call.route)
    return then if engine.link == "ok" or then > now else link.turn(engine.seed, call, now)


def forbidden(engine: Engine, call: Call, now: int) -> bool:
    """What stands against a hedge."""
    route = call.route
    return (
        engine.blocked(call)
        or (route.cooldown is not None and not route.cooldown.open)
        or engine.forced(route)
        or (route.breaker is not None and route.breaker.state != "closed")
        or (route.throttle is not None and route.throttle.probability(now) > 0.0)
        or call.throttled
        or (call.deadline is not None and now >= call.deadline)  # 8.3: "none while … past the deadline"
    )


def start(engine: Engine, call: Call, now: int) -> Step | None:
    """A hedge, if nothing stands against it and all that it needs is there at once.

    If not, there is none until the next attempt that is no hedge.
    """
    route, policy = call.route, call.route.policy
    call.no_hedge = True
    if forbidden(engine, call, now):
        return None
    rate = route.rate if policy.rate is not None and policy.rate.per_attempt else None
    limits = rate if isinstance(rate, sets.Limits) else None
    wanted = [(route.send, 1), (None if limits is not None else rate, call.request.cost)]
    if any(tokens and (tokens.queue or tokens.bucket.wait_for(cost, now)) for tokens, cost in wanted):
        return None
    # Last, because windows are counted from the first look after the report of the wall clock (3.8.5).
    if limits is not None and (limits.queue or limits.wait_of([call], now)):
        return None
    # "one extra permit": where nothing else runs, the call's own is free
    own = policy.bulkhead is not None and policy.bulkhead.per_attempt and not call.shares
    beside = bool(call.live) or own
    permits = route.permits if beside else None
    if permits is not None:  # R9: "reaped by the next event that touches it"
        permits.revoke(engine, now)
    if permits is not None and (permits.queue or permits.in_flight >= permits.limit()):
        return None
    target = None
    if route.group is not None:  # 17.4.6
        among = targets.untried(call, now)
        if not among:
            return None
        target = route.group.choose(engine, call, among)
    charge = route.hedge_ledger.budget.withdraw_hedge(now, route.hedge_ledger.calls)
    if charge is None:  # "budget last; what one refuses is not taken from the others"
        return None
    for tokens, cost in wanted:
        if tokens is not None:
            assert tokens.at_once(cost, now)
    if limits is not None:
        assert limits.take_at_once(call, now)
    if permits is not None:
        assert permits.at_once()
    if target is not None:
        targets.take(call, target, now)
    ticket: Ticket | None = None
    if route.breaker is not None and policy.breaker is not None and policy.breaker.per_attempt:
        admitted = route.breaker.admit(now)
        assert not isinstance(admitted, int)
        ticket = admitted
    counted = (
        route.throttle is not None
        and policy.throttle is not None
        and policy.throttle.per_attempt
        and engine.throttle_admits(call, now)
    )
    call.no_hedge = False
    attempt, step = engine.attempt(call, True, now)
    attempt.permit, attempt.flying = permits, Paid(route.hedge_ledger, charge)
    attempt.ticket, attempt.counted = ticket, counted
    return step
