"""Targets at work (spec 17): who admits an attempt, the choice, and what targets are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import breaker as breakers
import evidence
import rng
from call import Attempt, Call
from classify import RETRYABLE, Outcome
from cooldown import Cooldown, is_spent
from groups import Keys, Member
from queues import Permits
from rates import RateBucket, Tokens

if TYPE_CHECKING:
    from engine import Engine

FIRST, SECOND = 7, 8
"""The purposes of the two draws (17.2.9)."""


@dataclass(eq=False)
class Target:
    """The state of a target."""

    keys: Member
    breaker: breakers.Breaker | None
    rate: Tokens | None
    permits: Permits | None
    cooldown: Cooldown | None = None
    in_flight: int = 0
    estimate: int = 0

    def wait(self, cost: int, now: int) -> int | None:
        """0 where it admits an attempt now, else how long until it may; None: unknown (17.2.2, 17.3.2)."""
        waits = [0]
        if self.rate is not None:
            if self.rate.burst is not None and cost > self.rate.burst:
                return None
            waits.append(self.rate.bucket.wait_for(cost, now))
        if self.breaker is not None:
            refusal = self.breaker.refusal(now)
            if refusal is not None:
                waits.append(max(refusal, 1))
        if self.permits is not None and self.permits.in_flight >= self.permits.limit():
            return None
        if self.cooldown is not None and not self.cooldown.open:
            left = self.cooldown.left(now)
            if left is None and not self.cooldown.has_room(now):
                return None
            waits.append(left or 0)
        return max(waits)


@dataclass(eq=False)
class Group:
    """A group, shared by all that name it (17.1.7)."""

    keys: Keys
    targets: list[Target]

    def admitting(self, call: Call, now: int) -> list[Target]:
        """Those that admit an attempt of this call now."""
        return [target for target in self.targets if target.wait(call.request.cost, now) == 0]

    def earliest(self, call: Call, now: int) -> int | None:
        """17.3.2."""
        waits = [target.wait(call.request.cost, now) for target in self.targets]
        known = [wait for wait in waits if wait is not None]
        return min(known) if known else None

    def estimate_of(self, target: Target) -> int:
        """17.2.8; 0 while none has one."""
        if target.estimate > 0:
            return target.estimate
        known = [other.estimate for other in self.targets if other.estimate > 0]
        return sum(known) // len(known) if known else 0

    def weight(self, target: Target) -> int:
        """17.2.5: less is better."""
        return (target.in_flight + 1) * max(1, self.estimate_of(target))

    def draw(self, among: list[Target], x: int) -> Target:
        """One by the shares."""
        at = rng.uniform(x, 0, sum(target.keys.share for target in among) - 1)
        for target in among:
            if at < target.keys.share:
                return target
            at -= target.keys.share
        raise AssertionError("the shares are laid out in a row")

    def choose(self, engine: Engine, call: Call, among: list[Target]) -> Target:
        """17.2.3, 17.2.4."""
        if self.keys.pick == "ladder" or len(among) == 1:
            return among[0]
        number = call.attempt + 1
        first = self.draw(among, rng.bits(engine.seed, call.ordinal, FIRST, number))
        rest = [target for target in among if target is not first]
        second = self.draw(rest, rng.bits(engine.seed, call.ordinal, SECOND, number))
        return second if self.weight(second) < self.weight(first) else first


def new_group(declared: Keys, now: int) -> Group:
    """17.1.8: "new ones start fresh"."""
    from components import new_breaker  # it knows policies, which know groups

    targets = []
    for member in declared.members:
        policy, rate = member.policy, member.policy.rate
        bucket = None if rate is None else RateBucket(rate.permits, rate.per, rate.burst, now)
        targets.append(
            Target(
                member,
                new_breaker(policy) if policy.breaker is not None else None,
                None if rate is None or bucket is None else Tokens(bucket, rate.burst),
                Permits(policy.bulkhead, now) if policy.bulkhead is not None else None,
                Cooldown(policy.cooldown) if policy.cooldown is not None else None,
            )
        )
    return Group(declared, targets)


def untried(call: Call, now: int) -> list[Target]:
    """Those that the call has not tried and that admit an attempt."""
    group = call.route.group
    if group is None:
        return []
    return [target for target in group.admitting(call, now) if target not in call.tried]


def choose(engine: Engine, call: Call, now: int) -> Target | None:
    """17.4.5: "among untried targets that admit; if there are none, among all that admit it"."""
    group = call.route.group
    assert group is not None
    among = untried(call, now) or group.admitting(call, now)
    return group.choose(engine, call, among) if among else None


def take(call: Call, target: Target, now: int) -> None:
    """17.2.10: "takes the tokens, the permit and the ticket of its target at once"."""
    if target.rate is not None:
        assert target.rate.at_once(call.request.cost, now)
    if target.permits is not None:
        assert target.permits.at_once()
    ticket = None
    if target.breaker is not None:
        admitted = target.breaker.admit(now)
        assert not isinstance(admitted, int)
        ticket = admitted
    place = 0
    if target.cooldown is not None:
        place = target.cooldown.place(now) or 0
    target.in_flight += 1
    call.tried.append(target)
    call.chosen = (target, ticket, place)


def give(call: Call, attempt: Attempt) -> None:
    """The attempt that starts gets what was taken for it."""
    if call.chosen is not None:
        attempt.target, attempt.target_ticket, attempt.target_place = call.chosen
        attempt.at_target = True
        call.chosen = None


def tell(engine: Engine, call: Call, attempt: Attempt, outcome: Outcome, now: int) -> None:
    """17.2.12: what an end means to its target: the class of its kind counts."""
    target, group = attempt.target, call.route.group
    if target is None or group is None:
        return
    plain, took = Outcome(outcome.kind), now - attempt.started
    breaker_keys = target.keys.policy.breaker
    mean = group.estimate_of(target)
    if attempt.target_ticket is not None and target.breaker is not None and breaker_keys is not None:
        bits = rng.bits(engine.seed, call.ordinal, rng.BREAK, attempt.number)
        target.breaker.record(attempt.target_ticket, evidence.counts_as(breaker_keys, plain), bits, now)
    if target.permits is not None and not (outcome.kind == "throttled" and call.inner):
        target.permits.learn(engine, outcome.kind, took, attempt.started, now)
    if target.cooldown is not None and outcome.kind != "throttled":
        if outcome.kind == "ok":
            limit = target.cooldown.in_flight if target.permits is None else target.permits.limit()
            target.cooldown.good(attempt.started, attempt.target_place, limit)
        else:
            target.cooldown.leases.pop(attempt.target_place, None)
    over = fails_over(call, outcome)
    if outcome.kind == "ok" or (outcome.kind == "permanent" and not over):
        observe(target, took)
    elif (outcome.kind in RETRYABLE or outcome.kind == "permanent") and mean:
        observe(target, 2 * mean)


def fails_over(call: Call, outcome: Outcome) -> bool:
    """17.4.8: kinds that are not retried."""
    policy = call.route.policy
    return outcome.among(policy.failover_on) and not outcome.among(policy.retry_on)


def close(engine: Engine, call: Call, attempt: Attempt, outcome: Outcome, now: int) -> None:
    """17.5.2, 17.5.3: an attempt was throttled, or its quota was spent."""
    target = attempt.target
    if target is None or target.cooldown is None:
        return
    bits = rng.bits(engine.seed, call.ordinal, rng.COOLDOWN, attempt.number)
    in_flight = max(1, target.in_flight)
    if outcome.kind == "throttled":
        if not call.inner:
            lenient = target.permits is not None and target.permits.follows_loss()
            asked = outcome.retry_after
            target.cooldown.throttled(attempt.started, asked, in_flight, bits, now, lenient)
        target.cooldown.leases.pop(attempt.target_place, None)
    if is_spent(call, outcome):
        target.cooldown.spent(attempt.started, outcome.retry_after, in_flight, bits, now)


def observe(target: Target, time: int) -> None:
    """17.2.6."""
    old = target.estimate
    target.estimate = max(1, time) if old == 0 else max(1, (7 * old + max(1, time)) // 8)


def tell_of_body(engine: Engine, call: Call, outcome: Outcome, now: int) -> None:
    """17.2.12: "a failed body is a failure of its target's breaker, as in 7.1"."""
    winner = call.winner
    if winner is None or winner.target is None or winner.target_ticket is None:
        return
    breaker, settings = winner.target.breaker, winner.target.keys.policy.breaker
    failed = settings is not None and evidence.counts_as(settings, Outcome(outcome.kind)) == "failure"
    if breaker is not None and failed:
        bits = rng.bits(engine.seed, call.ordinal, rng.BREAK, winner.number)
        breaker.body_failure(winner.target_ticket, bits, now)


def give_back(engine: Engine, attempt: Attempt, now: int) -> None:
    """R12: the permit of a reported attempt."""
    if attempt.at_target and attempt.target is not None:
        attempt.at_target = False
        attempt.target.in_flight -= 1
        if attempt.target.permits is not None:
            attempt.target.permits.give_back(engine, now)
