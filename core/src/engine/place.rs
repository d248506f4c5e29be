//! Indexes of the engine's tables, each of its own type, so that they cannot be confused.

use std::fmt;

macro_rules! places {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub(super) struct $name(u32);

        impl $name {
            /// No index: the end of a list, or no item of this kind.
            pub const NONE: Self = Self(u32::MAX);

            #[inline]
            pub const fn new(number: u32) -> Self {
                Self(number)
            }

            #[inline]
            pub const fn number(self) -> u32 {
                self.0
            }

            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

places! {
    /// A call in the arena.
    Slot,
    /// A route.
    RouteAt,
}

/// Place of permits, tokens or a retry budget: a route, or a pool that several routes share. A pool is stored in a
/// route without calls of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(super) struct PoolAt(RouteAt);

impl RouteAt {
    /// This route as the place of its own components.
    #[inline]
    pub const fn own(self) -> PoolAt {
        PoolAt(self)
    }
}

impl PoolAt {
    /// No pool: each route has its own.
    pub const NONE: Self = Self(RouteAt::NONE);

    /// The route that stores it.
    #[inline]
    pub const fn route(self) -> RouteAt {
        self.0
    }
}

impl fmt::Display for PoolAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
