//! Cooldown of a route: who waits while no attempt may start, and who has a place afterwards (semantics 16).
//!
//! A call looks at it at its stage, and again just before each attempt. A call that finds it closed there gives back its
//! permit, keeps its tokens, and waits before all calls that have not come so far.

use super::admit::Stage;
use super::arena::{Arena, flag};
use super::call::{MAX_PARK, wait};
use super::call_extra::{RunningAttempt, mark};
use super::chores::Chore;
use super::desk::Desk;
use super::fleet::closing::Closing;
use super::list::List;
use super::place::{RouteAt, Slot};
use super::queue::Pool;
use super::route::{Route, Routes, stage};
use super::stage::Answer;
use crate::action::{AttemptSlot, Verdict, Wait};
use crate::cooldown::{Cooldown, CooldownState, Place};
use crate::outcome::Class;
use crate::policy::CooldownPart;
use crate::rng::{self, Purpose};
use crate::step::Step;
use crate::time::{Duration, Time};

/// How many enclosing calls are asked whether they run on the same route.
const DEPTH: u32 = 8;

/// The cooldown of a route, and the calls that wait for it.
#[derive(Clone, Debug)]
pub(super) struct Cooling {
    pub part: Cooldown,
    /// Calls that have made an attempt, or that had come to their first one; they go before the others.
    returning: List,
    arriving: List,
    /// What it knows of the fleet's, if it is the fleet's.
    pub fleet: Option<Box<Closing>>,
}

impl Cooling {
    pub fn new(settings: &CooldownPart) -> Self {
        Self::of(Cooldown::new(settings.settings), settings)
    }

    pub fn of(part: Cooldown, settings: &CooldownPart) -> Self {
        Self { part, returning: List::default(), arriving: List::default(), fleet: Closing::of(settings) }
    }

    /// Applies new settings.
    pub fn retune(&mut self, to: &CooldownPart, now: Time) {
        self.part.retune_within(to.settings, to.longest(), now);
        self.fleet = self.fleet.take().filter(|_| to.fleet).or_else(|| Closing::of(to));
    }

    /// Its settings are gone, but calls are at work: it is open, and no longer the fleet's.
    pub fn drop_settings(&mut self, now: Time) {
        self.part.reset(now);
        self.fleet = None;
    }

    /// Number of calls that wait.
    pub fn waiting(&self) -> u32 {
        self.returning.len() + self.arriving.len()
    }

    fn head(&self) -> Option<Slot> {
        self.returning.head().or(self.arriving.head())
    }

    /// Removes a waiting call from its list.
    pub fn delist(&mut self, calls: &mut Arena, slot: Slot) {
        let returns = calls.marked(slot, mark::RETURNS);
        self.list_of(returns).remove(calls, slot);
    }

    fn list_of(&mut self, returns: bool) -> &mut List {
        if returns { &mut self.returning } else { &mut self.arriving }
    }

    /// Forgets all calls, after a fork.
    pub fn forget_calls(&mut self) {
        (self.returning, self.arriving) = (List::default(), List::default());
        self.part.forget_places();
        self.fleet.iter_mut().for_each(|it| it.forget());
    }
}

impl Route {
    /// Whether throttled attempts cut the limit of its bulkhead.
    pub fn follows_loss(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.limiter.follows_loss())
    }

    /// Number of places at which slow start ends: the bulkhead's limit, or the attempts that ran at the closing.
    fn most_places(&self, pool_limit: Option<u32>) -> u32 {
        let in_flight = self.cooldown.as_ref().map_or(1, |it| it.part.in_flight());
        pool_limit.filter(|limit| *limit != u32::MAX).unwrap_or(in_flight)
    }
}

impl Arena {
    /// Whether a held call waits for a cooldown, not for a hold.
    pub fn cools(&self, slot: Slot) -> bool {
        self.marked(slot, mark::COOLS)
    }

    pub fn marked(&self, slot: Slot, bits: u8) -> bool {
        self.extra(slot).is_some_and(|extra| extra.says & bits != 0)
    }

    fn place_of(&self, slot: Slot) -> Place {
        let extra = self.extra(slot).filter(|extra| extra.says & mark::PLACED != 0);
        extra.map_or(Place::NONE, |extra| Place::of(extra.gate))
    }

    fn set_place(&mut self, slot: Slot, place: Place) {
        if place != Place::NONE {
            let extra = self.extra_mut(slot);
            extra.gate = place.number();
            extra.says |= mark::PLACED;
        }
    }

    /// Takes a call's place from it, if it has one.
    fn take_place(&mut self, slot: Slot) -> Place {
        let place = self.place_of(slot);
        if place != Place::NONE {
            self.extra_mut(slot).says &= !mark::PLACED;
        }
        place
    }

    /// When a call gives up waiting for a cooldown: its own `max_wait` bounds its first attempt alone.
    fn patience_in_cooldown(&self, slot: Slot) -> Time {
        let call = &self[slot];
        let own = self.extra(slot).filter(|_| call.attempts == 0);
        own.map_or(Time::NEVER, |extra| Time::from_micros(extra.moment)).min(call.deadline)
    }

    fn wait_for_cooldown(&mut self, slot: Slot, until: Option<Duration>, now: Time) -> Step {
        let park = now.after(MAX_PARK);
        let next = until.map_or(park, |until| now.after(until).min(park));
        let next = next.min(self.patience_in_cooldown(slot));
        self[slot].moment = next; // the reaper counts from the last moment that the host was given
        wait(Wait::Cooldown, next, now)
    }

    /// Whether an enclosing call is on the same route.
    fn runs_within(&self, slot: Slot) -> bool {
        let route = self[slot].route;
        let mut around = self[slot].parent();
        for _ in 0..DEPTH {
            if around == Slot::NONE {
                return false;
            }
            if self[around].route == route {
                return true;
            }
            around = self[around].parent();
        }
        false
    }

    /// Lets a waiter continue, and returns the stage at which it continues.
    pub(super) fn left_cooldown(&mut self, slot: Slot) -> Stage {
        let extra = self.extra_mut(slot);
        extra.says &= !mark::COOLS;
        if extra.says & mark::TOKENS != 0 { Stage::Bulkhead } else { Stage::Rate }
    }
}

impl Routes {
    /// Admits an attempt, with a place if one is needed. The error is when another try makes sense.
    pub(super) fn enter_cooldown(
        &mut self,
        calls: &mut Arena,
        slot: Slot,
        returns: bool,
        now: Time,
    ) -> Result<(), Duration> {
        let route = calls[slot].route;
        let within = calls.runs_within(slot);
        let Some(cooling) = &mut self[route].cooldown else { return Ok(()) };
        if let Some(left) = cooling.part.closed_for(now) {
            return Err(left);
        }
        // A call within an attempt that has a place would wait for its own end.
        if within || cooling.part.has(calls.place_of(slot), now) {
            return Ok(());
        }
        let ahead = cooling.returning.len() + if returns { 0 } else { cooling.arriving.len() };
        if ahead > 0 {
            return Err(Duration::ZERO);
        }
        let place = cooling.part.admit(now)?;
        calls.set_place(slot, place);
        Ok(())
    }

    /// Marks an enclosing call whose inner call has been refused: a throttled end of its attempt is that refusal.
    pub(super) fn refused_within(&self, calls: &mut Arena, slot: Slot) {
        let around = calls[slot].parent();
        if around == Slot::NONE {
            return;
        }
        let route = &self[calls[around].route];
        let hears = |pool: &Pool| pool.limiter.hears_throttles();
        if route.cooldown.is_some()
            || route.targets_at.is_some()
            || self[route.pool_at].pool.as_ref().is_some_and(hears)
        {
            calls.extra_mut(around).says |= mark::INNER;
        }
    }
}

impl Desk {
    /// Asks the cooldown at its stage.
    #[inline(never)]
    pub(super) fn ask_cooldown(&mut self, slot: Slot, now: Time) -> Answer {
        let route = self.calls[slot].route;
        match &self.routes[route].cooldown {
            Some(cooling) if !cooling.part.is_open() => {}
            _ => return Answer::Pass,
        }
        self.let_in(route, now);
        let returns = self.calls[slot].attempts > 0;
        match self.routes.enter_cooldown(&mut self.calls, slot, returns, now) {
            Ok(()) => Answer::Pass,
            Err(span) => self.wait_in_cooldown(slot, span, returns, now),
        }
    }

    /// Makes a call wait until the route reopens, or refuses it.
    pub(super) fn wait_in_cooldown(
        &mut self,
        slot: Slot,
        span: Duration,
        returns: bool,
        now: Time,
    ) -> Answer {
        let call = &self.calls[slot];
        let (route, first) = (call.route, call.attempts == 0);
        let (deadline, may_park) = (call.deadline, call.has(flag::MAY_PARK));
        let settings = self.policies.of(&self.calls[slot]).cooldown.as_ref();
        let (waits, max_wait, most) =
            settings.map_or((false, Duration::ZERO, 0), |it| (it.wait, it.max_wait, it.max_waiters));
        let Some(cooling) = &self.routes[route].cooldown else { return Answer::broken(Verdict::Cooldown) };
        let left = cooling.part.closed_for(now);
        let in_vain = left.is_some_and(|left| now.after(left) >= deadline || first && left > max_wait);
        // A call that has come back was admitted before: the number of waiters bounds newcomers.
        let refused = first && (!waits || !returns && cooling.waiting() >= most);
        if !may_park || refused || in_vain {
            return Answer::Refuse(Verdict::Cooldown, Some(span));
        }
        let patience = now.after(max_wait).min(deadline);
        self.calls.note_charged(slot);
        let extra = self.calls.extra_mut(slot);
        extra.says = extra.says & !mark::RETURNS | mark::COOLS | if returns { mark::RETURNS } else { 0 };
        if first {
            extra.moment = patience.as_micros();
        }
        self.calls[slot].hold();
        if let Some(cooling) = &mut self.routes[route].cooldown {
            cooling.list_of(returns).push(&mut self.calls, slot);
        }
        let until = if first { patience } else { deadline };
        self.note_course(move |it| it.queued(slot, Wait::Cooldown, until, now));
        Answer::Wait(self.calls.wait_for_cooldown(slot, left, now))
    }

    /// Checks a waiter.
    pub(super) fn still_cooling(&mut self, slot: Slot, now: Time) -> Answer {
        let route = self.calls[slot].route;
        if !self.calls[slot].has(flag::TOKENS) {
            self.let_in(route, now);
            self.calls.forget_wake(slot, &mut self.wakes);
        }
        if self.calls[slot].has(flag::TOKENS) {
            return Answer::Pass;
        }
        let left = self.routes[route].cooldown.as_ref().and_then(|it| it.part.closed_for(now));
        if self.calls[slot].state() == super::automaton::State::Refused
            || self.calls.patience_in_cooldown(slot) <= now
        {
            return Answer::Refuse(Verdict::Cooldown, left);
        }
        Answer::Wait(self.calls.wait_for_cooldown(slot, left, now))
    }

    /// Lets waiters in: all of them while it is open, else as many as there are places.
    pub(super) fn let_in(&mut self, route: RouteAt, now: Time) {
        loop {
            let Some(cooling) = &mut self.routes[route].cooldown else { return };
            let Some(slot) = cooling.head() else { return };
            if cooling.part.closed_for(now).is_some() {
                return;
            }
            let late = self.calls.patience_in_cooldown(slot) <= now;
            let place = if late { Ok(Place::NONE) } else { cooling.part.admit(now) };
            let Ok(place) = place else { return };
            if !self.chores.one_more(Chore::Cooled(route)) {
                cooling.part.free(place);
                self.wakes.push(self.calls.id(slot)); // its next event resumes this loop
                return;
            }
            self.unlist(slot);
            if late {
                let out = self.calls[slot].deadline <= now;
                self.turn_away(slot, if out { Verdict::DeadlineQueued } else { Verdict::Cooldown }, now);
                continue;
            }
            self.calls[slot].flags |= flag::TOKENS;
            self.calls.set_place(slot, place);
            self.note_course(move |it| it.granted(slot, Wait::Cooldown, None, now));
            self.wakes.push(self.calls.id(slot));
        }
    }

    /// Frees the place of a call that ends, or whose attempt was refused.
    #[cold]
    #[inline(never)]
    pub(super) fn free_cooldown_place(&mut self, slot: Slot, now: Time) {
        let place = self.calls.take_place(slot);
        let route = self.calls[slot].route;
        if place != Place::NONE
            && let Some(cooling) = &mut self.routes[route].cooldown
        {
            cooling.part.free(place);
            self.let_in(route, now);
        }
    }

    /// Learns from the end of an attempt that was not throttled.
    #[inline(never)]
    pub(super) fn cooldown_feedback(
        &mut self,
        slot: Slot,
        attempt: &RunningAttempt,
        class: Class,
        now: Time,
    ) {
        if class != Class::Ok {
            return self.free_cooldown_place(slot, now);
        }
        let place = self.calls.take_place(slot);
        let at = self.calls[slot].route;
        let limit = self.routes[self.routes[at].pool_at].pool.as_ref().map(|pool| pool.limit);
        let most = self.routes[at].most_places(limit);
        let Some(cooling) = &mut self.routes[at].cooldown else { return };
        let from = cooling.part.state(now);
        cooling.part.on_good(attempt.since, place, most, now);
        if from != CooldownState::Open {
            self.note(move |it| it.cooldown_changed(Some(slot), at, from, now));
            self.let_in(at, now);
        }
    }

    /// Closes the route, or the target, after an attempt that was throttled, or whose quota was `spent` (semantics 16.2,
    /// 17.5). The attempt started `since`. Returns whether the route has closed, or its closing ends later now.
    #[cold]
    #[inline(never)]
    pub(super) fn cool_down(
        &mut self,
        slot: Slot,
        (since, attempt): (Time, u8),
        (retry_after, spent): (Option<Duration>, bool),
        now: Time,
    ) -> bool {
        let route = self.calls[slot].route;
        let attempt_slot = AttemptSlot::of(attempt);
        let target = self.routes[route].targets_at.and_then(|home| {
            let number = self.calls.target_in(slot, attempt_slot)?;
            let member = self.routes[*home].group.as_ref()?.member(number)?;
            Some((member.at, member.in_flight, member.policy()))
        });
        let (at, in_flight, policy) =
            target.unwrap_or((route, self.routes[route].active, self.policies.of(&self.calls[slot])));
        let wait = policy.cooldown.as_ref().and_then(|it| it.quota_wait);
        let is_target = at != route;
        // The limit has been cut already: one throttle without a time may be all that it needed.
        let lenient = self.routes[self.routes[at].pool_at].follows_loss();
        // A call may be older than the retune that removed its cooldown.
        let is_there = is_target || self.routes[at].stages & stage::HOLD != 0;
        // An inner policy has refused: nothing has been heard of the downstream.
        let heard = is_there && (spent || !self.calls.marked(slot, mark::INNER));
        let place = if is_target {
            self.calls.place_at_target(slot, attempt_slot)
        } else {
            self.calls.take_place(slot)
        };
        let bits = rng::bits(self.seed, self.calls[slot].ordinal(), Purpose::Cooldown, attempt);
        let Some(cooling) = &mut self.routes[at].cooldown else { return false };
        let from = cooling.part.state(now);
        let in_flight = in_flight.saturating_sub(cooling.waiting()).max(1);
        let closed = heard
            && if spent {
                wait.is_some_and(|wait| {
                    cooling.part.on_spent(since, (retry_after, wait), in_flight, bits, now)
                })
            } else {
                cooling.part.set_lenient(lenient);
                cooling.part.on_throttled(since, retry_after, in_flight, bits, now)
            };
        cooling.part.free(place);
        if closed {
            self.note(move |it| it.cooldown_changed(Some(slot), at, from, now));
        }
        self.let_in(at, now); // a server may name a time of zero
        closed && !is_target
    }
}
