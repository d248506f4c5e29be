//! Attempts that are stopped, and a retry that will not start.

use super::Engine;
use super::arena::flag;
use super::automaton::State;
use super::place::Slot;
use crate::action::Lane;
use crate::outcome::{Class, Kind};
use crate::time::Time;

impl Engine {
    /// A call ends or is lost: a retry that has not started is refunded, attempts that run are in flight no more. What
    /// is to be stopped.
    #[inline]
    pub(super) fn forgo(&mut self, slot: Slot, now: Time) -> u8 {
        let call = &self.desk.calls[slot];
        if call.between_attempts() {
            self.desk.refund(slot, now);
        }
        let call = &self.desk.calls[slot];
        if call.lanes == 0 {
            return 0;
        }
        self.stop_lanes(slot, u8::MAX, false, now)
    }

    /// Stops the attempts that run in these lanes: losers of a race, or all of a call that ends. What stopped them is
    /// known only where `cut` says that it was the deadline.
    #[inline(never)]
    pub(super) fn stop_lanes(&mut self, slot: Slot, lanes: u8, cut: bool, now: Time) -> u8 {
        let stop = self.desk.calls[slot].running() & lanes;
        for number in (0..8).filter(|number| stop >> number & 1 != 0) {
            let lane = Lane::of(number + 1);
            let attempt = self.desk.calls[slot].attempt_in(lane);
            if self.desk.calls[slot].state() == State::Running {
                let racer = self.desk.take_racer(slot, attempt);
                let kind = if cut {
                    self.desk.policies.deadline_kind(&self.desk.calls[slot], racer.since, now)
                } else {
                    Kind::CANCELLED
                };
                self.attempt_over(slot, &racer, Class::Cancelled, kind, now);
                self.desk.drop_attempt_ticket(slot);
                self.desk.calls[slot].charge = 0;
            }
            self.desk.calls[slot].stopped |= lane.bit();
        }
        if self.desk.calls[slot].has(flag::ABORTABLE) {
            let out = self.desk.calls[slot].lanes & lanes;
            self.desk.calls.report_lane(slot, out, &mut self.pending_release);
        }
        stop
    }
}
