//! Places in the engine's tables: a number each, of a type of its own, so that none is taken for another.

use std::fmt;

macro_rules! places {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub(super) struct $name(u32);

        impl $name {
            /// No place: the end of a list, or nothing of this kind.
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

/// Where permits, tokens or a retry budget are kept: in a route, or in a pool that several routes share. A pool is kept in a
/// route that no call goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(super) struct PoolAt(RouteAt);

impl RouteAt {
    /// The place of what this route keeps for itself.
    #[inline]
    pub const fn own(self) -> PoolAt {
        PoolAt(self)
    }
}

impl PoolAt {
    /// No pool: each route keeps its own.
    pub const NONE: Self = Self(RouteAt::NONE);

    /// The route that keeps it.
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
