//! The wait before the next attempt: the computed backoff and what the server asked for, put together (semantics 2.7).

use crate::action::Verdict;
use crate::policy::Retry;
use crate::rng::{self, Purpose};
use crate::time::Duration;

/// The wait before retry `n`, mode `floor`: the longer of the computed backoff and `r + U(0, r/10)`, the jitter cut to
/// fit into `left`, the wait never below r.
pub(crate) fn wait_before_retry(
    retry: &Retry,
    n: u8,
    retry_after: Option<Duration>,
    left: Duration,
    draw: impl Fn(Purpose) -> u64,
) -> Result<Duration, Verdict> {
    let computed = retry.backoff.delay(u32::from(n), draw(Purpose::Backoff));
    let Some(asked) = retry_after.filter(|_| retry.respect_retry_after) else { return Ok(computed) };
    if asked > retry.max_retry_after {
        return Err(Verdict::RetryAfterTooLong);
    }
    let asked = asked.as_micros();
    let fits = left.as_micros().saturating_sub(1);
    let high = asked.saturating_add(asked / 10).min(fits).max(asked);
    let spread = Duration::from_micros(rng::uniform(draw(Purpose::RetryAfter), asked, high));
    Ok(computed.max(spread))
}
