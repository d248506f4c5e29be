//! What a step leaves to the next ones, so that no step takes longer than others wait for the lock (ADR 0022).
//!
//! A step may hand out permits, tokens and places, refuse waiters and free calls: to any number of them. It does so for
//! [`MOST`] of them and notes the rest here. Whatever event comes next goes on with it, whoever's it is; and because
//! a step that leaves something wakes somebody who waits for it, an event comes at once.

use super::place::{PoolAt, RouteAt, Slot};

use super::Engine;

/// Calls that one step grants, refuses, takes back or frees, besides its own. At 0.2 to 0.5 µs each it stays below
/// 200 µs on slow machines too.
pub(super) const MOST: u32 = 256;

/// Slots of the arena that one step looks at for calls to refuse.
pub(super) const LOOKED_AT: u32 = 1_024;

/// Something that a step has not finished. Each is named by where it is, never by a call that may be gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Chore {
    /// Permits of a pool are free while calls wait.
    Permits(PoolAt),
    /// Grants of a pool that nobody has claimed in time are out.
    Grants(PoolAt),
    /// Tokens of a rate, a route's or its send rate's, are there while calls wait.
    Tokens(RouteAt, bool),
    /// A hold of a route has places while calls wait.
    Places(RouteAt, u16),
    /// Calls that have ended, and have nothing out any more, have not been freed: the innermost of them.
    Ended(Slot),
    /// A policy, or one of its routes, is forced open, and calls that wait have not been refused: those from this slot on.
    Forced { policy: u16, route: RouteAt, from: u32 },
    /// An operator has changed a policy, and its routes from this slot on have not taken that over.
    Changed { policy: u16, from: u32 },
    /// The permits of a pool have become the fleet's, or are so no more, and routes from this slot on do not know it.
    Leased { home: PoolAt, from: u32 },
    /// The store has no slots for a pool, or is gone (`false`), and calls that must not wait for them have not been refused.
    Unserved(PoolAt, bool),
    /// Policies that were removed have routes.
    Removed,
}

/// How much a step may still do, and what is left to do.
#[derive(Debug, Default)]
pub(super) struct Chores {
    left: Vec<Chore>,
    fuel: u32,
    /// What the step has done so far; for tests, which count work and not time.
    done: u32,
}

impl Chores {
    /// A step begins.
    #[inline]
    pub fn begin_step(&mut self) {
        (self.fuel, self.done) = (MOST, 0);
    }

    /// Is nothing left of earlier steps?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// May one more be done in this step? If not, `rest` is left to the next one.
    pub fn one_more(&mut self, rest: Chore) -> bool {
        self.so_many(1, rest)
    }

    /// May something be done in this step that counts for so many? If not, `rest` is left to the next one.
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

    /// Notes what is left to do, once.
    pub fn leave(&mut self, chore: Chore) {
        if !self.left.contains(&chore) {
            self.left.push(chore);
        }
    }

    /// Is this left to do?
    pub fn has(&self, chore: Chore) -> bool {
        self.left.contains(&chore)
    }

    /// Takes what is left to do, if this step may do more.
    pub fn take(&mut self) -> Vec<Chore> {
        if self.fuel == 0 { Vec::new() } else { core::mem::take(&mut self.left) }
    }

    /// Forgets what is left, after a fork.
    pub fn clear(&mut self) {
        self.left.clear();
    }

    /// Another change of a policy begins with its first route.
    pub fn clear_changed(&mut self, policy: u16) {
        self.left.retain(|chore| !matches!(chore, Chore::Changed { policy: of, .. } if *of == policy));
    }

    /// Takes back that calls of a policy, or of one of its routes, are to be refused.
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

    /// Is anything left of the last step to do? For tests and fuzzing.
    #[doc(hidden)]
    pub fn has_chores(&self) -> bool {
        !self.desk.chores.is_empty()
    }
}
