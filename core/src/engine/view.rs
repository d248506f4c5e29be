//! What the engine looks like from outside, pulled when somebody asks (semantics 12; metrics and debugging).
//!
//! Spans, not moments: the engine's time is its own.

use crate::engine::policies::Policies;
use std::collections::BTreeMap;

use super::pages::SnapshotPages;
use super::queue::Pool;
use super::rate_queue::{Bucket, RateQueue};
use super::route::Route;
use super::{Counts, Engine};
use crate::breaker::BreakerState;
use crate::policy::{Hedge, PoolKind};
use crate::time::{Duration, Time};

/// The engine at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// Calls that have begun and not ended.
    pub live: u32,
    /// Calls that have ended, while attempts or calls within them have not been reported.
    pub lingering: u32,
    /// Calls given up on whose host has not reported since.
    pub lost: u32,
    /// Calls that wait: held, for tokens, in a queue; granted ones included.
    pub waiting: u32,
    /// Keys that had to share an `overflow` route so far.
    pub route_overflows: u64,
    /// Routes evicted so far.
    pub route_evictions: u64,
    /// Paths that could not be named for holds so far, because calls went to 65,535 others.
    pub path_overflows: u64,
    /// The fleet's store, where one is attached.
    pub store: Option<StoreView>,
    /// By policy: its name and what has happened under it.
    pub policies: Vec<(String, Counts)>,
    /// By route.
    pub routes: Vec<RouteView>,
    /// By pool that policies share, in the order of their names.
    pub pools: Vec<SharedView>,
}

/// One route at one moment. A component that the policy does not have is `None`, and so is one that is in a shared
/// pool: that is among [`Snapshot::pools`].
#[derive(Clone, PartialEq, Debug)]
pub struct RouteView {
    /// The policy's name.
    pub policy: String,
    /// The route's key; `overflow` for the one that keys share for which there was no room.
    pub key: String,
    /// Calls in it.
    pub active: u32,
    /// Is every call refused, here or in the whole policy?
    pub forced: bool,
    /// Retries its budget has left.
    pub budget: Option<u64>,
    /// Its bulkhead.
    pub pool: Option<PoolView>,
    /// Its rate limit.
    pub rate: Option<RateView>,
    /// Its send rate.
    pub send: Option<SendView>,
    /// Its circuit breaker.
    pub breaker: Option<BreakerView>,
    /// Its adaptive throttle.
    pub throttle: Option<ThrottleView>,
    /// Its hedges.
    pub hedge: Option<HedgeView>,
    /// Its holds.
    pub hold: Option<HoldView>,
}

/// A pool that policies share, at one moment. Of the three components it has the one of its kind.
#[derive(Clone, PartialEq, Debug)]
pub struct SharedView {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: PoolKind,
    /// Its permits.
    pub pool: Option<PoolView>,
    /// Its tokens.
    pub rate: Option<RateView>,
    /// Retries it has left.
    pub budget: Option<u64>,
}

/// What sets the limit of a bulkhead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitKind {
    /// The policy.
    Fixed,
    /// A latency that must be kept.
    Aimd,
    /// The latency's own gradient.
    Gradient2,
}

impl LimitKind {
    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Aimd => "aimd",
            Self::Gradient2 => "gradient2",
        }
    }
}

/// One bulkhead at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolView {
    /// Permits there are; an adaptive limit's present value.
    pub limit: u32,
    /// What sets that.
    pub kind: LimitKind,
    /// Permits given out.
    pub in_flight: u32,
    /// Calls that wait for one.
    pub waiting: u32,
    /// Longest queue.
    pub max_queue: u32,
}

/// One rate limit at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateView {
    /// Whole tokens there are; of a rate of the fleet's, those leased.
    pub tokens: u32,
    /// Calls that wait for some.
    pub waiting: u32,
    /// What else is known of a rate of the fleet's.
    pub fleet: Option<FleetRateView>,
}

/// A process's part of a rate of the fleet's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FleetRateView {
    /// Processes that share it, as the store last said.
    pub processes: u32,
}

/// The fleet's store, as the engine sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreView {
    /// Is it there?
    pub up: bool,
    /// Commands out.
    pub commands: u32,
}

/// One send rate at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SendView {
    /// Attempts per second that are allowed; `None` before the first throttle: there is no limit.
    pub rate: Option<f64>,
    /// Calls that wait for their turn.
    pub waiting: u32,
}

/// One circuit breaker at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BreakerView {
    /// Where it stands.
    pub state: BreakerState,
    /// Failures in its window.
    pub failures: u32,
    /// Results in its window, failures included.
    pub throughput: u32,
    /// While open: how long until the break is over; zero where it is, and the next call will be a probe.
    pub retry_in: Option<Duration>,
}

/// One adaptive throttle at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ThrottleView {
    /// Calls in its window, refused ones included.
    pub requests: u32,
    /// Those that the downstream accepted.
    pub accepts: u32,
    /// The probability that a call is refused now, in \[0, 1\].
    pub probability: f64,
}

/// The hedges of a route at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HedgeView {
    /// How long an attempt may take before one is started beside it.
    pub delay: Duration,
    /// Hedges that their own budget has left; `None` where they share the retries' budget, or have none.
    pub budget: Option<u64>,
}

/// The holds of a route at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HoldView {
    /// Calls that are held.
    pub held: u32,
    /// Paths and prefixes that are held.
    pub holds: u32,
}

impl Policies {
    pub(super) fn view(&self, route: &Route, now: Time) -> RouteView {
        let policy = &self[usize::from(route.policy)].policy;
        RouteView {
            policy: policy.name().to_owned(),
            key: route.key().to_owned(),
            active: route.active,
            forced: route.is_forced(),
            budget: retries(route, now),
            pool: permits(route),
            rate: tokens(route, now),
            send: route.send.as_deref().and_then(sends),
            breaker: route.breaker.as_ref().map(|breaker| BreakerView {
                state: breaker.state(now),
                failures: breaker.failures(now),
                throughput: breaker.throughput(now),
                retry_in: breaker.open_until().map(|until| until.since(now)),
            }),
            throttle: route.throttle.as_ref().map(|throttle| {
                let (requests, accepts) = throttle.counts(now);
                ThrottleView { requests, accepts, probability: throttle.peek(now) }
            }),
            hedge: policy.hedge.as_ref().and_then(|hedge| hedges(route, hedge, now)),
            hold: route
                .holds
                .as_ref()
                .map(|holds| HoldView { held: holds.waiting(), holds: holds.open_at(now) }),
        }
    }

    /// By policy: its name and what has happened under it, under old settings too.
    fn counts(&self) -> Vec<(String, Counts)> {
        let mut counts: BTreeMap<_, _> = (0..=u16::MAX)
            .zip(self.iter())
            .filter(|(number, entry)| entry.of == *number && !entry.vacant)
            .map(|(number, entry)| (number, (entry.policy.name().to_owned(), Counts::default())))
            .collect();
        for entry in self.iter() {
            if let Some((_, sum)) = counts.get_mut(&entry.of) {
                sum.add(&entry.counts);
            }
        }
        counts.into_values().collect()
    }
}

impl Engine {
    /// The state of everything. Changes nothing; costs one pass over calls and routes. A host that shares the engine takes it
    /// in pages: [`Engine::snapshot_page`].
    pub fn snapshot(&self, now: Time) -> Snapshot {
        let mut pages = SnapshotPages::default();
        while self.snapshot_page(&mut pages, now) {}
        pages.finish()
    }

    /// What is neither a call nor a route.
    pub(super) fn view_rest(&self, view: &mut Snapshot, now: Time) {
        view.route_overflows = self.desk.routes.overflows;
        view.route_evictions = self.desk.routes.evictions;
        view.path_overflows = self.desk.targets.overflows;
        view.store = self.store.fleet.as_ref().map(|fleet| fleet.view());
        view.policies = self.desk.policies.counts();
        let pools = self.pools.iter().map(|(name, shared)| {
            let route = &self.desk.routes[shared.at];
            let (pool, rate) = (permits(route), tokens(route, now));
            let (name, kind) = (name.clone(), shared.pool.kind());
            SharedView { name, kind, pool, rate, budget: retries(route, now) }
        });
        view.pools = pools.collect();
    }
}

pub(super) fn retries(route: &Route, now: Time) -> Option<u64> {
    route.budget.clone().map(|mut budget| budget.balance(route.in_flight(), now))
}

/// A pool without a limit is what is left of a bulkhead that was taken away.
pub(super) fn permits(route: &Route) -> Option<PoolView> {
    // Of a bulkhead of the fleet's the limit is the fleet's; permits are leased as they are needed.
    let fleet = route.slots.as_ref().map(|slots| slots.limit);
    let view = |pool: &Pool| PoolView {
        limit: fleet.unwrap_or(pool.limit),
        kind: pool.limiter.kind(),
        in_flight: pool.in_flight,
        waiting: pool.waiters(),
        max_queue: pool.max_queue,
    };
    route.pool.as_ref().filter(|pool| pool.limit != u32::MAX).map(view)
}

pub(super) fn tokens(route: &Route, now: Time) -> Option<RateView> {
    let queue = route.rate.as_ref()?;
    let (tokens, fleet) = match &queue.bucket {
        Bucket::Tokens(bucket) => (bucket.clone().level(now), None),
        Bucket::Fleet(share) => (share.tokens(now), Some(share.view())),
        Bucket::Cubic(_) => return None,
    };
    Some(RateView { tokens, waiting: queue.waiting.len(), fleet })
}

fn sends(queue: &RateQueue) -> Option<SendView> {
    let Bucket::Cubic(rate) = &queue.bucket else { return None };
    Some(SendView { rate: rate.rate(), waiting: queue.waiting.len() })
}

fn hedges(route: &Route, settings: &Hedge, now: Time) -> Option<HedgeView> {
    let hedger = route.hedger.as_ref()?;
    let budget = hedger.budget.clone().map(|mut budget| budget.balance(route.active, now));
    Some(HedgeView { delay: hedger.delay(settings), budget })
}
