//! What goes in and out of a breaker: where it stands, proof of an admission, and what a result says.

use crate::outcome::Class;

/// Where a breaker stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakerState {
    /// Calls go through, and their results are counted.
    Closed,
    /// Calls are refused. It stays open until the first admission after the break, however long that takes to come.
    Open,
    /// A few probes go through; what comes of them decides.
    HalfOpen,
}

/// Proof of an admission, to be handed back with what came of it, once.
///
/// `number` is never 0. Calls admitted while closed share the number of their generation; each probe has its own.
/// Numbers are 16 bits and come round: a result could be taken for another's only if it is reported more than 65,534
/// openings after its admission, or a probe's more than 65,534 probes after it. A probe that still has its place
/// never shares its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    /// The generation while closed; the probe while half-open.
    pub number: u16,
    /// Was it admitted as a probe?
    pub probe: bool,
}

/// What a result says about the downstream's health.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// It works.
    Success,
    /// It does not.
    Failure,
    /// Nothing: a probe's place is given back, and nothing is counted.
    Neutral,
}

impl Evidence {
    /// The "breaker" column of semantics 1.2.
    ///
    /// ```
    /// use tidegate::{Class, Evidence};
    /// assert_eq!(Evidence::of(Class::Permanent), Evidence::Success, "a healthy downstream said no");
    /// assert_eq!(Evidence::of(Class::Cancelled), Evidence::Neutral);
    /// ```
    pub const fn of(class: Class) -> Self {
        match class {
            Class::Ok | Class::Permanent => Self::Success,
            Class::Transient | Class::Timeout | Class::NeverSent => Self::Failure,
            Class::Throttled | Class::Conflict | Class::Ignored | Class::Cancelled => Self::Neutral,
        }
    }
}
