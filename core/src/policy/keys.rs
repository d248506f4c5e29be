//! Definition of a policy's keys. Each component declares its own keys (`components/`).

use super::whole;
use crate::time::Duration;

/// One key of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its path, dotted.
    pub path: &'static str,
    /// Domain of its values.
    pub domain: Domain,
    /// Its default, as written in a document; empty without a default.
    pub default: &'static str,
    /// Its meaning, in one sentence.
    pub doc: &'static str,
}

/// Domain of a key's values.
#[derive(Clone, Copy, Debug)]
pub enum Domain {
    /// A span of time between two bounds, in microseconds; `none` if allowed.
    Span {
        /// Shortest.
        min: Duration,
        /// Longest.
        max: Duration,
        /// Whether it may be `none`.
        none: bool,
    },
    /// An integer between two bounds; `none` if allowed.
    Count {
        /// Least.
        min: u32,
        /// Greatest.
        max: u32,
        /// Whether it may be `none`.
        none: bool,
    },
    /// A finite number between two bounds; `none` if allowed.
    Real {
        /// Least.
        min: f64,
        /// Greatest.
        max: f64,
        /// Whether it may be `none`.
        none: bool,
    },
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// HTTP statuses that mean failure; the key is repeated.
    Statuses,
    /// Some of these words; the key is repeated.
    Words(&'static [&'static str]),
    /// Some of these words, or of the names that the policy's own `kinds` declare; the key is repeated.
    KindWords(&'static [&'static str]),
    /// Kinds of failure that the policy declares, each written `name=class`; the key is repeated.
    Kinds,
    /// The limits of a set, each written `name: permits=… per=…`; the key is repeated.
    Limits,
    /// The shares of some route keys, each written `key=share`; the key is repeated.
    Shares,
    /// The name of something that is declared elsewhere.
    Name,
}

impl Domain {
    /// Whether the key holds several values.
    pub const fn is_list(&self) -> bool {
        matches!(
            self,
            Self::Statuses | Self::Words(_) | Self::KindWords(_) | Self::Kinds | Self::Limits | Self::Shares
        )
    }
}

/// The longest span a policy may name: 365 days. A longer span is most likely a wrong unit.
pub(super) const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
pub(super) const MICRO: Duration = Duration::from_micros(1);

pub(super) const fn key(path: &'static str, domain: Domain, default: &'static str, doc: &'static str) -> Key {
    Key { path, domain, default, doc: whole::doc(doc) }
}

pub(super) const fn span(min: Duration) -> Domain {
    Domain::Span { min, max: YEAR, none: false }
}

pub(super) const fn count(min: u32, max: u32) -> Domain {
    Domain::Count { min, max, none: false }
}

pub(super) const fn real(min: f64, max: f64) -> Domain {
    Domain::Real { min, max, none: false }
}

/// Domains that several keys share.
pub(super) mod domains {
    use super::{Domain, real};

    /// Strictly between 0 and 1, as quantiles are.
    pub(in crate::policy) const QUANTILE: Domain = real(0.001, 0.999);
    pub(in crate::policy) const UNIT: Domain = Domain::Choice(&["call", "attempt"]);
    pub(in crate::policy) const WINDOW_KIND: Domain = Domain::Choice(&["sliding", "tumbling"]);
    pub(in crate::policy) const STORE: Domain = Domain::Choice(&["local", "fleet"]);
    pub(in crate::policy) const ON_LOSS: Domain = Domain::Choice(&["local", "open", "closed"]);
}
