//! The queue of a set of limits, and the reservations of attempts (semantics 3.4 to 3.6). Hosts' methods are in
//! `weights.rs`.

mod ordered;

use super::Options;
use super::arena::flag;
use super::call::{MAX_PARK, wait};
use super::chores::Chore;
use super::desk::Desk;
use super::fleet::set::SetShare;
use super::limits::{Costs, Limits, is_same_form};
use super::place::{PoolAt, Slot};
use super::pools::Pools;
use super::rate_queue::RateQueue;
use super::sheets::WEIGHTS;
use super::stage::Answer;
use crate::action::{AttemptSlot, Verdict, Wait};
use crate::full::Full;
use crate::outcome::Class;
use crate::policy::{Policy, Unit};
use crate::step::Step;
use crate::time::{Duration, Time};

impl Pools {
    /// The rule that a policy breaks because the pool that it names has weights: attempts settle, so they must reserve.
    pub(super) fn rule_against_unit(&self, policy: &Policy) -> Option<&'static str> {
        let limit = policy.rate_limit.as_ref().filter(|limit| limit.unit == Unit::Call)?;
        let set = self.get(&**limit.pool.as_ref()?)?.pool.policy().rate_limit.as_ref()?.limits.as_ref()?;
        set.is_weighted()
            .then_some("rate_limit.unit must be attempt: the pool that rate_limit.pool names has weights")
    }
}

/// What a call that did not get its tokens at once may do for them.
pub(super) struct Asked {
    /// Whether the policy and the call let it wait.
    pub may_wait: bool,
    pub max_wait: Duration,
    pub deadline: Time,
    /// Whether as many calls wait as may.
    pub is_full: bool,
}

/// The place of a call in the queue of its set.
pub(super) enum Place {
    /// It has got its tokens.
    Served,
    /// It may not wait; `last` is the limit that would have its tokens last, in `turn`.
    Refused { last: usize, turn: Duration },
    /// It waits, for about `turn`; `displaces` says whether another had to leave.
    Waits { turn: Duration, displaces: bool },
}

impl Asked {
    /// Whether a turn comes too late.
    pub fn is_in_vain(&self, turn: Duration, now: Time) -> bool {
        turn > self.max_wait || now.after(turn) >= self.deadline
    }
}

impl Limits {
    /// The place of a call in the order of arrival.
    fn place_at_the_end(&mut self, costs: &Costs, asked: &Asked, now: Time) -> Place {
        let (turn, last) = self.turn(costs, true, now);
        if !asked.may_wait || asked.is_full || asked.is_in_vain(turn, now) {
            return Place::Refused { last, turn };
        }
        Place::Waits { turn, displaces: false }
    }
}

impl Desk {
    /// Gives a new call its weights. False if it takes more than a limit ever holds, or has no amount for one.
    #[cold]
    #[inline(never)]
    pub(super) fn weigh(&mut self, slot: Slot, home: PoolAt) -> bool {
        let given = self.weighed.take();
        let Some((limits, full)) = self.routes.limits(home).zip(Full::here()) else { return false };
        let amounts = match given {
            Some(weights) if weights.mark == limits.mark => Some(weights.amounts),
            _ => limits.defaults(),
        };
        let Some(amounts) = amounts else { return false };
        let (mark, weighted) = (limits.mark, !limits.weights.is_empty());
        let costs = limits.costs(self.calls[slot].cost(), &amounts);
        if let Some(at) = limits.above_burst(&costs) {
            self.refusals.note(self.calls.id(slot), (home, at, costs[at]));
            return false;
        }
        if weighted {
            let scales = limits.scales(&amounts);
            self.calls.set_weights(slot, (mark, amounts, scales), full);
        }
        true
    }

    /// Takes the tokens of a call at once, if it passes no waiter.
    pub(super) fn take_set(&mut self, slot: Slot, home: PoolAt, now: Time) -> bool {
        let costs = self.costs(slot, home);
        let waiting = self.routes[home].rate.as_deref().is_some_and(|queue| queue.waiting.len() > 0);
        let taken = !waiting && self.routes.limits_mut(home).is_some_and(|limits| limits.take(&costs, now));
        if taken {
            self.calls.reserve(slot);
        }
        taken
    }

    /// Whether a hedge of a call may take its tokens of the rate limit now.
    #[inline(never)]
    pub(super) fn has_tokens(&mut self, slot: Slot, home: PoolAt, now: Time) -> bool {
        let (cost, costs) = (self.calls[slot].cost(), self.costs(slot, home));
        if self.routes.limits(home).is_some() {
            // Where calls wait, the limits are not asked: windows are counted from when they are (semantics 3.8.5).
            let alone = self.routes[home].rate.as_deref().is_some_and(|queue| queue.waiting.len() == 0);
            let limits = self.routes.limits_mut(home).filter(|_| alone);
            return limits.is_some_and(|limits| limits.turn(&costs, false, now).0 == Duration::ZERO);
        }
        self.routes[home].rate.as_deref_mut().is_none_or(|queue| queue.has(cost, now))
    }

    /// Takes the tokens that a hedge may take.
    #[inline(never)]
    pub(super) fn take_tokens(&mut self, slot: Slot, home: PoolAt, now: Time) {
        if self.routes.limits(home).is_some() {
            self.take_set(slot, home, now);
            return;
        }
        let cost = self.calls[slot].cost();
        if let Some(rate) = &mut self.routes[home].rate {
            rate.take(cost, now);
        }
    }

    /// Asks for the tokens of a call, or of its next attempt.
    #[cold]
    pub(super) fn ask_set(&mut self, slot: Slot, home: PoolAt, now: Time) -> Answer {
        self.hand_out_set(home, false, now);
        if self.take_set(slot, home, now) {
            return Answer::Pass;
        }
        let call = &self.calls[slot];
        let (deadline, parks, cost) = (call.deadline, call.has(flag::MAY_PARK), u64::from(call.cost()));
        let limit = self.policies.of(call).rate_limit.as_ref();
        let (waits, max_wait, most) =
            limit.map_or((false, Duration::ZERO, 0), |it| (it.wait, it.max_wait, it.max_waiters));
        let (costs, waiting) =
            (self.costs(slot, home), self.routes[home].rate.as_deref().map_or(0, |it| it.waiting.len()));
        let Some(limits) = self.routes.limits_mut(home) else { return Answer::broken(Verdict::RateLimited) };
        if let Some(at) = limits.above_burst(&costs) {
            self.refusals.note(self.calls.id(slot), (home, at, costs[at]));
            return Answer::Refuse(Verdict::CostAboveBurst, None); // a burst has shrunk since the call began
        }
        let asked = Asked { may_wait: waits && parks, max_wait, deadline, is_full: waiting >= most };
        let place = if limits.order.is_some() {
            self.place_in_order(slot, home, &asked, now)
        } else {
            limits.place_at_the_end(&costs, &asked, now)
        };
        let (turn, displaces) = match place {
            Place::Served => return Answer::Pass,
            Place::Refused { last, turn } => {
                self.refusals.note(self.calls.id(slot), (home, last, costs[last]));
                return Answer::Refuse(Verdict::RateLimited, Some(turn));
            }
            Place::Waits { turn, displaces } => (turn, displaces),
        };
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
        if let Some(head) = head.filter(|head| displaces && *head != slot) {
            self.wakes.push(self.calls.id(head));
        }
        self.note_course(move |it| it.queued(slot, Wait::Rate, now.after(turn), now));
        Answer::Wait(self.wait_for_set(slot, home, now))
    }

    /// When a waiter checks again: the head at its turn, others once they are woken.
    fn wait_for_set(&mut self, slot: Slot, home: PoolAt, now: Time) -> Step {
        let until = self.calls[slot].moment.min(self.calls[slot].deadline).min(now.after(MAX_PARK));
        let is_head = self.routes[home].rate.as_deref().is_some_and(|queue| queue.head() == Some(slot));
        // What is queued includes the call's own tokens.
        let costs = if is_head { self.costs(slot, home) } else { [0; WEIGHTS] };
        let turn = self.routes.limits_mut(home).map(|limits| limits.turn(&costs, !is_head, now).0);
        let turn = turn.map_or(until, |turn| now.after(turn));
        // Behind the head a turn is an estimate: the head wakes the next one.
        let turn = if is_head { turn } else { turn.max(now.after(Duration::from_micros(1))) };
        wait(Wait::Rate, until.min(turn), now)
    }

    /// Checks a waiter: its tokens may be there, or its patience over.
    pub(super) fn still_in_set(&mut self, slot: Slot, now: Time) -> Answer {
        let home = self.routes[self.calls[slot].route].rate_at;
        if !self.calls[slot].has(flag::TOKENS) {
            self.hand_out_set(home, false, now);
            let own = self.calls.id(slot);
            self.wakes.retain(|woken| *woken != own); // its own event is being processed
        }
        if self.calls[slot].has(flag::TOKENS) {
            return Answer::Pass;
        }
        if self.calls[slot].moment <= now {
            let costs = self.costs(slot, home);
            let is_head = self.routes[home].rate.as_deref().is_some_and(|it| it.head() == Some(slot));
            let Some(limits) = self.routes.limits_mut(home) else {
                return Answer::broken(Verdict::RateLimited);
            };
            // What is queued includes the call's own tokens.
            let (turn, last) = limits.turn(if is_head { &costs } else { &[0; WEIGHTS] }, !is_head, now);
            self.refusals.note(self.calls.id(slot), (home, last, costs[last]));
            return Answer::Refuse(Verdict::RateLimited, Some(turn));
        }
        Answer::Wait(self.wait_for_set(slot, home, now))
    }

    /// Gives tokens to waiters from the head on, as far as all limits have them. Nobody passes the head. Returns true if
    /// there is a new head. A head that must still wait after a refund is woken too, because its turn is earlier than it
    /// knows.
    pub(super) fn hand_out_set(&mut self, home: PoolAt, refund: bool, now: Time) -> bool {
        let mut moved = false;
        while let Some(slot) = self.routes[home].rate.as_deref().and_then(RateQueue::head) {
            if !self.chores.one_more(Chore::Tokens(home.route(), false)) {
                self.wakes.push(self.calls.id(slot)); // its next event resumes this loop
                return true;
            }
            if self.calls[slot].deadline <= now {
                self.unlist(slot); // a waiter whose deadline has passed is failed, not granted
                self.turn_away(slot, Verdict::DeadlineQueued, now);
                moved = true;
                continue;
            }
            let costs = self.costs(slot, home);
            if !self.routes.limits_mut(home).is_some_and(|limits| limits.take(&costs, now)) {
                break;
            }
            if self.routes.limits(home).and_then(|it| it.shared.as_deref()).is_some_and(SetShare::is_alone) {
                self.policies.count_fallback(self.calls[slot].policy);
            }
            if let Some(limits) = self.routes.limits_mut(home).filter(|it| it.order.is_some()) {
                limits.serve(slot, &costs);
            }
            self.unlist(slot);
            self.calls[slot].flags |= flag::TOKENS;
            self.calls.reserve(slot);
            self.note_course(move |it| it.granted(slot, Wait::Rate, None, now));
            self.wakes.push(self.calls.id(slot));
            moved = true;
        }
        if (moved || refund)
            && let Some(head) = self.routes[home].rate.as_deref().and_then(RateQueue::head)
        {
            self.wakes.push(self.calls.id(head));
        }
        moved
    }

    /// Settles the reservations of attempts that have ended, by their slots. `class` is how they ended, if that is known.
    /// What comes back goes to the waiters.
    #[cold]
    pub(super) fn settle_attempts(&mut self, slot: Slot, attempt_slots: u8, class: Option<Class>, now: Time) {
        let home = self.routes[self.calls[slot].route].rate_at;
        let mut back = false;
        while let Some(unsettled) = self.calls.take_unsettled(slot, attempt_slots) {
            let Some(limits) = self.routes.limits_mut(home).filter(|it| it.mark == unsettled.mark) else {
                continue;
            };
            let unserved = matches!(
                class,
                Some(Class::NeverSent | Class::Throttled | Class::Conflict | Class::Permanent)
            );
            for (weight, total) in unsettled.totals.iter().enumerate() {
                if let Some(total) = total {
                    limits.note_used(weight, *total, unsettled.named[weight]);
                }
            }
            let none = unserved || limits.unknown_is_zero;
            let used = core::array::from_fn(|weight| {
                unsettled.totals[weight].unwrap_or(if none { 0 } else { unsettled.reserved[weight] })
            });
            back |= limits.settle(&unsettled.reserved, &used, now);
        }
        if back {
            self.hand_out_set(home, true, now);
        }
    }

    /// Gives back what a call has reserved for an attempt that will not start.
    #[cold]
    pub(super) fn give_weights_back(&mut self, slot: Slot, now: Time) {
        let Some((mark, reserved)) = self.calls.unreserve(slot) else { return };
        let home = self.routes[self.calls[slot].route].rate_at;
        let Some(limits) = self.routes.limits_mut(home).filter(|it| it.mark == mark) else { return };
        if limits.settle(&reserved, &[0; WEIGHTS], now) {
            self.hand_out_set(home, true, now);
        }
    }
}

impl Options {
    /// The rule that the rate limit of a policy or a pool breaks: against the host, or against the settings `from` that it
    /// replaces.
    pub(super) fn rule_against_limits(&self, from: Option<&Policy>, to: &Policy) -> Option<&'static str> {
        let set = to.rate_limit.as_ref()?.limits.as_ref();
        if set.is_some_and(|set| set.is_weighted()) && !self.weights {
            return Some(
                "rate_limit.limits has a weight, which this package does not pass yet; leave the weight out",
            );
        }
        if set.is_some_and(|set| set.has_windows()) && !self.wall_clock {
            return Some(
                "rate_limit.limits has refill = window, and this package does not report the wall clock yet; leave refill out",
            );
        }
        if set.is_some_and(|set| set.learns && set.fleet.is_some()) && to.is_own("rate_limit.learn") {
            return Some(
                "rate_limit.learn = down means nothing where rate_limit.store is fleet, because the store counts for all processes; leave it out",
            );
        }
        if set.is_some_and(|set| set.learns) && !self.quotas && to.is_own("rate_limit.learn") {
            return Some("this package does not read rate_limit.learn from answers yet; leave it out");
        }
        let was = from.and_then(|from| from.rate_limit.as_ref())?;
        let same = is_same_form(was.limits.as_deref(), to.rate_limit.as_ref()?.limits.as_deref());
        (!same).then_some(
            "retune keeps the form of a rate limit: permits, or limits with the same weights; for another form make another policy",
        )
    }
}

impl Desk {
    /// Whether a call has weights.
    #[inline]
    pub(super) fn is_weighted(&self, slot: Slot) -> bool {
        self.calls.has_more(slot) && self.calls.weights(slot).is_some()
    }

    /// Settles the reservation of an attempt that its host has reported.
    #[inline]
    pub(super) fn settle_reported(&mut self, slot: Slot, attempt: u8, class: Class, now: Time) {
        if self.is_weighted(slot) {
            self.settle_attempts(slot, AttemptSlot::of(attempt).bit(), Some(class), now);
        }
    }

    /// Settles the reservations of attempts that the engine has given up.
    #[inline]
    pub(super) fn settle_given_up(&mut self, slot: Slot, attempt_slots: u8, now: Time) {
        if self.is_weighted(slot) {
            self.settle_attempts(slot, attempt_slots, None, now);
        }
    }
}
