//! A bulkhead that is the fleet's (semantics 10.1): a permit needs a slot of the fleet's limit. A slot is a lease in the
//! store, with a fence (a number that is never given twice) and an end; the process renews those it holds.
//!
//! To the pool of permits, the slots leased are its limit. So a permit that comes free goes to the next local waiter with
//! no round trip, as always (R2). It goes back to the fleet where nobody waits, and where the process holds more slots than
//! it may keep: with each answer the store says how many those are, while other processes want some. A call that finds no
//! slot stands in the queue while the store is asked; only when the store has said no does the queue's bound count.

mod stage;

use crate::engine::fleet::FleetStore;
use crate::engine::place::{PoolAt, RouteAt, Slot};
use std::collections::VecDeque;

use super::super::call::{MAX_PARK, wait};
use super::super::chores::{Chore, LOOKED_AT};
use super::super::desk::Desk;
use super::super::queue::Permit;
use super::super::record::RecordType;
use super::super::route::Routes;
use super::super::stage::missing;
use super::command::{Part, Pending, Subject};
use super::{Fleet, FleetDesk};
use crate::action::{Step, Verdict, Wait};
use crate::fleet::{MOST_ITEMS, SLOTS};
use crate::full;
use crate::policy::{Bulkhead, FleetSlots, LimitSettings, OnLoss};
use crate::time::{Duration, Time};

/// How long a queue waits before it asks a full store again, half more or less: slots come free without a word to others.
const AGAIN: Duration = Duration::from_millis(50);

/// How long the store's word about the slots to keep counts, beyond the time in which it is asked again.
const KEPT: Duration = Duration::from_millis(250);

/// What the script is asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Op {
    Acquire = 0,
    Release = 1,
    Renew = 2,
    Reap = 3,
}

/// A process's part of a bulkhead of the fleet's.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Slots {
    settings: FleetSlots,
    /// The fleet's limit.
    pub limit: u32,
    /// The slots leased: fences, and when their leases end.
    fences: VecDeque<(u64, Time)>,
    /// Commands out.
    out: u32,
    /// Is one of them to get slots; does one renew them?
    asking: bool,
    renewing: bool,
    renewed_at: Time,
    /// The store was full: it is asked again then.
    again_at: Option<Time>,
    /// Those leased when the store was lost: as many permits there are until it is back, though their leases end.
    at_loss: u32,
    /// How many slots the process may keep while others want some, as the store last said, and how long that counts.
    keep: (u32, Time),
    /// How long answers are waited for, as the last call's policy has it.
    within: Duration,
}

impl Slots {
    pub fn of(bulkhead: Option<&Bulkhead>) -> Option<full::Part<Self>> {
        let bulkhead = bulkhead?;
        let settings = bulkhead.fleet?;
        let it = Self {
            settings: *settings,
            limit: limit_of(bulkhead),
            fences: VecDeque::new(),
            out: 0,
            asking: false,
            renewing: false,
            renewed_at: Time::default(),
            again_at: None,
            at_loss: 0,
            keep: (0, Time::default()),
            within: Duration::from_millis(50),
        };
        Some(full::Part::new(it, settings.full()))
    }

    /// After a fork: leases and commands are the parent's.
    pub fn forget(&mut self) {
        self.fences.clear();
        (self.out, self.asking, self.renewing, self.again_at, self.at_loss) = (0, false, false, None, 0);
        self.keep.1 = Time::default();
    }

    fn held(&self) -> u32 {
        self.fences.len() as u32
    }

    /// How many slots the process may keep: no more than the limit, and fewer while others want some.
    fn keeps(&self, now: Time) -> u32 {
        if now < self.keep.1 { self.keep.0.min(self.limit) } else { self.limit }
    }

    /// A lease that has ended may be somebody else's: what was not renewed in time is given up.
    fn expire(&mut self, now: Time) -> u32 {
        let before = self.fences.len();
        self.fences.retain(|fence| now < fence.1);
        (before - self.fences.len()) as u32
    }

    /// When leases are to be renewed.
    fn renewal(&self) -> Time {
        if self.fences.is_empty() { Time::NEVER } else { self.renewed_at.after(third(self.settings.ttl)) }
    }

    /// Permits while the store is gone.
    fn share(&self, processes: u32) -> u32 {
        match self.settings.on_loss {
            OnLoss::Open => self.limit,
            OnLoss::Closed => self.held(),
            OnLoss::Local => {
                (self.limit / processes).max(self.held()).max(self.at_loss).max(1).min(self.limit)
            }
        }
    }
}

fn third(span: Duration) -> Duration {
    Duration::from_micros(span.as_micros() / 3)
}

fn limit_of(bulkhead: &Bulkhead) -> u32 {
    match bulkhead.limit {
        LimitSettings::Fixed(limit) => limit,
        // The validator lets only fixed limits be the fleet's.
        LimitSettings::Aimd(settings) => settings.max_concurrency,
        LimitSettings::Gradient2(settings) => settings.max_concurrency,
    }
}

impl Desk {
    /// The fleet is full, or its store gone: now the queue's bound counts, and who will not wait at all is refused; where `on_loss` is
    /// `closed`, all are. A step refuses a part of them, the next ones the rest, unless the store is asked again before.
    pub(in crate::engine) fn refuse_unserved(&mut self, home: PoolAt, up: bool, now: Time) {
        let Self { routes, calls, policies, .. } = self;
        let (Some(slots), Some(pool)) = (&routes[home].slots, &routes[home].pool) else {
            return; // a retune has made it the process's own since
        };
        if slots.asking && up {
            return; // all wait for that answer
        }
        let (max_queue, closed) = (pool.max_queue, !up && slots.settings.on_loss == OnLoss::Closed);
        let hasty = |slot: &Slot| {
            let bulkhead = &policies.of(&calls[*slot]).bulkhead;
            bulkhead.as_ref().is_some_and(|it| it.acquire_timeout == Duration::ZERO) && max_queue > 0
        };
        // Whom this does not reach gives up by itself after `store_timeout`.
        let looked_at = pool.queue(calls).take(LOOKED_AT as usize);
        let hasty: Vec<Slot> = looked_at.filter(|slot| closed || hasty(slot)).collect();
        let mut hasty = hasty.into_iter();
        let verdict = if closed { Verdict::StoreUnavailable } else { Verdict::AcquireTimeout };
        loop {
            let Some(pool) = &mut self.routes[home].pool else { return missing("the pool of a queue") };
            let surplus = || pool.last().filter(|_| pool.waiters() > max_queue);
            let next = hasty.next().map(|slot| (slot, verdict));
            let Some((slot, verdict)) = next.or_else(|| surplus().map(|slot| (slot, Verdict::QueueFull)))
            else {
                return pool.emptied(now);
            };
            if !self.chores.one_more(Chore::Unserved(home, up)) {
                return self.wakes.push(self.calls.id(slot)); // its event goes on here
            }
            if closed {
                self.policies.count_fallback(self.calls[slot].policy);
            }
            self.unlist(slot);
            self.turn_away(slot, verdict, now);
        }
    }
}

impl Routes {
    /// No later than this, so that the leases are renewed.
    pub(in crate::engine) fn before_renewal(&self, route: RouteAt, until: Time, now: Time) -> Time {
        let home = self[route].pool_at;
        // A pool's users learn in later steps that it is the fleet's no more (`Chore::Leased`).
        let Some(slots) = &self[home].slots else { return until };
        let next = slots.renewal();
        until.min(if next > now { next } else { now.after(third(slots.settings.ttl)) })
    }

    pub(super) fn slots_settled(&mut self, home: PoolAt, op: Op) {
        let Some(slots) = &mut self[home].slots else {
            return missing("the slots of a bulkhead of the fleet's");
        };
        slots.out = slots.out.saturating_sub(1);
        match op {
            Op::Acquire => slots.asking = false,
            Op::Renew => slots.renewing = false,
            Op::Release | Op::Reap => {}
        }
    }

    pub(super) fn slots_sent(&mut self, home: PoolAt, op: Op) {
        let Some(slots) = &mut self[home].slots else {
            return missing("the slots of a bulkhead of the fleet's");
        };
        slots.out += 1;
        slots.asking |= op == Op::Acquire;
        slots.renewing |= op == Op::Renew;
    }
}

impl FleetDesk<'_> {
    /// What `on_loss` says to a call while the store is gone.
    fn permit_without_store(&mut self, slot: Slot, home: PoolAt, now: Time) -> Result<Permit, Verdict> {
        self.desk.policies.count_fallback(self.desk.calls[slot].policy);
        let closed = self.desk.routes[home]
            .slots
            .as_ref()
            .is_some_and(|slots| slots.settings.on_loss == OnLoss::Closed);
        if closed {
            return Err(Verdict::StoreUnavailable);
        }
        self.fit_slots(home, now);
        self.desk.acquire_or_queue(slot, home, now)
    }

    /// When a waiter is to look again; the next in turn has the queue's next moment in its timer.
    pub(in crate::engine) fn wait_for_slot(&self, slot: Slot, now: Time) -> Step {
        let home = self.desk.routes[self.desk.calls[slot].route].pool_at;
        let mut until = self.desk.patience(slot).min(now.after(MAX_PARK));
        let (Some(slots), Some(pool)) = (&self.desk.routes[home].slots, &self.desk.routes[home].pool) else {
            // A retune has made the slots permits of the process's own; the pool hands them out by itself.
            return wait(Wait::Queue, until, now);
        };
        let why = if slots.asking && self.store.is_up(&self.desk.routes, home, Part::Slots) {
            Wait::Store
        } else {
            Wait::Queue
        };
        if pool.next(&self.desk.calls, now) == Some(slot) {
            let due = self
                .store
                .fleet
                .as_ref()
                .and_then(|fleet| fleet.due(self.desk.routes.lasting_id(home.route()), Part::Slots));
            let next = if why == Wait::Store { due } else { slots.again_at };
            // While the store is gone, its own events move the queue.
            let next = next.filter(|_| self.store.is_up(&self.desk.routes, home, Part::Slots));
            until = next.map_or(until, |next| until.min(next.max(now)));
        }
        wait(why, until, now)
    }

    /// Any event of a bulkhead of the fleet's: leases that have ended are given up, the others renewed in time.
    pub(in crate::engine) fn keep_slots(&mut self, home: PoolAt, now: Time) {
        // A pool's users learn in later steps that it is the fleet's no more (`Chore::Leased`).
        let Some(slots) = &mut self.desk.routes[home].slots else { return };
        if slots.expire(now) > 0 {
            self.fit_slots(home, now);
            self.ask_slots(home, now); // for who runs without one now
        }
        let Some(slots) = &self.desk.routes[home].slots else {
            return missing("the slots of a bulkhead of the fleet's");
        };
        if slots.renewing || slots.renewal() > now || !self.store.is_up(&self.desk.routes, home, Part::Slots)
        {
            return;
        }
        let fences: Vec<u64> = slots.fences.iter().map(|fence| fence.0).collect();
        if let Some(slots) = &mut self.desk.routes[home].slots {
            (slots.renewing, slots.renewed_at) = (true, now);
        }
        for some in fences.chunks(MOST_ITEMS) {
            self.send_slots(home, Op::Renew, some.len() as u32, some, now);
        }
    }

    /// Lets the permits be as many as the slots leased, or as `on_loss` says; hands out what there is, and gives back what
    /// nobody waits for.
    fn fit_slots(&mut self, home: PoolAt, now: Time) {
        let (up, processes) =
            (self.store.is_up(&self.desk.routes, home, Part::Slots), self.store.fleet_size());
        let it = &mut self.desk.routes[home];
        let (Some(slots), Some(pool)) = (&mut it.slots, &mut it.pool) else {
            return missing("the slots of a bulkhead of the fleet's");
        };
        if !up {
            pool.set_limit(slots.share(processes));
            return self.desk.hand_out(home, now);
        }
        // What is above the slots to keep goes back before anybody here gets it.
        let above = slots.held().saturating_sub(slots.keeps(now).max(pool.in_flight));
        self.give_slots_back(home, above, now);
        let it = &mut self.desk.routes[home];
        let (Some(slots), Some(pool)) = (&mut it.slots, &mut it.pool) else {
            return missing("the slots of a bulkhead of the fleet's");
        };
        pool.set_limit(slots.held());
        self.desk.hand_out(home, now);
        let it = &mut self.desk.routes[home];
        let (Some(slots), Some(pool)) = (&mut it.slots, &mut it.pool) else {
            return missing("the slots of a bulkhead of the fleet's");
        };
        if pool.waiters() == 0 {
            let spare = slots.held().saturating_sub(pool.in_flight);
            self.give_slots_back(home, spare, now);
        }
    }

    /// Gives so many slots back to the fleet, at most as many as a command carries.
    fn give_slots_back(&mut self, home: PoolAt, count: u32, now: Time) {
        let count = count.min(MOST_ITEMS as u32);
        let it = &mut self.desk.routes[home];
        let (Some(slots), Some(pool)) = (&mut it.slots, &mut it.pool) else {
            return missing("the slots of a bulkhead of the fleet's");
        };
        if count == 0 {
            return;
        }
        let fences: Vec<u64> = slots.fences.drain(..count as usize).map(|fence| fence.0).collect();
        pool.set_limit(slots.held());
        self.send_slots(home, Op::Release, count, &fences, now);
    }

    /// Asks for as many slots as are wanting: for who waits, and for who runs without one.
    fn ask_slots(&mut self, home: PoolAt, now: Time) {
        let up = self.store.is_up(&self.desk.routes, home, Part::Slots);
        let it = &self.desk.routes[home];
        let (Some(slots), Some(pool)) = (&it.slots, &it.pool) else {
            return missing("the slots of a bulkhead of the fleet's");
        };
        if slots.asking || up && slots.again_at.is_some_and(|at| now < at) {
            return;
        }
        let wanting = pool.in_flight.saturating_add(pool.waiters()).saturating_sub(slots.held());
        let wanting = wanting.min(MOST_ITEMS as u32);
        if !up {
            return self.send_slots(home, Op::Reap, 0, &[], now);
        }
        if wanting > 0 {
            self.send_slots(home, Op::Acquire, wanting, &[], now);
        }
    }

    fn send_slots(&mut self, home: PoolAt, op: Op, count: u32, fences: &[u64], now: Time) {
        if !self.store.may_send((self.desk.routes.lasting_id(home.route()), Part::Slots), self.desk.seed, now)
        {
            return;
        }
        let Some(slots) = &mut self.desk.routes[home].slots else {
            return missing("the slots of a bulkhead of the fleet's");
        };
        slots.out += 1;
        slots.asking |= op == Op::Acquire;
        let (limit, ttl, within) = (slots.limit, slots.settings.ttl, slots.within);
        let args = [u64::from(limit), ttl.as_micros(), u64::from(count), u64::from(slots.held())];
        let args = [&args, fences].concat();
        self.store.send(
            &SLOTS,
            (self.desk.routes.address(&self.desk.policies, home), Subject::Slots { op, count }),
            (Some(op as u64), &args),
            within,
            now,
        );
    }

    /// The store has answered.
    pub(super) fn on_slots_reply(
        &mut self,
        home: PoolAt,
        (op, count): (Op, u32),
        pending: &Pending,
        answer: &[u64],
        now: Time,
    ) {
        let again = self.store.jitter(AGAIN, self.desk.seed);
        let Some(slots) = &mut self.desk.routes[home].slots else {
            return missing("the slots of a bulkhead of the fleet's");
        };
        // As long as the command has said, whatever the settings have become since.
        let ends = pending.sent.after(pending.lease());
        let mut refused = false;
        match (op, answer) {
            (Op::Acquire, &[granted, first, _used, _reaped, keep]) => {
                let granted = granted.min(u64::from(count));
                if slots.fences.is_empty() {
                    slots.renewed_at = pending.sent;
                }
                // No more than the limit, and no slot twice, whatever the store says.
                let room = u64::from(slots.limit.saturating_sub(slots.held()));
                let newest = slots.fences.iter().map(|fence| fence.0).max().unwrap_or(0);
                let held = |fence: &u64| *fence <= newest && slots.fences.iter().any(|it| it.0 == *fence);
                let new: Vec<u64> = (first..first + granted).filter(|fence| !held(fence)).collect();
                let (taken, surplus) = new.split_at((new.len() as u64).min(room) as usize);
                slots.fences.extend(taken.iter().map(|fence| (*fence, ends)));
                slots.keep = (u32::try_from(keep).unwrap_or(u32::MAX), now.after(KEPT).after(slots.within));
                refused = granted < u64::from(count);
                slots.again_at = refused.then(|| now.after(again));
                if !surplus.is_empty() {
                    self.send_slots(home, Op::Release, surplus.len() as u32, surplus, now);
                }
            }
            (Op::Renew, [_renewed, _used, gone @ ..]) => {
                let asked = pending.fences();
                let before = slots.fences.len();
                slots.fences.retain(|fence| !(gone.contains(&fence.0) && asked.contains(&fence.0)));
                for fence in slots.fences.iter_mut().filter(|fence| asked.contains(&fence.0)) {
                    fence.1 = fence.1.max(ends);
                }
                if slots.fences.len() < before {
                    self.desk.note(move |it| it.store_said(RecordType::LeaseReclaimed, home.route(), now));
                }
            }
            _ => {}
        }
        self.fit_slots(home, now);
        if refused {
            self.desk.refuse_unserved(home, true, now);
        }
        self.ask_slots(home, now);
        self.desk.wake_next(home, now);
    }

    /// The store is gone: `on_loss` decides about those who wait.
    pub(super) fn slots_without_store(&mut self, home: PoolAt, now: Time) {
        let Some(slots) = &mut self.desk.routes[home].slots else {
            return missing("the slots of a bulkhead of the fleet's");
        };
        slots.at_loss = slots.held();
        self.fit_slots(home, now);
        self.desk.refuse_unserved(home, false, now);
        self.desk.wake_next(home, now);
    }

    /// The store is back: leases are renewed, and who runs without one gets one.
    pub(super) fn slots_with_store(&mut self, home: PoolAt, now: Time) {
        let Some(slots) = &mut self.desk.routes[home].slots else {
            return missing("the slots of a bulkhead of the fleet's");
        };
        (slots.again_at, slots.renewed_at, slots.at_loss) = (None, Time::default(), 0);
        self.keep_slots(home, now);
        self.fit_slots(home, now);
        self.ask_slots(home, now);
        self.desk.wake_next(home, now);
    }

    /// A bulkhead has other settings, or has become the fleet's, or the process's own again.
    pub(in crate::engine) fn retune_slots(&mut self, home: PoolAt, to: Option<&Bulkhead>, now: Time) {
        match (&mut self.desk.routes[home].slots, to.and_then(|to| Some((to, to.fleet?)))) {
            (Some(slots), Some((to, settings))) => {
                if slots.settings.ttl != settings.ttl {
                    (slots.renewed_at, slots.renewing) = (Time::default(), false); // leases of another length
                }
                (slots.settings, slots.limit) = (*settings, limit_of(to));
                self.keep_slots(home, now);
                self.fit_slots(home, now);
            }
            (None, Some((to, _))) => {
                let id = self.desk.routes.lasting_id(home.route());
                let out = self.store.fleet.as_ref().map_or(0, |fleet| fleet.out(id, Part::Slots));
                self.desk.routes[home].slots = Slots::of(Some(to)).map(|mut slots| {
                    slots.out = out as u32; // of the time before it was the process's own
                    slots
                });
                self.fit_slots(home, now);
                self.ask_slots(home, now);
            }
            (Some(slots), None) => {
                let fences: Vec<u64> = slots.fences.drain(..).map(|fence| fence.0).collect();
                for some in fences.chunks(MOST_ITEMS) {
                    self.send_slots(home, Op::Release, some.len() as u32, some, now);
                }
                self.desk.routes[home].slots = None;
            }
            (None, None) => {}
        }
    }
}

impl Fleet {
    /// What does not hold in the books of a bulkhead of the fleet's.
    pub fn check_slots(&self, routes: &Routes, home: PoolAt) -> Result<(), String> {
        let it = &routes[home];
        let (Some(slots), Some(pool)) = (&it.slots, &it.pool) else { return Ok(()) };
        let id = routes.lasting_id(home.route());
        let out = self.out(id, Part::Slots);
        // A command from before a retune that made the slots anew is out, and not noted.
        if out < slots.out as usize {
            return Err(format!("route {home}: {} commands about slots noted, {out} out", slots.out));
        }
        let mut fences: Vec<u64> = slots.fences.iter().map(|fence| fence.0).collect();
        fences.sort_unstable();
        fences.dedup();
        if fences.len() != slots.fences.len() {
            return Err(format!("route {home}: a slot is held twice: {fences:?}"));
        }
        if self.is_up(routes, home, Part::Slots) && pool.limit != slots.held() {
            return Err(format!("route {home}: {} permits for {} slots", pool.limit, slots.held()));
        }
        if self.is_up(routes, home, Part::Slots) && pool.waiters() == 0 && slots.held() > pool.in_flight {
            return Err(format!("route {home}: {} slots for {} permits", slots.held(), pool.in_flight));
        }
        Ok(())
    }
}

impl FleetStore {
    /// Slots have come for a route that is gone, or whose permits are its own by now: nobody would renew them or give them
    /// back, so nobody in the fleet would have them before their leases end.
    pub(super) fn slots_unclaimed(&mut self, pending: &Pending, count: u32, answer: &[u64], now: Time) {
        let &[granted, first, ..] = answer else { return missing("a number in the answer about slots") };
        let granted = granted.min(u64::from(count));
        if granted > 0 {
            self.send_release(pending, first..first.saturating_add(granted), now);
        }
    }
}
