//! What only the full engine has.
//!
//! A page that wants retries should not load what it never asks for, so the npm package has this crate a second time,
//! compiled with `--cfg tidegate_small` (`docs/adr/0015-two-modules.md`). That is no feature: nobody's dependency can turn
//! it on. The source is the same and is checked the same; the parts that a small engine lacks are of types without values,
//! and the compiler drops whatever would need one.

use core::ops::{Deref, DerefMut};

/// Says that this is the full engine: a value with which only code that is never dropped can be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg(not(tidegate_small))]
pub(crate) struct Full;

/// In a small engine there is no such value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg(tidegate_small)]
pub(crate) enum Full {}

/// Is this the full engine?
pub(crate) const FULL: bool = !cfg!(tidegate_small);

impl Full {
    #[cfg(not(tidegate_small))]
    #[inline(always)]
    pub const fn here() -> Option<Self> {
        Some(Self)
    }

    #[cfg(tidegate_small)]
    #[inline(always)]
    pub const fn here() -> Option<Self> {
        None
    }
}

/// A part that only the full engine has, in a place of its own.
#[derive(Clone, Debug)]
pub(crate) struct Part<T>(Box<T>, #[allow(dead_code)] Full);

impl<T> Part<T> {
    #[inline]
    pub fn new(part: T, full: Full) -> Self {
        Self(Box::new(part), full)
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
