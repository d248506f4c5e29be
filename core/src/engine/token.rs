//! Tokens for calls: the rate limit, and the send rate (semantics 3 and 2.14). `fleet/rate` handles rates of the
//! fleet.

use super::arena::flag;
use super::chores::Chore;
use super::place::{RouteAt, Slot};
use super::rate_queue::{Bucket, MOST_SENDERS};
use super::stage::Answer;
use crate::action::{Verdict, Wait};
use crate::engine::desk::Desk;
use crate::engine::fleet::FleetDesk;
use crate::step::Step;
use crate::time::{Duration, Time};

impl Desk {
    /// Gives tokens to waiters from the head on, as far as they last. Returns true if there is a new head.
    fn hand_out_tokens(&mut self, route: RouteAt, sending: bool, now: Time) -> bool {
        let mut moved = false;
        while let Some(slot) =
            self.routes.rate_queue_mut(route, sending).and_then(|queue| queue.waiting.head())
        {
            if !self.chores.one_more(Chore::Tokens(route, sending)) {
                self.wakes.push(self.calls.id(slot)); // its next event resumes this loop
                return true;
            }
            if self.calls[slot].deadline <= now {
                self.unlist(slot); // a waiter whose deadline has passed is failed, not granted
                self.turn_away(slot, Verdict::DeadlineQueued, now);
                if let Some(queue) = self.routes.rate_queue_mut(route, sending) {
                    queue.restless = true;
                }
                moved = true;
                continue;
            }
            let cost = self.calls.tokens_of(slot, sending);
            if !self
                .routes
                .rate_queue_mut(route, sending)
                .is_some_and(|queue| queue.bucket.try_take(cost, now))
            {
                break;
            }
            self.unlist(slot);
            self.calls[slot].flags |= flag::TOKENS;
            self.note_course(move |it| it.granted(slot, Wait::Rate, None, now));
            self.wakes.push(self.calls.id(slot));
            moved = true;
        }
        if moved {
            self.settle_heads(route, sending);
        }
        moved
    }

    /// Checks a waiter: `None` when it has its tokens.
    pub(super) fn still_in_rate_queue(&mut self, slot: Slot, now: Time) -> Option<Step> {
        let (route, sending) = (self.calls[slot].route, self.calls[slot].has(flag::SENDING));
        if !self.calls[slot].has(flag::TOKENS) {
            self.hand_out_tokens(route, sending, now);
            self.calls.forget_wake(slot, &mut self.wakes);
        }
        if self.calls[slot].has(flag::TOKENS) {
            return None;
        }
        let (cost, past) = (self.calls.tokens_of(slot, sending), self.calls[slot].moment <= now);
        if let Some(queue) = self.routes.rate_queue_mut(route, sending) {
            let turn = if queue.waiting.head() == Some(slot) {
                Some(queue.bucket.wait_for(u64::from(cost), now))
            } else {
                past.then(|| queue.bucket.wait_for(queue.queued(), now))
            };
            if let Some(turn) = turn {
                self.calls[slot].moment = now.after(turn);
            }
        }
        Some(self.calls.wait_for_rate(slot, now))
    }
}

/// Rate limits that may be the fleet's.
impl FleetDesk<'_> {
    /// Asks for the tokens of a call, or of its next attempt.
    pub(super) fn ask_rate(mut self, slot: Slot, sending: bool, now: Time) -> Answer {
        let call = &self.desk.calls[slot];
        let (route, policy, deadline, may_park) =
            (call.route, call.policy, call.deadline, call.has(flag::MAY_PARK));
        let cost = if sending { 1 } else { call.cost() };
        let Some(mut queue) = self.desk.routes.rate_queue_mut(route, sending) else {
            return Answer::broken(Verdict::RateLimited);
        };
        if let Bucket::Fleet(_) = queue.bucket {
            return self.ask_fleet(slot, now);
        }
        if let Bucket::Set(_) = queue.bucket {
            let home = self.desk.routes[route].rate_at;
            return self.ask_limits(slot, home, now);
        }
        if queue.waiting.len() > 0 {
            self.desk.hand_out_tokens(route, sending, now);
            let Some(again) = self.desk.routes.rate_queue_mut(route, sending) else {
                return Answer::broken(Verdict::RateLimited);
            };
            queue = again;
        }
        if queue.take(cost, now) {
            return Answer::Pass;
        }
        let limit = self.desk.policies[usize::from(policy)].policy.rate_limit.as_ref();
        let (waits, max_wait, most) = match limit {
            _ if sending => (true, Duration::MAX, MOST_SENDERS),
            Some(limit) => (limit.wait, limit.max_wait, limit.max_waiters),
            None => (false, Duration::ZERO, 0),
        };
        let Some(queue) = self.desk.routes.rate_queue_mut(route, sending) else {
            return Answer::broken(Verdict::RateLimited);
        };
        if !sending && queue.burst().is_some_and(|burst| cost > burst) {
            return Answer::Refuse(Verdict::CostAboveBurst, None); // the burst has shrunk since the call began
        }
        let turn = queue.bucket.wait_for(queue.queued() + u64::from(cost), now);
        let in_vain = turn > max_wait || now.after(turn) >= deadline;
        if !waits || !may_park || queue.waiting.len() >= most || in_vain {
            return Answer::Refuse(Verdict::RateLimited, Some(turn));
        }
        self.desk.calls.note_charged(slot);
        self.desk.calls[slot].queue_for_rate(now.after(turn), sending);
        queue.enlist(&mut self.desk.calls, slot, u64::from(cost));
        self.desk.note_course(move |it| it.queued(slot, Wait::Rate, now.after(turn), now));
        Answer::Wait(self.desk.calls.wait_for_rate(slot, now))
    }

    /// Gives tokens to waiters from the head on, as far as they last. Returns true if there is a new head.
    pub(super) fn hand_out_rate(&mut self, route: RouteAt, sending: bool, now: Time) -> bool {
        if !sending && self.desk.routes.in_fleet(route) {
            let home = self.desk.routes[route].rate_at;
            return self.lease_out(home, now);
        }
        if !sending && self.desk.routes.in_set(route) {
            let home = self.desk.routes[route].rate_at;
            if self.desk.routes.refuses_all(home) {
                self.limits_without_store(home, now);
                return true;
            }
            return self.desk.hand_out_set(home, false, now);
        }
        self.desk.hand_out_tokens(route, sending, now)
    }

    /// Handles a waiter that left without tokens: later waiters may have earlier turns.
    pub(super) fn left_rate_queue(&mut self, route: RouteAt, sending: bool, now: Time) {
        self.desk.unsettle_heads(route, sending);
        if !self.hand_out_rate(route, sending, now) {
            self.desk.settle_heads(route, sending);
        }
    }
}
