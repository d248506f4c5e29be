//! Owners of a policy, and the removal of policies without owners (semantics 0.9).

use std::collections::VecDeque;

use super::chores::{Chore, Chores, MOST};
use super::place::RouteAt;
use super::policies::{Entry, Policies};
use super::route::{Routes, SharedPools};
use super::{Engine, Input};
use crate::action::PolicyId;
use crate::full::{Full, Part};
use crate::policy::Policy;
use crate::time::Time;

/// The most policies without an owner that keep their counts.
const MOST_KEPT: usize = 1_024;

/// The most leaving policies that one step visits.
const LOOKED_AT: usize = 16;

pub(super) const TWO: &str = "somebody holds a policy of this name with other settings: `retune` that one (or `reload` \
                              its document), or give this one another name";

/// Policies without an owner, by number.
#[derive(Debug, Default)]
pub(super) struct Unowned {
    /// Policies that can be taken in again under their names, first released first.
    kept: VecDeque<u16>,
    /// Policies to remove when their calls have ended and their routes are freed.
    leaving: VecDeque<u16>,
    /// Free policy numbers.
    vacant: Vec<u16>,
    /// The pools of policies that were removed, until the pools know of it.
    left: Vec<SharedPools>,
}

impl Engine {
    /// Removes one owner of a policy; each [`Engine::policy`] that returned its id counts as one. The last release
    /// removes the policy with its routes and their debts. With `keep` the policy stays available under its name
    /// until 1,024 later kept policies have been released. A policy with calls stays until they have ended; each
    /// release of a policy checks for that.
    ///
    /// The id of a removed policy is stale. An id that is stale, or has no owner, changes nothing. A step frees 256
    /// routes; later steps free the rest.
    ///
    /// ```
    /// use tidegate::{Engine, Options, Policy, Time, Value};
    /// let mut engine = Engine::new(7, Options::default());
    /// let policy = Policy::from_pairs("p", &[("preset", Value::Text("http"))]).unwrap();
    /// let id = engine.policy(policy.clone()).unwrap();
    /// engine.release_policy(id, false, Time::from_micros(0));
    /// assert_eq!(engine.policy_of(id), None);
    /// assert_ne!(engine.policy(policy).unwrap(), id);
    /// ```
    pub fn release_policy(&mut self, policy: PolicyId, keep: bool, now: Time) {
        self.journal.write(|| Input::Release { policy, keep, now });
        self.clock.observe(now);
        self.desk.chores.begin_step();
        let Some(number) = self.desk.policies.number_of(policy) else { return };
        if let Some(leaves) = self.desk.policies.disown(number, keep) {
            self.by_name.remove(self.desk.policies[usize::from(leaves)].policy.name());
        }
        self.desk.policies.remove_leaving(&mut self.desk.routes, &mut self.desk.chores);
    }
}

impl Policies {
    /// Number of the next policy.
    pub fn next_number(&self) -> Option<u16> {
        let vacant = self.unowned.as_ref().and_then(|it| it.vacant.last().copied());
        vacant.or_else(|| u16::try_from(self.len()).ok())
    }

    /// Stores a policy under its number, with one owner.
    pub fn put(&mut self, entry: Entry) {
        let number = usize::from(entry.of);
        if let Some(place) = self.get_mut(number) {
            *place = Entry { generation: place.generation, owners: 1, ..entry };
            if let Some(unowned) = &mut self.unowned {
                unowned.vacant.pop();
            }
        } else {
            self.push(Entry { owners: 1, ..entry });
        }
    }

    /// Whether the policy has no owner, so that different settings are a retune of it.
    pub fn may_change(&self, policy: PolicyId, to: &Policy) -> bool {
        let entry = &self[usize::from(policy.number())];
        self.unowned.is_some() && entry.owners == 0 && entry.policy != *to
    }

    /// Whether the policy has been removed, and only its calls keep it here.
    pub fn is_leaving(&self, number: u16) -> bool {
        self[usize::from(number)].owners == 0
            && self.unowned.as_ref().is_some_and(|it| it.leaving.contains(&number))
    }

    /// Adds an owner.
    pub fn own(&mut self, number: u16) {
        let entry = &mut self[usize::from(number)];
        entry.owners = entry.owners.saturating_add(1);
        if entry.owners == 1
            && let Some(unowned) = &mut self.unowned
        {
            unowned.kept.retain(|kept| *kept != number);
        }
    }

    /// Removes an owner. Returns the policy that leaves because of it; its name is free from here on.
    fn disown(&mut self, number: u16, keep: bool) -> Option<u16> {
        let full = Full::here()?;
        let entry = &mut self[usize::from(number)];
        let was_last = entry.owners == 1;
        entry.owners = entry.owners.saturating_sub(1);
        if !was_last {
            return None;
        }
        let unowned = self.unowned.get_or_insert_with(|| Part::new(Unowned::default(), full));
        let mut leaves = Some(number);
        if keep {
            unowned.kept.push_back(number);
            leaves = if unowned.kept.len() > MOST_KEPT { unowned.kept.pop_front() } else { None };
        }
        unowned.leaving.extend(leaves);
        leaves
    }

    /// The pools of the policies that were removed since the last time. Between two policies that name pools there are
    /// no more than there are policies.
    pub fn take_left(&mut self) -> Vec<SharedPools> {
        self.unowned.as_mut().map(|it| core::mem::take(&mut it.left)).unwrap_or_default()
    }

    /// The same, left in place.
    pub fn left(&self) -> &[SharedPools] {
        self.unowned.as_ref().map_or(&[], |it| &it.left)
    }

    /// Removes leaving policies whose calls have ended, within the number of routes that this step may free.
    pub fn remove_leaving(&mut self, routes: &mut Routes, chores: &mut Chores) {
        let leaving = self.unowned.as_ref().map_or(0, |it| it.leaving.len());
        for _ in 0..leaving.min(LOOKED_AT) {
            let Some(number) = self.unowned.as_mut().and_then(|it| it.leaving.pop_front()) else { return };
            let is_gone = free_routes(number, routes, chores);
            if is_gone {
                self.remove(number);
            } else if let Some(unowned) = &mut self.unowned {
                unowned.leaving.push_back(number);
            }
        }
    }

    /// Makes the number of a policy without routes vacant.
    fn remove(&mut self, number: u16) {
        let shared_pools = self[usize::from(number)].shared_pools;
        if shared_pools != SharedPools::OWN
            && let Some(unowned) = &mut self.unowned
        {
            unowned.left.push(shared_pools);
        }
        // The old settings from before a retune served calls of this policy only.
        let was_retuned = self[usize::from(number)].changes.last > 0;
        let most = if was_retuned { self.len() } else { 0 };
        let old = (0..=u16::MAX).take(most).filter(|at| *at != number);
        for at in old.chain([number]) {
            let entry = &mut self[usize::from(at)];
            if entry.of != number || entry.vacant {
                continue;
            }
            entry.vacant = true;
            if entry.generation < u16::MAX {
                entry.generation += 1;
                if let Some(unowned) = &mut self.unowned {
                    unowned.vacant.push(at);
                }
            }
        }
    }
}

/// Frees the routes of a leaving policy. Returns true once none is left; then its debts are forgotten.
fn free_routes(number: u16, routes: &mut Routes, chores: &mut Chores) -> bool {
    let mut all = true;
    for slot in routes.of_policy(number, MOST as usize + 1) {
        if routes[slot].active > 0 {
            all = false; // its calls still read their settings
        } else if chores.one_more(Chore::Removed) {
            routes.remove(slot);
        } else {
            return false;
        }
    }
    if all {
        routes.debts.forget_policy(number);
        chores.clear_changed(number);
        chores.clear_forced(number, RouteAt::NONE);
    }
    all
}
