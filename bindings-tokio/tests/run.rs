//! Single calls: attempts, waits, results, scope. Every test's clock is paused.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use std::cell::Cell;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{broken, ends, ms, nothing_left, once, plain};
use tidegate_tokio::settings::{Backoff, Bulkhead, Hedge, HedgeBudget, RateLimit, Retry};
use tidegate_tokio::{
    Bounds, Class, Code, Criticality, Engine, Error, Outcome, Policy, RecordType, Verdict, carry,
};
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn a_failure_that_may_pass_is_repeated_after_its_backoff() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 3).build().unwrap();
    let start = Instant::now();
    let made = Cell::new(0);
    let answer = policy
        .run(|attempt| {
            made.set(made.get() + 1);
            async move { if attempt.number < 3 { Err(broken()) } else { Ok(attempt.number) } }
        })
        .await;
    assert_eq!((answer.unwrap(), made.get()), (3, 3));
    assert_eq!(start.elapsed(), ms(300), "100 ms and 200 ms");
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_retry_without_a_wait_takes_no_time() {
    let engine = Engine::new(1);
    let policy =
        plain(&engine, "p", 5).retry(Retry::new().backoff(Backoff::new().base(ms(0)))).build().unwrap();
    let start = Instant::now();
    let error = policy.run(|_| async { Err::<(), _>(broken()) }).await.unwrap_err();
    let Error::Failed(own, report) = error else { panic!("the attempt's own error") };
    assert_eq!(own.kind(), ErrorKind::ConnectionReset);
    assert_eq!((report.attempts, report.reason), (5, Verdict::Attempts));
    assert_eq!(report.note().unwrap(), "gave up after 5 attempts");
    assert_eq!(start.elapsed(), ms(0));
}

#[tokio::test(start_paused = true)]
async fn an_error_that_will_not_pass_is_the_callers_at_once() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 3).build().unwrap();
    let ended = policy.caller().ended(|_| async { Err::<(), _>(io::Error::from(ErrorKind::NotFound)) }).await;
    let note = ended.report.note().unwrap();
    assert!(note.starts_with("not retried: std::io::error::Error is not listed"), "{note}");
    assert_eq!(ended.report.attempts, 1);
    assert!(matches!(ended.result, Err(Error::Failed(error, _)) if error.kind() == ErrorKind::NotFound));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_is_dropped_and_repeated() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 2).attempt_timeout(ms(50)).bulkhead(Bulkhead::fixed(1)).build().unwrap();
    let start = Instant::now();
    let held = Arc::new(());
    let answer = policy
        .run(|attempt| {
            let held = Arc::clone(&held);
            async move {
                assert_eq!(attempt.remaining, Some(ms(50)));
                if attempt.number == 1 {
                    pending::<()>().await;
                }
                Ok::<_, io::Error>(Arc::strong_count(&held))
            }
        })
        .await;
    assert_eq!(answer.unwrap(), 2, "the stopped attempt has let go of what it had");
    assert_eq!(start.elapsed(), ms(150));
    nothing_left(&engine);
    let error = policy.run(|_| pending::<io::Result<()>>()).await.unwrap_err();
    assert_eq!(error.stopped().unwrap().code, Code::AttemptTimeout);
    assert_eq!(error.stopped().unwrap().report.note().unwrap(), "gave up after 2 attempts");
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_an_attempt_a_backoff_and_a_queue() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 3).deadline(ms(500)).build().unwrap();
    let start = Instant::now();
    let error = policy.run(|_| pending::<io::Result<()>>()).await.unwrap_err();
    assert_eq!(error.stopped().unwrap().code, Code::DeadlineExceeded);
    assert_eq!(start.elapsed(), ms(500));

    // A backoff that would outlive the deadline does not begin: the real error is returned at once.
    let slow = plain(&engine, "slow", 3)
        .retry(Retry::new().backoff(Backoff::new().base(ms(5_000)).max(ms(5_000))))
        .deadline(ms(500))
        .build()
        .unwrap();
    let start = Instant::now();
    let error = slow.run(|_| async { Err::<(), _>(broken()) }).await.unwrap_err();
    assert!(matches!(&error, Error::Failed(_, report) if report.reason == Verdict::WouldOutliveDeadline));
    assert_eq!(start.elapsed(), ms(0));

    let queue = plain(&engine, "queue", 1)
        .bulkhead(Bulkhead::fixed(1).max_queue(1).acquire_timeout(None))
        .deadline(ms(500))
        .build()
        .unwrap();
    let _ = once(pin!(queue.run(|_| pending::<io::Result<()>>()))).await;
    let mut holder = pin!(queue.run(|_| pending::<io::Result<()>>()));
    assert!(once(holder.as_mut()).await.is_pending());
    sleep(ms(100)).await;
    let start = Instant::now();
    let waits = queue.caller().deadline(ms(200));
    let error = waits.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap_err();
    assert_eq!(error.stopped().unwrap().reason, Verdict::DeadlineQueued);
    assert_eq!(start.elapsed(), ms(200));
    assert!(holder.await.is_err());
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_freed_slot_goes_to_the_call_that_waits() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 1).bulkhead(Bulkhead::fixed(1).max_queue(10)).build().unwrap();
    let start = Instant::now();
    let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let calls = (0..5).map(|n| {
        let (policy, order) = (policy.clone(), Arc::clone(&order));
        tokio::spawn(async move {
            policy
                .run(|_| async {
                    order.lock().push(n);
                    sleep(ms(10)).await;
                    Ok::<_, io::Error>(())
                })
                .await
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    assert_eq!(*order.lock(), [0, 1, 2, 3, 4], "first in, first out");
    assert!(start.elapsed() < ms(60), "handed on at once: {:?}", start.elapsed());
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_an_error_of_ours_and_says_when_to_come_back() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 1).rate_limit(RateLimit::new(1, ms(1_000))).build().unwrap();
    policy.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
    let made = Cell::new(false);
    let work = |_| {
        made.set(true);
        async { Ok::<_, io::Error>(()) }
    };
    let error = policy.run(work).await.unwrap_err();
    let stopped = error.stopped().unwrap();
    assert_eq!((stopped.code, stopped.code.http_status(), made.get()), (Code::RateLimited, 429, false));
    assert_eq!(stopped.retry_in, Some(ms(1_000)));
    assert!(error.is_rejected());
    assert_eq!(error.to_string(), "the rate limit is used up (policy \"p\", route \"default\")");
    policy.caller().route("other").run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_tokens_is_as_long_as_it_has_to_be() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 1)
        .rate_limit(RateLimit::new(10, ms(1_000)).burst(1).wait(true).max_wait(ms(60_000)))
        .build()
        .unwrap();
    let start = Instant::now();
    for _ in 0..5 {
        policy.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
    }
    assert_eq!(start.elapsed(), ms(400), "a token every 100 ms");
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_runs_beside_a_slow_attempt_and_the_loser_is_dropped() {
    let engine = Engine::new(1);
    let policy = Policy::builder("p")
        .engine(&engine)
        .hedge(Hedge::new(ms(50)).budget(HedgeBudget::none()))
        .bulkhead(Bulkhead::fixed(10))
        .deadline(ms(1_000))
        .build()
        .unwrap();
    let start = Instant::now();
    let alive = Arc::new(());
    let answer = policy
        .run(|attempt| {
            let alive = Arc::clone(&alive);
            async move {
                assert_eq!(attempt.hedge, attempt.number == 2);
                assert_eq!(attempt.remaining, Some(if attempt.hedge { ms(950) } else { ms(1_000) }));
                sleep(if attempt.hedge { ms(20) } else { ms(800) }).await;
                drop(alive);
                Ok::<_, io::Error>(attempt.number)
            }
        })
        .await;
    assert_eq!(answer.unwrap(), 2);
    assert_eq!(start.elapsed(), ms(70));
    assert_eq!(Arc::strong_count(&alive), 1, "the loser is gone when the winner's answer is here");
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn of_a_race_that_fails_the_last_error_is_the_callers() {
    let engine = Engine::new(1);
    let policy = Policy::builder("p")
        .engine(&engine)
        .hedge(Hedge::new(ms(10)).max_attempts(3).budget(HedgeBudget::none()))
        .build()
        .unwrap();
    let error = policy
        .caller()
        .classify(|result: Result<&(), &u8>| {
            Outcome::of(if result.is_ok() { Class::Ok } else { Class::Transient })
        })
        .run(|attempt| async move {
            sleep(ms(100 - 10 * u64::from(attempt.number))).await;
            Err::<(), _>(attempt.number)
        })
        .await
        .unwrap_err();
    assert_eq!(error.into_own(), Some(3));
    nothing_left(&engine);
}

/// Counts a running attempt until it is dropped.
struct Out(Arc<AtomicUsize>);

impl Drop for Out {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_that_time_out_in_a_race_are_each_dropped() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 4)
        .attempt_timeout(ms(50))
        .hedge(Hedge::new(ms(20)).budget(HedgeBudget::none()))
        .retry(Retry::new().backoff(Backoff::new().base(ms(10))))
        .build()
        .unwrap();
    let out = Arc::new(AtomicUsize::new(0));
    let error = policy
        .run(|_| {
            let out = Arc::clone(&out);
            assert!(out.fetch_add(1, Ordering::Relaxed) < 2, "at most two at once");
            let guard = Out(out);
            async move {
                let _guard = guard;
                pending::<io::Result<()>>().await
            }
        })
        .await
        .unwrap_err();
    assert_eq!(error.stopped().unwrap().code, Code::AttemptTimeout);
    assert_eq!(error.stopped().unwrap().report.attempts, 4);
    assert_eq!(out.load(Ordering::Relaxed), 0);
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_policy_inside_another_makes_one_attempt_and_shares_its_deadline() {
    let engine = Engine::new(1);
    let outer = plain(&engine, "outer", 2).deadline(ms(700)).build().unwrap();
    let inner = plain(&engine, "inner", 5).build().unwrap();
    let made = Cell::new(0);
    let error = outer
        .run(|_| {
            inner.run(|_| {
                made.set(made.get() + 1);
                async { Err::<(), _>(broken()) }
            })
        })
        .await
        .unwrap_err();
    assert_eq!(made.get(), 2, "two of the outer one, one each of the inner one");
    let Error::Failed(Error::Failed(_, report), _) = error else { panic!("the error itself") };
    assert_eq!(report.reason, Verdict::Nested);

    let start = Instant::now();
    let error = outer.run(|_| inner.run(|_| pending::<io::Result<()>>())).await.unwrap_err();
    assert!(error.to_string().contains("deadline"), "{error}");
    assert_eq!(start.elapsed(), ms(700));
    nothing_left(&engine);
}

/// Semantics 7.3.3.
#[tokio::test(start_paused = true)]
async fn a_call_ends_at_the_deadline_of_another_engines_call_around_it() {
    let engines = [Engine::new(1), Engine::new(2), Engine::new(3)];
    let outer = plain(&engines[0], "outer", 1).deadline(ms(700)).build().unwrap();
    let between = plain(&engines[1], "between", 1).build().unwrap();
    let hangs = |_| pending::<io::Result<()>>();
    for (engine, own, expected) in [(2, 5_000, 600), (1, 5_000, 600), (0, 5_000, 600), (2, 300, 300)] {
        let inner = plain(&engines[engine], "inner", 1).build().unwrap().caller().deadline(ms(own));
        let ended = Cell::new(None);
        let nested = outer.run(|_| {
            between.run(|_| async {
                sleep(ms(100)).await;
                let start = Instant::now();
                let error = inner.run(hangs).await.unwrap_err();
                ended.set(Some((error.stopped().unwrap().code, start.elapsed())));
                Ok::<_, io::Error>(())
            })
        });
        let _ = nested.await;
        assert_eq!(ended.get(), Some((Code::DeadlineExceeded, ms(expected))), "engine {engine}, {own} ms");
    }
    // A task carries it, also past the end of its innermost call. An outer call that has ended has no deadline.
    for (stays, expected) in [(true, 700), (false, 5_050)] {
        let inner = plain(&engines[1], "inner", 1).build().unwrap().caller().deadline(ms(5_000));
        let start = Instant::now();
        let task = Cell::new(None);
        let nested = outer.run(|_| async {
            let carried = between.run(|_| {
                let inner = inner.clone();
                let late = async move {
                    sleep(ms(50)).await;
                    (inner.run(hangs).await.unwrap_err(), start.elapsed())
                };
                task.set(Some(tokio::spawn(carry(late))));
                async { Ok::<_, io::Error>(()) }
            });
            carried.await.unwrap();
            if stays { pending().await } else { Ok::<_, io::Error>(()) }
        });
        assert_eq!(nested.await.is_err(), stays);
        let (error, after) = task.take().unwrap().await.unwrap();
        assert_eq!((error.stopped().unwrap().code, after), (Code::DeadlineExceeded, ms(expected)), "{stays}");
    }
    engines.iter().for_each(nothing_left);
}

/// Semantics 7.3.4.
#[tokio::test(start_paused = true)]
async fn nothing_but_the_deadline_crosses_from_one_engine_to_another() {
    let engines = [Engine::new(1), Engine::new(2)];
    let of = |engine: &Engine, attempts| {
        plain(engine, "p", attempts).bulkhead(Bulkhead::fixed(1)).deadline(ms(700)).build().unwrap()
    };
    let (outer, inner) = (of(&engines[0], 2), of(&engines[1], 3));
    let made = Cell::new(0);
    let _ = outer
        .run(|_| {
            inner.run(|_| {
                made.set(made.get() + 1);
                let taken =
                    engines.each_ref().map(|engine| engine.snapshot().routes[0].pool.unwrap().in_flight);
                assert_eq!(taken, [1, 1], "each has a permit of its own");
                async { Err::<(), _>(broken()) }
            })
        })
        .await;
    // The inner policy waits 100 and 200 ms for its attempts, twice, and the outer one 100 ms in between: 700 ms.
    assert_eq!(made.get(), 5, "no retry is refused, except by the deadline");
    engines.iter().for_each(nothing_left);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_another_engine_in_between_hides_nothing_and_tasks_carry_both() {
    let (one, other) = (Engine::new(1), Engine::new(2));
    let (outer, between) =
        (plain(&one, "outer", 2).build().unwrap(), plain(&other, "between", 2).build().unwrap());
    let (inner, same) = (plain(&one, "inner", 3).build().unwrap(), plain(&other, "same", 3).build().unwrap());
    let made = Arc::new(AtomicUsize::new(0));
    let count = |policy: &Policy| {
        let (policy, made) = (policy.clone(), Arc::clone(&made));
        async move {
            let fails = policy.run(|_| {
                made.fetch_add(1, Ordering::Relaxed);
                async { Err::<(), _>(broken()) }
            });
            fails.await.is_err()
        }
    };
    let nested = outer.run(|_| {
        between.run(|_| async {
            assert!(count(&inner).await && count(&same).await);
            assert_eq!(made.load(Ordering::Relaxed), 2, "one attempt each: both are nested");
            assert!(tokio::spawn(carry(count(&inner))).await.unwrap());
            assert!(tokio::spawn(carry(count(&same))).await.unwrap());
            assert_eq!(made.load(Ordering::Relaxed), 4, "in a task too");
            assert!(tokio::spawn(count(&inner)).await.unwrap());
            Ok::<_, io::Error>(())
        })
    });
    nested.await.unwrap();
    assert_eq!(made.load(Ordering::Relaxed), 7, "a task that carries nothing is nested in nothing");
    // The scopes have ended, so these calls inherit nothing.
    assert!(count(&inner).await && count(&same).await);
    assert_eq!(made.load(Ordering::Relaxed), 13);
    nothing_left(&one);
    nothing_left(&other);
}

#[tokio::test(start_paused = true)]
async fn bounds_hold_inside_and_tasks_carry_them_where_they_are_told_to() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 1).build().unwrap();
    let hangs = async |policy: &Policy| policy.run(|_| pending::<io::Result<()>>()).await.unwrap_err();
    let start = Instant::now();
    let nested =
        Bounds::new().deadline(ms(300)).around(Bounds::new().deadline(ms(900)).around(hangs(&policy)));
    let error = nested.await;
    assert_eq!(error.stopped().unwrap().code, Code::DeadlineExceeded);
    assert_eq!(start.elapsed(), ms(300), "the earlier of nested deadlines wins");

    let start = Instant::now();
    let own = policy.clone();
    let task = Bounds::new().deadline(ms(200)).around(async {
        tokio::spawn(carry(async move { own.run(|_| pending::<io::Result<()>>()).await.is_err() }))
            .await
            .unwrap()
    });
    assert!(task.await);
    assert_eq!(start.elapsed(), ms(200));

    let late = Bounds::new().deadline(ms(0)).around(hangs(&policy)).await;
    assert_eq!(late.stopped().unwrap().reason, Verdict::DeadlineBefore);
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_higher_criticality_displaces_one_that_waits() {
    let engine = Engine::new(1);
    let policy =
        plain(&engine, "p", 1).bulkhead(Bulkhead::fixed(1).max_queue(1).prioritized(true)).build().unwrap();
    let mut holder = pin!(policy.run(|_| sleep_ok(ms(100))));
    assert!(once(holder.as_mut()).await.is_pending());
    let mut low =
        pin!(Bounds::new().criticality(Criticality::BestEffort).around(policy.run(|_| sleep_ok(ms(1)))));
    assert!(once(low.as_mut()).await.is_pending());
    let high = policy.caller().criticality(Criticality::Critical);
    let mut high = pin!(high.run(|_| sleep_ok(ms(1))));
    assert!(once(high.as_mut()).await.is_pending());
    let (_, refused, done) = tokio::join!(holder, low, high);
    assert_eq!(refused.unwrap_err().stopped().unwrap().reason, Verdict::Displaced);
    done.unwrap();
    nothing_left(&engine);
}

async fn sleep_ok(span: std::time::Duration) -> io::Result<()> {
    sleep(span).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_value_can_be_a_failure_and_is_the_callers_all_the_same() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 2).build().unwrap();
    let caller = policy.caller().classify(|result: Result<&u16, &io::Error>| {
        Outcome::of(if result.is_ok_and(|status| *status >= 500) { Class::Transient } else { Class::Ok })
    });
    let ended = caller.ended(|_| async { Ok(503) }).await;
    assert_eq!(ended.result.unwrap(), 503);
    assert_eq!(ended.report.note().unwrap(), "gave up after 2 attempts");
}

#[tokio::test(start_paused = true)]
async fn a_classifier_or_a_listener_that_panics_breaks_no_call() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 2).bulkhead(Bulkhead::fixed(1)).build().unwrap();
    engine.listen(RecordType::ALL, |_| panic!("a listener")).forever();
    let caller = policy.caller().classify(|_: Result<&u8, &u8>| -> Outcome { panic!("a classifier") });
    assert_eq!(caller.run(|_| async { Ok(1) }).await.unwrap(), 1);
    assert_eq!(caller.run(|_| async { Err(2) }).await.unwrap_err().into_own(), Some(2));
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_panics_gives_its_slot_back() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 2).bulkhead(Bulkhead::fixed(1)).build().unwrap();
    let own = policy.clone();
    let task = tokio::spawn(async move {
        own.run(|_| async {
            assert!(std::hint::black_box(false), "an attempt");
            Ok::<_, io::Error>(())
        })
        .await
    });
    assert!(task.await.unwrap_err().is_panic());
    nothing_left(&engine);
    assert_eq!(ends(&engine, "p", Verdict::Cancelled), 1);
}

#[tokio::test(start_paused = true)]
async fn other_settings_and_an_operators_refusal_reach_calls_that_wait() {
    let engine = Engine::new(1);
    let builder = plain(&engine, "p", 1).bulkhead(Bulkhead::fixed(1).max_queue(10).acquire_timeout(None));
    let policy = builder.clone().bulkhead(Bulkhead::fixed(1)).build().unwrap();
    let mut holder = pin!(policy.run(|_| sleep_ok(ms(10_000))));
    let mut waits = pin!(policy.run(|_| sleep_ok(ms(1))));
    assert!(once(holder.as_mut()).await.is_pending() && once(waits.as_mut()).await.is_pending());
    policy.retune(builder.bulkhead(Bulkhead::fixed(2)).settings().unwrap()).unwrap();
    let start = Instant::now();
    waits.await.unwrap();
    assert_eq!(start.elapsed(), ms(1), "admitted when the limit grew");

    let mut second = pin!(policy.run(|_| sleep_ok(ms(10_000))));
    let mut waits = pin!(policy.run(|_| sleep_ok(ms(1))));
    assert!(once(second.as_mut()).await.is_pending() && once(waits.as_mut()).await.is_pending());
    policy.force_open(None, true);
    assert_eq!(waits.await.unwrap_err().stopped().unwrap().code, Code::ForcedOpen);
    policy.force_open(None, false);
    let (one, two) = tokio::join!(holder, second);
    assert!(one.is_ok() && two.is_ok());
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_that_has_run_ahead_in_another_runtime_holds_nobody_up() {
    let engine = std::thread::spawn(|| {
        let ahead =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        ahead.block_on(async {
            tokio::time::advance(ms(3_600_000)).await;
            let engine = Engine::new(1);
            let policy = plain(&engine, "p", 2).build().unwrap();
            let _ = policy.run(|_| async { Err::<(), _>(broken()) }).await;
            engine
        })
    })
    .join()
    .unwrap();
    let policy = plain(&engine, "p", 2).build().unwrap();
    let start = Instant::now();
    let _ = policy.run(|_| async { Err::<(), _>(broken()) }).await;
    assert_eq!(start.elapsed(), ms(100));
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_route_that_was_evicted_is_asked_for_again() {
    let options = tidegate_tokio::Options::default().max_routes(2);
    let engine = Engine::with_options(1, options);
    let policy = plain(&engine, "p", 1).build().unwrap();
    let callers: Vec<_> = (0..20).map(|n| policy.caller().route(format!("route-{n}"))).collect();
    for _ in 0..3 {
        for caller in &callers {
            caller.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
        }
    }
    assert!(engine.snapshot().route_evictions > 10);
    nothing_left(&engine);
}

#[test]
fn a_call_is_sent_and_does_not_outgrow_its_attempt_by_much() {
    fn sent<T: Send>(value: &T) -> usize {
        size_of_val(value)
    }
    let policy = Policy::builder("size").build();
    assert!(policy.is_err(), "an empty policy is an error");
    let policy = plain(&Engine::new(1), "size", 2).build().unwrap();
    let size = sent(&policy.run(|_| async { Ok::<u8, io::Error>(1) }));
    assert!(size <= 400, "{size} bytes");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_can_always_go_on_is_stopped_too() {
    async fn greedy() -> io::Result<()> {
        loop {
            tokio::task::consume_budget().await;
        }
    }
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 1).deadline(ms(100)).build().unwrap();
    let call = tokio::spawn(async move { policy.run(|_| greedy()).await });
    tokio::task::yield_now().await;
    tokio::time::advance(ms(100)).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(call.is_finished(), "it has used up the budget of its task, and the timer has none");
    assert_eq!(call.await.unwrap().unwrap_err().stopped().unwrap().code, Code::DeadlineExceeded);
    nothing_left(&engine);
}
