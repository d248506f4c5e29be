//! Lists of waiting calls.

use super::arena::Arena;
use super::place::Slot;

/// A list of calls, linked through the calls themselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: Slot,
    tail: Slot,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: Slot::NONE, tail: Slot::NONE, len: 0 }
    }
}

impl List {
    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn head(&self) -> Option<Slot> {
        (self.head != Slot::NONE).then_some(self.head)
    }

    pub fn tail(&self) -> Option<Slot> {
        (self.tail != Slot::NONE).then_some(self.tail)
    }

    pub fn push(&mut self, calls: &mut Arena, slot: Slot) {
        self.insert(calls, slot, self.tail);
    }

    /// Inserts a call behind `before`; as the first if that is [`Slot::NONE`].
    pub fn insert(&mut self, calls: &mut Arena, slot: Slot, before: Slot) {
        let after = if before == Slot::NONE { self.head } else { calls[before].links().1 };
        calls[slot].set_links(before, after);
        if before == Slot::NONE {
            self.head = slot;
        } else {
            let (first, _) = calls[before].links();
            calls[before].set_links(first, slot);
        }
        if after == Slot::NONE {
            self.tail = slot;
        } else {
            let (_, last) = calls[after].links();
            calls[after].set_links(slot, last);
        }
        self.len += 1;
    }

    /// Removes a call from any position.
    pub fn remove(&mut self, calls: &mut Arena, slot: Slot) {
        let (before, after) = calls[slot].links();
        if before == Slot::NONE {
            self.head = after;
        } else {
            let (first, _) = calls[before].links();
            calls[before].set_links(first, after);
        }
        if after == Slot::NONE {
            self.tail = before;
        } else {
            let (_, last) = calls[after].links();
            calls[after].set_links(before, last);
        }
        self.len -= 1;
    }
}
