//! The queue of a set whose order is not that of arrival (semantics 3.10).

use crate::action::{Verdict, Wait};
use crate::engine::arena::flag;
use crate::engine::desk::Desk;
use crate::engine::limits::{Costs, Limits};
use crate::engine::place::{PoolAt, Slot};
use crate::engine::rate_queue::RateQueue;
use crate::engine::sheets::WEIGHTS;
use crate::engine::stage::Answer;
use crate::time::{Duration, Time};

impl Limits {
    /// Charges a waiter that has got its tokens.
    pub(in crate::engine) fn serve(&mut self, slot: Slot, costs: &Costs) {
        let charge = self.charge_of(costs);
        if let Some(order) = &mut self.order {
            order.serve(slot, charge);
        }
    }

    /// Removes a call from the order.
    pub(in crate::engine) fn leave_order(&mut self, slot: Slot, costs: &Costs) {
        if let Some(order) = &mut self.order {
            order.remove(slot, costs);
        }
    }
}

impl Desk {
    /// Gives a call its place in the order of a queue, if that is not the order of arrival.
    pub(in crate::engine) fn join_order(&mut self, slot: Slot, home: PoolAt, costs: &Costs) {
        let Some(mut order) = self.routes.limits_mut(home).and_then(|limits| limits.order.take()) else {
            return;
        };
        let call = &self.calls[slot];
        order.enlist(slot, call.flags & flag::CRITICALITY, self.routes[call.route].raw_key(), costs);
        if let Some(limits) = self.routes.limits_mut(home) {
            limits.order = Some(order);
        }
    }

    /// Asks for the tokens of a call, or of its next attempt, that did not get them at once.
    #[cold]
    pub(super) fn ask_in_order(&mut self, slot: Slot, home: PoolAt, now: Time) -> Answer {
        let (costs, call) = (self.costs(slot, home), &self.calls[slot]);
        let (deadline, parks, cost) = (call.deadline, call.has(flag::MAY_PARK), u64::from(call.cost()));
        let limit = self.policies.of(call).rate_limit.as_ref();
        let (waits, max_wait, most) =
            limit.map_or((false, Duration::ZERO, 0), |it| (it.wait, it.max_wait, it.max_waiters));
        let Some(limits) = self.routes.limits(home) else { return Answer::broken(Verdict::RateLimited) };
        if let Some(at) = limits.above_burst(&costs) {
            self.refusals.note(self.calls.id(slot), (home, at, costs[at]));
            return Answer::Refuse(Verdict::CostAboveBurst, None); // a burst has shrunk since the call began
        }
        let waiting = self.routes[home].rate.as_deref().map_or(0, |queue| queue.waiting.len());
        self.join_order(slot, home, &costs);
        let Some(limits) = self.routes.limits_mut(home) else { return Answer::broken(Verdict::RateLimited) };
        if waiting > 0 && limits.next_in_order() == Some(slot) && limits.take(&costs, now) {
            limits.serve(slot, &costs);
            limits.leave_order(slot, &costs);
            self.calls.reserve(slot);
            return Answer::Pass;
        }
        // Others may come before it or not; those of its own key do.
        let least = limits.least_turn(slot, now);
        let in_vain = least > max_wait || now.after(least) >= deadline;
        let full = waiting >= most;
        let displaced = limits.order.as_ref().filter(|_| full).and_then(|order| order.displaced_by(slot));
        let (turn, last) = limits.turn(&costs, true, now);
        if !waits || !parks || in_vain || full && displaced.is_none() {
            limits.leave_order(slot, &costs);
            self.refusals.note(self.calls.id(slot), (home, last, costs[last]));
            return Answer::Refuse(Verdict::RateLimited, Some(turn));
        }
        if let Some(displaced) = displaced {
            let turn = limits.turn(&[0; WEIGHTS], true, now).0;
            self.turn_away_from(displaced, Verdict::RateLimited, Some(turn), now);
        }
        self.calls.note_charged(slot);
        self.calls[slot].queue_for_rate(now.after(max_wait).min(deadline), false);
        if let Some(queue) = self.routes[home].rate.as_deref_mut() {
            queue.enlist(&mut self.calls, slot, cost);
        }
        if let Some(limits) = self.routes.limits_mut(home) {
            limits.enlist(&costs);
        }
        // The one that was displaced may have been the head, whose timer the queue relies on.
        let head = self.routes[home].rate.as_deref().and_then(RateQueue::head);
        if let Some(head) = head.filter(|head| displaced.is_some() && *head != slot) {
            self.wakes.push(self.calls.id(head));
        }
        self.note_course(move |it| it.queued(slot, Wait::Rate, now.after(turn), now));
        Answer::Wait(self.wait_for_set(slot, home, now))
    }

    /// Notes the limit that a displaced waiter was waiting for: the one that frees last.
    #[cold]
    pub(in crate::engine) fn note_displaced(&mut self, slot: Slot, now: Time) {
        let home = self.routes[self.calls[slot].route].rate_at;
        let Some(limits) = self.routes.limits(home).filter(|limits| limits.order.is_some()) else { return };
        let last = limits.last_to_free(now);
        let weight = limits.list[last].weight;
        let amounts = self.calls.weights(slot).map(|(_, amounts)| amounts);
        let amount = weight.zip(amounts).map_or(0, |(weight, amounts)| amounts[weight]);
        self.refusals.note(self.calls.id(slot), (home, last, amount));
    }
}
