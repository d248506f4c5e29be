//! The stages that a call passes on a route, one bit each: a route without stages costs nothing to pass.

use crate::full::rare_flag;
use crate::policy::{Policy, Unit};

/// A hold or a cooldown; a policy has at most one of them.
pub const HOLD: u16 = rare_flag(1);
pub const RATE: u16 = 1 << 1;
pub const POOL: u16 = 1 << 2;
pub const BREAKER: u16 = 1 << 3;
pub const THROTTLE: u16 = rare_flag(1 << 4);
/// The last stage before an attempt: the send rate, or the choice of a target. No policy has both.
pub const SEND: u16 = rare_flag(1 << 5);
/// Its permits are leases of the fleet, which must be renewed.
pub const LEASED: u16 = rare_flag(1 << 6);
pub const FORCED: u16 = 1 << 7;
/// Something counts its calls and their outcomes without refusing a call: a retry budget, its own or a pool's, or hedges.
pub const BOOKS: u16 = 1 << 8;

/// Among the stages that a further attempt passes, where [`FORCED`] means nothing: an attempt has moments beside its
/// timeout, a hedge's or those of a stream.
pub const TIMED: u16 = FORCED;

/// The stages that judge a route by its outcomes. A policy has one of them at most.
pub const GUARDS: u16 = BREAKER | THROTTLE;

/// The unit that the breaker or the throttle of a policy counts.
pub fn guarded_unit(policy: &Policy) -> Option<Unit> {
    policy.breaker.as_ref().map(|it| it.unit).or(policy.throttle.as_ref().map(|it| it.unit))
}

/// The stages that a further attempt of a call passes: those whose unit is the attempt, and the send rate; and
/// [`TIMED`].
pub fn asked_again(policy: &Policy) -> u16 {
    let by_attempt = |unit: Option<Unit>, bits: u16| if unit == Some(Unit::Attempt) { bits } else { 0 };
    let cooldown = if policy.cooldown.is_some() { HOLD } else { 0 };
    let timed = if policy.hedge.is_some() || policy.stream.is_some() { TIMED } else { 0 };
    SEND | cooldown
        | timed
        | by_attempt(policy.rate_limit.as_ref().map(|limit| limit.unit), RATE)
        | by_attempt(policy.bulkhead.as_ref().map(|bulkhead| bulkhead.unit), POOL)
        | by_attempt(guarded_unit(policy), GUARDS)
}

/// Stages that may refuse a call or make it wait.
pub const GATES: u16 = HOLD | RATE | POOL | GUARDS | SEND;
