//! Pooled blocks for the few calls that need more than their 64 bytes, and the index from calls to their blocks.

use core::ops::{Index, IndexMut};

use super::place::Slot;

/// No block.
pub(super) const NONE: u32 = u32::MAX;

/// Blocks of one kind. A block that is free keeps its bytes until it is used again.
#[derive(Debug)]
pub(super) struct Blocks<T> {
    list: Vec<T>,
    free: Vec<u32>,
    /// The first block of each call, by the call's slot. Its length covers the highest slot that ever had a block.
    of: Vec<u32>,
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Self { list: Vec::new(), free: Vec::new(), of: Vec::new() }
    }
}

impl<T> Blocks<T> {
    /// The place of a call's first block, if it has one.
    #[inline]
    pub fn place(&self, slot: Slot) -> Option<u32> {
        self.of.get(slot.index()).copied().filter(|place| *place != NONE)
    }

    /// The first block of a call, if it has one.
    #[inline]
    pub fn get(&self, slot: Slot) -> Option<&T> {
        self.place(slot).map(|place| &self[place])
    }

    #[inline]
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.place(slot).map(|place| &mut self[place])
    }

    /// The first block of a call that has one.
    #[inline]
    pub fn known(&self, slot: Slot) -> &T {
        &self[self.of[slot.index()]]
    }

    #[inline]
    pub fn known_mut(&mut self, slot: Slot) -> &mut T {
        let place = self.of[slot.index()];
        &mut self[place]
    }

    /// Stores a block that no call has as its first one; returns its place.
    pub fn add(&mut self, block: T) -> u32 {
        let Some(place) = self.free.pop() else {
            self.list.push(block);
            return (self.list.len() - 1) as u32;
        };
        self[place] = block;
        place
    }

    /// Frees a block that no call has as its first one.
    pub fn release(&mut self, place: u32) {
        self.free.push(place);
    }

    /// Gives a call its first block.
    pub fn insert(&mut self, slot: Slot, block: T) {
        let place = self.add(block);
        if self.of.len() <= slot.index() {
            self.of.resize(slot.index() + 1, NONE);
        }
        self.of[slot.index()] = place;
    }

    /// Frees the first block of a call, if it has one; returns its place.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> Option<u32> {
        let place = self.place(slot)?;
        self.of[slot.index()] = NONE;
        self.free.push(place);
        Some(place)
    }

    /// Number of blocks in use.
    pub fn len(&self) -> usize {
        self.list.len() - self.free.len()
    }
}

impl<T> Index<u32> for Blocks<T> {
    type Output = T;

    #[inline]
    fn index(&self, place: u32) -> &T {
        &self.list[place as usize]
    }
}

impl<T> IndexMut<u32> for Blocks<T> {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut T {
        &mut self.list[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_block_is_used_again_and_no_call_sees_anothers() {
        let (one, other) = (Slot::new(3), Slot::new(1));
        let mut blocks = Blocks::default();
        blocks.insert(one, 'a');
        assert_eq!((blocks.get(one), blocks.get(other), blocks.len()), (Some(&'a'), None, 1));
        let chained = blocks.add('b');
        assert_eq!(blocks.remove(one), Some(0));
        assert_eq!((blocks.get(one), blocks.len()), (None, 1));
        assert_eq!(blocks.remove(one), None);
        blocks.insert(other, 'c');
        assert_eq!((blocks.place(other), *blocks.known(other), blocks[chained]), (Some(0), 'c', 'b'));
        blocks.release(chained);
        assert_eq!(blocks.len(), 1);
    }
}
