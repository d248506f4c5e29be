//! Work that a step leaves to later steps, so that no step holds the lock for long (ADR 0022).
//!
//! A step may have any number of permits, tokens and places to grant, waiters to refuse and calls to free. It handles
//! [`MOST`] of them and notes the rest here. The next event, of any call, continues the work. A step that leaves work
//! also wakes a waiter of that work, so an event follows at once.

use super::place::{PoolAt, RouteAt, Slot};

use super::Engine;

/// Calls that one step grants, refuses, takes back or frees, besides its own. At 0.2 to 0.5 µs each, that takes less
/// than 200 µs even on slow machines.
pub(super) const MOST: u32 = 256;

/// Slots of the arena that one step visits to find calls to refuse.
pub(super) const LOOKED_AT: u32 = 1_024;

/// Unfinished work of a step, named by its place, never by a call that may be gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Chore {
    /// Permits of a pool are free while calls wait.
    Permits(PoolAt),
    /// A pool has unclaimed grants whose time is over.
    Grants(PoolAt),
    /// A rate, a route's or its send rate, has tokens while calls wait.
    Tokens(RouteAt, bool),
    /// A hold of a route has places while calls wait.
    Places(RouteAt, u16),
    /// The cooldown of a route lets calls in while some wait.
    Cooled(RouteAt),
    /// Targets of a group may admit calls that wait.
    Targets(PoolAt),
    /// Calls that have ended and have no running attempts have not been freed; this is the innermost of them.
    Ended(Slot),
    /// A policy, or one of its routes, is forced open; waiters from this slot on have not been refused.
    Forced { policy: u16, route: RouteAt, from: u32 },
    /// An operator has changed a policy; its routes from this slot on have not applied the change.
    Changed { policy: u16, from: u32 },
    /// The permits of a pool have joined or left the fleet; routes from this slot on have not noted it.
    Leased { home: PoolAt, from: u32 },
    /// The store has no slots for a pool, or is gone (`false`); calls that must not wait for them have not been
    /// refused.
    Unserved(PoolAt, bool),
    /// Removed policies still have routes.
    Removed,
}

/// Remaining work budget of a step, and the work left to do.
#[derive(Debug, Default)]
pub(super) struct Chores {
    left: Vec<Chore>,
    fuel: u32,
    /// Work done in this step; tests count work instead of time.
    done: u32,
}

impl Chores {
    /// Begins a step.
    #[inline]
    pub fn begin_step(&mut self) {
        (self.fuel, self.done) = (MOST, 0);
    }

    /// Whether no work of earlier steps is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Whether this step may handle one more item. If not, leaves `rest` to the next step.
    pub fn one_more(&mut self, rest: Chore) -> bool {
        self.so_many(1, rest)
    }

    /// Whether this step may do work that counts as `count` items. If not, leaves `rest` to the next step.
    pub fn so_many(&mut self, count: u32, rest: Chore) -> bool {
        if self.fuel < count {
            self.fuel = 0;
            self.leave(rest);
            return false;
        }
        self.fuel -= count;
        self.done += count;
        true
    }

    /// Notes work left to do, once.
    pub fn leave(&mut self, chore: Chore) {
        if !self.left.contains(&chore) {
            self.left.push(chore);
        }
    }

    /// Whether this work is left to do.
    pub fn has(&self, chore: Chore) -> bool {
        self.left.contains(&chore)
    }

    /// Takes the work left to do, if this step may do more.
    pub fn take(&mut self) -> Vec<Chore> {
        if self.fuel == 0 { Vec::new() } else { core::mem::take(&mut self.left) }
    }

    /// Forgets the work left to do, after a fork.
    pub fn clear(&mut self) {
        self.left.clear();
    }

    /// Forgets an unfinished change of a policy, because a new change begins with its first route.
    pub fn clear_changed(&mut self, policy: u16) {
        self.left.retain(|chore| !matches!(chore, Chore::Changed { policy: of, .. } if *of == policy));
    }

    /// Forgets the unfinished refusal of calls of a policy, or of one of its routes.
    pub fn clear_forced(&mut self, policy: u16, route: RouteAt) {
        self.left.retain(|chore| {
            !matches!(chore, Chore::Forced { policy: of, route: at, .. }
                if *of == policy && (route == RouteAt::NONE || *at == route))
        });
    }
}

impl Engine {
    /// Calls that the last step granted, refused, took back or freed besides its own. For tests and fuzzing.
    #[doc(hidden)]
    pub fn work(&self) -> u32 {
        self.desk.chores.done
    }

    /// Whether the last step left work. For tests and fuzzing.
    #[doc(hidden)]
    pub fn has_chores(&self) -> bool {
        !self.desk.chores.is_empty()
    }
}
