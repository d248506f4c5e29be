//! Hedges: a further attempt in parallel to a slow one (semantics 8).
//!
//! The running attempts of a race are stored in the call's second block. A hedge never queues: if a resource it needs
//! is not available at once, the hedge does not start.

use super::Engine;
use super::arena::{Arena, Call, flag};
use super::automaton::State;
use super::call_extra::RunningAttempt;
use super::desk::Desk;
use super::link::turn_of;
use super::place::Slot;
use super::policies::Policies;
use super::route::Routes;
use crate::action::{AttemptSlot, CallId, Link};
use crate::policy::{Hedge, HedgeBudget, Policy};
use crate::quantile::WindowedP2Quantile;
use crate::retry::Budget;
use crate::state::{Damage, Loader, Saver};
use crate::time::{Duration, Time};

/// Number of recent latencies from which the adaptive delay is computed.
const WINDOW: u32 = 512;
/// Number of latencies needed before it is used.
const ENOUGH: u32 = 5;

/// Hedging state of a route.
#[derive(Clone, Debug)]
pub(super) struct Hedger {
    latencies: Option<WindowedP2Quantile>,
    quantile: Option<f64>,
    /// The hedges' own budget, if they have one.
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

    /// Present delay after which a hedge starts.
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

    /// Restores the saved latencies if the quantile is the same.
    pub fn load(&mut self, from: &mut Loader<'_>) -> Result<(), Damage> {
        match &mut self.latencies {
            Some(latencies) => *latencies = latencies.load(from)?,
            None => from.dropped(()),
        }
        Ok(())
    }
}

/// When a hedge that is due then may ask, while the link is not `ok`.
#[cold]
#[inline(never)]
fn due_beside_link(link: Link, seed: u64, call: &Call, due: Time, now: Time) -> Time {
    match link {
        Link::Metered => Time::NEVER,
        Link::Offline if due <= now => turn_of(seed, call.ordinal(), now),
        Link::Ok | Link::Offline => due,
    }
}

/// Whether a call itself allows a hedge now, by its policy.
#[inline]
fn allows_hedge(calls: &Arena, slot: Slot, policy: &Policy, hedge: &Hedge) -> bool {
    let call = &calls[slot];
    let most = if policy.retry.max_attempts > 1 { policy.retry.max_attempts } else { hedge.max_attempts };
    !call.has(flag::UNHEDGED | flag::PROBE)
        && calls.is_hedgeable(slot)
        && call.running().count_ones() < u32::from(hedge.max_attempts)
        && call.attempts < most
}

/// The earliest end of an attempt timeout in a race, and the number of its attempt.
#[inline(never)]
fn first_of_race(calls: &Arena, slot: Slot, policies: &Policies, now: Time) -> (Time, u8) {
    let call = &calls[slot];
    let (running, policy) = (call.running(), policies.of(call));
    let mut first = (Time::NEVER, call.attempts);
    let Some(extra) = calls.extra(slot) else { return first };
    for it in extra.running_attempts(call.since()) {
        if running & AttemptSlot::of(it.attempt).bit() == 0 {
            continue;
        }
        let end = super::call::limit(it.since, policy.attempt_limit(calls, slot, it.attempt)).max(now);
        if end < first.0 || end == first.0 && it.attempt < first.1 {
            first = (end, it.attempt);
        }
    }
    first
}

impl Desk {
    /// When the next hedge is due; [`Time::NEVER`] if no hedge may start.
    #[inline]
    pub(super) fn hedge_due(&self, slot: Slot, now: Time) -> Time {
        let Some(hedger) = &self.routes[self.calls[slot].route].hedger else { return Time::NEVER };
        let call = &self.calls[slot];
        let policy = self.policies.of(call);
        let runs = call.state() == State::Running && call.running() != 0;
        let Some(hedge) =
            policy.hedge.as_ref().filter(|hedge| runs && allows_hedge(&self.calls, slot, policy, hedge))
        else {
            return Time::NEVER;
        };
        let newest = match self.calls.extra(slot) {
            Some(extra) if call.is_racing() => extra.newest(call.since()),
            _ => call.since(),
        };
        let due = newest.after(hedger.delay(hedge));
        if self.link == Link::Ok { due } else { due_beside_link(self.link, self.seed, call, due, now) }
    }

    /// Next moment at which a call with running attempts needs an event.
    #[inline]
    pub(super) fn next_moment(&self, slot: Slot, now: Time) -> Time {
        let call = &self.calls[slot];
        self.policies.first_end(&self.calls, slot).min(call.deadline).min(self.hedge_due(slot, now))
    }
}

impl Policies {
    /// The earliest end of an attempt timeout, also one that has passed.
    #[inline]
    pub(super) fn first_end(&self, calls: &Arena, slot: Slot) -> Time {
        self.first_to_end(calls, slot, Time::from_micros(0)).0
    }

    /// The earliest end of an attempt timeout, and the number of its attempt. Ends before `now` count as `now`, so that of
    /// several attempts out of time the oldest comes first, whatever timeouts their targets have (semantics 7.1.7).
    #[inline]
    pub(super) fn first_to_end(&self, calls: &Arena, slot: Slot, now: Time) -> (Time, u8) {
        let call = &calls[slot];
        if !call.is_racing() {
            return (call.moment, call.attempts);
        }
        first_of_race(calls, slot, self, now)
    }

    /// Whether the call itself allows a hedge now.
    pub(super) fn could_hedge(&self, calls: &Arena, slot: Slot) -> bool {
        let policy = self.of(&calls[slot]);
        policy.hedge.as_ref().is_some_and(|hedge| allows_hedge(calls, slot, policy, hedge))
    }
}

impl Routes {
    /// Learns from the winning attempt's latency. A winning hedge is no sample by itself; instead the regular attempt
    /// that it overtook counts with its duration so far.
    #[inline]
    pub(super) fn learn_latency(&mut self, calls: &Arena, slot: Slot, winner: &RunningAttempt, now: Time) {
        if self[calls[slot].route].hedger.is_some() {
            self.learn_latency_of(calls, slot, winner, now);
        }
    }

    #[inline(never)]
    fn learn_latency_of(&mut self, calls: &Arena, slot: Slot, winner: &RunningAttempt, now: Time) {
        let call = &calls[slot];
        let base = call.since();
        let racing = call.is_racing();
        let overtaken = calls.extra(slot).filter(|_| racing).and_then(|extra| {
            extra
                .running_attempts(base)
                .find(|running_attempt| !running_attempt.hedge)
                .map(|running_attempt| running_attempt.since)
        });
        let since = if winner.hedge { overtaken } else { Some(winner.since) };
        if let (Some(since), Some(hedger)) = (since, &mut self[calls[slot].route].hedger) {
            hedger.observe(now.since(since));
        }
    }
}

/// Remaining times of a call, as [`Engine::time_left`] returns them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeLeft {
    /// Until the newest attempt's timeout or the call's deadline, whichever comes first. `None` without either, and for
    /// a call without running attempts.
    pub attempt: Option<Duration>,
    /// Until the call's deadline: the policy's, or that of its request or its caller where that is earlier. `None`
    /// without one, and for a call that has ended.
    pub call: Option<Duration>,
    /// Whether the call has not ended.
    pub live: bool,
}

impl Engine {
    /// Remaining times of a call and of its newest attempt.
    ///
    /// For a call that cannot hedge, the timer of a step gives the attempt's as well. For one that can, the timer may
    /// be due sooner.
    ///
    /// ```
    /// use tidegate::{Duration, Engine, Options, Policy, Request, Time, Value};
    ///
    /// let pairs = [("deadline", Value::Number(9e6)), ("attempt_timeout", Value::Number(5e6))];
    /// let mut engine = Engine::new(7, Options::default());
    /// let policy = engine.policy(Policy::from_pairs("orders", &pairs).unwrap()).unwrap();
    /// let route = engine.route(policy, "eu", Time::from_micros(0));
    /// let (call, _) = engine.begin(route, &Request::default(), Time::from_micros(0));
    /// let left = engine.time_left(call, Time::from_micros(1_000_000));
    /// assert_eq!(left.attempt, Some(Duration::from_secs(4)));
    /// assert_eq!(left.call, Some(Duration::from_secs(8)));
    /// ```
    #[must_use]
    pub fn time_left(&self, call: CallId, now: Time) -> TimeLeft {
        let now = self.clock.peek(now);
        let Some(slot) = self.desk.calls.find(call) else { return TimeLeft::default() };
        let call = &self.desk.calls[slot];
        if matches!(call.state(), State::Ended | State::Lost) {
            return TimeLeft::default();
        }
        let whole = super::call::span(call.deadline, now);
        if call.state() != State::Running {
            return TimeLeft { attempt: None, call: whole, live: true };
        }
        let racing = self.desk.calls.extra(slot).filter(|_| call.is_racing());
        let since = racing.map_or(call.since(), |extra| extra.newest(call.since()));
        let policy = self.desk.policies.of(call);
        let end = super::call::limit(since, policy.attempt_limit(&self.desk.calls, slot, call.attempts));
        TimeLeft { attempt: super::call::span(end.min(call.deadline), now), call: whole, live: true }
    }
}
