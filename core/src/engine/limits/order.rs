//! The order in which the waiters of a set get their tokens, where it is not the order of arrival (semantics 3.10):
//! start-time fair queueing over criticality, and within a criticality over the keys of routes.
//!
//! Each criticality and each key with waiters has a start. The smallest start is next, and grows by what its waiter is
//! charged, divided by the share. Only keys that wait, or that are ahead of the others, are kept.

use std::collections::{BTreeMap as Map, BTreeSet as Set};

use super::Costs;
use crate::engine::place::Slot;
use crate::engine::route::OVERFLOW;
use crate::engine::sheets::WEIGHTS;
use crate::policy::QueueOrder;

/// The shares of calls by criticality, best effort first.
const TIER_SHARES: [u32; 4] = [1, 4, 16, 64];

/// The most keys that are kept at a time, each with its criticality.
const MOST_KEYS: usize = 10_000;

/// Starts are counted in 2^-32 µs.
const FRACTION: u32 = 32;

/// No flow.
const NONE: u32 = u32::MAX;

/// A key in one of the sets of a tier: what it is sorted by, and its flow. One type, because each kind of set adds its
/// code to the wheel.
type Place = (u128, u64, u32);

/// When a criticality or a key is next: the smaller start, and of equal ones the one that was set first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Tag {
    start: u128,
    number: u64,
}

/// The waiters of one key within a criticality.
#[derive(Clone, Debug)]
struct Flow {
    key: Box<str>,
    share: u32,
    tag: Tag,
    head: Slot,
    tail: Slot,
    len: u32,
    /// Tokens that they will take of each limit.
    queued: [u128; WEIGHTS],
}

impl Flow {
    /// Its place among the keys with waiters: which of them is next.
    fn turn(&self, at: u32) -> Place {
        (self.tag.start, self.tag.number, at)
    }

    /// Its place among them by the number of waiters per share. Shares are at most 1,000, so 32 bits of a fraction
    /// distinguish all of them.
    fn length(&self, at: u32) -> Place {
        (((u64::from(self.len) << 32) / u64::from(self.share)).into(), self.tag.number, at)
    }

    /// Its place among the keys without waiters.
    fn finish(&self, at: u32) -> Place {
        (self.tag.start, 0, at)
    }
}

/// The waiters of one criticality; of all, where the order does not depend on it.
#[derive(Clone, Debug, Default)]
struct Tier {
    tag: Tag,
    /// Virtual time among its keys: the start of the last that was served, and where none wait, the largest start.
    time: u128,
    /// The largest start of a key so far.
    latest: u128,
    waiting: u32,
    by_key: Map<Box<str>, u32>,
    /// Keys with waiters, by their tags and by their lengths.
    ready: Set<Place>,
    longest: Set<Place>,
    /// Keys without waiters, by their starts. Those that virtual time has reached are as good as forgotten.
    idle: Set<Place>,
}

/// A waiter: its flow ([`NONE`] for a slot that does not wait), and its neighbours in it.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    flow: u32,
    tier: u8,
    before: Slot,
    after: Slot,
}

impl Waiter {
    const ABSENT: Self = Self { flow: NONE, tier: 0, before: Slot::NONE, after: Slot::NONE };
}

/// The order of a queue.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Order {
    by_criticality: bool,
    by_key: bool,
    shares: Map<Box<str>, u32>,
    tiers: [Tier; 4],
    /// Virtual time among the criticalities.
    time: u128,
    flows: Vec<Flow>,
    vacant: Vec<u32>,
    /// Number of keys kept, without the one that the rest shares.
    kept: usize,
    /// By slot.
    waiters: Vec<Waiter>,
    waiting: u32,
    /// Number of tags set so far.
    tags: u64,
}

impl Order {
    /// Creates the order of an empty queue.
    pub fn new(settings: &QueueOrder) -> Self {
        Self {
            by_criticality: settings.prioritized,
            by_key: settings.by_key,
            shares: settings.shares.iter().map(|(key, share)| (Box::from(&**key), *share)).collect(),
            tiers: core::array::from_fn(|_| Tier::default()),
            time: 0,
            flows: Vec::new(),
            vacant: Vec::new(),
            kept: 0,
            waiters: Vec::new(),
            waiting: 0,
            tags: 0,
        }
    }

    /// Forgets all waiters and keys.
    pub fn clear(&mut self) {
        self.tiers = core::array::from_fn(|_| Tier::default());
        (self.time, self.kept, self.waiting, self.tags) = (0, 0, 0, 0);
        self.flows.clear();
        self.vacant.clear();
        self.waiters.clear();
    }

    /// The waiter that gets its tokens next.
    pub fn next(&self) -> Option<Slot> {
        let waiting = self.tiers.iter().filter(|tier| tier.waiting > 0);
        let (_, _, flow) = waiting.min_by_key(|tier| tier.tag)?.ready.first()?;
        Some(self.flows[*flow as usize].head)
    }

    /// Appends a call to the waiters of its criticality and key.
    pub fn enlist(&mut self, slot: Slot, criticality: u16, key: &str, costs: &Costs) {
        let at = if self.by_criticality { usize::from(criticality) } else { 0 };
        let flow = self.flow_of(at, if self.by_key { key } else { "" });
        let number = self.number();
        let tier = &mut self.tiers[at];
        if tier.waiting == 0 {
            tier.tag = Tag { start: tier.tag.start.max(self.time), number };
        }
        tier.waiting += 1;
        let it = &mut self.flows[flow as usize];
        if it.len == 0 {
            tier.idle.remove(&it.finish(flow));
            it.tag = Tag { start: it.tag.start.max(tier.time), number };
            tier.ready.insert(it.turn(flow));
            it.head = slot;
        } else {
            tier.longest.remove(&it.length(flow));
            if let Some(last) = self.waiters.get_mut(it.tail.index()) {
                last.after = slot;
            }
        }
        let before = if it.len == 0 { Slot::NONE } else { it.tail };
        it.tail = slot;
        it.len += 1;
        tier.longest.insert(it.length(flow));
        for (queued, cost) in it.queued.iter_mut().zip(costs) {
            *queued += u128::from(*cost);
        }
        if self.waiters.len() <= slot.index() {
            self.waiters.resize(slot.index() + 1, Waiter::ABSENT);
        }
        self.waiters[slot.index()] = Waiter { flow, tier: at as u8, before, after: Slot::NONE };
        self.waiting += 1;
    }

    /// Charges the criticality and the key of a waiter that has got its tokens; [`Order::remove`] follows.
    pub fn serve(&mut self, slot: Slot, charge: u64) {
        let Some(Waiter { flow, tier: at, .. }) = self.waiter(slot) else { return };
        let number = self.number();
        let tier = &mut self.tiers[usize::from(at)];
        self.time = tier.tag.start;
        let start = tier.tag.start.saturating_add(step(charge, TIER_SHARES[usize::from(at)]));
        tier.tag = Tag { start, number };
        let it = &mut self.flows[flow as usize];
        tier.ready.remove(&it.turn(flow));
        tier.longest.remove(&it.length(flow));
        tier.time = it.tag.start;
        it.tag = Tag { start: it.tag.start.saturating_add(step(charge, it.share)), number };
        tier.latest = tier.latest.max(it.tag.start);
        tier.ready.insert(it.turn(flow));
        tier.longest.insert(it.length(flow));
    }

    /// Removes a waiter. Starts stay as they are.
    pub fn remove(&mut self, slot: Slot, costs: &Costs) {
        let Some(Waiter { flow, tier: at, before, after }) = self.waiter(slot) else { return };
        self.waiters[slot.index()] = Waiter::ABSENT;
        self.waiting -= 1;
        let tier = &mut self.tiers[usize::from(at)];
        let it = &mut self.flows[flow as usize];
        match self.waiters.get_mut(before.index()) {
            Some(neighbour) => neighbour.after = after,
            None => it.head = after,
        }
        match self.waiters.get_mut(after.index()) {
            Some(neighbour) => neighbour.before = before,
            None => it.tail = before,
        }
        tier.longest.remove(&it.length(flow));
        it.len -= 1;
        for (queued, cost) in it.queued.iter_mut().zip(costs) {
            *queued = queued.saturating_sub(u128::from(*cost));
        }
        tier.waiting -= 1;
        if tier.waiting == 0 {
            tier.time = tier.time.max(tier.latest);
        }
        if it.len > 0 {
            tier.longest.insert(it.length(flow));
        } else {
            tier.ready.remove(&it.turn(flow));
            tier.idle.insert(it.finish(flow));
            self.forget_passed(usize::from(at));
        }
        if self.waiting == 0 {
            self.time = self.tiers.iter().map(|tier| tier.tag.start).fold(self.time, u128::max);
        }
    }

    /// The waiter that makes room for a newcomer, which is among the waiters already. Of the lowest criticality below the
    /// newcomer's, or of the newcomer's own if keys share it, the key with the most waiters per share loses its last one.
    /// The last one, because the first one of a key is what its share is for.
    pub fn displaced_by(&self, newcomer: Slot) -> Option<Slot> {
        let Waiter { flow, tier: own, .. } = self.waiter(newcomer)?;
        let lower = self.tiers[..usize::from(own)].iter().find(|tier| tier.waiting > 0);
        let tier = lower.unwrap_or(&self.tiers[usize::from(own)]);
        let (_, _, longest) = *tier.longest.last()?;
        let longest = &self.flows[longest as usize];
        if lower.is_some() {
            return Some(longest.tail);
        }
        let it = &self.flows[flow as usize];
        let (own, other) =
            (u64::from(it.len) * u64::from(longest.share), u64::from(longest.len) * u64::from(it.share));
        (own < other).then_some(longest.tail)
    }

    /// Tokens that the waiters of this one's criticality and key will take, its own included: none of them comes after
    /// it, while it is the last of them.
    pub fn queued_with(&self, slot: Slot) -> [u128; WEIGHTS] {
        self.waiter(slot).map_or([0; WEIGHTS], |it| self.flows[it.flow as usize].queued)
    }

    fn waiter(&self, slot: Slot) -> Option<Waiter> {
        self.waiters.get(slot.index()).copied().filter(|it| it.flow != NONE)
    }

    /// The flow of a key; creates a missing one.
    fn flow_of(&mut self, at: usize, key: &str) -> u32 {
        self.forget_passed(at);
        if let Some(flow) = self.tiers[at].by_key.get(key) {
            return *flow;
        }
        if key != OVERFLOW && self.kept >= MOST_KEYS {
            (0..self.tiers.len()).for_each(|at| self.forget_passed(at));
            if self.kept >= MOST_KEYS {
                return self.flow_of(at, OVERFLOW);
            }
        }
        let share = self.shares.get(key).copied().unwrap_or(1);
        let none = Slot::NONE;
        let fresh = Flow {
            key: key.into(),
            share,
            tag: Tag::default(),
            head: none,
            tail: none,
            len: 0,
            queued: [0; WEIGHTS],
        };
        let flow = if let Some(flow) = self.vacant.pop() {
            self.flows[flow as usize] = fresh;
            flow
        } else {
            self.flows.push(fresh);
            (self.flows.len() - 1) as u32
        };
        self.kept += usize::from(key != OVERFLOW);
        self.tiers[at].by_key.insert(key.into(), flow);
        flow
    }

    /// Forgets at most two keys that have no waiters and that virtual time has reached: they would begin like new ones.
    /// Each key comes once, so two at a time keep up with those that come.
    fn forget_passed(&mut self, at: usize) {
        let tier = &mut self.tiers[at];
        for _ in 0..2 {
            let Some(idle) = tier.idle.first().copied().filter(|idle| idle.0 <= tier.time) else { return };
            tier.idle.remove(&idle);
            let flow = idle.2;
            let key = core::mem::take(&mut self.flows[flow as usize].key);
            tier.by_key.remove(&key);
            self.kept -= usize::from(&*key != OVERFLOW);
            self.vacant.push(flow);
        }
    }

    fn number(&mut self) -> u64 {
        self.tags += 1;
        self.tags
    }

    /// Checks the order against the waiters of its queue and what they will take.
    pub fn check(&self, waiting: &[(Slot, Costs)]) -> Result<(), String> {
        let mut sums: Map<u32, (u32, [u128; WEIGHTS])> = Map::new();
        for (slot, costs) in waiting {
            let Some(it) = self.waiter(*slot) else { return Err(format!("call {slot} has no place")) };
            let (len, queued) = sums.entry(it.flow).or_default();
            *len += 1;
            queued.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += u128::from(*cost));
        }
        let ready = self.tiers.iter().flat_map(|tier| &tier.ready);
        let same = ready.clone().all(|place| {
            let flow = &self.flows[place.2 as usize];
            *place == flow.turn(place.2) && sums.get(&place.2) == Some(&(flow.len, flow.queued))
        });
        let longest: usize = self.tiers.iter().map(|tier| tier.longest.len()).sum();
        let waiters: u32 = self.tiers.iter().map(|tier| tier.waiting).sum();
        let counts = (self.waiting as usize, waiters as usize, ready.count(), longest);
        if !same || counts != (waiting.len(), waiting.len(), sums.len(), sums.len()) {
            return Err(format!("the order of a queue has {counts:?} for {} waiters", waiting.len()));
        }
        let keys: usize = self.tiers.iter().map(|tier| tier.by_key.len()).sum();
        if keys != self.flows.len() - self.vacant.len() || self.kept > MOST_KEYS {
            return Err(format!("the order of a queue keeps {keys} keys of {}", self.kept));
        }
        Ok(())
    }
}

/// What a charge in µs adds to the start of what has this share.
fn step(charge: u64, share: u32) -> u128 {
    (u128::from(charge) << FRACTION).div_ceil(share.into())
}

#[cfg(test)]
#[path = "order/tests.rs"]
mod tests;
