//! Acquiring a permit for a call: a fast path, and a slow path (semantics 4).

use super::Engine;
use super::arena::flag;
use super::chores::Chore;
use super::place::{PoolAt, Slot};
use super::queue::Permit;
use crate::action::Verdict;
use crate::time::Time;

impl Engine {
    /// Asks the route's pool for a permit.
    #[cfg_attr(not(tidegate_small), inline(always))]
    pub(super) fn acquire(&mut self, slot: Slot, now: Time) -> Result<Permit, Verdict> {
        let call = &mut self.desk.calls[slot];
        let home = self.desk.routes[call.route].pool_at;
        if call.parent() == Slot::NONE
            && let Some(pool) = &mut self.desk.routes[home].pool
            && pool.granted.len() == 0
            && pool.admits()
        {
            pool.in_flight += 1;
            call.flags |= flag::HOLDS;
            return Ok(Permit::Held);
        }
        self.acquire_after_others(slot, home, now)
    }

    /// The slow path: first checks enclosing calls, and grants and waiters before this call.
    #[inline(never)]
    pub(super) fn acquire_after_others(
        &mut self,
        slot: Slot,
        home: PoolAt,
        now: Time,
    ) -> Result<Permit, Verdict> {
        if self.desk.calls[slot].has(flag::SHARES) || self.desk.share(slot) {
            return Ok(Permit::Held);
        }
        self.revoke_overdue(home, now);
        if self.desk.routes[home].slots.is_some() {
            return self.fleet_desk().acquire_in_fleet(slot, home, now);
        }
        self.desk.acquire_or_queue(slot, home, now)
    }

    /// Takes back grants that have been unclaimed for 5 s (R9).
    #[inline]
    pub(super) fn revoke_overdue(&mut self, home: PoolAt, now: Time) {
        while let Some(slot) = self.desk.routes[home].pool.as_ref().and_then(|pool| pool.granted.head())
            && self.desk.calls[slot].moment <= now
            && self.desk.chores.one_more(Chore::Grants(home))
        {
            self.lose(slot, now);
        }
    }
}
