//! What the callers of a policy share, and the facts about calls that are made at one place.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate::{CallId, Class, HttpFailure, Kind, Outcome, PolicyId, Request, Value, Verdict};

use super::is_fresh_name;
use crate::classify::Finding;
use crate::clock;
use crate::engine::{Core, Engine, Shared};
#[cfg(feature = "reqwest")]
use crate::error::Error;
use crate::error::{Report, Stopped};
use crate::weights::Weights;

/// State that all callers of one policy share.
pub(crate) struct Inner {
    pub engine: Engine,
    pub id: PolicyId,
    pub name: Arc<str>,
    /// Whether the user has named the policy, so that it can be made again.
    pub(super) named: bool,
    /// The facts about settings that the shell uses: bits of [`Known`].
    known: AtomicU16,
    /// `idle_timeout` in microseconds; 0 without one.
    idle: AtomicU64,
    /// Counts the times at which settings were applied.
    settings: AtomicU32,
}

/// What is made of each policy: every one of them has an owner of its own in the engine, and all have the same settings.
#[derive(Default)]
pub(crate) struct Handles(Mutex<BTreeMap<PolicyId, Vec<Weak<Inner>>>>);

impl Handles {
    /// Stores the facts about new settings of a policy wherever it is used. Call it under the engine's lock, so that of two changes
    /// at once the same one is the last here and there. The caller drops `used` without the lock.
    pub(super) fn note(&self, policy: PolicyId, known: Known, used: &mut Vec<Arc<Inner>>) {
        let all = self.0.lock();
        let those = all.get(&policy).into_iter().flatten().filter_map(Weak::upgrade);
        used.extend(those.inspect(|it| it.note(known)));
    }

    /// Does the same for settings of a document.
    #[cfg(feature = "documents")]
    pub fn renew(&self, policy: PolicyId, settings: &tidegate::Policy, used: &mut Vec<Arc<Inner>>) {
        self.note(policy, Known::of(settings), used);
    }
}

impl Inner {
    /// The state of a policy that the engine has under this id.
    pub(super) fn new(engine: &Engine, id: PolicyId, name: Arc<str>, known: Known) -> Arc<Self> {
        let inner = Arc::new(Self {
            engine: engine.clone(),
            id,
            named: !is_fresh_name(&name),
            name,
            known: known.bits.into(),
            idle: known.idle.into(),
            settings: AtomicU32::new(0),
        });
        engine.shared.handles.0.lock().entry(id).or_default().push(Arc::downgrade(&inner));
        inner
    }

    #[inline]
    fn has(&self, bits: u16) -> bool {
        // Relaxed: a call in flight may see the value of the settings before.
        self.known.load(Ordering::Relaxed) & bits != 0
    }

    /// Whether the timer of a running attempt may be due before the attempt's own end: for a hedge, or to look for
    /// silence.
    #[inline]
    pub fn looks_early(&self) -> bool {
        self.has(HEDGES | IDLE)
    }

    /// Whether a call may make more than one attempt.
    #[inline]
    pub fn repeats(&self) -> bool {
        self.has(REPEATS)
    }

    /// Whether its attempts go to targets.
    #[inline]
    pub fn has_targets(&self) -> bool {
        self.has(TARGETS)
    }

    /// Whether the policy reads why an answer failed.
    #[cfg(feature = "_bodies")]
    pub fn reads_errors(&self) -> bool {
        self.has(READS_ERRORS)
    }

    /// Whether its limits learn from what answers say is left of quotas.
    #[cfg(feature = "_bodies")]
    pub fn learns(&self) -> bool {
        self.has(LEARNS)
    }

    /// Whether permit and deadline last until the body has been read.
    #[cfg(feature = "_bodies")]
    pub fn slot_until_body(&self) -> bool {
        self.has(UNTIL_BODY)
    }

    /// Whether calls have no deadline from the delivery of their answers on.
    #[cfg(feature = "_bodies")]
    pub fn unbound_once_delivered(&self) -> bool {
        self.has(DELIVERY)
    }

    /// Whether a stream has a timeout of its own for its first piece.
    #[cfg(feature = "_bodies")]
    #[inline]
    pub fn bounds_first_byte(&self) -> bool {
        self.has(FIRST_BYTE)
    }

    /// Whether only data of server-sent events count.
    #[cfg(feature = "_bodies")]
    pub fn counts_events(&self) -> bool {
        self.has(EVENTS)
    }

    /// The longest silence of a body, if it is bounded.
    #[cfg(feature = "_bodies")]
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.has(IDLE).then(|| Duration::from_micros(self.idle.load(Ordering::Relaxed)))
    }

    /// Whether bodies of this policy are watched while they are read.
    #[cfg(feature = "_bodies")]
    #[inline]
    pub fn watches_bodies(&self) -> bool {
        self.has(IDLE | EVENTS)
    }

    /// A version number of the settings: it changes with each retune.
    #[cfg(feature = "http")]
    pub fn settings(&self) -> u32 {
        self.settings.load(Ordering::Acquire)
    }

    /// Stores the facts about settings that the shell uses.
    fn note(&self, known: Known) {
        self.idle.store(known.idle, Ordering::Relaxed);
        self.known.store(known.bits, Ordering::Relaxed);
        self.settings.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Inner {
    /// Ends this owner of the policy (semantics 0.9). A policy with a name keeps what it owes, in case it is made again.
    fn drop(&mut self) {
        if let Entry::Occupied(mut those) = self.engine.shared.handles.0.lock().entry(self.id) {
            those.get_mut().retain(|it| it.strong_count() > 0);
            if those.get().is_empty() {
                those.remove();
            }
        }
        self.engine.shared.look(|core, now| core.engine.release_policy(self.id, self.named, now));
    }
}

/// Attempts may be hedged.
const HEDGES: u16 = 1;
/// A call may make more than one attempt.
const REPEATS: u16 = 1 << 1;
/// Permit and deadline last until the body has been read.
const UNTIL_BODY: u16 = 1 << 2;
/// The policy reads why an answer failed.
const READS_ERRORS: u16 = 1 << 3;
/// The policy has a `first_byte_timeout`.
const FIRST_BYTE: u16 = 1 << 4;
/// The policy has an `idle_timeout`.
const IDLE: u16 = 1 << 5;
/// Only data of server-sent events count.
const EVENTS: u16 = 1 << 6;
/// Attempts go to targets.
const TARGETS: u16 = 1 << 7;
/// Its limits learn from what answers say is left of quotas.
const LEARNS: u16 = 1 << 8;

/// The deadline ends where the answer is handed to the caller.
const DELIVERY: u16 = 1 << 9;

/// The facts about settings that the shell uses.
#[derive(Clone, Copy)]
pub(super) struct Known {
    bits: u16,
    idle: u64,
}

impl Known {
    pub fn of(settings: &tidegate::Policy) -> Self {
        let bit = |bit: u16, is: bool| if is { bit } else { 0 };
        let idle = match settings.value("idle_timeout") {
            Some(Value::Number(micros)) => micros as u64,
            _ => 0,
        };
        let bits = bit(HEDGES, settings.value("hedge.delay").is_some())
            | bit(REPEATS, settings.may_repeat())
            | bit(UNTIL_BODY, settings.slot_until_body())
            | bit(READS_ERRORS, settings.reads_errors())
            | bit(FIRST_BYTE, settings.value("first_byte_timeout").is_some())
            | bit(IDLE, idle > 0)
            | bit(EVENTS, settings.value("counts") == Some(Value::Text("sse_data")))
            | bit(DELIVERY, settings.value("deadline_until") == Some(Value::Text("delivery")))
            | bit(TARGETS, settings.value("targets").is_some())
            | bit(LEARNS, settings.value("rate_limit.learn") == Some(Value::Text("down")));
        Self { bits, idle }
    }
}

/// The route of calls that name none.
pub(super) const DEFAULT: &str = "default";

/// A policy, a route, and the facts about calls made there.
pub(crate) struct Site {
    pub policy: Arc<Inner>,
    pub key: Arc<str>,
    /// Whether the caller names the route.
    pub named: bool,
    /// The id of the route in the engine; 0 until it is known.
    pub route: AtomicU64,
    pub request: Request,
    /// What a call will use of the limits that count weights.
    pub weights: Option<Weights>,
    /// Whether the caller sets a criticality, which overrides the scope's.
    pub own_criticality: bool,
}

impl Site {
    #[inline]
    pub fn shared(&self) -> &Shared {
        &self.policy.engine.shared
    }

    /// Moves the site to another route.
    pub fn aim(&mut self, key: Arc<str>) {
        self.key = key;
        self.route = AtomicU64::new(0);
    }

    /// Whether a request of this HTTP method may be repeated without an idempotency key.
    #[cfg(any(feature = "_bodies", feature = "tower"))]
    pub fn retries_method(&self, method: &str) -> bool {
        self.shared().look(|core, _| core.engine.retries_method(self.policy.id, method))
    }

    /// The outcome of an HTTP answer, by its status, by its headers that say when to try again, and by what has been read of
    /// its body.
    pub fn outcome_of<'a>(
        &self,
        status: u16,
        headers: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        body: &[u8],
    ) -> Outcome {
        if status < 400 {
            return Outcome::of(Class::Ok);
        }
        let headers: Vec<_> = headers.into_iter().collect();
        let failure = HttpFailure { status, headers: &headers };
        let wall = clock::wall();
        self.shared().look(|core, _| core.engine.classify_read(self.policy.id, &failure, body, wall))
    }

    /// The outcome of a finding about an attempt, under this policy.
    pub fn outcome_in(&self, finding: Finding) -> Outcome {
        finding.under(|status, headers| {
            let headers = headers.iter().map(|(name, value)| (name.as_bytes(), &value[..]));
            let outcome = self.outcome_of(status, headers, b"");
            #[cfg(feature = "_bodies")]
            let outcome = crate::refused::judged(status, outcome);
            outcome
        })
    }

    /// The error of a call whose first attempt could not be made.
    #[cfg(feature = "reqwest")]
    pub fn unsent<E>(&self, error: E) -> Error<E> {
        Error::Failed(error, self.report(None, 0, Verdict::NotRetryable, None))
    }

    /// Tidegate's own error for a call that ended so. It names the limit of a set that refused the call. If the call's weights
    /// are not those of its route, the message names the weight.
    #[cold]
    pub fn stopped(&self, report: Report) -> Stopped {
        let stopped = Stopped::new(self.policy.name.clone(), self.key.clone(), report);
        if !matches!(report.reason, Verdict::RateLimited | Verdict::CostAboveBurst) {
            return stopped;
        }
        self.shared().look(|core, now| {
            if let Some(refusal) = report.call.and_then(|(_, call)| core.engine.refusal_of(call)) {
                return stopped.by(refusal);
            }
            if report.reason == Verdict::RateLimited {
                return stopped;
            }
            let route = core.engine.route(self.policy.id, &self.key, now);
            match core.engine.weights(route, self.weights.iter().flat_map(Weights::named)) {
                Ok(_) => stopped,
                Err(wrong) => stopped.unbegun(&wrong),
            }
        })
    }

    #[inline]
    pub fn report(
        &self,
        call: Option<CallId>,
        attempts: u8,
        reason: Verdict,
        retry_in: Option<Duration>,
    ) -> Report {
        let max_retry_after = match reason {
            Verdict::RetryAfterTooLong => self.max_retry_after(),
            _ => None,
        };
        Report {
            attempts,
            reason,
            retry_in,
            max_retry_after,
            unlisted: None,
            left: None,
            call: call.map(|call| (self.shared().number, call)),
        }
    }

    /// The class of a kind.
    #[cold]
    pub fn class_of(&self, kind: Kind) -> Class {
        let base = || {
            let own = |core: &mut Core| Some(core.engine.policy_of(self.policy.id)?.class_of(kind));
            self.shared().look(|core, _| own(core)).unwrap_or(Class::Permanent)
        };
        kind.class().unwrap_or_else(base)
    }

    #[cold]
    fn max_retry_after(&self) -> Option<Duration> {
        let number = |value: Value<'_>| match value {
            Value::Number(micros) => Some(Duration::from_micros(micros as u64)),
            Value::Text(_) => None,
        };
        self.shared()
            .look(|core, _| core.engine.setting(self.policy.id, "retry.max_retry_after").and_then(number))
    }
}

impl Clone for Site {
    fn clone(&self) -> Self {
        Self {
            policy: Arc::clone(&self.policy),
            key: Arc::clone(&self.key),
            named: self.named,
            route: AtomicU64::new(self.route.load(Ordering::Relaxed)),
            request: self.request,
            weights: self.weights.clone(),
            own_criticality: self.own_criticality,
        }
    }
}
