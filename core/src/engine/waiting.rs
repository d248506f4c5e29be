//! How a waiting call leaves its list: granted, refused, or by its own event.

use super::arena::flag;
use super::automaton::State;
use super::desk::Desk;
use super::place::Slot;
use super::rate_queue::Bucket;
use super::route::Routes;
use super::stage::{Answer, missing};
use super::whole;
use crate::action::{CallId, Verdict};
use crate::engine::arena::{Arena, Call};
use crate::time::{Duration, Time};

impl Desk {
    /// Removes a call from its list, and restores the moment that its links had overwritten.
    pub(super) fn unlist(&mut self, slot: Slot) {
        let call = &self.calls[slot];
        if !call.listed() {
            return;
        }
        let (home, held, aims) = (
            self.routes[call.route].pool_at,
            whole::is_held(call.state()),
            self.routes[call.route].targets_at.is_some(),
        );
        match (call.state(), &mut self.routes[home].pool) {
            (State::Queued, Some(pool)) => pool.remove(&mut self.calls, slot),
            (State::Granted, Some(pool)) => pool.granted.remove(&mut self.calls, slot),
            (State::Paced, _) => self.unlist_from_rate(slot),
            _ if held && self.calls.cools(slot) => self.routes.unlist_cooling(&mut self.calls, slot),
            _ if held && aims => self.routes.unlist_from_targets(&mut self.calls, slot),
            _ if held => self.routes.unlist_held(&mut self.calls, slot),
            _ => {}
        }
        self.calls.recall_charged(slot);
    }

    /// Refuses a waiting call; its owner gets the verdict with the next event.
    pub(super) fn turn_away(&mut self, slot: Slot, verdict: Verdict, now: Time) {
        self.calls[slot].turn_away(verdict, now);
        self.note(move |it| it.shed(slot, verdict, now));
        self.wakes.push(self.calls.id(slot));
    }

    /// Refuses a waiter. With its next event, its owner gets the verdict, and when another try makes sense.
    pub(in crate::engine) fn turn_away_from(
        &mut self,
        slot: Slot,
        verdict: Verdict,
        retry_in: Option<Duration>,
        now: Time,
    ) {
        self.unlist(slot);
        self.turn_away(slot, verdict, now);
        self.calls[slot].moment = now.after(retry_in.unwrap_or(Duration::ZERO));
    }

    fn unlist_from_rate(&mut self, slot: Slot) {
        let (route, sending) = (self.calls[slot].route, self.calls[slot].has(flag::SENDING));
        let cost = u64::from(self.calls.tokens_of(slot, sending));
        let Some(queue) = self.routes.rate_queue_mut(route, sending) else {
            return missing("the rate of a waiter");
        };
        queue.delist(&mut self.calls, slot, cost);
        if matches!(queue.bucket, Bucket::Set(_)) {
            self.delist_from_set(slot, self.routes[route].rate_at);
        }
    }
}

impl Routes {
    fn unlist_cooling(&mut self, calls: &mut Arena, slot: Slot) {
        let route = calls[slot].route;
        match &mut self[route].cooldown {
            Some(cooling) => cooling.delist(calls, slot),
            None => missing("the cooldown of a waiter"),
        }
    }

    fn unlist_from_targets(&mut self, calls: &mut Arena, slot: Slot) {
        let home = self[calls[slot].route].targets_at.map(|at| *at);
        match home.and_then(|home| self[home].group.as_mut()) {
            Some(group) => group.waiting.remove(calls, slot),
            None => missing("the group of a waiter"),
        }
    }

    fn unlist_held(&mut self, calls: &mut Arena, slot: Slot) {
        let route = calls[slot].route;
        let number = calls.gate_of(slot);
        match &mut self[route].holds {
            Some(holds) => holds.delist(calls, slot, number),
            None => missing("the hold of a waiter"),
        }
    }
}

impl Call {
    /// The answer to a waiter for tokens or for a target that has been refused or has what it waits for.
    pub(in crate::engine) fn decided(&self, now: Time) -> Option<Answer> {
        if self.state() == State::Refused {
            return Some(Answer::Refuse(self.refusal(), self.refused_for(now)));
        }
        self.has(flag::TOKENS).then_some(Answer::Pass)
    }
}

impl Arena {
    /// Takes back the wake of a waiter whose own event is being processed.
    #[inline]
    pub(in crate::engine) fn forget_wake(&self, slot: Slot, wakes: &mut Vec<CallId>) {
        let own = self.id(slot);
        wakes.retain(|woken| *woken != own);
    }

    /// Tokens that a call takes from its rate limit, or from its send rate.
    pub(super) fn tokens_of(&self, slot: Slot, sending: bool) -> u32 {
        if sending { 1 } else { self[slot].cost() }
    }
}
