//! The attempts of a call: which of them run, which have ended, and what those held. All of it is in the call's own bits and its
//! second block; nothing here needs its policy or its route.

use super::arena::{Arena, flag};
use super::call_extra::{SOLO, mark};
use super::place::{RouteAt, Slot};
use crate::outcome::Class;
use crate::time::{Duration, Time};

/// Permits of attempts that have ended, to release once the event that reports them has been processed. Limiters that
/// learn from the event still count them.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRelease {
    route: RouteAt,
    /// Permits of the route's pool and of targets, in all.
    due: u32,
    /// Numbers of the targets, and how many.
    targets: ([u8; 8], u8),
}

impl Default for PendingRelease {
    fn default() -> Self {
        Self { route: RouteAt::NONE, due: 0, targets: ([0; 8], 0) }
    }
}

impl PendingRelease {
    /// Adds permits of a route. All permits of one event belong to one route.
    pub fn add(&mut self, route: RouteAt, permits: u32) {
        self.route = route;
        self.due += permits;
    }

    /// Adds permits of targets. An event reports at most eight attempts.
    fn add_targets(&mut self, route: RouteAt, (targets, count): ([u8; 8], u8)) {
        self.route = route;
        let (all, taken) = &mut self.targets;
        for target in &targets[..usize::from(count)] {
            if let Some(place) = all.get_mut(usize::from(*taken)) {
                *place = *target;
                *taken += 1;
                self.due += 1;
            }
        }
    }

    /// Number of permits to release, of targets too.
    #[inline]
    pub fn due(self) -> u32 {
        self.due
    }

    /// Number of permits of targets.
    #[inline]
    fn of_targets(self) -> u32 {
        u32::from(self.targets.1)
    }

    /// Keeps one permit of the pool for the call; false if there are none.
    pub fn keep_one(&mut self) -> bool {
        let any = self.due > self.of_targets();
        self.due -= u32::from(any);
        any
    }

    /// Takes the permits of targets: their route, their targets, and how many; `None` if there are none.
    #[inline]
    pub fn take_targets(&mut self) -> Option<(RouteAt, [u8; 8], u8)> {
        let count = self.of_targets();
        self.due -= count;
        let (targets, taken) = core::mem::take(&mut self.targets);
        (count > 0).then_some((self.route, targets, taken))
    }

    /// Takes the permits of the pool: their route, and how many. Those of targets are taken before.
    #[inline]
    pub fn take(&mut self) -> (RouteAt, u32) {
        debug_assert!(self.of_targets() == 0, "permits of targets are taken first");
        (self.route, core::mem::take(&mut self.due))
    }
}

impl Arena {
    /// Saves the moment when the next attempt was paid for, because the call's links overwrite it.
    #[inline]
    pub fn note_charged(&mut self, slot: Slot) {
        if self[slot].attempts > 0 {
            self.keep_moment(slot);
        }
    }

    #[inline(never)]
    fn keep_moment(&mut self, slot: Slot) {
        let since = self[slot].since();
        self.extra_mut(slot).moment = since.as_micros();
    }

    pub fn recall_charged(&mut self, slot: Slot) {
        let call = &self[slot];
        let since = match self.extra(slot) {
            Some(extra) if call.attempts > 0 => Time::from_micros(extra.moment),
            _ => call.started,
        };
        self[slot].set_since(since);
    }

    /// When the next attempt of a call was paid for, also while the call is in a list.
    pub fn charged_at(&self, slot: Slot) -> Time {
        let call = &self[slot];
        match self.extra(slot) {
            Some(extra) if call.listed() => Time::from_micros(extra.moment),
            _ => call.since(),
        }
    }

    /// The permits that a call holds.
    pub fn permits_of(&self, slot: Slot) -> u32 {
        let call = &self[slot];
        let extra_permits = self.extra(slot).map_or(0, |extra| extra.extra_permits & call.attempt_slots);
        let attempt_slots = if call.has(flag::PER_ATTEMPT) { call.attempt_slots } else { extra_permits };
        u32::from(call.has(flag::HOLDS)) + attempt_slots.count_ones()
    }

    /// Keeps one of the permits to release for nested calls, which continue under a permit that they share with this one
    /// (ADR 0005).
    pub fn keep_permit(&mut self, slot: Slot, pending: &mut PendingRelease) {
        let call = &mut self[slot];
        if call.children > 0 && !call.has(flag::HOLDS) && pending.keep_one() {
            call.flags |= flag::HOLDS;
        }
    }

    /// Whether the request allows hedges.
    pub fn is_hedgeable(&self, slot: Slot) -> bool {
        let call = &self[slot];
        call.has(flag::IDEMPOTENT)
            && call.has(flag::REPLAYABLE)
            && self.extra(slot).is_none_or(|extra| extra.says & SOLO == 0)
    }

    /// Records a retryable failure while other attempts run.
    pub fn lost_attempt(&mut self, slot: Slot, class: Class, retry_after: Option<Duration>) {
        if class == Class::Throttled {
            self[slot].flags |= flag::UNHEDGED;
        }
        self.note_retry_after(slot, retry_after);
    }

    /// Keeps the largest Retry-After of a race.
    pub fn note_retry_after(&mut self, slot: Slot, retry_after: Option<Duration>) {
        let extra = self.extra_mut(slot);
        extra.moment = extra.moment.max(retry_after.map_or(0, |span| span.as_micros().saturating_add(1)));
    }

    /// Start and number of the oldest running attempt.
    pub fn oldest_running(&self, slot: Slot) -> (Time, u8) {
        let (call, extra) = (&self[slot], self.extra(slot));
        if !call.is_racing() {
            return (call.since(), call.attempts);
        }
        let running_attempts = extra.into_iter().flat_map(|extra| extra.running_attempts(call.since()));
        running_attempts
            .map(|running_attempt| (running_attempt.since, running_attempt.attempt))
            .min()
            .unwrap_or((call.since(), call.attempts))
    }

    /// The largest Retry-After of a race, including its last attempt's.
    #[inline]
    pub fn largest_retry_after(&self, slot: Slot, last: Option<Duration>) -> Option<Duration> {
        if self[slot].is_racing() { self.largest_of_race(slot, last) } else { last }
    }

    #[inline(never)]
    fn largest_of_race(&self, slot: Slot, last: Option<Duration>) -> Option<Duration> {
        let noted = self.extra(slot).and_then(|extra| extra.moment.checked_sub(1));
        last.max(noted.map(Duration::from_micros))
    }

    /// Whether this attempt runs and has not been stopped.
    #[inline]
    pub fn runs(&self, slot: Slot, attempt: u8) -> bool {
        let call = &self[slot];
        call.running() & call.started_as(attempt) != 0
    }

    /// Removes attempts that have ended. Their own permits, if any, are released once the event has been processed.
    #[inline]
    pub fn report_attempt_slots(&mut self, slot: Slot, bits: u8, pending: &mut PendingRelease) {
        let call = &mut self[slot];
        let gone = call.attempt_slots & bits;
        call.attempt_slots &= !bits;
        if gone != 0 && call.has(flag::PER_ATTEMPT | flag::EXTRA) {
            self.report_permits(slot, gone, pending);
        }
    }

    #[inline(never)]
    fn report_permits(&mut self, slot: Slot, gone: u8, pending: &mut PendingRelease) {
        let call = &self[slot];
        let mut permits = if call.has(flag::PER_ATTEMPT) { gone.count_ones() } else { 0 };
        let route = call.route;
        if call.has(flag::EXTRA) {
            let extra = self.extra_mut(slot);
            permits += (extra.extra_permits & gone).count_ones();
            extra.extra_permits &= !gone;
            if extra.says & mark::MORE != 0 {
                self.report_targets(slot, gone, pending);
            }
        }
        if permits > 0 {
            pending.add(route, permits);
        }
    }

    /// Takes the permits of targets that attempts have held which have ended.
    #[cold]
    #[inline(never)]
    pub fn report_targets(&mut self, slot: Slot, gone: u8, pending: &mut PendingRelease) {
        let route = self[slot].route;
        if let Some(block) = self.targets_mut(slot) {
            pending.add_targets(route, block.take(gone));
        }
    }

    /// Handles the end of a stopped attempt. Returns true if it is the newest attempt and the next has not started.
    pub fn unwound(&mut self, slot: Slot, attempt: u8, pending: &mut PendingRelease) -> bool {
        let call = &self[slot];
        let bit = call.started_as(attempt) & call.stopped;
        if bit == 0 {
            return false;
        }
        let newest = attempt == call.attempts && call.between_attempts();
        self[slot].stopped &= !bit;
        self.report_attempt_slots(slot, bit, pending);
        newest
    }
}
