//! Helpers that the tests share.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tidegate_tokio::settings::{Backoff, Budget, Jitter, Retry};
use tidegate_tokio::{Builder, Engine, Policy};

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A retryable failure.
pub fn broken() -> io::Error {
    ErrorKind::ConnectionReset.into()
}

/// A policy without jitter and without a retry budget, on this engine, so that its waits are exactly those of its
/// settings.
pub fn plain(engine: &Engine, name: &str, attempts: u32) -> Builder {
    Policy::builder(name).engine(engine).retry(
        Retry::new()
            .max_attempts(attempts)
            .backoff(Backoff::new().base(ms(100)).jitter(Jitter::None))
            .budget(Budget::none()),
    )
}

/// Checks that nothing is left: no call lives, lingers, waits or was lost, and the engine's invariants hold.
#[track_caller]
pub fn nothing_left(engine: &Engine) {
    engine.check().unwrap();
    let now = engine.snapshot();
    assert_eq!((now.live, now.lingering, now.lost, now.waiting), (0, 0, 0, 0), "{now:?}");
    for pool in now.routes.iter().filter_map(|route| route.pool) {
        assert_eq!((pool.in_flight, pool.waiting), (0, 0), "a permit is out");
    }
}

/// One test at a time, so that all sockets that the process has open belong to the test.
static ALONE: Mutex<()> = Mutex::new(());

/// The longest time for dropped tasks to end. Only a leak lasts that long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Number of sockets that the process has open, if the system reports it.
fn sockets() -> usize {
    let Ok(files) = std::fs::read_dir("/proc/self/fd") else { return 0 };
    let links = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

/// Runs a test of an adapter. Afterwards there may be no more sockets than before, and no task of its runtime.
#[allow(clippy::await_holding_lock, reason = "each test has a runtime of its own, in a thread of its own")]
pub async fn counted(test: impl Future<Output = ()>) {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = sockets();
    test.await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let end = Instant::now() + PATIENCE;
    while (tasks() > 0 || sockets() > before) && Instant::now() < end {
        // Real time, because a test may have paused tokio's clock.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        std::thread::sleep(ms(1));
    }
    assert_eq!(tasks(), 0, "tasks are left");
    assert!(sockets() <= before, "{} sockets are open where there were {before}", sockets());
    drop(alone);
}

/// Makes a test of the async function of this name, on a paused clock, and checks for sockets and tasks left behind.
#[macro_export]
macro_rules! counted {
    ($name:ident) => {
        mod $name {
            #[tokio::test(start_paused = true)]
            async fn leaves_nothing() {
                $crate::support::counted(super::$name()).await;
            }
        }
    };
}

/// Number of the policy's calls that ended with this verdict.
pub fn ends(engine: &Engine, policy: &str, verdict: tidegate_tokio::Verdict) -> u64 {
    let snapshot = engine.snapshot();
    let counts = &snapshot.policies.iter().find(|(name, _)| name == policy).expect("the policy").1;
    counts.ended(verdict)
}

/// Polls a future once, and returns the result of the poll.
pub async fn once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    let mut future = Some(future);
    std::future::poll_fn(move |cx: &mut Context<'_>| Poll::Ready(future.take().unwrap().poll(cx))).await
}
