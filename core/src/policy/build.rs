//! From checked settings to a policy.

use super::check::Settings;
use super::written::Written;
use super::{OnLoss, Policy, Unit};
use crate::full::{FULL, Full, Rare};
use crate::window::WindowKind;

impl Settings {
    /// The policy of checked settings.
    pub(super) fn policy(&self, name: &str) -> Policy {
        Policy {
            name: name.into(),
            written: Written::new(&self.values),
            deadline: self.span_or_none("deadline"),
            attempt_timeout: self.span_or_none("attempt_timeout"),
            slot_until_body: self.word("slot_until") == "body",
            store_timeout: self.span("store_timeout"),
            store_exchange: self.span("store_exchange"),
            kinds: self.kinds(),
            retry: self.retry(),
            rate_limit: self.uses("rate_limit.").then(|| self.rate_limit()),
            bulkhead: self.uses("bulkhead.").then(|| self.bulkhead()),
            breaker: self.uses("breaker.").then(|| self.breaker()),
            throttle: Full::here()
                .filter(|_| self.uses("throttle."))
                .map(|full| Rare::new(self.throttle(), full)),
            hedge: Full::here().filter(|_| self.uses("hedge.")).map(|full| Rare::new(self.hedge(), full)),
        }
    }

    /// The first of two keys where it is given, else the second.
    pub(super) fn or(&self, path: &'static str, other: &'static str) -> &'static str {
        if self.given(path) { path } else { other }
    }

    pub(super) fn in_fleet(&self, path: &str) -> bool {
        FULL && self.word(path) == "fleet"
    }

    pub(super) fn on_loss(&self, path: &str) -> OnLoss {
        match self.word(path) {
            "open" => OnLoss::Open,
            "closed" => OnLoss::Closed,
            _ => OnLoss::Local,
        }
    }

    pub(super) fn unit(&self, path: &str) -> Unit {
        if self.word(path) == "attempt" { Unit::Attempt } else { Unit::Call }
    }

    pub(super) fn window_kind(&self, path: &str) -> WindowKind {
        if self.word(path) == "tumbling" { WindowKind::Tumbling } else { WindowKind::Sliding }
    }
}
