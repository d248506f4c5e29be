//! Answers of services that say more than their status (semantics 1.4.7 to 1.4.9, 15.5).

use super::{HttpFailure, class_of_status};
use crate::answer::{Failure, Meaning, Quotas};
use crate::outcome::{Class, Kind, Opinion, Outcome};
use crate::retry::Hints;
use crate::time::{Duration, WallTime};

/// How a policy reads answers, where it says more than a list of statuses to retry.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Answers {
    /// The statuses that ask for less load, in order.
    pub(crate) throttled: Vec<u16>,
    /// The kinds of the four meanings that have one, in their order; `None` where the policy does not read why an
    /// answer failed.
    pub(crate) kinds: Option<[Kind; 4]>,
}

/// The kinds that policies with `retry.read_errors` have beside their own, in the order of [`Meaning`]. Their class
/// is `permanent`.
pub(crate) const KINDS: [&str; 4] = [
    Meaning::QuotaSpent.name(),
    Meaning::Unauthorized.name(),
    Meaning::TooLong.name(),
    Meaning::ContentRefused.name(),
];

impl Answers {
    /// The class of a status; `listed` says whether the policy retries it.
    fn class_of(&self, status: u16, listed: bool) -> Class {
        match status {
            _ if self.throttled.binary_search(&status).is_ok() => Class::Throttled,
            409 if listed => Class::Conflict,
            429 => Class::Transient,
            _ => class_of_status(status),
        }
    }

    /// The outcome of an answer with a status from 400 on. `body` is as much of it as the host has read.
    pub(super) fn outcome(
        &self,
        failure: &HttpFailure<'_>,
        body: &[u8],
        listed: bool,
        wall: WallTime,
    ) -> Outcome {
        let by_status = self.class_of(failure.status, listed);
        let (kind, class, wait) = self.read(failure, body, by_status);
        let throttled = class == Class::Throttled;
        let hints = Hints::read(failure.headers, false, wall);
        let quotas = || {
            let hints = Hints::read(failure.headers, true, wall).retry_after;
            let more = || Quotas::read(failure.headers, wall).wait();
            hints.or_else(|| self.kinds.and_then(|_| more()))
        };
        let waits = hints.retry_after.or(wait);
        let opinion = match hints.opinion {
            // The list is of statuses: it does not apply where the words of the answer have given another class.
            Opinion::None if class.retryable() && class == by_status && !listed => Opinion::DoNot,
            opinion => opinion,
        };
        Outcome { kind, opinion, retry_after: if throttled { waits.or_else(quotas) } else { waits } }
    }

    /// The kind of an answer, its class, and the wait that its body names.
    fn read(
        &self,
        failure: &HttpFailure<'_>,
        body: &[u8],
        by_status: Class,
    ) -> (Kind, Class, Option<Duration>) {
        let unread = (by_status.into(), by_status, None);
        let Some(kinds) = self.kinds else { return unread };
        let Some(found) = Failure::read(failure.status, failure.headers, body) else { return unread };
        if let Some(kind) = kinds.get(found.meaning as usize) {
            return (*kind, Class::Permanent, found.retry_after);
        }
        // A meaning that the status has by itself says no more than the policy's own lists of statuses.
        let class = if Meaning::of_status(failure.status) == Some(found.meaning) {
            by_status
        } else {
            found.meaning.class()
        };
        (class.into(), class, found.retry_after)
    }
}
