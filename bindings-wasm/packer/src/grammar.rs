//! What the next byte of a module is, and what came before it. A mistake here costs bytes and no more: both ways make it.

use crate::hash;
use crate::model::CONTEXTS;

/// Stands for the head of a function: its size, and how many kinds of locals it has, each with how many there are and a type.
const HEAD: u32 = 0xff;

/// What has been read.
#[repr(C)]
pub struct Grammar {
    /// How much has been read, where the function that is being read ends, and where the last does.
    at: u32,
    end: u32,
    last: u32,
    /// The instruction that is being read, the same with its operands so far, which operand comes, and how many are left.
    op: u32,
    token: u32,
    operand: u32,
    left: u32,
    /// The operand that is being read: its value, and where its next bits go.
    value: u32,
    shift: u32,
    /// Functions so far; 0 before and behind them.
    functions: u32,
    /// The last instructions.
    ops: [u32; 4],
    /// By instruction, its last operand.
    operands: [u32; 256],
}

impl Grammar {
    /// The functions start and end at these places.
    pub fn start(&mut self, start: u32, end: u32) {
        (self.end, self.last) = (start, end);
    }

    /// Instructions whose operands are alike.
    fn alike(&self) -> u32 {
        match self.op {
            0x20..=0x22 => 0x20,                // the number of a local
            0x28..=0x3e => 0x28 + self.operand, // how far it is aligned, and its offset
            op => op,
        }
    }

    /// The class of the next byte, and what it may depend on.
    #[inline(never)]
    pub fn look(&self, contexts: &mut [u32; CONTEXTS]) -> usize {
        let outside = u32::from(self.functions == 0);
        let kind = if self.left > 0 { self.op * 2 + self.operand.min(1) + 2 } else { outside };
        let part = self.value ^ self.shift << 24;
        let mut chain = [hash(kind, part); 5];
        for n in 0..4 {
            chain[n + 1] = hash(chain[n], self.ops[n]);
        }
        if self.left == 0 {
            *contexts = [chain[1], chain[2], chain[4], hash(chain[0] ^ 1, self.token)];
            return outside as usize;
        }
        let alike = self.alike();
        let here = hash(hash(chain[0] ^ 1, self.functions), self.ops[0]);
        let last = hash(chain[0] ^ 2, self.operands[alike as usize % 256]);
        *contexts = [hash(alike, part), chain[3], here, last];
        match alike {
            0x20 => 2,
            0x28 => 3,
            0x29 => 4,
            0x41 | 0x42 => 5,
            0x10 => 7,
            _ => 6,
        }
    }

    /// Takes in a byte.
    #[inline(never)]
    pub fn add(&mut self, read: u32) {
        self.at += 1;
        if self.left == 0 {
            self.op = read;
            self.token = read;
            self.operand = 0;
            if self.functions > 0 {
                self.left = match read {
                    0x02..=0x04 | 0x0c..=0x0e | 0x10 | 0x20..=0x24 | 0x41 | 0x42 => 1,
                    0x28..=0x3e => 2,
                    0x43 => 4, // the bytes of a float
                    0x44 => 8,
                    _ => 0, // where one has operands all the same, they are instructions too
                };
            }
        } else {
            self.value |= (read & 127) << (self.shift & 31);
            self.shift += 7;
            if read < 128 || matches!(self.op, 0x43 | 0x44) {
                self.end_operand();
            }
        }
        if self.left == 0 {
            self.ops = [self.op, self.ops[0], self.ops[1], self.ops[2]];
            if self.at == self.end {
                self.op = HEAD;
                self.operand = 0;
                self.left = 2;
                self.functions += 1;
            }
        }
        if self.at == self.last {
            self.left = 0;
            self.functions = 0;
        }
    }

    fn end_operand(&mut self) {
        self.operands[self.alike() as usize % 256] = self.value;
        self.token = hash(self.token, self.value);
        self.left -= 1;
        self.operand += 1;
        match (self.operand, self.op) {
            (1, 0x0e) => self.left = self.value.wrapping_add(1), // a table of branches
            (1, HEAD) => self.end = self.at.wrapping_add(self.value),
            (2, HEAD) => self.left = self.value.wrapping_mul(2),
            _ => {}
        }
        self.value = 0;
        self.shift = 0;
    }
}
