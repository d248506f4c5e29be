//! A closing that another process of the fleet has reported (semantics 16.7).

use super::{Cooldown, MOST_DOUBLED};
use crate::time::{Duration, Time};

impl Cooldown {
    /// Closings in a row.
    pub(crate) fn row(&self) -> u32 {
        self.row
    }

    /// Adopts a closing of another process, of which so much is `left`, with its closings in a `row`. `in_flight` is the
    /// number of this process's attempts. Returns whether it closed, or whether its closing ends later now.
    pub(crate) fn on_shared_closing(&mut self, left: Duration, row: u32, in_flight: u32, now: Time) -> bool {
        let now = self.clock.observe(now);
        let (closed, end) = (!self.open && now < self.until, now.after(left));
        if closed && end <= self.until || left == Duration::ZERO {
            return false;
        }
        if !closed {
            // Attempts that run now belong to the time before it: it is the answer to them too.
            (self.closed_at, self.in_flight) = (Some(now), in_flight);
        }
        self.row = self.row.max(row.min(MOST_DOUBLED));
        self.close_until(end, now);
        true
    }
}
