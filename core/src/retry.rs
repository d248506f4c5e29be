//! Retries: how long to wait, how much load they may add, what the server asked for.

mod backoff;
mod budget;
mod retry_after;
mod wait;

pub use backoff::{Backoff, Jitter};
pub use budget::{RetryBudget, Rounding, WindowSettings};
pub use retry_after::{Hints, parse_retry_after};
pub(crate) use wait::wait_before_retry;
