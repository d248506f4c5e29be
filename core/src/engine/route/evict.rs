//! Which route the engine evicts when there are too many, and how it remembers the evicted route's debts.

use super::debts::{Owed, Owner};
use super::{OVERFLOW, Operated, Route, Routes, SharedPools};
use crate::action::RouteId;
use crate::debt::{Debt, Unit};
use crate::engine::place::RouteAt;
use crate::engine::rate_queue::Bucket;
use crate::policy::{HedgeBudget, Policy};
use crate::retry::{Budget, BudgetSettings};
use crate::time::{Time, Wall};

/// How many idle routes an eviction visits, least recently used first, to find one without debts.
const LOOKED_AT: usize = 8;

/// How many pinned routes an eviction visits, to find some that are no longer pinned.
const PINNED_LOOKED_AT: usize = 4;

/// The ends of a list of routes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub oldest: RouteAt,
    pub newest: RouteAt,
}

impl Ends {
    pub const EMPTY: Self = Self { oldest: RouteAt::NONE, newest: RouteAt::NONE };
}

impl Routes {
    /// The overflow route of a policy, for a key without room of its own. The route inherits the key's debts.
    pub(super) fn share(
        &mut self,
        (number, name): (u16, &str),
        (policy, shared_pools, operated): (&Policy, SharedPools, Operated),
        now: Time,
    ) -> RouteId {
        self.overflows += 1;
        let slot = self
            .of_key(number, None)
            .unwrap_or_else(|| self.add(number, (policy, shared_pools, operated), OVERFLOW.into(), now));
        let hash = self.debts.hash(name);
        self.owe_what_is_remembered(slot, hash, now);
        self.debts.note(number, (Owner::Overflow, Unit::Mark), hash, Debt::lasting(1), now);
        self.id(slot)
    }

    /// Gives a key's new route the debts of the key and, if the key has used the overflow route, those of the
    /// overflow route.
    pub(super) fn inherit(&mut self, slot: RouteAt, hash: u64, now: Time) {
        let number = self.slots[slot.index()].policy;
        self.owe_what_is_remembered(slot, hash, now);
        if !self.debts.of(number, Owner::Overflow, hash, now).is_owed(now) {
            return;
        }
        let Some(overflow) = self.of_key(number, None) else { return };
        let wall = self.wall;
        let route = &mut self.slots[overflow.index()];
        // Invalidate the ids that hosts hold for keys of the overflow route, so that no key continues in two routes.
        route.generation = (route.generation + 1).min(RouteId::GENERATIONS);
        route.see(wall);
        // Waiters of the overflow route take their tokens later, and may be calls of this key.
        let (owed, idle) = (route.owed_with_waiters(now), route.active == 0);
        if idle && !is_owed(&owed, now) {
            self.debts.forget(number, Owner::Overflow);
        }
        self.slots[slot.index()].owe(owed, now);
    }

    fn owe_what_is_remembered(&mut self, slot: RouteAt, hash: u64, now: Time) {
        let wall = self.wall;
        let route = &mut self.slots[slot.index()];
        route.see(wall);
        let number = route.policy;
        for (owner, _) in route.owners().into_iter().flatten() {
            route.owe_one(owner, self.debts.of(number, owner, hash, now), now);
        }
    }

    /// Remembers the debts of a key's route.
    pub(in crate::engine) fn remember(&mut self, number: u16, key: &str, owed: &Owed, now: Time) {
        let hash = self.debts.hash(key);
        for (owner, unit, debt) in owed.iter().flatten().filter(|(_, _, debt)| debt.is_owed(now)) {
            self.debts.note(number, (*owner, *unit), hash, *debt, now);
        }
    }

    /// Applies new settings to the remembered debts of evicted routes, exactly as to the routes themselves.
    pub fn retune_debts(&mut self, number: u16, from: &Policy, to: &Policy, now: Time) {
        match &to.rate_limit {
            Some(to) => self.debts.retune_rate(number, to.bucket, now),
            None => self.debts.forget(number, Owner::Rate),
        }
        let (from, to) = (budgets(from), budgets(to));
        let changes = |n: usize| owner_of(from[n], n == 1) != owner_of(to[n], n == 1);
        if changes(0) || changes(1) {
            // Another budget replaces the routes' budgets. Remember their debts to this one, in case it comes back.
            for slot in 0..self.slots.len() {
                let route = &mut self.slots[slot];
                if route.policy == number && !route.free && !route.overflow {
                    let owed = route.owed(now);
                    let key = route.key.clone();
                    self.remember(number, &key, &[None, owed[1], owed[2]], now);
                }
            }
        }
        for (n, hedges) in [(0, false), (1, true)] {
            if let Some(to) = &to[n] {
                self.debts.retune_budget(number, hedges, (to, changes(n)), now);
            }
        }
    }

    fn ends(&mut self, parked: bool) -> &mut Ends {
        if parked { &mut self.parked } else { &mut self.idle }
    }

    /// Appends a route without calls to the recently used end of a list.
    pub(super) fn link(&mut self, slot: RouteAt, parked: bool) {
        let newest = core::mem::replace(&mut self.ends(parked).newest, slot);
        self.uses += 1;
        let route = &mut self.slots[slot.index()];
        (route.before, route.after, route.parked, route.used) = (newest, RouteAt::NONE, parked, self.uses);
        match newest {
            RouteAt::NONE => self.ends(parked).oldest = slot,
            newest => self.slots[newest.index()].after = slot,
        }
    }

    /// Puts a route that was pinned before all idle ones, because no call has used it since.
    fn link_as_oldest(&mut self, slot: RouteAt) {
        let oldest = core::mem::replace(&mut self.idle.oldest, slot);
        self.unused -= 1;
        let route = &mut self.slots[slot.index()];
        (route.before, route.after, route.parked, route.used) = (RouteAt::NONE, oldest, false, self.unused);
        match oldest {
            RouteAt::NONE => self.idle.newest = slot,
            oldest => self.slots[oldest.index()].before = slot,
        }
    }

    pub(super) fn unlink(&mut self, slot: RouteAt) {
        let Route { before, after, parked, .. } = self.slots[slot.index()];
        match before {
            RouteAt::NONE => self.ends(parked).oldest = after,
            before => self.slots[before.index()].after = after,
        }
        match after {
            RouteAt::NONE => self.ends(parked).newest = before,
            after => self.slots[after.index()].before = before,
        }
    }

    /// Routes that the next eviction may visit.
    pub fn candidates(&self) -> Vec<RouteAt> {
        let mut found = Vec::with_capacity(LOOKED_AT + PINNED_LOOKED_AT);
        for (first, most) in [(self.parked.oldest, PINNED_LOOKED_AT), (self.idle.oldest, LOOKED_AT)] {
            let next = |slot: &RouteAt| self.slots.get(slot.index()).map(|route| route.after);
            let slots = std::iter::successors(Some(first), next).take_while(|slot| *slot != RouteAt::NONE);
            found.extend(slots.take(most));
        }
        found
    }

    /// Makes room for one route; false if every route is pinned. Visits at most [`LOOKED_AT`] and
    /// [`PINNED_LOOKED_AT`] routes, however many there are.
    pub(super) fn evict(&mut self, now: Time) -> bool {
        let wall = self.wall;
        for _ in 0..PINNED_LOOKED_AT {
            let slot = self.parked.oldest;
            let Some(route) = self.slots.get_mut(slot.index()) else { break };
            route.see(wall);
            let pinned = route.is_pinned(now);
            self.count_look();
            self.unlink(slot);
            if pinned {
                self.link(slot, true);
            } else {
                self.link_as_oldest(slot);
            }
        }
        let (mut next, mut victim) = (self.idle.oldest, None);
        for _ in 0..LOOKED_AT {
            let slot = next;
            let Some(route) = self.slots.get_mut(slot.index()) else { break };
            next = route.after;
            route.see(wall);
            if route.is_pinned(now) {
                // A store or an operator pinned it while it was idle.
                self.unlink(slot);
                self.link(slot, true);
            } else if is_owed(&route.owed(now), now) {
                victim = victim.or(Some(slot));
            } else {
                victim = Some(slot);
                break;
            }
            self.count_look();
        }
        let Some(slot) = victim else { return false };
        let route = &mut self.slots[slot.index()];
        let (number, owed) = (route.policy, route.owed(now));
        let key = self.free(slot);
        self.evictions += 1;
        if is_owed(&owed, now) {
            self.remember(number, &key, &owed, now);
        }
        self.forget(number, &key);
        true
    }

    /// Frees the slot of a route without calls; returns its key, which is still in the index.
    fn free(&mut self, slot: RouteAt) -> Box<str> {
        self.unlink(slot);
        self.kept -= u32::from(!self.slots[slot.index()].overflow);
        self.retire(slot)
    }

    /// Makes the slot vacant, and all ids of it stale. Returns its key.
    pub(super) fn retire(&mut self, slot: RouteAt) -> Box<str> {
        let route = &mut self.slots[slot.index()];
        let key = core::mem::take(&mut route.key);
        route.free = true;
        route.life = route.life.wrapping_add(1);
        if route.generation < RouteId::GENERATIONS {
            route.generation += 1;
            self.vacant.push(slot);
        }
        key
    }

    /// The first routes of a policy, by key.
    pub(in crate::engine) fn of_policy(&self, number: u16, most: usize) -> Vec<RouteAt> {
        let own = self.by_key.get(usize::from(number)).into_iter().flat_map(|own| own.values());
        own.take(most).copied().collect()
    }

    /// Removes a route without calls, and forgets its debts.
    pub(in crate::engine) fn remove(&mut self, slot: RouteAt) {
        let number = self.slots[slot.index()].policy;
        let key = self.free(slot);
        self.forget(number, &key);
    }

    #[cfg_attr(not(test), allow(clippy::unused_self))]
    fn count_look(&mut self) {
        #[cfg(test)]
        {
            self.looks += 1;
        }
    }
}

impl Route {
    /// Removes from an overflow route the components that would refuse or hold one key's calls because of another's
    /// failures.
    pub fn without_guards(&mut self) {
        if self.overflow {
            self.forget_stages();
            (self.guard, self.holds, self.cooldown) = (None, None, None);
        }
    }

    /// Passes the host's wall clock to limits that refill by its windows.
    #[inline]
    fn see(&mut self, wall: Wall) {
        if let Some(Bucket::Set(limits)) = self.rate.as_deref_mut().map(|queue| &mut queue.bucket) {
            limits.see(wall);
        }
    }

    /// Whether the route must stay without calls: it is forced open, its breaker is open, its cooldown is closed, or a
    /// limit of its set is in debt. An overflow route always stays.
    pub fn is_pinned(&self, now: Time) -> bool {
        self.is_blocked(now) || self.is_in_debt(now)
    }

    /// Whether it lets no call through for now, so that it waits among the routes that must stay.
    #[inline]
    pub(super) fn is_blocked(&self, now: Time) -> bool {
        self.overflow
            || self.is_forced()
            || self.breaker.as_ref().is_some_and(|breaker| breaker.is_open(now))
            || self.cooldown.is_some() && self.is_cooling(now)
    }

    #[inline(never)]
    fn is_cooling(&self, now: Time) -> bool {
        self.cooldown.as_ref().is_some_and(|it| it.part.closed_for(now).is_some())
    }

    fn is_in_debt(&self, now: Time) -> bool {
        match self.rate.as_deref().map(|queue| &queue.bucket) {
            Some(Bucket::Set(limits)) => limits.is_in_debt(now),
            _ => false,
        }
    }

    /// Debts to remember at the route's eviction. Debts of pools stay in the pools.
    pub(in crate::engine) fn owed(&mut self, now: Time) -> Owed {
        let owners = self.owners();
        let rate = self.rate.as_mut().map_or(Debt::NONE, |rate| rate.debt(now));
        let budget = self.budget.as_mut().map_or(Debt::NONE, |budget| budget.debt(now));
        let hedges = self.hedger.as_mut().and_then(|hedger| hedger.budget.as_mut());
        let hedges = hedges.map_or(Debt::NONE, |budget| budget.debt(now));
        let mut debts = [rate, budget, hedges].into_iter();
        owners.map(|owner| owner.zip(debts.next()).map(|((owner, unit), debt)| (owner, unit, debt)))
    }

    /// Components of the route that can have debts: its rate limit, its retry budget, its hedge budget.
    fn owners(&self) -> [Option<(Owner, Unit)>; 3] {
        let rate = self.rate.as_ref().and_then(|rate| rate.unit());
        let of = |budget: Option<&Budget>, hedges| {
            budget.and_then(Budget::unit).map(|unit| (Owner::of(unit, hedges), unit))
        };
        let hedges = self.hedger.as_ref().and_then(|hedger| hedger.budget.as_ref());
        [rate.map(|unit| (Owner::Rate, unit)), of(self.budget.as_ref(), false), of(hedges, true)]
    }

    /// The debts, with the tokens that waiters will take.
    fn owed_with_waiters(&mut self, now: Time) -> Owed {
        let mut owed = self.owed(now);
        if let (Some((_, _, debt)), Some(rate)) = (&mut owed[0], &mut self.rate) {
            *debt = rate.debt_with_waiters(now);
        }
        owed
    }

    /// Raises the debts to at least `owed`.
    fn owe(&mut self, owed: Owed, now: Time) {
        for (owner, _, debt) in owed.into_iter().flatten() {
            self.owe_one(owner, debt, now);
        }
    }

    fn owe_one(&mut self, owner: Owner, debt: Debt, now: Time) {
        let budget = match owner {
            Owner::Overflow => None,
            Owner::Rate => {
                if let Some(it) = &mut self.rate {
                    it.owe(debt, now);
                }
                None
            }
            Owner::Budget | Owner::Window => self.budget.as_mut(),
            Owner::HedgeBudget | Owner::HedgeWindow => {
                self.hedger.as_mut().and_then(|hedger| hedger.budget.as_mut())
            }
        };
        if let Some(budget) = budget {
            budget.owe(debt, now);
        }
    }
}

fn is_owed(owed: &Owed, now: Time) -> bool {
    owed.iter().flatten().any(|(_, _, debt)| debt.is_owed(now))
}

/// The retry budget of a policy, and its separate hedge budget.
pub(in crate::engine) fn budgets(policy: &Policy) -> [Option<BudgetSettings>; 2] {
    let own = match policy.hedge.as_ref().map(|hedge| hedge.budget) {
        Some(HedgeBudget::Own(budget)) => budget,
        Some(HedgeBudget::Shared) | None => None,
    };
    [policy.retry.budget, own]
}

fn owner_of(budget: Option<BudgetSettings>, hedges: bool) -> Option<Owner> {
    budget.as_ref().and_then(Unit::of).map(|unit| Owner::of(unit, hedges))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Event, Request};
    use crate::engine::{Engine, Options};
    use crate::outcome::{Class, Outcome};
    use crate::policy::Value::Number;

    /// Counts the visited routes and the sketch cells that a new key costs when every route has debts and most are
    /// pinned. The bound does not depend on the number of routes.
    #[test]
    fn a_new_key_looks_at_a_constant_number_of_routes() {
        for max_routes in [8, 100, 3_000] {
            let pairs = [
                ("breaker.consecutive", Number(1.0)),
                ("breaker.break_duration", Number(f64::from(max_routes) * 60e3)),
                ("breaker.break_factor", Number(1.0)),
                ("retry.max_attempts", Number(2.0)),
                ("retry.backoff.base", Number(0.0)),
            ];
            let mut engine = Engine::new(1, Options::default().max_routes(max_routes));
            let policy = engine.policy(Policy::from_pairs("p", &pairs).unwrap()).unwrap();
            for n in 0..4 * u64::from(max_routes) {
                let now = Time::from_micros(n * 60_000);
                let before = engine.desk.routes.looks;
                let route = engine.route(policy, &n.to_string(), now);
                let most = (LOOKED_AT + PINNED_LOOKED_AT) as u64;
                assert!(engine.desk.routes.looks - before <= most, "{max_routes} routes, key {n}");
                let (call, _) = engine.begin(route, &Request::default(), now);
                let class = if n % 3 == 0 { Class::Ok } else { Class::Transient };
                for attempt in [1, 2] {
                    let _ = engine.on(call, Event::Finished { attempt, outcome: Outcome::of(class) }, now);
                }
            }
            assert!(engine.desk.routes.evictions > u64::from(max_routes), "{}", engine.desk.routes.evictions);
            assert!(engine.desk.routes.kept <= max_routes);
        }
    }
}
