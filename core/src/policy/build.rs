//! Builds a policy from checked settings.

use super::Policy;
use super::check::Settings;
use super::written::Written;
use crate::full::{Full, Rare};

impl Settings {
    /// The policy of checked settings.
    pub(super) fn policy(&self, name: &str) -> Policy {
        Policy {
            name: name.into(),
            written: Written::new(self),
            deadline: self.span_or_none("deadline"),
            attempt_timeout: self.span_or_none("attempt_timeout"),
            slot_until_body: self.word("slot_until") == "body",
            stream: Full::here().filter(|_| self.streams()).map(|full| Rare::new(self.stream(), full)),
            store_timeout: self.span("store_timeout"),
            store_exchange: self.span("store_exchange"),
            kinds: self.kinds(),
            retry: self.retry(),
            cooldown: Full::here()
                .filter(|_| self.uses("cooldown."))
                .map(|full| Rare::new(self.cooldown(), full)),
            rate_limit: self.uses("rate_limit.").then(|| self.rate_limit()),
            bulkhead: self.uses("bulkhead.").then(|| self.bulkhead()),
            breaker: self.uses("breaker.").then(|| self.breaker()),
            throttle: Full::here()
                .filter(|_| self.uses("throttle."))
                .map(|full| Rare::new(self.throttle(), full)),
            hedge: Full::here().filter(|_| self.uses("hedge.")).map(|full| Rare::new(self.hedge(), full)),
            targets: self.pool("targets"),
        }
    }
}
