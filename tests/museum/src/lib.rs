//! The museum of other libraries' bugs: `README.md` names each of 98 and the test that keeps it out of ours.
//!
//! `tests/engine.rs` has the tests that belong to no other place, `tests/table.rs` checks that every named test exists.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

/// The table of all bugs.
pub const TABLE: &str = include_str!("../README.md");
