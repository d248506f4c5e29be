//! Stopping attempts, and cancelling a retry that will not start.

use super::Engine;
use super::arena::flag;
use super::automaton::State;
use super::place::Slot;
use crate::action::AttemptSlot;
use crate::outcome::{Class, Kind};
use crate::time::Time;

impl Engine {
    /// Prepares the end or the loss of a call: refunds a retry that has not started, and stops running attempts.
    /// Returns the attempts to stop.
    #[inline]
    pub(super) fn forgo(&mut self, slot: Slot, now: Time) -> u8 {
        let call = &self.desk.calls[slot];
        if call.between_attempts() {
            let charged = call.since();
            self.desk.routes.refund(&mut self.desk.calls[slot], charged, now);
        }
        let call = &self.desk.calls[slot];
        if call.attempt_slots == 0 {
            return 0;
        }
        self.stop_attempts(slot, u8::MAX, false, now)
    }

    /// Stops the running attempts in these attempt slots: losers of a race, or all attempts of a call that ends. With
    /// `by_deadline` the deadline stopped them; otherwise the cause is unknown.
    #[inline(never)]
    pub(super) fn stop_attempts(
        &mut self,
        slot: Slot,
        attempt_slots: u8,
        by_deadline: bool,
        now: Time,
    ) -> u8 {
        let stop = self.desk.calls[slot].running() & attempt_slots;
        for number in (0..8).filter(|number| stop >> number & 1 != 0) {
            let attempt_slot = AttemptSlot::of(number + 1);
            let attempt = self.desk.calls[slot].attempt_in(attempt_slot);
            if self.desk.calls[slot].state() == State::Running {
                let running_attempt = self.desk.take_running_attempt(slot, attempt);
                let kind = if by_deadline {
                    self.desk.policies.deadline_kind(
                        &self.desk.calls,
                        slot,
                        (running_attempt.since, attempt),
                        now,
                    )
                } else {
                    Kind::CANCELLED
                };
                self.attempt_over(slot, &running_attempt, Class::Cancelled, kind, now);
                self.desk.policies.drop_attempt_ticket(&mut self.desk.calls[slot]);
                self.desk.calls[slot].charge = 0;
            }
            self.desk.calls[slot].stopped |= attempt_slot.bit();
        }
        if self.desk.calls[slot].has(flag::ABORTABLE) {
            let out = self.desk.calls[slot].attempt_slots & attempt_slots;
            self.desk.calls.report_attempt_slots(slot, out, &mut self.pending_release);
            self.desk.settle_given_up(slot, out, now);
        }
        stop
    }
}
