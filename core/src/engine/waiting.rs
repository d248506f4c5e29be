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
use crate::engine::arena::Arena;
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
        if self.calls[slot].has(flag::EXTRA) {
            self.calls.extra_mut(slot).moment = 0;
        }
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
        self.calls.set_again(slot, retry_in, now);
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

impl Arena {
    /// The answer to a waiter for tokens or for a target that has been refused or has what it waits for.
    pub(in crate::engine) fn decided(&self, slot: Slot, now: Time) -> Option<Answer> {
        let call = &self[slot];
        if call.state() == State::Refused {
            return Some(Answer::Refuse(call.refusal(), self.refused_for(slot, now)));
        }
        call.has(flag::TOKENS).then_some(Answer::Pass)
    }

    /// Notes when another try of a refused waiter makes sense, if that is known.
    pub(in crate::engine) fn set_again(&mut self, slot: Slot, retry_in: Option<Duration>, now: Time) {
        if let Some(retry_in) = retry_in {
            self.extra_mut(slot).moment = now.after(retry_in).as_micros();
        }
    }

    /// How long another try makes no sense for a refused waiter, if that is known.
    pub(in crate::engine) fn refused_for(&self, slot: Slot, now: Time) -> Option<Duration> {
        let again = Time::from_micros(self.extra(slot)?.moment);
        (again > now).then(|| again.since(now))
    }

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
