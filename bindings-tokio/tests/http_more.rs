//! The rules for every adapter (`hosts.md`, as `docs/rust.md` has them), from the eighth on, against the faulty server.
//! Each runs with reqwest's `send_with`, as a middleware of reqwest-middleware, and with hyper's client under the tower
//! layer. Sockets do not follow a paused clock, so spans are short.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use std::cell::RefCell;
use tidegate_tokio::settings::{
    Backoff, Breaker, Budget, Bulkhead, Hedge, HedgeBudget, Preset, RateLimit, Retry, SlotUntil, Unit,
};

use crate::world::*;

rules! {
    async fn rule_8_a_slot_is_kept_until_the_body_has_been_read_or_dropped(world: World) {
        let one = world.http("p").bulkhead(Bulkhead::fixed(1));
        let guard = Says::new(&one.clone().build().unwrap());
        world.script(&json!({"default": {"body_bytes": 200_000}}));
        let response = world.get(&guard).await.unwrap();
        assert_eq!(world.get(&guard).await.unwrap_err().ours().code, Code::BulkheadFull);
        assert_eq!(response.bytes().await.unwrap().len(), 200_000);
        let response = world.get(&guard).await.unwrap();
        drop(response);
        let mut response = world.get(&guard).await.unwrap();
        // The body is read to its end and not dropped.
        while response.chunk().await.unwrap().is_some() {}
        world.get(&guard).await.unwrap();
        let policy = Policy::builder("head").engine(&world.engine).bulkhead(Bulkhead::fixed(1)).slot_until(SlotUntil::Headers);
        let guard = Says::new(&policy.build().unwrap());
        let first = world.get(&guard).await.unwrap();
        assert_eq!(world.get(&guard).await.unwrap().status(), 200);
        drop(first);
        world.done();
    }

    async fn rule_8_a_body_that_fails_is_a_failure_of_the_breaker(world: World) {
        let breaker = world.http("p").breaker(Breaker::by_consecutive(1, ms(60_000)));
        let guard = Says::new(&breaker.build().unwrap());
        world.answers(&json!([{"body_bytes": 10_000, "fault": "truncate"}, {}]));
        assert!(world.get(&guard).await.unwrap().bytes().await.is_err());
        assert_eq!(world.get(&guard).await.unwrap_err().ours().code, Code::BreakerOpen);
        world.done();
    }

    async fn rule_9_a_policy_around_makes_this_ones_attempts_one(world: World) {
        world.answers(&json!([{"status": 503}]));
        let around = plain(&world.engine, "around", 2).build().unwrap();
        let guard = world.says("p");
        let caller = around.caller().classify(|result: Result<&Response, &String>| {
            Outcome::of(if result.is_ok_and(|response| response.status() == 200) { Class::Ok } else { Class::Transient })
        });
        let ended = caller.ended(|_| async { world.get(&guard).await.map_err(|error| format!("{error:?}")) }).await;
        assert_eq!(ended.result.unwrap().status(), 503);
        assert_eq!(world.requests(), 2, "two of the outer one, one each of the inner one");
        world.done();
    }

    async fn rule_9_a_policy_around_does_not_repeat_what_this_one_must_not_1_6_7(world: World) {
        world.script(&json!({"default": {"status": 503}}));
        let guard = world.says("p");
        // Between engines the repeats of one multiply those of the other.
        for (engine, gets) in [(world.engine.clone(), 2), (Engine::new(8), 6)] {
            let around = plain(&engine, "around", 2).build().unwrap();
            for (method, also, calls, sent) in
                [(Method::POST, 0, 1, 1), (Method::GET, 0, 2, gets), (Method::POST, 1, 2, 2)]
            {
                let before = world.requests();
                // reqwest's error for a status has nothing of the answer but that.
                let client = |_| async {
                    let answer = world.send(&guard, world.request(method.clone())).await.unwrap();
                    let answer = http::Response::builder().status(answer.status().as_u16() - also).body("").unwrap();
                    reqwest::Response::from(answer).error_for_status().map(|_| ())
                };
                assert_eq!(around.run(client).await.unwrap_err().report().attempts, calls, "{method} {also}");
                assert_eq!(world.requests() - before, sent);
                world.send(&guard, world.request(method.clone())).await.unwrap();
            }
            let client = |_| async { world.send(&guard, world.request(Method::POST)).await.map_err(|error| format!("{error:?}")) };
            let ended = around.caller().classify(|_: Result<&Response, &String>| Outcome::of(Class::Ok)).ended(client).await;
            assert_eq!(ended.report.attempts, 1, "an answer is a result like any other");
        }
        world.done();
    }

    async fn rule_11_the_retry_header_can_be_switched_off(world: World) {
        world.answers(&json!([{"status": 503}, {}]));
        world.get(&world.says("p").without_retry_header()).await.unwrap();
        assert_eq!(world.headers("retry-attempt"), [None, None]);
        world.done();
    }

    async fn rule_12_what_is_fine_costs_one_request_and_a_plain_failure_is_the_callers(world: World) {
        world.answers(&json!([{}, {"status": 404}, {"status": 500}]));
        let guard = Says::new(&Policy::builder("p").engine(&world.engine).preset(Preset::Http).build().unwrap());
        let fine = world.get(&guard).await.unwrap();
        assert!(report(&fine).is_none());
        drop(fine);
        assert_eq!(world.get(&guard).await.unwrap().status(), 404);
        assert_eq!(world.get(&guard).await.unwrap().status(), 500);
        assert_eq!(world.requests(), 3);
        let explained = the_policy(&world).explain();
        assert_eq!(explained.max_attempts, 3);
        assert!((explained.load.per_call - 1.18).abs() < 1e-9, "what calls earn, at the most");
        world.done();
    }

    async fn rule_13_every_retry_that_was_held_back_has_a_reason(world: World) {
        let one = || world.http("attempts").retry(Retry::new().max_attempts(1));
        let poor = || {
            let none = Budget::window().min_retries_per_sec(0.0).percent_can_retry(0.0);
            world.http("poor").retry(Retry::new().budget(none))
        };
        let scarce = || {
            world.http("scarce").rate_limit(RateLimit::new(1, ms(60_000)).unit(Unit::Attempt))
        };
        let short = || world.http("limit").retry(Retry::new().retry_time_limit(ms(5_000)));
        let says = |builder: Builder| Says::new(&builder.build().unwrap());
        let long = json!({"status": 503, "retry_after": "30"});
        let busy = json!({"status": 503});
        let put = Method::PUT;
        let held = [
            (Verdict::NotRetryable, json!({"status": 404}), Method::GET, world.says("p")),
            (Verdict::Attempts, busy.clone(), Method::GET, says(one())),
            (Verdict::Method, busy.clone(), Method::POST, world.says("p")),
            (Verdict::OneShotBody, busy.clone(), put, world.says("p")),
            (Verdict::Opinion, json!({"status": 500}), Method::GET, world.says("p")),
            (Verdict::Nested, busy.clone(), Method::GET, world.says("p")),
            (Verdict::RetryAfterTooLong, json!({"status": 503, "retry_after": "99999"}), Method::GET, world.says("p")),
            (Verdict::WouldOutliveDeadline, long, Method::GET, world.says("p").deadline(ms(5_000))),
            (Verdict::TimeLimit, json!({"status": 503, "retry_after": "10"}), Method::GET, says(short())),
            (Verdict::Budget, busy.clone(), Method::GET, says(poor())),
            (Verdict::Readmission, busy, Method::GET, says(scarce())),
        ];
        let mut events = world.engine.events(&[RecordType::RetrySuppressed, RecordType::GaveUp], 100);
        for (reason, answer, method, guard) in held {
            world.script(&json!({"default": answer}));
            let mut request = world.request(method);
            if reason == Verdict::OneShotBody {
                request = request.body(stream());
            }
            let response = if reason == Verdict::Nested {
                let around = plain(&world.engine, "around", 2).build().unwrap();
                let caller = around.caller().classify(|_: Result<&Response, &String>| Outcome::of(Class::Ok));
                let request = std::sync::Mutex::new(Some(request));
                let once = |_| {
                    let request = request.lock().unwrap().take().unwrap();
                    let sent = world.send(&guard, request);
                    async move { sent.await.map_err(|error| format!("{error:?}")) }
                };
                caller.run(once).await.unwrap()
            } else {
                world.send(&guard, request).await.unwrap()
            };
            assert_eq!(response.status().as_u16(), u16::try_from(answer["status"].as_u64().unwrap()).unwrap());
            // The report is attached if a retry was suppressed, not if the first attempt decided the call.
            if reason != Verdict::NotRetryable && reason != Verdict::Attempts {
                let told = report(&response).expect("a report");
                assert_eq!((told.reason, told.attempts, told.note().is_some()), (reason, 1, true));
            }
            let heard = tokio::time::timeout(ms(5_000), events.next()).await;
            let heard = heard.unwrap_or_else(|_| panic!("no record of {reason:?}")).expect("it is open");
            let what = if reason == Verdict::Attempts { RecordType::GaveUp } else { RecordType::RetrySuppressed };
            assert_eq!((heard.what, heard.reason), (what, Some(reason)));
            let policy = heard.policy.expect("its policy");
            assert_eq!(ends(&world.engine, &policy, reason), 1, "{reason:?} is counted");
            assert_eq!(world.requests(), 1, "{reason:?}");
            drop(response);
        }
        drop(events);
        world.done();
    }

    async fn rule_14_many_at_once_leave_nothing(world: World) {
        world.script(&json!({"rules": [{"match": {"path": "/x"}, "probability": 0.3, "respond": {"status": 503}}]}));
        let policy = world.http("p").bulkhead(Bulkhead::fixed(4).max_queue(None).acquire_timeout(None));
        let (world, guard) = (Arc::new(world), Says::new(&policy.build().unwrap()));
        let tasks: Vec<_> = (0..40_u32).map(|n| {
            let (world, guard) = (Arc::clone(&world), guard.clone());
            tokio::spawn(async move {
                let call = Bounds::new().deadline(ms(20_000)).around(world.get(&guard));
                if n % 4 == 0 {
                    let _ = tokio::time::timeout(ms(u64::from(n)), call).await;
                } else {
                    call.await.unwrap().bytes().await.unwrap();
                }
            })
        }).collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(world.origin.stats().max_in_service <= 4);
        Arc::into_inner(world).unwrap().done();
    }

    async fn answers_can_be_classified_by_what_is_in_them(world: World) {
        world.answers(&json!([{"headers": {"x-state": "warming"}}, {}]));
        let guard = world.says("p").classify(|_, headers| {
            let warming = headers.get("x-state").is_some_and(|state| state == "warming");
            warming.then(|| Outcome::of(Class::Transient))
        });
        let response = world.get(&guard).await.unwrap();
        assert!(response.headers().get("x-state").is_none());
        assert_eq!(world.requests(), 2);
        drop(response);
        let broken = guard.classify(|_, _| panic!("a judge"));
        world.answers(&json!([{"status": 503}, {}]));
        assert_eq!(world.get(&broken).await.unwrap().status(), 200);
        world.done();
    }

    async fn the_route_is_the_origin_or_what_is_said(world: World) {
        world.answers(&json!([{}]));
        let guard = world.says("p");
        world.get(&guard).await.unwrap();
        world.get(&guard.clone().route("mine")).await.unwrap();
        let mut keys: Vec<_> = the_policy(&world).routes().into_iter().map(|route| route.key).collect();
        keys.sort();
        assert_eq!(keys, [world.origin.url(), "mine".into()]);
        world.done();
    }

    async fn a_hedge_wins_and_the_loser_is_closed(world: World) {
        let hedged = Policy::builder("p").engine(&world.engine).deadline(ms(10_000)).hedge(Hedge::new(ms(100)).budget(HedgeBudget::none()));
        let guard = Says::new(&hedged.build().unwrap());
        world.answers(&json!([{"fault": "hang"}, {"body": "yes"}]));
        assert_eq!(world.get(&guard).await.unwrap().text().await.unwrap(), "yes");
        until(|| world.origin.stats().abandoned == 1).await;
        world.done();
    }
}

/// A recorded event of a trial, in the test's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    /// A body was made for an attempt that starts.
    Starts,
    Answered,
}

thread_local! {
    static MARKS: RefCell<Vec<(Mark, tokio::time::Instant)>> = const { RefCell::new(Vec::new()) };
}

fn mark(what: Mark) {
    MARKS.with_borrow_mut(|marks| marks.push((what, tokio::time::Instant::now())));
}

rules! { @paused
    async fn rule_5_in_a_thousand_trials_no_repeat_is_early(world: World) {
        const TRIALS: u64 = 1_000;
        let seconds = |trial: u64| trial % 90;
        let answers: Vec<_> = (0..TRIALS)
            .flat_map(|trial| [json!({"status": 503, "retry_after": seconds(trial).to_string()}), json!({})])
            .collect();
        world.answers(&json!(answers));
        // Without a deadline, because the paused clock would jump to it while a response is on its way.
        let policy = Policy::builder("p").engine(&world.engine).retry(Retry::new().max_attempts(2).budget(Budget::none()));
        let policy = policy.retry(Retry::new().max_retry_after(Duration::from_secs(120))).build().unwrap();
        let says = Says::new(&policy).classify(|_, _| {
            mark(Mark::Answered);
            None
        });
        let says = says.body(|| {
            mark(Mark::Starts);
            Body::from("x")
        });
        let mut later = 0;
        for trial in 0..TRIALS {
            MARKS.with_borrow_mut(Vec::clear);
            assert_eq!(world.send(&says, world.request(Method::PUT)).await.unwrap().status(), 200);
            let marks = MARKS.with_borrow(Clone::clone);
            let again = marks.iter().rposition(|(what, _)| *what == Mark::Starts).unwrap();
            assert_eq!(marks[again - 1].0, Mark::Answered, "{marks:?}");
            let (waited, asked) = (marks[again].1 - marks[again - 1].1, Duration::from_secs(seconds(trial)));
            assert!(waited >= asked, "trial {trial} waited {waited:?} of {asked:?}");
            later += u64::from(waited > asked);
        }
        assert!(later > TRIALS / 2, "jitter goes on top: {later}");
        assert_eq!(world.requests(), 2 * TRIALS as usize);
        world.done();
    }

    async fn rule_10_a_paused_clock_drives_every_wait(world: World) {
        world.answers(&json!([{"status": 503}, {"status": 503}, {}]));
        let minutes = Backoff::new().base(Duration::from_secs(60)).max(Duration::from_secs(180));
        let policy = plain(&world.engine, "p", 3).retry(Retry::new().backoff(minutes)).build().unwrap();
        let (start, real) = (tokio::time::Instant::now(), Instant::now());
        let response = world.get(&Says::new(&policy)).await.unwrap();
        assert_eq!((response.status(), start.elapsed().as_secs()), (StatusCode::OK, 180), "60 s and 120 s");
        assert!(real.elapsed() < Duration::from_secs(60), "{:?}", real.elapsed());
        drop(response);
        world.done();
    }
}

/// Every rule runs in front of every adapter; `rules!` makes these tests.
#[test]
fn each_rule_has_a_test() {
    let both = concat!(include_str!("http.rs"), include_str!("http_more.rs"));
    for rule in 1..=14 {
        let tests = both.matches(&format!("    async fn rule_{rule}_")).count();
        assert!(tests > 0, "rule {rule}");
    }
    let skipped = ["#[ign", "ore"].concat();
    assert!(!both.contains(&skipped), "no cell is skipped");
}

#[tokio::test]
async fn a_guard_among_a_requests_extensions_stands_for_the_chains_own() {
    counted(one_guard_for_another()).await;
}

async fn one_guard_for_another() {
    let world = World::new(How::Chain);
    world.answers(&json!([{"status": 503}, {}]));
    let three = world.says("p").guard();
    let one = Says::new(&plain(&world.engine, "one", 1).build().unwrap()).guard();
    let client = reqwest_middleware::ClientBuilder::new(world.client.clone()).with(three).build();
    let response = client.get(format!("{}/x", world.origin.url())).with_extension(one).send().await.unwrap();
    assert_eq!((response.status().as_u16(), world.requests()), (503, 1));
    drop(response);
    world.done();
}
