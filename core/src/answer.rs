//! What a metered service's answer says beyond its status: what is left of its quotas, and why it failed (semantics 15).
//!
//! All input is untrusted bytes. No reader allocates, panics, or looks at more than a bounded part of its input.

mod body;
mod json;
mod moment;
mod quotas;
mod sse;
mod words;

pub use body::{Failure, Meaning, READ_AT_MOST};
pub use moment::{parse_go_duration, parse_rfc3339};
pub use quotas::{Measure, Quota, Quotas};
pub use sse::{EventStream, Piece, UNCOUNTED};
