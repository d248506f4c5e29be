//! The rules for every adapter (`hosts.md`, as `docs/rust.md` has them), for reqwest against the faulty server: each by `send_with`, and
//! as a middleware of reqwest-middleware. Sockets do not follow a paused clock, so spans are short.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

mod support;

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use reqwest::{Body, Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use support::{ends, ms, nothing_left, plain};
use tidegate_origin::{Options, Origin, Script};
use tidegate_tokio::reqwest::{Guard, SendWith};
use tidegate_tokio::{
    Bounds, Builder, Class, Code, Engine, Error, Outcome, Policy, RecordType, Report, Stopped, Verdict,
    stopped_in,
};

/// How a request goes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    Own,
    Chain,
}

/// A failure, whichever way it came.
#[derive(Debug)]
enum Failed {
    Ours(Stopped),
    Clients(Box<dyn StdError + Send + Sync>),
}

impl Failed {
    fn ours(self) -> Stopped {
        match self {
            Self::Ours(stopped) => stopped,
            Self::Clients(error) => panic!("not ours: {error}"),
        }
    }
}

struct World {
    how: How,
    origin: Origin,
    engine: Engine,
    client: Client,
}

impl World {
    fn new(how: How) -> Self {
        let origin = Origin::start(Options::default()).unwrap();
        let client = Client::builder().retry(reqwest::retry::never()).no_proxy().build().unwrap();
        Self { how, origin, engine: Engine::new(7), client }
    }

    fn script(&self, script: &Value) {
        self.origin.play(Script::from_value(script).unwrap()).unwrap();
    }

    /// The answers to `/x`, in order.
    fn answers(&self, answers: &Value) {
        self.script(&json!({"sequences": {"/x": answers}}));
    }

    fn http(&self, name: &str) -> Builder {
        plain(&self.engine, name, 3)
            .preset("http")
            .retry_backoff_base(ms(5))
            .retry_backoff_max(ms(60_000))
            .retry_max_retry_after(ms(60_000))
    }

    fn guard(&self, name: &str) -> Guard {
        Guard::new(&self.http(name).build().unwrap())
    }

    fn request(&self, method: Method) -> RequestBuilder {
        self.client.request(method, format!("{}/x", self.origin.url()))
    }

    async fn send(&self, guard: &Guard, request: RequestBuilder) -> Result<Response, Failed> {
        match self.how {
            How::Own => request.send_with(guard).await.map_err(|error| match error {
                Error::Failed(error, _) => Failed::Clients(error.into()),
                Error::Stopped(stopped, _) => Failed::Ours(stopped),
            }),
            How::Chain => {
                let client =
                    reqwest_middleware::ClientBuilder::new(self.client.clone()).with(guard.clone()).build();
                client.execute(request.build().unwrap()).await.map_err(|error| match error {
                    reqwest_middleware::Error::Reqwest(error) => Failed::Clients(error.into()),
                    reqwest_middleware::Error::Middleware(error) => match stopped_in(error.as_ref()) {
                        Some(stopped) => Failed::Ours(stopped.clone()),
                        None => Failed::Clients(error.into()),
                    },
                })
            }
        }
    }

    async fn get(&self, guard: &Guard) -> Result<Response, Failed> {
        self.send(guard, self.request(Method::GET)).await
    }

    /// The values of a header on each request that came in.
    fn headers(&self, name: &str) -> Vec<Option<String>> {
        let value =
            |headers: &[(String, String)]| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        self.origin.log().iter().map(|entry| value(&entry.headers)).collect()
    }

    fn requests(&self) -> usize {
        self.origin.log().len()
    }

    /// Nothing is left, as soon as the far side's answers have been dropped.
    #[track_caller]
    fn done(self) {
        nothing_left(&self.engine);
    }
}

/// A body that can be read once.
fn stream() -> Body {
    let frames = ["he", "llo"]
        .map(|part| Ok::<_, io::Error>(http_body::Frame::data(Bytes::from_static(part.as_bytes()))));
    Body::wrap(BodyExt::boxed(StreamBody::new(Frames(frames.into_iter().collect()))))
}

struct Frames(std::collections::VecDeque<io::Result<http_body::Frame<Bytes>>>);

impl futures_core::Stream for Frames {
    type Item = io::Result<http_body::Frame<Bytes>>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(self.0.pop_front())
    }
}

fn report(response: &Response) -> Option<Report> {
    response.extensions().get::<Report>().copied()
}

/// Both ways, each in a world of its own.
macro_rules! rules {
    ($($(#[$doc:meta])* async fn $name:ident($world:ident: World) $body:block)*) => { $(
        mod $name {
            use super::*;

            async fn rule($world: World) $body

            #[tokio::test]
            async fn by_send_with() {
                rule(World::new(How::Own)).await;
            }

            #[tokio::test]
            async fn in_a_chain() {
                rule(World::new(How::Chain)).await;
            }
        }
    )* };
}

rules! {
    async fn a_failure_that_may_pass_is_repeated_and_repeats_say_so(world: World) {
        world.answers(&json!([{"status": 503}, {"fault": "reset"}, {"body": "yes"}]));
        let response = world.get(&world.guard("p")).await.unwrap();
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
        let response = world.send(&world.guard("p"), world.request(Method::PUT).body("hello")).await.unwrap();
        assert_eq!(response.text().await.unwrap(), "hello");
        assert_eq!(world.origin.log().iter().map(|entry| entry.body.clone()).collect::<Vec<_>>(), ["hello", "hello"]);
        world.done();
    }

    async fn rule_1_a_stream_is_sent_once_and_the_failure_says_why(world: World) {
        world.answers(&json!([{"status": 503, "body": "busy"}, {}]));
        let response = world.send(&world.guard("p"), world.request(Method::PUT).body(stream())).await.unwrap();
        assert_eq!((response.status().as_u16(), world.requests()), (503, 1));
        assert_eq!(report(&response).unwrap().note().unwrap(), "body cannot be replayed");
        assert_eq!(response.text().await.unwrap(), "busy");
        assert_eq!(world.origin.log()[0].body, "hello");
        world.done();
    }

    async fn rule_1_a_stream_that_can_be_made_anew_is_sent_again(world: World) {
        world.answers(&json!([{"status": 503}, {"status": 503}, {"echo": true}]));
        let guard = world.guard("p").body(stream);
        let response = world.send(&guard, world.request(Method::PUT)).await.unwrap();
        assert_eq!(response.text().await.unwrap(), "hello");
        assert_eq!(world.origin.log().iter().map(|entry| entry.body.clone()).collect::<Vec<_>>(), ["hello"; 3]);
        world.done();
    }

    async fn rule_2_what_could_happen_twice_is_not_repeated(world: World) {
        let guard = world.guard("p");
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
        let made = guard.clone().idempotency_key(true);
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
        let failed = world.send(&world.guard("p"), request).await.unwrap_err();
        assert!(matches!(failed, Failed::Clients(_)), "{failed:?}");
        assert_eq!(world.engine.snapshot().policies[0].1.attempts, 3);
        world.done();
    }

    async fn rule_3_the_last_answer_is_the_callers_with_its_body(world: World) {
        world.answers(&json!([{"status": 503}, {"status": 503}, {"status": 503, "body": "the last"}]));
        let response = world.get(&world.guard("p")).await.unwrap();
        assert_eq!(report(&response).unwrap().note().unwrap(), "gave up after 3 attempts");
        assert_eq!((response.status().as_u16(), response.text().await.unwrap().as_str()), (503, "the last"));
        world.done();
    }

    async fn rule_3_the_last_error_is_the_callers(world: World) {
        world.answers(&json!([{"fault": "reset"}]));
        let Failed::Clients(error) = world.get(&world.guard("p")).await.unwrap_err() else { panic!("the client's") };
        assert!(error.downcast_ref::<reqwest::Error>().is_some(), "as it is");
        assert_eq!(world.requests(), 3);
        world.done();
    }

    async fn rule_4_a_small_answer_keeps_its_connection_and_a_large_one_is_closed(world: World) {
        world.answers(&json!([{"status": 503, "body_bytes": 1_000}, {"status": 503, "body_bytes": 3_000_000}, {}]));
        let response = world.get(&world.guard("p")).await.unwrap();
        assert_eq!(response.status(), 200);
        drop(response);
        let connections: Vec<_> = world.origin.log().iter().map(|entry| entry.connection).collect();
        assert_eq!(connections[0], connections[1], "a small answer is read to its end");
        assert_ne!(connections[1], connections[2], "a large one is not");
        world.done();
    }

    async fn rule_4_a_large_last_answer_is_whole(world: World) {
        world.answers(&json!([{"status": 503, "body_bytes": 200_000}]));
        let response = world.get(&world.guard("p")).await.unwrap();
        assert_eq!(response.bytes().await.unwrap().len(), 200_000);
        world.done();
    }

    async fn rule_5_retry_after_is_never_cut_short(world: World) {
        world.answers(&json!([{"status": 503, "retry_after": "1"}, {}]));
        let start = Instant::now();
        assert_eq!(world.get(&world.guard("p")).await.unwrap().status(), 200);
        assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
        let log = world.origin.log();
        assert!(log[1].t - log[0].t >= 1.0, "{} {}", log[0].t, log[1].t);
        world.done();
    }

    async fn rule_5_one_that_is_too_long_ends_the_call_and_says_when_to_come_back(world: World) {
        world.answers(&json!([{"status": 503, "retry_after": "120"}, {}]));
        let response = world.get(&world.guard("p")).await.unwrap();
        let told = report(&response).unwrap();
        assert_eq!((response.status().as_u16(), told.retry_in), (503, Some(Duration::from_mins(2))));
        assert_eq!(told.note().unwrap(), "Retry-After 120 s exceeds max_retry_after 60 s");
        world.done();
    }

    async fn rule_6_a_wait_and_an_attempt_are_given_up_at_once(world: World) {
        let slow = Guard::new(&world.http("slow").retry_backoff_base(ms(60_000)).deadline(ms(600_000)).build().unwrap());
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

    async fn rule_7_an_attempt_that_takes_too_long_is_stopped_and_repeated(world: World) {
        let guard = Guard::new(&world.http("p").attempt_timeout(ms(300)).build().unwrap());
        world.answers(&json!([{"fault": "hang"}, {"body": "yes"}]));
        assert_eq!(world.get(&guard).await.unwrap().text().await.unwrap(), "yes");
        world.answers(&json!([{"fault": "hang"}]));
        assert_eq!(world.get(&guard).await.unwrap_err().ours().code, Code::AttemptTimeout);
        world.done();
    }

    async fn rule_7_the_deadline_ends_an_attempt_and_the_reading_of_a_body(world: World) {
        let guard = world.guard("p").deadline(ms(300));
        world.answers(&json!([{"fault": "hang"}]));
        assert_eq!(world.get(&guard).await.unwrap_err().ours().code, Code::DeadlineExceeded);
        world.answers(&json!([{"body_bytes": 100_000, "fault": "slow_body"}]));
        let start = Instant::now();
        let response = world.get(&guard).await.unwrap();
        let error = response.bytes().await.unwrap_err();
        assert_eq!(stopped_in(&error).unwrap().code, Code::DeadlineExceeded);
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        assert_eq!(ends(&world.engine, "p", Verdict::Deadline), 2);
        world.done();
    }

    async fn rule_8_a_slot_is_kept_until_the_body_has_been_read_or_dropped(world: World) {
        let one = world.http("p").bulkhead_max_concurrency(1);
        let guard = Guard::new(&one.clone().build().unwrap());
        world.script(&json!({"default": {"body_bytes": 200_000}}));
        let response = world.get(&guard).await.unwrap();
        assert_eq!(world.get(&guard).await.unwrap_err().ours().code, Code::BulkheadFull);
        assert_eq!(response.bytes().await.unwrap().len(), 200_000);
        let response = world.get(&guard).await.unwrap();
        drop(response);
        let mut response = world.get(&guard).await.unwrap();
        // To its end, and not dropped.
        while response.chunk().await.unwrap().is_some() {}
        world.get(&guard).await.unwrap();
        let policy = Policy::builder("head").engine(&world.engine).bulkhead_max_concurrency(1).slot_until("headers");
        let guard = Guard::new(&policy.build().unwrap());
        let first = world.get(&guard).await.unwrap();
        assert_eq!(world.get(&guard).await.unwrap().status(), 200);
        drop(first);
        world.done();
    }

    async fn rule_8_a_body_that_fails_is_a_failure_of_the_breaker(world: World) {
        let breaker = world.http("p").set("breaker.consecutive", 1).breaker_break_duration(ms(60_000));
        let guard = Guard::new(&breaker.build().unwrap());
        world.answers(&json!([{"body_bytes": 10_000, "fault": "truncate"}, {}]));
        assert!(world.get(&guard).await.unwrap().bytes().await.is_err());
        assert_eq!(world.get(&guard).await.unwrap_err().ours().code, Code::BreakerOpen);
        world.done();
    }

    async fn rule_9_a_policy_around_makes_this_ones_attempts_one(world: World) {
        world.answers(&json!([{"status": 503}]));
        let around = plain(&world.engine, "around", 2).build().unwrap();
        let guard = world.guard("p");
        let caller = around.caller().classify(|result: Result<&Response, &String>| {
            Outcome::of(if result.is_ok_and(|response| response.status() == 200) { Class::Ok } else { Class::Transient })
        });
        let ended = caller.ended(|_| async { world.get(&guard).await.map_err(|error| format!("{error:?}")) }).await;
        assert_eq!(ended.result.unwrap().status(), 503);
        assert_eq!(world.requests(), 2, "two of the outer one, one each of the inner one");
        world.done();
    }

    async fn rule_11_the_retry_header_can_be_switched_off(world: World) {
        world.answers(&json!([{"status": 503}, {}]));
        world.get(&world.guard("p").retry_header(false)).await.unwrap();
        assert_eq!(world.headers("retry-attempt"), [None, None]);
        world.done();
    }

    async fn rule_12_what_is_fine_costs_one_request_and_a_plain_failure_is_the_callers(world: World) {
        world.answers(&json!([{}, {"status": 404}, {"status": 500}]));
        let guard = Guard::new(&Policy::builder("p").engine(&world.engine).preset("http").build().unwrap());
        let fine = world.get(&guard).await.unwrap();
        assert!(report(&fine).is_none());
        drop(fine);
        assert_eq!(world.get(&guard).await.unwrap().status(), 404);
        assert_eq!(world.get(&guard).await.unwrap().status(), 500);
        assert_eq!(world.requests(), 3);
        let explained = guard_policy(&world).explain();
        assert_eq!(explained.max_attempts, 3);
        assert!((explained.load.per_call - 1.2).abs() < 1e-9, "a fifth more, at the most");
        world.done();
    }

    async fn rule_13_every_retry_that_was_held_back_has_a_reason(world: World) {
        let mut events = world.engine.events(&[RecordType::RetrySuppressed], 100);
        let mut heard = async || events.next().await.unwrap().reason.unwrap();
        world.script(&json!({"default": {"status": 503}}));
        let guard = world.guard("p");
        world.send(&guard, world.request(Method::POST)).await.unwrap();
        assert_eq!(heard().await, Verdict::Method);
        world.send(&guard, world.request(Method::PUT).body(stream())).await.unwrap();
        assert_eq!(heard().await, Verdict::OneShotBody);
        let once = Guard::new(&world.http("slow").retry_backoff_base(ms(5_000)).build().unwrap()).deadline(ms(1_000));
        world.get(&once).await.unwrap();
        assert_eq!(heard().await, Verdict::WouldOutliveDeadline);
        let limited = Guard::new(&world.http("limit").retry_retry_time_limit(ms(1)).build().unwrap());
        world.get(&limited).await.unwrap();
        assert_eq!(heard().await, Verdict::TimeLimit);
        let poor = world.http("poor").retry_budget_kind("window").retry_budget_min_retries_per_sec(0.0).retry_budget_percent_can_retry(0.0);
        world.get(&Guard::new(&poor.build().unwrap())).await.unwrap();
        assert_eq!(heard().await, Verdict::Budget);
        world.script(&json!({"default": {"status": 500}}));
        world.get(&guard).await.unwrap();
        assert_eq!(heard().await, Verdict::Opinion);
        world.script(&json!({"default": {"status": 503, "retry_after": "99999"}}));
        world.get(&guard).await.unwrap();
        assert_eq!(heard().await, Verdict::RetryAfterTooLong);
        drop(events);
        world.done();
    }

    async fn rule_14_many_at_once_leave_nothing(world: World) {
        world.script(&json!({"rules": [{"match": {"path": "/x"}, "probability": 0.3, "respond": {"status": 503}}]}));
        let policy = world.http("p").bulkhead_max_concurrency(4).bulkhead_max_queue(None).bulkhead_acquire_timeout(None);
        let (world, guard) = (Arc::new(world), Guard::new(&policy.build().unwrap()));
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
        let guard = world.guard("p").classify(|response| {
            let warming = response.headers().get("x-state").is_some_and(|state| state == "warming");
            warming.then(|| Outcome::of(Class::Transient))
        });
        let response = world.get(&guard).await.unwrap();
        assert!(response.headers().get("x-state").is_none());
        assert_eq!(world.requests(), 2);
        drop(response);
        let broken = guard.classify(|_| panic!("a judge"));
        world.answers(&json!([{"status": 503}, {}]));
        assert_eq!(world.get(&broken).await.unwrap().status(), 200);
        world.done();
    }

    async fn the_route_is_the_origin_or_what_is_said(world: World) {
        world.answers(&json!([{}]));
        let guard = world.guard("p");
        world.get(&guard).await.unwrap();
        world.get(&guard.clone().route("mine")).await.unwrap();
        let mut keys: Vec<_> = guard_policy(&world).routes().into_iter().map(|route| route.key).collect();
        keys.sort();
        assert_eq!(keys, [world.origin.url(), "mine".into()]);
        world.done();
    }

    async fn a_hedge_wins_and_the_loser_is_closed(world: World) {
        let hedged = Policy::builder("p").engine(&world.engine).deadline(ms(10_000)).hedge_delay(ms(100)).hedge_budget_kind("none");
        let guard = Guard::new(&hedged.build().unwrap());
        world.answers(&json!([{"fault": "hang"}, {"body": "yes"}]));
        assert_eq!(world.get(&guard).await.unwrap().text().await.unwrap(), "yes");
        until(|| world.origin.stats().abandoned == 1).await;
        world.done();
    }
}

/// The policy `p`, once more by the same settings.
fn guard_policy(world: &World) -> Policy {
    let settings = world.http("p").settings().unwrap();
    let known = Policy::new_in(&world.engine, settings);
    known.or_else(|_| Policy::builder("p").engine(&world.engine).preset("http").build()).unwrap()
}

/// Waits for what another thread is about to do.
async fn until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(5), "it does not come");
        tokio::time::sleep(ms(2)).await;
    }
}

#[tokio::test]
async fn a_guard_among_a_requests_extensions_stands_for_the_chains_own() {
    let world = World::new(How::Chain);
    world.answers(&json!([{"status": 503}, {}]));
    let (three, one) = (world.guard("p"), Guard::new(&plain(&world.engine, "one", 1).build().unwrap()));
    let client = reqwest_middleware::ClientBuilder::new(world.client.clone()).with(three).build();
    let response = client.get(format!("{}/x", world.origin.url())).with_extension(one).send().await.unwrap();
    assert_eq!((response.status().as_u16(), world.requests()), (503, 1));
    drop(response);
    world.done();
}
