//! Timeouts of a stream (semantics 7.7): the first piece, silence between pieces, and where the deadline ends.
//!
//! The host notes when a piece came, and reports how long ago that was when the call's timer fires. So a piece costs no
//! event and no timer.

use super::Options;
use super::arena::{Arena, Call, flag};
use super::automaton::State;
use super::call::limit;
use super::call_extra::STREAM;
use super::fleet::{Fleet, rule_against as rule_of_fleet};
use super::place::Slot;
use super::policies::Policies;
use crate::policy::{Policy, Stream};
use crate::time::{Duration, Time};

/// Why a host that does not serve streams refuses a policy.
const NOT_SERVED: &str = "this language does not serve first_byte_timeout, idle_timeout, deadline_until and counts yet: leave \
     them out";

/// What a report of silence means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Silence {
    /// Nothing: the policy bounds no silence, or the deadline has passed.
    Any,
    /// The next report is due then.
    Until(Time),
    /// It has lasted for `idle_timeout`.
    TooLong,
}

impl Options {
    /// The rule that a policy breaks because the host does not serve streams, or the store does not offer what it needs.
    pub(super) fn rule_against(&self, fleet: Option<&Fleet>, policy: &Policy) -> Option<&'static str> {
        let refused = !self.streams && policy.stream.is_some() && policy.has_own_streams();
        if refused { Some(NOT_SERVED) } else { rule_of_fleet(fleet, policy) }
    }
}

/// Time for an attempt to the first byte: that of the policy, if the answer is a stream.
#[cold]
#[inline(never)]
fn stream_limit(stream: &Stream, calls: &Arena, slot: Slot) -> Duration {
    if calls.marked(slot, STREAM) { stream.first_byte } else { Duration::MAX }
}

impl Policy {
    /// Time for an attempt until its answer is delivered: its timeout, and the first byte's if the answer is a stream.
    #[inline]
    pub(super) fn attempt_limit(&self, calls: &Arena, slot: Slot, attempt: u8) -> Duration {
        let timeout = self.timeout_of(calls, slot, attempt);
        match &self.stream {
            None => timeout,
            Some(stream) => timeout.min(stream_limit(stream, calls, slot)),
        }
    }

    /// The attempt timeout of an attempt: its target's own, or the policy's.
    #[inline]
    pub(super) fn timeout_of(&self, calls: &Arena, slot: Slot, attempt: u8) -> Duration {
        let own = if self.targets.is_some() { calls.timeout_at_target(slot, attempt) } else { None };
        own.unwrap_or(self.attempt_timeout)
    }
}

impl Policies {
    /// Bounds the time of an attempt that has just started at a target. Returns the call's next moment.
    #[cold]
    #[inline(never)]
    pub fn bound_at_target(&self, calls: &mut Arena, slot: Slot, now: Time) -> Time {
        let timeout = self.of(&calls[slot]).timeout_of(calls, slot, calls[slot].attempts);
        let end = limit(now, timeout);
        let call = &mut calls[slot];
        call.moment = end;
        end.min(call.deadline)
    }

    /// Bounds the time to the first byte of an attempt that has just started. Returns the call's next moment because of its
    /// stream.
    #[cold]
    #[inline(never)]
    pub fn bound_stream(&self, calls: &mut Arena, slot: Slot, now: Time) -> Time {
        let timeout = self.of(&calls[slot]).attempt_limit(calls, slot, calls[slot].attempts);
        let end = limit(now, timeout);
        let call = &mut calls[slot];
        call.moment = end;
        end.min(self.next_check(call, now))
    }

    /// This moment, or when the host is to report the silence of running attempts, whichever is earlier.
    #[inline]
    pub fn or_check(&self, call: &Call, until: Time, now: Time) -> Time {
        if self.of(call).stream.is_none() { until } else { until.min(self.next_check(call, now)) }
    }

    /// When the host is to report the silence of running attempts at the latest.
    #[cold]
    #[inline(never)]
    pub fn next_check(&self, call: &Call, now: Time) -> Time {
        match &self.of(call).stream {
            Some(stream) if call.has(flag::UNTIL_BODY) => limit(now, stream.idle),
            _ => Time::NEVER,
        }
    }

    /// The answer has been delivered: the deadline may end, and silence counts from now on.
    #[inline]
    pub fn deliver(&self, call: &mut Call, now: Time) {
        if let Some(stream) = &self.of(call).stream {
            call.moment = limit(now, stream.idle);
            if stream.until_delivery {
                call.deadline = Time::NEVER;
            }
        }
    }

    /// When a call that reads its body needs an event. A report that is due and has not come is due again after
    /// `idle_timeout`: a host that only polls has no stream that could stall.
    #[inline]
    pub fn body_until(&self, call: &mut Call, now: Time) -> Time {
        if call.moment <= now {
            call.moment = self.next_check(call, now);
        }
        call.deadline.min(call.moment)
    }

    /// Notes the report that the last piece of an attempt came `age` ago.
    pub fn silence(&self, call: &mut Call, age: Duration, now: Time) -> Silence {
        let idle = self.of(call).stream.as_ref().map_or(Duration::MAX, |stream| stream.idle);
        if idle == Duration::MAX || call.deadline <= now {
            return Silence::Any;
        }
        if age >= idle {
            return Silence::TooLong;
        }
        let check = now.after(idle.minus(age));
        if call.state() == State::Body {
            call.moment = check;
        }
        Silence::Until(check)
    }
}
