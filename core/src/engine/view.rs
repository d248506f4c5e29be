//! The engine as seen from outside, computed on demand (semantics 12; metrics and debugging).
//!
//! Views contain spans instead of moments, because the engine has a clock of its own.

use crate::engine::policies::Policies;
use std::collections::BTreeMap;

use super::limits::Limit;
use super::pages::SnapshotPages;
use super::pools::Pools;
use super::queue::Pool;
use super::rate_queue::{Bucket, RateQueue};
use super::route::{Route, Routes};
use super::targets::Skip;
use super::{Counts, Engine};
use crate::breaker::BreakerState;
use crate::cooldown::CooldownState;
use crate::policy::{Hedge, PoolKind};
use crate::time::{Duration, Time};

/// The engine at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// Calls that have begun and not ended.
    pub live: u32,
    /// Calls that have ended while attempts or nested calls have not been reported.
    pub lingering: u32,
    /// Abandoned calls whose host has not reported since.
    pub lost: u32,
    /// Waiting calls: held, waiting for tokens, or queued, including granted ones.
    pub waiting: u32,
    /// How often a key had to share an `overflow` route so far.
    pub route_overflows: u64,
    /// Routes evicted so far.
    pub route_evictions: u64,
    /// Number of paths so far that could not be named for holds, because calls went to 65,535 others.
    pub path_overflows: u64,
    /// Settlements so far that came after their attempts' end, or named no weight of theirs.
    pub late_settlements: u64,
    /// The fleet's store, if one is attached.
    pub store: Option<StoreView>,
    /// Name and counts of each policy.
    pub policies: Vec<(String, Counts)>,
    /// By route.
    pub routes: Vec<RouteView>,
    /// The pools that policies share, in the order of their names.
    pub pools: Vec<SharedView>,
    /// The targets of all groups, by the names of the groups, in the order of their members.
    pub targets: Vec<TargetView>,
}

/// One route at one moment. A component that the policy does not have is `None`. So is one in a shared pool; it is
/// among [`Snapshot::pools`].
#[derive(Clone, PartialEq, Debug)]
pub struct RouteView {
    /// Number of this state. Another state under the same name has another one, and its totals begin anew.
    pub life: u64,
    /// The policy's name.
    pub policy: String,
    /// The route's key; `overflow` for the route shared by keys without room of their own.
    pub key: String,
    /// Calls on the route.
    pub active: u32,
    /// Whether every call is refused, here or in the whole policy.
    pub forced: bool,
    /// Retries left in its budget.
    pub budget: Option<u64>,
    /// Its bulkhead.
    pub pool: Option<PoolView>,
    /// Its rate limit.
    pub rate: Option<RateView>,
    /// The limits of its rate limit, if that is a set.
    pub limits: Vec<LimitView>,
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
    /// Its cooldown.
    pub cooldown: Option<CooldownView>,
}

/// A pool that policies share, at one moment. It has one of the three components, according to its kind.
#[derive(Clone, PartialEq, Debug)]
pub struct SharedView {
    /// Number of this state. Another state under the same name has another one, and its totals begin anew.
    pub life: u64,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PoolKind,
    /// Its permits.
    pub pool: Option<PoolView>,
    /// Its tokens.
    pub rate: Option<RateView>,
    /// The limits of its rate limit, if that is a set.
    pub limits: Vec<LimitView>,
    /// Retries left.
    pub budget: Option<u64>,
}

/// A target at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct TargetView {
    /// Number of this state. Another state under the same name has another one, and its totals begin anew.
    pub life: u64,
    /// The name of its group.
    pub group: String,
    /// Its name.
    pub name: String,
    /// Whether an operator refuses every attempt at it.
    pub forced: bool,
    /// Attempts that have gone to it so far.
    pub attempts: u64,
    /// Choices so far in which it did not admit the attempt.
    pub skipped: u64,
    /// These by their reason, in the order of [`Skip::ALL`].
    pub skipped_by: [u64; Skip::ALL.len()],
    /// Attempts so far that failed at it, after which the next one went to another target at once.
    pub failovers: u64,
    /// Attempts that have not been reported.
    pub in_flight: u32,
    /// Moving average of the time to a delivery, once there is one.
    pub estimate: Option<Duration>,
    /// Its bulkhead.
    pub pool: Option<PoolView>,
    /// Its rate limit.
    pub rate: Option<RateView>,
    /// Its circuit breaker.
    pub breaker: Option<BreakerView>,
    /// Its cooldown.
    pub cooldown: Option<CooldownView>,
}

/// One limit of a set at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitView {
    /// Its name.
    pub name: String,
    /// The weight that it counts, if it does not count calls.
    pub weight: Option<String>,
    /// Whole tokens in it; negative while it is in debt. Of a limit of the fleet, the leased ones less those that the
    /// store has not counted.
    pub tokens: i64,
    /// The most tokens that it holds.
    pub burst: u64,
    /// Tokens that attempts have reserved so far.
    pub reserved: u64,
    /// Tokens that attempts have used so far, as far as they have ended.
    pub settled: u64,
    /// Tokens used beyond the largest debt so far, which nothing pays.
    pub forgiven: u64,
    /// Tokens that answers have taken away so far, because less was left of the service's own quota.
    pub learned: u64,
}

/// Source of a bulkhead's limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitKind {
    /// The policy sets it.
    Fixed,
    /// AIMD: keeps a given latency.
    Aimd,
    /// Gradient2: follows the latency's own gradient.
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
    /// Number of permits; the present value of an adaptive limit.
    pub limit: u32,
    /// Source of the limit.
    pub kind: LimitKind,
    /// Permits given out.
    pub in_flight: u32,
    /// Calls that wait for a permit.
    pub waiting: u32,
    /// Longest queue.
    pub max_queue: u32,
}

/// One rate limit at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateView {
    /// Whole tokens available; of a rate of the fleet, the leased ones.
    pub tokens: u32,
    /// Calls that wait for tokens.
    pub waiting: u32,
    /// Further state of a rate of the fleet.
    pub fleet: Option<FleetRateView>,
}

/// A process's part of a rate of the fleet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FleetRateView {
    /// Processes that share it, by the store's last answer.
    pub processes: u32,
}

/// The fleet's store, as the engine sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreView {
    /// Whether it can be reached.
    pub up: bool,
    /// Commands without an answer.
    pub commands: u32,
}

/// One send rate at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SendView {
    /// Allowed attempts per second; `None` before the first throttle, when there is no limit.
    pub rate: Option<f64>,
    /// Calls that wait for their turn.
    pub waiting: u32,
}

/// One circuit breaker at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BreakerView {
    /// Its state.
    pub state: BreakerState,
    /// Failures in its window.
    pub failures: u32,
    /// Results in its window, failures included.
    pub throughput: u32,
    /// While open: time until the break is over; zero if it is over, and the next call will be a probe.
    pub retry_in: Option<Duration>,
}

/// One adaptive throttle at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ThrottleView {
    /// Calls in its window, refused ones included.
    pub requests: u32,
    /// Calls that the downstream accepted.
    pub accepts: u32,
    /// The probability that a call is refused now, in \[0, 1\].
    pub probability: f64,
}

/// The hedges of a route at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HedgeView {
    /// How long an attempt may take before a hedge starts.
    pub delay: Duration,
    /// Hedges left in their own budget; `None` if they share the retries' budget or have none.
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

/// The cooldown of a route at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CooldownView {
    /// Its state.
    pub state: CooldownState,
    /// What is left of a closing.
    pub retry_in: Option<Duration>,
    /// Attempts that may run at once while it reopens.
    pub places: u32,
    /// Of these, places that are taken.
    pub taken: u32,
    /// Calls that wait for it.
    pub waiting: u32,
    /// Closings so far.
    pub closings: u64,
    /// How long it has been closed so far.
    pub closed: Duration,
}

impl Policies {
    pub(super) fn view(&self, life: u64, route: &Route, now: Time) -> RouteView {
        let policy = &self[usize::from(route.policy)].policy;
        RouteView {
            life,
            policy: policy.name().to_owned(),
            key: route.key().to_owned(),
            active: route.active,
            forced: route.is_forced(),
            budget: retries(route, now),
            pool: permits(route),
            rate: tokens(route, now),
            limits: limits(route, now),
            send: route.send.as_deref().and_then(sends),
            breaker: breaker(route, now),
            throttle: route.throttle.as_ref().map(|throttle| {
                let (requests, accepts) = throttle.counts(now);
                ThrottleView { requests, accepts, probability: throttle.peek(now) }
            }),
            hedge: policy.hedge.as_ref().and_then(|hedge| hedges(route, hedge, now)),
            hold: route
                .holds
                .as_ref()
                .map(|holds| HoldView { held: holds.waiting(), holds: holds.open_at(now) }),
            cooldown: cooldown(route, now),
        }
    }

    /// Name and counts of each policy; includes counts under old settings.
    pub(super) fn counts(&self) -> Vec<(String, Counts)> {
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
    /// The state of everything. Changes nothing; costs one pass over calls and routes. A host that shares the engine
    /// between threads takes it in pages: [`Engine::snapshot_page`].
    pub fn snapshot(&self, now: Time) -> Snapshot {
        let mut pages = SnapshotPages::default();
        while self.snapshot_page(&mut pages, now) {}
        pages.finish()
    }
}

impl Pools {
    /// The targets of all groups.
    pub(super) fn view_targets(&self, routes: &Routes, now: Time) -> Vec<TargetView> {
        let targets = self.targets(routes).map(|(group, member)| {
            let route = &routes[member.at];
            TargetView {
                life: routes.lasting_id(member.at).to_word(),
                group: group.to_owned(),
                name: String::from(&*member.name),
                forced: route.forced,
                attempts: member.attempts,
                skipped: member.skipped.iter().sum(),
                skipped_by: member.skipped,
                failovers: member.failovers,
                in_flight: member.in_flight,
                estimate: (member.estimate > 0).then(|| Duration::from_micros(member.estimate)),
                pool: permits(route),
                rate: tokens(route, now),
                breaker: breaker(route, now),
                cooldown: cooldown(route, now),
            }
        });
        targets.collect()
    }

    /// The pools that are no groups of targets.
    pub(super) fn view(&self, routes: &Routes, now: Time) -> Vec<SharedView> {
        let pools = self.iter().filter(|(_, shared)| shared.pool.group().is_none());
        let pools = pools.map(|(name, shared)| {
            let route = &routes[shared.at];
            let (pool, rate) = (permits(route), tokens(route, now));
            let (name, kind) = (name.clone(), shared.pool.kind());
            let life = routes.lasting_id(shared.at.route()).to_word();
            SharedView {
                life,
                name,
                kind,
                pool,
                rate,
                limits: limits(route, now),
                budget: retries(route, now),
            }
        });
        pools.collect()
    }
}

pub(super) fn retries(route: &Route, now: Time) -> Option<u64> {
    route.budget.clone().map(|mut budget| budget.balance(route.in_flight(), now))
}

/// The permits of a route. A pool without a limit remains from a bulkhead that was removed, and is left out.
pub(super) fn permits(route: &Route) -> Option<PoolView> {
    // A bulkhead of the fleet shows the fleet's limit; its permits are leased as needed.
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

pub(super) fn breaker(route: &Route, now: Time) -> Option<BreakerView> {
    route.breaker.as_ref().map(|breaker| BreakerView {
        state: breaker.state(now),
        failures: breaker.failures(now),
        throughput: breaker.throughput(now),
        retry_in: breaker.open_until().map(|until| until.since(now)),
    })
}

pub(super) fn tokens(route: &Route, now: Time) -> Option<RateView> {
    let queue = route.rate.as_ref()?;
    let (tokens, fleet) = match &queue.bucket {
        Bucket::Tokens(bucket) => (bucket.clone().level(now), None),
        Bucket::Fleet(share) => (share.tokens(now), Some(share.view())),
        Bucket::Set(limits) => {
            let fleet = limits.shared.as_ref().map(|share| FleetRateView { processes: share.processes() });
            (limits.least_level(now), fleet)
        }
        Bucket::Cubic(_) => return None,
    };
    Some(RateView { tokens, waiting: queue.waiting.len(), fleet })
}

fn cooldown(route: &Route, now: Time) -> Option<CooldownView> {
    let cooling = route.cooldown.as_ref()?;
    let (places, taken) = cooling.part.places();
    let (state, retry_in) = (cooling.part.state(now), cooling.part.closed_for(now));
    let (closings, closed) = (cooling.part.closings(), cooling.part.closed_time(now));
    Some(CooldownView { state, retry_in, places, taken, waiting: cooling.waiting(), closings, closed })
}

/// The limits of a route's set.
fn limits(route: &Route, now: Time) -> Vec<LimitView> {
    let Some(Bucket::Set(set)) = route.rate.as_deref().map(|queue| &queue.bucket) else { return Vec::new() };
    let view = |(at, limit): (usize, &Limit)| LimitView {
        name: String::from(&*limit.name),
        weight: limit.weight.map(|weight| String::from(&*set.weights[weight])),
        tokens: set.level(at, now),
        burst: limit.bucket.settings().burst,
        reserved: limit.reserved,
        settled: limit.settled,
        forgiven: limit.forgiven,
        learned: limit.learned,
    };
    set.list.iter().enumerate().map(view).collect()
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
