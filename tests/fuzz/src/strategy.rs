//! The retry parts on their own, with any settings: backoff, the budgets, and the strategy that hands out tokens.

use tidegate::{
    Backoff, Class, Duration, ErrorInfo, Growth, Jitter, QuotaSettings, RatioBudget, RatioSettings,
    RetryBudget, RetryError, RetryQuota, RetryStrategy, Rounding, ShareBudget, ShareSettings,
    StrategySettings, TokenBudget, TokenSettings, WindowSettings,
};

use crate::input::Input;

/// Chooses one of the parts; the remaining bytes are operations on it.
pub fn strategy(data: &[u8]) {
    let mut input = Input::new(data);
    match input.below(7) {
        0 => delays(&mut input),
        1 => tokens(&mut input),
        2 => window(&mut input),
        3 => ratio(&mut input),
        4 => share(&mut input),
        5 => token_budget(&mut input),
        _ => quota(&mut input),
    }
}

fn backoff(input: &mut Input<'_>) -> Backoff {
    let growth = match input.below(4) {
        0 => Growth::Constant,
        1 => Growth::Linear,
        2 => Growth::Exponential(input.real()),
        _ => Growth::Polynomial(input.byte()),
    };
    let jitter = match input.below(6) {
        0 => Jitter::None,
        1 => Jitter::Full,
        2 => Jitter::FullFloor,
        3 => Jitter::Equal,
        4 => Jitter::Decorrelated,
        _ => Jitter::Bounded(input.real()),
    };
    Backoff { growth, base: input.span(), max: input.span(), jitter }
}

/// The number of a retry. Chained delays and products cost one step per retry, so their numbers stay below 4,096. A
/// policy asks for far fewer retries.
fn number(input: &mut Input<'_>, backoff: &Backoff) -> u32 {
    let n = input.count();
    let stepwise = matches!(backoff.growth, Growth::Exponential(_)) || backoff.jitter == Jitter::Decorrelated;
    if stepwise { n % 4_096 } else { n }
}

fn delays(input: &mut Input<'_>) {
    let backoff = backoff(input);
    for _ in 0..50 {
        let (n, bits) = (number(input, &backoff), input.word());
        let (ceiling, after) = (backoff.ceiling(n), backoff.ceiling(n.saturating_add(1)));
        assert!(ceiling <= backoff.max, "{backoff:?}: {ceiling} before retry {n}");
        // Without jitter a delay never shrinks from one retry to the next, except with a multiplier below 1.
        assert!(ceiling <= after, "{backoff:?}: {ceiling}, then {after}");
        let delay = backoff.delay(n, input.span(), bits);
        let most = match backoff.jitter {
            Jitter::Bounded(_) => Duration::MAX,
            _ => backoff.max.max(Duration::ZERO),
        };
        assert!(delay <= most, "{backoff:?}: {delay} before retry {n}");
        let nth = backoff.nth_delay(n.min(64), |_| bits);
        assert!(nth <= most || n == 0, "{backoff:?}: {nth} before retry {n}");
        if input.is_empty() {
            break;
        }
    }
}

fn tokens(input: &mut Input<'_>) {
    let backoff = backoff(input);
    let quota = input.chance(128).then(|| quota_settings(input));
    let max_attempts = number(input, &backoff);
    let settings = StrategySettings { max_attempts, backoff, quota, retry_unknown: input.chance(128) };
    let mut strategy = RetryStrategy::new(input.word(), settings);
    let mut token = strategy.acquire_initial("a");
    for _ in 0..100 {
        if input.is_empty() {
            break;
        }
        let scope = input.of(&["a", "b", ""]);
        match input.below(5) {
            0 => token = strategy.acquire_initial(scope),
            1 => strategy.record_success(token),
            _ => {
                let flags = input.byte();
                let error = ErrorInfo {
                    is_retry_safe: [None, Some(true), Some(true), Some(false)][usize::from(flags & 3)],
                    retry_after: (flags & 4 != 0).then(|| input.span()),
                    is_throttling_error: flags & 8 != 0,
                    is_timeout_error: flags & 16 != 0,
                };
                match strategy.refresh(token, error) {
                    Ok(next) => {
                        assert_eq!(next.retry_count, token.retry_count + 1);
                        assert!(next.retry_count < max_attempts, "the first attempt counts");
                        assert!(next.retry_delay >= error.retry_after.unwrap_or_default(), "never early");
                        assert_ne!(error.is_retry_safe, Some(false));
                        token = next;
                    }
                    Err(RetryError::Attempts) => assert!(token.retry_count + 1 >= max_attempts),
                    Err(RetryError::NotSafe) => assert_ne!(error.is_retry_safe, Some(true)),
                    Err(RetryError::Quota(_)) => assert!(quota.is_some()),
                }
            }
        }
        let left = strategy.available(scope);
        assert_eq!(left.is_some(), quota.is_some());
        assert!(left.zip(quota).is_none_or(|(left, quota)| left <= quota.capacity));
    }
}

fn window(input: &mut Input<'_>) {
    let rounding = input.of(&[Rounding::Floor, Rounding::Ceil]);
    let settings = WindowSettings {
        ttl: input.span(),
        min_retries_per_sec: input.real(),
        percent_can_retry: input.real(),
        rounding,
    };
    let mut budget = RetryBudget::new(settings);
    while !input.is_empty() {
        let now = input.time();
        let before = budget.balance(now);
        match input.below(4) {
            0 | 1 => budget.deposit(now),
            2 => assert_eq!(budget.try_withdraw(now), before > 0, "what there is can be taken"),
            _ => budget.refund(input.time(), now),
        }
        let _ = budget.balance(now);
    }
}

fn ratio(input: &mut Input<'_>) {
    let settings = RatioSettings { ratio: input.real(), min_throughput: input.count() };
    let mut budget = RatioBudget::new(settings);
    let (mut calls, mut retries, mut refunds) = (0_u32, 0_u32, 0_u32);
    while !input.is_empty() {
        match input.below(4) {
            0 | 1 => {
                budget.on_call();
                calls += 1;
            }
            2 => {
                let (free, had) = (budget.is_free(), budget.balance());
                let granted = budget.try_withdraw();
                assert!(granted || !free, "free ones are granted");
                retries += u32::from(granted && !free);
                assert!(free || budget.balance() <= had);
            }
            _ => {
                budget.refund();
                refunds += 1;
            }
        }
        // I9: never more than the ratio of the calls, rounded down, and the refunds. The budget counts in millionths.
        let ratio = settings.ratio.clamp(0.0, 1e9).max(0.0) + 1e-6;
        let most = (f64::from(calls) * ratio).floor() + f64::from(refunds);
        let within = f64::from(retries) <= most;
        assert!(within, "{retries} retries of {calls} calls and {refunds} refunds: {settings:?}");
    }
}

fn share(input: &mut Input<'_>) {
    let mut budget = ShareBudget::new(ShareSettings { share: input.real(), min_retries: input.count() });
    let mut held = 0_u32;
    while !input.is_empty() {
        let calls = input.count();
        let balance = budget.balance(calls);
        if input.chance(160) {
            let granted = budget.try_acquire(calls);
            assert_eq!(granted, balance > 0);
            held += u32::from(granted);
        } else {
            let ends = input.chance(200);
            budget.on_end(ends);
            held = held.saturating_sub(u32::from(ends));
        }
        assert_eq!(budget.in_flight(), held);
    }
}

fn token_budget(input: &mut Input<'_>) {
    let settings = TokenSettings { max: input.count(), ratio: input.real() };
    let mut budget = TokenBudget::new(settings);
    let full = budget.balance();
    while !input.is_empty() {
        if input.chance(128) {
            budget.on_success()
        } else {
            budget.on_failure()
        }
        assert!(budget.balance() <= full, "{settings:?}");
        assert!(budget.balance() > 0 || !budget.allows(), "an empty budget allows nothing");
    }
}

fn quota_settings(input: &mut Input<'_>) -> QuotaSettings {
    QuotaSettings {
        capacity: input.count(),
        cost: input.count() as u16,
        timeout_cost: input.count() as u16,
        throttled_cost: input.count() as u16,
    }
}

fn quota(input: &mut Input<'_>) {
    let settings = quota_settings(input);
    let mut quota = RetryQuota::new(settings);
    while !input.is_empty() {
        let before = quota.available();
        match input.below(3) {
            0 => match quota.try_acquire(input.of(&Class::ALL)) {
                Some(cost) => assert_eq!(quota.available(), before - u32::from(cost)),
                None => assert_eq!(quota.available(), before),
            },
            1 => quota.on_success(input.count() as u16),
            _ => quota.refund(input.count() as u16),
        }
        assert!(quota.available() <= settings.capacity, "{settings:?}");
    }
}
