//! What documents can say to the full engine. `small.rs`, in its place, is what they can say to a small one.

use super::check::{Pair, PolicyError, Settings, Value};
use super::components::{
    Component, backoff, breaker, budget, bulkhead, call, cooldown, hedge, limits, order, rate_limit, retry,
    stream, targets, throttle,
};
use super::domain::{Stored, kind};
use super::pool::PoolKind;
use super::presets::{
    self, AWS_2026, AWS_ADAPTIVE, AWS_STANDARD, GRAPH, GRPC, HTTP, HTTPWARE, LLM, OCC, Preset, TRANSIENT,
};
pub(super) use super::suggest::unknown_key;
use crate::classify::KINDS;
use crate::full::{Full, Name, Rare};
use crate::outcome::Class;
use crate::retry::BudgetSettings;

/// All components, in the order of the reference page.
pub(super) const COMPONENTS: &[Component] = &[
    call::COMPONENT,
    call::MORE,
    stream::COMPONENT,
    targets::COMPONENT,
    retry::COMPONENT,
    retry::MORE,
    backoff::COMPONENT,
    budget::COMPONENT,
    budget::SHARED,
    budget::KEYS,
    budget::MORE,
    cooldown::COMPONENT,
    rate_limit::COMPONENT,
    rate_limit::SHARED,
    limits::COMPONENT,
    order::COMPONENT,
    bulkhead::COMPONENT,
    bulkhead::MORE,
    breaker::COMPONENT,
    breaker::FLEET,
    throttle::COMPONENT,
    hedge::COMPONENT,
    budget::HEDGES,
    budget::HEDGES_KEYS,
    budget::HEDGES_MORE,
];

/// All presets.
pub(super) const PRESETS: &[Preset] =
    &[HTTP, HTTPWARE, TRANSIENT, OCC, GRAPH, AWS_STANDARD, AWS_2026, AWS_ADAPTIVE, GRPC, LLM];

/// The kinds of retry budgets.
pub(super) const BUDGETS: &[&str] = &["earned", "window", "ratio", "share", "tokens", "quota", "none"];

/// What can set the limit of a bulkhead.
pub(super) const LIMITS: &[&str] = &["fixed", "aimd", "gradient2"];

/// The kinds of pools that a policy's keys can belong to.
pub(crate) const POOLS: &[PoolKind] = &PoolKind::ALL;

/// The rule of a list of statuses.
pub(super) const STATUSES: &str = "must be a status that can be retried: 408, 409, 429 or 500 to 599";

/// What an error adds to a list of words.
pub(super) const MAYBE_MORE: &str = "";

/// The sentence of a key.
pub(super) const fn doc(doc: &'static str) -> &'static str {
    doc
}

/// The key that names a pool, which has the required key then.
pub(super) const fn or_pool(key: &'static str) -> &'static str {
    key
}

/// Whether a list of statuses may have this one.
#[allow(clippy::float_cmp)] // whole numbers are exactly whole
pub(super) fn is_retriable(status: f64) -> bool {
    [408.0, 409.0, 429.0].contains(&status) || (500.0..=599.0).contains(&status) && status.fract() == 0.0
}

/// What an error adds to a list of kinds.
pub(super) fn or_declared(kinds: &[Name]) -> &'static str {
    if kinds.is_empty() { ", or a name declared in kinds" } else { "" }
}

/// Checks that no key is given that belongs to a pool.
pub(super) fn check_pooled(settings: &Settings, errors: &mut Vec<PolicyError>) {
    settings.check_pooled(errors);
}

/// Checks the fleet's components, and keys that need one.
pub(super) fn check_fleet(settings: &Settings, errors: &mut Vec<PolicyError>) {
    settings.check_fleet(errors);
}

/// Whether a preset's key gives way to what a policy itself gives: a key beside which it would be a mistake, or without
/// which it means nothing.
pub(super) fn gives_way(key: &str, given: &Settings) -> bool {
    let targets = given.given(targets::TARGETS);
    match key {
        retry::HOLD => targets || given.uses("cooldown."),
        retry::SEND_RATE => targets,
        // The kinds that it names are those of a policy that reads errors.
        retry::FAILOVER_ON => !targets || given.given(retry::READ_ERRORS) && !given.flag(retry::READ_ERRORS),
        limits::LEARN => !given.given(limits::LIMITS),
        stream::IDLE_TIMEOUT => given.word(call::SLOT_UNTIL) == "headers",
        _ => key.starts_with("cooldown.") && (targets || given.flag(retry::HOLD)),
    }
}

/// The keys that a policy has from its preset alone.
pub(super) fn of_preset(all: &Settings, given: &Settings) -> Option<Rare<Vec<&'static str>>> {
    let full = Full::here().filter(|_| given.given("preset"))?;
    Some(Rare::new(all.values.keys().copied().filter(|key| !given.given(key)).collect(), full))
}

/// The kinds that pairs declare, and those of a policy that reads why an answer failed, unless it declares them itself.
pub(super) fn declared(pairs: &[Pair<'_>]) -> Vec<Name> {
    let own = pairs.iter().filter(|pair| pair.key == "kinds").filter_map(|pair| match pair.value {
        Ok(Value::Text(text)) => Full::here().zip(kind(text)).map(|(full, (name, _))| Name::new(name, full)),
        _ => None,
    });
    let mut kinds: Vec<_> = own.collect();
    if reads_errors(pairs) {
        for name in KINDS {
            if let Some(full) = Full::here()
                && !kinds.iter().any(|kind| **kind == *name)
            {
                kinds.push(Name::new(name, full));
            }
        }
    }
    kinds
}

/// Whether a policy of these pairs reads why an answer failed, and so has kinds that it does not declare.
fn reads_errors(pairs: &[Pair<'_>]) -> bool {
    let of = |key: &str| pairs.iter().rfind(|pair| pair.key == key).and_then(|pair| pair.value.clone().ok());
    let of_preset = || {
        let Some(Value::Text(preset)) = of("preset") else { return None };
        presets::pairs(preset).iter().find(|pair| pair.0 == retry::READ_ERRORS).map(|pair| pair.1)
    };
    of(retry::READ_ERRORS).or_else(of_preset) == Some(Value::Number(1.0))
}

impl Settings {
    /// The kinds of the policy, in the order of their numbers, from 9 on: those that it declares, and those that
    /// `retry.read_errors` adds.
    pub(super) fn kinds(&self) -> Vec<(Name, Class)> {
        let values = self.values.get("kinds").into_iter().flatten();
        let kinds = values.filter_map(|value| match value {
            Stored::Name(text) => {
                Full::here().zip(kind(text)).map(|(full, (name, class))| (Name::new(name, full), class))
            }
            _ => None,
        });
        let mut kinds: Vec<_> = kinds.collect();
        for name in self.kinds.iter().filter(|name| KINDS.contains(&&***name)) {
            if !kinds.iter().any(|kind| kind.0 == *name) {
                kinds.push((name.clone(), Class::Permanent));
            }
        }
        kinds
    }

    /// The declared kinds in a list.
    pub(super) fn named(&self, path: &str) -> Vec<(Name, Class)> {
        let mut kinds = self.kinds();
        let names = self.values.get(path).map_or(&[][..], Vec::as_slice);
        let is = |name: &Name| names.iter().any(|value| matches!(value, Stored::Name(it) if it == name));
        kinds.retain(|(name, _)| is(name));
        kinds
    }

    /// The pool that a key names.
    pub(super) fn pool(&self, path: &str) -> Option<Name> {
        match self.values.get(path)?.first()? {
            Stored::Name(name) => Some(name.clone()),
            _ => None,
        }
    }

    /// The budget of a kind that only full engines have.
    pub(super) fn rare_budget(&self, kind: &str, table: &str) -> Option<BudgetSettings> {
        self.budget_of_kind(kind, table)
    }
}
