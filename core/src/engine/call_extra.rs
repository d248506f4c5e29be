//! Extra state of the few calls that need more than their 64 bytes: calls with several running attempts, calls held
//! by path, and calls that wait for a permit between attempts. Each uses one pooled block of 64 bytes.

use super::arena::{Arena, flag};
use super::blocks::Blocks;
use super::more::More;
use super::place::{RouteAt, Slot};
use crate::action::AttemptSlot;
use crate::full::Part;
use crate::outcome::Class;
use crate::time::{Duration, Time};

/// Its attempts never run at the same time.
pub(super) const SOLO: u8 = 1;
/// Its answer is a stream, so that `first_byte_timeout` applies.
pub(super) const STREAM: u8 = 2;

/// Means that the call is in no hold.
pub(super) const NO_GATE: u16 = u16::MAX;

/// Further bits of [`CallExtra::says`], which change.
pub(super) mod mark {
    use crate::full::rare_bit;

    /// Has a place of its route's cooldown.
    pub const PLACED: u8 = rare_bit(1 << 2);
    /// While held: waits for the cooldown.
    pub const COOLS: u8 = rare_bit(1 << 3);
    /// Waits there before calls that have not come so far.
    pub const RETURNS: u8 = rare_bit(1 << 4);
    /// Keeps its tokens of the rate limit, and goes to the head of the bulkhead's queue.
    pub const TOKENS: u8 = rare_bit(1 << 5);
    /// Its last nested call was refused.
    pub const INNER: u8 = rare_bit(1 << 6);
    /// Has targets or weights, which are in blocks of their own ([`super::More`]).
    pub const MORE: u8 = rare_bit(1 << 7);
}

/// One running attempt of a race.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RunningAttempt {
    pub attempt: u8,
    pub since: Time,
    /// Charge that its budget took.
    pub charge: u16,
    /// Ticket of its breaker, if each attempt has one.
    pub ticket: u16,
    pub hedge: bool,
    /// Whether it holds a permit of its own; if so, its end is a sample for the limit.
    pub permit: bool,
}

/// The block of a call.
#[derive(Clone, Debug)]
pub(super) struct CallExtra {
    /// The largest Retry-After of the race, in µs; between attempts: when the next attempt was paid for.
    pub moment: u64,
    /// When each running attempt started, in µs since the first one: 48 bits (nine years), split into low and high
    /// parts.
    since: [u32; 4],
    later: [u16; 4],
    charge: [u16; 4],
    ticket: [u16; 4],
    /// Path of the call, for holds; 0 means no path.
    pub path: u16,
    /// The hold in which the call waits or has a place; with [`mark::PLACED`] the number of its place.
    pub gate: u16,
    /// Number of each running attempt; 0 means that the attempt slot is free.
    attempt: [u8; 4],
    hedge: [bool; 4],
    /// Attempt slots that hold a permit besides the call's own.
    pub extra_permits: u8,
    /// Whether the call has a place of its hold (and does not wait for one).
    pub placed: bool,
    /// What the request says, [`SOLO`] and [`STREAM`], and the bits of [`mark`].
    pub says: u8,
    /// Attempt slot of the newest running attempt; it stays valid until the next attempt enters.
    newest: u8,
}

const _: () = assert!(size_of::<CallExtra>() == 64);

impl Default for CallExtra {
    fn default() -> Self {
        Self {
            moment: 0,
            since: [0; 4],
            later: [0; 4],
            charge: [0; 4],
            ticket: [0; 4],
            path: 0,
            gate: NO_GATE,
            attempt: [0; 4],
            hedge: [false; 4],
            extra_permits: 0,
            placed: false,
            says: 0,
            newest: 0,
        }
    }
}

/// The longest race whose start times can be distinguished.
const LONGEST: u64 = (1 << 48) - 1;

impl CallExtra {
    /// Adds an attempt to a race whose first attempt started at `base`.
    pub fn enter(&mut self, running_attempt: RunningAttempt, base: Time) {
        let Some(place) = self.attempt.iter().position(|attempt| *attempt == 0) else { return };
        let since = running_attempt.since.since(base).as_micros().min(LONGEST);
        (self.attempt[place], self.newest) = (running_attempt.attempt, place as u8);
        (self.since[place], self.later[place]) = (since as u32, (since >> 32) as u16);
        (self.charge[place], self.ticket[place]) = (running_attempt.charge, running_attempt.ticket);
        self.hedge[place] = running_attempt.hedge;
    }

    /// The running attempts, in the order of their attempt slots.
    pub fn running_attempts(&self, base: Time) -> impl Iterator<Item = RunningAttempt> + '_ {
        let there = (0..4).filter(|place| self.attempt[*place] != 0);
        there.map(move |place| RunningAttempt {
            attempt: self.attempt[place],
            since: self.started(place, base),
            charge: self.charge[place],
            ticket: self.ticket[place],
            hedge: self.hedge[place],
            permit: false,
        })
    }

    /// Forgets what the running attempts paid to a budget that is gone; with `hedges`, also the charges of hedges,
    /// because they paid to the same budget.
    pub fn forget_charges(&mut self, hedges: bool) {
        for (charge, hedge) in self.charge.iter_mut().zip(&self.hedge) {
            *charge = if *hedge && !hedges { *charge } else { 0 };
        }
    }

    /// Removes an attempt from the race.
    pub fn take(&mut self, attempt_slot: AttemptSlot, base: Time) -> Option<RunningAttempt> {
        let running_attempt = self
            .running_attempts(base)
            .find(|running_attempt| AttemptSlot::of(running_attempt.attempt) == attempt_slot)?;
        let place = self.attempt.iter().position(|attempt| *attempt == running_attempt.attempt)?;
        self.attempt[place] = 0;
        Some(running_attempt)
    }

    fn started(&self, place: usize, base: Time) -> Time {
        let since = u64::from(self.since[place]) | u64::from(self.later[place]) << 32;
        base.after(Duration::from_micros(since))
    }

    /// When the newest running attempt started.
    pub fn newest(&self, base: Time) -> Time {
        self.started(usize::from(self.newest), base)
    }
}

/// All blocks.
#[derive(Debug, Default)]
pub(super) struct CallExtras {
    pub blocks: Blocks<CallExtra>,
    /// Targets and weights, once a call has had some.
    pub more: Option<Part<More>>,
}

impl CallExtras {
    /// Frees all blocks of a call.
    #[inline]
    pub fn remove(&mut self, slot: Slot) {
        self.blocks.remove(slot);
        if let Some(more) = &mut self.more {
            more.remove(slot);
        }
    }
}

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

/// Queries that need only a call's own block and bits, neither its policy nor its route.
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

    /// The permits that a call holds.
    pub fn permits_of(&self, slot: Slot) -> u32 {
        let call = &self[slot];
        let extra_permits = self.extra(slot).map_or(0, |extra| extra.extra_permits & call.attempt_slots);
        let attempt_slots = if call.has(flag::PER_ATTEMPT) { call.attempt_slots } else { extra_permits };
        u32::from(call.has(flag::HOLDS)) + attempt_slots.count_ones()
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
