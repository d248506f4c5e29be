//! Bytes as bits: frequent ones as few, so that there is less to guess.
//!
//! What is packed begins with a prefix code for each class of bytes: for each length from 1 bit on, how many bytes have that
//! many, and which. `OTHER` stands for a byte that the code lacks, whose own eight bits come next.

use crate::{Bytes, SIZE};

/// A class is what a byte of a module can be (`grammar.rs`).
pub const CLASSES: usize = 8;
/// No prefix has more bits.
pub const LONGEST: usize = 12;
/// Stands for all bytes that have no bits of their own.
pub const OTHER: u32 = 255;

/// Where each class's code starts.
pub struct Codes([usize; CLASSES]);

impl Codes {
    /// Finds them; where the bits start.
    pub fn find(&mut self, packed: &Bytes, mut at: usize) -> usize {
        for place in &mut self.0 {
            *place = at;
            for _ in 0..LONGEST {
                at += 1 + usize::from(packed[at % SIZE]);
            }
        }
        at
    }

    /// A byte of a class, by its bits. Each is asked for by its node: the bits before it, behind a one.
    pub fn byte(&self, packed: &Bytes, class: usize, bit: &mut impl FnMut(u32) -> u32) -> u32 {
        let (mut at, mut node, mut first) = (self.0[class % CLASSES], 1, 2);
        // Once the byte is known to be another: its bits so far, behind a one.
        let mut own = 0;
        loop {
            let next = bit(node);
            node = node * 2 + next;
            if own > 0 {
                own = own * 2 + next;
                if own > 255 {
                    return own & 255;
                }
                continue;
            }
            // Nodes of this length count from `first`; those at its end lead on.
            let count = u32::from(packed[at % SIZE]);
            if node - first < count {
                let byte = packed[(at + 1 + (node - first) as usize) % SIZE].into();
                if byte != OTHER {
                    return byte;
                }
                own = 1;
            }
            at += 1 + count as usize;
            first = (first + count) * 2;
        }
    }
}
