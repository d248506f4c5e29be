//! Policies: named sets of components, built from one table of keys.
//!
//! A policy comes in as (key, value) pairs, by whatever road: the typed options of a language, or a document. Every
//! road ends in [`Policy::from_pairs`], so there is one validator, and it reports *all* mistakes at once, each with the
//! key, the value and the rule (semantics 0.3).

mod check;
#[cfg(feature = "documents")]
mod document;
mod domain;
mod presets;
mod span;
mod suggest;
mod table;
mod written;

pub use check::{PolicyError, Value};
#[cfg(feature = "documents")]
pub use document::{Document, UnknownPolicy};
pub use table::{Domain, Key, TABLE, TABLES};

use crate::classify::Methods;
use crate::retry::{Backoff, BudgetSettings, RetryAfterMode};
use crate::time::Duration;

/// A validated policy.
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    pub(crate) name: String,
    pub(crate) written: written::Written,
    pub(crate) deadline: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) slot_until_body: bool,
    pub(crate) retry: Retry,
    pub(crate) bulkhead: Option<Bulkhead>,
}

/// The retry component. A policy without one makes one attempt.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Retry {
    pub(crate) max_attempts: u8,
    pub(crate) time_limit: Duration,
    pub(crate) methods: Methods,
    pub(crate) statuses: Vec<u16>,
    /// The classes that are retried, a bit each.
    pub(crate) classes: u16,
    /// What a server's Retry-After does.
    pub(crate) mode: RetryAfterMode,
    pub(crate) max_retry_after: Duration,
    pub(crate) backoff: Backoff,
    /// The base after a throttled outcome.
    pub(crate) throttled_base: Duration,
    pub(crate) budget: Option<BudgetSettings>,
}

/// The fixed bulkhead.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bulkhead {
    pub(crate) max_concurrency: u32,
    pub(crate) max_queue: u32,
    pub(crate) acquire_timeout: Duration,
}

impl Policy {
    /// Builds a policy from pairs. Spans are numbers of microseconds; lists repeat their key; `preset` names the
    /// built-in policy to start from, and pairs override it whatever their order.
    ///
    /// # Errors
    /// All mistakes at once, each naming the key, the value and the rule.
    ///
    /// ```
    /// use tidegate::{Policy, Value};
    /// let policy = Policy::from_pairs("payments", &[
    ///     ("preset", Value::Text("http")),
    ///     ("deadline", Value::Number(10e6)),
    ///     ("bulkhead.max_concurrency", Value::Number(10.0)),
    /// ]).unwrap();
    /// assert_eq!(policy.name(), "payments");
    ///
    /// let errors = Policy::from_pairs("p", &[
    ///     ("retry.max_attempts", Value::Number(0.0)),
    ///     ("retrys", Value::Number(1.0)),
    /// ]).unwrap_err();
    /// assert_eq!(errors.len(), 2);
    /// assert_eq!(errors[0].to_string(), "retry.max_attempts = 0: must be a whole number from 1 to 255");
    /// ```
    pub fn from_pairs(name: &str, pairs: &[(&str, Value<'_>)]) -> Result<Self, Vec<PolicyError>> {
        check::build(name, pairs)
    }

    /// The pairs that make this policy: what was given, in the order of the table, with its preset spelled out. Keys
    /// left to their defaults are left out. `Policy::from_pairs` of them is this policy again.
    ///
    /// ```
    /// use tidegate::{Policy, Value};
    /// let policy = Policy::from_pairs("p", &[("preset", Value::Text("http")), ("deadline", Value::Number(1e6))]).unwrap();
    /// assert_eq!(policy.to_pairs()[0], ("deadline", Value::Number(1e6)));
    /// assert_eq!(Policy::from_pairs("p", &policy.to_pairs()).unwrap(), policy);
    /// ```
    pub fn to_pairs(&self) -> Vec<(&'static str, Value<'static>)> {
        self.written.pairs()
    }

    /// The value of a key that is in force: what was given, by the policy or its preset, else the default. `None` where
    /// there is neither, where the key's component is not used, and where there is no such key. Of a list, the first.
    ///
    /// ```
    /// use tidegate::{Policy, Value};
    /// let policy = Policy::from_pairs("p", &[("retry.backoff.max", Value::Number(2e6))]).unwrap();
    /// assert_eq!(policy.value("retry.max_retry_after"), Some(Value::Number(2e6)), "the backoff's max, by default");
    /// assert_eq!(policy.value("retry.max_attempts"), Some(Value::Number(3.0)));
    /// assert_eq!(policy.value("deadline"), None);
    /// assert_eq!(policy.value("bulkhead.max_queue"), None);
    /// ```
    pub fn value(&self, path: &str) -> Option<Value<'static>> {
        self.written.value(path)
    }

    /// The pairs of a preset, or nothing where there is none of this name. The names are the choices of the key
    /// `preset` in [`TABLE`].
    pub fn preset(name: &str) -> &'static [(&'static str, Value<'static>)] {
        presets::pairs(name)
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Do slot and deadline of a streamed answer last until its body has been read (`slot_until = "body"`)?
    pub fn slot_until_body(&self) -> bool {
        self.slot_until_body
    }
}
