//! Debts: what a component has spent and not earned back yet, in a form that outlives the component.

use crate::limit::RateSettings;
use crate::retry::BudgetSettings;
use crate::time::{Duration, Time};

/// Debt of a component. A larger amount and a later end are stricter, so the greater of both fields of two debts is a
/// debt that satisfies both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Debt {
    /// Amount in the component's own unit; 0 means no debt.
    pub amount: u64,
    /// When time alone has paid the debt; [`Time::NEVER`] if only successes pay it.
    pub until: Time,
}

impl Debt {
    pub const NONE: Self = Self { amount: 0, until: Time::from_micros(0) };

    /// A debt that time does not pay.
    pub const fn lasting(amount: u64) -> Self {
        Self { amount, until: Time::NEVER }
    }

    pub fn is_owed(self, now: Time) -> bool {
        self.amount > 0 && self.until > now
    }

    /// The debt that satisfies both; a paid debt does not count.
    #[must_use]
    pub fn with(self, other: Self, now: Time) -> Self {
        if !self.is_owed(now) {
            return other;
        }
        if !other.is_owed(now) {
            return self;
        }
        Self { amount: self.amount.max(other.amount), until: self.until.max(other.until) }
    }
}

/// Meaning of a debt's numbers: the settings under which they were written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Unit {
    /// Tokens, as the time to refill them at this rate.
    Rate(RateSettings),
    /// Retries of a window of this length.
    Window(Duration),
    /// The amounts of a budget of this kind.
    Budget(&'static str),
    /// Not a debt, but a mark.
    Mark,
}

impl Unit {
    /// Unit of the debts of such a budget. A share has no debt that outlives its calls.
    pub fn of(budget: &BudgetSettings) -> Option<Self> {
        match budget {
            BudgetSettings::Share(_) => None,
            BudgetSettings::Window(settings) => Some(Self::Window(settings.ttl)),
            _ => Some(Self::Budget(budget.kind())),
        }
    }
}
