//! New settings of a rate, for the calls that wait for its tokens.

use crate::action::Verdict;
use crate::engine::desk::Desk;
use crate::engine::place::{PoolAt, Slot};
use crate::engine::rate_queue::{Bucket, RateQueue};
use crate::engine::stage::missing;
use crate::time::{Duration, Time};

impl Desk {
    /// Applies new settings of a set to its waiters: what they take is counted anew, they take their places in its order
    /// as they have come, and those that take more than a limit holds now are refused. If the set took the place of a
    /// single rate (`moved`), each has `max_wait` from now.
    fn set_retuned(&mut self, home: PoolAt, moved: bool, now: Time) {
        let head = |it: &Self| it.routes[home].rate.as_deref().and_then(|queue| queue.waiting.head());
        let mut next = head(self);
        while let Some(slot) = next {
            let after = self.calls[slot].links().1;
            next = (after != Slot::NONE).then_some(after);
            if moved {
                let patience = self.policies.max_wait_of(&self.calls[slot]).unwrap_or(Duration::ZERO);
                let call = &mut self.calls[slot];
                call.moment = now.after(patience).min(call.deadline);
                self.wakes.push(self.calls.id(slot));
            }
            let costs = self.costs(slot, home);
            let Some(limits) = self.routes.limits_mut(home) else { return missing("the limits of a set") };
            limits.enlist(&costs);
            let above = limits.above_burst(&costs);
            self.join_order(slot, home, &costs);
            if let Some(at) = above {
                self.refusals.note(self.calls.id(slot), (home, at, costs[at]));
                self.turn_away_from(slot, Verdict::CostAboveBurst, None, now);
            }
        }
        if let Some(slot) = self.routes[home].rate.as_deref().and_then(RateQueue::head) {
            self.wakes.push(self.calls.id(slot));
        }
    }

    /// Applies new settings to the waiters. Refuses calls that cost more than the rate can hold now, because they
    /// would wait for ever.
    ///
    /// If the rate joined or left the fleet or has another form (`moved`), each waiter gets a new moment: in the queue of
    /// the fleet's or of a set that is the end of its patience, in the process's queue its turn. After joining, each waiter has `max_wait` from now.
    /// After leaving, calls that do not wait for the process's tokens, or would wait in vain, are refused.
    pub(in crate::engine) fn rate_retuned(&mut self, home: PoolAt, moved: bool, now: Time) {
        if self.routes.limits(home).is_some() {
            return self.set_retuned(home, moved, now);
        }
        let head = |it: &mut Self| it.routes[home].rate.as_deref_mut().and_then(|queue| queue.waiting.head());
        let (mut ahead, mut next, mut left) = (0, head(self), false);
        while let Some(slot) = next {
            let call = &self.calls[slot];
            let (id, deadline, give_up) =
                (self.calls.id(slot), call.deadline, call.moment.min(call.deadline));
            let (cost, after) = (call.cost(), call.links().1);
            next = (after != Slot::NONE).then_some(after);
            if self.routes.is_above_burst(cost, home) {
                self.turn_away_from(slot, Verdict::CostAboveBurst, None, now);
                left = true;
                continue;
            }
            if !moved {
                continue;
            }
            let patience = self.policies.max_wait_of(&self.calls[slot]);
            let Some(queue) = self.routes[home].rate.as_deref_mut() else {
                return missing("the rate of a waiter");
            };
            queue.restless = true;
            if let Bucket::Fleet(_) = queue.bucket {
                self.calls[slot].moment = patience.map_or(now, |patience| now.after(patience)).min(deadline);
                self.wakes.push(id);
                continue;
            }
            let turn = queue.bucket.wait_for(ahead + u64::from(cost), now);
            if turn > Duration::ZERO && (patience.is_none() || now.after(turn) >= give_up) {
                self.turn_away_from(slot, Verdict::RateLimited, Some(turn), now);
            } else {
                ahead += u64::from(cost);
                self.calls[slot].moment = now.after(turn);
                self.wakes.push(id);
            }
        }
        // The remaining calls have earlier turns than when they queued.
        if let Some(slot) = head(self).filter(|_| left) {
            self.wakes.push(self.calls.id(slot));
            if let Some(queue) = self.routes[home].rate.as_deref_mut() {
                queue.restless = true;
            }
        }
    }
}
