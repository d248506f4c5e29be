// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Retry tokens: the standard retry interface of the Smithy SDKs.

use crate::handles::{keep, with};
use crate::texts::texts;
use crate::{asked, checked, maybe, millis};
use tidegate::parts::{Drawn, attempts, error_info};
use wasm_bindgen::prelude::wasm_bindgen;

/// Retries so far: 0 for the first attempt.
#[wasm_bindgen]
pub fn retry_token_retry_count(part: u32) -> f64 {
    with(part, |it: &mut tidegate::parts::Attempt| it.retry_count()).into()
}

/// How long to wait before the attempt. The caller waits.
#[wasm_bindgen]
pub fn retry_token_retry_delay(part: u32) -> f64 {
    millis(with(part, |it: &mut tidegate::parts::Attempt| it.retry_delay()))
}

/// Why there is no further attempt: 1 attempts, 2 not safe, 3 quota; or 0.
#[wasm_bindgen]
pub fn retry_token_refused(part: u32) -> f64 {
    with(part, |it: &mut tidegate::parts::Attempt| it.refused()).into()
}

/// A new one.
#[wasm_bindgen]
pub fn retry_strategy(backoff: u32, quota: i32, retry_unknown: u32, seed: u64) -> f64 {
    checked(&|policy| {
        Some(keep(tidegate::parts::Strategy::new(
            attempts(policy)?,
            with(backoff, |it: &mut Drawn<tidegate::Backoff>| **it),
            (quota >= 0).then(|| with(quota as u32, |it: &mut tidegate::RetryQuota| it.settings())),
            retry_unknown != 0,
            seed,
        )))
    })
}

/// The token of a call's first attempt, without a wait. Each scope has a quota of its own.
#[wasm_bindgen]
pub fn retry_strategy_acquire_initial_retry_token(part: u32, scope: u32) -> u32 {
    let scope = &texts(|it| it.text(0, scope as usize));
    keep(with(part, |it: &mut tidegate::parts::Strategy| it.acquire(scope)))
}

/// The token of the next attempt, in exchange for that of the failed one.
#[wasm_bindgen]
pub fn retry_strategy_refresh_retry_token_for_retry(
    part: u32,
    token: u32,
    error: u32,
    after: f64,
    throttling: u32,
    timeout: u32,
) -> u32 {
    let token = with(token, |it: &mut tidegate::parts::Attempt| *it);
    let error = error_info((error < 2).then_some(error == 1), asked(after), throttling != 0, timeout != 0);
    keep(with(part, |it: &mut tidegate::parts::Strategy| it.refresh(token, error)))
}

/// A call has succeeded with this token: its scope gets the cost of the last retry back.
#[wasm_bindgen]
pub fn retry_strategy_record_success(part: u32, token: u32) {
    let token = with(token, |it: &mut tidegate::parts::Attempt| *it);
    with(part, |it: &mut tidegate::parts::Strategy| it.record_success(token));
}

/// Tokens left in a scope's quota; `None` without quotas.
#[wasm_bindgen]
pub fn retry_strategy_available(part: u32, scope: u32) -> f64 {
    let scope = &texts(|it| it.text(0, scope as usize));
    maybe(with(part, |it: &mut tidegate::parts::Strategy| it.available(scope)).map(f64::from))
}
