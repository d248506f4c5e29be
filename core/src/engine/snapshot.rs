//! Consistency checks of the engine's own state.

use super::place::{PoolAt, RouteAt, Slot};
use crate::engine::desk::Desk;
use std::collections::BTreeMap;

use super::Engine;
use super::arena::{Arena, Call, flag};
use super::automaton::State;
use super::chores::Chore;
use super::fleet::Fleet;
use super::policies::Policies;
use super::route::{Route, Routes};
use crate::action::AttemptSlot;
use crate::policy::HedgeBudget;
use crate::retry::Budget;

impl Policies {
    /// Retries of a call that its retry budget has in flight.
    fn retries_paid(&self, calls: &Arena, slot: Slot) -> u32 {
        let call = &calls[slot];
        let hedge = self.of(call).hedge.as_ref();
        let shared = hedge.is_none_or(|hedge| hedge.budget == HedgeBudget::Shared);
        match calls.extra(slot) {
            Some(extra) if call.state() == State::Running && call.is_racing() => extra
                .running_attempts(call.since())
                .filter(|running_attempt| running_attempt.charge != 0 && (shared || !running_attempt.hedge))
                .count()
                as u32,
            _ => u32::from(call.charge != 0),
        }
    }
}

impl Policies {
    /// Hedges of a call that their own budget has in flight.
    fn hedges_paid(&self, calls: &Arena, slot: Slot) -> u32 {
        let call = &calls[slot];
        let racing = call.state() == State::Running && call.is_racing() && !self.shares_budget(call);
        let Some(extra) = calls.extra(slot).filter(|_| racing) else { return 0 };
        let paid = extra.running_attempts(call.since()).filter(|it| it.hedge && it.charge != 0);
        paid.count() as u32
    }

    /// Checks the retries and the hedges that a route's or a pool's budgets have in flight.
    fn check_budgets(
        &self,
        (calls, routes): (&Arena, &Routes),
        (slot, route): (RouteAt, &Route),
    ) -> Result<(), String> {
        let here = |(_, call): &(Slot, &Call)| call.route == slot;
        let paid = calls
            .iter()
            .filter(|(_, call)| routes[call.route].budget_at == slot.own())
            .map(|(slot, _)| self.retries_paid(calls, slot))
            .sum::<u32>();
        if let Some(in_flight) = route.budget.as_ref().and_then(Budget::in_flight)
            && in_flight != paid
        {
            return Err(format!(
                "route {slot}: {in_flight} retries in flight but {paid} calls have one (I10)"
            ));
        }
        let own = route.hedger.as_ref().and_then(|hedger| hedger.budget.as_ref());
        if let Some(in_flight) = own.and_then(Budget::in_flight)
            && route.changes == self[usize::from(route.policy)].changes.last
        {
            let there = calls.iter().filter(here);
            let paid: u32 = there.map(|(slot, _)| self.hedges_paid(calls, slot)).sum();
            if in_flight != paid {
                return Err(format!("route {slot}: {in_flight} hedges in flight but {paid} have paid"));
            }
        }
        Ok(())
    }
}

impl Engine {
    /// Checks the engine's own state: permits conserved (I1), capacity kept (I2), no admissible waiter left without a
    /// permit (I3), and all counters correct. For tests and fuzzing; it costs a pass per route.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), String> {
        for (slot, route) in self.desk.routes.iter() {
            self.desk.check_route(slot, route, self.store.fleet.as_deref())?;
            self.check_weights(slot)?;
        }
        self.pools.check(&self.desk.policies)?;
        self.desk.routes.check_number_of_pools()?;
        if self.pending_release.due() != 0 {
            return Err(format!("{} permits are owed between events", self.pending_release.due()));
        }
        let mut nested = BTreeMap::new();
        for (_, call) in self.desk.calls.iter() {
            *nested.entry(call.parent()).or_insert(0) += 1;
        }
        for (slot, call) in self.desk.calls.iter() {
            let children = nested.get(&slot).copied().unwrap_or(0);
            if usize::from(call.children) != children {
                return Err(format!("call {slot}: {} nested calls noted, {children} there", call.children));
            }
            if call.parent() != Slot::NONE && self.desk.calls[call.parent()].state() == State::Free {
                return Err(format!("call {slot}: its parent is gone"));
            }
            if call.state() == State::Passing {
                return Err(format!("call {slot}: passing for longer than a step"));
            }
            let beside = self.desk.calls.extra(slot);
            if call.state() == State::Running && call.is_racing() {
                let running_attempts: u8 = beside.map_or(0, |extra| {
                    extra.running_attempts(call.since()).fold(0, |attempt_slots, running_attempt| {
                        attempt_slots | AttemptSlot::of(running_attempt.attempt).bit()
                    })
                });
                if running_attempts != call.running() {
                    return Err(format!(
                        "call {slot}: lanes {:b} run, {running_attempts:b} race",
                        call.running()
                    ));
                }
            }
        }
        let calls = self.desk.calls.iter().map(|(slot, _)| slot);
        let weighed = calls.filter(|slot| self.desk.calls.weights(*slot).is_some());
        let sheets: usize =
            weighed.map(|slot| 1 + self.desk.calls.unsettled(slot).count_ones() as usize).sum();
        if self.desk.calls.sheets_in_use() != sheets {
            let used = self.desk.calls.sheets_in_use();
            return Err(format!("{used} blocks of weights in use, calls need {sheets}"));
        }
        let extras = self.desk.calls.iter().filter(|(_, call)| call.has(flag::EXTRA)).count();
        if extras != self.desk.calls.blocks() {
            return Err(format!(
                "{} blocks beside calls in use, {extras} calls have one",
                self.desk.calls.blocks()
            ));
        }
        Ok(())
    }
}

impl Desk {
    /// Checks a route, or a pool: its counters, and its lists of waiters.
    fn check_route(&self, slot: RouteAt, route: &Route, fleet: Option<&Fleet>) -> Result<(), String> {
        let here = |(_, call): &(Slot, &Call)| call.route == slot;
        let active = self.calls.iter().filter(here).count() as u32;
        if route.active != active {
            return Err(format!("route {slot}: active {} but {active} calls", route.active));
        }
        let of = |home: fn(&Route) -> PoolAt| {
            self.calls.iter().filter(move |(_, call)| home(&self.routes[call.route]) == slot.own())
        };
        self.policies.check_budgets((&self.calls, &self.routes), (slot, route))?;
        if let Some(rate) = &route.rate {
            let paced = of(|route| route.rate_at).filter(|(_, call)| {
                call.state() == State::Paced && call.listed() && !call.has(flag::SENDING)
            });
            let (count, cost) =
                paced.fold((0, 0), |(n, sum), (_, call)| (n + 1, sum + u64::from(call.cost())));
            if (rate.waiting.len(), rate.queued()) != (count, cost) {
                return Err(format!("route {slot}: the rate's queue does not hold the calls that wait"));
            }
        }
        if let Some(fleet) = fleet {
            fleet.check_share(&self.routes, slot.own())?;
        }
        if let Some(send) = &route.send {
            let sending =
                self.calls.iter().filter(here).filter(|(_, call)| {
                    call.state() == State::Paced && call.listed() && call.has(flag::SENDING)
                });
            let count = sending.count() as u32;
            if (send.waiting.len(), send.queued()) != (count, u64::from(count)) {
                return Err(format!("route {slot}: the send rate's queue does not hold the calls that wait"));
            }
        }
        if let Some(holds) = &route.holds {
            let held = self.calls.iter().filter(here).filter(|(slot, call)| {
                call.state() == State::Held
                    && call.listed()
                    && !self.calls.cools(*slot)
                    && !self.routes.aims(&self.calls[*slot])
            });
            let held = held.count() as u32;
            if (holds.waiting(), holds.listed()) != (held, held) {
                return Err(format!("route {slot}: the holds do not hold the {held} calls that wait"));
            }
        }
        if let Some(cooling) = &route.cooldown {
            let calls = self.calls.iter().filter(here);
            let listed = calls.filter(|(_, call)| call.state() == State::Held && call.listed());
            let cooling_down = listed.filter(|(slot, _)| self.calls.cools(*slot)).count() as u32;
            if cooling.waiting() != cooling_down {
                return Err(format!(
                    "route {slot}: the cooldown does not hold the {cooling_down} calls that wait"
                ));
            }
        }
        if let Some(fleet) = fleet {
            fleet.check_slots(&self.routes, slot.own())?;
        }
        self.routes.check_target_queue(slot.own(), &self.calls)?;
        for member in route.group.iter().flat_map(|group| group.members()) {
            let out = self.routes.attempts_at(member.at, &self.calls);
            if member.in_flight != out {
                return Err(format!("target {}: {} in flight but {out} out", member.name, member.in_flight));
            }
        }
        let Some(pool) = &route.pool else { return Ok(()) };
        let holding: u32 = of(|route| route.pool_at).map(|(slot, _)| self.calls.permits_of(slot)).sum();
        let holding = holding + if route.is_pool() { self.routes.attempts_at(slot, &self.calls) } else { 0 };
        if pool.in_flight != holding {
            return Err(format!("route {slot}: {} permits out but {holding} held (I1)", pool.in_flight));
        }
        // A shrinking limit does not interrupt running calls; the excess over it only ever falls.
        if pool.in_flight > pool.limit.saturating_add(pool.over) {
            return Err(format!("route {slot}: {} permits out of {} (I2)", pool.in_flight, pool.limit));
        }
        let left = self.chores.has(Chore::Permits(slot.own()));
        if pool.in_flight < pool.limit && pool.waiters() > 0 && !left {
            return Err(format!("route {slot}: a permit is free while {} wait (I3)", pool.waiters()));
        }
        let count =
            |state| of(|route| route.pool_at).filter(|(_, call)| call.state() == state).count() as u32;
        let lists = (pool.waiters(), pool.listed(), pool.granted.len());
        if lists != (count(State::Queued), count(State::Queued), count(State::Granted)) {
            return Err(format!("route {slot}: the lists do not hold the calls that wait"));
        }
        Ok(())
    }
}
