//! The names under which the state of keys is stored.

use crate::{hash, text};
use std::borrow::Cow;

/// Keys longer than this, in bytes, are hashed: a key is a name, not a payload.
const LONGEST_KEY: usize = 512;

/// The name that a key's state is stored under, never the overflow route's own. For a key that is too long it is the
/// beginning and the hash of the whole, so that two long keys with the same beginning do not share state.
pub(super) fn name_of(key: &str) -> Cow<'_, str> {
    let key = key.trim_start_matches('\u{0}');
    if key.len() <= LONGEST_KEY {
        return key.into();
    }
    let hash = hash::hex(key.as_bytes());
    let mut end = LONGEST_KEY - 1 - hash.len();
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    text::of(&[&key[..end], "~", &hash]).into()
}
