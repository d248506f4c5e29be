//! The state of a set of limits (semantics 3.4 to 3.6): a bucket for each, and what its waiters will take.

mod order;
mod scale;

use super::fleet::set::SetShare;
use super::place::Slot;
use super::sheets::{Amounts, WEIGHTS};
use crate::answer::Measure;
use crate::debt::Debt;
use crate::full::Name;
use crate::hash;
use crate::limit::{MOST, Refill, WeightedBucket, WeightedSettings};
use crate::policy::{LimitSet, NamedLimit};
use crate::state::{Damage, Loader, Saver};
use crate::time::{Duration, Time, Wall};
use crate::wide;

use order::Order;
use scale::Estimate;
pub(in crate::engine) use scale::Scale;

/// Tokens that a call takes of each limit, in the order of the set.
pub(in crate::engine) type Costs = [u64; WEIGHTS];

/// A set of limits.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Limits {
    pub list: Vec<Limit>,
    /// Names of the weights, in the order of the limits. Weights of calls are kept by their place in it.
    pub weights: Vec<Name>,
    /// Hash of these names: weights that were given for others mean nothing here.
    pub mark: u64,
    pub unknown_is_zero: bool,
    /// The process's part of them, if they are the fleet's. The buckets above say only what is declared then.
    pub shared: Option<Box<SetShare>>,
    /// Whether a limit refills by windows.
    windows: bool,
    /// What attempts use of each weight, where reservations are scaled by it.
    estimates: Vec<Estimate>,
    /// The order of its queue, if it is not that of arrival.
    pub order: Option<Box<Order>>,
}

/// One limit of a set.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Limit {
    pub name: Name,
    pub bucket: WeightedBucket,
    /// Place of its weight among the names; `None` for a limit that counts calls.
    pub weight: Option<usize>,
    pub default: Option<u64>,
    /// Tokens that the waiters will take.
    queued: u128,
    /// Tokens reserved so far, tokens that attempts have settled, and tokens forgiven.
    pub reserved: u64,
    pub settled: u64,
    pub forgiven: u64,
    /// The quota of the service whose rest lowers it, if it learns from one.
    measure: Option<Measure>,
    /// What answers may still take away: a burst at once, and half of what flows in.
    allowance: WeightedBucket,
    /// Tokens that answers have taken away so far.
    pub learned: u64,
}

/// What answers leave of each of a service's quotas, in the order of [`Measure`].
pub(in crate::engine) type Left = [Option<u64>; Measure::ALL.len()];

impl Limits {
    pub fn new(set: &LimitSet, now: Time) -> Self {
        let weights = weights(set);
        // The store counts what all processes use, so there is nothing to learn.
        let learns = set.learns && set.fleet.is_none();
        let limit = |it: &NamedLimit| Limit {
            name: it.name.clone(),
            bucket: WeightedBucket::new(it.bucket, now),
            weight: it.weight.as_ref().and_then(|name| weights.iter().position(|other| other == name)),
            default: it.default,
            queued: 0,
            reserved: 0,
            settled: 0,
            forgiven: 0,
            measure: learns.then(|| measure(it.weight.as_deref())).flatten(),
            allowance: WeightedBucket::new(allowance(it.bucket), now),
            learned: 0,
        };
        let list = set.limits.iter().map(limit).collect();
        let shared = set.fleet.map(|on_loss| Box::new(SetShare::new(set, on_loss, now)));
        let windows = set.has_windows();
        let estimates = weights.iter().filter_map(|_| set.quantile.map(Estimate::new)).collect();
        let unknown_is_zero = set.unknown_is_zero;
        let order = set.order.as_ref().map(|settings| Box::new(Order::new(settings)));
        Self { list, mark: mark(&weights), weights, unknown_is_zero, windows, shared, estimates, order }
    }

    /// Passes the host's wall clock to limits that refill by windows.
    #[inline]
    pub fn see(&mut self, wall: Wall) {
        if self.windows {
            for limit in &mut self.list {
                limit.bucket.wall = wall;
            }
        }
    }

    /// Applies new settings. A limit that both sets have keeps its tokens, its debt and its
    /// counts. The first windows of a limit are counted from the one that `wall` is in.
    pub fn retune(&mut self, to: &LimitSet, wall: Wall, now: Time) {
        let mut fresh = Self::new(to, now);
        for limit in &mut fresh.list {
            let Some(was) = self.list.iter().find(|was| was.name == limit.name) else { continue };
            let settings = limit.bucket.settings();
            limit.bucket = was.bucket.clone();
            limit.bucket.wall = wall;
            limit.bucket.retune(settings, now);
            (limit.reserved, limit.settled, limit.forgiven) = (was.reserved, was.settled, was.forgiven);
            limit.learned = was.learned;
            limit.allowance = was.allowance.clone();
            limit.allowance.retune(allowance(settings), now);
        }
        // Both have the same weights, unless the set was removed while calls waited for it and has come back with others.
        let estimates = core::mem::take(&mut fresh.estimates);
        let kept = |(it, weight): (Estimate, &Name)| {
            let at = self.weights.iter().position(|known| known == weight);
            it.kept(at.and_then(|at| self.estimates.get(at)))
        };
        fresh.estimates = estimates.into_iter().zip(&fresh.weights).map(kept).collect();
        self.carry_share(&mut fresh, now);
        *self = fresh;
    }

    /// Hands the process's part of the fleet's limits on to the limits under other settings. A limit that leaves the fleet
    /// begins with that part.
    fn carry_share(&self, to: &mut Self, now: Time) {
        let Some(was) = self.shared.as_deref() else { return };
        let places: Vec<Option<usize>> =
            to.list.iter().map(|limit| self.list.iter().position(|was| was.name == limit.name)).collect();
        if let Some(share) = to.shared.as_deref_mut() {
            return share.carry(was, &places, now);
        }
        for (limit, place) in to.list.iter_mut().zip(places) {
            if let Some(local) = place.and_then(|place| was.local(place)) {
                let settings = limit.bucket.settings();
                limit.bucket = local.clone();
                limit.bucket.retune(settings, now);
            }
        }
    }

    /// The scales of a new call's amounts. None takes more of a limit than the limit ever holds.
    pub fn scales(&self, amounts: &Amounts) -> [Scale; WEIGHTS] {
        core::array::from_fn(|weight| {
            let Some(estimate) = self.estimates.get(weight) else { return Scale::ONE };
            let those = self.list.iter().filter(|limit| limit.weight == Some(weight));
            let most = those.map(|limit| limit.bucket.settings().burst).min();
            estimate.scale(amounts[weight], most.unwrap_or(MOST))
        })
    }

    /// Notes what an attempt has used of what its call named.
    pub fn note_used(&mut self, weight: usize, used: u64, named: u64) {
        if let Some(estimate) = self.estimates.get_mut(weight) {
            estimate.note(used, named);
        }
    }

    /// What a call takes, by its weights; without a weight its cost.
    pub fn costs(&self, cost: u32, amounts: &Amounts) -> Costs {
        let mut costs = [0; WEIGHTS];
        for (place, limit) in costs.iter_mut().zip(&self.list) {
            *place = limit.weight.map_or(u64::from(cost), |weight| amounts[weight]);
        }
        costs
    }

    /// The weights of a call that names none, or `None` where one has no default.
    pub fn defaults(&self) -> Option<Amounts> {
        let mut amounts = [0; WEIGHTS];
        for (at, amount) in amounts.iter_mut().enumerate().take(self.weights.len()) {
            *amount = self.default_of(at)?;
        }
        Some(amounts)
    }

    /// The default of a weight: the largest of its limits'.
    pub fn default_of(&self, weight: usize) -> Option<u64> {
        self.list.iter().filter(|limit| limit.weight == Some(weight)).filter_map(|limit| limit.default).max()
    }

    /// The first limit of which a call takes more than the limit ever holds.
    pub fn above_burst(&self, costs: &Costs) -> Option<usize> {
        self.list.iter().zip(costs).position(|(limit, cost)| *cost > limit.bucket.settings().burst)
    }

    /// Time until a call can have its tokens, and the limit that frees last: beside the waiters' tokens, if it queues
    /// `behind` them.
    pub fn turn(&mut self, costs: &Costs, behind: bool, now: Time) -> (Duration, usize) {
        let queued = self.queued();
        if let Some(share) = &mut self.shared {
            return share.turn(costs, if behind { &queued } else { &[0; WEIGHTS] }, now);
        }
        let mut all = if behind { queued } else { [0; WEIGHTS] };
        all.iter_mut().zip(costs).for_each(|(all, cost)| *all += u128::from(*cost));
        self.turn_after(&all, now)
    }

    /// Time until so many tokens of each limit will be there, and the limit that frees last.
    fn turn_after(&mut self, tokens: &[u128; WEIGHTS], now: Time) -> (Duration, usize) {
        let mut last = (Duration::ZERO, 0);
        for (at, (limit, tokens)) in self.list.iter_mut().zip(tokens).enumerate() {
            let wait = limit.bucket.wait_for(*tokens, now);
            if wait > last.0 {
                last = (wait, at);
            }
        }
        last
    }

    /// Time until a waiter can have its tokens if only waiters of its own criticality and key come before it.
    pub fn least_turn(&mut self, slot: Slot, now: Time) -> Duration {
        let queued = self.order.as_ref().map_or([0; WEIGHTS], |order| order.queued_with(slot));
        self.turn_after(&queued, now).0
    }

    /// The limit that will have the tokens of all waiters last.
    pub fn last_to_free(&self, now: Time) -> usize {
        let mut last = (Duration::ZERO, 0);
        for (at, limit) in self.list.iter().enumerate() {
            let wait = limit.bucket.clone().wait_for(limit.queued, now); // looking changes nothing
            if wait > last.0 {
                last = (wait, at);
            }
        }
        last.1
    }

    /// The waiter that is next, if the order is not that of arrival.
    pub fn next_in_order(&self) -> Option<Slot> {
        self.order.as_deref().and_then(Order::next)
    }

    /// What a call is charged in the order of the queue: the longest time that a limit takes to bring its tokens, in µs.
    pub fn charge_of(&self, costs: &Costs) -> u64 {
        let time = |(limit, cost): (&Limit, &u64)| {
            let WeightedSettings { permits, per, .. } = limit.bucket.settings();
            // Factors are below 2^53.
            wide::div_ceil(u128::from(*cost) * u128::from(per.as_micros()), permits.max(1).into())
        };
        let longest = self.list.iter().zip(costs).map(time).max();
        longest.map_or(0, |time| u64::try_from(time).unwrap_or(MOST).min(MOST))
    }

    /// Takes the tokens of a call from all limits, if all have them.
    pub fn take(&mut self, costs: &Costs, now: Time) -> bool {
        if let Some(share) = &mut self.shared {
            if !share.take(costs, now) {
                return false;
            }
        } else {
            if self.turn(costs, false, now).0 > Duration::ZERO {
                return false;
            }
            for (limit, cost) in self.list.iter_mut().zip(costs) {
                limit.bucket.take(*cost, now);
            }
        }
        self.count_reserved(costs);
        true
    }

    /// Counts what a call has reserved.
    pub fn count_reserved(&mut self, costs: &Costs) {
        for (limit, cost) in self.list.iter_mut().zip(costs) {
            limit.reserved = limit.reserved.saturating_add(*cost);
        }
    }

    pub fn enlist(&mut self, costs: &Costs) {
        for (limit, cost) in self.list.iter_mut().zip(costs) {
            limit.queued += u128::from(*cost);
        }
    }

    pub fn delist(&mut self, costs: &Costs) {
        for (limit, cost) in self.list.iter_mut().zip(costs) {
            limit.queued = limit.queued.saturating_sub(u128::from(*cost));
        }
    }

    /// Tokens that the waiters will take of each limit.
    pub fn queued(&self) -> [u128; WEIGHTS] {
        core::array::from_fn(|at| self.list.get(at).map_or(0, |limit| limit.queued))
    }

    /// Forgets the waiters.
    pub fn forget_waiters(&mut self) {
        for limit in &mut self.list {
            limit.queued = 0;
        }
        if let Some(order) = &mut self.order {
            order.clear();
        }
        if let Some(share) = &mut self.shared {
            share.forget();
        }
    }

    /// Charges what an attempt has used beyond its reservation.
    pub fn charge(&mut self, weight: usize, tokens: u64, now: Time) {
        for (at, limit) in self.list.iter_mut().enumerate().filter(|(_, it)| it.weight == Some(weight)) {
            let forgiven = match &mut self.shared {
                Some(share) => share.charge(at, tokens, now),
                None => limit.bucket.charge(tokens, now),
            };
            limit.forgiven = limit.forgiven.saturating_add(forgiven);
        }
    }

    /// Settles a reservation: what is not used comes back. Returns true if any did.
    pub fn settle(&mut self, reserved: &Amounts, used: &Amounts, now: Time) -> bool {
        let mut any = false;
        for (at, limit) in self.list.iter_mut().enumerate() {
            let Some(weight) = limit.weight else { continue };
            limit.settled = limit.settled.saturating_add(used[weight]);
            let over = reserved[weight].saturating_sub(used[weight]);
            if over > 0 {
                match &mut self.shared {
                    Some(share) => share.give_back(at, over, now),
                    None => limit.bucket.give_back(over, now),
                }
                any = true;
            }
        }
        any
    }

    /// Whether it learns from answers.
    pub fn learns(&self) -> bool {
        self.list.iter().any(|limit| limit.measure.is_some())
    }

    /// Lowers limits to what an answer says is left (semantics 3.7). Of several of one measure, the one with the shortest
    /// period learns.
    pub fn learn(&mut self, left: &Left, now: Time) {
        for measure in Measure::ALL {
            let Some(left) = left[measure as usize] else { continue };
            let those = self.list.iter_mut().filter(|limit| limit.measure == Some(measure));
            let Some(limit) = those.min_by_key(|limit| limit.bucket.settings().per) else { continue };
            let above = limit.bucket.level(now).saturating_sub(left.min(MOST).cast_signed());
            let most = limit.allowance.level(now);
            let taken = above.min(most).max(0).cast_unsigned();
            limit.bucket.take(taken, now);
            limit.allowance.take(taken, now);
            limit.learned = limit.learned.saturating_add(taken);
        }
    }

    /// Whole tokens of the emptiest limit; 0 in debt.
    pub fn least_level(&self, now: Time) -> u32 {
        let levels = (0..self.list.len()).map(|at| self.level(at, now).max(0));
        levels.min().map_or(0, |least| u32::try_from(least).unwrap_or(u32::MAX))
    }

    /// Whole tokens of a limit, negative in debt. Of a limit of the fleet those that the process has leased.
    pub fn level(&self, at: usize, now: Time) -> i64 {
        match &self.shared {
            Some(share) => share.level(at, now),
            None => self.list[at].bucket.level(now),
        }
    }

    pub fn is_in_debt(&self, now: Time) -> bool {
        if let Some(share) = &self.shared {
            return share.is_in_debt(now);
        }
        self.list.iter().any(|limit| limit.bucket.is_in_debt(now))
    }

    /// When all limits will be full, with the waiters' tokens or without. The amount is 1 and the largest share that is
    /// missing in a limit that refills by windows.
    pub fn debt(&mut self, waiters: bool, now: Time) -> Debt {
        let (mut longest, mut missing) = (Duration::ZERO, 0);
        let all = self.queued();
        if let Some(share) = &mut self.shared {
            longest = share.full_in(if waiters { &all } else { &[0; WEIGHTS] }, now);
        }
        for limit in self.list.iter().filter(|_| self.shared.is_none()) {
            let queued = if waiters { limit.queued } else { 0 };
            let all = queued + u128::from(limit.bucket.settings().burst);
            let mut bucket = limit.bucket.clone(); // looking changes nothing
            longest = longest.max(bucket.wait_for(all, now));
            missing = missing.max(bucket.missing_share(queued, now));
        }
        if longest == Duration::ZERO {
            return Debt::NONE;
        }
        Debt { amount: 1 + missing, until: now.after(longest) }
    }

    pub fn owe(&mut self, debt: Debt, now: Time) {
        if let Some(share) = &mut self.shared {
            return share.owe(debt.until, now);
        }
        for limit in &mut self.list {
            limit.bucket.owe(debt.until, debt.amount.saturating_sub(1), now);
        }
    }

    pub fn save(&self, to: &mut Saver) {
        for limit in &self.list {
            to.text(&limit.name);
            limit.bucket.save(to);
        }
        for (name, estimate) in self.weights.iter().zip(&self.estimates) {
            estimate.save(name, to);
        }
    }

    /// Restores the limits that are saved by name; others begin full.
    pub fn load(from: &mut Loader<'_>, set: &LimitSet) -> Result<Self, Damage> {
        let mut it = Self::new(set, from.then());
        while from.has_more() {
            let name = from.text()?;
            if let Some(weight) = name.strip_prefix('~') {
                let at = it.weights.iter().position(|known| **known == *weight);
                if let Some(estimate) = at.and_then(|at| it.estimates.get_mut(at)) {
                    estimate.load(from)?;
                } else {
                    let _ = from.any()?;
                    from.dropped(());
                }
            } else if let Some(limit) = it.list.iter_mut().find(|limit| *limit.name == *name) {
                limit.bucket.load(from)?;
            } else {
                let _ = WeightedBucket::saved(from)?;
                from.dropped(());
            }
        }
        Ok(it)
    }
}

/// The quota that a limit of this weight learns from: requests without a weight, else the one of the same name.
fn measure(weight: Option<&str>) -> Option<Measure> {
    let Some(weight) = weight else { return Some(Measure::Requests) };
    Measure::ALL.into_iter().find(|measure| {
        let words = measure.name().bytes().map(|byte| if byte == b'-' { b'_' } else { byte });
        words.eq(weight.bytes())
    })
}

/// The bucket of what answers may take away of a limit.
fn allowance(of: WeightedSettings) -> WeightedSettings {
    let per = Duration::from_micros(of.per.as_micros().saturating_mul(2));
    WeightedSettings { per, max_debt: 0, refill: Refill::Continuous, ..of }
}

/// The names of a set's weights, each once, in the order of its limits.
fn weights(set: &LimitSet) -> Vec<Name> {
    let mut names: Vec<Name> = Vec::new();
    for name in set.limits.iter().filter_map(|limit| limit.weight.as_ref()) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn mark(weights: &[Name]) -> u64 {
    let names: Vec<&str> = weights.iter().map(|name| &**name).collect();
    u64::from(hash::of(names.join(" ").as_bytes()) as u32) // blocks of weights keep 32 bits of it
}

/// Whether two policies' rate limits have the same form: a single rate, or a set of the same weights.
pub(in crate::engine) fn is_same_form(from: Option<&LimitSet>, to: Option<&LimitSet>) -> bool {
    match (from, to) {
        (None, None) => true,
        (Some(from), Some(to)) => weights(from) == weights(to),
        _ => false,
    }
}
