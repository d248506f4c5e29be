//! New settings for a policy in use (semantics 0.6).
//!
//! A call keeps its own settings from its beginning: its deadline, its attempts, its backoff, its patience in the
//! queue. Settings of shared state change at once: permits and budgets. No running call is interrupted, and counts
//! are kept where they still mean the same.

mod rates;

use super::place::{RouteAt, Slot};
use std::collections::{BTreeMap, BTreeSet};

use super::arena::{Arena, Call, flag};
use super::automaton::State;
use super::desk::Desk;
use super::policies::Policies;
use super::record::RecordType;
use super::route::evict::budgets;
use super::route::{Routes, stage};
use super::{Clash, Counts, Engine, Entry, Input};
use crate::action::{Flags, PolicyId};
use crate::policy::Policy;
use crate::retry::BudgetSettings;
use crate::time::Time;

impl Policies {
    /// Moves the present settings, and the calls that began under them, to an entry of their own; false if there is
    /// no room. The policy's number never changes, so ids and routes stay valid.
    fn keep_for_calls(&mut self, number: u16, calls: &mut Arena) -> bool {
        let mut used = BTreeSet::new();
        for (_, call) in calls.iter() {
            used.insert(call.policy);
        }
        if !used.contains(&number) {
            return true;
        }
        let unused = |(at, entry): (u16, &Entry)| {
            (entry.of != at && !entry.vacant && !used.contains(&at)).then_some(at)
        };
        let place = (0..=u16::MAX).zip(self.iter()).find_map(unused);
        let Ok(place) = place.map_or_else(|| u16::try_from(self.len()), Ok) else { return false };
        let Entry { policy, again, shared_pools, .. } = &self[usize::from(number)];
        let entry = Entry::new(policy.clone(), number, *again, *shared_pools);
        if let Some(last) = self.get_mut(usize::from(place)) {
            let last = core::mem::replace(last, entry);
            self[usize::from(last.of)].counts.add(&last.counts);
        } else {
            self.push(entry);
        }
        let slots = calls.iter().filter(|(_, call)| call.policy == number).map(|(slot, _)| slot);
        for slot in slots.collect::<Vec<_>>() {
            calls[slot].policy = place;
        }
        true
    }
}

impl Desk {
    /// For a policy that gets a bulkhead, gives its calls in flight the permits that they would hold if there had
    /// been one. Returns how many, by route. One pass over all calls, however many routes there are.
    fn adopt(&mut self, number: u16) -> BTreeMap<RouteAt, u32> {
        let mut adopted = BTreeMap::new();
        if self.policies[usize::from(number)].policy.bulkhead.is_none() {
            return adopted;
        }
        let without = |route: RouteAt| {
            let it = &self.routes[route];
            it.policy == number && it.pool_at == route.own() && it.pool.is_none()
        };
        // A call that waits before its first attempt has not asked for a permit yet.
        let waits = |call: &Call| call.attempts == 0 && matches!(call.state(), State::Held | State::Paced);
        let here = |slot: Slot, route: RouteAt| {
            let call = &self.calls[slot];
            call.route == route && call.state() != State::Lost && !waits(call)
        };
        let around = |slot: &Slot| Some(self.calls[*slot].parent()).filter(|parent| *parent != Slot::NONE);
        let alone = |slot: Slot, route: RouteAt| {
            !std::iter::successors(around(&slot), around).any(|ancestor| here(ancestor, route))
        };
        let slots = self.calls.iter().filter(|(slot, call)| {
            without(call.route) && here(*slot, call.route) && alone(*slot, call.route)
        });
        let slots: Vec<_> = slots.map(|(slot, call)| (slot, call.route)).collect();
        for (slot, route) in slots {
            self.calls[slot].flags |= flag::HOLDS;
            *adopted.entry(route).or_insert(0) += 1;
        }
        self.calls.look_at_all_parents();
        adopted
    }
}

impl Routes {
    /// Forgets the tickets of a policy's circuit breakers, which are gone: those that may come back count their tickets
    /// from 1 again, and would take these for their own.
    fn forget_tickets_of(&self, calls: &mut Arena, number: u16) {
        let here = |call: &Call| self[call.route].policy == number;
        let there = calls.iter().filter(|(_, call)| here(call));
        for slot in there.map(|(slot, _)| slot).collect::<Vec<_>>() {
            calls[slot].ticket = 0;
            if calls[slot].is_racing() {
                calls.extra_mut(slot).forget_tickets();
            }
        }
    }
}

impl Engine {
    /// Gives a policy new settings. Calls that have begun finish under the old ones, except for state that they share
    /// with others: a bulkhead's limit and a budget change at once. A limit that grows admits waiters in this step;
    /// one that shrinks lets running calls finish and admits no call until they have. A new bulkhead counts the calls
    /// in flight; a removed one admits all waiters. A budget keeps its counts; a new one, or one of another kind,
    /// starts without its burst.
    ///
    /// Drain the wakes under the same lock, as after a step. Cost: one pass over calls and routes.
    ///
    /// # Errors
    /// An unknown policy, another name, or no room for the old settings beside 65,535 others.
    pub fn retune(&mut self, policy: PolicyId, to: Policy, now: Time) -> Result<Flags, Clash> {
        self.journal.write(|| Input::Retune { policy, to: Box::new(to.clone()), now });
        let now = self.clock.observe(now);
        self.desk.chores.begin_step();
        let clash = |policy: Policy, rule| Err(Clash { name: policy.name, rule });
        let Some(number) = self.desk.policies.number_of(policy) else {
            return clash(to, "there is no such policy in this engine");
        };
        let entry = &self.desk.policies[usize::from(number)];
        if entry.policy.name() != to.name() {
            return clash(to, "retune changes a policy's settings, not its name");
        }
        if self.pools.shared_pools_of(&to) != Ok(entry.shared_pools) {
            return clash(
                to,
                "a retune keeps the pools that a policy names: name the same ones, or give the policy another name",
            );
        }
        let host = &self.journal.options;
        if let Some(rule) = host.rule_against(self.store.fleet.as_deref(), &to) {
            return clash(to, rule);
        }
        let rule = host.rule_against_limits(Some(&entry.policy), &to);
        if let Some(rule) = rule.or_else(|| self.pools.rule_against_unit(&to)) {
            return clash(to, rule);
        }
        if entry.policy != to {
            self.desk.look_for_windows(&to);
            if !self.desk.policies.keep_for_calls(number, &mut self.desk.calls) {
                return clash(
                    to,
                    "an engine holds at most 65,536 policies, retuned ones with calls included",
                );
            }
            let entry = &mut self.desk.policies[usize::from(number)];
            entry.again = stage::asked_again(&to);
            self.desk.routes.retune_debts(number, &entry.policy, &to, now);
            let (was, is) = (budgets(&entry.policy), budgets(&to));
            let breaker_goes = entry.policy.breaker.is_some() && to.breaker.is_none();
            let other = [0, 1].map(|n| !BudgetSettings::same_kind(was[n].as_ref(), is[n].as_ref()));
            entry.policy = to;
            entry.changes.retune([other[0], other[1], breaker_goes], now);
            self.desk.chores.clear_changed(number);
            self.desk.note(move |it| it.policy_changed(RecordType::PolicyRetuned, Some(number), None, now));
            if other[0] {
                self.desk.forget_charges_of(|it, home| {
                    it.policy == number && !it.is_pool() && it.budget_at == home
                });
            }
            if breaker_goes {
                self.desk.routes.forget_tickets_of(&mut self.desk.calls, number);
            }
            if other[1] {
                let Desk { policies, calls, routes, .. } = &mut self.desk;
                policies.forget_charges_of_hedges(calls, routes, number);
            }
            let mut adopted = self.desk.adopt(number);
            self.fleet_desk().change_routes(number, 0, &mut adopted, now);
            // Of the other routes, change those with calls that hold permits now: their pools must exist before these
            // calls end.
            for (route, in_flight) in adopted {
                self.fleet_desk().change_route(route, in_flight, now);
            }
        }
        Ok(self.flags())
    }
}

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.retries += other.retries;
        self.hedges += other.hedges;
        self.store_fallbacks += other.store_fallbacks;
        self.fallbacks += other.fallbacks;
        self.fallback_failures += other.fallback_failures;
        for (sum, n) in self.ends.iter_mut().zip(other.ends) {
            *sum += n;
        }
    }
}
