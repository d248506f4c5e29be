//! The common part of core's benches and its allocation tests: the scenarios, and an allocator that counts.

pub mod counting;
pub mod gate;
pub mod growth;
pub mod memory;
pub mod rows;
pub mod scenarios;
