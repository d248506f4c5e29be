//! The rest of a call after its caller has got the head of an answer: the body, and the permit held meanwhile.

use std::ops::Deref;
use std::time::Duration;

use tidegate::{Action, CallId, Class, Event, Outcome, Verdict};
use tokio::time::Instant;

use crate::clock;
use crate::engine::Reply;
#[cfg(feature = "_bodies")]
use crate::error::Report;
use crate::error::Stopped;
use crate::policy::Site;

/// A call whose body is being read: it keeps its permit and its deadline until the body ends.
pub(crate) struct Tail<P: Deref<Target = Site>> {
    pub(super) site: P,
    pub(super) call: CallId,
    pub(super) attempt: u8,
    /// Attempts that the call has made.
    pub(super) attempts: u8,
    /// Whether the call is over, and only the deadline of what is left of a failed answer remains.
    pub(super) over: bool,
    /// The moment at which to ask the engine again.
    pub due: Option<Instant>,
    /// Reads what the answer has used.
    #[cfg(feature = "_bodies")]
    pub meter: Option<Box<crate::usage::Meter>>,
}

#[cfg_attr(not(feature = "_bodies"), expect(dead_code, reason = "only adapters have bodies"))]
impl<P: Deref<Target = Site>> Tail<P> {
    /// The rest of a failed answer, whose call is over. It has to be read by the moment that was the call's deadline.
    #[cfg(feature = "_bodies")]
    #[cold]
    pub fn of_failed(site: P, report: &Report, ends: Instant) -> Option<Self> {
        let (_, call) = report.call?;
        let attempts = report.attempts;
        Some(Self { site, call, attempt: attempts, attempts, over: true, due: Some(ends), meter: None })
    }

    /// The policy and route of the call.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Reports the end of the body to the engine.
    pub fn finish(&mut self, outcome: Outcome) {
        #[cfg(feature = "_bodies")]
        if let (Some(meter), false, true) = (self.meter.take(), self.over, outcome.kind == Class::Ok.into()) {
            meter.settle(&self.site, self.call, self.attempt);
        }
        self.advance(Event::Finished { attempt: self.attempt, outcome });
    }

    /// Reports a failure that the body tells of. Its reader reads the rest, by the call's deadline.
    pub fn fail(&mut self, outcome: Outcome) {
        let ends = if self.over { self.due } else { self.site.shared().end_of(self.call) };
        self.finish(outcome);
        self.due = ends;
    }

    /// Reports to the engine that the timer is due, and the age of the last piece if silence is bounded. Returns an error if
    /// the deadline or the silence ended the call.
    pub fn expire(&mut self, age: Option<Duration>) -> Option<Stopped> {
        if self.over {
            self.due = None;
            return Some(self.late(Verdict::Deadline, None));
        }
        let report = |age| Event::Progress { attempt: self.attempt, age: clock::span(age) };
        let reply = self.advance(age.map_or(Event::Timer, report))?;
        match reply.step.action() {
            Action::Done { verdict: Verdict::Stale, .. } => None,
            Action::Done { verdict, retry_in, .. } => Some(self.late(verdict, retry_in.map(clock::std))),
            _ => None,
        }
    }

    fn late(&self, verdict: Verdict, retry_in: Option<Duration>) -> Stopped {
        self.site.stopped(self.site.report(Some(self.call), self.attempts, verdict, retry_in))
    }

    fn advance(&mut self, event: Event) -> Option<Reply> {
        if self.over {
            return None;
        }
        let shared = self.site.shared();
        let reply = shared.say(self.call, event);
        if reply.others {
            shared.tend();
        }
        self.due = reply.step.next().map(|span| clock::after(reply.at, span));
        if matches!(reply.step.action(), Action::Done { .. }) {
            (self.over, self.due) = (true, None);
        }
        Some(reply)
    }
}

impl<P: Deref<Target = Site>> Drop for Tail<P> {
    /// Counts a body that is dropped early as success: the caller has read as much of it as it wanted.
    fn drop(&mut self) {
        self.finish(Outcome::of(Class::Ok));
    }
}
