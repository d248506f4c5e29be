//! What the tests share.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_tokio::{Builder, Engine, Policy};

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A failure that may pass.
pub fn broken() -> io::Error {
    ErrorKind::ConnectionReset.into()
}

/// A policy without jitter and without a retry budget, on this engine: its waits are those that it says.
pub fn plain(engine: &Engine, name: &str, attempts: u32) -> Builder {
    Policy::builder(name)
        .engine(engine)
        .retry_max_attempts(attempts)
        .retry_backoff_base(ms(100))
        .retry_backoff_jitter("none")
        .retry_budget_kind("none")
}

/// Nothing is left: no call lives, lingers, waits or was lost, and the books are right.
#[track_caller]
pub fn nothing_left(engine: &Engine) {
    engine.check().unwrap();
    let now = engine.snapshot();
    assert_eq!((now.live, now.lingering, now.lost, now.waiting), (0, 0, 0, 0), "{now:?}");
    for pool in now.routes.iter().filter_map(|route| route.pool) {
        assert_eq!((pool.in_flight, pool.waiting), (0, 0), "a permit is out");
    }
}

/// How often the calls of a policy have ended so.
pub fn ends(engine: &Engine, policy: &str, verdict: tidegate_tokio::Verdict) -> u64 {
    let snapshot = engine.snapshot();
    let counts = &snapshot.policies.iter().find(|(name, _)| name == policy).expect("the policy").1;
    counts.ended(verdict)
}

/// Polls a future once, and answers what is left of it.
pub async fn once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    let mut future = Some(future);
    std::future::poll_fn(move |cx: &mut Context<'_>| Poll::Ready(future.take().unwrap().poll(cx))).await
}
