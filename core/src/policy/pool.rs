//! Pools: components that several policies share (semantics 0.4).

use std::fmt;

use super::Policy;
use super::check::{self, Pair, PolicyError, Value};
use super::targets::{Given, Group};
use crate::full::{Full, Rare, Switch};

/// Kind of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolKind {
    /// Permits and their queue.
    Bulkhead,
    /// Tokens and their queue.
    RateLimit,
    /// A retry budget.
    Budget,
    /// A group of targets (semantics 17): no component, but what attempts go to.
    Targets,
}

impl PoolKind {
    /// All kinds that are a component. [`PoolKind::Targets`] is none: a host that knows only these refuses a group.
    pub const ALL: [Self; 3] = [Self::Bulkhead, Self::RateLimit, Self::Budget];

    /// The kind of this name, groups of targets included.
    ///
    /// ```
    /// use tidegate::PoolKind;
    /// assert_eq!(PoolKind::of_name("targets"), Some(PoolKind::Targets));
    /// assert_eq!(PoolKind::of_name("target"), None);
    /// ```
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().chain([Self::Targets]).find(|kind| kind.name() == name)
    }

    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bulkhead => "bulkhead",
            Self::RateLimit => "rate_limit",
            Self::Budget => "budget",
            Self::Targets => "targets",
        }
    }

    /// The table of a policy whose keys such a pool has.
    pub(super) const fn table(self) -> &'static str {
        match self {
            Self::Bulkhead => "bulkhead",
            Self::RateLimit => "rate_limit",
            Self::Budget => "retry.budget",
            Self::Targets => "targets",
        }
    }

    /// The key in which a policy names such a pool.
    pub(crate) const fn pool_key(self) -> &'static str {
        match self {
            Self::Bulkhead => "bulkhead.pool",
            Self::RateLimit => "rate_limit.pool",
            Self::Budget => "retry.budget.pool",
            Self::Targets => "targets",
        }
    }

    /// A key of a policy, in the pool's own spelling.
    pub(crate) fn own(self, path: &str) -> &str {
        path.strip_prefix(self.table()).and_then(|rest| rest.strip_prefix('.')).unwrap_or(path)
    }

    /// Whether this key of a policy belongs to such a pool, if there is one.
    pub(crate) fn holds(self, path: &str) -> bool {
        self.own(path) != path && self.owns(self.own(path))
    }

    /// Whether this key belongs to the pool. How long a caller waits, and its unit, are keys of the pool's users.
    pub(super) fn owns(self, key: &str) -> bool {
        !matches!(
            (self, key),
            (Self::Bulkhead, "acquire_timeout" | "unit" | "pool")
                | (Self::RateLimit, "wait" | "max_wait" | "max_waiters" | "unit" | "pool")
                | (Self::Budget, "pool")
        )
    }
}

impl PoolKind {
    /// Rewrites a mistake in terms of the pool's own keys.
    pub(super) fn told_of_itself(self, error: PolicyError) -> PolicyError {
        let prefix = format!("{}.", self.table());
        let instead = format!(", or {}", self.pool_key());
        let short = |text: &str| text.replace(&instead, "").replace(&prefix, "");
        match error.key.as_str() {
            "policy" if error.value == "(empty)" => {
                PolicyError { rule: format!("has no keys of a {self}"), ..error }
            }
            "policy" => error,
            key => PolicyError { key: short(key), rule: short(&error.rule), ..error },
        }
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
    /// A policy with this one component; of a group of targets, one without any.
    policy: Policy,
    group: Option<Rare<Group>>,
}

impl Pool {
    /// Builds a pool from pairs whose keys are those of its component in a policy, without the table's name.
    ///
    /// # Errors
    /// All mistakes at once, each naming the key, the value and the rule.
    pub fn from_pairs(
        name: &str,
        kind: PoolKind,
        pairs: &[(&str, Value<'_>)],
    ) -> Result<Self, Vec<PolicyError>> {
        if kind == PoolKind::Targets {
            let given = pairs.iter().map(|(key, value)| Given {
                pair: Pair { key, value: Ok(*value), written: None, line: None },
                shown: (*key).to_owned(),
            });
            return Self::group_of(name, given.collect());
        }
        let paths: Vec<_> = pairs.iter().map(|(key, _)| format!("{}.{key}", kind.table())).collect();
        let pairs = paths.iter().zip(pairs).map(|(path, (_, value))| Pair {
            key: path,
            value: Ok(*value),
            written: None,
            line: None,
        });
        Self::build(name, kind, pairs).map_err(|errors| {
            let whole = |error: PolicyError| match error.key.as_str() {
                "policy" => PolicyError { key: "pool".into(), ..error },
                _ => error,
            };
            errors.into_iter().map(whole).collect()
        })
    }

    /// Builds a group of targets from its pairs.
    pub(super) fn group_of(name: &str, given: Vec<Given<'_>>) -> Result<Self, Vec<PolicyError>> {
        let Some(full) = Full::here() else {
            let rule = "a small engine has no groups of targets";
            return Err(vec![PolicyError::new("targets", check::quoted(name), rule)]);
        };
        let policy = check::build(name, &[("retry.max_attempts", Value::Number(1.0))])?;
        let group = Some(Rare::new(Group::build(name, given)?, full));
        Ok(Self { kind: PoolKind::Targets, policy, group })
    }

    /// Builds a pool from pairs whose keys are those of a policy; a mistake of the whole pool has the key `policy`.
    pub(super) fn build<'a>(
        name: &str,
        kind: PoolKind,
        pairs: impl Iterator<Item = Pair<'a>>,
    ) -> Result<Self, Vec<PolicyError>> {
        let (own, foreign): (Vec<_>, Vec<_>) = pairs.partition(|pair| kind.owns(kind.own(pair.key)));
        let mut errors: Vec<_> = foreign
            .iter()
            .map(|pair| {
                let value = match (pair.written, &pair.value) {
                    (Some(written), _) => check::clipped(written),
                    (None, Ok(value)) => check::shown(*value, false),
                    (None, Err(_)) => String::new(),
                };
                let error = PolicyError::new(pair.key, value, "belongs to the policies that use the pool");
                PolicyError { line: pair.line, ..error }
            })
            .collect();
        match check::build_written(name, Switch::of(|| true), own.into_iter()) {
            Ok(policy) if errors.is_empty() => return Ok(Self { kind, policy, group: None }),
            Ok(_) => {}
            Err(mut more) => {
                // A pool with other mistakes is not reported as empty.
                more.retain(|error| error.value != "(empty)" || errors.is_empty());
                errors.append(&mut more);
            }
        }
        Err(errors.into_iter().map(|error| kind.told_of_itself(error)).collect())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.policy.name()
    }

    /// Its kind.
    pub fn kind(&self) -> PoolKind {
        self.kind
    }

    /// The pairs that make this pool.
    pub fn to_pairs(&self) -> Vec<(&'static str, Value<'_>)> {
        if let Some(group) = &self.group {
            return group.pairs();
        }
        let own = |(key, value): (&'static str, _)| {
            (key.strip_prefix(self.kind.table()).map_or(key, |rest| &rest[1..]), value)
        };
        self.policy.to_pairs().into_iter().map(own).collect()
    }

    /// The value in force of one of its keys, as [`Policy::value`].
    pub fn value(&self, key: &str) -> Option<Value<'_>> {
        self.policy.value(&format!("{}.{key}", self.kind.table()))
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The targets of a group.
    pub(crate) fn group(&self) -> Option<&Group> {
        self.group.as_deref()
    }
}
