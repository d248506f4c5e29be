//! THE automaton: what becomes of a call, event by event. The transition table is [`EDGES`].
//!
//! Every event ends with the evaluation that a `Poll` makes (R3), so a `Poll` at the same instant changes nothing.
//! The order of a retry decision (R5) stands in [`Engine::decide`].

use super::Engine;
use super::arena::{Call, NONE, State, flag};
use super::ledger::Charge;
use super::queue::{Permit, patience};
use crate::action::{Action, CallId, Event, Flags, Lane, Request, RouteId, Step, Verdict, Wait};
use crate::outcome::{Class, Opinion, Outcome};
use crate::retry::wait_before_retry;
use crate::rng;
use crate::time::{Duration, Time};

/// The longest sleep of a parked call: a lost wake costs a second, not a call (R4).
const MAX_PARK: Duration = Duration::from_secs(1);
/// How long a stopped attempt may take to unwind, and how long a host may be late, before we go on without it (R9, R12).
pub(super) const GRACE: Duration = Duration::from_secs(60);

/// The transition table: from, to, and what takes a call there. `Free` is before `begin` and after the end.
/// A debug build checks every step against it, and a test draws it (`docs/architecture.md`).
#[rustfmt::skip]
pub const EDGES: &[(&str, &str, &str)] = &[
    ("Free",    "Running", "begin: admitted"),
    ("Free",    "Queued",  "begin: all permits are out"),
    ("Free",    "Free",    "begin: refused (Done)"),
    ("Queued",  "Granted", "a permit came free (wake)"),
    ("Queued",  "Refused", "its patience had ended when a permit came free (wake)"),
    ("Queued",  "Free",    "acquire timeout, deadline or cancel (Done)"),
    ("Queued",  "Ended",   "the same, while a nested call is out"),
    ("Queued",  "Lost",    "its host has not come for 60 s"),
    ("Granted", "Running", "claimed"),
    ("Granted", "Free",    "deadline or cancel: the permit goes on (Done)"),
    ("Granted", "Ended",   "the same, while a nested call is out"),
    ("Granted", "Lost",    "unclaimed for 5 s: the permit goes on"),
    ("Refused", "Free",    "its owner came (Done)"),
    ("Refused", "Ended",   "the same, while a nested call is out"),
    ("Refused", "Lost",    "its host has not come for 60 s"),
    ("Running", "Body",    "the head of a good answer"),
    ("Running", "Running", "failed, and the next attempt starts at once"),
    ("Running", "Backoff", "failed, charged, and the next attempt is later"),
    ("Running", "Free",    "ended (Done)"),
    ("Running", "Ended",   "ended (Done), but attempts or nested calls are still out"),
    ("Running", "Lost",    "overdue by 60 s"),
    ("Body",    "Free",    "read, failed, cancelled or out of time (Done)"),
    ("Body",    "Ended",   "ended (Done), but attempts or nested calls are still out"),
    ("Body",    "Lost",    "overdue by 60 s"),
    ("Backoff", "Running", "the wait is over"),
    ("Backoff", "Free",    "cancelled, out of time, or a stopped attempt had an answer: refunded (Done)"),
    ("Backoff", "Ended",   "the same, while attempts or nested calls are out"),
    ("Backoff", "Lost",    "overdue by 60 s"),
    ("Ended",   "Free",    "the last of them was reported, or 60 s have passed"),
    ("Lost",    "Free",    "its host was told (Done), or another 60 s have passed"),
    ("Lost",    "Ended",   "its host was told (Done), but nested calls are still out"),
];

impl Engine {
    /// Begins a call. A refused call is already `Done`, and its id stale (R1).
    pub fn begin(&mut self, route: RouteId, request: &Request, now: Time) -> (CallId, Step) {
        let now = self.clock.observe(now);
        self.reap(now, NONE);
        let Some(route) = self.routes.find(route) else {
            return (CallId::from_word(0), self.answer(Step::done(Verdict::StaleRoute)));
        };
        let mut call = Call::new(self.ordinal, now, route, self.routes[route].policy);
        self.ordinal += 1;
        call.flags = request.criticality as u16
            | u16::from(request.replayable) << 2
            | u16::from(request.idempotent) << 3
            | u16::from(request.abortable) << 4
            | u16::from(request.may_park) << 5
            | u16::from(request.slot_until_body) << 6;
        let own = self.policies[usize::from(call.policy)].policy.deadline;
        call.deadline = limit(now, own.min(request.remaining.unwrap_or(Duration::MAX)));
        let Some(slot) = self.calls.insert(call) else {
            return (CallId::from_word(0), self.answer(Step::done(Verdict::QueueFull)));
        };
        self.routes.enter(route);
        if let Some(parent) = request.parent {
            self.nest(slot, parent);
        }
        let id = self.calls.id(slot);
        let step = self.admit(slot, now);
        (id, self.answer(step))
    }

    /// Tells a call what happened; the step says what to do now, and when to ask again.
    pub fn on(&mut self, call: CallId, event: Event, now: Time) -> Step {
        let now = self.clock.observe(now);
        let Some(slot) = self.calls.find(call) else {
            return self.answer(Step::done(Verdict::Stale));
        };
        let step = match (self.calls[slot].state, event) {
            (State::Ended, Event::Finished { attempt, .. }) => {
                let started = self.calls[slot].started_as(attempt);
                self.calls[slot].lanes &= !started;
                self.settle(slot, now);
                Step::done(Verdict::Stale)
            }
            (State::Ended | State::Free, _) => Step::done(Verdict::Stale),
            (State::Lost, _) => self.told(slot, now),
            (_, Event::Cancel) => self.end(slot, Verdict::Cancelled, None, None, now),
            (State::Running, Event::Headers { attempt }) if self.runs(slot, attempt) => self.head(slot, now),
            (State::Running, Event::Finished { attempt, outcome }) if self.runs(slot, attempt) => {
                self.calls[slot].lanes &= !Lane::of(attempt).bit();
                self.decide(slot, outcome, 0, now)
            }
            (State::Body, Event::Finished { attempt, outcome }) if self.runs(slot, attempt) => {
                let lane = Lane::of(attempt);
                self.calls[slot].lanes &= !lane.bit();
                let verdict = match self.class(outcome) {
                    Class::Ok => Verdict::Ok,
                    Class::Cancelled => Verdict::Cancelled,
                    _ => Verdict::NotRetryable,
                };
                self.end(slot, verdict, Some(lane), None, now)
            }
            (_, Event::Finished { attempt, outcome }) => {
                if self.unwound(slot, attempt) && self.class(outcome) == Class::Ok {
                    self.refund(slot, now);
                    self.count_outcome(slot, Class::Ok);
                    self.end(slot, Verdict::Ok, Some(Lane::of(attempt)), None, now)
                } else {
                    self.evaluate(slot, now)
                }
            }
            (_, Event::Timer | Event::Poll | Event::Headers { .. }) => self.evaluate(slot, now),
        };
        self.answer(step)
    }

    /// What a `Poll` finds.
    fn evaluate(&mut self, slot: u32, now: Time) -> Step {
        let call = &self.calls[slot];
        let out_of_time = call.deadline <= now;
        match call.state {
            State::Queued => self.still_queued(slot, now),
            State::Granted => self.claim(slot, now),
            State::Refused => self.end(slot, call.refusal(), None, None, now),
            State::Running | State::Body if out_of_time => self.end(slot, Verdict::Deadline, None, None, now),
            State::Running if call.moment <= now => self.time_out(slot, now),
            State::Running => wait(Wait::Running, call.moment.min(call.deadline), now),
            State::Body => wait(Wait::Body, call.deadline, now),
            State::Backoff if out_of_time => self.end(slot, Verdict::Deadline, Some(call.lane()), None, now),
            State::Backoff if call.moment <= now => self.start(slot, now),
            State::Backoff => wait(Wait::Backoff, call.moment, now),
            State::Free | State::Ended | State::Lost => Step::done(Verdict::Stale),
        }
    }

    /// A new call's way to its first attempt: deadline, permit, attempt.
    fn admit(&mut self, slot: u32, now: Time) -> Step {
        if self.calls[slot].deadline <= now {
            return self.end(slot, Verdict::DeadlineBefore, None, None, now);
        }
        match self.acquire(slot, now) {
            Ok(Permit::Held) => self.start(slot, now),
            Ok(Permit::Awaited) => {
                wait(Wait::Queue, patience(&self.calls[slot]).min(now.after(MAX_PARK)), now)
            }
            Err(verdict) => self.end(slot, verdict, None, None, now),
        }
    }

    /// Starts the next attempt, unless too many stopped ones have not unwound yet (R11).
    fn start(&mut self, slot: u32, now: Time) -> Step {
        let call = &mut self.calls[slot];
        let next = Lane::of(call.attempts + 1);
        if call.blocked() {
            let given_up = call.since().after(GRACE);
            if given_up > now {
                if call.state != State::Backoff {
                    call.go(State::Backoff);
                }
                return wait(Wait::Running, given_up.min(call.deadline), now);
            }
            call.lanes = 0;
            call.stopped = 0;
        }
        call.attempts += 1;
        call.lanes |= next.bit();
        call.stopped &= !next.bit();
        call.set_since(now);
        call.moment = limit(now, self.policies[usize::from(call.policy)].policy.attempt_timeout);
        let (attempt, until) = (call.attempts, call.moment.min(call.deadline));
        call.go(State::Running);
        self.count_attempt(slot, now);
        Step { next: span(until, now), ..Step::plain(Action::Attempt { attempt, hedge: false }) }
    }

    /// An attempt has ended: retry or not, decided in the order of R5. `stop` is set where we ended it.
    fn decide(&mut self, slot: u32, outcome: Outcome, stop: u8, now: Time) -> Step {
        let class = self.class(outcome);
        let lane = self.calls[slot].lane();
        self.count_outcome(slot, class);
        if class == Class::Ok {
            return self.end(slot, Verdict::Ok, Some(lane), None, now);
        }
        let ended = match self.next_delay(slot, class, outcome, now) {
            Ok(delay) => match self.charge(slot, class, now) {
                Charge::Granted => {
                    let call = &mut self.calls[slot];
                    call.set_since(now);
                    call.moment = now.after(delay);
                    if delay == Duration::ZERO && stop == 0 {
                        return self.start(slot, now);
                    }
                    self.calls[slot].go(State::Backoff);
                    return Step { stop, ..wait(Wait::Backoff, now.after(delay), now) };
                }
                Charge::Refused => Verdict::Budget,
            },
            Err(verdict) => verdict,
        };
        let retry_in = if class.retryable() { outcome.retry_after } else { None };
        let step = self.end(slot, ended, Some(lane), retry_in, now);
        Step { stop: stop | step.stop, ..step }
    }

    /// The wait before the next attempt, or why there is none: class → method and body → attempts → Retry-After →
    /// deadline and time limit. The budget comes after it, and is only asked where the rest says yes (semantics 2.6).
    fn next_delay(&self, slot: u32, class: Class, outcome: Outcome, now: Time) -> Result<Duration, Verdict> {
        let call = &self.calls[slot];
        let retry = &self.policies[usize::from(call.policy)].policy.retry;
        match (class, outcome.opinion) {
            (Class::Cancelled, _) => return Err(Verdict::Cancelled),
            // Retries are switched off: whatever else speaks against one, none has been held back.
            _ if retry.max_attempts == 1 && class.retryable() => return Err(Verdict::Attempts),
            (_, Opinion::DoNot) => return Err(Verdict::Opinion),
            (_, Opinion::None) if retry.classes >> class as u16 & 1 == 0 => {
                return Err(Verdict::NotRetryable);
            }
            _ => {}
        }
        if !call.has(flag::IDEMPOTENT) && class != Class::NeverSent {
            return Err(Verdict::Method);
        }
        if !call.has(flag::REPLAYABLE) {
            return Err(Verdict::OneShotBody);
        }
        if call.attempts >= retry.max_attempts {
            return Err(Verdict::Attempts);
        }
        if call.has(flag::NESTED) {
            return Err(Verdict::Nested);
        }
        let left = call.deadline.since(now);
        let draw = |purpose, n| rng::bits(self.seed, call.ordinal, purpose, n);
        let delay = wait_before_retry(retry, call.attempts, class, outcome.retry_after, left, draw)?;
        if delay >= left {
            return Err(Verdict::WouldOutliveDeadline);
        }
        if now.since(call.started).plus(delay) > retry.time_limit {
            return Err(Verdict::TimeLimit);
        }
        Ok(delay)
    }

    /// The attempt timeout has passed: stop the attempt, and decide as after any other failure.
    fn time_out(&mut self, slot: u32, now: Time) -> Step {
        let call = &mut self.calls[slot];
        let bit = call.lane().bit();
        call.stopped |= bit;
        if call.has(flag::ABORTABLE) {
            call.lanes &= !bit;
        }
        self.decide(slot, Outcome::of(Class::Timeout), bit, now)
    }

    /// The head of a good answer: the attempt timeout ends here, slot and deadline go on where the body counts.
    fn head(&mut self, slot: u32, now: Time) -> Step {
        self.count_outcome(slot, Class::Ok);
        if !self.calls[slot].has(flag::UNTIL_BODY) {
            let lane = self.calls[slot].lane();
            self.calls[slot].lanes &= !lane.bit();
            return self.end(slot, Verdict::Ok, Some(lane), None, now);
        }
        self.calls[slot].moment = Time::NEVER;
        self.calls[slot].go(State::Body);
        self.evaluate(slot, now)
    }

    /// A waiter's own look at the queue; it also takes back grants that nobody claimed.
    fn still_queued(&mut self, slot: u32, now: Time) -> Step {
        self.reap(now, slot);
        self.revoke_overdue(self.calls[slot].route, now);
        let call = &self.calls[slot];
        match call.state {
            State::Queued if patience(call) <= now => {
                let verdict = if call.deadline <= call.moment {
                    Verdict::DeadlineQueued
                } else {
                    Verdict::AcquireTimeout
                };
                self.end(slot, verdict, None, None, now)
            }
            State::Queued => wait(Wait::Queue, patience(call).min(now.after(MAX_PARK)), now),
            _ => self.evaluate(slot, now),
        }
    }

    /// The owner of a granted permit has come: later stages run now (R2).
    fn claim(&mut self, slot: u32, now: Time) -> Step {
        if self.calls[slot].deadline <= now {
            return self.end(slot, Verdict::DeadlineQueued, None, None, now);
        }
        self.leave_queue(slot);
        self.start(slot, now)
    }

    /// The end of a call (R1). Attempts that run are stopped; what cannot be stopped keeps the permit until it is
    /// reported (R12).
    fn end(
        &mut self,
        slot: u32,
        verdict: Verdict,
        result: Option<Lane>,
        retry_in: Option<Duration>,
        now: Time,
    ) -> Step {
        self.leave_queue(slot);
        self.forgo(slot, now);
        self.count_end(slot, verdict);
        let call = &mut self.calls[slot];
        let stop = call.lanes & !call.stopped;
        if call.has(flag::ABORTABLE) {
            call.lanes = 0;
        }
        call.moment = if call.lanes == 0 { Time::NEVER } else { now.after(GRACE) };
        self.settle(slot, now);
        Step { stop, ..Step::plain(Action::Done { verdict, result, retry_in }) }
    }

    /// Is this the attempt that runs, unstopped?
    fn runs(&self, slot: u32, attempt: u8) -> bool {
        let call = &self.calls[slot];
        attempt == call.attempts && attempt != 0 && call.lanes & !call.stopped & Lane::of(attempt).bit() != 0
    }

    /// A stopped attempt has unwound. True where it is the newest and the next has not started: if it has an answer all
    /// the same, that is not thrown away to ask for it once more.
    fn unwound(&mut self, slot: u32, attempt: u8) -> bool {
        let call = &mut self.calls[slot];
        let bit = call.started_as(attempt) & call.stopped;
        if bit == 0 || call.state == State::Refused {
            return false;
        }
        call.lanes &= !bit;
        call.stopped &= !bit;
        attempt == call.attempts && call.state == State::Backoff
    }

    /// The class of an outcome's kind. Kinds of a policy's own have no place in a policy yet, so an unknown one is
    /// what a programming error is: permanent.
    #[allow(clippy::unused_self)] // kinds are looked up in the call's policy once policies declare them
    fn class(&self, outcome: Outcome) -> Class {
        outcome.kind.class().unwrap_or(Class::Permanent)
    }

    /// The step as it leaves the engine.
    #[inline]
    fn answer(&self, step: Step) -> Step {
        Step { flags: Flags { wakes: !self.wakes.is_empty(), commands: false }, ..step }
    }
}

/// Is there an edge from one state to another?
pub(super) fn edge(from: State, to: State) -> bool {
    EDGES.iter().any(|(a, b, _)| *a == format!("{from:?}") && *b == format!("{to:?}"))
}

/// The moment a span ends; never, for a span without end.
pub(super) fn limit(now: Time, span: Duration) -> Time {
    if span == Duration::MAX { Time::NEVER } else { now.after(span) }
}

/// The timer for a moment; none for never.
fn span(until: Time, now: Time) -> Option<Duration> {
    (until != Time::NEVER).then(|| until.since(now))
}

fn wait(why: Wait, until: Time, now: Time) -> Step {
    Step { next: span(until, now), ..Step::plain(Action::Wait { why }) }
}

const _: () = assert!(NONE > 1 << CallId::SLOT_BITS, "no slot is NONE");
