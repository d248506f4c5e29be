//! Answers that are broken on the wire, below the level at which an HTTP server works.

use crate::provider::PacedBody;
use crate::script::Dist;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::HeaderMap;
use hyper::{StatusCode, Version};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use socket2::SockRef;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// The end of a connection after hyper has released it.
#[derive(Debug)]
pub(crate) struct Exit {
    /// Bytes that are written first, unchanged.
    pub bytes: Vec<u8>,
    /// RST instead of FIN.
    pub reset: bool,
}

/// The slot in which a request leaves the exit for its connection: hyper passes errors on by reference only.
#[derive(Clone, Default)]
pub(crate) struct ExitSlot(Arc<Mutex<Option<Exit>>>);

impl ExitSlot {
    /// Stores `exit` and makes the error that stops hyper.
    pub(crate) fn leave(&self, exit: Exit) -> Ended {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(exit);
        Ended
    }

    pub(crate) fn take(&self) -> Option<Exit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Tells hyper to write nothing and to give up the connection.
#[derive(Debug)]
pub(crate) struct Ended;

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the script ends this connection")
    }
}

impl std::error::Error for Ended {}

impl Exit {
    pub(crate) fn reset() -> Self {
        Self { bytes: Vec::new(), reset: true }
    }

    pub(crate) fn close() -> Self {
        Self { bytes: Vec::new(), reset: false }
    }

    pub(crate) fn garbage() -> Self {
        Self { bytes: b"\x00\xfe\xffthis is not HTTP\r\n\r\n".to_vec(), reset: false }
    }

    /// A head that promises all of `body`, and `sent` bytes of it.
    pub(crate) fn partial(
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        sent: usize,
        reset: bool,
    ) -> Self {
        let mut bytes =
            format!("{:?} {status}\r\ncontent-length: {}\r\n", Version::HTTP_11, body.len()).into_bytes();
        for (name, value) in headers {
            bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        bytes.extend(b"\r\n");
        bytes.extend(&body[..sent]);
        Self { bytes, reset }
    }

    /// Ends the connection. Errors mean that the client closed it first, which ends it as well.
    pub(crate) async fn play(self, mut stream: TcpStream) {
        let written = stream.write_all(&self.bytes).await;
        if self.reset {
            if written.is_ok() && !self.bytes.is_empty() {
                // On some systems a reset overtakes data that the client has not read yet.
                sleep(Duration::from_millis(5)).await;
            }
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        } else {
            // Closing with unread bytes would send an RST after the FIN.
            let mut rest = [0; 4096];
            while stream.try_read(&mut rest).is_ok_and(|n| n > 0) {}
            let _ = stream.shutdown().await;
        }
    }
}

/// The body of an answer.
pub(crate) enum AnswerBody {
    Whole(Bytes),
    Slow(SlowBody),
    Paced(Box<PacedBody>),
}

/// A body sent in small pieces with a pause before each.
pub(crate) struct SlowBody {
    rest: Bytes,
    chunk_bytes: usize,
    every: Dist,
    rng: Xoshiro256PlusPlus,
    pause: Pin<Box<Sleep>>,
}

impl SlowBody {
    pub(crate) fn new(body: Bytes, chunk_bytes: usize, every: Dist, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let pause = Box::pin(sleep(every.draw(&mut rng)));
        Self { rest: body, chunk_bytes, every, rng, pause }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Ended;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Ended>>> {
        let piece = match self.get_mut() {
            Self::Paced(paced) => return paced.poll(cx),
            Self::Whole(body) => std::mem::take(body),
            Self::Slow(slow) if slow.rest.is_empty() => Bytes::new(),
            Self::Slow(slow) => {
                if slow.pause.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                let pause = slow.every.draw(&mut slow.rng);
                slow.pause.as_mut().reset(Instant::now() + pause);
                slow.rest.split_to(slow.chunk_bytes.min(slow.rest.len()))
            }
        };
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(rest) | Self::Slow(SlowBody { rest, .. }) => rest.is_empty(),
            Self::Paced(_) => false, // its end is recorded when it is read
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(rest) | Self::Slow(SlowBody { rest, .. }) => SizeHint::with_exact(rest.len() as u64),
            Self::Paced(_) => SizeHint::default(),
        }
    }
}

/// Sleeps unless the span is zero, because a timer costs at least a millisecond.
pub(crate) async fn pause(span: Duration) {
    if !span.is_zero() {
        sleep_until(Instant::now() + span).await;
    }
}
