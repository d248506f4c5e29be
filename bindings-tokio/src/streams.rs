//! Timeouts of streams (semantics 7.7): the first piece that counts, and silence between pieces.
//!
//! A piece costs no event, no lock and no timer. The body notes since when a read has waited; when the call's timer fires, it
//! reports for how long, and core decides.

use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Buf;
use http::header::{ACCEPT, CONTENT_ENCODING};
use http::{Extensions, HeaderMap, StatusCode};
use http_body::{Body, Frame};
use tidegate::answer::{EventStream, HELD_AT_MOST, UNCOUNTED};
use tidegate::{Class, Outcome};
use tokio::time::Instant;

use crate::BoxError;
use crate::classify::Finding;
use crate::drain::Buffered;
use crate::listed::found_in;
use crate::policy::Site;

/// Time by which a timer may fire late on a busy machine, besides a quarter of `idle_timeout`.
const SLACK: Duration = Duration::from_millis(100);

/// Whether a request accepts server-sent events, so that its answer is a stream.
pub(crate) fn accepts_events(headers: &HeaderMap) -> bool {
    let events = b"text/event-stream";
    let accepts = |value: &[u8]| value.windows(events.len()).any(|word| word.eq_ignore_ascii_case(events));
    headers.get_all(ACCEPT).iter().any(|value| accepts(value.as_bytes()))
}

/// Whether the good answer to a stream is delivered with its first piece, and not with its head.
pub(crate) fn is_held(status: StatusCode, outcome: Outcome) -> bool {
    outcome.kind == Class::Ok.into() && status != StatusCode::SWITCHING_PROTOCOLS
}

/// The outcome of an answer with a good head whose body broke. It may pass even with an error that is permanent elsewhere.
pub(crate) fn of_broken(error: &BoxError) -> Outcome {
    match found_in(&**error) {
        Finding::Outcome(outcome) if outcome.kind != Class::Permanent.into() => outcome,
        _ => Outcome::of(Class::Transient),
    }
}

/// Which pieces of one body count.
#[derive(Clone)]
struct Pieces {
    /// The reader of events; `None` if each byte counts.
    events: Option<Box<EventStream>>,
}

impl Pieces {
    fn of(site: &Site, headers: &HeaderMap) -> Self {
        // A body with a content coding cannot be read here, so each of its bytes counts.
        let plain =
            headers.get(CONTENT_ENCODING).is_none_or(|it| it.as_bytes().eq_ignore_ascii_case(b"identity"));
        let events = site.policy.counts_events() && plain;
        Self { events: events.then(|| Box::new(EventStream::new(UNCOUNTED))) }
    }

    /// Reads a piece: whether it counts, and the outcome of the failure that it reports.
    #[inline]
    fn read(&mut self, piece: &impl Buf) -> (bool, Option<Outcome>) {
        match &mut self.events {
            None => (piece.has_remaining(), None),
            Some(events) => read_events(events, piece),
        }
    }
}

fn read_events(events: &mut EventStream, piece: &impl Buf) -> (bool, Option<Outcome>) {
    let mut parts = [IoSlice::new(&[]); 16];
    let many = piece.chunks_vectored(&mut parts);
    let (mut counts, mut failure) = (false, None);
    for part in &parts[..many] {
        let said = events.read(part);
        counts |= said.counts;
        failure = said.failure.or(failure);
    }
    let outcome = failure
        .map(|failure| Outcome { retry_after: failure.retry_after, ..Outcome::of(failure.meaning.class()) });
    (counts, outcome)
}

/// Marks a response whose delivery has waited for the first piece that counts.
#[derive(Clone)]
pub(crate) struct Held {
    pieces: Pieces,
    /// Number of frames that have been read of its body.
    frames: usize,
    /// The outcome of a failure that came before the delivery: an event that reports one, or a body that broke.
    pub failure: Option<Outcome>,
}

/// Reads a body up to its first piece that counts, its end, a failure, or 64 kB.
pub(crate) struct Holding<B: Body> {
    body: Option<Buffered<B>>,
    held: Option<Held>,
}

impl<B: Body> Holding<B> {
    pub fn new(site: &Site, headers: &HeaderMap, body: B) -> Self {
        let held = Held { pieces: Pieces::of(site, headers), frames: 0, failure: None };
        Self { body: Some(Buffered::new(body)), held: Some(held) }
    }
}

impl<B: Body + Unpin> Future for Holding<B>
where
    B::Error: Into<BoxError>,
{
    type Output = (Buffered<B>, Held);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let (Some(body), Some(held)) = (&mut this.body, &mut this.held) else { return Poll::Pending };
        loop {
            let Some(frame) = ready!(body.poll_more(cx)) else {
                held.failure = body.failure().map(of_broken);
                break;
            };
            held.frames += 1;
            let (counts, failure) = frame.data_ref().map_or((false, None), |piece| held.pieces.read(piece));
            held.failure = failure;
            if counts || failure.is_some() || body.size() >= HELD_AT_MOST {
                break;
            }
        }
        match (this.body.take(), this.held.take()) {
            (Some(body), Some(held)) => Poll::Ready((body, held)),
            _ => Poll::Pending,
        }
    }
}

/// Watches a delivered body whose silence is bounded, or whose events may report a failure.
pub(crate) struct Watch {
    pieces: Pieces,
    /// Number of frames at the body's beginning that were read before the delivery.
    before: usize,
    /// The longest silence, if it is bounded.
    idle: Option<Duration>,
    /// Time for which reads have waited since the last piece that counts.
    waited: Duration,
    /// Since when the read that waits has waited.
    since: Option<Instant>,
    /// The task that the timer wakes.
    woken: Option<Waker>,
}

impl Watch {
    /// The watch of a response that is delivered; `None` if nothing has to be watched.
    #[inline]
    pub fn of(site: &Site, headers: &HeaderMap, extensions: &mut Extensions) -> Option<Box<Self>> {
        if !site.policy.watches_bodies() {
            return None;
        }
        let (pieces, before) = match extensions.remove::<Held>() {
            Some(held) => (held.pieces, held.frames),
            None => (Pieces::of(site, headers), 0),
        };
        Some(Box::new(Self::new(site, pieces, before)))
    }

    /// The watch of a body of which each byte counts.
    #[cfg(feature = "grpc")]
    pub fn of_bytes(site: &Site) -> Option<Box<Self>> {
        let bounded = site.policy.idle_timeout().is_some();
        bounded.then(|| Box::new(Self::new(site, Pieces { events: None }, 0)))
    }

    fn new(site: &Site, pieces: Pieces, before: usize) -> Self {
        Self {
            pieces,
            before,
            idle: site.policy.idle_timeout(),
            waited: Duration::ZERO,
            since: None,
            woken: None,
        }
    }

    /// Notes a piece that the reader gets now; without a moment the clock is read if it is needed. Returns the outcome of the failure
    /// that the piece reports.
    pub fn piece<D: Buf>(&mut self, frame: &Frame<D>, now: Option<Instant>) -> Option<Outcome> {
        if self.before > 0 {
            self.before -= 1;
            return None;
        }
        let (counts, failure) = self.pieces.read(frame.data_ref()?);
        if counts {
            (self.waited, self.since) = (Duration::ZERO, None);
        } else if let Some(since) = self.since.take() {
            self.waited += now.unwrap_or_else(Instant::now) - since;
        }
        failure
    }

    /// Notes that a read has to wait.
    pub fn waits(&mut self) {
        if self.since.is_none() && self.idle.is_some() {
            self.since = Some(Instant::now());
        }
    }

    /// Whether the timer wakes this task already. Most waits for a piece are short, and need no other registration.
    pub fn is_armed(&self, cx: &Context<'_>) -> bool {
        self.woken.as_ref().is_some_and(|woken| woken.will_wake(cx.waker()))
    }

    /// Notes that the timer wakes this task.
    pub fn arm(&mut self, cx: &Context<'_>) {
        self.woken = Some(cx.waker().clone());
    }

    /// The age of the last piece that counts, when the timer of this moment has fired; `None` if silence is not bounded.
    pub fn age(&mut self, due: Instant) -> Option<Duration> {
        let (idle, now) = (self.idle?, Instant::now());
        // A read that still waits is polled when its timer is due. If nobody has polled the body until long after that, nobody
        // has waited for the server.
        if now.saturating_duration_since(due) > idle / 4 + SLACK {
            self.since = Some(now);
        }
        Some(self.waited + self.since.map_or(Duration::ZERO, |since| now - since))
    }

    /// The age of the last piece that counts where a frame is at hand. How long this read has waited says nothing then, because the
    /// frame may have come at any moment of it.
    pub fn age_at_hand(&self) -> Option<Duration> {
        self.idle.map(|_| self.waited)
    }
}
