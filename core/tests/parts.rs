//! The lone parts that hosts share (`tidegate::parts`).

use tidegate::parts::{Strategy, error_info};
use tidegate::{Backoff, Duration, ErrorInfo, Growth, Jitter, QuotaSettings};

const WAIT: Duration = Duration::from_millis(10);

fn strategy(max_attempts: u32, quota: Option<QuotaSettings>, retry_unknown: bool) -> Strategy {
    let backoff = Backoff { growth: Growth::Constant, base: WAIT, max: WAIT, jitter: Jitter::None };
    Strategy::new(max_attempts, backoff, quota, retry_unknown, 7)
}

fn error(safe: Option<bool>) -> ErrorInfo {
    error_info(safe, None, false, false)
}

#[test]
fn a_refused_token_says_why_and_keeps_its_count_and_wait() {
    let mut it = strategy(2, None, false);
    let first = it.acquire("s");
    assert_eq!((first.retry_count(), first.retry_delay(), first.refused()), (0, Duration::ZERO, 0));
    let second = it.refresh(first, error(Some(true)));
    assert_eq!((second.retry_count(), second.retry_delay(), second.refused()), (1, WAIT, 0));
    let third = it.refresh(second, error(Some(true)));
    assert_eq!((third.retry_count(), third.retry_delay(), third.refused()), (1, WAIT, 1), "attempts");
    assert_eq!(it.refresh(first, error(Some(false))).refused(), 2, "not safe");
    assert_eq!(it.refresh(first, error(None)).refused(), 2, "not known");
    assert_eq!(strategy(2, None, true).refresh(first, error(None)).refused(), 0);
    assert_eq!(it.available("s"), None, "there is no quota");
    let named = it.refresh(first, error_info(Some(true), Some(25_000), true, false));
    assert_eq!(named.retry_delay(), Duration::from_millis(25));
}

#[test]
fn a_spent_quota_names_the_wait_that_it_has_refused_and_belongs_to_its_scope() {
    let quota = QuotaSettings { capacity: 5, cost: 5, timeout_cost: 10, throttled_cost: 5 };
    let mut it = strategy(9, Some(quota), false);
    let first = it.acquire("a");
    let second = it.refresh(first, error(Some(true)));
    assert_eq!((second.refused(), it.available("a"), it.available("b")), (0, Some(0), Some(5)));
    let third = it.refresh(first, error(Some(true)));
    assert_eq!((third.retry_count(), third.retry_delay(), third.refused()), (0, WAIT, 3));
    it.record_success(second);
    assert_eq!(it.available("a"), Some(5), "the retry's cost came back");
    let other = it.acquire("b");
    assert_eq!(
        it.refresh(other, error_info(Some(true), None, false, true)).refused(),
        3,
        "a timeout costs 10"
    );
}
