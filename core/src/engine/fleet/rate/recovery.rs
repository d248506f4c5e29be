//! The first seconds after the store is back (semantics 10.4).
//!
//! Processes find it back one after the other. Were those that have found it to take the whole rate at once, the fleet
//! would send that and the shares of the others. So for as long as others may not have found it, a process takes tokens
//! from the store, as always, and is held to its own share besides: all shares together are the rate. After that it lets the
//! store count what it has sent by its share alone; else there would be a new burst for everybody.

use super::super::health::RAREST;
use super::{LEAST_WAIT, Share};
use crate::policy::OnLoss;
use crate::time::{Duration, Time};

impl Share {
    /// The store is back: since others may still go by their shares, this one is a bound for a while too.
    pub(super) fn begin_recovery(&mut self, now: Time) {
        if self.fleet.on_loss == OnLoss::Local {
            // The rarest probe, half more, and its answer: by then all have found it that have calls.
            let latest = Duration::from_micros(RAREST.as_micros() * 3 / 2).plus(self.within);
            self.recovery_until = now.after(latest);
        }
    }

    /// Is the own share a bound beside the store's tokens?
    pub(super) fn is_recovering(&self, now: Time) -> bool {
        now < self.recovery_until
    }

    /// Processes among which the rate is shared: while some may not have found the store, no fewer than before.
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

    /// Tokens to take from the store at a time. Where the own share is a bound, only a part of a lease.
    pub(super) fn lease(&self, now: Time) -> u32 {
        let parts = if self.is_recovering(now) { self.processes.max(1) } else { 1 };
        (self.fleet.lease / parts).max(1)
    }

    /// How long until the own share allows a call of this cost behind so many tokens; what never fits waits for the whole share.
    pub(super) fn own_turn(&mut self, ahead: u64, cost: u32, now: Time) -> Duration {
        if !self.is_recovering(now) {
            return Duration::ZERO;
        }
        let cost = cost.min(self.local.settings().burst);
        self.local.wait_for(ahead.saturating_add(u64::from(cost)), now).min(self.recovery_until.since(now))
    }

    /// May a call of this cost have leased tokens?
    pub(super) fn allows(&mut self, cost: u32, now: Time) -> bool {
        self.own_turn(0, cost, now) == Duration::ZERO
    }

    /// The own share has granted so many tokens, while the store was gone or because a call could not wait for it.
    pub(super) fn spend_alone(&mut self, cost: u32, gone: bool) {
        let spent = if gone { &mut self.alone } else { &mut self.uncounted };
        *spent = spent.saturating_add(cost);
    }

    /// The tokens that the store is to count now. Tokens that were spent while it was gone count up to what the share lacks,
    /// because the rest has flowed in since. Tokens that were spent while it was up count in full, because it granted leases meanwhile.
    pub(in crate::engine::fleet) fn take_debt(&mut self, now: Time) -> u32 {
        let lacks = self.local.settings().burst.saturating_sub(self.local.level(now));
        let alone = core::mem::take(&mut self.alone).min(lacks);
        alone.saturating_add(core::mem::take(&mut self.uncounted))
    }

    /// The store had so many tokens too few to count. They are counted when they have flowed in.
    pub(super) fn keep_debt(&mut self, tokens: u32, now: Time) {
        self.uncounted = self.uncounted.saturating_add(tokens).min(self.settings.burst);
        self.count_at = now.after(self.store_turn(u64::from(tokens), now).max(LEAST_WAIT));
    }
}
