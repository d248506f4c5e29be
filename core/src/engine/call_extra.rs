//! Extra state of the few calls that need more than their 64 bytes: calls with several running attempts, calls held
//! by path, and calls that wait for a permit between attempts. Each uses one pooled block of 64 bytes.

use super::blocks::Blocks;
use super::more::More;
use super::place::Slot;
use crate::action::AttemptSlot;
use crate::full::Part;
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
    /// The largest Retry-After of the race, in µs; between attempts: when the next attempt was paid for; of a refused
    /// waiter: when another try makes sense.
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
        there.map(move |place| self.running_attempt(place, base))
    }

    fn running_attempt(&self, place: usize, base: Time) -> RunningAttempt {
        RunningAttempt {
            attempt: self.attempt[place],
            since: self.started(place, base),
            charge: self.charge[place],
            ticket: self.ticket[place],
            hedge: self.hedge[place],
            permit: false,
        }
    }

    /// Forgets what the running attempts paid to a budget that is gone; with `hedges`, also the charges of hedges,
    /// because they paid to the same budget.
    pub fn forget_charges(&mut self, hedges: bool) {
        for (charge, hedge) in self.charge.iter_mut().zip(&self.hedge) {
            *charge = if *hedge && !hedges { *charge } else { 0 };
        }
    }

    /// Forgets what the running hedges paid to a budget of their own that is gone.
    pub fn forget_charges_of_hedges(&mut self) {
        for (charge, _) in self.charge.iter_mut().zip(&self.hedge).filter(|(_, hedge)| **hedge) {
            *charge = 0;
        }
    }

    /// Forgets the tickets of a breaker that is gone.
    pub fn forget_tickets(&mut self) {
        self.ticket = [0; 4];
    }

    /// Removes an attempt from the race.
    pub fn take(&mut self, attempt_slot: AttemptSlot, base: Time) -> Option<RunningAttempt> {
        let is_it = |attempt: &u8| *attempt != 0 && AttemptSlot::of(*attempt) == attempt_slot;
        let place = self.attempt.iter().position(is_it)?;
        let running_attempt = self.running_attempt(place, base);
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
