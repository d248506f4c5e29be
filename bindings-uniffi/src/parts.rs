//! Core's parts on their own: conversions and nothing else, as in `lib.rs`.
//!
//! Settings are the pairs of a policy and are checked by core as those of a policy, so that no range and no default stands
//! here. Moments are microseconds on a clock of the user's, whose origin does not matter; spans are microseconds too.

pub mod breaker;
pub mod budgets;
pub mod delay;
pub mod limit;
pub mod quantile;
pub mod rate;
pub mod strategy;

use tidegate::{Duration, Policy, parts};

use crate::{Invalid, checked};

type Pairs = Vec<crate::Pair>;

pub(crate) use crate::time;

fn span(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// A wait; `u64::MAX` where waiting does not help.
fn until(wait: Duration) -> u64 {
    if wait == Duration::MAX { u64::MAX } else { wait.as_micros() }
}

fn argument(reason: impl Into<String>) -> Invalid {
    Invalid::Argument { reason: reason.into() }
}

/// The settings of a part, out of the pairs of a policy that has nothing else.
fn settings<S>(pairs: &Pairs, of: impl FnOnce(&Policy) -> Option<S>) -> Result<S, Invalid> {
    // Other pairs than this part's are a mistake of the foreign half.
    let missing = || argument("these are not the settings of this part");
    of(&checked("part", pairs)?).ok_or_else(missing)
}

/// The one of these with this name.
fn named<T: Copy>(key: &str, value: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, Invalid> {
    parts::named(key, value, all, name).map_err(argument)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pair, Value};

    fn number(key: &str, value: f64) -> Pair {
        Pair { key: key.into(), value: Value::Number { value } }
    }

    #[test]
    fn a_breaker_opens_refuses_and_probes() {
        let pairs = vec![number("breaker.consecutive", 2.0), number("breaker.break_duration", 1e6)];
        let breaker = breaker::CircuitBreaker::new(pairs, None, 7).unwrap();
        for _ in 0..2 {
            let ticket = breaker.admit(0).unwrap();
            breaker.record(ticket, "failure", 0, None).unwrap();
        }
        let wait = breaker.refuses(0).unwrap();
        assert_eq!((breaker.state().as_str(), wait >= 1_000_000), ("open", true));
        assert!(breaker.admit(wait - 1).is_none() && breaker.admit(wait).unwrap().probe);
        let wrong = breaker.record(breaker::Ticket { number: 1, probe: false }, "fine", 0, None).unwrap_err();
        assert_eq!(wrong.to_string(), "evidence = \"fine\": must be one of success, failure, neutral");
    }

    #[test]
    fn settings_are_checked_as_those_of_a_policy() {
        let Err(error) = rate::TokenBucket::new(vec![number("rate_limit.permits", 0.0)], 0) else {
            panic!("no rate limit has no permits")
        };
        assert!(error.to_string().contains("rate_limit.permits = 0: "), "{error}");
    }
}
