//! Replacing an older version of a document in an engine by a newer one (semantics 0.8).
//!
//! The whole document is checked before anything is changed. Each change is then a `retune`, or adds a policy or a
//! pool, so a journal needs no line of its own for a reload.

use super::fleet::Fleet;
use super::policies::Entry;
use super::pools::Pools;
use super::route::Routes;
use super::{Engine, Options};
use crate::action::Flags;
use crate::policy::{Document, Policy, PolicyError, Pool};
use crate::text::quoted;
use crate::time::Time;

const FOREIGN: &str =
    "the engine has one of this name with other settings that is not of this document: rename one of them";
const KIND: &str =
    "a reload changes a pool's settings, not its kind: keep the kind, or give the pool another name";
const POOLS: &str =
    "a reload keeps the pools that a policy names: name the same ones, or give the policy another name";
const ROOM: &str = "an engine holds at most 65,536 policies, changed ones with calls included: make fewer";

impl Engine {
    /// Replaces one version of a document by another, completely or not at all. Policies and pools in both versions
    /// are retuned, so they keep their counts. Those only in the newer version are added. Those only in the older
    /// version stay unchanged, for callers that still use them.
    ///
    /// Drain the wakes under the same lock, as after a step. Cost: one pass over calls for each policy that changes.
    ///
    /// # Errors
    /// Every policy and every pool that cannot be changed; the engine is left unchanged then. A policy must keep the
    /// pools that it names, and a pool its kind. A policy or pool only in the newer version must not have the name of
    /// one with other settings that the engine has from elsewhere.
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
        let host = (&self.journal.options, self.store.fleet.as_deref());
        let mut mistakes: Vec<_> = to
            .pools()
            .filter_map(|pool| self.pools.pool_mistake(pool, from, host, &self.desk.routes))
            .collect();
        mistakes.extend(to.policies().filter_map(|policy| {
            let id = self.policy_named(policy.name());
            let number = id.and_then(|id| self.desk.policies.number_of(id));
            let known = number.and_then(|number| self.desk.policies.get(usize::from(number)));
            self.pools.policy_mistake(known, policy, from, host)
        }));
        // A changed policy may leave its old settings to calls in flight, in an entry of their own.
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
        let refused = |clash: super::Clash| vec![mistake("document", &quoted(&clash.name), clash.rule)];
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
}

/// What a host serves, and the store of its fleet.
type Host<'a> = (&'a Options, Option<&'a Fleet>);

impl Pools {
    /// Why a pool of a newer document cannot be taken in.
    fn pool_mistake(
        &self,
        pool: &Pool,
        from: &Document,
        (host, fleet): Host<'_>,
        routes: &Routes,
    ) -> Option<PolicyError> {
        let known = self.get(pool.name());
        let rule = match known.map(|shared| &shared.pool) {
            Some(known) if known == pool => None,
            Some(_) if !from.pools().any(|old| old.name() == pool.name()) => Some(FOREIGN),
            Some(known) if known.kind() != pool.kind() => Some(KIND),
            was => {
                let was = was.map(Pool::policy);
                host.rule_against(fleet, pool.policy())
                    .or_else(|| host.rule_against_limits(was, pool.policy()))
                    .or_else(|| routes.rule_against_group(known?.at, pool.group()))
            }
        };
        rule.map(|rule| mistake("pool", &quoted(pool.name()), rule))
    }

    /// The same for a policy; `known` is the one of its name that the engine has.
    fn policy_mistake(
        &self,
        known: Option<&Entry>,
        policy: &Policy,
        from: &Document,
        (host, fleet): Host<'_>,
    ) -> Option<PolicyError> {
        let rule = match known {
            Some(Entry { policy: known, .. }) if known == policy => None,
            Some(Entry { owners: 1.., .. }) if from.policy(policy.name()).is_err() => Some(FOREIGN),
            Some(Entry { shared_pools, .. }) if self.shared_pools_of(policy) != Ok(*shared_pools) => {
                Some(POOLS)
            }
            known => {
                let was = known.map(|entry| &entry.policy);
                host.rule_against(fleet, policy)
                    .or_else(|| host.rule_against_limits(was, policy))
                    .or_else(|| self.rule_against_unit(policy))
            }
        };
        rule.map(|rule| mistake("policy", &quoted(policy.name()), rule))
    }
}

fn mistake(key: &str, value: &str, rule: &str) -> PolicyError {
    PolicyError { key: key.into(), value: value.into(), rule: rule.into(), line: None }
}
