//! What an engine tells of itself, as records of uniffi.

#![allow(clippy::disallowed_types)] // uniffi carries no other map; nobody here iterates one

use std::collections::HashMap;

use tidegate::{
    BreakerState, Counts, Engine as Core, Kind, Policy, PoolView, RateView, Record, RecordType, RouteView,
    SharedView, TargetView, Verdict,
};

/// What has happened under a policy.
#[derive(Clone, Debug, uniffi::Record)]
pub struct PolicyCounts {
    /// Attempts started.
    pub attempts: u64,
    /// Those beyond the first of their call that are no hedges.
    pub retries: u64,
    /// Those that started beside another.
    pub hedges: u64,
    /// Calls ended, by verdict.
    pub ends: HashMap<String, u64>,
    /// Errors that a fallback stood in for.
    pub fallbacks: u64,
    /// Those for which it was to, and failed itself.
    pub fallback_failures: u64,
}

/// One bulkhead.
#[derive(Clone, Debug, uniffi::Record)]
pub struct BulkheadView {
    /// Permits there are; an adaptive limit's present value.
    pub limit: u32,
    /// What sets that: `fixed`, `aimd` or `gradient2`.
    pub kind: String,
    /// Permits given out.
    pub in_flight: u32,
    /// Calls that wait for one.
    pub waiting: u32,
    /// Longest queue.
    pub max_queue: u32,
}

/// One rate limit.
#[derive(Clone, Debug, uniffi::Record)]
pub struct RateLimitView {
    /// Whole tokens there are.
    pub tokens: u32,
    /// Calls that wait for some.
    pub waiting: u32,
    /// Its limits by name, if it is a set.
    pub limits: HashMap<String, LimitView>,
}

/// One limit of a set.
#[derive(Clone, Debug, uniffi::Record)]
pub struct LimitView {
    /// The weight that it counts; nothing if it counts calls.
    pub weight: Option<String>,
    /// Whole tokens there are; below 0 while it is in debt.
    pub tokens: i64,
    /// The most tokens that it holds.
    pub burst: u64,
    /// Tokens that attempts have reserved so far.
    pub reserved: u64,
    /// Tokens that attempts have used so far, as far as they have ended.
    pub settled: u64,
    /// Tokens used beyond the largest debt so far, which nothing pays.
    pub forgiven: u64,
}

/// One send rate.
#[derive(Clone, Debug, uniffi::Record)]
pub struct SendRateView {
    /// Attempts per second that are allowed; nothing before the first throttle.
    pub rate: Option<f64>,
    /// Calls that wait for their turn.
    pub waiting: u32,
}

/// One circuit breaker.
#[derive(Clone, Debug, uniffi::Record)]
pub struct BreakerView {
    /// `closed`, `open` or `half_open`.
    pub state: String,
    /// Failures in its window.
    pub failures: u32,
    /// Results in its window.
    pub throughput: u32,
    /// While open: how long until the break is over.
    pub retry_in_us: Option<u64>,
}

/// One adaptive throttle.
#[derive(Clone, Debug, uniffi::Record)]
pub struct ThrottleView {
    /// Calls in its window.
    pub requests: u32,
    /// Those that the downstream accepted.
    pub accepts: u32,
    /// The probability that a call is refused now.
    pub probability: f64,
}

/// The hedges of a route.
#[derive(Clone, Debug, uniffi::Record)]
pub struct HedgeView {
    /// How long an attempt may take before one is started beside it.
    pub delay_us: u64,
    /// Hedges that their own budget has left.
    pub budget: Option<u64>,
}

/// The holds of a route.
#[derive(Clone, Debug, uniffi::Record)]
pub struct HoldView {
    /// Calls that are held.
    pub held: u32,
    /// Paths and prefixes that are held.
    pub holds: u32,
}

/// The cooldown of a route.
#[derive(Clone, Debug, uniffi::Record)]
pub struct CooldownView {
    /// `open`, `closed` or `reopening`.
    pub state: String,
    /// What is left of a closing.
    pub retry_in_us: Option<u64>,
    /// Attempts that may run at once while it reopens.
    pub places: u32,
    /// Of these, places that are taken.
    pub taken: u32,
    /// Calls that wait for it.
    pub waiting: u32,
}

/// One route. A component that the policy does not have, or that is in a shared pool, is absent.
#[derive(Clone, Debug, uniffi::Record)]
pub struct RouteSnapshot {
    /// The policy's name.
    pub policy: String,
    /// The route's key.
    pub key: String,
    /// Calls in it.
    pub active: u32,
    /// Is every call refused?
    pub forced: bool,
    /// Retries its budget has left.
    pub budget: Option<u64>,
    /// Its bulkhead.
    pub bulkhead: Option<BulkheadView>,
    /// Its rate limit.
    pub rate: Option<RateLimitView>,
    /// Its send rate.
    pub send: Option<SendRateView>,
    /// Its circuit breaker.
    pub breaker: Option<BreakerView>,
    /// Its adaptive throttle.
    pub throttle: Option<ThrottleView>,
    /// Its hedges.
    pub hedge: Option<HedgeView>,
    /// Its holds.
    pub hold: Option<HoldView>,
    /// Its cooldown.
    pub cooldown: Option<CooldownView>,
}

/// A pool that policies share: of the three components it has the one of its kind.
#[derive(Clone, Debug, uniffi::Record)]
pub struct PoolSnapshot {
    /// What it is.
    pub kind: String,
    /// Its permits.
    pub bulkhead: Option<BulkheadView>,
    /// Its tokens.
    pub rate: Option<RateLimitView>,
    /// Retries it has left.
    pub budget: Option<u64>,
}

/// A target of a group: what an attempt can go to.
#[derive(Clone, Debug, uniffi::Record)]
pub struct TargetSnapshot {
    /// The name of its group.
    pub group: String,
    /// Its name.
    pub name: String,
    /// Is every attempt at it refused?
    pub forced: bool,
    /// Attempts that have gone to it so far.
    pub attempts: u64,
    /// Choices so far in which it did not admit the attempt.
    pub skipped: u64,
    /// Attempts that have not ended.
    pub in_flight: u32,
    /// Moving average of the time to an answer, in microseconds, once there is one.
    pub estimate_us: Option<u64>,
    /// Its bulkhead.
    pub bulkhead: Option<BulkheadView>,
    /// Its rate limit.
    pub rate: Option<RateLimitView>,
    /// Its circuit breaker.
    pub breaker: Option<BreakerView>,
}

/// An engine at one moment.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Snapshot {
    /// Calls that have begun and not ended.
    pub live: u32,
    /// Calls that have ended, while attempts of them are still out.
    pub lingering: u32,
    /// Abandoned calls whose host has not been answered yet.
    pub lost: u32,
    /// Calls that wait.
    pub waiting: u32,
    /// Keys that had to share an `overflow` route so far.
    pub route_overflows: u64,
    /// Routes evicted so far.
    pub route_evictions: u64,
    /// Settlements so far that came after the end of their attempt.
    pub late_settlements: u64,
    /// Paths that could not be named for holds so far.
    pub path_overflows: u64,
    /// By policy.
    pub policies: HashMap<String, PolicyCounts>,
    /// All routes.
    pub routes: Vec<RouteSnapshot>,
    /// By pool.
    pub pools: HashMap<String, PoolSnapshot>,
    /// The targets of all groups: by the names of the groups, in the order of their members.
    pub targets: Vec<TargetSnapshot>,
}

impl Snapshot {
    pub(crate) fn of(view: tidegate::Snapshot) -> Self {
        Self {
            live: view.live,
            lingering: view.lingering,
            lost: view.lost,
            waiting: view.waiting,
            route_overflows: view.route_overflows,
            route_evictions: view.route_evictions,
            late_settlements: view.late_settlements,
            path_overflows: view.path_overflows,
            policies: view.policies.iter().map(|(name, of)| (name.clone(), counts(of))).collect(),
            routes: view.routes.into_iter().map(route).collect(),
            pools: view.pools.into_iter().map(pool).collect(),
            targets: view.targets.into_iter().map(target).collect(),
        }
    }
}

fn counts(of: &Counts) -> PolicyCounts {
    let ends = Verdict::ALL.iter().filter(|verdict| of.ended(**verdict) > 0);
    PolicyCounts {
        attempts: of.attempts,
        retries: of.retries,
        hedges: of.hedges,
        ends: ends.map(|verdict| (verdict.name().to_owned(), of.ended(*verdict))).collect(),
        fallbacks: of.fallbacks,
        fallback_failures: of.fallback_failures,
    }
}

fn permits(of: PoolView) -> BulkheadView {
    BulkheadView {
        limit: of.limit,
        kind: of.kind.name().to_owned(),
        in_flight: of.in_flight,
        waiting: of.waiting,
        max_queue: of.max_queue,
    }
}

fn tokens(of: RateView, limits: Vec<tidegate::LimitView>) -> RateLimitView {
    let limits = limits.into_iter().map(|it| {
        let (tokens, burst, reserved) = (it.tokens, it.burst, it.reserved);
        let (settled, forgiven) = (it.settled, it.forgiven);
        (it.name, LimitView { weight: it.weight, tokens, burst, reserved, settled, forgiven })
    });
    RateLimitView { tokens: of.tokens, waiting: of.waiting, limits: limits.collect() }
}

fn breaker(of: tidegate::BreakerView) -> BreakerView {
    BreakerView {
        state: match of.state {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half_open",
        }
        .to_owned(),
        failures: of.failures,
        throughput: of.throughput,
        retry_in_us: of.retry_in.map(tidegate::Duration::as_micros),
    }
}

fn route(of: RouteView) -> RouteSnapshot {
    RouteSnapshot {
        policy: of.policy,
        key: of.key,
        active: of.active,
        forced: of.forced,
        budget: of.budget,
        bulkhead: of.pool.map(permits),
        rate: of.rate.map(|rate| tokens(rate, of.limits)),
        send: of.send.map(|of| SendRateView { rate: of.rate, waiting: of.waiting }),
        breaker: of.breaker.map(breaker),
        throttle: of.throttle.map(|of| ThrottleView {
            requests: of.requests,
            accepts: of.accepts,
            probability: of.probability,
        }),
        hedge: of.hedge.map(|of| HedgeView { delay_us: of.delay.as_micros(), budget: of.budget }),
        hold: of.hold.map(|of| HoldView { held: of.held, holds: of.holds }),
        cooldown: of.cooldown.map(|of| CooldownView {
            state: of.state.name().to_owned(),
            retry_in_us: of.retry_in.map(tidegate::Duration::as_micros),
            places: of.places,
            taken: of.taken,
            waiting: of.waiting,
        }),
    }
}

fn target(of: TargetView) -> TargetSnapshot {
    TargetSnapshot {
        group: of.group,
        name: of.name,
        forced: of.forced,
        attempts: of.attempts,
        skipped: of.skipped,
        in_flight: of.in_flight,
        estimate_us: of.estimate.map(tidegate::Duration::as_micros),
        bulkhead: of.pool.map(permits),
        rate: of.rate.map(|rate| tokens(rate, Vec::new())),
        breaker: of.breaker.map(breaker),
    }
}

fn pool(of: SharedView) -> (String, PoolSnapshot) {
    let snapshot = PoolSnapshot {
        kind: of.kind.name().to_owned(),
        bulkhead: of.pool.map(permits),
        rate: of.rate.map(|rate| tokens(rate, of.limits)),
        budget: of.budget,
    };
    (of.name, snapshot)
}

/// What a restore has done.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Restored {
    /// Routes that go on.
    pub routes: u32,
    /// Routes for which there was no room.
    pub left_out: u32,
    /// Policies and pools of the saved state that this engine does not have.
    pub unknown: Vec<LeftOut>,
    /// Components that have started fresh because their settings are others now.
    pub dropped: Vec<LeftOut>,
}

/// What of a saved state was not taken over.
#[derive(Clone, Debug, uniffi::Record)]
pub struct LeftOut {
    /// `policy` or `pool`.
    pub what: String,
    /// Its name.
    pub name: String,
    /// The component, where not all of it is meant.
    pub component: Option<String>,
}

impl Restored {
    pub(crate) fn of(of: tidegate::Restored) -> Self {
        let unknown = of.unknown.into_iter().map(|(what, name)| LeftOut {
            what: what.to_owned(),
            name,
            component: None,
        });
        let dropped = of.dropped.into_iter().map(|(what, name, component)| LeftOut {
            what: what.to_owned(),
            name,
            component: Some(component.to_owned()),
        });
        Self {
            routes: of.routes,
            left_out: of.left_out,
            unknown: unknown.collect(),
            dropped: dropped.collect(),
        }
    }
}

/// One thing that an engine did (`docs/telemetry.md`). What a type does not say is absent.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Event {
    /// What it tells: a name of the closed list.
    pub kind: String,
    /// Orders all events of an engine; one that is missing was dropped.
    pub seq: u64,
    /// When, by the engine's clock.
    pub at_us: u64,
    /// The policy's name.
    pub policy: Option<String>,
    /// The route's key.
    pub route: Option<String>,
    /// The call's id.
    pub call: Option<u64>,
    /// The attempt, from 1 on.
    pub attempt: Option<u8>,
    /// Did the attempt start beside another one?
    pub hedge: bool,
    /// How the attempt or the call ended: a class, or a kind that the policy declares.
    pub outcome: Option<String>,
    /// Why a call ended or was refused: a verdict.
    pub reason: Option<String>,
    /// What a call waits for.
    pub why: Option<String>,
    /// The wait that begins or that has ended.
    pub wait_us: Option<u64>,
    /// Time since the call or the attempt began.
    pub elapsed_us: Option<u64>,
    /// How many like it were left out since the one before.
    pub suppressed: u64,
    /// Its rejection was left out, so whoever logs leaves this out too.
    pub quiet: bool,
    /// What has changed, from this …
    pub from: Option<String>,
    /// … to this.
    pub to: Option<String>,
}

impl Event {
    pub(crate) fn of(record: &Record, core: &Core) -> Self {
        let policy = record.policy.and_then(|policy| core.policy_of(policy));
        let level = |value: f64| match record.what {
            RecordType::BreakerChanged => ["closed", "open", "half_open"][(value as usize).min(2)].to_owned(),
            _ => value.to_string(),
        };
        Self {
            kind: record.what.name().to_owned(),
            seq: record.seq,
            at_us: record.at.as_micros(),
            policy: policy.map(|policy| policy.name().to_owned()),
            route: record.route.and_then(|route| core.key_of(route)).map(str::to_owned),
            call: record.call.map(tidegate::CallId::to_word),
            attempt: (record.attempt > 0).then_some(record.attempt),
            hedge: record.hedge,
            outcome: record.kind.map(|kind| named(kind, policy)),
            reason: record.reason().map(str::to_owned),
            why: record.why.map(|why| why.name().to_owned()),
            wait_us: record.wait.map(tidegate::Duration::as_micros),
            elapsed_us: record.elapsed.map(tidegate::Duration::as_micros),
            suppressed: record.suppressed.into(),
            quiet: record.quiet,
            from: record.change.map(|(from, _)| level(from)),
            to: record.change.map(|(_, to)| level(to)),
        }
    }
}

/// A class, or the name that a policy has given its kind.
fn named(kind: Kind, policy: Option<&Policy>) -> String {
    if let Some(class) = kind.class() {
        return class.name().to_owned();
    }
    let declared = policy.and_then(|policy| policy.kinds().find(|name| policy.kind_of(name) == Some(kind)));
    declared.map_or_else(|| kind.number().to_string(), str::to_owned)
}
