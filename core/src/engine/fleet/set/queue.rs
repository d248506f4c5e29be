//! The queue of a set of the fleet, and the effect of `on_loss` on it.

use super::SetShare;
use crate::action::{Verdict, Wait};
use crate::engine::arena::flag;
use crate::engine::call::{MAX_PARK, wait};
use crate::engine::chores::Chore;
use crate::engine::fleet::FleetDesk;
use crate::engine::fleet::command::Part;
use crate::engine::limits::Costs;
use crate::engine::place::{PoolAt, Slot};
use crate::engine::route::Routes;
use crate::engine::sheets::WEIGHTS;
use crate::engine::stage::{Answer, missing};
use crate::policy::OnLoss;
use crate::step::Step;
use crate::time::{Duration, Time};

/// What refuses a waiter: see [`FleetDesk::refuse_waiters`].
type Refused = (Verdict, Option<Duration>, bool, Option<usize>);

impl Routes {
    /// Whether this is a set whose store is lost and whose `on_loss` is closed.
    pub(in crate::engine) fn refuses_all(&mut self, home: PoolAt) -> bool {
        self.set_share_mut(home).is_some_and(|share| share.is_alone() && share.on_loss == OnLoss::Closed)
    }
}

impl FleetDesk<'_> {
    /// Puts a call into the queue of its set; it gives up after `patience`.
    pub(super) fn queue_for_set(
        &mut self,
        slot: Slot,
        home: PoolAt,
        (patience, cost): (Duration, u64),
        now: Time,
    ) {
        let costs = self.desk.costs(slot, home);
        self.desk.calls.note_charged(slot);
        let call = &mut self.desk.calls[slot];
        call.queue_for_rate(now.after(patience).min(call.deadline), false);
        match self.desk.routes[home].rate.as_deref_mut() {
            Some(queue) => queue.enlist(&mut self.desk.calls, slot, cost),
            None => missing("the rate of a waiter"),
        }
        if let Some(limits) = self.desk.routes.limits_mut(home) {
            limits.enlist(&costs);
        }
    }

    /// When a waiter checks again. The timer of the head also covers the queue's next moment.
    pub(super) fn wait_for_limits(&mut self, slot: Slot, home: PoolAt, now: Time) -> Step {
        let call = &self.desk.calls[slot];
        let mut until = call.moment.min(call.deadline).min(now.after(MAX_PARK));
        let id = self.desk.routes.lasting_id(home.route());
        let due = self.store.fleet.as_ref().and_then(|fleet| fleet.due(id, Part::Rate));
        let is_head = self.desk.routes.rate_queue(home).1 == Some(slot);
        let costs = self.desk.costs(slot, home);
        let Some(share) = self.desk.routes.set_share_mut(home) else {
            missing("the fleet's share of a set");
            return wait(Wait::Rate, until, now);
        };
        let why = if share.up && share.asked > 0 { Wait::Store } else { Wait::Rate };
        if is_head {
            let next = if why == Wait::Store {
                due
            } else if share.up {
                let own = now.after(share.own_turn(&costs, &[0; WEIGHTS], now).0);
                let own = (own > now).then_some(own);
                own.max(share.empty.map(|it| it.until).filter(|until| *until > now))
            } else {
                Some(now.after(share.turn(&costs, &[0; WEIGHTS], now).0))
            };
            until = next.map_or(until, |next| until.min(next.max(now)));
        }
        wait(why, until, now)
    }

    /// Applies `on_loss` to a call that cannot have the store's answer.
    pub(super) fn set_without_store(&mut self, slot: Slot, home: PoolAt, queued: bool, now: Time) -> Answer {
        let back = self.store.back_in(&self.desk.routes, home, Part::Rate, now);
        let (costs, call) = (self.desk.costs(slot, home), &self.desk.calls[slot]);
        let (parks, deadline, cost) = (call.has(flag::MAY_PARK), call.deadline, u64::from(call.cost()));
        let limit = self.desk.policies.of(call).rate_limit.as_ref();
        let (waits, max_wait, most) =
            limit.map_or((false, Duration::ZERO, 0), |it| (it.wait, it.max_wait, it.max_waiters));
        let waiting = self.desk.routes.rate_queue(home).0;
        self.desk.policies.count_fallback(self.desk.calls[slot].policy);
        let Some(limits) = self.desk.routes.limits_mut(home) else {
            return Answer::broken(Verdict::RateLimited);
        };
        let ahead = if queued { limits.queued() } else { [0; WEIGHTS] };
        let Some(share) = limits.shared.as_deref_mut() else { return Answer::broken(Verdict::RateLimited) };
        if share.on_loss == OnLoss::Closed {
            return Answer::Refuse(Verdict::StoreUnavailable, back);
        }
        if (!queued || share.on_loss == OnLoss::Open) && share.take_alone(&costs, now) {
            limits.count_reserved(&costs);
            self.desk.calls.reserve(slot);
            return Answer::Pass;
        }
        if let Some(at) = share.never_fits(&costs) {
            // The process's share never holds that many tokens; only the store can give them.
            self.desk.refusals.note(self.desk.calls.id(slot), (home, at, costs[at]));
            return Answer::Refuse(Verdict::RateLimited, back);
        }
        let (turn, last) = share.alone_turn(&costs, &ahead, now);
        let (down, in_vain) = (!share.up, turn > max_wait || now.after(turn) >= deadline);
        if !waits || !parks || !down || waiting >= most || in_vain {
            self.desk.refusals.note(self.desk.calls.id(slot), (home, last, costs[last]));
            return Answer::Refuse(Verdict::RateLimited, Some(turn));
        }
        self.queue_for_set(slot, home, (max_wait, cost), now);
        self.desk.note_course(move |it| it.queued(slot, Wait::Rate, now.after(turn), now));
        Answer::Wait(self.wait_for_limits(slot, home, now))
    }

    /// Applies `on_loss` to the waiters when the store is lost.
    pub(in crate::engine) fn limits_without_store(&mut self, home: PoolAt, now: Time) {
        self.sender().note_set_up(home);
        if self.desk.routes.rate_queue(home).0 == 0 {
            return;
        }
        self.desk.hand_out_set(home, false, now);
        if self.desk.chores.has(Chore::Tokens(home.route(), false)) {
            return; // later steps continue this
        }
        let back = self.store.back_in(&self.desk.routes, home, Part::Rate, now);
        while self.desk.routes.refuses_all(home)
            && let Some(slot) = self.desk.routes.rate_queue(home).1
        {
            if !self.desk.chores.one_more(Chore::Tokens(home.route(), false)) {
                self.desk.wakes.push(self.desk.calls.id(slot)); // its next event resumes this loop
                return;
            }
            self.desk.policies.count_fallback(self.desk.calls[slot].policy);
            self.desk.turn_away_from(slot, Verdict::StoreUnavailable, back, now);
        }
        self.refuse_waiters(home, now, |share, costs, ahead, now| {
            let never = share.never_fits(costs);
            let (turn, last) = share.alone_turn(costs, ahead, now);
            let turn = if never.is_some() { back } else { Some(turn) };
            (Verdict::RateLimited, turn, never.is_some(), never.or(Some(last)))
        });
        self.desk.hand_out_set(home, false, now);
        self.desk.wake_head(home);
    }

    /// Asks the store, now that it is back, on behalf of calls that have waited for the process's share.
    pub(in crate::engine::fleet) fn limits_with_store(&mut self, home: PoolAt, now: Time) {
        self.sender().note_set_up(home);
        if self.desk.routes.rate_queue(home).0 > 0 {
            self.ask_store_for_set(home, now);
            self.desk.wake_head(home);
        }
    }

    /// Refuses calls when the store has no tokens: those that do not wait, and those whose wait would be in vain.
    pub(super) fn set_refused(&mut self, home: PoolAt, now: Time) {
        self.refuse_waiters(home, now, |share, costs, ahead, now| {
            let (turn, last) = share.turn(costs, ahead, now);
            // Calls that lack less of the limit that frees last are asked about next.
            let spared = !share.is_empty_for(&share.lacks(costs), now);
            (Verdict::RateLimited, if spared { None } else { Some(turn) }, false, Some(last))
        });
    }

    /// Refuses waiters in their order. `asks` answers for each, by its costs and the tokens ahead of it, with which verdict,
    /// when another try makes sense (`None`: not refused here, unless it must be), whether it must be refused, and by which
    /// limit.
    fn refuse_waiters(
        &mut self,
        home: PoolAt,
        now: Time,
        asks: impl Fn(&mut SetShare, &Costs, &[u128; WEIGHTS], Time) -> Refused,
    ) {
        let (mut ahead, mut next) = ([0_u128; WEIGHTS], self.desk.routes.rate_queue(home).1);
        while let Some(slot) = next {
            let call = &self.desk.calls[slot];
            let after = call.links().1;
            next = (after != Slot::NONE).then_some(after);
            let (give_up, policy) = (call.moment.min(call.deadline), call.policy);
            let waits = self.desk.policies.of(call).rate_limit.as_ref().is_some_and(|limit| limit.wait);
            let costs = self.desk.costs(slot, home);
            let Some(share) = self.desk.routes.set_share_mut(home) else {
                return missing("the fleet's share of a set");
            };
            let (verdict, turn, must, limit) = asks(share, &costs, &ahead, now);
            let in_vain = turn.is_some_and(|turn| !waits || now.after(turn) >= give_up);
            if must || in_vain {
                if self.desk.routes.set_share_mut(home).is_some_and(|share| share.is_alone()) {
                    self.desk.policies.count_fallback(policy);
                }
                if let Some(at) = limit {
                    self.desk.refusals.note(self.desk.calls.id(slot), (home, at, costs[at]));
                }
                self.desk.turn_away_from(slot, verdict, turn, now);
            } else {
                for (ahead, cost) in ahead.iter_mut().zip(costs) {
                    *ahead += u128::from(cost);
                }
            }
        }
    }
}
