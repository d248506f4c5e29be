"""The engine, slowly: one list of calls, one dict of routes, one step per event (spec 7, rules R1 to R12).

Moments and spans are whole µs. A call's states are those of the drawing in `docs/architecture.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import backoff
import budgets
import rng
from classify import RETRYABLE, Outcome
from policy import Policy

Step = dict[str, Any]

MAX_PARK = 1_000_000
UNCLAIMED = 5_000_000
OVERDUE = 60_000_000
INVERSION = 10_000
DEPTH = 32
AT_ONCE = 4


@dataclass
class Request:
    """What a call says about itself; the wire's four numbers, unpacked."""

    remaining: int | None = None
    parent: Call | None = None
    replayable: bool = True
    idempotent: bool = True
    abortable: bool = True
    may_park: bool = True
    slot_until_body: bool = False


@dataclass
class Route:
    """State per (policy, key) (0.4)."""

    policy: Policy
    budget: budgets.NoBudget
    in_flight: int = 0
    queue: list[Call] = field(default_factory=list)
    granted: list[Call] = field(default_factory=list)
    calls: int = 0


@dataclass(eq=False)
class Call:
    """One call, from `begin` until its slot in the arena is free."""

    name: str
    route: Route
    request: Request
    ordinal: int
    began: int
    slot: int = -1
    state: str = "new"
    deadline: int | None = None
    parent: Call | None = None
    children: int = 0
    nested: bool = False  # does a call around it retry?
    holds: bool = False
    patience: int | None = None  # when it stops queueing
    attempt: int = 0  # the last that started
    running: bool = False  # is that one running?
    attempt_end: int | None = None
    stopped: list[int] = field(default_factory=list)  # told to stop and not reported since
    retry_at: int = 0
    given_up: int = 0  # when stopped attempts are waited for no longer
    pending: budgets.Charge | None = None  # paid for and not started
    paid: list[budgets.Charge] = field(default_factory=list)  # retries that have started
    flying: budgets.Charge | None = None  # the one of them that runs
    over: int | None = None  # when its lease ends; None: never

    def out(self) -> bool:
        """Does something that the host could not stop still run (R12)?"""
        return not self.request.abortable and bool(self.stopped)


class Engine:
    """begin and on, as `docs/architecture.md` has them, with calls as objects in place of ids."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.begun = 0
        self.last: int | None = None
        self.offset = 0
        self.arena: list[Call | None] = []
        self.free: list[int] = []
        self.cursor = 0
        self.routes: dict[tuple[str, str], Route] = {}
        self.woken: list[Call] = []

    # ---- the two events of the border ----

    def begin(
        self, policy: Policy, key: str | None, request: Request, reading: int, name: str
    ) -> tuple[Call, Step]:
        """A call begins."""
        now = self.clock(reading)
        if key is None:  # an id that names no route: nothing begins
            self.reap_two(now, None)
            call = Call(name, Route(policy, budgets.NoBudget()), request, self.begun, now, state="gone")
            return call, self.finish(done("stale_route"))
        route = self.routes.setdefault((policy.name, key), Route(policy, policy.new_budget()))
        call = Call(name, route, request, self.begun, now)
        self.begun += 1
        self.reap_two(now, None)
        return call, self.finish(self.admit(call, now))

    def on(self, call: Call, event: dict[str, Any], reading: int) -> Step:
        """Something happened to a call. Every event ends with the evaluation that `Poll` makes (R3)."""
        now = self.clock(reading)
        return self.finish(self.event(call, event, now))

    def event(self, call: Call, event: dict[str, Any], now: int) -> Step:
        """The event itself."""
        kind, attempt = event["event"], event.get("attempt", 0)
        if call.state in ("new", "gone"):
            return done("stale")
        if call.state == "ended":
            if kind == "finished" and attempt in call.stopped:
                call.stopped.remove(attempt)
                self.settle(call, now)
            return done("stale")
        if call.state == "lost":  # R9: "answered Lost"
            call.state, call.over = "ended", None
            self.settle(call, now)
            return done("lost")
        if kind == "cancel":
            return self.end(call, "cancelled", None, None, now)
        if kind == "headers" and call.state == "running" and call.running and attempt == call.attempt:
            self.succeed(call)
            if not call.request.slot_until_body:
                return self.end(call, "ok", attempt, None, now, reported=True)
            call.state = "body"
        elif kind == "finished":
            step = self.finished(call, attempt, event["outcome"], now)
            if step is not None:
                return step
        return self.evaluate(call, now)

    # ---- what an attempt's end means ----

    def finished(self, call: Call, attempt: int, outcome: Outcome, now: int) -> Step | None:
        """An attempt was reported. 7.5: "a late outcome is taken as it is"."""
        if call.state == "body" and attempt == call.attempt:
            verdict = outcome.kind if outcome.kind in ("ok", "cancelled") else "not_retryable"
            return self.end(call, verdict, attempt, None, now, reported=True)
        if call.state == "running" and call.running and attempt == call.attempt:
            call.running = False
            return self.judge(call, outcome, 0, now)
        if attempt in call.stopped:
            call.stopped.remove(attempt)
            if call.state == "backoff" and outcome.kind == "ok" and attempt == call.attempt:
                # "an answer that a stopped attempt has all the same, reported before the next one starts,
                # ends the call with it, and the retry is refunded"; success does not pay it back once more
                self.refund(call, now)
                call.paid.clear()
                self.succeed(call)
                return self.end(call, "ok", attempt, None, now, reported=True)
        return None

    def judge(self, call: Call, outcome: Outcome, stop: int, now: int) -> Step | None:
        """2.6: class → method and body → attempts → Retry-After → delay → budget → wait. None: evaluate."""
        policy, budget, attempt = call.route.policy, call.route.budget, call.attempt
        if outcome.kind == "ok":
            self.succeed(call)
            return self.end(call, "ok", attempt, None, now, reported=True)

        self.retry_over(call)
        if outcome.kind in RETRYABLE:
            budget.failure()

        def over(verdict: str) -> Step:  # 2.7: "expose `retry_at`"
            retry_in = outcome.retry_after if outcome.kind in RETRYABLE else None
            return self.end(call, verdict, attempt, retry_in, now, stop)

        if outcome.kind == "cancelled":  # 1.1: the caller gave up, and the host says so by the attempt
            return over("cancelled")
        if policy.max_attempts == 1 and outcome.kind in RETRYABLE:  # 2.1: "1 disables": nothing is held back
            return over("attempts")
        if outcome.opinion == "do_not":  # an opinion takes the place of the class, both ways
            return over("opinion")
        if outcome.kind not in policy.classes and outcome.opinion != "retry":
            return over("not_retryable")
        if not call.request.idempotent and outcome.kind != "never_sent":
            return over("method")
        if not call.request.replayable:
            return over("one_shot_body")
        if attempt >= policy.max_attempts:
            return over("attempts")
        if call.nested:
            return over("nested")
        r = outcome.retry_after if policy.respect and policy.mode != "ignore" else None
        if r is not None and r > policy.max_retry_after:
            return over("retry_after_too_long")
        left = None if call.deadline is None else max(0, call.deadline - now)
        base = policy.throttled_base if outcome.kind == "throttled" else policy.backoff.base
        xs = [rng.bits(self.seed, call.ordinal, rng.BACKOFF, n) for n in range(1, attempt + 1)]
        delay = backoff.draw(policy.backoff, base, xs)
        if r is not None:
            x = rng.bits(self.seed, call.ordinal, rng.RETRY_AFTER, attempt)
            delay = backoff.with_retry_after(policy.mode, delay, r, left, x)
        if left is not None and delay >= left:
            return over("would_outlive_deadline")
        if policy.time_limit is not None and now - call.began + delay > policy.time_limit:
            return over("time_limit")
        charge = budget.withdraw(now, outcome.kind, call.route.calls)
        if charge is None:
            return over("budget")
        call.pending = charge
        call.state, call.retry_at, call.given_up = "backoff", now + delay, now + OVERDUE
        if stop:  # R3: "a step that stops the last running attempt answers Wait{Backoff}"
            return self.wait(call, "backoff", call.retry_at, now, stop)
        return None

    # ---- what Poll evaluates ----

    def evaluate(self, call: Call, now: int) -> Step:
        """R3: `Poll` is the truth."""
        late = call.deadline is not None and now >= call.deadline
        if call.state == "queued":  # R9: "any waiter's timer"
            self.reap_two(now, call)
            self.revoke(call.route, now)
        if call.state == "queued" and impatient(call, now):
            return self.end(call, refusal(call), None, None, now)
        if call.state == "queued":
            return self.wait(call, "queue", earliest(call.patience, call.deadline, now + MAX_PARK), now)
        if call.state == "refused":
            return self.end(call, refusal(call), None, None, now)
        if call.state == "granted":
            if late:
                return self.end(call, "deadline_queued", None, None, now)
            return self.start(call, now)
        if call.state == "backoff":
            if late:  # the failure at hand is the result
                return self.end(call, "deadline", call.attempt, None, now)
            if now < call.retry_at:
                return self.wait(call, "backoff", call.retry_at, now)
            if self.blocked(call) and now < call.given_up:
                return self.wait(call, "running", earliest(call.deadline, call.given_up), now)
            if self.blocked(call):  # R12: "at most 60 s later"
                call.stopped.clear()
            return self.start(call, now)
        if late:  # running or body; 7.1: "the deadline is not" retryable
            return self.end(call, "deadline", None, None, now)
        if call.state == "body":
            return self.wait(call, "body", call.deadline, now)
        if call.attempt_end is not None and now >= call.attempt_end:  # 7.1: "`attempt_timeout` is retryable"
            call.running = False
            call.stopped.append(call.attempt)
            step = self.judge(call, Outcome("timeout"), lane_bit(call.attempt), now)
            assert step is not None
            return step
        return self.wait(call, "running", earliest(call.attempt_end, call.deadline), now)

    def blocked(self, call: Call) -> bool:
        """R11: "at most four attempts … at once, and attempt n does not start while n−8 still runs"."""
        if call.request.abortable:
            return False
        return len(call.stopped) >= AT_ONCE or call.attempt + 1 - 8 in call.stopped

    def start(self, call: Call, now: int) -> Step:
        """The next attempt starts."""
        if call.attempt == 0:
            call.route.budget.deposit(now)
        if call.pending is not None:
            call.paid.append(call.pending)
            call.flying, call.pending = call.pending, None
        call.attempt += 1
        call.state, call.running = "running", True
        timeout = call.route.policy.attempt_timeout
        call.attempt_end = None if timeout is None else now + timeout
        if call.request.abortable:
            call.stopped.clear()
        until = earliest(call.attempt_end, call.deadline)
        call.over = later(until, OVERDUE)
        return {
            "action": "attempt",
            "attempt": call.attempt,
            "hedge": 0,
            "next_us": span(until, now),
            "stop": 0,
        }

    def wait(self, call: Call, why: str, until: int | None, now: int, stop: int = 0) -> Step:
        """The call waits for its one timer (R4)."""
        if call.state == "queued":  # a waiter is overdue 60 s after its patience
            until_overdue = earliest(call.patience, call.deadline)
        else:
            until_overdue = call.retry_at if call.state == "backoff" else until
        call.over = later(until_overdue, OVERDUE)
        return {"action": "wait", "why": why, "next_us": span(until, now), "stop": stop}

    # ---- admission ----

    def admit(self, call: Call, now: int) -> Step:
        """Deadline, then bulkhead, then the first attempt."""
        policy, request, parent = call.route.policy, call.request, call.request.parent
        spans = [span for span in (policy.deadline, request.remaining) if span is not None]
        call.deadline = now + min(spans) if spans else None
        if parent is not None and parent.state not in ("gone", "ended", "lost"):  # R1: else "the id is stale"
            call.parent = parent
            call.nested = parent.nested or parent.route.policy.max_attempts > 1
            call.deadline = earliest(
                call.deadline, parent.deadline
            )  # 7.3: "deadlines nest: the earlier wins"
        self.enter(call)
        if call.deadline is not None and now >= call.deadline:  # 7.2: "expired before the start: refused"
            return self.end(call, "deadline_before", None, None, now)
        route = call.route
        if policy.max_concurrency is not None and not any(
            other.holds and other.route is route for other in self.ancestors(call)
        ):
            self.revoke(route, now)
            if route.in_flight < policy.max_concurrency and not route.queue:
                route.in_flight += 1
                call.holds = True
            else:
                full = policy.max_queue is not None and len(route.queue) >= policy.max_queue
                if full or not request.may_park:
                    return self.end(call, "queue_full", None, None, now)
                if policy.acquire_timeout == 0:
                    return self.end(call, "acquire_timeout", None, None, now)
                call.patience = later(now, policy.acquire_timeout)
                call.state = "queued"
                route.queue.append(call)
                return self.wait(call, "queue", earliest(call.patience, call.deadline, now + MAX_PARK), now)
        return self.start(call, now)

    def ancestors(self, call: Call) -> list[Call]:
        """ADR 0005: "ancestry is looked up 32 levels deep"."""
        found: list[Call] = []
        parent = call.parent
        while parent is not None and len(found) < DEPTH:
            found.append(parent)
            parent = parent.parent
        return found

    def enter(self, call: Call) -> None:
        """Takes a slot of the arena, the one freed last if there is any."""
        if self.free:
            call.slot = self.free.pop()
            self.arena[call.slot] = call
        else:
            call.slot = len(self.arena)
            self.arena.append(call)
        call.route.calls += 1
        if call.parent is not None:
            call.parent.children += 1

    # ---- ends ----

    def refund(self, call: Call, now: int) -> None:
        """2.15: "refunded once if the call is cancelled before it starts"."""
        if call.pending is not None:
            call.route.budget.refund(call.pending, now)
            call.pending = None

    def end(
        self,
        call: Call,
        verdict: str,
        result: int | None,
        retry_in: int | None,
        now: int,
        stop: int = 0,
        reported: bool = False,
    ) -> Step:
        """R1: the one `Done`. `reported`: the attempt in `result` has ended by itself."""
        self.refund(call, now)
        if call.state in ("running", "body") and not reported and call.running:
            stop |= lane_bit(call.attempt)
            call.stopped.append(call.attempt)
        self.retry_over(call)
        call.running = False
        if call in call.route.queue:
            call.route.queue.remove(call)
        call.state = "ended"
        call.over = now + OVERDUE if call.out() else None
        self.settle(call, now)
        return done(verdict, result, retry_in, stop)

    def succeed(self, call: Call) -> None:
        """A success is counted once, at the head of the answer where that comes first (7.1)."""
        self.retry_over(call)
        call.route.budget.success(call.paid[-1] if call.paid else None)

    def retry_over(self, call: Call) -> None:
        """A retry is in flight from its charge to its outcome, or to the head of its answer."""
        if call.flying is not None:
            call.route.budget.retry_over(call.flying)
            call.flying = None

    def settle(self, call: Call, now: int) -> None:
        """ADR 0005: an ended call lingers until its attempts are reported and its nested calls have ended."""
        if call.state == "ended" and not call.out() and not call.children:
            self.release(call, now)

    def release(self, call: Call, now: int) -> None:
        """Gives everything back: slot, permit (R2, R6), and the place under the parent."""
        call.state = "gone"
        self.arena[call.slot] = None
        self.free.append(call.slot)
        call.route.calls -= 1
        self.pass_on(call, now)
        if call.parent is not None:
            call.parent.children -= 1
            self.settle(call.parent, now)

    def pass_on(self, call: Call, now: int) -> None:
        """R2: "a freed permit changes owner inside the step that freed it"."""
        if not call.holds:
            return
        call.holds = False
        route = call.route
        route.in_flight -= 1
        limit = route.policy.max_concurrency
        while limit is not None and route.in_flight < limit and route.queue:
            waiter = route.queue.pop(0)
            if impatient(waiter, now):  # 4.4: "is failed, not granted"
                waiter.state, waiter.over = "refused", now + OVERDUE
            else:
                waiter.state, waiter.holds = "granted", True
                waiter.over = now + UNCLAIMED
                route.granted.append(waiter)
                route.in_flight += 1
            self.woken.append(waiter)

    # ---- leases ----

    def reap_two(self, now: int, but: Call | None) -> None:
        """R9: two slots of the arena are looked at, round robin."""
        for _ in range(min(2, len(self.arena))):
            call = self.arena[self.cursor]
            self.cursor = (self.cursor + 1) % len(self.arena)
            if call is None or call is but:
                continue
            over = call.over
            if call.state == "backoff" and self.blocked(call):  # it was told to come when those are given up
                over = max(call.retry_at, call.given_up) + OVERDUE
            if over is not None and now >= over:
                self.reap(call, now)

    def revoke(self, route: Route, now: int) -> None:
        """R9: "reaped by the next event that touches it": grants of the pool that nobody claimed in 5 s."""
        while route.granted and (
            route.granted[0].state != "granted" or (route.granted[0].over or now) <= now
        ):
            call = route.granted.pop(0)
            if call.state == "granted":
                self.reap(call, now)

    def reap(self, call: Call, now: int) -> None:
        """The host has not come in time."""
        if call.state == "lost":
            if not call.children:
                self.release(call, now)
        elif call.state == "ended":
            call.stopped.clear()
            call.over = None
            self.settle(call, now)
        else:
            self.refund(call, now)
            self.retry_over(call)
            call.running = False
            call.stopped.clear()
            if call in call.route.queue:
                call.route.queue.remove(call)
            call.state = "lost"
            call.over = now + OVERDUE
            self.pass_on(call, now)

    # ---- time and wakes ----

    def clock(self, reading: int) -> int:
        """R10: "inversions under 10 ms are clamped, larger ones absorbed by an offset"."""
        shifted = reading + self.offset
        if self.last is None or shifted >= self.last:
            self.last = shifted
        elif self.last - shifted > INVERSION:
            self.offset += self.last - shifted
        return self.last

    def finish(self, step: Step) -> Step:
        """The flags of a step."""
        step["wakes"] = int(bool(self.woken))
        step["commands"] = 0
        return step

    def take_wakes(self) -> list[Call]:
        """The calls that the last step woke."""
        woken, self.woken = self.woken, []
        return woken


def done(verdict: str, result: int | None = None, retry_in: int | None = None, stop: int = 0) -> Step:
    """A call's end; `result` is the number of the attempt whose answer or failure the caller gets."""
    lane = None if result is None else (result - 1) % 8
    return {"action": "done", "verdict": verdict, "result": lane, "retry_in_us": retry_in, "stop": stop}


def lane_bit(attempt: int) -> int:
    """Bit (n − 1) mod 8."""
    return 1 << (attempt - 1) % 8


def impatient(call: Call, now: int) -> bool:
    """Has this waiter's patience ended: its `acquire_timeout` or its deadline?"""
    until = earliest(call.patience, call.deadline)
    return until is not None and now >= until


def refusal(call: Call) -> str:
    """Which of the two ended it: the earlier, and the deadline where they are the same."""
    if call.deadline is not None and (call.patience is None or call.deadline <= call.patience):
        return "deadline_queued"
    return "acquire_timeout"


def earliest(*moments: int | None) -> int | None:
    """The first of the moments that exist."""
    there = [moment for moment in moments if moment is not None]
    return min(there) if there else None


def later(moment: int | None, wait: int | None) -> int | None:
    """A moment plus a span; "never" stays "never"."""
    return None if moment is None or wait is None else moment + wait


def span(until: int | None, now: int) -> int | None:
    """The span to a moment."""
    return None if until is None else max(0, until - now)
