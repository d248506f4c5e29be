"""What an attempt's failure means for its call (spec 2.6, 8.1; "Verdicts" of what the text left open)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import backoff
import cooldown
import evidence
import hedges
import rng
import targets
from call import OVERDUE, Attempt, Call, Paid, Step
from classify import RETRYABLE, Outcome

if TYPE_CHECKING:
    from engine import Engine


def decide(
    engine: Engine, call: Call, attempt: Attempt, outcome: Outcome, stop: int, now: int
) -> Step | None:
    """2.6: class → method and body → attempts → Retry-After → delay → budget → wait. None: evaluate.

    `stop`: attempts that this step stops already.
    """
    policy, took = call.route.policy, now - attempt.started
    if outcome.kind == "throttled":
        evidence.of_throttled(engine, call, attempt, now)
    cooldown.close(engine, call, attempt, outcome, now)
    targets.close(engine, call, attempt, outcome, now)
    opened = targets.unlock(call, outcome)
    call.last = (attempt, outcome, took)
    call.throttled = call.throttled or outcome.kind == "throttled"
    if outcome.retry_after is not None:  # "the largest Retry-After is kept"
        call.longest = max(call.longest or 0, outcome.retry_after)

    def over(verdict: str) -> Step:  # 2.7: "expose `retry_at`"
        evidence.of_call(engine, call, attempt, outcome, took, now)
        retry_in = call.longest if outcome.kind in RETRYABLE else None
        return engine.end(call, verdict, attempt.number, retry_in, now, stop)

    retries = policy.max_attempts > 1  # 2.1: "1 disables"
    if outcome.kind == "cancelled":  # 1.1: the caller gave up, and the host says so by the attempt
        return over("cancelled")
    may_repeat = call.request.idempotent and call.request.replayable
    hedges_only = policy.hedge is not None and not retries and may_repeat
    if policy.max_attempts == 1 and not hedges_only and outcome.kind in RETRYABLE:  # 2.1: "1 disables"
        return over("attempts")
    if outcome.opinion == "do_not":  # an opinion takes the place of the class, both ways
        return over("opinion")
    # 17.4.8: "an attempt at another target … where one admits it"
    over_there = targets.goes_over(call, outcome, opened, now) if retries else False
    if not outcome.among(policy.retry_on) and outcome.opinion != "retry" and not over_there:
        return over("not_retryable")
    if hedges_only:
        return next_at_once(engine, call, stop, now) or (None if call.live else over("attempts"))
    if call.live:  # 8.1: "a retryable one starts nothing while another runs"
        return None
    if not call.request.idempotent and outcome.kind != "never_sent":
        return over("method")
    if not call.request.replayable:
        return over("one_shot_body")
    if call.attempt >= policy.max_attempts:
        return over("attempts")
    if call.nested:
        return over("nested")
    if call.probe or engine.forced(call.route):  # "a probe makes one attempt"; "finish without retries"
        return over("readmission")
    elsewhere = bool(targets.untried(call, now))  # 17.4.1
    r = call.longest if policy.respect and policy.mode != "ignore" and not elsewhere else None
    if r is not None and r > policy.max_retry_after:
        return over("retry_after_too_long")
    left = None if call.deadline is None else max(0, call.deadline - now)
    delay = 0 if elsewhere else wait_before(engine, call, outcome, r, left, call.attempt)
    group = call.route.group
    if group is not None and not elsewhere:  # 17.4.4
        delay = max(delay, group.earliest(call, now) or 0)
    if call.route.cooldown is not None:  # 16.3.3: "the later of its backoff and the end"
        delay = max(delay, call.route.cooldown.left(now) or 0)
    if left is not None and delay >= left:
        return over("would_outlive_deadline")
    if policy.time_limit is not None and now - call.began + delay > policy.time_limit:
        return over("time_limit")
    breaker = call.route.breaker
    asked = breaker is not None and policy.breaker is not None and policy.breaker.per_attempt
    if breaker is not None and asked and breaker.state == "open" and breaker.until > now + delay:  # 0.2
        return over("readmission")
    ledger = call.route.ledger
    # "A hedge's own failure takes none", and one that only an opinion makes retryable is no failure
    free = attempt.hedge and ledger is call.route.hedge_ledger
    counted = outcome.kind in RETRYABLE and not free
    charge = ledger.budget.withdraw(now, outcome.kind, ledger.calls, counted)
    if charge is None:
        return over("budget")
    call.pending = Paid(ledger, charge)
    if not elsewhere:
        call.tried.clear()
    call.state, call.retry_at, call.given_up = "backoff", now + delay, now + OVERDUE
    if outcome.kind == "throttled" and call.route.holds is not None and call.request.path is not None:
        call.route.holds.throttled(call.request.path, call.retry_at, now)
    if stop:  # R3: "a step that stops the last running attempt answers Wait{Backoff}"
        return engine.wait(call, "backoff", call.retry_at, now, stop)
    return None


def wait_before(
    engine: Engine, call: Call, outcome: Outcome, r: int | None, left: int | None, number: int
) -> int:
    """The delay before the next attempt; draws and growth are over the attempts started so far."""
    policy = call.route.policy
    base = policy.throttled_base if outcome.kind == "throttled" else policy.backoff.base
    xs = [rng.bits(engine.seed, call.ordinal, rng.BACKOFF, n) for n in range(1, number + 1)]
    delay = backoff.draw(policy.backoff, base, xs)
    if r is not None:
        x = rng.bits(engine.seed, call.ordinal, rng.RETRY_AFTER, number)
        delay = backoff.with_retry_after(policy.mode, delay, r, left, x)
    return delay


def next_at_once(engine: Engine, call: Call, stop: int, now: int) -> Step | None:
    """8.1: without retry the next one starts at once, if the same conditions but the delay hold."""
    if engine.link != "ok" or call.no_hedge or not hedges.room(call):
        return None
    if stop and not call.live:  # R3: the host comes again once the attempt has unwound
        call.state, call.at_once, call.retry_at, call.given_up = "backoff", True, now, now + OVERDUE
        return engine.wait(call, "backoff", now, now, stop)
    engine.free_loose(call, now)  # what failed has given its permit back by then
    step = hedges.start(engine, call, now)
    return None if step is None else {**step, "stop": stop}
