//! Helpers for tests of the fleet: servers that can be stopped, paused and lost, and a plain connection to them.
//!
//! Nothing here outlives its test: a server ends with its handle, and every wait is bounded.

#![allow(clippy::missing_panics_doc, reason = "a helper of tests fails the test by a panic")]

pub mod crew;
pub mod partition;
mod process;
mod proxy;
mod resp;
mod server;

pub use process::{Process, Seen};
pub use proxy::{Proxy, Way};
pub use resp::{Connection, Word};
pub use server::{Cluster, Server, slot};

/// The commands that a row of the ACL table in `docs/fleet.md` lists, in lower case.
pub fn documented(row: &str) -> std::collections::BTreeSet<String> {
    let page = include_str!("../../../docs/fleet.md");
    let line = page.lines().find(|line| line.starts_with(&format!("| {row} | `")));
    let cell = line.and_then(|line| line.split('`').nth(1));
    let cell = cell.unwrap_or_else(|| panic!("docs/fleet.md has no row {row}"));
    cell.split_whitespace().map(ToString::to_string).collect()
}

/// Splits a command at blanks.
pub fn words(command: &str) -> Vec<Vec<u8>> {
    command.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// A generator for random tests (`SplitMix64`). A test that fails prints its seed.
#[derive(Clone, Debug)]
pub struct Draw(pub u64);

impl Draw {
    /// A random number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % end.max(1)
    }

    /// A random element of a list.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
