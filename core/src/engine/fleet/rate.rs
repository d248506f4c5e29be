//! A rate that is the fleet's (semantics 10.1, 10.4, 10.5): tokens are taken from the store by the lease, and calls take
//! them from there with no I/O. A call that finds none waits for the store's answer, in the queue of its rate.
//!
//! How it stands with a queue follows from three things: is the store there; is a command out; has the store said that
//! there is nothing before a certain moment. While the store is gone, the process's own share stands in: a bucket of one
//! N-th of the rate, N the number of processes that the store last reported. It is charged by every token that is spent, also while
//! the store is there, so that a loss gives nobody a new burst.

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

/// Leased tokens that are not spent within this are given back.
const FRESH: Duration = Duration::from_secs(1);

/// A process says this often that it is one of the fleet; the store forgets it after five such times.
const SEEN: Duration = Duration::from_secs(1);

/// No fleet has more processes: what a store says beyond that is an error, and would leave a process no share of its own.
pub(super) const MOST_PROCESSES: u64 = 10_000;

/// The shortest wait that a store's "not now" means.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// The longest time that nobody asks a store that has less than was wanted.
const PAUSE: Duration = Duration::from_millis(50);

/// Leases that are kept apart; more than these expire together.
const MOST_LEASES: usize = 8;

/// A process's part of a rate of the fleet.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Share {
    settings: RateSettings,
    fleet: FleetRate,
    /// Tokens leased, oldest first, and when they expire.
    leased: VecDeque<(u32, Time)>,
    /// What the process may spend by itself while the store is gone.
    local: TokenBucket,
    /// Processes that share the rate, as the store last said.
    processes: u32,
    /// Commands out that ask for tokens.
    asked: u32,
    /// Tokens to give back with the next command.
    back: u32,
    /// The store has said that there are not so many tokens before this moment.
    empty: Option<(u32, Time)>,
    /// Until then the own share is a bound too, because the store has just come back.
    recovery_until: Time,
    /// Tokens spent while it was gone.
    alone: u32,
    /// Tokens of calls that may not wait for an answer, which the store has yet to count.
    uncounted: u32,
    /// The store had fewer tokens than were to be counted; it is asked again then.
    count_at: Time,
    /// When the store last got the name of this process.
    seen: Option<Time>,
    /// How long answers are waited for, as the last call's policy has it.
    within: Duration,
    /// What it has had of the window, in a store without scripts.
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

    /// So many tokens have been counted, and these are now all of the window: how many processes share the rate.
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

    /// Goes on with other settings; what is leased stays.
    pub fn retune(&mut self, settings: RateSettings, fleet: FleetRate, now: Time) {
        (self.settings, self.fleet) = (settings, fleet);
        self.local.retune(share_of(settings, self.processes), now);
        self.empty = None;
    }

    /// After a fork: leases and commands are the parent's.
    pub fn forget(&mut self) {
        self.leased.clear();
        (self.asked, self.back, self.empty, self.seen) = (0, 0, None, None);
        self.uncounted = 0;
    }

    /// Does every call ask for itself?
    fn strict(&self) -> bool {
        self.fleet.lease == 1
    }

    /// Leased tokens that have not expired.
    pub fn tokens(&self, now: Time) -> u32 {
        self.leased.iter().filter(|it| now < it.1).fold(0, |sum, it| sum.saturating_add(it.0))
    }

    /// Tokens that have not been spent in time go back with the next command.
    fn expire(&mut self, now: Time) {
        while let Some((tokens, _)) = self.leased.front().copied().filter(|it| it.1 <= now) {
            self.leased.pop_front();
            self.give_back(tokens);
        }
    }

    fn give_back(&mut self, tokens: u32) {
        self.back = self.back.saturating_add(tokens).min(self.settings.burst);
    }

    /// Is there something at hand for a call of this cost?
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

    /// How long nobody asks once the store has given less than was wanted: until the rate has brought a lease, at most
    /// 50 ms. A fleet that wants more than its rate would else ask for every token by itself.
    fn pause(&self) -> Duration {
        if self.strict() {
            return Duration::ZERO;
        }
        let per = u128::from(self.settings.per.as_micros());
        let lease = u128::from(self.fleet.lease) * per / u128::from(self.settings.permits.max(1));
        Duration::from_micros(u64::try_from(lease).unwrap_or(u64::MAX)).min(PAUSE)
    }

    /// How long until so many tokens more may be had, as far as the store has said, and the own share is a bound.
    pub fn turn(&mut self, tokens: u64, now: Time) -> Duration {
        let own = self.own_turn(tokens, 0, now);
        self.store_turn(tokens, now).max(own)
    }

    /// How long until so many tokens can be taken.
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

    /// The moment before which the store has nothing for a call of this cost.
    fn empty_for(&self, cost: u32, now: Time) -> Option<Time> {
        self.empty.filter(|(need, until)| cost >= *need && now < *until).map(|it| it.1)
    }
}

/// One of so many equal parts of a rate: its permits in so many times the span.
fn share_of(settings: RateSettings, processes: u32) -> RateSettings {
    let processes = processes.max(1);
    RateSettings {
        permits: settings.permits,
        per: Duration::from_micros(settings.per.as_micros().saturating_mul(u64::from(processes))),
        burst: (settings.burst / processes).max(1),
    }
}
