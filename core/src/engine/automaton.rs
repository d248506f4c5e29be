//! The automaton: the states of a call, and all transitions between them.
//!
//! `transitions!` is the table. It generates the constants that the methods below take, one each, and [`EDGES`],
//! which a test compares with `docs/architecture.md`. Only this file writes the state of a call: [`Standing`] keeps
//! it private, and each method sets the fields that its state uses. A debug build checks that a call is in a state
//! where the transition may begin.

use super::arena::{Call, flag};
use crate::action::Verdict;
use crate::time::Time;

/// State of a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum State {
    /// The slot is free (or retired).
    Free,
    /// In the stages; never longer than a step.
    Passing,
    /// Held while a call to a similar path waits for its Retry-After, while the route cools down, or until a target admits
    /// it.
    Held,
    /// Waiting for tokens of a rate.
    Paced,
    /// Waiting for a permit.
    Queued,
    /// A permit was granted to it; it has not claimed it yet.
    Granted,
    /// Refused while waiting; its owner has not collected the verdict yet.
    Refused,
    /// One or several attempts run.
    Running,
    /// Its answer's body is being read.
    Body,
    /// In a backoff, or waiting for a stopped attempt to unwind.
    Backoff,
    /// It has ended, but attempts that could not be stopped, or nested calls, are still running.
    Ended,
    /// Abandoned, because its host did not report; the next event gets the verdict `lost`.
    Lost,
}

/// Transitions into a state, from each of a few others.
struct Way {
    from: &'static [State],
    to: State,
}

/// The table: constants for the methods below, and [`EDGES`].
macro_rules! transitions {
    ($($way:ident => $to:ident { $($from:ident: $why:literal),+ $(,)? })+) => {
        $(const $way: Way = Way { from: &[$(State::$from),+], to: State::$to };)+

        /// The transition table: from, to, and the cause. `Free` is the state before `begin` and after the end;
        /// `Passing` lasts no longer than a step. A debug build checks every step against it, and a test compares
        /// `docs/architecture.md` with it.
        pub const EDGES: &[(&str, &str, &str)] = &[$($((stringify!($from), stringify!($to), $why),)+)+];
    };
}

transitions! {
    BEGIN => Passing {
        Free: "begin",
    }
    HOLD => Held {
        Passing: "a call to a similar path waits for its Retry-After, the route cools down, or no target admits it",
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
        Held: "its deadline or its own wait was over when its turn came, or it is forced open (wake)",
        Paced: "its deadline had passed at its turn, the store has no tokens, or it is forced open (wake)",
        Queued: "its patience ended, it was shed or displaced, or it is forced open (wake)",
        Granted: "forced open (wake)",
    }
    PASS => Passing {
        Held: "it has a place or a target (wake)",
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

/// The state of a call; only the methods of this file change it.
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

    /// Begins a call.
    #[inline]
    pub fn begin(&mut self) {
        self.standing.take(&BEGIN);
    }

    /// Holds it until a similar path may be called again.
    pub fn hold(&mut self) {
        self.flags &= !flag::TOKENS;
        self.standing.take(&HOLD);
    }

    /// Queues it for tokens, of the send rate or of the rate limit, until `turn` at most.
    pub fn queue_for_rate(&mut self, turn: Time, sending: bool) {
        self.moment = turn;
        self.flags &= !(flag::TOKENS | flag::SENDING);
        self.flags |= if sending { flag::SENDING } else { 0 };
        self.standing.take(&QUEUE_FOR_RATE);
    }

    /// Queues it for a permit.
    pub fn queue(&mut self, now: Time) {
        self.moment = now;
        self.standing.take(&QUEUE);
    }

    /// Grants it a permit, which its owner must claim before `until`.
    pub fn grant(&mut self, until: Time) {
        self.flags |= flag::HOLDS;
        self.moment = until;
        self.standing.take(&GRANT);
    }

    /// Refuses it while it waits.
    pub fn turn_away(&mut self, verdict: Verdict, now: Time) {
        self.set_refusal(verdict);
        self.moment = now;
        self.standing.take(&REFUSE);
    }

    /// Moves it on to the next stages, because it has got what it waited for.
    pub fn pass_on(&mut self) {
        self.standing.take(&PASS);
    }

    /// Moves it on without a permit of its own, because it shares one.
    pub fn share(&mut self) {
        self.standing.take(&SHARE);
    }

    /// Claims the granted permit.
    pub fn claim(&mut self) {
        self.standing.take(&CLAIM);
    }

    /// Starts its next attempt, which may run until `until`.
    #[inline]
    pub fn start(&mut self, now: Time, until: Time) {
        self.set_since(now);
        self.moment = until;
        self.standing.take(&START);
    }

    /// Begins reading its answer's body; the attempt runs since `since`.
    pub fn read(&mut self, since: Time) {
        self.set_since(since);
        self.moment = Time::NEVER;
        self.standing.take(&READ);
    }

    /// Makes it wait for its next attempt.
    pub fn wait(&mut self) {
        self.standing.take(&WAIT);
    }

    /// Takes it to its next attempt.
    #[inline]
    pub fn retry(&mut self) {
        self.standing.take(&RETRY);
    }

    /// Continues a race of a policy without retries; the stages are not asked again.
    pub fn race_on(&mut self) {
        self.standing.take(&RETRY);
        self.standing.take(&START);
    }

    /// Marks it as ended while attempts or nested calls are still running. Changes nothing for a call that lingers
    /// already.
    pub fn linger(&mut self) {
        if self.state() != State::Ended {
            self.standing.take(&LINGER);
        }
    }

    /// Marks it as ended, with nothing of it running.
    #[inline]
    pub fn leave(&mut self) {
        self.standing.take(&LEAVE);
    }

    /// Marks it as lost, because its host has not reported. Its permits are released, and until `until` its next
    /// event gets the verdict `lost`.
    pub fn lose(&mut self, until: Time) {
        self.moment = until;
        self.standing.take(&LOSE);
    }

    /// Frees its slot from any state: the engine forgets its calls, or the call has left.
    #[inline]
    pub fn forget(&mut self) {
        self.standing = Standing::FREE;
    }
}
