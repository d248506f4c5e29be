//! What documents can say to a small engine: what a page needs. The other keys are errors, by which the npm package knows
//! that it needs the full engine.

use super::check::{Pair, PolicyError, Settings};
use super::components::{Component, backoff, breaker, budget, bulkhead, call, rate_limit, retry};
use super::pool::PoolKind;
use super::presets::{HTTP, HTTPWARE, OCC, Preset, TRANSIENT};
use crate::full::{Name, Rare};
use crate::outcome::Class;
use crate::retry::BudgetSettings;

/// Its components.
pub(super) const COMPONENTS: &[Component] = &[
    call::COMPONENT,
    retry::COMPONENT,
    backoff::COMPONENT,
    budget::COMPONENT,
    budget::KEYS,
    rate_limit::COMPONENT,
    bulkhead::COMPONENT,
    breaker::COMPONENT,
];

/// Its presets.
pub(super) const PRESETS: &[Preset] = &[HTTP, HTTPWARE, TRANSIENT, OCC];

/// Its kinds of retry budgets.
pub(super) const BUDGETS: &[&str] = &["earned", "window", "none"];

/// What can set the limit of its bulkheads.
pub(super) const LIMITS: &[&str] = &["fixed"];

/// It has no pools.
pub(crate) const POOLS: &[PoolKind] = &[];

/// The rule of a list of statuses.
pub(super) const STATUSES: &str = r#"must be 408, 429 or 5xx; "tidegate/full" may have more"#;

/// What an error adds to a list of words, because the full engine may have more.
pub(super) const MAYBE_MORE: &str = r#"; "tidegate/full" may have more"#;

/// A web page should not load texts that it never shows.
pub(super) const fn doc(_: &'static str) -> &'static str {
    ""
}

/// There is no pool that could have a required key.
pub(super) const fn or_pool(_: &'static str) -> &'static str {
    ""
}

/// Whether a list of statuses may have this one.
#[allow(clippy::float_cmp)] // whole numbers are exactly whole
pub(super) fn is_retriable(status: f64) -> bool {
    status == 408.0 || status == 429.0 || (500.0..=599.0).contains(&status) && status.fract() == 0.0
}

/// What an error adds to a list of kinds.
pub(super) fn or_declared(_: &[Name]) -> &'static str {
    MAYBE_MORE
}

/// The rule of a key that it does not have.
pub(super) fn unknown_key(_: &str) -> String {
    r#"no such key here; "tidegate/full" has all of them, and tells what was meant"#.into()
}

/// No key belongs to a pool.
pub(super) fn check_pooled(_: &Settings, _: &mut Vec<PolicyError>) {}

/// Nothing is the fleet's.
pub(super) fn check_fleet(_: &Settings, _: &mut Vec<PolicyError>) {}

/// None of its presets has a key that gives way.
pub(super) fn gives_way(_: &str, _: &Settings) -> bool {
    false
}

/// It refuses no key that a preset may have.
pub(super) fn of_preset(_: &Settings, _: &Settings) -> Option<Rare<Vec<&'static str>>> {
    None
}

/// No pair declares a kind.
pub(super) fn declared(_: &[Pair<'_>]) -> Vec<Name> {
    Vec::new()
}

impl Settings {
    /// No kinds of its own.
    pub(super) fn kinds(&self) -> Vec<(Name, Class)> {
        Vec::new()
    }

    /// None in any list.
    pub(super) fn named(&self, _: &str) -> Vec<(Name, Class)> {
        Vec::new()
    }

    /// No key names a pool.
    pub(super) fn pool(&self, _: &str) -> Option<Name> {
        None
    }

    /// No further kinds of budgets.
    pub(super) fn rare_budget(&self, _: &str, _: &str) -> Option<BudgetSettings> {
        None
    }
}
