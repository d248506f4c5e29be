//! The museum of other libraries' bugs: `README.md` lists 98 bugs, each with the test that keeps it out of Tidegate.
//!
//! `tests/engine.rs` has the tests that fit in no other file; `tests/table.rs` checks that every named test exists.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

/// The table of all bugs.
pub const TABLE: &str = include_str!("../README.md");
