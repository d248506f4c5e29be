//! Weights of calls, and what each attempt has reserved and used (semantics 3.4 to 3.6), in pooled blocks of 48 bytes:
//! one for the call, and one for each attempt that has not been settled. A call without weights has none.

use super::arena::Arena;
use super::place::Slot;
use crate::action::AttemptSlot;
use crate::full::{Full, Part};

/// The most weights of a set.
pub(in crate::engine) const WEIGHTS: usize = crate::policy::MOST_LIMITS;

/// An amount of each weight.
pub(in crate::engine) type Amounts = [u64; WEIGHTS];

/// No further block.
const END: u32 = u32::MAX;

/// A block. The first one of a call holds its weights; each other one what an attempt has used.
#[derive(Clone, Debug)]
struct Sheet {
    amounts: Amounts,
    /// First block: mark of the set whose weights these are.
    mark: u64,
    next: u32,
    /// Number of the attempt; 0 in the first block.
    attempt: u8,
    /// First block: whether the call has reserved tokens for an attempt that has not started. Others: which totals are
    /// known, by weight.
    bits: u8,
}

const _: () = assert!(size_of::<Sheet>() <= 48 && WEIGHTS == 4);

/// All blocks, and the index from calls to their first.
#[derive(Debug, Default)]
pub(in crate::engine) struct Sheets {
    blocks: Vec<Sheet>,
    free: Vec<u32>,
    /// By slot of the call. Its length covers the highest slot that ever had a block.
    of: Vec<u32>,
}

/// An attempt whose reservation is to be settled.
pub(in crate::engine) struct Unsettled {
    /// What it had reserved.
    pub reserved: Amounts,
    /// The last totals that its host has told, by weight.
    pub totals: [Option<u64>; WEIGHTS],
    pub mark: u64,
}

impl Sheets {
    fn first(&self, slot: Slot) -> Option<usize> {
        self.of.get(slot.index()).copied().filter(|at| *at != END).map(|at| at as usize)
    }

    fn add(&mut self, sheet: Sheet) -> u32 {
        let Some(at) = self.free.pop() else {
            self.blocks.push(sheet);
            return (self.blocks.len() - 1) as u32;
        };
        self.blocks[at as usize] = sheet;
        at
    }

    /// The block before that of an attempt whose slot is among these, and that block.
    fn find(&self, slot: Slot, attempt_slots: u8) -> Option<(usize, usize)> {
        let mut before = self.first(slot)?;
        loop {
            let next = self.blocks[before].next;
            let at = if next == END { return None } else { next as usize };
            if AttemptSlot::of(self.blocks[at].attempt).bit() & attempt_slots != 0 {
                return Some((before, at));
            }
            before = at;
        }
    }

    pub(in crate::engine) fn remove(&mut self, slot: Slot) {
        let Some(of) = self.of.get_mut(slot.index()) else { return };
        let mut at = core::mem::replace(of, END);
        while at != END {
            self.free.push(at);
            at = self.blocks[at as usize].next;
        }
    }

    /// Blocks in use.
    fn len(&self) -> usize {
        self.blocks.len() - self.free.len()
    }
}

/// Weights of calls.
impl Arena {
    /// Gives a call its weights.
    pub(in crate::engine) fn set_weights(&mut self, slot: Slot, mark: u64, amounts: Amounts, full: Full) {
        self.extra_mut(slot); // a call with a second block also frees its sheets
        let sheets = self.sheets.get_or_insert_with(|| Part::new(Sheets::default(), full));
        let at = sheets.add(Sheet { amounts, mark, next: END, attempt: 0, bits: 0 });
        if sheets.of.len() <= slot.index() {
            sheets.of.resize(slot.index() + 1, END);
        }
        sheets.of[slot.index()] = at;
    }

    /// The weights of a call, and the mark of their set.
    pub(in crate::engine) fn weights(&self, slot: Slot) -> Option<(u64, Amounts)> {
        let sheets = self.sheets.as_ref()?;
        let sheet = &sheets.blocks[sheets.first(slot)?];
        Some((sheet.mark, sheet.amounts))
    }

    /// Notes that a call has reserved tokens for its next attempt.
    pub(in crate::engine) fn reserve(&mut self, slot: Slot) {
        if let Some(sheets) = &mut self.sheets
            && let Some(at) = sheets.first(slot)
        {
            sheets.blocks[at].bits = 1;
        }
    }

    /// Takes the reservation of an attempt that will not start; what had been reserved, if it was.
    pub(in crate::engine) fn unreserve(&mut self, slot: Slot) -> Option<(u64, Amounts)> {
        let sheets = self.sheets.as_mut()?;
        let at = sheets.first(slot)?;
        let sheet = &mut sheets.blocks[at];
        (core::mem::take(&mut sheet.bits) != 0).then_some((sheet.mark, sheet.amounts))
    }

    /// Makes the reservation of a call that of its attempt which starts now.
    pub(in crate::engine) fn start_reserved(&mut self, slot: Slot, attempt: u8) {
        if self.unreserve(slot).is_none() {
            return;
        }
        if let Some(sheets) = &mut self.sheets
            && let Some(first) = sheets.first(slot)
        {
            let next = sheets.blocks[first].next;
            let at = sheets.add(Sheet { amounts: [0; WEIGHTS], mark: 0, next, attempt, bits: 0 });
            sheets.blocks[first].next = at;
        }
    }

    /// Notes a total that an attempt has used so far. Returns what it uses beyond what has been charged for it; `None` if
    /// it has no reservation, or a larger total has been told.
    pub(in crate::engine) fn tell_total(
        &mut self,
        slot: Slot,
        attempt: u8,
        (weight, total): (usize, u64),
    ) -> Option<u64> {
        let sheets = self.sheets.as_mut()?;
        let reserved = sheets.blocks[sheets.first(slot)?].amounts[weight];
        let (_, at) = sheets.find(slot, AttemptSlot::of(attempt).bit())?;
        let sheet = &mut sheets.blocks[at];
        if sheet.attempt != attempt {
            return None;
        }
        let told = sheet.bits >> weight & 1 != 0;
        if told && total <= sheet.amounts[weight] {
            return Some(0); // a lower total than before is ignored
        }
        let charged = if told { reserved.max(sheet.amounts[weight]) } else { reserved };
        sheet.amounts[weight] = total;
        sheet.bits |= 1 << weight;
        Some(total.saturating_sub(charged))
    }

    /// Takes the reservation of one attempt among these slots, to settle it.
    pub(in crate::engine) fn take_unsettled(&mut self, slot: Slot, attempt_slots: u8) -> Option<Unsettled> {
        let sheets = self.sheets.as_mut()?;
        let (before, at) = sheets.find(slot, attempt_slots)?;
        let first = sheets.first(slot)?;
        let (reserved, mark) = (sheets.blocks[first].amounts, sheets.blocks[first].mark);
        let sheet = &sheets.blocks[at];
        let total = |weight: usize| (sheet.bits >> weight & 1 != 0).then_some(sheet.amounts[weight]);
        let (totals, next) = (core::array::from_fn(total), sheet.next);
        sheets.blocks[before].next = next;
        sheets.free.push(at as u32);
        Some(Unsettled { reserved, totals, mark })
    }

    /// The attempts with a reservation, by attempt slot.
    pub(in crate::engine) fn unsettled(&self, slot: Slot) -> u8 {
        let Some(sheets) = &self.sheets else { return 0 };
        let mut at = sheets.first(slot).map_or(END, |first| sheets.blocks[first].next);
        let mut bits = 0;
        while at != END {
            bits |= AttemptSlot::of(sheets.blocks[at as usize].attempt).bit();
            at = sheets.blocks[at as usize].next;
        }
        bits
    }

    /// Blocks of weights in use.
    pub(in crate::engine) fn sheets_in_use(&self) -> usize {
        self.sheets.as_ref().map_or(0, |sheets| sheets.len())
    }
}
