//! Who paid what: the retry budget's charges and refunds, and the counts.
//!
//! A retry is charged when it is decided, and refunded once if it never starts (semantics 2.15).

use super::Engine;
use super::arena::flag;
use crate::action::Verdict;
use crate::time::Time;

/// What the budget said.
pub(super) enum Charge {
    /// The retry is paid.
    Granted,
    /// There is nothing left.
    Refused,
}

/// What has happened under a policy since the engine was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Attempts started.
    pub attempts: u64,
    /// Those beyond the first of their call.
    pub retries: u64,
    /// Calls ended, by verdict in the order of [`Verdict::ALL`].
    pub ends: [u64; Verdict::ALL.len()],
}

impl Default for Counts {
    fn default() -> Self {
        Self { attempts: 0, retries: 0, ends: [0; Verdict::ALL.len()] }
    }
}

impl Counts {
    /// Calls ended with this verdict.
    pub fn ended(&self, verdict: Verdict) -> u64 {
        self.ends[verdict as usize]
    }
}

impl Engine {
    /// Pays for the next attempt of a call.
    pub(super) fn charge(&mut self, slot: u32, now: Time) -> Charge {
        let call = &mut self.calls[slot];
        call.flags &= !flag::FORFEIT;
        let route = call.route;
        let paid = self.routes[route].budget.as_mut().is_none_or(|budget| budget.try_withdraw(now));
        if paid { Charge::Granted } else { Charge::Refused }
    }

    /// The paid attempt of a call in backoff will not start; it was charged when the backoff began.
    pub(super) fn refund(&mut self, slot: u32, now: Time) {
        let call = &self.calls[slot];
        let (route, charged) = (call.route, call.since());
        if call.has(flag::FORFEIT) {
            return;
        }
        if let Some(budget) = &mut self.routes[route].budget {
            budget.refund(charged, now);
        }
    }

    /// Counts an attempt that starts; the first of a call is the call's one deposit (semantics 2.10).
    #[inline]
    pub(super) fn count_attempt(&mut self, slot: u32, now: Time) {
        let call = &self.calls[slot];
        let counts = &mut self.policies[usize::from(call.policy)].counts;
        counts.attempts += 1;
        if call.attempts > 1 {
            counts.retries += 1;
        } else if let Some(budget) = &mut self.routes[call.route].budget {
            budget.deposit(now);
        }
    }

    /// Counts the end of a call.
    #[inline]
    pub(super) fn count_end(&mut self, slot: u32, verdict: Verdict) {
        let policy = usize::from(self.calls[slot].policy);
        self.policies[policy].counts.ends[verdict as usize] += 1;
    }
}
