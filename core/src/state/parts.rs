//! Tests: each part continues as if it had not been saved, for any operations before and after.

use proptest::prelude::*;

use super::{Damage, Loader, Moments, Saver, VERSION, parse};
use crate::breaker::{BreakerSettings, CircuitBreaker, Evidence};
use crate::limit::{
    Aimd, AimdSettings, Gradient2, Gradient2Settings, Gradient2Variant, LimitSignal, RateSettings,
    TokenBucket,
};
use crate::quantile::WindowedP2Quantile;
use crate::retry::{CubicRate, RetryBudget, Rounding, WindowSettings};
use crate::throttle::{AdaptiveThrottle, ThrottleSettings};
use crate::time::{Duration, Time};
use crate::window::WindowKind;

/// An operation: a span passes, then an event given by a number and a flag.
type Op = (u64, u64, bool);

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let span = prop_oneof![3 => 0u64..400_000, 1 => 0u64..9_000_000, 1 => Just(0)];
    prop::collection::vec((span, 0u64..1_000_000, any::<bool>()), 0..60)
}

/// Runs two scripts on a part: once directly, and once saved and restored between them. Each operation answers with a
/// text; the answers to the second script must be the same.
fn goes_on<T>(
    (before, after): (&[Op], &[Op]),
    part: impl Fn(Time) -> T,
    play: impl Fn(&mut T, Op, Time) -> String,
    save: impl Fn(&T, &mut Saver),
    load: impl Fn(&mut Loader<'_>) -> Result<T, Damage>,
) -> Result<(), TestCaseError> {
    let mut now = Time::from_micros(1 << 40);
    let mut old = part(now);
    for op in before {
        now = now.after(Duration::from_micros(op.0));
        play(&mut old, *op, now);
    }
    let mut to = Saver::new(now);
    to.list(|to| save(&old, to));
    let (text, oldest) = to.finish();
    let value = parse(&text).unwrap();
    // Restored at once or 3 s later, on a clock that has just begun.
    let elapsed = if before.len().is_multiple_of(2) { 0 } else { 3_000_000 };
    let of =
        Moments::new(Time::from_micros(oldest + elapsed), Duration::from_micros(elapsed), oldest, VERSION);
    let mut from = Loader::new(&value, &of).unwrap();
    if !from.has_more() {
        return Ok(()); // as good as new
    }
    let mut new = load(&mut from).map_err(|damage| TestCaseError::fail(format!("{text}: {damage:?}")))?;
    prop_assert!(!from.has_more() && !of.has_dropped(), "{text}");
    let (mut now, mut then) = (now.after(Duration::from_micros(elapsed)), of.now);
    for op in after {
        (now, then) = (now.after(Duration::from_micros(op.0)), then.after(Duration::from_micros(op.0)));
        prop_assert_eq!(play(&mut old, *op, now), play(&mut new, *op, then), "{} {:?}", text, op);
    }
    Ok(())
}

proptest! {
    #[test]
    fn send_rates((before, after) in (ops(), ops())) {
        // Often enough that the curve bounds the rate, instead of the measured sends.
        let dense = |ops: Vec<Op>| ops.into_iter().map(|(span, n, flag)| (span / 9, n, flag)).collect::<Vec<_>>();
        let play = |rate: &mut CubicRate, (_, n, _): Op, now| {
            rate.on_response(n % 5 == 0, now);
            format!("{:?} {:?} {:?}", rate.acquire(now), rate.wait_for(2, now), rate.rate())
        };
        goes_on((&dense(before), &dense(after)), CubicRate::new, play, CubicRate::save, CubicRate::load)?;
    }

    #[test]
    fn rate_limits((before, after) in (ops(), ops()), permits in 1u32..9, per in 1u64..3_000_000) {
        let settings = RateSettings { permits, per: Duration::from_micros(per), burst: 7 };
        let play = |bucket: &mut TokenBucket, (_, n, _): Op, now| format!("{:?}", bucket.try_take((n % 9) as u32, now));
        goes_on((&before, &after), |now| TokenBucket::new(settings, now), play, TokenBucket::save, |from| TokenBucket::load(from, settings))?;
    }

    #[test]
    fn budgets((before, after) in (ops(), ops()), ttl in 10u64..9_000_000) {
        let settings = WindowSettings {
            ttl: Duration::from_micros(ttl), min_retries_per_sec: 1.0, percent_can_retry: 0.7, rounding: Rounding::Ceil,
        };
        let play = |budget: &mut RetryBudget, (_, _, calls): Op, now| {
            if calls { budget.deposit(now); }
            format!("{} {}", budget.try_withdraw(now), budget.balance(now))
        };
        goes_on((&before, &after), |_| RetryBudget::new(settings), play, |budget, to| {
            budget.save(to);
        }, |from| {
            assert!(from.text() == Ok("window"));
            RetryBudget::load(from, settings)
        })?;
    }

    #[test]
    fn limits_of_latency(
        (before, after) in (ops(), ops()),
        quantile in prop::option::of(0.3f64..0.9),
        signal in prop::sample::select(vec![LimitSignal::Latency, LimitSignal::Loss, LimitSignal::Both]),
    ) {
        let settings = AimdSettings {
            signal,
            max_concurrency: 30, min_concurrency: 2, latency_threshold: Duration::from_millis(700), increase_step: 1.0,
            backoff_ratio: 0.7, cut_interval: Duration::from_secs(1), latency_quantile: quantile,
        };
        let play = |limit: &mut Aimd, (_, latency, failed): Op, now| {
            let latency = Duration::from_micros(latency);
            match (failed, latency.as_micros() % 2) {
                (false, _) => limit.on_latency(latency, now),
                (true, 0) => limit.on_failure(latency, now),
                (true, _) => limit.on_throttled(now, now),
            }
            format!("{}", limit.exact())
        };
        goes_on((&before, &after), |_| Aimd::new(settings), play, Aimd::save, |from| Aimd::load(from, settings))?;
    }

    #[test]
    fn limits_of_the_gradient((before, after) in (ops(), ops()), which in 0usize..4) {
        let variants = [
            Gradient2Variant::Guarded, Gradient2Variant::Steady, Gradient2Variant::Plain, Gradient2Variant::Netflix,
        ];
        let settings = Gradient2Settings {
            max_concurrency: 90, min_concurrency: 1, long_window: 20, rtt_tolerance: 1.2, headroom: 4.0, variant: variants[which],
        };
        // Calls start up to a second before they end, so possibly before the moment of saving.
        let play = |limit: &mut Gradient2, (_, rtt, dropped): Op, now: Time| {
            let started = Time::from_micros(now.as_micros().saturating_sub(rtt));
            if dropped && rtt % 4 == 0 {
                limit.on_drop(started, 30, now);
            } else {
                limit.on_latency(Duration::from_micros(rtt), started, 30, now);
            }
            format!("{} {:?}", limit.exact(), limit.baseline())
        };
        goes_on((&before, &after), |_| Gradient2::new(settings), play, Gradient2::save, |from| Gradient2::load(from, settings))?;
    }

    #[test]
    fn quantiles((before, after) in (ops(), ops()), window in 10u32..60) {
        let new = |_| WindowedP2Quantile::new(0.8, window);
        let play = |it: &mut WindowedP2Quantile, (_, n, _): Op, _| {
            it.observe(n as f64 / 7.0);
            format!("{:?} {}", it.estimate(), it.count())
        };
        let load = |from: &mut Loader<'_>| new(Time::default()).load(from);
        goes_on((&before, &after), new, play, WindowedP2Quantile::save, load)?;
    }

    #[test]
    fn breakers((before, after) in (ops(), ops()), tumbling: bool, factor in 1.0f64..3.0) {
        let settings = BreakerSettings {
            failure_ratio: Some(0.6),
            min_throughput: 4,
            consecutive: Some(5),
            window: Duration::from_secs(4),
            window_kind: if tumbling { WindowKind::Tumbling } else { WindowKind::Sliding },
            break_factor: factor,
            successes_to_close: 2,
            ..BreakerSettings::new(Duration::from_millis(500))
        };
        let play = |breaker: &mut CircuitBreaker, (_, bits, ok): Op, now| {
            let admitted = breaker.admit(now);
            let answers = admitted.map(|ticket| {
                let evidence = if ok { Evidence::Success } else { Evidence::Failure };
                breaker.record(ticket, evidence, bits << 44, now)
            });
            format!("{answers:?} {:?} {} {}", breaker.state(now), breaker.failures(now), breaker.throughput(now))
        };
        let new = |_| CircuitBreaker::new(settings);
        goes_on((&before, &after), new, play, CircuitBreaker::save, |from| CircuitBreaker::load(from, settings))?;
    }

    #[test]
    fn throttles((before, after) in (ops(), ops())) {
        let settings = ThrottleSettings { window: Duration::from_secs(5), min_throughput: 3, ..ThrottleSettings::default() };
        let play = |throttle: &mut AdaptiveThrottle, (_, bits, ok): Op, now| {
            let admitted = throttle.admit(bits << 44, now);
            if admitted { throttle.record(ok && bits % 5 == 0, now); }
            format!("{admitted} {:?} {}", throttle.counts(now), throttle.peek(now))
        };
        let new = |now| AdaptiveThrottle::new(settings, now);
        goes_on((&before, &after), new, play, AdaptiveThrottle::save, |from| AdaptiveThrottle::load(from, settings))?;
    }
}

#[test]
fn what_no_part_can_be_is_refused() {
    let of = Moments::new(Time::from_micros(1_000), Duration::ZERO, 1_000, VERSION);
    let quantile = |text: &str| {
        let value = parse(text).unwrap();
        let mut from = Loader::new(&value, &of).unwrap();
        WindowedP2Quantile::new(0.5, 10).load(&mut from).map(|it| it.count())
    };
    assert_eq!(quantile("[\"0.5\",[10,1,2,3,4,5,3,5,8],[5,1,2,3,4,5,2,3,4]]"), Ok(10));
    assert!(quantile("[\"0.5\",[11,1,2,3,4,5,3,5,8],[6,1,2,3,4,5,2,3,4]]").is_err(), "more than a window");
    assert!(quantile("[\"0.5\",[10,1,2,3,4,5,3,5,8],[4,1,2,3,4]]").is_err(), "not half a window behind");
    assert!(
        quantile("[\"0.5\",[10,1,2,3,4,5,3,5,10],[5,1,2,3,4,5,2,3,4]]").is_err(),
        "two markers in one place"
    );
    let rate = |text: &str| {
        let value = parse(text).unwrap();
        CubicRate::load(&mut Loader::new(&value, &of).unwrap()).map(|rate| rate.rate())
    };
    assert_eq!(rate("[0,0,0,\"0.5\",1,1,1,-1,-1]"), Ok(Some(0.5)));
    assert!(rate("[0,0,0,\"0.4\",1,1,1,-1,-1]").is_err() && rate("[0,0,0,1,1,2,1,-1,-1]").is_err());
    assert!(rate("[0,0,0,1,0,0,1,-1,-1]").is_err() && rate("[0,0,0,1,1,-1,1,-1,-1]").is_err());
    let breaker = |rounds: u32| {
        let value = parse(&format!("[\"closed\",0,{rounds},[]]")).unwrap();
        let settings = BreakerSettings::new(Duration::from_secs(1));
        CircuitBreaker::load(&mut Loader::new(&value, &of).unwrap(), settings).is_ok()
    };
    assert!(breaker(1_000) && !breaker(1_001) && !breaker(65_537));
}
