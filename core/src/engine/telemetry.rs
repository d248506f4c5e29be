//! Contents of each record (semantics 12.1). The step that causes a record calls this, and only while there is a
//! listener. It reads the state on which decisions depend, and never changes it.

use super::arena::Arena;
use super::automaton::State;
use super::call_extra::{RunningAttempt, STREAM};
use super::desk::Desk;
use super::place::{PoolAt, RouteAt, Slot};
use super::policies::Policies;
use super::record::{Notes, Record, RecordType};
use super::route::Routes;
use crate::action::{AttemptSlot, RouteId, Verdict, Wait};
use crate::breaker::BreakerState;
use crate::cooldown::CooldownState;
use crate::fleet::Loss;
use crate::outcome::{Class, Kind};
use crate::time::{Duration, Time};

/// The levels of a route that new settings can change.
#[derive(Clone, Copy)]
pub(super) struct Levels {
    breaker: BreakerState,
    limit: u32,
    holds: u32,
}

impl Routes {
    /// The levels of a route that new settings, or an operator, may change.
    pub fn levels(&self, route: RouteAt) -> Levels {
        let route = &self[route];
        Levels {
            breaker: route.breaker.as_ref().map_or(BreakerState::Closed, |it| it.state(Time::from_micros(0))),
            limit: route.pool.as_ref().map_or(u32::MAX, |pool| pool.limit),
            holds: route.holds.as_ref().map_or(0, |holds| holds.open()),
        }
    }
}

/// Makes records while there is a listener. Reads calls, routes and policies, and writes notes only.
pub(super) struct Telemetry<'a> {
    pub notes: &'a mut Notes,
    pub calls: &'a Arena,
    pub routes: &'a Routes,
    pub policies: &'a Policies,
}

impl Telemetry<'_> {
    /// A record about a call.
    fn about(&self, what: RecordType, slot: Slot, now: Time) -> Record {
        let call = &self.calls[slot];
        Record {
            policy: Some(self.policies.id_of(call.policy)),
            route: Some(self.routes.id(call.route)),
            call: Some(self.calls.id(slot)),
            attempt: call.attempts,
            elapsed: Some(now.since(call.started)),
            ..Record::blank(what, now)
        }
    }

    /// The target that an attempt of a call goes to.
    fn target(&self, slot: Slot, attempt: u8) -> Option<RouteId> {
        let number = self.calls.target_in(slot, AttemptSlot::of(attempt))?;
        let home = self.routes[self.calls[slot].route].targets_at?;
        Some(self.routes.id(self.routes[*home].group.as_ref()?.member(number)?.at))
    }

    /// A record about a route, or a pool.
    fn about_route(&self, what: RecordType, route: RouteAt, now: Time) -> Record {
        let it = &self.routes[route];
        let policy = (!it.is_pool()).then(|| self.policies.id_of(it.policy));
        Record { policy, route: Some(self.routes.id(route)), ..Record::blank(what, now) }
    }

    /// An attempt starts, alone or beside others.
    #[cold]
    #[inline(never)]
    pub fn attempt_started(&mut self, slot: Slot, hedge: bool, now: Time) {
        let target = self.target(slot, self.calls[slot].attempts);
        let record = Record { hedge, target, ..self.about(RecordType::AttemptStarted, slot, now) };
        self.notes.push(record);
        if hedge {
            let wait = Some(now.since(self.calls.oldest_running(slot).0));
            self.notes.push(Record { what: RecordType::HedgeStarted, wait, ..record });
        }
    }

    /// An attempt has ended.
    #[cold]
    #[inline(never)]
    pub fn attempt_ended(&mut self, slot: Slot, running_attempt: &RunningAttempt, kind: Kind, now: Time) {
        let record = Record {
            attempt: running_attempt.attempt,
            hedge: running_attempt.hedge,
            target: self.target(slot, running_attempt.attempt),
            kind: Some(kind),
            elapsed: Some(now.since(running_attempt.since)),
            ..self.about(RecordType::AttemptDone, slot, now)
        };
        self.notes.push(record);
        if kind == Class::Ok.into() && self.calls.marked(slot, STREAM) {
            self.notes.push(Record { what: RecordType::StreamDelivered, ..record });
        }
        if running_attempt.hedge && kind == Class::Ok.into() {
            self.notes.push(Record { what: RecordType::HedgeWon, ..record });
        }
    }

    /// Whether the first piece of an attempt's stream is overdue.
    fn is_late(&self, slot: Slot, running_attempt: &RunningAttempt, now: Time) -> bool {
        let stream = self.policies.of(&self.calls[slot]).stream.as_ref();
        let late = |first_byte| first_byte <= now.since(running_attempt.since);
        self.calls.marked(slot, STREAM) && stream.is_some_and(|stream| late(stream.first_byte))
    }

    /// An attempt has timed out before its delivery: records it if the first piece of its stream did not come in time.
    #[cold]
    #[inline(never)]
    pub fn attempt_late(&mut self, slot: Slot, running_attempt: &RunningAttempt, now: Time) {
        if self.is_late(slot, running_attempt, now) {
            self.stalled(slot, running_attempt.attempt, None, now.since(running_attempt.since), now);
        }
    }

    /// An attempt was silent for too long before its delivery.
    #[cold]
    #[inline(never)]
    pub fn attempt_silent(&mut self, slot: Slot, running_attempt: &RunningAttempt, now: Time) {
        if !self.is_late(slot, running_attempt, now) {
            self.stalled(slot, running_attempt.attempt, None, now.since(running_attempt.since), now);
        }
    }

    /// A delivered stream has been silent for too long.
    #[cold]
    #[inline(never)]
    pub fn body_stalled(&mut self, slot: Slot, attempt: u8, now: Time) {
        let elapsed = now.since(self.calls[slot].since());
        self.stalled(slot, attempt, Some(Verdict::StreamStalled), elapsed, now);
    }

    fn stalled(&mut self, slot: Slot, attempt: u8, verdict: Option<Verdict>, elapsed: Duration, now: Time) {
        let record = self.about(RecordType::StreamStalled, slot, now);
        let (target, elapsed) = (self.target(slot, attempt), Some(elapsed));
        self.notes.push(Record { attempt, target, verdict, elapsed, ..record });
    }

    /// A further attempt is paid for.
    #[cold]
    #[inline(never)]
    pub fn retry_scheduled(&mut self, slot: Slot, kind: Kind, delay: Duration, now: Time) {
        let record = self.about(RecordType::RetryScheduled, slot, now);
        let attempt = record.attempt.saturating_add(1);
        self.notes.push(Record { attempt, kind: Some(kind), wait: Some(delay), ..record });
    }

    /// A component refuses a call, or its next attempt. The deadline and the caller are not components.
    #[cold]
    #[inline(never)]
    pub fn refused(&mut self, slot: Slot, verdict: Verdict, retry_in: Option<Duration>, now: Time) {
        let by_component = Verdict::ForcedOpen..=Verdict::StoreUnavailable;
        let others = [Verdict::CostAboveBurst, Verdict::NoTarget, Verdict::TargetsLimited, Verdict::Cooldown];
        if !by_component.contains(&verdict) && !others.contains(&verdict) {
            return;
        }
        let record = self.about(RecordType::Rejected, slot, now);
        let (call, route) = (&self.calls[slot], self.calls[slot].route);
        let attempt = if call.attempts == 0 { 0 } else { call.attempts.saturating_add(1) };
        match self.notes.sample(route, self.routes.id(route), verdict, now) {
            Some(suppressed) => {
                let verdict = Some(verdict);
                self.notes.push(Record { attempt, verdict, wait: retry_in, suppressed, ..record });
            }
            None if call.attempts == 0 => self.notes.hush(self.calls.id(slot)),
            None => {}
        }
    }

    /// A call has ended or is lost: records the reason, then the end.
    #[cold]
    #[inline(never)]
    pub fn call_ended(
        &mut self,
        slot: Slot,
        verdict: Verdict,
        result: Option<AttemptSlot>,
        retry_in: Option<Duration>,
        now: Time,
    ) {
        let call = &self.calls[slot];
        let decided = result.is_some() && call.state() != State::Body; // a body's failure belongs to no attempt
        let failed = decided.then(|| call.last_failure().0);
        let kind = if verdict == Verdict::Ok { Some(Class::Ok.into()) } else { failed };
        let verdict = Some(verdict);
        let record = Record { kind, verdict, wait: retry_in, ..self.about(RecordType::CallDone, slot, now) };
        let cause = match record.verdict {
            Some(Verdict::Attempts) => Some(RecordType::GaveUp),
            Some(verdict) if (Verdict::NotRetryable..=Verdict::Readmission).contains(&verdict) => {
                Some(RecordType::RetrySuppressed)
            }
            Some(Verdict::Deadline | Verdict::DeadlineBefore | Verdict::DeadlineQueued) => {
                Some(RecordType::DeadlineExceeded)
            }
            _ => None,
        };
        if let Some(what) = cause {
            self.notes.push(Record { what, ..record });
        }
        let quiet = self.notes.hushed(self.calls.id(slot));
        self.notes.push(Record { quiet, ..record });
    }

    /// A call begins to wait, at most for `wait`.
    #[cold]
    #[inline(never)]
    pub fn queued(&mut self, slot: Slot, why: Wait, until: Time, now: Time) {
        let wait = (until != Time::NEVER).then(|| until.since(now));
        let record = Record { why: Some(why), wait, ..self.about(RecordType::Queued, slot, now) };
        self.notes.push(record);
    }

    /// A call has got what it waited for; with the beginning of the wait, if known.
    #[cold]
    #[inline(never)]
    pub fn granted(&mut self, slot: Slot, why: Wait, since: Option<Time>, now: Time) {
        let wait = since.map(|since| now.since(since));
        let record = Record { why: Some(why), wait, ..self.about(RecordType::Granted, slot, now) };
        self.notes.push(record);
    }

    /// A waiter is refused; records only those that the queue shed.
    #[cold]
    #[inline(never)]
    pub fn shed(&mut self, slot: Slot, verdict: Verdict, now: Time) {
        if matches!(verdict, Verdict::QueueShed | Verdict::Displaced) {
            let record = self.about(RecordType::Shed, slot, now);
            self.notes.push(Record { verdict: Some(verdict), why: Some(Wait::Queue), ..record });
        }
    }

    /// The engine takes back a permit, place or attempt (R9, R11).
    #[cold]
    #[inline(never)]
    pub fn reclaimed(&mut self, slot: Slot, now: Time) {
        let why = match self.calls[slot].state() {
            State::Held if self.calls.cools(slot) => Some(Wait::Cooldown),
            State::Held if self.routes[self.calls[slot].route].targets_at.is_some() => Some(Wait::Target),
            State::Held => Some(Wait::Hold),
            State::Paced => Some(Wait::Rate),
            State::Queued | State::Granted => Some(Wait::Queue),
            State::Running => Some(Wait::Running),
            State::Body => Some(Wait::Body),
            State::Backoff => Some(Wait::Backoff),
            _ => None,
        };
        let record = Record { why, ..self.about(RecordType::LeaseReclaimed, slot, now) };
        self.notes.push(record);
    }

    /// Records a changed level of a route. `slot` is the call that caused the change.
    fn changed(&mut self, slot: Option<Slot>, record: Record, change: (f64, f64), wait: Option<Duration>) {
        let by = slot.map(|slot| Record { route: record.route, ..self.about(record.what, slot, record.at) });
        self.notes.push(Record { change: Some(change), wait, ..by.unwrap_or(record) });
    }

    /// Records a change of the breaker of a call's route, after it admitted the call or got its outcome.
    #[cold]
    #[inline(never)]
    pub fn breaker_changed_by(&mut self, slot: Slot, from: BreakerState, now: Time) {
        self.breaker_changed(Some(slot), self.calls[slot].route, from, now);
    }

    pub fn breaker_changed(&mut self, slot: Option<Slot>, route: RouteAt, from: BreakerState, now: Time) {
        let Levels { breaker: to, .. } = self.routes.levels(route);
        if from == to {
            return;
        }
        let number = |state| match state {
            BreakerState::Closed => 0.0,
            BreakerState::Open => 1.0,
            BreakerState::HalfOpen => 2.0,
        };
        let open = self.routes[route].breaker.as_ref().and_then(|it| it.open_until());
        let record = self.about_route(RecordType::BreakerChanged, route, now);
        self.changed(slot, record, (number(from), number(to)), open.map(|until| until.since(now)));
    }

    /// Records a change of the limit of a pool, which may be its route's own.
    #[cold]
    #[inline(never)]
    pub fn limit_changed(&mut self, slot: Option<Slot>, home: PoolAt, from: u32, now: Time) {
        let Levels { limit: to, .. } = self.routes.levels(home.route());
        if from != to {
            let record = self.about_route(RecordType::LimitChanged, home.route(), now);
            self.changed(slot, record, (f64::from(from), f64::from(to)), None);
        }
    }

    #[cold]
    #[inline(never)]
    pub fn holds_changed(&mut self, slot: Option<Slot>, route: RouteAt, from: u32, now: Time) {
        let Levels { holds: to, .. } = self.routes.levels(route);
        if from != to {
            let record = self.about_route(RecordType::HoldChanged, route, now);
            self.changed(slot, record, (f64::from(from), f64::from(to)), None);
        }
    }

    /// Records a change of a route's cooldown.
    #[cold]
    #[inline(never)]
    pub fn cooldown_changed(&mut self, slot: Option<Slot>, route: RouteAt, from: CooldownState, now: Time) {
        let Some(cooling) = &self.routes[route].cooldown else { return };
        let (to, wait) = (cooling.part.state(now), cooling.part.closed_for(now));
        let number = |state| match state {
            CooldownState::Open => 0.0,
            CooldownState::Closed => 1.0,
            CooldownState::Reopening => 2.0,
        };
        // A closing whose end is put off is a change too.
        if from != to || to == CooldownState::Closed {
            let record = self.about_route(RecordType::CooldownChanged, route, now);
            self.changed(slot, record, (number(from), number(to)), wait);
        }
    }

    /// Records whether a throttle began or ceased to refuse, after a decision or an outcome.
    #[cold]
    #[inline(never)]
    pub fn throttle_changed(&mut self, slot: Slot, now: Time) {
        let route = self.calls[slot].route;
        // A copy, because reading must not move its window.
        let Some(to) = self.routes[route].throttle.clone().map(|mut it| it.probability(now)) else { return };
        if let Some(from) = self.notes.throttled(route, self.routes.id(route), to) {
            let record = self.about_route(RecordType::ThrottleChanged, route, now);
            self.changed(Some(slot), record, (from, to), None);
        }
    }

    /// A route has new settings: records the levels they changed.
    #[cold]
    #[inline(never)]
    pub fn levels_changed(&mut self, route: RouteAt, before: Levels, now: Time) {
        self.breaker_changed(None, route, before.breaker, now);
        self.limit_changed(None, route.own(), before.limit, now);
        self.holds_changed(None, route, before.holds, now);
    }

    /// The store is lost or back; for one route or pool, or for all.
    #[cold]
    #[inline(never)]
    pub fn store_changed(&mut self, what: RecordType, route: Option<RouteAt>, loss: Option<Loss>, now: Time) {
        let record =
            route.map_or_else(|| Record::blank(what, now), |route| self.about_route(what, route, now));
        self.notes.push(Record { loss, ..record });
    }

    /// Records the store's state for a route or a pool.
    #[cold]
    #[inline(never)]
    pub fn store_said(&mut self, what: RecordType, route: RouteAt, now: Time) {
        let record = self.about_route(what, route, now);
        self.notes.push(record);
    }

    /// A host used a fallback after a call on this route; records whether it worked.
    #[cold]
    #[inline(never)]
    pub fn fell_back(&mut self, route: RouteAt, ok: bool, now: Time) {
        let kind = Some(if ok { Class::Ok } else { Class::Permanent }.into());
        let record = Record { kind, ..self.about_route(RecordType::Fallback, route, now) };
        self.notes.push(record);
    }

    /// A policy has new settings, or an operator has forced it or one of its routes. Without a policy, a pool has new
    /// settings.
    #[cold]
    #[inline(never)]
    pub fn policy_changed(
        &mut self,
        what: RecordType,
        policy: Option<u16>,
        route: Option<RouteAt>,
        now: Time,
    ) {
        let policy = policy.map(|number| self.policies.id_of(number));
        let route: Option<RouteId> = route.map(|route| self.routes.id(route));
        self.notes.push(Record { policy, route, ..Record::blank(what, now) });
    }
}

impl Desk {
    /// Notifies listeners; without any, this is one branch.
    #[inline(always)]
    #[allow(clippy::inline_always)] // a branch
    pub(super) fn note(&mut self, telemetry: impl FnOnce(&mut Telemetry<'_>)) {
        if self.notes.on.is_on() {
            self.telemetry(telemetry);
        }
    }

    #[cold]
    #[inline(never)]
    fn telemetry(&mut self, telemetry: impl FnOnce(&mut Telemetry<'_>)) {
        let Self { notes, calls, routes, policies, .. } = self;
        telemetry(&mut Telemetry { notes, calls, routes, policies });
    }

    /// The same for records that every call causes.
    #[inline(always)]
    #[allow(clippy::inline_always)] // a branch
    pub(super) fn note_course(&mut self, telemetry: impl FnOnce(&mut Telemetry<'_>)) {
        if self.notes.course.is_on() {
            self.telemetry(telemetry);
        }
    }

    /// The same for a call's end; a successful end has no other records.
    #[inline(always)]
    #[allow(clippy::inline_always)] // two branches
    pub(super) fn note_end(&mut self, verdict: Verdict, telemetry: impl FnOnce(&mut Telemetry<'_>)) {
        if self.notes.on.is_on() && (self.notes.course.is_on() || verdict != Verdict::Ok) {
            self.telemetry(telemetry);
        }
    }
}
