//! What calls of a small engine never do: they are not nested, not held, and make one attempt at a time.

use super::automaton::State;
use super::place::Slot;
use crate::action::{CallId, Request};
use crate::outcome::Class;
use crate::policy::Policy;

pub(super) const ENDS_PLAINLY: bool = false;

#[inline(always)]
pub(super) fn parent(_: u32, _: u32) -> Slot {
    Slot::NONE
}

#[inline(always)]
pub(super) fn is_held(_: State) -> bool {
    false
}

#[inline(always)]
pub(super) fn races_on(_: u8) -> bool {
    false
}

#[inline(always)]
pub(super) fn enclosing(_: &Request) -> Option<CallId> {
    None
}

#[inline(always)]
pub(super) fn only_hedges(_: &Policy) -> bool {
    false
}

#[inline(always)]
pub(super) fn asks_for_less(_: Class) -> bool {
    false
}
