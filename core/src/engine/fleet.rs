//! The fleet's store as the engine sees it: commands, replies, and whether it can be reached (semantics 10).
//!
//! A call that can do without the store never waits for it. The first loss marks the store as lost; from then on no
//! call waits for it. At most one command a second, carried by whatever event is due, tests it again (`health.rs`).
//!
//! `command.rs` writes commands and reads replies, `rate.rs` is the rate limit, `set.rs` a set of limits, `breaker.rs` the circuit breaker,
//! `cooldown.rs` the cooldown, `slots.rs` the bulkhead, `digest.rs` the latencies. `plain.rs` does as much of this as a store without scripts
//! allows.

pub(super) mod breaker;
pub(super) mod closing;
mod command;
mod cooldown;
pub(super) mod digest;
mod health;
mod plain;
pub(super) mod rate;
mod reap;
mod reply;
mod sender;
pub(super) mod set;
pub(super) mod slots;
#[cfg(test)]
mod tests;

use super::fleet::rate::Share;
use super::place::{PoolAt, RouteAt, Slot};
use super::rate_queue::Bucket;
use crate::engine::policies::Policies;
use crate::engine::route::Routes;
use std::collections::BTreeMap;

use super::Engine;
use super::desk::Desk;
use crate::action::Flags;
use crate::fleet::{CommandId, StoreCommand, StoreKind};
use crate::full;
use crate::policy::Policy;
use crate::rng::{self, Purpose};
use crate::time::{Duration, Time};
pub(super) use command::Part;
use command::{Address, Pending, escaped};
use health::{Health, Place};
use sender::Sender;

/// The default namespace of keys.
const NAMESPACE: &str = "tidegate";

/// The longest namespace, in bytes.
const LONGEST_NAMESPACE: usize = 100;

/// After this time without an answer the engine stops waiting: the host has forgotten the command.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// An engine's knowledge of its fleet.
#[derive(Debug)]
pub(super) struct Fleet {
    kind: StoreKind,
    namespace: Box<str>,
    /// Drawn by the host; distinguishes this process from all others.
    entropy: u64,
    /// Name of the process in the store: 16 hex digits.
    process: [u8; 16],
    /// Number of the last command.
    last: u64,
    /// Commands without an answer, by id, oldest first.
    pending: BTreeMap<CommandId, Pending>,
    /// When the first of them is overdue.
    first_due: Time,
    /// Whether the store can be reached.
    health: Health,
    /// Count of random draws, for probes and for the jitter of repeated requests.
    draws: u64,
    /// Processes in the fleet by a rate's last answer; far too many while there is none.
    processes: u32,
}

impl Fleet {
    fn new(kind: StoreKind, namespace: Box<str>, entropy: u64) -> Self {
        Self {
            kind,
            namespace,
            entropy,
            process: process(entropy),
            last: 0,
            pending: BTreeMap::new(),
            first_due: Time::NEVER,
            health: Health::default(),
            draws: 0,
            processes: u32::MAX,
        }
    }

    /// Jitters a span by up to half.
    fn jittered(&mut self, span: Duration, seed: u64) -> Duration {
        self.draws += 1;
        let bits = rng::bits(seed, self.draws, Purpose::Probe, 0);
        let half = span.as_micros() / 2;
        Duration::from_micros(rng::uniform(bits, half, half + span.as_micros()))
    }
}

/// Name of the process in the store.
fn process(entropy: u64) -> [u8; 16] {
    let bits = rng::bits(entropy, 0, Purpose::Process, 0);
    core::array::from_fn(|place| b"0123456789abcdef"[(bits >> (60 - 4 * place)) as usize & 15])
}

/// The rule that a policy breaks because it needs more than the store offers.
pub(super) fn rule_against(fleet: Option<&Fleet>, policy: &Policy) -> Option<&'static str> {
    let rate = policy.rate_limit.as_ref().is_some_and(|it| it.fleet.is_some());
    let set =
        policy.rate_limit.as_ref().and_then(|it| it.limits.as_ref()).is_some_and(|it| it.fleet.is_some());
    let breaker = policy.breaker.as_ref().is_some_and(|it| it.fleet.is_some());
    let slots = policy.bulkhead.as_ref().is_some_and(|it| it.fleet.is_some());
    let latency = policy.bulkhead.as_ref().is_some_and(|it| it.fleet_latency.is_on());
    let cooldown = policy.cooldown.as_ref().is_some_and(|it| it.fleet);
    let quorum = policy.breaker.as_ref().and_then(|it| it.fleet.as_ref()).is_some_and(|it| it.quorum > 1);
    let Some(fleet) = fleet else {
        return [
            (rate || set, "rate_limit.store = fleet needs a store: attach one to the engine first"),
            (breaker, "breaker.store = fleet needs a store: attach one to the engine first"),
            (slots, "bulkhead.store = fleet needs a store: attach one to the engine first"),
            (latency, "bulkhead.latency_store = fleet needs a store: attach one to the engine first"),
            (cooldown, "cooldown.store = fleet needs a store: attach one to the engine first"),
        ]
        .into_iter()
        .find_map(|(there, rule)| there.then_some(rule));
    };
    [
        (
            quorum && fleet.kind == StoreKind::Plain,
            "breaker.quorum above 1 needs a store that runs scripts, which this one does not",
        ),
        (
            slots && fleet.kind == StoreKind::Plain,
            "bulkhead.store = fleet needs a store that runs scripts, which this one does not",
        ),
        (
            latency && fleet.kind == StoreKind::Plain,
            "bulkhead.latency_store = fleet needs a store that runs scripts, which this one does not",
        ),
        (
            set && fleet.kind == StoreKind::Plain,
            "rate_limit.store = fleet beside rate_limit.limits needs a store that runs scripts, which this one does not",
        ),
        (
            cooldown && fleet.kind == StoreKind::Plain,
            "cooldown.store = fleet needs a store that runs scripts, which this one does not",
        ),
    ]
    .into_iter()
    .find_map(|(there, rule)| there.then_some(rule))
}

/// The fleet's store: its state, once it is attached, and the commands that the host has not taken.
#[derive(Debug, Default)]
pub(super) struct FleetStore {
    pub fleet: Option<full::Part<Fleet>>,
    pub commands: Vec<StoreCommand>,
}

/// State that a component of the fleet uses: the desk, and the fleet's store.
pub(super) struct FleetDesk<'a> {
    pub desk: &'a mut Desk,
    pub store: &'a mut FleetStore,
}

impl Routes {
    fn rate_queue(&self, home: PoolAt) -> (u32, Option<Slot>, u64) {
        self[home]
            .rate
            .as_deref()
            .map_or((0, None, 0), |queue| (queue.waiting.len(), queue.waiting.head(), queue.queued()))
    }

    /// The route or pool of a command, while that part of it is the fleet's. `None` is legal: since the command was
    /// sent, the route may have been evicted, or a retune may have made the component the process's own.
    fn still_fleets(&self, pending: &Pending) -> Option<RouteAt> {
        let at = self.still_there((pending.home, pending.subject.part()))?;
        // A set may have taken a single rate's place since, or the other way round.
        let form = pending.subject.is_of_set();
        form.is_none_or(|of_set| of_set == self.shares_set(at.own())).then_some(at)
    }

    /// The same by place.
    fn still_there(&self, (home, part): Place) -> Option<RouteAt> {
        let at = self.find_lasting(home)?;
        let it = &self[at];
        let is_fleets = match part {
            Part::Rate => it.rate.as_deref().is_some_and(|rate| match &rate.bucket {
                Bucket::Fleet(_) => true,
                Bucket::Set(limits) => limits.shared.is_some(),
                Bucket::Tokens(_) | Bucket::Cubic(_) => false,
            }),
            Part::Breaker => it.guard.is_some(),
            Part::Cooldown => it.cooldown.as_ref().is_some_and(|cooling| cooling.fleet.is_some()),
            Part::Slots => it.slots.is_some(),
            Part::Digest => it.digest.is_some(),
            Part::Upkeep => false, // changes nothing here
        };
        is_fleets.then_some(at)
    }

    /// Address of a route or a pool in the store's keys. The text between braces selects the key's place in a
    /// cluster, and no name can close the braces.
    fn address(&self, policies: &Policies, home: PoolAt) -> Address {
        Address { home: self.lasting_id(home.route()), entity: self.entity(policies, home) }
    }

    fn entity(&self, policies: &Policies, home: PoolAt) -> String {
        let route = &self[home];
        if route.is_pool() {
            return format!("p|{}", escaped(route.raw_key()));
        }
        let policy = &policies[usize::from(route.policy)].policy;
        format!("r|{}|{}", escaped(policy.name()), escaped(route.raw_key()))
    }

    pub(super) fn share_mut(&mut self, home: PoolAt) -> Option<&mut Share> {
        match &mut self[home].rate.as_deref_mut()?.bucket {
            Bucket::Fleet(share) => Some(share),
            Bucket::Tokens(_) | Bucket::Cubic(_) | Bucket::Set(_) => None,
        }
    }
}

impl FleetStore {
    /// Jitters a span by up to half.
    fn jitter(&mut self, span: Duration, seed: u64) -> Duration {
        self.fleet.as_mut().map_or(span, |fleet| fleet.jittered(span, seed))
    }

    /// Processes in the fleet, if known; far too many otherwise.
    fn fleet_size(&self) -> u32 {
        self.fleet.as_ref().map_or(u32::MAX, |fleet| fleet.processes)
    }

    /// After a fork, in the child: commands and their answers belong to the parent, and so does the name in the
    /// store. Both keep the knowledge whether the store can be reached.
    pub(super) fn fork(&mut self, seed: u64) {
        self.commands.clear();
        if let Some(fleet) = self.fleet.as_mut() {
            fleet.entropy = rng::bits(fleet.entropy, seed, Purpose::Process, 1);
            fleet.process = process(fleet.entropy);
            fleet.pending.clear();
            fleet.first_due = Time::NEVER;
        }
    }

    /// The number that the next command will have; no command of this engine has had it.
    fn next_number(&self) -> u64 {
        self.fleet.as_ref().map_or(1, |fleet| fleet.last + 1)
    }

    /// Whether the store runs no scripts.
    pub(super) fn is_plain(&self) -> bool {
        self.fleet.as_ref().is_some_and(|fleet| fleet.kind == StoreKind::Plain)
    }
}

impl Engine {
    /// State that the fleet's part of a stage uses.
    #[inline]
    pub(super) fn fleet_desk(&mut self) -> FleetDesk<'_> {
        FleetDesk { desk: &mut self.desk, store: &mut self.store }
    }

    /// Further effects of this event, besides its answer.
    #[inline]
    pub(super) fn flags(&self) -> Flags {
        Flags { wakes: !self.desk.wakes.is_empty(), commands: !self.store.commands.is_empty(), target: false }
    }
}
