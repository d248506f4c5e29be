//! Hedging: its keys, and its settings in a policy.

use super::prelude::*;
use crate::retry::BudgetSettings;

keys! {
    /// The keys of hedging.
    KEYS:
    DELAY = "hedge.delay", span(Duration::ZERO), "",
        "How long an answer may take before another attempt starts beside it.";
    MAX_ATTEMPTS = "hedge.max_attempts", count(2, 4), "2",
        "Attempts of one call that may run at once.";
    ADAPTIVE_DELAY_QUANTILE = "hedge.adaptive_delay_quantile", domains::QUANTILE, "",
        "The delay is this quantile of recent latencies, once there are five.";
    DELAY_MIN = "hedge.delay_min", span(Duration::ZERO), "",
        "The shortest adaptive delay.";
    DELAY_MAX = "hedge.delay_max", span(MICRO), "",
        "The longest adaptive delay.";
}

/// What hedging adds to policies.
pub(in crate::policy) const COMPONENT: Component = Component {
    table: "hedge",
    doc: "When to send a second attempt beside a slow one.",
    keys: KEYS,
    required: &[("there is a hedge", DELAY, "")],
    beside: &[(DELAY_MIN, ADAPTIVE_DELAY_QUANTILE), (DELAY_MAX, ADAPTIVE_DELAY_QUANTILE)],
    ordered: &[(DELAY_MIN, DELAY_MAX)],
    ..NOTHING
};

/// Hedging.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Hedge {
    pub(crate) delay: Duration,
    pub(crate) max_attempts: u8,
    pub(crate) quantile: Option<f64>,
    pub(crate) delay_min: Duration,
    pub(crate) delay_max: Duration,
    pub(crate) budget: HedgeBudget,
}

/// What pays for hedges.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum HedgeBudget {
    /// The retry budget.
    Shared,
    /// One of its own, or none.
    Own(Option<BudgetSettings>),
}

impl Settings {
    pub(in crate::policy) fn hedge(&self) -> Hedge {
        Hedge {
            delay: self.span(DELAY),
            max_attempts: self.whole(MAX_ATTEMPTS) as u8,
            quantile: self.given(ADAPTIVE_DELAY_QUANTILE).then(|| self.real(ADAPTIVE_DELAY_QUANTILE)),
            delay_min: self.span(DELAY_MIN),
            delay_max: self.span_or_none(DELAY_MAX),
            budget: if self.hedges_share() {
                HedgeBudget::Shared
            } else {
                HedgeBudget::Own(self.budget("hedge.budget"))
            },
        }
    }

    /// Do hedges draw on the retry budget?
    pub(in crate::policy) fn hedges_share(&self) -> bool {
        self.uses("hedge.") && self.budget_kind("hedge.budget") == "shared"
    }
}
