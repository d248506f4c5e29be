//! A bulkhead of the fleet (semantics 10.1): a permit needs a slot of the fleet's limit. A slot is a lease in the
//! store, with a fence (a number that the store never gives twice) and an end. The process renews the leases it
//! holds.
//!
//! The leased slots are the limit of the local pool of permits. So a released permit goes to the next local waiter
//! without a round trip, as always (R2). The process returns a slot to the fleet when no call waits for it, or when
//! it holds more slots than it may keep: while other processes want slots, the store says in each answer how many
//! that is. A call that finds no slot queues while the process asks the store. The queue's bound applies only after
//! the store has refused.

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
use super::{Fleet, FleetDesk, Sender};
use crate::action::{Verdict, Wait};
use crate::fleet::{MOST_ITEMS, SLOTS};
use crate::full;
use crate::policy::{Bulkhead, FleetSlots, LimitSettings, OnLoss};
use crate::step::Step;
use crate::time::{Duration, Time};

/// How long a queue waits before it asks a full store again, jittered by half. The store does not announce free
/// slots.
const AGAIN: Duration = Duration::from_millis(50);

/// How long the store's answer about the slots to keep stays valid, beyond the time in which the process asks again.
const KEPT: Duration = Duration::from_millis(250);

/// Operation of the script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Op {
    Acquire = 0,
    Release = 1,
    Renew = 2,
    Reap = 3,
}

/// A process's part of a bulkhead of the fleet.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Slots {
    settings: FleetSlots,
    /// The fleet's limit.
    pub limit: u32,
    /// The leased slots: their fences, and when the leases end.
    fences: VecDeque<(u64, Time)>,
    /// Commands without an answer yet.
    out: u32,
    /// Whether one of the commands acquires slots, and whether one renews leases (`renewing`).
    asking: bool,
    renewing: bool,
    renewed_at: Time,
    /// When to ask a full store again.
    again_at: Option<Time>,
    /// Number of slots leased when the store was lost. It bounds the permits until the store is back, even after the
    /// leases end.
    at_loss: u32,
    /// How many slots the process may keep while others want some, by the store's last answer, and until when that is
    /// valid.
    keep: (u32, Time),
    /// Timeout for answers of the store, from the policy of the last call.
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

    /// After a fork: leases and commands belong to the parent.
    pub fn forget(&mut self) {
        self.fences.clear();
        (self.out, self.asking, self.renewing, self.again_at, self.at_loss) = (0, false, false, None, 0);
        self.keep.1 = Time::default();
    }

    fn held(&self) -> u32 {
        self.fences.len() as u32
    }

    /// How many slots the process may keep: at most the limit, and fewer while others want some.
    fn keeps(&self, now: Time) -> u32 {
        if now < self.keep.1 { self.keep.0.min(self.limit) } else { self.limit }
    }

    /// Drops leases that have ended, because another process may hold their slots by now. Returns how many.
    fn expire(&mut self, now: Time) -> u32 {
        let before = self.fences.len();
        self.fences.retain(|fence| now < fence.1);
        (before - self.fences.len()) as u32
    }

    /// When to renew the leases.
    fn renewal(&self) -> Time {
        if self.fences.is_empty() { Time::NEVER } else { self.renewed_at.after(third(self.settings.ttl)) }
    }

    /// Number of permits while the store is gone.
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
        // // The validator accepts only fixed limits for the fleet.
        LimitSettings::Aimd(settings) => settings.max_concurrency,
        LimitSettings::Gradient2(settings) => settings.max_concurrency,
    }
}

impl Desk {
    /// Applies the queue's bound once the fleet is full or the store is gone. Refuses calls that would not wait at
    /// all; with `on_loss = closed`, refuses all. Each step refuses some of them and leaves the rest to the next
    /// steps, unless the process asks the store again first.
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
        // Calls beyond these give up by themselves after `store_timeout`.
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
                return self.wakes.push(self.calls.id(slot)); // its next event resumes this loop
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
    /// `until`, or the time of the next renewal of the leases if that is earlier.
    pub(in crate::engine) fn before_renewal(&self, route: RouteAt, until: Time, now: Time) -> Time {
        let home = self[route].pool_at;
        // The pool's routes learn in later steps that it has left the fleet (`Chore::Leased`).
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

impl Sender<'_> {
    /// Returns `count` slots to the fleet, at most as many as one command carries.
    fn give_slots_back(&mut self, home: PoolAt, count: u32, now: Time) {
        let count = count.min(MOST_ITEMS as u32);
        let it = &mut self.routes[home];
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

    /// Asks for the missing slots: for waiters, and for calls that run without one.
    fn ask_slots(&mut self, home: PoolAt, now: Time) {
        let up = self.store.is_up(self.routes, home, Part::Slots);
        let it = &self.routes[home];
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
        if !self.store.may_send((self.routes.lasting_id(home.route()), Part::Slots), self.seed, now) {
            return;
        }
        let Some(slots) = &mut self.routes[home].slots else {
            return missing("the slots of a bulkhead of the fleet's");
        };
        slots.out += 1;
        slots.asking |= op == Op::Acquire;
        let (limit, ttl, within) = (slots.limit, slots.settings.ttl, slots.within);
        let args = [u64::from(limit), ttl.as_micros(), u64::from(count), u64::from(slots.held())];
        let args = [&args, fences].concat();
        self.store.send(
            &SLOTS,
            (self.routes.address(self.policies, home), Subject::Slots { op, count }),
            (Some(op as u64), &args),
            within,
            now,
        );
    }
}

impl FleetDesk<'_> {
    /// Applies `on_loss` to a call while the store is gone.
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

    /// When a waiter checks again. The timer of the next in turn also covers the queue's next moment.
    pub(in crate::engine) fn wait_for_slot(&self, slot: Slot, now: Time) -> Step {
        let home = self.desk.routes[self.desk.calls[slot].route].pool_at;
        let mut until = self.desk.patience(slot).min(now.after(MAX_PARK));
        let (Some(slots), Some(pool)) = (&self.desk.routes[home].slots, &self.desk.routes[home].pool) else {
            // A retune has turned the slots into permits of the process; the pool hands them out by itself.
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
            // While the store is gone, the store's own events move the queue.
            let next = next.filter(|_| self.store.is_up(&self.desk.routes, home, Part::Slots));
            until = next.map_or(until, |next| until.min(next.max(now)));
        }
        wait(why, until, now)
    }

    /// Drops leases that have ended and renews the others in time. Called at each event of a bulkhead of the fleet.
    pub(in crate::engine) fn keep_slots(&mut self, home: PoolAt, now: Time) {
        // The pool's routes learn in later steps that it has left the fleet (`Chore::Leased`).
        let Some(slots) = &mut self.desk.routes[home].slots else { return };
        if slots.expire(now) > 0 {
            self.fit_slots(home, now);
            self.sender().ask_slots(home, now); // for calls that run without a slot now
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
            self.sender().send_slots(home, Op::Renew, some.len() as u32, some, now);
        }
    }

    /// Sets the number of permits to the leased slots, or to what `on_loss` allows. Hands out free permits, and
    /// returns slots that no call waits for.
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
        // Return the slots above those to keep before a local waiter gets one.
        let above = slots.held().saturating_sub(slots.keeps(now).max(pool.in_flight));
        self.sender().give_slots_back(home, above, now);
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
            self.sender().give_slots_back(home, spare, now);
        }
    }

    /// Handles an answer of the store.
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
        // The lease length that the command named, even if the settings have changed since.
        let ends = pending.sent.after(pending.lease());
        let mut refused = false;
        match (op, answer) {
            (Op::Acquire, &[granted, first, _used, _reaped, keep]) => {
                let granted = granted.min(u64::from(count));
                if slots.fences.is_empty() {
                    slots.renewed_at = pending.sent;
                }
                // Accept no more than the limit and no slot twice, whatever the store answers.
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
                    self.sender().send_slots(home, Op::Release, surplus.len() as u32, surplus, now);
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
        self.sender().ask_slots(home, now);
        self.desk.wake_next(home, now);
    }

    /// Applies `on_loss` to the waiters when the store is lost.
    pub(super) fn slots_without_store(&mut self, home: PoolAt, now: Time) {
        let Some(slots) = &mut self.desk.routes[home].slots else {
            return missing("the slots of a bulkhead of the fleet's");
        };
        slots.at_loss = slots.held();
        self.fit_slots(home, now);
        self.desk.refuse_unserved(home, false, now);
        self.desk.wake_next(home, now);
    }

    /// Renews the leases when the store is back, and asks for slots for calls that run without one.
    pub(super) fn slots_with_store(&mut self, home: PoolAt, now: Time) {
        let Some(slots) = &mut self.desk.routes[home].slots else {
            return missing("the slots of a bulkhead of the fleet's");
        };
        (slots.again_at, slots.renewed_at, slots.at_loss) = (None, Time::default(), 0);
        self.keep_slots(home, now);
        self.fit_slots(home, now);
        self.sender().ask_slots(home, now);
        self.desk.wake_next(home, now);
    }

    /// Applies new settings to a bulkhead; it may also have joined or left the fleet.
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
                    slots.out = out as u32; // commands from before it was the process's own
                    slots
                });
                self.fit_slots(home, now);
                self.sender().ask_slots(home, now);
            }
            (Some(slots), None) => {
                let fences: Vec<u64> = slots.fences.drain(..).map(|fence| fence.0).collect();
                for some in fences.chunks(MOST_ITEMS) {
                    self.sender().send_slots(home, Op::Release, some.len() as u32, some, now);
                }
                self.desk.routes[home].slots = None;
            }
            (None, None) => {}
        }
    }
}

impl Fleet {
    /// Checks the books of a bulkhead of the fleet.
    pub fn check_slots(&self, routes: &Routes, home: PoolAt) -> Result<(), String> {
        let it = &routes[home];
        let (Some(slots), Some(pool)) = (&it.slots, &it.pool) else { return Ok(()) };
        let id = routes.lasting_id(home.route());
        let out = self.out(id, Part::Slots);
        // A command sent before a retune rebuilt the slots is still out, and not counted here.
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
    /// Returns slots that arrived for a route that is gone, or whose bulkhead has left the fleet. No call would renew
    /// or release them, so the fleet could not use them before their leases end.
    pub(super) fn slots_unclaimed(&mut self, pending: &Pending, count: u32, answer: &[u64], now: Time) {
        let &[granted, first, ..] = answer else { return missing("a number in the answer about slots") };
        let granted = granted.min(u64::from(count));
        if granted > 0 {
            self.send_release(pending, first..first.saturating_add(granted), now);
        }
    }
}
