//! The queue of a fleet's rate while its store is lost; and its consistency checks.

use super::MOST_LEASES;
use crate::action::Verdict;
use crate::engine::chores::Chore;
use crate::engine::fleet::FleetStore;
use crate::engine::fleet::command::Part;
use crate::engine::fleet::{Fleet, FleetDesk};
use crate::engine::place::{PoolAt, Slot};
use crate::engine::rate_queue::Bucket;
use crate::engine::route::Routes;
use crate::engine::stage::missing;
use crate::time::Time;

impl Routes {
    /// Recounts unanswered commands when a rate joins the fleet, perhaps again: earlier ones may still be out.
    pub(in crate::engine) fn recount_rate(&mut self, store: &FleetStore, home: PoolAt) {
        let id = self.lasting_id(home.route());
        let of_set = self.shares_set(home);
        let out = store.fleet.as_ref().map_or(0, |fleet| fleet.out_for_tokens(id, of_set)) as u32;
        // Each retune runs this; a rate of the process notes no commands.
        if let Some(asked) = self.asked_mut(home) {
            *asked = out;
        }
    }

    /// Number of unanswered commands about a rate or a set of the fleet.
    fn asked_mut(&mut self, home: PoolAt) -> Option<&mut u32> {
        match &mut self[home].rate.as_deref_mut()?.bucket {
            Bucket::Fleet(share) => Some(&mut share.asked),
            Bucket::Set(limits) => Some(limits.shared.as_deref_mut()?.asked_mut()),
            Bucket::Tokens(_) | Bucket::Cubic(_) => None,
        }
    }

    /// Counts a command that is sent again, with its script.
    pub(in crate::engine::fleet) fn rate_sent(&mut self, home: PoolAt) {
        match self.asked_mut(home) {
            Some(asked) => *asked += 1,
            None => missing("the fleet's share of a rate"),
        }
    }

    /// Counts a command as no longer out: it has been answered, or its answer is overdue.
    pub(in crate::engine::fleet) fn rate_settled(&mut self, home: PoolAt) {
        match self.asked_mut(home) {
            Some(asked) => *asked = asked.saturating_sub(1),
            None => missing("the fleet's share of a rate"),
        }
    }
}

impl FleetDesk<'_> {
    /// Applies `on_loss` to the waiters when the store is lost.
    pub(in crate::engine::fleet) fn rate_without_store(&mut self, home: PoolAt, now: Time) {
        if self.desk.routes.rate_queue(home).0 == 0 {
            return;
        }
        self.lease_out(home, now);
        if self.desk.chores.has(Chore::Tokens(home.route(), false)) {
            return; // later steps continue this
        }
        let (mut ahead, mut next) = (0, self.desk.routes.rate_queue(home).1);
        while let Some(slot) = next {
            let call = &self.desk.calls[slot];
            let after = call.links().1;
            next = (after != Slot::NONE).then_some(after);
            let (cost, give_up) = (call.cost(), call.moment.min(call.deadline));
            let waits = self
                .desk
                .policies
                .of(&self.desk.calls[slot])
                .rate_limit
                .as_ref()
                .is_some_and(|limit| limit.wait);
            let back = self.store.back_in(&self.desk.routes, home, Part::Rate, now);
            let Some(share) = self.desk.routes.share_mut(home) else {
                return missing("the fleet's share of a rate");
            };
            let fits = cost <= share.local.settings().burst;
            let turn = share.local.wait_for(ahead + u64::from(cost), now);
            if waits && fits && now.after(turn) < give_up {
                ahead += u64::from(cost);
            } else {
                self.desk.policies.count_fallback(self.desk.calls[slot].policy);
                let retry_in = if fits { Some(turn) } else { back };
                self.desk.turn_away_from(slot, Verdict::RateLimited, retry_in, now);
            }
        }
        self.lease_out(home, now);
        self.desk.wake_head(home);
    }
}

impl Fleet {
    /// Checks the books of a rate of the fleet.
    pub fn check_share(&self, routes: &Routes, home: PoolAt) -> Result<(), String> {
        let id = routes.lasting_id(home.route());
        let out = self.out_for_tokens(id, routes.shares_set(home));
        let share = match routes[home].rate.as_deref().map(|queue| &queue.bucket) {
            Some(Bucket::Fleet(share)) => share,
            Some(Bucket::Set(limits)) => {
                let asked = limits.shared.as_ref().map_or(0, |share| share.asked());
                let fits = asked as usize <= out;
                return fits
                    .then_some(())
                    .ok_or_else(|| format!("route {home}: {asked} commands noted, {out} out"));
            }
            _ => return Ok(()),
        };
        // A command sent before a retune rebuilt the share is still out, and not counted here.
        if out < share.asked as usize {
            return Err(format!("route {home}: {} commands noted, {out} out", share.asked));
        }
        if share.leased.len() > MOST_LEASES || share.leased.iter().any(|it| it.0 == 0) {
            return Err(format!("route {home}: leases {:?}", share.leased));
        }
        Ok(())
    }
}
