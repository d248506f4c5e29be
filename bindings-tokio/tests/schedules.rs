//! The rules of `docs/architecture.md` under random schedules: many tasks, calls of all kinds, some dropped at any
//! point, one paused clock. Core's own tests run the rules on random events; these tests look for mistakes of a shell:
//! a lost wake, a permit that is not handed on, an attempt that is not stopped, a call that ends twice or never.
//!
//! A seed that fails is printed; `TIDEGATE_SEED=n cargo test -p tidegate-tokio --test suite schedules::` replays it.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::support::{broken, ms, nothing_left};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use tidegate_tokio::settings::{
    Backoff, Breaker, Budget, Bulkhead, Hedge, HedgeBudget, RateLimit, Retry, Unit,
};
use tidegate_tokio::{Attempt, Bounds, Criticality, Engine, Policy, Verdict, Wait};
use tokio::time::{Instant, Sleep, sleep};

/// A random generator.
struct Draw(SplitMix64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0.next_u64() % most
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn span(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.below(most * 1_000))
    }
}

const CONCURRENCY: u32 = 3;

/// A random policy; over all seeds every component occurs.
fn policy(engine: &Engine, draw: &mut Draw) -> (Policy, bool) {
    let mut builder = Policy::builder("p")
        .engine(engine)
        .deadline(ms(2_000))
        .retry(
            Retry::new()
                .max_attempts(1 + draw.below(4) as u32)
                .backoff(Backoff::new().base(ms(draw.below(50))))
                .budget([Budget::none, Budget::window][draw.below(2) as usize]()),
        )
        .bulkhead(
            Bulkhead::fixed(CONCURRENCY)
                .max_queue([None, Some(0), Some(5), Some(1_000)][draw.below(4) as usize])
                .acquire_timeout([None, Some(ms(100))][draw.below(2) as usize])
                .unit([Unit::Call, Unit::Attempt][draw.below(2) as usize]),
        );
    if builder.clone().settings().is_ok() && draw.one_in(2) {
        builder = builder.attempt_timeout(ms(20 + draw.below(200)));
    }
    if draw.one_in(3) {
        builder = builder.rate_limit(
            RateLimit::new(200, ms(1_000))
                .burst(1 + draw.below(10) as u32)
                .wait(draw.one_in(2))
                .max_wait(ms(500)),
        );
    }
    if draw.one_in(3) {
        builder = builder.breaker(Breaker::by_consecutive(2 + draw.below(5) as u32, ms(30)));
    }
    let hedges = draw.one_in(2);
    if hedges {
        builder = builder.hedge(Hedge::new(ms(draw.below(40))).budget(HedgeBudget::none()));
    }
    (builder.build().unwrap(), hedges)
}

/// Counts that the attempts of a schedule update.
#[derive(Default)]
struct World {
    running: AtomicU32,
    most: AtomicU32,
    attempts: AtomicU64,
}

/// Counts a running attempt until it is dropped.
struct Runs(Arc<World>);

impl Runs {
    fn new(world: &Arc<World>) -> Self {
        let now = world.running.fetch_add(1, Ordering::SeqCst) + 1;
        world.most.fetch_max(now, Ordering::SeqCst);
        world.attempts.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(world))
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs a future for some time, and drops it.
struct ForAWhile<F> {
    future: Pin<Box<F>>,
    until: Pin<Box<Sleep>>,
}

impl<F: Future> Future for ForAWhile<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        self.until.as_mut().poll(cx).map(|()| None)
    }
}

/// The ends of a schedule's calls.
#[derive(Default)]
struct Ends {
    good: u64,
    failed: u64,
    dropped: u64,
}

async fn task(policy: Policy, world: Arc<World>, seed: u64) -> Ends {
    let mut draw = Draw(SplitMix64::seed_from_u64(seed));
    let mut ends = Ends::default();
    for _ in 0..10 {
        sleep(draw.span(40)).await;
        let caller = policy
            .caller()
            .criticality(
                [Criticality::BestEffort, Criticality::Normal, Criticality::Critical][draw.below(3) as usize],
            )
            .idempotent(!draw.one_in(5))
            .deadline(ms(100 + draw.below(3_000)));
        let seed = draw.0.next_u64();
        let call = caller.run(|attempt: Attempt| {
            let (world, seed) = (Arc::clone(&world), seed ^ u64::from(attempt.number) << 8);
            let runs = Runs::new(&world);
            async move {
                let _runs = runs;
                let mut draw = Draw(SplitMix64::seed_from_u64(seed));
                match draw.below(4) {
                    0 => {}
                    1 => tokio::task::yield_now().await,
                    _ => sleep(draw.span(120)).await,
                }
                if draw.one_in(3) { Err(broken()) } else { Ok(()) }
            }
        });
        let result = if draw.one_in(3) {
            ForAWhile { future: Box::pin(call), until: Box::pin(sleep(draw.span(150))) }.await
        } else if draw.one_in(4) {
            Some(Bounds::new().deadline(draw.span(300)).around(call).await)
        } else {
            Some(call.await)
        };
        match result {
            Some(Ok(())) => ends.good += 1,
            Some(Err(_)) => ends.failed += 1,
            None => ends.dropped += 1,
        }
    }
    ends
}

/// Runs one schedule.
async fn schedule(seed: u64) -> Ends {
    let mut draw = Draw(SplitMix64::seed_from_u64(seed));
    let engine = Engine::new(seed);
    let (policy, hedges) = policy(&engine, &mut draw);
    let world = Arc::new(World::default());
    let tasks: Vec<_> =
        (0..12).map(|_| tokio::spawn(task(policy.clone(), Arc::clone(&world), draw.0.next_u64()))).collect();
    let mut watch = pin!(async {
        loop {
            engine.check().unwrap();
            sleep(ms(5)).await;
        }
    });
    let mut all = Ends::default();
    let start = Instant::now();
    for task in tasks {
        let ends = tokio::select! {
            ends = task => ends.unwrap(),
            () = &mut watch => unreachable!("it goes on"),
        };
        all.good += ends.good;
        all.failed += ends.failed;
        all.dropped += ends.dropped;
    }
    // A lost wake costs a second (R4), which would add up over calls that wait for each other.
    assert!(start.elapsed() < ms(40_000), "it took {:?}", start.elapsed());
    nothing_left(&engine);
    assert_eq!(world.running.load(Ordering::SeqCst), 0, "an attempt outlives its call (R1)");
    let most = world.most.load(Ordering::SeqCst);
    assert!(
        most <= CONCURRENCY,
        "{most} attempts ran under {CONCURRENCY} permits (R2, R12); hedges: {hedges}"
    );
    let snapshot = engine.snapshot();
    let counts = &snapshot.policies[0].1;
    assert_eq!(counts.attempts, world.attempts.load(Ordering::SeqCst), "each attempt is started once (R3)");
    let ended: u64 = Verdict::ALL.iter().map(|verdict| counts.ended(*verdict)).sum();
    assert_eq!(ended, all.good + all.failed + all.dropped, "each call ends once (R1)");
    assert_eq!(counts.ended(Verdict::Ok), all.good);
    assert_eq!(counts.ended(Verdict::Cancelled), all.dropped);
    assert_eq!(counts.ended(Verdict::Lost) + counts.ended(Verdict::Stale), 0, "no host is late here (R9)");
    all
}

fn run(seed: u64) -> Ends {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let work = std::panic::AssertUnwindSafe(|| runtime.block_on(schedule(seed)));
    std::panic::catch_unwind(work).unwrap_or_else(|_| panic!("TIDEGATE_SEED={seed} fails"))
}

#[test]
fn the_rules_hold_under_random_schedules() {
    if let Ok(seed) = std::env::var("TIDEGATE_SEED") {
        run(seed.parse().expect("TIDEGATE_SEED is a number"));
        return;
    }
    let mut all = Ends::default();
    for seed in 0..300 {
        let ends = run(seed);
        all.good += ends.good;
        all.failed += ends.failed;
        all.dropped += ends.dropped;
    }
    assert!(
        all.good > 5_000 && all.failed > 2_000 && all.dropped > 2_000,
        "the schedules hold a bit of everything"
    );
}

/// Hand-off: with just as many permits as the calls need, work continues without a gap.
#[test]
fn no_permit_lies_idle_while_a_call_waits() {
    for seed in 0..50 {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let engine = Engine::new(seed);
            let policy = Policy::builder("p")
                .engine(&engine)
                .bulkhead(Bulkhead::fixed(2).max_queue(None).acquire_timeout(None))
                .build()
                .unwrap();
            let mut draw = Draw(SplitMix64::seed_from_u64(seed));
            let start = Instant::now();
            let mut total = Duration::ZERO;
            let mut tasks = Vec::new();
            for _ in 0..40 {
                let span = ms(1 + draw.below(30));
                total += span;
                let policy = policy.clone();
                tasks.push(tokio::spawn(async move {
                    policy
                        .run(|_| async move {
                            sleep(span).await;
                            Ok::<_, io::Error>(())
                        })
                        .await
                }));
            }
            for task in tasks {
                task.await.unwrap().unwrap();
            }
            // Two permits in FIFO order: each is in use until no work is left, apart from the length of the last call.
            assert!(start.elapsed() <= total / 2 + ms(30), "seed {seed}: {:?} of {total:?}", start.elapsed());
            nothing_left(&engine);
        });
    }
}

/// The same on real threads, where wakes and drops really race. It takes real time, so it is short.
#[test]
fn on_threads_each_wake_comes_and_nothing_is_left() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        let engine = Engine::new(1);
        let policy = Policy::builder("p")
            .engine(&engine)
            .retry(
                Retry::new()
                    .max_attempts(3)
                    .backoff(Backoff::new().base(Duration::ZERO))
                    .budget(Budget::none()),
            )
            .bulkhead(Bulkhead::fixed(2).max_queue(None).acquire_timeout(None))
            .build()
            .unwrap();
        let start = Instant::now();
        let tasks: Vec<_> = (0..64_u64)
            .map(|n| {
                let policy = policy.clone();
                tokio::spawn(async move {
                    for round in 0..200_u64 {
                        let call = policy.run(|attempt| async move {
                            tokio::task::yield_now().await;
                            if (n + round + u64::from(attempt.number)) % 3 == 0 {
                                Err(broken())
                            } else {
                                Ok(())
                            }
                        });
                        if (n + round) % 5 == 0 {
                            // Dropped after a few polls, in any state.
                            let mut call = Box::pin(call);
                            for _ in 0..round % 4 {
                                if crate::support::once(call.as_mut()).await.is_ready() {
                                    break;
                                }
                                tokio::task::yield_now().await;
                            }
                        } else {
                            call.await.unwrap();
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        nothing_left(&engine);
        // A single lost wake costs at least a second.
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
        let waits = engine.snapshot().waiting;
        assert_eq!(waits, 0, "{}", Wait::Queue.name());
    });
}
