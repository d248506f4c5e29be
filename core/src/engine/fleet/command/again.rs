//! Sending a command again with its script, because the store does not know the script.

use crate::engine::fleet::Sender;
use crate::engine::fleet::command::{Pending, Subject};
use crate::engine::stage::missing;
use crate::time::Time;

impl Sender<'_> {
    /// Sends a command again with the script itself: the store did not know the script, so the command had no effect.
    pub(in crate::engine::fleet) fn send_source(&mut self, pending: Pending, now: Time) {
        if let Some(home) = self.routes.still_fleets(&pending) {
            match pending.subject {
                Subject::Rate { .. } | Subject::Set(_) => self.routes.rate_sent(home.own()),
                Subject::Breaker { .. } => self.routes.breaker_sent(home),
                Subject::Cooldown { .. } => self.routes.cooldown_out(home, true),
                Subject::Slots { op, .. } => self.routes.slots_sent(home.own(), op),
                Subject::Window { .. } | Subject::Mark { .. } => {} // never by name
                Subject::Digest => self.routes.digest_out(home.own(), true),
            }
        }
        let Some(fleet) = self.store.fleet.as_mut() else {
            return missing("the store of a component of the fleet's");
        };
        // The second command must not prolong the wait of a call.
        let within = pending.due.since(now);
        let command = fleet.command(Pending { by_name: false, sent: now, within, ..pending });
        self.store.commands.push(command);
    }
}
