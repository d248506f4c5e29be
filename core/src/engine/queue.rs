//! Pools of permits and the calls that wait for them.
//!
//! A freed permit changes owner inside the step that freed it (R2): it is *granted* to the head of the queue, which
//! claims it with its next event. A grant is a lease (R9): unclaimed for 5 s, it goes to the next waiter.

use super::Engine;
use super::arena::{Arena, Call, NONE, State, flag};
use super::call::limit;
use crate::action::Verdict;
use crate::policy::Bulkhead;
use crate::time::{Duration, Time};

/// How long a grant may stay unclaimed; longer than a parked call's longest sleep.
const CLAIM: Duration = Duration::from_secs(5);

/// How far up a call looks for an ancestor's permit.
const DEEPEST: u32 = 32;

/// A list of calls through their own links.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl List {
    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn head(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub fn push(&mut self, calls: &mut Arena, slot: u32) {
        calls[slot].set_links(self.tail, NONE);
        if self.tail == NONE {
            self.head = slot;
        } else {
            let (before, _) = calls[self.tail].links();
            calls[self.tail].set_links(before, slot);
        }
        self.tail = slot;
        self.len += 1;
    }

    /// Takes a call out, wherever it stands.
    pub fn remove(&mut self, calls: &mut Arena, slot: u32) {
        let (before, after) = calls[slot].links();
        if before == NONE {
            self.head = after;
        } else {
            let (first, _) = calls[before].links();
            calls[before].set_links(first, after);
        }
        if after == NONE {
            self.tail = before;
        } else {
            let (_, last) = calls[after].links();
            calls[after].set_links(before, last);
        }
        self.len -= 1;
    }
}

/// Permits, and who waits for them.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub limit: u32,
    pub max_queue: u32,
    /// Permits given out: running, granted, or kept by a call that has ended and lingers.
    pub in_flight: u32,
    /// Permits out beyond the limit since it shrank; nobody is evicted.
    pub over: u32,
    pub waiting: List,
    pub granted: List,
}

impl Pool {
    pub fn new(settings: &Bulkhead) -> Self {
        Self {
            limit: settings.max_concurrency,
            max_queue: settings.max_queue,
            in_flight: 0,
            over: 0,
            waiting: List::default(),
            granted: List::default(),
        }
    }

    /// Is a permit free for a newcomer? Not past a waiter: nobody barges in.
    #[inline]
    fn admits(&self) -> bool {
        self.in_flight < self.limit && self.waiting.len == 0
    }
}

/// How a newcomer stands with its pool.
pub(super) enum Permit {
    /// It may go on: it holds a permit, shares one, or needs none.
    Held,
    /// It waits in the queue.
    Awaited,
}

/// The end of a waiter's patience: its deadline or its acquire timeout, whichever is first.
pub(super) fn patience(call: &Call) -> Time {
    call.moment.min(call.deadline)
}

impl Engine {
    /// Asks the route's pool for a permit.
    #[inline]
    pub(super) fn acquire(&mut self, slot: u32, now: Time) -> Result<Permit, Verdict> {
        let route = self.calls[slot].route;
        if self.routes[route].pool.is_none() || self.shares(slot) {
            return Ok(Permit::Held);
        }
        self.revoke_overdue(route, now);
        let Some(pool) = &mut self.routes[route].pool else { return Ok(Permit::Held) };
        let call = &mut self.calls[slot];
        if pool.admits() {
            pool.in_flight += 1;
            call.flags |= flag::HOLDS;
            return Ok(Permit::Held);
        }
        if !call.has(flag::MAY_PARK) || pool.waiting.len >= pool.max_queue {
            return Err(Verdict::QueueFull);
        }
        let bulkhead = self.policies[usize::from(call.policy)].policy.bulkhead;
        let patience = bulkhead.map_or(Duration::ZERO, |bulkhead| bulkhead.acquire_timeout);
        if patience == Duration::ZERO {
            return Err(Verdict::AcquireTimeout);
        }
        call.moment = limit(now, patience);
        call.go(State::Queued);
        pool.waiting.push(&mut self.calls, slot);
        Ok(Permit::Awaited)
    }

    /// Hands out all permits that can be handed out (I3). A waiter whose patience has ended is failed, not granted.
    pub(super) fn hand_out(&mut self, route: u32, now: Time) {
        let Some(pool) = &mut self.routes[route].pool else { return };
        while pool.in_flight < pool.limit {
            let Some(slot) = pool.waiting.head() else { return };
            pool.waiting.remove(&mut self.calls, slot);
            let call = &mut self.calls[slot];
            if patience(call) <= now {
                let queued_out = call.deadline <= call.moment;
                call.stopped =
                    if queued_out { Verdict::DeadlineQueued } else { Verdict::AcquireTimeout } as u8;
                call.moment = now;
                call.go(State::Refused);
            } else {
                pool.in_flight += 1;
                call.flags |= flag::HOLDS;
                call.moment = now.after(CLAIM);
                call.go(State::Granted);
                pool.granted.push(&mut self.calls, slot);
            }
            self.wakes.push(self.calls.id(slot));
        }
    }

    /// Gives a permit back, and on in the same step (R2, R6).
    #[inline]
    pub(super) fn release(&mut self, route: u32, now: Time) {
        let Some(pool) = &mut self.routes[route].pool else { return };
        pool.in_flight -= 1;
        pool.over = pool.over.saturating_sub(1);
        if pool.waiting.len > 0 {
            self.hand_out(route, now);
        }
    }

    /// Takes back grants that nobody has claimed for 5 s (R9).
    #[inline]
    pub(super) fn revoke_overdue(&mut self, route: u32, now: Time) {
        while let Some(slot) = self.routes[route].pool.as_ref().and_then(|pool| pool.granted.head())
            && self.calls[slot].moment <= now
        {
            self.lose(slot, now);
        }
    }

    /// Takes a call that ends, or that claims its grant, out of the list it stands in.
    #[inline]
    pub(super) fn leave_queue(&mut self, slot: u32) {
        let call = &self.calls[slot];
        let Some(pool) = &mut self.routes[call.route].pool else { return };
        match call.state {
            State::Queued => pool.waiting.remove(&mut self.calls, slot),
            State::Granted => pool.granted.remove(&mut self.calls, slot),
            _ => {}
        }
    }

    /// Does a call around this one hold a permit of the same pool? Then it is shared: a call never waits for itself.
    fn shares(&self, slot: u32) -> bool {
        let (route, mut ancestor) = (self.calls[slot].route, self.calls[slot].parent);
        for _ in 0..DEEPEST {
            if ancestor == NONE {
                return false;
            }
            let call = &self.calls[ancestor];
            if call.route == route && call.has(flag::HOLDS) {
                return true;
            }
            ancestor = call.parent;
        }
        false
    }
}
