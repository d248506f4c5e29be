//! Routes: the keys that state is kept under, bounded in number.
//!
//! A route is pinned while it has calls, while its breaker is open, and while it is forced open. When the map is
//! full, a new key replaces one of the least recently used idle routes, preferably one without debts.
//! `route/debts.rs` remembers the debts of evicted routes. If all routes are pinned, new keys share the policy's
//! `overflow` route. It has rate limits, bulkhead and budgets, and no component that refuses one key's calls because
//! of another's failures.

pub(super) mod debts;
pub(super) mod evict;
mod key;
mod pools;
pub(super) mod stage;

use super::place::{PoolAt, RouteAt};
use std::collections::BTreeMap as Map;

use super::cooldown::Cooling;
use super::fleet::breaker::Guard;
use super::fleet::digest::Digest;
use super::fleet::slots::Slots;
use super::hedge::Hedger;
use super::hold::Holds;
use super::pages::Used;
use super::queue::Pool;
use super::rate_queue::{Bucket, RateQueue};
use super::stage::Stage as _;
use super::targets::Group;
use crate::action::RouteId;
use crate::breaker::CircuitBreaker;
use crate::full::{Full, Part, Rare};
use crate::policy::Policy;
use crate::retry::{Budget, CubicRate};
use crate::throttle::AdaptiveThrottle;
use crate::time::{Time, Wall};
use crate::{rng, text};
use debts::Debts;
use evict::Ends;
use key::name_of;

/// The most routes of keys that an engine can be made for.
const MOST_ROUTES: u32 = 1 << 19;

/// Key of a policy's overflow route. Hosts cannot give this key, because control characters are removed from theirs.
pub(super) const OVERFLOW: &str = "\u{0}overflow";

/// Place of a component that can be shared: in a pool, or in each route ([`PoolAt::NONE`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SharedPools {
    pub pool: PoolAt,
    pub rate: PoolAt,
    pub budget: PoolAt,
    /// Place of the group of targets, if there is one.
    pub targets: Option<Rare<PoolAt>>,
}

impl SharedPools {
    pub const OWN: Self =
        Self { pool: PoolAt::NONE, rate: PoolAt::NONE, budget: PoolAt::NONE, targets: None };
}

/// State of one (policy, key); or a pool, which is a route without calls of its own.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts about a key
pub(super) struct Route {
    /// Generation of the ids that hosts hold. It ends when the route is evicted, and for the overflow route also when
    /// one of its keys gets a route again.
    generation: u64,
    /// Number of earlier evictions in this slot.
    life: u32,
    pub policy: u16,
    key: Box<str>,
    /// The key as shown to people, if it differs.
    shown: Option<Box<str>>,
    /// Its stages, as bits of [`stage`].
    pub stages: u16,
    /// Whether the route, or its whole policy, is forced open.
    pub forced: bool,
    /// The last change of its policy's settings that it has applied.
    pub changes: u32,
    /// Place of its permits, tokens and retry budget: this route, or a pool.
    pub pool_at: PoolAt,
    pub rate_at: PoolAt,
    pub budget_at: PoolAt,
    /// Place of the group of targets that its attempts go to.
    pub targets_at: Option<Rare<PoolAt>>,
    pub pool: Option<Pool>,
    /// State of the leased slots, if the permits are the fleet's.
    pub slots: Option<Part<Slots>>,
    /// State of the fleet's latencies, if the limit follows them.
    pub digest: Option<Part<Digest>>,
    pub budget: Option<Budget>,
    pub rate: Option<Box<RateQueue>>,
    pub send: Option<Part<RateQueue>>,
    pub breaker: Option<Box<CircuitBreaker>>,
    /// State of the fleet's breaker, if the breaker is the fleet's.
    pub guard: Option<Part<Guard>>,
    pub throttle: Option<Part<AdaptiveThrottle>>,
    pub hedger: Option<Part<Hedger>>,
    pub holds: Option<Part<Holds>>,
    /// The group of targets that is stored here.
    pub group: Option<Part<Group>>,
    pub cooldown: Option<Part<Cooling>>,
    /// Calls in it, lingering ones included.
    pub active: u32,
    /// Calls of other routes whose retry budget is here.
    pub guests: u32,
    /// Its neighbours in the list of routes without calls, while it is in it.
    before: RouteAt,
    after: RouteAt,
    /// Which list it is in while idle: that of pinned routes, or not.
    parked: bool,
    /// When it was put into that list, as a count of such moves; negative values sort before all others.
    used: i64,
    overflow: bool,
    free: bool,
    is_pool: bool,
}

/// An operator's changes to a policy, as a new route of it needs them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operated {
    /// Whether the whole policy is forced open.
    pub forced: bool,
    /// The last change of its settings.
    pub changes: u32,
}

/// All routes.
#[derive(Debug)]
pub(super) struct Routes {
    slots: Vec<Route>,
    vacant: Vec<RouteAt>,
    /// The routes of each policy, by its number.
    by_key: Vec<Map<Box<str>, RouteAt>>,
    /// Routes without calls, least recently used first: those that may be evicted, and those that were pinned at the
    /// last check.
    idle: Ends,
    parked: Ends,
    /// Counts of moves to the recently used end of a list, and to the other end.
    uses: i64,
    unused: i64,
    /// Number of routes of keys: all but overflow routes and pools.
    kept: u32,
    /// Number of pools and targets.
    pooled: u32,
    max: u32,
    pub debts: Debts,
    /// Number of routes that evictions have visited.
    #[cfg(test)]
    looks: u64,
    /// How often a key had to share its policy's overflow route.
    pub overflows: u64,
    pub evictions: u64,
    /// The host's wall clock, by which limits refill that do so by windows.
    pub wall: Wall,
}

impl Routes {
    pub fn new(max: u32, seed: u64) -> Self {
        let max = max.clamp(1, MOST_ROUTES);
        Self {
            slots: Vec::new(),
            vacant: Vec::new(),
            by_key: Vec::new(),
            idle: Ends::EMPTY,
            parked: Ends::EMPTY,
            uses: 0,
            unused: 0,
            kept: 0,
            pooled: 0,
            max,
            debts: Debts::new(rng::split_mix(seed), max),
            #[cfg(test)]
            looks: 0,
            overflows: 0,
            evictions: 0,
            wall: Wall::default(),
        }
    }

    /// The route of a key; creates a missing one. Total: it always returns a working route.
    pub fn intern(
        &mut self,
        number: u16,
        (policy, shared_pools, operated): (&Policy, SharedPools, Operated),
        key: &str,
        now: Time,
    ) -> RouteId {
        let name = name_of(key);
        if let Some(slot) = self.named(number, &name) {
            return self.id(slot);
        }
        if self.kept >= self.max && !self.evict(now) {
            return self.share((number, &name), (policy, shared_pools, operated), now);
        }
        let hash = if self.debts.is_empty() { None } else { Some(self.debts.hash(&name)) };
        let slot = self.add(number, (policy, shared_pools, operated), name.into(), now);
        if let Some(hash) = hash {
            self.inherit(slot, hash, now);
        }
        self.id(slot)
    }

    /// Creates an idle route.
    fn add(
        &mut self,
        number: u16,
        (policy, shared_pools, operated): (&Policy, SharedPools, Operated),
        name: Box<str>,
        now: Time,
    ) -> RouteAt {
        let overflow = &*name == OVERFLOW;
        let slot = self.insert(Route::new(number, policy, shared_pools, name.clone(), now));
        let index = usize::from(number);
        if self.by_key.len() <= index {
            self.by_key.resize_with(index + 1, Map::new);
        }
        self.by_key[index].insert(name, slot);
        self.pools_in(slot, shared_pools);
        let route = &mut self.slots[slot.index()];
        (route.overflow, route.forced) = (overflow, operated.forced);
        route.changes = operated.changes;
        route.without_guards();
        route.set_stages(policy, operated.forced);
        self.kept += u32::from(!overflow);
        self.set_leased(slot);
        self.link(slot, false);
        slot
    }

    /// The rate whose tokens a route's calls wait for: its own send rate, or its rate limit, which may be a pool's.
    #[inline]
    pub fn rate_queue_mut(&mut self, route: RouteAt, sending: bool) -> Option<&mut RateQueue> {
        if sending {
            self[route].send.as_deref_mut()
        } else {
            let home = self[route].rate_at;
            self[home].rate.as_deref_mut()
        }
    }

    /// Notes whether a route's permits are leases, here or in a pool.
    pub fn set_leased(&mut self, slot: RouteAt) {
        let home = self.slots[slot.index()].pool_at;
        let leased = self.slots[home.route().index()].slots.is_some();
        let route = &mut self.slots[slot.index()];
        route.stages = route.stages & !stage::LEASED | if leased { stage::LEASED } else { 0 };
    }

    /// The idle route of a saved key, as the most recently used one; creates a missing one. Without a key, the
    /// policy's `overflow` route.
    pub fn place(
        &mut self,
        number: u16,
        policy: (&Policy, SharedPools, Operated),
        key: Option<&str>,
        now: Time,
    ) -> RouteAt {
        if let Some(slot) = self.of_key(number, key) {
            self.unlink(slot);
            self.link(slot, false);
            return slot;
        }
        self.add(number, policy, key.map_or(OVERFLOW.into(), name_of).into(), now)
    }

    /// The route of a key, if it exists.
    pub fn of_key(&self, number: u16, key: Option<&str>) -> Option<RouteAt> {
        self.named(number, &key.map_or(OVERFLOW.into(), name_of))
    }

    /// The route stored under a name, if it exists.
    fn named(&self, number: u16, name: &str) -> Option<RouteAt> {
        self.by_key.get(usize::from(number))?.get(name).copied()
    }

    /// Removes a name from the index.
    fn forget(&mut self, number: u16, name: &str) {
        if let Some(own) = self.by_key.get_mut(usize::from(number)) {
            own.remove(name);
        }
    }

    /// How many more routes fit without an eviction.
    pub fn room(&self) -> usize {
        self.max.saturating_sub(self.kept) as usize
    }

    /// Number of slots, free ones included.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The routes in `slots` slots, beginning with `from`, pools among them.
    pub fn page(&self, from: u32, slots: u32) -> impl Iterator<Item = (RouteAt, &Route)> {
        let end = from.saturating_add(slots).min(self.slots());
        let page = self.slots.get(from as usize..end as usize).unwrap_or(&[]);
        (from..).map(RouteAt::new).zip(page).filter(|(_, route)| !route.free)
    }

    fn pools_in(&mut self, slot: RouteAt, shared_pools: SharedPools) {
        let at = |home: PoolAt| if home == PoolAt::NONE { slot.own() } else { home };
        let route = &mut self.slots[slot.index()];
        (route.pool_at, route.rate_at) = (at(shared_pools.pool), at(shared_pools.rate));
        route.budget_at = at(shared_pools.budget);
        route.targets_at = shared_pools.targets;
    }

    fn insert(&mut self, route: Route) -> RouteAt {
        if let Some(slot) = self.vacant.pop() {
            let place = &mut self.slots[slot.index()];
            let (generation, life) = (place.generation, place.life);
            *place = Route { generation, life, ..route };
            slot
        } else {
            self.slots.push(route);
            RouteAt::new((self.slots.len() - 1) as u32)
        }
    }

    #[inline]
    pub fn find(&self, id: RouteId) -> Option<RouteAt> {
        let slot = RouteAt::new(id.slot());
        let route = self.slots.get(slot.index())?;
        (route.generation == id.generation() && !route.free).then_some(slot)
    }

    pub fn id(&self, slot: RouteAt) -> RouteId {
        RouteId::new(slot.number(), self.slots[slot.index()].generation)
    }

    /// An id that ends only when the route is evicted. Commands to a store name a route by it, because the ids that
    /// hosts hold of an overflow route can end while a command is out.
    pub fn lasting_id(&self, slot: RouteAt) -> RouteId {
        RouteId::new(slot.number(), u64::from(self.slots[slot.index()].life))
    }

    /// The route of a lasting id.
    pub fn find_lasting(&self, id: RouteId) -> Option<RouteAt> {
        let slot = RouteAt::new(id.slot());
        let route = self.slots.get(slot.index())?;
        (u64::from(route.life) == id.generation() && !route.free).then_some(slot)
    }

    /// Adds a call: a route with calls is not idle.
    /// Returns the number of its policy.
    #[inline]
    pub fn enter(&mut self, slot: RouteAt) -> u16 {
        if self.slots[slot.index()].active == 0 {
            self.unlink(slot);
        }
        let route = &mut self.slots[slot.index()];
        route.active += 1;
        let (policy, home) = (route.policy, route.budget_at);
        if home != slot.own() {
            self.slots[home.route().index()].guests += 1;
        }
        policy
    }

    /// Removes a call. After the last one the route becomes the most recently used idle one.
    #[inline(always)]
    pub fn leave(&mut self, slot: RouteAt, now: Time) {
        let route = &mut self.slots[slot.index()];
        route.active -= 1;
        let (idle, home) = (route.active == 0, route.budget_at);
        if home != slot.own() {
            self.slots[home.route().index()].guests -= 1;
        }
        if idle {
            let route = &self.slots[slot.index()];
            let parked =
                route.stages & (stage::FORCED | stage::BREAKER | stage::HOLD) != 0 && route.is_blocked(now);
            self.link(slot, parked);
        }
    }

    /// All routes, pools among them.
    pub fn iter(&self) -> impl Iterator<Item = (RouteAt, &Route)> {
        (0..).map(RouteAt::new).zip(&self.slots).filter(|(_, route)| !route.free)
    }

    /// After a fork: removes all calls.
    pub fn clear_calls(&mut self) {
        for slot in (0..self.slots.len() as u32).map(RouteAt::new) {
            let route = &mut self.slots[slot.index()];
            if let Some(pool) = &mut route.pool {
                pool.forget_calls();
                if let Some(slots) = &mut route.slots {
                    slots.forget();
                    pool.set_limit(0);
                }
            }
            if let Some(budget) = &mut route.budget {
                budget.forget_calls();
            }
            for queue in [route.rate.as_deref_mut(), route.send.as_deref_mut()].into_iter().flatten() {
                queue.forget_calls();
            }
            if let Some(breaker) = &mut route.breaker {
                breaker.forget_probes();
            }
            if let Some(guard) = &mut route.guard {
                guard.forget();
            }
            if let Some(digest) = &mut route.digest {
                digest.forget();
            }
            if let Some(budget) = route.hedger.as_mut().and_then(|hedger| hedger.budget.as_mut()) {
                budget.forget_calls();
            }
            if let Some(holds) = &mut route.holds {
                holds.forget_calls();
            }
            if let Some(group) = &mut route.group {
                group.forget_calls();
            }
            if let Some(cooling) = &mut route.cooldown {
                cooling.forget_calls();
            }
            route.guests = 0;
            if route.active > 0 {
                route.active = 0;
                self.link(slot, false);
            }
        }
    }
}

impl Route {
    pub fn new(
        policy_number: u16,
        policy: &Policy,
        shared_pools: SharedPools,
        key: Box<str>,
        now: Time,
    ) -> Self {
        let own = |home: PoolAt| home == PoolAt::NONE;
        let rate = policy.rate_limit.as_ref().filter(|_| own(shared_pools.rate));
        let tokens = rate.map(|limit| Bucket::of(limit, now));
        let cubic =
            |full| Part::new(RateQueue::new(Bucket::Cubic(Rare::new(CubicRate::new(now), full))), full);
        let bulkhead = policy.bulkhead.as_ref().filter(|_| own(shared_pools.pool));
        let slots = Slots::of(bulkhead);
        let mut pool = bulkhead.map(|it| Pool::new(it, now));
        if let Some(pool) = pool.as_mut().filter(|_| slots.is_some()) {
            pool.set_limit(0);
        }
        Self {
            generation: 1,
            life: 0,
            policy: policy_number,
            shown: text::shown(&key),
            key,
            stages: 0,
            forced: false,
            changes: 0,
            pool_at: PoolAt::NONE,
            rate_at: PoolAt::NONE,
            budget_at: PoolAt::NONE,
            targets_at: shared_pools.targets,
            pool,
            slots,
            digest: Digest::of(bulkhead),
            budget: policy.retry.budget.as_ref().filter(|_| own(shared_pools.budget)).and_then(Budget::new),
            rate: tokens.map(|bucket| Box::new(RateQueue::new(bucket))),
            send: Full::here().filter(|_| policy.retry.send_rate.is_on()).map(cubic),
            breaker: CircuitBreaker::settings(policy).map(|it| CircuitBreaker::fresh(it, now)),
            guard: Guard::of(policy.breaker.as_ref()),
            throttle: AdaptiveThrottle::settings(policy).map(|it| AdaptiveThrottle::fresh(it, now)),
            hedger: policy.hedge.as_ref().map(|it| Part::new(Hedger::new(it), it.full())),
            holds: Full::here()
                .filter(|_| policy.retry.hold.is_some())
                .map(|full| Part::new(Holds::default(), full)),
            group: None,
            cooldown: policy.cooldown.as_ref().map(|it| Part::new(Cooling::new(it), it.full())),
            active: 0,
            guests: 0,
            before: RouteAt::NONE,
            after: RouteAt::NONE,
            parked: false,
            used: 0,
            overflow: false,
            free: false,
            is_pool: false,
        }
    }

    /// Sets the stages that a call passes here, from the policy's settings.
    pub fn set_stages(&mut self, policy: &Policy, forced: bool) {
        let mut stages = if forced || self.forced { stage::FORCED } else { 0 };
        for (there, bit) in [
            ((policy.retry.hold.is_some() || policy.cooldown.is_some()) && !self.overflow, stage::HOLD),
            (policy.rate_limit.is_some(), stage::RATE),
            (policy.bulkhead.is_some() || self.pool.is_some(), stage::POOL),
            (policy.breaker.is_some() && !self.overflow, stage::BREAKER),
            (policy.throttle.is_some() && !self.overflow, stage::THROTTLE),
            (policy.retry.send_rate.is_on() || policy.targets.is_some(), stage::SEND),
            (self.keeps_books(policy), stage::BOOKS),
        ] {
            stages |= if there { bit } else { 0 };
        }
        self.stages = stages;
    }

    /// Whether a budget or hedges count its calls, or will once the route has applied these settings.
    fn keeps_books(&self, policy: &Policy) -> bool {
        let retry = &policy.retry;
        self.budget.is_some()
            || self.hedger.is_some()
            || retry.budget.is_some()
            || retry.budget_pool.is_some()
    }

    /// Sorts routes by their last use, those with calls last.
    pub fn used(&self, slot: RouteAt) -> Used {
        if self.active > 0 { (true, false, 0, slot) } else { (false, self.parked, self.used, slot) }
    }

    /// Whether every call is refused here.
    pub fn is_forced(&self) -> bool {
        self.stages & stage::FORCED != 0
    }

    /// Whether the slot has no route.
    pub fn is_free(&self) -> bool {
        self.free
    }

    /// Whether it is a pool, which has no calls of its own.
    pub fn is_pool(&self) -> bool {
        self.is_pool
    }

    /// Number of calls whose retries its budget pays for.
    pub fn in_flight(&self) -> u32 {
        self.active.saturating_add(self.guests)
    }

    /// Whether it is the policy's overflow route.
    pub fn is_overflow(&self) -> bool {
        self.overflow
    }

    /// The key as stored, unique within a policy.
    pub fn raw_key(&self) -> &str {
        &self.key
    }

    /// The key as shown to people: in records, views, explanations and labels.
    pub fn key(&self) -> &str {
        if self.overflow { "overflow" } else { self.shown.as_deref().unwrap_or(&self.key) }
    }
}

impl core::ops::Index<RouteAt> for Routes {
    type Output = Route;

    #[inline]
    fn index(&self, slot: RouteAt) -> &Route {
        &self.slots[slot.index()]
    }
}

impl core::ops::IndexMut<RouteAt> for Routes {
    #[inline]
    fn index_mut(&mut self, slot: RouteAt) -> &mut Route {
        &mut self.slots[slot.index()]
    }
}

impl core::ops::Index<PoolAt> for Routes {
    type Output = Route;

    #[inline]
    fn index(&self, home: PoolAt) -> &Route {
        &self[home.route()]
    }
}

impl core::ops::IndexMut<PoolAt> for Routes {
    #[inline]
    fn index_mut(&mut self, home: PoolAt) -> &mut Route {
        &mut self[home.route()]
    }
}
