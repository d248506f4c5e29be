//! Policies: named sets of components, each of which declares its keys (`components/`).
//!
//! Typed options of a language, or a document, become (key, value) pairs. All pairs end in [`Policy::from_pairs`], so
//! there is one validator. It reports *all* mistakes at once, each with the key, the value and the rule (semantics
//! 0.3).

mod across;
mod build;
mod check;
mod components;
#[cfg(feature = "documents")]
mod document;
mod domain;
mod keys;
mod parts;
mod pool;
mod presets;
mod span;
mod suggest;
mod targets;
#[cfg_attr(tidegate_small, path = "policy/small.rs")]
mod whole;
mod words;
mod written;

pub use check::{PolicyError, Value};
pub(crate) use components::{
    Breaker, Bulkhead, CooldownPart, FleetBreaker, FleetRate, FleetSlots, Hedge, HedgeBudget, LimitSet,
    LimitSettings, MOST_LIMITS, NamedLimit, QueueOrder, RateLimit, Retry, Stream, Throttle,
};
pub use components::{TABLE, TABLES};
#[cfg(feature = "documents")]
pub use document::{Changes, Document, UnknownPolicy};
pub use keys::{Domain, Key};
pub use pool::{Pool, PoolKind};
pub(crate) use targets::{Group, Member, Pick};
pub(crate) use whole::POOLS;

use crate::action::Verdict;
use crate::full::{Name, Rare};
use crate::outcome::{Class, Kind};
use crate::retry::BudgetSettings;
use crate::time::Duration;

/// A validated policy.
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    pub(crate) name: String,
    pub(crate) written: written::Written,
    pub(crate) deadline: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) slot_until_body: bool,
    pub(crate) stream: Option<Rare<Stream>>,
    /// Timeout for answers of the fleet's store, and interval for exchanging states with it.
    pub(crate) store_timeout: Duration,
    pub(crate) store_exchange: Duration,
    /// Kinds that the policy declares, from number 9 on, and their base classes.
    pub(crate) kinds: Vec<(Name, Class)>,
    pub(crate) retry: Retry,
    pub(crate) cooldown: Option<Rare<CooldownPart>>,
    pub(crate) rate_limit: Option<RateLimit>,
    pub(crate) bulkhead: Option<Bulkhead>,
    pub(crate) breaker: Option<Breaker>,
    pub(crate) throttle: Option<Rare<Throttle>>,
    pub(crate) hedge: Option<Rare<Hedge>>,
    /// The group of targets that its attempts go to.
    pub(crate) targets: Option<Name>,
}

/// Unit that a component counts in (semantics 0.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// One token, one slot, one outcome for all attempts of a call.
    Call,
    /// One for each attempt; a slot is released during backoff.
    Attempt,
}

/// Behaviour of a fleet-wide component while the store is gone (semantics 10.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnLoss {
    /// The process's own share applies.
    Local,
    /// Everything passes.
    Open,
    /// Everything is refused.
    Closed,
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

    /// The pairs that make this policy: the given ones, in the order of the table, with the preset spelled out. Keys
    /// with their default are left out. `Policy::from_pairs` of the result is this policy again.
    ///
    /// ```
    /// use tidegate::{Policy, Value};
    /// let policy = Policy::from_pairs("p", &[("preset", Value::Text("http")), ("deadline", Value::Number(1e6))]).unwrap();
    /// assert_eq!(policy.to_pairs()[0], ("deadline", Value::Number(1e6)));
    /// assert_eq!(Policy::from_pairs("p", &policy.to_pairs()).unwrap(), policy);
    /// ```
    pub fn to_pairs(&self) -> Vec<(&'static str, Value<'_>)> {
        self.written.pairs()
    }

    /// Whether the policy's author gave this key: neither its preset nor its default did. A host ignores what it cannot
    /// serve of a preset, and refuses what its user wrote.
    ///
    /// ```
    /// use tidegate::{Policy, Value};
    /// let pairs = [("preset", Value::Text("llm")), ("idle_timeout", Value::Number(60e6))];
    /// let policy = Policy::from_pairs("chat", &pairs).unwrap();
    /// assert!(policy.is_own("idle_timeout") && !policy.is_own("first_byte_timeout"));
    /// ```
    pub fn is_own(&self, path: &str) -> bool {
        self.written.is_own(path)
    }

    /// The value of a key in force: given by the policy or its preset, else the default. `None` if there is neither,
    /// if the key's component is not used, and if there is no such key. For a list, its first value.
    ///
    /// ```
    /// use tidegate::{Policy, Value};
    /// let policy = Policy::from_pairs("p", &[("retry.backoff.max", Value::Number(2e6))]).unwrap();
    /// assert_eq!(policy.value("retry.max_retry_after"), Some(Value::Number(2e6)), "the backoff's max, by default");
    /// assert_eq!(policy.value("retry.max_attempts"), Some(Value::Number(3.0)));
    /// assert_eq!(policy.value("deadline"), None);
    /// assert_eq!(policy.value("bulkhead.max_queue"), None);
    /// ```
    pub fn value(&self, path: &str) -> Option<Value<'_>> {
        let by_attempt = self.rate_limit.as_ref().is_some_and(|limit| limit.unit == Unit::Attempt);
        if path == "rate_limit.unit" && by_attempt {
            return Some(Value::Text("attempt")); // a set with weights says so without the key
        }
        self.budget_value(path).or_else(|| self.written.value(path))
    }

    /// A budget's effective value when the key is not given and other keys decide it.
    fn budget_value(&self, path: &str) -> Option<Value<'_>> {
        let (table, key) = path.rsplit_once('.')?;
        let budget = match (table, self.hedge.as_ref().map(|hedge| &hedge.budget)) {
            ("retry.budget", _) => self.retry.budget,
            ("hedge.budget", Some(HedgeBudget::Own(budget))) => *budget,
            _ => None,
        };
        match (budget, key) {
            (Some(BudgetSettings::Earned(it)), "ratio") => Some(Value::Number(it.ratio)),
            (Some(BudgetSettings::Earned(it)), "start") => Some(Value::Number(it.start.into())),
            (Some(BudgetSettings::Window(_)), "kind") => Some(Value::Text("window")),
            _ => None,
        }
    }

    /// The pairs of a preset; empty if no preset has this name. The names are the choices of the key `preset` in
    /// [`TABLE`].
    pub fn preset(name: &str) -> &'static [(&'static str, Value<'static>)] {
        presets::pairs(name)
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The class of a kind: itself for the nine classes, the base for a kind that this policy declares. An undeclared
    /// number is a programming error, so its class is permanent.
    pub fn class_of(&self, kind: Kind) -> Class {
        if let Some(class) = kind.class() {
            class
        } else {
            let own = usize::from(kind.number()) - Class::ALL.len();
            self.kinds.get(own).map_or(Class::Permanent, |declared| declared.1)
        }
    }

    /// The kind of this name: a class, or one that this policy declares.
    ///
    /// ```
    /// use tidegate::{Class, Policy, Value};
    /// let policy = Policy::from_pairs("p", &[
    ///     ("preset", Value::Text("http")),
    ///     ("kinds", Value::Text("quota_spent=throttled")),
    /// ]).unwrap();
    /// let kind = policy.kind_of("quota_spent").unwrap();
    /// assert_eq!((kind.number(), policy.class_of(kind)), (9, Class::Throttled));
    /// assert_eq!(policy.kind_of("quota_spend"), None);
    /// ```
    pub fn kind_of(&self, name: &str) -> Option<Kind> {
        let class = Class::ALL.into_iter().find(|class| class.name() == name).map(Kind::from);
        class.or_else(|| {
            let own = self.kinds.iter().position(|declared| *declared.0 == *name)?;
            Kind::new((Class::ALL.len() + own) as u8)
        })
    }

    /// The name of a kind: a class's, or of one that this policy declares.
    pub fn name_of(&self, kind: Kind) -> Option<&str> {
        let own = || self.kinds().nth(usize::from(kind.number()).checked_sub(Class::ALL.len())?);
        kind.class().map(Class::name).or_else(own)
    }

    /// The names of the kinds that this policy declares, and of those that `retry.read_errors` adds, in the order of their numbers, from 9 on.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().map(|declared| &*declared.0)
    }

    /// Whether a fallback may replace the end of a call (semantics 7.4): yes for refusals, exhausted limits and
    /// failures that may pass, because outages are what fallbacks are for; no for cancellations and ignored outcomes.
    /// A `permanent` failure is the caller's own mistake, or an unclassified bug that a fallback would hide. It falls
    /// back only if the policy's classifier `judged` it, not the default one.
    ///
    /// A host whose caller chooses the errors does not need to call this.
    ///
    /// ```
    /// use tidegate::{Class, Policy, Value, Verdict};
    /// let policy = Policy::from_pairs("p", &[("preset", Value::Text("http"))]).unwrap();
    /// assert!(policy.falls_back(Verdict::BreakerOpen, None, false));
    /// assert!(policy.falls_back(Verdict::Attempts, Some(Class::Transient.into()), false));
    /// assert!(!policy.falls_back(Verdict::NotRetryable, Some(Class::Permanent.into()), false), "perhaps a bug");
    /// assert!(!policy.falls_back(Verdict::Cancelled, None, false));
    /// ```
    pub fn falls_back(&self, verdict: Verdict, failure: Option<Kind>, judged: bool) -> bool {
        match (verdict, failure.map(|kind| self.class_of(kind))) {
            (Verdict::Cancelled | Verdict::CostAboveBurst | Verdict::StaleRoute, _) => false,
            (_, Some(Class::Permanent)) => judged,
            (_, Some(class)) => class.retryable(),
            (verdict, None) => !matches!(verdict, Verdict::Ok | Verdict::Stale),
        }
    }

    /// Whether hosts read the beginning of a failed answer's body, at most [`READ_AT_MOST`](crate::answer::READ_AT_MOST)
    /// bytes and for at most [`READ_FOR`](crate::answer::READ_FOR), for
    /// [`Engine::classify_read`](crate::Engine::classify_read).
    ///
    /// ```
    /// use tidegate::{Policy, Value};
    /// let policy = |read: f64| Policy::from_pairs("p", &[("retry.read_errors", Value::Number(read))]).unwrap();
    /// assert!(policy(1.0).reads_errors() && !policy(0.0).reads_errors());
    /// assert_eq!(policy(1.0).kinds().collect::<Vec<_>>(), ["quota_spent", "unauthorized", "too_long", "content_refused"]);
    /// ```
    pub fn reads_errors(&self) -> bool {
        self.retry.answers.as_ref().is_some_and(|answers| answers.kinds.is_some())
    }

    /// Whether an attempt of this kind says that its quota is spent, or that its key is not accepted.
    pub(crate) fn is_spent(&self, kind: Kind) -> bool {
        let kinds = self.retry.answers.as_ref().and_then(|answers| answers.kinds);
        kinds.is_some_and(|[spent, unauthorized, ..]| kind == spent || kind == unauthorized)
    }

    /// Whether another target is tried after this kind of failure, although it is not retried.
    pub(crate) fn fails_over(&self, kind: Kind) -> bool {
        let declared =
            kind.class().is_some() || usize::from(kind.number()) < Class::ALL.len() + self.kinds.len();
        let kind = if declared { kind } else { Class::Permanent.into() };
        let listed = |kinds: &Rare<u32>| **kinds >> kind.number() & 1 == 1;
        self.retry.max_attempts > 1 && self.retry.failover.as_ref().is_some_and(listed)
    }

    /// Whether the policy may run a call's effect twice: by a hedge, or by a retry after a failure that leaves open
    /// whether the request was carried out (`never_sent`, `throttled` and `conflict` say that it was not). Hosts that
    /// put a whole object behind a policy ask this, because some of its methods may write.
    ///
    /// ```
    /// use tidegate::{Policy, Value};
    /// let policy = |pairs: &[_]| Policy::from_pairs("p", pairs).unwrap();
    /// assert!(policy(&[("retry.max_attempts", Value::Number(3.0))]).may_do_twice());
    /// assert!(!policy(&[("retry.retry_on", Value::Text("never_sent"))]).may_do_twice());
    /// assert!(!policy(&[("bulkhead.max_concurrency", Value::Number(3.0))]).may_do_twice());
    /// ```
    pub fn may_do_twice(&self) -> bool {
        let open = |class| !matches!(class, Class::NeverSent | Class::Throttled | Class::Conflict);
        let mut kinds =
            (0..32).filter_map(Kind::new).filter(|kind| self.retry.kinds >> kind.number() & 1 == 1);
        self.hedge.is_some() || self.retry.max_attempts > 1 && kinds.any(|kind| open(self.class_of(kind)))
    }

    /// Whether a call may make more than one attempt under this policy. If not, a host needs no second copy of the
    /// request.
    ///
    /// ```
    /// use tidegate::{Policy, Value};
    /// let policy = |pairs: &[_]| Policy::from_pairs("p", pairs).unwrap();
    /// assert!(policy(&[("retry.max_attempts", Value::Number(2.0))]).may_repeat());
    /// assert!(policy(&[("hedge.delay", Value::Number(50_000.0))]).may_repeat());
    /// assert!(!policy(&[("bulkhead.max_concurrency", Value::Number(3.0))]).may_repeat());
    /// ```
    pub fn may_repeat(&self) -> bool {
        self.hedge.is_some() || self.retry.max_attempts > 1
    }

    /// Whether slot and deadline of a streamed answer last until its body has been read (`slot_until = "body"`).
    pub fn slot_until_body(&self) -> bool {
        self.slot_until_body
    }
}
