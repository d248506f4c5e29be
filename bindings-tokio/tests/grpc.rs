//! gRPC with a real server and client of tonic, without generated code, and a policy between channel and client.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they open sockets, sleep and look at the clock"
)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{ms, nothing_left, once, plain};
use bytes::{Buf as _, BufMut as _, Bytes};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use parking_lot::Mutex;
use tidegate_tokio::settings::{Breaker, Bulkhead};
use tidegate_tokio::{Code, Engine, Policy, stopped_in};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Server};
use tonic::{Code as GrpcCode, Status};
use tower::{Layer, Service, service_fn};

/// A codec whose messages are plain bytes.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, dst: &mut EncodeBuf<'_>) -> Result<(), Status> {
        dst.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let whole = src.remaining();
        Ok(Some(src.copy_to_bytes(whole)))
    }
}

/// The server's reaction to a call.
#[derive(Clone)]
enum Does {
    /// Ends it with a status that is only in the head.
    Fails(GrpcCode),
    /// The same, with a pushback.
    PushesBack(GrpcCode, &'static str),
    /// Answers with a head, and then this many messages and a status in the trailers.
    Answers(usize, GrpcCode),
    /// Never answers.
    Hangs,
    /// Answers with the HTTP status of a proxy.
    Proxy(u16),
}

/// The requests that the server received: their headers and messages.
type Had = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

fn message() -> Bytes {
    let mut framed = vec![0, 0, 0, 0, 2];
    framed.extend_from_slice(b"ok");
    framed.into()
}

/// A server on tonic's transport. It follows the script call by call, and then repeats `last`.
async fn served(script: impl Into<VecDeque<Does>>, last: Does) -> (Channel, Had) {
    let (had, script) = (Had::default(), Arc::new(Mutex::new(script.into())));
    let seen = Arc::clone(&had);
    let service = service_fn(move |request: Request<Body>| {
        let (seen, script, last) = (Arc::clone(&seen), Arc::clone(&script), last.clone());
        async move {
            let (parts, body) = request.into_parts();
            let does = script.lock().pop_front().unwrap_or(last);
            let body =
                body.collect().await.map_or_else(|_| Bytes::new(), http_body_util::Collected::to_bytes);
            seen.lock().push((parts.headers, body));
            Ok::<_, Infallible>(match does {
                Does::Fails(code) => Status::new(code, "scripted").into_http::<Body>(),
                Does::PushesBack(code, millis) => {
                    let mut response = Status::new(code, "scripted").into_http::<Body>();
                    response.headers_mut().insert("grpc-retry-pushback-ms", millis.parse().unwrap());
                    response
                }
                Does::Answers(messages, code) => {
                    let mut trailers = HeaderMap::new();
                    trailers.insert("grpc-status", (code as u32).into());
                    let frames = (0..messages).map(|_| Frame::data(message()));
                    let frames = frames.chain([Frame::trailers(trailers)]).map(Ok::<_, Infallible>);
                    let body = StreamBody::new(Frames(frames.collect()));
                    Response::builder()
                        .header("content-type", "application/grpc")
                        .body(Body::new(body))
                        .unwrap()
                }
                Does::Hangs => std::future::pending().await,
                Does::Proxy(status) => Response::builder().status(status).body(Body::empty()).unwrap(),
            })
        }
    });
    let at = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = at.local_addr().unwrap();
    drop(at);
    tokio::spawn(Server::builder().serve(address, service));
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    // Waits until the server listens.
    let channel = loop {
        match channel.connect().await {
            Ok(channel) => break channel,
            Err(_) => tokio::time::sleep(ms(5)).await,
        }
    };
    (channel, had)
}

/// A body whose frames are all available.
struct Frames(VecDeque<Result<Frame<Bytes>, Infallible>>);

impl futures_core::Stream for Frames {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(self.0.pop_front())
    }
}

fn path() -> http::uri::PathAndQuery {
    http::uri::PathAndQuery::from_static("/shop.Orders/Get")
}

async fn get(policy: &Policy, channel: Channel) -> Result<Bytes, Status> {
    let mut client = tonic::client::Grpc::new(policy.grpc_layer().layer(channel));
    client.ready().await.unwrap();
    let asked = tonic::Request::new(Bytes::from_static(b"7"));
    Ok(client.unary(asked, path(), Raw).await?.into_inner())
}

fn quick(engine: &Engine, attempts: u32) -> tidegate_tokio::Builder {
    use tidegate_tokio::settings::{Backoff, Retry};
    plain(engine, "orders", attempts)
        .retry(Retry::new().backoff(Backoff::new().base(ms(1))))
        .deadline(Duration::from_secs(20))
}

#[tokio::test]
async fn a_unary_call_is_repeated_by_its_status_in_the_head_or_the_trailers() {
    let engine = Engine::new(1);
    let policy = quick(&engine, 5).build().unwrap();
    let script = [
        Does::Fails(GrpcCode::Unavailable),
        Does::Fails(GrpcCode::ResourceExhausted),
        Does::Proxy(503),
        Does::Fails(GrpcCode::Aborted),
    ];
    let (channel, had) = served(script, Does::Answers(1, GrpcCode::Ok)).await;
    assert_eq!(get(&policy, channel).await.unwrap(), "ok");
    let had = had.lock();
    assert_eq!(had.len(), 5);
    for (number, (headers, body)) in had.iter().enumerate() {
        // Five bytes precede each message: not compressed, one byte long.
        assert_eq!(body[..], b"\0\0\0\0\x017"[..], "the message is sent again as it was");
        let before = headers.get("grpc-previous-rpc-attempts").map(|before| before.to_str().unwrap());
        assert_eq!(before.map_or(0, |before| before.parse().unwrap()), number);
        assert!(headers.contains_key("grpc-timeout"), "the deadline goes along");
    }
    drop(had);
    nothing_left(&engine);
}

#[tokio::test]
async fn a_status_that_will_not_pass_is_the_callers_at_once_and_as_it_is() {
    let engine = Engine::new(1);
    let policy = quick(&engine, 3).build().unwrap();
    for code in [
        GrpcCode::InvalidArgument,
        GrpcCode::NotFound,
        GrpcCode::PermissionDenied,
        GrpcCode::Unimplemented,
        GrpcCode::Unauthenticated,
        GrpcCode::FailedPrecondition,
    ] {
        let (channel, had) = served([], Does::Fails(code)).await;
        let status = get(&policy, channel).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (code, "scripted"));
        assert_eq!(had.lock().len(), 1, "{code:?}");
    }
    // The caller also gets the status of the last repeat.
    let (channel, had) = served([], Does::Fails(GrpcCode::Unavailable)).await;
    let status = get(&policy, channel).await.unwrap_err();
    assert_eq!((status.code(), status.message(), had.lock().len()), (GrpcCode::Unavailable, "scripted", 3));
}

#[tokio::test]
async fn pushback_says_when_to_come_back_or_not_to() {
    let engine = Engine::new(1);
    let policy = quick(&engine, 3).build().unwrap();
    let (channel, had) =
        served([Does::PushesBack(GrpcCode::Unavailable, "150")], Does::Answers(1, GrpcCode::Ok)).await;
    let start = std::time::Instant::now();
    get(&policy, channel).await.unwrap();
    assert!(start.elapsed() >= ms(150), "the server said when");
    assert_eq!(had.lock().len(), 2);
    let (channel, had) = served([], Does::PushesBack(GrpcCode::Unavailable, "-1")).await;
    assert_eq!(get(&policy, channel).await.unwrap_err().code(), GrpcCode::Unavailable);
    assert_eq!(had.lock().len(), 1, "the server said not to");
}

/// R4: a breaker gets the outcomes of trailers, also for calls that are never repeated.
#[tokio::test]
async fn a_breaker_opens_by_trailers() {
    let engine = Engine::new(1);
    // The head of a response counts as a success and its trailers as an additional failure: half of all outcomes fail.
    let breaker = Breaker::by_failure_ratio(0.5, Duration::from_secs(60), 6, Duration::from_secs(60));
    let policy = quick(&engine, 1).breaker(breaker).build().unwrap();
    let (channel, had) = served([], Does::Answers(1, GrpcCode::Unavailable)).await;
    for _ in 0..8 {
        assert_eq!(get(&policy, channel.clone()).await.unwrap_err().code(), GrpcCode::Unavailable);
    }
    let had = had.lock().len();
    assert!((3..=6).contains(&had), "{had} calls until the breaker was open");
}

#[tokio::test]
async fn a_breaker_opens_by_heads_and_a_refusal_is_a_status() {
    let engine = Engine::new(1);
    let breaker = Breaker::by_consecutive(3, Duration::from_secs(60));
    let policy = quick(&engine, 1).breaker(breaker).build().unwrap();
    let (channel, had) = served([], Does::Fails(GrpcCode::Unavailable)).await;
    for _ in 0..3 {
        assert_eq!(get(&policy, channel.clone()).await.unwrap_err().code(), GrpcCode::Unavailable);
    }
    let refused = get(&policy, channel).await.unwrap_err();
    assert_eq!(had.lock().len(), 3, "the breaker is open");
    assert_eq!(refused.code(), GrpcCode::Unavailable);
    assert!(refused.message().starts_with("the circuit breaker is open"), "{refused:?}");
    let stopped = stopped_in(&refused).unwrap();
    assert_eq!((stopped.code, stopped.code.grpc_code()), (Code::BreakerOpen, GrpcCode::Unavailable));
    let pushback = refused.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap();
    assert!(pushback.parse::<u64>().unwrap() > 50_000, "{pushback}");
    nothing_left(&engine);
}

#[tokio::test]
async fn nothing_is_repeated_once_a_message_has_come_and_streams_pass_through() {
    let engine = Engine::new(1);
    let policy = quick(&engine, 3).bulkhead(Bulkhead::fixed(1)).build().unwrap();
    let (channel, had) = served([], Does::Answers(3, GrpcCode::Unavailable)).await;
    let mut client = tonic::client::Grpc::new(policy.grpc_layer().layer(channel.clone()));
    client.ready().await.unwrap();
    let asked = tonic::Request::new(Bytes::from_static(b"7"));
    let mut answers = client.server_streaming(asked, path(), Raw).await.unwrap().into_inner();
    assert_eq!(answers.message().await.unwrap().unwrap(), "ok");
    assert_eq!(engine.snapshot().live, 1, "the slot is kept while the stream is read");
    assert!(answers.message().await.unwrap().is_some() && answers.message().await.unwrap().is_some());
    assert_eq!(answers.message().await.unwrap_err().code(), GrpcCode::Unavailable);
    assert_eq!(had.lock().len(), 1);
    drop(answers);
    nothing_left(&engine);

    // A streaming request is sent once, message by message.
    let (channel, had) = served([], Does::Fails(GrpcCode::Unavailable)).await;
    let mut client = tonic::client::Grpc::new(policy.grpc_layer().layer(channel));
    client.ready().await.unwrap();
    let (sender, queue) = tokio::sync::mpsc::channel::<Bytes>(1);
    tokio::spawn(async move {
        for _ in 0..3 {
            tokio::time::sleep(ms(5)).await;
            sender.send(Bytes::from_static(b"7")).await.unwrap();
        }
    });
    let asked = tonic::Request::new(Queue(queue));
    let status = client.client_streaming(asked, path(), Raw).await.unwrap_err();
    assert_eq!(status.code(), GrpcCode::Unavailable);
    assert_eq!(had.lock().iter().map(|(_, body)| body.len()).collect::<Vec<_>>(), [18]);
    nothing_left(&engine);
}

struct Queue(tokio::sync::mpsc::Receiver<Bytes>);

impl futures_core::Stream for Queue {
    type Item = Bytes;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Bytes>> {
        self.0.poll_recv(cx)
    }
}

#[tokio::test]
async fn a_deadline_is_a_status_and_a_requests_own_timeout_is_the_calls() {
    let engine = Engine::new(1);
    let policy = quick(&engine, 3).build().unwrap();
    let (channel, had) = served([], Does::Hangs).await;
    let mut client = tonic::client::Grpc::new(policy.grpc_layer().layer(channel));
    client.ready().await.unwrap();
    let mut asked = tonic::Request::new(Bytes::from_static(b"7"));
    asked.set_timeout(ms(100));
    let status = client.unary(asked, path(), Raw).await.unwrap_err();
    // Tonic's channel stops the call by the same header. Either may stop it first, with the same meaning.
    match stopped_in(&status) {
        Some(stopped) => {
            assert_eq!((status.code(), stopped.code), (GrpcCode::DeadlineExceeded, Code::DeadlineExceeded));
        }
        None => assert_eq!(status.code(), GrpcCode::Cancelled),
    }
    assert_eq!(had.lock().len(), 1);
    nothing_left(&engine);
}

#[tokio::test]
async fn a_server_that_is_not_there_was_never_sent_anything() {
    let engine = Engine::new(1);
    let policy = quick(&engine, 3).build().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect_lazy();
    // Not idempotent, but repeated, because nothing was sent.
    let mut service = policy.grpc_layer().idempotent(|_| false).layer(channel);
    std::future::poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
    let request = Request::builder().uri("/shop.Orders/Get").body(Body::empty()).unwrap();
    let status = service.call(request).await.map(|_| ()).unwrap_err();
    assert_eq!(status.code(), GrpcCode::Unavailable);
    assert!(status.source().is_some());
    assert_eq!(engine.snapshot().policies[0].1.attempts, 3);
}

#[tokio::test]
async fn a_method_that_is_not_idempotent_is_sent_once() {
    let engine = Engine::new(1);
    let policy = quick(&engine, 3).build().unwrap();
    let (channel, had) = served([], Does::Fails(GrpcCode::Unavailable)).await;
    let layer = policy.grpc_layer().idempotent(|path| path.ends_with("/List"));
    let mut client = tonic::client::Grpc::new(layer.layer(channel));
    for (method, expected) in [("/shop.Orders/Get", 1), ("/shop.Orders/List", 4)] {
        client.ready().await.unwrap();
        let asked = tonic::Request::new(Bytes::from_static(b"7"));
        client.unary(asked, http::uri::PathAndQuery::from_static(method), Raw).await.unwrap_err();
        assert_eq!(had.lock().len(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_keeps_nothing_that_the_service_has_reserved() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 1).bulkhead(Bulkhead::fixed(1).max_queue(5)).build().unwrap();
    let hangs = service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Status>>());
    let limited = tower::limit::ConcurrencyLimit::new(hangs, 2);
    let service = policy.grpc_layer().layer(limited);
    let mut calls = Vec::new();
    for _ in 0..2 {
        let mut own = service.clone();
        let mut call = tower::ServiceExt::ready(&mut own).await.unwrap().call(Request::new(Body::empty()));
        assert!(once(call.as_mut()).await.is_pending());
        calls.push(call);
    }
    let mut other = service.clone();
    let ready = std::future::poll_fn(|cx| std::task::Poll::Ready(other.poll_ready(cx)));
    assert!(ready.await.is_ready(), "one call runs, and the one that waits has reserved nothing");
    drop(calls);
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_polled_polls_its_attempt_once() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 1).build().unwrap();
    let polls = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&polls);
    let service = service_fn(move |_: Request<Body>| {
        let polls = Arc::clone(&counted);
        std::future::poll_fn(move |_| {
            *polls.lock() += 1;
            std::task::Poll::<Result<Response<Body>, Status>>::Pending
        })
    });
    let mut service = policy.grpc_layer().layer(service);
    let mut call = tower::ServiceExt::ready(&mut service).await.unwrap().call(Request::new(Body::empty()));
    assert!(once(call.as_mut()).await.is_pending());
    assert_eq!(*polls.lock(), 1);
}

/// Semantics 1.6.4.
#[tokio::test(start_paused = true)]
async fn a_response_that_an_inner_policy_must_not_repeat_an_outer_one_does_not_repeat() {
    let engine = Engine::new(1);
    let (outer, inner) =
        (plain(&engine, "outer", 3).build().unwrap(), plain(&Engine::new(2), "inner", 2).build().unwrap());
    for (layer, requests) in [(inner.grpc_layer(), 6), (inner.grpc_layer().idempotent(|_| false), 1)] {
        let had = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&had);
        let fails = service_fn(move |_: Request<Body>| {
            *counted.lock() += 1;
            let response = Response::builder().header("grpc-status", "14").body(Body::empty());
            async { Ok::<_, Status>(response.unwrap()) }
        });
        let client =
            tower::ServiceExt::<Request<Body>>::map_response(layer.layer(fails), |response: Response<_>| {
                response.map(Body::new)
            });
        let mut client = outer.grpc_layer().layer(client);
        let client = tower::ServiceExt::ready(&mut client).await.unwrap();
        client.call(Request::new(Body::empty())).await.unwrap();
        assert_eq!(*had.lock(), requests);
    }
}

/// Semantics 1.6.2 and 1.6.4, for errors of the transport.
#[tokio::test(start_paused = true)]
async fn an_outer_layer_obeys_an_inner_one_about_an_error() {
    let engine = Engine::new(1);
    let (outer, inner) =
        (plain(&engine, "outer", 3).build().unwrap(), plain(&engine, "inner", 2).build().unwrap());
    for (layer, requests) in [(inner.grpc_layer(), 3), (inner.grpc_layer().idempotent(|_| false), 1)] {
        let had = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&had);
        let fails = service_fn(move |_: Request<Body>| {
            *counted.lock() += 1;
            let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            async { Err::<Response<Body>, _>(broken) }
        });
        let client =
            tower::ServiceExt::<Request<Body>>::map_response(layer.layer(fails), |response: Response<_>| {
                response.map(Body::new)
            });
        let mut client = outer.grpc_layer().layer(client);
        let client = tower::ServiceExt::ready(&mut client).await.unwrap();
        let status = client.call(Request::new(Body::empty())).await.unwrap_err();
        assert_eq!((*had.lock(), status.code()), (requests, GrpcCode::Unknown));
    }
}
