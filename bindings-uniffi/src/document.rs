//! Policy documents: a text comes in once, and core reads, checks and takes it in. Conversions and nothing else.

use std::sync::Arc;

use tidegate::{Clash, Document as Core, Policy, PolicyId, Pool, PoolKind};

use crate::settings::pairs;
use crate::{Engine, Invalid, Pair, State, time};

/// A policy of a document that an engine has taken in.
#[derive(Clone, PartialEq, Eq, Debug, uniffi::Record)]
pub struct NamedPolicy {
    /// Its name.
    pub name: String,
    /// Its number in the engine.
    pub number: u32,
}

/// A pool of a document that an engine has taken in; groups of targets are not among them.
#[derive(Clone, PartialEq, Eq, Debug, uniffi::Record)]
pub struct NamedPool {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: String,
}

/// What an engine has of a document.
#[derive(Clone, PartialEq, Eq, Debug, uniffi::Record)]
pub struct Loaded {
    /// Its pools.
    pub pools: Vec<NamedPool>,
    /// Its policies, by name.
    pub policies: Vec<NamedPolicy>,
}

/// What a reload has done. Names are as the document has them: `policy.payments`, `pool.db`.
#[derive(Clone, PartialEq, Eq, Debug, uniffi::Record)]
pub struct DocumentChanges {
    /// What only the newer document has.
    pub added: Vec<String>,
    /// What both have, with other settings.
    pub changed: Vec<String>,
    /// What only the older document has.
    pub removed: Vec<String>,
    /// What the engine has of the newer document.
    pub loaded: Loaded,
}

/// A document that has been read and checked.
#[derive(Debug, uniffi::Object)]
pub struct Document(Core);

#[uniffi::export]
impl Document {
    /// Reads a document: TOML, or JSON.
    ///
    /// # Errors
    /// Every mistake of every policy, each with its line.
    #[uniffi::constructor]
    pub fn new(text: &str, json: bool) -> Result<Arc<Self>, Invalid> {
        let read = if json { Core::from_json(text) } else { Core::from_toml(text) };
        let core = read.map_err(|errors| Invalid::settings(&errors))?;
        Ok(Arc::new(Self(core)))
    }

    /// A number for what it says, as 16 hexadecimal digits: the same for documents that say the same.
    pub fn digest(&self) -> String {
        format!("{:016x}", self.0.digest())
    }

    /// Everything that it says, by the keys that it has in a document: `policy.payments.deadline`.
    pub fn settings(&self) -> Vec<Pair> {
        let of = |table: &str, name: &str, pairs: Vec<Pair>| {
            let key = |pair: Pair| Pair { key: format!("{table}.{name}.{}", pair.key), ..pair };
            pairs.into_iter().map(key).collect::<Vec<_>>()
        };
        let pools = self.0.pools().flat_map(|pool| {
            let table = if pool.kind() == PoolKind::Targets { "targets" } else { "pool" };
            of(table, pool.name(), pairs(pool.to_pairs()))
        });
        let policies = self.0.policies().flat_map(|it| of("policy", it.name(), pairs(it.to_pairs())));
        pools.chain(policies).collect()
    }

    /// Takes all of it into an engine: pools and groups of targets, then policies, each with one owner more. Ask `take_woken` then.
    ///
    /// # Errors
    /// The engine has one of these names with other settings. Policies before it have been taken in and have no owner, so that another document
    /// may change them.
    pub fn load(&self, engine: &Engine, now: u64) -> Result<Loaded, Invalid> {
        let mut state = engine.state.lock();
        for pool in self.0.pools() {
            state.core.pool(pool.clone(), time(now)).map_err(|clash| Invalid::clash("pool", &clash))?;
        }
        self.taken(&mut state, now).map_err(|clash| Invalid::clash("policy", &clash))
    }

    /// Takes an engine over from this version to another, as a whole or not at all. Each policy that it answers has one
    /// owner more, as by `load`. Ask `take_woken` then.
    ///
    /// # Errors
    /// Everything that cannot go over; the engine has not been changed then.
    pub fn reload(&self, engine: &Engine, to: &Self, now: u64) -> Result<DocumentChanges, Invalid> {
        let mut state = engine.state.lock();
        let is_new = |policy: &&Policy| state.core.policy_named(policy.name()).is_none();
        let new: Vec<_> = to.0.policies().filter(is_new).map(Policy::name).collect();
        let flags = state.core.reload(&self.0, &to.0, time(now));
        state.drain(flags.map_err(|errors| Invalid::settings(&errors))?);
        for id in new.into_iter().filter_map(|name| state.core.policy_named(name)).collect::<Vec<_>>() {
            state.core.release_policy(id, true, time(now)); // the owner that core made; the host's follows
        }
        let loaded = to.taken(&mut state, now).map_err(|clash| Invalid::clash("policy", &clash))?;
        let changes = self.0.changes(&to.0);
        let (added, changed, removed) = (changes.added, changes.changed, changes.removed);
        Ok(DocumentChanges { added, changed, removed, loaded })
    }
}

impl Document {
    /// The numbers of its policies, which the engine may have already. Where one of them clashes, none keeps its new owner.
    fn taken(&self, state: &mut State, now: u64) -> Result<Loaded, Clash> {
        let named =
            |pool: &Pool| NamedPool { name: pool.name().to_owned(), kind: pool.kind().name().to_owned() };
        let mut policies: Vec<NamedPolicy> = Vec::new();
        for policy in self.0.policies() {
            match state.core.policy(policy.clone()) {
                Ok(id) => {
                    policies.push(NamedPolicy { name: policy.name().to_owned(), number: id.to_word() });
                }
                Err(clash) => {
                    for taken in &policies {
                        state.core.release_policy(PolicyId::from_word(taken.number), true, time(now));
                    }
                    return Err(clash);
                }
            }
        }
        Ok(Loaded {
            policies,
            pools: self.0.pools().filter(|pool| pool.kind() != PoolKind::Targets).map(named).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_clashes_owns_nothing() {
        let engine = Engine::new(7, 10, false, 0);
        let load = |text: &str| Document::new(text, false).unwrap().load(&engine, 0);
        load("policy.b.deadline = '1s'").unwrap();
        let error = load("policy.a.deadline = '1s'\npolicy.b.deadline = '2s'").unwrap_err().to_string();
        assert!(error.contains("\"b\""), "{error}");
        assert!(load("policy.a.deadline = '3s'").is_ok(), "nobody holds `a`, so its settings may change");
    }

    #[test]
    fn a_reload_keeps_numbers_and_says_what_differs() {
        let engine = Engine::new(7, 10, false, 0);
        let read = |text: &str| Document::new(text, false).unwrap();
        let old = read(
            "pool.db.bulkhead.max_concurrency = 1\npolicy.a.bulkhead.pool = 'db'\npolicy.b.deadline = '1s'",
        );
        let new = read(
            "pool.db.bulkhead.max_concurrency = 2\npolicy.a.bulkhead.pool = 'db'\npolicy.c.deadline = '1s'",
        );
        let before = old.load(&engine, 0).unwrap();
        assert_eq!(before.pools, [NamedPool { name: "db".into(), kind: "bulkhead".into() }]);
        let after = old.reload(&engine, &new, 5).unwrap();
        assert_eq!((after.added, after.changed), (vec!["policy.c".to_owned()], vec!["pool.db".to_owned()]));
        assert_eq!(after.removed, ["policy.b"]);
        assert_eq!(after.loaded.policies[0], before.policies[0]);
        assert_eq!(after.loaded.policies[1].name, "c");
        assert_ne!(old.digest(), new.digest());
        let error = new.reload(&engine, &read("policy.a.deadline = '1s'"), 9).unwrap_err().to_string();
        assert!(error.starts_with("policy = \"a\": a reload keeps the pools"), "{error}");
        let owners = |number: u32| {
            let left = || engine.snapshot(9).policies.values().len();
            let there = left();
            (1..5).find(|_| {
                engine.release(number, false, 9);
                left() < there
            })
        };
        assert_eq!(owners(after.loaded.policies[1].number), Some(1), "c is new");
        assert_eq!(owners(before.policies[1].number), Some(1), "b was loaded once");
    }
}
