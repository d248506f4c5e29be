//! The queue of a set whose order is not that of arrival (semantics 3.10).

use crate::action::Verdict;
use crate::engine::arena::flag;
use crate::engine::desk::Desk;
use crate::engine::limits::{Costs, Limits};
use crate::engine::place::{PoolAt, Slot};
use crate::engine::sheets::WEIGHTS;
use crate::engine::weigh::{Asked, Place};
use crate::time::{Duration, Time};

impl Limits {
    /// Charges a waiter that has got its tokens.
    pub(in crate::engine) fn serve(&mut self, slot: Slot, costs: &Costs) {
        let charge = self.charge_of(costs);
        if let Some(order) = &mut self.order {
            order.serve(slot, charge);
        }
    }

    /// Takes the tokens of a newcomer if it is the head and all limits have them.
    fn serve_newcomer(&mut self, slot: Slot, costs: &Costs, now: Time) -> bool {
        let served = self.next_in_order() == Some(slot) && self.take(costs, now);
        if served {
            self.serve(slot, costs);
            self.leave_order(slot, costs);
        }
        served
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

    /// The place of a call in an order that is not that of arrival. In a full queue it displaces one that comes later.
    #[cold]
    pub(super) fn place_in_order(&mut self, slot: Slot, home: PoolAt, asked: &Asked, now: Time) -> Place {
        let costs = self.costs(slot, home);
        let waiting = self.routes[home].rate.as_deref().map_or(0, |queue| queue.waiting.len());
        self.join_order(slot, home, &costs);
        let Some(limits) = self.routes.limits_mut(home) else {
            return Place::Refused { last: 0, turn: Duration::ZERO };
        };
        if waiting > 0 && limits.serve_newcomer(slot, &costs, now) {
            self.calls.reserve(slot);
            return Place::Served;
        }
        // Others may come before it or not; those of its own key do.
        let in_vain = asked.is_in_vain(limits.least_turn(slot, now), now);
        let displaced =
            limits.order.as_ref().filter(|_| asked.is_full).and_then(|order| order.displaced_by(slot));
        let (turn, last) = limits.turn(&costs, true, now);
        if !asked.may_wait || in_vain || asked.is_full && displaced.is_none() {
            limits.leave_order(slot, &costs);
            return Place::Refused { last, turn };
        }
        if let Some(displaced) = displaced {
            let turn = limits.turn(&[0; WEIGHTS], true, now).0;
            self.turn_away_from(displaced, Verdict::RateLimited, Some(turn), now);
            if self.routes.limits_mut(home).is_some_and(|it| it.serve_newcomer(slot, &costs, now)) {
                self.calls.reserve(slot);
                self.hand_out_set(home, true, now); // the head, whose timer the queue relied on, has left
                return Place::Served;
            }
        }
        Place::Waits { turn, displaces: displaced.is_some() }
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
