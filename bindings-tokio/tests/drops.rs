//! Dropping a call cancels it in any state: alone, and beside another call that is dropped too. Its permits and tokens
//! pass to other calls, nothing is counted, nothing is left behind.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::support::{broken, ends, ms, nothing_left, once, plain};
use tidegate_tokio::settings::{Breaker, Bulkhead, Hedge, HedgeBudget, RateLimit};
use tidegate_tokio::{Engine, Policy, Verdict};
use tokio::time::sleep;

/// Counts the polls of a future, and drops it at one of them.
struct DroppedAt<F> {
    future: Option<Pin<Box<F>>>,
    polls: usize,
    at: usize,
}

impl<F: Future> Future for DroppedAt<F> {
    /// The future's result, unless it was dropped before.
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == self.at {
            self.future = None;
        }
        self.polls += 1;
        match &mut self.future {
            Some(future) => future.as_mut().poll(cx).map(Some),
            None => Poll::Ready(None),
        }
    }
}

fn dropped_at<F: Future>(at: usize, future: F) -> DroppedAt<F> {
    DroppedAt { future: Some(Box::pin(future)), polls: 0, at }
}

/// A policy in which a call waits for tokens, for a permit, for an attempt, in backoff and for a hedge.
fn everything(engine: &Engine) -> Policy {
    plain(engine, "p", 4)
        .deadline(ms(20_000))
        .attempt_timeout(ms(200))
        .hedge(Hedge::new(ms(60)).budget(HedgeBudget::none()))
        .rate_limit(RateLimit::new(100, ms(1_000)).burst(1).wait(true).max_wait(ms(60_000)))
        .bulkhead(Bulkhead::fixed(1).max_queue(10).acquire_timeout(None))
        .build()
        .unwrap()
}

/// A call whose first attempt fails, whose second hangs, and whose hedge beside it answers.
async fn call(policy: &Policy, holds: &Arc<()>) -> Result<u8, tidegate_tokio::Error<io::Error>> {
    policy
        .run(|attempt| {
            let held = Arc::clone(holds);
            async move {
                let answer = match attempt.number {
                    1 => {
                        sleep(ms(10)).await;
                        Err(broken())
                    }
                    2 => {
                        sleep(ms(150)).await;
                        sleep(ms(1_000)).await;
                        Err(broken())
                    }
                    number => {
                        tokio::task::yield_now().await;
                        sleep(ms(30)).await;
                        Ok(number)
                    }
                };
                drop(held);
                answer
            }
        })
        .await
}

const FAR: usize = 1_000;

#[tokio::test(start_paused = true)]
async fn dropped_at_each_poll_a_call_leaves_nothing() {
    let mut polls = 0;
    for at in 0..FAR {
        let (engine, holds) = (Engine::new(7), Arc::new(()));
        let policy = everything(&engine);
        let mut first = dropped_at(at, call(&policy, &holds));
        let ended = std::future::poll_fn(|cx| Pin::new(&mut first).poll(cx)).await;
        polls = first.polls;
        drop(first);
        nothing_left(&engine);
        assert_eq!(Arc::strong_count(&holds), 1, "dropped at poll {at}");
        let cancelled = ends(&engine, "p", Verdict::Cancelled);
        // A call dropped before its first poll has not begun.
        assert_eq!(cancelled, u64::from(ended.is_none() && at > 0), "dropped at poll {at}");
        if ended.is_some() {
            break;
        }
    }
    assert!(polls > 8, "the call has {polls} polls: it waits for everything there is");
}

#[tokio::test(start_paused = true)]
async fn two_calls_dropped_at_each_pair_of_polls_leave_nothing_and_a_third_goes_through() {
    let mut pairs = 0;
    for (one, other) in (0..12).flat_map(|one| (0..12).map(move |other| (one, other))) {
        let (engine, holds) = (Engine::new(7), Arc::new(()));
        let policy = everything(&engine);
        let calls = async {
            tokio::join!(
                dropped_at(one, call(&policy, &holds)),
                dropped_at(other, call(&policy, &holds)),
                call(&policy, &holds)
            )
        };
        let (_, _, third) = calls.await;
        assert_eq!(third.unwrap(), 3, "dropped at {one} and {other}");
        nothing_left(&engine);
        assert_eq!(Arc::strong_count(&holds), 1, "dropped at {one} and {other}");
        pairs += 1;
    }
    assert_eq!(pairs, 144);
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_was_granted_and_not_claimed_goes_on() {
    let engine = Engine::new(7);
    let policy = plain(&engine, "p", 1)
        .bulkhead(Bulkhead::fixed(1).max_queue(10).acquire_timeout(None))
        .build()
        .unwrap();
    let work = |_| async {
        sleep(ms(10)).await;
        Ok::<_, io::Error>(())
    };
    let mut holder = Box::pin(policy.run(work));
    let mut granted = Box::pin(policy.run(work));
    let mut last = Box::pin(policy.run(work));
    for call in [&mut holder, &mut granted, &mut last] {
        assert!(once(call.as_mut()).await.is_pending());
    }
    holder.await.unwrap();
    // It has been granted the permit, but has not been polled since.
    drop(granted);
    let start = tokio::time::Instant::now();
    last.await.unwrap();
    assert_eq!(start.elapsed(), ms(10), "handed on in the same step, not after a lease");
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn an_aborted_task_gives_its_probe_back() {
    let engine = Engine::new(7);
    let policy = plain(&engine, "p", 1)
        .breaker(Breaker::by_consecutive(1, ms(100)).break_factor(1.0))
        .build()
        .unwrap();
    let _ = policy.run(|_| async { Err::<(), _>(broken()) }).await;
    sleep(ms(150)).await;
    let own = policy.clone();
    let probe = tokio::spawn(async move { own.run(|_| std::future::pending::<io::Result<()>>()).await });
    sleep(ms(1)).await;
    assert_eq!(
        policy.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap_err().stopped().unwrap().reason,
        Verdict::BreakerOpen,
        "one probe at a time"
    );
    probe.abort();
    assert!(probe.await.unwrap_err().is_cancelled());
    policy.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_takes_the_calls_within_it_along() {
    let engine = Engine::new(7);
    let (outer, inner) =
        (everything(&engine), plain(&engine, "inner", 3).bulkhead(Bulkhead::fixed(1)).build().unwrap());
    let mut call = Box::pin(outer.run(|_| inner.run(|_| std::future::pending::<io::Result<()>>())));
    assert!(once(call.as_mut()).await.is_pending());
    assert_eq!(engine.snapshot().live, 2);
    drop(call);
    nothing_left(&engine);
    assert_eq!((ends(&engine, "p", Verdict::Cancelled), ends(&engine, "inner", Verdict::Cancelled)), (1, 1));
}
