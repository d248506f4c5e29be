//! What few calls need beside their second block: the targets of their attempts, and their weights. The second block has
//! a bit for it ([`MORE`](super::call_extra::mark::MORE)), so that a call without them pays one test.

use super::blocks::{Blocks, NONE};
use super::place::Slot;
use super::sheets::Sheet;
use super::targets::AttemptTargets;

/// Targets and weights of all calls.
#[derive(Debug, Default)]
pub(super) struct More {
    pub targets: Blocks<AttemptTargets>,
    pub sheets: Blocks<Sheet>,
}

impl More {
    #[cold]
    #[inline(never)]
    pub fn remove(&mut self, slot: Slot) {
        self.targets.remove(slot);
        let mut next = self.sheets.remove(slot).map_or(NONE, |first| self.sheets[first].next);
        while next != NONE {
            self.sheets.release(next);
            next = self.sheets[next].next;
        }
    }
}
