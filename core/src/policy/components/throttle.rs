//! The adaptive throttle: its keys, and its settings in a policy.

use super::prelude::*;
use crate::throttle::ThrottleSettings;

keys! {
    /// The keys of a throttle.
    KEYS:
    K = "throttle.k", real(1.0, 1e6), "2",
        "Requests per accepted one that are let through.";
    WINDOW = "throttle.window", span(Duration::from_micros(10)), "2m",
        "How long a call counts.";
    WINDOW_KIND = "throttle.window_kind", domains::WINDOW_KIND, "sliding",
        "sliding forgets by tenths of the window, tumbling all at once.";
    MIN_THROUGHPUT = "throttle.min_throughput", count(1, 1_000_000_000), "10",
        "Calls that the window must hold before any is refused.";
    MAX_REJECT = "throttle.max_reject", Domain::Real { min: 0.0, max: 1.0, none: true }, "0.9",
        "The highest probability of a refusal.";
    PROBE_INTERVAL = "throttle.probe_interval", Domain::Span { min: MICRO, max: YEAR, none: true }, "1s",
        "At least one call is let through per interval.";
    PRIORITIZED = "throttle.prioritized", Domain::Flag, "false",
        "Calls of higher criticality are refused later: k times 0.625, 0.75, 1 and 2, at least 1.1.";
    UNIT = "throttle.unit", domains::UNIT, "call",
        "What is counted and refused: the call, or each of its attempts.";
}

/// What a throttle adds to policies.
pub(in crate::policy) const COMPONENT: Component = Component {
    table: "throttle",
    doc: "Which part of the calls to refuse while a part of them fails.",
    keys: KEYS,
    check: |settings, errors| {
        if settings.uses("breaker.") && settings.uses("throttle.") {
            let rule = "a breaker and a throttle exclude each other; choose one";
            errors.push(PolicyError::new("throttle", "(given)", rule));
        }
    },
    ..NOTHING
};

/// The adaptive throttle.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Throttle {
    pub(crate) settings: ThrottleSettings,
    /// Whether `k` depends on a call's criticality.
    pub(crate) prioritized: bool,
    pub(crate) unit: Unit,
}

impl Settings {
    pub(in crate::policy) fn throttle(&self) -> Throttle {
        let max_reject = self.real(MAX_REJECT);
        let probe_interval = self.span(PROBE_INTERVAL);
        Throttle {
            settings: ThrottleSettings {
                k: self.real(K),
                window: self.span(WINDOW),
                window_kind: self.window_kind(WINDOW_KIND),
                min_throughput: self.whole(MIN_THROUGHPUT),
                max_reject: max_reject.is_finite().then_some(max_reject),
                probe_interval: (probe_interval != Duration::MAX).then_some(probe_interval),
            },
            prioritized: self.flag(PRIORITIZED),
            unit: self.unit(UNIT),
        }
    }
}
