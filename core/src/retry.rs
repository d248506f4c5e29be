//! Retries: the wait, the bound on their load, and the server's instructions.

mod backoff;
mod budget;
mod cubic;
mod http_date;
mod retry_after;
mod strategy;
mod wait;

pub use backoff::{Backoff, Growth, Jitter};
pub(crate) use budget::{Budget, TOKEN, WHOLE_FLOOR, micro_tokens};
pub use budget::{
    BudgetSettings, EarnedBudget, EarnedSettings, QuotaSettings, RatioBudget, RatioSettings, RetryBudget,
    RetryQuota, Rounding, ShareBudget, ShareSettings, TokenBudget, TokenSettings, WindowSettings,
};
pub use cubic::CubicRate;
pub use retry_after::{Hints, parse_retry_after};
pub use strategy::{ErrorInfo, RetryError, RetryStrategy, RetryToken, StrategySettings};
pub(crate) use wait::RetryAfterMode;
