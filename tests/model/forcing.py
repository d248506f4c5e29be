"""Operators who refuse all calls of a policy or a route (spec 0.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from call import Route
    from engine import Engine
    from policy import Policy
    from rates import Tokens
    from targets import Group


def force(engine: Engine, policy: Policy, key: str | None, on: bool, now: int) -> None:
    """Routes are forced open, or no longer. `key` None is all routes of the policy."""
    routes = [
        route
        for (name, at), route in engine.routes.there.items()
        if name == policy.name and key in (None, at)
    ]
    if on:
        engine.forced_open.add((policy.name, key))
        turn_out(engine, routes, now)
        return
    engine.forced_open = {
        (name, at) for name, at in engine.forced_open if name != policy.name or key not in (None, at)
    }
    for route in routes:
        if route.breaker is not None:
            route.breaker.reset()


def turn_out(engine: Engine, routes: list[Route], now: int) -> None:
    """All calls that wait before their first attempt are refused, in the order they began."""
    queues: list[Tokens] = []
    groups: list[Group] = []
    calls = [call for call in engine.arena if call is not None and call.route in routes]
    for call in sorted(calls, key=lambda call: call.ordinal):
        if call.attempt > 0 or call.state not in ("waiting", "granted"):
            continue
        for tokens in (call.route.rate, call.route.send):
            if tokens is not None and call in tokens.queue:
                tokens.remove(call)
                tokens.left = True
                queues.append(tokens)
        if call.route.permits is not None and call in call.route.permits.queue:
            call.route.permits.remove(call, now)
        if call.hold is not None and call in call.hold.queue:
            call.hold.queue.remove(call)
            call.hold = None
        if call.route.cooldown is not None:
            for listed in (call.route.cooldown.returning, call.route.cooldown.arriving):
                if call in listed:
                    listed.remove(call)
        group = call.route.group
        if group is not None and call in group.waiting:
            group.waiting.remove(call)
            groups.append(group)
        call.again = now
        engine.refuse(call, "forced_open", now, None)
    done_with: list[Tokens] = []
    for tokens in queues:
        if tokens not in done_with:
            done_with.append(tokens)
            tokens.wake_head(engine, now)
    for group in groups:
        group.hand_out(engine, now)
