"""Targets at work (spec 17): who admits an attempt, the choice, and what targets are told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import breaker as breakers
import evidence
import rng
from call import MAX_PARK, OVERDUE, UNCLAIMED, Attempt, Call, Step, earliest, later, span
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
    group: Group | None = None
    in_flight: int = 0
    estimate: int = 0

    def never(self, cost: int) -> bool:
        """17.6.5: can it not admit such a call, however long that waits?"""
        return self.rate is not None and self.rate.burst is not None and cost > self.rate.burst

    def limited(self, now: int) -> bool:
        """17.3.6: it does not admit the call, but nothing else than tokens or its cooldown is in the way."""
        full = self.permits is not None and self.permits.in_flight >= self.permits.limit()
        return not full and (self.breaker is None or self.breaker.refusal(now) is None)

    def closed(self, now: int) -> bool:
        """17.6.9: has it closed since it was granted?"""
        broken = self.breaker is not None and self.breaker.state == "open" and now < self.breaker.until
        return broken or (self.cooldown is not None and self.cooldown.left(now) is not None)

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
    waiting: list[Call] = field(default_factory=list)

    def hopeful(self, call: Call, now: int) -> list[Target]:
        """Those that do not admit the call now, but may later."""
        cost = call.request.cost
        return [one for one in self.open_to(call) if one.wait(cost, now) != 0 and not one.never(cost)]

    def verdict(self, call: Call, now: int) -> str:
        """17.3.6."""
        hopeful = self.hopeful(call, now)
        limited = hopeful and not self.admitting(call, now) and all(one.limited(now) for one in hopeful)
        return "targets_limited" if limited else "no_target"

    def patience(self, call: Call, now: int) -> int | None:
        """17.6.3 to 17.6.5: until when this call may wait; None: it is refused."""
        until = earliest(now + self.keys.max_wait, call.deadline)
        assert until is not None
        able, hopeful = self.admitting(call, now), self.hopeful(call, now)
        waits = [one.wait(call.request.cost, now) for one in hopeful]
        known = [wait for wait in waits if wait is not None]
        in_vain = not able and bool(known) and len(known) == len(waits) and now + min(known) >= until
        room = not call.only and call.request.may_park and len(self.waiting) < self.keys.max_queue
        return until if room and (able or hopeful) and not in_vain else None

    def hand_out(self, engine: Engine, now: int) -> None:
        """17.6.6: the first waiters get what there is."""
        while self.waiting:
            head = self.waiting[0]
            late = head.patience is not None and now >= head.patience
            able = self.admitting(head, now)
            soonest = self.earliest(head, now)
            if not able and not late and self.hopeful(head, now):
                if soonest is not None and now + soonest < head.told:  # 17.6.8
                    engine.wake(head, None)
                return
            self.waiting.pop(0)
            if late or not able:
                out = head.deadline is not None and now >= head.deadline
                engine.refuse(head, "deadline_queued" if out else self.verdict(head, now), now, None)
                head.again = now + (soonest or 0)
            else:
                fresh = [one for one in able if one not in head.tried]
                take(head, self.choose(engine, head, fresh or able), now)
                head.state, head.over = "granted", now + UNCLAIMED
                engine.wake(head, None)

    def stir(self, engine: Engine) -> None:
        """17.6.6: "at the end of the step"."""
        if self.waiting and self not in engine.stirred:
            engine.stirred.append(self)

    def admitting(self, call: Call, now: int) -> list[Target]:
        """Those that admit an attempt of this call now."""
        return [target for target in self.open_to(call) if target.wait(call.request.cost, now) == 0]

    def open_to(self, call: Call) -> list[Target]:
        """17.7.1, 17.7.2: those that this call may go to."""
        if call.only:
            return [one for one in self.targets if one in call.only]
        return [one for one in self.targets if not one.keys.only_after or one in call.unlocked]

    def earliest(self, call: Call, now: int) -> int | None:
        """17.3.2."""
        waits = [target.wait(call.request.cost, now) for target in self.open_to(call)]
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
    group = Group(declared, targets)
    for target in targets:
        target.group = group
    return group


def untried(call: Call, now: int) -> list[Target]:
    """Those that the call has not tried and that admit an attempt."""
    group = call.route.group
    if group is None or (group.waiting and not call.only):  # 17.6.4, 17.7.3: nobody is passed
        return []
    return [target for target in group.admitting(call, now) if target not in call.tried]


def choose(engine: Engine, call: Call, now: int) -> Target | None:
    """17.4.5: "among untried targets that admit; if there are none, among all that admit it"."""
    group = call.route.group
    assert group is not None
    group.hand_out(engine, now)
    if group.waiting and not call.only:
        return None
    among = untried(call, now) or group.admitting(call, now)
    return group.choose(engine, call, among) if among else None


def could_pass(engine: Engine, call: Call, now: int) -> bool:
    """17.3.4: may it have a target now, or wait for one?"""
    group = call.route.group
    assert group is not None
    group.hand_out(engine, now)
    in_turn = not group.waiting or bool(call.only)
    return bool(group.admitting(call, now) and in_turn) or group.patience(call, now) is not None


def look(engine: Engine, call: Call, now: int) -> Step | None:
    """A waiter looks; None: it has a target."""
    group = call.route.group
    assert group is not None
    group.hand_out(engine, now)
    engine.woken = [one for one in engine.woken if one is not call]  # it is here
    if call.state == "granted":
        return None
    if call.state == "refused":
        return engine.turned_away(call, call.refusal, now)
    if call.patience is not None and now >= call.patience:
        verdict, again = group.verdict(call, now), group.earliest(call, now)
        if call.attempt == 0:
            return engine.end(call, verdict, None, again, now)
        return engine.end_with_last(call, "readmission", again, now)
    return parked(call, now)


def parked(call: Call, now: int) -> Step:
    """17.6.8: the first one is to come when a target may admit it, the others within a second."""
    group = call.route.group
    assert group is not None
    first = group.waiting[0] is call
    soonest = later(now, group.earliest(call, now)) if first else None
    until = earliest(soonest, call.patience, now + MAX_PARK)
    assert until is not None
    call.told, call.over = until, until + OVERDUE
    return {"action": "wait", "why": "target", "next_us": span(until, now), "stop": 0}


def claim(engine: Engine, call: Call, now: int) -> Step | None:
    """17.6.9: the owner comes for its target; None: it starts."""
    group = call.route.group
    assert group is not None and call.chosen is not None
    if not call.chosen[0].closed(now):
        return None
    give_up(engine, call, now)
    group.waiting.insert(0, call)
    call.state = "waiting"
    return look(engine, call, now)


def give_up(engine: Engine, call: Call, now: int) -> None:
    """17.6.10: what was granted comes back, but for tokens."""
    if call.chosen is None:
        return
    (target, ticket, place), call.chosen = call.chosen, None
    if target.cooldown is not None:
        target.cooldown.leases.pop(place, None)
    if target.breaker is not None and ticket is not None:
        target.breaker.record(ticket, "neutral", 0, now)
    target.in_flight -= 1
    if target.permits is not None:
        target.permits.give_back(engine, now)
    if target.group is not None:
        target.group.stir(engine)


def leave(engine: Engine, call: Call, now: int) -> None:
    """A call ends: it waits no longer."""
    group = call.route.group
    if group is not None and call in group.waiting:
        group.waiting.remove(call)
        group.hand_out(engine, now)


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
    group.stir(engine)


def fails_over(call: Call, outcome: Outcome) -> bool:
    """17.4.8: kinds that are not retried."""
    policy = call.route.policy
    if policy.max_attempts == 1:  # "With one attempt … it means nothing"
        return False
    return outcome.among(policy.failover_on) and not outcome.among(policy.retry_on)


def unlock(call: Call, outcome: Outcome) -> list[Target]:
    """17.7.1: the targets that this failure opens to the call."""
    group = call.route.group
    opened = (
        [] if group is None else [one for one in group.targets if outcome.among(tuple(one.keys.only_after))]
    )
    call.unlocked += opened
    return opened


def goes_over(call: Call, outcome: Outcome, opened: list[Target], now: int) -> bool:
    """17.4.8, 17.7.2: does another target get the call at once, although the failure is not retried?"""
    listed = fails_over(call, outcome)
    if outcome.opinion != "none" or outcome.among(call.route.policy.retry_on) or not (listed or opened):
        return False
    if not listed:
        call.only = opened
    return bool(untried(call, now))


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
        if attempt.target.group is not None:
            attempt.target.group.stir(engine)
