//! The components of a policy. Each declares its keys in one place: path, domain, default and meaning, with the rules
//! that join several of them, and builds its settings from them.
//!
//! Validation, documents and `explain` read [`TABLE`], which is all of these keys; the JSON Schema, the typed options of each
//! language and the reference page are generated from it. A new key is one line in its component, and its use there.

pub(super) mod backoff;
pub(super) mod breaker;
pub(super) mod budget;
pub(super) mod bulkhead;
pub(super) mod call;
pub(super) mod cooldown;
pub(super) mod hedge;
pub(super) mod limits;
pub(super) mod order;
pub(super) mod rate_limit;
pub(super) mod retry;
pub(super) mod stream;
pub(super) mod targets;
pub(super) mod throttle;

use super::check::{PolicyError, Settings};
use super::keys::Key;
use super::whole::COMPONENTS;

pub(crate) use breaker::{Breaker, FleetBreaker};
pub(crate) use bulkhead::{Bulkhead, FleetSlots, LimitSettings};
pub(crate) use cooldown::CooldownPart;
pub(crate) use hedge::{Hedge, HedgeBudget};
pub(in crate::policy) use limits::limit;
pub(crate) use limits::{LimitSet, MOST_LIMITS, NamedLimit};
pub(crate) use order::QueueOrder;
pub(crate) use rate_limit::{FleetRate, RateLimit};
pub(crate) use retry::Retry;
pub(crate) use stream::Stream;
pub(crate) use throttle::Throttle;

/// Declares keys: a constant for the path of each, and a list of all.
macro_rules! keys {
    ($(#[$doc:meta])* $list:ident: $($name:ident = $path:literal, $domain:expr, $default:literal, $meaning:literal;)*) => {
        $(pub(in crate::policy) const $name: &str = $path;)*
        $(#[$doc])*
        const $list: &[Key] = &[$(key($path, $domain, $default, $meaning)),*];
    };
}
use keys;

/// What the files of components have in common.
mod prelude {
    pub(super) use super::super::whole;
    pub(super) use super::{Component, NOTHING, RETRY, backoff, budget, call, hedge, keys, retry, targets};
    pub(super) use crate::full::Switch;
    pub(super) use crate::policy::check::{PolicyError, Settings, quoted};
    pub(super) use crate::policy::keys::{Domain, Key, MICRO, YEAR, count, domains, key, real, span};
    pub(super) use crate::policy::{OnLoss, Unit};
    pub(super) use crate::text;
    pub(super) use crate::time::Duration;
}

/// The prefix of the keys of retries.
const RETRY: &str = "retry.";

/// Keys that belong together, and the rules that join several of them.
#[derive(Clone, Copy)]
pub(super) struct Component {
    /// The path of its table; empty for keys of the whole call.
    pub table: &'static str,
    /// What the table is about; empty where another component has said it.
    pub doc: &'static str,
    pub keys: &'static [Key],
    /// Keys without a default that a choice needs: where the first key has the second's value, the third must be given.
    pub needed: &'static [(&'static str, &'static str, &'static str)],
    /// Keys without a default that the component needs: its name, the key, and the key that may be given instead of it.
    pub required: &'static [(&'static str, &'static str, &'static str)],
    /// Keys that mean something only beside another.
    pub beside: &'static [(&'static str, &'static str)],
    /// Pairs of keys of which the first must not be more than the second.
    pub ordered: &'static [(&'static str, &'static str)],
    /// Keys that say whether something of the component is shared by the fleet.
    pub stores: &'static [&'static str],
    /// Keys that mean something only where the first of them says so.
    pub of_fleet: &'static [&'static str],
    /// Rules of another form.
    pub check: fn(&Settings, &mut Vec<PolicyError>),
}

/// A component without anything.
const NOTHING: Component = Component {
    table: "",
    doc: "",
    keys: &[],
    needed: &[],
    required: &[],
    beside: &[],
    ordered: &[],
    stores: &[],
    of_fleet: &[],
    check: |_, _| {},
};

/// All keys, in the order of the reference page.
pub const TABLE: &[Key] = &all_keys::<{ count_keys() }>();

/// What the tables of keys are about, in the order of the reference page.
pub const TABLES: &[(&str, &str)] = &all_tables::<{ count_tables() }>();

const fn count_keys() -> usize {
    let (mut count, mut at) = (0, 0);
    while at < COMPONENTS.len() {
        count += COMPONENTS[at].keys.len();
        at += 1;
    }
    count
}

const fn all_keys<const N: usize>() -> [Key; N] {
    let mut all = [COMPONENTS[0].keys[0]; N];
    let (mut next, mut at) = (0, 0);
    while at < COMPONENTS.len() {
        let keys = COMPONENTS[at].keys;
        let mut place = 0;
        while place < keys.len() {
            all[next] = keys[place];
            next += 1;
            place += 1;
        }
        at += 1;
    }
    all
}

const fn count_tables() -> usize {
    let (mut count, mut at) = (0, 0);
    while at < COMPONENTS.len() {
        count += !COMPONENTS[at].doc.is_empty() as usize;
        at += 1;
    }
    count
}

const fn all_tables<const N: usize>() -> [(&'static str, &'static str); N] {
    let mut all = [("", ""); N];
    let (mut next, mut at) = (0, 0);
    while at < COMPONENTS.len() {
        if !COMPONENTS[at].doc.is_empty() {
            all[next] = (COMPONENTS[at].table, COMPONENTS[at].doc);
            next += 1;
        }
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_keys_is_described_and_every_key_is_a_sentence() {
        for key in TABLE {
            for (dot, _) in key.path.match_indices('.') {
                let table = &key.path[..dot];
                assert!(TABLES.iter().any(|(path, _)| *path == table), "{table} is missing in TABLES");
            }
            assert!(
                key.doc.ends_with('.') && !key.doc.contains(['|', '"', '\\']),
                "{}: {}",
                key.path,
                key.doc
            );
        }
        for component in COMPONENTS {
            let is_own = |key: &Key| component.table.is_empty() || key.path.starts_with(component.table);
            assert!(component.keys.iter().all(is_own), "{}", component.table);
        }
        for (path, _) in TABLES {
            assert!(crate::policy::suggest::is_table(path), "{path} has no keys");
        }
    }
}
