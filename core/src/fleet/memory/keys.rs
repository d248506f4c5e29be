//! Keys with their types and times to live, as in Redis: just the parts that our scripts and plain commands use.

use std::collections::BTreeMap;

/// Result of a command: its answer, or the server's error.
pub(super) type Answer<T> = Result<T, String>;

/// How many commands pass between two sweeps for expired keys.
const SWEEP: u32 = 1_024;

/// The largest number accepted: sums of two are exact in Lua.
pub(super) const MOST: u64 = 1 << 52;

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Text(Vec<u8>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Members by score; scores are integers here.
    Sorted(BTreeMap<Vec<u8>, i64>),
}

#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    /// The last millisecond of its life; `None` for a key that stays.
    until: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    entries: BTreeMap<Vec<u8>, Entry>,
    now_ms: u64,
    since_sweep: u32,
}

/// An error with the general prefix.
pub(super) fn error(text: &str) -> String {
    format!("ERR {text}")
}

/// Reads an integer up to 2^52 as scripts read it: at most 16 digits and nothing else.
pub(super) fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 16 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let n = core::str::from_utf8(text).ok()?.parse().ok()?;
    (n <= MOST).then_some(n)
}

/// Makes a type's accessor: returns the value if the key holds that type, `None` if it is missing, else WRONGTYPE.
macro_rules! accessor {
    ($name:ident, $make:ident, $kind:ident, $of:ty) => {
        pub(super) fn $name(&mut self, key: &[u8]) -> Answer<Option<&mut $of>> {
            match self.entry(key).map(|entry| &mut entry.value) {
                Some(Value::$kind(value)) => Ok(Some(value)),
                None => Ok(None),
                Some(_) => {
                    Err("WRONGTYPE Operation against a key holding the wrong kind of value".to_string())
                }
            }
        }

        /// The same, but creates a missing key.
        pub(super) fn $make(&mut self, key: &[u8]) -> Answer<&mut $of> {
            if self.entry(key).is_none() {
                self.put(key, Value::$kind(Default::default()), None);
            }
            self.$name(key)?.ok_or_else(|| error("no such key"))
        }
    };
}

impl Keys {
    /// Sets the clock for the following commands.
    pub(super) fn set_clock(&mut self, now_us: u64) {
        self.now_ms = now_us / 1_000;
        self.since_sweep += 1;
        if self.since_sweep == SWEEP {
            self.since_sweep = 0;
            self.sweep();
        }
    }

    /// Removes all expired keys, including those that no command touches.
    pub(super) fn sweep(&mut self) {
        let now = self.now_ms;
        self.entries.retain(|_, entry| entry.until.is_none_or(|until| now <= until));
    }

    accessor!(text, make_text, Text, Vec<u8>);
    accessor!(hash, make_hash, Hash, BTreeMap<Vec<u8>, Vec<u8>>);
    accessor!(sorted, make_sorted, Sorted, BTreeMap<Vec<u8>, i64>);

    /// A field of a hash.
    pub(super) fn field(&mut self, key: &[u8], field: &[u8]) -> Answer<Option<Vec<u8>>> {
        Ok(self.hash(key)?.and_then(|hash| hash.get(field).cloned()))
    }

    /// The integer in a field of a hash; `None` if the field is missing.
    pub(super) fn whole(&mut self, key: &[u8], field: &str) -> Answer<Option<u64>> {
        Ok(self.field(key, field.as_bytes())?.and_then(|text| whole(&text)))
    }

    /// Sets a field of a hash to a number.
    pub(super) fn set_field(&mut self, key: &[u8], field: &str, to: u64) -> Answer<()> {
        self.make_hash(key)?.insert(field.into(), to.to_string().into());
        Ok(())
    }

    /// Number of members of a sorted set.
    pub(super) fn members(&mut self, key: &[u8]) -> Answer<u64> {
        Ok(self.sorted(key)?.map_or(0, |set| set.len() as u64))
    }

    /// Removes the members whose score `goes` selects, and returns how many. An empty set is removed with its key.
    pub(super) fn drop_members(&mut self, key: &[u8], goes: impl Fn(i64) -> bool) -> Answer<u64> {
        let Some(set) = self.sorted(key)? else { return Ok(0) };
        let before = set.len();
        set.retain(|_, score| !goes(*score));
        let (after, dropped) = (set.len(), before - set.len());
        if after == 0 {
            self.remove(key);
        }
        Ok(dropped as u64)
    }

    /// Replaces the value of a key of any type.
    pub(super) fn put(&mut self, key: &[u8], value: Value, ttl_ms: Option<u64>) {
        let until = ttl_ms.map(|ttl| self.now_ms.saturating_add(ttl));
        self.entries.insert(key.to_vec(), Entry { value, until });
    }

    /// Sets the time to live of an existing key; false if the key is missing.
    pub(super) fn expire(&mut self, key: &[u8], ttl_ms: u64) -> bool {
        let until = self.now_ms.saturating_add(ttl_ms);
        self.entry(key).map(|entry| entry.until = Some(until)).is_some()
    }

    /// Milliseconds left; −1 for a key without expiry, −2 for a missing key.
    pub(super) fn ttl(&mut self, key: &[u8]) -> i64 {
        let now = self.now_ms;
        self.entry(key).map_or(-2, |entry| left(entry.until, now))
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        let there = self.entry(key).is_some();
        self.entries.remove(key);
        there
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Every key after a sweep, with its remaining time to live and its value, in order.
    pub(super) fn live(&self) -> impl Iterator<Item = (&[u8], i64, &Value)> {
        let now = self.now_ms;
        self.entries.iter().map(move |(key, entry)| (key.as_slice(), left(entry.until, now), &entry.value))
    }

    /// A live key. Removes an expired one on access, as Redis does.
    fn entry(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let now = self.now_ms;
        if self.entries.get(key)?.until.is_some_and(|until| now > until) {
            self.entries.remove(key);
        }
        self.entries.get_mut(key)
    }
}

fn left(until: Option<u64>, now_ms: u64) -> i64 {
    until.map_or(-1, |until| until.saturating_sub(now_ms).cast_signed())
}
