//! What the benches and the asserting tests of core share: the scenarios, and an allocator that counts.

pub mod counting;
pub mod growth;
pub mod memory;
pub mod scenarios;
