//! Taking back slots of lost holders on request (semantics 10.1).

use super::super::Engine;
use super::command::escaped;
use super::slots::Op;
use crate::fleet::SLOTS;

impl Engine {
    /// The complete command that takes back the expired slots of a pool. Its reply is how many those were, and how
    /// many are in use. `None` if the pool does not exist, or is not the fleet's.
    ///
    /// Calling this is optional: any request for a slot takes back expired ones in the same step. It is for hosts
    /// that show the number of slots to people. The engine does not get the reply, and does not need it.
    pub fn reap_command(&self, pool: &str) -> Option<Vec<Vec<u8>>> {
        let fleet = self.store.fleet.as_ref()?;
        let ttl = self.pool_of(pool)?.policy().bulkhead.as_ref()?.fleet?.ttl;
        let keys = SLOTS.keys.iter().map(|part| format!("{}:{{p|{}}}{part}", fleet.namespace, escaped(pool)));
        let args = [Op::Reap as u64, 0, 1, ttl.as_micros(), 0, 0].map(|number| number.to_string());
        let words = ["EVAL".to_owned(), SLOTS.source.to_owned(), SLOTS.keys.len().to_string()];
        Some(words.into_iter().chain(keys).chain(args).map(String::into_bytes).collect())
    }
}
