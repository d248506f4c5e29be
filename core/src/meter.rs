//! Metrics: turns records and a snapshot into series with bounded labels. The same in every language; a host only
//! translates them for its backend.

mod grown;
mod read;
mod sorted;

use crate::action::{PolicyId, RouteId, Verdict, Wait};
use crate::engine::{Engine, Record, RecordType, bits};
use crate::outcome::Class;
use crate::time::Duration;
use grown::Grown;
use sorted::Sorted;

pub use read::ReadPages;

/// Kind of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instrument {
    /// Only grows.
    Counter,
    /// A level.
    Gauge,
    /// Counts by [`Meter::BOUNDS`], and a sum.
    Histogram,
}

impl Instrument {
    /// The name in every language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

macro_rules! families {
    ($($name:ident = $text:literal, $instrument:ident, $labels:expr, $doc:literal;)*) => {
        /// All series of one name: a closed list (`docs/telemetry.md`).
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Family { $(#[doc = $doc] $name),* }

        impl Family {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its name, the same for every backend.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// Kind of the metric.
            pub const fn instrument(self) -> Instrument {
                match self { $(Self::$name => Instrument::$instrument),* }
            }

            /// Its labels besides `policy` and `route`, which all series have.
            pub const fn labels(self) -> &'static [&'static str] {
                match self { $(Self::$name => &$labels),* }
            }

            /// Meaning, in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $doc),* }
            }
        }
    };
}
families! {
    Calls = "tidegate_calls_total", Counter, ["outcome"], "Calls that ended, by verdict.";
    CallDuration = "tidegate_call_duration_seconds", Histogram, [], "Time from a call's beginning to its end, waits included.";
    Attempts = "tidegate_attempts_total", Counter, ["outcome"], "Attempts that ended, by the class or kind of their outcome.";
    Retries = "tidegate_retries_total", Counter, ["reason"], "Further attempts that were decided, by the kind of the failure before them.";
    RetriesSuppressed = "tidegate_retries_suppressed_total", Counter, ["reason"], "Calls that ended with their failure, by the rule that stood against a further attempt.";
    Rejections = "tidegate_rejections_total", Counter, ["stage", "reason"], "Calls refused before any attempt, by component and verdict.";
    InFlight = "tidegate_bulkhead_in_flight", Gauge, [], "Permits given out.";
    Capacity = "tidegate_bulkhead_capacity", Gauge, [], "Permits there are; of an adaptive limit, now.";
    QueueDepth = "tidegate_bulkhead_queue_depth", Gauge, [], "Calls that wait for a permit.";
    AcquireLatency = "tidegate_bulkhead_acquire_latency_seconds", Histogram, [], "How long those waited for a permit that had to, and got one.";
    BreakerStateNow = "tidegate_breaker_state", Gauge, [], "0 closed, 1 open, 2 half-open; of several routes the highest.";
    RejectProbability = "tidegate_throttle_reject_probability", Gauge, [], "The probability that a throttle refuses a call; of several routes the highest.";
    BudgetTokens = "tidegate_budget_tokens", Gauge, [], "Retries that the budget has left.";
    Hedges = "tidegate_hedges_total", Counter, ["outcome"], "Hedges that ended: won, or lost.";
    HedgeDelay = "tidegate_hedge_delay_seconds", Gauge, [], "How long an attempt may take before one is started beside it; of several routes the longest.";
    FleetUp = "tidegate_fleet_up", Gauge, [], "1 while the fleet's store is there, 0 while `on_loss` decides; without policy and route.";
    FleetFallbacks = "tidegate_fleet_fallbacks_total", Counter, [], "Decisions that `on_loss` has made, because the fleet's store was gone or too slow; by policy, without a route.";
    RateTokens = "tidegate_rate_limit_tokens", Gauge, ["limit", "weight"], "Tokens that a limit of a set has left.";
    RateDebt = "tidegate_rate_limit_debt", Gauge, ["limit", "weight"], "Tokens that a limit of a set is in debt.";
    RateReserved = "tidegate_rate_limit_reserved_total", Counter, ["limit", "weight"], "Tokens of a limit of a set that attempts have reserved.";
    RateSettled = "tidegate_rate_limit_settled_total", Counter, ["limit", "weight"], "Tokens of a weighted limit that attempts have used, as far as they have ended.";
    RateForgiven = "tidegate_rate_limit_forgiven_total", Counter, ["limit", "weight"], "Tokens used beyond the largest debt of a limit.";
    RateLearned = "tidegate_rate_limit_learned_total", Counter, ["limit", "weight"], "Tokens that answers have taken away, because less was left of the service's own quota.";
    StreamDelivery = "tidegate_stream_delivery_seconds", Histogram, [], "Time from an attempt's start to the first piece that counts, of answers that are streams.";
    StreamStalls = "tidegate_stream_stalls_total", Counter, ["phase"], "Streams that were silent for too long: before or after their delivery.";
    CooldownStateNow = "tidegate_cooldown_state", Gauge, ["target"], "0 open, 1 closed, 2 reopening; of several routes the highest.";
    CooldownQueue = "tidegate_cooldown_queue_depth", Gauge, [], "Calls that wait until a cooldown lets them in.";
    CooldownClosings = "tidegate_cooldown_closings_total", Counter, ["target"], "Closings after throttled answers.";
    CooldownClosed = "tidegate_cooldown_closed_seconds_total", Counter, ["target"], "Time during which a cooldown was closed.";
    TargetAttempts = "tidegate_target_attempts_total", Counter, ["target"], "Attempts that have gone to a target.";
    TargetSkips = "tidegate_target_skips_total", Counter, ["target", "reason"], "Choices in which a target did not admit the attempt, by the part of it that refused.";
    TargetFailovers = "tidegate_target_failovers_total", Counter, ["target"], "Attempts that failed at a target, after which the next one went to another target at once.";
    TargetInFlight = "tidegate_target_in_flight", Gauge, ["target"], "Attempts that are out at a target.";
    TargetBreaker = "tidegate_target_breaker_state", Gauge, ["target"], "0 closed, 1 open, 2 half-open.";
    TargetEstimate = "tidegate_target_delivery_estimate_seconds", Gauge, ["target"], "Moving average of a target's time to a delivery.";
}

/// Value of a series.
#[derive(Clone, PartialEq, Debug)]
pub enum Reading {
    /// Value of a counter or a gauge.
    Number(f64),
    /// Value of a histogram: how many samples were at most each of [`Meter::BOUNDS`] but more than the one before,
    /// and finally how many were more; and their sum.
    Histogram {
        /// One more than there are bounds.
        counts: Vec<u64>,
        /// In seconds.
        sum: f64,
    },
}

/// One series.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Its family.
    pub family: Family,
    /// The policy's name; empty for a pool that policies share.
    pub policy: String,
    /// The route's key, or `other`; a pool's name.
    pub route: String,
    /// The values of [`Family::labels`].
    pub labels: Vec<String>,
    /// Its value.
    pub reading: Reading,
}

/// A histogram of durations.
#[derive(Clone, Default, Debug)]
struct Spans {
    counts: [u64; Meter::BOUNDS.len() + 1],
    us: u64,
}

impl Spans {
    fn add(&mut self, us: u64) {
        let at = BOUNDS_US.iter().position(|bound| us <= *bound);
        self.counts[at.unwrap_or(Meter::BOUNDS.len())] += 1;
        self.us = self.us.saturating_add(us);
    }
}

/// [`Meter::BOUNDS`] in microseconds: a call that succeeds is counted without a division.
const BOUNDS_US: [u64; Meter::BOUNDS.len()] = {
    let (mut all, mut at) = ([0; Meter::BOUNDS.len()], 0);
    while at < all.len() {
        all[at] = (Meter::BOUNDS[at] * 1e6 + 0.5) as u64;
        at += 1;
    }
    all
};

/// [`Meter::TYPES`], one bit each.
const COUNTED: u32 = bits(Meter::TYPES);

/// Counts of one policy and one label of route.
#[derive(Clone, Debug)]
struct Tally {
    policy: PolicyId,
    /// `None` is `other`.
    route: Option<Box<str>>,
    calls: [u64; Verdict::ALL.len()],
    duration: Spans,
    /// By number of the kind.
    attempts: Sorted<u8, u64>,
    retries: Sorted<u8, u64>,
    suppressed: [u64; Verdict::ALL.len()],
    acquire: Spans,
    won: u64,
    lost: u64,
    delivery: Spans,
    /// Streams that stalled before their delivery, and after it.
    stalls: [u64; 2],
}

/// The routes of one policy with series of their own.
#[derive(Default, Debug)]
struct Known {
    by_key: Sorted<Box<str>, usize>,
    other: Option<usize>,
}

/// Counts records, and reads the rest from a snapshot. Without a meter, metrics cost nothing.
///
/// The first `max_routes` routes of each policy have series of their own; later ones are counted under `other`. The
/// first routes are chosen instead of the largest, because a counter that moved from one label to another would run
/// back.
///
/// ```
/// use tidegate::{Class, Engine, Event, Family, Meter, Options, Outcome, Policy, Reading, Request, Time, Value};
/// let mut engine = Engine::new(7, Options::default());
/// let policy = engine.policy(Policy::from_pairs("payments", &[("deadline", Value::Number(1e6))]).unwrap()).unwrap();
/// let now = Time::from_micros(0);
/// let route = engine.route(policy, "eu", now);
/// let mut meter = Meter::new(20);
/// engine.subscribe_to(Meter::TYPES);
/// let (call, _) = engine.begin(route, &Request::default(), now);
/// let _ = engine.on(call, Event::Finished { attempt: 1, outcome: Outcome::of(Class::Ok) }, now);
///
/// let mut records = Vec::new();
/// engine.take_records(&mut records);
/// records.iter().for_each(|record| meter.add(&engine, record));
/// let calls = meter.read(&engine, now).into_iter().find(|series| series.family == Family::Calls).unwrap();
/// assert_eq!((&*calls.policy, &*calls.route, &*calls.labels[0]), ("payments", "eu", "ok"));
/// assert_eq!(calls.reading, Reading::Number(1.0));
/// ```
#[derive(Debug)]
pub struct Meter {
    max_routes: usize,
    tallies: Vec<Tally>,
    known: Sorted<u32, Known>,
    /// Index of a route's tally. Routes that come back have new ids, so this map is emptied now and then.
    places: Sorted<u64, usize>,
    /// Totals that are read from snapshots.
    grown: Grown,
}

/// A histogram that one type of records feeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timed {
    /// The type of the records.
    pub what: RecordType,
    /// What the call waited for, if only such records count.
    pub why: Option<Wait>,
    /// Whether the histogram takes the record's `wait`; otherwise it takes `elapsed`.
    pub waits: bool,
    /// The histogram.
    pub family: Family,
}

impl Timed {
    /// All histograms. Hosts read from here what they record in histograms of another library.
    pub const ALL: &'static [Self] = &[
        Self { what: RecordType::CallDone, why: None, waits: false, family: Family::CallDuration },
        Self {
            what: RecordType::Granted,
            why: Some(Wait::Queue),
            waits: true,
            family: Family::AcquireLatency,
        },
        Self { what: RecordType::StreamDelivered, why: None, waits: false, family: Family::StreamDelivery },
    ];

    /// The histogram for records of this type about this wait.
    pub fn of(what: RecordType, why: Option<Wait>) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.what == what && (it.why.is_none() || it.why == why))
    }

    /// The histogram that a record feeds, and the span that it takes.
    pub fn span(record: &Record) -> Option<(Family, Duration)> {
        let timed = Self::of(record.what, record.why)?;
        Some((timed.family, if timed.waits { record.wait } else { record.elapsed }.unwrap_or_default()))
    }
}

/// The most routes remembered by their id.
const MOST_PLACES: usize = 4_096;

impl Meter {
    /// The upper bounds of histograms, in seconds.
    pub const BOUNDS: &'static [f64] =
        &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

    /// The types of records that it counts.
    pub const TYPES: &'static [RecordType] = &[
        RecordType::CallDone,
        RecordType::AttemptDone,
        RecordType::RetryScheduled,
        RecordType::RetrySuppressed,
        RecordType::GaveUp,
        RecordType::Granted,
        RecordType::HedgeWon,
        RecordType::StreamDelivered,
        RecordType::StreamStalled,
    ];

    /// Creates a meter with series of their own for `max_routes` routes of each policy.
    pub fn new(max_routes: usize) -> Self {
        Self {
            max_routes,
            tallies: Vec::new(),
            known: Sorted::default(),
            places: Sorted::default(),
            grown: Grown::default(),
        }
    }

    /// Counts a record of this engine. Records of other types than [`Meter::TYPES`] change nothing.
    pub fn add(&mut self, engine: &Engine, record: &Record) {
        let (Some(policy), Some(route)) = (record.policy, record.route) else { return };
        if COUNTED & 1 << record.what as u32 == 0 {
            return;
        }
        let at = match self.places.get(&route.to_word()) {
            Some(at) => *at,
            None => self.place(policy, route, engine.key_of(route)),
        };
        let tally = &mut self.tallies[at];
        match Timed::span(record) {
            Some((Family::CallDuration, span)) => tally.duration.add(span.as_micros()),
            Some((Family::AcquireLatency, span)) => tally.acquire.add(span.as_micros()),
            Some((Family::StreamDelivery, span)) => tally.delivery.add(span.as_micros()),
            _ => {}
        }
        match record.what {
            RecordType::CallDone => {
                if let Some(verdict) = record.verdict {
                    tally.calls[verdict as usize] += 1;
                }
            }
            RecordType::AttemptDone => {
                let kind = record.kind.unwrap_or(Class::Permanent.into());
                *tally.attempts.at(kind.number()) += 1;
                tally.lost += u64::from(record.hedge && kind != Class::Ok.into());
            }
            RecordType::RetryScheduled => {
                let kind = record.kind.unwrap_or(Class::Permanent.into());
                *tally.retries.at(kind.number()) += 1;
            }
            RecordType::RetrySuppressed | RecordType::GaveUp => {
                if let Some(verdict) = record.verdict {
                    tally.suppressed[verdict as usize] += 1;
                }
            }
            RecordType::HedgeWon => tally.won += 1,
            RecordType::StreamStalled => tally.stalls[usize::from(record.verdict.is_some())] += 1,
            _ => {}
        }
    }

    /// Creates the tally of a new route.
    #[cold]
    fn place(&mut self, policy: PolicyId, route: RouteId, key: Option<&str>) -> usize {
        if self.places.len() >= MOST_PLACES {
            self.places.clear();
        }
        let at = self.tally(policy, key);
        *self.places.at(route.to_word()) = at;
        at
    }

    /// The tally of a key; `other` if there is no room for it, or if the route is gone.
    fn tally(&mut self, policy: PolicyId, key: Option<&str>) -> usize {
        let known = self.known.at(policy.to_word());
        if let Some(at) = key.and_then(|key| known.by_key.get(key)) {
            return *at;
        }
        let own = key.filter(|_| known.by_key.len() < self.max_routes);
        if let (None, Some(at)) = (own, known.other) {
            return at;
        }
        let at = self.tallies.len();
        match own {
            Some(key) => *known.by_key.at(key.into()) = at,
            None => known.other = Some(at),
        }
        self.tallies.push(Tally {
            policy,
            route: own.map(Into::into),
            calls: [0; Verdict::ALL.len()],
            duration: Spans::default(),
            attempts: Sorted::default(),
            retries: Sorted::default(),
            suppressed: [0; Verdict::ALL.len()],
            acquire: Spans::default(),
            won: 0,
            lost: 0,
            delivery: Spans::default(),
            stalls: [0; 2],
        });
        at
    }
}
