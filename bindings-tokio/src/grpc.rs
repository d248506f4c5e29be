//! A policy around gRPC clients: [`GrpcLayer`] goes between tonic's channel and its clients.

use std::error::Error as StdError;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode, request};
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tidegate::errors::{Grpc, grpc};
use tidegate::{Class, Outcome};
use tonic::body::Body;
use tonic::{Code as GrpcCode, Status};
use tower_layer::Layer;
use tower_service::Service;

use crate::BoxError;
use crate::classify::{Finding, Judge, Judgement};
use crate::clock;
use crate::drain::Buffered;
use crate::error::{Code, Error, Report, Stopped};
use crate::http::{GuardedBody, judged_inside, outcome_of};
use crate::listed::{Known, found_in};
use crate::policy::{Caller, Policy, Site};
use crate::run::{Attempt, Optional, Run, Tailed};
use crate::scope;

const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const BEFORE: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");
const PUSHBACK: &str = "grpc-retry-pushback-ms";

type Repeats = dyn Fn(&str) -> bool + Send + Sync;

/// Puts a gRPC client under a policy: a layer for tonic's `Channel`, or for any service of
/// `http::Request<tonic::body::Body>`.
///
/// - **Unary calls are repeated.** A request of at most 64 KiB that is complete when it is sent is kept and can be sent
///   again. A streaming request is sent once and is not buffered.
/// - The response's `grpc-status`, in its head or in its trailers, decides: `UNAVAILABLE` is retryable,
///   `INVALID_ARGUMENT` is not (`docs/errors.md` lists all codes). `grpc-retry-pushback-ms` says when to retry, or not
///   to. Once a message has arrived the call is never repeated; its trailers still count for breaker, throttle and
///   budget.
/// - Slot and deadline last until the response has been read. The deadline is sent as `grpc-timeout`; a `grpc-timeout`
///   that the request has already becomes the call's deadline.
/// - `idle_timeout` bounds the silence of a response, which each byte ends. No call is a stream with a
///   `first_byte_timeout`.
/// - A call that is refused or stopped ends with a [`Status`] of the matching code. [`stopped_in`](crate::stopped_in)
///   finds Tidegate's error among its causes.
/// - Repeats carry `grpc-previous-rpc-attempts`. The route is the caller's (`default` if it names none), so give each
///   channel a route or a policy.
///
/// ```no_run
/// use tidegate_tokio::Policy;
/// use tidegate_tokio::settings::Preset;
/// use tonic::transport::Channel;
/// use tower::{Layer, ServiceBuilder};
///
/// # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
/// let policy = Policy::builder("orders").preset(Preset::Grpc).build()?;
/// let channel = Channel::from_static("http://orders.example:50051").connect_lazy();
/// let channel = policy.grpc_layer().layer(channel);
/// // let orders = OrdersClient::new(channel);
/// # let _ = channel;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct GrpcLayer {
    caller: Caller,
    repeats: Option<Arc<Repeats>>,
}

impl Policy {
    /// This policy as a layer for gRPC clients: see [`GrpcLayer`].
    pub fn grpc_layer(&self) -> GrpcLayer {
        self.caller().grpc_layer()
    }
}

impl Caller {
    /// This caller as a layer for gRPC clients: see [`GrpcLayer`].
    pub fn grpc_layer(&self) -> GrpcLayer {
        GrpcLayer { caller: self.clone(), repeats: None }
    }
}

impl GrpcLayer {
    /// Says by a method's path (`/shop.Orders/Get`) whether a repeat is harmless. Where it is not, only calls that
    /// provably never left are repeated. Without this the caller's setting applies, which is harmless by default.
    #[must_use]
    pub fn idempotent(mut self, repeats: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.repeats = Some(Arc::new(repeats));
        self
    }

    /// Finds the site of a request's call.
    fn site(&self, request: &request::Parts) -> Arc<Site> {
        let own = asked(&request.headers);
        if own.is_none() && self.repeats.is_none() && self.caller.site.request.slot_until_body {
            return Arc::clone(&self.caller.site);
        }
        let mut site = (*self.caller.site).clone();
        if let Some(own) = own.map(clock::span) {
            site.request.remaining = Some(site.request.remaining.map_or(own, |said| said.min(own)));
        }
        if let Some(repeats) = &self.repeats {
            site.request.idempotent = repeats(request.uri.path());
        }
        site.request.slot_until_body = site.policy.slot_until_body();
        Arc::new(site)
    }
}

impl fmt::Debug for GrpcLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcLayer").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for GrpcLayer {
    type Service = GrpcService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        GrpcService { inner, layer: self.clone() }
    }
}

/// A gRPC client under a policy: see [`GrpcLayer`].
#[derive(Clone, Debug)]
pub struct GrpcService<S> {
    inner: S,
    layer: GrpcLayer,
}

/// The response that the client gets.
type Answer<A> = Response<GuardedBody<Buffered<A>>>;

impl<S, A> Service<Request<Body>> for GrpcService<S>
where
    S: Service<Request<Body>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    A: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    A::Error: Into<BoxError>,
{
    type Response = Answer<A>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Answer<A>, Status>> + Send>>;

    /// Ready where the inner service is; nothing is reserved.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.inner.poll_ready(cx).map_err(|error| Status::from_error(error.into()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let site = self.layer.site(&parts);
        // The service that is ready makes the first attempt.
        let fresh = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, fresh);
        Box::pin(send(site, ready, parts, body))
    }
}

async fn send<S, A>(site: Arc<Site>, ready: S, parts: request::Parts, body: Body) -> Result<Answer<A>, Status>
where
    S: Service<Request<Body>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    A: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    A::Error: Into<BoxError>,
{
    let path = parts.uri.path_and_query().map(|path| path.as_str().into());
    let (mut first, kept) = match kept(body) {
        Ok(message) => (None, Some(message)),
        Err(stream) => (Some(stream), None),
    };
    let replayable = kept.is_some();
    let clones = ready.clone();
    let reserved = Mutex::new(Some(ready));
    let ready = &reserved;
    let work = move |attempt: Attempt| {
        let body = first.take().or_else(|| kept.clone().map(Body::new))?;
        let mut parts = parts.clone();
        say(&mut parts.headers, attempt);
        let (mut service, waits) = match ready.lock().take() {
            Some(service) => (service, false),
            None => (clones.clone(), true),
        };
        let request = Request::from_parts(parts, body);
        Some(async move {
            if waits {
                poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
            }
            let response = service.call(request).await.map_err(Into::into)?;
            Ok(response.map(|body| {
                let mut body = Buffered::new(body);
                body.peek();
                body
            }))
        })
    };
    let run =
        Run::<_, _, _, _, _, _, Tailed>::new(Arc::clone(&site), replayable, path, GrpcJudge, Optional(work));
    let mut run = pin!(run);
    let mut is_first = true;
    let (ended, tail) = poll_fn(|cx| {
        let polled = run.as_mut().poll(cx);
        // What the service has reserved for a call that has to wait goes to other calls.
        if std::mem::take(&mut is_first) {
            drop(ready.lock().take());
        }
        polled
    })
    .await;
    let mut response = ended.result.map_err(|error| status_of(error, scope::is_inside()))?;
    if ended.report.attempts > 1 || ended.report.note().is_some() {
        response.extensions_mut().insert(ended.report);
    }
    Ok(response.map(|body| GuardedBody::of_grpc(body, tail)))
}

/// Reads a request's message so that it can be sent again. Returns the body if it streams or is large.
fn kept(body: Body) -> Result<Message, Body> {
    let mut body = Buffered::new(body);
    // A unary request is complete at once. Any other body registers the waker of its next reader.
    let mut cx = Context::from_waker(Waker::noop());
    let _ = body.poll_read(&mut cx);
    match body.into_whole() {
        Ok(frames) => Ok(Message(frames)),
        Err(body) => Err(Body::new(body)),
    }
}

/// A complete message.
#[derive(Clone)]
struct Message(std::collections::VecDeque<Bytes>);

impl http_body::Body for Message {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.pop_front().map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|data| data.len() as u64).sum())
    }
}

/// Adds headers to an attempt: the number of attempts before it, and its time left.
fn say(headers: &mut HeaderMap, attempt: Attempt) {
    if attempt.number > 1 {
        headers.insert(BEFORE, HeaderValue::from(u16::from(attempt.number - 1)));
    }
    if let Some(remaining) = attempt.remaining
        && asked(headers).is_none_or(|own| own >= remaining)
    {
        // Tonic's channel stops the attempt by this header too. The header allows 1 ms more, so that the policy stops
        // it first and names the reason.
        let micros = remaining.as_micros().saturating_add(1_999) / 1_000 * 1_000;
        let (amount, unit) = match micros {
            0..100_000_000 => (micros, 'u'),
            100_000_000..100_000_000_000 => (micros / 1_000, 'm'),
            _ => ((micros / 1_000_000).min(99_999_999), 'S'),
        };
        if let Ok(value) = HeaderValue::from_str(&format!("{amount}{unit}")) {
            headers.insert(TIMEOUT, value);
        }
    }
}

/// The timeout that a request states, if it can be parsed.
fn asked(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(TIMEOUT)?.to_str().ok()?;
    let (amount, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let amount: u64 = amount.parse().ok().filter(|amount| *amount <= 99_999_999)?;
    Some(match unit {
        "H" => Duration::from_secs(amount * 3_600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}

/// Classifies responses by their `grpc-status`.
struct GrpcJudge;

impl<A: http_body::Body> Judge<Response<Buffered<A>>, BoxError> for GrpcJudge {
    fn judge(&self, site: &Site, result: &Result<Response<Buffered<A>>, BoxError>) -> Judgement {
        let response = match result {
            Ok(response) => response,
            Err(error) => return Judgement::Outcome(site.outcome_in(found_in(&**error))),
        };
        let said = [Some(response.headers()), response.body().trailers()];
        let said = said.into_iter().flatten().find_map(|map| of_trailers(site, map));
        if let Some(outcome) = said {
            return Judgement::Outcome(judged_inside(outcome, response.extensions()));
        }
        if response.status() != StatusCode::OK {
            let outcome = outcome_of(site, response.status().as_u16(), response.headers(), b"");
            return Judgement::Outcome(judged_inside(outcome, response.extensions()));
        }
        if site.request.slot_until_body {
            Judgement::Head
        } else {
            Judgement::Outcome(Outcome::of(Class::Ok))
        }
    }

    fn unlisted(&self, error: &BoxError) -> bool {
        found_in(&**error) == Finding::Unlisted
    }

    /// Drops a response that is not completely read, which closes it before the next attempt.
    fn release(
        &self,
        result: Result<Response<Buffered<A>>, BoxError>,
    ) -> Option<Result<Response<Buffered<A>>, BoxError>> {
        match result {
            Ok(response) if !response.body().is_whole() => None,
            kept => Some(kept),
        }
    }
}

/// The outcome of a call by its trailers, or by the head of a response that has only a head. `None` without a status.
pub(crate) fn of_trailers(site: &Site, trailers: &HeaderMap) -> Option<Outcome> {
    let code = trailers.get(STATUS)?.to_str().ok().and_then(|text| text.parse().ok());
    Some(match grpc(code.unwrap_or(GrpcCode::Unknown as u32)) {
        Grpc::Status(status) => outcome_of(site, status, trailers, b""),
        // A concurrent change is retryable, and the server may say when to retry.
        Grpc::Class(class) if class.retryable() && trailers.contains_key(PUSHBACK) => {
            Outcome { kind: class.into(), ..outcome_of(site, 503, trailers, b"") }
        }
        Grpc::Class(class) => Outcome::of(class),
    })
}

/// Classifies a status of tonic's.
pub(crate) fn of_status(status: &Status) -> Known {
    // A layer inside has left its judgement with the error (semantics 1.6).
    if let Some(left) = status.source().and_then(<dyn StdError>::downcast_ref::<Left>) {
        return Known::Is(left.finding());
    }
    // A refused connection is UNAVAILABLE too, but nothing of the call was sent.
    let cause = status.source().map(found_in);
    if let Some(Finding::Outcome(outcome)) = &cause
        && outcome.kind == Class::NeverSent.into()
    {
        return Known::Is(Finding::Outcome(*outcome));
    }
    Known::Is(match grpc(status.code() as u32) {
        Grpc::Class(class) => Finding::Outcome(Outcome::of(class)),
        Grpc::Status(http) => {
            let headers = status.metadata().clone().into_headers();
            let pairs =
                headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
            Finding::Status(http, pairs.collect())
        }
    })
}

/// An error of the client's for the call around, with what the layer's call has left about it (semantics 1.6).
#[derive(Debug)]
pub(crate) struct Left {
    error: BoxError,
    report: Report,
}

impl Left {
    /// The finding about the error.
    pub fn finding(&self) -> Finding {
        self.report.found(|| found_in(&*self.error))
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for Left {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.error)
    }
}

/// Converts a call's error to the status that gRPC clients expect. `inside` another call the status says what is left to that.
fn status_of(error: Error<BoxError>, inside: bool) -> Status {
    match error {
        Error::Failed(error, report) if inside && (report.forbids() || report.left.is_some()) => {
            Status::from_error(Box::new(Left { error, report }))
        }
        Error::Failed(error, _) => Status::from_error(error),
        Error::Stopped(ref stopped, _) => {
            let mut status = status_without_cause(stopped);
            status.set_source(Arc::from(error.into_boxed()));
            status
        }
    }
}

/// The status for one of Tidegate's own errors while a response is read.
pub(crate) fn status_while_read(stopped: Stopped) -> Status {
    let mut status = status_without_cause(&stopped);
    status.set_source(Arc::new(stopped));
    status
}

fn status_without_cause(stopped: &Stopped) -> Status {
    let mut status = Status::new(stopped.code.grpc_code(), stopped.to_string());
    if let Some(retry_in) = stopped.retry_in {
        // Rounded up: before that moment another try makes no sense.
        let millis = u64::try_from(retry_in.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
        status.metadata_mut().insert(PUSHBACK, millis.into());
    }
    status
}

impl Code {
    /// The code with which a gRPC server should answer its own caller.
    pub const fn grpc_code(self) -> GrpcCode {
        match self {
            Self::RateLimited | Self::Throttled | Self::CoolingDown | Self::TargetsLimited => {
                GrpcCode::ResourceExhausted
            }
            _ if self.is_timeout() => GrpcCode::DeadlineExceeded,
            Self::CostAboveBurst => GrpcCode::FailedPrecondition,
            Self::CallLost => GrpcCode::Internal,
            _ => GrpcCode::Unavailable,
        }
    }
}

impl From<Stopped> for Status {
    /// Converts the refusal to a response, for servers that call others.
    fn from(stopped: Stopped) -> Self {
        status_while_read(stopped)
    }
}

impl From<Box<Stopped>> for Status {
    /// Converts what `Error::Stopped` holds.
    fn from(stopped: Box<Stopped>) -> Self {
        (*stopped).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(number: u8, remaining: Option<Duration>) -> Attempt {
        Attempt { number, hedge: false, remaining, call: (0, tidegate::CallId::from_word(0)) }
    }

    #[test]
    fn a_timeout_has_at_most_eight_digits_and_never_grows() {
        for (remaining, expected) in [
            (Duration::from_micros(250), "2000u"),
            (Duration::from_millis(250), "251000u"),
            (Duration::from_secs(500), "500001m"),
            (Duration::from_secs(200_000), "200000S"),
            (Duration::MAX, "99999999S"),
        ] {
            let mut headers = HeaderMap::new();
            say(&mut headers, attempt(1, Some(remaining)));
            assert_eq!(headers[TIMEOUT], expected);
            assert!(asked(&headers).is_some());
            say(&mut headers, attempt(3, Some(Duration::MAX)));
            assert_eq!(
                (headers[TIMEOUT].to_str().unwrap(), headers[BEFORE].to_str().unwrap()),
                (expected, "2")
            );
        }
    }

    #[test]
    fn a_requests_own_timeout_leaves_the_policy_time_to_stop_it() {
        let mut headers = HeaderMap::from_iter([(TIMEOUT, HeaderValue::from_static("250m"))]);
        say(&mut headers, attempt(1, Some(Duration::from_millis(250))));
        assert_eq!(headers[TIMEOUT], "251000u");
    }

    #[test]
    fn a_pushback_is_never_shorter_than_the_wait() {
        let report =
            crate::Report { retry_in: Some(Duration::from_micros(1_200)), ..crate::tower::refused() };
        let stopped = Stopped::new("p".into(), "r".into(), report);
        assert_eq!(Status::from(stopped).metadata().get(PUSHBACK).unwrap(), "2");
    }

    #[test]
    fn timeouts_that_cannot_be_read_are_left_out() {
        for (text, expected) in [
            ("1H", Some(Duration::from_hours(1))),
            ("2M", Some(Duration::from_mins(2))),
            ("30n", Some(Duration::from_nanos(30))),
            ("", None),
            ("5", None),
            ("m", None),
            ("123456789m", None),
            ("-1S", None),
            ("1s", None),
        ] {
            let headers = HeaderMap::from_iter([(TIMEOUT, HeaderValue::from_static(text))]);
            assert_eq!(asked(&headers), expected, "{text:?}");
        }
    }
}
