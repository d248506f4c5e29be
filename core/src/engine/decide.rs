//! The decision after an attempt has ended: a further attempt, or the call's end, in the order of R5.
//!
//! Class → method and body → attempts → Retry-After → delay against deadline and time limit → budget → wait
//! (semantics 2.6).

use super::Engine;
use super::arena::{Arena, flag};
use super::call::wait;
use super::call_extra::RunningAttempt;
use super::desk::Desk;
use super::ledger::Charge;
use super::place::Slot;
use super::policies::Policies;
use super::route::stage;
use super::targets::Elsewhere;
use super::whole;
use crate::action::{AttemptSlot, Link, Verdict, Wait};
use crate::outcome::{Class, Opinion, Outcome};
use crate::policy::Unit;
use crate::rng;
use crate::step::Step;
use crate::time::{Duration, Time};

impl Policies {
    /// Whether this failure may be retried, by its class, the opinions on it, and the request; or by another target that
    /// it `fails_over` to.
    fn may_retry(
        &self,
        calls: &Arena,
        slot: Slot,
        class: Class,
        outcome: Outcome,
        fails_over: bool,
    ) -> Result<(), Verdict> {
        let (call, policy) = (&calls[slot], self.of(&calls[slot]));
        let hedges = policy.hedge.is_some() && calls.is_hedgeable(slot);
        match (class, outcome.opinion) {
            (Class::Cancelled, _) => return Err(Verdict::Cancelled),
            // With retries disabled, report `Attempts`: nothing was suppressed.
            _ if policy.retry.max_attempts == 1 && class.retryable() && !hedges => {
                return Err(Verdict::Attempts);
            }
            (_, Opinion::DoNot) => return Err(Verdict::Opinion),
            (_, Opinion::None) if !fails_over && policy.retry.kinds >> outcome.kind.number() & 1 == 0 => {
                return Err(Verdict::NotRetryable);
            }
            _ => {}
        }
        if !call.has(flag::IDEMPOTENT) && class != Class::NeverSent {
            return Err(Verdict::Method);
        }
        if call.has(flag::REPLAYABLE) { Ok(()) } else { Err(Verdict::OneShotBody) }
    }
}

impl Desk {
    /// The wait before the next attempt, or why there is no further attempt. The budget is asked afterwards, and only
    /// if all other rules allow the attempt.
    fn next_delay(
        &self,
        slot: Slot,
        class: Class,
        retry_after: Option<Duration>,
        elsewhere: Elsewhere,
        now: Time,
    ) -> Result<Duration, Verdict> {
        let (call, policy) = (&self.calls[slot], self.policies.of(&self.calls[slot]));
        let (retry, route) = (&policy.retry, &self.routes[call.route]);
        if call.attempts >= retry.max_attempts {
            return Err(Verdict::Attempts);
        }
        if call.has(flag::NESTED) {
            return Err(Verdict::Nested);
        }
        if call.has(flag::PROBE) || route.stages & stage::FORCED != 0 {
            return Err(Verdict::Readmission);
        }
        let left = call.deadline.since(now);
        let draw = |purpose, n| rng::bits(self.seed, call.ordinal(), purpose, n);
        let delay = match elsewhere {
            Elsewhere::Now => Duration::ZERO,
            Elsewhere::After(least) => {
                retry.wait_before(call.attempts, class, retry_after, left, draw)?.max(least)
            }
        };
        if delay >= left {
            return Err(Verdict::WouldOutliveDeadline);
        }
        if now.since(call.started).plus(delay) > retry.time_limit {
            return Err(Verdict::TimeLimit);
        }
        if policy.breaker.as_ref().is_some_and(|breaker| breaker.unit == Unit::Attempt)
            && route
                .breaker
                .as_ref()
                .and_then(|it| it.open_until())
                .is_some_and(|open| open > now.after(delay))
        {
            return Err(Verdict::Readmission);
        }
        Ok(delay)
    }
}

impl Engine {
    /// Decides after an attempt has ended, in the order of R5. `stop` is set if the engine ended it.
    #[cfg_attr(not(tidegate_small), inline(always))]
    pub(super) fn decide(
        &mut self,
        slot: Slot,
        running_attempt: RunningAttempt,
        outcome: Outcome,
        stop: u8,
        now: Time,
    ) -> Step {
        let class = self.desk.policies.of(&self.desk.calls[slot]).class_of(outcome.kind);
        let attempt_slot = AttemptSlot::of(running_attempt.attempt);
        let left = self.attempt_over(slot, &running_attempt, class, outcome.kind, now);
        let call = &mut self.desk.calls[slot];
        if !running_attempt.hedge {
            call.charge = left; // a hedge's charge does not belong to the call's last retry
        }
        if call.ticket != 0 {
            self.desk.policies.drop_attempt_ticket(&mut self.desk.calls[slot]);
        }
        if class == Class::Ok {
            self.desk.routes.learn_latency(&self.desk.calls, slot, &running_attempt, now);
            self.call_over(slot, outcome.kind, running_attempt.attempt, Some(running_attempt.since), now);
            return self.finish(slot, Verdict::Ok, Some(attempt_slot), None, now);
        }
        self.failed(slot, running_attempt, (outcome, class), stop, now)
    }

    /// Handles a failed attempt.
    #[inline(never)]
    fn failed(
        &mut self,
        slot: Slot,
        running_attempt: RunningAttempt,
        (outcome, class): (Outcome, Class),
        stop: u8,
        now: Time,
    ) -> Step {
        let attempt_slot = AttemptSlot::of(running_attempt.attempt);
        if class == Class::Timeout {
            self.desk.note(|it| it.attempt_late(slot, &running_attempt, now));
        }
        if class == Class::Throttled {
            let started = (running_attempt.since, running_attempt.attempt);
            let call = &self.desk.calls[slot];
            let home = self.desk.routes[call.route].pool_at;
            // A limit that follows loss hears of it although it may be retried, also where the permit is the call's. Fed again
            // at the end of its call, the attempt has started before this cut.
            if call.has(flag::HOLDS) && self.desk.routes[home].follows_loss() {
                self.feed_controller(slot, home, outcome.kind, running_attempt.since, now);
            }
            self.fleet_desk().cool_down(slot, started, (outcome.retry_after, false), now);
        }
        let policy = self.desk.policies.of(&self.desk.calls[slot]);
        let (spent, listed) = (policy.is_spent(outcome.kind), policy.fails_over(outcome.kind));
        if spent {
            let started = (running_attempt.since, running_attempt.attempt);
            self.fleet_desk().cool_down(slot, started, (outcome.retry_after, true), now);
        }
        self.desk.calls[slot].set_last_failure(outcome.kind, attempt_slot);
        let fails_over = self.desk.routes.targets_of(&self.desk.calls[slot]).is_some()
            && self.desk.fails_over(slot, outcome, listed, now);
        let ended = match self.desk.policies.may_retry(&self.desk.calls, slot, class, outcome, fails_over) {
            Ok(()) if self.desk.calls[slot].running() != 0 => {
                self.desk.calls.lost_attempt(slot, class, outcome.retry_after);
                let alone = self.desk.policies.of(&self.desk.calls[slot]).retry.max_attempts == 1;
                self.release_pending(now);
                let raced = if alone { self.race(slot, now) } else { None };
                let step = raced.unwrap_or_else(|| self.evaluate(slot, now));
                return step.stopping(stop);
            }
            Ok(()) => match self.another(slot, running_attempt.hedge, (outcome, class), stop, now) {
                Ok(step) => return step,
                Err(verdict) => verdict,
            },
            Err(verdict) => verdict,
        };
        let retry_in =
            self.desk.calls.largest_retry_after(slot, outcome.retry_after).filter(|_| class.retryable());
        self.call_over(slot, outcome.kind, running_attempt.attempt, Some(running_attempt.since), now);
        let step = self.end(slot, ended, Some(attempt_slot), retry_in, now);
        step.stopping(stop)
    }

    /// Schedules a further attempt after a retryable failure, or returns why there is no further attempt: class →
    /// method and body → attempts → Retry-After → deadline and time limit → budget (semantics 2.6).
    fn another(
        &mut self,
        slot: Slot,
        hedge: bool,
        (outcome, class): (Outcome, Class),
        stop: u8,
        now: Time,
    ) -> Result<Step, Verdict> {
        if self.desk.policies.of(&self.desk.calls[slot]).retry.max_attempts == 1 {
            if self.desk.link != Link::Ok || !self.desk.policies.could_hedge(&self.desk.calls, slot) {
                return Err(Verdict::Attempts);
            }
            self.release_pending(now);
            if class == Class::Throttled {
                return Err(Verdict::Attempts);
            }
            self.desk.calls.note_retry_after(slot, outcome.retry_after);
            if stop == 0 {
                return self.race(slot, now).ok_or(Verdict::Attempts);
            }
            // The owner polls once the stopped attempt has unwound (R3).
            let call = &mut self.desk.calls[slot];
            call.set_since(now);
            call.moment = now;
            call.wait();
            return Ok(wait(Wait::Backoff, now, now).stopping(stop));
        }
        let retry_after = self.desk.calls.largest_retry_after(slot, outcome.retry_after);
        let stages = self.desk.routes[self.desk.calls[slot].route].stages;
        let elsewhere = if stages & (stage::HOLD | stage::SEND) == 0 {
            Elsewhere::HERE
        } else {
            self.desk.elsewhere(slot, now)
        };
        let delay = self.desk.next_delay(slot, class, retry_after, elsewhere, now)?;
        let Charge::Granted(charge) = self.desk.charge(slot, class, hedge, now) else {
            return Err(Verdict::Budget);
        };
        if elsewhere == Elsewhere::Now {
            let (_, attempt_slot) = self.desk.calls[slot].last_failure();
            let number = self.desk.calls.target_in(slot, attempt_slot);
            if let Some((home, number)) = self.desk.routes.targets_of(&self.desk.calls[slot]).zip(number) {
                self.desk.routes.count_failover(home, number);
            }
        }
        let call = &mut self.desk.calls[slot];
        call.charge = charge;
        call.set_since(now);
        call.moment = now.after(delay);
        call.flags &= !flag::RACING;
        self.desk.note(move |it| it.retry_scheduled(slot, outcome.kind, delay, now));
        if whole::asks_for_less(class) {
            self.desk.hold_like(slot, delay, now);
        }
        self.release_pending(now);
        if delay == Duration::ZERO && stop == 0 {
            return Ok(self.go_on(slot, now));
        }
        self.desk.calls[slot].wait();
        let route = self.desk.calls[slot].route;
        let due = self.fleet_desk().keep_lease(route, now.after(delay), now);
        Ok(wait(Wait::Backoff, due, now).stopping(stop))
    }

    /// Stops an attempt whose timeout has passed, or which has been `silent` for too long, and decides as after any other
    /// failure. If several time out together, the newest decides.
    pub(super) fn time_out(&mut self, slot: Slot, attempt: u8, silent: bool, now: Time) -> Step {
        let (mut stop, mut attempt, mut silent) = (0, attempt, silent);
        loop {
            let running_attempt = self.desk.take_running_attempt(slot, attempt);
            let bit = AttemptSlot::of(attempt).bit();
            if core::mem::take(&mut silent) {
                self.desk.note(|it| it.attempt_silent(slot, &running_attempt, now));
            }
            stop |= bit;
            self.desk.calls[slot].stopped |= bit;
            if self.desk.calls[slot].has(flag::ABORTABLE) {
                self.desk.calls.report_attempt_slots(slot, bit, &mut self.pending_release);
                self.desk.settle_given_up(slot, bit, now);
            }
            let (end, next) = self.desk.policies.first_to_end(&self.desk.calls, slot, now);
            if !whole::races_on(self.desk.calls[slot].running()) || end > now {
                return self.decide(slot, running_attempt, Outcome::of(Class::Timeout), stop, now);
            }
            let left = self.attempt_over(slot, &running_attempt, Class::Timeout, Class::Timeout.into(), now);
            self.desk.note(|it| it.attempt_late(slot, &running_attempt, now));
            if !running_attempt.hedge {
                self.desk.calls[slot].charge = left;
            }
            attempt = next;
        }
    }

    /// Starts the next attempt of a race whose last one was stopped, for a policy without retries.
    pub(super) fn hedge_on(&mut self, slot: Slot, now: Time) -> Step {
        self.desk.calls[slot].race_on();
        if let Some(step) = self.race(slot, now) {
            return step;
        }
        let (kind, attempt_slot) = self.desk.calls[slot].last_failure();
        let retry_in = self.desk.calls.largest_retry_after(slot, None);
        self.call_over(slot, kind, self.desk.calls[slot].attempt_in(attempt_slot), None, now);
        self.end(slot, Verdict::Attempts, Some(attempt_slot), retry_in, now)
    }

    /// Handles the head of a successful answer: the attempt timeout ends here. Slot and deadline continue if the body
    /// counts.
    pub(super) fn head(&mut self, slot: Slot, attempt: u8, now: Time) -> Step {
        let running_attempt = self.desk.take_running_attempt(slot, attempt);
        let attempt_slot = AttemptSlot::of(attempt);
        let ticket =
            if running_attempt.ticket == 0 { self.desk.calls[slot].ticket } else { running_attempt.ticket };
        let left = self.attempt_over(slot, &running_attempt, Class::Ok, Class::Ok.into(), now);
        self.desk.routes.learn_latency(&self.desk.calls, slot, &running_attempt, now);
        self.call_over(slot, Class::Ok.into(), attempt, Some(running_attempt.since), now);
        if !self.desk.calls[slot].has(flag::UNTIL_BODY) {
            self.desk.calls.report_attempt_slots(slot, attempt_slot.bit(), &mut self.pending_release);
            self.desk.settle_reported(slot, attempt, Class::Ok, now);
            self.desk.calls[slot].charge = if running_attempt.hedge { 0 } else { left };
            return self.end(slot, Verdict::Ok, Some(attempt_slot), None, now);
        }
        let alone = self.desk.calls[slot].attempt_slots == attempt_slot.bit();
        let stop = if alone { 0 } else { self.stop_attempts(slot, !attempt_slot.bit(), false, now) };
        let call = &mut self.desk.calls[slot];
        call.charge = if running_attempt.hedge { 0 } else { left };
        call.ticket = ticket;
        call.flags &= !flag::RACING;
        call.read(running_attempt.since);
        self.desk.policies.deliver(&mut self.desk.calls[slot], now);
        let step = self.evaluate(slot, now);
        step.stopping(stop)
    }
}
