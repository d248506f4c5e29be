//! From HTTP to outcomes (semantics 1.4, 2.2).

use crate::outcome::{Class, Opinion, Outcome};
use crate::policy::Policy;
use crate::retry::Hints;
use crate::time::WallTime;

/// The head of an HTTP answer, for classification.
#[derive(Clone, Copy, Debug)]
pub struct HttpFailure<'a> {
    /// Its status.
    pub status: u16,
    /// Its headers; only those that say when to retry are read.
    pub headers: &'a [(&'a [u8], &'a [u8])],
}

/// The class of an HTTP status: below 400 ok, 429 throttled, 408 and 5xx transient, other 4xx permanent.
pub const fn class_of_status(status: u16) -> Class {
    match status {
        0..=399 => Class::Ok,
        429 => Class::Throttled,
        408 | 500.. => Class::Transient,
        400..=499 => Class::Permanent,
    }
}

/// The outcome of an answer under a policy. A status outside the policy's list is not retried, whatever its class.
/// The server's own opinion (`x-should-retry`) overrides the list.
pub(crate) fn classify(policy: &Policy, failure: &HttpFailure<'_>, wall: WallTime) -> Outcome {
    let class = class_of_status(failure.status);
    if class == Class::Ok {
        return Outcome::of(class);
    }
    let hints = Hints::read(failure.headers, class == Class::Throttled, wall);
    let listed = policy.retry.statuses.binary_search(&failure.status).is_ok();
    let opinion = match hints.opinion {
        Opinion::None if class.retryable() && !listed => Opinion::DoNot,
        opinion => opinion,
    };
    Outcome { kind: class.into(), opinion, retry_after: hints.retry_after }
}

/// Methods a policy can name.
pub const METHODS: &[&str] = &["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "QUERY", "TRACE", "POST", "PATCH"];

/// A set of [`METHODS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Methods(u16);

impl Methods {
    /// Adds a method to the set; an unknown name changes nothing.
    pub(crate) fn with(self, name: &str) -> Self {
        Self(self.0 | Self::bit(name))
    }

    /// Whether this method is in the set. Methods are case-sensitive (RFC 9110, 9.1).
    pub(crate) fn contains(self, name: &str) -> bool {
        self.0 & Self::bit(name) != 0
    }

    fn bit(name: &str) -> u16 {
        METHODS.iter().position(|method| *method == name).map_or(0, |place| 1 << place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Value;

    #[test]
    fn statuses_outside_the_list_are_failures_that_are_not_retried() {
        let policy = Policy::from_pairs("p", &[("preset", Value::Text("http"))]).unwrap();
        let outcome = |status, headers: &[(&[u8], &[u8])]| {
            classify(&policy, &HttpFailure { status, headers }, WallTime::from_unix_micros(0))
        };
        assert_eq!(outcome(503, &[]), Outcome::of(Class::Transient));
        assert_eq!(outcome(500, &[]), Outcome { opinion: Opinion::DoNot, ..Outcome::of(Class::Transient) });
        assert_eq!(outcome(404, &[]), Outcome::of(Class::Permanent));
        assert_eq!(outcome(204, &[(b"retry-after", b"9")]), Outcome::of(Class::Ok));
        assert_eq!(outcome(500, &[(b"x-should-retry", b"true")]).opinion, Opinion::Retry);
        assert_eq!(outcome(503, &[(b"x-should-retry", b"false")]).opinion, Opinion::DoNot);
        assert_eq!(outcome(429, &[]).kind, Class::Throttled.into());
    }

    #[test]
    fn methods_are_case_sensitive() {
        let set = Methods::default().with("GET").with("QUERY");
        assert!(set.contains("GET") && set.contains("QUERY"));
        assert!(!set.contains("get") && !set.contains("POST") && !set.contains("NONSENSE"));
    }
}
