//! All policies of an engine: their settings, and their counts.

use core::ops::{Deref, DerefMut};

use super::arena::Call;
use super::changes::Changes;
use super::ledger::Counts;
use super::owners::Unowned;
use super::route::SharedPools;
#[cfg(doc)]
use super::route::stage;
use crate::action::{PolicyId, Verdict};
use crate::full::Part;
use crate::policy::Policy;
use crate::time::Duration;

/// A policy and its counts.
#[derive(Debug)]
pub(super) struct Entry {
    pub policy: Policy,
    pub counts: Counts,
    /// The policy's number: its own index, or another's for old settings that calls in flight still use.
    pub of: u16,
    /// Number of earlier policies with this number.
    pub generation: u16,
    /// Number of [`super::Engine::policy`] calls that have not been released.
    pub owners: u32,
    /// Whether its number is free.
    pub vacant: bool,
    /// Stages that a further attempt passes too: those whose unit is the attempt. And the bit [`stage::TIMED`].
    pub again: u16,
    /// Places of the pools that it names.
    pub shared_pools: SharedPools,
    /// Whether every call is refused.
    pub forced: bool,
    /// An operator's changes for all its routes.
    pub changes: Changes,
}

impl Entry {
    /// Creates a policy with empty counts.
    pub fn new(policy: Policy, of: u16, again: u16, shared_pools: SharedPools) -> Self {
        let (counts, changes) = (Counts::default(), Changes::default());
        let (generation, owners, vacant, forced) = (0, 0, false, false);
        Self { policy, counts, of, generation, owners, vacant, again, shared_pools, forced, changes }
    }
}

/// Policies by number. The list only grows; a later policy reuses the number of a removed one.
#[derive(Debug, Default)]
pub(super) struct Policies {
    list: Vec<Entry>,
    /// Policies without an owner, once there have been some.
    pub unowned: Option<Part<Unowned>>,
}

impl Policies {
    /// The settings of a call.
    #[inline]
    pub fn of(&self, call: &Call) -> &Policy {
        &self.list[usize::from(call.policy)].policy
    }

    /// How long a call may wait for tokens, if it may.
    pub fn max_wait_of(&self, call: &Call) -> Option<Duration> {
        let limit = self.of(call).rate_limit.as_ref();
        limit.filter(|limit| limit.wait).map(|limit| limit.max_wait)
    }

    /// The present settings of a policy.
    pub fn find(&self, policy: PolicyId) -> Option<&Policy> {
        let entry = self.list.get(usize::from(policy.number()))?;
        (entry.generation == policy.generation() && !entry.vacant).then_some(&entry.policy)
    }

    /// Number of an added policy; `None` for old settings that only calls in flight still use.
    pub fn number_of(&self, policy: PolicyId) -> Option<u16> {
        let number = policy.number();
        let entry = self.list.get(usize::from(number))?;
        (entry.of == number && entry.generation == policy.generation() && !entry.vacant).then_some(number)
    }

    /// Id of the policy to which settings belong. For old settings, which calls in flight still use, it is the
    /// retuned policy's.
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
