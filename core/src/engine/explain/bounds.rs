//! Bounds of a policy: the longest wait, the load, and the memory.

use super::Load;
use crate::engine::cooldown::Cooling;
use crate::engine::fleet::closing::Closing;
use crate::engine::fleet::set::{LEASE_BYTES, SetShare};
use crate::engine::hedge::Hedger;
use crate::engine::hold::Holds;
use crate::engine::limiter::Limiter;
use crate::engine::limits::{Limit, Limits};
use crate::engine::rate_queue::RateQueue;
use crate::engine::route::Route;
use crate::limit::{Aimd, Gradient2};
use crate::policy::{Group, HedgeBudget, Policy, Unit};
use crate::retry::{Backoff, BudgetSettings, Jitter, RetryAfterMode, Rounding, TOKEN, micro_tokens};
use crate::time::Duration;
use crate::{AdaptiveThrottle, CircuitBreaker, CoDel};

/// The most that `clamp_5s` lets a server add.
const CLAMP: Duration = Duration::from_secs(5);

/// The most attempts of a call. In a policy with retries, this includes hedges.
pub(super) fn max_attempts(policy: &Policy) -> u8 {
    let hedged = policy.hedge.as_ref().map_or(1, |hedge| hedge.max_attempts);
    if policy.retry.max_attempts > 1 { policy.retry.max_attempts } else { hedged }
}

/// The longest wait of a call; a deadline bounds all its parts.
pub(super) fn max_wait(policy: &Policy, queues: bool, group: Option<&Group>) -> Option<Duration> {
    let times = |unit: Unit| if unit == Unit::Attempt { u64::from(max_attempts(policy)) } else { 1 };
    let mut sum = backoffs(policy);
    if policy.retry.hold.is_some() || policy.retry.send_rate.is_on() {
        sum = Duration::MAX; // unbounded, like the servers' waits and the throttled rate
    }
    if policy.cooldown.is_some() && policy.retry.max_attempts > 1 {
        sum = Duration::MAX; // a retry waits for the end of each further closing
    }
    if let Some(cooldown) = policy.cooldown.as_ref().filter(|it| it.wait) {
        sum = sum.plus(repeated(cooldown.max_wait, 2)); // at its stage, and just before its attempt
    }
    if let Some(limit) = policy.rate_limit.as_ref().filter(|limit| limit.wait) {
        sum = sum.plus(repeated(limit.max_wait, times(limit.unit)));
    }
    if let Some(bulkhead) = policy.bulkhead.as_ref().filter(|_| queues) {
        sum = sum.plus(repeated(bulkhead.acquire_timeout, times(bulkhead.unit)));
    }
    if let Some(group) = group.filter(|group| group.max_queue > 0) {
        sum = sum.plus(repeated(group.max_wait, max_attempts(policy).into()));
    }
    Some(sum.min(policy.deadline)).filter(|sum| *sum != Duration::MAX)
}

fn repeated(span: Duration, times: u64) -> Duration {
    Duration::from_micros(span.as_micros().saturating_mul(times))
}

/// The longest sum of waits before retries.
fn backoffs(policy: &Policy) -> Duration {
    let retry = &policy.retry;
    let longest = |n: u32| {
        let of = |base| {
            let backoff = Backoff { base, ..retry.backoff };
            let ceiling = match backoff.jitter {
                Jitter::Decorrelated => backoff.max.max(base),
                _ => backoff.ceiling(n),
            };
            if let Jitter::Bounded(_) = backoff.jitter { backoff.delay(n, base, u64::MAX) } else { ceiling }
        };
        let computed = of(retry.backoff.base).max(of(retry.throttled_base));
        let asked = retry.max_retry_after;
        match retry.mode {
            RetryAfterMode::Ignore => computed,
            RetryAfterMode::Exact => computed.max(asked),
            RetryAfterMode::Floor => computed.max(asked.plus(Duration::from_micros(asked.as_micros() / 10))),
            RetryAfterMode::Clamp => computed.max(asked.min(computed.plus(CLAMP))),
        }
    };
    let sum = (1..u32::from(retry.max_attempts)).fold(Duration::ZERO, |sum, n| sum.plus(longest(n)));
    sum.min(retry.time_limit)
}

/// The longest time of a call: its deadline, or all attempts one after the other and all waits.
pub(super) fn max_time(
    policy: &Policy,
    group: Option<&Group>,
    max_wait: Option<Duration>,
) -> Option<Duration> {
    let own = |timeout: Duration| if timeout == Duration::MAX { policy.attempt_timeout } else { timeout };
    let members = group.iter().flat_map(|group| &group.members);
    let longest = members.map(|member| own(member.policy.attempt_timeout)).max();
    let attempts = repeated(longest.unwrap_or(policy.attempt_timeout), u64::from(max_attempts(policy)));
    let sum = max_wait.map_or(Duration::MAX, |wait| wait.plus(attempts));
    Some(sum.min(policy.deadline)).filter(|sum| *sum != Duration::MAX)
}

/// The bound of semantics 2.17. `budget` is the retries' own, or the pool's.
pub(super) fn load(policy: &Policy, budget: Option<&BudgetSettings>) -> Load {
    let most = max_attempts(policy);
    let unbounded = Load { per_call: f64::from(most), per_second: 0.0, burst: 0.0 };
    let mut load = Load { per_call: 1.0, per_second: 0.0, burst: 0.0 };
    let retries = policy.retry.max_attempts > 1;
    let hedges = match policy.hedge.as_ref().map(|hedge| hedge.budget) {
        None | Some(HedgeBudget::Shared) => None,
        Some(HedgeBudget::Own(budget)) => Some(budget),
    };
    let shared = policy.hedge.is_some() && hedges.is_none();
    let own = hedges.as_ref().map(|budget| (budget.as_ref(), true));
    for (budget, hedged) in [(retries || shared).then_some((budget, shared)), own].into_iter().flatten() {
        let Some(more) = budget.and_then(|budget| added(budget, most, hedged)) else { return unbounded };
        load.per_call += more.per_call;
        load.per_second += more.per_second;
        load.burst += more.burst;
    }
    load
}

/// Load that retries may add under a budget, and hedges if they use it; `None` if the budget bounds only retries in
/// flight.
fn added(budget: &BudgetSettings, most: u8, hedged: bool) -> Option<Load> {
    let earned = |ratio: f64| Load {
        per_call: micro_tokens(ratio) as f64 / TOKEN as f64,
        per_second: 0.0,
        burst: 0.0,
    };
    Some(match budget {
        BudgetSettings::Earned(it) => Load { burst: f64::from(it.start), ..earned(it.ratio) },
        BudgetSettings::Window(window) => {
            let ttl = window.ttl.as_micros() as f64 / 1e6;
            let floor = window.min_retries_per_sec;
            let begun = if window.rounding == Rounding::Ceil { 1.0 } else { 0.0 };
            Load {
                per_call: window.percent_can_retry,
                per_second: floor + begun / ttl,
                burst: floor * ttl * 11.0 / 10.0 + begun,
            }
        }
        BudgetSettings::Ratio(ratio) => {
            Load { burst: f64::from(ratio.min_throughput) * f64::from(most - 1), ..earned(ratio.ratio) }
        }
        BudgetSettings::Tokens(tokens) => {
            // A retry leaves more than half of the tokens; a hedge may take the one above half.
            let last = if hedged { 1.0 } else { 0.0 };
            Load { burst: f64::from(tokens.max) / 2.0 + last, ..earned(tokens.ratio) }
        }
        BudgetSettings::Quota(quota) => {
            let cost = quota.cost.min(quota.timeout_cost).min(quota.throttled_cost).max(1);
            Load { per_call: 1.0, per_second: 0.0, burst: f64::from(quota.capacity) / f64::from(cost) }
        }
        BudgetSettings::Share(_) => return None,
    })
}

/// Bytes of a route's state, including its boxes and its entry in the map.
pub(super) fn memory(policy: &Policy) -> usize {
    let own = |pool: Option<&crate::full::Name>| pool.is_none();
    let mut bytes = size_of::<Route>() + size_of::<((u16, Box<str>), u32)>();
    let mut add = |there: bool, size: usize| bytes += if there { size } else { 0 };
    add(policy.rate_limit.as_ref().is_some_and(|it| own(it.pool.as_ref())), size_of::<RateQueue>());
    let set = policy.rate_limit.as_ref().filter(|it| own(it.pool.as_ref())).and_then(|it| it.limits.as_ref());
    if let Some(set) = set {
        add(true, size_of::<Limits>() + set.limits.len() * size_of::<Limit>());
        add(set.fleet.is_some(), size_of::<SetShare>() + set.limits.len() * LEASE_BYTES);
    }
    add(policy.retry.send_rate.is_on(), size_of::<RateQueue>());
    add(policy.throttle.is_some(), size_of::<AdaptiveThrottle>());
    add(policy.hedge.is_some(), size_of::<Hedger>());
    add(policy.retry.hold.is_some(), size_of::<Holds>());
    add(policy.cooldown.is_some(), size_of::<Cooling>());
    add(policy.cooldown.as_ref().is_some_and(|it| it.fleet), size_of::<Closing>());
    if let Some(breaker) = &policy.breaker {
        add(
            true,
            size_of::<CircuitBreaker>() + 16 * breaker.settings.half_open_max_calls.clamp(1, 1_000) as usize,
        );
    }
    if let Some(bulkhead) = policy.bulkhead.as_ref().filter(|it| own(it.pool.as_ref())) {
        add(bulkhead.codel.is_some(), size_of::<CoDel>());
        match Limiter::new(&bulkhead.limit) {
            Limiter::Fixed(_) => {}
            Limiter::Aimd(_) => add(true, size_of::<Aimd>()),
            Limiter::Gradient2(_) => add(true, size_of::<Gradient2>()),
        }
    }
    bytes
}

/// Settings that may not do what their author expects. `bulkhead` is the policy that holds the bulkhead's settings;
/// `restored` says whether the engine has been restored from a saved state.
pub(super) fn warnings(
    policy: &Policy,
    bulkhead: &Policy,
    budgeted: bool,
    restored: bool,
) -> Vec<&'static str> {
    let (retry, never) = (&policy.retry, Duration::MAX);
    let retries = retry.max_attempts > 1;
    let queue = bulkhead.bulkhead.as_ref().map(|it| it.max_queue);
    let patience = policy.bulkhead.as_ref().map(|it| it.acquire_timeout);
    let rate = policy.rate_limit.as_ref();
    let set = rate.and_then(|rate| rate.limits.as_ref());
    let found = [
        (
            policy.stream.as_ref().is_some_and(|it| it.until_delivery && it.idle == never),
            "deadline_until delivery without idle_timeout: a body that hangs is never given up, and its permit never taken back (R9)",
        ),
        (
            policy.attempt_timeout == never && policy.deadline == never,
            "neither attempt_timeout nor deadline: an attempt that hangs is never given up, and its permit never taken back (R9)",
        ),
        (
            queue == Some(u32::MAX) && patience == Some(never) && policy.deadline == never,
            "max_queue none, acquire_timeout none and no deadline: any number of calls may wait for ever",
        ),
        (
            queue == Some(0),
            "max_queue 0: a call that finds no free permit is refused at once; with max_queue so many wait, each for acquire_timeout at most",
        ),
        (retries && !budgeted, "retry without a budget: in an outage every call makes max_attempts attempts"),
        (
            policy.hedge.as_ref().is_some_and(|it| match it.budget {
                HedgeBudget::Own(budget) => budget.is_none(),
                HedgeBudget::Shared => !retries && !budgeted,
            }),
            "hedge without a budget: where everything is slow, every call is sent more than once",
        ),
        (
            rate.is_some_and(|it| it.unit == Unit::Call) && max_attempts(policy) > 1,
            "rate_limit counts calls: their further attempts take no tokens (unit = attempt counts them)",
        ),
        (
            set.is_some_and(|set| {
                set.limits.iter().any(|it| it.default.is_some_and(|weight| weight > it.bucket.burst / 2))
            }),
            "rate_limit.limits: a default above half a burst, so that one call keeps the others waiting until half a burst has flowed in",
        ),
        (
            !restored && set.is_some_and(|set| set.has_windows()),
            "rate_limit.limits: a restart begins a window with all its permits again; save the engine's state and restore it",
        ),
        (
            policy.attempt_timeout != never && policy.deadline <= policy.attempt_timeout,
            "attempt_timeout is not shorter than deadline: no attempt ever runs out of it, so none is retried for that",
        ),
        (
            patience.is_some_and(|it| it != never && it >= policy.deadline) && queue.is_some_and(|it| it > 0),
            "acquire_timeout is not shorter than deadline: a call that waits that long has no time for an attempt",
        ),
        (
            policy.deadline == never && (retry.hold.is_some() || retry.send_rate.is_on()),
            "hold or send_rate without a deadline: nothing bounds how long a call waits",
        ),
        (
            retries && policy.bulkhead.as_ref().is_some_and(|it| it.unit == Unit::Call),
            "bulkhead counts calls: a call keeps its permit during backoff (unit = attempt gives it back)",
        ),
    ];
    found.into_iter().filter(|(wrong, _)| *wrong).map(|(_, warning)| warning).collect()
}
