//! The parts of one route or pool: each is written under its name, and read under the present settings.

use crate::breaker::CircuitBreaker;
use crate::cooldown::Cooldown;
use crate::debt::Unit;
use crate::engine::cooldown::Cooling;
use crate::engine::hedge::Hedger;
use crate::engine::hold::Holds;
use crate::engine::limiter::Limiter;
use crate::engine::limits::Limits;
use crate::engine::place::PoolAt;
use crate::engine::rate_queue::{Bucket, OF_SET, RateQueue};
use crate::engine::route::debts::{Owed, Owner};
use crate::engine::route::{Route, SharedPools};
use crate::full::{Full, Part, Rare};
use crate::limit::TokenBucket;
use crate::policy::{HedgeBudget, Policy};
use crate::retry::{Budget, BudgetSettings, CubicRate};
use crate::state::{Damage, Loader, Moments, Saver, Value};
use crate::throttle::AdaptiveThrottle;
use crate::time::{Time, Wall};

/// Names of the parts.
const NAMES: [&str; 12] = [
    "forced",
    "budget",
    "rate",
    "limits",
    "send",
    "limit",
    "breaker",
    "throttle",
    "hedge",
    "hedge_budget",
    "holds",
    "cooldown",
];

/// The saved parts of a route or a pool.
#[derive(Debug, Default)]
pub(super) struct Parts {
    forced: bool,
    budget: Option<Budget>,
    rate: Option<TokenBucket>,
    limits: Option<Part<Limits>>,
    send: Option<CubicRate>,
    limiter: Option<Limiter>,
    breaker: Option<Box<CircuitBreaker>>,
    throttle: Option<Part<AdaptiveThrottle>>,
    hedger: Option<Part<Hedger>>,
    holds: Option<Part<Holds>>,
    cooldown: Option<Part<Cooling>>,
    /// Debts of saved budgets whose kind is no longer in use.
    pub lost: Owed,
    /// Names of the parts that began anew because their settings have changed.
    pub dropped: Vec<&'static str>,
}

/// Writes the nonempty parts of a route; `whole` means that its whole policy is forced open.
pub(in crate::engine) fn save(route: &Route, whole: bool, to: &mut Saver) {
    // If the whole policy is forced, saving that is enough: clearing it clears every route.
    if route.forced && !whole {
        to.part("forced", |to| to.flag(true));
    }
    if let Some(budget) = &route.budget {
        to.part("budget", |to| budget.save(to));
    }
    for (name, queue) in [("rate", route.rate.as_deref()), ("send", route.send.as_deref())] {
        match queue.map(|queue| &queue.bucket) {
            Some(Bucket::Tokens(bucket)) => to.part(name, |to| bucket.save(to)),
            Some(Bucket::Cubic(rate)) => to.part(name, |to| rate.save(to)),
            // Leases belong to the process, and the store keeps what the fleet has spent.
            Some(Bucket::Set(limits)) if limits.shared.is_none() => to.part("limits", |to| limits.save(to)),
            Some(Bucket::Fleet(_) | Bucket::Set(_)) | None => {}
        }
    }
    // A pool without a limit remains from a bulkhead that was removed.
    if let Some(pool) = route.pool.as_ref().filter(|pool| pool.limit != u32::MAX) {
        to.part("limit", |to| pool.limiter.save(to));
    }
    if let Some(breaker) = &route.breaker {
        to.part("breaker", |to| breaker.save(to));
    }
    if let Some(throttle) = &route.throttle {
        to.part("throttle", |to| throttle.save(to));
    }
    if let Some(hedger) = &route.hedger {
        to.part("hedge", |to| hedger.save(to));
        if let Some(budget) = &hedger.budget {
            to.part("hedge_budget", |to| budget.save(to));
        }
    }
    if let Some(holds) = &route.holds {
        to.part("holds", |to| holds.save(to));
    }
    if let Some(cooling) = &route.cooldown {
        to.part("cooldown", |to| cooling.part.save(to));
    }
}

impl Parts {
    /// Reads the saved parts of a route of this policy, or of a pool. Damage is reported as the part and the rule.
    pub fn load(
        saved: &Value,
        (policy, shared_pools): (&Policy, SharedPools),
        of: &Moments,
    ) -> Result<Self, (&'static str, Damage)> {
        let Value::Map(saved) = saved else { return Err(("parts", Damage("must be a map"))) };
        let mut it = Self::default();
        for (name, value) in saved {
            let Some(name) = NAMES.into_iter().find(|known| known == name) else {
                return Err(("parts", Damage("must be parts that a route has")));
            };
            let read = Loader::new(value, of).and_then(|mut from| {
                it.part(name, &mut from, (policy, shared_pools))?;
                if from.has_more() { Err(Damage("has items too many")) } else { Ok(()) }
            });
            read.map_err(|damage| (name, damage))?;
            if of.has_dropped() {
                it.dropped.push(name);
            }
        }
        Ok(it)
    }

    fn part(
        &mut self,
        name: &str,
        from: &mut Loader<'_>,
        (policy, shared_pools): (&Policy, SharedPools),
    ) -> Result<(), Damage> {
        let own = |home: PoolAt| home == PoolAt::NONE;
        let full = Full::here().ok_or(Damage("must be a full engine's"))?;
        match name {
            "forced" => self.forced = from.flag()?,
            "budget" => {
                let settings = policy.retry.budget.filter(|_| own(shared_pools.budget));
                self.budget = self.budget_of(false, settings, from)?;
            }
            "limits" => {
                let limit = policy.rate_limit.as_ref().filter(|_| own(shared_pools.rate));
                match limit.and_then(|limit| limit.limits.as_ref()) {
                    Some(set) => self.limits = Some(Part::new(Limits::load(from, set)?, full)),
                    None => from.dropped(()),
                }
            }
            "rate" => {
                match policy.rate_limit.as_ref().filter(|it| own(shared_pools.rate) && it.limits.is_none()) {
                    Some(limit) => self.rate = Some(TokenBucket::load(from, limit.bucket)?),
                    None => from.dropped(()),
                }
            }
            "send" if policy.retry.send_rate.is_on() => self.send = Some(CubicRate::load(from)?),
            "limit" => match policy.bulkhead.as_ref().filter(|_| own(shared_pools.pool)) {
                Some(bulkhead) => self.limiter = Some(Limiter::load(from, &bulkhead.limit)?),
                None => from.dropped(()),
            },
            "breaker" => match &policy.breaker {
                Some(it) => self.breaker = Some(Box::new(CircuitBreaker::load(from, it.settings)?)),
                None => from.dropped(()),
            },
            "throttle" => match &policy.throttle {
                Some(it) => {
                    self.throttle = Some(Part::new(AdaptiveThrottle::load(from, it.settings)?, full));
                }
                None => from.dropped(()),
            },
            "hedge" | "hedge_budget" => match &policy.hedge {
                Some(hedge) => {
                    let hedger = self.hedger.get_or_insert_with(|| Part::new(Hedger::new(hedge), full));
                    match hedge.budget {
                        _ if name == "hedge" => hedger.load(from)?,
                        HedgeBudget::Own(settings) => {
                            let budget = self.budget_of(true, settings, from)?;
                            if let Some(hedger) = &mut self.hedger {
                                hedger.budget = budget;
                            }
                        }
                        HedgeBudget::Shared => from.dropped(()),
                    }
                }
                None => from.dropped(()),
            },
            "holds" if policy.retry.hold.is_some() => {
                let holds = Holds::load(from)?;
                self.holds = Some(Part::new(holds, full));
            }
            "cooldown" => match &policy.cooldown {
                Some(it) => {
                    let part = Cooldown::load(from, it.settings, it.longest())?;
                    self.cooldown = Some(Part::new(Cooling::of(part, it), full));
                }
                None => from.dropped(()),
            },
            _ => from.dropped(()),
        }
        Ok(())
    }

    /// Restores a saved budget under the present settings. If its kind has changed, its debt is kept apart.
    fn budget_of(
        &mut self,
        hedges: bool,
        settings: Option<BudgetSettings>,
        from: &mut Loader<'_>,
    ) -> Result<Option<Budget>, Damage> {
        let owner = |unit| Owner::of(unit, hedges);
        let is_window = from.peek() == Some("window");
        match settings.as_ref().and_then(Unit::of) {
            Some(unit) if matches!(unit, Unit::Window(_)) == is_window => {}
            _ => {
                if let Some((unit, debt)) = Budget::load_debt(from)? {
                    self.lost[usize::from(hedges)] = Some((owner(unit), unit, debt));
                    return Ok(settings.as_ref().and_then(|to| Budget::spent(to, from.now())));
                }
            }
        }
        match settings {
            Some(settings) => Budget::load(from, &settings).map(Some),
            None => Ok(from.dropped(None)),
        }
    }

    /// Debts of a route with these parts.
    pub fn owed(&mut self, wall: Wall, now: Time) -> Owed {
        let of = |budget: Option<&mut Budget>, hedges| {
            let budget = budget?;
            let unit = budget.unit()?;
            Some((Owner::of(unit, hedges), unit, budget.debt(now)))
        };
        let rate = self.rate.as_mut().map(|rate| (Unit::Rate(rate.settings()), rate.debt(now)));
        let set = self.limits.as_mut().map(|limits| {
            limits.see(wall);
            (Unit::Rate(OF_SET), limits.debt(false, now))
        });
        let hedges = self.hedger.as_mut().and_then(|hedger| hedger.budget.as_mut());
        [
            rate.or(set).map(|(unit, debt)| (Owner::Rate, unit, debt)),
            of(self.budget.as_mut(), false),
            of(hedges, true),
        ]
    }

    /// Whether an eviction would spare a route with these parts.
    pub fn is_pinned(&self, now: Time) -> bool {
        self.forced
            || self.breaker.as_ref().is_some_and(|breaker| breaker.is_open(now))
            || self.cooldown.as_ref().is_some_and(|it| it.part.closed_for(now).is_some())
            || self.limits.as_ref().is_some_and(|limits| limits.is_in_debt(now))
    }
}

impl Route {
    /// Applies saved parts to a route without calls.
    pub(super) fn go_on_from(&mut self, parts: Parts, wall: Wall) {
        let Parts {
            forced,
            budget,
            rate,
            limits,
            send,
            limiter,
            breaker,
            throttle,
            hedger,
            holds,
            cooldown,
            lost: _,
            dropped: _,
        } = parts;
        let queue = |bucket| Some(Box::new(RateQueue::new(bucket)));
        let cubic =
            |(rate, full)| Some(Part::new(RateQueue::new(Bucket::Cubic(Rare::new(rate, full))), full));
        self.forced |= forced;
        self.budget = budget.or(self.budget.take());
        // The state of a rate that has joined the fleet is in the store.
        let is_local = self.rate.as_ref().is_some_and(|queue| matches!(queue.bucket, Bucket::Tokens(_)));
        self.rate = rate.filter(|_| is_local).map(Bucket::Tokens).map_or_else(|| self.rate.take(), queue);
        if let (Some(mut limits), Some(queue)) = (limits, &mut self.rate)
            && matches!(&queue.bucket, Bucket::Set(there) if there.shared.is_none())
        {
            limits.see(wall);
            queue.bucket = Bucket::Set(limits);
        }
        self.send = send.zip(Full::here()).map_or_else(|| self.send.take(), cubic);
        self.breaker = breaker.or(self.breaker.take());
        self.throttle = throttle.or(self.throttle.take());
        self.hedger = hedger.or(self.hedger.take());
        self.holds = holds.or(self.holds.take());
        self.cooldown = cooldown.or(self.cooldown.take());
        // The permits of a bulkhead of the fleet are its leased slots.
        if let (Some(pool), Some(limiter), None) = (&mut self.pool, limiter, &self.slots) {
            pool.set_limit(limiter.limit());
            pool.limiter = limiter;
        }
    }
}
