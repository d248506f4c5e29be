//! Policies that nobody holds (semantics 0.9), the history that explains ended calls, and the callback before retries.

use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Mutex;
use std::time::Duration;

use crate::support::{broken, ms, once, plain};
use tidegate_tokio::settings::{
    Backoff, Budget, Bulkhead, Hedge, HedgeBudget, Jitter, RateLimit, Retry, Unit,
};
use tidegate_tokio::{Class, Engine, Options, Outcome, Policy, RecordType, Retrying};

fn names(engine: &Engine) -> Vec<String> {
    engine.snapshot().policies.into_iter().map(|(name, _)| name).collect()
}

#[tokio::test(start_paused = true)]
async fn policies_that_nobody_holds_are_freed() {
    let engine = Engine::new(1);
    let held = plain(&engine, "held", 1).build().unwrap();
    for _ in 0..3_000 {
        let policy = Policy::builder("").engine(&engine).bulkhead(Bulkhead::fixed(1)).build().unwrap();
        policy.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
    }
    assert_eq!(names(&engine), ["held"]);
    for n in 0..3_000 {
        plain(&engine, &format!("named {n}"), 1).build().unwrap();
    }
    let kept = names(&engine);
    assert!(kept.len() == 1_025 && kept.iter().any(|name| name == "held"), "{}", kept.len());
    assert_eq!(held.explain().max_attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_is_made_again_keeps_what_it_owes() {
    let engine = Engine::new(1);
    let make = |permits| {
        let limit = RateLimit::new(permits, Duration::from_hours(1));
        Policy::builder("p").engine(&engine).rate_limit(limit).build()
    };
    let fine = || async { Ok::<_, io::Error>(()) };
    make(1).unwrap().run(|_| fine()).await.unwrap();
    let again = make(1).unwrap();
    assert!(again.run(|_| fine()).await.unwrap_err().is_rejected());

    // Two owners that disagree are told; a caller and a clone are owners too.
    let caller = again.caller().route("eu");
    drop(again);
    let error = make(2).unwrap_err().to_string();
    assert!(error.contains("retune") && error.contains("another name"), "{error}");
    drop(caller);
    // Nobody holds it, so other settings are a retune: the bucket stays empty, and fills at the new rate.
    let retuned = make(2).unwrap();
    let error = retuned.run(|_| fine()).await.unwrap_err();
    assert_eq!(error.stopped().unwrap().retry_in, Some(Duration::from_mins(30)));
}

#[tokio::test(start_paused = true)]
async fn a_call_holds_its_policy_until_it_has_ended() {
    let engine = Engine::new(1);
    let policy = Policy::builder("").engine(&engine).bulkhead(Bulkhead::fixed(1)).build().unwrap();
    let call = tokio::spawn(async move {
        let work = |_| async {
            tokio::time::sleep(ms(50)).await;
            Ok::<_, io::Error>(())
        };
        policy.run(work).await
    });
    tokio::task::yield_now().await;
    assert_eq!((names(&engine).len(), engine.snapshot().live), (1, 1));
    call.await.unwrap().unwrap();
    assert_eq!((names(&engine).len(), engine.snapshot().live), (0, 0));
    engine.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn errors_explain_themselves_without_any_option() {
    let explained = |engine: Engine| async move {
        let policy = plain(&engine, "p", 2).build().unwrap();
        let error = policy.run(|_| async { Err::<(), _>(broken()) }).await.unwrap_err();
        error.explain().map(|it| it.to_string())
    };
    let text = explained(Engine::new(1)).await.unwrap();
    assert!(text.contains("attempt 2"), "{text}");
    assert_eq!(explained(Engine::with_options(1, Options::default())).await, None);
}

#[tokio::test(start_paused = true)]
async fn the_callback_hears_each_retry_with_its_wait_and_reason() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 4).attempt_timeout(ms(30)).build().unwrap();
    let seen = Mutex::new(Vec::new());
    let note = |retry: Retrying<'_, io::Error>| {
        let kind = retry.error.map(io::Error::kind);
        seen.lock().unwrap().push((retry.attempt, kind, retry.wait, retry.reason.to_string()));
        panic!("a callback cannot break a call");
    };
    let judged = |result: Result<&u8, &io::Error>| {
        Outcome::of(match result {
            Ok(2) => Class::Throttled,
            Ok(_) => Class::Ok,
            Err(_) => Class::Transient,
        })
    };
    let answer = policy
        .caller()
        .classify(judged)
        .on_retry(note)
        .run(|attempt| async move {
            match attempt.number {
                1 => Err(broken()),
                3 => std::future::pending().await,
                number => Ok(number),
            }
        })
        .await;
    assert_eq!(answer.unwrap(), 4);
    assert_eq!(
        *seen.lock().unwrap(),
        [
            (1, Some(ErrorKind::ConnectionReset), ms(100), "transient".to_owned()),
            (2, None, ms(200), "throttled".to_owned()),
            (3, None, ms(400), "timeout".to_owned()),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_callback_is_not_called_where_no_retry_follows() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 2).build().unwrap();
    let count = Mutex::new(0);
    let counted = policy.on_retry(|_: Retrying<'_, io::Error>| *count.lock().unwrap() += 1);
    counted.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
    counted.run(|_| async { Err::<(), io::Error>(ErrorKind::NotFound.into()) }).await.unwrap_err();
    assert_eq!(*count.lock().unwrap(), 0);
    counted.run(|_| async { Err::<(), _>(broken()) }).await.unwrap_err();
    assert_eq!(*count.lock().unwrap(), 1, "the last attempt is not followed by a retry");
}

#[tokio::test(start_paused = true)]
async fn callbacks_are_kept_by_what_is_said_after_them() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 2).build().unwrap();
    let heard = Mutex::new(Vec::new());
    let hook = |name: &'static str| {
        let heard = &heard;
        move |_: Retrying<'_, &str>| heard.lock().unwrap().push(name)
    };
    let judged =
        |result: Result<&(), &&str>| Outcome::of(if result.is_ok() { Class::Ok } else { Class::Transient });
    let caller = policy.on_retry(hook("first")).classify(judged).on_retry(hook("second"));
    caller.run(|_| async { Err::<(), _>("busy") }).await.unwrap_err();
    assert_eq!(*heard.lock().unwrap(), ["first", "second"]);
}

#[tokio::test(start_paused = true)]
async fn the_callback_is_called_where_a_retry_waits_for_tokens() {
    let engine = Engine::new(1);
    let limit = RateLimit::new(1, ms(1_000)).burst(1).wait(true).max_wait(ms(5_000)).unit(Unit::Attempt);
    let at_once = Retry::new().max_attempts(2).budget(Budget::none());
    let at_once = at_once.backoff(Backoff::constant().base(ms(0)).jitter(Jitter::None));
    let policy = Policy::builder("p").engine(&engine).retry(at_once).rate_limit(limit).build().unwrap();
    let waits = Mutex::new(Vec::new());
    let counted = policy.on_retry(|retry: Retrying<'_, io::Error>| waits.lock().unwrap().push(retry.wait));
    let start = tokio::time::Instant::now();
    counted.run(|_| async { Err::<(), _>(broken()) }).await.unwrap_err();
    assert_eq!(start.elapsed(), ms(1_000));
    assert_eq!(*waits.lock().unwrap(), [ms(0)]);
}

#[tokio::test(start_paused = true)]
async fn attempts_that_time_out_together_are_one_failure() {
    let engine = Engine::new(1);
    let hedge = Hedge::new(ms(60)).budget(HedgeBudget::none());
    let policy = plain(&engine, "p", 3).attempt_timeout(ms(200)).hedge(hedge).build().unwrap();
    let seen = Mutex::new(Vec::new());
    let counted = policy.on_retry(|retry: Retrying<'_, io::Error>| seen.lock().unwrap().push(retry.attempt));
    let mut call = pin!(counted.run(|attempt| async move {
        if attempt.number < 3 { std::future::pending().await } else { Ok::<_, io::Error>(attempt.number) }
    }));
    // Nobody polls the call until both have run out of time.
    for span in [0, 60, 500] {
        tokio::time::advance(ms(span)).await;
        assert!(once(call.as_mut()).await.is_pending());
    }
    assert_eq!(call.await.unwrap(), 3);
    assert_eq!(*seen.lock().unwrap(), [2], "the newest of them decides");
}

/// The first report of the two starts the next attempt at once.
#[tokio::test(start_paused = true)]
async fn attempts_that_time_out_together_are_heard_without_a_backoff() {
    let engine = Engine::new(1);
    let hedge = Hedge::new(ms(60)).budget(HedgeBudget::none());
    let at_once = Backoff::constant().base(ms(0)).jitter(Jitter::None);
    let retry = Retry::new().max_attempts(3).backoff(at_once).budget(Budget::none());
    let policy = plain(&engine, "p", 3).retry(retry).attempt_timeout(ms(200)).hedge(hedge).build().unwrap();
    let seen = Mutex::new(Vec::new());
    let counted = policy.on_retry(|retry: Retrying<'_, io::Error>| seen.lock().unwrap().push(retry.attempt));
    let mut call = pin!(counted.run(|attempt| async move {
        if attempt.number < 3 { std::future::pending().await } else { Ok::<_, io::Error>(attempt.number) }
    }));
    for span in [0, 60] {
        tokio::time::advance(ms(span)).await;
        assert!(once(call.as_mut()).await.is_pending());
    }
    tokio::time::advance(ms(500)).await;
    assert_eq!(call.await.unwrap(), 3);
    assert_eq!(*seen.lock().unwrap(), [2]);
}

/// A listener that holds another subscription ends it with itself.
#[test]
fn a_subscription_that_ends_may_end_another() {
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let engine = Engine::new(1);
        let inner = engine.listen(RecordType::ALL, |_| ());
        let outer = engine.listen(RecordType::ALL, move |_| {
            let _ = &inner;
        });
        drop(outer);
        sender.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(20)).expect("no deadlock");
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_stays_keeps_no_engine() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 2).build().unwrap();
    engine.listen(RecordType::ALL, |_| ()).forever();
    let error = policy.run(|_| async { Err::<(), _>(broken()) }).await.unwrap_err();
    assert!(error.explain().is_some());
    drop((engine, policy));
    assert!(error.explain().is_none(), "nobody holds the engine");
}
