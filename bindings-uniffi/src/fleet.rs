//! The fleet's store: commands out, replies in. Conversions and nothing else. Swift has no host for it
//! (`docs/swift.md` says why), and the JVM's is `dev.tidegate.fleet`.

use std::sync::Arc;

use parking_lot::Mutex;
use rand::TryRng as _;
use rand::rngs::SysRng;
use tidegate::fleet::{CommandId, MemoryStore as Core, Reply, StoreKind};

use crate::{Engine, Invalid, time};

/// One command for the store, whole.
#[derive(Clone, PartialEq, Eq, Debug, uniffi::Record)]
pub struct StoreCommand {
    /// What its answer is given back under.
    pub id: u64,
    /// The command's name and its arguments.
    pub words: Vec<Vec<u8>>,
    /// The place of the word that a cluster routes by.
    pub key: u8,
    /// Microseconds that its answer may take.
    pub within_us: u64,
}

/// What came of a command.
#[derive(Clone, PartialEq, Eq, Debug, uniffi::Enum)]
pub enum StoreReply {
    /// The store's answer: a text as it came, an integer as its decimal text, nil as nothing.
    Answer {
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// The store's error.
    Error {
        /// Its text.
        text: String,
    },
    /// No answer: whether the command was carried out is not known.
    Lost,
}

/// Draws the number by which the store knows this process, from the operating system's random source.
fn entropy() -> Result<u64, Invalid> {
    SysRng
        .try_next_u64()
        .map_err(|error| Invalid::Argument { reason: format!("no random number for the process: {error}") })
}

#[uniffi::export]
impl Engine {
    /// Attaches the store that a fleet shares its state through: `lua` for Redis and Valkey, `plain` for one that forbids
    /// scripts. Keys begin with `namespace`; empty is `tidegate`.
    pub fn attach_store(&self, kind: &str, namespace: &str, now: u64) -> Result<(), Invalid> {
        let Some(kind) = StoreKind::ALL.into_iter().find(|known| known.name() == kind) else {
            return Err(Invalid::Argument { reason: format!("kind = {kind}: must be lua or plain") });
        };
        let process = entropy()?;
        let mut state = self.state.lock();
        let flags = state.core.attach_store(kind, namespace, process, time(now));
        state.drain(flags);
        Ok(())
    }

    /// The commands for the store, oldest first, each to be run detached from any call. A step's flags say that there are any.
    pub fn take_commands(&self) -> Vec<StoreCommand> {
        let mut commands = Vec::new();
        self.state.lock().core.take_commands(&mut commands);
        let carried = commands.into_iter().map(|command| StoreCommand {
            id: command.id.to_word(),
            words: command.words,
            key: command.key,
            within_us: command.within.as_micros(),
        });
        carried.collect()
    }

    /// Takes what came of a command. Ask `take_woken` then, and `take_commands` if it says so.
    pub fn on_reply(&self, command: u64, reply: StoreReply, now: u64) -> bool {
        let reply = match &reply {
            StoreReply::Answer { bytes } => Reply::Bytes(bytes),
            StoreReply::Error { text } => Reply::Error(text.as_bytes()),
            StoreReply::Lost => Reply::Lost,
        };
        let mut state = self.state.lock();
        let flags = state.core.on_reply(CommandId::from_word(command), reply, time(now));
        state.drain(flags);
        flags.commands
    }
}

/// A store in memory: what Redis would answer to an engine's commands.
#[derive(Debug, Default, uniffi::Object)]
pub struct MemoryStore(Mutex<Core>);

#[uniffi::export]
impl MemoryStore {
    /// An empty one.
    #[uniffi::constructor]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Carries out one command, at a moment of the clock that stands for the server's.
    pub fn execute(&self, words: Vec<Vec<u8>>, now_us: u64) -> StoreReply {
        match self.0.lock().execute(&words, now_us) {
            Ok(bytes) => StoreReply::Answer { bytes },
            Err(text) => StoreReply::Error { text },
        }
    }

    /// What it holds: a line a key.
    pub fn describe(&self, now_us: u64) -> Vec<String> {
        self.0.lock().describe(now_us)
    }
}
