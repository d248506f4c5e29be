//! Whole pipelines: a successful call through rate limit, bulkhead, breaker, retry, timeout and deadline.
//!
//! tower has no breaker: its stack is its four layers and a deadline. The stack by hand is a composition of single
//! crates as users write it: governor, tokio's Semaphore, recloser, backon, and tokio's timeout.

use std::future::{Future, Ready, ready};
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration as Span;

use super::parts::{Clock, recloser};
use super::{Row, row};
use backon::{BlockingRetryable as _, ExponentialBuilder, Retryable as _};
use governor::{Quota, RateLimiter};
use parking_lot::Mutex;
use recloser::AsyncRecloser;
use tidegate::{Action, Class, Event, Outcome, Request, Step, Value, Verdict, wire};
use tidegate_bench_core::scenarios::{FULL, World, finished};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tower::{Service, ServiceBuilder, ServiceExt as _, service_fn};

const SYNC: &str = "the full pipeline, sync";
pub const ASYNC: &str = "the full pipeline, async";
pub const RETRY: &str = "the full pipeline, async, one retry without a wait";
pub const RATE: &str = "rate limit alone, async";

/// The error of an attempt.
#[derive(Clone, Copy, Debug)]
pub struct Fault;

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a fault")
    }
}

impl std::error::Error for Fault {}

pub type Tokens = RateLimiter<
    governor::state::NotKeyed,
    governor::state::InMemoryState,
    governor::clock::MonotonicClock,
    governor::middleware::NoOpMiddleware<std::time::Instant>,
>;

pub fn tokens() -> Tokens {
    let quota = Quota::per_second(1_000_000_000.try_into().expect("not zero"));
    RateLimiter::direct_with_clock(quota, governor::clock::MonotonicClock)
}

pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

/// A call as a synchronous host makes it: a lock and a clock reading for each call of the engine.
pub fn sync_call(world: &Mutex<World>, now: Clock, mut body: impl FnMut() -> bool) -> u64 {
    let at = now.now();
    let (call, mut step) = {
        let mut world = world.lock();
        let route = world.route;
        world.engine.begin(route, &Request::default(), at)
    };
    while let Action::Attempt { attempt, .. } = step.action() {
        let class = if body() { Class::Ok } else { Class::Transient };
        let at = now.now();
        step = world.lock().engine.on(call, finished(attempt, class), at);
    }
    well(step)
}

/// The word of the last step. Panics if the call did not succeed, because its cost would not be comparable.
fn well(step: Step) -> u64 {
    assert!(matches!(step.action(), Action::Done { verdict: Verdict::Ok, .. }), "{step:?}");
    wire::pack_step(step)
}

/// A call as an asynchronous host makes it: the attempt is polled before any timer is made for it.
async fn async_call<F: Future<Output = Result<(), Fault>>>(
    world: &Mutex<World>,
    now: Clock,
    mut body: impl FnMut() -> F,
) -> Result<u64, Fault> {
    let at = now.now();
    let (call, mut step) = {
        let mut world = world.lock();
        let route = world.route;
        world.engine.begin(route, &Request::default(), at)
    };
    loop {
        let Action::Attempt { attempt, .. } = step.action() else {
            return Ok(well(step));
        };
        let mut future = pin!(body());
        let first = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        let ended = match (first, step.next()) {
            (Poll::Ready(ended), _) => Some(ended),
            (Poll::Pending, None) => Some(future.await),
            (Poll::Pending, Some(next)) => {
                tokio::time::timeout(Span::from_micros(next.as_micros()), future).await.ok()
            }
        };
        let event = match ended {
            Some(Ok(())) => finished(attempt, Class::Ok),
            Some(Err(Fault)) => Event::Finished { attempt, outcome: Outcome::of(Class::Transient) },
            None => Event::Timer,
        };
        let at = now.now();
        step = world.lock().engine.on(call, event, at);
    }
}

pub fn rows() -> Vec<Row> {
    let mut rows = vec![ours_sync(), by_hand_sync(), ours_async(ASYNC, 0), by_hand_async(ASYNC, 0)];
    rows.push(tower_row(ASYNC, 0));
    rows.push(tower_resilience_row(ASYNC, 0));
    rows.extend(super::host::beside(ASYNC));
    rows.extend([
        ours_async(RETRY, 1),
        by_hand_async(RETRY, 1),
        tower_row(RETRY, 1),
        tower_resilience_row(RETRY, 1),
    ]);
    rows.extend(super::host::beside(RETRY));
    rows.extend(super::host::rows());
    rows.extend(rates());
    rows
}

/// A body whose first `failures` attempts of every call fail. Clones count together, because a stack clones its service
/// for each attempt; a lock here would be a tenth of what a call costs.
pub fn body(failures: u32) -> impl Fn() -> Ready<Result<(), Fault>> + Clone + Send + Sync {
    let made = Arc::new(AtomicU32::new(0));
    move || {
        if failures == 0 {
            return ready(Ok(()));
        }
        let made = made.fetch_add(1, Ordering::Relaxed) + 1;
        ready(if made.is_multiple_of(failures + 1) { Ok(()) } else { Err(Fault) })
    }
}

fn ours_sync() -> Row {
    let (world, now) = (Mutex::new(World::new(FULL)), Clock::new());
    row(SYNC, "tidegate, one lock, two clocks", move |calls| {
        for _ in 0..calls {
            black_box(sync_call(&world, now, || black_box(true)));
        }
    })
}

fn by_hand_sync() -> Row {
    let (tokens, permits, breaker) = (tokens(), Semaphore::new(100), recloser());
    row(SYNC, "governor, Semaphore, recloser, backon (no timeout)", move |calls| {
        for _ in 0..calls {
            let attempt = || breaker.call(|| black_box(Ok::<(), Fault>(())));
            let call = || {
                tokens.check().ok()?;
                let permit = permits.try_acquire().ok()?;
                let done = attempt.retry(ExponentialBuilder::default()).sleep(|_| ()).call();
                drop(permit);
                done.ok()
            };
            assert!(black_box(call()).is_some());
        }
    })
}

fn ours_async(group: &'static str, failures: u32) -> Row {
    let (runtime, world, now) = (runtime(), Mutex::new(World::new(FULL)), Clock::new());
    let body = body(failures);
    row(group, "tidegate, a timer once an attempt is pending", move |calls| {
        runtime.block_on(async {
            for _ in 0..calls {
                assert!(black_box(async_call(&world, now, &body).await).is_ok());
            }
        });
    })
}

fn by_hand_async(group: &'static str, failures: u32) -> Row {
    let runtime = runtime();
    let (tokens, permits, breaker) = (tokens(), Semaphore::new(100), AsyncRecloser::from(recloser()));
    let body = body(failures);
    row(group, "governor, Semaphore, recloser, backon, timeout", move |calls| {
        runtime.block_on(async {
            for _ in 0..calls {
                let call = async {
                    tokens.check().ok()?;
                    let permit = permits.acquire().await.ok()?;
                    let attempt = || {
                        let answer = body();
                        async {
                            tokio::time::timeout(Span::from_secs(1), breaker.call(answer))
                                .await
                                .map_err(|_| Fault)?
                                .map_err(|_| Fault)
                        }
                    };
                    let retries = ExponentialBuilder::default();
                    let done = attempt.retry(retries).sleep(|_| ready(())).await;
                    drop(permit);
                    done.ok()
                };
                assert!(black_box(call.await).is_some());
            }
        });
    })
}

/// A policy that retries this many times.
#[derive(Clone)]
pub struct Attempts(pub u32);

impl<Req: Clone, Res, E> tower::retry::Policy<Req, Res, E> for Attempts {
    type Future = Ready<()>;

    fn retry(&mut self, _request: &mut Req, result: &mut Result<Res, E>) -> Option<Self::Future> {
        if result.is_ok() || self.0 == 0 {
            return None;
        }
        self.0 -= 1;
        Some(ready(()))
    }

    fn clone_request(&mut self, request: &Req) -> Option<Req> {
        Some(request.clone())
    }
}

fn tower_row(group: &'static str, failures: u32) -> Row {
    let runtime = runtime();
    let body = body(failures);
    let mut stack = runtime.block_on(async {
        ServiceBuilder::new()
            .timeout(Span::from_secs(30))
            .rate_limit(1_000_000_000, Span::from_secs(1))
            .retry(Attempts(2))
            .concurrency_limit(100)
            .timeout(Span::from_secs(1))
            .service(service_fn(move |(): ()| body()))
    });
    row(group, "tower: timeout, rate, retry, concurrency, timeout", move |calls| {
        runtime.block_on(drive(&mut stack, calls));
    })
}

pub async fn drive<S: Service<(), Response = ()>>(stack: &mut S, calls: u64) {
    for _ in 0..calls {
        let Ok(ready) = stack.ready().await else { panic!("not ready") };
        assert!(black_box(ready.call(()).await).is_ok());
    }
}

fn tower_resilience_row(group: &'static str, failures: u32) -> Row {
    use tower_resilience::bulkhead::BulkheadLayer;
    use tower_resilience::circuitbreaker::CircuitBreakerLayer;
    use tower_resilience::ratelimiter::RateLimiterLayer;
    use tower_resilience::retry::RetryLayer;
    use tower_resilience::timelimiter::TimeLimiterLayer;
    let runtime = runtime();
    let body = body(failures);
    let mut stack = runtime.block_on(async {
        let deadline = TimeLimiterLayer::builder().timeout_duration(Span::from_secs(30)).build();
        let rate = RateLimiterLayer::builder()
            .limit_for_period(1_000_000_000)
            .refresh_period(Span::from_secs(1))
            .build()
            .expect("a good rate");
        let bulkhead = BulkheadLayer::builder().max_concurrent_calls(100).build().expect("a good bulkhead");
        let breaker = CircuitBreakerLayer::builder()
            .failure_rate_threshold(0.9)
            .sliding_window_size(100)
            .build()
            .expect("a good breaker");
        let retry = RetryLayer::<(), (), _>::builder().max_attempts(3).fixed_backoff(Span::ZERO).build();
        let timeout = TimeLimiterLayer::builder().timeout_duration(Span::from_secs(1)).build();
        ServiceBuilder::new()
            .layer(deadline)
            .layer(rate)
            .layer(bulkhead)
            .layer(breaker)
            .layer(retry)
            .layer(timeout)
            .service(service_fn(move |(): ()| body()))
    });
    row(group, "tower-resilience: the same six", move |calls| {
        runtime.block_on(drive(&mut stack, calls));
    })
}

fn rates() -> Vec<Row> {
    let (ours, theirs) = (runtime(), runtime());
    let pairs = [
        ("rate_limit.permits", Value::Number(1e9)),
        ("rate_limit.per", Value::Number(1e6)),
        ("retry.max_attempts", Value::Number(1.0)),
    ];
    let (world, now) = (Mutex::new(World::new(&pairs)), Clock::new());
    let mut stack = theirs.block_on(async {
        ServiceBuilder::new()
            .rate_limit(1_000_000_000, Span::from_secs(1))
            .service(service_fn(|(): ()| ready(black_box(Ok::<(), Fault>(())))))
    });
    let body = body(0);
    vec![
        row(RATE, "Engine with a rate limit, locked, two clocks", move |calls| {
            ours.block_on(async {
                for _ in 0..calls {
                    assert!(black_box(async_call(&world, now, &body).await).is_ok());
                }
            });
        }),
        row(RATE, "tower RateLimit (one owner, no lock)", move |calls| {
            theirs.block_on(drive(&mut stack, calls));
        }),
    ]
}
