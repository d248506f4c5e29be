//! What requests are going to use and what answers have used (semantics 15.6 and 15.7), through reqwest and the HTTP layer.
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
use tidegate_tokio::settings::{Preset, RateLimit};
use tidegate_tokio::tidegate::answer::Estimate;
use tidegate_tokio::{Tokens, Weights};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::world::*;

/// A chat of 16 bytes, so 4 tokens, whose answer has at most 500.
const PLAIN: &str =
    r#"{"model": "m", "max_tokens": 500, "messages": [{"role": "user", "content": "Is the tide high"}]}"#;
const STREAM: &str = r#"{"model": "m", "max_tokens": 500, "messages": [{"role": "user", "content": "Is the tide high"}], "stream": true, "stream_options": {"include_usage": true}}"#;

fn metered(engine: &Engine) -> Policy {
    let limits = RateLimit::of_limits(["tpm: permits=60000 per=1m burst=10000 weight=tokens"]);
    Policy::builder("metered").engine(engine).preset(Preset::Llm).rate_limit(limits).build().unwrap()
}

/// Tokens that have been reserved and settled.
fn counted(engine: &Engine) -> (u64, u64) {
    let limit = engine.snapshot().routes[0].limits[0].clone();
    (limit.reserved, limit.settled)
}

fn provider(script: &Value) -> (Origin, String) {
    let origin = Origin::start(Options::default()).unwrap();
    origin.play(Script::from_value(&json!({ "provider": script })).unwrap()).unwrap();
    let url = format!("{}/v1/chat/completions", origin.url());
    (origin, url)
}

/// Tokens that the provider says that an answer has used.
fn used(text: &str) -> u64 {
    let from = text.rfind("\"total_tokens\":").expect("a usage") + 15;
    text[from..].trim_start().split(|it: char| !it.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_chat_reserves_its_estimate_and_settles_its_usage() {
    for body in [PLAIN, STREAM] {
        let (engine, (_origin, url)) = (Engine::new(7), provider(&json!({"answer_tokens": 8})));
        let guard = Guard::new(&metered(&engine)).tokens(Tokens::new().output(300));
        let text = Client::new().post(url).body(body).send_with(&guard).await.unwrap().text().await.unwrap();
        assert_eq!(counted(&engine), (504, used(&text)), "spec 15.7.6 and 15.7.7: {text}");
        nothing_left(&engine);
    }
}

#[tokio::test]
async fn each_attempt_settles_by_itself() {
    let faults = json!([{"fault": "throttled", "first": 1, "retry_after": 0}]);
    let (engine, (_origin, url)) = (Engine::new(7), provider(&json!({"answer_tokens": 8, "faults": faults})));
    let guard = Guard::new(&metered(&engine)).tokens(Tokens::new());
    let text = Client::new().post(url).body(PLAIN).send_with(&guard).await.unwrap().text().await.unwrap();
    assert_eq!(counted(&engine), (2 * 504, used(&text)), "spec 3.6.4: an answer of 429 has used nothing");
}

#[tokio::test]
async fn an_answer_that_is_dropped_early_counts_its_reservation() {
    let (engine, (_origin, url)) =
        (Engine::new(7), provider(&json!({"answer_tokens": 400, "token_every": 20})));
    let guard = Guard::new(&metered(&engine)).tokens(Tokens::new());
    let mut answer = Client::new().post(url).body(STREAM).send_with(&guard).await.unwrap();
    answer.chunk().await.unwrap().expect("a piece");
    drop(answer);
    assert_eq!(counted(&engine), (504, 504), "spec 15.7.7");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_dropped_after_its_last_event_settles() {
    let engine = Engine::new(7);
    let events =
        [r#"data: {"usage": {"prompt_tokens": 10, "completion_tokens": 5}}"#, "\n\ndata: [DO", "NE]\n\n"];
    let client = service_fn(move |_: Request<Full<Bytes>>| async move {
        let frames = events.map(|it| Ok::<_, io::Error>(http_body::Frame::data(Bytes::from(it))));
        Ok::<_, io::Error>(Response::new(http_body_util::StreamBody::new(Frames(frames.into_iter()))))
    });
    let tokens = Tokens::new().weight("tokens");
    let client = metered(&engine).http_layer().usage(move |answer| tokens.totals(answer)).layer(client);
    let request = Request::post("http://model.example/").extension(Weights::new([("tokens", 1_800)]));
    let answer = client.oneshot(request.body(Full::default()).unwrap()).await.unwrap();
    let mut body = Box::pin(answer.into_body());
    for _ in events {
        body.frame().await.unwrap().unwrap();
    }
    drop(body);
    assert_eq!(counted(&engine), (1_800, 15), "spec 15.7.7");
}

/// A stream of frames that never ends.
struct Frames<I>(I);

impl<I: Iterator + Unpin> futures_core::Stream for Frames<I> {
    type Item = I::Item;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<I::Item>> {
        match self.0.next() {
            Some(item) => std::task::Poll::Ready(Some(item)),
            None => std::task::Poll::Pending,
        }
    }
}

#[tokio::test]
async fn the_guards_own_weights_come_first_and_a_callback_that_panics_breaks_no_call() {
    let (engine, (_origin, url)) = (Engine::new(7), provider(&json!({"answer_tokens": 8})));
    let policy = metered(&engine);
    let wrong = |_: Estimate| -> Option<Weights> { panic!("no") };
    let guard = Guard::new(&policy).weights([("tokens", 40)]).weigh(wrong);
    Client::new().post(&url).body(PLAIN).send_with(&guard).await.unwrap().text().await.unwrap();
    assert_eq!(counted(&engine), (40, 40), "spec 15.7.6");
    let guard = Guard::new(&policy).weights([("tokens", 40)]).usage(|_| panic!("no"));
    Client::new().post(&url).body(PLAIN).send_with(&guard).await.unwrap().text().await.unwrap();
    assert_eq!(counted(&engine), (80, 80));
}

#[tokio::test]
async fn a_body_that_asks_for_a_stream_makes_its_answer_one() {
    let stall =
        json!({"answer_tokens": 8, "faults": [{"fault": "stall", "at": 0, "first": 1}], "ping_every": 0.02});
    for (body, attempts) in [(STREAM, 2), (PLAIN, 1)] {
        let (engine, (_origin, url)) = (Engine::new(7), provider(&stall));
        let policy = Policy::builder("p").engine(&engine).preset(Preset::Llm).deadline(ms(3_000));
        let policy = policy.first_byte_timeout(ms(500)).counts(tidegate_tokio::settings::Counts::SseData);
        let guard = Guard::new(&policy.build().unwrap());
        let sent = Client::new().post(url).body(body).send_with(&guard).await;
        let made = match sent {
            Ok(answer) => answer.extensions().get::<Report>().map_or(1, |report| report.attempts),
            Err(error) => error.report().attempts,
        };
        assert_eq!(made, attempts, "spec 7.7.4");
    }
}
