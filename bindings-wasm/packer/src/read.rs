//! Bits out of bytes.

use crate::{Bytes, Coder, SIZE, middle};

/// Bits as they come: what is packed is a number between two others, which close in on it.
pub struct Reader {
    at: usize,
    low: u32,
    high: u32,
    code: u32,
}

impl Reader {
    /// The bits from a place on.
    pub fn new(packed: &Bytes, at: usize) -> Self {
        let mut reader = Self { at, low: 0, high: 0, code: 0 };
        reader.close_in(packed);
        reader
    }

    /// Takes in bytes until the two differ in their first. At the start all four are the same.
    fn close_in(&mut self, packed: &Bytes) {
        while (self.low ^ self.high) >> 24 == 0 {
            self.low <<= 8;
            self.high = self.high << 8 | 255;
            self.code = self.code << 8 | u32::from(packed[self.at % SIZE]);
            self.at += 1;
        }
    }
}

impl Coder for Reader {
    fn bit(&mut self, packed: &Bytes, chance: u32) -> u32 {
        let middle = middle(self.low, self.high, chance);
        let bit = u32::from(self.code <= middle);
        if bit == 1 {
            self.high = middle;
        } else {
            self.low = middle + 1;
        }
        self.close_in(packed);
        bit
    }
}
