//! How a call keeps or loses its place: nesting, lingering, and the reaper (R9).
//!
//! A permit is a lease whenever core knows its end. A host that has not reported for 60 s beyond that end loses the
//! call; its next event gets the verdict `lost`.

use super::Engine;
use super::arena::flag;
use super::automaton::State;
use super::call::GRACE;
use super::call_extra::{SOLO, STREAM, mark};
use super::chores::Chore;
use super::desk::Desk;
use super::place::Slot;
use crate::action::{CallId, PathId, Request, Verdict};
use crate::time::{Duration, Time};

/// Slots that each `begin`, and each check of a waiter, examines.
const EXAMINED: u32 = 2;

impl Desk {
    /// Notes what few requests say: the call around it, its path, and how its attempts and answers may go.
    #[inline(never)]
    pub(super) fn note_request(&mut self, slot: Slot, request: &Request, enclosing: Option<CallId>) {
        if let Some(parent) = enclosing {
            self.nest(slot, parent);
        }
        if request.path != PathId::NONE && self.routes[self.calls[slot].route].holds.is_some() {
            let number = self.paths.enter(request.path);
            self.calls.extra_mut(slot).path = number;
        }
        let policy = self.policies.of(&self.calls[slot]);
        let solo = request.solo && policy.hedge.is_some();
        let bounded = policy.stream.as_ref().is_some_and(|it| it.first_byte != Duration::MAX);
        let says = if solo { SOLO } else { 0 } | if request.stream && bounded { STREAM } else { 0 };
        if says != 0 {
            self.calls.extra_mut(slot).says = says;
        }
    }

    /// Nests a new call in `parent`, if that has not ended: the calls share a permit, retries do not multiply, and
    /// the parent's deadline applies.
    pub(super) fn nest(&mut self, slot: Slot, parent: CallId) {
        let Some(parent) = self.calls.find(parent).filter(|parent| *parent != slot) else { return };
        if self.calls.marked(parent, mark::INNER) {
            self.calls.extra_mut(parent).says &= !mark::INNER;
        }
        let around = &mut self.calls[parent];
        if matches!(around.state(), State::Ended | State::Lost) {
            return;
        }
        let retries = self.policies[usize::from(around.policy)].policy.retry.max_attempts > 1;
        let nested = if retries || around.has(flag::NESTED) { flag::NESTED } else { 0 };
        // Beyond 65,535 nested calls at once, further ones ask for permits of their own.
        let adopted = around.children.checked_add(1);
        around.children = adopted.unwrap_or(around.children);
        let (deadline, route) = (around.deadline, around.route);
        let call = &mut self.calls[slot];
        call.flags |= nested;
        call.deadline = call.deadline.min(deadline); // the earlier wins (semantics 7.3)
        if adopted.is_some() {
            let pooled = self.routes[self.routes[route].pool_at].pool.is_some();
            self.calls.nest(slot, parent, pooled);
        }
    }
}

impl Engine {
    /// Frees a call that has ended, or lets it linger while attempts or nested calls are running. The permit is
    /// released with the call, so no work that started under a permit runs without one.
    #[cfg_attr(not(tidegate_small), inline(always))]
    pub(super) fn settle(&mut self, slot: Slot, now: Time) {
        let mut slot = slot;
        loop {
            let call = &mut self.desk.calls[slot];
            if call.attempt_slots != 0 || call.children != 0 {
                call.linger();
                return;
            }
            let (route, parent, holds) = (call.route, call.parent(), call.has(flag::HOLDS));
            call.leave();
            if let Some(extra) = self.desk.calls.extra(slot) {
                self.desk.paths.leave(extra.path);
            }
            self.desk.calls.remove(slot);
            if holds {
                self.fleet_desk().release(route, 1, now);
            }
            self.desk.routes.leave(route, now);
            if parent == Slot::NONE {
                return;
            }
            self.desk.calls[parent].children -= 1;
            let around = &self.desk.calls[parent];
            if around.state() != State::Ended || around.attempt_slots != 0 || around.children != 0 {
                return;
            }
            if !self.desk.chores.one_more(Chore::Ended(parent)) {
                return;
            }
            slot = parent;
        }
    }

    /// Abandons a call whose host is overdue: releases everything it holds, and answers its next event with `Lost`.
    pub(super) fn lose(&mut self, slot: Slot, now: Time) {
        self.desk.note(move |it| it.reclaimed(slot, now));
        let of_event = core::mem::take(&mut self.pending_release);
        self.fleet_desk().leave_queue(slot, now);
        let permits = self.desk.calls.permits_of(slot);
        self.forgo(slot, now);
        self.desk.settle_given_up(slot, u8::MAX, now);
        self.desk.give_weights_back(slot, now);
        self.desk.give_target_back(slot, now);
        self.give_ticket_back(slot, now);
        self.desk.give_place_back(slot, false, now);
        self.desk.policies.count_end(self.desk.calls[slot].policy, Verdict::Lost);
        self.desk.note(move |it| it.call_ended(slot, Verdict::Lost, None, None, now));
        if self.desk.calls[slot].has(flag::EXTRA) {
            self.desk.calls.extra_mut(slot).extra_permits = 0;
            self.desk.calls.report_targets(slot, u8::MAX, &mut self.pending_release);
        }
        let call = &mut self.desk.calls[slot];
        let route = call.route;
        call.flags &= !(flag::HOLDS | flag::SHARES | flag::PER_ATTEMPT | flag::RACING);
        (call.attempt_slots, call.stopped) = (0, 0);
        call.lose(now.after(GRACE));
        let targets = self.pending_release.take_targets();
        self.pending_release = of_event; // permits of the call whose event this is
        if let Some((_, targets, count)) = targets {
            self.desk.release_targets(route, &targets[..usize::from(count)]);
        }
        if permits > 0 {
            self.fleet_desk().release(route, permits, now);
        }
    }

    /// Abandons the stopped attempts of a call, which its host has not reported for 60 s.
    pub(super) fn give_up_attempts(&mut self, slot: Slot, now: Time) {
        self.desk.note(move |it| it.reclaimed(slot, now));
        self.desk.settle_given_up(slot, u8::MAX, now);
        self.desk.calls.report_attempt_slots(slot, u8::MAX, &mut self.pending_release);
        self.release_pending(now);
    }

    /// Examines the next slots for expired leases; skips `but`, whose own event this is.
    #[cfg_attr(not(tidegate_small), inline(always))]
    pub(super) fn reap(&mut self, now: Time, but: Slot) {
        for _ in 0..EXAMINED {
            let Some(slot) = self.desk.calls.next_to_reap() else { return };
            if slot != but && self.desk.calls[slot].state() != State::Free {
                self.examine(slot, now);
            }
        }
    }

    #[inline(never)]
    fn examine(&mut self, slot: Slot, now: Time) {
        let call = &self.desk.calls[slot];
        let over = |moment: Time| moment != Time::NEVER && moment <= now;
        let overdue = |moment: Time| moment != Time::NEVER && over(moment.after(GRACE));
        match call.state() {
            State::Granted if over(call.moment) => self.lose(slot, now),
            State::Held if self.desk.calls.has_target(slot) && over(call.moment) => self.lose(slot, now),
            State::Queued if overdue(self.desk.patience(slot)) => self.lose(slot, now),
            State::Running
                if overdue(self.desk.policies.first_end(&self.desk.calls, slot).min(call.deadline)) =>
            {
                self.lose(slot, now);
            }
            State::Body if overdue(call.deadline) => self.lose(slot, now),
            // The host's timer is set to the time at which stopped attempts are abandoned (R11), not to the delay's
            // end.
            State::Backoff if call.blocked() && !overdue(call.since().after(GRACE)) => {}
            State::Held | State::Paced | State::Backoff | State::Refused if overdue(call.moment) => {
                self.lose(slot, now);
            }
            State::Ended if call.attempt_slots != 0 && over(call.moment) => {
                self.desk.note(move |it| it.reclaimed(slot, now));
                self.desk.settle_given_up(slot, u8::MAX, now);
                self.free_ended(slot, u8::MAX, now);
            }
            State::Lost if call.children == 0 && over(call.moment) => self.settle(slot, now),
            _ => {}
        }
    }
}
