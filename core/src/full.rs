//! What only the full engine has.
//!
//! A page that wants retries should not load what it never asks for, so the npm package has this crate a second time,
//! compiled with `--cfg tidegate_small` (`docs/adr/0025-one-import.md`). That is no feature: nobody's dependency can turn
//! it on. The source is the same and is checked the same; the parts that a small engine lacks are of types without values,
//! and the compiler drops whatever would need one.

#[cfg(not(tidegate_small))]
pub(crate) use here::{Full, Name, Part, Rare};
#[cfg(tidegate_small)]
pub(crate) use not_here::{Full, Name, Part, Rare};

/// Is this the full engine?
pub(crate) const FULL: bool = !cfg!(tidegate_small);

#[cfg(not(tidegate_small))]
mod here {
    use core::ops::{Deref, DerefMut};
    use std::sync::Arc;

    /// Says that this is the full engine: what only that has can be made where there is one of these.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Full;

    impl Full {
        #[inline(always)]
        #[allow(clippy::unnecessary_wraps, clippy::inline_always)] // a small engine has none
        pub const fn here() -> Option<Self> {
            Some(Self)
        }
    }

    /// Something that only the full engine has.
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub(crate) struct Rare<T>(T);

    impl<T> Rare<T> {
        #[inline]
        pub fn new(it: T, _: Full) -> Self {
            Self(it)
        }

        /// Where there is one of these, the engine is the full one.
        #[inline]
        #[allow(clippy::unused_self)]
        pub const fn full(&self) -> Full {
            Full
        }
    }

    /// The same in a place of its own.
    #[derive(Clone, Debug)]
    pub(crate) struct Part<T>(Box<T>);

    impl<T> Part<T> {
        #[inline]
        pub fn new(it: T, _: Full) -> Self {
            Self(Box::new(it))
        }
    }

    /// A name that a policy's author chose, of a pool or of a kind of failure.
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
}

/// The same without values. They have no size either: only then does the compiler see that an `Option` of one is `None`.
#[cfg(tidegate_small)]
mod not_here {
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

    #[derive(Clone, Copy, PartialEq, Debug)]
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
}
