//! Retry budgets, of every kind.

use tidegate::{
    BudgetSettings, Class, EarnedBudget, RatioBudget, RetryBudget, RetryQuota, ShareBudget, TokenBudget,
};

use crate::slab::{Quota, keep, with};
use crate::{checked, time};

/// A budget of the kind that its settings name.
#[unsafe(no_mangle)]
pub extern "C" fn budget() -> f64 {
    checked(|policy| {
        Some(match policy.budget()? {
            BudgetSettings::Earned(settings) => keep(EarnedBudget::new(settings)),
            BudgetSettings::Window(settings) => keep(RetryBudget::new(settings)),
            BudgetSettings::Ratio(settings) => keep(RatioBudget::new(settings)),
            BudgetSettings::Share(settings) => keep(ShareBudget::new(settings)),
            BudgetSettings::Tokens(settings) => keep(TokenBudget::new(settings)),
            BudgetSettings::Quota(settings) => keep(Quota { part: RetryQuota::new(settings), settings }),
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn earned_call(part: u32, now: f64) {
    with(part, |it: &mut EarnedBudget| it.on_call(time(now)));
}

#[unsafe(no_mangle)]
pub extern "C" fn earned_answer(part: u32, now: f64) {
    with(part, |it: &mut EarnedBudget| it.on_answer(time(now)));
}

#[unsafe(no_mangle)]
pub extern "C" fn earned_withdraw(part: u32, now: f64) -> u32 {
    with(part, |it: &mut EarnedBudget| it.try_withdraw(time(now))).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn earned_refund(part: u32, now: f64) {
    with(part, |it: &mut EarnedBudget| it.refund(time(now)));
}

#[unsafe(no_mangle)]
pub extern "C" fn earned_balance(part: u32, now: f64) -> f64 {
    with(part, |it: &mut EarnedBudget| it.balance(time(now))) as f64
}

#[unsafe(no_mangle)]
pub extern "C" fn window_deposit(part: u32, now: f64) {
    with(part, |it: &mut RetryBudget| it.deposit(time(now)));
}

#[unsafe(no_mangle)]
pub extern "C" fn window_withdraw(part: u32, now: f64) -> u32 {
    with(part, |it: &mut RetryBudget| it.try_withdraw(time(now))).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn window_refund(part: u32, charged: f64, now: f64) {
    with(part, |it: &mut RetryBudget| it.refund(time(charged), time(now)));
}

#[unsafe(no_mangle)]
pub extern "C" fn window_balance(part: u32, now: f64) -> f64 {
    with(part, |it: &mut RetryBudget| it.balance(time(now))) as f64
}

#[unsafe(no_mangle)]
pub extern "C" fn ratio_call(part: u32) {
    with(part, |it: &mut RatioBudget| it.on_call());
}

#[unsafe(no_mangle)]
pub extern "C" fn ratio_withdraw(part: u32) -> u32 {
    with(part, |it: &mut RatioBudget| it.try_withdraw()).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn ratio_free(part: u32) -> u32 {
    with(part, |it: &mut RatioBudget| it.is_free()).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn ratio_refund(part: u32) {
    with(part, |it: &mut RatioBudget| it.refund());
}

#[unsafe(no_mangle)]
pub extern "C" fn ratio_balance(part: u32) -> f64 {
    with(part, |it: &mut RatioBudget| it.balance()) as f64
}

#[unsafe(no_mangle)]
pub extern "C" fn share_acquire(part: u32, calls: u32) -> u32 {
    with(part, |it: &mut ShareBudget| it.try_acquire(calls)).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn share_end(part: u32) {
    with(part, |it: &mut ShareBudget| it.on_end(true));
}

#[unsafe(no_mangle)]
pub extern "C" fn share_balance(part: u32, calls: u32) -> f64 {
    with(part, |it: &mut ShareBudget| it.balance(calls)) as f64
}

#[unsafe(no_mangle)]
pub extern "C" fn share_in_flight(part: u32) -> f64 {
    with(part, |it: &mut ShareBudget| it.in_flight()).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn tokens_failure(part: u32) {
    with(part, |it: &mut TokenBudget| it.on_failure());
}

#[unsafe(no_mangle)]
pub extern "C" fn tokens_success(part: u32) {
    with(part, |it: &mut TokenBudget| it.on_success());
}

#[unsafe(no_mangle)]
pub extern "C" fn tokens_allow(part: u32) -> u32 {
    with(part, |it: &mut TokenBudget| it.allows()).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn tokens_balance(part: u32) -> f64 {
    with(part, |it: &mut TokenBudget| it.balance()) as f64
}

/// Pays for a retry after a failure: 0 transient, 1 timeout, 2 throttled. The cost, or −1 where there is not enough.
#[unsafe(no_mangle)]
pub extern "C" fn quota_acquire(part: u32, kind: u32) -> f64 {
    let class = match kind {
        1 => Class::Timeout,
        2 => Class::Throttled,
        _ => Class::Transient,
    };
    with(part, |it: &mut Quota| it.part.try_acquire(class)).map_or(-1.0, f64::from)
}

#[unsafe(no_mangle)]
pub extern "C" fn quota_success(part: u32, cost: u32) {
    with(part, |it: &mut Quota| it.part.on_success(cost as u16));
}

#[unsafe(no_mangle)]
pub extern "C" fn quota_refund(part: u32, cost: u32) {
    with(part, |it: &mut Quota| it.part.refund(cost as u16));
}

#[unsafe(no_mangle)]
pub extern "C" fn quota_available(part: u32) -> f64 {
    with(part, |it: &mut Quota| it.part.available()).into()
}
