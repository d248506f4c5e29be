//! Parts that only the full engine has.
//!
//! A web page that needs retries should not load unused code. So the npm package contains this crate a second time,
//! compiled with `--cfg tidegate_small` (`docs/adr/0025-one-import.md`). This is not a cargo feature, so no
//! dependency can enable it. Source and checks are the same. The types of parts that a small engine lacks are
//! uninhabited, so the compiler removes their code.

#[cfg(not(tidegate_small))]
pub(crate) use here::{Full, Name, Part, Rare};
#[cfg(tidegate_small)]
pub(crate) use not_here::{Full, Name, Part, Rare};

/// Whether this is the full engine.
pub(crate) const FULL: bool = !cfg!(tidegate_small);

#[cfg(not(tidegate_small))]
mod here {
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
}

/// The same types, uninhabited. They also have no size: only then does the compiler see that an `Option` of one is
/// `None`.
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
}
