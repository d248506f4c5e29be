//! Continues the work that earlier steps left (`chores.rs`).

use std::collections::BTreeMap;

use super::Engine;
use super::automaton::State;
use super::chores::Chore;
use super::fleet::Part;
use crate::time::Time;

impl Engine {
    /// Continues the work that earlier steps left, if this step may do more.
    #[cold]
    #[inline(never)]
    pub(super) fn go_on_with_chores(&mut self, now: Time) {
        for chore in self.desk.chores.take() {
            match chore {
                Chore::Permits(home) => self.desk.hand_out(home, now),
                Chore::Grants(home) => self.revoke_overdue(home, now),
                Chore::Tokens(route, sending) => {
                    self.fleet_desk().hand_out_rate(route, sending, now);
                }
                Chore::Places(route, gate) => self.desk.let_through(route, gate, now),
                Chore::Cooled(route) => self.desk.let_in(route, now),
                Chore::Targets(home) => self.desk.hand_out_targets(home, now),
                Chore::Ended(slot) => {
                    let call = &self.desk.calls[slot];
                    // Its own reaper may have freed the call, and another call may use its slot.
                    if call.state() == State::Ended && call.attempt_slots == 0 && call.children == 0 {
                        self.settle(slot, now);
                    }
                }
                Chore::Forced { policy, route, from } => {
                    self.fleet_desk().refuse_waiting(policy, route, from, now);
                }
                Chore::Changed { policy, from } => {
                    self.fleet_desk().change_routes(policy, from, &mut BTreeMap::new(), now);
                }
                Chore::Leased { home, from } => {
                    self.desk.routes.mark_users_leased(home, from, &mut self.desk.chores);
                }
                // If the store has been lost or has come back since, that event decides about the remaining calls.
                Chore::Unserved(home, up) => {
                    if up == self.store.is_up(&self.desk.routes, home, Part::Slots) {
                        self.desk.refuse_unserved(home, up, now);
                    }
                }
                Chore::Removed => {
                    self.desk.policies.remove_leaving(&mut self.desk.routes, &mut self.desk.chores);
                }
            }
        }
    }
}
