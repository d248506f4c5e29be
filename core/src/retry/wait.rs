//! The wait before the next attempt: combines the computed backoff with the server's Retry-After (semantics 2.7).

use crate::action::Verdict;
use crate::outcome::Class;
use crate::policy::Retry;
use crate::retry::Backoff;
use crate::rng::{self, Purpose};
use crate::time::Duration;

/// Use of a server's Retry-After (r) under a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RetryAfterMode {
    /// The longer of the computed backoff and r + U(0, r/10), never below r.
    Floor,
    /// r itself, without jitter; 0 waits 0.
    Exact,
    /// r clamped to [t, t + 5 s], t the computed delay.
    Clamp,
    /// Ignores it.
    Ignore,
}

const CLAMP: Duration = Duration::from_secs(5);

impl Retry {
    /// The wait before retry `n`, after a failure of this class. A Retry-After above `max_retry_after` ends the call. The
    /// jitter added to it is cut to fit into `left`.
    pub(crate) fn wait_before(
        &self,
        n: u8,
        class: Class,
        retry_after: Option<Duration>,
        left: Duration,
        draw: impl Fn(Purpose, u8) -> u64,
    ) -> Result<Duration, Verdict> {
        let throttled = class == Class::Throttled;
        let base = if throttled { self.throttled_base } else { self.backoff.base };
        let backoff = Backoff { base, ..self.backoff };
        let computed = backoff.nth_delay(u32::from(n), |i| draw(Purpose::Backoff, i as u8));
        let Some(asked) = retry_after.filter(|_| self.mode != RetryAfterMode::Ignore) else {
            return Ok(computed);
        };
        if asked > self.max_retry_after {
            return Err(Verdict::RetryAfterTooLong);
        }
        Ok(match self.mode {
            RetryAfterMode::Ignore => computed,
            RetryAfterMode::Exact => asked,
            RetryAfterMode::Clamp => asked.clamp(computed, computed.plus(CLAMP)),
            RetryAfterMode::Floor => {
                let asked = asked.as_micros();
                let fits = left.as_micros().saturating_sub(1);
                let high = asked.saturating_add(asked / 10).min(fits).max(asked);
                computed.max(Duration::from_micros(rng::uniform(draw(Purpose::RetryAfter, n), asked, high)))
            }
        })
    }
}
