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
pub(super) mod slots;

use std::collections::BTreeMap;

use super::desk::Desk;
use super::{Engine, Input};
use crate::action::Flags;
use crate::fleet::{CommandId, Loss, Reply, StoreCommand, StoreKind};
use crate::full::{self, Full};
use crate::policy::Policy;
use crate::rng::{self, Purpose};
use crate::time::{Duration, Time};
use command::{Pending, Subject, escaped};
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

/// What the fleet's side of a stage acts on: the desk, and what is known of the fleet and its store.
pub(super) struct FleetDesk<'a> {
    pub desk: &'a mut Desk,
    pub fleet: &'a mut Option<full::Part<Fleet>>,
    pub commands: &'a mut Vec<StoreCommand>,
}

impl FleetDesk<'_> {
    fn answered(&mut self, command: CommandId, pending: Pending, reply: Reply<'_>, now: Time) {
        let why = match reply {
            Reply::Bytes(bytes) => match pending.subject.read(bytes) {
                Some(answer) => {
                    let place = (pending.home, pending.subject.part());
                    let back = self.store_answered(command, place, now);
                    self.fleet_told(command, &pending, &answer, now);
                    self.store_is_back(back, &pending, now);
                    return;
                }
                None => Loss::GARBLED,
            },
            Reply::Error(text) if text.starts_with(b"NOSCRIPT") && pending.by_name => {
                // Nothing has been done. Where it comes too late, whoever asked has gone on.
                if !pending.overdue {
                    self.send_source(pending, now);
                }
                return;
            }
            Reply::Error(text) => Loss::of_error(text),
            // Whoever gives up does so when the time is over; a client without a connection knows at once.
            Reply::Lost if pending.due <= now => Loss::TIMEOUT,
            Reply::Lost => Loss::CONNECTION,
        };
        self.store_objected(command, &pending, why, now);
    }

    /// What a command asked for has been answered.
    fn fleet_told(&mut self, command: CommandId, pending: &Pending, answer: &[u64], now: Time) {
        let home = self.desk.routes.find_lasting(pending.home);
        if let Subject::Slots { op: slots::Op::Acquire, count } = pending.subject
            && home.is_none_or(|home| self.desk.routes[home].slots.is_none())
        {
            return self.slots_unclaimed(pending, count, answer, now);
        }
        let Some(home) = home else { return };
        match pending.subject {
            Subject::Rate { want, need, call } => self.rate_told(home.own(), (want, need, call), answer, now),
            Subject::Breaker { op } => self.breaker_told(home, (command, op, pending.sent), answer, now),
            Subject::Digest => self.digest_told(home.own(), pending.sent, answer, now),
            Subject::Slots { op, count } => self.slots_told(home.own(), (op, count), pending, answer, now),
            Subject::Window { link, wanted } => {
                self.window_told(home.own(), (link, wanted), pending, answer, now);
            }
            Subject::Mark { link, op, duration } => {
                self.mark_told(home, (link, op, duration), (command, pending), answer, now);
            }
        }
    }

    /// A command has been answered, or its answer is overdue: it is out no more.
    fn settled(&mut self, pending: &Pending) {
        let Some(home) = self.desk.routes.find_lasting(pending.home) else { return };
        match pending.subject {
            Subject::Window { link: plain::Link::Repair, .. }
            | Subject::Mark { link: plain::Link::Repair, .. } => {}
            Subject::Rate { .. } | Subject::Window { .. } => self.rate_settled(home.own()),
            Subject::Breaker { .. } | Subject::Mark { .. } => self.breaker_settled(home),
            Subject::Slots { op, .. } => self.slots_settled(home.own(), op),
            Subject::Digest => self.digest_out(home.own(), false),
        }
    }

    /// A span of this length, half more or less.
    fn jitter(&mut self, span: Duration) -> Duration {
        let seed = self.desk.seed;
        self.fleet.as_mut().map_or(span, |fleet| fleet.jittered(span, seed))
    }

    /// Processes in the fleet, as far as that is known; far too many where it is not.
    fn fleet_size(&self) -> u32 {
        self.fleet.as_ref().map_or(u32::MAX, |fleet| fleet.processes)
    }

    /// Looks whether an answer is overdue. Every event that has to do with the store comes by here, so no call waits for
    /// longer than it was told to, whatever the host does.
    pub(super) fn watch_store(&mut self, now: Time) {
        let Some(fleet) = self.fleet.as_deref_mut() else { return };
        if now < fleet.first_due {
            return;
        }
        let mut late = Vec::new();
        fleet.first_due = Time::NEVER;
        for pending in fleet.pending.values_mut().filter(|it| !it.overdue) {
            if pending.due <= now {
                pending.overdue = true;
                late.push(pending.clone());
            } else {
                fleet.first_due = fleet.first_due.min(pending.due);
            }
        }
        for pending in &late {
            self.settled(pending);
        }
        for pending in &late {
            self.store_lost(pending, Loss::TIMEOUT, now);
        }
    }

    /// Commands that no host will answer any more.
    fn forget_commands(&mut self, now: Time) {
        while let Some(fleet) = self.fleet.as_mut()
            && let Some(oldest) = fleet.pending.first_entry()
            && oldest.get().overdue
            && oldest.get().due.after(FORGOTTEN) <= now
        {
            oldest.remove();
        }
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
}

impl Engine {
    /// What the fleet's side of a stage acts on.
    #[inline]
    pub(super) fn fleet_desk(&mut self) -> FleetDesk<'_> {
        FleetDesk { desk: &mut self.desk, fleet: &mut self.fleet, commands: &mut self.commands }
    }

    /// Attaches the store through which a fleet shares its state, before the first policy that says `store = "fleet"`.
    /// The engine itself talks to nobody: it hands its host commands ([`Engine::take_commands`]) and is told what came of
    /// them ([`Engine::on_reply`]).
    ///
    /// Keys begin with `namespace`, by default (where it is empty) `tidegate`: fleets that have nothing to do with each
    /// other but share a server have different ones. Braces, bars and control characters in it are escaped, and it is cut
    /// at 100 bytes. An engine has one store: attaching another changes nothing.
    ///
    /// `process` is 64 random bits from the platform, drawn for each call. They name the process in the store; two processes
    /// of one name would be one, so the engine's seed, which tests and deployments may set, does not serve.
    ///
    /// ```
    /// use tidegate::fleet::{MemoryStore, Reply, StoreKind};
    /// use tidegate::{Action, Engine, Event, Options, Policy, Request, Time, Value::{Number, Text}, Wait};
    /// let (mut engine, mut store) = (Engine::new(7, Options::default()), MemoryStore::new());
    /// let now = Time::from_micros(0);
    /// let _ = engine.attach_store(StoreKind::Lua, "shop", 0x5eed, now);
    /// let policy = Policy::from_pairs("partner", &[
    ///     ("rate_limit.permits", Number(500.0)),
    ///     ("rate_limit.per", Number(1e6)),
    ///     ("rate_limit.store", Text("fleet")),
    /// ]).unwrap();
    /// let policy = engine.policy(policy).unwrap();
    /// let route = engine.route(policy, "api", now);
    ///
    /// // The first call asks the store, for itself and for those to come.
    /// let (call, step) = engine.begin(route, &Request::default(), now);
    /// assert!(matches!(step.action, Action::Wait { why: Wait::Store }) && step.flags.commands);
    /// let mut commands = Vec::new();
    /// while { engine.take_commands(&mut commands); !commands.is_empty() } {
    ///     let command = commands.remove(0);
    ///     let answer = store.execute(&command.words, 1_000_000);
    ///     let reply = answer.as_ref().map_or_else(|text| Reply::Error(text.as_bytes()), |it| Reply::Bytes(it));
    ///     let _ = engine.on_reply(command.id, reply, now);
    /// }
    /// assert!(matches!(engine.on(call, Event::Poll, now).action, Action::Attempt { .. }));
    /// // The next one finds a token at hand.
    /// assert!(matches!(engine.begin(route, &Request::default(), now).1.action, Action::Attempt { .. }));
    /// ```
    pub fn attach_store(&mut self, kind: StoreKind, namespace: &str, process: u64, now: Time) -> Flags {
        self.journal.write(|| Input::Store { kind, namespace: namespace.into(), process, now });
        self.clock.observe(now);
        if let (None, Some(full)) = (&self.fleet, Full::here()) {
            let name = if namespace.is_empty() { NAMESPACE } else { namespace };
            let cut = name.char_indices().find(|(place, c)| place + c.len_utf8() > LONGEST_NAMESPACE);
            let name = cut.map_or(name, |(end, _)| &name[..end]);
            self.fleet = Some(full::Part::new(Fleet::new(kind, escaped(name).into(), process), full));
        }
        self.flags()
    }

    /// Moves the commands for the store into `out`, oldest first. Take them under the same lock as the step that set the
    /// flag, and run each detached from any call: no call may be cancelled or delayed with it.
    pub fn take_commands(&mut self, out: &mut Vec<StoreCommand>) {
        if !self.commands.is_empty() {
            self.journal.write(|| Input::Commands);
        }
        out.append(&mut self.commands);
    }

    /// Takes what came of a command. The first answer counts; later ones, and those to commands that this engine never
    /// gave or that a fork has made its parent's, change nothing. Drain wakes and commands under the same lock.
    pub fn on_reply(&mut self, command: CommandId, reply: Reply<'_>, now: Time) -> Flags {
        self.journal.write(|| Input::Reply { command, reply: reply.into(), now });
        let now = self.clock.observe(now);
        self.desk.chores.begin_step();
        self.fleet_desk().watch_store(now);
        if let Some(pending) = self.fleet.as_mut().and_then(|fleet| fleet.pending.remove(&command)) {
            if !pending.overdue {
                self.fleet_desk().settled(&pending);
            }
            self.fleet_desk().answered(command, pending, reply, now);
        }
        self.flags()
    }

    /// The rule that stands against a policy, where it wants what the store cannot give.
    pub(super) fn fleet_rule(&self, policy: &Policy) -> Option<&'static str> {
        let rate = policy.rate_limit.as_ref().is_some_and(|it| it.fleet.is_some());
        let breaker = policy.breaker.as_ref().is_some_and(|it| it.fleet.is_some());
        let slots = policy.bulkhead.as_ref().is_some_and(|it| it.fleet.is_some());
        let latency = policy.bulkhead.as_ref().is_some_and(|it| it.fleet_latency);
        let quorum = policy.breaker.as_ref().and_then(|it| it.fleet.as_ref()).is_some_and(|it| it.quorum > 1);
        let Some(fleet) = &self.fleet else {
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
}
