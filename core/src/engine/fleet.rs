//! The fleet's store as the engine sees it: commands out, replies in, and whether it is there (semantics 10).
//!
//! The store is never on the way of a call that can do without it. One health for the whole engine: the first loss takes
//! it down, then nobody waits for it, and one command a second or less, carried by whatever is due, tries it again.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Engine, Input};
use crate::action::Flags;
use crate::fleet::{CommandId, Reply, StoreCommand, StoreKind};
use crate::policy::Policy;
use crate::time::Time;

/// The namespace of keys where none is given.
const NAMESPACE: &str = "tidegate";

/// The longest namespace, in bytes.
const LONGEST_NAMESPACE: usize = 100;

/// What an engine knows of its fleet.
#[derive(Debug)]
#[expect(dead_code, reason = "the components that speak with the store come in the next steps")]
pub(super) struct Fleet {
    kind: StoreKind,
    namespace: Box<str>,
    /// Commands out, by their id: oldest first.
    pending: BTreeMap<CommandId, Pending>,
}

/// A command that has not been answered.
#[derive(Debug)]
struct Pending {
    /// When its answer is overdue.
    due: Time,
}

impl Engine {
    /// Attaches the store through which a fleet shares its state, before the first policy that says `store = "fleet"`.
    /// The engine itself talks to nobody: it hands its host commands ([`Engine::take_commands`]) and is told what came of
    /// them ([`Engine::on_reply`]).
    ///
    /// Keys begin with `namespace`, by default (where it is empty) `tidegate`: fleets that have nothing to do with each
    /// other but share a server have different ones. Braces, bars and control characters in it are escaped, and it is cut
    /// at 100 bytes. An engine has one store: attaching another changes nothing.
    pub fn attach_store(&mut self, kind: StoreKind, namespace: &str, now: Time) -> Flags {
        self.write(|| Input::Store { kind, namespace: namespace.into(), now });
        self.clock.observe(now);
        if self.fleet.is_none() {
            let name = if namespace.is_empty() { NAMESPACE } else { namespace };
            let cut = name.char_indices().find(|(place, c)| place + c.len_utf8() > LONGEST_NAMESPACE);
            let name = cut.map_or(name, |(end, _)| &name[..end]);
            self.fleet =
                Some(Box::new(Fleet { kind, namespace: escaped(name).into(), pending: BTreeMap::new() }));
        }
        self.flags()
    }

    /// Moves the commands for the store into `out`, oldest first. Take them under the same lock as the step that set the
    /// flag, and run each detached from any call: no call may be cancelled or delayed with it.
    pub fn take_commands(&mut self, out: &mut Vec<StoreCommand>) {
        if !self.commands.is_empty() {
            self.write(|| Input::Commands);
        }
        out.append(&mut self.commands);
    }

    /// Takes what came of a command. The first answer counts; later ones, and those to commands that this engine never
    /// gave or that a fork has made its parent's, change nothing. Drain wakes and commands under the same lock.
    pub fn on_reply(&mut self, command: CommandId, reply: Reply<'_>, now: Time) -> Flags {
        self.write(|| Input::Reply { command, reply: reply.into(), now });
        let now = self.clock.observe(now);
        if let Some(fleet) = &mut self.fleet
            && let Some(pending) = fleet.pending.remove(&command)
        {
            let _ = (pending.due, now);
        }
        self.flags()
    }

    /// The rule that stands against a policy, where it wants what the store cannot give.
    pub(super) fn fleet_rule(&self, policy: &Policy) -> Option<&'static str> {
        let rate = policy.rate_limit.as_ref().is_some_and(|it| it.fleet.is_some());
        let breaker = policy.breaker.as_ref().is_some_and(|it| it.fleet.is_some());
        let slots = policy.bulkhead.as_ref().is_some_and(|it| it.fleet.is_some());
        let latency = policy.bulkhead.as_ref().is_some_and(|it| it.fleet_latency);
        match &self.fleet {
            None if rate => Some("rate_limit.store = fleet needs a store: attach one to the engine first"),
            None if breaker => Some("breaker.store = fleet needs a store: attach one to the engine first"),
            None if slots => Some("bulkhead.store = fleet needs a store: attach one to the engine first"),
            None if latency => {
                Some("bulkhead.latency_store = fleet needs a store: attach one to the engine first")
            }
            Some(_) if rate => Some("rate_limit.store = fleet is not built yet: leave it local"),
            Some(_) if breaker => Some("breaker.store = fleet is not built yet: leave it local"),
            Some(_) if slots => Some("bulkhead.store = fleet is not built yet: leave it local"),
            Some(_) if latency => Some("bulkhead.latency_store = fleet is not built yet: leave it local"),
            _ => None,
        }
    }

    /// In the child of a fork: commands and their answers are the parent's.
    pub(super) fn fork_fleet(&mut self) {
        self.commands.clear();
        if let Some(fleet) = &mut self.fleet {
            fleet.pending.clear();
        }
    }
}

/// A name as a part of a key: what parts keys, braces (which say where a key lives) and control characters by their
/// numbers.
pub(super) fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        if matches!(c, '%' | '{' | '}' | '|') || c.is_control() {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(text, "%{byte:02x}");
            }
        } else {
            text.push(c);
        }
    }
    text
}
