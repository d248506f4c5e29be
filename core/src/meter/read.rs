//! Reading series: a meter's counts, and the levels of a snapshot.

use std::collections::BTreeMap;

use super::grown::{Grown, Name};
use super::sorted::Sorted;
use super::{Family, Instrument, Meter, Reading, Series, Spans, Tally};
use crate::action::{PolicyId, Verdict};
use crate::breaker::BreakerState;
use crate::cooldown::CooldownState;
use crate::engine::{
    CooldownView, Engine, LimitView, PoolView, RouteView, Skip, Snapshot, SnapshotPages, TargetView,
};
use crate::outcome::Kind;
use crate::policy::Policy;
use crate::time::Time;

/// Label of all routes without a series of their own.
const OTHER: &str = "other";

/// The component that refuses with this verdict; `None` if the verdict is not a refusal.
fn stage(verdict: Verdict) -> Option<&'static str> {
    Some(match verdict {
        Verdict::ForcedOpen => "operator",
        Verdict::BreakerOpen => "breaker",
        Verdict::Throttled => "throttle",
        Verdict::RateLimited | Verdict::CostAboveBurst => "rate_limit",
        Verdict::QueueFull | Verdict::AcquireTimeout | Verdict::QueueShed | Verdict::Displaced => "bulkhead",
        Verdict::HoldFull => "hold",
        Verdict::Cooldown => "cooldown",
        Verdict::StoreUnavailable => "store",
        Verdict::NoTarget | Verdict::TargetsLimited => "target",
        Verdict::DeadlineBefore | Verdict::DeadlineQueued => "deadline",
        _ => return None,
    })
}

/// Levels by family, policy and route. Levels of several routes with one label are combined: added up, or the
/// highest. A tree, because a page must not move the levels of 10,000 routes to insert one.
type Levels = BTreeMap<Name, f64>;

/// Number of tallies, and of the snapshot's routes, that one page turns into series.
const PAGE: usize = 32;

/// Series in the process of being read, page by page ([`Meter::read_page`]).
#[derive(Debug, Default)]
pub struct ReadPages {
    view: SnapshotPages,
    whole: Option<Snapshot>,
    tallies: usize,
    routes: usize,
    series: Vec<Series>,
    levels: Levels,
    /// Number of the reading, once its first page has been read.
    reading: u64,
    /// Whether the last page has been read.
    done: bool,
}

impl ReadPages {
    /// All series, ordered by family, policy and route.
    pub fn finish(self) -> Vec<Series> {
        let mut series = self.series;
        series.extend(self.levels.into_iter().map(series_of));
        // All keys differ. A stable sort is more machine code, which WebAssembly carries to every page.
        series.sort_unstable_by(|a, b| by_name(a).cmp(&by_name(b)));
        series
    }

    /// Takes out at most `most` series of the pages so far, in no order, for hosts that forward them page by page.
    /// Series of levels are known only after the last page. Returns an empty list when all known series have been
    /// taken.
    pub fn take(&mut self, most: usize) -> Vec<Series> {
        let mut taken = self.series.split_off(self.series.len().saturating_sub(most));
        while self.done && taken.len() < most {
            let Some(level) = self.levels.pop_first() else { break };
            taken.push(series_of(level));
        }
        taken
    }
}

fn series_of(((family, policy, route, labels), value): (Name, f64)) -> Series {
    Series { family, policy, route, labels, reading: Reading::Number(value) }
}

impl Meter {
    /// All series, ordered by family, policy and route: counters from the records, levels from a snapshot. A host
    /// that shares the engine between threads reads them in pages: [`Meter::read_page`].
    pub fn read(&mut self, engine: &Engine, now: Time) -> Vec<Series> {
        let mut pages = ReadPages::default();
        while self.read_page(engine, &mut pages, now) {}
        pages.finish()
    }

    /// Reads the next page; false after the last page. A host releases the lock between two pages: counters of one
    /// policy and route are consistent, and so are levels of one route.
    pub fn read_page(&mut self, engine: &Engine, pages: &mut ReadPages, now: Time) -> bool {
        let Some(view) = &pages.whole else {
            if !engine.snapshot_page(&mut pages.view, now) {
                pages.whole = Some(core::mem::take(&mut pages.view).finish());
                pages.reading = self.grown.begin();
            }
            return true;
        };
        if pages.tallies < self.tallies.len() {
            let page = self.tallies.iter().skip(pages.tallies).take(PAGE);
            pages.series.extend(
                page.filter_map(|tally| Some(counted(engine.policy_of(tally.policy)?, tally))).flatten(),
            );
            pages.tallies += PAGE;
            return true;
        }
        if pages.routes < view.routes.len() {
            for route in view.routes.iter().skip(pages.routes).take(PAGE) {
                let policy = engine.policy_named(&route.policy);
                let key = policy.map_or(OTHER, |policy| self.label(policy, &route.key));
                let mut to = Sink {
                    levels: &mut pages.levels,
                    grown: &mut self.grown,
                    policy: &route.policy,
                    route: key,
                    part: (route.life, pages.reading),
                };
                of_route(route, &mut to);
            }
            pages.routes += PAGE;
            return true;
        }
        let (levels, reading) = (&mut pages.levels, pages.reading);
        for pool in &view.pools {
            let mut to = Sink {
                levels,
                grown: &mut self.grown,
                policy: "",
                route: &pool.name,
                part: (pool.life, reading),
            };
            if let Some(pool) = &pool.pool {
                of_pool(pool, &mut to);
            }
            if let Some(budget) = pool.budget {
                to.add(Family::BudgetTokens, &[], budget as f64);
            }
            pool.limits.iter().for_each(|limit| of_limit(limit, &mut to));
        }
        for target in &view.targets {
            let mut to = Sink {
                levels,
                grown: &mut self.grown,
                policy: "",
                route: &target.group,
                part: (target.life, reading),
            };
            of_target(target, &mut to);
        }
        self.grown.forget(reading);
        for ((family, policy, route, labels), sum) in self.grown.sums() {
            let per = if *family == Family::CooldownClosed { 1e6 } else { 1.0 };
            let name = (*family, policy.clone(), route.clone(), labels.clone());
            levels.insert(name, sum as f64 / per);
        }
        if let Some(store) = view.store {
            let name = (Family::FleetUp, String::new(), String::new(), Vec::new());
            levels.insert(name, f64::from(u8::from(store.up)));
            pages.series.extend(view.policies.iter().map(|(policy, counts)| Series {
                family: Family::FleetFallbacks,
                policy: policy.clone(),
                route: String::new(),
                labels: Vec::new(),
                reading: Reading::Number(counts.store_fallbacks as f64),
            }));
        }
        pages.done = true;
        false
    }

    /// Label of a route: its key, or `other`. For metrics that a host adds to these.
    pub fn label<'a>(&mut self, policy: PolicyId, key: &'a str) -> &'a str {
        let at = self.tally(policy, Some(key));
        if self.tallies[at].route.is_some() { key } else { OTHER }
    }
}

fn by_name(of: &Series) -> (Family, [&str; 2], &[String]) {
    (of.family, [&of.policy, &of.route], &of.labels)
}

fn counted(policy: &Policy, tally: &Tally) -> Vec<Series> {
    let route = tally.route.as_deref().unwrap_or(OTHER);
    let series = |family, labels: &[&str], reading| Series {
        family,
        policy: policy.name().to_owned(),
        route: route.to_owned(),
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        reading,
    };
    let number = |family, labels: &[&str], count: u64| series(family, labels, Reading::Number(count as f64));
    let mut all = Vec::new();
    for verdict in Verdict::ALL {
        let (ended, name) = (tally.calls[*verdict as usize], verdict.name());
        if ended > 0 {
            all.push(number(Family::Calls, &[name], ended));
            if let Some(stage) = stage(*verdict) {
                all.push(number(Family::Rejections, &[stage, name], ended));
            }
        }
        let suppressed = tally.suppressed[*verdict as usize];
        if suppressed > 0 {
            all.push(number(Family::RetriesSuppressed, &[name], suppressed));
        }
    }
    for (family, counts) in [(Family::Attempts, &tally.attempts), (Family::Retries, &tally.retries)] {
        let mut by_name = Sorted::<String, u64>::default(); // a `retune` can remove names: all of those are `kind`
        for (kind, count) in counts.iter() {
            let name = Kind::new(*kind).and_then(|kind| policy.name_of(kind)).unwrap_or("kind");
            *by_name.at(name.to_owned()) += count;
        }
        all.extend(by_name.iter().map(|(kind, count)| number(family, &[kind], *count)));
    }
    for (outcome, count) in [("won", tally.won), ("lost", tally.lost)] {
        if count > 0 {
            all.push(number(Family::Hedges, &[outcome], count));
        }
    }
    for (phase, count) in [("before_delivery", tally.stalls[0]), ("after_delivery", tally.stalls[1])] {
        if count > 0 {
            all.push(number(Family::StreamStalls, &[phase], count));
        }
    }
    for (family, spans) in [
        (Family::CallDuration, &tally.duration),
        (Family::AcquireLatency, &tally.acquire),
        (Family::StreamDelivery, &tally.delivery),
    ] {
        let Spans { counts, us } = spans;
        if counts.iter().any(|count| *count > 0) {
            let reading = Reading::Histogram { counts: counts.to_vec(), sum: *us as f64 / 1e6 };
            all.push(series(family, &[], reading));
        }
    }
    all
}

/// Where the levels and totals of one route, pool or target go.
struct Sink<'a> {
    levels: &'a mut Levels,
    grown: &'a mut Grown,
    policy: &'a str,
    route: &'a str,
    /// The part that counts, and the number of the reading.
    part: (u64, u64),
}

impl Sink<'_> {
    /// Adds a level, or the total of a counter, which is not below zero.
    fn add(&mut self, family: Family, labels: &[&str], value: f64) {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let name = (family, self.policy.to_owned(), self.route.to_owned(), labels);
        if family.instrument() == Instrument::Counter {
            return self.grown.add(self.part, name, value as u64);
        }
        let highest = matches!(
            family,
            Family::BreakerStateNow
                | Family::RejectProbability
                | Family::HedgeDelay
                | Family::CooldownStateNow
        );
        let level = self.levels.entry(name).or_default();
        *level = if highest { level.max(value) } else { *level + value };
    }
}

fn of_pool(pool: &PoolView, to: &mut Sink<'_>) {
    to.add(Family::InFlight, &[], f64::from(pool.in_flight));
    to.add(Family::Capacity, &[], f64::from(pool.limit));
    to.add(Family::QueueDepth, &[], f64::from(pool.waiting));
}

fn of_limit(limit: &LimitView, to: &mut Sink<'_>) {
    let labels = [&*limit.name, limit.weight.as_deref().unwrap_or_default()];
    to.add(Family::RateTokens, &labels, limit.tokens.max(0) as f64);
    to.add(Family::RateDebt, &labels, limit.tokens.min(0).unsigned_abs() as f64);
    to.add(Family::RateReserved, &labels, limit.reserved as f64);
    to.add(Family::RateSettled, &labels, limit.settled as f64);
    to.add(Family::RateForgiven, &labels, limit.forgiven as f64);
    to.add(Family::RateLearned, &labels, limit.learned as f64);
}

fn of_cooldown(cooldown: &CooldownView, target: &str, to: &mut Sink<'_>) {
    let state = match cooldown.state {
        CooldownState::Open => 0.0,
        CooldownState::Closed => 1.0,
        CooldownState::Reopening => 2.0,
    };
    to.add(Family::CooldownStateNow, &[target], state);
    to.add(Family::CooldownClosings, &[target], cooldown.closings as f64);
    to.add(Family::CooldownClosed, &[target], cooldown.closed.as_micros() as f64);
}

fn number_of(state: BreakerState) -> f64 {
    match state {
        BreakerState::Closed => 0.0,
        BreakerState::Open => 1.0,
        BreakerState::HalfOpen => 2.0,
    }
}

fn of_target(target: &TargetView, to: &mut Sink<'_>) {
    let name = &*target.name;
    to.add(Family::TargetAttempts, &[name], target.attempts as f64);
    for (skip, count) in Skip::ALL.iter().zip(target.skipped_by) {
        to.add(Family::TargetSkips, &[name, skip.name()], count as f64);
    }
    to.add(Family::TargetFailovers, &[name], target.failovers as f64);
    to.add(Family::TargetInFlight, &[name], f64::from(target.in_flight));
    if let Some(breaker) = &target.breaker {
        to.add(Family::TargetBreaker, &[name], number_of(breaker.state));
    }
    if let Some(estimate) = target.estimate {
        to.add(Family::TargetEstimate, &[name], estimate.as_micros() as f64 / 1e6);
    }
    if let Some(cooldown) = &target.cooldown {
        of_cooldown(cooldown, name, to);
    }
}

fn of_route(route: &RouteView, to: &mut Sink<'_>) {
    if let Some(pool) = &route.pool {
        of_pool(pool, to);
    }
    if let Some(breaker) = &route.breaker {
        to.add(Family::BreakerStateNow, &[], number_of(breaker.state));
    }
    if let Some(throttle) = &route.throttle {
        to.add(Family::RejectProbability, &[], throttle.probability);
    }
    if let Some(budget) = route.budget {
        to.add(Family::BudgetTokens, &[], budget as f64);
    }
    if let Some(hedge) = &route.hedge {
        to.add(Family::HedgeDelay, &[], hedge.delay.as_micros() as f64 / 1e6);
    }
    if let Some(cooldown) = &route.cooldown {
        of_cooldown(cooldown, "", to);
        to.add(Family::CooldownQueue, &[], f64::from(cooldown.waiting));
    }
    route.limits.iter().for_each(|limit| of_limit(limit, to));
}
