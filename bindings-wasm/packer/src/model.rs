//! How likely the next bit is: guesses by four contexts, mixed by how well each has done.

#![allow(clippy::cast_possible_wrap)] // chances have 16 bits, and logarithms fewer

use crate::code::CLASSES;

/// How many contexts guess.
pub const CONTEXTS: usize = 4;
/// Places for what has been seen, as a power of two.
const SLOTS: u32 = 19;
/// How often something was seen, and then as often as that or more.
const COUNTS: usize = 8;
/// The bits of a slot that tell contexts apart.
const CHECK: u32 = 0xfff8;
/// What each context weighs at first, in 65,536.
const WEIGHT: i32 = 22_000;
/// By how often something was seen, how fast its chance follows: 256 / (times + 1.35), a byte each, and a bit less at last.
const RATES: u64 = 0x1623_2830_3b4c_6dbe;

/// What one context said of a bit, and where.
#[derive(Clone, Copy)]
struct Told {
    place: u32,
    slot: u32,
    said: i32,
}

/// The chances seen so far, in 65,536. A stretched chance is the logarithm of its odds, in 128 parts.
#[repr(C)]
pub struct Model {
    /// What came before the next byte.
    pub contexts: [u32; CONTEXTS],
    /// How the last bit was guessed: the class, and the guess.
    class: usize,
    guess: i32,
    told: [Told; CONTEXTS],
    /// By class, context and how often it was seen, less what it is at first.
    weights: [[[i32; COUNTS]; CONTEXTS]; CLASSES],
    /// A chance in 4,096 stretched, and the way back, from −1024 on.
    stretched: [i32; 4096],
    squashed: [i32; 2048],
    /// By context and node: a chance in 16 bits, 13 bits to tell contexts apart, and in 3 how often it was seen.
    slots: [u32; 1 << SLOTS],
}

impl Model {
    pub fn start(&mut self) {
        // From e^−8 on, each time e^(1/128) as much.
        let (mut odds, mut next) = (0.000_335_462_63_f32, 0);
        for (step, squashed) in self.squashed.iter_mut().enumerate() {
            *squashed = (odds / (1.0 + odds) * 65_536.0) as i32;
            while next < *squashed >> 4 {
                self.stretched[next as usize % 4096] = step as i32 - 1024;
                next += 1;
            }
            odds *= 1.007_843_1;
        }
    }

    /// The chance of a one, in 65,536: for the next bit of a byte of this class.
    #[inline(never)] // what is called often is compiled well while it runs; a loop is not
    pub fn guess(&mut self, class: usize, node: u32) -> u32 {
        self.class = class;
        let mixed = node.wrapping_mul(0x9e37_79b1);
        let mut sum = 1024 << 16;
        for n in 0..CONTEXTS {
            let hash = (mixed ^ self.contexts[n]).wrapping_mul(0x2c92_77b5);
            let place = hash >> (32 - SLOTS);
            let mut slot = self.slots[place as usize];
            let check = (hash ^ self.contexts[n]) & CHECK;
            if (slot ^ check) & CHECK != 0 {
                slot = 0x8000_0000 | check;
            }
            let said = self.stretched[(slot >> 20) as usize];
            let weight = self.weights[class % CLASSES][n][slot as usize % COUNTS] + WEIGHT;
            sum = weight.wrapping_mul(said).wrapping_add(sum);
            self.told[n] = Told { place, slot, said };
        }
        let sum = (sum >> 16).clamp(1, 2046);
        self.guess = self.squashed[sum as usize % 2048];
        self.guess as u32
    }

    /// What the bit was whose chance has been asked for.
    #[inline(never)]
    pub fn learn(&mut self, bit: u32) {
        let was = bit as i32 * 65_535;
        let miss = was - self.guess;
        for n in 0..CONTEXTS {
            let Told { place, slot, said } = self.told[n];
            let count = slot % COUNTS as u32;
            self.weights[self.class % CLASSES][n][count as usize] += (miss * said) >> 14;
            let chance = (slot >> 16) as i32;
            let chance = chance + (((was - chance) * (RATES >> (count * 8) & 255) as i32) >> 8);
            self.slots[place as usize % (1 << SLOTS)] =
                (chance as u32) << 16 | slot & CHECK | (count + 1).min(7);
        }
    }
}
