//! Packs a WebAssembly module for the source of a page, a sixth smaller than LZMA does.
//!
//! What comes next in a module is guessed by what it is (an instruction, the number of a local, an offset) and by what came
//! before; a bit costs as much as it surprises. Unpacking makes the same guesses, so both are one function: packing is
//! unpacking with a [`Coder`] that knows the answers. The half that unpacks is itself a module of two and a half kilobytes, because
//! the JavaScript of a page starts slowly (`docs/adr/0015-two-modules.md`).
//!
//! Chances are integers. A table of logarithms is filled with floats that are multiplied and divided, and nothing else: those are
//! exact to the bit in WebAssembly and here.

mod code;
mod grammar;
mod model;
#[cfg(not(target_arch = "wasm32"))]
mod pack;
#[cfg(target_arch = "wasm32")]
mod page;
mod read;

#[cfg(not(target_arch = "wasm32"))]
pub use pack::{pack, unpack};

use code::Codes;
use grammar::Grammar;
use model::Model;

/// The largest that is packed or comes of it.
const SIZE: usize = 1 << 18;

/// That many bytes, of which there are perhaps less. A place beyond them is none.
type Bytes = [u8; SIZE];

/// Where bits come from, or go to.
trait Coder {
    /// The next bit, of which `chance` in 65,536 is that it is one.
    fn bit(&mut self, packed: &Bytes, chance: u32) -> u32;
}

/// All that there is to a packing or an unpacking. It is zero where it begins; the large comes last, so that most places in
/// it are small numbers.
#[repr(C)]
struct Mind {
    codes: Codes,
    grammar: Grammar,
    model: Model,
    packed: Bytes,
    output: Bytes,
}

impl Mind {
    /// Fills the output.
    fn unpack(&mut self, size: usize, coder: &mut impl Coder) {
        self.model.start();
        for at in 0..size {
            let class = self.grammar.look(&mut self.model.contexts);
            let mut bit = |node| {
                let chance = self.model.guess(class, node);
                let bit = coder.bit(&self.packed, chance);
                self.model.learn(bit);
                bit
            };
            let byte = self.codes.byte(&self.packed, class, &mut bit);
            self.output[at % SIZE] = byte as u8;
            self.grammar.add(byte);
        }
    }
}

/// Mixes two numbers into one that says little about either.
#[inline(never)]
const fn hash(a: u32, b: u32) -> u32 {
    let h = a.wrapping_mul(0x2c92_77b5).wrapping_add(b.wrapping_mul(0x9e37_79b1)).wrapping_add(a >> 15);
    let h = (h ^ h >> 15).wrapping_mul(0x85eb_ca6b);
    h ^ h >> 13
}

/// Where a range parts: what is at most this is a one.
fn middle(low: u32, high: u32, chance: u32) -> u32 {
    low + ((u64::from(high - low) * u64::from(chance)) >> 16) as u32
}
