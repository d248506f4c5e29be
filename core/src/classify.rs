//! From HTTP to outcomes (semantics 1.4, 2.2).

mod answers;

pub(crate) use answers::{Answers, KINDS};

use crate::outcome::{Class, Opinion, Outcome};
use crate::policy::Policy;
use crate::retry::Hints;
use crate::time::WallTime;

/// The head of an HTTP answer, for classification.
#[derive(Clone, Copy, Debug)]
pub struct HttpFailure<'a> {
    /// Its status.
    pub status: u16,
    /// Its headers; only those are read that say when to retry, what is left of a quota, or why the answer failed.
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
/// The server's own opinion (`x-should-retry`) overrides the list. `body` is as much as has been read of the answer.
pub(crate) fn classify(policy: &Policy, failure: &HttpFailure<'_>, body: &[u8], wall: WallTime) -> Outcome {
    let listed = || policy.retry.statuses.binary_search(&failure.status).is_ok();
    if failure.status >= 400
        && let Some(answers) = &policy.retry.answers
    {
        return answers.outcome(failure, body, listed(), wall);
    }
    let class = class_of_status(failure.status);
    if class == Class::Ok {
        return Outcome::of(class);
    }
    let hints = Hints::read(failure.headers, class == Class::Throttled, wall);
    let opinion = match hints.opinion {
        Opinion::None if class.retryable() && !listed() => Opinion::DoNot,
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
            classify(&policy, &HttpFailure { status, headers }, b"", WallTime::from_unix_micros(0))
        };
        assert_eq!(outcome(503, &[]), Outcome::of(Class::Transient));
        assert_eq!(outcome(500, &[]), Outcome { opinion: Opinion::DoNot, ..Outcome::of(Class::Transient) });
        assert_eq!(outcome(404, &[]), Outcome::of(Class::Permanent));
        assert_eq!(outcome(204, &[(b"retry-after", b"9")]), Outcome::of(Class::Ok));
        assert_eq!(outcome(500, &[(b"x-should-retry", b"true")]).opinion, Opinion::Retry);
        assert_eq!(outcome(503, &[(b"x-should-retry", b"false")]).opinion, Opinion::DoNot);
        assert_eq!(outcome(429, &[]).kind, Class::Throttled.into());
    }

    /// Semantics 1.4.7 and 1.4.8.
    #[test]
    fn a_policy_says_which_statuses_throttle_and_whether_409_is_a_conflict() {
        let outcome = |pairs: &[_], status| {
            let policy = Policy::from_pairs("p", pairs).unwrap();
            classify(&policy, &HttpFailure { status, headers: &[] }, b"", WallTime::from_unix_micros(0))
        };
        let list = |key, statuses: &[f64]| {
            statuses.iter().map(|status| (key, Value::Number(*status))).collect::<Vec<_>>()
        };
        let usual = list("retry.statuses", &[429.0, 503.0]);
        assert_eq!(outcome(&usual, 429), Outcome::of(Class::Throttled));
        assert_eq!(outcome(&usual, 409), Outcome::of(Class::Permanent));
        let conflicts = list("retry.statuses", &[409.0]);
        assert_eq!(outcome(&conflicts, 409), Outcome::of(Class::Conflict));
        let throttled = [usual, list("retry.throttled_statuses", &[503.0, 529.0])].concat();
        assert_eq!(outcome(&throttled, 503), Outcome::of(Class::Throttled));
        assert_eq!(outcome(&throttled, 429), Outcome::of(Class::Transient));
        let unlisted = Outcome { opinion: Opinion::DoNot, ..Outcome::of(Class::Throttled) };
        assert_eq!(outcome(&throttled, 529), unlisted);
    }

    /// Semantics 15.5.1 to 15.5.3: the answer is read where the policy asks for it, and nowhere else.
    #[test]
    fn a_spent_quota_is_a_kind_of_its_own() {
        let body = br#"{"error": {"code": "insufficient_quota"}}"#;
        let outcome = |pairs: &[_]| {
            let policy = Policy::from_pairs("p", pairs).unwrap();
            let failure = HttpFailure { status: 429, headers: &[] };
            let outcome = classify(&policy, &failure, body, WallTime::from_unix_micros(0));
            (policy.name_of(outcome.kind).unwrap().to_owned(), policy.class_of(outcome.kind))
        };
        let read = ("retry.read_errors", Value::Number(1.0));
        assert_eq!(outcome(&[("preset", Value::Text("http"))]), ("throttled".into(), Class::Throttled));
        assert_eq!(outcome(&[read]), ("quota_spent".into(), Class::Permanent));
        let own = ("kinds", Value::Text("quota_spent=throttled"));
        assert_eq!(outcome(&[read, own]), ("quota_spent".into(), Class::Throttled));
    }

    /// Semantics 1.1.7: lists may name the kinds, but they cannot be retried while they are permanent.
    #[test]
    fn kinds_of_read_errors_can_be_named() {
        let policy = |pairs: &[(&str, Value<'_>)]| {
            let read = [("retry.read_errors", Value::Number(1.0))];
            let built = Policy::from_pairs("p", &[pairs, &read].concat());
            built.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let breaker = [
            ("breaker.consecutive", Value::Number(3.0)),
            ("breaker.break_duration", Value::Number(1e6)),
            ("breaker.failure_on", Value::Text("unauthorized")),
        ];
        assert!(policy(&breaker).is_ok());
        let rule = "retry.retry_on = \"too_long\": is based on permanent, which can never be retried";
        assert_eq!(policy(&[("retry.retry_on", Value::Text("too_long"))]).unwrap_err(), [rule]);
        let kinds: Vec<_> = (0..20).map(|n| format!("k{n}=transient")).collect();
        let many: Vec<_> = kinds.iter().map(|kind| ("kinds", Value::Text(kind))).collect();
        let rule = "kinds = (20 kinds): at most 19 kinds can be declared beside those of retry.read_errors";
        assert_eq!(policy(&many).unwrap_err(), [rule]);
        assert!(policy(&many[1..]).is_ok());
    }

    #[test]
    fn methods_are_case_sensitive() {
        let set = Methods::default().with("GET").with("QUERY");
        assert!(set.contains("GET") && set.contains("QUERY"));
        assert!(!set.contains("get") && !set.contains("POST") && !set.contains("NONSENSE"));
    }
}
