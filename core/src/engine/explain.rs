//! What a policy does, in words and numbers, for its authors.

mod bounds;
mod call;

use crate::engine::pools::Pools;
use core::fmt;

pub use call::CallExplanation;

use super::Engine;
use crate::action::PolicyId;
use crate::limit::LimitSignal;
use crate::policy::{Domain, Key, LimitSettings, Policy, TABLE, TABLES, Value};
use crate::retry::Jitter;
use crate::time::Duration;

/// The components of a policy in their fixed order, outermost first, and the keys of each: a table, or single keys. A
/// fallback runs in the host, before all of them.
#[rustfmt::skip]
const ORDER: &[(&str, &[&str])] = &[
    ("deadline", &["deadline"]),
    ("hold", &["retry.hold", "retry.max_held"]),
    ("cooldown", &["cooldown."]),
    ("rate_limit", &["rate_limit."]),
    ("bulkhead", &["bulkhead."]),
    ("breaker", &["breaker."]),
    ("throttle", &["throttle."]),
    ("send_rate", &["retry.send_rate"]),
    ("targets", &["targets"]),
    ("retry", &["retry."]),
    ("retry.budget", &["retry.budget."]),
    ("retry.backoff", &["retry.backoff."]),
    ("hedge", &["hedge."]),
    ("hedge.budget", &["hedge.budget."]),
    ("attempt_timeout", &["attempt_timeout"]),
    ("stream", &["first_byte_timeout", "idle_timeout", "deadline_until", "counts"]),
];

/// One component of a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Component {
    /// Its name; dotted for a part of another component.
    pub name: &'static str,
    /// Purpose of the component.
    pub meaning: &'static str,
    /// Its keys with the values in force, in the spelling of a document. Keys of other kinds are left out.
    pub settings: Vec<(&'static str, String)>,
}

/// Bound on the load that calls become (semantics 2.17): attempts ≤ `per_call` · calls + `per_second` · seconds +
/// `burst`, for each budget, so for each route unless the budget is a pool.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// 1 + r: attempts for each call.
    pub per_call: f64,
    /// Attempts for each second, independent of the calls.
    pub per_second: f64,
    /// Attempts at once, independent of the calls.
    pub burst: f64,
}

/// Explanation of a policy. `Display` is the text for people.
#[derive(Clone, PartialEq, Debug)]
pub struct PolicyExplanation {
    /// The policy's name.
    pub policy: String,
    /// Its components, outermost first.
    pub components: Vec<Component>,
    /// The most attempts that a call makes, hedges included.
    pub max_attempts: u8,
    /// The most time that a call spends waiting (queues, rates, backoff) outside attempts; `None` if unbounded.
    pub max_wait: Option<Duration>,
    /// The most time that a call takes; `None` if unbounded.
    pub max_time: Option<Duration>,
    /// Bound on the load that calls become.
    pub load: Load,
    /// Bytes that each route uses in core, without its key and a hold's counts.
    pub memory_per_route: usize,
    /// Settings that may not do what their author expects.
    pub warnings: Vec<&'static str>,
}

impl Engine {
    /// Explains a policy: its components in their order with the values in force, the longest wait and the cost of a
    /// call, and settings that may be unintended. `None` for an unknown policy.
    ///
    /// ```
    /// use tidegate::{Duration, Engine, Options, Policy, Value};
    /// let mut engine = Engine::new(7, Options::default());
    /// let pairs = [("deadline", Value::Number(2e6)), ("attempt_timeout", Value::Number(5e5))];
    /// let policy = engine.policy(Policy::from_pairs("p", &pairs).unwrap()).unwrap();
    /// let explained = engine.explain_policy(policy).unwrap();
    /// assert_eq!((explained.max_attempts, explained.max_time), (1, Some(Duration::from_millis(500))));
    /// assert!(explained.to_string().starts_with("policy p\n  deadline: 2s\n  attempt_timeout: 500ms\n"));
    /// ```
    pub fn explain_policy(&self, policy: PolicyId) -> Option<PolicyExplanation> {
        let number = self.desk.policies.number_of(policy)?;
        let policy = &self.desk.policies[usize::from(number)].policy;
        let budget = match &policy.retry.budget_pool {
            Some(pool) => self.pools.get(&**pool).and_then(|it| it.pool.policy().retry.budget),
            None => policy.retry.budget,
        };
        let bulkhead = self.pools.pooled(policy.bulkhead.as_ref().and_then(|it| it.pool.as_deref()), policy);
        let queues = bulkhead.bulkhead.as_ref().is_some_and(|it| it.max_queue > 0);
        let group = policy.targets.as_ref().and_then(|name| self.pools.get(&**name)?.pool.group());
        let max_wait = bounds::max_wait(policy, queues, group);
        Some(PolicyExplanation {
            policy: policy.name().to_owned(),
            components: ORDER.iter().filter_map(|it| self.pools.component(policy, it.0, it.1)).collect(),
            max_attempts: bounds::max_attempts(policy),
            max_wait,
            max_time: bounds::max_time(policy, group, max_wait),
            load: bounds::load(policy, budget.as_ref()),
            memory_per_route: bounds::memory(policy),
            warnings: bounds::warnings(policy, bulkhead, budget.is_some(), self.desk.restored),
        })
    }
}

impl Pools {
    /// The policy that a component's named pool consists of; without a pool, the policy itself.
    fn pooled<'a>(&'a self, pool: Option<&str>, policy: &'a Policy) -> &'a Policy {
        pool.and_then(|pool| self.get(pool)).map_or(policy, |shared| shared.pool.policy())
    }

    fn component(&self, policy: &Policy, name: &'static str, of: &[&str]) -> Option<Component> {
        let there = match name {
            "hold" => policy.retry.hold.is_some(),
            "send_rate" => policy.retry.send_rate.is_on(),
            "retry" | "retry.backoff" => policy.retry.max_attempts > 1,
            "retry.budget" => policy.retry.budget.is_some() || policy.retry.budget_pool.is_some(),
            "hedge" | "hedge.budget" => policy.hedge.is_some(),
            "stream" => policy.stream.is_some(),
            _ => true,
        };
        let pool_key = format!("{name}.pool");
        let pool = match policy.value(&pool_key) {
            Some(Value::Text(pool)) => self.get(pool).map(|shared| shared.pool.policy()),
            _ => None,
        };
        let here = |key: &&Key| {
            let parts = key.path.matches('.').count() == name.matches('.').count() + 1;
            let other =
                name == "retry" && matches!(key.path, "retry.hold" | "retry.max_held" | "retry.send_rate");
            of.iter().any(|it| key.path == *it || it.ends_with('.') && key.path.starts_with(it) && parts)
                && !other
        };
        let mut settings = Vec::new();
        for key in TABLE.iter().filter(here) {
            // The pool's keys come from the pool; how long its callers wait is the policy's own key.
            let from = pool.filter(|pool| pool.to_pairs().iter().any(|(path, _)| *path == key.path));
            let source = from.unwrap_or(policy);
            let said = pool.is_none() || from.is_some() || owned(key.path) || key.path == pool_key;
            let kind = pool.unwrap_or(policy).value(&format!("{name}.kind"));
            if let Some(value) =
                source.value(key.path).filter(|_| said && concerns(key, kind, (policy, source)))
            {
                let all: Vec<_> = if key.domain.is_list() {
                    let pairs = source.to_pairs();
                    pairs
                        .iter()
                        .filter(|(path, _)| *path == key.path)
                        .map(|(_, it)| plain(key, *it))
                        .collect()
                } else {
                    vec![plain(key, value)]
                };
                settings.push((&key.path[key.path.rfind('.').map_or(0, |dot| dot + 1)..], all.join(" ")));
            }
        }
        let meaning = match name {
            "hold" => "While a throttled call waits for its Retry-After, calls to like paths wait too.",
            "stream" => "How long a streamed answer may be silent, and where its deadline ends.",
            "send_rate" => "A throttle cuts the rate of attempts.",
            _ => {
                let table = TABLES.iter().find(|(path, _)| *path == name).map(|(_, doc)| *doc);
                table.or(TABLE.iter().find(|key| key.path == name).map(|key| key.doc)).unwrap_or("")
            }
        };
        (there && !settings.is_empty()).then_some(Component { name, meaning, settings })
    }
}

/// Whether a policy keeps this key for itself when the component is a pool.
fn owned(path: &str) -> bool {
    let own = ["acquire_timeout", "unit", "wait", "max_wait", "max_waiters"];
    own.iter().any(|key| path.ends_with(&format!(".{key}")))
}

/// Keys that only some kinds have: the end of a table's name, the key, and the kinds.
#[rustfmt::skip]
const KINDS: &[(&str, &str, &[&str])] = &[
    ("budget", "ttl", &["window"]),
    ("budget", "min_retries_per_sec", &["window"]),
    ("budget", "percent_can_retry", &["window"]),
    ("budget", "rounding", &["window"]),
    ("budget", "ratio", &["earned", "ratio", "tokens"]),
    ("budget", "start", &["earned"]),
    ("budget", "min_throughput", &["ratio"]),
    ("budget", "share", &["share"]),
    ("budget", "min_retries", &["share"]),
    ("budget", "max", &["tokens"]),
    ("budget", "capacity", &["quota"]),
    ("budget", "cost", &["quota"]),
    ("budget", "timeout_cost", &["quota"]),
    ("budget", "throttled_cost", &["quota"]),
    ("backoff", "multiplier", &["exponential"]),
    ("backoff", "exponent", &["polynomial"]),
    ("bulkhead", "min_concurrency", &["aimd", "gradient2"]),
    ("bulkhead", "signal", &["aimd"]),
    ("bulkhead", "increase_step", &["aimd"]),
    ("bulkhead", "backoff_ratio", &["aimd"]),
    ("bulkhead", "long_window", &["gradient2"]),
    ("bulkhead", "rtt_tolerance", &["gradient2"]),
    ("bulkhead", "headroom", &["gradient2"]),
    ("bulkhead", "variant", &["gradient2"]),
];

/// Whether a key has an effect here. Some keys apply to one kind only, to switched-off features, or to the fleet. If
/// the component is a pool, the pool decides whether it is the fleet's.
fn concerns(key: &Key, kind: Option<Value<'_>>, (policy, source): (&Policy, &Policy)) -> bool {
    let mut names = key.path.rsplit('.');
    let (name, table) = (names.next().unwrap_or(""), names.next().unwrap_or(""));
    match (table, name) {
        ("cooldown", "max_wait" | "max_waiters") => policy.cooldown.as_ref().is_some_and(|it| it.wait),
        ("rate_limit", "max_wait" | "max_waiters") => policy.rate_limit.as_ref().is_some_and(|it| it.wait),
        ("bulkhead", "queue_interval" | "codel") => {
            policy.bulkhead.as_ref().is_some_and(|it| it.codel.is_some() || it.pool.is_some())
        }
        ("rate_limit", "settle_unknown" | "learn" | "estimate_quantile" | "prioritized" | "fair_by") => {
            source.rate_limit.as_ref().is_some_and(|it| it.limits.is_some())
        }
        ("rate_limit", "store" | "lease" | "on_loss") => {
            source.rate_limit.as_ref().is_some_and(|it| it.fleet.is_some())
        }
        ("breaker", "store" | "quorum" | "on_loss") => {
            source.breaker.as_ref().is_some_and(|it| it.fleet.is_some())
        }
        ("bulkhead", "store" | "lease_ttl" | "on_loss") => {
            source.bulkhead.as_ref().is_some_and(|it| it.fleet.is_some())
        }
        ("bulkhead", "latency_threshold" | "cut_interval" | "latency_quantile") => {
            source.bulkhead.as_ref().is_some_and(|it| match it.limit {
                LimitSettings::Aimd(aimd) => aimd.signal != LimitSignal::Loss,
                LimitSettings::Fixed(_) | LimitSettings::Gradient2(_) => false,
            })
        }
        ("bulkhead", "latency_store") => source.bulkhead.as_ref().is_some_and(|it| it.fleet_latency.is_on()),
        ("backoff", "jitter_ratio") => matches!(policy.retry.backoff.jitter, Jitter::Bounded(_)),
        _ => {
            let only = KINDS.iter().find(|it| (it.0, it.1) == (table, name));
            only.is_none_or(|it| matches!(kind, Some(Value::Text(kind)) if it.2.contains(&kind)))
        }
    }
}

/// A value in the spelling of a document, without quotes.
fn plain(key: &Key, value: Value<'_>) -> String {
    match (key.domain, value) {
        (_, Value::Text(text)) => text.to_owned(),
        (Domain::Span { .. }, Value::Number(n)) => Duration::from_micros(n as u64).to_string(),
        (Domain::Flag, Value::Number(n)) => (n > 0.0).to_string(),
        (_, Value::Number(n)) => n.to_string(),
    }
}

impl fmt::Display for PolicyExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "policy {}", self.policy)?;
        for it in &self.components {
            let single = it.settings.len() == 1 && it.settings[0].0 == it.name;
            let words = |(key, value): &(&str, String)| {
                if single { value.clone() } else { format!("{key} {value}") }
            };
            let settings: Vec<_> = it.settings.iter().map(words).collect();
            let indent = if it.name.contains('.') { "    " } else { "  " };
            writeln!(f, "{indent}{}: {}", it.name, settings.join(", "))?;
        }
        let most = |span: Option<Duration>| span.map_or("nothing bounds it".into(), |span| span.to_string());
        writeln!(f, "attempts of a call, at most: {}", self.max_attempts)?;
        writeln!(f, "waiting beside its attempts, at most: {}", most(self.max_wait))?;
        writeln!(f, "time of a call, at most: {}", most(self.max_time))?;
        let Load { per_call, per_second, burst } = self.load;
        write!(f, "load: attempts ≤ {per_call} · calls")?;
        if per_second > 0.0 {
            write!(f, " + {per_second} · seconds")?;
        }
        if burst > 0.0 {
            write!(f, " + {burst}")?;
        }
        writeln!(f)?;
        writeln!(f, "memory of a route: {} bytes and its key", self.memory_per_route)?;
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        Ok(())
    }
}
