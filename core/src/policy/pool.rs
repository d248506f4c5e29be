//! Pools: components that several policies share (semantics 0.4).

use std::fmt;

use super::Policy;
use super::check::{self, PolicyError, Value};

/// What a pool is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolKind {
    /// Permits and their queue.
    Bulkhead,
    /// Tokens and their queue.
    RateLimit,
    /// A retry budget.
    Budget,
}

impl PoolKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Bulkhead, Self::RateLimit, Self::Budget];

    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bulkhead => "bulkhead",
            Self::RateLimit => "rate_limit",
            Self::Budget => "budget",
        }
    }

    /// The table of keys that such a pool has, in a policy.
    const fn table(self) -> &'static str {
        match self {
            Self::Bulkhead => "bulkhead",
            Self::RateLimit => "rate_limit",
            Self::Budget => "retry.budget",
        }
    }

    /// The key of a pool as the key of a policy. How long a caller waits, and what it counts, is the policy's own.
    fn path(self, key: &str) -> String {
        format!("{}.{key}", self.table())
    }

    fn owns(self, key: &str) -> bool {
        !matches!(
            (self, key),
            (Self::Bulkhead, "acquire_timeout" | "unit" | "pool")
                | (Self::RateLimit, "wait" | "max_wait" | "max_waiters" | "unit" | "pool")
                | (Self::Budget, "pool")
        )
    }
}

impl fmt::Display for PoolKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A validated pool.
///
/// ```
/// use tidegate::{Pool, PoolKind, Value};
/// let pool = Pool::from_pairs("db", PoolKind::Bulkhead, &[("max_concurrency", Value::Number(10.0))]).unwrap();
/// assert_eq!((pool.name(), pool.kind()), ("db", PoolKind::Bulkhead));
/// let errors = Pool::from_pairs("db", PoolKind::Bulkhead, &[("acquire_timeout", Value::Number(1e6))]).unwrap_err();
/// assert_eq!(
///     errors[0].to_string(),
///     "acquire_timeout = 1000000: belongs to the policies that use the pool",
/// );
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Pool {
    kind: PoolKind,
    /// A policy of this one component.
    policy: Policy,
}

impl Pool {
    /// Builds a pool from pairs, whose keys are those of its component in a policy, without their table.
    ///
    /// # Errors
    /// All mistakes at once, each naming the key, the value and the rule.
    pub fn from_pairs(
        name: &str,
        kind: PoolKind,
        pairs: &[(&str, Value<'_>)],
    ) -> Result<Self, Vec<PolicyError>> {
        let foreign = pairs.iter().filter(|(key, _)| !kind.owns(key)).map(|(key, value)| {
            let value = match value {
                Value::Number(n) => n.to_string(),
                Value::Text(text) => check::quoted(text),
            };
            PolicyError::new(*key, value, "belongs to the policies that use the pool")
        });
        let mut errors: Vec<_> = foreign.collect();
        let own: Vec<_> = pairs.iter().filter(|(key, _)| kind.owns(key)).collect();
        let paths: Vec<_> = own.iter().map(|(key, _)| kind.path(key)).collect();
        let pairs: Vec<_> =
            paths.iter().zip(&own).map(|(path, (_, value))| (path.as_str(), *value)).collect();
        match Policy::from_pairs(name, &pairs) {
            Ok(policy) if errors.is_empty() && !pairs.is_empty() => return Ok(Self { kind, policy }),
            Ok(_) if errors.is_empty() => {
                errors.push(PolicyError::new("pool", "(empty)", format!("has no keys of a {kind}")));
            }
            Ok(_) => {}
            Err(more) => {
                let prefix = format!("{}.", kind.table());
                errors.extend(more.into_iter().map(|error| {
                    let short = |text: &str| text.replace(&prefix, "");
                    let key = if error.key == "policy" { "pool".into() } else { short(&error.key) };
                    PolicyError { key, rule: short(&error.rule), ..error }
                }));
            }
        }
        Err(errors)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.policy.name()
    }

    /// What it is.
    pub fn kind(&self) -> PoolKind {
        self.kind
    }

    /// The pairs that make this pool.
    pub fn to_pairs(&self) -> Vec<(&'static str, Value<'_>)> {
        let prefix = self.kind.table().len() + 1;
        self.policy.to_pairs().into_iter().map(|(key, value)| (&key[prefix..], value)).collect()
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }
}
