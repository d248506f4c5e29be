//! Routes: the keys that state is kept under, bounded in number.
//!
//! A route is pinned while it has calls. When the map is full, the least recently used idle route goes, routes that
//! are as good as new before others; when none is idle, new keys share the policy's counted `overflow` route.

use std::collections::BTreeMap;

use super::arena::NONE;
use super::queue::{List, Pool};
use crate::action::RouteId;
use crate::policy::Policy;
use crate::retry::Budget;
use crate::time::Time;

/// How many idle routes an eviction looks at, oldest first, for one that is as good as new. It bounds the work of a
/// new key; the oldest idle route is the likeliest to be fresh.
const LOOKED_AT: usize = 32;

/// Keys longer than this are cut: a key names a place, not a payload.
const LONGEST_KEY: usize = 512;

/// The state of one (policy, key).
#[derive(Debug)]
pub(super) struct Route {
    generation: u64,
    pub policy: u16,
    key: Box<str>,
    pub pool: Option<Pool>,
    pub budget: Option<Budget>,
    /// Calls in it, lingering ones included.
    pub active: u32,
    /// Its neighbours among the idle routes, while it is idle.
    before: u32,
    after: u32,
    overflow: bool,
    free: bool,
}

/// All routes.
#[derive(Debug)]
pub(super) struct Routes {
    slots: Vec<Route>,
    free: Vec<u32>,
    by_key: BTreeMap<(u16, Box<str>), u32>,
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
            by_key: BTreeMap::new(),
            oldest: NONE,
            newest: NONE,
            max: max.clamp(1, 1 << 19),
            overflows: 0,
            evictions: 0,
        }
    }

    /// The route of a key; makes one if there is none. Total: it always answers a route that works.
    pub fn intern(&mut self, number: u16, policy: &Policy, key: &str, now: Time) -> RouteId {
        let key = cut(key);
        if let Some(slot) = self.by_key.get(&(number, Box::from(key))) {
            return self.id(*slot);
        }
        let overflow = self.by_key.len() as u32 >= self.max && !self.evict(now);
        if overflow {
            self.overflows += 1;
            // The control character keeps it apart from every key a host can give: those are cleaned of them.
            let name = (number, Box::from("\u{0}overflow"));
            if let Some(slot) = self.by_key.get(&name) {
                return self.id(*slot);
            }
        }
        let name: Box<str> = if overflow { "\u{0}overflow".into() } else { key.into() };
        let slot = self.insert(number, policy, name.clone(), overflow);
        self.by_key.insert((number, name), slot);
        self.id(slot)
    }

    fn insert(&mut self, number: u16, policy: &Policy, key: Box<str>, overflow: bool) -> u32 {
        let route = Route {
            generation: 1,
            policy: number,
            key,
            pool: policy.bulkhead.as_ref().map(Pool::new),
            budget: policy.retry.budget.as_ref().map(Budget::new),
            active: 0,
            before: NONE,
            after: NONE,
            overflow,
            free: false,
        };
        let slot = if let Some(slot) = self.free.pop() {
            let place = &mut self.slots[slot as usize];
            let generation = place.generation;
            *place = Route { generation, ..route };
            slot
        } else {
            self.slots.push(route);
            (self.slots.len() - 1) as u32
        };
        self.link(slot);
        slot
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
            if !route.overflow {
                victim.get_or_insert(slot);
                if route.budget.as_mut().is_none_or(|budget| budget.is_fresh(now)) {
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

    fn id(&self, slot: u32) -> RouteId {
        RouteId::new(slot, self.slots[slot as usize].generation)
    }

    /// One call more: a route with calls is not idle.
    #[inline]
    pub fn enter(&mut self, slot: u32) {
        if self.slots[slot as usize].active == 0 {
            self.unlink(slot);
        }
        self.slots[slot as usize].active += 1;
    }

    /// One call less; with the last one it becomes the most recently used idle route.
    #[inline]
    pub fn leave(&mut self, slot: u32) {
        let route = &mut self.slots[slot as usize];
        route.active -= 1;
        if route.active == 0 {
            self.link(slot);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Route)> {
        (0..).zip(&self.slots).filter(|(_, route)| !route.free)
    }

    /// After a fork: no calls anywhere.
    pub fn clear_calls(&mut self) {
        for slot in 0..self.slots.len() as u32 {
            let route = &mut self.slots[slot as usize];
            if let Some(pool) = &mut route.pool {
                *pool = Pool {
                    in_flight: 0,
                    over: 0,
                    waiting: List::default(),
                    granted: List::default(),
                    ..pool.clone()
                };
            }
            if let Some(budget) = &mut route.budget {
                budget.forget_calls();
            }
            if route.active > 0 {
                route.active = 1;
                self.leave(slot);
            }
        }
    }
}

impl Route {
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
