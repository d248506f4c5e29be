//! Released permits are granted again in the same step (R2, R6).

use super::Engine;
use super::arena::flag;
use super::automaton::State;
use super::fleet::FleetDesk;
use super::place::{RouteAt, Slot};
use super::stage::missing;
use super::whole;
use crate::time::Time;

impl FleetDesk<'_> {
    /// Releases permits, and grants them again in the same step (R2, R6).
    #[cfg_attr(not(tidegate_small), inline(always))]
    pub(super) fn release(&mut self, route: RouteAt, permits: u32, now: Time) {
        let home = self.desk.routes[route].pool_at;
        let Some(pool) = &mut self.desk.routes[home].pool else { return missing("the pool of a permit") };
        let waiters = pool.release(permits);
        if self.desk.routes[home].slots.is_some() {
            self.slot_freed(home, now);
        } else if waiters > 0 {
            self.desk.hand_out(home, now);
        }
    }

    /// Removes a call that ends or is lost from its list; other calls may be next now.
    #[inline]
    pub(super) fn leave_queue(self, slot: Slot, now: Time) {
        if self.desk.calls[slot].listed() {
            self.leave_list(slot, now);
        }
    }

    #[inline(never)]
    fn leave_list(mut self, slot: Slot, now: Time) {
        let call = &self.desk.calls[slot];
        let (state, held, sending, route) =
            (call.state(), whole::is_held(call.state()), call.has(flag::SENDING), call.route);
        self.desk.unlist(slot);
        match state {
            State::Queued => {
                let home = self.desk.routes[route].pool_at;
                if let Some(pool) = &mut self.desk.routes[home].pool {
                    pool.emptied(now);
                }
                if self.desk.routes[home].slots.is_some() {
                    self.desk.wake_next(home, now);
                }
            }
            State::Paced => self.left_rate_queue(route, sending, now),
            _ if held && self.desk.calls.cools(slot) => self.desk.let_in(route, now),
            _ if held && self.desk.routes.aims(&self.desk.calls[slot]) => {
                self.desk.left_target_queue(route, now);
            }
            _ if held => {
                self.desk.let_through(route, self.desk.calls.gate_of(slot), now);
            }
            _ => {}
        }
    }
}

impl Engine {
    /// Frees the attempt slots of attempts of an ended call and releases their permits, and frees the call with the last of
    /// them.
    pub(super) fn free_ended(&mut self, slot: Slot, bits: u8, now: Time) {
        self.desk.calls.report_attempt_slots(slot, bits, &mut self.pending_release);
        if self.desk.calls[slot].attempt_slots == 0 {
            self.desk.calls.keep_permit(slot, &mut self.pending_release);
        }
        self.release_pending(now);
        self.settle(slot, now);
    }

    /// Releases the pending permits.
    #[inline]
    pub(super) fn release_pending(&mut self, now: Time) {
        if self.pending_release.due() > 0 {
            self.release_all_pending(now);
        }
    }

    #[inline(never)]
    fn release_all_pending(&mut self, now: Time) {
        if let Some((route, targets, count)) = self.pending_release.take_targets() {
            self.desk.release_targets(route, &targets[..usize::from(count)]);
        }
        let (route, permits) = self.pending_release.take();
        if permits > 0 {
            self.fleet_desk().release(route, permits, now);
        }
    }
}
