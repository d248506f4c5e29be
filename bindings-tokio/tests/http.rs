//! The rules for every adapter (`hosts.md`, as `docs/rust.md` has them), from the first to the seventh, against the
//! faulty server. Each runs with reqwest's `send_with`, as a middleware of reqwest-middleware, and with hyper's client
//! under the tower layer. Sockets do not follow a paused clock, so spans are short.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use crate::world::*;
use tidegate_tokio::settings::{Backoff, Bulkhead, Retry};

rules! {
    async fn a_failure_that_may_pass_is_repeated_and_repeats_say_so(world: World) {
        world.answers(&json!([{"status": 503}, {"fault": "reset"}, {"body": "yes"}]));
        let response = world.get(&world.says("p")).await.unwrap();
        assert_eq!(response.url().path(), "/x");
        let told = report(&response).unwrap();
        assert_eq!((told.attempts, told.reason), (3, Verdict::Ok));
        assert_eq!(response.content_length(), Some(3));
        assert_eq!(response.text().await.unwrap(), "yes");
        assert_eq!(world.headers("retry-attempt"), [None, Some("1".into()), Some("2".into())]);
        world.done();
    }

    async fn rule_1_bytes_are_sent_again_whole(world: World) {
        world.answers(&json!([{"status": 503}, {"echo": true}]));
        let response = world.send(&world.says("p"), world.request(Method::PUT).body("hello")).await.unwrap();
        assert_eq!(response.text().await.unwrap(), "hello");
        assert_eq!(world.bodies(), ["hello", "hello"]);
        world.done();
    }

    async fn rule_1_a_stream_is_sent_once_and_the_failure_says_why(world: World) {
        world.answers(&json!([{"status": 503, "body": "busy"}, {}]));
        let response = world.send(&world.says("p"), world.request(Method::PUT).body(stream())).await.unwrap();
        assert_eq!((response.status().as_u16(), world.requests()), (503, 1));
        assert_eq!(report(&response).unwrap().note().unwrap(), "body cannot be replayed");
        assert_eq!(response.text().await.unwrap(), "busy");
        assert_eq!(world.origin.log()[0].body, "hello");
        world.done();
    }

    async fn rule_1_a_stream_that_can_be_made_anew_is_sent_again(world: World) {
        world.answers(&json!([{"status": 503}, {"status": 503}, {"echo": true}]));
        let guard = world.says("p").body(stream);
        let response = world.send(&guard, world.request(Method::PUT)).await.unwrap();
        assert_eq!(response.text().await.unwrap(), "hello");
        assert_eq!(world.bodies(), ["hello"; 3]);
        world.done();
    }

    async fn rule_2_what_could_happen_twice_is_not_repeated(world: World) {
        let guard = world.says("p");
        world.answers(&json!([{"status": 503}, {}]));
        let response = world.send(&guard, world.request(Method::POST).body("x")).await.unwrap();
        assert_eq!((response.status().as_u16(), world.requests()), (503, 1));
        assert!(report(&response).unwrap().note().unwrap().contains("no idempotency key"));
        drop(response);
        world.answers(&json!([{"status": 503}, {}]));
        let keyed = world.request(Method::POST).header("Idempotency-Key", "k");
        assert_eq!(world.send(&guard, keyed).await.unwrap().status(), 200);
        assert_eq!(world.headers("idempotency-key"), [Some("k".into()), Some("k".into())]);
        world.answers(&json!([{"status": 503}, {}]));
        let made = guard.clone().with_keys();
        assert_eq!(world.send(&made, world.request(Method::POST)).await.unwrap().status(), 200);
        let keys = world.headers("idempotency-key");
        assert!(keys.len() == 2 && keys[0].as_ref().is_some_and(|key| key.len() == 32) && keys[0] == keys[1], "{keys:?}");
        world.answers(&json!([{"status": 503}, {}]));
        let said = guard.clone().idempotent(false);
        assert_eq!(world.get(&said).await.unwrap().status(), 503);
        world.done();
    }

    async fn rule_2_what_never_left_is_repeated_whatever_its_method(world: World) {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let request = world.client.post(format!("http://{closed}/x")).body("x");
        let failed = world.send(&world.says("p"), request).await.unwrap_err();
        assert!(matches!(failed, Failed::Clients(_)), "{failed:?}");
        assert_eq!(world.engine.snapshot().policies[0].1.attempts, 3);
        world.done();
    }

    async fn rule_3_the_last_answer_is_the_callers_with_its_body(world: World) {
        world.answers(&json!([{"status": 503}, {"status": 503}, {"status": 503, "body": "the last"}]));
        let response = world.get(&world.says("p")).await.unwrap();
        assert_eq!(report(&response).unwrap().note().unwrap(), "gave up after 3 attempts");
        assert_eq!((response.status().as_u16(), response.text().await.unwrap().as_str()), (503, "the last"));
        world.done();
    }

    async fn rule_3_the_last_error_is_the_callers(world: World) {
        world.answers(&json!([{"fault": "reset"}]));
        let Failed::Clients(error) = world.get(&world.says("p")).await.unwrap_err() else { panic!("the client's") };
        match world.how {
            How::Layer => assert!(error.downcast_ref::<hyper_util::client::legacy::Error>().is_some(), "as it is"),
            How::Own | How::Chain => assert!(error.downcast_ref::<reqwest::Error>().is_some(), "as it is"),
        }
        assert_eq!(world.requests(), 3);
        world.done();
    }

    async fn rule_4_a_small_answer_keeps_its_connection_and_a_large_one_is_closed(world: World) {
        world.answers(&json!([{"status": 503, "body_bytes": 1_000}, {"status": 503, "body_bytes": 3_000_000}, {}]));
        let response = world.get(&world.says("p")).await.unwrap();
        assert_eq!(response.status(), 200);
        drop(response);
        let connections: Vec<_> = world.origin.log().iter().map(|entry| entry.connection).collect();
        assert_eq!(connections[0], connections[1], "a small answer is read to its end");
        assert_ne!(connections[1], connections[2], "a large one is not");
        world.done();
    }

    async fn rule_4_an_answer_that_drips_is_not_waited_for(world: World) {
        world.answers(&json!([{"status": 503, "body_bytes": 60_000, "fault": "slow_body", "chunk_every": 60_000}, {"body": "yes"}]));
        let start = Instant::now();
        assert_eq!(world.get(&world.says("p")).await.unwrap().text().await.unwrap(), "yes");
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
        world.done();
    }

    async fn rule_4_a_large_last_answer_is_whole(world: World) {
        world.answers(&json!([{"status": 503, "body_bytes": 200_000}]));
        let response = world.get(&world.says("p")).await.unwrap();
        assert_eq!(response.bytes().await.unwrap().len(), 200_000);
        world.done();
    }

    async fn rule_5_retry_after_is_never_cut_short(world: World) {
        world.answers(&json!([{"status": 503, "retry_after": "1"}, {}]));
        let start = Instant::now();
        assert_eq!(world.get(&world.says("p")).await.unwrap().status(), 200);
        assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
        let log = world.origin.log();
        assert!(log[1].t - log[0].t >= 1.0, "{} {}", log[0].t, log[1].t);
        world.done();
    }

    async fn rule_5_a_wait_beyond_the_deadline_ends_the_call_at_once(world: World) {
        world.answers(&json!([{"status": 503, "retry_after": "30", "body": "down"}, {}]));
        let start = Instant::now();
        let response = world.get(&world.says("p").deadline(ms(29_000))).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
        let told = report(&response).unwrap();
        assert_eq!((told.reason, told.attempts), (Verdict::WouldOutliveDeadline, 1));
        assert!(told.retry_in.is_some_and(|span| span >= Duration::from_secs(29)), "{told:?}");
        assert_eq!(response.text().await.unwrap(), "down");
        world.done();
    }

    async fn rule_5_one_that_is_too_long_ends_the_call_and_says_when_to_come_back(world: World) {
        world.answers(&json!([{"status": 503, "retry_after": "120"}, {}]));
        let response = world.get(&world.says("p")).await.unwrap();
        let told = report(&response).unwrap();
        assert_eq!((response.status().as_u16(), told.retry_in), (503, Some(Duration::from_secs(120))));
        assert_eq!(told.note().unwrap(), "Retry-After 120 s exceeds max_retry_after 60 s");
        world.done();
    }

    async fn rule_6_a_wait_and_an_attempt_are_given_up_at_once(world: World) {
        let slow = Says::new(&world.http("slow").retry(Retry::new().backoff(Backoff::new().base(ms(60_000)))).deadline(ms(600_000)).build().unwrap());
        world.answers(&json!([{"status": 503}]));
        let waits = tokio::time::timeout(ms(200), world.get(&slow)).await;
        assert!(waits.is_err());
        assert_eq!((world.engine.snapshot().live, ends(&world.engine, "slow", Verdict::Cancelled)), (0, 1));
        world.answers(&json!([{"fault": "hang"}]));
        let hangs = tokio::time::timeout(ms(200), world.get(&slow)).await;
        assert!(hangs.is_err());
        assert_eq!((world.engine.snapshot().live, ends(&world.engine, "slow", Verdict::Cancelled)), (0, 2));
        until(|| world.origin.stats().abandoned == 1).await;
        world.done();
    }

    async fn rule_6_a_place_in_the_queue_is_given_up_at_once(world: World) {
        let one = world.http("p").bulkhead(Bulkhead::fixed(1).max_queue(5).acquire_timeout(None));
        let guard = Says::new(&one.build().unwrap());
        world.script(&json!({"default": {"body_bytes": 200_000}}));
        let holds = world.get(&guard).await.unwrap();
        let start = Instant::now();
        assert!(tokio::time::timeout(ms(50), world.get(&guard)).await.is_err());
        assert!(start.elapsed() < ms(30_000), "{:?}", start.elapsed());
        let now = world.engine.snapshot();
        assert_eq!((now.waiting, now.live, ends(&world.engine, "p", Verdict::Cancelled)), (0, 1, 1));
        drop(holds);
        drop(world.get(&guard).await.unwrap());
        assert_eq!(world.requests(), 2, "the one that gave up was never sent");
        world.done();
    }

    async fn rule_7_an_attempt_that_takes_too_long_is_stopped_and_repeated(world: World) {
        let guard = Says::new(&world.http("p").attempt_timeout(ms(1_000)).build().unwrap());
        world.answers(&json!([{"fault": "hang"}, {"body": "yes"}]));
        assert_eq!(world.get(&guard).await.unwrap().text().await.unwrap(), "yes");
        world.answers(&json!([{"fault": "hang"}]));
        assert_eq!(world.get(&guard).await.unwrap_err().ours().code, Code::AttemptTimeout);
        world.done();
    }

    async fn rule_7_the_deadline_ends_an_attempt_and_the_reading_of_a_body(world: World) {
        let guard = world.says("p").deadline(ms(1_000));
        world.answers(&json!([{"fault": "hang"}]));
        assert_eq!(world.get(&guard).await.unwrap_err().ours().code, Code::DeadlineExceeded);
        world.answers(&json!([{"body_bytes": 100_000, "fault": "slow_body", "chunk_every": 60_000}]));
        let start = Instant::now();
        let response = world.get(&guard).await.unwrap();
        let error = response.bytes().await.unwrap_err();
        assert_eq!(stopped_in(&error).unwrap().code, Code::DeadlineExceeded);
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
        assert_eq!(ends(&world.engine, "p", Verdict::Deadline), 2);
        world.done();
    }
}
