//! The faulty server with each adapter in front of it, so that a rule is written once and tested with all of them.
#![allow(dead_code, unused_imports, reason = "each test uses a part of it")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

pub use std::error::Error as StdError;
pub use std::io;
pub use std::sync::Arc;
pub use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, StreamBody};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
pub use reqwest::{Body, Client, Method, RequestBuilder, Response, StatusCode};
use reqwest::{Request, ResponseBuilderExt};
pub use serde_json::{Value, json};
use tidegate_origin::{Options, Origin, Script};
use tidegate_tokio::reqwest::{Guard, SendWith};
use tidegate_tokio::settings::{Backoff, Preset, Retry};
use tidegate_tokio::tower::{ByCauses, HttpLayer, Requests};
pub use tidegate_tokio::{
    Bounds, Builder, Caller, Class, Code, Criticality, Engine, Error, Outcome, Policy, RecordType, Report,
    Stopped, Verdict, stopped_in,
};
use tower::{Layer, ServiceExt};

pub use crate::support::{counted, ends, ms, nothing_left, plain};

/// The adapter that sends a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// reqwest, by `send_with`.
    Own,
    /// reqwest, as a middleware of reqwest-middleware.
    Chain,
    /// hyper's client under the tower layer.
    Layer,
}

/// A failure from any adapter.
#[derive(Debug)]
pub enum Failed {
    Ours(Stopped),
    Clients(Box<dyn StdError + Send + Sync>),
}

impl Failed {
    pub fn ours(self) -> Stopped {
        match self {
            Self::Ours(stopped) => stopped,
            Self::Clients(error) => panic!("not ours: {error}"),
        }
    }
}

/// A policy with settings for its requests, for any adapter.
#[derive(Clone)]
pub struct Says {
    guard: Guard,
    caller: Caller,
    layer: Vec<fn(HttpLayer) -> HttpLayer>,
    opine: Option<fn(StatusCode, &HeaderMap) -> Option<Outcome>>,
    make: Option<fn() -> Body>,
}

impl Says {
    pub fn new(policy: &Policy) -> Self {
        Self {
            guard: Guard::new(policy),
            caller: policy.caller(),
            layer: Vec::new(),
            opine: None,
            make: None,
        }
    }

    pub fn route(self, key: &str) -> Self {
        Self { guard: self.guard.route(key), caller: self.caller.route(key), ..self }
    }

    pub fn deadline(self, span: Duration) -> Self {
        Self { guard: self.guard.deadline(span), caller: self.caller.deadline(span), ..self }
    }

    fn with(mut self, guard: impl Fn(Guard) -> Guard, layer: fn(HttpLayer) -> HttpLayer) -> Self {
        self.layer.push(layer);
        Self { guard: guard(self.guard), ..self }
    }

    pub fn idempotent(self, idempotent: bool) -> Self {
        let layer: fn(HttpLayer) -> HttpLayer =
            if idempotent { |it| it.idempotent(true) } else { |it| it.idempotent(false) };
        self.with(|it| it.idempotent(idempotent), layer)
    }

    pub fn without_retry_header(self) -> Self {
        self.with(|it| it.retry_header(false), |it| it.retry_header(false))
    }

    pub fn with_keys(self) -> Self {
        self.with(|it| it.idempotency_key(true), |it| it.idempotency_key(true))
    }

    pub fn weights(self, weights: impl Into<tidegate_tokio::Weights>) -> Self {
        let weights = weights.into();
        Self { guard: self.guard.weights(weights.clone()), caller: self.caller.weights(weights), ..self }
    }

    /// Its requests are streams, whatever they accept.
    pub fn streamed(self) -> Self {
        self.with(|it| it.stream(true), |it| it.stream(true))
    }

    pub fn classify(self, opine: fn(StatusCode, &HeaderMap) -> Option<Outcome>) -> Self {
        let guard = self.guard.classify(move |response| opine(response.status(), response.headers()));
        Self { guard, opine: Some(opine), ..self }
    }

    pub fn body(self, make: fn() -> Body) -> Self {
        Self { guard: self.guard.body(make), make: Some(make), ..self }
    }

    /// The guard of reqwest.
    pub fn guard(&self) -> Guard {
        self.guard.clone()
    }
}

/// Requests of hyper with reqwest's bodies: bytes are sent again; streams are sent once unless they are made anew.
#[derive(Clone)]
struct Bodies(Option<fn() -> Body>);

impl Requests<http::Request<Body>> for Bodies {
    fn replay(&self, request: &http::Request<Body>) -> Option<http::Request<Body>> {
        let body = match self.0 {
            Some(make) => make(),
            None => Bytes::copy_from_slice(request.body().as_bytes()?).into(),
        };
        let mut again = http::Request::new(body);
        *again.method_mut() = request.method().clone();
        *again.uri_mut() = request.uri().clone();
        *again.headers_mut() = request.headers().clone();
        Some(again)
    }
}

pub struct World {
    pub how: How,
    pub origin: Origin,
    pub engine: Engine,
    pub client: Client,
    hyper: legacy::Client<HttpConnector, Body>,
}

impl World {
    pub fn new(how: How) -> Self {
        Self::timed(how, Some(Duration::from_secs(90)))
    }

    /// With this timeout for idle connections; `None` means for ever. A paused clock jumps to such a timer.
    pub fn timed(how: How, idle: Option<Duration>) -> Self {
        let origin = Origin::start(Options::default()).unwrap();
        let client = Client::builder().retry(reqwest::retry::never()).no_proxy().pool_idle_timeout(idle);
        let hyper = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(idle)
            .retry_canceled_requests(false)
            .build_http();
        Self { how, origin, engine: Engine::new(7), client: client.build().unwrap(), hyper }
    }

    pub fn script(&self, script: &Value) {
        self.origin.play(Script::from_value(script).unwrap()).unwrap();
    }

    /// Sets the responses to `/x`, in order.
    pub fn answers(&self, answers: &Value) {
        self.script(&json!({"sequences": {"/x": answers}}));
    }

    pub fn http(&self, name: &str) -> Builder {
        plain(&self.engine, name, 3).preset(Preset::Http).retry(
            Retry::new().max_retry_after(ms(60_000)).backoff(Backoff::new().base(ms(5)).max(ms(60_000))),
        )
    }

    pub fn says(&self, name: &str) -> Says {
        Says::new(&self.http(name).build().unwrap())
    }

    pub fn request(&self, method: Method) -> RequestBuilder {
        self.client.request(method, format!("{}/x", self.origin.url()))
    }

    pub async fn send(&self, says: &Says, request: RequestBuilder) -> Result<Response, Failed> {
        match self.how {
            How::Own => request.send_with(&says.guard).await.map_err(failed),
            How::Chain => {
                let client = reqwest_middleware::ClientBuilder::new(self.client.clone());
                let client = client.with(says.guard.clone()).build();
                client.execute(request.build().unwrap()).await.map_err(|error| match error {
                    reqwest_middleware::Error::Reqwest(error) => Failed::Clients(error.into()),
                    reqwest_middleware::Error::Middleware(error) => match stopped_in(error.as_ref()) {
                        Some(stopped) => Failed::Ours(stopped.clone()),
                        None => Failed::Clients(error.into()),
                    },
                })
            }
            How::Layer => self.by_layer(says, request.build().unwrap()).await,
        }
    }

    async fn by_layer(&self, says: &Says, request: Request) -> Result<Response, Failed> {
        let url = request.url().clone();
        let mut request = http::Request::<Body>::try_from(request).unwrap();
        if let Some(make) = says.make {
            *request.body_mut() = make();
        }
        let mut layer = says.layer.iter().fold(says.caller.http_layer(), |layer, with| with(layer));
        if let Some(opine) = says.opine {
            layer = layer.classify(opine);
        }
        let client = layer.requests(Bodies(says.make)).layer(self.hyper.clone());
        let response = client.oneshot(request).await.map_err(failed)?;
        let (mut parts, body) = response.into_parts();
        let made = http::Response::builder().url(url).body(()).unwrap();
        parts.extensions.extend(made.into_parts().0.extensions);
        Ok(http::Response::from_parts(parts, Body::wrap(body)).into())
    }

    pub async fn get(&self, says: &Says) -> Result<Response, Failed> {
        self.send(says, self.request(Method::GET)).await
    }

    /// The values of a header on each request received.
    pub fn headers(&self, name: &str) -> Vec<Option<String>> {
        let value =
            |headers: &[(String, String)]| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        self.origin.log().iter().map(|entry| value(&entry.headers)).collect()
    }

    /// The bodies received.
    pub fn bodies(&self) -> Vec<String> {
        self.origin.log().iter().map(|entry| entry.body.clone()).collect()
    }

    pub fn requests(&self) -> usize {
        self.origin.log().len()
    }

    /// Checks that nothing is left once the server's responses have been dropped.
    #[track_caller]
    pub fn done(self) {
        nothing_left(&self.engine);
    }
}

fn failed<E: StdError + Send + Sync + 'static>(error: Error<E>) -> Failed {
    match error {
        Error::Failed(error, _) => Failed::Clients(error.into()),
        Error::Stopped(stopped, _) => Failed::Ours(*stopped),
    }
}

/// A body that can be read once.
pub fn stream() -> Body {
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

pub fn report(response: &Response) -> Option<Report> {
    response.extensions().get::<Report>().copied()
}

/// The policy `p`, defined again with the same settings.
pub fn the_policy(world: &World) -> Policy {
    let settings = world.http("p").settings().unwrap();
    let known = Policy::new_in(&world.engine, settings);
    known.or_else(|_| Policy::builder("p").engine(&world.engine).preset(Preset::Http).build()).unwrap()
}

/// Waits for something that another thread is about to do.
pub async fn until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "it does not come");
        tokio::time::sleep(ms(2)).await;
    }
}

/// Makes a test for each rule and adapter, each in its own world. A paused clock drives every wait except sockets.
macro_rules! rules {
    (@paused $(async fn $name:ident($world:ident: World) $body:block)*) => { $(
        rules! { @each $name, $world, $body, (start_paused = true), |how| World::timed(how, None) }
    )* };
    (@each $name:ident, $world:ident, $body:block, ($($clock:tt)*), $new:expr) => {
        mod $name {
            use super::*;

            async fn rule($world: World) $body

            #[tokio::test($($clock)*)]
            async fn by_send_with() {
                counted(async { rule(($new)(How::Own)).await }).await;
            }

            #[tokio::test($($clock)*)]
            async fn in_a_chain() {
                counted(async { rule(($new)(How::Chain)).await }).await;
            }

            #[tokio::test($($clock)*)]
            async fn under_the_layer() {
                counted(async { rule(($new)(How::Layer)).await }).await;
            }
        }
    };
    ($(async fn $name:ident($world:ident: World) $body:block)*) => { $(
        rules! { @each $name, $world, $body, (), World::new }
    )* };
}
