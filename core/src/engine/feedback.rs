//! Feedback: how an outcome updates the retry budget, the send rate, breaker or throttle, and the limit of a
//! bulkhead, in this order (semantics 1.2).

use super::Engine;
use super::arena::{Arena, Call, flag};
use super::automaton::State;
use super::call_extra::{RunningAttempt, mark};
use super::desk::Desk;
use super::place::{PoolAt, Slot};
use super::rate_queue::Bucket;
use super::route::stage;
use super::stage::missing;
use super::stage::{Context, Effect, Ended, Stage as _};
use crate::action::AttemptSlot;
use crate::breaker::{CircuitBreaker, Evidence, Ticket};
use crate::engine::fleet::FleetDesk;
use crate::engine::policies::Policies;
use crate::outcome::{Class, Kind};
use crate::policy::Unit;
use crate::rng::{self, Purpose};
use crate::throttle::AdaptiveThrottle;
use crate::time::{Duration, Time};

impl Desk {
    /// Takes a running attempt out of its race; a call's only attempt is read from the call itself.
    pub(super) fn take_running_attempt(&mut self, slot: Slot, attempt: u8) -> RunningAttempt {
        let call = &self.calls[slot];
        let base = call.since();
        if call.is_racing() {
            let mut permit = call.has(flag::PER_ATTEMPT);
            let bulkhead = &self.policies.of(&self.calls[slot]).bulkhead;
            let by_attempt = bulkhead.as_ref().is_some_and(|bulkhead| bulkhead.unit == Unit::Attempt);
            let extra = self.calls.extra_mut(slot);
            permit |= by_attempt && extra.extra_permits & AttemptSlot::of(attempt).bit() != 0;
            if let Some(running_attempt) = extra.take(AttemptSlot::of(attempt), base) {
                return RunningAttempt { permit, ..running_attempt };
            }
        }
        RunningAttempt::alone(&self.calls[slot], attempt)
    }

    /// Follows a change of a pool's limit.
    #[inline(never)]
    fn follow_limit(&mut self, slot: Slot, home: PoolAt, from: u32, now: Time) {
        self.note(move |it| it.limit_changed(Some(slot), home, from, now));
        self.hand_out(home, now);
    }
}

impl Engine {
    /// Feeds the outcome of an attempt to every component that counts attempts. Budgets and the send rate use the
    /// class `paid_for`, the others use `kind`. Returns the remainder of the attempt's charge.
    #[cfg_attr(not(tidegate_small), inline(always))]
    pub(super) fn attempt_over(
        &mut self,
        slot: Slot,
        running_attempt: &RunningAttempt,
        paid_for: Class,
        kind: Kind,
        now: Time,
    ) -> u16 {
        let call = &self.desk.calls[slot];
        let policy = call.policy;
        let stages = self.desk.routes[call.route].stages;
        let left = if stages & stage::BOOKS == 0 {
            0
        } else {
            self.desk.count_outcome(slot, running_attempt, paid_for)
        };
        self.desk.note_course(move |it| it.attempt_ended(slot, running_attempt, kind, now));
        if stages == 0 {
            return left;
        }
        // A send rate, targets, or a cooldown.
        let learns = stages & (stage::SEND | stage::HOLD) != 0;
        if learns || running_attempt.ticket != 0 && self.desk.policies.guards_attempts(policy) {
            self.attempt_feedback(slot, running_attempt, paid_for, kind, now);
        }
        if running_attempt.permit {
            self.feed(slot, kind, running_attempt.since, now);
        }
        left
    }

    #[inline(never)]
    fn attempt_feedback(
        &mut self,
        slot: Slot,
        running_attempt: &RunningAttempt,
        paid_for: Class,
        kind: Kind,
        now: Time,
    ) {
        if paid_for != Class::Throttled && self.desk.routes[self.desk.calls[slot].route].cooldown.is_some() {
            self.desk.cooldown_feedback(slot, running_attempt, paid_for, now);
        }
        if let Some(queue) = &mut self.desk.routes[self.desk.calls[slot].route].send
            && let Bucket::Cubic(rate) = &mut queue.bucket
            && !matches!(paid_for, Class::Cancelled | Class::Ignored)
        {
            rate.on_response(paid_for == Class::Throttled, now);
        }
        if self.desk.routes[self.desk.calls[slot].route].targets_at.is_some() {
            self.desk.target_over(slot, running_attempt, kind, now);
        }
        if running_attempt.ticket != 0 && self.desk.policies.guards_attempts(self.desk.calls[slot].policy) {
            let probe = self.desk.calls[slot].has(flag::PROBE) && !running_attempt.hedge;
            self.guard_feedback(
                slot,
                Ticket { number: running_attempt.ticket, probe },
                kind,
                running_attempt.attempt,
                now,
            );
        }
    }

    /// Feeds the outcome of a call, as one attempt decided it, to every component that counts calls. `started` is
    /// when that attempt started, if its duration is a valid sample.
    #[cfg_attr(not(tidegate_small), inline(always))]
    pub(super) fn call_over(
        &mut self,
        slot: Slot,
        kind: Kind,
        attempt: u8,
        started: Option<Time>,
        now: Time,
    ) {
        self.desk.earn(slot, kind, now);
        let call = &self.desk.calls[slot];
        let (ticket, holds) = (call.ticket, call.has(flag::HOLDS));
        if ticket != 0 && self.desk.routes[call.route].stages != 0 {
            self.call_feedback(slot, kind, attempt, now);
        }
        if let Some(started) = started
            && holds
        {
            self.feed(slot, kind, started, now);
        }
    }

    #[inline(never)]
    fn call_feedback(&mut self, slot: Slot, kind: Kind, attempt: u8, now: Time) {
        let call = &self.desk.calls[slot];
        let (number, probe) = (call.ticket, call.has(flag::PROBE));
        if stage::guarded_unit(self.desk.policies.of(&self.desk.calls[slot])) == Some(Unit::Call) {
            self.guard_feedback(slot, Ticket { number, probe }, kind, attempt, now);
            self.desk.calls[slot].ticket = 0;
        }
    }

    /// Returns a ticket of breaker or throttle without evidence.
    #[inline]
    pub(super) fn give_ticket_back(&mut self, slot: Slot, now: Time) {
        let call = &mut self.desk.calls[slot];
        if call.ticket != 0 && call.state() != State::Body {
            let (number, probe, attempt) = (call.ticket, call.has(flag::PROBE), call.attempts);
            self.guard_feedback(slot, Ticket { number, probe }, Kind::CANCELLED, attempt, now);
        }
        let call = &mut self.desk.calls[slot];
        call.ticket = 0;
        call.flags &= !flag::PROBE;
    }

    #[inline(never)]
    fn guard_feedback(&mut self, slot: Slot, ticket: Ticket, kind: Kind, attempt: u8, now: Time) {
        if ticket.number == 0 {
            return;
        }
        let call = &self.desk.calls[slot];
        let mut class = self.desk.policies.of(call).class_of(kind);
        let mut kind = kind;
        if self.desk.link.explains(class) {
            (class, kind) = (Class::Cancelled, Kind::CANCELLED);
        }
        let ended = Ended { ticket, kind, class, attempt, ordinal: call.ordinal() };
        let (policy, at) = (self.desk.policies.of(call), call.route);
        let route = &mut self.desk.routes[at];
        let context = Context { policies: &self.desk.policies, seed: self.desk.seed, now };
        match route.teach::<CircuitBreaker>(policy, &ended, context) {
            Some((from, Effect::Changed)) => {
                let to = route.breaker.as_ref().map(|it| it.state(now));
                self.desk.note(move |it| CircuitBreaker::record_change(it, slot, from, now));
                if let Some(to) = to {
                    self.fleet_desk().report_to_fleet(at, to, now);
                }
            }
            Some((_, Effect::None)) => {}
            None => {
                if let Some((from, Effect::Changed)) =
                    route.teach::<AdaptiveThrottle>(policy, &ended, context)
                {
                    self.desk.note(move |it| AdaptiveThrottle::record_change(it, slot, from, now));
                }
            }
        }
    }

    /// Feeds the limit of the pool; if it grows, its new permits are granted in this step.
    #[cfg_attr(not(tidegate_small), inline(always))]
    fn feed(&mut self, slot: Slot, kind: Kind, started: Time, now: Time) {
        let home = self.desk.routes[self.desk.calls[slot].route].pool_at;
        match &self.desk.routes[home].pool {
            None => return,
            Some(pool) if pool.limiter.is_fixed() => return, // learns nothing
            Some(_) => {}
        }
        self.feed_controller(slot, home, kind, started, now);
    }

    /// Feeds the controller of a pool's limit.
    #[inline(never)]
    pub(super) fn feed_controller(&mut self, slot: Slot, home: PoolAt, kind: Kind, started: Time, now: Time) {
        let class = self.desk.policies.of(&self.desk.calls[slot]).class_of(kind);
        if self.desk.link.explains(class) {
            return;
        }
        if class == Class::Throttled && self.desk.calls.marked(slot, mark::INNER) {
            return; // an inner policy has refused: nothing has been heard of the downstream
        }
        if self.desk.routes[home].digest.is_some() {
            self.fleet_desk().share_latency(slot, home, (class, started), now);
        }
        let Some(pool) = &mut self.desk.routes[home].pool else { return missing("the pool of a permit") };
        pool.limiter.feed(class, started, pool.in_flight, now);
        let limit = pool.limiter.limit();
        // A pool that a retune left without a bulkhead has no limit, whatever its controller computes.
        if limit != pool.limit && pool.limit != u32::MAX {
            let from = pool.limit;
            pool.set_limit(limit);
            self.desk.follow_limit(slot, home, from, now);
        }
    }
}

impl FleetDesk<'_> {
    /// Records the failed body of an answer with a successful head as a further failure (semantics 7.1).
    pub(super) fn body_failed(mut self, slot: Slot, attempt: u8, kind: Kind, now: Time) {
        if self.desk.routes[self.desk.calls[slot].route].targets_at.is_some() {
            self.desk.target_body_failed(slot, attempt, kind, now);
        }
        let policy = self.desk.policies.of(&self.desk.calls[slot]);
        let class = policy.class_of(kind);
        let failure = policy.breaker.as_ref().is_some_and(|it| it.evidence(kind, class) == Evidence::Failure)
            && !self.desk.link.explains(class);
        let call = &self.desk.calls[slot];
        let (number, probe) = (call.ticket, call.has(flag::PROBE));
        let bits = rng::bits(self.desk.seed, call.ordinal(), Purpose::Break, attempt);
        if let Some(breaker) = &mut self.desk.routes[call.route].breaker
            && failure
            && number != 0
        {
            let from = breaker.state(now);
            let change = breaker.on_body_failure(Ticket { number, probe }, bits, now);
            self.desk.note(move |it| it.breaker_changed_by(slot, from, now));
            if let Some((_, to)) = change {
                let route = self.desk.calls[slot].route;
                self.report_to_fleet(route, to, now);
            }
        }
    }
}

impl RunningAttempt {
    /// The only running attempt of a call.
    #[inline]
    pub fn alone(call: &Call, attempt: u8) -> Self {
        Self {
            attempt,
            since: call.since(),
            charge: call.charge,
            ticket: call.ticket,
            hedge: false,
            permit: call.has(flag::PER_ATTEMPT),
        }
    }
}

impl Policies {
    /// The kind of an attempt that the deadline cuts: a timeout if it ran at least half its attempt timeout, or half
    /// of the policy's own deadline; otherwise it counts as cancelled (semantics 1.1).
    pub(super) fn deadline_kind(
        &self,
        calls: &Arena,
        slot: Slot,
        (since, attempt): (Time, u8),
        now: Time,
    ) -> Kind {
        let policy = self.of(&calls[slot]);
        let timeout = policy.timeout_of(calls, slot, attempt);
        let whole = if timeout == Duration::MAX { policy.deadline } else { timeout };
        let ran = now.since(since).as_micros();
        if whole != Duration::MAX && ran >= whole.as_micros().div_ceil(2) {
            Class::Timeout.into()
        } else {
            Kind::CANCELLED
        }
    }
}
