"""Timeouts of a stream (spec 7.7): the first piece, silence, and where the deadline ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import evidence
from call import Attempt, Call, Step, earliest, later, span
from classify import Outcome

if TYPE_CHECKING:
    from engine import Engine
    from policy import Policy
    from targets import Target


def attempt_end(call: Call, now: int) -> int | None:
    """7.7.3: an attempt of a stream also ends at its first byte's timeout."""
    policy = call.route.policy
    first = policy.first_byte_timeout if call.request.stream else None
    target = None if call.chosen is None else call.chosen[0]
    return later(now, earliest(timeout_at(policy, target), first))


def timeout_at(policy: Policy, target: Target | None) -> int | None:
    """17.1.13: "in place of the policy's"."""
    own = None if target is None else target.keys.policy.attempt_timeout
    return policy.attempt_timeout if own is None else own


def delivered(call: Call, now: int) -> None:
    """7.7.9: silence counts from the delivery; 7.7.15: the deadline may end there."""
    policy = call.route.policy
    call.check = later(now, policy.idle_timeout)
    if policy.until_delivery:
        call.deadline = None


def body_until(call: Call, now: int) -> int | None:
    """7.7.18: "the earlier of the deadline and the next report"."""
    if call.check is not None and call.check <= now:  # due, and nobody reported: "due again"
        call.check = later(now, call.route.policy.idle_timeout)
    return earliest(call.deadline, call.check)


def report(engine: Engine, call: Call, attempt: Attempt, age: int, now: int) -> Step:
    """The last piece of this attempt came `age` ago."""
    idle = call.route.policy.idle_timeout
    late = call.deadline is not None and now >= call.deadline
    if idle is None or late:  # 7.7.20: "the deadline goes first"
        return engine.evaluate(call, now)
    if call.state == "body":
        if age >= idle:  # 7.7.11
            evidence.of_body(engine, call, Outcome("timeout"), now)
            return engine.end(call, "stream_stalled", None, None, now)
        call.check = now + idle - age
        return engine.evaluate(call, now)
    if age >= idle:  # 7.7.10
        return engine.still_running(call, [attempt], now)
    step = engine.evaluate(call, now)
    if call.state == "running":  # 7.7.19: "at most `idle_timeout` less the age"
        check = now + idle - age
        step["next_us"] = span(earliest(later(step["next_us"], now), check), now)
    return step
