//! All policies of an engine: their settings, and what has happened under each.

use core::ops::{Deref, DerefMut};

use super::arena::Call;
use super::changes::Changes;
use super::ledger::Counts;
use super::route::Homes;
use crate::action::{PolicyId, Verdict};
use crate::policy::Policy;

/// A policy and what has happened under it.
#[derive(Debug)]
pub(super) struct Entry {
    pub policy: Policy,
    pub counts: Counts,
    /// The policy's number: its own place, or another's where these are old settings that calls in flight still have.
    pub of: u16,
    /// The stages that a further attempt passes too: those whose unit is the attempt.
    pub again: u8,
    /// Where the pools are that it names.
    pub homes: Homes,
    /// Is every call refused?
    pub forced: bool,
    /// What an operator has changed for all its routes.
    pub changes: Changes,
}

impl Entry {
    /// A policy under which nothing has happened yet.
    pub fn new(policy: Policy, of: u16, again: u8, homes: Homes) -> Self {
        let (counts, changes) = (Counts::default(), Changes::default());
        Self { policy, counts, of, again, homes, forced: false, changes }
    }
}

/// The policies by their numbers; a list that only grows.
#[derive(Debug, Default)]
pub(super) struct Policies(Vec<Entry>);

impl Policies {
    /// The settings of a call.
    #[inline]
    pub fn of(&self, call: &Call) -> &Policy {
        &self.0[usize::from(call.policy)].policy
    }

    /// The present settings of a policy.
    pub fn find(&self, policy: PolicyId) -> Option<&Policy> {
        self.0.get(policy.0 as usize).map(|entry| &entry.policy)
    }

    /// The number of a policy that was taken in; none for settings that only calls in flight still have.
    pub fn number_of(&self, policy: PolicyId) -> Option<u16> {
        let number = u16::try_from(policy.0).ok()?;
        let entry = self.0.get(usize::from(number))?;
        (entry.of == number).then_some(number)
    }

    /// The id of the policy that settings belong to: of old settings, which calls in flight still have, it is the retuned
    /// policy's.
    pub fn id_of(&self, number: u16) -> PolicyId {
        PolicyId(u32::from(self.0[usize::from(number)].of))
    }

    /// Counts a decision of `on_loss`.
    pub fn count_fallback(&mut self, number: u16) {
        self.0[usize::from(number)].counts.store_fallbacks += 1;
    }

    /// Counts the end of a call.
    #[inline]
    pub fn count_end(&mut self, number: u16, verdict: Verdict) {
        self.0[usize::from(number)].counts.ends[verdict as usize] += 1;
    }
}

impl Deref for Policies {
    type Target = Vec<Entry>;

    #[inline]
    fn deref(&self) -> &Vec<Entry> {
        &self.0
    }
}

impl DerefMut for Policies {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<Entry> {
        &mut self.0
    }
}
