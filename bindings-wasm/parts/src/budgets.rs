// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! How many retries: the budgets, of every kind.

use crate::handles::{keep, with};
use crate::{checked, maybe, numbered, time};
use tidegate::parts::PAID_FOR;
use wasm_bindgen::prelude::wasm_bindgen;

/// A new one.
#[wasm_bindgen]
pub fn earned_budget() -> f64 {
    checked(&|policy| {
        Some(keep(tidegate::EarnedBudget::new(match policy.budget()? {
            tidegate::BudgetSettings::Earned(it) => it,
            _ => return None,
        })))
    })
}

/// Counts one call, which has started, however many attempts it makes.
#[wasm_bindgen]
pub fn earned_budget_on_call(part: u32, now: f64) {
    let now = time(now);
    with(part, |it: &mut tidegate::EarnedBudget| it.on_call(now));
}

/// Reports an answer: a success or a permanent error. At most once per call.
#[wasm_bindgen]
pub fn earned_budget_on_answer(part: u32, now: f64) {
    let now = time(now);
    with(part, |it: &mut tidegate::EarnedBudget| it.on_answer(now));
}

/// Takes one retry, if one is available.
#[wasm_bindgen]
pub fn earned_budget_try_withdraw(part: u32, now: f64) -> u32 {
    let now = time(now);
    with(part, |it: &mut tidegate::EarnedBudget| it.try_withdraw(now)).into()
}

/// Refunds a retry that was withdrawn and never started.
#[wasm_bindgen]
pub fn earned_budget_refund(part: u32, now: f64) {
    let now = time(now);
    with(part, |it: &mut tidegate::EarnedBudget| it.refund(now));
}

/// Whole retries that could be taken now.
#[wasm_bindgen]
pub fn earned_budget_balance(part: u32, now: f64) -> f64 {
    let now = time(now);
    with(part, |it: &mut tidegate::EarnedBudget| it.balance(now)) as f64
}

/// A new one.
#[wasm_bindgen]
pub fn retry_budget() -> f64 {
    checked(&|policy| {
        Some(keep(tidegate::RetryBudget::new(match policy.budget()? {
            tidegate::BudgetSettings::Window(it) => it,
            _ => return None,
        })))
    })
}

/// Counts one call, however many attempts it makes.
#[wasm_bindgen]
pub fn retry_budget_deposit(part: u32, now: f64) {
    let now = time(now);
    with(part, |it: &mut tidegate::RetryBudget| it.deposit(now));
}

/// Takes one retry, if one is available.
#[wasm_bindgen]
pub fn retry_budget_try_withdraw(part: u32, now: f64) -> u32 {
    let now = time(now);
    with(part, |it: &mut tidegate::RetryBudget| it.try_withdraw(now)).into()
}

/// Refunds a retry withdrawn at the moment `withdrawn` that was never started.
#[wasm_bindgen]
pub fn retry_budget_refund(part: u32, withdrawn: f64, now: f64) {
    let withdrawn = time(withdrawn);
    let now = time(now);
    with(part, |it: &mut tidegate::RetryBudget| it.refund(withdrawn, now));
}

/// Retries that could be taken now.
#[wasm_bindgen]
pub fn retry_budget_balance(part: u32, now: f64) -> f64 {
    let now = time(now);
    with(part, |it: &mut tidegate::RetryBudget| it.balance(now)) as f64
}

/// A new one.
#[wasm_bindgen]
pub fn ratio_budget() -> f64 {
    checked(&|policy| {
        Some(keep(tidegate::RatioBudget::new(match policy.budget()? {
            tidegate::BudgetSettings::Ratio(it) => it,
            _ => return None,
        })))
    })
}

/// Counts one call, however many attempts it makes.
#[wasm_bindgen]
pub fn ratio_budget_on_call(part: u32) {
    with(part, |it: &mut tidegate::RatioBudget| it.on_call());
}

/// Takes one retry, if it is free or one is available.
#[wasm_bindgen]
pub fn ratio_budget_try_withdraw(part: u32) -> u32 {
    with(part, |it: &mut tidegate::RatioBudget| it.try_withdraw()).into()
}

/// Refunds a retry that was paid for and never started; not one that was free.
#[wasm_bindgen]
pub fn ratio_budget_refund(part: u32) {
    with(part, |it: &mut tidegate::RatioBudget| it.refund());
}

/// Whether a retry would be free now, because there have been few calls.
#[wasm_bindgen]
pub fn ratio_budget_is_free(part: u32) -> u32 {
    with(part, |it: &mut tidegate::RatioBudget| it.is_free()).into()
}

/// Whole retries that could be taken now.
#[wasm_bindgen]
pub fn ratio_budget_balance(part: u32) -> f64 {
    with(part, |it: &mut tidegate::RatioBudget| it.balance()) as f64
}

/// A new one.
#[wasm_bindgen]
pub fn share_budget() -> f64 {
    checked(&|policy| {
        Some(keep(tidegate::ShareBudget::new(match policy.budget()? {
            tidegate::BudgetSettings::Share(it) => it,
            _ => return None,
        })))
    })
}

/// Takes one retry, while `calls` are in flight (0 to 2^32 − 1).
#[wasm_bindgen]
pub fn share_budget_try_acquire(part: u32, calls: u32) -> u32 {
    with(part, |it: &mut tidegate::ShareBudget| it.try_acquire(calls)).into()
}

/// A retry that was taken has ended, or will not start.
#[wasm_bindgen]
pub fn share_budget_on_end(part: u32) {
    with(part, |it: &mut tidegate::ShareBudget| it.on_end(true));
}

/// Retries that could be taken now, while `calls` are in flight.
#[wasm_bindgen]
pub fn share_budget_balance(part: u32, calls: u32) -> f64 {
    with(part, |it: &mut tidegate::ShareBudget| it.balance(calls)) as f64
}

/// Retries in flight.
#[wasm_bindgen]
pub fn share_budget_in_flight(part: u32) -> f64 {
    with(part, |it: &mut tidegate::ShareBudget| it.in_flight()).into()
}

/// A new one.
#[wasm_bindgen]
pub fn token_budget() -> f64 {
    checked(&|policy| {
        Some(keep(tidegate::TokenBudget::new(match policy.budget()? {
            tidegate::BudgetSettings::Tokens(it) => it,
            _ => return None,
        })))
    })
}

/// A retryable failure, first attempts included.
#[wasm_bindgen]
pub fn token_budget_on_failure(part: u32) {
    with(part, |it: &mut tidegate::TokenBudget| it.on_failure());
}

/// A success.
#[wasm_bindgen]
pub fn token_budget_on_success(part: u32) {
    with(part, |it: &mut tidegate::TokenBudget| it.on_success());
}

/// Whether a retry is allowed now.
#[wasm_bindgen]
pub fn token_budget_allows(part: u32) -> u32 {
    with(part, |it: &mut tidegate::TokenBudget| it.allows()).into()
}

/// Failures until retries are refused.
#[wasm_bindgen]
pub fn token_budget_balance(part: u32) -> f64 {
    with(part, |it: &mut tidegate::TokenBudget| it.balance()) as f64
}

/// A new one.
#[wasm_bindgen]
pub fn retry_quota() -> f64 {
    checked(&|policy| {
        Some(keep(tidegate::RetryQuota::new(match policy.budget()? {
            tidegate::BudgetSettings::Quota(it) => it,
            _ => return None,
        })))
    })
}

/// Pays for a retry after a failure of this kind: the cost, or `None` if the tokens are too few.
#[wasm_bindgen]
pub fn retry_quota_try_acquire(part: u32, kind: u32) -> f64 {
    let kind = numbered(kind, &PAID_FOR);
    maybe(with(part, |it: &mut tidegate::RetryQuota| it.try_acquire(kind)).map(f64::from))
}

/// Reports a success of a call whose last retry cost `cost`: 0 if it had none.
#[wasm_bindgen]
pub fn retry_quota_on_success(part: u32, cost: u32) {
    let cost = cost as u16;
    with(part, |it: &mut tidegate::RetryQuota| it.on_success(cost));
}

/// Refunds the charge of a retry that was never started; 0 to 65,535.
#[wasm_bindgen]
pub fn retry_quota_refund(part: u32, cost: u32) {
    let cost = cost as u16;
    with(part, |it: &mut tidegate::RetryQuota| it.refund(cost));
}

/// Tokens left.
#[wasm_bindgen]
pub fn retry_quota_available(part: u32) -> f64 {
    with(part, |it: &mut tidegate::RetryQuota| it.available()).into()
}
