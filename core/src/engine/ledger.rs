//! Who paid what: the retry budget's charges and refunds, and the counts.
//!
//! A retry is charged when it is decided, and refunded once if it never starts (semantics 2.15).

use super::arena::flag;
use super::automaton::State;
use super::desk::Desk;
use super::place::Slot;
use super::side::Racer;
use super::{Engine, Input};
use crate::action::{Lane, Verdict};
use crate::outcome::{Class, Kind};
use crate::policy::HedgeBudget;
use crate::time::Time;

/// What the budget said.
pub(super) enum Charge {
    /// The attempt is paid; what it cost.
    Granted(u16),
    /// There is nothing left.
    Refused,
}

/// What has happened under a policy since the engine was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Attempts started.
    pub attempts: u64,
    /// Those beyond the first of their call that are no hedges.
    pub retries: u64,
    /// Hedges: those that started beside another.
    pub hedges: u64,
    /// Decisions that an `on_loss` has made, because the fleet's store was gone or too slow.
    pub store_fallbacks: u64,
    /// Calls ended, by verdict in the order of [`Verdict::ALL`].
    pub ends: [u64; Verdict::ALL.len()],
    /// Errors that a host's fallback stood in for.
    pub fallbacks: u64,
    /// Those for which it was to, and failed itself.
    pub fallback_failures: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            attempts: 0,
            retries: 0,
            hedges: 0,
            store_fallbacks: 0,
            ends: [0; Verdict::ALL.len()],
            fallbacks: 0,
            fallback_failures: 0,
        }
    }
}

impl Counts {
    /// Calls ended with this verdict.
    pub fn ended(&self, verdict: Verdict) -> u64 {
        self.ends[verdict as usize]
    }
}

impl Desk {
    /// Pays for the next attempt of a call, after a failure of this class; `hedge` says that a hedge has failed.
    ///
    /// The class is the outcome's own: an opinion may have made it retryable, and the retry costs as much all the same.
    #[inline]
    pub(super) fn charge(&mut self, slot: Slot, class: Class, hedge: bool, now: Time) -> Charge {
        if self.lifted {
            return Charge::Granted(0);
        }
        // What `count_outcome` told the budget: a hedge that paid it takes nothing more when it fails.
        let counted = class.retryable() && !(hedge && self.shares_budget(slot));
        let home = self.routes[self.calls[slot].route].budget_at;
        let route = &mut self.routes[home];
        let calls = route.in_flight();
        let Some(budget) = &mut route.budget else { return self.charge_without_budget(slot) };
        budget.try_charge(class, counted, calls, now).map_or(Charge::Refused, Charge::Granted)
    }

    /// Decides about a retry or a hedge on a route without a budget. It is refused where the call began with a budget and a retune
    /// to one attempt has removed it. A retune to `none` grants it, because the operator asked for no budget.
    #[cold]
    fn charge_without_budget(&self, slot: Slot) -> Charge {
        let route = self.calls[slot].route;
        let present = &self.policies[usize::from(self.routes[route].policy)].policy.retry;
        let had_budget = self.policies.of(&self.calls[slot]).retry.budget.is_some();
        if had_budget && present.max_attempts <= 1 { Charge::Refused } else { Charge::Granted(0) }
    }

    /// Pays for a hedge, from the hedges' own budget or from the retries'.
    pub(super) fn charge_hedge(&mut self, slot: Slot, now: Time) -> Charge {
        let of = self.calls[slot].route;
        let (budget, calls) = if self.shares_budget(slot) {
            let home = self.routes[of].budget_at;
            let route = &mut self.routes[home];
            let calls = route.in_flight();
            (route.budget.as_mut(), calls)
        } else {
            let route = &mut self.routes[of];
            let calls = route.active;
            (route.hedger.as_mut().and_then(|hedger| hedger.budget.as_mut()), calls)
        };
        let Some(budget) = budget else { return self.charge_without_budget(slot) };
        budget.try_charge_hedge(calls, now).map_or(Charge::Refused, Charge::Granted)
    }

    pub(super) fn shares_budget(&self, slot: Slot) -> bool {
        self.policies
            .of(&self.calls[slot])
            .hedge
            .as_ref()
            .is_some_and(|hedge| hedge.budget == HedgeBudget::Shared)
    }

    /// The paid attempt of a call will not start; it was charged when the backoff began.
    #[inline(never)]
    pub(super) fn refund(&mut self, slot: Slot, now: Time) {
        let call = &mut self.calls[slot];
        let home = self.routes[call.route].budget_at;
        if let Some(budget) = &mut self.routes[home].budget
            && call.charge != 0
        {
            budget.refund(call.charge, call.since(), now);
        }
        call.charge = 0;
    }

    /// An attempt's own ticket has been used, or has gone into a race with it.
    #[inline]
    pub(super) fn drop_attempt_ticket(&mut self, slot: Slot) {
        if self.guards_attempts(self.calls[slot].policy) {
            self.calls[slot].ticket = 0;
        }
    }

    /// Tells the budgets how an attempt ended; what is left of its charge.
    #[cfg_attr(not(tidegate_small), inline(always))]
    pub(super) fn count_outcome(&mut self, slot: Slot, racer: &Racer, class: Class) -> u16 {
        let own = racer.hedge && !self.shares_budget(slot);
        // A hedge has paid when it started; its failure takes nothing more.
        let paid = if racer.hedge && class != Class::Ok { Class::Cancelled } else { class };
        let call = &self.calls[slot];
        let last = call.charge;
        let route = &mut self.routes[call.route];
        if let Some(hedger) = &mut route.hedger
            && let Some(budget) = &mut hedger.budget
        {
            budget.on_outcome(if own { paid } else { class }, if own { racer.charge } else { 0 }, 0);
        }
        let home = route.budget_at;
        match &mut self.routes[home].budget {
            Some(budget) if own => budget.on_outcome(class, 0, last),
            Some(budget) => budget.on_outcome(paid, racer.charge, last),
            None => 0,
        }
    }

    /// A call has been decided by an attempt of this kind: an answer earns for its budgets, once per call.
    #[inline]
    pub(super) fn earn(&mut self, slot: Slot, kind: Kind, now: Time) {
        let class = kind.class().unwrap_or_else(|| self.policies.of(&self.calls[slot]).class_of(kind));
        if !matches!(class, Class::Ok | Class::Permanent) {
            return;
        }
        let route = &mut self.routes[self.calls[slot].route];
        if let Some(budget) = route.hedger.as_mut().and_then(|hedger| hedger.budget.as_mut()) {
            budget.on_answer(now);
        }
        let home = route.budget_at;
        if let Some(budget) = &mut self.routes[home].budget {
            budget.on_answer(now);
        }
    }

    /// Counts an attempt that starts; the first of a call is the call's one deposit in each budget (semantics 2.10).
    #[cfg_attr(not(tidegate_small), inline(always))]
    pub(super) fn count_attempt(&mut self, slot: Slot, hedge: bool, now: Time) {
        let call = &self.calls[slot];
        let counts = &mut self.policies[usize::from(call.policy)].counts;
        counts.attempts += 1;
        if call.attempts > 1 {
            counts.retries += u64::from(!hedge);
            counts.hedges += u64::from(hedge);
            return;
        }
        let route = &mut self.routes[call.route];
        if let Some(budget) = route.hedger.as_mut().and_then(|hedger| hedger.budget.as_mut()) {
            budget.on_call(now);
        }
        let home = route.budget_at;
        if let Some(budget) = &mut self.routes[home].budget {
            budget.on_call(now);
        }
    }
}

impl Engine {
    /// Grants every retry without asking its budget while `on`, for tests that want a number of attempts (semantics 2.21).
    /// Such a retry costs nothing and is not refunded. Budgets still count calls, answers and failures,
    /// and decide again afterwards. The budgets of hedges are not lifted. The journal records this switch; a saved state does not.
    pub fn lift_budgets(&mut self, on: bool) {
        self.journal.write(|| Input::LiftBudgets { on });
        self.desk.lifted = on;
    }

    /// A call ends or is lost: a retry that has not started is refunded, attempts that run are in flight no more. What
    /// is to be stopped.
    #[inline]
    pub(super) fn forgo(&mut self, slot: Slot, now: Time) -> u8 {
        let call = &self.desk.calls[slot];
        if call.between_attempts() {
            self.desk.refund(slot, now);
        }
        let call = &self.desk.calls[slot];
        if call.lanes == 0 {
            return 0;
        }
        self.stop_lanes(slot, u8::MAX, false, now)
    }

    /// Stops the attempts that run in these lanes: losers of a race, or all of a call that ends. What stopped them is
    /// known only where `cut` says that it was the deadline.
    #[inline(never)]
    pub(super) fn stop_lanes(&mut self, slot: Slot, lanes: u8, cut: bool, now: Time) -> u8 {
        let stop = self.desk.calls[slot].running() & lanes;
        for number in (0..8).filter(|number| stop >> number & 1 != 0) {
            let lane = Lane::of(number + 1);
            let attempt = self.desk.calls[slot].attempt_in(lane);
            if self.desk.calls[slot].state() == State::Running {
                let racer = self.desk.take_racer(slot, attempt);
                let kind = if cut { self.desk.cut(slot, racer.since, now) } else { Kind::CANCELLED };
                self.attempt_over(slot, &racer, Class::Cancelled, kind, now);
                self.desk.drop_attempt_ticket(slot);
                self.desk.calls[slot].charge = 0;
            }
            self.desk.calls[slot].stopped |= lane.bit();
        }
        if self.desk.calls[slot].has(flag::ABORTABLE) {
            let out = self.desk.calls[slot].lanes & lanes;
            self.desk.calls.report_lane(slot, out, &mut self.pending_release);
        }
        stop
    }

    /// Gives back the permits that are owed.
    #[inline]
    pub(super) fn pay_back(&mut self, now: Time) {
        if self.pending_release.permits() > 0 {
            self.pay_owed(now);
        }
    }

    #[inline(never)]
    fn pay_owed(&mut self, now: Time) {
        let (route, permits) = self.pending_release.take();
        self.release(route, permits, now);
    }
}
