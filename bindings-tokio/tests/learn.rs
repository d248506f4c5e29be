//! Limits that learn from what answers say is left of the service's quota (semantics 3.7), and their metrics (12.5).
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tidegate_origin::{Options, Origin, Script};
use tidegate_tokio::reqwest::{Guard, SendWith as _};
use tidegate_tokio::settings::{Learn, Preset, RateLimit};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::world::*;

fn limits() -> RateLimit {
    RateLimit::of_limits(["rpm: permits=500 per=1m"])
}

/// Requests that the limit has left.
fn left(engine: &Engine) -> i64 {
    engine.snapshot().routes[0].limits[0].tokens
}

/// Requests that the limit has after one answer, through the HTTP layer.
async fn after(status: u16, limits: RateLimit, preset: Option<Preset>) -> i64 {
    let engine = Engine::new(7);
    let policy = Policy::builder("chat").engine(&engine).rate_limit(limits);
    let policy = preset.map_or(policy.clone(), |preset| policy.preset(preset)).build().unwrap();
    let client = service_fn(move |_: Request<Full<Bytes>>| async move {
        let answer = Response::builder().status(status).header("x-ratelimit-remaining-requests", "3");
        let answer = answer.header("X-RateLimit-Remaining-Tokens", "nothing to read");
        Ok::<_, io::Error>(answer.body(Full::<Bytes>::default()).unwrap())
    });
    let request = Request::get("http://model.example/").body(Full::default()).unwrap();
    let answer = policy.http_layer().layer(client).oneshot(request).await.unwrap();
    assert_eq!(answer.status().as_u16(), status);
    answer.into_body().collect().await.unwrap();
    left(&engine)
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_any_status_lowers_the_limit() {
    for status in [200, 404, 429] {
        assert_eq!(
            after(status, limits().learn(Learn::Down), None).await,
            3,
            "spec 3.7.1 and 3.7.6: {status}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn without_learn_a_limit_counts_its_own_calls() {
    assert_eq!(after(200, limits(), None).await, 499);
    assert_eq!(after(200, limits().learn(Learn::None), None).await, 499);
}

#[tokio::test(start_paused = true)]
async fn the_preset_for_language_models_learns() {
    assert_eq!(after(200, limits(), Some(Preset::Llm)).await, 3, "spec 0.7.12");
    assert_eq!(after(200, limits().learn(Learn::None), Some(Preset::Llm)).await, 499);
}

#[tokio::test]
async fn reqwest_reports_what_a_provider_has_left() {
    let origin = Origin::start(Options::default()).unwrap();
    let provider = json!({"answer_tokens": 8, "limits": {"requests": 10, "tokens": 100_000, "per_s": 3_600}});
    origin.play(Script::from_value(&json!({ "provider": provider })).unwrap()).unwrap();
    let engine = Engine::new(7);
    let policy =
        Policy::builder("chat").engine(&engine).rate_limit(limits().learn(Learn::Down)).build().unwrap();
    let url = format!("{}/v1/chat/completions", origin.url());
    let body = r#"{"model": "m", "messages": [{"role": "user", "content": "Is the tide high"}]}"#;
    let answer = Client::new().post(url).body(body).send_with(&Guard::new(&policy)).await.unwrap();
    answer.text().await.unwrap();
    assert_eq!(left(&engine), 9, "the provider has 9 of 10 left");
}
