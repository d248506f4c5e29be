//! The rate limit's stage, for a set of the fleet.

use crate::action::{Verdict, Wait};
use crate::engine::arena::flag;
use crate::engine::fleet::FleetDesk;
use crate::engine::place::{PoolAt, Slot};
use crate::engine::sheets::WEIGHTS;
use crate::engine::stage::Answer;
use crate::time::{Duration, Time};

impl FleetDesk<'_> {
    /// Asks a set for the tokens of a call, or of its next attempt.
    #[cold]
    pub(in crate::engine) fn ask_limits(&mut self, slot: Slot, home: PoolAt, now: Time) -> Answer {
        if !self.desk.routes.shares_set(home) {
            return self.desk.ask_set(slot, home, now);
        }
        self.watch_store(now);
        let up = self.sender().note_set_up(home);
        let within = self.desk.policies.of(&self.desk.calls[slot]).store_timeout;
        if let Some(share) = self.desk.routes.set_share_mut(home) {
            share.within = within;
        }
        self.desk.hand_out_set(home, false, now);
        if self.desk.take_set(slot, home, now) {
            self.ask_store_for_set(home, now);
            return Answer::Pass;
        }
        let (costs, call) = (self.desk.costs(slot, home), &self.desk.calls[slot]);
        let (parks, deadline, cost) = (call.has(flag::MAY_PARK), call.deadline, u64::from(call.cost()));
        let limit = self.desk.policies.of(call).rate_limit.as_ref();
        let (waits, max_wait, most) =
            limit.map_or((false, Duration::ZERO, 0), |it| (it.wait, it.max_wait, it.max_waiters));
        let waiting = self.desk.routes.rate_queue(home).0;
        let Some(limits) = self.desk.routes.limits_mut(home) else {
            return Answer::broken(Verdict::RateLimited);
        };
        if let Some(at) = limits.above_burst(&costs) {
            self.desk.refusals.note(self.desk.calls.id(slot), (home, at, costs[at]));
            return Answer::Refuse(Verdict::CostAboveBurst, None); // a burst has shrunk since the call began
        }
        if !up {
            self.ask_store_for_set(home, now); // if a probe is due, this is it
            return self.set_without_store(slot, home, waiting > 0, now);
        }
        let (turn, last) = limits.turn(&costs, true, now);
        let Some(share) = limits.shared.as_deref_mut() else { return Answer::broken(Verdict::RateLimited) };
        // Do not ask while the store has said that it has no tokens, nor while the own share is exhausted.
        let empty = share.asked == 0 && share.is_empty_for(&share.lacks(&costs), now);
        let lacks = share.own_turn(&costs, &[0; WEIGHTS], now).0 > Duration::ZERO;
        let in_vain = turn > max_wait || now.after(turn) >= deadline;
        if (empty || lacks) && (!waits || in_vain) || waits && waiting >= most {
            self.desk.refusals.note(self.desk.calls.id(slot), (home, last, costs[last]));
            return Answer::Refuse(Verdict::RateLimited, Some(turn));
        }
        if !parks {
            // The call cannot wait for the answer, so the own share decides. The store counts the spent tokens with the
            // next command, and later calls find the answer.
            let answer = self.set_without_store(slot, home, waiting > 0, now);
            self.ask_store_for_set(home, now);
            return answer;
        }
        let patience = if waits { max_wait } else { within };
        self.queue_for_set(slot, home, (patience, cost), now);
        self.ask_store_for_set(home, now);
        self.desk.note_course(move |it| {
            let until = it.calls[slot].moment.min(it.calls[slot].deadline);
            it.queued(slot, Wait::Store, until, now);
        });
        Answer::Wait(self.wait_for_limits(slot, home, now))
    }

    /// Checks a waiter in the queue of a set.
    pub(in crate::engine) fn still_in_limits(&mut self, slot: Slot, now: Time) -> Answer {
        let home = self.desk.routes[self.desk.calls[slot].route].rate_at;
        if !self.desk.routes.shares_set(home) {
            return self.desk.still_in_set(slot, now);
        }
        if !self.desk.calls[slot].has(flag::TOKENS) {
            self.watch_store(now);
            self.sender().note_set_up(home);
            self.desk.hand_out_set(home, false, now);
            self.ask_store_for_set(home, now);
            self.desk.calls.forget_wake(slot, &mut self.desk.wakes);
        }
        if let Some(answer) = self.desk.calls.decided(slot, now) {
            return answer;
        }
        let call = &self.desk.calls[slot];
        if call.moment > now {
            return Answer::Wait(self.wait_for_limits(slot, home, now));
        }
        let waits =
            self.desk.policies.of(&self.desk.calls[slot]).rate_limit.as_ref().is_some_and(|limit| limit.wait);
        let costs = self.desk.costs(slot, home);
        let is_head = self.desk.routes.rate_queue(home).1 == Some(slot);
        let Some(limits) = self.desk.routes.limits_mut(home) else {
            return Answer::broken(Verdict::RateLimited);
        };
        // What is queued includes the call's own tokens.
        let (turn, last) = limits.turn(if is_head { &costs } else { &[0; WEIGHTS] }, !is_head, now);
        let answers = limits.shared.as_deref().is_some_and(|share| share.up && share.asked > 0);
        if waits || !answers {
            self.desk.refusals.note(self.desk.calls.id(slot), (home, last, costs[last]));
            return Answer::Refuse(Verdict::RateLimited, Some(turn));
        }
        // The answer has not come in time. It is not overdue yet, because it was requested after this call arrived.
        let route = self.desk.calls[slot].route;
        self.desk.unlist(slot);
        self.desk.unsettle_heads(route, false);
        if !self.desk.hand_out_set(home, false, now) {
            self.desk.settle_heads(route, false);
        }
        self.desk.calls[slot].pass_on();
        self.set_without_store(slot, home, false, now)
    }
}
