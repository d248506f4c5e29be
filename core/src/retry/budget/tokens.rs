//! The token budget (semantics 2.13; gRPC A6 retry throttling): failures take tokens, successes give some, and
//! retries need more than half of them.

use super::{TOKEN, micro_tokens};
use crate::state::{Damage, Loader, Saver};

/// The settings of a token budget.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TokenSettings {
    /// Tokens when full; 1 to 1,000.
    pub max: u32,
    /// Tokens that a success gives; above 0.
    pub ratio: f64,
}

/// Starts full. Each retryable failure takes 1, each success gives `ratio`, and a retry is allowed while more than
/// half of `max` is left. Clamped to [0, max], so that a day of successes does not allow an hour of retries.
///
/// Every retry costs one whole token: the one that its failure took, or one that [`try_take`](Self::try_take) takes
/// when the retry is decided.
///
/// ```
/// use tidegate::{TokenBudget, TokenSettings};
/// let mut budget = TokenBudget::new(TokenSettings { max: 10, ratio: 0.1 });
/// (0..5).for_each(|_| budget.on_failure());
/// assert!(!budget.allows(), "exactly half is not above half");
/// budget.on_success();
/// assert!(budget.allows());
/// ```
#[derive(Clone, Debug)]
pub struct TokenBudget {
    max: u64,
    gain: u64,
    /// Tokens missing to the full budget. More than `max` after a retune to a smaller one: then no tokens are left,
    /// and successes first pay the debt.
    debt: u64,
}

/// The largest debt under any settings.
const MOST: u64 = 1_000 * TOKEN;

impl TokenBudget {
    /// Creates a full budget.
    pub fn new(settings: TokenSettings) -> Self {
        let max = u64::from(settings.max) * TOKEN;
        Self { max, gain: micro_tokens(settings.ratio), debt: 0 }
    }

    /// Creates a budget without its burst: every retry has to be earned.
    pub(crate) fn spent(settings: TokenSettings) -> Self {
        let full = Self::new(settings);
        Self { debt: full.max - full.max / 2, ..full }
    }

    fn tokens(&self) -> u64 {
        self.max.saturating_sub(self.debt)
    }

    /// Counts a retryable failure, including those of first attempts.
    pub fn on_failure(&mut self) {
        // The number of tokens never falls below zero.
        self.debt += TOKEN.min(self.tokens());
    }

    /// Counts a success.
    pub fn on_success(&mut self) {
        self.debt = self.debt.saturating_sub(self.gain);
    }

    /// Whether a retry is allowed now.
    pub fn allows(&self) -> bool {
        self.tokens() > self.max / 2
    }

    /// Takes the token of a retry whose failure took none, because an opinion instead of its class made it retryable,
    /// or because it was a hedge's. As after a failure, more than half must remain.
    pub fn try_take(&mut self) -> bool {
        let granted = self.tokens() > self.max / 2 + TOKEN;
        if granted {
            self.debt += TOKEN;
        }
        granted
    }

    /// Takes the token of a hedge, if retries are allowed and a whole token is left.
    pub fn try_hedge(&mut self) -> bool {
        let granted = self.allows() && self.tokens() >= TOKEN;
        if granted {
            self.debt += TOKEN;
        }
        granted
    }

    /// Refunds `count` tokens of retries that never started.
    pub fn refund(&mut self, count: u16) {
        self.debt = self.debt.saturating_sub(u64::from(count) * TOKEN);
    }

    /// Number of failures after which retries would still be allowed.
    pub fn balance(&self) -> u64 {
        self.tokens().saturating_sub(self.max / 2).div_ceil(TOKEN)
    }

    /// Applies new settings: the number of missing tokens stays, even if it exceeds `max`.
    pub(crate) fn retune(&mut self, to: TokenSettings) {
        *self = Self { debt: self.debt, ..Self::new(to) };
    }

    /// Tokens missing to the full budget, in micro-tokens.
    pub(crate) fn debt(&self) -> u64 {
        self.debt
    }

    /// Takes tokens until at least `missing` is missing.
    pub(crate) fn owe(&mut self, missing: u64) {
        self.debt = self.debt.max(missing.min(MOST));
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.debt == 0
    }

    /// Writes the number of missing tokens, which a retune keeps too.
    pub(crate) fn save(&self, to: &mut Saver) {
        if !self.is_fresh() {
            to.text("tokens");
            to.whole(self.debt);
        }
    }

    pub(crate) fn load(from: &mut Loader<'_>, settings: TokenSettings) -> Result<Self, Damage> {
        Ok(Self { debt: from.whole()?.min(MOST), ..Self::new(settings) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_published_defaults() {
        let vector = crate::published::vector("grpc_defaults.json");
        let tokens = &vector["tokens"];
        let settings = TokenSettings {
            max: tokens["max"].as_u64().unwrap() as u32,
            ratio: tokens["ratio"].as_f64().unwrap(),
        };
        let above = tokens["retry_allowed_above"].as_u64().unwrap();
        let mut budget = TokenBudget::new(settings);
        for failures in 1..=20 {
            budget.on_failure();
            assert_eq!(
                budget.allows(),
                u64::from(settings.max).saturating_sub(failures) > above,
                "{failures}"
            );
        }
        // Clamped at 0: ten successes are one token, whatever came before.
        (0..50).for_each(|_| budget.on_success());
        assert!(!budget.allows());
        budget.on_success();
        assert!(budget.allows());
    }
}
