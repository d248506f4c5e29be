//! Records: what the engine did, one flat line each, for subscribed listeners (semantics 12.1).
//!
//! `telemetry.rs` fills in records. This file has their form and the buffer from which a host takes them.

use super::place::RouteAt;
use core::fmt;
use std::collections::{BTreeMap as Map, VecDeque};

use super::Engine;
use crate::action::{CallId, PolicyId, RouteId, Verdict, Wait};
use crate::breaker::BreakerState;
use crate::fleet::Loss;
use crate::full::{Full, Part, Switch};
use crate::outcome::Kind;
use crate::time::{Duration, Time};

/// Records that the buffer holds until the host takes them. At 144 bytes each that is 9.4 MB.
const MOST: usize = 65_536;

/// Rejections of one kind on one route make at most one record in this span.
const SAMPLED: Duration = Duration::from_secs(1);

macro_rules! types {
    ($($name:ident = $text:literal, $doc:literal;)*) => {
        /// Type of a record: a closed list (semantics 12.1). A new type breaks every host at compile time, on
        /// purpose.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum RecordType { $(#[doc = $doc] $name),* }

        impl RecordType {
            /// All types, in the order of semantics 12.1; a type's number is its index in this list.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name in every language.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// Meaning of the type, in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $doc),* }
            }
        }
    };
}
types! {
    CallDone = "call_done", "A call has ended; exactly one for each call that has begun.";
    AttemptStarted = "attempt_started", "An attempt is to start.";
    AttemptDone = "attempt_done", "An attempt has ended, or was stopped; at its head where its answer was good. Exactly one for each that started.";
    RetryScheduled = "retry_scheduled", "A further attempt is paid for; it is due after `wait`.";
    RetrySuppressed = "retry_suppressed", "A call ends with its failure, because a rule stood against a further attempt: `verdict` names it.";
    GaveUp = "gave_up", "A call ends with its failure, because all its attempts are used up.";
    Rejected = "rejected", "A component refused a call, or its next attempt: `verdict` says which and why. Sampled.";
    Queued = "queued", "A call waits for a permit, for tokens, or because like paths are held: `why` says for which.";
    Granted = "granted", "What a call waited for is its own; it goes on when its owner polls.";
    Shed = "shed", "A waiter was put out of the queue: over the queue's target, or displaced.";
    HedgeStarted = "hedge_started", "A hedge starts beside a slow attempt, which has been out for `wait`.";
    HedgeWon = "hedge_won", "A hedge had the good answer.";
    BreakerChanged = "breaker_changed", "A circuit breaker went from one state to another.";
    LimitChanged = "limit_changed", "The limit of a pool of permits went from one number to another.";
    ThrottleChanged = "throttle_changed", "The probability of a throttle's refusal has become more than zero, or zero again.";
    HoldChanged = "hold_changed", "The number of a route's holds has changed.";
    DeadlineExceeded = "deadline_exceeded", "A deadline ended a call: before it began, while it waited, or during an attempt.";
    LeaseReclaimed = "lease_reclaimed", "A permit, place or attempt was taken back, because its host did not report.";
    StoreDegraded = "store_degraded", "The shared store is gone, for a route if one is named, else for all; what `on_loss` says holds. `reason` says why.";
    StoreRecovered = "store_recovered", "The shared store is back, for a route if one is named, else for all.";
    PolicyRetuned = "policy_retuned", "A policy or a pool has other settings.";
    ForcedOpen = "forced_open", "An operator refuses all calls of a policy, or of one of its routes.";
    ForcedCleared = "forced_cleared", "An operator lets them through again.";
    Fallback = "fallback", "A host gave its caller something in the place of an error: `kind` says whether that worked.";
    CooldownChanged = "cooldown_changed", "A cooldown has closed a route, lets attempts back, or is over.";
    StreamDelivered = "stream_delivered", "The first piece that counts of a stream has come, `elapsed` after its attempt's start.";
    StreamStalled = "stream_stalled", "Nothing that counts came from a stream for too long; with `reason` after its delivery, which ends the call.";
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing that the engine did. The form is flat, and the same for all types; fields that a type does not use are
/// absent.
///
/// `Display` writes the record as one line of JSON. It leaves out absent fields and writes ids as numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Record {
    /// Type of the record.
    pub what: RecordType,
    /// Sequence number over all records of an engine, from 1 without gaps. A gap means that records were dropped.
    pub seq: u64,
    /// Time on the engine's clock, which is the host's clock made monotonic (R10).
    pub at: Time,
    /// The policy; absent where a pool was retuned.
    pub policy: Option<PolicyId>,
    /// The route; [`Engine::key_of`] returns its key. Absent in records about all routes of a policy.
    pub route: Option<RouteId>,
    /// The call; absent in records about no call.
    pub call: Option<CallId>,
    /// Number of the attempt, from 1; 0 means no attempt. In a `retry_scheduled`: the coming attempt. In records of a
    /// call's end: the number of attempts made.
    pub attempt: u8,
    /// Whether the attempt is a hedge.
    pub hedge: bool,
    /// In an `attempt_started` and an `attempt_done`: the target that the attempt goes to; [`Engine::key_of`] returns
    /// its group and name.
    pub target: Option<RouteId>,
    /// How the attempt ended: a class, or a kind that the policy declares. In records of a call's end: the kind that
    /// decided the result.
    pub kind: Option<Kind>,
    /// Why a call ended, or was refused.
    pub verdict: Option<Verdict>,
    /// What a call waits for, or waited for.
    pub why: Option<Wait>,
    /// The longest duration of the wait that begins (`queued`, `retry_scheduled`); the duration of the wait that
    /// ended (`granted` of a permit, `hedge_started`); the length of a break; in records of an end or a refusal: when
    /// another try would make sense.
    pub wait: Option<Duration>,
    /// Time since the call began; in an `attempt_done`, since the attempt started.
    pub elapsed: Option<Duration>,
    /// In a `rejected`: how many rejections of the same kind on the same route were left out since the previous
    /// record.
    pub suppressed: u32,
    /// In a `call_done`: the record of its rejection was left out, so a listener that logs skips this one too.
    pub quiet: bool,
    /// The change, as (from, to). Breaker: 0 closed, 1 open, 2 half-open. Limit: permits, 4,294,967,295 for no limit.
    /// Throttle: the probability. Holds: their number on the route. Cooldown: 0 open, 1 closed, 2 reopening.
    pub change: Option<(f64, f64)>,
    /// In a `store_degraded`: why the engine considers the store lost.
    pub loss: Option<Loss>,
}

impl Record {
    /// A record of this type with all other fields absent.
    pub(super) const fn blank(what: RecordType, at: Time) -> Self {
        Self {
            what,
            seq: 0,
            at,
            policy: None,
            route: None,
            call: None,
            attempt: 0,
            hedge: false,
            target: None,
            kind: None,
            verdict: None,
            why: None,
            wait: None,
            elapsed: None,
            suppressed: 0,
            quiet: false,
            change: None,
            loss: None,
        }
    }

    /// The reason in one word, the same in every language: the verdict of a call's end or refusal, the loss of a
    /// `store_degraded`.
    pub fn reason(&self) -> Option<&'static str> {
        self.verdict.map(Verdict::name).or(self.loss.map(Loss::name))
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{\"type\":\"{}\",\"seq\":{},\"at\":{}", self.what, self.seq, self.at.as_micros())?;
        let ids = [
            ("policy", self.policy.map(|policy| u64::from(policy.to_word()))),
            ("route", self.route.map(RouteId::to_word)),
            ("call", self.call.map(CallId::to_word)),
            ("attempt", (self.attempt > 0).then_some(u64::from(self.attempt))),
            ("target", self.target.map(RouteId::to_word)),
        ];
        for (name, word) in ids {
            if let Some(word) = word {
                write!(f, ",\"{name}\":{word}")?;
            }
        }
        if self.hedge {
            f.write_str(",\"hedge\":true")?;
        }
        if let Some(kind) = self.kind {
            match kind.class() {
                Some(class) => write!(f, ",\"kind\":\"{}\"", class.name())?,
                None => write!(f, ",\"kind\":{}", kind.number())?,
            }
        }
        if let Some(reason) = self.reason() {
            write!(f, ",\"reason\":\"{reason}\"")?;
        }
        if let Some(why) = self.why {
            write!(f, ",\"why\":\"{}\"", why.name())?;
        }
        for (name, span) in [("wait_us", self.wait), ("elapsed_us", self.elapsed)] {
            if let Some(span) = span {
                write!(f, ",\"{name}\":{}", span.as_micros())?;
            }
        }
        if self.suppressed > 0 {
            write!(f, ",\"suppressed\":{}", self.suppressed)?;
        }
        if self.quiet {
            f.write_str(",\"quiet\":true")?;
        }
        if let Some((from, to)) = self.change {
            if self.what == RecordType::BreakerChanged {
                let name = |state: f64| BreakerState::ALL[(state as usize).min(2)].name();
                write!(f, ",\"from\":\"{}\",\"to\":\"{}\"", name(from), name(to))?;
            } else {
                write!(f, ",\"from\":{from},\"to\":{to}")?;
            }
        }
        f.write_str("}")
    }
}

/// Time of the last record of a route's rejections of one kind, and how many rejections followed without a record.
#[derive(Debug)]
struct Sample {
    route: RouteId,
    last: Time,
    suppressed: u32,
}

/// Types of records that a call causes even if it merely succeeds or waits. Without a listener for any of them, such
/// a call makes no record.
const COURSE: u32 = bits(&[
    RecordType::CallDone,
    RecordType::AttemptStarted,
    RecordType::AttemptDone,
    RecordType::Queued,
    RecordType::Granted,
    RecordType::HedgeStarted,
    RecordType::HedgeWon,
    RecordType::StreamDelivered,
]);

/// These types, one bit each.
pub(crate) const fn bits(types: &[RecordType]) -> u32 {
    let (mut bits, mut at) = (0, 0);
    while at < types.len() {
        bits |= 1 << types[at] as u32;
        at += 1;
    }
    bits
}

/// Records that wait until the host takes them.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Whether there is a listener for any type, or a history.
    pub on: Switch,
    /// Whether there is a listener for any type of [`COURSE`].
    pub course: Switch,
    /// Whether there is a listener for the start of an attempt. Metrics count its end alone.
    pub starts: Switch,
    /// The types that have a listener, one bit each.
    wanted: u32,
    seq: u64,
    dropped: u64,
    waiting: Vec<Record>,
    /// Samples by the route's slot and the verdict's number.
    samples: Map<(RouteAt, u8), Sample>,
    /// The probability that the last record of a refusing throttle reported, by the route's slot.
    throttles: Map<RouteAt, (RouteId, f64)>,
    /// The call whose rejection was left out, until its end is recorded.
    quiet: Option<CallId>,
    /// The last records about calls with trouble, if the engine keeps a history.
    history: Option<Part<History>>,
}

/// The last records about calls with trouble.
#[derive(Debug)]
struct History {
    most: usize,
    kept: VecDeque<Record>,
}

/// Types that say why a call ended as it did. No call that merely succeeds reaches the code that makes them.
const KEPT: u32 = bits(&[
    RecordType::CallDone,
    RecordType::RetryScheduled,
    RecordType::RetrySuppressed,
    RecordType::GaveUp,
    RecordType::Shed,
    RecordType::HedgeStarted,
    RecordType::DeadlineExceeded,
    RecordType::LeaseReclaimed,
    RecordType::StreamStalled,
]);

impl Notes {
    /// No listeners yet; keeps up to `history` records about calls with trouble.
    pub fn new(history: u32) -> Self {
        let made = |full| Part::new(History { most: history as usize, kept: VecDeque::new() }, full);
        let history = Full::here().filter(|_| history > 0).map(made);
        Self { on: Switch::of(|| history.is_some()), history, ..Self::default() }
    }

    /// Whether there is a listener for any type.
    #[inline]
    pub const fn heard(&self) -> bool {
        self.wanted != 0
    }

    /// The kept records about a call, oldest first.
    pub fn of_call(&self, call: CallId) -> Vec<Record> {
        let kept = self.history.iter().flat_map(|history| &history.kept);
        kept.filter(|record| record.call == Some(call)).copied().collect()
    }

    fn keep(&mut self, record: &Record) {
        let Some(history) = &mut self.history else { return };
        let works = record.what == RecordType::CallDone && record.verdict == Some(Verdict::Ok);
        if KEPT & 1 << record.what as u32 == 0 || works {
            return;
        }
        if history.kept.len() >= history.most {
            history.kept.pop_front();
        }
        history.kept.push_back(*record);
    }

    /// Numbers a record and appends it to the buffer. A record without a listener gets no number.
    pub fn push(&mut self, record: Record) {
        self.keep(&record);
        if self.wanted & 1 << record.what as u32 == 0 {
            return;
        }
        self.seq += 1;
        if self.waiting.len() < MOST {
            self.waiting.push(Record { seq: self.seq, ..record });
        } else {
            self.dropped += 1;
        }
    }

    /// Number of like rejections left out since the last record; `None` if this one is left out too.
    pub fn sample(&mut self, slot: RouteAt, route: RouteId, verdict: Verdict, now: Time) -> Option<u32> {
        let fresh = Sample { route, last: now, suppressed: 0 };
        match self.samples.get_mut(&(slot, verdict as u8)) {
            Some(sample) if sample.route == route => {
                if now.since(sample.last) < SAMPLED {
                    sample.suppressed = sample.suppressed.saturating_add(1);
                    return None;
                }
                let suppressed = sample.suppressed;
                *sample = fresh;
                Some(suppressed)
            }
            _ => {
                self.samples.insert((slot, verdict as u8), fresh);
                Some(0)
            }
        }
    }

    /// Marks the end of this call as one that listeners that log skip.
    pub fn hush(&mut self, call: CallId) {
        self.quiet = Some(call);
    }

    pub fn hushed(&mut self, call: CallId) -> bool {
        self.quiet.take() == Some(call)
    }

    /// Notes a throttle's probability. Returns the last reported one if the probability became zero or ceased to be
    /// zero.
    pub fn throttled(&mut self, slot: RouteAt, route: RouteId, to: f64) -> Option<f64> {
        let known = self.throttles.get(&slot).filter(|(of, _)| *of == route);
        let from = known.map_or(0.0, |(_, reported)| *reported);
        if to > 0.0 {
            self.throttles.insert(slot, (route, to));
        } else {
            self.throttles.remove(&slot);
        }
        ((from > 0.0) != (to > 0.0)).then_some(from)
    }

    /// After a fork: the buffered records belong to the parent, which reports them.
    pub fn forget_calls(&mut self) {
        self.waiting.clear();
        self.quiet = None;
        if let Some(history) = &mut self.history {
            history.kept.clear();
        }
    }
}

impl Engine {
    /// Starts or stops keeping records for [`Engine::take_records`]. While nobody is subscribed the engine makes no
    /// records. No decision of the engine depends on it. Records that were not taken before the stop can still be
    /// taken.
    pub fn subscribe(&mut self, on: bool) {
        self.subscribe_to(if on { RecordType::ALL } else { &[] });
    }

    /// Keeps records of these types only; an empty list stops it. Records of other types are not made and have no
    /// `seq`.
    ///
    /// Without the types that every call causes (`call_done`, `attempt_started`, `attempt_done`, `queued`, `granted`,
    /// `hedge_started`, `hedge_won`, `stream_delivered`), a call that succeeds costs nothing extra. A listener that logs
    /// trouble subscribes like this.
    ///
    /// ```
    /// use tidegate::{Class, Engine, Event, Options, Outcome, Policy, RecordType, Request, Time, Value};
    /// let mut engine = Engine::new(7, Options::default());
    /// let policy = engine.policy(Policy::from_pairs("p", &[("deadline", Value::Number(1e6))]).unwrap()).unwrap();
    /// let now = Time::from_micros(0);
    /// let route = engine.route(policy, "eu", now);
    /// engine.subscribe_to(&[RecordType::GaveUp]);
    /// for class in [Class::Ok, Class::Transient] {
    ///     let (call, _) = engine.begin(route, &Request::default(), now);
    ///     let _ = engine.on(call, Event::Finished { attempt: 1, outcome: Outcome::of(class) }, now);
    /// }
    /// let mut records = Vec::new();
    /// engine.take_records(&mut records);
    /// assert_eq!(records.iter().map(|record| record.what).collect::<Vec<_>>(), [RecordType::GaveUp]);
    /// ```
    pub fn subscribe_to(&mut self, types: &[RecordType]) {
        let wanted = bits(types);
        if wanted != 0 && self.desk.notes.wanted == 0 {
            self.desk.notes.samples.clear();
            self.desk.notes.throttles.clear();
        }
        let notes = &mut self.desk.notes;
        notes.wanted = wanted;
        notes.on = Switch::of(|| wanted != 0 || notes.history.is_some());
        notes.course = Switch::of(|| wanted & COURSE != 0);
        notes.starts = Switch::of(|| wanted & bits(&[RecordType::AttemptStarted]) != 0);
    }

    /// Whether there are records that the host has not taken.
    #[inline]
    pub fn has_records(&self) -> bool {
        !self.desk.notes.waiting.is_empty()
    }

    /// Moves the records made since the last time into `out`, in the order of their `seq`. Take them after the step,
    /// under the same lock. Notify listeners after releasing the lock, before the wait that the step asks for begins.
    /// Once 65,536 records are waiting to be taken, the engine drops new ones and counts them.
    ///
    /// ```
    /// use tidegate::{Engine, Options, Policy, RecordType, Request, Time, Value};
    /// let mut engine = Engine::new(7, Options::default());
    /// let policy = engine.policy(Policy::from_pairs("p", &[("preset", Value::Text("http"))]).unwrap()).unwrap();
    /// let now = Time::from_micros(0);
    /// let route = engine.route(policy, "eu", now);
    /// engine.subscribe(true);
    /// let _ = engine.begin(route, &Request::default(), now);
    /// let mut records = Vec::new();
    /// engine.take_records(&mut records);
    /// assert_eq!(records[0].what, RecordType::AttemptStarted);
    /// assert_eq!(engine.key_of(records[0].route.unwrap()), Some("eu"));
    /// ```
    pub fn take_records(&mut self, out: &mut Vec<Record>) {
        if out.is_empty() {
            std::mem::swap(out, &mut self.desk.notes.waiting); // nothing is copied
        } else {
            out.append(&mut self.desk.notes.waiting);
        }
    }

    /// Number of records dropped so far because the buffer was full.
    pub fn records_dropped(&self) -> u64 {
        self.desk.notes.dropped
    }

    /// Key of a record's route, or name of its pool; `None` if it has been evicted.
    pub fn key_of(&self, route: RouteId) -> Option<&str> {
        self.desk.routes.find(route).map(|slot| self.desk.routes[slot].key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record::blank(RecordType::CallDone, Time::from_micros(5))
    }

    #[test]
    fn what_nobody_takes_is_bounded_and_counted() {
        let mut notes = Notes { wanted: u32::MAX, ..Notes::default() };
        for _ in 0..MOST + 10 {
            notes.push(record());
        }
        assert_eq!((notes.waiting.len(), notes.dropped), (MOST, 10));
        notes.waiting.clear();
        notes.push(record());
        assert_eq!(notes.waiting[0].seq, MOST as u64 + 11, "the gap shows how many are missing");
        assert!(size_of::<Record>() <= 144, "{}", size_of::<Record>());
    }

    #[test]
    fn a_route_whose_slot_is_another_route_now_is_sampled_anew() {
        let mut notes = Notes::default();
        let (at, old, new) = (RouteAt::new(3), RouteId::new(3, 1), RouteId::new(3, 2));
        let now = Time::from_micros(0);
        assert_eq!(notes.sample(at, old, Verdict::QueueFull, now), Some(0));
        assert_eq!(notes.sample(at, old, Verdict::QueueFull, now), None);
        assert_eq!(notes.sample(at, old, Verdict::Throttled, now), Some(0), "another kind");
        assert_eq!(notes.sample(at, new, Verdict::QueueFull, now), Some(0));
        assert_eq!(notes.throttled(at, old, 0.5), Some(0.0));
        assert_eq!(notes.throttled(at, old, 0.25), None);
        assert_eq!(notes.throttled(at, new, 0.25), Some(0.0));
        assert_eq!(notes.throttled(at, new, 0.0), Some(0.25));
    }

    #[test]
    fn the_list_is_the_one_of_the_specification() {
        let names: Vec<_> = RecordType::ALL.iter().map(|what| what.name()).collect();
        let text = "call_done · attempt_started · attempt_done · retry_scheduled · retry_suppressed · gave_up · rejected · \
                    queued · granted · shed · hedge_started · hedge_won · breaker_changed · limit_changed · \
                    throttle_changed · hold_changed · deadline_exceeded · lease_reclaimed · store_degraded · \
                    store_recovered · policy_retuned · forced_open · forced_cleared · fallback · cooldown_changed · \
                    stream_delivered · stream_stalled";
        assert_eq!(names.join(" · "), text);
        assert!(RecordType::ALL.iter().enumerate().all(|(n, what)| *what as usize == n));
    }
}
