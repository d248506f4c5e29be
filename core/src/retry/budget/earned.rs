//! The earned budget (semantics 2.20), the default: each answered call earns a fraction of a retry.

use super::{TOKEN, micro_tokens};
use crate::state::{Damage, Loader, Saver};
use crate::time::{Duration, Time};
use crate::window::{CountWindow, WindowKind};

/// The settings of an earned budget.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EarnedSettings {
    /// Retries earned by a call that ends with an answer; above 0, at most 1.
    pub ratio: f64,
    /// Retries in a new budget.
    pub start: u32,
}

impl Default for EarnedSettings {
    /// 0.18 of a retry per answer; 2 retries at the start, so that a first call may use its three attempts.
    fn default() -> Self {
        Self { ratio: 0.18, start: 2 }
    }
}

/// Smallest cap of the balance, for any number of calls.
const KEEP: u64 = 4 * TOKEN;
/// The largest start that a policy may name, and so the largest debt.
const MOST: u64 = 1_000_000_000 * TOKEN;
/// How long a call counts towards the cap of the balance: with a ratio of 0.18 the cap is then two retries for each
/// call of an outage of one second, and a quarter more (ADR 0018).
const RECENT: Duration = Duration::from_secs(14);

/// Starts with `start` retries; each call that ends with an answer, successful or permanent, earns `ratio`; a retry
/// costs 1. The balance is capped at what the calls of the last 14 s could earn, and the cap is at least 4 and
/// `start`. Computed in whole micro-tokens.
///
/// `attempts ≤ (1 + ratio) · calls + start` (semantics 2.17). No retries are granted by time, so a server that is
/// down gets fewer and fewer requests.
///
/// ```
/// use tidegate::{EarnedBudget, EarnedSettings, Time};
/// let now = Time::from_micros(0);
/// let mut budget = EarnedBudget::new(EarnedSettings { ratio: 0.25, start: 1 });
/// assert!(budget.try_withdraw(now) && !budget.try_withdraw(now));
/// for _ in 0..4 {
///     budget.on_call(now);
///     budget.on_answer(now);
/// }
/// assert!(budget.try_withdraw(now));
/// ```
#[derive(Clone, Debug)]
pub struct EarnedBudget {
    gain: u64,
    start: u64,
    /// The largest start so far, or more if the budget has inherited a larger debt.
    origin: u64,
    balance: u64,
    calls: CountWindow,
}

impl EarnedBudget {
    /// Creates a budget with its start and without calls.
    pub fn new(settings: EarnedSettings) -> Self {
        let start = u64::from(settings.start) * TOKEN;
        Self {
            gain: micro_tokens(settings.ratio),
            start,
            origin: start,
            balance: start,
            calls: CountWindow::new(RECENT, WindowKind::Sliding),
        }
    }

    /// Creates a budget without its start.
    pub(crate) fn spent(settings: EarnedSettings) -> Self {
        Self { balance: 0, ..Self::new(settings) }
    }

    /// Counts a call that has started.
    #[inline]
    pub fn on_call(&mut self, now: Time) {
        self.calls.add(false, now);
    }

    /// Counts a call that ended with an answer: the downstream served it, successfully or with a permanent failure.
    /// At most once per call.
    #[inline]
    pub fn on_answer(&mut self, now: Time) {
        self.add(self.gain, now);
    }

    /// Withdraws one retry if the balance allows it.
    pub fn try_withdraw(&mut self, now: Time) -> bool {
        let granted = self.balance(now) > 0;
        self.balance -= if granted { TOKEN } else { 0 };
        granted
    }

    /// Refunds a retry that was paid for and never started.
    pub fn refund(&mut self, now: Time) {
        self.add(TOKEN, now);
    }

    /// Whole retries available now.
    pub fn balance(&mut self, now: Time) -> u64 {
        self.add(0, now);
        self.balance / TOKEN
    }

    /// Adds to the balance, and caps it.
    #[inline]
    fn add(&mut self, tokens: u64, now: Time) {
        let calls = u64::from(self.calls.counts(now).all);
        let most = self.gain.saturating_mul(calls).max(KEEP).max(self.start);
        self.balance = self.balance.saturating_add(tokens).min(most);
    }

    /// Applies new settings: the balance stays, and a larger start adds nothing.
    pub(crate) fn retune(&mut self, to: EarnedSettings) {
        let new = Self::new(to);
        (self.gain, self.start) = (new.gain, new.start);
        self.origin = self.origin.max(new.start);
    }

    /// Shortfall from the largest start so far, in micro-tokens; 0 if the balance is above it.
    pub(crate) fn debt(&mut self, now: Time) -> u64 {
        self.add(0, now);
        self.origin.saturating_sub(self.balance)
    }

    /// Spends retries until at least `missing` is missing. A debt beyond the start has to be earned back too.
    pub(crate) fn owe(&mut self, missing: u64) {
        let missing = missing.min(MOST);
        self.balance = self.balance.min(self.origin.saturating_sub(missing));
        self.origin = self.origin.max(missing);
    }

    pub(crate) fn is_fresh(&mut self, now: Time) -> bool {
        self.calls.counts(now).all == 0 && self.balance == self.start && self.origin == self.start
    }

    /// Writes the balance, the largest start, and the calls that count.
    pub(crate) fn save(&self, to: &mut Saver) {
        let mut it = self.clone();
        it.add(0, to.now());
        if !it.is_fresh(to.now()) {
            to.text("earned");
            to.whole(it.balance);
            to.whole(it.origin);
            it.calls.save(to);
        }
    }

    pub(crate) fn load(from: &mut Loader<'_>, settings: EarnedSettings) -> Result<Self, Damage> {
        let new = Self::new(settings);
        let balance = from.whole()?;
        let origin = if from.version() == 1 { 0 } else { from.whole()?.min(MOST) };
        let calls = CountWindow::load(from, RECENT, WindowKind::Sliding)?;
        // The next access applies the cap of these settings.
        Ok(Self { balance, calls, origin: origin.max(new.start), ..new })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn keeps_what_recent_calls_could_earn_and_at_least_four() {
        let mut budget = EarnedBudget::new(EarnedSettings::default());
        let answer = |budget: &mut EarnedBudget, now| {
            budget.on_call(now);
            budget.on_answer(now);
        };
        (0..1_000).for_each(|_| answer(&mut budget, at(0)));
        assert_eq!(budget.balance(at(0)), 180);
        assert_eq!(budget.balance(at(12)), 180, "the calls still count");
        assert_eq!(budget.balance(at(14)), 4, "and no longer");
        (0..10).for_each(|_| answer(&mut budget, at(14)));
        assert_eq!(budget.balance(at(14)), 4);
        // A start above the smallest cap is kept in full; a balance above the start is cut.
        let mut budget = EarnedBudget::new(EarnedSettings { start: 7, ratio: 1.0 });
        answer(&mut budget, at(0));
        assert_eq!(budget.balance(at(20)), 7);
        (0..9).for_each(|_| answer(&mut budget, at(20)));
        assert_eq!(budget.balance(at(20)), 9, "nine calls could earn nine");
        assert_eq!((0..20).filter(|_| budget.try_withdraw(at(20))).count(), 9);
        budget.refund(at(20));
        assert_eq!(budget.balance(at(20)), 1);
    }
}
