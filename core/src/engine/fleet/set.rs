//! A set of limits of the fleet (semantics 10.14): the process leases tokens of each limit, a call takes leased tokens of
//! all limits or of none, and the store grants all or none too.
//!
//! What an attempt has reserved and not used returns to the lease. What it has used beyond is taken from the lease, and
//! what the lease lacks is charged to the store with the next command. The store counts a charge once, however often the
//! command comes. While the store is lost the process's own share applies, as for a single rate: every token that is
//! spent is charged to it.

mod ask;
mod queue;
mod stage;

use crate::engine::limits::Costs;
use crate::engine::sheets::WEIGHTS;
use crate::hash;
use crate::limit::{WeightedBucket, WeightedSettings};
use crate::policy::{LimitSet, OnLoss};
use crate::time::{Duration, Time};
pub(in crate::engine::fleet) use ask::Question;

use super::FORGOTTEN;
use super::health::RAREST;

/// Leased tokens not spent within this are returned.
const FRESH: Duration = Duration::from_secs(1);
/// A lease brings what flows in this time, and the pause after the store had fewer tokens than wanted.
const PAUSE: Duration = Duration::from_millis(50);
/// The shortest wait after the store has refused.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// The largest number in a command.
const MOST: u64 = 1 << 52;

/// A process's part of one limit.
#[derive(Clone, Debug)]
struct Lease {
    /// The fleet's.
    settings: WeightedSettings,
    /// The process's own share, for use while the store is lost.
    local: WeightedBucket,
    /// Leased tokens, and when the oldest of them are to go back.
    tokens: u64,
    until: Time,
    /// Tokens to return with the next command.
    back: u64,
    /// Tokens that were used and that the store has not counted.
    owed: u64,
    /// Tokens spent while the store was lost.
    alone: u64,
}

/// Bytes of the part of one limit.
pub(in crate::engine) const LEASE_BYTES: usize = size_of::<Lease>();

/// A charge that the store has not confirmed.
#[derive(Clone, Copy, Debug)]
struct Charge {
    number: u64,
    used: Costs,
}

/// What the store has refused: a call that lacks so many tokens of this limit, until this moment.
#[derive(Clone, Copy, Debug)]
struct Empty {
    need: Costs,
    until: Time,
    last: usize,
}

/// A process's part of a set of limits of the fleet.
#[derive(Clone, Debug)]
pub(in crate::engine) struct SetShare {
    on_loss: OnLoss,
    list: Vec<Lease>,
    /// Hash of the limits' names in their order: an answer about others is none about these.
    names: u64,
    /// When the store was last owed more.
    owed_at: Time,
    /// Whether the store can be reached, as of the last event about it.
    up: bool,
    /// Unanswered commands.
    asked: u32,
    charge: Option<Charge>,
    processes: u32,
    empty: Option<Empty>,
    /// End of recovery: until then the own share is a bound too.
    recovery_until: Time,
    /// When the store last got this process's name.
    seen: Option<Time>,
    /// Timeout for answers, from the policy of the last call.
    within: Duration,
}

impl SetShare {
    pub fn new(set: &LimitSet, on_loss: OnLoss, now: Time) -> Self {
        let lease = |settings: WeightedSettings| Lease {
            settings,
            local: WeightedBucket::new(share_of(settings, 1), now),
            tokens: 0,
            until: Time::default(),
            back: 0,
            owed: 0,
            alone: 0,
        };
        Self {
            on_loss,
            list: set.limits.iter().map(|limit| lease(limit.bucket)).collect(),
            names: names(set),
            owed_at: Time::default(),
            up: true,
            asked: 0,
            charge: None,
            processes: 1,
            empty: None,
            recovery_until: Time::default(),
            seen: None,
            within: PAUSE,
        }
    }

    /// Takes over what a share under other settings has: `places` are those of its limits in the old set.
    pub fn carry(&mut self, was: &Self, places: &[Option<usize>], now: Time) {
        (self.up, self.asked, self.seen, self.owed_at) = (was.up, was.asked, was.seen, was.owed_at);
        (self.processes, self.recovery_until, self.within) = (was.processes, was.recovery_until, was.within);
        let same = was.names == self.names;
        self.charge = was.charge.filter(|_| same);
        for (lease, place) in self.list.iter_mut().zip(places) {
            let Some(old) = place.and_then(|place| was.list.get(place)) else {
                lease.local.retune(share_of(lease.settings, self.processes), now);
                continue;
            };
            let settings = lease.settings;
            *lease = Lease { settings, ..old.clone() };
            lease.local.retune(share_of(settings, self.processes), now);
            // The store may have counted it; to count it again is the safe mistake.
            if let (Some(charge), Some(place), false) = (was.charge, place, same) {
                lease.owed = lease.owed.saturating_add(charge.used[*place]);
            }
        }
    }

    /// The process's own share of a limit, for a limit that leaves the fleet.
    pub fn local(&self, at: usize) -> Option<&WeightedBucket> {
        self.list.get(at).map(|lease| &lease.local)
    }

    pub fn processes(&self) -> u32 {
        self.processes
    }

    /// Number of unanswered commands.
    pub(super) fn asked(&self) -> u32 {
        self.asked
    }

    pub(super) fn asked_mut(&mut self) -> &mut u32 {
        &mut self.asked
    }

    /// Whether `on_loss` decides.
    pub fn is_alone(&self) -> bool {
        !self.up
    }

    /// After a fork: leases and commands belong to the parent.
    pub fn forget(&mut self) {
        (self.asked, self.charge, self.empty, self.seen) = (0, None, None, None);
        for lease in &mut self.list {
            (lease.tokens, lease.back, lease.owed) = (0, 0, 0);
        }
    }

    /// Schedules unspent tokens whose lease is over for return with the next command.
    fn expire(&mut self, now: Time) {
        for lease in self.list.iter_mut().filter(|lease| lease.tokens > 0 && lease.until <= now) {
            lease.back = lease.back.saturating_add(lease.tokens).min(lease.settings.burst);
            lease.tokens = 0;
        }
    }

    fn is_recovering(&self, now: Time) -> bool {
        now < self.recovery_until
    }

    /// Begins recovery: other processes may still use their shares, so this process's share is a bound for a while too.
    pub(super) fn begin_recovery(&mut self, now: Time) {
        if self.on_loss == OnLoss::Local {
            let latest = Duration::from_micros(RAREST.as_micros() * 3 / 2).plus(self.within);
            self.recovery_until = now.after(latest);
        }
    }

    /// Whole leased tokens of a limit, less what the store has not counted.
    pub fn level(&self, at: usize, now: Time) -> i64 {
        self.list.get(at).map_or(0, |lease| {
            let tokens = if now < lease.until { lease.tokens } else { 0 };
            tokens.min(MOST).cast_signed() - lease.owed.min(MOST).cast_signed()
        })
    }

    /// Whether the own share is in debt, or the store has yet to count something. Without calls no command goes, so what
    /// has been owed for a minute is forgotten with its route.
    pub fn is_in_debt(&self, now: Time) -> bool {
        let owes = self.charge.is_some() || self.list.iter().any(|it| it.owed > 0);
        owes && now < self.owed_at.after(FORGOTTEN) || self.list.iter().any(|it| it.local.is_in_debt(now))
    }

    /// When the own share will be full, with these tokens beside.
    pub fn full_in(&mut self, queued: &[u128; WEIGHTS], now: Time) -> Duration {
        let waits = self.list.iter_mut().zip(queued).map(|(lease, queued)| {
            let all = queued + u128::from(lease.local.settings().burst);
            lease.local.wait_for(all, now)
        });
        waits.max().unwrap_or(Duration::ZERO)
    }

    /// The own share owes tokens until this moment.
    pub fn owe(&mut self, until: Time, now: Time) {
        for lease in &mut self.list {
            lease.local.owe(until, 0, now);
        }
    }

    /// Takes the tokens of a call from all leases; without the store, from the own share, if `on_loss` says so.
    pub fn take(&mut self, costs: &Costs, now: Time) -> bool {
        self.expire(now);
        let leased = self.list.iter().zip(costs).all(|(lease, cost)| lease.tokens >= *cost);
        if leased && self.own_turn(costs, &[0; WEIGHTS], now).0 == Duration::ZERO {
            for (lease, cost) in self.list.iter_mut().zip(costs) {
                lease.tokens -= cost;
                lease.drain(*cost, now);
            }
            return true;
        }
        !self.up && self.take_alone(costs, now)
    }

    /// Takes tokens by `on_loss`. The store counts them once it is back.
    fn take_alone(&mut self, costs: &Costs, now: Time) -> bool {
        let there = |it: &mut Self| {
            it.list
                .iter_mut()
                .zip(costs)
                .all(|(lease, cost)| lease.local.wait_for((*cost).into(), now) == Duration::ZERO)
        };
        let taken = match self.on_loss {
            OnLoss::Closed => false,
            OnLoss::Open => true,
            OnLoss::Local => there(self),
        };
        if taken {
            self.owed_at = now;
            for (lease, cost) in self.list.iter_mut().zip(costs) {
                lease.drain(*cost, now);
                let counts = if self.up { &mut lease.owed } else { &mut lease.alone };
                *counts = counts.saturating_add(*cost).min(MOST);
            }
        }
        taken
    }

    /// Charges what an attempt has used beyond its reservation: from the lease, as far as it goes. Returns what the own
    /// share forgives while the store is lost.
    pub fn charge(&mut self, at: usize, used: u64, now: Time) -> u64 {
        self.expire(now);
        let Some(lease) = self.list.get_mut(at) else { return 0 };
        let leased = lease.tokens.min(used);
        lease.tokens -= leased;
        let forgiven = lease.local.charge(used, now);
        if used > leased {
            self.owed_at = now;
        }
        let counts = if self.up { &mut lease.owed } else { &mut lease.alone };
        *counts = counts.saturating_add(used - leased).min(MOST);
        if self.up { 0 } else { forgiven.min(used - leased) }
    }

    /// Gives back what was reserved and not used: to what the store has not counted first, then to the lease.
    pub fn give_back(&mut self, at: usize, tokens: u64, now: Time) {
        self.expire(now);
        let Some(lease) = self.list.get_mut(at) else { return };
        lease.local.give_back(tokens, now);
        let alone = lease.alone.min(tokens);
        lease.alone -= alone;
        let owed = lease.owed.min(tokens - alone);
        lease.owed -= owed;
        lease.put(tokens - alone - owed, now);
    }

    /// Time until a call can have its tokens beside those of `ahead`, and the limit that frees last.
    pub fn turn(&mut self, costs: &Costs, ahead: &[u128; WEIGHTS], now: Time) -> (Duration, usize) {
        self.expire(now);
        let own = self.own_turn(costs, ahead, now);
        let mut last = own;
        if !self.up {
            return later(own, self.alone_turn(costs, ahead, now));
        }
        for (at, lease) in self.list.iter().enumerate() {
            let lacks = (ahead[at] + u128::from(costs[at])).saturating_sub(lease.tokens.into());
            if lacks > 0 {
                let (need, from) = self.empty.map_or((0, now), |it| (it.need[at], it.until));
                let flow = flow(lacks.saturating_sub(need.into()), lease.settings);
                last = later(last, (from.since(now).plus(flow).max(Duration::from_micros(1)), at));
            }
        }
        last
    }

    /// Time until the own share allows it too, during recovery.
    fn own_turn(&mut self, costs: &Costs, ahead: &[u128; WEIGHTS], now: Time) -> (Duration, usize) {
        let mut last = (Duration::ZERO, 0);
        if !self.is_recovering(now) {
            return last;
        }
        let most = self.recovery_until.since(now);
        for (at, lease) in self.list.iter_mut().enumerate() {
            let cost = costs[at].min(lease.local.settings().burst);
            let wait = lease.local.wait_for(ahead[at] + u128::from(cost), now).min(most);
            last = later(last, (wait, at));
        }
        last
    }

    /// The limit of which the process's share never holds so many tokens.
    fn never_fits(&self, costs: &Costs) -> Option<usize> {
        self.list.iter().zip(costs).position(|(lease, cost)| *cost > lease.local.settings().burst)
    }

    /// Time until the process's share has the tokens of a call beside those of `ahead`, and the limit that frees last.
    fn alone_turn(&mut self, costs: &Costs, ahead: &[u128; WEIGHTS], now: Time) -> (Duration, usize) {
        let mut last = (Duration::ZERO, 0);
        for (at, lease) in self.list.iter_mut().enumerate() {
            last = later(last, (lease.local.wait_for(ahead[at] + u128::from(costs[at]), now), at));
        }
        last
    }

    /// What a call lacks of each limit.
    fn lacks(&self, costs: &Costs) -> Costs {
        core::array::from_fn(|at| self.list.get(at).map_or(0, |lease| costs[at].saturating_sub(lease.tokens)))
    }

    /// Whether the store has said that it will not have these tokens yet.
    fn is_empty_for(&self, lacks: &Costs, now: Time) -> bool {
        self.empty.is_some_and(|it| now < it.until && lacks[it.last] >= it.need[it.last].max(1))
    }

    /// What a lease should have, if less than a quarter of it is left.
    fn low(&self, now: Time) -> Option<Costs> {
        let mut any = false;
        let wants = core::array::from_fn(|at| {
            let Some(lease) = self.list.get(at) else { return 0 };
            let size = self.size(lease, now);
            let low = size > 1 && lease.tokens.saturating_mul(4) < size;
            any |= low;
            if low { size - lease.tokens } else { 0 }
        });
        any.then_some(wants)
    }

    /// Tokens to take from the store at a time, beside those that calls wait for. During recovery, only a part of a lease.
    fn size(&self, lease: &Lease, now: Time) -> u64 {
        let parts = if self.is_recovering(now) { u128::from(self.processes.max(1)) } else { 1 };
        let flow = u128::from(lease.settings.permits) * u128::from(PAUSE.as_micros());
        let size = flow / u128::from(lease.settings.per.as_micros().max(1)) / parts;
        u64::try_from(size).unwrap_or(u64::MAX).clamp(1, lease.settings.burst.max(1))
    }

    /// Schedules for the store what was spent without it, once all processes are back: up to what the own share lacks,
    /// because the rest has flowed in since.
    fn settle_alone(&mut self, now: Time) {
        if !self.up || self.is_recovering(now) {
            return;
        }
        for lease in self.list.iter_mut().filter(|lease| lease.alone > 0) {
            let lacks = lease.local.settings().burst.cast_signed() - lease.local.level(now);
            let alone = core::mem::take(&mut lease.alone).min(lacks.max(0).cast_unsigned());
            lease.owed = lease.owed.saturating_add(alone).min(MOST);
        }
    }

    /// Notes how many processes share the limits. While some may not have noticed the store's return, the number does not
    /// fall.
    fn hear_processes(&mut self, reported: u32, now: Time) {
        let processes = if self.is_recovering(now) { reported.max(self.processes) } else { reported };
        if processes != self.processes {
            self.processes = processes;
            for lease in &mut self.list {
                lease.local.retune(share_of(lease.settings, processes), now);
            }
        }
    }

    /// The longest wait that the store may name for a limit: until the largest debt is paid and a burst is there.
    fn longest(&self, at: usize) -> Duration {
        self.list.get(at).map_or(Duration::ZERO, |lease| {
            let all = u128::from(lease.settings.burst) + u128::from(lease.settings.max_debt);
            flow(all, lease.settings)
        })
    }
}

impl Lease {
    /// Charges spent tokens to the own share, which does not fall below 0 for them.
    fn drain(&mut self, cost: u64, now: Time) {
        let there = self.local.level(now).max(0).cast_unsigned();
        self.local.take(cost.min(there), now);
    }

    /// Adds leased tokens; what is above a burst goes back.
    fn put(&mut self, tokens: u64, now: Time) {
        if tokens == 0 {
            return;
        }
        if self.tokens == 0 {
            self.until = now.after(FRESH);
        }
        let all = self.tokens.saturating_add(tokens);
        self.tokens = all.min(self.settings.burst);
        self.back = self.back.saturating_add(all - self.tokens).min(self.settings.burst);
    }
}

fn names(set: &LimitSet) -> u64 {
    let names: Vec<&str> = set.limits.iter().map(|limit| &*limit.name).collect();
    hash::of(names.join(" ").as_bytes()) as u64
}

fn later(one: (Duration, usize), other: (Duration, usize)) -> (Duration, usize) {
    if other.0 > one.0 { other } else { one }
}

/// Time in which so many tokens flow in.
fn flow(tokens: u128, settings: WeightedSettings) -> Duration {
    let per = u128::from(settings.per.as_micros().max(1));
    let micros = tokens.saturating_mul(per).div_ceil(u128::from(settings.permits.max(1)));
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

/// One of `processes` equal parts of a limit: its permits in `processes` times the span.
fn share_of(settings: WeightedSettings, processes: u32) -> WeightedSettings {
    let processes = u64::from(processes.max(1));
    WeightedSettings {
        per: Duration::from_micros(settings.per.as_micros().saturating_mul(processes)),
        burst: (settings.burst / processes).max(1),
        max_debt: settings.max_debt / processes,
        ..settings
    }
}
