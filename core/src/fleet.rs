//! The fleet: state that many processes share through Redis or Valkey (semantics 10).

mod memory;
mod scripts;

pub use memory::MemoryStore;
pub use scripts::{BREAKER, DIGEST, MOST_ITEMS, PROLOGUE, RATE, SCRIPTS, SLOTS, Script};
