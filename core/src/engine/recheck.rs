//! The last look at a cooldown before an attempt: a call that must wait gives back what it has for that attempt
//! (semantics 16.4).

use super::Engine;
use super::arena::flag;
use super::call_extra::mark;
use super::place::Slot;
use super::route::Route;
use super::stage::Answer;
use crate::policy::Unit;
use crate::time::Time;

impl Route {
    /// Whether its cooldown and its send rate allow a hedge now. A hedge waits for neither.
    #[cold]
    #[inline(never)]
    pub(super) fn last_stage_allows_hedge(&mut self, now: Time) -> bool {
        let closed = self.cooldown.as_ref().is_some_and(|it| !it.part.is_open());
        !closed && self.send.as_mut().is_none_or(|send| send.has(1, now))
    }
}

impl Engine {
    /// Asks the cooldown again just before an attempt. A call that must wait gives back its ticket and its permit.
    #[inline(never)]
    pub(super) fn ask_cooldown_again(&mut self, slot: Slot, now: Time) -> Answer {
        let route = self.desk.calls[slot].route;
        match &self.desk.routes[route].cooldown {
            Some(cooling) if !cooling.part.is_open() => {}
            _ => return Answer::Pass,
        }
        let Err(span) = self.desk.routes.enter_cooldown(&mut self.desk.calls, slot, true, now) else {
            return Answer::Pass;
        };
        self.desk.free_cooldown_place(slot, now);
        let call = &self.desk.calls[slot];
        if call.attempts == 0 || self.desk.policies.guards_attempts(call.policy) {
            self.give_ticket_back(slot, now);
        }
        let call = &self.desk.calls[slot];
        let bulkhead = self.desk.policies.of(call).bulkhead.as_ref();
        let by_attempt = bulkhead.is_some_and(|bulkhead| bulkhead.unit == Unit::Attempt);
        if call.has(flag::HOLDS) && (call.attempts == 0 || by_attempt) {
            self.desk.calls[slot].flags &= !flag::HOLDS;
            self.fleet_desk().release(route, 1, now);
        }
        let answer = self.desk.wait_in_cooldown(slot, span, true, now);
        if let Answer::Wait(_) = answer {
            self.desk.calls.extra_mut(slot).says |= mark::TOKENS;
        }
        answer
    }
}
