//! The Lua scripts of the fleet (semantics 10.2), and their names.
//!
//! One script makes one decision: it reads the server's clock, the state and its settings, and writes the state and
//! its time to live. Each begins with a line that reads the clock into `now`. Tests replace that line by an argument,
//! and change nothing else.

/// First line of every script: reads the server's clock, in microseconds. Tests replace it by an argument.
pub const PROLOGUE: &str = "local time = redis.call('TIME') local now = time[1] * 1000000 + time[2]\n";

/// A script as sent to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Script {
    /// Name of the script: the component about which it decides.
    pub name: &'static str,
    /// The text for `EVAL`: the file without its comments and its indents.
    pub source: &'static str,
    /// SHA-1 of `source` in lower-case hex, the name for `EVALSHA`. Stored as a constant, because core has no other
    /// use for SHA-1; a test computes it again.
    pub sha: &'static str,
    /// Suffixes of its keys, after the hash tag of the route or pool.
    pub keys: &'static [&'static str],
}

/// A script from the file of its name, shortened at compile time, so that the sent text is the reviewed one.
macro_rules! script {
    ($name:literal, $sha:literal, $keys:expr) => {{
        const FILE: &[u8] = include_bytes!(concat!($name, ".lua"));
        const TEXT: [u8; shortened(FILE)] = shorten(FILE);
        Script { name: $name, source: text(&TEXT), sha: $sha, keys: $keys }
    }};
}

/// The most items in one command: fences of a bulkhead, buckets of a digest. It bounds the loops of the scripts.
pub const MOST_ITEMS: usize = 512;

/// A token bucket. Arguments: `permits per burst want need back` in one text, and the pid if the process is to be
/// recorded as a member of the fleet. Reply: granted, wait, processes (0 if unknown).
pub const RATE: Script = script!("rate", "ab8dd82425026116da5626ec8e8ced20fa9a3d3b", &[":rl", ":rl:p"]);
/// A circuit breaker. Arguments: op (0 read, 1 open, 2 close), pid, epoch, duration, quorum, window. Reply: state (0
/// closed, 1 open, 2 half-open), remaining, epoch, votes.
pub const BREAKER: Script = script!("breaker", "91c621f67ecb8d0d8fc477c455c6a1b9a5e1a134", &[":br", ":br:v"]);
/// Permits of a bulkhead. Arguments: op (0 acquire, 1 release, 2 renew, 3 reap), pid, limit, ttl, n, held, fences. Replies:
/// granted, first fence, used, reaped, slots to keep; released, used; renewed, used, fences that are gone; reaped, used.
pub const SLOTS: Script =
    script!("slots", "06e50777df0a53e0ce559938f13e35c6499ab04c", &[":bh", ":bh:f", ":bh:w"]);
/// Latencies. Arguments: pid, length of a slice, quantile in millionths, then pairs of a bucket and a count. Reply: count,
/// bucket.
pub const DIGEST: Script = script!("digest", "c89f724274009877ab40f782358ce35ebacb860b", &[":dd:0", ":dd:1"]);
/// A cooldown. Arguments: `span row` in one text; a span of 0 only reads. Reply: remaining, epoch, row.
pub const COOLDOWN: Script = script!("cooldown", "a9d3a7df0a22961e1a91f5af9ae4f0e4899d8b90", &[":cd"]);

/// A set of limits. Arguments: `pid seen charge` in one text, then one text for each limit: `name permits per burst debt
/// want need back used`. Reply: wait, the place of the limit that frees last, processes, and for each limit granted and
/// forgiven. The last key is the process's own: its name follows.
pub const LIMITS: Script =
    script!("limits", "2853a1b069a349e79859ba0a6ce5d4395cbfe969", &[":ws", ":ws:p", ":ws:c:"]);

/// All scripts.
pub const SCRIPTS: [Script; 6] = [RATE, BREAKER, SLOTS, DIGEST, COOLDOWN, LIMITS];

/// If `at` is the first byte of a line that is kept, returns where its text begins, without the indent. A line is a
/// comment if it begins with two dashes; no other line of our scripts does.
const fn begin(file: &[u8], mut at: usize) -> Option<usize> {
    while file[at] == b' ' {
        at += 1;
    }
    if file[at] == b'-' && file[at + 1] == b'-' { None } else { Some(at) }
}

/// One past the end of the line that contains `at`.
const fn end(file: &[u8], mut at: usize) -> usize {
    while file[at] != b'\n' {
        at += 1;
    }
    at + 1
}

const fn shortened(file: &[u8]) -> usize {
    let (mut at, mut length) = (0, 0);
    while at < file.len() {
        let next = end(file, at);
        if let Some(from) = begin(file, at) {
            length += next - from;
        }
        at = next;
    }
    length
}

const fn shorten<const N: usize>(file: &[u8]) -> [u8; N] {
    let mut text = [0; N];
    let (mut at, mut length) = (0, 0);
    while at < file.len() {
        let next = end(file, at);
        if let Some(mut from) = begin(file, at) {
            while from < next {
                text[length] = file[from];
                length += 1;
                from += 1;
            }
        }
        at = next;
    }
    text
}

const fn text(bytes: &'static [u8]) -> &'static str {
    match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("a script is no text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    /// FIPS 180-4, 6.1.
    fn sha1(message: &[u8]) -> String {
        let mut bytes = message.to_vec();
        bytes.push(0x80);
        while bytes.len() % 64 != 56 {
            bytes.push(0);
        }
        bytes.extend((message.len() as u64 * 8).to_be_bytes());
        let mut hash: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
        for block in bytes.chunks(64) {
            let mut w: Vec<u32> =
                block.chunks(4).map(|four| u32::from_be_bytes(four.try_into().unwrap())).collect();
            for t in 16..80 {
                w.push((w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16]).rotate_left(1));
            }
            // a to e of the standard.
            let mut five = hash;
            for (t, word) in w.iter().enumerate() {
                let [_, b, c, d, _] = five;
                let (mixed, constant) = match t {
                    0..20 => ((b & c) | (!b & d), 0x5a82_7999),
                    20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                    40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                    _ => (b ^ c ^ d, 0xca62_c1d6_u32),
                };
                let next = [mixed, five[4], constant, *word]
                    .into_iter()
                    .fold(five[0].rotate_left(5), u32::wrapping_add);
                five = [next, five[0], b.rotate_left(30), c, d];
            }
            for (sum, part) in hash.iter_mut().zip(five) {
                *sum = sum.wrapping_add(part);
            }
        }
        hash.iter().fold(String::new(), |mut text, word| {
            let _ = write!(text, "{word:08x}");
            text
        })
    }

    #[test]
    fn each_sha_is_that_of_its_source() {
        assert_eq!(sha1(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d", "FIPS 180, example 1");
        for script in SCRIPTS {
            assert_eq!(script.sha, sha1(script.source.as_bytes()), "{} has changed", script.name);
        }
    }

    #[test]
    fn what_is_sent_is_the_file_without_comments_and_indents() {
        for (script, file) in SCRIPTS.iter().zip([
            include_str!("rate.lua"),
            include_str!("breaker.lua"),
            include_str!("slots.lua"),
            include_str!("digest.lua"),
            include_str!("cooldown.lua"),
            include_str!("limits.lua"),
        ]) {
            let kept: String = file
                .split_inclusive('\n')
                .map(str::trim_start)
                .filter(|line| !line.starts_with("--"))
                .collect();
            assert_eq!(script.source, kept);
            assert!(script.source.starts_with(PROLOGUE), "{}", script.name);
            assert_eq!(script.source.matches("TIME").count(), 1, "{}: one clock, read once", script.name);
            assert!(!script.source.contains("--"), "{}: no comment behind a line", script.name);
        }
    }
}
