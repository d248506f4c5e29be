//! The arena of calls: 64 bytes each, named by integer handles with a generation. Few calls need more; they have a
//! second block.

use super::automaton::{Standing, State};
use super::blocks::Blocks;
use super::call_extra::{CallExtra, CallExtras, mark};
use super::more::More;
use super::place::{RouteAt, Slot};
use super::sheets::Sheet;
use super::targets::AttemptTargets;
use super::whole;
use crate::action::{AttemptSlot, CallId, Verdict};
use crate::full::{Full, Part, rare_flag};
use crate::outcome::Kind;
use crate::time::Time;

/// Attempts of one call that may run at once (R11).
const AT_ONCE: u32 = 4;

const _: () = assert!(Slot::NONE.number() > 1 << CallId::SLOT_BITS, "no call is at Slot::NONE");

/// The bits of a slot in a word shared with something else.
const SLOT: u32 = (1 << CallId::SLOT_BITS) - 1;

/// One call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// Beginning of the call.
    pub started: Time,
    /// Deadline of the call; [`Time::NEVER`] without one.
    pub deadline: Time,
    /// Moment of the current state: the end of the attempt, of the backoff, of a hold or of a grant's lease, the turn
    /// at a rate, or the arrival in the queue.
    pub moment: Time,
    /// Running, Body, Backoff, Passing: beginning of the state. In a list: the two neighbours.
    aux: u64,
    /// Ordinal in the engine, modulo 2^32. The call's random draws depend on it.
    ordinal: u32,
    generation: u32,
    pub route: RouteAt,
    /// Slot of the enclosing call, 24 bits; kind of the last failure, 5 bits, and its attempt slot, 3 bits.
    parent: u32,
    pub policy: u16,
    pub flags: u16,
    /// Cost of the last retry in its budget's own unit, while it can be refunded.
    pub charge: u16,
    /// Nested calls that have not ended.
    pub children: u16,
    /// While Refused: the verdict. Otherwise: the call's cost in tokens of a rate limit. Read by [`Call::refusal`]
    /// and [`Call::cost`].
    cost: u16,
    /// Number of its breaker's ticket; 0 means no ticket.
    pub ticket: u16,
    pub standing: Standing,
    /// Attempts started.
    pub attempts: u8,
    /// Attempts started and not yet reported, by attempt slot.
    pub attempt_slots: u8,
    /// Attempts that the engine has stopped and that have not unwound, by attempt slot.
    pub stopped: u8,
}

// A live call is one cache line while one attempt runs (architecture, "Locks, memory, processes").
const _: () = assert!(size_of::<Call>() == 64);

/// The bits of [`Call::flags`]; the first seven are those of a request's flags word.
pub(super) mod flag {
    use super::rare_flag;

    pub const CRITICALITY: u16 = 3;
    pub const REPLAYABLE: u16 = 1 << 2;
    pub const IDEMPOTENT: u16 = 1 << 3;
    pub const ABORTABLE: u16 = 1 << 4;
    pub const MAY_PARK: u16 = 1 << 5;
    pub const UNTIL_BODY: u16 = 1 << 6;
    /// Holds a permit of its route's pool for all its attempts, or for the next one.
    pub const HOLDS: u16 = 1 << 7;
    /// Lies within a call that retries.
    pub const NESTED: u16 = rare_flag(1 << 8);
    /// Its ticket belongs to a probe.
    pub const PROBE: u16 = 1 << 9;
    /// Has a second block.
    pub const EXTRA: u16 = 1 << 10;
    /// Owns the tokens it waited for.
    pub const TOKENS: u16 = 1 << 11;
    /// Shares the permit of an enclosing call.
    pub const SHARES: u16 = rare_flag(1 << 12);
    /// No hedges until the next regular attempt.
    pub const UNHEDGED: u16 = rare_flag(1 << 13);
    /// While waiting: waits for the send rate, not for the rate limit. While running: several attempts run, noted in
    /// its block.
    pub const SENDING: u16 = rare_flag(1 << 14);
    /// The same bit while Running.
    pub const RACING: u16 = SENDING;
    /// Each running attempt holds a permit.
    pub const PER_ATTEMPT: u16 = 1 << 15;
}

impl Call {
    /// A call that has just begun, in no list.
    pub fn new(ordinal: u64, started: Time, route: RouteAt, policy: u16) -> Self {
        Self {
            started,
            deadline: Time::NEVER,
            moment: Time::NEVER,
            aux: started.as_micros(),
            ordinal: ordinal as u32,
            generation: 0,
            route,
            parent: SLOT,
            policy,
            flags: 0,
            charge: 0,
            children: 0,
            cost: 1,
            ticket: 0,
            standing: Standing::FREE,
            attempts: 0,
            attempt_slots: 0,
            stopped: 0,
        }
    }

    #[inline]
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Makes a probe of an attempt that was none, and the reverse. Out of line: code that may change the flags reads both of their
    /// bytes, and where one byte has just been written, that read waits until the write has left the store buffer.
    #[cold]
    #[inline(never)]
    pub fn turn_probe(&mut self) {
        self.flags ^= flag::PROBE;
    }

    /// Whether several of its attempts run, noted in its block.
    #[inline]
    pub fn is_racing(&self) -> bool {
        self.has(flag::RACING)
    }

    pub fn ordinal(&self) -> u64 {
        u64::from(self.ordinal)
    }

    /// Slot of the enclosing call, or [`Slot::NONE`].
    #[inline]
    pub fn parent(&self) -> Slot {
        whole::parent(self.parent & SLOT, SLOT)
    }

    pub fn set_parent(&mut self, slot: Slot) {
        self.parent = self.parent & !SLOT | slot.number() & SLOT;
    }

    /// The kind of its last failure, and the slot of the attempt that failed.
    pub fn last_failure(&self) -> (Kind, AttemptSlot) {
        let word = (self.parent >> CallId::SLOT_BITS) as u8;
        (Kind::new(word & 31).unwrap_or(Kind::CANCELLED), AttemptSlot::of((word >> 5) + 1))
    }

    pub fn set_last_failure(&mut self, kind: Kind, attempt_slot: AttemptSlot) {
        let word = kind.number() | attempt_slot.number() << 5;
        self.parent = self.parent & SLOT | u32::from(word) << CallId::SLOT_BITS;
    }

    /// When the attempt or the backoff began.
    #[inline]
    pub fn since(&self) -> Time {
        Time::from_micros(self.aux)
    }

    #[inline]
    pub fn set_since(&mut self, now: Time) {
        self.aux = now.as_micros();
    }

    /// The previous and the next slot in its list.
    pub fn links(&self) -> (Slot, Slot) {
        (Slot::new(self.aux as u32), Slot::new((self.aux >> 32) as u32))
    }

    pub fn set_links(&mut self, before: Slot, after: Slot) {
        self.aux = u64::from(before.number()) | u64::from(after.number()) << 32;
    }

    /// Whether its end releases nothing but its permit: no attempt or nested call is running, and it has no block
    /// and no ticket that still counts.
    #[inline]
    pub fn is_plain(&self) -> bool {
        matches!(self.state(), State::Running | State::Body)
            && self.attempt_slots == 0
            && self.children == 0
            && (self.ticket == 0 || self.state() == State::Body)
            && !self.has(flag::EXTRA)
    }

    /// Whether it waits, or has been granted what it waited for.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state(), State::Held | State::Paced | State::Queued | State::Granted)
    }

    /// Whether it is in a list.
    pub fn listed(&self) -> bool {
        matches!(self.state(), State::Held | State::Paced | State::Queued | State::Granted)
            && !(self.state() != State::Queued && self.state() != State::Granted && self.has(flag::TOKENS))
    }

    /// Whether a further attempt has been paid for and not started.
    pub fn between_attempts(&self) -> bool {
        self.attempts > 0
            && !matches!(
                self.state(),
                State::Running | State::Body | State::Ended | State::Lost | State::Free
            )
    }

    /// The attempt slot of its newest attempt.
    #[inline]
    pub fn attempt_slot(&self) -> AttemptSlot {
        AttemptSlot::of(self.attempts)
    }

    /// The attempts that run, unstopped, by attempt slot.
    #[inline]
    pub fn running(&self) -> u8 {
        self.attempt_slots & !self.stopped
    }

    /// Whether its next attempt must wait for stopped ones that have not unwound (R11).
    #[inline]
    pub fn blocked(&self) -> bool {
        self.attempt_slots != 0
            && (self.attempt_slots.count_ones() >= AT_ONCE
                || self.attempt_slots & AttemptSlot::of(self.attempts.wrapping_add(1)).bit() != 0)
    }

    /// Bit of an attempt that may be running; none for a number that names no attempt of this call (R11).
    #[inline]
    pub fn started_as(&self, attempt: u8) -> u8 {
        let out = attempt != 0 && self.attempts.checked_sub(attempt).is_some_and(|older| older < 8);
        if out { AttemptSlot::of(attempt).bit() } else { 0 }
    }

    /// The number of the newest attempt in this slot.
    pub fn attempt_in(&self, attempt_slot: AttemptSlot) -> u8 {
        self.attempts - (self.attempt_slot().number().wrapping_sub(attempt_slot.number()) & 7)
    }

    /// Cost in tokens of a rate limit; 0 for a refused call.
    #[inline]
    pub fn cost(&self) -> u32 {
        debug_assert!(self.state() != State::Refused, "the word holds a verdict");
        u32::from(self.cost)
    }

    pub fn set_cost(&mut self, tokens: u16) {
        self.cost = tokens;
    }

    /// Stores the verdict of a refused waiter, in place of its cost.
    pub fn set_refusal(&mut self, verdict: Verdict) {
        self.cost = verdict as u16;
    }

    /// The verdict of a refused waiter.
    pub fn refusal(&self) -> Verdict {
        debug_assert!(self.state() == State::Refused, "the word holds a cost");
        Verdict::ALL[usize::from(self.cost)]
    }
}

/// All calls, in reusable slots; an id names a slot and its generation.
#[derive(Debug, Default)]
pub(super) struct Arena {
    calls: Vec<Call>,
    /// Free slots.
    free: Vec<Slot>,
    /// The next slot that the reaper visits.
    cursor: u32,
    extras: CallExtras,
    /// By slot: the nearest ancestor whose route has permits, or [`Slot::NONE`]. Meaningful where [`Call::parent`] is
    /// not [`Slot::NONE`]. Its length covers the highest slot that was ever nested.
    pooled_above: Vec<Slot>,
}

impl Arena {
    /// Whether the next call needs a new slot ([`Arena::make_room`]).
    #[inline]
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Adds a free slot, unless there are 2^24 slots.
    #[cold]
    #[inline(never)]
    pub fn make_room(&mut self) {
        let slot = Slot::new(self.calls.len() as u32);
        if slot.number() >> CallId::SLOT_BITS == 0 {
            let empty = Call::new(0, Time::from_micros(0), RouteAt::NONE, 0);
            self.calls.push(Call { generation: 1, ..empty });
            self.free.push(slot);
        }
    }

    /// Stores a call in a free slot; `None` if there is none.
    #[inline]
    pub fn insert(&mut self, mut call: Call) -> Option<Slot> {
        let slot = self.free.pop()?;
        let place = &mut self.calls[slot.index()];
        call.generation = place.generation;
        *place = call;
        Some(slot)
    }

    /// Frees a slot, which makes its id stale. Retires a slot whose generations are used up.
    #[cfg_attr(not(tidegate_small), inline(always))]
    pub fn remove(&mut self, slot: Slot) {
        let call = &mut self.calls[slot.index()];
        if call.has(flag::EXTRA) {
            self.extras.remove(slot);
        }
        call.forget();
        if u64::from(call.generation) < CallId::GENERATIONS {
            call.generation += 1;
            self.free.push(slot);
        }
    }

    /// The slot that an id names, if the call still exists.
    #[inline]
    pub fn find(&self, id: CallId) -> Option<Slot> {
        let slot = Slot::new(id.slot());
        let call = self.calls.get(slot.index())?;
        (u64::from(call.generation) == id.generation() && call.state() != State::Free).then_some(slot)
    }

    pub fn id(&self, slot: Slot) -> CallId {
        CallId::new(slot.number(), u64::from(self.calls[slot.index()].generation))
    }

    /// The next slot for the reaper, in a cycle.
    #[inline]
    pub fn next_to_reap(&mut self) -> Option<Slot> {
        if self.calls.is_empty() {
            return None;
        }
        let slot = self.cursor;
        self.cursor = if slot + 1 < self.calls.len() as u32 { slot + 1 } else { 0 };
        Some(Slot::new(slot))
    }

    /// Frees every occupied slot.
    pub fn clear(&mut self) {
        for slot in (0..self.calls.len() as u32).map(Slot::new) {
            if self.calls[slot.index()].state() != State::Free {
                self.remove(slot);
            }
        }
    }

    /// The second block of a call, if it has one.
    pub fn extra(&self, slot: Slot) -> Option<&CallExtra> {
        self[slot].has(flag::EXTRA).then(|| self.extras.blocks.known(slot))
    }

    /// Whether a call has targets or weights.
    #[inline]
    pub fn has_more(&self, slot: Slot) -> bool {
        self.extras.more.is_some() && self.extra(slot).is_some_and(|extra| extra.says & mark::MORE != 0)
    }

    /// The blocks in which a call is to have targets or weights.
    pub fn more_of(&mut self, slot: Slot, full: Full) -> &mut More {
        self.extra_mut(slot).says |= mark::MORE;
        self.extras.more.get_or_insert_with(|| Part::new(More::default(), full))
    }

    /// The targets of a call's attempts.
    pub fn targets(&self, slot: Slot) -> Option<&AttemptTargets> {
        self.extras.more.as_ref()?.targets.get(slot)
    }

    pub fn targets_mut(&mut self, slot: Slot) -> Option<&mut AttemptTargets> {
        self.extras.more.as_mut()?.targets.get_mut(slot)
    }

    /// The weights of all calls, and the reservations of their attempts.
    pub fn sheets(&self) -> Option<&Blocks<Sheet>> {
        self.extras.more.as_ref().map(|more| &more.sheets)
    }

    pub fn sheets_mut(&mut self) -> Option<&mut Blocks<Sheet>> {
        self.extras.more.as_mut().map(|more| &mut more.sheets)
    }

    /// Blocks in use.
    pub fn blocks(&self) -> usize {
        self.extras.blocks.len()
    }

    /// The second block of a call; creates a missing one.
    #[inline]
    pub fn extra_mut(&mut self, slot: Slot) -> &mut CallExtra {
        if !self[slot].has(flag::EXTRA) {
            self.add_extra(slot);
        }
        self.extras.blocks.known_mut(slot)
    }

    #[inline(never)]
    fn add_extra(&mut self, slot: Slot) {
        self[slot].flags |= flag::EXTRA;
        self.extras.blocks.insert(slot, CallExtra::default());
    }

    /// Nests a call in another. `pooled` means that the parent's route has permits, which its children may share.
    pub fn nest(&mut self, slot: Slot, parent: Slot, pooled: bool) {
        let above = if pooled { parent } else { self.pooled_above(parent).unwrap_or(Slot::NONE) };
        self[slot].set_parent(parent);
        self.set_pooled_above(slot, above);
    }

    /// The nearest enclosing call that may hold or share a permit.
    ///
    /// Skips ancestors without permits, and an ancestor whose permit a call shares ([`Arena::stand_in_for`]). An
    /// ancestor outlives its descendants (`settle`), so a slot in here never belongs to another call.
    pub fn pooled_above(&self, slot: Slot) -> Option<Slot> {
        if self[slot].parent() == Slot::NONE {
            return None;
        }
        self.pooled_above.get(slot.index()).copied().filter(|above| *above != Slot::NONE)
    }

    /// Notes that a call shares the permit of the nearest call above it until it ends, so calls within it need not
    /// visit both.
    pub fn stand_in_for(&mut self, slot: Slot, above: Slot) {
        let next = self.pooled_above(above).unwrap_or(Slot::NONE);
        self.set_pooled_above(slot, next);
    }

    /// Ends the skipping of ancestors, because a route without permits has got some.
    pub fn look_at_all_parents(&mut self) {
        for slot in 0..self.pooled_above.len() {
            self.pooled_above[slot] = self.calls.get(slot).map_or(Slot::NONE, Call::parent);
        }
    }

    fn set_pooled_above(&mut self, slot: Slot, above: Slot) {
        if self.pooled_above.len() <= slot.index() {
            self.pooled_above.resize(slot.index() + 1, Slot::NONE);
        }
        self.pooled_above[slot.index()] = above;
    }

    /// Number of slots, free ones included.
    pub fn slots(&self) -> u32 {
        self.calls.len() as u32
    }

    /// The calls in `slots` slots, beginning with `from`.
    pub fn page(&self, from: u32, slots: u32) -> impl Iterator<Item = (Slot, &Call)> {
        let end = from.saturating_add(slots).min(self.slots());
        let page = self.calls.get(from as usize..end as usize).unwrap_or(&[]);
        (from..).map(Slot::new).zip(page).filter(|(_, call)| call.state() != State::Free)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Slot, &Call)> {
        (0..).map(Slot::new).zip(&self.calls).filter(|(_, call)| call.state() != State::Free)
    }
}

impl core::ops::Index<Slot> for Arena {
    type Output = Call;

    #[inline]
    fn index(&self, slot: Slot) -> &Call {
        &self.calls[slot.index()]
    }
}

impl core::ops::IndexMut<Slot> for Arena {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Call {
        &mut self.calls[slot.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(arena: &mut Arena) -> Slot {
        if arena.is_full() {
            arena.make_room();
        }
        arena.insert(call()).unwrap()
    }

    fn call() -> Call {
        let mut call = Call::new(0, Time::from_micros(0), RouteAt::new(0), 0);
        call.begin();
        call
    }

    #[test]
    fn a_stale_id_never_names_the_next_call_in_its_slot() {
        let mut arena = Arena::default();
        let slot = insert(&mut arena);
        let id = arena.id(slot);
        assert_eq!(arena.find(id), Some(slot));
        arena.remove(slot);
        assert_eq!(arena.find(id), None);
        let again = insert(&mut arena);
        assert_eq!(again, slot);
        assert_eq!(arena.find(id), None);
        assert_ne!(arena.id(again), id);
    }

    #[test]
    fn a_slot_whose_generations_are_used_up_is_retired() {
        let mut arena = Arena::default();
        let slot = insert(&mut arena);
        arena[slot].generation = CallId::GENERATIONS as u32;
        let id = arena.id(slot);
        arena.remove(slot);
        assert_eq!(arena.find(id), None);
        assert_ne!(insert(&mut arena), slot);
    }

    #[test]
    fn generations_start_at_one_so_no_id_is_zero() {
        let mut arena = Arena::default();
        let slot = insert(&mut arena);
        assert_eq!(arena.id(slot).generation(), 1);
        assert_ne!(arena.id(slot).to_word(), 0);
    }
}
