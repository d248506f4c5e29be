//! Rates, and the calls that wait for tokens: the rate limit (semantics 3), and the send rate of the AWS SDKs' adaptive
//! mode (2.14).
//!
//! One FIFO each. A waiter knows its turn when it queues, so it needs nobody to wake it; where somebody before it leaves
//! without tokens, the head is woken to look again.

use super::Engine;
use super::admit::Answer;
use super::arena::{Arena, flag};
use super::call::{MAX_PARK, wait};
use super::chores::Chore;
use super::desk::Desk;
use super::fleet::rate::Share;
use super::place::{PoolAt, RouteAt, Slot};
use super::queue::List;
use crate::action::{Step, Verdict, Wait};
use crate::debt::{Debt, Unit};
use crate::full::{Part, Rare};
use crate::limit::TokenBucket;
use crate::policy::RateLimit;
use crate::retry::CubicRate;
use crate::time::{Duration, Time};

/// Calls that may wait for the send rate of one route.
const MOST_SENDERS: u32 = 1_000;

/// Where the tokens come from.
#[derive(Clone, Debug)]
pub(super) enum Bucket {
    Tokens(TokenBucket),
    Cubic(Rare<CubicRate>),
    /// Part of a rate that the whole fleet shares. Its queue is in `fleet/rate.rs`.
    Fleet(Part<Share>),
}

impl Bucket {
    /// The bucket of a rate limit.
    pub fn of(limit: &RateLimit, now: Time) -> Self {
        match limit.fleet {
            Some(fleet) => Self::Fleet(Part::new(Share::new(limit.bucket, *fleet, now), fleet.full())),
            None => Self::Tokens(TokenBucket::new(limit.bucket, now)),
        }
    }

    /// Goes on with other settings, and the tokens that are there. What becomes the process's own again begins with its
    /// share. True if it has become the fleet's, or is so no more: then those who wait are told anew ([`Engine::rate_retuned`]).
    #[must_use]
    pub fn retune(&mut self, to: &RateLimit, now: Time) -> bool {
        let was = matches!(self, Self::Fleet(_));
        match (&mut *self, to.fleet) {
            (Self::Tokens(bucket), None) => bucket.retune(to.bucket, now),
            (Self::Fleet(share), Some(fleet)) => share.retune(to.bucket, *fleet, now),
            (Self::Fleet(share), None) => {
                let mut own = share.local().clone();
                own.retune(to.bucket, now);
                *self = Self::Tokens(own);
            }
            (Self::Tokens(_) | Self::Cubic(_), _) => *self = Self::of(to, now),
        }
        was != matches!(self, Self::Fleet(_))
    }

    fn try_take(&mut self, cost: u32, now: Time) -> bool {
        match self {
            Self::Tokens(bucket) => bucket.try_take(cost, now).is_ok(),
            Self::Cubic(rate) => rate.acquire(now).is_ok(),
            Self::Fleet(share) => share.take(cost, now),
        }
    }

    /// How long until so many tokens will have come.
    pub fn wait_for(&mut self, tokens: u64, now: Time) -> Duration {
        match self {
            Self::Tokens(bucket) => bucket.wait_for(tokens, now),
            Self::Cubic(rate) => rate.wait_for(tokens, now),
            Self::Fleet(share) => share.wait_for(tokens, now),
        }
    }
}

/// A bucket and its queue.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    pub bucket: Bucket,
    pub waiting: List,
    /// Tokens that those who wait will take.
    queued: u64,
    /// Is the head to be woken whenever there is a new one, because its turn is not what it was told?
    restless: bool,
}

impl Pace {
    pub fn new(bucket: Bucket) -> Self {
        Self { bucket, waiting: List::default(), queued: 0, restless: false }
    }

    pub fn forget_calls(&mut self) {
        *self = Self::new(self.bucket.clone());
        if let Bucket::Fleet(share) = &mut self.bucket {
            share.forget();
        }
    }

    /// What its rate limit owes. A send rate owes nothing: its rate is an estimate.
    pub fn debt(&mut self, now: Time) -> Debt {
        self.limit_mut().map_or(Debt::NONE, |bucket| bucket.debt(now))
    }

    /// The same, and the tokens that those who wait will take.
    pub fn debt_with_waiters(&mut self, now: Time) -> Debt {
        let queued = self.queued;
        self.limit_mut().map_or(Debt::NONE, |bucket| bucket.debt_with(queued, now))
    }

    /// What its debt is counted in.
    pub fn unit(&self) -> Option<Unit> {
        match &self.bucket {
            Bucket::Tokens(bucket) => Some(Unit::Rate(bucket.settings())),
            Bucket::Cubic(_) => None,
            Bucket::Fleet(share) => Some(Unit::Rate(share.settings())),
        }
    }

    /// Owes at least this much from here on.
    pub fn owe(&mut self, debt: Debt, now: Time) {
        if let Some(bucket) = self.limit_mut().filter(|_| debt.is_owed(now)) {
            bucket.owe(debt, now);
        }
    }

    /// The bucket that this process fills: of the fleet's rate, its own share, which holds while the store is lost.
    fn limit_mut(&mut self) -> Option<&mut TokenBucket> {
        match &mut self.bucket {
            Bucket::Tokens(bucket) => Some(bucket),
            Bucket::Cubic(_) => None,
            Bucket::Fleet(share) => Some(share.local_mut()),
        }
    }

    /// The most tokens that there ever are at once, where there is such a bound.
    pub fn burst(&self) -> Option<u32> {
        match &self.bucket {
            Bucket::Tokens(bucket) => Some(bucket.settings().burst),
            Bucket::Cubic(_) => None,
            Bucket::Fleet(share) => Some(share.settings().burst),
        }
    }

    /// Puts a call behind those that wait.
    pub fn enlist(&mut self, calls: &mut Arena, slot: Slot, cost: u64) {
        self.queued += cost;
        self.waiting.push(calls, slot);
    }

    /// Tokens that those who wait will take.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// May one that does not queue take so many tokens now?
    pub fn has(&mut self, cost: u32, now: Time) -> bool {
        // Of the fleet's rate only what is leased is there; when the store may have more says its `turn`.
        let there = match &mut self.bucket {
            Bucket::Fleet(share) => share.has(cost, now),
            bucket => bucket.wait_for(u64::from(cost), now) == Duration::ZERO,
        };
        self.waiting.len() == 0 && there
    }

    pub fn take(&mut self, cost: u32, now: Time) -> bool {
        self.waiting.len() == 0 && self.bucket.try_take(cost, now)
    }
}

impl Desk {
    /// The rate that calls of a route wait for: its own send rate, or its rate limit, which may be a pool's.
    fn pace_mut(&mut self, route: RouteAt, sending: bool) -> Option<&mut Pace> {
        if sending {
            self.routes[route].send.as_deref_mut()
        } else {
            let home = self.routes[route].rate_at;
            self.routes[home].rate.as_deref_mut()
        }
    }

    /// Is the rate limit of a call the fleet's?
    #[inline]
    pub(super) fn in_fleet(&self, slot: Slot) -> bool {
        let home = self.routes[self.calls[slot].route].rate_at;
        self.routes[home].rate.as_deref().is_some_and(|pace| matches!(pace.bucket, Bucket::Fleet(_)))
    }

    fn tokens_of(&self, slot: Slot, sending: bool) -> u32 {
        if sending { 1 } else { u32::from(self.calls[slot].cost) }
    }

    /// A rate has other settings. Who waits and costs more than the rate can hold now would wait for ever: it is refused.
    ///
    /// If the rate has become the fleet's, or the process's own again, each waiter is told anew, because its moment is the end
    /// of its patience in the one queue and its turn in the other: whoever waits now for the fleet's has `max_wait` from here;
    /// whoever would not wait for the process's own, or in vain, is refused.
    pub(super) fn rate_retuned(&mut self, home: PoolAt, moved: bool, now: Time) {
        let head = |it: &mut Self| it.routes[home].rate.as_deref_mut().and_then(|pace| pace.waiting.head());
        let (mut ahead, mut next, mut left) = (0, head(self), false);
        while let Some(slot) = next {
            let call = &self.calls[slot];
            let (id, deadline, give_up) =
                (self.calls.id(slot), call.deadline, call.moment.min(call.deadline));
            let (cost, after) = (u32::from(call.cost), call.links().1);
            next = (after != Slot::NONE).then_some(after);
            if self.is_above_burst(cost, home) {
                self.turn_away_from(slot, Verdict::CostAboveBurst, None, now);
                left = true;
                continue;
            }
            if !moved {
                continue;
            }
            let limit = self.policies.of(&self.calls[slot]).rate_limit.as_ref();
            let patience = limit.filter(|limit| limit.wait).map(|limit| limit.max_wait);
            let Some(pace) = self.routes[home].rate.as_deref_mut() else { return };
            pace.restless = true;
            if let Bucket::Fleet(_) = pace.bucket {
                self.calls[slot].moment = patience.map_or(now, |patience| now.after(patience)).min(deadline);
                self.wakes.push(id);
                continue;
            }
            let turn = pace.bucket.wait_for(ahead + u64::from(cost), now);
            if turn > Duration::ZERO && (patience.is_none() || now.after(turn) >= give_up) {
                self.turn_away_from(slot, Verdict::RateLimited, Some(turn), now);
            } else {
                ahead += u64::from(cost);
                self.calls[slot].moment = now.after(turn);
                self.wakes.push(id);
            }
        }
        // Those behind have their turns sooner than they were told.
        if let Some(slot) = head(self).filter(|_| left) {
            self.wakes.push(self.calls.id(slot));
            if let Some(pace) = self.routes[home].rate.as_deref_mut() {
                pace.restless = true;
            }
        }
    }

    /// Does a call cost more than its rate can ever hold?
    pub(super) fn is_above_burst(&self, cost: u32, home: PoolAt) -> bool {
        self.routes[home].rate.as_deref().and_then(Pace::burst).is_some_and(|burst| cost > burst)
    }

    fn wait_paced(&self, slot: Slot, now: Time) -> Step {
        let call = &self.calls[slot];
        wait(Wait::Rate, call.moment.min(call.deadline).min(now.after(MAX_PARK)), now)
    }

    /// The turns of those who wait are not what they were told.
    pub(super) fn unsettle_heads(&mut self, route: RouteAt, sending: bool) {
        if let Some(pace) = self.pace_mut(route, sending) {
            pace.restless = true;
        }
    }

    /// A new head looks again, if its turn may not be what it was told.
    pub(super) fn settle_heads(&mut self, route: RouteAt, sending: bool) {
        let Some(pace) = self.pace_mut(route, sending) else { return };
        match pace.waiting.head() {
            None => pace.restless = false,
            Some(head) if pace.restless || sending || matches!(pace.bucket, Bucket::Fleet(_)) => {
                self.wakes.push(self.calls.id(head));
            }
            Some(_) => {}
        }
    }

    pub(super) fn unlist_paced(&mut self, slot: Slot) {
        let (route, sending) = (self.calls[slot].route, self.calls[slot].has(flag::SENDING));
        let cost = u64::from(self.tokens_of(slot, sending));
        let Some(pace) = self.pace_mut(route, sending) else { return };
        pace.queued -= cost;
        let mut list = pace.waiting;
        list.remove(&mut self.calls, slot);
        if let Some(pace) = self.pace_mut(route, sending) {
            pace.waiting = list;
        }
    }
}

impl Engine {
    /// Asks for the tokens of a call, or of its next attempt.
    pub(super) fn ask_pace(&mut self, slot: Slot, sending: bool, now: Time) -> Answer {
        let call = &self.desk.calls[slot];
        let (route, policy, deadline, may_park) =
            (call.route, call.policy, call.deadline, call.has(flag::MAY_PARK));
        let cost = if sending { 1 } else { u32::from(call.cost) };
        let Some(mut pace) = self.desk.pace_mut(route, sending) else {
            return Answer::broken(Verdict::RateLimited);
        };
        if let Bucket::Fleet(_) = pace.bucket {
            return self.fleet_desk().ask_fleet(slot, now);
        }
        if pace.waiting.len() > 0 {
            self.pace_out(route, sending, now);
            let Some(again) = self.desk.pace_mut(route, sending) else {
                return Answer::broken(Verdict::RateLimited);
            };
            pace = again;
        }
        if pace.take(cost, now) {
            return Answer::Pass;
        }
        let limit = self.desk.policies[usize::from(policy)].policy.rate_limit.as_ref();
        let (waits, max_wait, most) = match limit {
            _ if sending => (true, Duration::MAX, MOST_SENDERS),
            Some(limit) => (limit.wait, limit.max_wait, limit.max_waiters),
            None => (false, Duration::ZERO, 0),
        };
        let Some(pace) = self.desk.pace_mut(route, sending) else {
            return Answer::broken(Verdict::RateLimited);
        };
        if !sending && pace.burst().is_some_and(|burst| cost > burst) {
            return Answer::Refuse(Verdict::CostAboveBurst, None); // since it began, the burst has become smaller
        }
        let turn = pace.bucket.wait_for(pace.queued + u64::from(cost), now);
        let in_vain = turn > max_wait || now.after(turn) >= deadline;
        if !waits || !may_park || pace.waiting.len() >= most || in_vain {
            return Answer::Refuse(Verdict::RateLimited, Some(turn));
        }
        pace.queued += u64::from(cost);
        let mut list = pace.waiting;
        self.desk.calls.note_charged(slot);
        let call = &mut self.desk.calls[slot];
        call.pace(now.after(turn), sending);
        list.push(&mut self.desk.calls, slot);
        if let Some(pace) = self.desk.pace_mut(route, sending) {
            pace.waiting = list;
        }
        self.desk.note_course(move |it| it.queued(slot, Wait::Rate, now.after(turn), now));
        Answer::Wait(self.desk.wait_paced(slot, now))
    }

    /// Gives tokens to the heads that can have them. True if there is a new head.
    fn pace_out(&mut self, route: RouteAt, sending: bool, now: Time) -> bool {
        if let Some(Pace { bucket: Bucket::Fleet(_), .. }) = self.desk.pace_mut(route, sending) {
            let home = self.desk.routes[route].rate_at;
            return self.fleet_desk().lease_out(home, now);
        }
        let mut moved = false;
        while let Some(slot) = self.desk.pace_mut(route, sending).and_then(|pace| pace.waiting.head()) {
            if !self.desk.chores.one_more(Chore::Tokens(route, sending)) {
                self.desk.wakes.push(self.desk.calls.id(slot)); // its event goes on here
                return true;
            }
            if self.desk.calls[slot].deadline <= now {
                self.desk.unlist(slot); // a waiter whose deadline has passed is failed, not granted
                self.desk.turn_away(slot, Verdict::DeadlineQueued, now);
                if let Some(pace) = self.desk.pace_mut(route, sending) {
                    pace.restless = true;
                }
                moved = true;
                continue;
            }
            let cost = self.desk.tokens_of(slot, sending);
            if !self.desk.pace_mut(route, sending).is_some_and(|pace| pace.bucket.try_take(cost, now)) {
                break;
            }
            self.desk.unlist(slot);
            self.desk.calls[slot].flags |= flag::TOKENS;
            self.desk.note_course(move |it| it.granted(slot, Wait::Rate, None, now));
            self.desk.wakes.push(self.desk.calls.id(slot));
            moved = true;
        }
        if moved {
            self.desk.settle_heads(route, sending);
        }
        moved
    }

    /// Goes on with giving tokens to the heads that can have them.
    pub(super) fn resume_pace(&mut self, route: RouteAt, sending: bool, now: Time) {
        self.pace_out(route, sending, now);
    }

    /// Somebody has left without tokens.
    pub(super) fn left_pace(&mut self, route: RouteAt, sending: bool, now: Time) {
        self.desk.unsettle_heads(route, sending);
        if !self.pace_out(route, sending, now) {
            self.desk.settle_heads(route, sending);
        }
    }

    /// A waiter's own look: `None` when its tokens are there.
    pub(super) fn still_paced(&mut self, slot: Slot, now: Time) -> Option<Step> {
        let (route, sending) = (self.desk.calls[slot].route, self.desk.calls[slot].has(flag::SENDING));
        if !self.desk.calls[slot].has(flag::TOKENS) {
            self.pace_out(route, sending, now);
            let own = self.desk.calls.id(slot);
            self.desk.wakes.retain(|woken| *woken != own); // it is here
        }
        if self.desk.calls[slot].has(flag::TOKENS) {
            return None;
        }
        let (cost, past) = (self.desk.tokens_of(slot, sending), self.desk.calls[slot].moment <= now);
        if let Some(pace) = self.desk.pace_mut(route, sending) {
            let turn = if pace.waiting.head() == Some(slot) {
                Some(pace.bucket.wait_for(u64::from(cost), now))
            } else {
                past.then(|| pace.bucket.wait_for(pace.queued, now))
            };
            if let Some(turn) = turn {
                self.desk.calls[slot].moment = now.after(turn);
            }
        }
        Some(self.desk.wait_paced(slot, now))
    }
}
