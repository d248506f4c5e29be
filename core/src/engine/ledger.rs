//! Who paid what: the retry budget's charges and refunds, and the counts.
//!
//! A retry is charged when it is decided, and refunded once if it never starts (semantics 2.15).

use super::Engine;
use super::arena::State;
use crate::action::Verdict;
use crate::outcome::Class;
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
    pub(super) fn charge(&mut self, slot: u32, class: Class, now: Time) -> Charge {
        let call = &mut self.calls[slot];
        let route = &mut self.routes[call.route];
        let Some(budget) = &mut route.budget else { return Charge::Granted };
        match budget.try_charge(class, route.active, now) {
            Some(charge) => {
                call.charge = charge;
                Charge::Granted
            }
            None => Charge::Refused,
        }
    }

    /// The paid attempt of a call will not start; it was charged when the backoff began.
    pub(super) fn refund(&mut self, slot: u32, now: Time) {
        let call = &mut self.calls[slot];
        if let Some(budget) = &mut self.routes[call.route].budget
            && call.charge != 0
        {
            budget.refund(call.charge, call.since(), now);
        }
        call.charge = 0;
    }

    /// A call ends or is lost: a retry that has not started is refunded, one that runs is in flight no more.
    pub(super) fn forgo(&mut self, slot: u32, now: Time) {
        match self.calls[slot].state {
            State::Backoff => self.refund(slot, now),
            State::Running => self.count_outcome(slot, Class::Cancelled),
            _ => {}
        }
    }

    /// Tells the budget how an attempt ended.
    #[inline]
    pub(super) fn count_outcome(&mut self, slot: u32, class: Class) {
        let call = &mut self.calls[slot];
        if let Some(budget) = &mut self.routes[call.route].budget {
            call.charge = budget.on_outcome(class, call.charge);
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
            budget.on_call(now);
        }
    }

    /// Counts the end of a call.
    #[inline]
    pub(super) fn count_end(&mut self, slot: u32, verdict: Verdict) {
        let policy = usize::from(self.calls[slot].policy);
        self.policies[policy].counts.ends[verdict as usize] += 1;
    }
}
