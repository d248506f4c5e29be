//! Reading series: a meter's counts, and the levels of a snapshot.

use std::collections::BTreeMap;

use super::sorted::Sorted;
use super::{Family, Meter, Reading, Series, Spans, Tally};
use crate::action::{PolicyId, Verdict};
use crate::breaker::BreakerState;
use crate::engine::{Engine, PoolView, RouteView, Snapshot, SnapshotPages};
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
        Verdict::NoTarget => "target",
        Verdict::DeadlineBefore | Verdict::DeadlineQueued => "deadline",
        _ => return None,
    })
}

/// Levels by family, policy and route. Levels of several routes with one label are combined: added up, or the
/// highest. A tree, because a page must not move the levels of 10,000 routes to insert one.
type Levels = BTreeMap<(Family, String, String), f64>;

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

fn series_of(((family, policy, route), value): ((Family, String, String), f64)) -> Series {
    Series { family, policy, route, labels: Vec::new(), reading: Reading::Number(value) }
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
                of_route(route, key, &mut pages.levels);
            }
            pages.routes += PAGE;
            return true;
        }
        for pool in &view.pools {
            let mut add = |family, value| level(&mut pages.levels, family, "", &pool.name, value);
            if let Some(pool) = &pool.pool {
                of_pool(pool, &mut add);
            }
            if let Some(budget) = pool.budget {
                add(Family::BudgetTokens, budget as f64);
            }
        }
        if let Some(store) = view.store {
            level(&mut pages.levels, Family::FleetUp, "", "", f64::from(u8::from(store.up)));
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
    for (family, spans) in [(Family::CallDuration, &tally.duration), (Family::AcquireLatency, &tally.acquire)]
    {
        let Spans { counts, us } = spans;
        if counts.iter().any(|count| *count > 0) {
            let reading = Reading::Histogram { counts: counts.to_vec(), sum: *us as f64 / 1e6 };
            all.push(series(family, &[], reading));
        }
    }
    all
}

fn level(levels: &mut Levels, family: Family, policy: &str, route: &str, value: f64) {
    let highest = matches!(family, Family::BreakerStateNow | Family::RejectProbability | Family::HedgeDelay);
    let level = levels.entry((family, policy.to_owned(), route.to_owned())).or_default();
    *level = if highest { level.max(value) } else { *level + value };
}

fn of_pool(pool: &PoolView, add: &mut impl FnMut(Family, f64)) {
    add(Family::InFlight, f64::from(pool.in_flight));
    add(Family::Capacity, f64::from(pool.limit));
    add(Family::QueueDepth, f64::from(pool.waiting));
}

fn of_route(route: &RouteView, key: &str, levels: &mut Levels) {
    let mut add = |family, value| level(levels, family, &route.policy, key, value);
    if let Some(pool) = &route.pool {
        of_pool(pool, &mut add);
    }
    if let Some(breaker) = &route.breaker {
        let state = match breaker.state {
            BreakerState::Closed => 0.0,
            BreakerState::Open => 1.0,
            BreakerState::HalfOpen => 2.0,
        };
        add(Family::BreakerStateNow, state);
    }
    if let Some(throttle) = &route.throttle {
        add(Family::RejectProbability, throttle.probability);
    }
    if let Some(budget) = route.budget {
        add(Family::BudgetTokens, budget as f64);
    }
    if let Some(hedge) = &route.hedge {
        add(Family::HedgeDelay, hedge.delay.as_micros() as f64 / 1e6);
    }
}
