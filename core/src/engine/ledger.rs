//! Bookkeeping: the retry budget's charges and refunds, and the counters.
//!
//! A retry is charged when it is decided. It is refunded once if it never starts (semantics 2.15).

use super::arena::{Arena, Call};
use super::call_extra::RunningAttempt;
use super::desk::Desk;
use super::place::{PoolAt, RouteAt, Slot};
use super::route::{Route, stage};
use super::{Engine, Input};
use crate::action::Verdict;
use crate::engine::policies::Policies;
use crate::engine::route::Routes;
use crate::outcome::{Class, Kind};
use crate::policy::HedgeBudget;
use crate::retry::{Budget, BudgetSettings};
use crate::time::Time;

/// Answer of a budget.
pub(super) enum Charge {
    /// The attempt is paid; its cost.
    Granted(u16),
    /// The budget has nothing left.
    Refused,
}

/// Counts under a policy since the engine was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Attempts started.
    pub attempts: u64,
    /// Regular attempts beyond the first of their call.
    pub retries: u64,
    /// Hedges: attempts that started while another was running.
    pub hedges: u64,
    /// Decisions made by `on_loss`, because the fleet's store was lost or too slow.
    pub store_fallbacks: u64,
    /// Calls ended, by verdict in the order of [`Verdict::ALL`].
    pub ends: [u64; Verdict::ALL.len()],
    /// Errors that a host's fallback replaced.
    pub fallbacks: u64,
    /// Fallbacks that failed themselves.
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
    /// Number of calls that ended with this verdict.
    pub fn ended(&self, verdict: Verdict) -> u64 {
        self.ends[verdict as usize]
    }
}

impl Desk {
    /// Pays for the next attempt of a call, after a failure of this class; `hedge` means that a hedge has failed.
    ///
    /// The class is the outcome's own. If an opinion made the failure retryable, the retry costs as much all the
    /// same.
    #[inline]
    pub(super) fn charge(&mut self, slot: Slot, class: Class, hedge: bool, now: Time) -> Charge {
        if self.lifted {
            return Charge::Granted(0);
        }
        // As in `count_outcome`: a hedge that paid takes nothing more when it fails.
        let counted = class.retryable() && !(hedge && self.policies.shares_budget(&self.calls[slot]));
        let home = self.routes[self.calls[slot].route].budget_at;
        let route = &mut self.routes[home];
        let calls = route.in_flight();
        let Some(budget) = &mut route.budget else {
            return self.charge_without_budget(slot);
        };
        budget.try_charge(class, counted, calls, now).map_or(Charge::Refused, Charge::Granted)
    }

    /// Decides about a retry or a hedge on a route without a budget. Refuses it if the call began with a budget and a
    /// retune to one attempt has removed the budget. After a retune to `none` it is granted, because the operator
    /// asked for no budget.
    #[cold]
    fn charge_without_budget(&self, slot: Slot) -> Charge {
        let call = &self.calls[slot];
        let present = &self.policies[usize::from(self.routes[call.route].policy)].policy.retry;
        let had_budget = self.policies.of(call).retry.budget.is_some();
        if had_budget && present.max_attempts <= 1 { Charge::Refused } else { Charge::Granted(0) }
    }

    /// Pays for a hedge, from the hedges' own budget or from the retries'.
    pub(super) fn charge_hedge(&mut self, slot: Slot, now: Time) -> Charge {
        let of = self.calls[slot].route;
        let (budget, calls) = if self.policies.shares_budget(&self.calls[slot]) {
            let home = self.routes[of].budget_at;
            let route = &mut self.routes[home];
            let calls = route.in_flight();
            (route.budget.as_mut(), calls)
        } else {
            let route = &mut self.routes[of];
            let calls = route.active;
            (route.hedger.as_mut().and_then(|hedger| hedger.budget.as_mut()), calls)
        };
        let Some(budget) = budget else {
            return self.charge_without_budget(slot);
        };
        budget.try_charge_hedge(calls, now).map_or(Charge::Refused, Charge::Granted)
    }

    /// Reports an attempt's end to the budgets; returns the remainder of its charge.
    #[cfg_attr(not(tidegate_small), inline(always))]
    pub(super) fn count_outcome(
        &mut self,
        slot: Slot,
        running_attempt: &RunningAttempt,
        class: Class,
    ) -> u16 {
        let own = running_attempt.hedge && !self.policies.shares_budget(&self.calls[slot]);
        // A hedge paid when it started; its failure takes nothing more.
        let paid = if running_attempt.hedge && class != Class::Ok { Class::Cancelled } else { class };
        let call = &self.calls[slot];
        let last = call.charge;
        let route = &mut self.routes[call.route];
        if let Some(hedger) = &mut route.hedger
            && let Some(budget) = &mut hedger.budget
        {
            budget.on_outcome(
                if own { paid } else { class },
                if own { running_attempt.charge } else { 0 },
                0,
            );
        }
        let home = route.budget_at;
        match &mut self.routes[home].budget {
            Some(budget) if own => budget.on_outcome(class, 0, last),
            Some(budget) => budget.on_outcome(paid, running_attempt.charge, last),
            None => 0,
        }
    }

    /// Reports that an attempt of this kind has decided the call: an answer earns for its budgets, once per call.
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

    /// Forgets charges to budgets that are gone, so that their successors do not refund them.
    pub(super) fn forget_charges_of(&mut self, gone: impl Fn(&Route, PoolAt) -> bool) {
        let here = |call: &Call| {
            let home = self.routes[call.route].budget_at;
            (call.charge != 0 || call.is_racing()) && gone(&self.routes[home], home)
        };
        let paid = self.calls.iter().filter(|(_, call)| here(call));
        for slot in paid.map(|(slot, _)| slot).collect::<Vec<_>>() {
            self.calls[slot].charge = 0;
            if self.calls[slot].is_racing() {
                let shared = self.policies.shares_budget(&self.calls[slot]);
                self.calls.extra_mut(slot).forget_charges(shared);
            }
        }
    }
}

impl Policies {
    /// Forgets what the running hedges of a policy's calls paid to a budget of their own that is gone.
    pub(super) fn forget_charges_of_hedges(&self, calls: &mut Arena, routes: &Routes, policy: u16) {
        let here = |call: &Call| {
            call.is_racing() && routes[call.route].policy == policy && !self.shares_budget(call)
        };
        let paid = calls.iter().filter(|(_, call)| here(call));
        for slot in paid.map(|(slot, _)| slot).collect::<Vec<_>>() {
            calls.extra_mut(slot).forget_charges_of_hedges();
        }
    }

    /// Clears an attempt's own ticket, which has been used, or has moved into a race with the attempt.
    #[inline]
    pub(super) fn drop_attempt_ticket(&self, call: &mut Call) {
        if self.guards_attempts(call.policy) {
            call.ticket = 0;
        }
    }

    /// Counts a starting attempt of a race, which is never a call's first one.
    pub(super) fn count_attempt(&mut self, call: &Call, hedge: bool) {
        let counts = &mut self[usize::from(call.policy)].counts;
        counts.attempts += 1;
        counts.retries += u64::from(!hedge);
        counts.hedges += u64::from(hedge);
    }

    /// Whether breaker or throttle of this policy count attempts.
    #[inline]
    pub(super) fn guards_attempts(&self, policy: u16) -> bool {
        self[usize::from(policy)].again & stage::GUARDS != 0
    }

    /// Whether each attempt of a call has a permit of its own.
    #[inline]
    pub(super) fn permits_attempts(&self, call: &Call) -> bool {
        self[usize::from(call.policy)].again & stage::POOL != 0
    }

    pub(super) fn shares_budget(&self, call: &Call) -> bool {
        self.of(call).hedge.as_ref().is_some_and(|hedge| hedge.budget == HedgeBudget::Shared)
    }
}

impl Routes {
    /// Refunds the paid attempt of a call, which will not start. It was `charged` when the backoff began.
    #[inline(never)]
    pub(super) fn refund(&mut self, call: &mut Call, charged: Time, now: Time) {
        let home = self[call.route].budget_at;
        if let Some(budget) = &mut self[home].budget
            && call.charge != 0
        {
            budget.refund(call.charge, charged, now);
        }
        call.charge = 0;
    }

    /// Counts a call whose first attempt starts: its one deposit in each budget (semantics 2.10).
    #[cfg_attr(not(tidegate_small), inline(always))]
    pub(super) fn deposit(&mut self, at: RouteAt, now: Time) {
        let route = &mut self[at];
        if let Some(budget) = route.hedger.as_mut().and_then(|hedger| hedger.budget.as_mut()) {
            budget.on_call(now);
        }
        let home = route.budget_at;
        if let Some(budget) = &mut self[home].budget {
            budget.on_call(now);
        }
    }

    /// Applies new settings to the budget of a route or a pool. Returns false if the budget was replaced; the caller
    /// must then forget the charges to the previous one ([`Desk::forget_charges_of`]).
    pub(super) fn retune_budget_of(&mut self, route: RouteAt, to: Option<BudgetSettings>, now: Time) -> bool {
        match (&mut self[route].budget, to) {
            (None, None) => true,
            (Some(budget), Some(to)) => budget.retune(&to, now),
            (budget, to) => {
                *budget = to.as_ref().and_then(|to| Budget::spent(to, now));
                false
            }
        }
    }
}

impl Engine {
    /// While `on`, grants every retry without asking its budget, for tests that need a fixed number of attempts
    /// (semantics 2.21). Such a retry costs nothing and is not refunded. Budgets still count calls, answers and
    /// failures, and decide again afterwards. The budgets of hedges are not lifted. The journal records this switch;
    /// a saved state does not.
    pub fn lift_budgets(&mut self, on: bool) {
        self.journal.write(|| Input::LiftBudgets { on });
        self.desk.lifted = on;
    }
}
