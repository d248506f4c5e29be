//! One object with one and with two threads. Each of these objects can be shared, and reads its own clock.

use std::future::{Future, ready};
use std::hint::black_box;
use std::num::NonZeroU32;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::Shared;
use super::host::policy;
use super::parts::{Clock, breaker, failsafe, recloser};
use super::sharded::{self, BREAKER, RATE, SLOTS};
use super::stacks::{Fault, sync_call};
use failsafe::CircuitBreaker as _;
use governor::clock::MonotonicClock;
use governor::{Quota, RateLimiter};
use parking_lot::Mutex;
use tidegate::Evidence;
use tidegate_bench_core::gate::{Gate, UNBOUNDED};
use tidegate_bench_core::scenarios::{FULL, World, scenario};
use tokio::sync::Semaphore;

fn shared(name: &'static str, run: impl Fn(u64) + Sync + 'static) -> Shared {
    Shared { name, run: Box::new(run) }
}

/// The host on one policy. Its calls never wait, so they need no runtime.
fn run() -> impl Fn(u64) + Sync {
    let policy = policy();
    move |calls| {
        for _ in 0..calls {
            let call = pin!(policy.run(|_| ready(Ok::<(), Fault>(()))));
            let polled = call.poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(black_box(polled), Poll::Ready(Ok(()))));
        }
    }
}

fn sketch<const LEASED: bool>(now: Clock) -> impl Fn(u64) + Sync {
    let gate = Gate::<LEASED>::new(World::new(FULL), 100, UNBOUNDED);
    move |calls| {
        for _ in 0..calls {
            assert!(gate.call(|| now.now(), || ()));
        }
    }
}

pub fn rows() -> Vec<Shared> {
    let now = Clock::new();
    let engine = |pairs| {
        let world = Mutex::new(World::new(pairs));
        move |calls| {
            for _ in 0..calls {
                black_box(sync_call(&world, now, || black_box(true)));
            }
        }
    };
    let bare = scenario("bare").expect("the first of them").pairs;
    let quota = Quota::per_second(NonZeroU32::new(1_000_000_000).expect("not zero"));
    let governor = RateLimiter::direct_with_clock(quota, MonotonicClock);
    let ours = Mutex::new(breaker());
    let (failsafe, recloser, semaphore) = (failsafe(), recloser(), Semaphore::new(100));
    vec![
        shared("tidegate, the full pipeline", engine(FULL)),
        shared("tidegate-tokio: Policy::run", run()),
        shared("… an engine a thread, nothing shared", sharded::calls(&[], now)),
        shared("… an engine a thread, a store for the rate", sharded::calls(&[RATE], now)),
        shared("… an engine a thread, a store for the breaker", sharded::calls(&[BREAKER], now)),
        shared("… an engine a thread, a store for the slots", sharded::calls(&[SLOTS], now)),
        shared("… an engine a thread, a store for all three", sharded::calls(&[RATE, BREAKER, SLOTS], now)),
        shared("tidegate, a sketch without the lock, shared tokens (ADR 0060)", sketch::<false>(now)),
        shared("tidegate, a sketch without the lock, leased tokens (ADR 0060)", sketch::<true>(now)),
        shared("tidegate, a deadline alone", engine(bare)),
        shared("tidegate, CircuitBreaker behind a mutex", move |calls| {
            for _ in 0..calls {
                let ticket = ours.lock().admit(now.now());
                if let Ok(ticket) = ticket {
                    black_box(ours.lock().record(ticket, Evidence::Success, 0, now.now()));
                }
            }
        }),
        shared("governor alone", move |calls| {
            for _ in 0..calls {
                black_box(governor.check().is_ok());
            }
        }),
        shared("failsafe alone", move |calls| {
            for _ in 0..calls {
                black_box(failsafe.call(|| black_box(Ok::<(), ()>(()))).is_ok());
            }
        }),
        shared("recloser alone", move |calls| {
            for _ in 0..calls {
                black_box(recloser.call(|| black_box(Ok::<(), ()>(()))).is_ok());
            }
        }),
        shared("tokio Semaphore alone, try_acquire", move |calls| {
            for _ in 0..calls {
                drop(black_box(semaphore.try_acquire()));
            }
        }),
    ]
}
