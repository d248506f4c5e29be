//! A store that is slow, lost, or answers twice: what carries commands between an engine and a [`MemoryStore`].

use std::collections::BTreeMap;

use tidegate::fleet::{CommandId, KeptReply, MemoryStore, Reply, StoreCommand};

use super::host::Host;

/// The store's clock at the beginning of a scenario. No event sets it.
const CLOCK: u64 = 1_700_000_000_000_000;

/// What becomes of the commands that are sent from now on.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Carried out and answered at once.
    #[default]
    Answered,
    /// Answered after 20 ms.
    Slow,
    /// Never carried out.
    Lost,
    /// Carried out; the answer is lost.
    Unanswered,
    /// Carried out at once; answered only after the host has reported it as lost.
    Late,
    /// Answered at once, and again after 20 ms.
    Twice,
    /// Refused by the store with an error.
    Refused,
}

pub const FATES: [Fate; 8] = [
    Fate::Answered,
    Fate::Lost,
    Fate::Unanswered,
    Fate::Answered,
    Fate::Late,
    Fate::Slow,
    Fate::Twice,
    Fate::Refused,
];

/// The store, and the answers on their way.
pub struct Store {
    memory: MemoryStore,
    pub fate: Fate,
    /// By the moment of arrival, in µs that have passed since the beginning, then in the order of sending.
    answers: BTreeMap<(u64, u64), (CommandId, KeptReply)>,
    sent: u64,
}

impl Store {
    pub fn new() -> Self {
        Self { memory: MemoryStore::new(), fate: Fate::default(), answers: BTreeMap::new(), sent: 0 }
    }

    /// Takes a command: carries it out, or not, and arranges its answers.
    fn send(&mut self, command: &StoreCommand, passed: u64) {
        let within = passed + command.within.as_micros();
        let mut arrives = |at: u64, reply: KeptReply| {
            self.sent += 1;
            self.answers.insert((at, self.sent), (command.id, reply));
        };
        match self.fate {
            Fate::Lost => return arrives(within, KeptReply::Lost),
            Fate::Refused => return arrives(passed, KeptReply::Error((*b"READONLY You can't write").into())),
            _ => {}
        }
        let reply = match self.memory.execute(&command.words, CLOCK + passed) {
            Ok(bytes) => KeptReply::Bytes(bytes.into()),
            Err(text) => KeptReply::Error(text.into_bytes().into()),
        };
        match self.fate {
            Fate::Unanswered => arrives(within, KeptReply::Lost),
            Fate::Late => {
                arrives(within, KeptReply::Lost);
                arrives(within + 1_000, reply);
            }
            Fate::Slow => {
                arrives(within.min(passed + 20_000), reply);
            }
            Fate::Twice => {
                arrives(passed, reply.clone());
                arrives(passed + 20_000, reply);
            }
            _ => arrives(passed, reply),
        }
    }

    /// Forgets the answers on their way: their process has ended.
    pub fn hang_up(&mut self) {
        self.answers.clear();
    }

    fn next(&mut self, passed: u64) -> Option<(CommandId, KeptReply)> {
        let first = self.answers.first_entry().filter(|first| first.key().0 <= passed)?;
        Some(first.remove())
    }

    /// When the next answer arrives.
    pub fn due(&self) -> Option<u64> {
        self.answers.keys().next().map(|at| at.0)
    }
}

impl Host {
    /// Carries commands to the store, and its answers that are due back.
    pub(super) fn carry(&mut self) {
        let now = self.now();
        let Some(store) = &mut self.store else { return };
        for _ in 0..64 {
            let mut commands = Vec::new();
            self.engine.take_commands(&mut commands);
            for command in &commands {
                store.send(command, self.passed);
            }
            let Some((id, reply)) = store.next(self.passed) else { break };
            let reply: Reply<'_> = reply.as_reply();
            let _ = self.engine.on_reply(id, reply, now);
        }
    }
}
