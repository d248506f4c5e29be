//! Policies with `retry.read_errors` read why an answer failed, and hand it to their caller unread (spec 15.5, 15.8).
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use tidegate_tokio::settings::Retry;

use crate::world::*;

const SPENT: &str = r#"{"error": {"message": "You exceeded your quota.", "code": "insufficient_quota"}}"#;

fn reading(world: &World, reads: bool) -> Says {
    let statuses = [429, 500, 503, 529];
    let retry = Retry::new().read_errors(reads).statuses(statuses);
    Says::new(&world.http("reading").retry(retry).build().unwrap())
}

rules! {
    async fn a_spent_quota_is_not_retried_and_its_answer_can_be_read(world: World) {
        world.script(&json!({"default": {"status": 429, "body": SPENT}}));
        let response = world.get(&reading(&world, true)).await.unwrap();
        assert_eq!(response.headers()["x-should-retry"], "false", "spec 15.8.6");
        assert_eq!(response.text().await.unwrap(), SPENT);
        assert_eq!(world.requests(), 1, "spec 15.5.3");
        world.done();
    }

    async fn without_the_key_no_body_is_read(world: World) {
        world.script(&json!({"default": {"status": 429, "body": SPENT}}));
        let response = world.get(&reading(&world, false)).await.unwrap();
        assert!(response.headers().get("x-should-retry").is_none());
        assert_eq!(world.requests(), 3, "spec 15.5.1");
        drop(response);
        world.done();
    }

    async fn an_overload_that_the_body_names_is_a_throttle(world: World) {
        let busy = r#"{"type": "error", "error": {"type": "overloaded_error"}}"#;
        world.answers(&json!([{"status": 400, "body": busy}, {"status": 200}]));
        assert_eq!(world.get(&reading(&world, true)).await.unwrap().status(), 200, "spec 15.5.5");
        world.done();
    }

    async fn a_large_answer_is_delivered_whole(world: World) {
        let large = format!("{}{}", SPENT, " ".repeat(300_000));
        world.script(&json!({"default": {"status": 429, "body": large}}));
        let response = world.get(&reading(&world, true)).await.unwrap();
        assert_eq!(response.text().await.unwrap().len(), large.len(), "spec 15.8.4");
        assert_eq!(world.requests(), 1, "spec 15.8.1");
        world.done();
    }

    async fn an_answer_in_an_encoding_goes_by_its_head(world: World) {
        let headers = json!([["content-encoding", "x-unknown"]]);
        world.script(&json!({"default": {"status": 429, "headers": headers, "body": SPENT}}));
        let response = world.get(&reading(&world, true)).await.unwrap();
        assert_eq!(world.requests(), 3, "spec 15.8.5");
        drop(response);
        world.done();
    }

    async fn a_body_that_comes_slowly_is_waited_for_a_second(world: World) {
        let slow = json!({"status": 402, "body_bytes": 100, "fault": "slow_body", "chunk_bytes": 1, "chunk_every": 60_000});
        world.script(&json!({"default": slow}));
        let begun = Instant::now();
        let response = world.get(&reading(&world, true)).await.unwrap();
        assert_eq!(world.requests(), 1, "the head says that the quota is spent");
        assert!(begun.elapsed() >= ms(1_000), "spec 15.8.2");
        drop(response);
        world.done();
    }
}
