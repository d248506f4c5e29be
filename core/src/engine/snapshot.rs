//! What the engine looks like from outside, pulled when somebody asks; and its own books, checked.

use std::collections::BTreeMap;

use super::arena::{NONE, State, flag};
use super::{Counts, Engine};
use crate::retry::Budget;
use crate::time::Time;

/// The engine at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Calls that have begun and not ended.
    pub live: u32,
    /// Calls that have ended, while attempts or calls within them have not been reported.
    pub lingering: u32,
    /// Calls given up on whose host has not been told.
    pub lost: u32,
    /// Calls that wait in a queue, granted ones included.
    pub waiting: u32,
    /// Keys that had to share an `overflow` route so far.
    pub route_overflows: u64,
    /// Routes evicted so far.
    pub route_evictions: u64,
    /// By policy: its name and what has happened under it.
    pub policies: Vec<(String, Counts)>,
    /// By route.
    pub routes: Vec<RouteView>,
}

/// One route at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteView {
    /// The policy's name.
    pub policy: String,
    /// The route's key.
    pub key: String,
    /// Calls in it.
    pub active: u32,
    /// Retries its budget has left, if it has one.
    pub budget: Option<u64>,
    /// Its bulkhead, if it has one.
    pub pool: Option<PoolView>,
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

impl Engine {
    /// The state of everything. Changes nothing; costs one pass over calls and routes.
    pub fn snapshot(&self, now: Time) -> Snapshot {
        let now = self.clock.peek(now);
        let count = |wanted: &[State]| {
            self.calls.iter().filter(|(_, call)| wanted.contains(&call.state)).count() as u32
        };
        let (lingering, lost) = (count(&[State::Ended]), count(&[State::Lost]));
        let name = |policy: u16| self.policies[usize::from(policy)].policy.name().to_owned();
        Snapshot {
            live: self.calls.live() - lingering - lost,
            lingering,
            lost,
            waiting: count(&[State::Queued, State::Granted, State::Refused]),
            route_overflows: self.routes.overflows,
            route_evictions: self.routes.evictions,
            policies: self.counts(),
            routes: self
                .routes
                .iter()
                .map(|(_, route)| RouteView {
                    policy: name(route.policy),
                    key: route.key().to_owned(),
                    active: route.active,
                    budget: route.budget.clone().map(|mut budget| budget.balance(route.active, now)),
                    // A pool without a limit is what is left of a bulkhead that was taken away.
                    pool: route.pool.as_ref().filter(|pool| pool.limit != u32::MAX).map(|pool| PoolView {
                        limit: pool.limit,
                        in_flight: pool.in_flight,
                        waiting: pool.waiting.len(),
                        max_queue: pool.max_queue,
                    }),
                })
                .collect(),
        }
    }

    /// By policy: its name and what has happened under it, under old settings too.
    fn counts(&self) -> Vec<(String, Counts)> {
        let mut counts: BTreeMap<_, _> = (0..=u16::MAX)
            .zip(&self.policies)
            .filter(|(number, entry)| entry.of == *number)
            .map(|(number, entry)| (number, (entry.policy.name().to_owned(), Counts::default())))
            .collect();
        for entry in &self.policies {
            if let Some((_, sum)) = counts.get_mut(&entry.of) {
                sum.add(&entry.counts);
            }
        }
        counts.into_values().collect()
    }

    /// Checks the engine's own books: permits conserved (I1), capacity kept (I2), no admissible waiter left without a
    /// permit (I3), counts equal to what they count. For tests and fuzzing; it costs a pass per route.
    ///
    /// # Errors
    /// The first law that does not hold.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), String> {
        for (slot, route) in self.routes.iter() {
            let calls: Vec<_> =
                self.calls.iter().filter(|(_, call)| call.route == slot).map(|(_, call)| call).collect();
            let count = |state| calls.iter().filter(|call| call.state == state).count() as u32;
            if route.active != calls.len() as u32 {
                return Err(format!("route {slot}: active {} but {} calls", route.active, calls.len()));
            }
            let paid = calls.iter().filter(|call| call.charge != 0).count() as u32;
            if let Some(in_flight) = route.budget.as_ref().and_then(Budget::in_flight)
                && in_flight != paid
            {
                return Err(format!(
                    "route {slot}: {in_flight} retries in flight but {paid} calls have one (I10)"
                ));
            }
            let Some(pool) = &route.pool else { continue };
            let holding = calls.iter().filter(|call| call.has(flag::HOLDS)).count() as u32;
            if pool.in_flight != holding {
                return Err(format!("route {slot}: {} permits out but {holding} held (I1)", pool.in_flight));
            }
            // Work in flight is not evicted by a limit that shrinks; what is over it only ever falls.
            if pool.in_flight > pool.limit.saturating_add(pool.over) {
                return Err(format!("route {slot}: {} permits out of {} (I2)", pool.in_flight, pool.limit));
            }
            if pool.in_flight < pool.limit && pool.waiting.len() > 0 {
                return Err(format!("route {slot}: a permit is free while {} wait (I3)", pool.waiting.len()));
            }
            if (pool.waiting.len(), pool.granted.len()) != (count(State::Queued), count(State::Granted)) {
                return Err(format!("route {slot}: the lists do not hold the calls that wait"));
            }
        }
        for (slot, call) in self.calls.iter() {
            let children = self.calls.iter().filter(|(_, other)| other.parent == slot).count();
            if usize::from(call.children) != children {
                return Err(format!("call {slot}: {} nested calls noted, {children} there", call.children));
            }
            if call.parent != NONE && self.calls[call.parent].state == State::Free {
                return Err(format!("call {slot}: its parent is gone"));
            }
        }
        Ok(())
    }
}
