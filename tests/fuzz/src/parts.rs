//! Core's other parts on their own, with any settings, samples and clock: results are finite and in range, and nothing
//! panics (I13–I15, I22).

use tidegate::{
    AdaptiveThrottle, Aimd, AimdSettings, BreakerSettings, BreakerState, CircuitBreaker, CoDel, CodelLaw,
    CodelSettings, CubicRate, Duration, Evidence, Gcra, Gradient2, Gradient2Settings, Gradient2Variant,
    LimitSignal, P2Quantile, RateSettings, ThrottleSettings, Ticket, Time, TokenBucket, WindowKind,
    WindowedP2Quantile,
};

use crate::input::Input;

/// Chooses one of the parts; the remaining bytes are operations on it.
pub fn parts(data: &[u8]) {
    let mut input = Input::new(data);
    match input.below(9) {
        0 => bucket(&mut input),
        1 => gcra(&mut input),
        2 => aimd(&mut input),
        3 => gradient2(&mut input),
        4 => codel(&mut input),
        5 => breaker(&mut input),
        6 => throttle(&mut input),
        7 => cubic(&mut input),
        _ => quantiles(&mut input),
    }
}

/// A clock that mostly advances and sometimes jumps anywhere.
struct Clock(u64, u64);

/// 2^53 µs, or 285 years: no clock advances further. Buckets have separate tests for readings that are farther apart.
const LONGEST: u64 = 1 << 53;

impl Clock {
    /// A clock that never exceeds `end`.
    fn new(input: &mut Input<'_>, end: u64) -> Self {
        Self(input.micros().min(end), end)
    }

    fn next(&mut self, input: &mut Input<'_>) -> Time {
        let step = input.micros();
        self.0 = match input.below(8) {
            0 => self.0.saturating_sub(step),
            1 => step,
            _ => self.0.saturating_add(step),
        };
        self.0 = self.0.min(self.1);
        Time::from_micros(self.0)
    }
}

fn rate_settings(input: &mut Input<'_>) -> RateSettings {
    RateSettings { permits: input.count(), per: input.span(), burst: input.count() }
}

fn bucket(input: &mut Input<'_>) {
    let mut settings = rate_settings(input);
    let mut clock = Clock::new(input, LONGEST);
    let mut bucket = TokenBucket::new(settings, Time::from_micros(clock.0));
    // I13: however the clock moves, at most the burst is granted and the tokens that flow in until the latest reading.
    let (first, mut latest, mut granted, mut retuned) = (clock.0, clock.0, 0_u128, false);
    while !input.is_empty() {
        let now = clock.next(input);
        latest = latest.max(now.as_micros());
        let level = bucket.level(now);
        assert!(level <= settings.burst);
        let cost = input.count();
        match input.below(8) {
            0 => {
                settings = rate_settings(input);
                bucket.retune(settings, now);
                retuned = true;
            }
            1 => drop(bucket.wait_for(input.word(), now)),
            _ => match bucket.try_take(cost, now) {
                Ok(()) => {
                    assert!(cost <= level, "{cost} of {level}");
                    granted += u128::from(cost);
                }
                Err(wait) => {
                    assert!(cost > level && wait > Duration::ZERO, "{cost} of {level}: {wait}");
                    assert!(cost <= settings.burst || wait == Duration::MAX);
                    let then = now.after(wait);
                    // A refusal's wait is exact: the tokens are available after it, and not a microsecond before.
                    let mut later = bucket.clone();
                    if cost <= settings.burst && then < Time::NEVER && wait.as_micros() <= LONGEST {
                        assert!(later.try_take(cost, then).is_ok(), "{settings:?}: not after {wait}");
                        let early = Time::from_micros(then.as_micros() - 1);
                        assert!(bucket.clone().try_take(cost, early).is_err() || early < now);
                    }
                }
            },
        }
        assert!(bucket.level(now) <= settings.burst);
        let per = u128::from(settings.per.as_micros().max(1));
        let flowed = u128::from(latest - first) * u128::from(settings.permits) / per;
        assert!(retuned || granted <= u128::from(settings.burst) + flowed, "{granted} granted: {settings:?}");
    }
}

fn gcra(input: &mut Input<'_>) {
    let settings = rate_settings(input);
    let mut gcra = Gcra::new(settings);
    let mut clock = Clock::new(input, u64::MAX);
    while !input.is_empty() {
        let (now, cost) = (clock.next(input), input.count());
        let before = gcra.full_at();
        match gcra.try_take(cost, now) {
            Ok(()) => assert!(gcra.full_at() >= before && (cost == 0 || cost <= settings.burst)),
            Err(wait) => {
                assert!(gcra.full_at() <= before, "a refusal takes nothing");
                assert!(wait > Duration::ZERO);
                let then = now.after(wait);
                if then < Time::NEVER {
                    assert!(gcra.clone().try_take(cost, then).is_ok(), "{settings:?}: not after {wait}");
                }
            }
        }
    }
}

fn aimd(input: &mut Input<'_>) {
    let mut settings = aimd_settings(input);
    let mut limit = Aimd::new(settings);
    let mut clock = Clock::new(input, u64::MAX);
    while !input.is_empty() {
        let now = clock.next(input);
        match input.below(10) {
            0..=3 => limit.on_latency(input.span(), now),
            8 => limit.on_good(input.span(), input.count(), now),
            9 => limit.on_throttled(input.time(), now),
            4 | 5 => limit.on_failure(input.span(), now),
            6 => limit.on_timeout(now),
            _ => {
                settings = aimd_settings(input);
                limit.retune(settings);
            }
        }
        in_range(limit.limit(), limit.exact(), settings.min_concurrency, settings.max_concurrency);
        let _ = limit.is_fresh(now);
    }
}

fn aimd_settings(input: &mut Input<'_>) -> AimdSettings {
    AimdSettings {
        signal: input.of(&[LimitSignal::Latency, LimitSignal::Loss, LimitSignal::Both]),
        max_concurrency: input.count(),
        min_concurrency: input.count(),
        latency_threshold: input.span(),
        increase_step: input.real(),
        backoff_ratio: input.real(),
        cut_interval: input.span(),
        latency_quantile: input.chance(80).then(|| input.real()),
    }
}

/// A limit lies within its bounds, whatever they are, is at least 1, and is never NaN.
fn in_range(limit: u32, exact: f64, min: u32, max: u32) {
    let max = max.max(1);
    let min = min.clamp(1, max);
    assert!((min..=max).contains(&limit), "{limit} of {min} to {max}");
    assert!((f64::from(min)..=f64::from(max)).contains(&exact), "{exact} of {min} to {max}");
}

fn gradient2(input: &mut Input<'_>) {
    let mut settings = gradient2_settings(input);
    let mut limit = Gradient2::new(settings);
    let mut clock = Clock::new(input, u64::MAX);
    while !input.is_empty() {
        let now = clock.next(input);
        let started = if input.chance(200) {
            Time::from_micros(now.as_micros().saturating_sub(input.micros()))
        } else {
            input.time()
        };
        let in_flight = input.count();
        match input.below(8) {
            0..=4 => limit.on_latency(input.span(), started, in_flight, now),
            5 | 6 => limit.on_drop(started, in_flight, now),
            _ => {
                settings = gradient2_settings(input);
                limit.retune(settings);
            }
        }
        in_range(limit.limit(), limit.exact(), settings.min_concurrency, settings.max_concurrency);
        assert!(limit.baseline().is_none_or(|micros| micros.is_finite() && micros >= 0.0), "{limit:?}");
    }
}

fn gradient2_settings(input: &mut Input<'_>) -> Gradient2Settings {
    use Gradient2Variant::{Guarded, Netflix, Plain, Steady};
    Gradient2Settings {
        max_concurrency: input.count(),
        min_concurrency: input.count(),
        long_window: input.count(),
        rtt_tolerance: input.real(),
        headroom: input.real(),
        variant: input.of(&[Steady, Guarded, Plain, Netflix]),
    }
}

fn codel(input: &mut Input<'_>) {
    let mut law = || {
        let law = input.of(&[CodelLaw::Facebook, CodelLaw::Rfc8289]);
        CodelSettings { target: input.span(), interval: input.span(), law }
    };
    let (settings, other) = (law(), law());
    let mut clock = Clock::new(input, u64::MAX);
    let mut codel = CoDel::new(settings, Time::from_micros(clock.0));
    while !input.is_empty() {
        let now = clock.next(input);
        match input.below(8) {
            0 => codel.on_empty(now),
            1 => codel.retune(other),
            2 => codel.retune(settings),
            _ => {
                let (sojourn, in_force) = (input.span(), codel.settings());
                let scale = input.of(&[0.25, 0.5, 1.0, 2.0]);
                let shed = codel.should_shed(sojourn, scale, now);
                // A call that has not waited is never shed, nor one that has waited for the target or less.
                let patient = sojourn.as_micros() as f64 <= 0.25 * in_force.target.as_micros() as f64
                    && sojourn.as_micros() as f64 <= 0.25 * in_force.interval.as_micros() as f64;
                let instant = in_force.target == Duration::ZERO && in_force.law == CodelLaw::Rfc8289;
                let strict = in_force.law == CodelLaw::Rfc8289
                    && sojourn.as_micros() as f64 >= 0.25 * in_force.target.as_micros() as f64;
                assert!(!shed || !patient || instant || strict, "{in_force:?}: {sojourn} shed");
            }
        }
        let allowance = codel.allowance(now);
        let in_force = codel.settings();
        assert_eq!(allowance, if codel.congested(now) { in_force.target } else { in_force.interval });
    }
}

fn breaker_settings(input: &mut Input<'_>) -> BreakerSettings {
    BreakerSettings {
        failure_ratio: input.chance(160).then(|| input.real()),
        window: input.span(),
        min_throughput: input.count(),
        window_kind: input.of(&[WindowKind::Sliding, WindowKind::Tumbling]),
        consecutive: input.chance(128).then(|| input.count()),
        break_duration: input.span(),
        break_factor: input.real(),
        max_break_duration: input.span(),
        half_open_max_calls: input.count() % 2_000,
        successes_to_close: input.count(),
        probe_lease: input.span(),
    }
}

/// Legal transitions one at a time; a bounded number of probes; old tickets change nothing (I18, I19, I21).
fn breaker(input: &mut Input<'_>) {
    use BreakerState::{Closed, HalfOpen, Open};
    let mut settings = breaker_settings(input);
    let mut breaker = CircuitBreaker::new(settings);
    let mut clock = Clock::new(input, u64::MAX);
    let mut tickets: Vec<Ticket> = Vec::new();
    let mut probes_at_once = settings.half_open_max_calls.max(1);
    while !input.is_empty() && tickets.len() < 300 {
        let now = clock.next(input);
        let (before, refused) = (breaker.state(now), breaker.refuses(now));
        let evidence =
            input.of(&[Evidence::Success, Evidence::Failure, Evidence::Failure, Evidence::Neutral]);
        match input.below(12) {
            0..=4 => match breaker.admit(now) {
                Ok(ticket) => {
                    assert_eq!(refused, None, "who asks first is told the same");
                    assert_eq!(ticket.probe, breaker.state(now) == HalfOpen);
                    tickets.push(ticket);
                    let legal =
                        before == breaker.state(now) || (before, breaker.state(now)) == (Open, HalfOpen);
                    assert!(legal, "an admission makes an open one half-open, and nothing else");
                }
                Err(wait) => {
                    assert_eq!(refused, Some(wait));
                    assert_ne!(before, Closed, "a closed one refuses nobody");
                    assert_eq!(breaker.state(now), before);
                }
            },
            5..=8 => {
                let ticket = match tickets.len() {
                    0 => Ticket { number: input.word() as u16, probe: input.chance(128) },
                    n => tickets.swap_remove(input.below(n)),
                };
                let moved = breaker.record(ticket, evidence, input.word(), now);
                one_legal_transition(before, moved, breaker.state(now));
                assert!(evidence != Evidence::Neutral || moved.is_none(), "I20: no evidence, no transition");
            }
            9 => {
                let ticket = Ticket { number: input.word() as u16, probe: input.chance(60) };
                let moved = breaker.on_body_failure(ticket, input.word(), now);
                one_legal_transition(before, moved, breaker.state(now));
            }
            10 => {
                settings = breaker_settings(input);
                probes_at_once = probes_at_once.max(settings.half_open_max_calls);
                breaker.retune(settings, now);
                assert_eq!(breaker.state(now), before);
            }
            _ if input.chance(40) => breaker.reset(),
            _ => breaker.forget_probes(),
        }
        assert!(breaker.failures(now) <= breaker.throughput(now));
        if let (Open, Some(wait)) = (breaker.state(now), breaker.refuses(now)) {
            let longest =
                settings.max_break_duration.max(settings.break_duration).max(Duration::from_micros(1));
            // Jitter adds up to a tenth (5.5).
            let longest = longest.plus(Duration::from_micros(longest.as_micros() / 10 + 1));
            assert!(wait <= longest, "{wait} of {settings:?}");
        }
        let _ = breaker.clone().is_fresh(now);
    }
}

fn one_legal_transition(
    before: BreakerState,
    moved: Option<(BreakerState, BreakerState)>,
    after: BreakerState,
) {
    use BreakerState::{Closed, HalfOpen, Open};
    let Some((from, to)) = moved else {
        assert_eq!(before, after, "a transition that nobody was told of");
        return;
    };
    assert_eq!((from, to), (before, after));
    assert!(
        [(Closed, Open), (HalfOpen, Open), (HalfOpen, Closed)].contains(&(from, to)),
        "{from:?} to {to:?}"
    );
}

fn throttle_settings(input: &mut Input<'_>) -> ThrottleSettings {
    ThrottleSettings {
        k: input.real(),
        window: input.span(),
        window_kind: input.of(&[WindowKind::Sliding, WindowKind::Tumbling]),
        min_throughput: input.count(),
        max_reject: input.chance(160).then(|| input.real()),
        probe_interval: input.chance(128).then(|| input.span()),
    }
}

fn throttle(input: &mut Input<'_>) {
    let mut settings = throttle_settings(input);
    let mut clock = Clock::new(input, u64::MAX);
    let mut throttle = AdaptiveThrottle::new(settings, Time::from_micros(clock.0));
    while !input.is_empty() {
        let now = clock.next(input);
        let p = throttle.probability(now);
        assert!((0.0..=1.0).contains(&p), "{p} of {settings:?}");
        match input.below(8) {
            0 => {
                settings = throttle_settings(input);
                throttle.retune(settings, now);
            }
            1..=4 => throttle.record(input.chance(90), now),
            _ => {
                let admitted = throttle.admit(input.word(), now);
                assert!(admitted || p > 0.0, "refused with probability 0");
            }
        }
        let (requests, accepts) = throttle.counts(now);
        assert!(accepts <= requests);
    }
}

fn cubic(input: &mut Input<'_>) {
    let mut clock = Clock::new(input, u64::MAX);
    let mut rate = CubicRate::new(Time::from_micros(clock.0));
    while !input.is_empty() {
        let now = clock.next(input);
        match input.below(4) {
            0 => rate.on_response(true, now),
            1 => rate.on_response(false, now),
            2 => drop(rate.wait_for(input.word(), now)),
            _ => {
                if let Err(wait) = rate.acquire(now) {
                    assert!(wait > Duration::ZERO);
                }
            }
        }
        assert!(rate.rate().is_none_or(|rate| rate.is_finite() && rate > 0.0), "{rate:?}");
    }
}

fn quantiles(input: &mut Input<'_>) {
    let (p, window) = (input.real(), input.count());
    let (mut whole, mut recent) = (P2Quantile::new(p), WindowedP2Quantile::new(p, window));
    let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
    while !input.is_empty() {
        let x = input.real();
        whole.observe(x);
        recent.observe(x);
        if x.is_finite() {
            (least, greatest) = (least.min(x), greatest.max(x));
        }
        for estimate in [whole.estimate(), recent.estimate()].into_iter().flatten() {
            assert!((least..=greatest).contains(&estimate), "{estimate} of {least} to {greatest}");
        }
        if let Some((heights, positions)) = whole.markers() {
            assert!(heights.is_sorted() && positions.is_sorted(), "{heights:?} {positions:?}");
        }
        if input.chance(4) {
            recent.reset();
            assert_eq!(recent.estimate(), None);
        }
    }
}
