//! The store in the process (semantics 10.2): answers our commands as Redis would, without Redis.
//!
//! It mirrors the Lua in `fleet/*.lua`: the same integers, the same state, the same times to live. The vectors in
//! `tests/vectors/fleet` and a random comparison with a real server (`tests/fleet`) verify that.

mod keys;
mod twin;
mod twin_limits;

use super::scripts::{BREAKER, COOLDOWN, DIGEST, LIMITS, RATE, SCRIPTS, SLOTS, Script};
use keys::{Answer, Keys, Value, error};
use std::collections::BTreeSet;
use twin::{Args, integer};

/// A store in memory that answers our commands as Redis does: for tests, for simulations, and for engines that share
/// a limit inside one process.
///
/// It knows our scripts, by source and by name, and the plain commands of the mode without Lua. Its clock is the
/// `now` of each command. Like a new server, a new store has not been sent any script.
///
/// ```
/// use tidegate::fleet::{MemoryStore, RATE};
/// let words = |command: &str| command.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
/// let mut store = MemoryStore::new();
/// // Ten a second, a burst of two; this process wants five, and one would do.
/// let tail = "2 t:{r|api|-}:rl t:{r|api|-}:rl:p";
/// let mut by_name = words(&format!("EVALSHA {} {tail}", RATE.sha));
/// by_name.extend(["10 1000000 2 5 1 0", "00000000000000aa"].map(|word| word.as_bytes().to_vec()));
/// assert!(store.execute(&by_name, 0).unwrap_err().starts_with("NOSCRIPT"));
/// let mut by_source = by_name.clone();
/// by_source[0] = b"EVAL".to_vec();
/// by_source[1] = RATE.source.into();
/// assert_eq!(store.execute(&by_source, 0).unwrap(), b"2 0 1", "two tokens, no wait, one process");
/// assert_eq!(store.execute(&by_name, 50_000).unwrap(), b"0 50000 1", "the next in 50 ms");
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    keys: Keys,
    /// Names of the scripts that it was sent.
    known: BTreeSet<&'static str>,
    now: u64,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Executes one command; `now` is in microseconds and below 2^52. Integers are returned as decimal text, nil as
    /// no bytes.
    ///
    /// Commands: `EVAL` and `EVALSHA` of our scripts; `SET` (with `PX`, `NX`), `GET`, `DEL`, `INCRBY`, `PEXPIRE`,
    /// `PTTL`, `HSET`, `ZADD`; `FLUSHALL` and `SCRIPT FLUSH`. The clock may pause or run back.
    ///
    /// # Errors
    /// The text that Redis would answer with; its first word names the error (`NOSCRIPT`, `WRONGTYPE`, `ERR`).
    pub fn execute(&mut self, words: &[Vec<u8>], now_us: u64) -> Result<Vec<u8>, String> {
        self.now = now_us.min(1 << 52);
        self.keys.set_clock(self.now);
        let [command, rest @ ..] = words else { return Err(error("an empty command")) };
        match (command.to_ascii_uppercase().as_slice(), rest) {
            (b"EVAL", [source, rest @ ..]) => {
                let script = SCRIPTS.into_iter().find(|script| script.source.as_bytes() == source);
                let script = script.ok_or_else(|| error("this store knows our scripts and no others"))?;
                self.known.insert(script.sha);
                self.run(script, rest)
            }
            (b"EVALSHA", [name, rest @ ..]) => {
                let ours = |script: &Script| name.eq_ignore_ascii_case(script.sha.as_bytes());
                let script = SCRIPTS.into_iter().find(ours).filter(|script| self.known.contains(script.sha));
                self.run(script.ok_or("NOSCRIPT No matching script. Please use EVAL.")?, rest)
            }
            (b"SCRIPT", [word]) if word.eq_ignore_ascii_case(b"FLUSH") => {
                self.known.clear();
                Ok(b"OK".to_vec())
            }
            (b"FLUSHALL", []) => {
                self.keys.clear();
                Ok(b"OK".to_vec())
            }
            (name, [key, rest @ ..]) => self.plain(name, key, rest),
            _ => Err(error("unknown command, or wrong number of arguments")),
        }
    }

    /// The stored data, for tests: one line for each key, in order, `key ttl_ms kind` and the contents (a string's
    /// text, a hash's fields, a sorted set's members with their scores). A time to live of −1 means no expiry.
    /// Expired keys are removed for good, even if the clock runs back.
    pub fn describe(&mut self, now_us: u64) -> Vec<String> {
        self.keys.set_clock(now_us.min(1 << 52));
        self.keys.sweep();
        let line = |(key, ttl, value): (&[u8], i64, &Value)| {
            let text = String::from_utf8_lossy;
            let (kind, held): (_, Vec<String>) = match value {
                Value::Text(held) => ("string", vec![text(held).into_owned()]),
                Value::Hash(held) => {
                    ("hash", held.iter().map(|(field, it)| format!("{}={}", text(field), text(it))).collect())
                }
                Value::Sorted(held) => {
                    ("zset", held.iter().map(|(member, score)| format!("{}={score}", text(member))).collect())
                }
            };
            format!("{} {ttl} {kind} {}", text(key), held.join(" "))
        };
        self.keys.live().map(line).collect()
    }

    /// Runs a script with the words after it in `EVAL` and `EVALSHA`: the number of keys, the keys, the arguments.
    fn run(&mut self, script: Script, words: &[Vec<u8>]) -> Result<Vec<u8>, String> {
        let count = script.keys.len();
        let Some((number, rest)) = words.split_first().filter(|(_, rest)| rest.len() >= count) else {
            return Err(error("a script of ours names all its keys"));
        };
        if *number != count.to_string().into_bytes() {
            return Err(error("a script of ours names all its keys"));
        }
        let (names, args) = rest.split_at(count);
        let (keys, args, now) = (&mut self.keys, Args(args), self.now);
        let answer = match (script.name, names) {
            (name, [bucket, seen]) if name == RATE.name => twin::rate(keys, [bucket, seen], &args, now),
            (name, [at, ballot]) if name == BREAKER.name => twin::breaker(keys, [at, ballot], &args, now),
            (name, [even, odd]) if name == DIGEST.name => twin::digest(keys, [even, odd], &args, now),
            (name, [set, seen, charges]) if name == LIMITS.name => {
                twin_limits::limits(keys, [set, seen, charges], &args, now)
            }
            (name, [slots, fence, wants]) if name == SLOTS.name => {
                twin::slots(keys, [slots, fence, wants], &args, now)
            }
            (name, [closing]) if name == COOLDOWN.name => twin::cooldown(keys, closing, &args, now),
            _ => return Err(error("a script without a twin")),
        };
        answer.map(String::into_bytes)
    }

    fn plain(&mut self, name: &[u8], key: &[u8], rest: &[Vec<u8>]) -> Answer<Vec<u8>> {
        let keys = &mut self.keys;
        let one = |yes: bool| i64::from(yes).to_string().into_bytes();
        Ok(match (name, rest) {
            (b"SET", [value, options @ ..]) => {
                let (mut ttl, mut only_new, mut at) = (None, false, options.iter());
                while let Some(option) = at.next() {
                    match option.to_ascii_uppercase().as_slice() {
                        b"NX" => only_new = true,
                        b"PX" => ttl = Some(span(at.next().ok_or_else(|| error("syntax error"))?)?),
                        _ => return Err(error("syntax error")),
                    }
                }
                if only_new && keys.ttl(key) != -2 {
                    return Ok(Vec::new());
                }
                keys.put(key, Value::Text(value.clone()), ttl);
                b"OK".to_vec()
            }
            (b"GET", []) => keys.text(key)?.cloned().unwrap_or_default(),
            (b"DEL", []) => one(keys.remove(key)),
            (b"INCRBY", [by]) => {
                let by = integer(by)?;
                let held = keys.text(key)?.map_or(Ok(0), |text| integer(text))?;
                let sum =
                    held.checked_add(by).ok_or_else(|| error("increment or decrement would overflow"))?;
                *keys.make_text(key)? = sum.to_string().into_bytes();
                sum.to_string().into_bytes()
            }
            (b"PEXPIRE", [ms]) => one(keys.expire(key, span(ms)?)),
            (b"PTTL", []) => keys.ttl(key).to_string().into_bytes(),
            (b"HSET", [field, value]) => {
                one(keys.make_hash(key)?.insert(field.clone(), value.clone()).is_none())
            }
            (b"ZADD", [score, member]) => {
                let score = integer(score)?;
                one(keys.make_sorted(key)?.insert(member.clone(), score).is_none())
            }
            _ => return Err(error("unknown command, or wrong number of arguments")),
        })
    }
}

/// A time to live in milliseconds: above 0.
fn span(text: &[u8]) -> Answer<u64> {
    u64::try_from(integer(text)?).ok().filter(|ms| *ms > 0).ok_or_else(|| error("invalid expire time"))
}
