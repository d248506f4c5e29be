//! Timeouts of streams (semantics 7.7) in every adapter, against a fake provider of language models that stalls, pings and lies.
//! Sockets do not follow a paused clock: what must not happen is in `streams_paused`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use tidegate_tokio::settings::{Breaker, Counts, DeadlineUntil, Unit};

use crate::world::*;

/// A span that no test reaches.
const LONG: Duration = Duration::from_secs(60);

/// A provider whose first answers, or all of them, have this fault.
fn provider(world: &World, fault: &Value) {
    world.script(&json!({"provider": {"ping_every": 0.05, "faults": [fault]}}));
}

/// A request for a streamed answer; its client says so in a header, or not.
fn chat(world: &World, says: bool) -> RequestBuilder {
    let request = world.client.post(format!("{}/v1/chat/completions", world.origin.url()));
    let request = if says { request.header("accept", "text/event-stream") } else { request };
    request.body(r#"{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi."}]}"#)
}

fn guard(policy: Builder) -> Says {
    Says::new(&policy.build().unwrap()).idempotent(true)
}

rules! {
    async fn a_stream_without_a_first_piece_is_repeated(world: World) {
        for (name, counts) in [("stalls", Counts::SseData), ("breaks", Counts::Bytes)] {
            let fault = if name == "stalls" { "stall" } else { "break" };
            provider(&world, &json!({"fault": fault, "at": 0, "first": 1}));
            let guard = guard(world.http(name).first_byte_timeout(ms(1_000)).counts(counts));
            let response = world.send(&guard, chat(&world, true)).await.unwrap();
            assert_eq!(report(&response).unwrap().attempts, 2, "spec 7.7.3: {name}");
            assert!(response.text().await.unwrap().ends_with("data: [DONE]\n\n"), "spec 7.7.8");
            assert_eq!(world.requests(), 2);
        }
        world.done();
    }

    async fn a_first_piece_that_never_comes_is_an_attempt_out_of_time(world: World) {
        provider(&world, &json!({"fault": "stall", "at": 0}));
        let guard = guard(world.http("p").first_byte_timeout(ms(500)).counts(Counts::SseData));
        assert_eq!(world.send(&guard, chat(&world, true)).await.unwrap_err().ours().code, Code::AttemptTimeout);
        assert_eq!(world.requests(), 3);
        world.done();
    }

    async fn pings_count_as_bytes_and_not_as_data(world: World) {
        provider(&world, &json!({"fault": "stall", "at": 0}));
        let policy = |name| world.http(name).first_byte_timeout(LONG).deadline(ms(1_000));
        let response = world.send(&guard(policy("bytes")), chat(&world, true)).await.unwrap();
        let error = response.bytes().await.unwrap_err();
        assert_eq!(stopped_in(&error).unwrap().code, Code::DeadlineExceeded);
        let data = guard(policy("data").counts(Counts::SseData));
        let failed = world.send(&data, chat(&world, true)).await.unwrap_err();
        assert_eq!(failed.ours().code, Code::DeadlineExceeded, "spec 7.7.13");
        world.done();
    }

    async fn silence_after_the_delivery_ends_the_call(world: World) {
        for (at, counts) in [(1, Counts::Bytes), (60, Counts::Bytes), (60, Counts::SseData)] {
            provider(&world, &json!({"fault": "stall", "at": at}));
            let policy = world.http(&format!("{at} {counts:?}")).first_byte_timeout(LONG).counts(counts);
            let guard = guard(policy.idle_timeout(ms(300)));
            let response = world.send(&guard, chat(&world, true)).await.unwrap();
            let begun = Instant::now();
            let error = response.bytes().await.unwrap_err();
            let stopped = stopped_in(&error).unwrap();
            assert_eq!((stopped.code, stopped.reason), (Code::StreamStalled, Verdict::StreamStalled), "spec 7.7.11");
            assert_eq!((stopped.code.name(), stopped.code.http_status()), ("stream_stalled", 504));
            assert!(error.is_timeout() || world.how == How::Layer, "{error:?}");
            assert!(begun.elapsed() >= ms(290), "spec 7.7.9: {:?}", begun.elapsed());
            assert_eq!(world.requests(), 1, "nothing is repeated");
            nothing_left(&world.engine);
        }
        world.done();
    }

    async fn a_body_that_stalls_is_a_failure_of_the_breaker(world: World) {
        provider(&world, &json!({"fault": "stall", "at": 60}));
        let guard = guard(world.http("p").idle_timeout(ms(100)).counts(Counts::SseData).breaker(Breaker::by_consecutive(1, LONG)));
        let error = world.send(&guard, chat(&world, true)).await.unwrap().bytes().await.unwrap_err();
        assert_eq!(stopped_in(&error).unwrap().code, Code::StreamStalled);
        let refused = world.send(&guard, chat(&world, true)).await.unwrap_err().ours();
        assert_eq!(refused.code, Code::BreakerOpen, "spec 7.7.11");
        world.done();
    }

    async fn a_request_that_is_no_stream_is_delivered_at_its_head(world: World) {
        provider(&world, &json!({"fault": "stall", "at": 0}));
        let plain = guard(world.http("p").first_byte_timeout(ms(100)).deadline(ms(1_000)));
        let whole = chat(&world, false).body(r#"{"model": "m", "messages": [{"role": "user", "content": "Hi."}]}"#);
        let response = world.send(&plain, whole).await.unwrap();
        assert_eq!(stopped_in(&response.bytes().await.unwrap_err()).unwrap().code, Code::DeadlineExceeded);
        assert_eq!(world.requests(), 1, "spec 7.7.4");
        provider(&world, &json!({"fault": "stall", "at": 0, "first": 1}));
        let streamed = guard(world.http("streamed").first_byte_timeout(ms(1_000)).counts(Counts::SseData)).streamed();
        let response = world.send(&streamed, chat(&world, false)).await.unwrap();
        assert_eq!(report(&response).unwrap().attempts, 2, "spec 7.7.4");
        drop(response);
        world.done();
    }

    async fn an_error_event_is_a_failed_answer_before_the_delivery_and_a_failed_body_after(world: World) {
        provider(&world, &json!({"fault": "error_event", "at": 0, "first": 1}));
        let breaker = Breaker::by_consecutive(1, LONG).failure_on(["throttled"]).unit(Unit::Call);
        let guard = guard(world.http("p").first_byte_timeout(LONG).counts(Counts::SseData).breaker(breaker));
        let response = world.send(&guard, chat(&world, true)).await.unwrap();
        assert_eq!(report(&response).unwrap().attempts, 2, "spec 7.7.21");
        assert!(!response.text().await.unwrap().contains("overloaded"));
        provider(&world, &json!({"fault": "error_event", "at": 2}));
        let text = world.send(&guard, chat(&world, true)).await.unwrap().text().await.unwrap();
        assert!(text.contains("error"), "its reader gets it as it came: {text}");
        let refused = world.send(&guard, chat(&world, true)).await.unwrap_err().ours();
        assert_eq!(refused.code, Code::BreakerOpen, "spec 7.7.21");
        world.done();
    }

    async fn an_error_event_that_comes_each_time_is_the_answer(world: World) {
        provider(&world, &json!({"fault": "error_event", "at": 0}));
        let guard = guard(world.http("p").first_byte_timeout(LONG).counts(Counts::SseData));
        let response = world.send(&guard, chat(&world, true)).await.unwrap();
        assert_eq!((response.status().as_u16(), report(&response).unwrap().attempts), (200, 3));
        assert!(response.text().await.unwrap().contains("error"));
        world.done();
    }

    async fn the_deadline_may_end_at_the_delivery(world: World) {
        world.script(&json!({"provider": {"token_every": 150}}));
        let policy = |name| world.http(name).deadline(ms(700)).first_byte_timeout(LONG).counts(Counts::SseData);
        let response = world.send(&guard(policy("body")), chat(&world, true)).await.unwrap();
        let error = response.text().await.unwrap_err();
        assert_eq!(stopped_in(&error).unwrap().code, Code::DeadlineExceeded);
        let until = guard(policy("delivery").deadline_until(DeadlineUntil::Delivery));
        // A busy machine may deliver late; then the deadline ends the attempt.
        if let Ok(response) = world.send(&until, chat(&world, true)).await {
            assert!(response.text().await.unwrap().ends_with("[DONE]\n\n"), "spec 7.7.15");
        }
        world.done();
    }

    async fn answers_without_a_body_are_delivered(world: World) {
        world.answers(&json!([{"status": 204}, {"status": 200, "body": ""}, {"status": 200, "body": "x"}]));
        let guard = guard(world.http("p").first_byte_timeout(LONG).idle_timeout(LONG).counts(Counts::SseData));
        for text in ["", "", "x"] {
            let request = world.request(Method::GET).header("accept", "text/event-stream");
            assert_eq!(world.send(&guard, request).await.unwrap().text().await.unwrap(), text, "spec 7.7.6");
        }
        let head = world.request(Method::HEAD).header("accept", "text/event-stream");
        assert_eq!(world.send(&guard, head).await.unwrap().status(), 200);
        world.done();
    }
}
