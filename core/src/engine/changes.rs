//! Changes by an operator for all routes of a policy at once (ADR 0022). One step changes some routes. Each other
//! route applies the change with its next event or in a later step, whichever comes first. So no call and no eviction
//! sees a route that has not applied the change.

use super::fleet::breaker::Guard;
use super::place::RouteAt;
use super::queue::Pool;
use super::route::{Route, stage};
use crate::engine::fleet::FleetDesk;
use std::collections::BTreeMap;

use super::chores::{Chore, LOOKED_AT};
use crate::time::Time;

/// Cost of one route's change in a step's budget of calls: a route costs as much as four calls.
const ROUTE: u32 = 4;

/// Changes of one policy, numbered in their order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changes {
    /// The last change of any kind.
    pub last: u32,
    /// The last retune.
    retuned: u32,
    /// The last retune that gave the policy a retry budget of another kind.
    other_budget: u32,
    /// The last retune that gave its hedges' own budget another kind.
    other_hedges: u32,
    /// The last retune that removed its circuit breaker.
    no_breaker: u32,
    /// The last time that a forced opening of the whole policy was cleared.
    cleared: u32,
    /// Time of the last retune. Until then, time-dependent state changed under the previous settings.
    at: Time,
}

impl Changes {
    /// Notes that the policy has new settings, whether its retry budget and its hedges' own are of another kind, and whether they
    /// have no circuit breaker any more.
    pub fn retune(&mut self, [other_budget, other_hedges, no_breaker]: [bool; 3], now: Time) {
        self.last += 1;
        (self.retuned, self.at) = (self.last, now);
        if other_budget {
            self.other_budget = self.last;
        }
        if other_hedges {
            self.other_hedges = self.last;
        }
        if no_breaker {
            self.no_breaker = self.last;
        }
    }

    /// Notes that the whole policy is forced open, or was cleared.
    pub fn force(&mut self, on: bool) {
        self.last += 1;
        if !on {
            self.cleared = self.last;
        }
    }
}

impl FleetDesk<'_> {
    /// Changes the routes of a policy from slot `from` on, as many as a step may; later steps handle the rest.
    /// `adopted` holds, by route, the number of calls in flight that a new bulkhead counts; all of those routes are
    /// among the changed ones.
    pub(super) fn change_routes(
        &mut self,
        policy: u16,
        from: u32,
        adopted: &mut BTreeMap<RouteAt, u32>,
        now: Time,
    ) {
        let end = from.saturating_add(LOOKED_AT).min(self.desk.routes.slots());
        for slot in (from..end).map(RouteAt::new) {
            let last = self.desk.policies[usize::from(policy)].changes.last;
            let route = &self.desk.routes[slot];
            if route.policy != policy || route.is_pool() || route.is_free() || route.changes == last {
                continue;
            }
            if !self.desk.chores.so_many(ROUTE, Chore::Changed { policy, from: slot.number() }) {
                return;
            }
            self.change_route(slot, adopted.remove(&slot).unwrap_or(0), now);
        }
        if end < self.desk.routes.slots() {
            self.desk.chores.leave(Chore::Changed { policy, from: end });
        }
    }

    /// Makes a route apply the changes of its policy. Called before anything else is done with the route.
    #[cold]
    #[inline(never)]
    pub(super) fn catch_up(&mut self, slot: RouteAt, now: Time) {
        let route = &self.desk.routes[slot];
        if !route.is_pool() && !route.is_free() {
            self.desk.routes.set_leased(slot);
            self.change_route(slot, 0, now);
        }
    }

    /// The same for an existing route. `in_flight` is the number of calls that a new bulkhead counts.
    pub(super) fn change_route(&mut self, slot: RouteAt, in_flight: u32, now: Time) {
        let route = &self.desk.routes[slot];
        let (number, seen) = (route.policy, route.changes);
        let entry = &self.desk.policies[usize::from(number)];
        let (changes, whole) = (entry.changes, entry.forced);
        if seen == changes.last {
            return;
        }
        let before = self.desk.routes.levels(slot);
        self.desk.routes[slot].changes = changes.last;
        if seen < changes.retuned {
            self.retune_pool_of(slot, number, in_flight, now);
            if seen < changes.other_budget && self.desk.routes[slot].budget_at == slot.own() {
                // The charges of calls to it were forgotten for all routes at once, so drop it, even if a second
                // retune has brought its kind back.
                self.desk.routes[slot].budget = None;
            }
            if seen < changes.other_hedges
                && let Some(hedger) = &mut self.desk.routes[slot].hedger
            {
                hedger.budget = None; // for the same reason
            }
            if seen < changes.no_breaker {
                // The tickets of calls to it were forgotten, so it goes, even if a second retune has brought one back.
                let route = &mut self.desk.routes[slot];
                (route.breaker, route.guard) = (None, None);
            }
            self.retune_route(slot, number, changes.at, now);
        }
        let route = &mut self.desk.routes[slot];
        route.forced &= seen >= changes.cleared;
        let forced = whole || route.forced;
        route.stages = route.stages & !stage::FORCED | if forced { stage::FORCED } else { 0 };
        if let Some(breaker) = route.breaker.as_mut().filter(|_| seen < changes.cleared) {
            breaker.reset();
        }
        self.desk.note(move |it| it.levels_changed(slot, before, now));
        if seen < changes.retuned {
            self.desk.hand_out(slot.own(), now);
        }
    }

    /// Makes the routes that a new key of a policy may evict or inherit from apply the changes, so that their debts
    /// are in the present settings.
    #[cold]
    #[inline(never)]
    pub(super) fn catch_up_for_key(&mut self, policy: u16, now: Time) {
        for slot in self.desk.routes.candidates() {
            self.catch_up(slot, now);
        }
        if let Some(overflow) = self.desk.routes.of_key(policy, None) {
            self.catch_up(overflow, now);
        }
    }

    /// Applies the changes to all routes at once. Only for operations that have no time bound anyway.
    pub(super) fn catch_up_all(&mut self, now: Time) {
        for slot in (0..self.desk.routes.slots()).map(RouteAt::new) {
            self.catch_up(slot, now);
        }
    }

    pub(super) fn retune_pool_of(&mut self, route: RouteAt, number: u16, in_flight: u32, now: Time) {
        if self.desk.routes[route].pool_at != route.own() {
            return; // a pool is retuned by its own name
        }
        let to = self.desk.policies[usize::from(number)].policy.bulkhead.clone();
        if self.desk.routes[route].pool.is_none() {
            let Some(to) = &to else { return };
            let mut pool = Pool::new(to, now);
            pool.in_flight = in_flight;
            pool.set_limit(pool.limit);
            self.desk.routes[route].pool = Some(pool);
        }
        let Some(pool) = &mut self.desk.routes[route].pool else { return };
        if let Some(to) = &to {
            pool.retune(to, now);
            pool.order_by(to.prioritized, &mut self.desk.calls);
        } else {
            // A pool outlives its bulkhead, without a limit: its permits are in use, and a bulkhead may come back.
            pool.set_limit(u32::MAX);
            (pool.max_queue, pool.codel) = (0, None);
        }
        self.retune_slots(route.own(), to.as_ref(), now);
        self.desk.routes.retune_digest(route.own(), to.as_ref());
    }

    /// Retunes a route except for its permits, as of the moment `at` when the settings changed.
    pub(super) fn retune_route(&mut self, route: RouteAt, number: u16, at: Time, now: Time) {
        let entry = &self.desk.policies[usize::from(number)];
        let (policy, forced) = (entry.policy.clone(), entry.forced);
        let wall = self.desk.routes.wall;
        let it = &mut self.desk.routes[route];
        let fresh = Route::new(number, &policy, entry.shared_pools, "".into(), at);
        it.retune_stages(&policy, at);
        Guard::retune(&mut it.guard, policy.breaker.as_ref());
        if let (Some(hedger), Some(to)) = (&mut it.hedger, &policy.hedge) {
            hedger.retune(to, at);
        } else {
            // New or returning hedges begin without the burst of their own budget.
            it.hedger = fresh.hedger;
            if let (Some(hedger), Some(to)) = (&mut it.hedger, &policy.hedge) {
                hedger.budget = None;
                hedger.retune(to, at);
            }
        }
        // Keep a queue with waiters, and the rate they wait for.
        let mut moved = None;
        match (&mut it.rate, &policy.rate_limit) {
            (Some(queue), Some(to)) if it.rate_at == route.own() => {
                moved = Some(queue.bucket.retune(to, wall, at));
            }
            (Some(queue), _) if queue.waiting.len() > 0 => {}
            (rate, _) => *rate = fresh.rate,
        }
        match &mut it.send {
            Some(queue) if policy.retry.send_rate.is_on() || queue.waiting.len() > 0 => {}
            send => *send = fresh.send,
        }
        match &mut it.holds {
            Some(holds) if policy.retry.hold.is_some() || holds.in_use() => {}
            holds => *holds = fresh.holds,
        }
        match (&mut it.cooldown, &policy.cooldown) {
            (Some(cooling), Some(to)) => cooling.retune(to, at),
            (Some(cooling), None) if it.active > 0 => cooling.drop_settings(at),
            (cooldown, _) => *cooldown = fresh.cooldown,
        }
        it.without_guards();
        it.set_stages(&policy, forced);
        self.desk.routes.set_leased(route);
        self.desk.routes.recount_rate(self.store, route.own());
        if let Some(moved) = moved {
            self.desk.rate_retuned(route.own(), moved, now);
        }
        self.desk.let_in(route, now);
        if self.desk.routes[route].budget_at == route.own() {
            self.desk.routes.retune_budget_of(route, policy.retry.budget, at);
        }
    }
}
