//! The queue of a fleet's rate, and the effect of `on_loss` on it.

use crate::action::{Verdict, Wait};
use crate::engine::arena::{Arena, flag};
use crate::engine::call::{MAX_PARK, wait};
use crate::engine::chores::Chore;
use crate::engine::desk::Desk;
use crate::engine::fleet::FleetDesk;
use crate::engine::fleet::command::Part;
use crate::engine::place::{PoolAt, Slot};
use crate::engine::rate_queue::Bucket;
use crate::engine::route::Routes;
use crate::engine::stage::{Answer, missing};
use crate::policy::OnLoss;
use crate::step::Step;
use crate::time::{Duration, Time};

impl Desk {
    fn grant_tokens(&mut self, slot: Slot, now: Time) {
        self.unlist(slot);
        self.calls[slot].flags |= flag::TOKENS;
        self.note_course(move |it| it.granted(slot, Wait::Store, None, now));
        self.wakes.push(self.calls.id(slot));
    }

    /// Wakes the head: the head's timer covers the queue's next moment, so a new head has to fetch it.
    pub(in crate::engine::fleet) fn wake_head(&mut self, home: PoolAt) {
        if let Some(head) = self.routes.rate_queue(home).1 {
            self.wakes.push(self.calls.id(head));
        }
    }
}

impl Routes {
    /// Puts a call into the queue of its rate; it gives up after `patience`.
    pub(in crate::engine::fleet) fn queue_for_tokens(
        &mut self,
        calls: &mut Arena,
        slot: Slot,
        home: PoolAt,
        patience: Duration,
        now: Time,
    ) {
        calls.note_charged(slot);
        let call = &mut calls[slot];
        call.queue_for_rate(now.after(patience).min(call.deadline), false);
        let cost = u64::from(call.cost());
        match self[home].rate.as_deref_mut() {
            Some(queue) => queue.enlist(calls, slot, cost),
            None => missing("the rate of a waiter"),
        }
    }

    /// Routes and pools whose rate is the fleet's.
    pub(in crate::engine::fleet) fn fleet_rates(&self) -> Vec<PoolAt> {
        let fleet = self.iter().filter(|(_, route)| {
            route.rate.as_ref().is_some_and(|queue| match &queue.bucket {
                Bucket::Fleet(_) => true,
                Bucket::Set(limits) => limits.shared.is_some(),
                Bucket::Tokens(_) | Bucket::Cubic(_) => false,
            })
        });
        fleet.map(|(slot, _)| slot.own()).collect()
    }
}

impl FleetDesk<'_> {
    /// Applies `on_loss` to a call that cannot have the store's answer.
    pub(in crate::engine::fleet) fn without_store(
        &mut self,
        slot: Slot,
        home: PoolAt,
        queued: bool,
        now: Time,
    ) -> Answer {
        let back = self.store.back_in(&self.desk.routes, home, Part::Rate, now);
        let call = &self.desk.calls[slot];
        let (cost, parks, deadline) = (call.cost(), call.has(flag::MAY_PARK), call.deadline);
        let limit = self.desk.policies.of(&self.desk.calls[slot]).rate_limit.as_ref();
        let (waits, max_wait, most) =
            limit.map_or((false, Duration::ZERO, 0), |it| (it.wait, it.max_wait, it.max_waiters));
        let (waiting, _, tokens) = self.desk.routes.rate_queue(home);
        let down = !self.store.is_up(&self.desk.routes, home, Part::Rate);
        self.desk.policies.count_fallback(self.desk.calls[slot].policy);
        let Some(share) = self.desk.routes.share_mut(home) else {
            return Answer::broken(Verdict::RateLimited);
        };
        match share.fleet.on_loss {
            OnLoss::Open => return Answer::Pass,
            OnLoss::Closed => return Answer::Refuse(Verdict::StoreUnavailable, back),
            OnLoss::Local => {}
        }
        if !queued && share.local.try_take(cost, now).is_ok() {
            share.spend_alone(cost, down);
            return Answer::Pass;
        }
        if cost > share.local.settings().burst {
            // The process's share never holds that many tokens; only the store can give them.
            return Answer::Refuse(Verdict::RateLimited, back);
        }
        let ahead = if queued { tokens } else { 0 };
        let turn = share.local.wait_for(ahead + u64::from(cost), now);
        let in_vain = turn > max_wait || now.after(turn) >= deadline;
        if !waits || !parks || !down || waiting >= most || in_vain {
            return Answer::Refuse(Verdict::RateLimited, Some(turn));
        }
        self.desk.routes.queue_for_tokens(&mut self.desk.calls, slot, home, max_wait, now);
        self.desk.note_course(move |it| it.queued(slot, Wait::Rate, now.after(turn), now));
        Answer::Wait(self.wait_for_tokens(slot, home, now))
    }

    /// When a waiter checks again. The timer of the head also covers the queue's next moment.
    pub(in crate::engine::fleet) fn wait_for_tokens(&mut self, slot: Slot, home: PoolAt, now: Time) -> Step {
        let call = &self.desk.calls[slot];
        let mut until = call.moment.min(call.deadline).min(now.after(MAX_PARK));
        let cost = call.cost();
        let id = self.desk.routes.lasting_id(home.route());
        let due = self.store.fleet.as_ref().and_then(|fleet| fleet.due(id, Part::Rate));
        let (up, is_head) = (
            self.store.is_up(&self.desk.routes, home, Part::Rate),
            self.desk.routes.rate_queue(home).1 == Some(slot),
        );
        let Some(share) = self.desk.routes.share_mut(home) else {
            missing("the fleet's share of a rate");
            return wait(Wait::Rate, until, now);
        };
        let why = if up && share.asked > 0 { Wait::Store } else { Wait::Rate };
        if is_head {
            let next = match why {
                Wait::Store => due,
                _ if up => {
                    let own = share.is_recovering(now).then(|| now.after(share.own_turn(0, cost, now)));
                    own.max(share.empty.map(|it| it.1))
                }
                _ => Some(now.after(share.local.wait_for(u64::from(cost), now))),
            };
            until = next.map_or(until, |next| until.min(next.max(now)));
        }
        wait(why, until, now)
    }

    /// Gives leased tokens, or those of the process's share, to waiters from the head on. Returns true if there is a
    /// new head.
    pub(in crate::engine) fn lease_out(&mut self, home: PoolAt, now: Time) -> bool {
        let up = self.store.is_up(&self.desk.routes, home, Part::Rate);
        let mut moved = false;
        while let Some(slot) = self.desk.routes.rate_queue(home).1 {
            if !self.desk.chores.one_more(Chore::Tokens(home.route(), false)) {
                self.desk.wakes.push(self.desk.calls.id(slot)); // its next event resumes this loop
                return true;
            }
            let (cost, deadline) = (self.desk.calls[slot].cost(), self.desk.calls[slot].deadline);
            let Some(share) = self.desk.routes.share_mut(home) else {
                missing("the fleet's share of a rate");
                break;
            };
            if deadline <= now {
                self.desk.turn_away_from(slot, Verdict::DeadlineQueued, None, now);
            } else if share.take(cost, now) {
                self.desk.grant_tokens(slot, now);
            } else if up {
                break;
            } else {
                match share.fleet.on_loss {
                    OnLoss::Closed => {
                        self.desk.policies.count_fallback(self.desk.calls[slot].policy);
                        let back = self.store.back_in(&self.desk.routes, home, Part::Rate, now);
                        self.desk.turn_away_from(slot, Verdict::StoreUnavailable, back, now);
                    }
                    OnLoss::Local if share.local.try_take(cost, now).is_err() => break,
                    OnLoss::Local | OnLoss::Open => {
                        share.spend_alone(cost, true);
                        self.desk.policies.count_fallback(self.desk.calls[slot].policy);
                        self.desk.grant_tokens(slot, now);
                    }
                }
            }
            moved = true;
        }
        if moved {
            self.desk.wake_head(home);
        }
        moved
    }
}
