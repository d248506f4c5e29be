//! The engine for Kotlin, Java and Swift: conversions and nothing else. No logic here.
//!
//! What happens to every call crosses as numbers, those of `core/src/wire.rs` (`numeric.rs`, and `jni.rs` for the JVM);
//! everything else crosses through uniffi. The lock is never held while code of the host can run. The host reads the
//! clock: `now` is microseconds of a monotonic clock of its own, one for each engine.

#![deny(unsafe_code)]
#![allow(clippy::needless_pass_by_value)] // what uniffi has lifted is ours

mod border;
mod document;
mod fleet;
mod inspect;
#[allow(unsafe_code)] // each use says why it is sound, here and below
mod jni;
mod metrics;
#[allow(unsafe_code)]
mod numeric;
pub mod parts;
mod settings;
mod streams;
mod usage;
mod view;
mod weights;

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate::{
    CallId, Domain, Engine as Core, Flags, HttpFailure, Kind, Link, Options, Policy, PolicyId, RecordType,
    RouteId, TABLE, Time, Verdict, WallTime, answer, wire,
};

use settings::{checked, checked_pool};
use tidegate_ticks::Ticks;

pub use document::{Document, DocumentChanges, Loaded, NamedPolicy, NamedPool};
pub use fleet::{StoreCommand, StoreReply};
pub use inspect::{CallExplanation, Replayed};
pub use metrics::{MetricFamily, MetricSeries, Reading, metric_bounds, metric_families};
pub use settings::{Invalid, Mistake, Pair, Value};
pub use streams::EventReader;
pub use usage::{AnswerUsage, RequestEstimate, TokenFactors, UsageReader};
pub use view::{Event, Restored, Snapshot};
pub use weights::Weight;

uniffi::setup_scaffolding!();

fn time(us: u64) -> Time {
    Time::from_micros(us)
}

/// A key of the one table.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Key {
    /// Its path, dotted.
    pub path: String,
    /// What it takes: `span`, `count`, `real`, `flag`, `choice`, `list`, `kinds` or `name`.
    pub domain: String,
    /// Its default as a document would write it; empty where there is none.
    pub default: String,
}

/// Core's table of keys.
#[uniffi::export]
pub fn keys() -> Vec<Key> {
    let domain = |domain| match domain {
        Domain::Span { .. } => "span",
        Domain::Count { .. } => "count",
        Domain::Real { .. } => "real",
        Domain::Flag => "flag",
        Domain::Choice(_) => "choice",
        Domain::Statuses | Domain::Words(_) | Domain::KindWords(_) | Domain::Limits | Domain::Shares => {
            "list"
        }
        Domain::Kinds => "kinds",
        Domain::Name => "name",
    };
    let keys = TABLE.iter().map(|key| Key {
        path: key.path.to_owned(),
        domain: domain(key.domain).to_owned(),
        default: key.default.to_owned(),
    });
    keys.collect()
}

/// The types of records, for `subscribe`: a closed list.
#[uniffi::export]
pub fn event_types() -> Vec<String> {
    RecordType::ALL.iter().map(|it| it.name().to_owned()).collect()
}

/// The version of the core.
#[uniffi::export]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// How much of a body a host reads before it judges or delivers the answer (semantics 15.8.1 and 15.8.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, uniffi::Record)]
pub struct ReadLimits {
    /// The largest number of bytes.
    pub bytes: u32,
    /// The longest time, in microseconds.
    pub time_us: u64,
    /// The largest number of bytes of a stream that is read before its delivery (semantics 7.7.8).
    pub held: u32,
}

/// Core's limits for reading bodies.
#[uniffi::export]
pub fn read_limits() -> ReadLimits {
    let bytes = answer::READ_AT_MOST as u32;
    ReadLimits { bytes, time_us: answer::READ_FOR.as_micros(), held: answer::HELD_AT_MOST as u32 }
}

/// A kind of failure that a policy declares.
#[derive(Clone, PartialEq, Eq, Debug, uniffi::Record)]
pub struct DeclaredKind {
    /// Its name.
    pub name: String,
    /// The class that it is based on.
    pub base: String,
}

/// A field of an HTTP answer.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// What beginning a call has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, uniffi::Record)]
pub struct Begun {
    /// The call's id.
    pub call: u64,
    /// The word of its first step.
    pub step: u64,
}

struct State {
    core: Core,
    woken: Vec<CallId>,
    /// What those who listen want to hear.
    heard: Vec<RecordType>,
    measured: Option<metrics::Measured>,
    /// The host's clock, where we read it for the host.
    ticks: Option<Ticks>,
}

/// In the place of the time: read the clock.
const NOW: u64 = u64::MAX;

/// The wall clock.
#[expect(clippy::disallowed_methods, reason = "the wall clock of limits with windows")]
fn wall() -> WallTime {
    use std::time::{SystemTime, UNIX_EPOCH};
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime::from_unix_micros(since.as_secs() * 1_000_000 + u64::from(since.subsec_micros()))
}

impl State {
    /// Reports the wall clock, where limits refill by its windows.
    #[inline]
    fn note_wall(&mut self, now: Time) {
        if self.core.needs_wall() {
            self.core.note_wall(wall(), now);
        }
    }

    /// The time that the host gives, or our own reading if it gives none.
    #[inline]
    fn time(&mut self, now: u64) -> Time {
        match &mut self.ticks {
            Some(ticks) if now == NOW => time(ticks.now()),
            _ => time(now),
        }
    }

    /// Calls that a step woke are drained under the lock that set the flag, and what it tells is counted.
    #[inline]
    fn drain(&mut self, flags: Flags) {
        if flags.wakes {
            self.core.take_wakes(&mut self.woken);
        }
        if self.measured.is_some() {
            self.count();
        }
    }
}

/// The engine of the core behind one short lock.
#[derive(uniffi::Object)]
pub struct Engine {
    state: Mutex<State>,
}

#[uniffi::export]
impl Engine {
    /// A new engine. The seed is all the randomness there is; `max_routes` is cut to 1 to 524,288. `history` is the number
    /// of records to keep about calls with trouble, for `explain_call`; 0 keeps none.
    #[uniffi::constructor]
    pub fn new(seed: u64, max_routes: u32, journal: bool, history: u32) -> Arc<Self> {
        let routes = max_routes.clamp(1, 1 << 19);
        let options = Options::default().max_routes(routes).journal(journal).history(history);
        let options = options.weights(true).quotas(true).wall_clock(true);
        let core = Core::new(seed, options);
        Arc::new(Self {
            state: Mutex::new(State {
                core,
                woken: Vec::new(),
                heard: Vec::new(),
                measured: None,
                ticks: None,
            }),
        })
    }

    /// What `numeric.rs` and `jni.rs` know it by. It is good while this object is kept.
    pub fn handle(self: Arc<Self>) -> u64 {
        Arc::as_ptr(&self) as u64
    }

    /// Takes a policy in: its number.
    pub fn policy(&self, name: &str, pairs: Vec<Pair>) -> Result<u32, Invalid> {
        let policy = checked(name, &pairs)?;
        let taken = self.state.lock().core.policy(policy);
        taken.map(PolicyId::to_word).map_err(|clash| Invalid::clash("policy", &clash))
    }

    /// Removes one owner of a policy; each `policy`, and each policy that a document has loaded, is one. Without owners the
    /// policy is removed, or with `keep` stays available under its name until 1,024 others have been kept after it.
    pub fn release(&self, policy: u32, keep: bool, now: u64) {
        self.state.lock().core.release_policy(PolicyId::from_word(policy), keep, time(now));
    }

    /// Gives a policy other settings, which say all of it. Ask `take_woken` then.
    pub fn retune(&self, policy: u32, name: &str, pairs: Vec<Pair>, now: u64) -> Result<(), Invalid> {
        let to = checked(name, &pairs)?;
        let mut state = self.state.lock();
        let flags = state.core.retune(PolicyId::from_word(policy), to, time(now));
        state.drain(flags.map_err(|clash| Invalid::clash("policy", &clash))?);
        Ok(())
    }

    /// Takes a pool in: a `bulkhead`, a `rate_limit` or a `budget`, its pairs without the name of their table.
    pub fn pool(&self, name: &str, kind: &str, pairs: Vec<Pair>, now: u64) -> Result<(), Invalid> {
        let pool = checked_pool(name, kind, &pairs)?;
        let taken = self.state.lock().core.pool(pool, time(now));
        taken.map_err(|clash| Invalid::clash("pool", &clash))
    }

    /// Gives a pool other settings, which say all of it. Ask `take_woken` then.
    pub fn retune_pool(&self, name: &str, kind: &str, pairs: Vec<Pair>, now: u64) -> Result<(), Invalid> {
        let pool = checked_pool(name, kind, &pairs)?;
        let mut state = self.state.lock();
        let flags = state.core.retune_pool(pool, time(now));
        state.drain(flags.map_err(|clash| Invalid::clash("pool", &clash))?);
        Ok(())
    }

    /// The route of a key, under a policy.
    pub fn route(&self, policy: u32, key: &str, now: u64) -> u64 {
        self.state.lock().core.route(PolicyId::from_word(policy), key, time(now)).to_word()
    }

    /// The name of a path, for `begin`; 0 where its policy holds nothing.
    pub fn target(&self, route: u64, path: &str, now: u64) -> u64 {
        self.state.lock().core.path_id(RouteId::from_word(route), path, time(now)).to_word()
    }

    /// Begins a call; nothing for a request that there is none of.
    pub fn begin(
        &self,
        route: u64,
        flags: u32,
        remaining: u64,
        parent: u64,
        target: u64,
        now: u64,
    ) -> Option<Begun> {
        let (call, step) = self.begin_word(route, flags.into(), remaining, parent, target, now)?;
        Some(Begun { call, step })
    }

    /// Tells a call what happened: the word of its next step; nothing for an event that there is none of.
    pub fn on(&self, call: u64, event: u64, now: u64) -> Option<u64> {
        self.on_word(call, event, now)
    }

    /// The name of the target that the newest attempt of a call goes to. Read it where a step has the flag for it.
    pub fn target_of(&self, call: u64) -> Option<String> {
        self.state.lock().core.target_of(CallId::from_word(call), None).map(str::to_owned)
    }

    /// The calls that can go on now because of what happened since the last time.
    pub fn take_woken(&self) -> Vec<u64> {
        self.state.lock().woken.drain(..).map(CallId::to_word).collect()
    }

    /// Refuses all calls of a policy, or of one of its routes, until another call changes that. Ask `take_woken` then.
    pub fn force_open(&self, policy: u32, route: Option<u64>, on: bool, now: u64) {
        let mut state = self.state.lock();
        let route = route.map(RouteId::from_word);
        let flags = state.core.force_open(PolicyId::from_word(policy), route, on, time(now));
        state.drain(flags);
    }

    /// Refuses all attempts at a target of a policy's group, until another call changes that; that resets the target's breaker, too. Ask
    /// `take_woken` then.
    ///
    /// # Errors
    /// The policy has no such target.
    pub fn force_target(&self, policy: u32, target: &str, on: bool, now: u64) -> Result<(), Invalid> {
        let mut state = self.state.lock();
        let group = match state.core.setting(PolicyId::from_word(policy), "targets") {
            Some(tidegate::Value::Text(name)) => name.to_owned(),
            _ => String::new(),
        };
        let forced = state.core.force_target(&group, target, on, time(now));
        state.drain(forced.map_err(|clash| Invalid::clash("target", &clash))?);
        Ok(())
    }

    /// The outcome of an HTTP answer, at its place in the word of a Finished event.
    pub fn classify(&self, policy: u32, status: u16, headers: Vec<Header>, wall_us: u64) -> u64 {
        let headers: Vec<_> = headers.iter().map(|it| (it.name.as_bytes(), it.value.as_bytes())).collect();
        let failure = HttpFailure { status, headers: &headers };
        let wall = WallTime::from_unix_micros(wall_us);
        let policy = PolicyId::from_word(policy);
        wire::pack_outcome(self.state.lock().core.classify_read(policy, &failure, b"", wall))
    }

    /// The outcome of an HTTP answer of whose body the beginning was read, at its place in the word of a Finished event.
    pub fn classify_read(
        &self,
        policy: u32,
        status: u16,
        headers: Vec<Header>,
        body: Vec<u8>,
        wall_us: u64,
    ) -> u64 {
        let headers: Vec<_> = headers.iter().map(|it| (it.name.as_bytes(), it.value.as_bytes())).collect();
        let failure = HttpFailure { status, headers: &headers };
        let wall = WallTime::from_unix_micros(wall_us);
        let policy = PolicyId::from_word(policy);
        wire::pack_outcome(self.state.lock().core.classify_read(policy, &failure, &body, wall))
    }

    /// Does a host read the beginning of a failed answer's body under a policy?
    pub fn reads_errors(&self, policy: u32) -> bool {
        self.state.lock().core.policy_of(PolicyId::from_word(policy)).is_some_and(Policy::reads_errors)
    }

    /// May a request of this method be repeated without an idempotency key?
    pub fn retries_method(&self, policy: u32, method: &str) -> bool {
        self.state.lock().core.retries_method(PolicyId::from_word(policy), method)
    }

    /// Does a fallback stand in for this end: a verdict's number, and a failure's kind where there is one, judged by the
    /// policy's classifier or not?
    pub fn falls_back(&self, policy: u32, verdict: u8, failure: Option<u8>, judged: bool) -> bool {
        let Some(verdict) = Verdict::ALL.get(usize::from(verdict)) else { return false };
        let policy = PolicyId::from_word(policy);
        self.state.lock().core.falls_back(policy, *verdict, failure.and_then(Kind::new), judged)
    }

    /// May what a call does be done twice under a policy?
    pub fn may_do_twice(&self, policy: u32) -> bool {
        self.state.lock().core.policy_of(PolicyId::from_word(policy)).is_some_and(Policy::may_do_twice)
    }

    /// The value of a policy's key that is in force, in its pool where it stands there.
    pub fn setting(&self, policy: u32, key: &str) -> Option<Value> {
        self.state.lock().core.setting(PolicyId::from_word(policy), key).map(Value::of)
    }

    /// The kinds of failure that a policy declares, in the order of their numbers, from 9 on.
    pub fn kinds(&self, policy: u32) -> Vec<DeclaredKind> {
        let state = self.state.lock();
        let Some(policy) = state.core.policy_of(PolicyId::from_word(policy)) else { return Vec::new() };
        let base = |name| policy.kind_of(name).map_or("", |kind| policy.class_of(kind).name()).to_owned();
        policy.kinds().map(|name| DeclaredKind { name: name.to_owned(), base: base(name) }).collect()
    }

    /// The state of everything.
    pub fn snapshot(&self, now: u64) -> Snapshot {
        let mut pages = tidegate::SnapshotPages::default();
        while self.state.lock().core.snapshot_page(&mut pages, time(now)) {} // the lock is free between two pages
        Snapshot::of(pages.finish())
    }

    /// What a policy does, in words; empty for one that there is none of.
    pub fn explain(&self, policy: u32) -> String {
        let explanation = self.state.lock().core.explain_policy(PolicyId::from_word(policy));
        explanation.map_or_else(String::new, |it| it.to_string())
    }

    /// What the engine has learned, as JSON for `restore`.
    pub fn save(&self, now: u64) -> String {
        let mut pages = tidegate::SavePages::default();
        while self.state.lock().core.save_page(&mut pages, time(now)) {} // the lock is free between two pages
        pages.finish()
    }

    /// Goes on from what `save` gave, which is this old.
    pub fn restore(&self, saved: &str, elapsed_us: u64, now: u64) -> Result<Restored, Invalid> {
        let elapsed = tidegate::Duration::from_micros(elapsed_us);
        let mut state = self.state.lock();
        state.note_wall(time(now));
        let restored = state.core.restore(saved, elapsed, time(now));
        restored.map(Restored::of).map_err(|error| Invalid::State { reason: error.to_string() })
    }

    /// Keeps records of these types from now on; of none, none. Names that no type has are left out.
    pub fn subscribe(&self, types: Vec<String>) {
        let mut state = self.state.lock();
        state.count();
        state.heard =
            RecordType::ALL.iter().copied().filter(|it| types.iter().any(|name| name == it.name())).collect();
        state.subscribe();
    }

    /// The records since the last time.
    pub fn take_events(&self) -> Vec<Event> {
        let mut state = self.state.lock();
        if !state.core.has_records() {
            return Vec::new();
        }
        let records = state.records();
        records.iter().map(|record| Event::of(record, &state.core)).collect()
    }

    /// How many records have been dropped because nobody took them.
    pub fn events_dropped(&self) -> u64 {
        self.state.lock().core.records_dropped()
    }

    /// Says the state of the device's link: 0 ok, 1 metered, 2 offline.
    pub fn set_link(&self, link: u8, now: u64) {
        if let Some(link) = Link::ALL.get(usize::from(link)) {
            self.state.lock().core.set_link(*link, time(now));
        }
    }

    /// Grants every retry without asking its budget while `on`, for tests.
    pub fn lift_budgets(&self, on: bool) {
        self.state.lock().core.lift_budgets(on);
    }

    /// The journal so far, a line each: inputs that give an engine of the same seed the same state. Empty without one.
    pub fn take_journal(&self) -> Vec<String> {
        let mut inputs = Vec::new();
        self.state.lock().core.take_journal(&mut inputs);
        inputs.iter().map(ToString::to_string).collect()
    }
}

impl Engine {
    #[inline]
    fn begin_word(
        &self,
        route: u64,
        flags: u64,
        remaining: u64,
        parent: u64,
        target: u64,
        now: u64,
    ) -> Option<(u64, u64)> {
        let request = wire::unpack_request(flags, remaining, parent, target)?;
        let mut state = self.state.lock();
        let now = state.time(now);
        state.note_wall(now);
        let (call, step) = state.core.begin(RouteId::from_word(route), &request, now);
        state.drain(step.flags());
        Some((call.to_word(), wire::pack_step(step)))
    }

    #[inline]
    fn on_word(&self, call: u64, event: u64, now: u64) -> Option<u64> {
        let event = wire::unpack_event(event)?;
        let mut state = self.state.lock();
        let now = state.time(now);
        let step = state.core.on(CallId::from_word(call), event, now);
        state.drain(step.flags());
        Some(wire::pack_step(step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: u32 = 2 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7;

    fn word(key: &str, value: &str) -> Pair {
        Pair { key: key.into(), value: Value::Word { value: value.into() } }
    }

    #[test]
    fn a_call_through_the_numbers_is_the_call_through_uniffi() {
        let engine = Engine::new(7, 10, false, 0);
        let policy = engine.policy("p", vec![word("preset", "http")]).unwrap();
        let route = engine.route(policy, "eu", 0);
        let handle = Arc::clone(&engine).handle();
        let mut call = 0;
        // SAFETY: the engine is kept by this test, and `call` is a place for a number.
        #[allow(unsafe_code)]
        let (step, end) = unsafe {
            let step = numeric::tidegate_begin(handle, route, FLAGS.into(), 0, 0, 0, 0, &raw mut call);
            (step, numeric::tidegate_on(handle, call, 4 | 1 << 3, 5))
        };
        let other = engine.begin(route, FLAGS, 0, 0, 0, 10).unwrap();
        assert_eq!((step, other.step & 0xfff), (other.step, 1));
        assert_eq!(engine.on(other.call, 4 | 1 << 3, 15), Some(end));
        assert_eq!(engine.snapshot(20).policies["p"].ends["ok"], 2);
        assert_eq!(engine.begin(route, 1 << 31, 0, 0, 0, 20), None, "no request has these flags");
        assert_eq!(engine.on(call, 7, 20), None, "no event has this word");
    }

    #[test]
    fn mistakes_name_the_key_the_value_and_the_rule() {
        let engine = Engine::new(7, 10, false, 0);
        let pairs = vec![Pair { key: "retry.max_attempts".into(), value: Value::Number { value: 0.0 } }];
        let error = engine.policy("p", pairs).unwrap_err().to_string();
        assert_eq!(error, "retry.max_attempts = 0: must be a whole number from 1 to 255");
        let error = document::Document::new("policy.p.deadline = 1", false).unwrap_err().to_string();
        assert!(error.starts_with("policy.p.deadline = 1: ") && error.ends_with("(line 1)"), "{error}");
    }

    /// Semantics 15.5.1 to 15.5.3.
    #[test]
    fn a_body_decides_where_the_policy_reads_errors() {
        let engine = Engine::new(7, 10, false, 0);
        let spent = br#"{"error": {"code": "insufficient_quota"}}"#.to_vec();
        let class_of = |name: &str, reads: f64| {
            let reads = Pair { key: "retry.read_errors".into(), value: Value::Number { value: reads } };
            let policy = engine.policy(name, vec![reads]).unwrap();
            let kind = engine.classify_read(policy, 429, Vec::new(), spent.clone(), 0) >> 11 & 31;
            (engine.reads_errors(policy), engine.kinds(policy).len(), kind)
        };
        assert_eq!(class_of("reads", 1.0), (true, 4, 9));
        assert_eq!(class_of("does not", 0.0), (false, 0, 2));
        assert_eq!((read_limits().bytes, read_limits().time_us), (65_536, 1_000_000));
    }

    #[test]
    fn a_policy_that_its_last_owner_releases_is_kept_or_removed() {
        let engine = Engine::new(7, 10, false, 0);
        let known = |name: &str| engine.snapshot(0).policies.contains_key(name);
        let make = |value| engine.policy("p", vec![word("preset", value)]);
        let policy = make("http").unwrap();
        assert_eq!(make("http"), Ok(policy), "it has two owners");
        engine.release(policy, true, 0);
        assert!(make("graph").unwrap_err().to_string().contains("retune"), "one of them is left");
        engine.release(policy, true, 0);
        assert_eq!(make("graph"), Ok(policy), "nobody held it, so it is retuned");
        engine.release(policy, false, 0);
        assert!(!known("p"));
    }

    #[test]
    fn a_history_explains_a_call_that_has_ended() {
        let explained = |history| {
            let engine = Engine::new(7, 10, false, history);
            let policy = engine.policy("p", vec![word("preset", "http")]).unwrap();
            let route = engine.route(policy, "eu", 0);
            let call = engine.begin(route, FLAGS, 0, 0, 0, 0).unwrap().call;
            engine.on(call, 4 | 1 << 3 | 6 << 11, 1_000).unwrap();
            engine.explain_call(call).map(|it| (it.reason, it.attempts))
        };
        assert_eq!(explained(8), Some((Some("not_retryable".into()), 1)));
        assert_eq!(explained(0), None);
    }

    #[test]
    fn events_have_names_where_the_engine_has_numbers() {
        let engine = Engine::new(7, 10, false, 0);
        let policy = engine.policy("p", vec![word("retry.budget.kind", "none")]).unwrap();
        let route = engine.route(policy, "eu", 0);
        engine.subscribe(vec!["attempt_done".into(), "no_such_type".into()]);
        let begun = engine.begin(route, FLAGS, 0, 0, 0, 0).unwrap();
        engine.on(begun.call, 4 | 1 << 3 | 6 << 11, 1_000).unwrap();
        let [event] = &engine.take_events()[..] else { panic!("one event") };
        assert_eq!((event.kind.as_str(), event.policy.as_deref()), ("attempt_done", Some("p")));
        assert_eq!((event.route.as_deref(), event.outcome.as_deref()), (Some("eu"), Some("permanent")));
    }
}
