//! Routes that hold a component for others: pools, and the targets of a group. They are in no index and on no list, and
//! are never evicted.

use super::{MOST_ROUTES, Route, Routes, SharedPools};
use crate::action::RouteId;
use crate::engine::place::PoolAt;
use crate::policy::Policy;
use crate::time::Time;

/// The most pools and targets of an engine.
const MOST_POOLED: usize = 1 << 18;

// An id can name them all, with an overflow route for each policy.
const _: () = assert!(MOST_ROUTES as usize + MOST_POOLED + (1 << 16) < 1 << RouteId::SLOT_BITS);

impl Routes {
    /// Creates a pool.
    pub(in crate::engine) fn pool(&mut self, policy: &Policy, now: Time) -> PoolAt {
        let slot = self.insert(Route::new(u16::MAX, policy, SharedPools::OWN, policy.name().into(), now));
        self.pools_in(slot, SharedPools::OWN);
        self.slots[slot.index()].is_pool = true;
        self.pooled += 1;
        slot.own()
    }

    /// The rule that so many more pools and targets break, if any.
    pub(in crate::engine) fn rule_against_pools(&self, more: usize) -> Option<&'static str> {
        (self.pooled as usize + more > MOST_POOLED).then_some(
            "an engine holds at most 262,144 pools and targets; make them once, not per call, or use several engines",
        )
    }

    /// As if there were so many pools that only `room` more fit. Returns how many those are, for [`Routes::empty`].
    #[cfg(test)]
    pub(in crate::engine) fn fill_up(&mut self, room: usize) -> u32 {
        let many = (MOST_POOLED - room) as u32 - self.pooled;
        self.pooled += many;
        many
    }

    #[cfg(test)]
    pub(in crate::engine) fn empty(&mut self, many: u32) {
        self.pooled -= many;
    }

    pub(in crate::engine) fn check_number_of_pools(&self) -> Result<(), String> {
        let there = self.slots.iter().filter(|it| it.is_pool && !it.free).count();
        let noted = self.pooled;
        if noted as usize == there {
            Ok(())
        } else {
            Err(format!("{noted} pools and targets noted, {there} there"))
        }
    }

    /// Frees the slot of a pool that no policy names.
    pub(in crate::engine) fn remove_pool(&mut self, home: PoolAt) {
        self.pooled -= 1;
        self.retire(home.route());
    }
}
