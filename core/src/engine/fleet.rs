//! The fleet's store as the engine sees it: commands out, replies in, and whether it is there (semantics 10).
//!
//! The store is never on the way of a call that can do without it. The first loss takes it down, then nobody waits for it, and
//! one command a second or less, carried by whatever is due, tries it again (`health.rs`).
//!
//! `command.rs` writes commands and reads replies, `rate.rs` is the rate limit, `breaker.rs` the circuit breaker, `slots.rs` the
//! bulkhead, `digest.rs` the latencies; `plain.rs` does what it can of these with a store that runs no scripts.

pub(super) mod breaker;
mod command;
pub(super) mod digest;
mod health;
mod plain;
pub(super) mod rate;
mod reap;
mod reply;
pub(super) mod slots;

use super::fleet::rate::Share;
use super::pace::Bucket;
use super::place::{PoolAt, Slot};
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
use command::Pending;
use health::Health;

/// The namespace of keys where none is given.
const NAMESPACE: &str = "tidegate";

/// The longest namespace, in bytes.
const LONGEST_NAMESPACE: usize = 100;

/// An answer that has not come for so long will not come: the host has forgotten the command.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// What an engine knows of its fleet.
#[derive(Debug)]
pub(super) struct Fleet {
    kind: StoreKind,
    namespace: Box<str>,
    /// Drawn by the host: what makes this process another one than all others.
    entropy: u64,
    /// The process, as the store knows it: 16 hex digits.
    process: [u8; 16],
    /// The last command's number.
    last: u64,
    /// Commands out, by their id: oldest first.
    pending: BTreeMap<CommandId, Pending>,
    /// When the first of them is overdue.
    first_due: Time,
    /// Whether the store is there.
    health: Health,
    /// Numbers drawn for probes, and for those who ask again.
    draws: u64,
    /// Processes in the fleet, as a rate's answer last said; far too many while none has.
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

    /// A span of this length, half more or less.
    fn jittered(&mut self, span: Duration, seed: u64) -> Duration {
        self.draws += 1;
        let bits = rng::bits(seed, self.draws, Purpose::Probe, 0);
        let half = span.as_micros() / 2;
        Duration::from_micros(rng::uniform(bits, half, half + span.as_micros()))
    }
}

/// The process's name in the store.
fn process(entropy: u64) -> [u8; 16] {
    let bits = rng::bits(entropy, 0, Purpose::Process, 0);
    core::array::from_fn(|place| b"0123456789abcdef"[(bits >> (60 - 4 * place)) as usize & 15])
}

/// The rule that stands against a policy, where it wants what the store cannot give.
pub(super) fn rule_against(fleet: Option<&Fleet>, policy: &Policy) -> Option<&'static str> {
    let rate = policy.rate_limit.as_ref().is_some_and(|it| it.fleet.is_some());
    let breaker = policy.breaker.as_ref().is_some_and(|it| it.fleet.is_some());
    let slots = policy.bulkhead.as_ref().is_some_and(|it| it.fleet.is_some());
    let latency = policy.bulkhead.as_ref().is_some_and(|it| it.fleet_latency);
    let quorum = policy.breaker.as_ref().and_then(|it| it.fleet.as_ref()).is_some_and(|it| it.quorum > 1);
    let Some(fleet) = fleet else {
        return [
            (rate, "rate_limit.store = fleet needs a store: attach one to the engine first"),
            (breaker, "breaker.store = fleet needs a store: attach one to the engine first"),
            (slots, "bulkhead.store = fleet needs a store: attach one to the engine first"),
            (latency, "bulkhead.latency_store = fleet needs a store: attach one to the engine first"),
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
    ]
    .into_iter()
    .find_map(|(there, rule)| there.then_some(rule))
}

/// What the fleet's side of a stage acts on: the desk, and what is known of the fleet and its store.
pub(super) struct FleetDesk<'a> {
    pub desk: &'a mut Desk,
    pub fleet: &'a mut Option<full::Part<Fleet>>,
    pub commands: &'a mut Vec<StoreCommand>,
}

impl Desk {
    fn rate_queue(&self, home: PoolAt) -> (u32, Option<Slot>, u64) {
        self.routes[home]
            .rate
            .as_deref()
            .map_or((0, None, 0), |pace| (pace.waiting.len(), pace.waiting.head(), pace.queued()))
    }

    pub(super) fn share_mut(&mut self, home: PoolAt) -> Option<&mut Share> {
        match &mut self.routes[home].rate.as_deref_mut()?.bucket {
            Bucket::Fleet(share) => Some(share),
            Bucket::Tokens(_) | Bucket::Cubic(_) => None,
        }
    }
}

impl FleetDesk<'_> {
    /// A span of this length, half more or less.
    fn jitter(&mut self, span: Duration) -> Duration {
        let seed = self.desk.seed;
        self.fleet.as_mut().map_or(span, |fleet| fleet.jittered(span, seed))
    }

    /// Processes in the fleet, as far as that is known; far too many where it is not.
    fn fleet_size(&self) -> u32 {
        self.fleet.as_ref().map_or(u32::MAX, |fleet| fleet.processes)
    }

    /// In the child of a fork: commands and their answers are the parent's, and so is its name in the store. Whether the
    /// store is there, both know.
    pub(super) fn fork_fleet(&mut self) {
        self.commands.clear();
        if let Some(fleet) = self.fleet.as_mut() {
            fleet.entropy = rng::bits(fleet.entropy, self.desk.seed, Purpose::Process, 1);
            fleet.process = process(fleet.entropy);
            fleet.pending.clear();
            fleet.first_due = Time::NEVER;
        }
    }

    /// Is it a store that runs no scripts?
    pub(super) fn is_plain(&self) -> bool {
        self.fleet.as_ref().is_some_and(|fleet| fleet.kind == StoreKind::Plain)
    }
}

impl Engine {
    /// What the fleet's side of a stage acts on.
    #[inline]
    pub(super) fn fleet_desk(&mut self) -> FleetDesk<'_> {
        FleetDesk { desk: &mut self.desk, fleet: &mut self.fleet, commands: &mut self.commands }
    }

    /// What this event made besides its answer.
    #[inline]
    pub(super) fn flags(&self) -> Flags {
        Flags { wakes: !self.desk.wakes.is_empty(), commands: !self.commands.is_empty() }
    }
}
