//! Retries: their keys, and their settings in a policy.

use super::prelude::*;
use crate::classify::{self, Answers, KINDS, Methods};
use crate::full::{Full, Name, Rare};
use crate::outcome::{Class, Kind};
use crate::policy::domain::{ALL_CLASS_NAMES, CLASS_NAMES};
use crate::retry::{Backoff, BudgetSettings, RetryAfterMode};

keys! {
    /// The keys of retries.
    KEYS:
    MAX_ATTEMPTS = "retry.max_attempts", count(1, 255), "3",
        "Attempts in all; the first counts, 1 disables retries.";
    RETRY_ON = "retry.retry_on", Domain::KindWords(CLASS_NAMES), "transient throttled timeout never_sent conflict",
        "Classes and kinds of failure that are retried; infrastructure is transient and never_sent, concurrency is conflict.";
    RETRY_TIME_LIMIT = "retry.retry_time_limit", span(Duration::ZERO), "",
        "Elapsed time plus the next wait must fit into this.";
    METHODS = "retry.methods", Domain::Words(classify::METHODS), "GET HEAD OPTIONS PUT DELETE",
        "Methods that may be repeated without an idempotency key.";
    STATUSES = "retry.statuses", Domain::Statuses, "408 429 502 503 504",
        "HTTP statuses that are retried.";
    RESPECT_RETRY_AFTER = "retry.respect_retry_after", Domain::Flag, "true",
        "Wait at least as long as the server's Retry-After says.";
    RETRY_AFTER = "retry.retry_after", Domain::Choice(&["floor", "exact", "clamp_5s", "ignore"]), "floor",
        "What Retry-After r does: floor waits r plus up to 10 % and never less than the backoff, exact waits r, clamp_5s keeps it within 5 s above the backoff.";
    MAX_RETRY_AFTER = "retry.max_retry_after", span(Duration::ZERO), "retry.backoff.max",
        "A server that asks for a longer wait than this ends the call.";
}

keys! {
    /// The keys of held calls, of the send rate, and of answers that say more than their status.
    MORE_KEYS:
    THROTTLED_STATUSES = "retry.throttled_statuses", Domain::Statuses, "429",
        "HTTP statuses by which the server asks for less load.";
    READ_ERRORS = "retry.read_errors", Domain::Flag, "false",
        "Read why an answer failed, from its quota headers and up to 64 kB of its body, and wait for that at most 1 s; adds the kinds quota_spent, unauthorized, too_long and content_refused.";
    FAILOVER_ON = "retry.failover_on", Domain::KindWords(ALL_CLASS_NAMES), "",
        "targets: classes and kinds of failure that are not retried, after which an attempt at another target starts at once where one admits it.";
    HOLD = "retry.hold", Domain::Flag, "false",
        "While a throttled call waits, new calls to the same path, and to paths that begin alike, wait too.";
    MAX_HELD = "retry.max_held", count(1, 1_000_000), "200",
        "hold: calls that may wait so, per route.";
    SEND_RATE = "retry.send_rate", Domain::Choice(&["none", "cubic"]), "none",
        "cubic: a throttle cuts the rate of attempts, which grows back along the curve of the AWS SDKs' adaptive mode.";
}

/// What retries add to policies.
pub(in crate::policy) const COMPONENT: Component = Component {
    table: "retry",
    doc: "When to try again.",
    keys: KEYS,
    check: |settings, errors| {
        for (name, class) in settings.named(RETRY_ON).iter().filter(|it| !it.1.retryable()) {
            let rule = text::of(&["is based on ", class.name(), ", which can never be retried"]);
            errors.push(PolicyError::new(RETRY_ON, quoted(name), rule));
        }
    },
    ..NOTHING
};

/// What held calls, the send rate and such answers add to them.
pub(in crate::policy) const MORE: Component = Component {
    table: "retry",
    keys: MORE_KEYS,
    check: |settings, errors| {
        let attempts = settings.whole(MAX_ATTEMPTS);
        if settings.word(call::PRESET) == "grpc" && attempts > 5 {
            let rule = "gRPC allows at most 5 attempts";
            errors.push(PolicyError::new(MAX_ATTEMPTS, text::whole(attempts.into()), rule));
        }
        if settings.given(FAILOVER_ON) && !settings.given(targets::TARGETS) {
            let rule = text::of(&["means something only beside ", targets::TARGETS]);
            errors.push(PolicyError::new(FAILOVER_ON, "(given)", rule));
        }
    },
    ..NOTHING
};

/// The retry component. A policy without one makes one attempt.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Retry {
    pub(crate) max_attempts: u8,
    pub(crate) time_limit: Duration,
    pub(crate) methods: Methods,
    pub(crate) statuses: Vec<u16>,
    /// The kinds that are retried, a bit each.
    pub(crate) kinds: u32,
    /// What a server's Retry-After does.
    pub(crate) mode: RetryAfterMode,
    pub(crate) max_retry_after: Duration,
    pub(crate) backoff: Backoff,
    /// The base after a throttled outcome.
    pub(crate) throttled_base: Duration,
    pub(crate) budget: Option<BudgetSettings>,
    /// The pool that the budget is, where it is shared.
    pub(crate) budget_pool: Option<Name>,
    /// How many calls may be held while others wait for a server's Retry-After; none where nothing is held.
    pub(crate) hold: Option<Rare<u32>>,
    /// Does a throttle cut the rate of attempts?
    pub(crate) send_rate: Switch,
    /// The kinds that are not retried, a bit each, after which another target is tried.
    pub(crate) failover: Option<Rare<u32>>,
    /// How answers are read where statuses mean more than by default, or are not all that is read.
    pub(crate) answers: Option<Rare<Answers>>,
}

impl Settings {
    pub(in crate::policy) fn retry(&self) -> Retry {
        let retries = self.uses(RETRY) && self.whole(MAX_ATTEMPTS) > 1;
        Retry {
            max_attempts: if self.uses(RETRY) { self.whole(MAX_ATTEMPTS) as u8 } else { 1 },
            time_limit: self.span_or_none(RETRY_TIME_LIMIT),
            methods: self.methods(METHODS),
            statuses: self.statuses(STATUSES),
            kinds: self.mask(RETRY_ON, true),
            mode: match self.word(RETRY_AFTER) {
                _ if !self.flag(RESPECT_RETRY_AFTER) => RetryAfterMode::Ignore,
                "exact" => RetryAfterMode::Exact,
                "clamp_5s" => RetryAfterMode::Clamp,
                "ignore" => RetryAfterMode::Ignore,
                _ => RetryAfterMode::Floor,
            },
            max_retry_after: self.span(self.or(MAX_RETRY_AFTER, backoff::MAX)),
            backoff: self.backoff(),
            throttled_base: self.span(self.or(backoff::THROTTLED_BASE, backoff::BASE)),
            // A policy that makes one attempt needs a budget only for hedges that draw on it.
            budget: if retries || self.hedges_share() { self.budget(budget::OF_RETRIES) } else { None },
            // A pool has the books of all calls of all who name it.
            budget_pool: self.pool(budget::POOL),
            hold: Full::here().filter(|_| self.flag(HOLD)).map(|full| Rare::new(self.whole(MAX_HELD), full)),
            send_rate: Switch::of(|| self.word(SEND_RATE) == "cubic"),
            failover: Full::here()
                .filter(|_| self.given(FAILOVER_ON))
                .map(|full| Rare::new(self.mask(FAILOVER_ON, true) & !self.mask(RETRY_ON, true), full)),
            answers: Full::here().and_then(|full| Some(Rare::new(self.answers()?, full))),
        }
    }

    /// How the policy reads answers, unless it does as every policy does.
    fn answers(&self) -> Option<Answers> {
        let reads = self.flag(READ_ERRORS);
        let conflicts = self.statuses(STATUSES).contains(&409);
        (reads || conflicts || self.given(THROTTLED_STATUSES)).then(|| Answers {
            throttled: self.statuses(THROTTLED_STATUSES),
            kinds: reads.then(|| {
                let kinds = self.kinds();
                KINDS.map(|name| {
                    let place = kinds.iter().position(|kind| *kind.0 == *name).unwrap_or_default();
                    Kind::new((Class::ALL.len() + place) as u8).unwrap_or(Class::Permanent.into())
                })
            }),
        })
    }
}
