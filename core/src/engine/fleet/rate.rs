//! A rate that is the fleet's (semantics 10.1, 10.4, 10.5): tokens are taken from the store by the lease, and calls take
//! them from there with no I/O. A call that finds none waits for the store's answer, in the queue of its rate.
//!
//! How it stands with a queue follows from three things: is the store there; is a command out; has the store said that
//! there is nothing before a certain moment. While the store is gone, the process's own share stands in: a bucket of one
//! N-th of the rate, N the number of processes the store last told. It is charged by every token that is spent, also while
//! the store is there, so that a loss gives nobody a new burst.

mod ask;
mod ease;
mod loss;

use crate::engine::place::{PoolAt, Slot};
use std::collections::VecDeque;

use super::super::admit::Answer;
use super::super::arena::flag;
use super::super::automaton::State;
use super::super::call::{MAX_PARK, wait};
use super::super::chores::Chore;
use super::super::pace::Bucket;
use super::super::view::FleetRateView;
use super::FleetDesk;
use super::command::Part;
use super::plain;
use crate::action::{Step, Verdict, Wait};
use crate::limit::{RateSettings, TokenBucket};
use crate::policy::{FleetRate, OnLoss};
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

/// Leases that are told apart; more than these expire together.
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
    eased: Time,
    /// Tokens spent while it was gone.
    alone: u32,
    /// Tokens of calls that may not wait for an answer, which the store has yet to count.
    uncounted: u32,
    /// The store had fewer tokens than were to be counted; it is asked again then.
    count_at: Time,
    /// When the store was last told that this process is one of the fleet.
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
            eased: Time::default(),
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

impl FleetDesk<'_> {
    /// The routes and pools whose rate is the fleet's.
    pub(super) fn fleet_rates(&self) -> Vec<PoolAt> {
        let fleet = self.desk.routes.iter().filter(|(_, route)| {
            route.rate.as_ref().is_some_and(|pace| matches!(pace.bucket, Bucket::Fleet(_)))
        });
        fleet.map(|(slot, _)| slot.own()).collect()
    }

    pub(super) fn share_mut(&mut self, home: PoolAt) -> Option<&mut Share> {
        match &mut self.desk.routes[home].rate.as_deref_mut()?.bucket {
            Bucket::Fleet(share) => Some(share),
            Bucket::Tokens(_) | Bucket::Cubic(_) => None,
        }
    }

    fn rate_queue(&self, home: PoolAt) -> (u32, Option<Slot>, u64) {
        self.desk.routes[home]
            .rate
            .as_deref()
            .map_or((0, None, 0), |pace| (pace.waiting.len(), pace.waiting.head(), pace.queued()))
    }

    /// Asks for the tokens of a call, or of its next attempt, where the rate is the fleet's.
    #[inline(never)]
    pub(in crate::engine) fn ask_fleet(&mut self, slot: Slot, now: Time) -> Answer {
        let home = self.desk.routes[self.desk.calls[slot].route].rate_at;
        let cost = u32::from(self.desk.calls[slot].cost);
        let within = self.desk.policies.of(&self.desk.calls[slot]).store_timeout;
        self.watch_store(now);
        self.lease_out(home, now);
        let queued = self.rate_queue(home).0 > 0;
        let Some(share) = self.share_mut(home) else { return Answer::broken(Verdict::RateLimited) };
        share.within = within;
        if !queued && (cost == 0 || share.take(cost, now)) {
            self.ask_store(home, None, now);
            return Answer::Pass;
        }
        if self.desk.is_above_burst(cost, home) {
            return Answer::Refuse(Verdict::CostAboveBurst, None); // since it began, the burst has become smaller
        }
        if !self.store_up(home, Part::Rate) {
            self.ask_store(home, None, now); // where it is due, that is the probe
            return self.without_store(slot, home, queued, now);
        }
        let call = &self.desk.calls[slot];
        let (id, parks, deadline) = (self.desk.calls.id(slot), call.has(flag::MAY_PARK), call.deadline);
        let limit = self.desk.policies.of(&self.desk.calls[slot]).rate_limit.as_ref();
        let (waits, max_wait, most) =
            limit.map_or((false, Duration::ZERO, 0), |it| (it.wait, it.max_wait, it.max_waiters));
        let (waiting, _, tokens) = self.rate_queue(home);
        let Some(share) = self.share_mut(home) else { return Answer::broken(Verdict::RateLimited) };
        // Where the store has said that there is nothing yet, nobody asks before that; nor where the own share has nothing.
        let empty = !share.strict() && share.asked == 0 && share.empty_for(cost, now).is_some();
        let lacks = share.own_turn(tokens, cost, now) > Duration::ZERO;
        if empty || lacks {
            let turn = share.turn(tokens + u64::from(cost), now);
            let in_vain = turn > max_wait || now.after(turn) >= deadline;
            if !waits || in_vain {
                return Answer::Refuse(Verdict::RateLimited, Some(turn));
            }
        }
        if !parks {
            // It cannot wait for the answer, so the own share decides. The store counts what that has spent before it
            // grants a lease, and later calls find the answer.
            let answer = self.without_store(slot, home, queued, now);
            self.ask_store(home, None, now);
            return answer;
        }
        if waits && waiting >= most {
            let turn = share.turn(tokens + u64::from(cost), now);
            return Answer::Refuse(Verdict::RateLimited, Some(turn));
        }
        self.queue_for_tokens(slot, home, if waits { max_wait } else { within }, now);
        self.ask_store(home, if lacks { None } else { Some(id) }, now);
        self.desk.note_course(move |it| {
            let until = it.calls[slot].moment.min(it.calls[slot].deadline);
            it.queued(slot, Wait::Store, until, now);
        });
        Answer::Wait(self.wait_for_tokens(slot, home, now))
    }

    /// Puts a call into the queue of its rate; it gives up after `patience`.
    fn queue_for_tokens(&mut self, slot: Slot, home: PoolAt, patience: Duration, now: Time) {
        self.desk.calls.note_charged(slot);
        let call = &mut self.desk.calls[slot];
        call.pace(now.after(patience).min(call.deadline), false);
        let cost = u64::from(call.cost);
        if let Some(pace) = self.desk.routes[home].rate.as_deref_mut() {
            pace.enlist(&mut self.desk.calls, slot, cost);
        }
    }

    /// What `on_loss` says to a call that cannot have the store's answer.
    fn without_store(&mut self, slot: Slot, home: PoolAt, queued: bool, now: Time) -> Answer {
        let back = self.store_back_in(home, Part::Rate, now);
        let call = &self.desk.calls[slot];
        let (cost, parks, deadline) = (u32::from(call.cost), call.has(flag::MAY_PARK), call.deadline);
        let limit = self.desk.policies.of(&self.desk.calls[slot]).rate_limit.as_ref();
        let (waits, max_wait, most) =
            limit.map_or((false, Duration::ZERO, 0), |it| (it.wait, it.max_wait, it.max_waiters));
        let (waiting, _, tokens) = self.rate_queue(home);
        let down = !self.store_up(home, Part::Rate);
        self.desk.policies.count_fallback(self.desk.calls[slot].policy);
        let Some(share) = self.share_mut(home) else { return Answer::broken(Verdict::RateLimited) };
        match share.fleet.on_loss {
            OnLoss::Open => return Answer::Pass,
            OnLoss::Closed => return Answer::Refuse(Verdict::StoreUnavailable, back),
            OnLoss::Local => {}
        }
        if !queued && share.local.try_take(cost, now).is_ok() {
            share.spend_alone(cost, down);
            return Answer::Pass;
        }
        if cost > share.local.settings().burst {
            // The process's share never holds so much: only the store can give it.
            return Answer::Refuse(Verdict::RateLimited, back);
        }
        let ahead = if queued { tokens } else { 0 };
        let turn = share.local.wait_for(ahead + u64::from(cost), now);
        let in_vain = turn > max_wait || now.after(turn) >= deadline;
        if !waits || !parks || !down || waiting >= most || in_vain {
            return Answer::Refuse(Verdict::RateLimited, Some(turn));
        }
        self.queue_for_tokens(slot, home, max_wait, now);
        self.desk.note_course(move |it| it.queued(slot, Wait::Rate, now.after(turn), now));
        Answer::Wait(self.wait_for_tokens(slot, home, now))
    }

    /// When a waiter is to look again. The head has the queue's next moment in its timer.
    fn wait_for_tokens(&mut self, slot: Slot, home: PoolAt, now: Time) -> Step {
        let call = &self.desk.calls[slot];
        let mut until = call.moment.min(call.deadline).min(now.after(MAX_PARK));
        let cost = u32::from(call.cost);
        let id = self.desk.routes.lasting_id(home.route());
        let due = self.fleet.as_ref().and_then(|fleet| fleet.due(id, Part::Rate));
        let (up, is_head) = (self.store_up(home, Part::Rate), self.rate_queue(home).1 == Some(slot));
        let Some(share) = self.share_mut(home) else { return wait(Wait::Rate, until, now) };
        let why = if up && share.asked > 0 { Wait::Store } else { Wait::Rate };
        if is_head {
            let next = match why {
                Wait::Store => due,
                _ if up => {
                    let own = share.is_eased(now).then(|| now.after(share.own_turn(0, cost, now)));
                    own.max(share.empty.map(|it| it.1))
                }
                _ => Some(now.after(share.local.wait_for(u64::from(cost), now))),
            };
            until = next.map_or(until, |next| until.min(next.max(now)));
        }
        wait(why, until, now)
    }

    /// Leased tokens, or those of the process's share, for the heads that can have them. True if there is a new head.
    pub(in crate::engine) fn lease_out(&mut self, home: PoolAt, now: Time) -> bool {
        let up = self.store_up(home, Part::Rate);
        let mut moved = false;
        while let Some(slot) = self.rate_queue(home).1 {
            if !self.desk.chores.one_more(Chore::Tokens(home.route(), false)) {
                self.desk.wakes.push(self.desk.calls.id(slot)); // its event goes on here
                return true;
            }
            let (cost, deadline) = (u32::from(self.desk.calls[slot].cost), self.desk.calls[slot].deadline);
            let Some(share) = self.share_mut(home) else { break };
            if deadline <= now {
                self.desk.turn_away_from(slot, Verdict::DeadlineQueued, None, now);
            } else if share.take(cost, now) {
                self.grant_tokens(slot, now);
            } else if up {
                break;
            } else {
                match share.fleet.on_loss {
                    OnLoss::Closed => {
                        self.desk.policies.count_fallback(self.desk.calls[slot].policy);
                        let back = self.store_back_in(home, Part::Rate, now);
                        self.desk.turn_away_from(slot, Verdict::StoreUnavailable, back, now);
                    }
                    OnLoss::Local if share.local.try_take(cost, now).is_err() => break,
                    OnLoss::Local | OnLoss::Open => {
                        share.spend_alone(cost, true);
                        self.desk.policies.count_fallback(self.desk.calls[slot].policy);
                        self.grant_tokens(slot, now);
                    }
                }
            }
            moved = true;
        }
        if moved {
            self.wake_head(home);
        }
        moved
    }

    fn grant_tokens(&mut self, slot: Slot, now: Time) {
        self.desk.unlist(slot);
        self.desk.calls[slot].flags |= flag::TOKENS;
        self.desk.note_course(move |it| it.granted(slot, Wait::Store, None, now));
        self.desk.wakes.push(self.desk.calls.id(slot));
    }

    /// A head's timer has the queue's next moment, so a new head has to come and fetch it.
    fn wake_head(&mut self, home: PoolAt) {
        if let Some(head) = self.rate_queue(home).1 {
            self.desk.wakes.push(self.desk.calls.id(head));
        }
    }

    /// A waiter's own look.
    pub(in crate::engine) fn still_in_fleet(&mut self, slot: Slot, now: Time) -> Answer {
        let home = self.desk.routes[self.desk.calls[slot].route].rate_at;
        if !self.desk.calls[slot].has(flag::TOKENS) {
            self.watch_store(now);
            self.lease_out(home, now);
            self.ask_store(home, None, now);
            let own = self.desk.calls.id(slot);
            self.desk.wakes.retain(|woken| *woken != own); // it is here
        }
        let call = &self.desk.calls[slot];
        if call.state() == State::Refused {
            return Answer::Refuse(call.refusal(), call.refused_for(now));
        }
        if call.has(flag::TOKENS) {
            return Answer::Pass;
        }
        if call.moment > now {
            return Answer::Wait(self.wait_for_tokens(slot, home, now));
        }
        let waits =
            self.desk.policies.of(&self.desk.calls[slot]).rate_limit.as_ref().is_some_and(|limit| limit.wait);
        let cost = u64::from(self.desk.calls[slot].cost);
        if waits || !self.store_up(home, Part::Rate) {
            let turn = self.share_mut(home).map(|share| share.turn(cost, now));
            return Answer::Refuse(Verdict::RateLimited, turn);
        }
        // The answer has not come in time. It is not overdue yet: it was asked for after this call came.
        let route = self.desk.calls[slot].route;
        self.desk.unlist(slot);
        self.desk.unsettle_heads(route, false);
        if !self.lease_out(home, now) {
            self.desk.settle_heads(route, false);
        }
        self.desk.calls[slot].pass_on();
        self.without_store(slot, home, false, now)
    }
}
