//! The half that only the build has.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::code::{CLASSES, LONGEST, OTHER};
use crate::model::CONTEXTS;
use crate::read::Reader;
use crate::{Bytes, Coder, Mind, SIZE, middle};

/// A byte that is rarer in its class than this, one in so many, has no bits of its own.
const RARE: usize = 60;

/// A byte's bits, and how many there are.
type Bits = (u32, usize);

/// Bits that are known before they are asked for.
struct Writer {
    known: VecDeque<u32>,
    low: u32,
    high: u32,
    packed: Vec<u8>,
}

impl Coder for Writer {
    fn bit(&mut self, _: &Bytes, chance: u32) -> u32 {
        let bit = self.known.pop_front().expect("as many as are asked for");
        let middle = middle(self.low, self.high, chance);
        if bit == 1 {
            self.high = middle;
        } else {
            self.low = middle + 1;
        }
        while (self.low ^ self.high) >> 24 == 0 {
            self.packed.push((self.low >> 24) as u8);
            self.low <<= 8;
            self.high = self.high << 8 | 255;
        }
        bit
    }
}

/// A mind that knows nothing but what is packed, and where the code starts and ends.
fn mind(packed: &[u8], span: [u32; 2]) -> Box<Mind> {
    // SAFETY: zeros are a mind.
    let mut mind = unsafe { Box::<Mind>::new_zeroed().assume_init() };
    mind.packed[..packed.len()].copy_from_slice(packed);
    mind.grammar.start(span[0], span[1]);
    mind
}

/// A module that has been packed.
pub struct Packed {
    /// How long it was, and where its code starts and ends.
    pub sizes: [u32; 3],
    /// It.
    pub bytes: Vec<u8>,
}

/// Packs a module. Whatever else it is given is packed too, but not as well.
///
/// # Panics
/// If it is longer than 256 KiB.
pub fn pack(module: &[u8]) -> Packed {
    assert!(module.len() < SIZE, "{} bytes are too many", module.len());
    let span = code_of(module).unwrap_or([0, 0]);
    let classes = classes(module, span);
    let mut packed = Vec::new();
    let mut codes = Vec::new();
    for class in 0..CLASSES {
        let bytes = module.iter().zip(&classes).filter(|(_, of)| **of == class).map(|(byte, _)| *byte);
        codes.push(code(bytes, &mut packed));
    }
    let bits = module.iter().zip(&classes).flat_map(|(byte, class)| {
        let (bits, length) = codes[*class][usize::from(*byte)];
        (0..length).rev().map(move |n| bits >> n & 1)
    });
    let mut writer = Writer { known: bits.collect(), low: 0, high: u32::MAX, packed: Vec::new() };
    let mut mind = mind(&packed, span);
    mind.codes.find(&mind.packed, 0);
    mind.unpack(module.len(), &mut writer);
    // The reader takes zeros for what is not there.
    let last = if writer.low == 0 { None } else { Some((writer.high >> 24) as u8) };
    packed.extend(writer.packed.into_iter().chain(last));
    assert!(packed.len() < SIZE, "{} bytes are too many", packed.len());
    Packed { sizes: [module.len() as u32, span[0], span[1]], bytes: packed }
}

/// What has been packed.
pub fn unpack(packed: &Packed) -> Vec<u8> {
    let [size, start, end] = packed.sizes;
    let mut mind = mind(&packed.bytes, [start, end]);
    let bits = mind.codes.find(&mind.packed, 0);
    let mut reader = Reader::new(&mind.packed, bits);
    mind.unpack(size as usize, &mut reader);
    mind.output[..size as usize].to_vec()
}

/// Where the code of a module starts, behind the number of functions, and where it ends.
fn code_of(module: &[u8]) -> Option<[u32; 2]> {
    let number = |mut at: usize| {
        let (mut value, mut shift) = (0_usize, 0);
        loop {
            let byte = usize::from(*module.get(at)?);
            at += 1;
            value |= (byte & 127).checked_shl(shift)?;
            shift += 7;
            if byte < 128 {
                return Some((value, at));
            }
        }
    };
    let mut at = 8;
    loop {
        let section = *module.get(at)?;
        let (length, start) = number(at + 1)?;
        at = start.checked_add(length)?;
        if section == 10 {
            return Some([number(start)?.1 as u32, at as u32]);
        }
    }
}

/// Each byte's class.
fn classes(module: &[u8], span: [u32; 2]) -> Vec<usize> {
    let mut mind = mind(&[], span);
    let look = |byte: &u8| {
        let class = mind.grammar.look(&mut [0; CONTEXTS]);
        mind.grammar.add(u32::from(*byte));
        class
    };
    module.iter().map(look).collect()
}

/// A prefix code for these bytes (Huffman's), and each byte's bits.
fn code(bytes: impl Iterator<Item = u8>, packed: &mut Vec<u8>) -> Vec<Bits> {
    let mut counts = [0_usize; 256];
    for byte in bytes {
        counts[usize::from(byte)] += 1;
    }
    let least = counts.iter().sum::<usize>() / RARE;
    let other = OTHER as usize;
    let rare = |byte: usize| byte == other || counts[byte] < least.max(1);
    let of_others = (0..256).filter(|byte| rare(*byte)).map(|byte| counts[byte]).sum();
    let mut trees: Vec<(usize, Vec<usize>)> =
        (0..256).filter(|byte| !rare(*byte)).map(|byte| (counts[byte], vec![byte])).collect();
    if of_others > 0 {
        trees.push((of_others, vec![other]));
    }
    let mut lengths = [0_usize; 256];
    if let [(_, only)] = &trees[..] {
        lengths[only[0]] = 1;
    }
    while trees.len() > 1 {
        trees.sort_by_key(|(count, bytes)| Reverse((*count, bytes.len())));
        let mut joined = trees.split_off(trees.len() - 2).into_iter();
        let (mut count, mut bytes) = joined.next().unwrap_or_default();
        for (more, others) in joined {
            count += more;
            bytes.extend(others);
        }
        for byte in &bytes {
            lengths[*byte] += 1;
        }
        trees.push((count, bytes));
    }
    assert!(lengths.iter().all(|length| *length <= LONGEST), "one in {RARE} has no more bits than that");
    let (mut codes, mut next) = (vec![(0, 0); 256], 0);
    for length in 1..=LONGEST {
        next <<= 1;
        let of_this = |byte: &usize| lengths[*byte] == length;
        packed.push((0..256).filter(of_this).count() as u8);
        for byte in (0..256).filter(of_this) {
            packed.push(byte as u8);
            codes[byte] = (next, length);
            next += 1;
        }
    }
    let (bits, length) = codes[other];
    for byte in (0..256).filter(|byte| rare(*byte)) {
        codes[byte] = (bits << 8 | byte as u32, length + 8);
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comes_back(bytes: &[u8]) -> usize {
        let packed = pack(bytes);
        assert!(unpack(&packed) == bytes, "{} bytes", bytes.len());
        packed.bytes.len()
    }

    fn noise(size: usize, symbols: u32) -> Vec<u8> {
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            (state >> 16) % symbols
        };
        (0..size).map(|_| next() as u8).collect()
    }

    #[test]
    fn whatever_it_is_it_comes_back() {
        for bytes in [vec![], vec![7], vec![255; 300], vec![0; 20_000], noise(20_000, 256), noise(50_000, 3)]
        {
            comes_back(&bytes);
        }
    }

    #[test]
    fn a_module_that_is_none_comes_back() {
        for symbols in [2, 3, 17, 256] {
            let mut module = b"\0asm\x01\0\0\0\x0a\xa0\x9c\x01\x03".to_vec();
            module.extend(noise(25_000, symbols));
            comes_back(&module);
            comes_back(&module[..20_004]);
        }
    }

    #[test]
    fn what_is_always_the_same_costs_next_to_nothing() {
        assert!(comes_back(&vec![0; 100_000]) < 400);
        assert!(comes_back(&noise(50_000, 3)) < 10_800);
    }
    #[test]
    fn what_has_stood_before_costs_little() {
        let once = noise(3000, 256);
        assert!(comes_back(&once.repeat(2)) < comes_back(&once) + 300);
    }
}
