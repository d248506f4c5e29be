//! What a route looks like from outside, part by part.

use super::Engine;
use super::pace::{Bucket, Pace};
use super::queue::Pool;
use super::route::{Route, stage};
use crate::breaker::BreakerState;
use crate::policy::PoolKind;
use crate::time::{Duration, Time};

/// One route at one moment. What stands in a pool is seen there.
#[derive(Clone, PartialEq, Debug)]
pub struct RouteView {
    /// The policy's name.
    pub policy: String,
    /// The route's key.
    pub key: String,
    /// Calls in it.
    pub active: u32,
    /// Is every call refused, by an operator's word?
    pub forced: bool,
    /// Retries its budget has left, if it has one.
    pub budget: Option<u64>,
    /// Its bulkhead, if it has one.
    pub pool: Option<PoolView>,
    /// Its rate limit, if it has one.
    pub rate: Option<RateView>,
    /// Attempts per second that its send rate allows, once a throttle has cut it.
    pub send_rate: Option<f64>,
    /// Its breaker, if it has one.
    pub breaker: Option<BreakerView>,
    /// The probability that its throttle refuses a call, in \[0, 1\], if it has one.
    pub throttle: Option<f64>,
    /// The paths and prefixes that are held, and for how long.
    pub holds: Vec<(String, Duration)>,
    /// Calls that wait in holds.
    pub held: u32,
}

/// One pool of permits at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolView {
    /// Permits there are.
    pub limit: u32,
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
    /// Whole tokens that are there.
    pub tokens: u32,
    /// Calls that wait for some.
    pub waiting: u32,
}

/// One breaker at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BreakerView {
    /// Where it stands.
    pub state: BreakerState,
    /// How long until another try makes sense, where a call now would be refused.
    pub retry_in: Option<Duration>,
}

/// One shared pool at one moment: the part that its kind has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedView {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: PoolKind,
    /// Retries it has left, if it is a budget.
    pub budget: Option<u64>,
    /// Its permits, if it is a bulkhead.
    pub pool: Option<PoolView>,
    /// Its tokens, if it is a rate limit.
    pub rate: Option<RateView>,
}

impl Engine {
    pub(super) fn route_views(&self, now: Time) -> Vec<RouteView> {
        let routes = self.routes.iter().filter(|(_, route)| !route.is_pool());
        let view = |(_, route): (u32, &Route)| RouteView {
            policy: self.policies[usize::from(route.policy)].policy.name().to_owned(),
            key: route.key().to_owned(),
            active: route.active,
            forced: route.stages & stage::FORCED != 0,
            budget: balance(route, now),
            pool: route.pool.as_ref().and_then(permits),
            rate: route.rate.as_deref().and_then(|pace| tokens(pace, now)),
            send_rate: route.send.as_ref().and_then(|pace| match &pace.bucket {
                Bucket::Cubic(rate) => rate.rate(),
                Bucket::Tokens(_) => None,
            }),
            breaker: route
                .breaker
                .as_ref()
                .map(|breaker| BreakerView { state: breaker.state(now), retry_in: breaker.refuses(now) }),
            throttle: route.throttle.clone().map(|mut throttle| throttle.probability(now)),
            holds: route
                .holds
                .iter()
                .flat_map(|holds| holds.iter())
                .filter_map(|held| until(held, now))
                .collect(),
            held: route.holds.as_ref().map_or(0, |holds| holds.waiting()),
        };
        routes.map(view).collect()
    }

    pub(super) fn pool_views(&self, now: Time) -> Vec<SharedView> {
        let view = |(name, shared): (&String, &super::pools::Shared)| {
            let route = &self.routes[shared.at];
            SharedView {
                name: name.clone(),
                kind: shared.pool.kind(),
                budget: balance(route, now),
                pool: route.pool.as_ref().and_then(permits),
                rate: route.rate.as_deref().and_then(|pace| tokens(pace, now)),
            }
        };
        self.pools.iter().map(view).collect()
    }
}

fn balance(route: &Route, now: Time) -> Option<u64> {
    route.budget.clone().map(|mut budget| budget.balance(route.in_flight(), now))
}

/// A pool without a limit is what is left of a bulkhead that was taken away.
fn permits(pool: &Pool) -> Option<PoolView> {
    (pool.limit != u32::MAX).then(|| PoolView {
        limit: pool.limit,
        in_flight: pool.in_flight,
        waiting: pool.waiters(),
        max_queue: pool.max_queue,
    })
}

fn tokens(pace: &Pace, now: Time) -> Option<RateView> {
    match pace.bucket.clone() {
        Bucket::Tokens(mut bucket) => {
            Some(RateView { tokens: bucket.level(now), waiting: pace.waiting.len() })
        }
        Bucket::Cubic(_) => None,
    }
}

/// A hold whose moment has not come.
fn until((path, until): (&str, Time), now: Time) -> Option<(String, Duration)> {
    (until > now).then(|| (path.to_owned(), until.since(now)))
}
