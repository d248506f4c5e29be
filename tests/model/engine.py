"""The engine, slowly: one list of calls, one dict of routes, one step per event (spec 7, rules R1 to R12).

Here are the events and what `Poll` evaluates. Decisions after a failure are in `decision.py`, the stages
before an attempt in `admission.py`, ends in `ends.py`, the rest one concern a file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import admission
import decision
import ends
import evidence
import forcing
import hedges
import link
import rng
import sets
import silence
import targets
from call import (
    AT_ONCE,
    MAX_PARK,
    OVERDUE,
    Attempt,
    Call,
    Ledger,
    Path,
    Request,
    Route,
    Step,
    done,
    earliest,
    later,
    span,
)
from classify import Outcome
from clock import Clock
from holds import path_of
from policy import Policy, Pool, new_budget
from queues import impatient, out_of_patience, overdue
from rates import Tokens
from routes import OVERFLOW, Routes
from windows import WallClock

import components


class Engine:
    """begin, on, target and force, with calls as objects in place of ids."""

    def __init__(self, seed: int, max_routes: int = 10_000) -> None:
        self.seed = seed
        self.begun = 0
        self.clock = Clock()
        self.arena: list[Call | None] = []
        self.free: list[int] = []
        self.cursor = 0
        self.routes = Routes(seed, max_routes, self.shut, self.pinned)
        self.pools: dict[str, Pool] = {}
        self.pooled: dict[str, Any] = {}
        self.forced_open: set[tuple[str, str | None]] = set()
        self.link = "ok"
        self.stirred: list[targets.Group] = []
        self.wall = WallClock()
        self.woken: list[Call] = []

    # ---- what the host calls ----

    def pool(self, pool: Pool) -> None:
        """0.4: pools are declared once."""
        self.pools[pool.name] = pool

    def route(self, policy: Policy, key: str, reading: int) -> Route:
        """The route of this key, made where there is none."""
        now = self.clock(reading)
        return self.routes.find(policy, key, now, lambda name: components.new_route(self, policy, name, now))

    def pinned(self, route: Route, now: int) -> bool:
        """0.5.2, 3.6.8: shut, or in debt."""
        in_debt = isinstance(route.own_rate, sets.Limits) and route.own_rate.in_debt(now)
        return in_debt or self.shut(route, now)

    def shut(self, route: Route, now: int) -> bool:
        """0.5: is a break under way, is it forced open, or is it the overflow route?"""
        breaker = route.breaker
        if route.cooldown is not None and route.cooldown.left(now) is not None:
            return True
        is_open = breaker is not None and breaker.state == "open" and now < breaker.until
        return is_open or self.forced(route) or route.key == OVERFLOW

    def target(self, text: str | None) -> Path | None:
        """2.19."""
        return None if text is None else path_of(text)

    def begin(
        self, policy: Policy, key: str | None, request: Request, reading: int, name: str
    ) -> tuple[Call, Step]:
        """A call begins."""
        now = self.clock(reading)
        if key is None:  # an id that names no route: nothing begins
            self.reap_two(now, None)
            nowhere = Route(policy, "", Ledger(new_budget({}, False)), Ledger(new_budget({}, False)))
            call = Call(name, nowhere, request, self.begun, now, state="gone")
            return call, self.finish(done("stale_route"), now)
        call = Call(name, self.route(policy, key, reading), request, self.begun, now)
        self.begun += 1
        self.reap_two(now, None)
        return call, self.finish(self.admit(call, now), now)

    def on(self, call: Call, event: dict[str, Any], reading: int) -> Step:
        """Something happened to a call. Every event ends with the evaluation that `Poll` makes (R3)."""
        now = self.clock(reading)
        return self.finish(self.event(call, event, now), now)

    def force(self, policy: Policy, key: str | None, on: bool, reading: int) -> None:
        """0.6. `key` None is all routes, those to come too; clearing all clears each."""
        now = self.clock(reading)
        if key is not None:
            key = self.route(policy, key, reading).key
        forcing.force(self, policy, key, on, now)

    def set_link(self, link: str, reading: int) -> None:
        """2.22: what the host knows of the device's networks."""
        self.clock(reading)
        self.link = link

    def report_wall(self, micros: int, reading: int) -> None:
        """3.8.4: the host's wall clock."""
        self.wall.report(micros, self.clock(reading))

    def release(self, policy: Policy, keep: bool, reading: int) -> Policy:
        """0.9: its only owner lets it go and takes its like in: the policy that calls use from here on."""
        self.clock(reading)
        if keep:  # "is kept, with its routes and what they owe"
            self.routes.look_for_leaving()
            return policy
        successor = replace(policy)
        self.routes.leave_with(policy)
        self.forced_open = {
            (policy.name if name == successor.name else name, key) for name, key in self.forced_open
        }
        return successor

    def take_wakes(self) -> list[Call]:
        """The calls that the last step woke."""
        woken, self.woken = self.woken, []
        return woken

    # ---- routes ----

    def forced(self, route: Route) -> bool:
        """Is it forced open, or are all routes of its policy?"""
        return bool({(route.policy.name, None), (route.policy.name, route.key)} & self.forced_open)

    # ---- events ----

    def event(self, call: Call, event: dict[str, Any], now: int) -> Step:
        """The event itself."""
        kind, number = event["event"], event.get("attempt", 0)
        stopped = next((attempt for attempt in call.stopped if attempt.number == number), None)
        if call.state in ("new", "gone"):
            return done("stale")
        if call.state == "ended":
            if kind == "finished" and stopped is not None:
                sets.settle(self, call, [stopped], event["outcome"].kind, now)
                call.stopped.remove(stopped)
                call.loose.append(stopped)
                if not call.stopped:
                    ends.keep_one(call)
                self.free_loose(call, now)
                ends.settle(self, call, now)
            return done("stale")
        if call.state == "lost":  # R9: "answered Lost"
            call.state, call.over = "ended", None
            ends.settle(self, call, now)
            return done("lost")
        if kind == "cancel":
            return self.end(call, "cancelled", None, None, now)
        live = next((attempt for attempt in call.live if attempt.number == number), None)
        stop = 0
        if kind == "headers" and call.state == "running" and live is not None:
            call.live.remove(live)
            evidence.succeeded(self, call, live, now)
            if not call.request.slot_until_body:
                call.loose.append(live)
                sets.settle(self, call, [live], "ok", now)
                return self.end(call, "ok", number, None, now)
            stop = self.stop_all(call, now)
            call.state, call.winner = "body", live
            call.live = [live]
            silence.delivered(call, now)
        elif kind == "progress" and call.state in ("running", "body") and live is not None:
            return silence.report(self, call, live, event["age_us"], now)
        elif kind == "finished":
            step = self.finished(call, live, stopped, event["outcome"], now)
            if step is not None:
                return step
        return self.evaluate(call, now, stop)

    def finished(
        self, call: Call, live: Attempt | None, stopped: Attempt | None, outcome: Outcome, now: int
    ) -> Step | None:
        """An attempt was reported. 7.5: "a late outcome is taken as it is"."""
        found = live if call.state in ("body", "running") and live is not None else stopped
        if found is not None:
            sets.settle(self, call, [found], outcome.kind, now)
        if call.state == "body" and live is not None:
            call.live.remove(live)
            call.loose.append(live)
            if outcome.kind in ("ok", "cancelled"):
                return self.end(call, outcome.kind, live.number, None, now)
            evidence.of_body(self, call, outcome, now)
            return self.end(call, "not_retryable", live.number, None, now)
        if call.state == "running" and live is not None:
            call.live.remove(live)
            call.loose.append(live)
            if outcome.kind == "ok":
                evidence.succeeded(self, call, live, now)
                return self.end(call, "ok", live.number, None, now)
            evidence.ended(self, call, live, outcome, now)
            step = decision.decide(self, call, live, outcome, 0, now)
            self.free_loose(call, now)
            return step
        if stopped is not None:
            call.stopped.remove(stopped)
            call.loose.append(stopped)
            if call.between() and outcome.kind == "ok" and stopped.number == call.attempt:
                # "an answer that a stopped attempt has all the same, reported before the next one starts,
                # ends the call with it, and the retry is refunded"; success does not pay it back once more
                self.refund(call, now)
                call.retries.clear()
                evidence.succeeded(self, call, stopped, now, late=True)
                return self.end(call, "ok", stopped.number, None, now)
            self.free_loose(call, now)
        return None

    # ---- what Poll evaluates ----

    def evaluate(self, call: Call, now: int, stop: int = 0) -> Step:
        """R3: `Poll` is the truth."""
        late = call.deadline is not None and now >= call.deadline
        if call.state == "waiting":  # R9: "any waiter's timer"
            self.reap_two(now, call)
            if call.why == "queue" and call.route.permits is not None:
                call.route.permits.revoke(self, now)
        if call.between() and self.forced(call.route):
            return self.end_with_last(call, "readmission", None, now)
        if call.state == "waiting":
            step = self.look_around(call, now)
            if step is not None:
                return step
        if call.state == "refused":
            return self.turned_away(call, call.refusal, now)
        if call.state == "granted":
            return self.turned_away(call, "deadline_queued", now) if late else self.go_on(call, now)
        if call.state == "backoff":
            return self.after_backoff(call, late, now)
        if late:  # running or body; 7.1: "the deadline is not" retryable
            step = self.cut(call, now)
            return {**step, "stop": step["stop"] | stop}
        if call.state == "body":
            return self.wait(call, "body", silence.body_until(call, now), now, stop)
        return self.still_running(call, [], now, stop)

    def still_running(self, call: Call, silent: list[Attempt], now: int, stop: int = 0) -> Step:
        """7.1: "`attempt_timeout` is retryable"; so is a silence before the delivery (7.7)."""
        out_of_time = [one for one in call.live if one.end is not None and now >= one.end]
        out_of_time = silent + [one for one in out_of_time if one not in silent]
        if out_of_time:
            for attempt in out_of_time:
                stop |= self.stop(call, attempt, now, Outcome("timeout"))
            step = decision.decide(self, call, out_of_time[-1], Outcome("timeout"), stop, now)
            self.free_loose(call, now)
            if step is not None:
                return step
        due = hedges.due(self, call, now)
        if due is not None and now >= due:
            step = hedges.start(self, call, now)
            if step is not None:
                return {**step, "stop": stop}
        return self.wait(call, "running", self.next_moment(call, now), now, stop)

    def look_around(self, call: Call, now: int) -> Step | None:
        """A waiter looks: has its time come, or its patience ended? None: it may go on, or is refused."""
        late = call.deadline is not None and now >= call.deadline
        if call.why == "queue":
            if impatient(call, now):
                return self.turned_away(call, out_of_patience(call), now)
            permits = call.route.permits
            if permits is not None and any(
                admission.holds(one, permits) for one in admission.ancestors(call)
            ):
                permits.remove(
                    call, now
                )  # 0.4: "shares it", from now on: to wait would be to wait for itself
                call.shares, call.state = True, "granted"
                return None
            return self.parked(call, now)
        if late:
            return self.turned_away(call, "deadline_queued", now)
        if call.why == "target":
            return targets.look(self, call, now)
        if call.why == "cooldown":
            there = call.route.cooldown
            assert there is not None
            there.let_in(self, now, call)
            self.woken = [one for one in self.woken if one is not call]
            if call.state == "granted":
                return None
            if call.state == "refused" or (call.patience is not None and now >= call.patience):
                return self.end(call, "cooldown", None, there.left(now), now)
            return self.parked(call, now)
        if call.why == "hold":
            assert call.hold is not None
            call.hold.hand_out(self, now, call)
        else:
            self.tokens_of(call).hand_out(self, now, call)
            if call.state == "waiting" and call.why == "rate" and sets.out_of_patience(call, now):
                self.woken = [one for one in self.woken if one is not call]
                return admission.refuse(self, call, "rate_limited", sets.turn(call, now), now)
        self.woken = [one for one in self.woken if one is not call]  # it is here
        return self.parked(call, now) if call.state == "waiting" else None

    def go_on(self, call: Call, now: int) -> Step:
        """What it waited for has been granted: the stage after that is next."""
        call.patience = call.patience if call.why == "target" else None
        if call.why == "cooldown":
            return admission.proceed(self, call, "queue" if call.keeps else "rate", now)
        if call.why == "target":
            return targets.claim(self, call, now) or self.start(call, now)
        return admission.proceed(self, call, admission.after(call.why), now)

    def after_backoff(self, call: Call, late: bool, now: int) -> Step:
        """The next attempt, once its moment has come and R11 allows it."""
        if late:  # the failure at hand is the result
            return self.end_with_last(call, "deadline", None, now)
        if call.at_once:  # a policy without retry, whose last attempt we stopped
            step = hedges.start(self, call, now) if self.link == "ok" else None
            return step or self.end_with_last(call, "attempts", call.longest, now)
        if now < call.retry_at:
            return self.wait(call, "backoff", call.retry_at, now)
        if self.link == "offline":
            return self.wait_for_link(call, now)
        if self.blocked(call) and now < call.given_up:
            return self.wait(call, "running", earliest(call.deadline, call.given_up), now)
        if self.blocked(call):  # R12: "at most 60 s later"
            sets.settle(self, call, call.stopped, None, now)
            call.loose += call.stopped
            call.stopped.clear()
            self.free_loose(call, now)
        return admission.proceed(self, call, "look", now)

    def wait_for_link(self, call: Call, now: int) -> Step:
        """2.22: an attempt that is due waits while the device is offline."""
        policy = call.route.policy
        if policy.time_limit is not None and now - call.began > policy.time_limit:
            return self.end_with_last(call, "time_limit", None, now)
        bounded = call.deadline is not None or policy.time_limit is not None
        longest = None if bounded else call.given_up - OVERDUE + policy.max_retry_after  # from the failure on
        if longest is not None and now >= longest:
            return self.end_with_last(call, "offline", None, now)
        turn = earliest(link.turn(self.seed, call, now), longest, call.deadline)
        assert turn is not None
        call.state, call.retry_at = "backoff", turn
        return self.wait(call, "backoff", turn, now)

    def cut(self, call: Call, now: int) -> Step:
        """The deadline ends the call, whatever runs. Of several attempts the one that ran longest decides."""
        if call.state == "body":  # a body that the deadline cuts has failed by the same rule as an attempt
            assert call.winner is not None
            evidence.of_body(self, call, evidence.cut_by_deadline(call, call.winner, now), now)
            return self.end(call, "deadline", None, None, now)
        oldest = call.live[0]
        outcome = evidence.cut_by_deadline(call, oldest, now)
        for attempt in call.live:
            evidence.of_attempt(self, call, attempt, evidence.cut_by_deadline(call, attempt, now), now)
        evidence.of_call(self, call, oldest, outcome, now - oldest.started, now)
        return self.end(call, "deadline", None, None, now)

    def running_until(self, call: Call, now: int) -> int | None:
        """The call's next moment while attempts run."""
        return earliest(*[attempt.end for attempt in call.live], call.deadline, hedges.due(self, call, now))

    def next_moment(self, call: Call, now: int) -> int | None:
        """The same, and the next report of silence (7.7)."""
        idle = call.route.policy.idle_timeout if call.request.slot_until_body else None
        return earliest(self.running_until(call, now), later(now, idle))

    def blocked(self, call: Call) -> bool:
        """R11: "at most four attempts … at once, and attempt n does not start while n−8 still runs"."""
        out = [*call.live, *([] if call.request.abortable else call.stopped)]
        return len(out) >= AT_ONCE or any(attempt.number == call.attempt + 1 - 8 for attempt in out)

    # ---- attempts ----

    def start(self, call: Call, now: int) -> Step:
        """The next attempt that is no hedge starts, with all that was granted for it."""
        policy = call.route.policy
        if call.attempt == 0:
            for ledger in call.route.ledgers():
                ledger.budget.deposit(now)
        call.no_hedge, call.throttled, call.longest = False, False, None
        call.keeps, call.inner = False, False
        attempt, step = self.attempt(call, False, now)
        if call.pending is not None:
            call.retries.append(call.pending)
            attempt.flying, call.pending = call.pending, None
        if policy.bulkhead is not None and policy.bulkhead.per_attempt:
            attempt.permit, call.permit = call.permit, None
        if policy.breaker is not None and policy.breaker.per_attempt:
            attempt.ticket, call.ticket = call.ticket, None
        if policy.throttle is not None and policy.throttle.per_attempt:
            attempt.counted, call.counted = call.counted, False
        return step

    def attempt(self, call: Call, hedge: bool, now: int) -> tuple[Attempt, Step]:
        """An attempt starts."""
        beside = bool(call.live)
        call.attempt += 1
        attempt = Attempt(call.attempt, now, hedge, silence.attempt_end(call, now))
        if call.request.abortable:
            call.stopped.clear()
        call.live.append(attempt)
        call.newest, call.state, call.at_once = attempt, "running", False
        call.over = self.lease(call)
        until = span(self.next_moment(call, now), now)
        targets.give(call, attempt)
        sets.start(call, attempt)
        step = {"action": "attempt", "attempt": attempt.number, "hedge": int(beside), "next_us": until}
        step["target"] = int(attempt.target is not None)
        step["goes_to"] = None if attempt.target is None else attempt.target.keys.name
        return attempt, {**step, "stop": 0}

    def stop(self, call: Call, attempt: Attempt, now: int, outcome: Outcome) -> int:
        """We stop an attempt; its permit comes back now or when it is reported (R12)."""
        call.live.remove(attempt)
        call.stopped.append(attempt)
        if call.request.abortable and outcome.kind == "timeout":
            sets.settle(self, call, [attempt], None, now)
        if outcome.kind == "cancelled":
            evidence.land(attempt)
            evidence.of_attempt(self, call, attempt, outcome, now)
        else:
            evidence.ended(self, call, attempt, outcome, now)
        if call.request.abortable:
            call.loose.append(attempt)
        return attempt.bit()

    def stop_all(self, call: Call, now: int) -> int:
        """Those that still run lose (1.3)."""
        stop = 0
        for attempt in list(call.live):
            stop |= self.stop(call, attempt, now, evidence.CUT)
        sets.give_up(self, call, now)
        self.free_loose(call, now)
        return stop

    def throttle_admits(self, call: Call, now: int) -> bool:
        """Draws over the number of the attempt that it asks for."""
        throttle, keys = call.route.throttle, call.route.policy.throttle
        assert throttle is not None and keys is not None
        number = call.attempt + 1 if keys.per_attempt else 1
        bits = rng.bits(self.seed, call.ordinal, rng.THROTTLE, number)
        return throttle.admit(bits, now, call.request.criticality if keys.prioritized else None)

    def free_permit(self, attempt: Attempt, now: int) -> None:
        """A permit of an attempt's own comes back."""
        targets.give_back(self, attempt, now)
        permits, attempt.permit = attempt.permit, None
        if permits is not None:
            permits.give_back(self, now)

    def free_loose(self, call: Call, now: int) -> None:
        """Those of the attempts that are over."""
        loose, call.loose = call.loose, []
        for attempt in loose:
            self.free_permit(attempt, now)

    # ---- waits ----

    def tokens_of(self, call: Call) -> Tokens:
        """The queue that it waits in for tokens."""
        tokens = call.route.send if call.why == "send" else call.route.rate
        assert tokens is not None
        return tokens

    def parked(self, call: Call, now: int) -> Step:
        """As written: "At most `max_park` (1 s) away while parked" (R4)."""
        if call.why == "target":
            return targets.parked(call, now)
        if call.why == "queue":
            until = earliest(call.patience, call.deadline, now + MAX_PARK)
            call.over = overdue(call)
        elif call.why == "cooldown":
            assert call.route.cooldown is not None
            end = later(now, call.route.cooldown.left(now))
            until = earliest(end, call.patience, now + MAX_PARK)
            call.over = later(until, OVERDUE)
        elif call.why == "hold":
            assert call.hold is not None
            moment = call.hold.moment if call.hold.moment > now else None
            until = earliest(moment, call.deadline, now + MAX_PARK)
            call.over = later(until, OVERDUE)
        else:
            tokens = self.tokens_of(call)
            if isinstance(tokens, sets.Limits):
                return tokens.step(call, now)
            turn = tokens.turn_of(call, now)
            until = earliest(turn, call.deadline, now + MAX_PARK)
        why = "rate" if call.why == "send" else call.why
        return {"action": "wait", "why": why, "next_us": span(until, now), "stop": 0}

    def wait(self, call: Call, why: str, until: int | None, now: int, stop: int = 0) -> Step:
        """The call waits for its one timer (R4)."""
        call.over = self.lease(call) if call.state in ("running", "body") else call.retry_at + OVERDUE
        return {"action": "wait", "why": why, "next_us": span(until, now), "stop": stop}

    def lease(self, call: Call) -> int | None:
        """R9: "a call overdue by 60 s"; "an attempt without timeout or deadline is never reclaimed"."""
        ends_at = [] if call.state == "body" else [attempt.end for attempt in call.live]
        return later(earliest(*ends_at, call.deadline), OVERDUE)

    def refuse(self, call: Call, verdict: str, now: int, own: Call | None) -> None:
        """A waiter is refused: it keeps what it has until its owner comes, who is woken."""
        call.state, call.refusal, call.over = "refused", verdict, now + OVERDUE
        self.wake(call, own)

    def turned_away(self, call: Call, verdict: str, now: int) -> Step:
        """A refused waiter's end; before a further attempt it is the failure at hand."""
        wait = call.again - now if call.why in ("target", "rate") and call.again > now else None
        if call.attempt == 0:
            return self.end(call, verdict, None, wait, now)
        return self.end_with_last(
            call, "deadline" if verdict == "deadline_queued" else "readmission", wait, now
        )

    def wake(self, call: Call, own: Call | None) -> None:
        """Its owner is to poll, unless it does just now."""
        if call is not own:
            self.woken.append(call)

    # ---- the beginning and the end ----

    def admit(self, call: Call, now: int) -> Step:
        """Forced open → its deadline → cost above burst → the stages."""
        ends.enter(self, call, now)
        if self.forced(call.route):
            return self.end(call, "forced_open", None, None, now)
        if call.deadline is not None and now >= call.deadline:  # 7.2: "expired before the start: refused"
            return self.end(call, "deadline_before", None, None, now)
        rate = call.route.rate
        if isinstance(rate, sets.Limits) and not rate.weigh(call):
            return self.end(call, "cost_above_burst", None, None, now)
        if rate is not None and rate.burst is not None and call.request.cost > rate.burst:
            return self.end(call, "cost_above_burst", None, None, now)
        return admission.proceed(self, call, "look", now)

    def refund(self, call: Call, now: int) -> None:
        """2.15: "refunded once if the call is cancelled before it starts"."""
        if call.pending is not None:
            call.pending.ledger.budget.refund(call.pending.charge, now)
            call.pending = None

    def end(
        self, call: Call, verdict: str, result: int | None, retry_in: int | None, now: int, stop: int = 0
    ) -> Step:
        """R1: the one `Done`."""
        return ends.end(self, call, verdict, result, retry_in, now, stop)

    def end_with_last(self, call: Call, verdict: str, retry_in: int | None, now: int, stop: int = 0) -> Step:
        """The last failure decides, and is the result."""
        assert call.last is not None
        attempt, outcome, _ = call.last  # "a call that ends between attempts gives no sample"
        evidence.of_call(self, call, attempt, outcome, None, now)
        return self.end(call, verdict, attempt.number, retry_in, now, stop)

    def reap_two(self, now: int, but: Call | None) -> None:
        """R9: two slots of the arena are looked at, round robin."""
        ends.reap_two(self, now, but)

    def reap(self, call: Call, now: int) -> None:
        """The host has not come in time."""
        ends.reap(self, call, now)

    def finish(self, step: Step, now: int) -> Step:
        """What a step leaves to its end, and its flags."""
        stirred, self.stirred = self.stirred, []
        for group in stirred:
            group.hand_out(self, now)
        step["wakes"] = int(bool(self.woken))
        step["commands"] = 0
        return step
