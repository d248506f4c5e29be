//! All policies of an engine: their settings, and what has happened under each.

use core::ops::{Deref, DerefMut};

use super::arena::Call;
use super::changes::Changes;
use super::ledger::Counts;
use super::owners::Unowned;
use super::route::SharedPools;
use crate::action::{PolicyId, Verdict};
use crate::full::Part;
use crate::policy::Policy;

/// A policy and what has happened under it.
#[derive(Debug)]
pub(super) struct Entry {
    pub policy: Policy,
    pub counts: Counts,
    /// The policy's number: its own place, or another's where these are old settings that calls in flight still have.
    pub of: u16,
    /// How many policies have had this number before.
    pub generation: u16,
    /// Callers of [`super::Engine::policy`] that have not released it.
    pub owners: u32,
    /// Does its number name no policy?
    pub vacant: bool,
    /// The stages that a further attempt passes too: those whose unit is the attempt.
    pub again: u8,
    /// Where the pools are that it names.
    pub shared_pools: SharedPools,
    /// Is every call refused?
    pub forced: bool,
    /// What an operator has changed for all its routes.
    pub changes: Changes,
}

impl Entry {
    /// A policy under which nothing has happened yet.
    pub fn new(policy: Policy, of: u16, again: u8, shared_pools: SharedPools) -> Self {
        let (counts, changes) = (Counts::default(), Changes::default());
        let (generation, owners, vacant, forced) = (0, 0, false, false);
        Self { policy, counts, of, generation, owners, vacant, again, shared_pools, forced, changes }
    }
}

/// The policies by their numbers. The list only grows; the number of a policy that was removed goes to a later one.
#[derive(Debug, Default)]
pub(super) struct Policies {
    list: Vec<Entry>,
    /// Of those that nobody holds, once there have been some.
    pub unowned: Option<Part<Unowned>>,
}

impl Policies {
    /// The settings of a call.
    #[inline]
    pub fn of(&self, call: &Call) -> &Policy {
        &self.list[usize::from(call.policy)].policy
    }

    /// The present settings of a policy.
    pub fn find(&self, policy: PolicyId) -> Option<&Policy> {
        let entry = self.list.get(usize::from(policy.number()))?;
        (entry.generation == policy.generation() && !entry.vacant).then_some(&entry.policy)
    }

    /// The number of a policy that was taken in; none for settings that only calls in flight still have.
    pub fn number_of(&self, policy: PolicyId) -> Option<u16> {
        let number = policy.number();
        let entry = self.list.get(usize::from(number))?;
        (entry.of == number && entry.generation == policy.generation() && !entry.vacant).then_some(number)
    }

    /// The id of the policy that settings belong to: of old settings, which calls in flight still have, it is the retuned
    /// policy's.
    pub fn id_of(&self, number: u16) -> PolicyId {
        let of = self.list[usize::from(number)].of;
        PolicyId::new(of, self.list[usize::from(of)].generation)
    }

    /// Counts a decision of `on_loss`.
    pub fn count_fallback(&mut self, number: u16) {
        self.list[usize::from(number)].counts.store_fallbacks += 1;
    }

    /// Counts the end of a call.
    #[inline]
    pub fn count_end(&mut self, number: u16, verdict: Verdict) {
        self.list[usize::from(number)].counts.ends[verdict as usize] += 1;
    }
}

impl Deref for Policies {
    type Target = Vec<Entry>;

    #[inline]
    fn deref(&self) -> &Vec<Entry> {
        &self.list
    }
}

impl DerefMut for Policies {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<Entry> {
        &mut self.list
    }
}
