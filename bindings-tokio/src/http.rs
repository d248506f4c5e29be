//! The common part of HTTP clients: how a response is classified, and a body that keeps its call live until it has been
//! read.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{CONTENT_ENCODING, HeaderName, HeaderValue};
use http::{Extensions, HeaderMap, Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tidegate::answer::Quotas;
use tidegate::{CallId, Class, Outcome, Verdict, WallTime};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::BoxError;
use crate::engine::random;
use crate::error::{Report, Stopped};
use crate::policy::Site;
use crate::run::Tail;
use crate::streams::{Watch, accepts_events, of_broken};
use crate::{refused, scope};

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const RETRY: HeaderName = HeaderName::from_static("retry-attempt");

/// The outcome of a response under a policy, by its status, its headers, and what has been read of its body. A body in an
/// encoding says nothing: what decodes it comes after the policy.
pub(crate) fn outcome_of(site: &Site, status: u16, headers: &HeaderMap, body: &[u8]) -> Outcome {
    let is_coded = !body.is_empty() && headers.contains_key(CONTENT_ENCODING);
    let body = if is_coded { b"" } else { body };
    let headers = headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    site.outcome_of(status, headers, body)
}

/// The outcome of an answer that a policy inside has judged: it leaves its judgement of a failure that the policy around it repeats,
/// and a failure that it must not repeat is not repeated (semantics 1.6).
#[inline]
pub(crate) fn judged_inside(outcome: Outcome, extensions: &Extensions) -> Outcome {
    match extensions.get::<Report>() {
        Some(report) if report.left.is_some() || outcome.kind != Class::Ok.into() => report.judged(outcome),
        _ => outcome,
    }
}

/// Reports what an answer's headers say is left of the service's quotas, where the policy learns from it.
pub(crate) fn note_quotas(site: &Site, call: CallId, headers: &HeaderMap) {
    if !site.policy.learns() {
        return;
    }
    let pairs: Vec<_> =
        headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())).collect();
    let left = Quotas::read(&pairs, WallTime::from_unix_micros(0)).left();
    site.shared().look(|core, now| core.engine.note_quotas(call, left, now));
}

/// Whether the policy reads why an answer with this status failed.
pub(crate) fn reads(site: &Site, status: StatusCode) -> bool {
    status.as_u16() >= 400 && site.policy.reads_errors()
}

/// Marks a failed answer with the moment by which its body has to have been read.
#[derive(Clone, Copy)]
struct Ends(Instant);

/// Marks a failed answer of which a part is not read yet with its call's deadline. Called within the attempt, because the call is
/// over when its caller gets the answer.
#[cold]
pub(crate) fn bound(site: &Site, extensions: &mut Extensions) {
    if site.request.slot_until_body
        && !site.policy.unbound_once_delivered()
        && let Some(ends) = scope::current(site.shared().number).and_then(|call| site.shared().end_of(call))
    {
        extensions.insert(Ends(ends));
    }
}

/// What bounds the rest of an answer whose call is over; `None` for a good one, and where the call had no deadline.
pub(crate) fn rest(
    site: &Arc<Site>,
    report: &Report,
    extensions: &mut Extensions,
) -> Option<Tail<Arc<Site>>> {
    if report.reason == Verdict::Ok {
        return None;
    }
    let Ends(ends) = extensions.remove()?;
    Tail::of_failed(Arc::clone(site), report, ends)
}

/// Puts `x-should-retry: false` into the last failed response of a call whose policy reads errors, for those who would repeat
/// the call. One that a call around this one may repeat says nothing (semantics 1.6.2); a status that it must not repeat is left
/// for it (semantics 1.6.7).
pub(crate) fn last(reads: bool, report: &Report, status: StatusCode, headers: &mut HeaderMap) {
    if reads && report.reason != Verdict::Nested {
        headers.insert(HeaderName::from_static("x-should-retry"), HeaderValue::from_static("false"));
    }
    if report.forbids() && status.as_u16() >= 400 {
        refused::leave(status.as_u16());
    }
}

/// Settings for all requests of an adapter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Says {
    pub idempotent: Option<bool>,
    pub stream: Option<bool>,
    pub retry_header: bool,
    pub make_key: bool,
}

impl Says {
    /// The default settings.
    pub const fn new() -> Self {
        Self { idempotent: None, stream: None, retry_header: true, make_key: false }
    }

    /// Whether a request has an idempotency key or will get one.
    #[cfg(feature = "http")]
    pub fn keyed(self, headers: &HeaderMap) -> bool {
        self.make_key || headers.contains_key(KEY)
    }

    /// Whether the answer to a request of this policy has a timeout for its first piece.
    #[inline]
    pub fn streams(self, site: &Site, headers: &HeaderMap) -> bool {
        site.policy.bounds_first_byte() && self.stream.unwrap_or_else(|| accepts_events(headers))
    }

    /// Whether the body of a request may say that its answer is a stream.
    #[cfg(feature = "reqwest")]
    pub fn may_ask(self, site: &Site, method: &Method) -> bool {
        site.policy.bounds_first_byte() && self.stream.is_none() && *method == Method::POST
    }

    /// The site of a request's call, without its route. Gives the request its idempotency key if it needs one.
    pub fn site(self, site: &Site, method: &Method, headers: &mut HeaderMap) -> Site {
        let mut site = site.clone();
        if self.make_key && !headers.contains_key(KEY) {
            // 128 random bits make a key that no other request has. Hexadecimal digits are valid in a header.
            if let Ok(key) = HeaderValue::from_str(&format!("{:016x}{:016x}", random(), random())) {
                headers.insert(KEY, key);
            }
        }
        // A caller that says that a repeat does harm is right whatever the method.
        let may = || headers.contains_key(KEY) || site.retries_method(method.as_str());
        let may = || site.request.idempotent && may();
        site.request.idempotent = self.idempotent.unwrap_or_else(may);
        site.request.slot_until_body = site.policy.slot_until_body();
        site.request.stream = self.streams(&site, headers);
        site
    }

    /// Numbers a repeat.
    pub fn number(self, headers: &mut HeaderMap, attempt: u8) {
        if self.retry_header && attempt > 1 {
            headers.insert(RETRY, HeaderValue::from(u16::from(attempt - 1)));
        }
    }
}

/// Whether a response with this status and length has a body to read, if its request was not a HEAD.
pub(crate) fn has_body(status: StatusCode, length: Option<u64>) -> bool {
    let none = [StatusCode::SWITCHING_PROTOCOLS, StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED];
    !none.contains(&status) && length != Some(0)
}

/// A tracing span for a repeated request. First attempts have none.
#[cfg(feature = "tracing")]
pub(crate) fn repeat_span(attempt: u8) -> tracing::Span {
    match attempt {
        0 | 1 => tracing::Span::none(),
        _ => tracing::info_span!(target: "tidegate", "repeat", http.request.resend_count = attempt - 1),
    }
}

pin_project! {
    /// A body that keeps its call's slot and deadline until it has been read to its end, has failed, or is dropped. If its policy
    /// has an `idle_timeout`, a read that waits for too long ends it with [`Code::StreamStalled`](crate::Code::StreamStalled).
    pub struct GuardedBody<B> {
        #[pin]
        inner: Option<B>,
        tail: Option<Tail<Arc<Site>>>,
        watch: Option<Box<Watch>>,
        // Whether trailers decide the outcome and Tidegate's own errors become a status.
        grpc: bool,
        // Frames that the reader has got since the clock was read, at least 1 after the first.
        frames: u8,
        // Behind a pointer, because responses are moved, and few bodies have to wait.
        sleep: Option<Pin<Box<Sleep>>>,
    }
}

impl<B> GuardedBody<B> {
    /// The body of a response under a watch.
    pub(crate) fn watched(inner: B, tail: Option<Tail<Arc<Site>>>, watch: Option<Box<Watch>>) -> Self {
        Self { inner: Some(inner), tail, watch, grpc: false, frames: 0, sleep: None }
    }

    /// The body of a gRPC call, whose trailers decide.
    #[cfg(feature = "grpc")]
    pub(crate) fn of_grpc(inner: B, tail: Option<Tail<Arc<Site>>>) -> Self {
        let watch = tail.as_ref().and_then(|tail| Watch::of_bytes(tail.site()));
        Self { grpc: true, ..Self::watched(inner, tail, watch) }
    }
}

/// After so many frames a body reads the clock, even if its timer says that nothing is due.
const LOOKS: u8 = 8;

/// Whether to read the clock for a frame that is at hand: not for the first one, and not for each of those that follow while a timer tells of
/// the moment. The runtime turns its timers whenever a task waits; a reader that blocks its thread gets at most [`LOOKS`] frames too many.
#[inline]
fn looks(frames: &mut u8, sleep: Option<&Pin<Box<Sleep>>>, due: Instant) -> bool {
    let frame = *frames;
    *frames = if frame == LOOKS { 1 } else { frame + 1 };
    let told = sleep.is_some_and(|sleep| sleep.deadline() == due && !sleep.is_elapsed());
    frame > 0 && (frame == LOOKS || !told)
}

/// Tidegate's own error as the reader of a body gets it.
#[cold]
fn ended(grpc: bool, stopped: Stopped) -> BoxError {
    #[cfg(feature = "grpc")]
    if grpc {
        return crate::grpc::status_while_read(stopped).into();
    }
    let _ = grpc;
    stopped.into()
}

impl<B> Body for GuardedBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let mut this = self.project();
        let Some(inner) = this.inner.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        match inner.poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                // A body that always has a frame ready, because its reader is slow, never waits for its timer.
                let due = this.tail.as_ref().and_then(|tail| tail.due);
                let now =
                    due.filter(|due| looks(this.frames, this.sleep.as_ref(), *due)).map(|_| Instant::now());
                if now.is_some()
                    && now >= due
                    && let Some(tail) = this.tail
                    && let Some(stopped) =
                        tail.expire(this.watch.as_ref().and_then(|watch| watch.age_at_hand()))
                {
                    this.inner.set(None);
                    return Poll::Ready(Some(Err(ended(*this.grpc, stopped))));
                }
                if let Some(watch) = this.watch
                    && let Some(outcome) = watch.piece(&frame, now)
                    && let Some(tail) = this.tail
                {
                    tail.fail(outcome); // a failed body, which its reader reads to its end
                }
                if let Some(meter) = this.tail.as_mut().and_then(|tail| tail.meter.as_mut()) {
                    meter.read(&frame);
                    if this.inner.as_ref().as_pin_ref().is_some_and(|inner| inner.is_end_stream()) {
                        meter.end(); // some readers do not ask again
                    }
                }
                #[cfg(feature = "grpc")]
                if let (true, Some(tail), Some(trailers)) = (*this.grpc, this.tail, frame.trailers_ref())
                    && let Some(outcome) = crate::grpc::of_trailers(tail.site(), trailers)
                {
                    tail.finish(outcome);
                }
                return Poll::Ready(Some(Ok(frame)));
            }
            Poll::Ready(Some(Err(error))) => {
                let error = error.into();
                if let Some(tail) = this.tail {
                    tail.finish(of_broken(&error));
                }
                this.inner.set(None);
                return Poll::Ready(Some(Err(error)));
            }
            Poll::Ready(None) => {
                if let Some(tail) = this.tail {
                    if let Some(meter) = &mut tail.meter {
                        meter.end();
                    }
                    tail.finish(Outcome::of(Class::Ok));
                }
                this.inner.set(None);
                return Poll::Ready(None);
            }
            Poll::Pending => {}
        }
        if let Some(watch) = this.watch {
            watch.waits();
            let due = this.tail.as_ref().and_then(|tail| tail.due);
            if let Some(sleep) = this.sleep
                && watch.is_armed(cx)
                && due == Some(sleep.deadline())
                && !sleep.is_elapsed()
            {
                return Poll::Pending;
            }
        }
        while let Some(tail) = this.tail
            && let Some(due) = tail.due
        {
            let sleep = this.sleep.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if sleep.deadline() != due {
                sleep.as_mut().reset(due);
            }
            if sleep.as_mut().poll(cx).is_pending() {
                if let Some(watch) = this.watch {
                    watch.arm(cx);
                }
                break;
            }
            let age = this.watch.as_mut().and_then(|watch| watch.age(due));
            if let Some(stopped) = tail.expire(age) {
                this.inner.set(None);
                return Poll::Ready(Some(Err(ended(*this.grpc, stopped))));
            }
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<B> fmt::Debug for GuardedBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedBody").finish_non_exhaustive()
    }
}
