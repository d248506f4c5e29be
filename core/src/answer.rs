//! What a metered service's answer says beyond its status: what is left of its quotas, why it failed, and what it
//! used (semantics 15).
//!
//! All input is untrusted bytes. No reader allocates, panics, or looks at more than a bounded part of its input.

mod body;
mod estimate;
mod fields;
mod json;
mod moment;
mod quotas;
mod scan;
mod sse;
mod usage;
mod words;

pub use body::{Failure, Meaning, READ_AT_MOST};
pub use estimate::Estimate;
pub use moment::{parse_go_duration, parse_rfc3339};
pub use quotas::{Measure, Quota, Quotas};
pub use sse::{EventStream, Piece, UNCOUNTED};
pub use usage::{Factors, Usage, UsageReader};

use crate::time::Duration;

/// Bytes of pieces that do not count after which a stream is delivered without one that does (semantics 7.7.8).
pub const HELD_AT_MOST: usize = 64 * 1024;

/// How long a host waits for the beginning of a failed answer's body. What came until then is judged.
pub const READ_FOR: Duration = Duration::from_secs(1);
