//! The engine: events in, steps out.
//!
//! Calls between its files go in one direction, from the top of this list to its end (`docs/architecture.md`
//! describes each file):
//!
//! - interface for hosts: this file, `call.rs` with `decide.rs`, `force.rs`, `owners.rs`, `pools.rs`, `retune.rs`,
//!   `reload.rs`, `replay.rs`, the views (`view.rs`, `snapshot.rs`, `state.rs`, `explain.rs`), and `fleet/reply.rs`;
//! - path of a call: `resume.rs`, `admit.rs`, `race.rs`, `acquire.rs`, `end.rs`, `lease.rs`, `stop.rs`,
//!   `feedback.rs`, `permit.rs`, `token.rs`;
//! - `fleet/`, on a fleet desk: requests of the fleet's components to the store;
//! - on the desk (`desk.rs`): `hold.rs`, `rate_queue.rs` (rates), `queue.rs` (permits), `waiting.rs`, `hedge.rs`,
//!   `ledger.rs`, `telemetry.rs`;
//! - the stages (`stage.rs`) and the stored state: `route.rs`, `policies.rs`, `attempts.rs`, `arena.rs`, `call_extra.rs`,
//!   `chores.rs`, `record.rs`, `journal.rs`.

// Code that every call runs is inlined into one function; code that few calls run stays in functions of its own. See
// `docs/performance.md`.
#![allow(clippy::inline_always)]

mod acquire;
mod admit;
mod arena;
mod attempts;
mod automaton;
mod blocks;
mod call;
mod call_extra;
mod changes;
mod chores;
mod cooldown;
mod decide;
mod desk;
mod end;
mod explain;
mod feedback;
mod fleet;
mod force;
mod hedge;
mod hold;
mod journal;
mod learn;
mod lease;
mod ledger;
mod limiter;
mod limits;
mod link;
mod list;
mod more;
mod owners;
mod pages;
mod permit;
mod place;
mod plain;
mod policies;
mod pools;
mod queue;
mod race;
mod rate_queue;
mod recheck;
mod record;
mod refusals;
#[cfg(feature = "documents")]
mod reload;
mod replay;
mod resume;
mod retune;
mod route;
mod sheets;
mod snapshot;
mod stage;
mod state;
mod stop;
mod stream;
mod targets;
mod telemetry;
mod timer;
mod token;
mod view;
mod waiting;
mod weigh;
mod weights;
#[cfg_attr(tidegate_small, path = "engine/small.rs")]
mod whole;
mod windows;

use policies::Entry;
use route::Operated;
use std::collections::BTreeMap as Map;
use std::fmt;

pub use automaton::EDGES;
pub use explain::{CallExplanation, Component, Load, PolicyExplanation};
pub use hedge::TimeLeft;
pub use journal::{Answer, Input, InputError};
pub use ledger::Counts;
pub use pages::{SavePages, SavedPart, SnapshotPages};
pub(crate) use record::bits;
pub use record::{Record, RecordType};
pub use refusals::Refusal;
pub use state::{RestoreError, Restored};
pub use targets::Skip;
pub use view::{
    BreakerView, CooldownView, FleetRateView, HedgeView, HoldView, LimitKind, LimitView, PoolView, RateView,
    RouteView, SendView, SharedView, Snapshot, StoreView, TargetView, ThrottleView,
};
pub use weights::{WeightError, Weights};

use crate::action::{CallId, Flags, PolicyId, RouteId, Verdict};
use crate::classify::{HttpFailure, classify};
use crate::outcome::{Class, Kind, Outcome};
use crate::policy::Policy;
use crate::time::{Clock, Time, WallTime};

/// Options of a new engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[allow(clippy::struct_excessive_bools)] // independent facts about a host
pub struct Options {
    /// The most routes that keep state; 1 to 524,288.
    pub max_routes: u32,
    /// Whether to keep a journal (`Engine::take_journal`). Chosen here, because a journal begins with the engine.
    pub journal: bool,
    /// The most inputs that a journal holds until it is taken; at least 1.
    pub journal_limit: u32,
    /// The most records to keep about calls with trouble, for `Engine::explain_call`; 0 keeps none.
    pub history: u32,
    /// Whether the host serves the timeouts of streams; if not, policies with them are refused.
    pub streams: bool,
    /// Whether the host passes the weights of calls; if not, rate limits with weights are refused.
    pub weights: bool,
    /// Whether the host reports what answers say is left of quotas; if not, rate limits that learn from them are refused.
    pub quotas: bool,
    /// Whether the host reports its wall clock; if not, limits that refill by its windows are refused.
    pub wall_clock: bool,
}

impl Default for Options {
    /// 10,000 routes; no journal, with a limit of 100,000 inputs; no history; timeouts of streams; no weights, no quotas and no wall clock.
    fn default() -> Self {
        Self {
            max_routes: 10_000,
            journal: false,
            journal_limit: 100_000,
            history: 0,
            streams: true,
            weights: false,
            quotas: false,
            wall_clock: false,
        }
    }
}

impl Options {
    /// Sets the bound on routes.
    #[must_use]
    pub const fn max_routes(self, max_routes: u32) -> Self {
        Self { max_routes, ..self }
    }

    /// Switches the journal on or off.
    #[must_use]
    pub const fn journal(self, journal: bool) -> Self {
        Self { journal, ..self }
    }

    /// Sets the number of records kept to explain calls.
    #[must_use]
    pub const fn history(self, history: u32) -> Self {
        Self { history, ..self }
    }

    /// Says whether the host serves the timeouts of streams.
    #[must_use]
    pub const fn streams(self, streams: bool) -> Self {
        Self { streams, ..self }
    }

    /// Says that the host passes the weights of calls ([`Engine::begin_weighted`]).
    #[must_use]
    pub const fn weights(self, weights: bool) -> Self {
        Self { weights, ..self }
    }

    /// Says that the host reports what answers say is left of quotas ([`Engine::note_quotas`]).
    #[must_use]
    pub const fn quotas(self, quotas: bool) -> Self {
        Self { quotas, ..self }
    }

    /// Says that the host reports its wall clock ([`Engine::note_wall`]).
    #[must_use]
    pub const fn wall_clock(self, wall_clock: bool) -> Self {
        Self { wall_clock, ..self }
    }

    /// Sets the bound on the inputs of a journal.
    #[must_use]
    pub const fn journal_limit(self, journal_limit: u32) -> Self {
        Self { journal_limit, ..self }
    }
}

/// Error: this engine cannot accept a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clash {
    /// The policy's name.
    pub name: String,
    /// The rule it breaks.
    pub rule: &'static str,
}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy = {}: {}", crate::text::quoted(&self.name), self.rule)
    }
}

impl std::error::Error for Clash {}

/// The engine: a pure state machine for all calls of a process.
///
/// `now` is always the last argument, in microseconds on the host's monotonic clock. Readings that run back or swing
/// neither stop the engine nor create tokens or time (R10). No method blocks, allocates per call in steady state,
/// calls back, or panics.
#[derive(Debug)]
#[repr(C)] // the desk has the engine's own address, so lending it takes no instruction
pub struct Engine {
    /// State that the stages use.
    desk: desk::Desk,
    clock: Clock,
    /// Number of calls begun.
    ordinal: u64,
    by_name: Map<String, u16>,
    pools: pools::Pools,
    /// Connection of the fleet's components to the store.
    store: fleet::FleetStore,
    /// Permits to release once this event has been processed.
    pending_release: attempts::PendingRelease,
    journal: journal::Journal,
}

impl Engine {
    /// Creates an engine without policies. The seed is the only source of randomness.
    pub fn new(seed: u64, options: Options) -> Self {
        Self {
            clock: Clock::default(),
            ordinal: 0,
            by_name: Map::new(),
            pools: pools::Pools::default(),
            desk: desk::Desk::new(seed, options),
            store: fleet::FleetStore::default(),
            pending_release: attempts::PendingRelease::default(),
            journal: journal::Journal::new(seed, options),
        }
    }

    /// Adds a policy, or one more owner of it ([`Engine::release_policy`]). The same name with the same settings is
    /// the same policy. A policy without an owner takes other settings, as by [`Engine::retune`].
    ///
    /// # Errors
    /// The same name with other settings while there is an owner, an unknown pool, a component of the fleet while no
    /// store is attached ([`Engine::attach_store`]), or more than 65,535 policies.
    pub fn policy(&mut self, policy: Policy) -> Result<PolicyId, Clash> {
        let there = self.policy_named(policy.name());
        if let Some(id) = there.filter(|id| self.desk.policies.may_change(*id, &policy)) {
            // As of the last reading of the host's clock, which core's time may be ahead of.
            let now = self.clock.reading_of(self.clock.now());
            let _ = self.retune(id, policy.clone(), now)?;
        }
        self.journal.write(|| Input::Policy { policy: Box::new(policy.clone()) });
        let clash = |policy: Policy, rule| Err(Clash { name: policy.name, rule });
        if let Some(id) = there {
            if self.policy_of(id) == Some(&policy) {
                self.desk.policies.own(id.number());
                return Ok(id);
            }
            return clash(policy, owners::TWO);
        }
        let Some(number) = self.desk.policies.next_number() else {
            return clash(policy, "an engine holds at most 65,536 policies; make them once, not per call");
        };
        let host = &self.journal.options;
        if let Some(rule) = host.rule_against(self.store.fleet.as_deref(), &policy) {
            return clash(policy, rule);
        }
        let shared_pools = match self.pools.shared_pools_of(&policy) {
            Ok(shared_pools) => shared_pools,
            Err(rule) => return clash(policy, rule),
        };
        let rule = host.rule_against_limits(None, &policy);
        if let Some(rule) = rule.or_else(|| self.pools.rule_against_unit(&policy)) {
            return clash(policy, rule);
        }
        self.desk.look_for_windows(&policy);
        self.by_name.insert(policy.name().to_owned(), number);
        self.pools.note_user(shared_pools, &mut self.desk.policies);
        let again = route::stage::asked_again(&policy);
        self.desk.policies.put(Entry::new(policy, number, again, shared_pools));
        Ok(self.desk.policies.id_of(number))
    }

    /// A policy with its present settings.
    pub fn policy_of(&self, policy: PolicyId) -> Option<&Policy> {
        self.desk.policies.find(policy)
    }

    /// The last moment that the engine has seen.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The policy of this name, if it exists.
    pub fn policy_named(&self, name: &str) -> Option<PolicyId> {
        self.by_name.get(name).map(|number| self.desk.policies.id_of(*number))
    }

    /// The route of a key under a policy. Total: for an unknown policy it returns a stale route.
    ///
    /// Keys above 512 bytes are stored as their beginning and a hash of the whole. If `max_routes` are in use, new
    /// keys share the policy's `overflow` route.
    pub fn route(&mut self, policy: PolicyId, key: &str, now: Time) -> RouteId {
        self.journal.write(|| Input::Route { policy, key: key.into(), now });
        let now = self.clock.observe(now);
        match self.desk.policies.number_of(policy) {
            Some(number) => {
                if !self.desk.chores.is_empty() {
                    self.fleet_desk().catch_up_for_key(number, now);
                }
                let entry = &self.desk.policies[usize::from(number)];
                let operated = Operated { forced: entry.forced, changes: entry.changes.last };
                self.desk.routes.intern(number, (&entry.policy, entry.shared_pools, operated), key, now)
            }
            None => RouteId::from_word(0),
        }
    }

    /// Moves the ids of calls that can continue into `out`; the owner of each must send `Poll`. Drain it under the
    /// same lock as the step that set the flag.
    pub fn take_wakes(&mut self, out: &mut Vec<CallId>) {
        if !self.desk.wakes.is_empty() {
            self.journal.write(|| Input::Wakes);
        }
        out.append(&mut self.desk.wakes);
    }

    /// Whether a request of this method may be repeated without an idempotency key (semantics 2.2).
    pub fn retries_method(&self, policy: PolicyId, method: &str) -> bool {
        self.policy_of(policy).is_some_and(|policy| policy.retry.methods.contains(method))
    }

    /// [`Policy::falls_back`] of a policy; false for an unknown policy.
    pub fn falls_back(
        &self,
        policy: PolicyId,
        verdict: Verdict,
        failure: Option<Kind>,
        judged: bool,
    ) -> bool {
        self.policy_of(policy).is_some_and(|policy| policy.falls_back(verdict, failure, judged))
    }

    /// The outcome of an HTTP answer under a policy (semantics 1.4); `wall` is for HTTP dates. Where the policy
    /// [reads errors](Policy::reads_errors), `body` is the beginning of the answer's, as far as the host has read it
    /// (semantics 15.5); elsewhere it changes nothing.
    pub fn classify_read(
        &self,
        policy: PolicyId,
        failure: &HttpFailure<'_>,
        body: &[u8],
        wall: WallTime,
    ) -> Outcome {
        match self.policy_of(policy) {
            Some(policy) => classify(policy, failure, body, wall),
            None => Outcome::of(Class::Permanent),
        }
    }

    /// Prepares the child of a fork: the parent's calls and random numbers do not belong to it. Routes and budgets
    /// stay.
    pub fn after_fork(&mut self, seed: u64, now: Time) -> Flags {
        self.journal.write(|| Input::Fork { seed, now });
        let now = self.clock.observe(now);
        self.desk.seed = seed;
        self.desk.calls.clear();
        self.desk.routes.clear_calls();
        if !self.desk.chores.is_empty() {
            self.fleet_desk().catch_up_all(now);
        }
        self.desk.paths.forget_calls();
        self.desk.wakes.clear();
        self.desk.chores.clear();
        self.desk.notes.forget_calls();
        self.store.fork(self.desk.seed);
        Flags::default()
    }
}
