//! A newer version of a document for an engine that has taken an older one in (semantics 0.8).
//!
//! The whole of it is checked before anything is changed; each change is then a `retune`, or takes a policy or a pool in.
//! So a journal needs no line of its own for it.

use super::Engine;
use super::fleet::rule_against;
use super::policies::Entry;
use crate::action::{Flags, PolicyId};
use crate::policy::{Document, Policy, PolicyError, Pool};
use crate::time::Time;

const FOREIGN: &str =
    "the engine has one of this name with other settings that is not of this document: rename one of them";
const KIND: &str =
    "a reload changes a pool's settings, not its kind: keep the kind, or give the pool another name";
const POOLS: &str =
    "a reload keeps the pools that a policy names: name the same ones, or give the policy another name";
const ROOM: &str = "an engine holds at most 65,536 policies, changed ones with calls included: make fewer";

impl Engine {
    /// Goes over from one version of a document to another, as a whole or not at all. Policies and pools of both versions
    /// are retuned, so that they keep what they have counted; those that only the newer one has are taken in; those that
    /// only the older one has stay as they are, for the callers that still have them.
    ///
    /// Drain the wakes under the same lock, as after a step. Cost: for each policy that changes, a pass over calls.
    ///
    /// # Errors
    /// Every policy and every pool that cannot go over; the engine has not been changed then. A policy keeps the pools that
    /// it names, and a pool its kind. What only the newer version has may not have the name of a policy or pool of other
    /// settings that the engine has from elsewhere.
    ///
    /// ```
    /// use tidegate::{Document, Engine, Options, Time};
    /// let mut engine = Engine::new(1, Options::default());
    /// let old = Document::from_toml("policy.payments.retry.max_attempts = 3")?;
    /// let id = engine.policy(old.policy("payments").unwrap().clone()).unwrap();
    /// let new = Document::from_toml("policy.payments.retry.max_attempts = 2")?;
    /// engine.reload(&old, &new, Time::from_micros(0))?;
    /// assert_eq!(engine.policy_of(id), new.policy("payments").ok());
    /// # Ok::<(), Vec<tidegate::PolicyError>>(())
    /// ```
    pub fn reload(&mut self, from: &Document, to: &Document, now: Time) -> Result<Flags, Vec<PolicyError>> {
        let mut mistakes: Vec<_> = to.pools().filter_map(|pool| self.pool_mistake(from, pool)).collect();
        mistakes.extend(to.policies().filter_map(|policy| self.policy_mistake(from, policy)));
        // A policy that changes may leave its old settings to calls in flight, in an entry of their own.
        let more = to
            .policies()
            .filter(|policy| {
                self.policy_named(policy.name()).and_then(|id| self.policy_of(id)) != Some(policy)
            })
            .count();
        if self.desk.policies.len() + more > usize::from(u16::MAX) + 1 {
            mistakes.push(mistake("document", &format!("{more} policies that change"), ROOM));
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let refused =
            |clash: super::Clash| vec![mistake("document", &format!("{:?}", clash.name), clash.rule)];
        for pool in to.pools() {
            match self.pool_of(pool.name()) {
                None => self.pool(pool.clone(), now).map_err(refused)?,
                Some(known) if known == pool => {}
                Some(_) => drop(self.retune_pool(pool.clone(), now).map_err(refused)?),
            }
        }
        for policy in to.policies() {
            match self.policy_named(policy.name()) {
                None => drop(self.policy(policy.clone()).map_err(refused)?),
                Some(id) => drop(self.retune(id, policy.clone(), now).map_err(refused)?),
            }
        }
        Ok(self.flags())
    }

    fn pool_mistake(&self, from: &Document, pool: &Pool) -> Option<PolicyError> {
        let rule = match self.pool_of(pool.name()) {
            Some(known) if known == pool => None,
            Some(_) if !from.pools().any(|old| old.name() == pool.name()) => Some(FOREIGN),
            Some(known) if known.kind() != pool.kind() => Some(KIND),
            _ => rule_against(self.store.fleet.as_deref(), pool.policy()),
        };
        rule.map(|rule| mistake("pool", &format!("{:?}", pool.name()), rule))
    }

    fn policy_mistake(&self, from: &Document, policy: &Policy) -> Option<PolicyError> {
        let entry = |id: PolicyId| {
            self.desk.policies.number_of(id).and_then(|number| self.desk.policies.get(usize::from(number)))
        };
        let rule = match self.policy_named(policy.name()).and_then(entry) {
            Some(Entry { policy: known, .. }) if known == policy => None,
            Some(Entry { owners: 1.., .. }) if from.policy(policy.name()).is_err() => Some(FOREIGN),
            Some(Entry { shared_pools, .. }) if self.pools.shared_pools_of(policy) != Ok(*shared_pools) => {
                Some(POOLS)
            }
            _ => rule_against(self.store.fleet.as_deref(), policy),
        };
        rule.map(|rule| mistake("policy", &format!("{:?}", policy.name()), rule))
    }
}

fn mistake(key: &str, value: &str, rule: &str) -> PolicyError {
    PolicyError { key: key.into(), value: value.into(), rule: rule.into(), line: None }
}
