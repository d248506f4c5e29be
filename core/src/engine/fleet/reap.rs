//! Slots whose holders are gone, taken back on request (semantics 10.1).

use super::super::Engine;
use super::command::escaped;
use super::slots::Op;
use crate::fleet::SLOTS;

impl Engine {
    /// The command that takes back the slots of a pool whose leases are over, whole: its reply is how many those were, and
    /// how many are in use. `None` if there is no such pool, or it is not the fleet's.
    ///
    /// Nobody has to ask for it: whoever wants a slot takes back what is over in the same step. It is for hosts that show
    /// people how many there are. The engine does not get the reply, which changes nothing for it.
    pub fn reap_command(&self, pool: &str) -> Option<Vec<Vec<u8>>> {
        let fleet = self.store.fleet.as_ref()?;
        let ttl = self.pool_of(pool)?.policy().bulkhead.as_ref()?.fleet?.ttl;
        let keys = SLOTS.keys.iter().map(|part| format!("{}:{{p|{}}}{part}", fleet.namespace, escaped(pool)));
        let args = [Op::Reap as u64, 0, 1, ttl.as_micros(), 0, 0].map(|number| number.to_string());
        let words = ["EVAL".to_owned(), SLOTS.source.to_owned(), SLOTS.keys.len().to_string()];
        Some(words.into_iter().chain(keys).chain(args).map(String::into_bytes).collect())
    }
}
