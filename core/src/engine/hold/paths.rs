//! The paths of calls, as hashes: a path may hold a secret (a bot's token), and saved states and journals contain
//! what is stored of it.

use crate::action::PathId;
use crate::hash;
use std::collections::BTreeMap as Map;

/// Prefixes have up to this many segments; a prefix of n segments is held from its (5 − n)th throttle.
const DEEPEST: usize = 4;
/// The most paths that an engine can name at once.
const MOST_TARGETS: usize = u16::MAX as usize - 1;

/// Key of a hold: the number of segments of a prefix, or 0 for a whole path; and its hash.
pub type Key = (u8, u128);

/// A path as holds compare it: hashes of the path and of its prefixes of up to 4 segments, and whether it is longer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathHash {
    whole: u128,
    prefixes: Vec<u128>,
    longer: bool,
}

impl PathHash {
    /// The hashes of a path without query and fragment; empty segments are ignored.
    pub fn of(path: &str) -> Self {
        let end = path.find(['?', '#']).unwrap_or(path.len());
        let (mut normal, mut prefixes, mut longer) = (String::new(), Vec::new(), false);
        for segment in path[..end].split('/').filter(|segment| !segment.is_empty()) {
            normal.push('/');
            normal.push_str(segment);
            longer = prefixes.len() == DEEPEST;
            if !longer {
                prefixes.push(hash::of(normal.as_bytes()));
            }
        }
        let whole = if longer || prefixes.is_empty() {
            hash::of(normal.as_bytes())
        } else {
            prefixes[prefixes.len() - 1]
        };
        Self { whole, prefixes, longer }
    }

    /// The keys that a path matches, longest first: itself, then its prefixes of 4 segments down to 1; each with the
    /// number of throttles from which it is held. A throttle counts for prefixes that are `shorter` than the path. A
    /// lookup also tries the whole path as a prefix of others.
    pub fn keys(&self, shorter: bool) -> impl Iterator<Item = (Key, u32)> + '_ {
        let count = self.prefixes.len() - usize::from(shorter && !self.longer && !self.prefixes.is_empty());
        let prefixes = (1..=count).rev();
        let whole = std::iter::once(((0, self.whole), 1));
        whole.chain(prefixes.map(|n| ((n as u8, self.prefixes[n - 1]), (DEEPEST + 1 - n) as u32)))
    }

    /// Text for a journal that differs from any path: `#`, then the hashes of the prefixes and, if there are more
    /// segments, that of the whole.
    pub fn label(&self) -> String {
        let whole = (self.longer || self.prefixes.is_empty()).then_some(&self.whole);
        self.prefixes.iter().chain(whole).fold(format!("#{}", self.prefixes.len()), |mut text, hash| {
            text.push('.');
            text.push_str(&written(*hash));
            text
        })
    }

    /// Parses a label, or hashes a path.
    pub fn of_label(text: &str) -> Self {
        Self::read(text).unwrap_or_else(|| Self::of(text))
    }

    fn read(label: &str) -> Option<Self> {
        let mut parts = label.strip_prefix('#')?.split('.');
        let count = parts.next()?.parse().ok().filter(|count| *count <= DEEPEST)?;
        let mut hashes = parts.map(read).collect::<Option<Vec<_>>>()?;
        let longer = count == DEEPEST && hashes.len() == DEEPEST + 1;
        if hashes.len() != count + usize::from(longer || count == 0) {
            return None;
        }
        let whole = *hashes.last()?;
        hashes.truncate(count);
        Some(Self { whole, prefixes: hashes, longer })
    }
}

/// A hash in hexadecimal digits.
fn written(hash: u128) -> String {
    format!("{hash:032x}")
}

fn read(text: &str) -> Option<u128> {
    let digits =
        text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase());
    digits.then(|| u128::from_str_radix(text, 16).ok())?
}

/// Text of a key for a saved state: the number of segments, and the hash.
pub fn key_text((segments, hash): Key) -> String {
    format!("{segments}{}", written(hash))
}

/// Parses the key of a saved state. Before paths were hashed, a key was `=` and a path, or a number of segments and a
/// prefix.
pub fn key_of(text: &str) -> Option<Key> {
    if let Some(path) = text.strip_prefix('=').filter(|path| path.starts_with('/')) {
        return Some((0, hash::of(path.trim_end_matches('/').as_bytes())));
    }
    if text.get(1..)?.starts_with('/') {
        let segments = text.bytes().next()?.wrapping_sub(b'0');
        return (1..=DEEPEST as u8).contains(&segments).then(|| (segments, hash::of(&text.as_bytes()[1..])));
    }
    let segments = text.get(..1)?.parse().ok().filter(|segments| *segments <= DEEPEST as u8)?;
    Some((segments, read(&text[1..])?))
}

/// The paths of live calls, by number.
#[derive(Debug)]
pub struct Paths {
    entries: Vec<Target>,
    by_path: Map<u128, u16>,
    /// The ends of the list of paths without calls, least recently used first.
    oldest: u32,
    newest: u32,
    /// How often a path could not be named.
    pub overflows: u64,
}

#[derive(Debug)]
struct Target {
    path: PathHash,
    generation: u64,
    calls: u32,
    before: u32,
    after: u32,
}

/// Bits of a path's index in its id; the rest is its generation.
const PLACE: u32 = 16;

/// No entry: the end of the list.
const NONE: u32 = u32::MAX;

impl Default for Paths {
    fn default() -> Self {
        Self { entries: Vec::new(), by_path: Map::new(), oldest: NONE, newest: NONE, overflows: 0 }
    }
}

impl Paths {
    /// The name of a path. A new path replaces the least recently used path without calls; if there is none, calls to
    /// the new path are not held.
    pub fn intern(&mut self, path: PathHash) -> PathId {
        if let Some(place) = self.by_path.get(&path.whole) {
            return self.id(*place);
        }
        let whole = path.whole;
        let target = |generation| Target { path, generation, calls: 0, before: NONE, after: NONE };
        let place = if self.entries.len() < MOST_TARGETS {
            self.entries.push(target(1));
            self.entries.len() as u32 - 1
        } else if self.oldest == NONE {
            self.overflows += 1;
            return PathId::NONE;
        } else {
            let place = self.oldest;
            self.unlink(place);
            let entry = &mut self.entries[place as usize];
            self.by_path.remove(&entry.path.whole);
            *entry = target(entry.generation + 1);
            place
        };
        self.link(place);
        self.by_path.insert(whole, place as u16);
        self.id(place as u16)
    }

    fn id(&self, place: u16) -> PathId {
        PathId::from_word(self.entries[usize::from(place)].generation << PLACE | u64::from(place))
    }

    fn link(&mut self, place: u32) {
        let newest = core::mem::replace(&mut self.newest, place);
        let entry = &mut self.entries[place as usize];
        (entry.before, entry.after) = (newest, NONE);
        match self.entries.get_mut(newest as usize) {
            Some(newest) => newest.after = place,
            None => self.oldest = place,
        }
    }

    fn unlink(&mut self, place: u32) {
        let Target { before, after, .. } = self.entries[place as usize];
        match self.entries.get_mut(before as usize) {
            Some(before) => before.after = after,
            None => self.oldest = after,
        }
        match self.entries.get_mut(after as usize) {
            Some(after) => after.before = before,
            None => self.newest = before,
        }
    }

    /// The number stored in a call: the index plus one; 0 for a stale id.
    pub fn enter(&mut self, id: PathId) -> u16 {
        let place = (id.to_word() & ((1 << PLACE) - 1)) as u16;
        match self.entries.get_mut(usize::from(place)) {
            Some(entry) if entry.generation == id.to_word() >> PLACE => {
                entry.calls += 1;
                if entry.calls == 1 {
                    self.unlink(place.into());
                }
                place + 1
            }
            _ => 0,
        }
    }

    pub fn leave(&mut self, number: u16) {
        let place = u32::from(number).wrapping_sub(1);
        let Some(entry) = self.entries.get_mut(place as usize).filter(|entry| entry.calls > 0) else {
            return;
        };
        entry.calls -= 1;
        if entry.calls == 0 {
            self.link(place);
        }
    }

    pub fn path(&self, number: u16) -> Option<&PathHash> {
        let entry = self.entries.get(usize::from(number).checked_sub(1)?)?;
        Some(&entry.path)
    }

    /// After a fork: removes all calls from the paths.
    pub fn forget_calls(&mut self) {
        for place in 0..self.entries.len() as u32 {
            if core::mem::take(&mut self.entries[place as usize].calls) > 0 {
                self.link(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_counted_under_itself_and_its_prefixes() {
        let of = |segments: u8, path: &str| (segments, hash::of(path.as_bytes()));
        let path = PathHash::of("/v1//users/7/mail/3/body?x=1#y");
        let expected = [
            (of(0, "/v1/users/7/mail/3/body"), 1),
            (of(4, "/v1/users/7/mail"), 1),
            (of(3, "/v1/users/7"), 2),
            (of(2, "/v1/users"), 3),
            (of(1, "/v1"), 4),
        ];
        assert_eq!(path.keys(true).collect::<Vec<_>>(), expected);
        assert_eq!(PathHash::of("").keys(false).count(), 1);
        assert_eq!(
            PathHash::of("/a").keys(true).count(),
            1,
            "a throttle counts for what is shorter than its path"
        );
        let looked: Vec<_> = PathHash::of("/a/b").keys(false).map(|(key, _)| key).collect();
        assert_eq!(
            looked,
            [of(0, "/a/b"), of(2, "/a/b"), of(1, "/a")],
            "a path lies under a hold of all that begins like it"
        );
        let long = "/x".repeat(2_000);
        assert_ne!(
            PathHash::of(&format!("{long}/a")),
            PathHash::of(&format!("{long}/b")),
            "long paths are not cut"
        );
    }

    #[test]
    fn labels_and_keys_are_read_back_and_hold_no_path() {
        for path in ["", "/", "/a", "/a/b", "/a/b/c/d", "/a/b/c/d/e", "/a/b/c/d/e/f?token=secret"] {
            let hash = PathHash::of(path);
            assert_eq!(PathHash::of_label(&hash.label()), hash, "{path}");
            assert!(
                hash.label().bytes().all(|byte| b"#.0123456789abcdef".contains(&byte)),
                "{}",
                hash.label()
            );
            for (key, _) in hash.keys(false) {
                assert_eq!(key_of(&key_text(key)), Some(key));
            }
        }
        for no_label in ["#", "#5", "#1.ab", "#1", "#2.00000000000000000000000000000001"] {
            assert_eq!(PathHash::of_label(no_label), PathHash::of(no_label), "{no_label}");
        }
        for no_key in ["", "9", "=", "=a", "5/a/b/c/d/e", "ä/a", "0aa"] {
            assert_eq!(key_of(no_key), None, "{no_key}");
        }
        let before = ["=/", "=/a/b", "2/a/b", "1/a"].map(key_of);
        let paths = ["", "/a/b"].map(PathHash::of);
        let now: Vec<_> = paths.iter().flat_map(|path| path.keys(false)).map(|(key, _)| Some(key)).collect();
        assert_eq!(before[..], now);
    }

    #[test]
    #[cfg_attr(miri, ignore = "65,000 names: a quarter of an hour under an interpreter")]
    fn names_are_bounded_and_never_confused() {
        let path = |n: usize| PathHash::of(&format!("/{n}"));
        let mut paths = Paths::default();
        let first = paths.intern(path(0));
        let number = paths.enter(first);
        assert_eq!(paths.path(number), Some(&path(0)));
        for n in 1..=MOST_TARGETS + 10 {
            paths.intern(path(n));
        }
        assert_eq!(paths.entries.len(), MOST_TARGETS);
        assert_eq!(paths.path(number), Some(&path(0)), "one that a call goes to stays");
        assert_eq!(paths.enter(PathId::from_word(1 << PLACE | 1)), 0, "its place is another's now");
        assert_eq!(paths.enter(PathId::from_word(u64::MAX)), 0);
        // If all but one are in use, that one is replaced, wherever it is.
        for n in 0..MOST_TARGETS as u64 {
            let generation = paths.entries[n as usize].generation;
            paths.enter(PathId::from_word(generation << PLACE | n));
        }
        assert_eq!(paths.intern(path(999_999)), PathId::NONE);
        paths.leave(5_000);
        assert_eq!(paths.intern(path(999_999)).to_word() & 0xffff, 4_999);
        assert_eq!((paths.intern(path(999_998)).to_word() & 0xffff, paths.overflows), (4_999, 1));
    }
}
