//! Timeouts of a stream: their keys, and their settings in a policy.

use super::prelude::*;
use crate::policy::Policy;

keys! {
    /// The keys of streams.
    KEYS:
    FIRST_BYTE_TIMEOUT = "first_byte_timeout", span(MICRO), "",
        "Streams: time from an attempt's start to the first piece of its body that counts (a model's first token); running out of it is retryable.";
    IDLE_TIMEOUT = "idle_timeout", span(MICRO), "",
        "Time without a piece of the body that counts; once the answer is delivered, running out of it ends the call.";
    DEADLINE_UNTIL = "deadline_until", Domain::Choice(&["body", "delivery"]), "body",
        "Where the deadline ends: with the body, or where the answer is handed to the caller.";
    COUNTS = "counts", Domain::Choice(&["bytes", "sse_data"]), "bytes",
        "Which pieces of a body count: all bytes, or data of server-sent events, without comments and pings.";
}

/// What the timeouts of a stream add to policies.
pub(in crate::policy) const COMPONENT: Component = Component { keys: KEYS, check, ..NOTHING };

/// The timeouts of a stream.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Stream {
    /// From an attempt's start to the first piece that counts; [`Duration::MAX`] without one.
    pub(crate) first_byte: Duration,
    /// Between two pieces that count; [`Duration::MAX`] without one.
    pub(crate) idle: Duration,
    /// Whether the deadline ends at the delivery.
    pub(crate) until_delivery: bool,
    /// Whether only data of server-sent events count.
    pub(crate) events: bool,
}

impl Policy {
    /// Whether the policy's author gave a key of a stream.
    pub(crate) fn has_own_streams(&self) -> bool {
        KEYS.iter().any(|key| self.is_own(key.path))
    }
}

impl Settings {
    /// Whether any key of a stream is given.
    pub(in crate::policy) fn streams(&self) -> bool {
        KEYS.iter().any(|key| self.given(key.path))
    }

    pub(in crate::policy) fn stream(&self) -> Stream {
        Stream {
            first_byte: self.span_or_none(FIRST_BYTE_TIMEOUT),
            idle: self.span_or_none(IDLE_TIMEOUT),
            until_delivery: self.word(DEADLINE_UNTIL) == "delivery",
            events: self.word(COUNTS) == "sse_data",
        }
    }
}

fn check(settings: &Settings, errors: &mut Vec<PolicyError>) {
    if settings.given(IDLE_TIMEOUT) && settings.word(call::SLOT_UNTIL) == "headers" {
        let value = settings.span(IDLE_TIMEOUT).text();
        let rule = "slot_until = \"headers\" ends the call before its body is read: leave one of them out";
        errors.push(PolicyError::new(IDLE_TIMEOUT, value, rule));
    }
    if settings.given(COUNTS) && !settings.given(FIRST_BYTE_TIMEOUT) && !settings.given(IDLE_TIMEOUT) {
        let rule = "means something only beside first_byte_timeout or idle_timeout";
        errors.push(PolicyError::new(COUNTS, quoted(settings.word(COUNTS)), rule));
    }
}
