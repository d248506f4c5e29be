//! Starting hedges (semantics 8): a hedge starts only if all resources it needs are available at once.

use super::arena::flag;
use super::call_extra::RunningAttempt;
use super::ledger::Charge;
use super::place::Slot;
use super::{Engine, stage};
use crate::action::{Action, AttemptSlot, Flags, Link, Step};
use crate::policy::Unit;
use crate::time::{Duration, Time};

impl Engine {
    /// Starts a hedge now if all resources it needs are available. Otherwise there are no hedges before the call's
    /// next regular attempt.
    pub(super) fn race(&mut self, slot: Slot, now: Time) -> Option<Step> {
        if self.desk.link != Link::Ok || !self.desk.could_hedge(slot) {
            return None;
        }
        let Some((charge, ticket, target)) = self.afford_hedge(slot, now) else {
            self.desk.calls[slot].flags |= flag::UNHEDGED;
            return None;
        };
        let call = &mut self.desk.calls[slot];
        let (alone, base) = (call.running() == 0, call.since());
        if alone {
            self.desk.note(move |it| {
                it.retry_scheduled(slot, it.calls[slot].last_failure().0, Duration::ZERO, now);
            });
        }
        let call = &mut self.desk.calls[slot];
        if !call.is_racing() {
            call.flags |= flag::RACING;
            let first = RunningAttempt {
                attempt: call.attempts,
                since: base,
                charge: call.charge,
                ticket: call.ticket,
                hedge: false,
                permit: false,
            };
            let extra = self.desk.calls.extra_mut(slot);
            if !alone {
                extra.enter(first, base);
            }
            self.desk.drop_attempt_ticket(slot);
        }
        let call = &mut self.desk.calls[slot];
        call.attempts += 1;
        let (attempt, bit) = (call.attempts, call.attempt_slot().bit());
        call.attempt_slots |= bit;
        call.stopped &= !bit;
        let beside = !alone && !call.has(flag::PER_ATTEMPT);
        let extra = self.desk.calls.extra_mut(slot);
        extra.enter(RunningAttempt { attempt, since: now, charge, ticket, hedge: true, permit: false }, base);
        extra.extra_permits &= !bit;
        let home = self.desk.routes[self.desk.calls[slot].route].pool_at;
        if let Some(pool) = &mut self.desk.routes[home].pool {
            if beside {
                pool.in_flight += 1;
                self.desk.calls.extra_mut(slot).extra_permits |= bit;
            } else if self.desk.calls[slot].has(flag::PER_ATTEMPT) {
                pool.in_flight += 1;
            }
        }
        if target && let Some(block) = self.desk.calls.targets_mut(slot) {
            block.start(AttemptSlot::of(attempt));
        }
        self.desk.calls.start_reserved(slot, attempt);
        self.desk.count_attempt(slot, !alone, now);
        self.desk.note_course(move |it| it.attempt_started(slot, !alone, now));
        let next = super::call::span(
            self.desk.next_moment(slot, now).min(self.desk.policies.next_check(&self.desk.calls[slot], now)),
            now,
        );
        let step = Step { next, ..Step::plain(Action::Attempt { attempt, hedge: !alone }) };
        Some(Step { flags: Flags { target, ..step.flags }, ..step })
    }

    /// Pays for a hedge; returns its charge, its ticket, and whether it has a target. Takes nothing unless all resources are available.
    fn afford_hedge(&mut self, slot: Slot, now: Time) -> Option<(u16, u16, bool)> {
        let call = &self.desk.calls[slot];
        if call.blocked() || call.deadline <= now {
            return None;
        }
        let (slot_route, cost) = (call.route, call.cost());
        let alone = call.running() == 0;
        let needs_permit = !alone || call.has(flag::PER_ATTEMPT);
        let policy = self.desk.policies.of(&self.desk.calls[slot]);
        let takes_tokens = policy.rate_limit.as_ref().is_some_and(|limit| limit.unit == Unit::Attempt);
        let by_attempt = stage::by_attempt(policy);
        let route = &mut self.desk.routes[slot_route];
        if route.is_forced()
            || !route.stages_allow_hedge(now)
            || route.cooldown.as_ref().is_some_and(|it| !it.part.is_open())
            || route.send.as_mut().is_some_and(|send| !send.has(1, now))
        {
            return None;
        }
        let (rate_at, pool_at) = (route.rate_at, route.pool_at);
        let of_set = takes_tokens && self.desk.routes.limits(rate_at).is_some();
        if of_set && !self.desk.set_has(slot, rate_at, now) {
            return None;
        }
        let takes_tokens = takes_tokens && !of_set;
        if takes_tokens && self.desk.routes[rate_at].rate.as_mut().is_some_and(|rate| !rate.has(cost, now)) {
            return None;
        }
        if needs_permit {
            self.revoke_overdue(pool_at, now);
            if self.desk.routes[pool_at].pool.as_ref().is_some_and(|pool| !pool.admits()) {
                return None;
            }
        }
        let target = match self.desk.routes[slot_route].targets_at {
            Some(home) => Some((*home, self.desk.target_of_hedge(slot, *home, now)?)),
            None => None,
        };
        let Charge::Granted(charge) = self.desk.charge_hedge(slot, now) else { return None };
        if let Some((home, number)) = target {
            self.desk.take_target(slot, home, number, now);
        }
        if let Some(send) = &mut self.desk.routes[slot_route].send {
            send.take(1, now);
        }
        if takes_tokens && let Some(rate) = &mut self.desk.routes[rate_at].rate {
            rate.take(cost, now);
        }
        if of_set {
            self.desk.take_set(slot, rate_at, now);
        }
        let ticket = self.desk.routes[slot_route].pass_hedge(by_attempt, now);
        Some((charge, ticket, target.is_some()))
    }
}
