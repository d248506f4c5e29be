//! THE automaton: the states of a call, and every way from one to another.
//!
//! [`transitions!`] is the table: from it come the constants that the methods below take, one each, and [`EDGES`], which a
//! test compares with `docs/architecture.md`. The state of a call is written here and nowhere else: [`Standing`] keeps it to itself,
//! and each method sets what its state means. A debug build checks that a call is where a way begins.

use super::arena::{Call, flag};
use crate::action::Verdict;
use crate::time::Time;

/// Where a call stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum State {
    /// The slot is free (or retired).
    Free,
    /// On its way through the stages; never longer than a step.
    Passing,
    /// Held, while a call to a like path waits for its Retry-After.
    Held,
    /// Waiting for tokens of a rate.
    Paced,
    /// Waiting for a permit.
    Queued,
    /// A permit was handed to it; it has not claimed it yet.
    Granted,
    /// Refused while waiting; its owner has not come for the verdict yet.
    Refused,
    /// An attempt runs, or several.
    Running,
    /// Its answer's body is being read.
    Body,
    /// Sleeping out a backoff, or waiting for a stopped attempt to unwind.
    Backoff,
    /// It has ended, but attempts that could not be stopped, or calls within it, are still out.
    Ended,
    /// Given up on, because its host did not report; the next event gets the verdict `lost`.
    Lost,
}

/// A way into a state, from each of a few others.
struct Way {
    from: &'static [State],
    to: State,
}

/// The table: constants for the methods below, and [`EDGES`].
macro_rules! transitions {
    ($($way:ident => $to:ident { $($from:ident: $why:literal),+ $(,)? })+) => {
        $(const $way: Way = Way { from: &[$(State::$from),+], to: State::$to };)+

        /// The transition table: from, to, and what takes a call there. `Free` is before `begin` and after the end; `Passing`
        /// lasts no longer than a step. A debug build checks every step against it, and a test compares
        /// `docs/architecture.md` with it.
        pub const EDGES: &[(&str, &str, &str)] = &[$($((stringify!($from), stringify!($to), $why),)+)+];
    };
}

transitions! {
    BEGIN => Passing {
        Free: "begin",
    }
    HOLD => Held {
        Passing: "a call to a similar path waits for its Retry-After",
    }
    QUEUE_FOR_RATE => Paced {
        Passing: "there are not enough tokens",
    }
    QUEUE => Queued {
        Passing: "all permits are in use",
    }
    GRANT => Granted {
        Queued: "a permit was released (wake)",
    }
    REFUSE => Refused {
        Held: "its deadline had passed when a place came free, or it is forced open (wake)",
        Paced: "its deadline had passed at its turn, the store has no tokens, or it is forced open (wake)",
        Queued: "its patience ended, it was shed or displaced, or it is forced open (wake)",
        Granted: "forced open (wake)",
    }
    PASS => Passing {
        Held: "it has a place (wake)",
        Paced: "it has its tokens (wake)",
    }
    SHARE => Passing {
        Queued: "a call around it has a permit now, which it shares",
    }
    CLAIM => Passing {
        Granted: "its owner has polled and claimed the permit",
    }
    START => Running {
        Passing: "it has passed all stages: the attempt starts",
    }
    READ => Body {
        Running: "the head of a good answer has arrived",
    }
    WAIT => Backoff {
        Running: "the attempt failed, the retry is charged and starts later",
    }
    RETRY => Passing {
        Running: "the attempt failed, and the retry starts at once",
        Backoff: "the wait is over",
    }
    LEAVE => Free {
        Passing: "refused (Done)",
        Held: "deadline or cancel (Done)",
        Paced: "deadline or cancel (Done)",
        Queued: "acquire timeout, deadline or cancel (Done)",
        Granted: "deadline or cancel: the permit is passed on (Done)",
        Refused: "its owner has polled (Done)",
        Running: "it has ended (Done)",
        Body: "read, failed, cancelled or out of time (Done)",
        Backoff: "cancelled, out of time, or a stopped attempt had an answer: the retry is refunded (Done)",
        Ended: "its last attempt or nested call was reported, or 60 s have passed",
        Lost: "its host's next event was answered (Done), or another 60 s have passed",
    }
    LINGER => Ended {
        Passing: "refused (Done), but attempts or nested calls still run",
        Held: "as to Free (Done), but a nested call still runs",
        Paced: "as to Free (Done), but attempts or nested calls still run",
        Queued: "as to Free (Done), but attempts or nested calls still run",
        Granted: "as to Free (Done), but attempts or nested calls still run",
        Refused: "as to Free (Done), but attempts or nested calls still run",
        Running: "it has ended (Done), but attempts or nested calls still run",
        Body: "it has ended (Done), but attempts or nested calls still run",
        Backoff: "as to Free (Done), but attempts or nested calls still run",
        Lost: "its host's next event was answered (Done), but nested calls still run",
    }
    LOSE => Lost {
        Held: "its host has been silent for 60 s",
        Paced: "its host has been silent for 60 s",
        Queued: "its host has been silent for 60 s",
        Granted: "unclaimed for 5 s: the permit is passed on",
        Refused: "its host has been silent for 60 s",
        Running: "overdue by 60 s",
        Body: "overdue by 60 s",
        Backoff: "overdue by 60 s",
    }
}

/// The state of a call, which only the methods of this file change.
#[derive(Clone, Debug)]
pub(super) struct Standing(State);

impl Standing {
    pub const FREE: Self = Self(State::Free);

    #[inline]
    fn take(&mut self, way: &Way) {
        debug_assert!(way.from.contains(&self.0), "no way from {:?} to {:?}", self.0, way.to);
        self.0 = way.to;
    }
}

impl Call {
    #[inline]
    pub fn state(&self) -> State {
        self.standing.0
    }

    /// It begins.
    #[inline]
    pub fn begin(&mut self) {
        self.standing.take(&BEGIN);
    }

    /// It waits until a like path may be asked again.
    pub fn hold(&mut self) {
        self.flags &= !flag::TOKENS;
        self.standing.take(&HOLD);
    }

    /// It waits for tokens, of the send rate or of the rate limit, until `turn` at most.
    pub fn queue_for_rate(&mut self, turn: Time, sending: bool) {
        self.moment = turn;
        self.flags &= !(flag::TOKENS | flag::SENDING);
        self.flags |= if sending { flag::SENDING } else { 0 };
        self.standing.take(&QUEUE_FOR_RATE);
    }

    /// It waits for a permit.
    pub fn queue(&mut self, now: Time) {
        self.moment = now;
        self.standing.take(&QUEUE);
    }

    /// A permit is its own, if its owner comes before `until`.
    pub fn grant(&mut self, until: Time) {
        self.flags |= flag::HOLDS;
        self.moment = until;
        self.standing.take(&GRANT);
    }

    /// It is refused while it waits; another try makes sense from `again` on.
    pub fn turn_away(&mut self, verdict: Verdict, again: Time) {
        self.set_refusal(verdict);
        self.moment = again;
        self.standing.take(&REFUSE);
    }

    /// What it waited for in a stage is there: on through the next ones.
    pub fn pass_on(&mut self) {
        self.standing.take(&PASS);
    }

    /// It needs no permit of its own any more.
    pub fn share(&mut self) {
        self.standing.take(&SHARE);
    }

    /// Its owner has come for the permit.
    pub fn claim(&mut self) {
        self.standing.take(&CLAIM);
    }

    /// Its next attempt starts, which may run until `until`.
    #[inline]
    pub fn start(&mut self, now: Time, until: Time) {
        self.set_since(now);
        self.moment = until;
        self.standing.take(&START);
    }

    /// Its answer's body is read, since `since`.
    pub fn read(&mut self, since: Time) {
        self.set_since(since);
        self.moment = Time::NEVER;
        self.standing.take(&READ);
    }

    /// Its next attempt is later.
    pub fn wait(&mut self) {
        self.standing.take(&WAIT);
    }

    /// On to its next attempt.
    #[inline]
    pub fn retry(&mut self) {
        self.standing.take(&RETRY);
    }

    /// Races go on where a policy has no retries: the stages are not asked again.
    pub fn race_on(&mut self) {
        self.standing.take(&RETRY);
        self.standing.take(&START);
    }

    /// It has ended, and attempts or nested calls are still out. Says nothing new of one that lingers already.
    pub fn linger(&mut self) {
        if self.state() != State::Ended {
            self.standing.take(&LINGER);
        }
    }

    /// It has ended, and nothing of it is out.
    #[inline]
    pub fn leave(&mut self) {
        self.standing.take(&LEAVE);
    }

    /// Its host has not come; its permits are released, and until `until` its next event gets the verdict `lost`.
    pub fn lose(&mut self, until: Time) {
        self.moment = until;
        self.standing.take(&LOSE);
    }

    /// Its slot is free, whatever it did: an engine that forgets its calls, or a call that has left.
    #[inline]
    pub fn forget(&mut self) {
        self.standing = Standing::FREE;
    }
}
