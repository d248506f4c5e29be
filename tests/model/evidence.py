"""What the end of an attempt, and of a call, tells budgets, breakers and limits (spec 1.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cooldown
import link
import rng
import silence
import targets
from breaker import EVIDENCE
from call import Attempt, Call
from classify import RETRYABLE, Outcome
from cubic import Cubic
from throttle import ACCEPTED

if TYPE_CHECKING:
    from breaker import Ticket
    from engine import Engine
    from policy import BreakerKeys

CUT = Outcome("cancelled")
"""The end of what we stop (1.3)."""


def counts_as(keys: BreakerKeys, outcome: Outcome) -> str:
    """The column "breaker" of 1.2; what is listed goes before it, names of kinds before classes."""
    for word in (outcome.name, outcome.kind):
        if word and word in keys.failure_on:
            return "failure"
        if word and word in keys.ignore_on:
            return "neutral"
    return EVIDENCE[outcome.kind]


def land(attempt: Attempt) -> None:
    """A retry, or a hedge, is in flight until its outcome or the head of its answer."""
    if attempt.flying is not None:
        attempt.flying.ledger.budget.retry_over(attempt.flying.charge)
        attempt.flying = None


def ended(engine: Engine, call: Call, attempt: Attempt, outcome: Outcome, now: int) -> None:
    """A failure: "retry budget → send rate → breaker or throttle → limit → the decision → the permit"."""
    land(attempt)
    if outcome.kind in RETRYABLE:
        for ledger in call.route.ledgers():
            if not (attempt.hedge and ledger is call.route.hedge_ledger):  # "its own failure takes none"
                ledger.budget.failure()
    respond(call, outcome, now)
    of_attempt(engine, call, attempt, outcome, now)


def succeeded(engine: Engine, call: Call, attempt: Attempt, now: int, late: bool = False) -> None:
    """A success is counted once, at the head of the answer where that comes first (7.1).

    `late`: the attempt had been stopped, and its end counted then.
    """
    land(attempt)
    call.route.ledger.budget.success(call.retries[-1].charge if call.retries else None)
    if call.route.hedge_ledger is not call.route.ledger:
        call.route.hedge_ledger.budget.success(None)
    if not late:
        respond(call, Outcome("ok"), now)
    of_attempt(engine, call, attempt, Outcome("ok"), now)
    # "an answer of a stopped attempt gives no sample"
    of_call(engine, call, attempt, Outcome("ok"), None if late else now - attempt.started, now)
    if (
        call.route.latencies is not None and not late
    ):  # "their time when they win, or so far when another wins"
        for one in [attempt, *call.live]:
            if not one.hedge:
                call.route.latencies.observe(float(now - one.started))
                break


def respond(call: Call, outcome: Outcome, now: int) -> None:
    """2.14: "every reported attempt except `cancelled` and `ignored` is a response"."""
    send = call.route.send
    if send is not None and outcome.kind not in ("cancelled", "ignored"):
        assert isinstance(send.bucket, Cubic)
        send.bucket.response(outcome.kind == "throttled", now)


def of_attempt(engine: Engine, call: Call, attempt: Attempt, outcome: Outcome, now: int) -> None:
    """What has `unit = "attempt"` is told of each, once."""
    if attempt.decided:
        return
    attempt.decided = True
    cooldown.attempt_over(engine, call, attempt, outcome, now)
    targets.tell(engine, call, attempt, outcome, now)
    policy, took = call.route.policy, now - attempt.started
    if attempt.ticket is not None:
        record(engine, call, attempt.ticket, outcome, attempt.number, now)
    if attempt.counted:
        accept(engine, call, outcome, now)
    hears = not link.deaf(engine, outcome)
    hears = hears and not (outcome.kind == "throttled" and call.inner)  # 4.6.3: "an inner policy"
    if attempt.permit is not None and policy.bulkhead is not None and policy.bulkhead.per_attempt and hears:
        attempt.permit.learn(engine, outcome.kind, took, attempt.started, now)


def of_throttled(engine: Engine, call: Call, attempt: Attempt, now: int) -> None:
    """4.6.3: "A throttled attempt, whether it is retried or not", also where the permit is the call's."""
    outcome, policy = Outcome("throttled"), call.route.policy
    per_call = policy.bulkhead is not None and not policy.bulkhead.per_attempt
    if call.permit is None or not per_call or call.inner or link.deaf(engine, outcome):
        return
    if call.permit.follows_loss():
        call.permit.learn(engine, "throttled", now - attempt.started, attempt.started, now)


def of_call(
    engine: Engine, call: Call, attempt: Attempt, outcome: Outcome, took: int | None, now: int
) -> None:
    """What has `unit = "call"` is told of what decided the call, once."""
    if call.decided:
        return
    call.decided = True
    policy = call.route.policy
    if outcome.kind in ("ok", "permanent"):  # 2.20: "once per call, when it is decided"
        for ledger in call.route.ledgers():
            ledger.budget.answered(now)
    if call.ticket is not None and policy.breaker is not None and not policy.breaker.per_attempt:
        record(engine, call, call.ticket, outcome, attempt.number, now)
        call.ticket = None
    if call.counted and policy.throttle is not None and not policy.throttle.per_attempt:
        accept(engine, call, outcome, now)
        call.counted = False
    per_call = policy.bulkhead is not None and not policy.bulkhead.per_attempt
    inner = outcome.kind == "throttled" and call.inner
    if (
        call.permit is not None
        and per_call
        and took is not None
        and not inner
        and not link.deaf(engine, outcome)
    ):
        call.permit.learn(engine, outcome.kind, took, attempt.started, now)


def record(engine: Engine, call: Call, ticket: Ticket, outcome: Outcome, number: int, now: int) -> None:
    """Breaker evidence; the jitter of a break that it begins is drawn over the attempt's number."""
    breaker, keys = call.route.breaker, call.route.policy.breaker
    assert breaker is not None and keys is not None
    bits = rng.bits(engine.seed, call.ordinal, rng.BREAK, number)
    evidence = "neutral" if link.deaf(engine, outcome) else counts_as(keys, outcome)
    breaker.record(ticket, evidence, bits, now)
    if outcome.kind == "ok":
        call.body_ticket = ticket


def accept(engine: Engine, call: Call, outcome: Outcome, now: int) -> None:
    """6.1: "a call counts when it ends"; neutral ends do not count."""
    accepted = None if link.deaf(engine, outcome) else ACCEPTED[outcome.kind]
    if accepted is not None and call.route.throttle is not None:
        call.route.throttle.record(accepted, now)


def neutral(call: Call, now: int) -> None:
    """As written: "Every neutral outcome returns the probe ticket"."""
    if call.ticket is not None and call.route.breaker is not None:
        call.route.breaker.record(call.ticket, "neutral", 0, now)
    call.ticket, call.counted = None, False


def of_body(engine: Engine, call: Call, outcome: Outcome, now: int) -> None:
    """7.1: "a failed body adds one breaker failure"; what is no failure by its class is none here either."""
    targets.tell_of_body(engine, call, outcome, now)
    keys, breaker = call.route.policy.breaker, call.route.breaker
    if keys is None or breaker is None or call.body_ticket is None or counts_as(keys, outcome) != "failure":
        return
    if link.deaf(engine, outcome):
        return
    bits = rng.bits(engine.seed, call.ordinal, rng.BREAK, call.winner.number if call.winner else 0)
    breaker.body_failure(call.body_ticket, bits, now)


def cut_by_deadline(call: Call, attempt: Attempt, now: int) -> Outcome:
    """1.1: a timeout if it ran at least half its attempt timeout (or the policy's own deadline)."""
    policy = call.route.policy
    timeout = silence.timeout_at(policy, attempt.target)
    whole = timeout if timeout is not None else policy.deadline
    if whole is not None and 2 * (now - attempt.started) >= whole:
        return Outcome("timeout")
    return CUT
