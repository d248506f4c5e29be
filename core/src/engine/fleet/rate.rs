//! A rate of the fleet (semantics 10.1, 10.4, 10.5): the process leases tokens from the store, and calls take leased
//! tokens without I/O. A call that finds none waits for the store's answer, in the queue of its rate.
//!
//! Three facts determine the state of a queue: whether the store can be reached, whether a command is out, and until
//! when the store has said that it has no tokens. While the store is lost, the process's own share applies: a bucket
//! of one N-th of the rate, where N is the number of processes that the store last reported. Every spent token is
//! charged to it, even while the store is up, so that a loss grants no process a new burst.

mod ask;
mod loss;
mod queue;
mod recovery;
mod stage;

use std::collections::VecDeque;

use super::super::view::FleetRateView;
use super::plain;
use crate::limit::{RateSettings, TokenBucket};
use crate::policy::FleetRate;
use crate::time::{Duration, Time};

/// Leased tokens not spent within this are returned.
const FRESH: Duration = Duration::from_secs(1);

/// How often a process announces itself to the store, which forgets it after five such intervals.
pub(super) const SEEN: Duration = Duration::from_secs(1);

/// The largest fleet. A larger number is an error of the store, and would leave a process no share of its own.
pub(super) const MOST_PROCESSES: u64 = 10_000;

/// The shortest wait after the store has refused.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// The longest pause before asking a store that had fewer tokens than wanted.
const PAUSE: Duration = Duration::from_millis(50);

/// Number of leases with separate expiry; further ones expire together.
const MOST_LEASES: usize = 8;

/// A process's part of a rate of the fleet.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Share {
    settings: RateSettings,
    fleet: FleetRate,
    /// Leased tokens, oldest first, and when they expire.
    leased: VecDeque<(u32, Time)>,
    /// The process's own share, for use while the store is lost.
    local: TokenBucket,
    /// Processes that share the rate, by the store's last answer.
    processes: u32,
    /// Unanswered commands that ask for tokens.
    asked: u32,
    /// Tokens to return with the next command.
    back: u32,
    /// The store has said that it will not have this many tokens before this moment.
    empty: Option<(u32, Time)>,
    /// End of recovery: until then the own share is a bound too, because the store has just come back.
    recovery_until: Time,
    /// Tokens spent while the store was lost.
    alone: u32,
    /// Tokens of calls that may not wait for an answer, which the store has not counted yet.
    uncounted: u32,
    /// When to report the rest of the debt, because the store had fewer tokens than that.
    count_at: Time,
    /// When the store last got this process's name.
    seen: Option<Time>,
    /// Timeout for answers, from the policy of the last call.
    within: Duration,
    /// This process's part of the window, in a store without scripts.
    part: plain::Part,
}

impl Share {
    pub fn new(settings: RateSettings, fleet: FleetRate, now: Time) -> Self {
        Self {
            settings,
            fleet,
            leased: VecDeque::new(),
            local: TokenBucket::new(share_of(settings, 1), now),
            processes: 1,
            asked: 0,
            back: 0,
            empty: None,
            recovery_until: Time::default(),
            alone: 0,
            uncounted: 0,
            count_at: Time::default(),
            seen: None,
            within: Duration::from_millis(50),
            part: plain::Part::default(),
        }
    }

    pub fn view(&self) -> FleetRateView {
        FleetRateView { processes: self.processes }
    }

    pub fn settings(&self) -> RateSettings {
        self.settings
    }

    pub(super) fn within(&self) -> Duration {
        self.within
    }

    pub(super) fn processes(&self) -> u32 {
        self.processes
    }

    /// Counts `wanted` tokens; `all` is the window's new total. Returns how many processes share the rate.
    pub(super) fn counted(&mut self, wanted: u64, all: u64) -> u32 {
        self.part.count(wanted, all).unwrap_or(self.processes)
    }

    /// The process's own share, as a bucket.
    pub fn local(&self) -> &TokenBucket {
        &self.local
    }

    pub fn local_mut(&mut self) -> &mut TokenBucket {
        &mut self.local
    }

    /// Applies new settings; keeps leased tokens.
    pub fn retune(&mut self, settings: RateSettings, fleet: FleetRate, now: Time) {
        (self.settings, self.fleet) = (settings, fleet);
        self.local.retune(share_of(settings, self.processes), now);
        self.empty = None;
    }

    /// After a fork: leases and commands belong to the parent.
    pub fn forget(&mut self) {
        self.leased.clear();
        (self.asked, self.back, self.empty, self.seen) = (0, 0, None, None);
        self.uncounted = 0;
    }

    /// Whether every call asks for itself.
    fn strict(&self) -> bool {
        self.fleet.lease == 1
    }

    /// Leased tokens that have not expired.
    pub fn tokens(&self, now: Time) -> u32 {
        self.leased.iter().filter(|it| now < it.1).fold(0, |sum, it| sum.saturating_add(it.0))
    }

    /// Schedules unspent tokens whose lease is over for return with the next command.
    fn expire(&mut self, now: Time) {
        while let Some((tokens, _)) = self.leased.front().copied().filter(|it| it.1 <= now) {
            self.leased.pop_front();
            self.give_back(tokens);
        }
    }

    fn give_back(&mut self, tokens: u32) {
        self.back = self.back.saturating_add(tokens).min(self.settings.burst);
    }

    /// Whether leased tokens suffice for a call of this cost.
    pub fn has(&mut self, cost: u32, now: Time) -> bool {
        self.tokens(now) >= cost && self.allows(cost, now)
    }

    /// Takes leased tokens, the oldest first.
    pub fn take(&mut self, cost: u32, now: Time) -> bool {
        self.expire(now);
        if !self.has(cost, now) {
            return false;
        }
        let mut left = cost;
        while left > 0
            && let Some((tokens, _)) = self.leased.front_mut()
        {
            let taken = left.min(*tokens);
            (*tokens, left) = (*tokens - taken, left - taken);
            if *tokens == 0 {
                self.leased.pop_front();
            }
        }
        self.local.drain(cost, now);
        true
    }

    fn put(&mut self, tokens: u32, now: Time) {
        self.expire(now);
        let many = self.leased.len() >= MOST_LEASES;
        match self.leased.back_mut() {
            Some(last) if many => last.0 = last.0.saturating_add(tokens),
            _ => self.leased.push_back((tokens, now.after(FRESH))),
        }
    }

    /// Pause before asking again after the store has given less than wanted: until the rate has produced a lease, at
    /// most 50 ms. Otherwise a fleet that wants more than its rate would ask for every token separately.
    fn pause(&self) -> Duration {
        if self.strict() {
            return Duration::ZERO;
        }
        let per = u128::from(self.settings.per.as_micros());
        let lease = u128::from(self.fleet.lease) * per / u128::from(self.settings.permits.max(1));
        Duration::from_micros(u64::try_from(lease).unwrap_or(u64::MAX)).min(PAUSE)
    }

    /// Time until `tokens` more tokens may be available, by the store's last answer and, where it is a bound, the own
    /// share.
    pub fn turn(&mut self, tokens: u64, now: Time) -> Duration {
        let own = self.own_turn(tokens, 0, now);
        self.store_turn(tokens, now).max(own)
    }

    /// Time until `tokens` tokens can be taken.
    pub fn wait_for(&mut self, tokens: u64, now: Time) -> Duration {
        if tokens <= u64::from(self.tokens(now)) {
            self.own_turn(tokens, 0, now)
        } else {
            self.turn(tokens, now)
        }
    }

    fn store_turn(&self, tokens: u64, now: Time) -> Duration {
        let (need, from) = self.empty.unwrap_or((0, now));
        let more = u128::from(tokens.saturating_sub(u64::from(need)));
        let flow = more * u128::from(self.settings.per.as_micros().max(1));
        let flow = flow.div_ceil(u128::from(self.settings.permits.max(1)));
        from.since(now).plus(Duration::from_micros(u64::try_from(flow).unwrap_or(u64::MAX)))
    }

    /// Until when the store has no tokens for a call of this cost.
    fn empty_for(&self, cost: u32, now: Time) -> Option<Time> {
        self.empty.filter(|(need, until)| cost >= *need && now < *until).map(|it| it.1)
    }
}

/// One of `processes` equal parts of a rate: its permits in `processes` times the span.
fn share_of(settings: RateSettings, processes: u32) -> RateSettings {
    let processes = processes.max(1);
    RateSettings {
        permits: settings.permits,
        per: Duration::from_micros(settings.per.as_micros().saturating_mul(u64::from(processes))),
        burst: (settings.burst / processes).max(1),
    }
}
