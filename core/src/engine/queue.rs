//! Pools of permits and the calls that wait for them.
//!
//! A freed permit changes owner inside the step that freed it (R2): it is *granted* to the next call in the queue,
//! which claims it with its next event. A grant is a lease (R9): if it is unclaimed for 5 s, it goes to the next
//! waiter.

use super::arena::{Arena, Call, flag};
use super::call_extra::mark;
use super::chores::Chore;
use super::desk::Desk;
use super::limiter::Limiter;
use super::list::List;
use super::place::{PoolAt, Slot};
use super::policies::Policies;
use super::route::{Routes, stage};
use super::stage::missing;
use crate::action::{Verdict, Wait};
use crate::codel::{CoDel, CodelSettings};
use crate::full::{Full, Part, Switch};
use crate::policy::Bulkhead;
use crate::time::{Duration, Time};

/// How long a grant may stay unclaimed; longer than a parked call's longest sleep.
pub(super) const CLAIM: Duration = Duration::from_secs(5);

/// How the sojourn that a queue allows is scaled by criticality, best effort first (semantics 4.4).
const ALLOWANCES: [f64; 4] = [0.25, 0.5, 1.0, 2.0];

/// Permits and their waiters.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub limit: u32,
    pub max_queue: u32,
    /// Permits given out: running, granted, or kept by a call that has ended and lingers.
    pub in_flight: u32,
    /// Permits given out beyond the limit since it shrank; running calls are not interrupted.
    pub over: u32,
    /// One list per criticality where it matters, else all calls in the first.
    waiting: [List; 4],
    waiters: u32,
    pub granted: List,
    pub limiter: Limiter,
    /// The queue's `CoDel` control, if it has one.
    pub codel: Option<Part<CoDel>>,
    shed: Switch,
    lifo: Switch,
    prioritized: Switch,
}

impl Pool {
    pub fn new(settings: &Bulkhead, now: Time) -> Self {
        let limiter = Limiter::new(&settings.limit);
        Self {
            limit: limiter.limit(),
            max_queue: settings.max_queue,
            in_flight: 0,
            over: 0,
            waiting: [List::default(); 4],
            waiters: 0,
            granted: List::default(),
            limiter,
            codel: codel(settings.codel, now),
            shed: settings.shed,
            lifo: settings.lifo,
            prioritized: settings.prioritized,
        }
    }

    /// Applies new settings; queued calls keep their position.
    pub fn retune(&mut self, to: &Bulkhead, now: Time) {
        self.limiter.retune(&to.limit);
        self.set_limit(self.limiter.limit());
        self.max_queue = to.max_queue;
        (self.shed, self.lifo) = (to.shed, to.lifo);
        match (&mut self.codel, to.codel) {
            (Some(codel), Some(settings)) => codel.retune(settings),
            (watch, settings) => *watch = codel(settings, now),
        }
    }

    /// Makes the order depend on criticality, or not. Waiters queue anew in the order in which they came.
    pub fn order_by(&mut self, prioritized: Switch, calls: &mut Arena) {
        if self.prioritized == prioritized {
            return;
        }
        let mut waiters: Vec<_> = self.queue(calls).collect();
        waiters.sort_unstable_by_key(|slot| (calls[*slot].moment, calls[*slot].ordinal()));
        (self.prioritized, self.waiting, self.waiters) = (prioritized, [List::default(); 4], 0);
        for slot in waiters {
            self.push(calls, slot);
        }
    }

    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
        self.over = self.in_flight.saturating_sub(limit);
    }

    pub fn waiters(&self) -> u32 {
        self.waiters
    }

    /// Forgets all calls, after a fork.
    pub fn forget_calls(&mut self) {
        (self.in_flight, self.over, self.waiters) = (0, 0, 0);
        self.waiting = [List::default(); 4];
        self.granted = List::default();
    }

    /// Takes permits back; returns how many calls wait for one.
    #[inline]
    pub fn release(&mut self, permits: u32) -> u32 {
        self.in_flight -= permits;
        self.over = self.over.saturating_sub(permits);
        self.waiters
    }

    /// Whether a permit is free for a new call. New calls do not overtake waiters.
    #[inline]
    pub fn admits(&self) -> bool {
        self.in_flight < self.limit && self.waiters == 0
    }

    fn list_of(&self, call: &Call) -> usize {
        if self.prioritized.is_on() { usize::from(call.flags & flag::CRITICALITY) } else { 0 }
    }

    fn push(&mut self, calls: &mut Arena, slot: Slot) {
        let list = self.list_of(&calls[slot]);
        let mut before = self.waiting[list].tail().unwrap_or(Slot::NONE);
        // By arrival, then by ordinal: a call that requeues between attempts may be older than calls that arrived
        // with it.
        while self.prioritized.is_on()
            && before != Slot::NONE
            && calls[before].moment == calls[slot].moment
            && calls[before].ordinal() > calls[slot].ordinal()
        {
            before = calls[before].links().0;
        }
        self.waiting[list].insert(calls, slot, before);
        self.waiters += 1;
    }

    /// Puts a call that had a permit before it made an attempt at the head of its list.
    fn push_first(&mut self, calls: &mut Arena, slot: Slot) {
        let list = self.list_of(&calls[slot]);
        self.waiting[list].insert(calls, slot, Slot::NONE);
        self.waiters += 1;
    }

    /// Removes a waiting call from its list.
    pub fn remove(&mut self, calls: &mut Arena, slot: Slot) {
        let list = self.list_of(&calls[slot]);
        self.waiting[list].remove(calls, slot);
        self.waiters -= 1;
    }

    /// Next in turn: the oldest call, or under congestion the newest where the policy says so.
    pub fn next(&self, calls: &Arena, now: Time) -> Option<Slot> {
        let newest = self.lifo.is_on() && self.codel.as_ref().is_some_and(|codel| codel.congested(now));
        if !self.prioritized.is_on() {
            return if newest { self.waiting[0].tail() } else { self.waiting[0].head() };
        }
        let ends = self.waiting.iter().filter_map(|list| if newest { list.tail() } else { list.head() });
        let age = |slot: &Slot| (calls[*slot].moment, calls[*slot].ordinal());
        if newest { ends.max_by_key(age) } else { ends.min_by_key(age) }
    }

    /// The oldest waiter of the lowest criticality below this one.
    fn lowest_below(&self, criticality: u16) -> Option<Slot> {
        if !self.prioritized.is_on() {
            return None;
        }
        self.waiting[..usize::from(criticality)].iter().find_map(List::head)
    }

    /// The last arrival of the lowest criticality.
    pub fn last(&self) -> Option<Slot> {
        self.waiting.iter().find_map(List::tail)
    }

    /// All waiters, lowest criticality first, each by arrival.
    pub fn queue<'a>(&'a self, calls: &'a Arena) -> impl Iterator<Item = Slot> + 'a {
        let listed = |slot: Slot| (slot != Slot::NONE).then_some(slot);
        let all = self.waiting.iter();
        all.flat_map(move |list| {
            core::iter::successors(list.head(), move |slot| listed(calls[*slot].links().1))
        })
    }

    /// Number of waiters in the lists; for consistency checks.
    pub fn listed(&self) -> u32 {
        self.waiting.iter().map(List::len).sum()
    }

    /// Tells `CoDel` that the queue is empty.
    pub fn emptied(&mut self, now: Time) {
        if self.waiters == 0
            && let Some(codel) = &mut self.codel
        {
            codel.on_empty(now);
        }
    }
}

/// The `CoDel` control of a queue.
fn codel(settings: Option<CodelSettings>, now: Time) -> Option<Part<CoDel>> {
    settings.zip(Full::here()).map(|(settings, full)| Part::new(CoDel::new(settings, now), full))
}

/// Result of asking a pool for a permit.
pub(super) enum Permit {
    /// The call may start: it holds a permit, shares one, or needs none.
    Held,
    /// The call waits in the queue.
    Awaited,
}

/// When a waiter gives up: at its deadline or its acquire timeout, whichever is first.
fn patience(call: &Call, policies: &Policies, routes: &Routes) -> Time {
    impatient_at(call, policies, routes).min(call.deadline)
}

/// The end of its acquire timeout.
fn impatient_at(call: &Call, policies: &Policies, routes: &Routes) -> Time {
    let policy = policies.of(call);
    let patience = policy.bulkhead.as_ref().map_or(Duration::MAX, |bulkhead| bulkhead.acquire_timeout);
    if routes[call.route].stages & stage::LEASED != 0 {
        // The store's answer is awaited in any case.
        return call.moment.after(patience.max(policy.store_timeout));
    }
    call.moment.after(patience)
}

impl Desk {
    /// The end of a waiter's patience: its deadline or its acquire timeout, whichever is first.
    pub(super) fn patience(&self, slot: Slot) -> Time {
        patience(&self.calls[slot], &self.policies, &self.routes)
    }

    /// Verdict for a waiter whose patience has ended.
    pub(super) fn impatience(&self, slot: Slot) -> Verdict {
        let call = &self.calls[slot];
        if call.deadline <= impatient_at(call, &self.policies, &self.routes) {
            Verdict::DeadlineQueued
        } else {
            Verdict::AcquireTimeout
        }
    }

    /// Acquires a permit or queues, after earlier waiters have been served.
    pub(super) fn acquire_or_queue(
        &mut self,
        slot: Slot,
        home: PoolAt,
        now: Time,
    ) -> Result<Permit, Verdict> {
        let Some(pool) = &mut self.routes[home].pool else {
            debug_assert!(false, "the permits of a stage are missing");
            return Err(Verdict::QueueFull); // a broken invariant must not switch a limit off
        };
        let call = &mut self.calls[slot];
        if pool.admits() {
            pool.in_flight += 1;
            call.flags |= flag::HOLDS;
            return Ok(Permit::Held);
        }
        if !call.has(flag::MAY_PARK) {
            return Err(Verdict::QueueFull);
        }
        let call = &self.calls[slot];
        let has_room = pool.waiters < pool.max_queue;
        let lowest = if has_room || self.calls.marked(slot, mark::TOKENS) {
            None
        } else {
            Some(pool.lowest_below(call.flags & flag::CRITICALITY).ok_or(Verdict::QueueFull)?)
        };
        let bulkhead = &self.policies[usize::from(call.policy)].policy.bulkhead;
        if bulkhead.as_ref().is_some_and(|bulkhead| bulkhead.acquire_timeout == Duration::ZERO) {
            return Err(Verdict::AcquireTimeout);
        }
        if let Some(lowest) = lowest {
            self.unlist(lowest);
            self.turn_away(lowest, Verdict::Displaced, now);
        }
        self.join_queue(slot, home, Wait::Queue, now)
    }

    /// Appends a call to the queue of a pool.
    pub(super) fn join_queue(
        &mut self,
        slot: Slot,
        home: PoolAt,
        why: Wait,
        now: Time,
    ) -> Result<Permit, Verdict> {
        let Some(pool) = &mut self.routes[home].pool else {
            missing("the pool of a queue");
            return Err(Verdict::QueueFull); // a broken invariant must not switch a limit off
        };
        self.calls.note_charged(slot);
        pool.emptied(now);
        self.calls[slot].queue(now);
        if !pool.prioritized.is_on() && self.calls.marked(slot, mark::TOKENS) {
            pool.push_first(&mut self.calls, slot);
        } else {
            pool.push(&mut self.calls, slot);
        }
        self.note_course(move |it| {
            let until = patience(&it.calls[slot], it.policies, it.routes);
            it.queued(slot, why, until, now);
        });
        Ok(Permit::Awaited)
    }

    /// Grants all free permits (I3). Refuses waiters whose patience has ended, and waiters that have waited longer
    /// than `CoDel` allows.
    #[inline(never)]
    pub(super) fn hand_out(&mut self, home: PoolAt, now: Time) {
        loop {
            let Some(pool) = &mut self.routes[home].pool else { return };
            if pool.in_flight >= pool.limit || pool.waiters == 0 {
                return;
            }
            let Some(slot) = pool.next(&self.calls, now) else {
                return missing("a waiter that its pool counts");
            };
            if !self.chores.one_more(Chore::Permits(home)) {
                self.wakes.push(self.calls.id(slot)); // its next event resumes this loop
                return;
            }
            let impatient = (self.patience(slot) <= now).then(|| self.impatience(slot));
            let arrived = self.calls[slot].moment;
            let Some(pool) = &mut self.routes[home].pool else { return missing("the pool of a waiter") };
            let scale =
                if pool.prioritized.is_on() { ALLOWANCES[pool.list_of(&self.calls[slot])] } else { 1.0 };
            let stale = impatient.is_none()
                && pool.shed.is_on()
                && pool.codel.as_mut().is_some_and(|codel| codel.should_shed(now.since(arrived), scale, now));
            pool.remove(&mut self.calls, slot);
            self.calls.recall_charged(slot);
            pool.emptied(now);
            if let Some(verdict) = impatient.or(stale.then_some(Verdict::QueueShed)) {
                self.turn_away(slot, verdict, now);
                continue;
            }
            pool.in_flight += 1;
            self.calls[slot].grant(now.after(CLAIM));
            pool.granted.push(&mut self.calls, slot);
            self.note_course(move |it| it.granted(slot, Wait::Queue, Some(arrived), now));
            self.wakes.push(self.calls.id(slot));
        }
    }

    /// Shares the permit of an enclosing call that holds or shares a permit of the same pool, so a call never waits
    /// for itself, however deep it is nested. Returns true if the call shares a permit now; it does so until it ends.
    ///
    /// The search stops at the first ancestor of the same pool. So recursion through one policy, or through several
    /// policies in turn, visits at most as many calls as there are policies in the cycle. See
    /// [`Arena::pooled_above`].
    pub(super) fn share(&mut self, slot: Slot) -> bool {
        let Some(nearest) = self.calls.pooled_above(slot) else { return false };
        let home = self.routes[self.calls[slot].route].pool_at;
        let mut next = Some(nearest);
        while let Some(ancestor) = next {
            let call = &self.calls[ancestor];
            let has_one = call.has(flag::HOLDS | flag::SHARES)
                || call.has(flag::PER_ATTEMPT) && call.attempt_slots != 0;
            if has_one && self.routes[call.route].pool_at == home {
                self.calls[slot].flags |= flag::SHARES;
                if ancestor == nearest {
                    self.calls.stand_in_for(slot, nearest);
                }
                return true;
            }
            next = self.calls.pooled_above(ancestor);
        }
        false
    }

    /// Wakes the next in turn, so that it learns the queue's next moment.
    pub(in crate::engine) fn wake_next(&mut self, home: PoolAt, now: Time) {
        if let Some(next) = self.routes[home].pool.as_ref().and_then(|pool| pool.next(&self.calls, now)) {
            self.wakes.push(self.calls.id(next));
        }
    }
}
