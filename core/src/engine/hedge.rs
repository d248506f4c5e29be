//! Hedges: a further attempt beside one that is slow (semantics 8).
//!
//! The attempts of a race stand in the block beside the call. A hedge never queues: what it needs is there at once, or
//! there is none.

use super::Engine;
use super::arena::flag;
use super::automaton::State;
use super::call_extra::RunningAttempt;
use super::desk::Desk;
use super::place::Slot;
use crate::action::{AttemptSlot, CallId};
use crate::policy::{Hedge, HedgeBudget};
use crate::quantile::WindowedP2Quantile;
use crate::retry::Budget;
use crate::state::{Damage, Loader, Saver};
use crate::time::{Duration, Time};

/// How many recent latencies the adaptive delay looks back on.
const WINDOW: u32 = 512;
/// How many it needs before it counts.
const ENOUGH: u32 = 5;

/// What a route knows about hedging.
#[derive(Clone, Debug)]
pub(super) struct Hedger {
    latencies: Option<WindowedP2Quantile>,
    quantile: Option<f64>,
    /// The hedges' own budget, where they have one.
    pub budget: Option<Budget>,
}

impl Hedger {
    pub fn new(settings: &Hedge) -> Self {
        let budget = match &settings.budget {
            HedgeBudget::Own(Some(budget)) => Budget::new(budget),
            HedgeBudget::Shared | HedgeBudget::Own(None) => None,
        };
        let latencies = settings.quantile.map(|p| WindowedP2Quantile::new(p, WINDOW));
        Self { latencies, quantile: settings.quantile, budget }
    }

    pub fn retune(&mut self, to: &Hedge, now: Time) {
        match (&mut self.budget, &to.budget) {
            (Some(budget), HedgeBudget::Own(Some(to))) => {
                budget.retune(to, now);
            }
            (budget, HedgeBudget::Own(Some(to))) => *budget = Budget::spent(to, now),
            (budget, HedgeBudget::Shared | HedgeBudget::Own(None)) => *budget = None,
        }
        let fresh = Self::new(to);
        if self.quantile != to.quantile {
            (self.latencies, self.quantile) = (fresh.latencies, fresh.quantile);
        }
    }

    /// The delay after which a hedge starts, now.
    pub fn delay(&self, settings: &Hedge) -> Duration {
        let enough = self.latencies.as_ref().filter(|latencies| latencies.count() >= ENOUGH);
        match enough.and_then(WindowedP2Quantile::estimate) {
            Some(micros) => {
                let micros = Duration::from_micros(micros.max(0.0) as u64);
                micros.max(settings.delay_min).min(settings.delay_max)
            }
            None => settings.delay,
        }
    }

    pub fn observe(&mut self, latency: Duration) {
        if let Some(latencies) = &mut self.latencies {
            latencies.observe(latency.as_micros() as f64);
        }
    }

    pub fn save(&self, to: &mut Saver) {
        if let Some(latencies) = &self.latencies {
            latencies.save(to);
        }
    }

    /// The latencies of a saved one, where the quantile is the same.
    pub fn load(&mut self, from: &mut Loader<'_>) -> Result<(), Damage> {
        match &mut self.latencies {
            Some(latencies) => *latencies = latencies.load(from)?,
            None => from.dropped(()),
        }
        Ok(())
    }
}

impl Desk {
    /// When the next hedge is due; never, where there is none.
    #[inline]
    pub(super) fn hedge_due(&self, slot: Slot) -> Time {
        let Some(hedger) = &self.routes[self.calls[slot].route].hedger else { return Time::NEVER };
        let policy = self.policies.of(&self.calls[slot]);
        let call = &self.calls[slot];
        let runs = call.state() == State::Running && call.running() != 0;
        let Some(hedge) = policy.hedge.as_ref().filter(|_| runs && self.could_hedge(slot)) else {
            return Time::NEVER;
        };
        let newest = match self.calls.extra(slot) {
            Some(extra) if call.is_racing() => extra.newest(call.since()),
            _ => call.since(),
        };
        newest.after(hedger.delay(hedge))
    }

    /// An attempt has won: what hedging learns from it. Attempts that are hedges say nothing about when to hedge; one
    /// that is overtaken says how slow it has been so far.
    #[inline]
    pub(super) fn learn_latency(&mut self, slot: Slot, winner: &RunningAttempt, now: Time) {
        if self.routes[self.calls[slot].route].hedger.is_some() {
            self.learn(slot, winner, now);
        }
    }

    #[inline(never)]
    fn learn(&mut self, slot: Slot, winner: &RunningAttempt, now: Time) {
        let call = &self.calls[slot];
        let base = call.since();
        let racing = call.is_racing();
        let overtaken = self.calls.extra(slot).filter(|_| racing).and_then(|extra| {
            extra
                .running_attempts(base)
                .find(|running_attempt| !running_attempt.hedge)
                .map(|running_attempt| running_attempt.since)
        });
        let since = if winner.hedge { overtaken } else { Some(winner.since) };
        if let (Some(since), Some(hedger)) = (since, &mut self.routes[self.calls[slot].route].hedger) {
            hedger.observe(now.since(since));
        }
    }

    /// The next moment of a call whose attempts run.
    #[inline]
    pub(super) fn next_moment(&self, slot: Slot) -> Time {
        let call = &self.calls[slot];
        self.first_to_end(slot).0.min(call.deadline).min(self.hedge_due(slot))
    }

    /// The end of the attempt that runs out of its attempt timeout first, and which it is.
    pub(super) fn first_to_end(&self, slot: Slot) -> (Time, u8) {
        let call = &self.calls[slot];
        if !call.is_racing() {
            return (call.moment, call.attempts);
        }
        let timeout = self.policies.of(&self.calls[slot]).attempt_timeout;
        let running = call.running();
        let running_attempts =
            self.calls.extra(slot).into_iter().flat_map(|extra| extra.running_attempts(call.since()));
        let ends = running_attempts
            .filter(|running_attempt| running & AttemptSlot::of(running_attempt.attempt).bit() != 0)
            .map(|running_attempt| {
                (super::call::limit(running_attempt.since, timeout), running_attempt.attempt)
            });
        ends.min().unwrap_or((Time::NEVER, call.attempts))
    }

    /// May a hedge start for this call, as far as the call itself goes?
    pub(super) fn could_hedge(&self, slot: Slot) -> bool {
        let call = &self.calls[slot];
        let policy = self.policies.of(&self.calls[slot]);
        let Some(hedge) = &policy.hedge else { return false };
        let most = if policy.retry.max_attempts > 1 { policy.retry.max_attempts } else { hedge.max_attempts };
        !call.has(flag::UNHEDGED | flag::PROBE)
            && self.calls.is_hedgeable(slot)
            && call.running().count_ones() < u32::from(hedge.max_attempts)
            && call.attempts < most
    }
}

impl Engine {
    /// Time that the newest attempt of a call still has: until its attempt timeout or the call's deadline, whichever comes
    /// first. None without end, and of a call whose attempts do not run.
    ///
    /// The timer of a step tells the same where a call cannot hedge; where it can, that may be due sooner.
    pub fn time_left(&self, call: CallId, now: Time) -> Option<Duration> {
        let now = self.clock.peek(now);
        let slot = self.desk.calls.find(call)?;
        let call = &self.desk.calls[slot];
        if call.state() != State::Running {
            return None;
        }
        let racing = self.desk.calls.extra(slot).filter(|_| call.is_racing());
        let since = racing.map_or(call.since(), |extra| extra.newest(call.since()));
        let end = super::call::limit(since, self.desk.policies.of(&self.desk.calls[slot]).attempt_timeout);
        super::call::span(end.min(call.deadline), now)
    }
}
