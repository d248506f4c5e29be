//! The circuit breaker: its keys, and its settings in a policy.

use super::prelude::*;
use crate::breaker::BreakerSettings;
use crate::full::{Full, Rare};
use crate::policy::domain::ALL_CLASS_NAMES;

/// Breaks grow to this many times the first, unless the policy says otherwise (semantics 5.2).
const LONGEST_BREAK: u64 = 10;

/// How late a host may report an attempt that has timed out, before another call takes the place of a probe.
const LATE: Duration = Duration::from_secs(1);

keys! {
    /// The keys of a breaker.
    KEYS:
    FAILURE_RATIO = "breaker.failure_ratio", real(1e-6, 1.0), "",
        "Failures among recent calls that open it, as a fraction.";
    WINDOW = "breaker.window", span(Duration::from_micros(10)), "",
        "How long a call counts as recent.";
    MIN_THROUGHPUT = "breaker.min_throughput", count(1, 1_000_000_000), "",
        "Calls that the window must hold before the ratio counts.";
    WINDOW_KIND = "breaker.window_kind", domains::WINDOW_KIND, "sliding",
        "sliding forgets by tenths of the window, tumbling all at once.";
    CONSECUTIVE = "breaker.consecutive", count(1, 1_000_000), "",
        "Failures in a row that open it; instead of the ratio, or beside it.";
    BREAK_DURATION = "breaker.break_duration", span(Duration::from_millis(1)), "",
        "How long it stays open.";
    BREAK_FACTOR = "breaker.break_factor", real(1.0, 100.0), "2",
        "How much longer it stays open after each failed probe; 1 is neither growth nor jitter.";
    MAX_BREAK_DURATION = "breaker.max_break_duration", span(Duration::from_millis(1)), "",
        "The longest break; ten times break_duration where absent.";
    HALF_OPEN_MAX_CALLS = "breaker.half_open_max_calls", count(1, 1_000), "1",
        "Probes at once when a break has ended.";
    SUCCESSES_TO_CLOSE = "breaker.successes_to_close", count(1, 1_000_000), "1",
        "Good probes that close it.";
    FAILURE_ON = "breaker.failure_on", Domain::KindWords(ALL_CLASS_NAMES), "",
        "Classes and kinds that count as failures, besides transient, timeout and never_sent.";
    IGNORE_ON = "breaker.ignore_on", Domain::KindWords(ALL_CLASS_NAMES), "",
        "Classes and kinds that count neither way.";
    UNIT = "breaker.unit", domains::UNIT, "call",
        "What is counted: the call, or each of its attempts.";
}

keys! {
    /// The keys of a fleet's breaker.
    FLEET_KEYS:
    STORE = "breaker.store", domains::STORE, "local",
        "fleet: one process that trips opens the breaker for all, through the store that the engine is attached to.";
    QUORUM = "breaker.quorum", count(1, 10_000), "1",
        "fleet: processes that must trip within the window, or within break_duration where there is none, before it opens for all.";
    ON_LOSS = "breaker.on_loss", domains::ON_LOSS, "local",
        "fleet: what holds while the store is gone: local is the process's own breaker, open lets all calls pass, closed refuses them.";
}

/// What a breaker adds to policies.
pub(in crate::policy) const COMPONENT: Component = Component {
    table: "breaker",
    doc: "When to stop calling what fails.",
    keys: KEYS,
    required: &[
        ("there is a breaker", FAILURE_RATIO, CONSECUTIVE),
        ("there is a breaker", BREAK_DURATION, ""),
    ],
    beside: &[(FAILURE_RATIO, WINDOW), (FAILURE_RATIO, MIN_THROUGHPUT)],
    ordered: &[(BREAK_DURATION, MAX_BREAK_DURATION)],
    check: |settings, errors| {
        if settings.mask(FAILURE_ON, false) & settings.mask(IGNORE_ON, false) != 0 {
            let rule = text::of(&["shares classes or kinds with ", FAILURE_ON]);
            errors.push(PolicyError::new(IGNORE_ON, "(given)", rule));
        }
    },
    ..NOTHING
};

/// What the fleet adds to it.
pub(in crate::policy) const FLEET: Component = Component {
    table: "breaker",
    keys: FLEET_KEYS,
    stores: &[STORE],
    of_fleet: &[QUORUM, ON_LOSS],
    ..NOTHING
};

/// The circuit breaker.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Breaker {
    pub(crate) settings: BreakerSettings,
    /// Kinds that count as failures, and kinds that do not count, a bit each.
    pub(crate) failure_on: u32,
    pub(crate) ignore_on: u32,
    pub(crate) unit: Unit,
    /// None where it is the process's own.
    pub(crate) fleet: Option<Rare<FleetBreaker>>,
}

/// A breaker that is the fleet's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FleetBreaker {
    /// Processes that must trip.
    pub(crate) quorum: u32,
    /// Within this.
    pub(crate) within: Duration,
    pub(crate) on_loss: OnLoss,
}

impl Settings {
    pub(in crate::policy) fn breaker(&self) -> Breaker {
        let break_duration = self.span(BREAK_DURATION);
        let longest = Duration::from_micros(break_duration.as_micros().saturating_mul(LONGEST_BREAK));
        Breaker {
            settings: BreakerSettings {
                failure_ratio: self.given(FAILURE_RATIO).then(|| self.real(FAILURE_RATIO)),
                window: self.span(WINDOW),
                min_throughput: self.whole(MIN_THROUGHPUT),
                window_kind: self.window_kind(WINDOW_KIND),
                consecutive: self.given(CONSECUTIVE).then(|| self.whole(CONSECUTIVE)),
                break_duration,
                break_factor: self.real(BREAK_FACTOR),
                max_break_duration: if self.given(MAX_BREAK_DURATION) {
                    self.span(MAX_BREAK_DURATION)
                } else {
                    longest
                },
                half_open_max_calls: self.whole(HALF_OPEN_MAX_CALLS),
                successes_to_close: self.whole(SUCCESSES_TO_CLOSE),
                probe_lease: if self.given(call::ATTEMPT_TIMEOUT) {
                    self.span(call::ATTEMPT_TIMEOUT).plus(LATE)
                } else {
                    break_duration
                },
            },
            failure_on: self.counted(FAILURE_ON, IGNORE_ON),
            ignore_on: self.counted(IGNORE_ON, FAILURE_ON),
            unit: self.unit(UNIT),
            fleet: Full::here().filter(|_| self.in_fleet(STORE)).map(|full| {
                let windowed = self.given(WINDOW);
                let it = FleetBreaker {
                    quorum: self.whole(QUORUM),
                    within: if windowed { self.span(WINDOW) } else { break_duration },
                    on_loss: self.on_loss(ON_LOSS),
                };
                Rare::new(it, full)
            }),
        }
    }

    /// The kinds that a list counts: those it names, and those based on a class that it names, unless the other list
    /// names them.
    fn counted(&self, path: &str, other: &str) -> u32 {
        self.mask(path, false) | self.mask(path, true) & !self.mask(other, false)
    }
}
