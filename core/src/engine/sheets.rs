//! Weights of calls, and what each attempt has reserved and used (semantics 3.4 to 3.6), in pooled blocks of 48 bytes:
//! one for the call, and one for each attempt that has not been settled. A call without weights has none.

use super::arena::Arena;
use super::blocks::{Blocks, NONE};
use super::limits::Scale;
use super::place::Slot;
use crate::action::AttemptSlot;
use crate::full::Full;

/// The most weights of a set.
pub(in crate::engine) const WEIGHTS: usize = crate::policy::MOST_LIMITS;

/// An amount of each weight.
pub(in crate::engine) type Amounts = [u64; WEIGHTS];

/// A block. The first one of a call holds its weights; each other one what an attempt has used.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Sheet {
    amounts: Amounts,
    /// First block: mark of the set whose weights these are.
    mark: u32,
    /// First block: what is reserved of each amount.
    scales: [Scale; WEIGHTS],
    /// The place of the call's next block.
    pub(in crate::engine) next: u32,
    /// Number of the attempt; 0 in the first block.
    attempt: u8,
    /// First block: whether the call has reserved tokens for an attempt that has not started. Others: which totals are
    /// known, by weight.
    bits: u8,
}

const _: () = assert!(size_of::<Sheet>() <= 48 && WEIGHTS == 4);

/// An attempt whose reservation is to be settled.
pub(in crate::engine) struct Unsettled {
    /// What it had reserved, and what its call had named.
    pub reserved: Amounts,
    pub named: Amounts,
    /// The last totals that its host has told, by weight.
    pub totals: [Option<u64>; WEIGHTS],
    pub mark: u64,
}

impl Sheet {
    /// What an attempt of the call reserves; of its first block.
    fn reserved(&self) -> Amounts {
        core::array::from_fn(|weight| self.scales[weight].of(self.amounts[weight]))
    }
}

impl Blocks<Sheet> {
    /// The block before that of an attempt whose slot is among these, and that block.
    fn find(&self, slot: Slot, attempt_slots: u8) -> Option<(u32, u32)> {
        let mut before = self.place(slot)?;
        loop {
            let at = self[before].next;
            if at == NONE {
                return None;
            }
            if AttemptSlot::of(self[at].attempt).bit() & attempt_slots != 0 {
                return Some((before, at));
            }
            before = at;
        }
    }
}

/// Weights of calls.
impl Arena {
    /// Gives a call its weights, and what it reserves of them.
    pub(in crate::engine) fn set_weights(
        &mut self,
        slot: Slot,
        (mark, amounts, scales): (u64, Amounts, [Scale; WEIGHTS]),
        full: Full,
    ) {
        let sheet = Sheet { amounts, mark: mark as u32, scales, next: NONE, attempt: 0, bits: 0 };
        self.more_of(slot, full).sheets.insert(slot, sheet);
    }

    /// What each attempt of a call reserves of its weights, and the mark of their set.
    pub(in crate::engine) fn weights(&self, slot: Slot) -> Option<(u64, Amounts)> {
        let sheet = self.sheets()?.get(slot)?;
        Some((sheet.mark.into(), sheet.reserved()))
    }

    /// Notes that a call has reserved tokens for its next attempt.
    pub(in crate::engine) fn reserve(&mut self, slot: Slot) {
        if let Some(sheet) = self.sheets_mut().and_then(|sheets| sheets.get_mut(slot)) {
            sheet.bits = 1;
        }
    }

    /// Takes the reservation of an attempt that will not start; what had been reserved, if it was.
    pub(in crate::engine) fn unreserve(&mut self, slot: Slot) -> Option<(u64, Amounts)> {
        let sheet = self.sheets_mut()?.get_mut(slot)?;
        (core::mem::take(&mut sheet.bits) != 0).then(|| (sheet.mark.into(), sheet.reserved()))
    }

    /// Makes the reservation of a call that of its attempt which starts now.
    fn start_reserved(&mut self, slot: Slot, attempt: u8) {
        if self.unreserve(slot).is_none() {
            return;
        }
        if let Some(sheets) = self.sheets_mut()
            && let Some(first) = sheets.place(slot)
        {
            let next = sheets[first].next;
            let scales = [Scale::ONE; WEIGHTS];
            let sheet = Sheet { amounts: [0; WEIGHTS], mark: 0, scales, next, attempt, bits: 0 };
            sheets[first].next = sheets.add(sheet);
        }
    }

    /// Gives an attempt that starts the target and the reservation of its call. Returns whether it has a target.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn start_more(&mut self, slot: Slot, attempt: u8) -> bool {
        self.start_reserved(slot, attempt);
        let block = self.targets_mut(slot);
        block.map(|block| block.start(AttemptSlot::of(attempt))).is_some()
    }

    /// Notes a total that an attempt has used so far. Returns what it uses beyond what has been charged for it; `None` if
    /// it has no reservation, or a larger total has been told.
    pub(in crate::engine) fn tell_total(
        &mut self,
        slot: Slot,
        attempt: u8,
        (weight, total): (usize, u64),
    ) -> Option<u64> {
        let sheets = self.sheets_mut()?;
        let reserved = sheets.get(slot)?.reserved()[weight];
        let (_, at) = sheets.find(slot, AttemptSlot::of(attempt).bit())?;
        let sheet = &mut sheets[at];
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
        let sheets = self.sheets_mut()?;
        let (before, at) = sheets.find(slot, attempt_slots)?;
        let first = sheets.get(slot)?;
        let (reserved, named, mark) = (first.reserved(), first.amounts, first.mark.into());
        let sheet = &sheets[at];
        let total = |weight: usize| (sheet.bits >> weight & 1 != 0).then_some(sheet.amounts[weight]);
        let (totals, next) = (core::array::from_fn(total), sheet.next);
        sheets[before].next = next;
        sheets.release(at);
        Some(Unsettled { reserved, named, totals, mark })
    }

    /// The attempts with a reservation, by attempt slot.
    pub(in crate::engine) fn unsettled(&self, slot: Slot) -> u8 {
        let Some(sheets) = self.sheets() else { return 0 };
        let mut at = sheets.get(slot).map_or(NONE, |first| first.next);
        let mut bits = 0;
        while at != NONE {
            bits |= AttemptSlot::of(sheets[at].attempt).bit();
            at = sheets[at].next;
        }
        bits
    }

    /// Blocks of weights in use.
    pub(in crate::engine) fn sheets_in_use(&self) -> usize {
        self.sheets().map_or(0, Blocks::len)
    }
}
