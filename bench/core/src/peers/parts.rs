//! Single parts: rate limits, breakers, permits, sketches. Parts whose clock the bench sets (or that need none) are
//! compared with each other, and parts that read a clock are compared with each other.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration as Span;
use std::time::Instant;

use super::{Row, row};
use failsafe::CircuitBreaker as _;
use governor::clock::{FakeRelativeClock, MonotonicClock};
use governor::{Quota, RateLimiter};
use parking_lot::Mutex;
use tidegate::{
    BreakerSettings, CircuitBreaker, DDSketch, Duration, Evidence, Gcra, RateSettings, Time, TokenBucket,
    Value, WindowedP2Quantile,
};
use tidegate_bench_core::scenarios::{Pairs, World};
use tokio::sync::Semaphore;

const MILLION: NonZeroU32 = NonZeroU32::new(1_000_000_000).unwrap();
const RATE: RateSettings =
    RateSettings { permits: 1_000_000_000, per: Duration::from_secs(1), burst: 1_000_000_000 };

/// A breaker that trips by ratio, as failsafe and recloser do.
pub fn breaker() -> CircuitBreaker {
    CircuitBreaker::new(BreakerSettings {
        failure_ratio: Some(0.9),
        window: Duration::from_secs(10),
        min_throughput: 100,
        ..BreakerSettings::new(Duration::from_secs(30))
    })
}

/// Failsafe's breaker that trips by ratio.
pub fn failsafe() -> impl failsafe::CircuitBreaker {
    let backoff = failsafe::backoff::constant(Span::from_secs(30));
    let policy =
        failsafe::failure_policy::success_rate_over_time_window(0.1, 100, Span::from_secs(10), backoff);
    failsafe::Config::new().failure_policy(policy).build()
}

/// recloser's breaker.
pub fn recloser() -> recloser::Recloser {
    recloser::Recloser::custom().error_rate(0.9).closed_len(100).open_wait(Span::from_secs(30)).build()
}

/// A monotonic clock as a host reads it.
#[derive(Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    pub fn new() -> Self {
        Self(Instant::now())
    }

    #[inline]
    pub fn now(self) -> Time {
        Time::from_micros(self.0.elapsed().as_micros() as u64)
    }
}

pub fn rows() -> Vec<Row> {
    let mut rows = rates();
    rows.extend(breakers());
    rows.extend(permits());
    rows.extend(sketches());
    rows
}

fn rates() -> Vec<Row> {
    const SET: &str = "rate, a clock that is set";
    const READ: &str = "rate, a clock that is read";
    let mut bucket = TokenBucket::new(RATE, Time::from_micros(0));
    let mut gcra = Gcra::new(RATE);
    let clock = FakeRelativeClock::default();
    let faked = RateLimiter::direct_with_clock(Quota::per_second(MILLION), clock.clone());
    let set = vec![
        row(SET, "TokenBucket", move |calls| {
            for n in 0..calls {
                black_box(bucket.try_take(1, Time::from_micros(n)).is_ok());
            }
        }),
        row(SET, "Gcra", move |calls| {
            for n in 0..calls {
                black_box(gcra.try_take(1, Time::from_micros(n)).is_ok());
            }
        }),
        row(SET, "governor, FakeRelativeClock", move |calls| {
            for _ in 0..calls {
                clock.advance(Span::from_micros(1));
                black_box(faked.check().is_ok());
            }
        }),
    ];
    let now = Clock::new();
    let locked = Mutex::new(TokenBucket::new(RATE, now.now()));
    let mut bucket = TokenBucket::new(RATE, now.now());
    let real = RateLimiter::direct_with_clock(Quota::per_second(MILLION), MonotonicClock);
    let read = vec![
        row(READ, "TokenBucket", move |calls| {
            for _ in 0..calls {
                black_box(bucket.try_take(1, now.now()).is_ok());
            }
        }),
        row(READ, "TokenBucket behind a parking_lot mutex", move |calls| {
            for _ in 0..calls {
                black_box(locked.lock().try_take(1, now.now()).is_ok());
            }
        }),
        row(READ, "governor, MonotonicClock", move |calls| {
            for _ in 0..calls {
                black_box(real.check().is_ok());
            }
        }),
    ];
    set.into_iter().chain(read).collect()
}

fn breakers() -> Vec<Row> {
    const SET: &str = "breaker, a good call";
    let mut set = breaker();
    let (now, mut read) = (Clock::new(), breaker());
    let (failsafe, recloser) = (failsafe(), recloser());
    vec![
        row(SET, "CircuitBreaker, a clock that is read", move |calls| {
            for _ in 0..calls {
                if let Ok(ticket) = read.admit(now.now()) {
                    black_box(read.record(ticket, Evidence::Success, 0, now.now()));
                }
            }
        }),
        row(SET, "CircuitBreaker, a clock that is set", move |calls| {
            for n in 0..calls {
                if let Ok(ticket) = set.admit(Time::from_micros(n)) {
                    black_box(set.record(ticket, Evidence::Success, 0, Time::from_micros(n)));
                }
            }
        }),
        row(SET, "failsafe, by ratio", move |calls| {
            for _ in 0..calls {
                black_box(failsafe.call(|| black_box(Ok::<(), ()>(()))).is_ok());
            }
        }),
        row(SET, "recloser (counts calls, not time)", move |calls| {
            for _ in 0..calls {
                black_box(recloser.call(|| black_box(Ok::<(), ()>(()))).is_ok());
            }
        }),
    ]
}

/// An engine with one component behind a lock. It makes a whole call, so it does more than a permit alone.
fn engine(pairs: Pairs) -> impl FnMut(u64) {
    let (world, now) = (Mutex::new(World::new(pairs)), Clock::new());
    move |calls| {
        for _ in 0..calls {
            black_box(super::stacks::sync_call(&world, now, || true));
        }
    }
}

fn permits() -> Vec<Row> {
    const PERMIT: &str = "bulkhead, no wait";
    let semaphore = Semaphore::new(100);
    vec![
        row(
            PERMIT,
            "Engine with a bulkhead, locked, two clocks",
            engine(&[
                ("bulkhead.max_concurrency", Value::Number(100.0)),
                ("retry.max_attempts", Value::Number(1.0)),
            ]),
        ),
        row(PERMIT, "tokio Semaphore, try_acquire", move |calls| {
            for _ in 0..calls {
                drop(black_box(semaphore.try_acquire()));
            }
        }),
    ]
}

fn sketches() -> Vec<Row> {
    const ADD: &str = "latency quantiles, one value more";
    const ASK: &str = "latency quantiles, the 99th percentile of 10,000";
    let values: Vec<f64> =
        (0..1_000_u64).map(|n| 1_000.0 + (n * 7_919 % 1_000) as f64 * ((n % 13) as f64 + 1.0)).collect();
    let fill = |add: &mut dyn FnMut(f64)| (0..10_000).for_each(|n| add(values[n % values.len()]));
    let (mut ours, mut asked) = (DDSketch::new(0.01), DDSketch::new(0.01));
    let peer = || sketches_ddsketch::DDSketch::new(sketches_ddsketch::Config::new(0.01, 2_048, 1e-9));
    let (mut theirs, mut their_asked) = (peer(), peer());
    fill(&mut |x| asked.add(x));
    fill(&mut |x| their_asked.add(x));
    let (first, second, third, fourth) = (values.clone(), values.clone(), values.clone(), values.clone());
    let mut window = WindowedP2Quantile::new(0.95, 512);
    let mut exact: Vec<f64> = Vec::with_capacity(512);
    let mut place = 0;
    vec![
        row(ADD, "DDSketch, 1 %", move |calls| {
            for n in 0..calls as usize {
                ours.add(first[n % 1_000]);
            }
            black_box(ours.count());
        }),
        row(ADD, "sketches-ddsketch, 1 %", move |calls| {
            for n in 0..calls as usize {
                theirs.add(second[n % 1_000]);
            }
            black_box(theirs.count());
        }),
        row(ADD, "WindowedP2Quantile, of 512 (with its answer)", move |calls| {
            for n in 0..calls as usize {
                window.observe(third[n % 1_000]);
                black_box(window.estimate());
            }
        }),
        row(ADD, "the last 512, sorted for each answer", move |calls| {
            let mut sorted = Vec::with_capacity(512);
            for n in 0..calls as usize {
                if exact.len() < 512 {
                    exact.push(fourth[n % 1_000]);
                } else {
                    exact[place] = fourth[n % 1_000];
                    place = (place + 1) % 512;
                }
                sorted.clear();
                sorted.extend_from_slice(&exact);
                let at = sorted.len() * 95 / 100;
                black_box(sorted.select_nth_unstable_by(at, f64::total_cmp).1);
            }
        }),
        row(ASK, "DDSketch, 1 %", move |calls| {
            for _ in 0..calls {
                black_box(asked.quantile(0.99));
            }
        }),
        row(ASK, "sketches-ddsketch, 1 %", move |calls| {
            for _ in 0..calls {
                black_box(their_asked.quantile(0.99).is_ok());
            }
        }),
    ]
}
