//! Rates and the calls that wait for their tokens: the rate limit (semantics 3), and the send rate of the AWS SDKs'
//! adaptive mode (2.14).
//!
//! Each rate has one FIFO; a set may have another order (semantics 3.10). A waiter computes its turn when it queues, so it needs no wakeup. If a waiter leaves
//! without tokens, the engine wakes the new head, whose turn has moved forward.

use super::arena::Arena;
use super::call::{MAX_PARK, wait};
use super::desk::Desk;
use super::fleet::rate::Share;
use super::limits::{Costs, Limits};
use super::list::List;
use super::place::{PoolAt, RouteAt, Slot};
use super::sheets::WEIGHTS;
use crate::action::Wait;
use crate::debt::{Debt, Unit};
use crate::engine::route::Routes;
use crate::full::{Part, Rare};
use crate::limit::{RateSettings, TokenBucket};
use crate::policy::RateLimit;
use crate::retry::CubicRate;
use crate::step::Step;
use crate::time::{Duration, Time, Wall};

/// Calls that may wait for the send rate of one route.
pub(super) const MOST_SENDERS: u32 = 1_000;

/// Unit of the debts of a set: time alone. A policy's settings of a set have it as their bucket.
pub(super) const OF_SET: RateSettings = RateSettings { permits: 0, per: Duration::ZERO, burst: 0 };

/// Source of the tokens.
#[derive(Clone, Debug)]
pub(super) enum Bucket {
    Tokens(TokenBucket),
    Cubic(Rare<CubicRate>),
    /// Part of a rate that the whole fleet shares. Its queue is in `fleet/rate.rs`.
    Fleet(Part<Share>),
    /// Several limits at once. Its queue is in `weigh.rs`.
    Set(Part<Limits>),
}

impl Bucket {
    /// Creates the bucket of a rate limit.
    pub fn of(limit: &RateLimit, now: Time) -> Self {
        if let Some(set) = &limit.limits {
            return Self::Set(Part::new(Limits::new(set, now), set.full()));
        }
        match limit.fleet {
            Some(fleet) => Self::Fleet(Part::new(Share::new(limit.bucket, *fleet, now), fleet.full())),
            None => Self::Tokens(TokenBucket::new(limit.bucket, now)),
        }
    }

    /// Applies new settings and keeps the tokens. A rate that leaves the fleet begins with the process's share. A rate that changes
    /// its form (one limit or a set) begins full. Returns true if it joined or left the fleet or changed its form; its waiters then
    /// get new turns ([`Desk::rate_retuned`]).
    #[must_use]
    pub fn retune(&mut self, to: &RateLimit, wall: Wall, now: Time) -> bool {
        match (&mut *self, &to.limits, to.fleet) {
            (Self::Set(limits), Some(set), _) => limits.retune(set, wall, now),
            (Self::Tokens(bucket), None, None) => bucket.retune(to.bucket, now),
            (Self::Fleet(share), None, Some(fleet)) => share.retune(to.bucket, *fleet, now),
            (Self::Fleet(share), None, None) => {
                let mut own = share.local().clone();
                own.retune(to.bucket, now);
                *self = Self::Tokens(own);
                return true;
            }
            (Self::Tokens(_) | Self::Cubic(_) | Self::Fleet(_) | Self::Set(_), ..) => {
                *self = Self::of(to, now);
                return true;
            }
        }
        false
    }

    pub fn try_take(&mut self, cost: u32, now: Time) -> bool {
        match self {
            Self::Tokens(bucket) => bucket.try_take(cost, now).is_ok(),
            Self::Cubic(rate) => rate.acquire(now).is_ok(),
            Self::Fleet(share) => share.take(cost, now),
            Self::Set(_) => false, // asked in `weigh.rs`
        }
    }

    /// Time until `tokens` tokens will be available.
    pub fn wait_for(&mut self, tokens: u64, now: Time) -> Duration {
        match self {
            Self::Tokens(bucket) => bucket.wait_for(tokens, now),
            Self::Cubic(rate) => rate.wait_for(tokens, now),
            Self::Fleet(share) => share.wait_for(tokens, now),
            Self::Set(_) => Duration::MAX,
        }
    }
}

/// A bucket and its queue.
#[derive(Clone, Debug)]
pub(super) struct RateQueue {
    pub bucket: Bucket,
    pub waiting: List,
    /// Tokens that the waiters will take.
    queued: u64,
    /// Whether to wake each new head, because turns have changed since the calls queued.
    pub restless: bool,
}

impl RateQueue {
    pub fn new(bucket: Bucket) -> Self {
        Self { bucket, waiting: List::default(), queued: 0, restless: false }
    }

    pub fn forget_calls(&mut self) {
        *self = Self::new(self.bucket.clone());
        match &mut self.bucket {
            Bucket::Fleet(share) => share.forget(),
            Bucket::Set(limits) => limits.forget_waiters(),
            Bucket::Tokens(_) | Bucket::Cubic(_) => {}
        }
    }

    /// Debt of the rate limit. A send rate has none, because its rate is an estimate.
    pub fn debt(&mut self, now: Time) -> Debt {
        if let Bucket::Set(limits) = &mut self.bucket {
            return limits.debt(false, now);
        }
        self.limit_mut().map_or(Debt::NONE, |bucket| bucket.debt(now))
    }

    /// The debt, with the tokens that waiters will take.
    pub fn debt_with_waiters(&mut self, now: Time) -> Debt {
        if let Bucket::Set(limits) = &mut self.bucket {
            return limits.debt(true, now);
        }
        let queued = self.queued;
        self.limit_mut().map_or(Debt::NONE, |bucket| bucket.debt_with(queued, now))
    }

    /// Unit of the debt.
    pub fn unit(&self) -> Option<Unit> {
        match &self.bucket {
            Bucket::Tokens(bucket) => Some(Unit::Rate(bucket.settings())),
            Bucket::Cubic(_) => None,
            Bucket::Fleet(share) => Some(Unit::Rate(share.settings())),
            Bucket::Set(_) => Some(Unit::Rate(OF_SET)),
        }
    }

    /// Raises the debt to at least `debt`.
    pub fn owe(&mut self, debt: Debt, now: Time) {
        if let Bucket::Set(limits) = &mut self.bucket {
            if debt.is_owed(now) {
                limits.owe(debt, now);
            }
        } else if let Some(bucket) = self.limit_mut().filter(|_| debt.is_owed(now)) {
            bucket.owe(debt, now);
        }
    }

    /// The bucket that this process fills. For a rate of the fleet it is the own share, which applies while the store
    /// is lost.
    fn limit_mut(&mut self) -> Option<&mut TokenBucket> {
        match &mut self.bucket {
            Bucket::Tokens(bucket) => Some(bucket),
            Bucket::Cubic(_) | Bucket::Set(_) => None,
            Bucket::Fleet(share) => Some(share.local_mut()),
        }
    }

    /// The largest number of tokens the bucket can hold, if it is bounded.
    pub fn burst(&self) -> Option<u32> {
        match &self.bucket {
            Bucket::Tokens(bucket) => Some(bucket.settings().burst),
            Bucket::Cubic(_) | Bucket::Set(_) => None,
            Bucket::Fleet(share) => Some(share.settings().burst),
        }
    }

    /// The waiter that is next.
    pub fn head(&self) -> Option<Slot> {
        match &self.bucket {
            Bucket::Set(limits) if limits.order.is_some() => limits.next_in_order(),
            _ => self.waiting.head(),
        }
    }

    /// Appends a call to the waiters.
    pub fn enlist(&mut self, calls: &mut Arena, slot: Slot, cost: u64) {
        self.queued += cost;
        self.waiting.push(calls, slot);
    }

    /// Removes a call from the waiters.
    pub fn delist(&mut self, calls: &mut Arena, slot: Slot, cost: u64) {
        self.queued -= cost;
        self.waiting.remove(calls, slot);
    }

    /// Tokens that the waiters will take.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// Whether a call that does not queue may take `cost` tokens now.
    pub fn has(&mut self, cost: u32, now: Time) -> bool {
        // Of a rate of the fleet, only leased tokens are available; `turn` says when the store may have more.
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
    /// What a call takes of each limit.
    pub(super) fn costs(&self, slot: Slot, home: PoolAt) -> Costs {
        let Some(limits) = self.routes.limits(home) else { return [0; WEIGHTS] };
        let own = self.calls.weights(slot).filter(|(mark, _)| *mark == limits.mark);
        // A call that began before the policy had these limits has no weights.
        let amounts = own.map_or_else(
            || core::array::from_fn(|weight| limits.default_of(weight).unwrap_or(1)),
            |(_, amounts)| amounts,
        );
        limits.costs(self.calls[slot].cost(), &amounts)
    }

    /// Removes what a waiter will take from what is queued.
    #[cold]
    pub(super) fn delist_from_set(&mut self, slot: Slot, home: PoolAt) {
        if self.routes.limits(home).is_some() {
            let costs = self.costs(slot, home);
            if let Some(limits) = self.routes.limits_mut(home) {
                limits.delist(&costs);
                limits.leave_order(slot, &costs);
            }
        }
    }

    /// Marks that the turns of waiters have changed since they queued.
    pub(super) fn unsettle_heads(&mut self, route: RouteAt, sending: bool) {
        if let Some(queue) = self.routes.rate_queue_mut(route, sending) {
            queue.restless = true;
        }
    }

    /// Wakes a new head, if its turn may have changed since it queued.
    pub(super) fn settle_heads(&mut self, route: RouteAt, sending: bool) {
        let Some(queue) = self.routes.rate_queue_mut(route, sending) else { return };
        match queue.head() {
            None => queue.restless = false,
            Some(head)
                if queue.restless || sending || matches!(queue.bucket, Bucket::Fleet(_) | Bucket::Set(_)) =>
            {
                self.wakes.push(self.calls.id(head));
            }
            Some(_) => {}
        }
    }
}

impl Arena {
    pub(super) fn wait_for_rate(&self, slot: Slot, now: Time) -> Step {
        let call = &self[slot];
        wait(Wait::Rate, call.moment.min(call.deadline).min(now.after(MAX_PARK)), now)
    }
}

impl Routes {
    pub(super) fn limits_mut(&mut self, home: PoolAt) -> Option<&mut Limits> {
        let wall = self.wall;
        match self[home].rate.as_deref_mut().map(|queue| &mut queue.bucket) {
            Some(Bucket::Set(limits)) => {
                limits.see(wall);
                Some(limits)
            }
            _ => None,
        }
    }

    pub(super) fn limits(&self, home: PoolAt) -> Option<&Limits> {
        match self[home].rate.as_deref().map(|queue| &queue.bucket) {
            Some(Bucket::Set(limits)) => Some(limits),
            _ => None,
        }
    }

    /// Whether the rate limit of a route is a set.
    #[inline]
    pub(super) fn in_set(&self, route: RouteAt) -> bool {
        self.limits(self[route].rate_at).is_some()
    }

    /// Whether a new call may ask its rate without a further look: it costs no more than the rate can ever hold, and the
    /// rate is no set of limits, for which [`Desk::weigh`] decides.
    #[inline]
    pub(super) fn fits_rate(&self, cost: u32, home: PoolAt) -> bool {
        match self[home].rate.as_deref().map(|queue| &queue.bucket) {
            Some(Bucket::Tokens(bucket)) => cost <= bucket.settings().burst,
            Some(Bucket::Fleet(share)) => cost <= share.settings().burst,
            Some(Bucket::Set(_)) => false,
            Some(Bucket::Cubic(_)) | None => true,
        }
    }

    /// Whether a call costs more than its rate can ever hold.
    pub(super) fn is_above_burst(&self, cost: u32, home: PoolAt) -> bool {
        self[home].rate.as_deref().and_then(RateQueue::burst).is_some_and(|burst| cost > burst)
    }

    /// Whether the rate limit of a route is the fleet's.
    #[inline]
    pub(super) fn in_fleet(&self, route: RouteAt) -> bool {
        let home = self[route].rate_at;
        self[home].rate.as_deref().is_some_and(|queue| matches!(queue.bucket, Bucket::Fleet(_)))
    }
}
