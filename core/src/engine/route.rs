//! Routes: the keys that state is kept under, bounded in number.
//!
//! A route is pinned while it has calls. When the map is full, the least recently used idle route goes, routes that
//! are as good as new before others; when none is idle, new keys share the policy's counted `overflow` route.

use crate::map::Map;

use super::arena::NONE;
use super::fleet::breaker::Guard;
use super::fleet::digest::Digest;
use super::fleet::slots::Slots;
use super::hedge::Hedger;
use super::hold::Holds;
use super::pace::{Bucket, Pace};
use super::queue::Pool;
use crate::action::RouteId;
use crate::breaker::{BreakerState, CircuitBreaker};
use crate::full::{Full, Part, Rare};
use crate::policy::{Policy, Throttle};
use crate::retry::{Budget, CubicRate};
use crate::throttle::AdaptiveThrottle;
use crate::time::Time;

/// How many idle routes an eviction looks at, oldest first, for one that is as good as new. It bounds the work of a
/// new key; the oldest idle route is the likeliest to be fresh.
const LOOKED_AT: usize = 32;

/// Keys longer than this are cut: a key names a place, not a payload.
const LONGEST_KEY: usize = 512;

/// The key of a policy's overflow route. The control character keeps it apart from every key a host can give: those are
/// cleaned of them.
const OVERFLOW: &str = "\u{0}overflow";

/// What a call meets on its way under a route, a bit each: a route without any costs nothing to pass.
pub(super) mod stage {
    use crate::full::FULL;
    use crate::policy::{Policy, Unit};

    pub const HOLD: u8 = rare(1);
    pub const RATE: u8 = 1 << 1;
    pub const POOL: u8 = 1 << 2;
    pub const BREAKER: u8 = 1 << 3;
    pub const THROTTLE: u8 = rare(1 << 4);
    pub const SEND: u8 = rare(1 << 5);
    /// Its permits are leases of the fleet's, which are renewed.
    pub const LEASED: u8 = rare(1 << 6);
    pub const FORCED: u8 = 1 << 7;

    /// A stage that only a full engine has.
    const fn rare(bit: u8) -> u8 {
        if FULL { bit } else { 0 }
    }

    /// The stages that a further attempt of a call passes: those whose unit is the attempt, and the send rate.
    pub fn asked_again(policy: &Policy) -> u8 {
        let guard = policy.breaker.as_ref().map(|it| it.unit).or(policy.throttle.as_ref().map(|it| it.unit));
        let by_attempt = |unit: Option<Unit>, bits: u8| if unit == Some(Unit::Attempt) { bits } else { 0 };
        SEND | by_attempt(policy.rate_limit.as_ref().map(|limit| limit.unit), RATE)
            | by_attempt(policy.bulkhead.as_ref().map(|bulkhead| bulkhead.unit), POOL)
            | by_attempt(guard, BREAKER | THROTTLE)
    }

    /// Those that may refuse a call or make it wait.
    pub const GATES: u8 = HOLD | RATE | POOL | BREAKER | THROTTLE | SEND;
}

/// Where the parts of a policy that can be shared are kept: in a pool, or in each route ([`NONE`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Homes {
    pub pool: u32,
    pub rate: u32,
    pub budget: u32,
}

impl Homes {
    pub const OWN: Self = Self { pool: NONE, rate: NONE, budget: NONE };
}

/// The state of one (policy, key); or a pool, which is a route that no call goes by.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts about a key
pub(super) struct Route {
    generation: u64,
    pub policy: u16,
    key: Box<str>,
    /// What it has, of [`stage`].
    pub stages: u8,
    /// Forced open by itself, or with its whole policy.
    pub forced: bool,
    /// Where its permits, tokens and retry budget are: here, or in a pool.
    pub pool_at: u32,
    pub rate_at: u32,
    pub budget_at: u32,
    pub pool: Option<Pool>,
    /// What it knows of the fleet's slots, where its permits are those.
    pub slots: Option<Part<Slots>>,
    /// What it knows of the fleet's latencies, where its limit follows those.
    pub digest: Option<Part<Digest>>,
    pub budget: Option<Budget>,
    pub rate: Option<Box<Pace>>,
    pub send: Option<Part<Pace>>,
    pub breaker: Option<Box<CircuitBreaker>>,
    /// What it knows of the fleet's, where it is that.
    pub guard: Option<Part<Guard>>,
    pub throttle: Option<Part<AdaptiveThrottle>>,
    pub hedger: Option<Part<Hedger>>,
    pub holds: Option<Part<Holds>>,
    /// Calls in it, lingering ones included.
    pub active: u32,
    /// Calls of other routes whose retry budget is here.
    pub guests: u32,
    /// Its neighbours among the idle routes, while it is idle.
    before: u32,
    after: u32,
    overflow: bool,
    free: bool,
    is_pool: bool,
}

/// All routes.
#[derive(Debug)]
pub(super) struct Routes {
    slots: Vec<Route>,
    free: Vec<u32>,
    by_key: Map<(u16, Box<str>), u32>,
    /// The ends of the list of routes without calls, least recently used first.
    oldest: u32,
    newest: u32,
    max: u32,
    /// How often a key had to share its policy's overflow route.
    pub overflows: u64,
    pub evictions: u64,
}

impl Routes {
    pub fn new(max: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_key: Map::new(),
            oldest: NONE,
            newest: NONE,
            max: max.clamp(1, 1 << 19),
            overflows: 0,
            evictions: 0,
        }
    }

    /// The route of a key; makes one if there is none. Total: it always answers a route that works.
    pub fn intern(
        &mut self,
        number: u16,
        (policy, homes, forced): (&Policy, Homes, bool),
        key: &str,
        now: Time,
    ) -> RouteId {
        let key = cut(key);
        if let Some(slot) = self.by_key.get(&(number, Box::from(key))) {
            return self.id(*slot);
        }
        let overflow = self.by_key.len() as u32 >= self.max && !self.evict(now);
        if overflow {
            self.overflows += 1;
            if let Some(slot) = self.of_key(number, None) {
                return self.id(slot);
            }
        }
        let name = if overflow { OVERFLOW } else { key };
        let slot = self.add(number, (policy, homes, forced), name, now);
        self.id(slot)
    }

    /// A new route, idle.
    fn add(
        &mut self,
        number: u16,
        (policy, homes, forced): (&Policy, Homes, bool),
        name: &str,
        now: Time,
    ) -> u32 {
        let slot = self.insert(Route::new(number, policy, homes, name.into(), now));
        self.by_key.insert((number, name.into()), slot);
        self.pools_in(slot, homes);
        let route = &mut self.slots[slot as usize];
        (route.overflow, route.forced) = (name == OVERFLOW, forced);
        route.set_stages(policy, forced);
        self.set_leased(slot);
        self.link(slot);
        slot
    }

    /// Notes whether a route's permits are leases, here or in a pool.
    pub fn set_leased(&mut self, slot: u32) {
        let home = self.slots[slot as usize].pool_at;
        let leased = self.slots[home as usize].slots.is_some();
        let route = &mut self.slots[slot as usize];
        route.stages = route.stages & !stage::LEASED | if leased { stage::LEASED } else { 0 };
    }

    /// All routes whose permits are here.
    pub fn users_of(&self, home: u32) -> Vec<u32> {
        self.iter()
            .filter(|(_, route)| route.pool_at == home && !route.is_pool)
            .map(|(slot, _)| slot)
            .collect()
    }

    /// The idle route of a saved key, as the most recently used one; makes it if it is not there. No key is the policy's
    /// `overflow`.
    pub fn place(
        &mut self,
        number: u16,
        policy: (&Policy, Homes, bool),
        key: Option<&str>,
        now: Time,
    ) -> u32 {
        if let Some(slot) = self.of_key(number, key) {
            self.unlink(slot);
            self.link(slot);
            return slot;
        }
        self.add(number, policy, key.map_or(OVERFLOW, cut), now)
    }

    /// The route of a key, if it is there.
    pub fn of_key(&self, number: u16, key: Option<&str>) -> Option<u32> {
        self.by_key.get(&(number, key.map_or(OVERFLOW, cut).into())).copied()
    }

    /// How many more there may be without an eviction.
    pub fn room(&self) -> usize {
        (self.max as usize).saturating_sub(self.by_key.len())
    }

    /// All routes that calls go by, least recently used first, those with calls last.
    pub fn by_use(&self) -> impl Iterator<Item = &Route> {
        let idle = core::iter::successors(self.slots.get(self.oldest as usize), |route| {
            self.slots.get(route.after as usize)
        });
        idle.chain(self.slots.iter().filter(|route| route.active > 0 && !route.is_pool))
    }

    /// A pool: a route that holds its component for others, and never goes.
    pub fn pool(&mut self, policy: &Policy, now: Time) -> u32 {
        let slot = self.insert(Route::new(u16::MAX, policy, Homes::OWN, policy.name().into(), now));
        self.pools_in(slot, Homes::OWN);
        self.slots[slot as usize].is_pool = true;
        slot
    }

    fn pools_in(&mut self, slot: u32, homes: Homes) {
        let at = |home: u32| if home == NONE { slot } else { home };
        let route = &mut self.slots[slot as usize];
        (route.pool_at, route.rate_at) = (at(homes.pool), at(homes.rate));
        route.budget_at = at(homes.budget);
    }

    fn insert(&mut self, route: Route) -> u32 {
        if let Some(slot) = self.free.pop() {
            let place = &mut self.slots[slot as usize];
            let generation = place.generation;
            *place = Route { generation, ..route };
            slot
        } else {
            self.slots.push(route);
            (self.slots.len() - 1) as u32
        }
    }

    /// Puts a route without calls at the recently used end.
    fn link(&mut self, slot: u32) {
        let newest = core::mem::replace(&mut self.newest, slot);
        let route = &mut self.slots[slot as usize];
        (route.before, route.after) = (newest, NONE);
        match newest {
            NONE => self.oldest = slot,
            newest => self.slots[newest as usize].after = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Route { before, after, .. } = self.slots[slot as usize];
        match before {
            NONE => self.oldest = after,
            before => self.slots[before as usize].after = after,
        }
        match after {
            NONE => self.newest = before,
            after => self.slots[after as usize].before = before,
        }
    }

    /// Makes room for one; false when every route has calls.
    fn evict(&mut self, now: Time) -> bool {
        let (mut slot, mut victim) = (self.oldest, None);
        for _ in 0..LOOKED_AT {
            let Some(route) = self.slots.get_mut(slot as usize) else { break };
            if !route.overflow && !route.is_pinned() {
                victim.get_or_insert(slot);
                if route.is_fresh(now) {
                    victim = Some(slot);
                    break;
                }
            }
            slot = route.after;
        }
        let Some(slot) = victim else { return false };
        self.unlink(slot);
        let route = &mut self.slots[slot as usize];
        self.by_key.remove(&(route.policy, core::mem::take(&mut route.key)));
        route.free = true;
        self.evictions += 1;
        if route.generation < RouteId::GENERATIONS {
            route.generation += 1;
            self.free.push(slot);
        }
        true
    }

    #[inline]
    pub fn find(&self, id: RouteId) -> Option<u32> {
        let route = self.slots.get(id.slot() as usize)?;
        (route.generation == id.generation() && !route.free).then_some(id.slot())
    }

    pub fn id(&self, slot: u32) -> RouteId {
        RouteId::new(slot, self.slots[slot as usize].generation)
    }

    /// One call more: a route with calls is not idle.
    #[inline]
    pub fn enter(&mut self, slot: u32) {
        if self.slots[slot as usize].active == 0 {
            self.unlink(slot);
        }
        let route = &mut self.slots[slot as usize];
        route.active += 1;
        let home = route.budget_at;
        if home != slot {
            self.slots[home as usize].guests += 1;
        }
    }

    /// One call less; with the last one it becomes the most recently used idle route.
    #[inline]
    pub fn leave(&mut self, slot: u32) {
        let route = &mut self.slots[slot as usize];
        route.active -= 1;
        let (idle, home) = (route.active == 0, route.budget_at);
        if home != slot {
            self.slots[home as usize].guests -= 1;
        }
        if idle {
            self.link(slot);
        }
    }

    /// All routes, pools among them.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Route)> {
        (0..).zip(&self.slots).filter(|(_, route)| !route.free)
    }

    /// After a fork: no calls anywhere.
    pub fn clear_calls(&mut self) {
        for slot in 0..self.slots.len() as u32 {
            let route = &mut self.slots[slot as usize];
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
            for pace in [route.rate.as_deref_mut(), route.send.as_deref_mut()].into_iter().flatten() {
                pace.forget_calls();
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
            route.guests = 0;
            if route.active > 0 {
                route.active = 0;
                self.link(slot);
            }
        }
    }
}

impl Route {
    pub fn new(policy_number: u16, policy: &Policy, homes: Homes, key: Box<str>, now: Time) -> Self {
        let own = |home: u32| home == NONE;
        let rate = policy.rate_limit.as_ref().filter(|_| own(homes.rate));
        let tokens = rate.map(|limit| Bucket::of(limit, now));
        let cubic = |full| Part::new(Pace::new(Bucket::Cubic(Rare::new(CubicRate::new(now), full))), full);
        let throttle = |it: &Rare<Throttle>| Part::new(AdaptiveThrottle::new(it.settings, now), it.full());
        let bulkhead = policy.bulkhead.as_ref().filter(|_| own(homes.pool));
        let slots = Slots::of(bulkhead);
        let mut pool = bulkhead.map(|it| Pool::new(it, now));
        if let Some(pool) = pool.as_mut().filter(|_| slots.is_some()) {
            pool.set_limit(0);
        }
        Self {
            generation: 1,
            policy: policy_number,
            key,
            stages: 0,
            forced: false,
            pool_at: 0,
            rate_at: 0,
            budget_at: 0,
            pool,
            slots,
            digest: Digest::of(bulkhead),
            budget: policy.retry.budget.as_ref().filter(|_| own(homes.budget)).and_then(Budget::new),
            rate: tokens.map(|bucket| Box::new(Pace::new(bucket))),
            send: Full::here().filter(|_| policy.retry.send_rate).map(cubic),
            breaker: policy.breaker.as_ref().map(|it| Box::new(CircuitBreaker::new(it.settings))),
            guard: Guard::of(policy.breaker.as_ref()),
            throttle: policy.throttle.as_ref().map(throttle),
            hedger: policy.hedge.as_ref().map(|it| Part::new(Hedger::new(it), it.full())),
            holds: Full::here()
                .filter(|_| policy.retry.hold.is_some())
                .map(|full| Part::new(Holds::default(), full)),
            active: 0,
            guests: 0,
            before: NONE,
            after: NONE,
            overflow: false,
            free: false,
            is_pool: false,
        }
    }

    /// What a call meets here, by the policy's settings.
    pub fn set_stages(&mut self, policy: &Policy, forced: bool) {
        let mut stages = if forced || self.forced { stage::FORCED } else { 0 };
        for (there, bit) in [
            (policy.retry.hold.is_some(), stage::HOLD),
            (policy.rate_limit.is_some(), stage::RATE),
            (policy.bulkhead.is_some() || self.pool.is_some(), stage::POOL),
            (policy.breaker.is_some(), stage::BREAKER),
            (policy.throttle.is_some(), stage::THROTTLE),
            (policy.retry.send_rate, stage::SEND),
        ] {
            stages |= if there { bit } else { 0 };
        }
        self.stages = stages;
    }

    /// Is every call refused here?
    pub fn is_forced(&self) -> bool {
        self.stages & stage::FORCED != 0
    }

    /// Is it a pool, which no call goes by?
    pub fn is_pool(&self) -> bool {
        self.is_pool
    }

    /// Calls whose retries its budget pays for.
    pub fn in_flight(&self) -> u32 {
        self.active.saturating_add(self.guests)
    }

    /// Must it stay: is it forced open, or its breaker not closed?
    fn is_pinned(&self) -> bool {
        self.is_forced()
            || self
                .breaker
                .as_ref()
                .is_some_and(|breaker| breaker.state(Time::from_micros(0)) != BreakerState::Closed)
    }

    /// Is it as if new?
    fn is_fresh(&mut self, now: Time) -> bool {
        self.budget.as_mut().is_none_or(|budget| budget.is_fresh(now))
            && self.rate.as_mut().is_none_or(|rate| rate.is_fresh(now))
            && self.send.as_mut().is_none_or(|rate| rate.is_fresh(now))
            && self.breaker.as_mut().is_none_or(|breaker| breaker.is_fresh(now))
            && self.throttle.as_mut().is_none_or(|throttle| throttle.is_fresh(now))
            && self.hedger.as_mut().is_none_or(|hedger| hedger.is_fresh(now))
            && self.holds.as_mut().is_none_or(|holds| holds.is_fresh(now))
            && self.pool.as_ref().is_none_or(|pool| pool.is_fresh(now))
    }

    /// Is it the policy's overflow route?
    pub fn is_overflow(&self) -> bool {
        self.overflow
    }

    /// The key as it is kept, which no two routes of a policy share.
    pub fn raw_key(&self) -> &str {
        &self.key
    }

    /// The key as people may see it.
    pub fn key(&self) -> &str {
        if self.overflow { "overflow" } else { &self.key }
    }
}

impl core::ops::Index<u32> for Routes {
    type Output = Route;

    #[inline]
    fn index(&self, slot: u32) -> &Route {
        &self.slots[slot as usize]
    }
}

impl core::ops::IndexMut<u32> for Routes {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Route {
        &mut self.slots[slot as usize]
    }
}

/// A key without its tail beyond the longest, and never the overflow route's own name.
fn cut(key: &str) -> &str {
    let key = key.trim_start_matches('\u{0}');
    match key.char_indices().find(|(place, c)| place + c.len_utf8() > LONGEST_KEY) {
        Some((end, _)) => &key[..end],
        None => key,
    }
}
