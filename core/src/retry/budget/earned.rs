//! The earned budget (semantics 2.20), the default: each call that gets an answer earns a fraction of a retry.

use super::{TOKEN, micro_tokens};
use crate::state::{Damage, Loader, Saver};
use crate::time::{Duration, Time};
use crate::window::{CountWindow, WindowKind};

/// The settings of an earned budget.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EarnedSettings {
    /// What a call that ends with an answer earns, in retries; above 0, at most 1.
    pub ratio: f64,
    /// Retries that a new budget has.
    pub start: u32,
}

impl Default for EarnedSettings {
    /// 0.18 of a retry per answer; 2 retries at the start, so that a first call may use its three attempts.
    fn default() -> Self {
        Self { ratio: 0.18, start: 2 }
    }
}

/// What a budget keeps at least, however few calls there are.
const KEEP: u64 = 4 * TOKEN;
/// The largest start that a policy may name, and so the largest debt.
const MOST: u64 = 1_000_000_000 * TOKEN;
/// How long a call counts for what a budget keeps: with 0.18 that is two retries for each call of an outage of one second, and
/// a quarter more (ADR 0018).
const RECENT: Duration = Duration::from_secs(14);

/// Starts with `start` retries; each call that ends with an answer, good or permanent, earns `ratio`; a retry costs 1.
/// Keeps at most what the calls of the last 14 s could earn, and at least 4 or `start`. In whole micro-tokens.
///
/// `attempts ≤ (1 + ratio) · calls + start` (semantics 2.17): no retries per second, so that a server that is down is asked
/// for less and less.
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
    /// The greatest start that it has had, or more where it has inherited a greater debt.
    origin: u64,
    balance: u64,
    calls: CountWindow,
}

impl EarnedBudget {
    /// A budget that has its start and has seen no call.
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

    /// A budget without its start.
    pub(crate) fn spent(settings: EarnedSettings) -> Self {
        Self { balance: 0, ..Self::new(settings) }
    }

    /// Counts one call, which has started.
    #[inline]
    pub fn on_call(&mut self, now: Time) {
        self.calls.add(false, now);
    }

    /// A call has ended with an answer: the downstream has served it, well or with a permanent failure. At most once per
    /// call.
    #[inline]
    pub fn on_answer(&mut self, now: Time) {
        self.add(self.gain, now);
    }

    /// Takes one retry, if there is one to take.
    pub fn try_withdraw(&mut self, now: Time) -> bool {
        let granted = self.balance(now) > 0;
        self.balance -= if granted { TOKEN } else { 0 };
        granted
    }

    /// Gives a retry back that was paid for and never started.
    pub fn refund(&mut self, now: Time) {
        self.add(TOKEN, now);
    }

    /// Whole retries that could be taken now.
    pub fn balance(&mut self, now: Time) -> u64 {
        self.add(0, now);
        self.balance / TOKEN
    }

    /// Adds to the balance, and drops what is not kept.
    #[inline]
    fn add(&mut self, tokens: u64, now: Time) {
        let calls = u64::from(self.calls.counts(now).all);
        let most = self.gain.saturating_mul(calls).max(KEEP).max(self.start);
        self.balance = self.balance.saturating_add(tokens).min(most);
    }

    /// Goes on with other settings: what there is stays, and a larger start adds nothing.
    pub(crate) fn retune(&mut self, to: EarnedSettings) {
        let new = Self::new(to);
        (self.gain, self.start) = (new.gain, new.start);
        self.origin = self.origin.max(new.start);
    }

    /// What is missing to the greatest start that it has had, in micro-tokens; what has been earned beyond it is no debt.
    pub(crate) fn debt(&mut self, now: Time) -> u64 {
        self.add(0, now);
        self.origin.saturating_sub(self.balance)
    }

    /// Spends retries until at least this much is missing. What the start cannot pay has to be earned before it is no debt.
    pub(crate) fn owe(&mut self, missing: u64) {
        let missing = missing.min(MOST);
        self.balance = self.balance.min(self.origin.saturating_sub(missing));
        self.origin = self.origin.max(missing);
    }

    pub(crate) fn is_fresh(&mut self, now: Time) -> bool {
        self.calls.counts(now).all == 0 && self.balance == self.start && self.origin == self.start
    }

    /// Writes the balance, the greatest start, and the calls that count.
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
        // What is not kept under these settings is dropped by the first look.
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
        // A start above that is kept too, and what is above the start is not.
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
