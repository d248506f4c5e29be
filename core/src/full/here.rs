//! What the full engine has, where the small one has less.

use crate::text::is_hidden;
use core::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Proof that this is the full engine; needed to create parts that only the full engine has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

impl Full {
    #[inline(always)]
    #[allow(clippy::unnecessary_wraps, clippy::inline_always)] // a small engine has none
    pub const fn here() -> Option<Self> {
        Some(Self)
    }
}

/// A part that only the full engine has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rare<T>(T);

impl<T> Rare<T> {
    #[inline]
    pub fn new(it: T, _: Full) -> Self {
        Self(it)
    }

    /// Proof that this is the full engine, because this value exists.
    #[inline]
    #[allow(clippy::unused_self)]
    pub const fn full(&self) -> Full {
        Full
    }
}

/// The same in a heap allocation of its own.
#[derive(Clone, Debug)]
pub(crate) struct Part<T>(Box<T>);

impl<T> Part<T> {
    #[inline]
    pub fn new(it: T, _: Full) -> Self {
        Self(Box::new(it))
    }
}

/// A name chosen by a policy's author, for a pool or a kind of failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Name(Arc<str>);

impl Name {
    pub fn new(name: &str, _: Full) -> Self {
        Self(name.into())
    }
}

impl<T> Deref for Rare<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Rare<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Part<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A choice that only the full engine offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Switch(bool);

impl Switch {
    /// Asks whether it is on; a small engine does not ask.
    #[inline]
    pub fn of(is_on: impl FnOnce() -> bool) -> Self {
        Self(is_on())
    }

    #[inline]
    pub const fn is_on(self) -> bool {
        self.0
    }
}

/// A bit that only the full engine sets: 0 in a small one.
pub(crate) const fn rare_bit(bit: u8) -> u8 {
    bit
}

/// The same for a wider word.
pub(crate) const fn rare_flag(flag: u16) -> u16 {
    flag
}

/// A number in an error.
pub(crate) fn real(number: f64) -> String {
    number.to_string()
}

/// A quoted text, with invisible characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_hidden(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A text from outside in a form that is safe to show, with invisible characters escaped; `None` if the text needs no
/// change. So a route key from outside cannot begin a line in a log or reverse one.
pub(crate) fn shown(text: &str) -> Option<Box<str>> {
    if !text.chars().any(is_hidden) {
        return None;
    }
    let mut out = String::new();
    for c in text.chars() {
        if is_hidden(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Some(out.into())
}

/// 128 bits of a text.
pub(crate) use crate::hash::sha256 as hash;

/// A product of more than 64 bits divided, rounded down.
#[inline]
pub(crate) fn div(number: u128, by: u128) -> u128 {
    number / by
}

/// The same rounded up.
#[inline]
pub(crate) fn div_ceil(number: u128, by: u128) -> u128 {
    number.div_ceil(by)
}
