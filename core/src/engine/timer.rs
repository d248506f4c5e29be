//! Moments, and the one timer that a step may carry (R4).

use crate::action::{Action, Wait};
use crate::step::Step;
use crate::time::{Duration, Time};

/// End of a span; [`Time::NEVER`] for an unbounded span.
pub(super) fn limit(now: Time, span: Duration) -> Time {
    if span == Duration::MAX { Time::NEVER } else { now.after(span) }
}

/// The timer for a moment; `None` for [`Time::NEVER`].
pub(super) fn span(until: Time, now: Time) -> Option<Duration> {
    (until != Time::NEVER).then(|| until.since(now))
}

pub(super) fn wait(why: Wait, until: Time, now: Time) -> Step {
    Step::new(Action::Wait { why }, span(until, now))
}
