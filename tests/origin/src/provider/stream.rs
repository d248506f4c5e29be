//! A body that is sent piece by piece, with pings between, and an end of its own.

use super::Till;
use crate::fault::{Ended, Exit, ExitSlot};
use crate::stats::Pending;
use hyper::body::{Bytes, Frame};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// A part of a body, the pause before it, and how many tokens of output it has.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub bytes: Bytes,
    pub pause: Duration,
    pub tokens: u64,
}

impl Piece {
    /// A piece without a token, at once.
    pub(crate) fn plain(bytes: Bytes) -> Self {
        Self { bytes, pause: Duration::ZERO, tokens: 0 }
    }
}

/// How a body ends after its pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// As HTTP wants it.
    Whole,
    /// Never; pings go on.
    Stall,
    /// The connection is reset.
    Reset,
    /// The connection is closed before the end of the body.
    Close,
}

/// The time between the last piece and a break, so that what was sent arrives before it.
const BEFORE_BREAK: Duration = Duration::from_millis(5);

/// The body of a provider's answer.
pub(crate) struct PacedBody {
    pieces: VecDeque<Piece>,
    ending: Ending,
    ping: Option<(Duration, Bytes)>,
    /// When the next piece is due.
    due: Option<Instant>,
    last_sent: Instant,
    /// Whether what was sent ends between two events: a ping inside one would be part of it.
    between: bool,
    timer: Pin<Box<Sleep>>,
    exit: ExitSlot,
    till: Till,
    pending: Option<Pending>,
    fault: Option<&'static str>,
    status: u16,
}

impl PacedBody {
    pub(crate) fn new(reply: super::Reply, till: Till, pending: Pending, exit: ExitSlot) -> Self {
        let now = Instant::now();
        Self {
            pieces: reply.pieces.into(),
            ending: reply.ending,
            ping: reply.ping,
            due: None,
            last_sent: now,
            between: true,
            timer: Box::pin(sleep_until(now)),
            exit,
            till,
            pending: Some(pending),
            fault: reply.fault,
            status: reply.status,
        }
    }

    /// Records how the answer ended.
    fn close(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        match self.fault {
            Some(fault) => pending.faulted(fault, Some(self.status)),
            None => pending.answered(self.status),
        }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Ended>>> {
        if self.pieces.is_empty() && self.ending == Ending::Whole {
            self.close();
            return Poll::Ready(None);
        }
        let now = Instant::now();
        let pause = self.pieces.front().map(|piece| piece.pause);
        let due = match (pause, self.ending) {
            (None, Ending::Stall) => {
                // The fault is complete; what is left of the request is its client's patience.
                self.close();
                None
            }
            (pause, _) => Some(*self.due.get_or_insert(now + pause.unwrap_or(BEFORE_BREAK))),
        };
        if due.is_some_and(|due| due <= now) {
            self.due = None;
            self.last_sent = now;
            let Some(piece) = self.pieces.pop_front() else {
                self.close();
                let reset = self.ending == Ending::Reset;
                let exit = if reset { Exit::reset() } else { Exit::close() };
                return Poll::Ready(Some(Err(self.exit.leave(exit))));
            };
            self.between = piece.bytes.ends_with(b"\n\n") || piece.bytes.ends_with(b"\r\n\r\n");
            self.till.sent(piece.tokens);
            return Poll::Ready(Some(Ok(Frame::data(piece.bytes))));
        }
        let ping_due = self.ping.as_ref().filter(|_| self.between).map(|(every, _)| self.last_sent + *every);
        if let Some((ping, bytes)) = ping_due.zip(self.ping.as_ref().map(|(_, bytes)| bytes.clone()))
            && ping <= now
        {
            self.last_sent = now;
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let Some(next) = due.into_iter().chain(ping_due).min() else { return Poll::Pending };
        self.timer.as_mut().reset(next);
        match self.timer.as_mut().poll(cx) {
            Poll::Ready(()) => {
                cx.waker().wake_by_ref(); // the moment passed between the reading of the clock and the timer
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
