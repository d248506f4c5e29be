//! The bulkhead's stage, for permits that are slots of the fleet.

use crate::action::{Verdict, Wait};
use crate::engine::arena::flag;
use crate::engine::automaton::State;
use crate::engine::fleet::FleetDesk;
use crate::engine::fleet::command::Part;
use crate::engine::place::{PoolAt, Slot};
use crate::engine::queue::Permit;
use crate::engine::stage::Answer;
use crate::time::Time;

impl FleetDesk<'_> {
    /// Asks for a permit of a bulkhead of the fleet.
    pub(in crate::engine) fn acquire_in_fleet(
        &mut self,
        slot: Slot,
        home: PoolAt,
        now: Time,
    ) -> Result<Permit, Verdict> {
        let within = self.desk.policies.of(&self.desk.calls[slot]).store_timeout;
        if let Some(slots) = &mut self.desk.routes[home].slots {
            slots.within = within;
        }
        self.watch_store(now);
        self.keep_slots(home, now);
        if !self.store.is_up(&self.desk.routes, home, Part::Slots) {
            self.sender().ask_slots(home, now); // if a probe is due, this is it
            return self.permit_without_store(slot, home, now);
        }
        let Some(pool) = &mut self.desk.routes[home].pool else {
            debug_assert!(false, "the permits of a stage are missing");
            return Err(Verdict::QueueFull); // a broken invariant must not switch a limit off
        };
        let call = &mut self.desk.calls[slot];
        if pool.admits() {
            pool.in_flight += 1;
            call.flags |= flag::HOLDS;
            return Ok(Permit::Held);
        }
        if !call.has(flag::MAY_PARK) {
            return Err(Verdict::StoreUnavailable); // it cannot wait for the store's answer
        }
        let full = pool.waiters() > 0 && pool.waiters() >= pool.max_queue;
        let asking = self.desk.routes[home].slots.as_ref().is_some_and(|slots| slots.asking);
        if full && !asking {
            // The store has refused, and the queue will ask again by itself.
            return self.desk.acquire_or_queue(slot, home, now);
        }
        self.desk.join_queue(slot, home, Wait::Store, now)?;
        let first = self.desk.routes[home].pool.as_ref().is_some_and(|pool| pool.waiters() == 1);
        if let Some(slots) = self.desk.routes[home].slots.as_mut().filter(|_| first) {
            slots.again_at = None;
        }
        self.sender().ask_slots(home, now);
        Ok(Permit::Awaited)
    }

    /// Checks a waiter for a slot of the fleet. Passes it if it has been granted a permit, which it must claim.
    pub(in crate::engine) fn still_for_slot(&mut self, slot: Slot, now: Time) -> Answer {
        let home = self.desk.routes[self.desk.calls[slot].route].pool_at;
        self.watch_store(now);
        self.keep_slots(home, now);
        let due =
            self.desk.routes[home].slots.as_ref().is_some_and(|it| it.again_at.is_none_or(|at| at <= now));
        if due || !self.store.is_up(&self.desk.routes, home, Part::Slots) {
            self.sender().ask_slots(home, now);
        }
        self.desk.calls.forget_wake(slot, &mut self.desk.wakes);
        let call = &self.desk.calls[slot];
        match call.state() {
            State::Refused => Answer::Refuse(call.refusal(), self.desk.calls.refused_for(slot, now)),
            State::Granted => Answer::Pass,
            _ => Answer::Wait(self.wait_for_slot(slot, now)),
        }
    }

    /// Handles a released permit: grants it to the next local waiter, else returns its slot to the fleet.
    #[inline(never)]
    pub(in crate::engine) fn slot_freed(&mut self, home: PoolAt, now: Time) {
        self.watch_store(now);
        self.keep_slots(home, now);
        self.fit_slots(home, now);
        self.desk.wake_next(home, now); // a new head needs the time of the next request
    }
}
