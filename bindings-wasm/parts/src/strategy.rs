//! Retry tokens.

use tidegate::parts::{self, Drawn};
use tidegate::{Backoff, ErrorInfo, RetryError, RetryQuota, RetryStrategy, RetryToken};

use crate::slab::{keep, with};
use crate::texts::texts;
use crate::{checked, maybe, millis, span};

/// Makes a strategy with this backoff and with copies of this quota; −1 for no quota.
#[unsafe(no_mangle)]
pub extern "C" fn strategy(seed: u64, backoff: u32, quota: i32, retry_unknown: u32) -> f64 {
    checked(&|policy| {
        let backoff = with(backoff, |it: &mut Drawn<Backoff>| it.clone());
        let quota = (quota >= 0).then(|| with(quota as u32, |it: &mut RetryQuota| it.clone()));
        Some(keep(parts::strategy(policy, seed, &backoff, quota.as_ref(), retry_unknown != 0)))
    })
}

/// Makes the token of a call's first attempt; the input is its scope.
#[unsafe(no_mangle)]
pub extern "C" fn strategy_acquire(part: u32) -> u32 {
    let scope = texts(|it| it.text(0, usize::MAX));
    keep(with(part, |it: &mut RetryStrategy| it.acquire_initial(&scope)))
}

/// Makes the token of the next attempt and returns its handle, or a negative number: −1 if the attempts are used up, −2 if a retry
/// is not safe, −3 − d if the quota is spent, where d is the wait that the retry would have had. `safe`: 0 no, 1 yes, 2 unknown;
/// `retry_after`: NaN for none.
#[unsafe(no_mangle)]
pub extern "C" fn strategy_refresh(
    part: u32,
    token: u32,
    safe: u32,
    retry_after: f64,
    throttling: u32,
    timeout: u32,
) -> f64 {
    let error = ErrorInfo {
        is_retry_safe: (safe < 2).then_some(safe == 1),
        retry_after: (!retry_after.is_nan()).then(|| span(retry_after)),
        is_throttling_error: throttling != 0,
        is_timeout_error: timeout != 0,
    };
    let token = with(token, |it: &mut RetryToken| *it);
    match with(part, |it: &mut RetryStrategy| it.refresh(token, error)) {
        Ok(token) => keep(token).into(),
        Err(RetryError::Attempts) => -1.0,
        Err(RetryError::NotSafe) => -2.0,
        Err(RetryError::Quota(wait)) => -3.0 - millis(wait),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn strategy_success(part: u32, token: u32) {
    let token = with(token, |it: &mut RetryToken| *it);
    with(part, |it: &mut RetryStrategy| it.record_success(token));
}

/// Tokens left in the quota of the scope in the input; NaN without a quota.
#[unsafe(no_mangle)]
pub extern "C" fn strategy_available(part: u32) -> f64 {
    let scope = texts(|it| it.text(0, usize::MAX));
    maybe(with(part, |it: &mut RetryStrategy| it.available(&scope)).map(f64::from))
}

#[unsafe(no_mangle)]
pub extern "C" fn token_count(token: u32) -> u32 {
    with(token, |it: &mut RetryToken| it.retry_count)
}

#[unsafe(no_mangle)]
pub extern "C" fn token_delay(token: u32) -> f64 {
    millis(with(token, |it: &mut RetryToken| it.retry_delay))
}
