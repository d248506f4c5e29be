//! What a small engine has in place of the full one's: types without values and functions that do less.
//!
//! The types also have no size: only then does the compiler see that an `Option` of one is `None`.

use crate::rng;
use crate::text;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Full {}

impl Full {
    #[inline(always)]
    pub const fn here() -> Option<Self> {
        None
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rare<T>(Full, PhantomData<T>);

#[derive(Clone, Debug)]
pub(crate) struct Part<T>(Full, PhantomData<T>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Name(Full);

impl<T> Rare<T> {
    #[inline(always)]
    pub fn new(_: T, full: Full) -> Self {
        match full {}
    }

    #[inline(always)]
    pub const fn full(&self) -> Full {
        self.0
    }
}

impl<T> Part<T> {
    #[inline(always)]
    pub fn new(_: T, full: Full) -> Self {
        match full {}
    }
}

impl Name {
    #[inline(always)]
    pub fn new(_: &str, full: Full) -> Self {
        match full {}
    }
}

impl<T> Deref for Rare<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        match self.0 {}
    }
}

impl<T> DerefMut for Rare<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        match self.0 {}
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        match self.0 {}
    }
}

impl<T> DerefMut for Part<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        match self.0 {}
    }
}

impl Deref for Name {
    type Target = str;

    #[inline(always)]
    fn deref(&self) -> &str {
        match self.0 {}
    }
}

/// A choice that a small engine does not offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Switch;

impl Switch {
    #[inline(always)]
    pub fn of(_: impl FnOnce() -> bool) -> Self {
        Self
    }

    #[inline(always)]
    pub const fn is_on(self) -> bool {
        false
    }
}

/// A bit that a small engine never sets.
pub(crate) const fn rare_bit(_: u8) -> u8 {
    0
}

/// The same for a wider word.
pub(crate) const fn rare_flag(_: u16) -> u16 {
    0
}

/// A number in an error. Its host formats it: these are the bits, in hexadecimal digits after a private-use character.
pub(crate) fn real(number: f64) -> String {
    let digit = |place: u32| char::from(b"0123456789abcdef"[(number.to_bits() >> (4 * place) & 15) as usize]);
    core::iter::once('\u{e000}').chain((0..16).rev().map(digit)).collect()
}

/// A quoted text, as it is: the reader is a developer's console.
pub(crate) fn quoted(text: &str) -> String {
    text::of(&["\"", text, "\""])
}

/// A text from outside needs no other form, because a small engine writes no logs.
pub(crate) fn shown(_: &str) -> Option<Box<str>> {
    None
}

/// 128 bits of a text, with less code than SHA-256.
pub(crate) fn hash(text: &[u8]) -> u128 {
    let lane = |seed: u64| text.iter().fold(seed, |hash, byte| rng::split_mix(hash ^ u64::from(*byte)));
    u128::from(lane(1)) << 64 | u128::from(lane(2))
}

/// A product of more than 64 bits divided, rounded down.
///
/// Bit by bit, which is slow and small: the platform's division would cost a page 900 bytes. Numbers of 64
/// bits, nearly all of them, are divided at once. The divisor is below 2^127, and not zero.
#[inline(never)]
pub(crate) fn div(number: u128, by: u128) -> u128 {
    if let (Ok(number), Ok(by)) = (u64::try_from(number), u64::try_from(by)) {
        return u128::from(number / by);
    }
    // The number's bits leave at the top as the quotient's bits enter at the bottom.
    let (mut bits, mut rest) = (number, 0);
    for _ in 0..128 {
        rest = rest << 1 | bits >> 127;
        bits <<= 1;
        if rest >= by {
            rest -= by;
            bits |= 1;
        }
    }
    bits
}

/// The same rounded up.
#[inline]
pub(crate) fn div_ceil(number: u128, by: u128) -> u128 {
    let down = div(number, by);
    down + u128::from(down * by < number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_hash_differs_by_each_byte() {
        assert_ne!(hash(b"ab"), hash(b"ba"));
        assert_ne!(hash(b"a"), hash(b"aa"));
    }

    proptest! {
        #[test]
        fn steps_divide_as_the_platform_does(number: u128, by: u128, fewer in 0_u32..128, less in 1_u32..128) {
            let (number, by) = (number >> fewer, (by >> less).max(1));
            prop_assert_eq!(div(number, by), number / by);
            prop_assert_eq!(div(number, u128::MAX >> 1), number / (u128::MAX >> 1));
            let number = number >> 1; // a rounded product stays below 2^128
            prop_assert_eq!(div_ceil(number, by), number.div_ceil(by));
        }
    }
}
