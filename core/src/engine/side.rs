//! What a few calls need beside their 64 bytes: those that race several attempts, that are held by path, or that wait
//! for a permit between attempts. One pooled block of 64 bytes each.

use super::place::Slot;
use crate::action::Lane;
use crate::time::{Duration, Time};

/// No gate of a hold.
pub(super) const NO_GATE: u16 = u16::MAX;

/// One running attempt of a race.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Racer {
    pub attempt: u8,
    pub since: Time,
    /// What it cost its budget.
    pub charge: u16,
    /// Its breaker's ticket, where each attempt has one.
    pub ticket: u16,
    pub hedge: bool,
    /// Has it a permit of its own, so that its end says something about the limit?
    pub permit: bool,
}

/// The block.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// The largest Retry-After of the race, in µs; between attempts: when the next one was paid for.
    pub moment: u64,
    /// When each racer started, in µs since the first: 48 bits, nine years, low ones and high ones.
    since: [u32; 4],
    later: [u16; 4],
    charge: [u16; 4],
    ticket: [u16; 4],
    /// The path that the call goes to, for holds; 0 is none.
    pub target: u16,
    /// The hold that it waits in or has a place of.
    pub gate: u16,
    /// The number of each racer's attempt; 0 is none.
    attempt: [u8; 4],
    hedge: [bool; 4],
    /// Lanes that hold a permit beside the call's own.
    pub extra: u8,
    /// Does it have a place of its hold (and not wait for one)?
    pub placed: bool,
    /// Do its attempts never run beside each other?
    pub solo: bool,
    /// The place of the newest racer; what it says of it stays until the next one comes.
    newest: u8,
}

const _: () = assert!(size_of::<Side>() == 64);

impl Default for Side {
    fn default() -> Self {
        Self {
            moment: 0,
            since: [0; 4],
            later: [0; 4],
            charge: [0; 4],
            ticket: [0; 4],
            target: 0,
            gate: NO_GATE,
            attempt: [0; 4],
            hedge: [false; 4],
            extra: 0,
            placed: false,
            solo: false,
            newest: 0,
        }
    }
}

/// The longest race whose starts are told apart.
const LONGEST: u64 = (1 << 48) - 1;

impl Side {
    /// Notes an attempt that runs from `racer.since` on, in a race whose first started at `base`.
    pub fn enter(&mut self, racer: Racer, base: Time) {
        let Some(place) = self.attempt.iter().position(|attempt| *attempt == 0) else { return };
        let since = racer.since.since(base).as_micros().min(LONGEST);
        (self.attempt[place], self.newest) = (racer.attempt, place as u8);
        (self.since[place], self.later[place]) = (since as u32, (since >> 32) as u16);
        (self.charge[place], self.ticket[place]) = (racer.charge, racer.ticket);
        self.hedge[place] = racer.hedge;
    }

    /// The racers, in the order of their places.
    pub fn racers(&self, base: Time) -> impl Iterator<Item = Racer> + '_ {
        let there = (0..4).filter(|place| self.attempt[*place] != 0);
        there.map(move |place| Racer {
            attempt: self.attempt[place],
            since: self.started(place, base),
            charge: self.charge[place],
            ticket: self.ticket[place],
            hedge: self.hedge[place],
            permit: false,
        })
    }

    /// Forgets what the racers paid to a budget that is gone; `hedges` too, where they paid to the same.
    pub fn forget_charges(&mut self, hedges: bool) {
        for (charge, hedge) in self.charge.iter_mut().zip(&self.hedge) {
            *charge = if *hedge && !hedges { *charge } else { 0 };
        }
    }

    /// Takes one out of the race.
    pub fn take(&mut self, lane: Lane, base: Time) -> Option<Racer> {
        let racer = self.racers(base).find(|racer| Lane::of(racer.attempt) == lane)?;
        let place = self.attempt.iter().position(|attempt| *attempt == racer.attempt)?;
        self.attempt[place] = 0;
        Some(racer)
    }

    fn started(&self, place: usize, base: Time) -> Time {
        let since = u64::from(self.since[place]) | u64::from(self.later[place]) << 32;
        base.after(Duration::from_micros(since))
    }

    /// When the newest racer started.
    pub fn newest(&self, base: Time) -> Time {
        self.started(usize::from(self.newest), base)
    }
}

/// All blocks, and which call has which.
#[derive(Debug, Default)]
pub(super) struct Sides {
    blocks: Vec<Side>,
    free: Vec<u32>,
    /// By slot of the call; as long as the highest slot that ever had one.
    of: Vec<u32>,
}

impl Sides {
    /// A fresh block for a call.
    pub fn insert(&mut self, slot: Slot) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.blocks.push(Side::default());
            (self.blocks.len() - 1) as u32
        });
        self.blocks[place as usize] = Side::default();
        if self.of.len() <= slot.index() {
            self.of.resize(slot.index() + 1, 0);
        }
        self.of[slot.index()] = place;
    }

    pub fn remove(&mut self, slot: Slot) {
        self.free.push(self.of[slot.index()]);
    }

    pub fn get(&self, slot: Slot) -> &Side {
        &self.blocks[self.of[slot.index()] as usize]
    }

    pub fn get_mut(&mut self, slot: Slot) -> &mut Side {
        &mut self.blocks[self.of[slot.index()] as usize]
    }

    /// Blocks in use.
    pub fn len(&self) -> usize {
        self.blocks.len() - self.free.len()
    }
}
