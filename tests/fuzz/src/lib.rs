//! Fuzz targets of core: each accepts any bytes, and panics if core breaks a rule.
//!
//! `corpus/<target>/` holds inputs with high coverage, and every input that ever failed. `tests/replay.rs` runs them
//! all on stable, together with seeded random ones; `cargo xtask deep` explores on nightly with libFuzzer (`fuzz/`).

#![forbid(unsafe_code)]
#![allow(clippy::pedantic, reason = "a test crate: a panic is its verdict")]

mod answer;
mod documents;
mod engine;
mod fleet;
mod input;
mod parts;
mod quantile;
mod retry_after;
mod strategy;
mod wire_words;

pub use answer::answer;
pub use documents::documents;
pub use engine::{changes, engine};
pub use fleet::fleet;
pub use parts::parts;
pub use quantile::quantile_words;
pub use retry_after::retry_after;
pub use strategy::strategy;
pub use wire_words::wire_words;

/// A fuzz target: any bytes are an input, and a panic is a finding.
pub type Target = fn(&[u8]);

/// All targets, by the name of their folder in `corpus/`.
pub const TARGETS: [(&str, Target); 10] = [
    ("answer", answer),
    ("retry_after", retry_after),
    ("documents", documents),
    ("wire_words", wire_words),
    ("engine", engine),
    ("changes", changes),
    ("fleet", fleet),
    ("quantile_words", quantile_words),
    ("strategy", strategy),
    ("parts", parts),
];
