//! What calls of the full engine can do. `small.rs`, in its place, is about those of a small engine.

use super::automaton::State;
use super::place::Slot;
use crate::action::{CallId, Request};
use crate::outcome::Class;
use crate::policy::Policy;

/// Whether the end that most calls have takes the short way of `plain.rs`. A small engine saves the bytes.
pub(super) const ENDS_PLAINLY: bool = true;

/// The enclosing call of a call, from the word that has its slot, which is all ones where there is none.
#[inline]
pub(super) fn parent(slot: u32, none: u32) -> Slot {
    if slot == none { Slot::NONE } else { Slot::new(slot) }
}

/// Whether a call in this state waits for a place of a hold or of a cooldown.
#[inline]
pub(super) fn is_held(state: State) -> bool {
    state == State::Held
}

/// Whether attempts run on, one bit each, after one of them has been stopped.
#[inline]
pub(super) fn races_on(running: u8) -> bool {
    running != 0
}

/// The call that encloses a new one, if the host says so.
#[inline]
pub(super) fn enclosing(request: &Request) -> Option<CallId> {
    request.parent
}

/// Whether the policy's further attempts are hedges alone.
#[inline]
pub(super) fn only_hedges(policy: &Policy) -> bool {
    policy.retry.max_attempts == 1
}

/// Whether an outcome closes a route or holds a path, where the policy says so.
#[inline]
pub(super) fn asks_for_less(class: Class) -> bool {
    class == Class::Throttled
}
