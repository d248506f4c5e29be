//! Inputs and outputs of a breaker: its state, proof of an admission, and the evidence of a result.

use crate::outcome::Class;

/// State of a breaker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakerState {
    /// Calls are admitted, and their results are counted.
    Closed,
    /// Calls are refused. The breaker stays open until the first admission after the break, however late that is.
    Open,
    /// A few probes are admitted; their results decide.
    HalfOpen,
}

impl BreakerState {
    /// All states, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::HalfOpen];

    /// Its name in documents and telemetry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// Proof of an admission, to be returned once, with the result.
///
/// `number` is never 0. Calls admitted while closed share the number of their generation; each probe has its own.
/// Numbers have 16 bits and wrap around. So a result could count for another call only if it is reported more than
/// 65,534 openings after its admission, or a probe's more than 65,534 probes after it. A probe that still has its
/// place never shares its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    /// The generation while closed; the probe while half-open.
    pub number: u16,
    /// Whether it was admitted as a probe.
    pub probe: bool,
}

/// Evidence of a result about the downstream's health.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// It works.
    Success,
    /// It does not work.
    Failure,
    /// No evidence: a probe's place is released, and nothing is counted.
    Neutral,
}

impl Evidence {
    /// All evidence, in the order of its numbers.
    pub const ALL: [Self; 3] = [Self::Success, Self::Failure, Self::Neutral];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Neutral => "neutral",
        }
    }

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
