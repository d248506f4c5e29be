//! Which route goes where there are too many, and what becomes of what it owes.

use super::debts::{Owed, Owner};
use super::{Homes, NONE, OVERFLOW, Route, Routes};
use crate::action::RouteId;
use crate::debt::Debt;
use crate::limit::TokenBucket;
use crate::policy::{HedgeBudget, Policy};
use crate::retry::{Budget, BudgetSettings};
use crate::time::Time;

/// How many idle routes an eviction looks at, least recently used first, for one that owes nothing.
const LOOKED_AT: usize = 8;

/// How many pinned routes an eviction looks at, for those that nothing pins any more.
const PINNED_LOOKED_AT: usize = 4;

/// The ends of a list of routes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub oldest: u32,
    pub newest: u32,
}

impl Ends {
    pub const EMPTY: Self = Self { oldest: NONE, newest: NONE };
}

impl Routes {
    /// The overflow route of a policy, for a key that there is no place for. It owes what the key owes.
    pub(super) fn share(
        &mut self,
        (number, name): (u16, &str),
        (policy, homes, forced): (&Policy, Homes, bool),
        now: Time,
    ) -> RouteId {
        self.overflows += 1;
        let slot = self
            .of_key(number, None)
            .unwrap_or_else(|| self.add(number, (policy, homes, forced), OVERFLOW.into(), now));
        let hash = self.debts.hash(name);
        self.slots[slot as usize].owe(self.debts.owed(number, hash, now), now);
        self.debts.note(number, Owner::Overflow, hash, Debt::lasting(1), now);
        self.id(slot)
    }

    /// A key has a route again: the route owes what the key owes, and if the key has shared the overflow route, what that
    /// owes.
    pub(super) fn inherit(&mut self, slot: u32, hash: u64, now: Time) {
        let number = self.slots[slot as usize].policy;
        let owed = self.debts.owed(number, hash, now);
        self.slots[slot as usize].owe(owed, now);
        if !self.debts.of(number, Owner::Overflow, hash, now).is_owed(now) {
            return;
        }
        let Some(overflow) = self.of_key(number, None) else { return };
        let route = &mut self.slots[overflow as usize];
        // Ids that hosts keep for keys of the overflow route end here, so that no key goes on in two places.
        route.generation = (route.generation + 1).min(RouteId::GENERATIONS);
        let (owed, idle) = (route.owed(now), route.active == 0);
        if idle && !is_owed(&owed, now) {
            self.debts.forget(number, Owner::Overflow);
        }
        self.slots[slot as usize].owe(owed, now);
    }

    /// A policy gets other settings: what is remembered of its evicted routes goes on as the routes themselves do.
    pub fn retune_debts(&mut self, number: u16, from: &Policy, to: &Policy, now: Time) {
        match (&from.rate_limit, &to.rate_limit) {
            (Some(from), Some(to)) if from.bucket == to.bucket => {}
            (Some(from), Some(to)) => self.debts.convert(number, Owner::Rate, |worst| {
                let mut bucket = TokenBucket::new(from.bucket, now);
                bucket.owe(worst, now);
                bucket.retune(to.bucket, now);
                bucket.debt(now)
            }),
            _ => self.debts.forget(number, Owner::Rate),
        }
        self.retune_budget_debts(number, Owner::Budget, (from.retry.budget, to.retry.budget), now);
        let own = |policy: &Policy| match policy.hedge.as_ref().map(|hedge| hedge.budget) {
            Some(HedgeBudget::Own(budget)) => budget,
            Some(HedgeBudget::Shared) | None => None,
        };
        self.retune_budget_debts(number, Owner::HedgeBudget, (own(from), own(to)), now);
    }

    fn retune_budget_debts(
        &mut self,
        number: u16,
        owner: Owner,
        (from, to): (Option<BudgetSettings>, Option<BudgetSettings>),
        now: Time,
    ) {
        let (Some(from), Some(to)) = (from, to) else { return self.debts.forget(number, owner) };
        let same = match (&from, &to) {
            (BudgetSettings::Window(from), BudgetSettings::Window(to)) => from.ttl == to.ttl,
            _ => core::mem::discriminant(&from) == core::mem::discriminant(&to),
        };
        if same {
            return; // amounts mean what they meant
        }
        self.debts.convert(number, owner, |worst| {
            let Some(mut budget) = Budget::new(&from) else { return Debt::NONE };
            budget.owe(worst, now);
            if budget.retune(&to, now) {
                return budget.debt(now);
            }
            Budget::spent(&to, now).map_or(Debt::NONE, |mut budget| budget.debt(now))
        });
    }

    fn ends(&mut self, parked: bool) -> &mut Ends {
        if parked { &mut self.parked } else { &mut self.idle }
    }

    /// Puts a route without calls at the recently used end of a list.
    pub(super) fn link(&mut self, slot: u32, parked: bool) {
        let newest = core::mem::replace(&mut self.ends(parked).newest, slot);
        self.uses += 1;
        let route = &mut self.slots[slot as usize];
        (route.before, route.after, route.parked, route.used) = (newest, NONE, parked, self.uses);
        match newest {
            NONE => self.ends(parked).oldest = slot,
            newest => self.slots[newest as usize].after = slot,
        }
    }

    /// Puts a route that was pinned before all idle ones: nobody has used it since.
    fn link_as_oldest(&mut self, slot: u32) {
        let oldest = core::mem::replace(&mut self.idle.oldest, slot);
        self.unused -= 1;
        let route = &mut self.slots[slot as usize];
        (route.before, route.after, route.parked, route.used) = (NONE, oldest, false, self.unused);
        match oldest {
            NONE => self.idle.newest = slot,
            oldest => self.slots[oldest as usize].before = slot,
        }
    }

    pub(super) fn unlink(&mut self, slot: u32) {
        let Route { before, after, parked, .. } = self.slots[slot as usize];
        match before {
            NONE => self.ends(parked).oldest = after,
            before => self.slots[before as usize].after = after,
        }
        match after {
            NONE => self.ends(parked).newest = before,
            after => self.slots[after as usize].before = before,
        }
    }

    /// Makes room for one; false when every route is pinned. Looks at [`LOOKED_AT`] and [`PINNED_LOOKED_AT`] routes at
    /// most, however many there are.
    pub(super) fn evict(&mut self, now: Time) -> bool {
        for _ in 0..PINNED_LOOKED_AT {
            let slot = self.parked.oldest;
            let Some(route) = self.slots.get(slot as usize) else { break };
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
            let Some(route) = self.slots.get_mut(slot as usize) else { break };
            next = route.after;
            if route.is_pinned(now) {
                // A store or an operator has pinned it while it was idle.
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
        self.unlink(slot);
        let route = &mut self.slots[slot as usize];
        let (number, owed, key) = (route.policy, route.owed(now), core::mem::take(&mut route.key));
        route.free = true;
        if route.generation < RouteId::GENERATIONS {
            route.generation += 1;
            self.free.push(slot);
        }
        self.kept -= 1;
        self.evictions += 1;
        if is_owed(&owed, now) {
            let hash = self.debts.hash(&key);
            for (owner, debt) in owed.into_iter().filter(|(_, debt)| debt.is_owed(now)) {
                self.debts.note(number, owner, hash, debt, now);
            }
        }
        self.by_key.remove(&(number, key));
        true
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
    /// Takes from an overflow route what would refuse or hold one key's calls because of what happened to another's.
    pub fn without_guards(&mut self) {
        if self.overflow {
            (self.breaker, self.guard, self.throttle, self.holds) = (None, None, None, None);
        }
    }

    /// Must it stay though no call is in it: is it forced open, or a break under way? An overflow route stays for good.
    pub fn is_pinned(&self, now: Time) -> bool {
        self.overflow || self.is_forced() || self.breaker.as_ref().is_some_and(|breaker| breaker.is_open(now))
    }

    /// What it owes, to be remembered when it is evicted. What pools have spent is theirs.
    fn owed(&mut self, now: Time) -> Owed {
        let rate = self.rate.as_mut().map_or(Debt::NONE, |rate| rate.debt(now));
        let budget = self.budget.as_mut().map_or(Debt::NONE, |budget| budget.debt(now));
        let hedges = self.hedger.as_mut().and_then(|hedger| hedger.budget.as_mut());
        let hedges = hedges.map_or(Debt::NONE, |budget| budget.debt(now));
        [(Owner::Rate, rate), (Owner::Budget, budget), (Owner::HedgeBudget, hedges)]
    }

    /// Owes at least this much from here on.
    fn owe(&mut self, owed: Owed, now: Time) {
        let [(_, rate), (_, budget), (_, hedges)] = owed;
        if let Some(it) = &mut self.rate {
            it.owe(rate, now);
        }
        if let Some(it) = &mut self.budget {
            it.owe(budget, now);
        }
        if let Some(it) = self.hedger.as_mut().and_then(|hedger| hedger.budget.as_mut()) {
            it.owe(hedges, now);
        }
    }
}

fn is_owed(owed: &Owed, now: Time) -> bool {
    owed.iter().any(|(_, debt)| debt.is_owed(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Event, Request};
    use crate::engine::{Engine, Options};
    use crate::outcome::{Class, Outcome};
    use crate::policy::Value::Number;

    /// The looks and the cells that a new key costs, where everybody owes and most are pinned: a bound that does not depend
    /// on how many routes there are.
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
                let before = engine.routes.looks;
                let route = engine.route(policy, &n.to_string(), now);
                let most = (LOOKED_AT + PINNED_LOOKED_AT) as u64;
                assert!(engine.routes.looks - before <= most, "{max_routes} routes, key {n}");
                let (call, _) = engine.begin(route, &Request::default(), now);
                let class = if n % 3 == 0 { Class::Ok } else { Class::Transient };
                for attempt in [1, 2] {
                    let _ = engine.on(call, Event::Finished { attempt, outcome: Outcome::of(class) }, now);
                }
            }
            assert!(engine.routes.evictions > u64::from(max_routes), "{}", engine.routes.evictions);
            assert!(engine.routes.kept <= max_routes);
        }
    }
}
