//! Retry budgets: bounds on the load that retries add. Six kinds behind one interface (semantics 2.10 to 2.15, 2.20).
//! Each has a name of its own, because four of them are called "retry budget" elsewhere and are not the same thing.

mod earned;
mod quota;
mod ratio;
mod share;
mod token;
mod tokens;
mod window;

pub use earned::{EarnedBudget, EarnedSettings};
pub use quota::{QuotaSettings, RetryQuota};
pub use ratio::{RatioBudget, RatioSettings};
pub use share::{ShareBudget, ShareSettings};
pub(crate) use token::{TOKEN, micro_tokens};
pub use tokens::{TokenBudget, TokenSettings};
pub(crate) use window::WHOLE_FLOOR;
pub use window::{RetryBudget, Rounding, WindowSettings};

use crate::debt::{Debt, Unit};
use crate::full::{Full, Rare};
use crate::outcome::Class;
use crate::state::{Damage, Loader, Saver};
use crate::time::{Duration, Time};

/// The settings of a budget, by kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum BudgetSettings {
    /// Retries are earned by answered calls; the default.
    Earned(EarnedSettings),
    /// Retries are a share of recent calls, plus a floor.
    Window(WindowSettings),
    /// Retries are a part of all calls.
    Ratio(RatioSettings),
    /// Retries are a part of the calls in flight.
    Share(ShareSettings),
    /// Retries are earned by successes.
    Tokens(TokenSettings),
    /// Retries cost quota.
    Quota(QuotaSettings),
}

impl BudgetSettings {
    /// Name of the kind.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Earned(_) => "earned",
            Self::Window(_) => "window",
            Self::Ratio(_) => "ratio",
            Self::Share(_) => "share",
            Self::Tokens(_) => "tokens",
            Self::Quota(_) => "quota",
        }
    }

    /// Whether both are of one kind, so that a budget keeps its counts.
    pub(crate) fn same_kind(one: Option<&Self>, other: Option<&Self>) -> bool {
        one.map(core::mem::discriminant) == other.map(core::mem::discriminant)
    }
}

/// A budget of any kind, as the engine uses it.
#[derive(Clone, Debug)]
pub(crate) enum Budget {
    Earned(EarnedBudget),
    Window(RetryBudget),
    Ratio(Rare<RatioBudget>),
    Share(Rare<ShareBudget>),
    Tokens(Rare<TokenBudget>),
    Quota(Rare<RetryQuota>),
}

impl Budget {
    /// Creates a budget; a small engine supports `earned` and `window` only.
    pub(crate) fn new(settings: &BudgetSettings) -> Option<Self> {
        match settings {
            BudgetSettings::Earned(settings) => return Some(Self::Earned(EarnedBudget::new(*settings))),
            BudgetSettings::Window(settings) => return Some(Self::Window(RetryBudget::new(*settings))),
            _ => {}
        }
        let full = Full::here()?;
        Some(match settings {
            BudgetSettings::Earned(_) | BudgetSettings::Window(_) => return None,
            BudgetSettings::Ratio(settings) => Self::Ratio(Rare::new(RatioBudget::new(*settings), full)),
            BudgetSettings::Share(settings) => Self::Share(Rare::new(ShareBudget::new(*settings), full)),
            BudgetSettings::Tokens(settings) => Self::Tokens(Rare::new(TokenBudget::new(*settings), full)),
            BudgetSettings::Quota(settings) => Self::Quota(Rare::new(RetryQuota::new(*settings), full)),
        })
    }

    /// A call starts its first attempt: makes the call's one deposit.
    #[inline]
    pub(crate) fn on_call(&mut self, now: Time) {
        match self {
            Self::Earned(budget) => budget.on_call(now),
            Self::Window(budget) => budget.deposit(now),
            Self::Ratio(budget) => budget.on_call(),
            Self::Share(..) | Self::Tokens(..) | Self::Quota(..) => {}
        }
    }

    /// A call ended with an answer, successful or permanent.
    #[inline]
    pub(crate) fn on_answer(&mut self, now: Time) {
        if let Self::Earned(budget) = self {
            budget.on_answer(now);
        }
    }

    /// A call's only attempt has succeeded: the outcome of the attempt, and the call's answer. `charge` is what the
    /// attempt cost.
    #[inline]
    pub(crate) fn on_success(&mut self, charge: u16, now: Time) {
        match self {
            Self::Earned(budget) => budget.on_answer(now),
            Self::Window(_) | Self::Ratio(..) => {}
            Self::Share(..) | Self::Tokens(..) | Self::Quota(..) => {
                self.on_outcome(Class::Ok, charge, charge);
            }
        }
    }

    /// Counts the outcome of an attempt. `charge` is what this attempt cost, `last` what the call's last retry cost,
    /// 0 without one. Returns the remaining charge.
    #[inline]
    pub(crate) fn on_outcome(&mut self, class: Class, charge: u16, last: u16) -> u16 {
        match self {
            Self::Earned(_) | Self::Window(_) | Self::Ratio(..) => 0,
            Self::Share(budget) => {
                budget.on_end(charge != 0);
                0
            }
            Self::Tokens(budget) => {
                if class == Class::Ok {
                    budget.on_success();
                } else if class.retryable() {
                    budget.on_failure();
                }
                0
            }
            Self::Quota(budget) => {
                if class == Class::Ok {
                    budget.on_success(last);
                    0
                } else {
                    charge
                }
            }
        }
    }

    /// Pays for a retry after a failure of this class; `calls` are in flight. Returns the charge, or `None` if the
    /// budget refuses.
    ///
    /// `counted` means that [`on_outcome`](Self::on_outcome) has just counted this failure as a retryable one. The
    /// token that it took from `tokens` then pays for the retry; otherwise the retry takes its own.
    pub(crate) fn try_charge(&mut self, class: Class, counted: bool, calls: u32, now: Time) -> Option<u16> {
        match self {
            Self::Earned(budget) => budget.try_withdraw(now).then_some(1),
            Self::Window(budget) => budget.try_withdraw(now).then_some(1),
            Self::Ratio(budget) => {
                let paid = u16::from(!budget.is_free());
                budget.try_withdraw().then_some(paid)
            }
            Self::Share(budget) => budget.try_acquire(calls).then_some(1),
            Self::Tokens(budget) if counted => budget.allows().then_some(0),
            Self::Tokens(budget) => budget.try_take().then_some(1),
            Self::Quota(budget) => budget.try_acquire(class),
        }
    }

    /// Pays for a hedge, as after a transient failure. The hedge's own failure takes no further token from `tokens`.
    pub(crate) fn try_charge_hedge(&mut self, calls: u32, now: Time) -> Option<u16> {
        match self {
            Self::Tokens(budget) => budget.try_hedge().then_some(1),
            _ => self.try_charge(Class::Transient, false, calls, now),
        }
    }

    /// Refunds the retry charged at `charged`, which will not start.
    pub(crate) fn refund(&mut self, charge: u16, charged: Time, now: Time) {
        match self {
            Self::Earned(budget) => budget.refund(now),
            Self::Window(budget) => budget.refund(charged, now),
            Self::Ratio(budget) => budget.refund(),
            Self::Share(budget) => budget.on_end(charge != 0),
            Self::Tokens(budget) => budget.refund(charge),
            Self::Quota(budget) => budget.refund(charge),
        }
    }

    /// Number of retries available now, for display.
    pub(crate) fn balance(&mut self, calls: u32, now: Time) -> u64 {
        match self {
            Self::Earned(budget) => budget.balance(now),
            Self::Window(budget) => budget.balance(now),
            Self::Ratio(budget) => budget.balance(),
            Self::Share(budget) => budget.balance(calls),
            Self::Tokens(budget) => budget.balance(),
            Self::Quota(budget) => budget.balance(),
        }
    }

    /// Applies new settings and keeps the counts. A budget of another kind starts without its burst, because counts
    /// do not translate and debts must not be forgiven. Returns false if the budget that took the earlier charges is
    /// gone.
    pub(crate) fn retune(&mut self, to: &BudgetSettings, now: Time) -> bool {
        match (&mut *self, to) {
            (Self::Earned(budget), BudgetSettings::Earned(to)) => budget.retune(*to),
            (Self::Window(budget), BudgetSettings::Window(to)) => budget.retune(*to, now),
            (Self::Ratio(budget), BudgetSettings::Ratio(to)) => budget.retune(*to),
            (Self::Share(budget), BudgetSettings::Share(to)) => budget.retune(*to),
            (Self::Tokens(budget), BudgetSettings::Tokens(to)) => budget.retune(*to),
            (Self::Quota(budget), BudgetSettings::Quota(to)) => budget.retune(*to),
            _ => {
                if let Some(spent) = Self::spent(to, now) {
                    *self = spent;
                }
                return false;
            }
        }
        true
    }

    /// Creates a budget whose burst is spent, so that every retry has to be earned.
    pub(crate) fn spent(settings: &BudgetSettings, now: Time) -> Option<Self> {
        match settings {
            BudgetSettings::Earned(settings) => return Some(Self::Earned(EarnedBudget::spent(*settings))),
            BudgetSettings::Window(settings) => {
                return Some(Self::Window(RetryBudget::spent(*settings, now)));
            }
            _ => {}
        }
        let full = Full::here()?;
        Some(match settings {
            BudgetSettings::Ratio(settings) => Self::Ratio(Rare::new(RatioBudget::spent(*settings), full)),
            BudgetSettings::Tokens(settings) => Self::Tokens(Rare::new(TokenBudget::spent(*settings), full)),
            BudgetSettings::Quota(settings) => Self::Quota(Rare::new(RetryQuota::spent(*settings), full)),
            _ => return Self::new(settings),
        })
    }

    /// Unit of its debts.
    pub(crate) fn unit(&self) -> Option<Unit> {
        match self {
            Self::Earned(_) => Some(Unit::Budget("earned")),
            Self::Window(budget) => Some(Unit::Window(budget.ttl())),
            Self::Ratio(..) => Some(Unit::Budget("ratio")),
            Self::Share(..) => None,
            Self::Tokens(..) => Some(Unit::Budget("tokens")),
            Self::Quota(..) => Some(Unit::Budget("quota")),
        }
    }

    /// Debt to remember when the budget itself is dropped. A share has no debts: its retries are in flight, which
    /// keeps its route.
    pub(crate) fn debt(&mut self, now: Time) -> Debt {
        match self {
            Self::Earned(budget) => Debt::lasting(budget.debt(now)),
            Self::Window(budget) => budget.debt(now),
            Self::Ratio(budget) => Debt::lasting(budget.debt()),
            Self::Share(..) => Debt::NONE,
            Self::Tokens(budget) => Debt::lasting(budget.debt()),
            Self::Quota(budget) => Debt::lasting(budget.debt()),
        }
    }

    /// Raises its debt to at least `debt`, which comes from a budget of this kind, of the same key or of several.
    pub(crate) fn owe(&mut self, debt: Debt, now: Time) {
        if !debt.is_owed(now) {
            return;
        }
        match self {
            Self::Earned(budget) => budget.owe(debt.amount),
            Self::Window(budget) => budget.owe(debt, now),
            Self::Ratio(budget) => budget.owe(debt.amount),
            Self::Share(..) => {}
            Self::Tokens(budget) => budget.owe(debt.amount),
            Self::Quota(budget) => budget.owe(debt.amount),
        }
    }

    /// Retries in flight, where the kind counts them.
    pub(crate) fn in_flight(&self) -> Option<u32> {
        match self {
            Self::Share(budget) => Some(budget.in_flight()),
            _ => None,
        }
    }

    /// Writes the state that survives. Retries in flight do not, so a share writes nothing.
    pub(crate) fn save(&self, to: &mut Saver) {
        match self {
            Self::Earned(budget) => budget.save(to),
            Self::Window(budget) => budget.save(to),
            Self::Ratio(budget) => budget.save(to),
            Self::Share(..) => {}
            Self::Tokens(budget) => budget.save(to),
            Self::Quota(budget) => budget.save(to),
        }
    }

    /// Restores a budget from a saved one, by the rules of a retune: a budget of another kind begins without its
    /// burst.
    pub(crate) fn load(from: &mut Loader<'_>, settings: &BudgetSettings) -> Result<Self, Damage> {
        let kind = from.text()?;
        let spent = Self::spent(settings, from.now());
        let (full, spent) = Full::here().zip(spent).ok_or(Damage("must be a full engine's"))?;
        Ok(match (kind, settings) {
            ("earned", BudgetSettings::Earned(to)) => Self::Earned(EarnedBudget::load(from, *to)?),
            ("window", BudgetSettings::Window(to)) => Self::Window(RetryBudget::load(from, *to)?),
            ("ratio", BudgetSettings::Ratio(to)) => {
                Self::Ratio(Rare::new(RatioBudget::load(from, *to)?, full))
            }
            ("tokens", BudgetSettings::Tokens(to)) => {
                Self::Tokens(Rare::new(TokenBudget::load(from, *to)?, full))
            }
            ("quota", BudgetSettings::Quota(to)) => {
                Self::Quota(Rare::new(RetryQuota::load(from, *to)?, full))
            }
            ("earned" | "window" | "ratio" | "tokens" | "quota", _) => from.dropped(spent),
            _ => return Err(Damage("must be a kind of budget")),
        })
    }

    /// Debt of a saved budget of any kind, for settings that cannot take over its state.
    pub(crate) fn load_debt(from: &mut Loader<'_>) -> Result<Option<(Unit, Debt)>, Damage> {
        let Some(kind) = KINDS.into_iter().find(|kind| from.peek() == Some(kind)) else { return Ok(None) };
        from.text()?;
        let first = from.whole()?;
        let owed = match kind {
            "window" => {
                let ttl = Duration::from_micros(first.max(1));
                (Unit::Window(ttl), Debt { amount: WHOLE_FLOOR, until: from.now().after(ttl) })
            }
            "earned" => {
                let origin = if from.version() == 1 { 0 } else { from.whole()? };
                (Unit::Budget(kind), Debt::lasting(origin.saturating_sub(first)))
            }
            _ => (Unit::Budget(kind), Debt::lasting(first)),
        };
        Ok(Some(from.dropped(owed)))
    }

    /// After a fork: retries in flight belong to the parent.
    pub(crate) fn forget_calls(&mut self) {
        if let Self::Share(budget) = self {
            budget.forget_calls();
        }
    }
}

/// Kinds that can have debts.
const KINDS: [&str; 5] = ["earned", "window", "ratio", "tokens", "quota"];
