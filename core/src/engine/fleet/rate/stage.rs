//! The rate limit's stage, for tokens of the fleet.

use crate::action::{Verdict, Wait};
use crate::engine::arena::flag;
use crate::engine::fleet::FleetDesk;
use crate::engine::fleet::command::Part;
use crate::engine::place::Slot;
use crate::engine::stage::Answer;
use crate::time::{Duration, Time};

impl FleetDesk<'_> {
    /// Asks for the tokens of a call, or of its next attempt, from a rate of the fleet.
    #[inline(never)]
    pub(in crate::engine) fn ask_fleet(&mut self, slot: Slot, now: Time) -> Answer {
        let home = self.desk.routes[self.desk.calls[slot].route].rate_at;
        let cost = self.desk.calls[slot].cost();
        let within = self.desk.policies.of(&self.desk.calls[slot]).store_timeout;
        self.watch_store(now);
        self.lease_out(home, now);
        let queued = self.desk.routes.rate_queue(home).0 > 0;
        let Some(share) = self.desk.routes.share_mut(home) else {
            return Answer::broken(Verdict::RateLimited);
        };
        share.within = within;
        if !queued && (cost == 0 || share.take(cost, now)) {
            self.ask_store(home, None, now);
            return Answer::Pass;
        }
        if self.desk.routes.is_above_burst(cost, home) {
            return Answer::Refuse(Verdict::CostAboveBurst, None); // the burst has shrunk since the call began
        }
        if !self.store.is_up(&self.desk.routes, home, Part::Rate) {
            self.ask_store(home, None, now); // if a probe is due, this is it
            return self.without_store(slot, home, queued, now);
        }
        let call = &self.desk.calls[slot];
        let (id, parks, deadline) = (self.desk.calls.id(slot), call.has(flag::MAY_PARK), call.deadline);
        let limit = self.desk.policies.of(&self.desk.calls[slot]).rate_limit.as_ref();
        let (waits, max_wait, most) =
            limit.map_or((false, Duration::ZERO, 0), |it| (it.wait, it.max_wait, it.max_waiters));
        let (waiting, _, tokens) = self.desk.routes.rate_queue(home);
        let Some(share) = self.desk.routes.share_mut(home) else {
            return Answer::broken(Verdict::RateLimited);
        };
        // Do not ask while the store has said that it has no tokens, nor while the own share is exhausted.
        let empty = !share.strict() && share.asked == 0 && share.empty_for(cost, now).is_some();
        let lacks = share.own_turn(tokens, cost, now) > Duration::ZERO;
        if empty || lacks {
            let turn = share.turn(tokens + u64::from(cost), now);
            let in_vain = turn > max_wait || now.after(turn) >= deadline;
            if !waits || in_vain {
                return Answer::Refuse(Verdict::RateLimited, Some(turn));
            }
        }
        if !parks {
            // The call cannot wait for the answer, so the own share decides. The store counts the spent tokens before
            // it grants a lease, and later calls find the answer.
            let answer = self.without_store(slot, home, queued, now);
            self.ask_store(home, None, now);
            return answer;
        }
        if waits && waiting >= most {
            let turn = share.turn(tokens + u64::from(cost), now);
            return Answer::Refuse(Verdict::RateLimited, Some(turn));
        }
        self.desk.routes.queue_for_tokens(
            &mut self.desk.calls,
            slot,
            home,
            if waits { max_wait } else { within },
            now,
        );
        self.ask_store(home, if lacks { None } else { Some(id) }, now);
        self.desk.note_course(move |it| {
            let until = it.calls[slot].moment.min(it.calls[slot].deadline);
            it.queued(slot, Wait::Store, until, now);
        });
        Answer::Wait(self.wait_for_tokens(slot, home, now))
    }

    /// Checks a waiter in the queue of a fleet's rate.
    pub(in crate::engine) fn still_in_fleet(&mut self, slot: Slot, now: Time) -> Answer {
        let home = self.desk.routes[self.desk.calls[slot].route].rate_at;
        if !self.desk.calls[slot].has(flag::TOKENS) {
            self.watch_store(now);
            self.lease_out(home, now);
            self.ask_store(home, None, now);
            self.desk.calls.forget_wake(slot, &mut self.desk.wakes);
        }
        let call = &self.desk.calls[slot];
        if let Some(answer) = self.desk.calls.decided(slot, now) {
            return answer;
        }
        if call.moment > now {
            return Answer::Wait(self.wait_for_tokens(slot, home, now));
        }
        let waits =
            self.desk.policies.of(&self.desk.calls[slot]).rate_limit.as_ref().is_some_and(|limit| limit.wait);
        let cost = u64::from(self.desk.calls[slot].cost());
        if waits || !self.store.is_up(&self.desk.routes, home, Part::Rate) {
            let Some(share) = self.desk.routes.share_mut(home) else {
                return Answer::broken(Verdict::RateLimited);
            };
            return Answer::Refuse(Verdict::RateLimited, Some(share.turn(cost, now)));
        }
        // The answer has not come in time. It is not overdue yet, because it was requested after this call arrived.
        let route = self.desk.calls[slot].route;
        self.desk.unlist(slot);
        self.desk.unsettle_heads(route, false);
        if !self.lease_out(home, now) {
            self.desk.settle_heads(route, false);
        }
        self.desk.calls[slot].pass_on();
        self.without_store(slot, home, false, now)
    }
}
