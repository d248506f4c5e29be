//! The fleet: state that many processes share through Redis or Valkey (semantics 10).
//!
//! The engine writes complete commands and parses complete replies. A host carries them on the client library that
//! its users already have. The host needs no knowledge of scripts or keys, repeats no command, and parses nothing:
//!
//! 1. [`Engine::attach_store`](crate::Engine::attach_store), once, before the first policy that says `store = "fleet"`.
//! 2. Whenever a step's flags say `commands`: [`Engine::take_commands`](crate::Engine::take_commands), under the lock of
//!    that step. Each command is run detached from any call, routed by the word that [`StoreCommand::key`] names, and
//!    given up after [`StoreCommand::within`].
//! 3. With each result: [`Engine::on_reply`](crate::Engine::on_reply). Then take the wakes, and the commands again.

mod memory;
mod reason;
mod scripts;

pub use memory::MemoryStore;
pub use reason::{Loss, reason};
pub use scripts::{BREAKER, COOLDOWN, DIGEST, LIMITS, MOST_ITEMS, PROLOGUE, RATE, SCRIPTS, SLOTS, Script};

use crate::time::Duration;

/// Id of a command, from 1 on. The first answer to it counts; later ones, and unknown ids, change nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommandId(u64);

impl CommandId {
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The id as a number below 2^53.
    pub const fn to_word(self) -> u64 {
        self.0
    }

    /// The id for a host's number. Any number is safe: an unknown one changes nothing.
    pub const fn from_word(word: u64) -> Self {
        Self(word & ((1 << 53) - 1))
    }
}

/// Capabilities of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// Redis 5 or newer, or Valkey: it runs scripts (`EVALSHA`, `EVAL`).
    Lua,
    /// A service that forbids scripts: plain commands only. Rates are kept in windows, and breakers as keys with an
    /// expiry. The engine rejects a quorum, and bulkheads and latencies of the fleet.
    Plain,
}

impl StoreKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Lua, Self::Plain];

    /// The name in every language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lua => "lua",
            Self::Plain => "plain",
        }
    }
}

/// One complete command for the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreCommand {
    /// Id to return with its answer.
    pub id: CommandId,
    /// The command's name and its arguments, as they go over the wire.
    pub words: Vec<Vec<u8>>,
    /// Index in `words` of the key by which a cluster routes. All keys of a command are in one slot.
    pub key: u8,
    /// Timeout for its answer; after that the result is [`Reply::Lost`].
    pub within: Duration,
}

/// Result of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply<'a> {
    /// The store's answer: a bulk string unchanged, an integer as its decimal text, nil as no bytes.
    Bytes(&'a [u8]),
    /// The store's error: its text without the protocol's sign: `NOSCRIPT No matching script`.
    Error(&'a [u8]),
    /// No answer: timeout, connection refused or broken, client closed. Whether the command was executed is unknown.
    Lost,
}

/// An owned reply, for the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // as `Reply`
pub enum KeptReply {
    Bytes(Box<[u8]>),
    Error(Box<[u8]>),
    Lost,
}

impl From<Reply<'_>> for KeptReply {
    fn from(reply: Reply<'_>) -> Self {
        match reply {
            Reply::Bytes(bytes) => Self::Bytes(bytes.into()),
            Reply::Error(text) => Self::Error(text.into()),
            Reply::Lost => Self::Lost,
        }
    }
}

impl KeptReply {
    /// The reply in the form that the engine takes.
    pub fn as_reply(&self) -> Reply<'_> {
        match self {
            Self::Bytes(bytes) => Reply::Bytes(bytes),
            Self::Error(text) => Reply::Error(text),
            Self::Lost => Reply::Lost,
        }
    }
}
