//! The Rust host beside its peers: `Policy::run` and the tower layer with attempts that succeed at once, with one
//! retry, and with an attempt that is pending once. Every real attempt is pending at least once, which makes the host
//! arm its timers.

use std::future::{Future, Ready};
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration as Span;

use super::stacks::{ASYNC, Attempts, Fault, RETRY, body, drive, runtime};
use super::{Row, row};
use tidegate::{Class, Outcome};
use tidegate_bench_core::scenarios::FULL;
use tidegate_tokio::{Engine, Failure, Policy};
use tokio::sync::Semaphore;
use tower::{Layer, ServiceBuilder, service_fn};

const PENDING: &str = "the full pipeline, async, pending once";

impl Failure for Fault {
    fn outcome(&self) -> Outcome {
        Outcome::of(Class::Transient)
    }
}

pub fn policy() -> Policy {
    let settings = tidegate::Policy::from_pairs("p", FULL).expect("a good policy");
    Policy::new_in(&Engine::new(7), settings).expect("the only one")
}

/// A future that is pending once and wakes itself at once.
struct Once(bool);

impl Future for Once {
    type Output = Result<(), Fault>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(black_box(Ok(())));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Rows that belong to groups of `stacks.rs`.
pub fn beside(group: &'static str) -> Vec<Row> {
    let failures = match group {
        ASYNC => 0,
        RETRY => 1,
        _ => return Vec::new(),
    };
    vec![run_row(group, body(failures)), layer_row(group, failures)]
}

fn run_row<F: Future<Output = Result<(), Fault>>>(
    group: &'static str,
    mut body: impl FnMut() -> F + 'static,
) -> Row {
    let (runtime, policy) = (runtime(), policy());
    row(group, "tidegate-tokio: Policy::run", move |calls| {
        runtime.block_on(async {
            for _ in 0..calls {
                assert!(black_box(policy.run(|_| body()).await).is_ok());
            }
        });
    })
}

fn layer_row(group: &'static str, failures: u32) -> Row {
    let (runtime, policy) = (runtime(), policy());
    let body = body(failures);
    let mut stack = policy.layer().layer(service_fn(move |(): ()| -> Ready<Result<(), Fault>> { body() }));
    row(group, "tidegate-tokio: the tower layer", move |calls| {
        runtime.block_on(drive(&mut stack, calls));
    })
}

/// Rows that are a group by themselves.
pub fn rows() -> Vec<Row> {
    let mut rows = vec![run_row(PENDING, || Once(false))];
    let (ours, policy) = (runtime(), policy());
    let mut stack = policy.layer().layer(service_fn(|(): ()| Once(false)));
    rows.push(row(PENDING, "tidegate-tokio: the tower layer", move |calls| {
        ours.block_on(drive(&mut stack, calls));
    }));
    let theirs = runtime();
    let mut stack = theirs.block_on(async {
        ServiceBuilder::new()
            .timeout(Span::from_secs(30))
            .rate_limit(1_000_000_000, Span::from_secs(1))
            .retry(Attempts(2))
            .concurrency_limit(100)
            .timeout(Span::from_secs(1))
            .service(service_fn(|(): ()| Once(false)))
    });
    rows.push(row(PENDING, "tower: timeout, rate, retry, concurrency, timeout", move |calls| {
        theirs.block_on(drive(&mut stack, calls));
    }));
    let (hand, permits) = (runtime(), Semaphore::new(100));
    rows.push(row(PENDING, "by hand: Semaphore and one tokio timeout", move |calls| {
        hand.block_on(async {
            for _ in 0..calls {
                let call = async {
                    let permit = permits.acquire().await.ok()?;
                    let done = tokio::time::timeout(Span::from_secs(1), Once(false)).await;
                    drop(permit);
                    done.ok()?.ok()
                };
                assert!(black_box(call.await).is_some());
            }
        });
    }));
    rows
}
