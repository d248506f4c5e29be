//! Tokens for calls: the rate limit, and the send rate (semantics 3 and 2.14), where they may be the fleet's.

use super::Engine;
use super::arena::flag;
use super::chores::Chore;
use super::pace::{Bucket, MOST_SENDERS, Pace};
use super::place::{RouteAt, Slot};
use super::stage::Answer;
use crate::action::{Step, Verdict, Wait};
use crate::time::{Duration, Time};

impl Engine {
    /// Asks for the tokens of a call, or of its next attempt.
    pub(super) fn ask_pace(&mut self, slot: Slot, sending: bool, now: Time) -> Answer {
        let call = &self.desk.calls[slot];
        let (route, policy, deadline, may_park) =
            (call.route, call.policy, call.deadline, call.has(flag::MAY_PARK));
        let cost = if sending { 1 } else { u32::from(call.cost) };
        let Some(mut pace) = self.desk.routes.pace_mut(route, sending) else {
            return Answer::broken(Verdict::RateLimited);
        };
        if let Bucket::Fleet(_) = pace.bucket {
            return self.fleet_desk().ask_fleet(slot, now);
        }
        if pace.waiting.len() > 0 {
            self.pace_out(route, sending, now);
            let Some(again) = self.desk.routes.pace_mut(route, sending) else {
                return Answer::broken(Verdict::RateLimited);
            };
            pace = again;
        }
        if pace.take(cost, now) {
            return Answer::Pass;
        }
        let limit = self.desk.policies[usize::from(policy)].policy.rate_limit.as_ref();
        let (waits, max_wait, most) = match limit {
            _ if sending => (true, Duration::MAX, MOST_SENDERS),
            Some(limit) => (limit.wait, limit.max_wait, limit.max_waiters),
            None => (false, Duration::ZERO, 0),
        };
        let Some(pace) = self.desk.routes.pace_mut(route, sending) else {
            return Answer::broken(Verdict::RateLimited);
        };
        if !sending && pace.burst().is_some_and(|burst| cost > burst) {
            return Answer::Refuse(Verdict::CostAboveBurst, None); // since it began, the burst has become smaller
        }
        let turn = pace.bucket.wait_for(pace.queued() + u64::from(cost), now);
        let in_vain = turn > max_wait || now.after(turn) >= deadline;
        if !waits || !may_park || pace.waiting.len() >= most || in_vain {
            return Answer::Refuse(Verdict::RateLimited, Some(turn));
        }
        self.desk.calls.note_charged(slot);
        self.desk.calls[slot].pace(now.after(turn), sending);
        pace.enlist(&mut self.desk.calls, slot, u64::from(cost));
        self.desk.note_course(move |it| it.queued(slot, Wait::Rate, now.after(turn), now));
        Answer::Wait(self.desk.wait_paced(slot, now))
    }

    /// Gives tokens to the heads that can have them. True if there is a new head.
    fn pace_out(&mut self, route: RouteAt, sending: bool, now: Time) -> bool {
        if let Some(Pace { bucket: Bucket::Fleet(_), .. }) = self.desk.routes.pace_mut(route, sending) {
            let home = self.desk.routes[route].rate_at;
            return self.fleet_desk().lease_out(home, now);
        }
        let mut moved = false;
        while let Some(slot) = self.desk.routes.pace_mut(route, sending).and_then(|pace| pace.waiting.head())
        {
            if !self.desk.chores.one_more(Chore::Tokens(route, sending)) {
                self.desk.wakes.push(self.desk.calls.id(slot)); // its event goes on here
                return true;
            }
            if self.desk.calls[slot].deadline <= now {
                self.desk.unlist(slot); // a waiter whose deadline has passed is failed, not granted
                self.desk.turn_away(slot, Verdict::DeadlineQueued, now);
                if let Some(pace) = self.desk.routes.pace_mut(route, sending) {
                    pace.restless = true;
                }
                moved = true;
                continue;
            }
            let cost = self.desk.tokens_of(slot, sending);
            if !self.desk.routes.pace_mut(route, sending).is_some_and(|pace| pace.bucket.try_take(cost, now))
            {
                break;
            }
            self.desk.unlist(slot);
            self.desk.calls[slot].flags |= flag::TOKENS;
            self.desk.note_course(move |it| it.granted(slot, Wait::Rate, None, now));
            self.desk.wakes.push(self.desk.calls.id(slot));
            moved = true;
        }
        if moved {
            self.desk.settle_heads(route, sending);
        }
        moved
    }

    /// Goes on with giving tokens to the heads that can have them.
    pub(super) fn resume_pace(&mut self, route: RouteAt, sending: bool, now: Time) {
        self.pace_out(route, sending, now);
    }

    /// Somebody has left without tokens.
    pub(super) fn left_pace(&mut self, route: RouteAt, sending: bool, now: Time) {
        self.desk.unsettle_heads(route, sending);
        if !self.pace_out(route, sending, now) {
            self.desk.settle_heads(route, sending);
        }
    }

    /// A waiter's own look: `None` when its tokens are there.
    pub(super) fn still_paced(&mut self, slot: Slot, now: Time) -> Option<Step> {
        let (route, sending) = (self.desk.calls[slot].route, self.desk.calls[slot].has(flag::SENDING));
        if !self.desk.calls[slot].has(flag::TOKENS) {
            self.pace_out(route, sending, now);
            let own = self.desk.calls.id(slot);
            self.desk.wakes.retain(|woken| *woken != own); // it is here
        }
        if self.desk.calls[slot].has(flag::TOKENS) {
            return None;
        }
        let (cost, past) = (self.desk.tokens_of(slot, sending), self.desk.calls[slot].moment <= now);
        if let Some(pace) = self.desk.routes.pace_mut(route, sending) {
            let turn = if pace.waiting.head() == Some(slot) {
                Some(pace.bucket.wait_for(u64::from(cost), now))
            } else {
                past.then(|| pace.bucket.wait_for(pace.queued(), now))
            };
            if let Some(turn) = turn {
                self.desk.calls[slot].moment = now.after(turn);
            }
        }
        Some(self.desk.wait_paced(slot, now))
    }
}
