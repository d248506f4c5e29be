//! What a route's cooldown knows of the fleet's. `cooldown.rs` has the commands and the answers.

use crate::fleet::CommandId;
use crate::policy::CooldownPart;
use crate::time::Time;

/// What a route's cooldown knows of the fleet's.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Closing {
    /// The fleet's last closing that this process knows of; 0 means none.
    pub(super) epoch: u64,
    /// The latest end that the store has answered about.
    pub(super) known_until: Time,
    /// When the state was last read.
    pub(super) asked_at: Option<Time>,
    /// Number of commands without an answer.
    pub(super) out: u32,
    /// The newest answered command; answers to older ones are ignored.
    pub(super) heard: CommandId,
}

impl Closing {
    /// Creates the state for a cooldown of the fleet; `None` for any other.
    pub fn of(cooldown: &CooldownPart) -> Option<Box<Self>> {
        let it = Self {
            epoch: 0,
            known_until: Time::default(),
            asked_at: None,
            out: 0,
            heard: CommandId::from_word(0),
        };
        cooldown.fleet.then(|| Box::new(it))
    }

    /// After a fork: the commands belong to the parent.
    pub fn forget(&mut self) {
        self.out = 0;
    }
}
