//! The ratio budget (semantics 2.11): each call earns a fraction of a retry.

use super::{TOKEN, micro_tokens};
use crate::state::{Damage, Loader, Saver};

/// The settings of a ratio budget.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RatioSettings {
    /// Retries earned by a call; above 0, at most 1.
    pub ratio: f64,
    /// Retries are free until this many calls have been made.
    pub min_throughput: u32,
}

/// Each call adds `ratio`, up to `max(1, min_throughput · ratio)`; a retry costs 1, and is free while calls ≤
/// `min_throughput`. In whole micro-tokens: with 0.1 the first retry is earned by call 10, not by call 11.
///
/// `attempts ≤ (1 + ratio) · calls + min_throughput · (max_attempts − 1)` (semantics 2.17).
///
/// ```
/// use tidegate::{RatioBudget, RatioSettings};
/// let mut budget = RatioBudget::new(RatioSettings { ratio: 0.1, min_throughput: 0 });
/// for _ in 0..9 {
///     budget.on_call();
/// }
/// assert!(!budget.try_withdraw());
/// budget.on_call();
/// assert!(budget.try_withdraw());
/// ```
#[derive(Clone, Debug)]
pub struct RatioBudget {
    earned: u64,
    cap: u64,
    min_throughput: u64,
    calls: u64,
    tokens: u64,
}

impl RatioBudget {
    /// Creates a budget without earned retries.
    pub fn new(settings: RatioSettings) -> Self {
        let earned = micro_tokens(settings.ratio);
        let min_throughput = u64::from(settings.min_throughput);
        Self {
            earned,
            cap: TOKEN.max(min_throughput.saturating_mul(earned)),
            min_throughput,
            calls: 0,
            tokens: 0,
        }
    }

    /// Creates a budget without free retries.
    pub(crate) fn spent(settings: RatioSettings) -> Self {
        Self { calls: u64::from(u32::MAX) + 1, ..Self::new(settings) }
    }

    /// Counts one call.
    pub fn on_call(&mut self) {
        self.calls = self.calls.saturating_add(1);
        self.tokens = self.tokens.saturating_add(self.earned).min(self.cap);
    }

    /// Withdraws one retry, if it is free or the balance allows it.
    pub fn try_withdraw(&mut self) -> bool {
        if self.is_free() {
            return true;
        }
        let granted = self.tokens >= TOKEN;
        if granted {
            self.tokens -= TOKEN;
        }
        granted
    }

    /// Whether a retry would be free now, because there have been few calls.
    pub fn is_free(&self) -> bool {
        self.calls <= self.min_throughput
    }

    /// Refunds a retry that was paid for and never started. A free retry must not be refunded.
    pub fn refund(&mut self) {
        self.tokens = self.tokens.saturating_add(TOKEN).min(self.cap);
    }

    /// Whole retries available now.
    pub fn balance(&self) -> u64 {
        self.tokens / TOKEN
    }

    /// Applies new settings: earned retries stay, up to the new cap.
    pub(crate) fn retune(&mut self, to: RatioSettings) {
        let new = Self::new(to);
        *self = Self { calls: self.calls, tokens: self.tokens.min(new.cap), ..new };
    }

    /// Number of calls that count against the free retries, even if none are free now. Earned retries are not a debt.
    pub(crate) fn debt(&self) -> u64 {
        self.calls
    }

    /// Counts at least `calls` calls as made.
    pub(crate) fn owe(&mut self, calls: u64) {
        self.calls = self.calls.max(calls);
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.calls == 0
    }

    pub(crate) fn save(&self, to: &mut Saver) {
        if !self.is_fresh() {
            to.text("ratio");
            to.whole(self.calls);
            to.whole(self.tokens);
        }
    }

    pub(crate) fn load(from: &mut Loader<'_>, settings: RatioSettings) -> Result<Self, Damage> {
        let new = Self::new(settings);
        let (calls, tokens) = (from.whole()?, from.whole()?);
        Ok(Self { calls, tokens: tokens.min(new.cap), ..new })
    }
}
