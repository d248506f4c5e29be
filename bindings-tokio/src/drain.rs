//! Reads the body of a small failed response before the next attempt, which keeps its connection and the response.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tidegate::answer::{READ_AT_MOST, READ_FOR};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::BoxError;
use crate::clock;

/// The largest body that is read to its end, in bytes: as much as core looks at.
const MOST: usize = READ_AT_MOST;
/// The longest time that reading it may take.
const TIME: Duration = Duration::from_millis(500);
/// The longest time that reading the beginning of a failed response may take, where the policy reads why it failed.
const BEGINNING: Duration = clock::std(READ_FOR);

/// Number of empty frames that are read at once.
const EMPTY: u32 = 64;

/// A body, of which some frames may have been read already.
pub struct Buffered<B: Body> {
    rest: Option<B>,
    /// What has been read and not delivered. Behind a pointer, because responses are moved, and of few something has been read.
    read: Option<Box<Beginning<B::Data>>>,
}

/// The beginning of a body.
struct Beginning<D> {
    frames: VecDeque<Frame<D>>,
    size: usize,
    /// The error with which reading has ended.
    error: Option<BoxError>,
}

impl<D> Default for Beginning<D> {
    fn default() -> Self {
        Self { frames: VecDeque::new(), size: 0, error: None }
    }
}

impl<D: Buf> Beginning<D> {
    fn keep(&mut self, frame: Frame<D>) {
        self.size += frame.data_ref().map_or(0, Buf::remaining);
        self.frames.push_back(frame);
    }
}

impl<B: Body> Buffered<B> {
    /// A body of which nothing has been read yet.
    pub(crate) fn new(body: B) -> Self {
        Self { rest: Some(body), read: None }
    }

    /// Whether the body has been read completely.
    pub(crate) fn is_whole(&self) -> bool {
        self.rest.is_none()
    }

    /// Number of bytes that have been read and not delivered.
    pub(crate) fn size(&self) -> usize {
        self.read.as_ref().map_or(0, |read| read.size)
    }

    /// The error with which reading has ended.
    pub(crate) fn failure(&self) -> Option<&BoxError> {
        self.read.as_ref()?.error.as_ref()
    }

    /// The data that has been read of a body; the reader of the body gets it too.
    pub(crate) fn beginning(&self) -> Vec<u8> {
        let data = self.read.iter().flat_map(|read| &read.frames).filter_map(Frame::data_ref);
        data.flat_map(Buf::chunk).copied().take(MOST).collect()
    }
}

#[cfg(feature = "grpc")]
impl<B: Body> Buffered<B> {
    /// The trailers, if they have been read.
    pub(crate) fn trailers(&self) -> Option<&http::HeaderMap> {
        self.read.as_ref()?.frames.back()?.trailers_ref()
    }

    /// The data, if the body is complete and consists of data only; otherwise the body unchanged.
    pub(crate) fn into_whole(self) -> Result<VecDeque<B::Data>, Self> {
        let whole = self.is_whole() && self.failure().is_none();
        if !whole || !self.read.iter().flat_map(|read| &read.frames).all(Frame::is_data) {
            return Err(self);
        }
        let frames = self.read.into_iter().flat_map(|read| read.frames);
        Ok(frames.filter_map(|frame| frame.into_data().ok()).collect())
    }
}

#[cfg(feature = "grpc")]
impl<B: Body + Unpin> Buffered<B>
where
    B::Error: Into<BoxError>,
{
    /// Reads the first frame if it is available, without waiting.
    pub(crate) fn peek(&mut self) {
        let Some(rest) = &mut self.rest else { return };
        // The next reader registers its own waker.
        match Pin::new(&mut *rest).poll_frame(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(Some(Ok(frame))) => {
                let last = frame.is_trailers() || rest.is_end_stream();
                self.read.get_or_insert_default().keep(frame);
                if last {
                    self.rest = None;
                }
            }
            Poll::Ready(Some(Err(error))) => {
                self.read.get_or_insert_default().error = Some(error.into());
                self.rest = None;
            }
            Poll::Ready(None) => self.rest = None,
            Poll::Pending => {}
        }
    }
}

impl<B: Body + Unpin> Buffered<B>
where
    B::Error: Into<BoxError>,
{
    /// Reads one more frame that is not empty, and keeps it. `None` once the body has ended or failed.
    pub(crate) fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Option<&Frame<B::Data>>> {
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let mut empty = 0;
        let next = loop {
            match ready!(Pin::new(&mut *rest).poll_frame(cx)) {
                // Says nothing, so a server may send any number of them. Other tasks and timers have their turn in between.
                Some(Ok(frame)) if frame.data_ref().is_some_and(|data| !data.has_remaining()) => {
                    empty += 1;
                    if empty == EMPTY {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
                next => break next,
            }
        };
        match next {
            Some(Ok(frame)) => {
                let read = self.read.get_or_insert_default();
                read.keep(frame);
                return Poll::Ready(read.frames.back());
            }
            // Keeps the frames before the error; the body's reader gets the error after them.
            Some(Err(error)) => self.read.get_or_insert_default().error = Some(error.into()),
            None => {}
        }
        self.rest = None;
        Poll::Ready(None)
    }

    /// Continues reading until the body is complete or too large.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.rest.is_some() && self.size() <= MOST {
            ready!(self.poll_more(cx));
        }
        Poll::Ready(())
    }
}

// The inner body is polled through `Pin::new`, and frames that have been read are never pinned.
impl<B: Body + Unpin> Unpin for Buffered<B> {}

impl<B: Body + Unpin> Body for Buffered<B>
where
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = &mut *self;
        if let Some(read) = &mut this.read {
            if let Some(frame) = read.frames.pop_front() {
                read.size -= frame.data_ref().map_or(0, Buf::remaining);
                return Poll::Ready(Some(Ok(frame)));
            }
            let error = read.error.take();
            this.read = None;
            if let Some(error) = error {
                return Poll::Ready(Some(Err(error)));
            }
        }
        match &mut this.rest {
            Some(rest) => Pin::new(rest).poll_frame(cx).map_err(Into::into),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        let delivered = self.read.as_ref().is_none_or(|read| read.frames.is_empty() && read.error.is_none());
        delivered && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let here = self.size() as u64;
        match &self.rest {
            None if self.failure().is_none() => SizeHint::with_exact(here),
            None => SizeHint::new(),
            Some(rest) => {
                // The upper bound first: `SizeHint` panics if the lower bound exceeds it.
                let (of, mut hint) = (rest.size_hint(), SizeHint::new());
                if let Some(upper) = of.upper() {
                    hint.set_upper(upper.saturating_add(here));
                }
                hint.set_lower(of.lower().saturating_add(here));
                hint
            }
        }
    }
}

impl<B: Body> fmt::Debug for Buffered<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffered").field("size", &self.size()).finish_non_exhaustive()
    }
}

pin_project! {
    /// Reads a small body to its end. A body that is larger or slow is left partly read.
    pub(crate) struct Draining<B: Body> {
        body: Option<Buffered<B>>,
        // Whether a body that says that it is large is read too, up to `MOST`.
        large: bool,
        until: Instant,
        #[pin]
        sleep: Option<Sleep>,
    }
}

impl<B: Body> Draining<B> {
    pub fn new(body: B) -> Self {
        Self { body: Some(Buffered::new(body)), large: false, until: Instant::now() + TIME, sleep: None }
    }

    /// Reads the beginning of a body of any size.
    pub fn beginning(body: B) -> Self {
        Self { large: true, until: Instant::now() + BEGINNING, ..Self::new(body) }
    }
}

impl<B: Body + Unpin> Future for Draining<B>
where
    B::Error: Into<BoxError>,
{
    type Output = Buffered<B>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let body = this.body.as_mut().expect("polled until its end");
        let large =
            !*this.large && body.rest.as_ref().is_some_and(|rest| rest.size_hint().lower() > MOST as u64);
        if !large && body.poll_read(cx).is_pending() {
            if this.sleep.is_none() {
                this.sleep.set(Some(sleep_until(*this.until)));
            }
            if this.sleep.as_pin_mut().is_some_and(|sleep| sleep.poll(cx).is_pending()) {
                return Poll::Pending;
            }
        }
        Poll::Ready(this.body.take().expect("it was there"))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::task::Waker;

    use bytes::Bytes;

    use super::*;

    /// A body of empty frames, with one byte after so many of them.
    struct Sparse(u32);

    impl Body for Sparse {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0 = self.0.wrapping_sub(1);
            let data = if self.0 == 0 { Bytes::from_static(b"x") } else { Bytes::new() };
            Poll::Ready(Some(Ok(Frame::data(data))))
        }
    }

    #[test]
    fn empty_frames_are_not_kept_and_let_others_have_their_turn() {
        let mut body = Buffered::new(Sparse(EMPTY * 3 + 1));
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(body.poll_more(&mut cx).is_pending());
            assert!(body.read.is_none());
        }
        assert!(matches!(body.poll_more(&mut cx), Poll::Ready(Some(_))));
        assert_eq!(body.beginning(), b"x");
        assert_eq!(body.read.unwrap().frames.len(), 1);
    }
}
