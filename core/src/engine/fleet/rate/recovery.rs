//! The first seconds after the store is back (semantics 10.4).
//!
//! Processes notice the return one after the other. If the first ones took the whole rate at once, the fleet would
//! send that and the shares of the others. So while others may not have noticed it, a process takes tokens from the
//! store as always, and is also bound by its own share: all shares together are the rate. Afterwards it reports to
//! the store the tokens that it spent from its share alone; otherwise every process would get a new burst.

use super::super::health::RAREST;
use super::{LEAST_WAIT, Share};
use crate::policy::OnLoss;
use crate::time::{Duration, Time};

impl Share {
    /// Begins recovery: other processes may still use their shares, so this process's share is a bound for a while
    /// too.
    pub(super) fn begin_recovery(&mut self, now: Time) {
        if self.fleet.on_loss == OnLoss::Local {
            // The longest delay between probes, with its jitter, and an answer: by then all processes with calls have
            // noticed.
            let latest = Duration::from_micros(RAREST.as_micros() * 3 / 2).plus(self.within);
            self.recovery_until = now.after(latest);
        }
    }

    /// Whether the own share is a bound in addition to the store's tokens.
    pub(super) fn is_recovering(&self, now: Time) -> bool {
        now < self.recovery_until
    }

    /// Number of processes that share the rate. While some may not have noticed the return, the number does not fall.
    pub(super) fn sharers(&self, reported: u32, now: Time) -> u32 {
        if self.is_recovering(now) { reported.max(self.processes) } else { reported }
    }

    /// Tokens worth leasing now. In recovery: at most what the local share allows; a surplus would be spent in one burst.
    pub(super) fn room(&mut self, now: Time) -> u32 {
        if self.is_recovering(now) {
            self.local.level(now).saturating_sub(self.tokens(now))
        } else {
            u32::MAX
        }
    }

    /// Tokens to take from the store at a time. During recovery, only a part of a lease.
    pub(super) fn lease(&self, now: Time) -> u32 {
        let parts = if self.is_recovering(now) { self.processes.max(1) } else { 1 };
        (self.fleet.lease / parts).max(1)
    }

    /// Time until the own share allows a call of this cost after `ahead` other tokens. A call that never fits waits
    /// for the whole share.
    pub(super) fn own_turn(&mut self, ahead: u64, cost: u32, now: Time) -> Duration {
        if !self.is_recovering(now) {
            return Duration::ZERO;
        }
        let cost = cost.min(self.local.settings().burst);
        self.local.wait_for(ahead.saturating_add(u64::from(cost)), now).min(self.recovery_until.since(now))
    }

    /// Whether a call of this cost may take leased tokens.
    pub(super) fn allows(&mut self, cost: u32, now: Time) -> bool {
        self.own_turn(0, cost, now) == Duration::ZERO
    }

    /// Notes tokens granted by the own share, while the store was lost (`gone`) or because a call could not wait for
    /// it.
    pub(super) fn spend_alone(&mut self, cost: u32, gone: bool) {
        let spent = if gone { &mut self.alone } else { &mut self.uncounted };
        *spent = spent.saturating_add(cost);
    }

    /// Takes the tokens that the store has to count now. Tokens spent while the store was lost count up to the
    /// share's shortfall, because the rest has flowed in since. Tokens spent while it was up count in full, because
    /// it granted leases meanwhile.
    pub(in crate::engine::fleet) fn take_debt(&mut self, now: Time) -> u32 {
        let lacks = self.local.settings().burst.saturating_sub(self.local.level(now));
        let alone = core::mem::take(&mut self.alone).min(lacks);
        alone.saturating_add(core::mem::take(&mut self.uncounted))
    }

    /// Notes tokens that the store could not count yet. They are reported again when enough have flowed in.
    pub(super) fn keep_debt(&mut self, tokens: u32, now: Time) {
        self.uncounted = self.uncounted.saturating_add(tokens).min(self.settings.burst);
        self.count_at = now.after(self.store_turn(u64::from(tokens), now).max(LEAST_WAIT));
    }
}
