//! Handling of a call's events. The table of its states is in `automaton.rs`.
//!
//! Every event ends with the evaluation that a `Poll` makes (R3), so a `Poll` at the same instant changes nothing.
//! [`Engine::decide`] implements the order of a retry decision (R5); the stages before an attempt are in `admit.rs`.

use super::Engine;
use super::admit::Stage;
use super::arena::{Call, flag};
use super::automaton::State;
use super::call_extra::RunningAttempt;
use super::desk::Desk;
use super::link::turn_of;
use super::place::{RouteAt, Slot};
use super::route::stage;
use super::stream::Silence;
pub(super) use super::timer::{limit, span, wait};
use super::whole;
use crate::action::{AttemptSlot, CallId, Event, Flags, Link, PathId, Request, RouteId, Verdict, Wait};
use crate::engine::fleet::FleetDesk;
use crate::full::Full;
use crate::outcome::Class;
use crate::step::Step;
use crate::time::{Duration, Time};

/// The longest sleep of a parked call: a lost wake costs a second, not a call (R4).
pub(super) const MAX_PARK: Duration = Duration::from_secs(1);
/// How long the engine waits for a stopped attempt to unwind, and for a late host, before it gives them up (R9, R12).
pub(super) const GRACE: Duration = Duration::from_secs(60);

impl Engine {
    /// Begins a call. A refused call is already `Done`, and its id stale (R1).
    pub fn begin(&mut self, route: RouteId, request: &Request, now: Time) -> (CallId, Step) {
        self.journal.begin(route, request, now);
        let now = self.clock.observe(now);
        self.desk.chores.begin_step();
        self.reap(now, Slot::NONE);
        // What few calls need comes first and is out of line, so that the rest looks up each thing once.
        if !self.desk.chores.is_empty()
            && let Some(route) = self.desk.routes.find(route)
        {
            self.fleet_desk().catch_up(route, now);
        }
        if self.desk.calls.is_full() && self.desk.routes.find(route).is_some() {
            self.desk.calls.make_room();
        }
        let Some(route) = self.desk.routes.find(route) else {
            return (CallId::from_word(0), self.answer(Step::done(Verdict::StaleRoute), now));
        };
        let ordinal = self.ordinal;
        self.ordinal += 1;
        if self.desk.calls.is_full() {
            return (CallId::from_word(0), self.answer(Step::done(Verdict::QueueFull), now));
        }
        let mut call = Call::new(ordinal, now, route, self.desk.routes.enter(route));
        call.flags = request.criticality as u16
            | u16::from(request.replayable) << 2
            | u16::from(request.idempotent) << 3
            | u16::from(request.abortable) << 4
            | u16::from(request.may_park) << 5
            | u16::from(request.slot_until_body) << 6;
        call.set_cost(request.cost);
        let own = self.desk.policies[usize::from(call.policy)].policy.deadline;
        call.deadline = limit(now, own.min(request.remaining.unwrap_or(Duration::MAX)));
        call.begin();
        let Some(slot) = self.desk.calls.insert(call) else {
            return (CallId::from_word(0), self.answer(Step::done(Verdict::QueueFull), now));
        };
        let id = self.desk.calls.id(slot);
        let enclosing = whole::enclosing(request);
        if enclosing.is_some() || request.path != PathId::NONE || request.solo || request.stream {
            self.desk.note_request(slot, request, enclosing);
        }
        let step = self.admit(slot, now);
        (id, self.answer(step, now))
    }

    /// Handles an event of a call. The step says which action to take now, and when to ask again.
    pub fn on(&mut self, call: CallId, event: Event, now: Time) -> Step {
        self.journal.on(call, &event, now);
        let now = self.clock.observe(now);
        self.desk.chores.begin_step();
        if !self.desk.chores.is_empty()
            && let Some(slot) = self.desk.calls.find(call)
        {
            let route = self.desk.calls[slot].route;
            self.fleet_desk().catch_up(route, now);
        }
        let Some(slot) = self.desk.calls.find(call) else {
            return self.answer(Step::done(Verdict::Stale), now);
        };
        let call = &mut self.desk.calls[slot];
        if let Event::Finished { attempt, outcome } = event
            && call.running() & call.started_as(attempt) != 0
        {
            if whole::ENDS_PLAINLY
                && outcome.kind == Class::Ok.into()
                && let Some(step) = self.desk.end_plainly(slot, attempt, now)
            {
                return self.answer(step, now);
            }
            let call = &mut self.desk.calls[slot];
            if call.state() == State::Running {
                let running_attempt = if call.has(flag::RACING | flag::PER_ATTEMPT | flag::EXTRA) {
                    let running_attempt = self.desk.take_running_attempt(slot, attempt);
                    self.desk.calls.report_attempt_slots(
                        slot,
                        AttemptSlot::of(attempt).bit(),
                        &mut self.pending_release,
                    );
                    let class = self.desk.policies.of(&self.desk.calls[slot]).class_of(outcome.kind);
                    self.desk.settle_reported(slot, attempt, class, now);
                    running_attempt
                } else {
                    call.attempt_slots &= !AttemptSlot::of(attempt).bit();
                    RunningAttempt::alone(call, attempt)
                };
                let step = self.decide(slot, running_attempt, outcome, 0, now);
                self.release_pending(now);
                return self.answer(step, now);
            }
        }
        let step = self.other(slot, event, now);
        self.release_pending(now);
        self.answer(step, now)
    }

    /// Handles an event that does not end a running attempt.
    #[inline(never)]
    fn other(&mut self, slot: Slot, event: Event, now: Time) -> Step {
        match (self.desk.calls[slot].state(), event) {
            (State::Ended, Event::Finished { attempt, outcome }) => {
                let started = self.desk.calls[slot].started_as(attempt);
                let class = self.desk.policies.of(&self.desk.calls[slot]).class_of(outcome.kind);
                if started != 0 {
                    self.desk.settle_reported(slot, attempt, class, now);
                }
                self.free_ended(slot, started, now);
                Step::done(Verdict::Stale)
            }
            (State::Ended | State::Free, _) => Step::done(Verdict::Stale),
            (State::Lost, _) => {
                self.settle(slot, now);
                Step::done(Verdict::Lost)
            }
            (_, Event::Cancel) => self.end(slot, Verdict::Cancelled, None, None, now),
            (State::Running, Event::Headers { attempt }) if self.desk.calls.runs(slot, attempt) => {
                let Desk { calls, routes, policies, notes, .. } = &mut self.desk;
                let plain = if whole::ENDS_PLAINLY && !notes.course.is_on() {
                    routes.head_plainly(&mut calls[slot], attempt, policies, now)
                } else {
                    None
                };
                plain.unwrap_or_else(|| self.head(slot, attempt, now))
            }
            (state @ (State::Running | State::Body), Event::Progress { attempt, age })
                if self.desk.policies.of(&self.desk.calls[slot]).stream.is_some()
                    && self.desk.calls.runs(slot, attempt) =>
            {
                match self.desk.policies.silence(&mut self.desk.calls[slot], age, now) {
                    Silence::TooLong if state == State::Body => {
                        self.desk.note(move |it| it.body_stalled(slot, attempt, now));
                        self.fleet_desk().body_failed(slot, attempt, Class::Timeout.into(), now);
                        self.end(slot, Verdict::StreamStalled, None, None, now)
                    }
                    Silence::TooLong => self.time_out(slot, attempt, true, now),
                    Silence::Until(check) => {
                        let step = self.evaluate(slot, now);
                        let runs = self.desk.calls[slot].state() == State::Running;
                        let check = check.since(now);
                        let next = step.next().map_or(check, |next| next.min(check));
                        if runs { step.again_after(next) } else { step }
                    }
                    Silence::Any => self.evaluate(slot, now),
                }
            }
            (State::Body, Event::Finished { attempt, outcome }) if self.desk.calls.runs(slot, attempt) => {
                self.desk.calls.report_attempt_slots(
                    slot,
                    AttemptSlot::of(attempt).bit(),
                    &mut self.pending_release,
                );
                let class = self.desk.policies.of(&self.desk.calls[slot]).class_of(outcome.kind);
                self.desk.settle_reported(slot, attempt, class, now);
                let verdict = match class {
                    Class::Ok => Verdict::Ok,
                    Class::Cancelled => Verdict::Cancelled,
                    _ => Verdict::NotRetryable,
                };
                self.fleet_desk().body_failed(slot, attempt, outcome.kind, now);
                self.end(slot, verdict, Some(AttemptSlot::of(attempt)), None, now)
            }
            (_, Event::Finished { attempt, outcome }) => {
                let class = self.desk.policies.of(&self.desk.calls[slot]).class_of(outcome.kind);
                let ok = class == Class::Ok;
                let call = &self.desk.calls[slot];
                if call.started_as(attempt) & call.stopped != 0 {
                    self.desk.settle_reported(slot, attempt, class, now);
                }
                if self.desk.calls.unwound(slot, attempt, &mut self.pending_release) && ok {
                    self.late_answer(slot, attempt, now)
                } else {
                    self.release_pending(now);
                    self.evaluate(slot, now)
                }
            }
            (_, Event::Timer | Event::Poll | Event::Headers { .. } | Event::Progress { .. }) => {
                self.evaluate(slot, now)
            }
        }
    }

    /// Evaluates a call, as for a `Poll`.
    pub(super) fn evaluate(&mut self, slot: Slot, now: Time) -> Step {
        if self.desk.calls[slot].listed() {
            self.look_around(slot, now);
        }
        let call = &self.desk.calls[slot];
        let out_of_time = call.deadline <= now;
        let waits = call.between_attempts() || call.is_waiting();
        if waits && self.desk.routes[call.route].stages & stage::FORCED != 0 {
            return self.refuse(slot, Verdict::ForcedOpen, None, now);
        }
        match call.state() {
            State::Held | State::Paced => self.evaluate_waiting(slot, now),
            State::Queued => self.still_queued(slot, now),
            State::Granted => self.claim(slot, now),
            State::Refused => {
                let (refusal, retry_in) = (call.refusal(), self.desk.calls.refused_for(slot, now));
                if Full::here().is_some() && refusal == Verdict::RateLimited {
                    self.desk.note_displaced(slot, now);
                }
                self.refuse(slot, refusal, retry_in, now)
            }
            State::Running if out_of_time => {
                let (since, attempt) = self.desk.calls.oldest_running(slot);
                let kind = self.desk.policies.deadline_kind(&self.desk.calls, slot, (since, attempt), now);
                self.end_cut(slot, kind, (since, attempt), now)
            }
            State::Body if out_of_time => {
                let attempt_slot = AttemptSlot::of(1 + call.running().trailing_zeros() as u8);
                let (since, attempt) = (call.since(), call.attempt_in(attempt_slot));
                let kind = self.desk.policies.deadline_kind(&self.desk.calls, slot, (since, attempt), now);
                self.fleet_desk().body_failed(slot, attempt, kind, now);
                self.end(slot, Verdict::Deadline, None, None, now)
            }
            State::Running => self.still_running(slot, now),
            State::Body => {
                let (route, until) =
                    (call.route, self.desk.policies.body_until(&mut self.desk.calls[slot], now));
                wait(Wait::Body, self.fleet_desk().keep_lease(route, until, now), now)
            }
            State::Backoff if out_of_time => self.refuse(slot, Verdict::Deadline, None, now),
            State::Backoff if call.moment <= now => self.go_on(slot, now),
            State::Backoff => {
                let (route, due) = (call.route, call.moment);
                wait(Wait::Backoff, self.fleet_desk().keep_lease(route, due, now), now)
            }
            State::Free | State::Passing | State::Ended | State::Lost => Step::done(Verdict::Stale),
        }
    }

    /// Starts the next attempt, which is due, through the stages; waits if too many stopped attempts have not unwound
    /// yet (R11), or while the link is offline.
    pub(super) fn go_on(&mut self, slot: Slot, now: Time) -> Step {
        if whole::only_hedges(self.desk.policies.of(&self.desk.calls[slot])) {
            return self.hedge_on(slot, now);
        }
        if self.desk.link == Link::Offline {
            return self.wait_for_link(slot, now);
        }
        let call = &mut self.desk.calls[slot];
        if call.blocked() {
            let given_up = call.since().after(GRACE);
            if given_up > now {
                if call.state() == State::Running {
                    call.wait();
                }
                return wait(Wait::Running, given_up.min(call.deadline), now);
            }
            self.give_up_attempts(slot, now);
            self.desk.calls[slot].stopped = 0;
        }
        let call = &mut self.desk.calls[slot];
        call.retry();
        let again = self.desk.policies[usize::from(call.policy)].again;
        if self.desk.routes[call.route].stages & stage::GATES & again == 0 {
            return self.desk.start(slot, now);
        }
        self.proceed(slot, Stage::Peek, now)
    }

    /// Waits for the link with an attempt that is due, or ends the call if it has waited long enough. The owner asks
    /// once a second, each at a time of its own within the second, so that the calls come back spread.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_for_link(&mut self, slot: Slot, now: Time) -> Step {
        let retry = &self.desk.policies.of(&self.desk.calls[slot]).retry;
        let (time_limit, longest) = (retry.time_limit, retry.max_retry_after);
        let call = &mut self.desk.calls[slot];
        if call.state() == State::Running {
            call.wait(); // it is between attempts, so an end refunds the retry
        }
        let bounded = call.deadline != Time::NEVER || time_limit != Duration::MAX;
        let given_up = if bounded { Time::NEVER } else { call.since().after(longest) };
        let late = now.since(call.started) > time_limit;
        if late || given_up <= now {
            let verdict = if late { Verdict::TimeLimit } else { Verdict::Offline };
            self.desk.note(move |it| it.refused(slot, verdict, None, now));
            let (kind, attempt_slot) = self.desk.calls[slot].last_failure();
            self.call_over(slot, kind, self.desk.calls[slot].attempt_in(attempt_slot), None, now);
            return self.end(slot, verdict, Some(attempt_slot), None, now);
        }
        let due = turn_of(self.desk.seed, call.ordinal(), now).min(given_up).min(call.deadline);
        let call = &mut self.desk.calls[slot];
        call.moment = due;
        let route = call.route;
        wait(Wait::Backoff, self.fleet_desk().keep_lease(route, due, now), now)
    }

    /// Checks running attempts: one may have timed out, and a hedge may be due.
    fn still_running(&mut self, slot: Slot, now: Time) -> Step {
        let (end, attempt) = self.desk.policies.first_to_end(&self.desk.calls, slot, now);
        if end <= now {
            return self.time_out(slot, attempt, false, now);
        }
        if self.desk.hedge_due(slot, now) <= now
            && let Some(step) = self.race(slot, now)
        {
            return step;
        }
        let next = self.desk.next_moment(slot, now);
        let next = self.desk.policies.or_check(&self.desk.calls[slot], next, now);
        let route = self.desk.calls[slot].route;
        let next = self.fleet_desk().keep_lease(route, next, now);
        wait(Wait::Running, next, now)
    }

    /// On a waiter's event, takes back unclaimed grants of other calls, and examines two slots (R9).
    fn look_around(&mut self, slot: Slot, now: Time) {
        let state = self.desk.calls[slot].state();
        if state == State::Granted {
            return;
        }
        self.reap(now, slot);
        if state == State::Queued {
            self.revoke_overdue(self.desk.routes[self.desk.calls[slot].route].pool_at, now);
        }
    }

    /// Completes a step: continues the work of earlier steps, and sets the flags.
    #[inline]
    fn answer(&mut self, step: Step, now: Time) -> Step {
        if !self.desk.chores.is_empty() {
            self.go_on_with_chores(now);
        }
        let Flags { wakes, commands, .. } = self.flags();
        step.leaving(wakes, commands)
    }
}

impl FleetDesk<'_> {
    /// Bounds a timer so that the owner reports in time to have its lease of the fleet renewed.
    #[inline]
    pub(super) fn keep_lease(&mut self, route: RouteAt, until: Time, now: Time) -> Time {
        if self.desk.routes[route].stages & stage::LEASED == 0 {
            return until;
        }
        self.watch_store(now);
        let home = self.desk.routes[route].pool_at;
        self.keep_slots(home, now);
        self.desk.routes.before_renewal(route, until, now)
    }
}
