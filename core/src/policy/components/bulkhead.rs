//! The bulkhead: its keys, and its settings in a policy.

use super::prelude::*;
use crate::codel::{CodelLaw, CodelSettings};
use crate::full::{Full, Name, Rare};
use crate::limit::{AimdSettings, Gradient2Settings, Gradient2Variant, LimitSignal};

keys! {
    /// The keys of a bulkhead.
    KEYS:
    KIND = "bulkhead.kind", Domain::Choice(whole::LIMITS), "fixed",
        "What sets the limit of concurrent calls: fixed is max_concurrency, aimd follows a latency threshold, gradient2 the change of latency.";
    MAX_CONCURRENCY = "bulkhead.max_concurrency", count(1, 1_000_000_000), "",
        "Calls in flight at once; for aimd and gradient2 the highest limit.";
    MAX_QUEUE = "bulkhead.max_queue", Domain::Count { min: 0, max: 10_000_000, none: true }, "0",
        "Calls that may wait for a slot; 0 is no queue, none is unbounded.";
    ACQUIRE_TIMEOUT = "bulkhead.acquire_timeout", Domain::Span { min: Duration::ZERO, max: YEAR, none: true }, "1s",
        "How long a call waits for a slot; 0 fails fast, none waits for ever.";
    UNIT = "bulkhead.unit", domains::UNIT, "call",
        "What takes a slot: the call, or each of its attempts, which gives it back during backoff.";
}

keys! {
    /// The keys of a bulkhead that adapts, orders its queue, or is shared.
    MORE_KEYS:
    MIN_CONCURRENCY = "bulkhead.min_concurrency", count(1, 1_000_000_000), "1",
        "aimd, gradient2: the lowest limit.";
    SIGNAL = "bulkhead.signal", Domain::Choice(&["latency", "loss", "both"]), "latency",
        "aimd: what cuts the limit: a latency above the threshold, loss (an answer that asks for fewer requests), or both.";
    LATENCY_THRESHOLD = "bulkhead.latency_threshold", span(MICRO), "",
        "aimd that follows latency: a completion within it raises the limit, one over it cuts it.";
    INCREASE_STEP = "bulkhead.increase_step", real(1e-6, 1e6), "1",
        "aimd: what a good completion adds, divided by the limit.";
    BACKOFF_RATIO = "bulkhead.backoff_ratio", real(0.01, 0.999), "0.9",
        "aimd: what a cut multiplies the limit by.";
    CUT_INTERVAL = "bulkhead.cut_interval", span(Duration::ZERO), "1s",
        "aimd: at most one cut per interval.";
    LATENCY_QUANTILE = "bulkhead.latency_quantile", domains::QUANTILE, "",
        "aimd: compare this quantile of recent latencies with the threshold, instead of each one.";
    LONG_WINDOW = "bulkhead.long_window", count(2, 1_000_000), "600",
        "gradient2: completions that the long-term latency looks back on.";
    RTT_TOLERANCE = "bulkhead.rtt_tolerance", real(1.0, 100.0), "1.5",
        "gradient2: how much longer than the long-term latency is still good.";
    HEADROOM = "bulkhead.headroom", real(0.0, 1e6), "4",
        "gradient2: how many more than now the limit reaches for.";
    VARIANT = "bulkhead.variant", Domain::Choice(&["steady", "guarded", "plain", "netflix"]), "steady",
        "gradient2: steady decides once per round trip and comes back to what the server can take; guarded, plain and netflix are older rules.";
    QUEUE_TARGET = "bulkhead.queue_target", span(MICRO), "",
        "Under sustained congestion a call waits no longer than this (CoDel); needs max_queue.";
    QUEUE_INTERVAL = "bulkhead.queue_interval", span(MICRO), "100ms",
        "How long a queue that never empties is not yet congested.";
    CODEL = "bulkhead.codel", Domain::Choice(&["facebook", "rfc8289"]), "facebook",
        "The control law behind queue_target.";
    QUEUE_ADAPTIVE_LIFO = "bulkhead.queue_adaptive_lifo", Domain::Flag, "false",
        "While congested, the newest waiter goes first; needs max_queue.";
    PRIORITIZED = "bulkhead.prioritized", Domain::Flag, "false",
        "A full queue admits a call of higher criticality in place of the lowest; needs max_queue.";
    POOL = "bulkhead.pool", Domain::Name, "",
        "A shared bulkhead that is declared as a pool; limit, queue and order stand there.";
    STORE = "bulkhead.store", domains::STORE, "local",
        "Whose slots they are: each process's own, or the whole fleet's through the store that the engine is attached to.";
    LEASE_TTL = "bulkhead.lease_ttl", span(Duration::from_secs(1)), "30s",
        "fleet: how long a slot stays taken whose process does not renew it.";
    ON_LOSS = "bulkhead.on_loss", domains::ON_LOSS, "local",
        "fleet: what holds while the store is gone: local is the process's share of the slots, open is max_concurrency in each process, closed refuses calls.";
    LATENCY_STORE = "bulkhead.latency_store", domains::STORE, "local",
        "aimd with latency_quantile: fleet compares the quantile of all processes' latencies with the threshold.";
}

/// What a bulkhead adds to policies.
pub(in crate::policy) const COMPONENT: Component = Component {
    table: "bulkhead",
    doc: "How many calls may be in flight at once, per route.",
    keys: KEYS,
    required: &[("there is a bulkhead", MAX_CONCURRENCY, whole::or_pool(POOL))],
    ..NOTHING
};

/// What adaptive limits, control of the queue, pools and the fleet add to it.
pub(in crate::policy) const MORE: Component = Component {
    table: "bulkhead",
    keys: MORE_KEYS,
    ordered: &[(MIN_CONCURRENCY, MAX_CONCURRENCY)],
    stores: &[STORE, LATENCY_STORE],
    of_fleet: &[LEASE_TTL, ON_LOSS],
    check: |settings, errors| {
        let (kind, signal) = (settings.word(KIND), settings.word(SIGNAL));
        if kind != "aimd" && signal != "latency" {
            let rule = text::of(&["needs ", KIND, " = aimd: no other limit has a signal"]);
            errors.push(PolicyError::new(SIGNAL, signal, rule));
        }
        if kind == "aimd" && signal != "loss" && !settings.given(LATENCY_THRESHOLD) {
            let rule = text::of(&["is required where ", KIND, " is aimd, unless ", SIGNAL, " is loss"]);
            errors.push(PolicyError::new(LATENCY_THRESHOLD, "(absent)", rule));
        }
        check_queue(settings, errors);
        check_fleet(settings, errors);
    },
    ..NOTHING
};

/// The queue, and what controls it.
fn check_queue(settings: &Settings, errors: &mut Vec<PolicyError>) {
    if settings.given(POOL) {
        return;
    }
    if settings.given(QUEUE_TARGET) && settings.span(QUEUE_TARGET) >= settings.span(QUEUE_INTERVAL) {
        let interval = settings.shown_value(QUEUE_INTERVAL);
        let rule = text::of(&["must be less than ", QUEUE_INTERVAL, " (", &interval, ")"]);
        errors.push(PolicyError::new(QUEUE_TARGET, settings.shown_value(QUEUE_TARGET), rule));
    }
    for control in [QUEUE_TARGET, QUEUE_ADAPTIVE_LIFO, PRIORITIZED] {
        let on = if control == QUEUE_TARGET { settings.given(control) } else { settings.flag(control) };
        if on && settings.whole(MAX_QUEUE) == 0 {
            let rule = text::of(&["needs a queue: ", MAX_QUEUE, " of at least 1"]);
            errors.push(PolicyError::new(control, settings.shown_value(control), rule));
        }
    }
}

/// Which limits the fleet can share.
fn check_fleet(settings: &Settings, errors: &mut Vec<PolicyError>) {
    let mut fail = |key: &str, rule| errors.push(PolicyError::new(key, settings.shown_value(key), rule));
    if settings.in_fleet(STORE) && settings.word(KIND) != "fixed" {
        let why = "an adaptive limit is each process's own";
        fail(STORE, format!("needs {KIND} = fixed: {why} ({LATENCY_STORE} shares what it follows)"));
    }
    let quantile = settings.word(KIND) == "aimd" && settings.given(LATENCY_QUANTILE);
    if settings.in_fleet(LATENCY_STORE) && !quantile {
        fail(LATENCY_STORE, format!("needs {KIND} = aimd and {LATENCY_QUANTILE}"));
    } else if settings.in_fleet(LATENCY_STORE) && settings.word(SIGNAL) == "loss" {
        fail(LATENCY_STORE, format!("needs {SIGNAL} = latency or both: loss reads no latencies"));
    }
}

/// A bulkhead of any kind.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Bulkhead {
    pub(crate) limit: LimitSettings,
    pub(crate) max_queue: u32,
    pub(crate) acquire_timeout: Duration,
    pub(crate) unit: Unit,
    /// What watches the queue, if anything does.
    pub(crate) codel: Option<CodelSettings>,
    /// Does it shed by the target?
    pub(crate) shed: Switch,
    pub(crate) lifo: Switch,
    pub(crate) prioritized: Switch,
    pub(crate) pool: Option<Name>,
    /// None where the slots are the process's own.
    pub(crate) fleet: Option<Rare<FleetSlots>>,
    /// Are latencies merged across the fleet?
    pub(crate) fleet_latency: Switch,
}

/// What sets the limit of a bulkhead.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum LimitSettings {
    Fixed(u32),
    Aimd(Rare<AimdSettings>),
    Gradient2(Rare<Gradient2Settings>),
}

/// Slots that are the fleet's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FleetSlots {
    pub(crate) ttl: Duration,
    pub(crate) on_loss: OnLoss,
}

impl Settings {
    pub(in crate::policy) fn bulkhead(&self) -> Bulkhead {
        let max_concurrency = self.whole(MAX_CONCURRENCY);
        let shed = Switch::of(|| self.given(QUEUE_TARGET));
        let lifo = Switch::of(|| self.flag(QUEUE_ADAPTIVE_LIFO));
        Bulkhead {
            limit: match (self.word(KIND), Full::here()) {
                ("aimd", Some(full)) => LimitSettings::Aimd(Rare::new(
                    AimdSettings {
                        signal: match self.word(SIGNAL) {
                            "loss" => LimitSignal::Loss,
                            "both" => LimitSignal::Both,
                            _ => LimitSignal::Latency,
                        },
                        max_concurrency,
                        min_concurrency: self.whole(MIN_CONCURRENCY),
                        latency_threshold: if self.given(LATENCY_THRESHOLD) {
                            self.span(LATENCY_THRESHOLD)
                        } else {
                            Duration::MAX
                        },
                        increase_step: self.real(INCREASE_STEP),
                        backoff_ratio: self.real(BACKOFF_RATIO),
                        cut_interval: self.span(CUT_INTERVAL),
                        latency_quantile: self.given(LATENCY_QUANTILE).then(|| self.real(LATENCY_QUANTILE)),
                    },
                    full,
                )),
                ("gradient2", Some(full)) => LimitSettings::Gradient2(Rare::new(
                    Gradient2Settings {
                        max_concurrency,
                        min_concurrency: self.whole(MIN_CONCURRENCY),
                        long_window: self.whole(LONG_WINDOW),
                        rtt_tolerance: self.real(RTT_TOLERANCE),
                        headroom: self.real(HEADROOM),
                        variant: match self.word(VARIANT) {
                            "plain" => Gradient2Variant::Plain,
                            "netflix" => Gradient2Variant::Netflix,
                            "guarded" => Gradient2Variant::Guarded,
                            _ => Gradient2Variant::Steady,
                        },
                    },
                    full,
                )),
                _ => LimitSettings::Fixed(max_concurrency),
            },
            max_queue: self.whole(MAX_QUEUE),
            acquire_timeout: self.span(ACQUIRE_TIMEOUT),
            unit: self.unit(UNIT),
            codel: (shed.is_on() || lifo.is_on()).then(|| CodelSettings {
                target: self.span(if shed.is_on() { QUEUE_TARGET } else { QUEUE_INTERVAL }),
                interval: self.span(QUEUE_INTERVAL),
                law: match self.word(CODEL) {
                    "rfc8289" => CodelLaw::Rfc8289,
                    _ => CodelLaw::Facebook,
                },
            }),
            shed,
            lifo,
            prioritized: Switch::of(|| self.flag(PRIORITIZED)),
            fleet: Full::here().filter(|_| self.in_fleet(STORE)).map(|full| {
                let ttl = self.span(LEASE_TTL);
                Rare::new(FleetSlots { ttl, on_loss: self.on_loss(ON_LOSS) }, full)
            }),
            fleet_latency: Switch::of(|| self.in_fleet(LATENCY_STORE)),
            pool: self.pool(POOL),
        }
    }
}
