//! Starting hedges (semantics 8): a hedge starts only if all resources it needs are available at once.

use super::arena::flag;
use super::call_extra::RunningAttempt;
use super::ledger::Charge;
use super::place::Slot;
use super::route::stage as stage_bit;
use super::{Engine, stage};
use crate::action::{Action, Link};
use crate::policy::Unit;
use crate::step::Step;
use crate::time::{Duration, Time};

impl Engine {
    /// Starts a hedge now if all resources it needs are available. Otherwise there are no hedges before the call's
    /// next regular attempt.
    pub(super) fn race(&mut self, slot: Slot, now: Time) -> Option<Step> {
        if self.desk.link != Link::Ok || !self.desk.policies.could_hedge(&self.desk.calls, slot) {
            return None;
        }
        let Some((charge, ticket)) = self.afford_hedge(slot, now) else {
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
            self.desk.policies.drop_attempt_ticket(&mut self.desk.calls[slot]);
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
        let target = self.desk.calls.has_more(slot) && self.desk.calls.start_more(slot, attempt);
        self.desk.policies.count_attempt(&self.desk.calls[slot], !alone);
        self.desk.note_course(move |it| it.attempt_started(slot, !alone, now));
        let next = self.desk.next_moment(slot, now);
        let next = self.desk.policies.or_check(&self.desk.calls[slot], next, now);
        let next = super::call::span(next, now);
        Some(Step::new(Action::Attempt { attempt, hedge: !alone }, next).aimed(target))
    }

    /// Pays for a hedge; returns its charge and its ticket. Takes nothing unless all resources are available.
    fn afford_hedge(&mut self, slot: Slot, now: Time) -> Option<(u16, u16)> {
        let call = &self.desk.calls[slot];
        if call.blocked() || call.deadline <= now {
            return None;
        }
        let slot_route = call.route;
        let alone = call.running() == 0;
        let needs_permit = !alone || call.has(flag::PER_ATTEMPT);
        let policy = self.desk.policies.of(&self.desk.calls[slot]);
        let takes_tokens = policy.rate_limit.as_ref().is_some_and(|limit| limit.unit == Unit::Attempt);
        let by_attempt = stage::by_attempt(policy);
        let route = &mut self.desk.routes[slot_route];
        if route.is_forced()
            || !route.stages_allow_hedge(now)
            || route.stages & (stage_bit::HOLD | stage_bit::SEND) != 0 && !route.last_stage_allows_hedge(now)
        {
            return None;
        }
        let (rate_at, pool_at, sends) = (route.rate_at, route.pool_at, route.stages & stage_bit::SEND != 0);
        if takes_tokens && !self.desk.has_tokens(slot, rate_at, now) {
            return None;
        }
        if needs_permit {
            self.revoke_overdue(pool_at, now);
            if self.desk.routes[pool_at].pool.as_ref().is_some_and(|pool| !pool.admits()) {
                return None;
            }
        }
        let mut target = None;
        if sends && let Some(home) = self.desk.routes.targets_of(&self.desk.calls[slot]) {
            target = Some((home, self.desk.target_of_hedge(slot, home, now)?));
        }
        let Charge::Granted(charge) = self.desk.charge_hedge(slot, now) else { return None };
        if let Some((home, number)) = target {
            self.desk.take_target(slot, home, number, now);
        }
        if sends && let Some(send) = &mut self.desk.routes[slot_route].send {
            send.take(1, now);
        }
        if takes_tokens {
            self.desk.take_tokens(slot, rate_at, now);
        }
        let ticket = self.desk.routes[slot_route].pass_hedge(by_attempt, now);
        Some((charge, ticket))
    }
}
