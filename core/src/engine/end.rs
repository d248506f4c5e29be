//! The end of a call: what it releases, and which attempts it stops (R1, R12).

use super::Engine;
use super::arena::flag;
use super::call::GRACE;
use super::call_extra::RunningAttempt;
use super::place::Slot;
use crate::action::{Action, AttemptSlot, Verdict};
use crate::outcome::{Class, Kind};
use crate::step::Step;
use crate::time::{Duration, Time};

impl Engine {
    /// Ends a call (R1) and stops its running attempts. An attempt that cannot be stopped keeps the permit until it
    /// is reported (R12).
    #[inline(never)]
    pub(super) fn end(
        &mut self,
        slot: Slot,
        verdict: Verdict,
        result: Option<AttemptSlot>,
        retry_in: Option<Duration>,
        now: Time,
    ) -> Step {
        self.finish(slot, verdict, result, retry_in, now)
    }

    /// The same, inlined for the one place where most calls end.
    #[cfg_attr(not(tidegate_small), inline(always))]
    pub(super) fn finish(
        &mut self,
        slot: Slot,
        verdict: Verdict,
        result: Option<AttemptSlot>,
        retry_in: Option<Duration>,
        now: Time,
    ) -> Step {
        let stop = if self.desk.calls[slot].is_plain() { 0 } else { self.give_all_back(slot, verdict, now) };
        self.desk.policies.count_end(self.desk.calls[slot].policy, verdict);
        self.desk.note_end(verdict, move |it| it.call_ended(slot, verdict, result, retry_in, now));
        self.release_pending(now);
        self.settle(slot, now);
        Step::new(Action::Done { verdict, result, retry_in }, None).stopping(stop)
    }

    /// Releases what an ending call holds: its place in a queue, its charge for a retry that will not start, and its
    /// ticket. Returns the attempts to stop.
    #[inline(never)]
    fn give_all_back(&mut self, slot: Slot, verdict: Verdict, now: Time) -> u8 {
        self.fleet_desk().leave_queue(slot, now);
        if self.desk.calls.has_more(slot) {
            self.desk.give_weights_back(slot, now);
            self.desk.give_target_back(slot, now);
        }
        let stop = self.forgo(slot, now);
        let call = &self.desk.calls[slot];
        if call.children > 0 {
            self.desk.calls.keep_permit(slot, &mut self.pending_release);
        } else if call.has(flag::HOLDS) && self.desk.policies.permits_attempts(call) {
            // The permit of an attempt that will not start does not wait for stopped ones to unwind.
            let call = &mut self.desk.calls[slot];
            call.flags &= !flag::HOLDS;
            self.pending_release.add(call.route, 1);
        }
        self.give_ticket_back(slot, now);
        self.desk.give_place_back(slot, verdict == Verdict::Ok, now);
        let call = &mut self.desk.calls[slot];
        call.moment = if call.attempt_slots == 0 { Time::NEVER } else { now.after(GRACE) };
        stop
    }

    /// Refuses a call, or its next attempt. A call with a failure ends with that failure.
    pub(super) fn refuse(
        &mut self,
        slot: Slot,
        verdict: Verdict,
        retry_in: Option<Duration>,
        now: Time,
    ) -> Step {
        self.desk.note(move |it| it.refused(slot, verdict, retry_in, now));
        let call = &self.desk.calls[slot];
        if call.attempts == 0 {
            self.desk.routes.refused_within(&mut self.desk.calls, slot);
            return self.end(slot, verdict, None, retry_in, now);
        }
        let verdict = match verdict {
            Verdict::DeadlineBefore | Verdict::DeadlineQueued | Verdict::Deadline => Verdict::Deadline,
            Verdict::Cancelled => verdict,
            _ => Verdict::Readmission,
        };
        let (kind, attempt_slot) = call.last_failure();
        self.call_over(slot, kind, self.desk.calls[slot].attempt_in(attempt_slot), None, now);
        self.end(slot, verdict, Some(attempt_slot), retry_in, now)
    }

    /// Ends a call with the successful answer of a stopped attempt that arrives before the next attempt has started,
    /// instead of asking for it again. The retry is refunded first, so the success counts as one at the first try.
    pub(super) fn late_answer(&mut self, slot: Slot, attempt: u8, now: Time) -> Step {
        let call = &self.desk.calls[slot];
        let running_attempt = RunningAttempt {
            attempt,
            since: call.since(),
            charge: 0,
            ticket: 0,
            hedge: false,
            permit: false,
        };
        let charged = self.desk.calls.charged_at(slot);
        self.desk.routes.refund(&mut self.desk.calls[slot], charged, now);
        self.desk.count_outcome(slot, &running_attempt, Class::Ok);
        self.call_over(slot, Class::Ok.into(), attempt, None, now);
        self.end(slot, Verdict::Ok, Some(AttemptSlot::of(attempt)), None, now)
    }

    /// Ends a call at its deadline while attempts run.
    pub(super) fn end_cut(
        &mut self,
        slot: Slot,
        kind: Kind,
        (since, attempt): (Time, u8),
        now: Time,
    ) -> Step {
        let stop = self.stop_attempts(slot, u8::MAX, true, now);
        self.call_over(slot, kind, attempt, Some(since), now);
        let step = self.end(slot, Verdict::Deadline, None, None, now);
        step.stopping(stop)
    }
}
