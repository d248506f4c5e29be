//! Timeouts of streams (semantics 7.7) under the layer for HTTP, to the millisecond, on a paused clock.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use std::collections::VecDeque;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Empty};
use tidegate_tokio::settings::{Budget, Counts, DeadlineUntil, Hedge, HedgeBudget, Retry};
use tidegate_tokio::{
    BoxError, Builder, Class, Code, Engine, Options, Outcome, Policy, Report, Stopped, stopped_in,
};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

use crate::support::{ms, nothing_left, once, plain};

const PING: &str = "event: ping\ndata: {}\n\n: comment\n\n";
const EVENT: &str = "data: {\"delta\": \"x\"}\n\n";

/// Pieces of a body, each with the pause before it. At its end the body stalls, or is over.
#[derive(Clone, Debug)]
struct Script {
    pieces: Vec<(u64, &'static str)>,
    stalls: bool,
    /// Whether the body breaks at its end.
    breaks: bool,
    coded: bool,
}

fn script(pieces: impl IntoIterator<Item = (u64, &'static str)>) -> Script {
    Script { pieces: pieces.into_iter().collect(), stalls: false, breaks: false, coded: false }
}

fn stalls(pieces: impl IntoIterator<Item = (u64, &'static str)>) -> Script {
    Script { stalls: true, ..script(pieces) }
}

/// A body that follows a script. The server sends whether or not somebody reads.
struct Scripted {
    pieces: VecDeque<(Instant, &'static str)>,
    script: Script,
    timer: Pin<Box<Sleep>>,
}

impl Scripted {
    fn new(script: Script) -> Self {
        let mut at = Instant::now();
        let pieces = script.pieces.iter().map(|(pause, text)| {
            at += ms(*pause);
            (at, *text)
        });
        Self { pieces: pieces.collect(), script, timer: Box::pin(sleep(Duration::ZERO)) }
    }
}

impl Body for Scripted {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some((at, text)) = self.pieces.front().copied() else {
            return match (self.script.breaks, self.script.stalls) {
                (true, _) => Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
                (false, true) => Poll::Pending,
                (false, false) => Poll::Ready(None),
            };
        };
        if at > Instant::now() {
            self.timer.as_mut().reset(at);
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        self.pieces.pop_front();
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(text.as_bytes())))))
    }
}

type Read = Pin<Box<tidegate_tokio::GuardedBody<tidegate_tokio::Buffered<Scripted>>>>;

/// Sends a request that accepts events; each attempt gets the next of these answers, and the last one again.
async fn sent(
    policy: Builder,
    answers: impl IntoIterator<Item = Script>,
) -> Result<Response<Read>, tidegate_tokio::Error<io::Error>> {
    let answers = Mutex::new(answers.into_iter().collect::<VecDeque<_>>());
    let answers = std::sync::Arc::new(answers);
    let service = service_fn(move |_: Request<Empty<Bytes>>| {
        let mut answers = answers.lock().unwrap();
        let next = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        let script = next.unwrap();
        let coded = if script.coded { "gzip" } else { "identity" };
        let response = Response::builder().header("content-encoding", coded).body(Scripted::new(script));
        async { Ok::<_, io::Error>(response.unwrap()) }
    });
    let mut client = policy.build().unwrap().http_layer().layer(service);
    let request =
        Request::get("http://model.example/").header("accept", "text/Event-Stream, */*").body(Empty::new());
    Ok(client.ready().await.unwrap().call(request.unwrap()).await?.map(Box::pin))
}

/// Reads a body: what came, and the error that ended it.
async fn read(mut body: Read) -> (String, Option<Stopped>) {
    let mut text = String::new();
    loop {
        match body.frame().await {
            Some(Ok(frame)) => text += std::str::from_utf8(&frame.into_data().unwrap()).unwrap(),
            Some(Err(error)) => return (text, Some(*error.downcast::<Stopped>().unwrap())),
            None => return (text, None),
        }
    }
}

fn limits(engine: &Engine) -> Builder {
    named_limits(engine, "p")
}

fn named_limits(engine: &Engine, name: &str) -> Builder {
    plain(engine, name, 3).first_byte_timeout(ms(1_000)).idle_timeout(ms(400)).counts(Counts::SseData)
}

/// The code of the error that ended reading, and how long reading took.
async fn code_of(body: Read) -> (Code, Duration) {
    let begun = Instant::now();
    let (_, stopped) = read(body).await;
    (stopped.expect("it ends").code, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_a_first_piece_runs_out_of_time_exactly_then() {
    let engine = Engine::new(1);
    let begun = Instant::now();
    // Pings and comments do not deliver, for longer than `idle_timeout` too (spec 7.7.13).
    let pings = stalls([(300, PING), (300, PING), (300, PING)]);
    let response = sent(limits(&engine), [pings, script([(50, EVENT), (10, EVENT)])]).await.unwrap();
    assert_eq!(begun.elapsed(), ms(1_000 + 100 + 50), "timeout, backoff, first piece (spec 7.7.2, 7.7.3)");
    assert_eq!(response.extensions().get::<Report>().unwrap().attempts, 2);
    assert_eq!(read(response.into_body()).await, ([EVENT, EVENT].concat(), None));
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn pieces_before_the_delivery_are_kept_in_order_up_to_64_kilobytes() {
    let engine = Engine::new(1);
    let large: &'static str = Box::leak(format!(": {}\n", "x".repeat(20_000)).into_boxed_str());
    let begun = Instant::now();
    let body = script([(1, PING), (1, large), (1, large), (1, large), (1, large), (500, EVENT)]);
    let response = sent(limits(&engine).idle_timeout(ms(900)), [body]).await.unwrap();
    assert_eq!(begun.elapsed(), ms(5), "spec 7.7.8: 64 kB are delivered without a piece that counts");
    let (text, error) = read(response.into_body()).await;
    assert_eq!((text, error), ([PING, large, large, large, large, EVENT].concat(), None));
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_before_its_delivery_is_a_failed_attempt() {
    let engine = Engine::new(1);
    let broken = Script { breaks: true, ..script([(1, PING)]) };
    let response = sent(limits(&engine), [broken.clone(), script([(1, EVENT)])]).await.unwrap();
    assert_eq!(response.extensions().get::<Report>().unwrap().attempts, 2);
    assert_eq!(read(response.into_body()).await.0, EVENT);
    // The last answer is the caller's, with its error.
    let mut body = sent(limits(&engine), [broken]).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), PING);
    let error = body.frame().await.unwrap().unwrap_err();
    assert_eq!(error.downcast_ref::<io::Error>().unwrap().kind(), io::ErrorKind::ConnectionReset);
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn silence_is_noticed_exactly_then_and_pings_do_not_end_it() {
    let engine = Engine::new(1);
    let silent = stalls([(0, EVENT), (300, EVENT)]);
    let response = sent(limits(&engine), [silent]).await.unwrap();
    assert_eq!(code_of(response.into_body()).await, (Code::StreamStalled, ms(300 + 400)), "spec 7.7.9");
    let pings = stalls([(0, EVENT), (150, PING), (150, PING), (150, PING), (150, PING)]);
    let response = sent(limits(&engine), [pings.clone()]).await.unwrap();
    assert_eq!(code_of(response.into_body()).await, (Code::StreamStalled, ms(400)), "spec 7.7.13");
    // Each byte of a coded body counts.
    let response = sent(limits(&engine), [Script { coded: true, ..pings }]).await.unwrap();
    assert_eq!(code_of(response.into_body()).await, (Code::StreamStalled, ms(600 + 400)), "spec 7.7.13");
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_goes_on_is_no_stall() {
    let engine = Engine::new(1);
    let begun = Instant::now();
    let response = sent(limits(&engine), [script([(399, EVENT); 50])]).await.unwrap();
    assert_eq!(read(response.into_body()).await, (EVENT.repeat(50), None));
    assert_eq!(begun.elapsed(), ms(399 * 50));
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_polled_is_no_stalled_server() {
    let engine = Engine::new(1);
    let mut body = sent(limits(&engine), [stalls([(0, EVENT), (10_000, EVENT)])]).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().is_ok());
    sleep(ms(9_900)).await;
    assert!(body.frame().await.unwrap().is_ok(), "spec 7.7.17: the read has waited for 100 ms");
    // A read that is given up does not wait on.
    assert!(timeout(ms(300), body.frame()).await.is_err());
    sleep(ms(60_000)).await;
    assert_eq!(code_of(body).await, (Code::StreamStalled, ms(400)), "spec 7.7.17");
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_may_end_at_the_delivery() {
    let engine = Engine::new(1);
    let drips = || script([(200, EVENT); 20]);
    let response = sent(limits(&engine).deadline(ms(1_000)), [drips()]).await.unwrap();
    assert_eq!(code_of(response.into_body()).await, (Code::DeadlineExceeded, ms(800)));
    let other = Engine::new(1);
    let until = limits(&other).deadline(ms(1_000)).deadline_until(DeadlineUntil::Delivery);
    let response = sent(until, [drips()]).await.unwrap();
    assert_eq!(read(response.into_body()).await, (EVENT.repeat(20), None), "spec 7.7.15");
    nothing_left(&engine);
    nothing_left(&other);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_overtakes_a_stream_without_a_first_piece() {
    let engine = Engine::new(1);
    let policy = limits(&engine).hedge(Hedge::new(ms(100)).budget(HedgeBudget::none()));
    let begun = Instant::now();
    let response = sent(policy, [stalls([]), script([(50, EVENT)])]).await.unwrap();
    assert_eq!(begun.elapsed(), ms(150), "spec 7.7.1: the first piece wins the race");
    assert_eq!(read(response.into_body()).await, (EVENT.into(), None));
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_piece_is_no_event() {
    let engine = Engine::with_options(7, Options::default().journal(true));
    let response = sent(limits(&engine), [script(vec![(1, EVENT); 10_000])]).await.unwrap();
    assert_eq!(read(response.into_body()).await.0.len(), 10_000 * EVENT.len());
    let lines = engine.take_journal().lines;
    // One report for each `idle_timeout`, and the events of a call without one.
    assert!(lines.len() < 10_000 / 400 + 10, "spec 7.7.16: {} lines", lines.len());
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_policy_keeps_its_stream_timeouts_in_documents_and_retunes() {
    let engine = Engine::new(1);
    let policy = limits(&engine).build().unwrap();
    policy.retune(plain(&engine, "p", 3).idle_timeout(ms(50)).settings().unwrap()).unwrap();
    let response = sent(plain(&engine, "p", 3).idle_timeout(ms(50)), [stalls([(500, EVENT)])]).await.unwrap();
    assert_eq!(code_of(response.into_body()).await, (Code::StreamStalled, ms(50)));
    nothing_left(&engine);
}

/// A body that always has a frame ready.
struct Endless;

impl Body for Endless {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_holds_where_the_reader_is_slower_than_the_server() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 1).deadline(ms(350)).build().unwrap();
    let client = service_fn(|_: Request<Empty<Bytes>>| async { Ok::<_, io::Error>(Response::new(Endless)) });
    let request = Request::get("http://shop.example/").body(Empty::new()).unwrap();
    let response = policy.http_layer().layer(client).oneshot(request).await.unwrap();
    let mut body = std::pin::pin!(response.into_body());
    let mut frames = Vec::new();
    for _ in 0..5 {
        sleep(ms(100)).await;
        frames.push(body.frame().await.map(|frame| frame.map_err(|error| stopped_in(&*error).unwrap().code)));
    }
    let ends = |frame: &Option<Result<_, _>>| matches!(frame, Some(Ok(_)));
    assert_eq!(frames.iter().filter(|frame| ends(frame)).count(), 3);
    assert_eq!(frames[3].as_ref().unwrap().as_ref().unwrap_err(), &Code::DeadlineExceeded);
    assert!(frames[4].is_none(), "nothing follows the error");
    nothing_left(&engine);
}

/// A body that has to wait once, after its first frame, and has a frame ready ever after.
#[derive(Default)]
struct Hesitant {
    polls: u8,
}

impl Body for Hesitant {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.polls = self.polls.saturating_add(1);
        if self.polls == 2 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"a piece")))))
    }
}

/// The body of an answer to a call that has to end within 350 ms.
async fn hesitant(engine: &Engine) -> impl Body<Data = Bytes, Error = BoxError> + use<> {
    let policy = plain(engine, "p", 1).deadline(ms(350)).build().unwrap();
    let client = service_fn(|_: Request<Empty<Bytes>>| async {
        Ok::<_, io::Error>(Response::new(Hesitant::default()))
    });
    let request = Request::get("http://shop.example/").body(Empty::new()).unwrap();
    policy.http_layer().layer(client).oneshot(request).await.unwrap().into_body()
}

/// Its timer tells it, because the runtime turns its timers while the reader sleeps.
#[tokio::test(start_paused = true)]
async fn a_body_that_has_waited_ends_at_the_deadline_of_a_slow_reader() {
    let engine = Engine::new(1);
    let mut body = std::pin::pin!(hesitant(&engine).await);
    for _ in 0..3 {
        sleep(ms(100)).await;
        body.frame().await.unwrap().unwrap();
    }
    sleep(ms(100)).await;
    let error = body.frame().await.unwrap().unwrap_err();
    assert_eq!(stopped_in(&*error).unwrap().code, Code::DeadlineExceeded);
    nothing_left(&engine);
}

/// A reader that blocks its thread keeps the runtime from turning its timers, so the body looks at the clock at every eighth frame.
#[tokio::test(start_paused = true)]
async fn a_body_ends_soon_after_the_deadline_of_a_reader_that_blocks() {
    let engine = Engine::new(1);
    let mut body = std::pin::pin!(hesitant(&engine).await);
    for _ in 0..2 {
        body.frame().await.unwrap().unwrap();
    }
    let mut frames = 0;
    let error = loop {
        let mut now = Context::from_waker(Waker::noop());
        // One poll moves the clock, and the second one would let the runtime turn its timers.
        assert!(std::pin::pin!(tokio::time::advance(ms(100))).poll(&mut now).is_pending());
        match std::pin::pin!(body.frame()).poll(&mut now) {
            Poll::Ready(Some(Ok(_))) => frames += 1,
            Poll::Ready(Some(Err(error))) => break error,
            other => panic!("{other:?}"),
        }
        assert!(frames < 4 + 8, "the deadline was after three frames");
    };
    assert_eq!(stopped_in(&*error).unwrap().code, Code::DeadlineExceeded);
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_says_that_repeats_do_harm_is_heard() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 3).build().unwrap();
    let busy = |_: Request<Empty<Bytes>>| async {
        Ok::<_, io::Error>(Response::builder().status(503).body(Empty::<Bytes>::new()).unwrap())
    };
    let harmful = policy.caller().idempotent(false).http_layer();
    for (layer, attempts) in [(policy.http_layer(), 3), (harmful.clone(), 1), (harmful.idempotent(true), 3)] {
        let request = Request::get("http://shop.example/").body(Empty::new()).unwrap();
        let response = layer.layer(service_fn(busy)).oneshot(request).await.unwrap();
        assert_eq!(response.extensions().get::<Report>().unwrap().attempts, attempts);
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_body_counts_all_attempts_of_its_call() {
    let engine = Engine::new(1);
    let policy = limits(&engine).deadline(ms(800)).hedge(Hedge::new(ms(100)).budget(HedgeBudget::none()));
    let response = sent(policy, [stalls([(150, EVENT)]), stalls([])]).await.unwrap();
    let body = std::pin::pin!(response.into_body());
    let error = body.collect().await.unwrap_err();
    assert_eq!(stopped_in(&*error).unwrap().report.attempts, 2, "the first one won, beside a hedge");
    nothing_left(&engine);
}

/// Semantics 1.6.1: a policy around one that reads errors keeps its repeats.
#[tokio::test(start_paused = true)]
async fn a_policy_around_one_that_reads_errors_repeats() {
    let engine = Engine::new(1);
    let reads = |name| {
        let statuses = Retry::new().max_attempts(3).read_errors(true).statuses([503]).budget(Budget::none());
        Policy::builder(name).engine(&engine).retry(statuses).build().unwrap()
    };
    let (outer, inner) = (reads("outer"), reads("inner"));
    let busy = |_: Request<Empty<Bytes>>| async {
        Ok::<_, io::Error>(Response::builder().status(503).body(Empty::<Bytes>::new()).unwrap())
    };
    let request = Request::get("http://shop.example/").body(Empty::new()).unwrap();
    let client = inner.http_layer().layer(service_fn(busy));
    let client = outer.http_layer().layer(client.map_response(|it: Response<_>| it.map(Box::pin)));
    let response = client.oneshot(request).await.unwrap();
    assert_eq!(response.extensions().get::<Report>().unwrap().attempts, 3);
    assert_eq!(response.headers()["x-should-retry"], "false", "the outer one has given up");
}

/// Semantics 1.6.4.
#[tokio::test(start_paused = true)]
async fn an_answer_that_an_inner_policy_must_not_repeat_an_outer_one_does_not_repeat() {
    let engines = [Engine::new(1), Engine::new(2)];
    let outer = plain(&engines[0], "outer", 3).build().unwrap();
    let busy = |_: Request<Empty<Bytes>>| async {
        Ok::<_, io::Error>(Response::builder().status(503).body(Empty::<Bytes>::new()).unwrap())
    };
    for engine in &engines {
        let inner = plain(engine, "inner", 2).build().unwrap();
        let client = |layer: tidegate_tokio::tower::HttpLayer| {
            let client = layer.layer(service_fn(busy)).map_response(|it: Response<_>| it.map(Box::pin));
            outer.http_layer().layer(client)
        };
        for (layer, attempts) in [(inner.http_layer(), 3), (inner.http_layer().idempotent(false), 1)] {
            let request = Request::get("http://shop.example/").body(Empty::new()).unwrap();
            let response = client(layer).oneshot(request).await.unwrap();
            assert_eq!(response.extensions().get::<Report>().unwrap().attempts, attempts);
        }
    }
}

/// The same where the answer is a stream that reports the failure before its delivery.
#[tokio::test(start_paused = true)]
async fn a_stream_that_an_inner_policy_must_not_repeat_an_outer_one_does_not_repeat() {
    let engine = Engine::new(1);
    let requests = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    for (idempotent, expected) in [(None, 3), (Some(false), 1)] {
        requests.store(0, std::sync::atomic::Ordering::Relaxed);
        let (outer, inner) =
            (limits(&engine).build().unwrap(), named_limits(&engine, "inner").build().unwrap());
        let layer = inner.http_layer();
        let layer = idempotent.map_or(layer.clone(), |it| layer.idempotent(it));
        let made = std::sync::Arc::clone(&requests);
        let service = service_fn(move |_: Request<Empty<Bytes>>| {
            made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let failure =
                "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n";
            async move { Ok::<_, io::Error>(Response::new(Scripted::new(script([(10, failure)])))) }
        });
        let client = layer.layer(service).map_response(|it: Response<_>| it.map(Box::pin));
        let request = Request::get("http://model.example/").header("accept", "text/event-stream");
        let _ = outer.http_layer().layer(client).oneshot(request.body(Empty::new()).unwrap()).await;
        assert_eq!(requests.load(std::sync::atomic::Ordering::Relaxed), expected);
    }
}

/// A read that was dropped, or polled late, says nothing about the server: the piece may have come long before.
#[tokio::test(start_paused = true)]
async fn a_piece_that_is_at_hand_is_no_silence() {
    let engine = Engine::new(1);
    let mut body = sent(limits(&engine), [stalls([(10, EVENT), (100, EVENT)])]).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().is_ok());
    assert!(once(std::pin::pin!(body.frame())).await.is_pending());
    tokio::time::advance(ms(450)).await;
    assert!(body.frame().await.unwrap().is_ok(), "it came 350 ms ago");
}

/// A failed answer whose body gives these pieces and then stalls: the moment at which its reader is freed, and how.
async fn failed_and_stalls(
    policy: Builder,
    status: u16,
    pieces: Vec<(u64, &'static str)>,
) -> (Duration, Option<Stopped>) {
    let begun = Instant::now();
    let service = service_fn(move |_: Request<Empty<Bytes>>| {
        let response = Response::builder().status(status).body(Scripted::new(stalls(pieces.clone())));
        async { Ok::<_, io::Error>(response.unwrap()) }
    });
    let request = Request::get("http://shop.example/").body(Empty::new()).unwrap();
    let response = policy.build().unwrap().http_layer().layer(service).oneshot(request).await.unwrap();
    assert_eq!(response.status(), status);
    let ended = timeout(ms(9_000), read(Box::pin(response.into_body()))).await;
    (begun.elapsed(), ended.ok().and_then(|(_, stopped)| stopped))
}

#[tokio::test(start_paused = true)]
async fn the_body_of_a_failed_answer_ends_at_the_deadline_of_its_call() {
    let engine = Engine::new(1);
    let policy = |name: &str| Policy::builder(name).engine(&engine).deadline(ms(3_000));
    let reads = Retry::new().max_attempts(2).read_errors(true).budget(Budget::none());
    for (status, policy) in [
        (404, policy("plain")),
        (404, policy("reads").retry(reads)),
        (503, plain(&engine, "repeats", 2).deadline(ms(3_000))),
        (404, policy("idle").idle_timeout(ms(100))),
    ] {
        let (took, stopped) = failed_and_stalls(policy, status, vec![(10, "no such order")]).await;
        let stopped = stopped.expect("the reader is freed");
        assert_eq!((took, stopped.code), (ms(3_000), Code::DeadlineExceeded), "{}", stopped.policy);
        assert!(stopped.report.call().is_some());
        nothing_left(&engine);
    }
    // Where the deadline ends with the head, and without a deadline, the body is its reader's.
    let brief = policy("brief").slot_until(tidegate_tokio::settings::SlotUntil::Headers);
    let delivered = policy("delivered").idle_timeout(ms(100)).deadline_until(DeadlineUntil::Delivery);
    for policy in [brief, delivered, plain(&engine, "endless", 1)] {
        assert_eq!(failed_and_stalls(policy, 404, vec![]).await.1, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_reports_a_failure_and_stalls_ends_at_the_deadline() {
    let failure =
        "event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\"}}\n\n";
    let engine = Engine::new(1);
    let policy = limits(&engine).deadline(ms(800)).counts(Counts::SseData);
    let begun = Instant::now();
    let response = sent(policy, [stalls([(10, EVENT), (10, failure)])]).await.unwrap();
    let (text, stopped) = timeout(ms(5_000), read(response.into_body())).await.expect("it ends");
    assert!(text.ends_with(failure));
    assert_eq!((begun.elapsed(), stopped.unwrap().code), (ms(800), Code::DeadlineExceeded));
    nothing_left(&engine);
}

/// A body that always has an empty frame ready.
struct Empties;

impl Body for Empties {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::new()))))
    }
}

/// Real time, because nothing here waits and a paused clock stands still then.
#[tokio::test]
async fn empty_frames_hold_up_no_timeout() {
    let engine = Engine::new(1);
    let service = service_fn(|_: Request<Empty<Bytes>>| async { Ok::<_, io::Error>(Response::new(Empties)) });
    let request =
        Request::get("http://shop.example/").header("accept", "text/event-stream").body(Empty::new());
    let policy = Policy::builder("p").engine(&engine).first_byte_timeout(ms(20)).build().unwrap();
    let answer = policy.http_layer().layer(service).oneshot(request.unwrap()).await;
    assert_eq!(answer.map(drop).unwrap_err().stopped().unwrap().code, Code::AttemptTimeout);
    nothing_left(&engine);
}

/// Semantics 1.6.2: the function of an inner layer says what a status does not.
#[tokio::test(start_paused = true)]
async fn an_outer_layer_repeats_the_answer_that_an_inner_one_has_judged() {
    let engine = Engine::new(1);
    let (outer, inner) =
        (plain(&engine, "outer", 3).build().unwrap(), plain(&engine, "inner", 3).build().unwrap());
    let sent = std::sync::atomic::AtomicU32::new(0);
    let odd = |_: Request<Empty<Bytes>>| {
        sent.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        async { Ok::<_, io::Error>(Response::builder().status(200).body(Empty::<Bytes>::new()).unwrap()) }
    };
    let judged = inner.http_layer().classify(|_, _| Some(Outcome::of(Class::Transient)));
    let client = judged.layer(service_fn(odd)).map_response(|it: Response<_>| it.map(Box::pin));
    let request = Request::get("http://shop.example/").body(Empty::new()).unwrap();
    outer.http_layer().layer(client).oneshot(request).await.unwrap();
    assert_eq!(sent.into_inner(), 3);
}
