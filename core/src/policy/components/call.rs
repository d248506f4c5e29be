//! Keys of the whole call, which belong to no component.

use super::prelude::*;
use crate::policy::presets;

keys! {
    /// The keys of every call.
    KEYS:
    PRESET = "preset", Domain::Choice(presets::NAMES), "",
        "The built-in policy to start from.";
    DEADLINE = "deadline", span(MICRO), "",
        "Time for the whole call: queueing, backoff, attempts and reading the body.";
    ATTEMPT_TIMEOUT = "attempt_timeout", span(MICRO), "",
        "Time for one attempt; running out of it is retryable.";
    SLOT_UNTIL = "slot_until", Domain::Choice(&["body", "headers"]), "body",
        "How long a streamed answer keeps its slot and its deadline.";
}

keys! {
    /// The keys of declared kinds of failure, and of the fleet's store.
    MORE_KEYS:
    KINDS = "kinds", Domain::Kinds, "",
        "Kinds of failure of your own, each with the class that it is based on, at most 23; retry_on, failure_on and ignore_on may name them.";
    STORE_TIMEOUT = "store_timeout", span(Duration::from_millis(1)), "50ms",
        "Where a component is fleet-wide: how long a call waits for the store's answer, and the engine for any; then on_loss holds.";
    STORE_EXCHANGE = "store_exchange", span(Duration::from_millis(1)), "250ms",
        "Where breaker or latencies are fleet-wide: how often they are exchanged, at most; an opening is written at once.";
}

/// What every policy may have.
pub(in crate::policy) const COMPONENT: Component = Component { keys: KEYS, ..NOTHING };

/// What declared kinds and the fleet's store add to it.
pub(in crate::policy) const MORE: Component = Component { keys: MORE_KEYS, check: check_kinds, ..NOTHING };

/// Keys that do nothing without a component.
pub(in crate::policy) const NO_COMPONENTS: [&str; 7] =
    [PRESET, SLOT_UNTIL, KINDS, STORE_TIMEOUT, STORE_EXCHANGE, "deadline_until", "counts"];

/// The kinds of failure that a policy declares.
fn check_kinds(settings: &Settings, errors: &mut Vec<PolicyError>) {
    use crate::policy::domain::MOST_KINDS;

    let count = settings.values.get(KINDS).map_or(0, Vec::len);
    let added = settings.kinds().len().saturating_sub(count);
    let most = MOST_KINDS - added;
    if count > most {
        let beside = if added == 0 { "" } else { " beside those of retry.read_errors" };
        let rule = text::of(&["at most ", &text::whole(most as u64), " kinds can be declared", beside]);
        let count = text::of(&["(", &text::whole(count as u64), " kinds)"]);
        errors.push(PolicyError::new(KINDS, count, rule));
    }
    for (at, name) in settings.kinds.iter().enumerate() {
        if settings.kinds[..at].iter().filter(|other| *other == name).count() == 1 {
            errors.push(PolicyError::new(KINDS, quoted(name), "is declared more than once"));
        }
    }
}
