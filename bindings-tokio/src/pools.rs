//! Pools, made of the same settings as components of policies.

use tidegate::{Pool, PoolKind, Value};

use crate::builder::Pairs;
use crate::error::BuildError;
use crate::settings::{Budget, Bulkhead, RateLimit};

impl RateLimit {
    /// Checks the settings and makes a rate limit of this name that policies share, for [`Engine::pool`](crate::Engine::pool) and
    /// [`Engine::retune_pool`](crate::Engine::retune_pool). Policies name it with [`RateLimit::in_pool`], and have `wait`,
    /// `max_wait`, `max_waiters` and `unit` themselves.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_tokio::settings::{FairBy, RateLimit};
    /// use tidegate_tokio::{Engine, Policy};
    ///
    /// let engine = Engine::new(7);
    /// // The route keys that wait share 500 calls a minute: acme gets 4 where others get 1.
    /// let limits = RateLimit::of_limits(["rpm: permits=500 per=1m"]).fair_by(FairBy::Key).shares(["acme=4"]);
    /// engine.pool(limits.into_pool("provider")?)?;
    /// let shared = RateLimit::in_pool("provider").wait(true).max_wait(Duration::from_secs(20));
    /// let chat = Policy::builder("chat").engine(&engine).rate_limit(shared).build()?;
    /// let acme = chat.caller().route("acme");
    /// # Ok::<_, tidegate_tokio::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// All mistakes in the settings, each with its key, its value and the rule.
    pub fn into_pool(self, name: &str) -> Result<Pool, BuildError> {
        pool(name, PoolKind::RateLimit, "rate_limit.", &self.pairs)
    }
}

impl Bulkhead {
    /// Checks the settings and makes a bulkhead of this name that policies share, for [`Engine::pool`](crate::Engine::pool) and
    /// [`Engine::retune_pool`](crate::Engine::retune_pool). Policies name it with [`Bulkhead::in_pool`], and have
    /// `acquire_timeout` and `unit` themselves.
    ///
    /// # Errors
    /// All mistakes in the settings, each with its key, its value and the rule.
    pub fn into_pool(self, name: &str) -> Result<Pool, BuildError> {
        pool(name, PoolKind::Bulkhead, "bulkhead.", &self.pairs)
    }
}

impl Budget {
    /// Checks the settings and makes a retry budget of this name that policies share, for [`Engine::pool`](crate::Engine::pool)
    /// and [`Engine::retune_pool`](crate::Engine::retune_pool). Policies name it with [`Budget::in_pool`].
    ///
    /// # Errors
    /// All mistakes in the settings, each with its key, its value and the rule.
    pub fn into_pool(self, name: &str) -> Result<Pool, BuildError> {
        pool(name, PoolKind::Budget, "retry.budget.", &self.pairs)
    }
}

/// A pool's keys are those of its component, without the table's name.
fn pool(name: &str, kind: PoolKind, table: &str, pairs: &Pairs) -> Result<Pool, BuildError> {
    let pairs: Vec<(&str, Value<'_>)> =
        pairs.values().map(|(key, value)| (key.strip_prefix(table).unwrap_or(key), value)).collect();
    Ok(Pool::from_pairs(name, kind, &pairs)?)
}
