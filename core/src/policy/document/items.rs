//! Items of a document: their mistakes, their names in paths, and their values as those of pairs.

use super::{Item, Node};
use crate::policy::check::{LONGEST, clipped, quoted};
use crate::policy::suggest::join;
use crate::policy::{Domain, Key, PolicyError, Value, span};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Sorts errors in the order of the text. One function, because each sort in the source adds its code to the wheel.
pub(super) fn by_line(errors: &mut [PolicyError]) {
    errors.sort_by_key(|error| error.line);
}

/// The entries of a table; reports a second entry of the same name as a mistake.
pub(super) fn first_of_each<'t, 'a>(
    entries: &'t [(Cow<'a, str>, Item<'a>)],
    path: &str,
    errors: &mut Vec<PolicyError>,
) -> Vec<(&'t str, &'t Item<'a>)> {
    let mut seen = BTreeSet::new();
    let mut first = Vec::new();
    for (key, item) in entries {
        if seen.insert(&**key) {
            first.push((&**key, item));
        } else {
            errors.push(wrong(&join(path, &shown_key(key)), item, "is given more than once"));
        }
    }
    first
}

/// A mistake at an item.
pub(super) fn wrong(key: &str, item: &Item<'_>, rule: &str) -> PolicyError {
    PolicyError { line: Some(item.line), ..PolicyError::new(key, clipped(&item.written), rule) }
}

/// A name as written in a path, quoted if needed.
pub(super) fn shown_key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_');
    if bare && key.len() <= LONGEST { key.into() } else { quoted(key) }
}

/// Converts a document's value into a pair's value: in a pair a span is a number of microseconds, and a flag is 0
/// or 1. Returns the broken rule if the document's form is wrong.
pub(super) fn value<'t>(key: &Key, node: &'t Node<'_>) -> Result<Value<'t>, String> {
    match (key.domain, node) {
        (Domain::Span { none: true, .. }, Node::Text(text)) if text == "none" => Ok(Value::Text("none")),
        (Domain::Span { .. }, Node::Text(text)) => match span::parse(text) {
            Ok(micros) => Ok(Value::Number(micros as f64)),
            Err(mistake) => Err(mistake.rule().into()),
        },
        (Domain::Span { .. }, Node::Number(_)) => Err(span::NoSpan::Bare.rule().into()),
        (Domain::Flag, Node::Flag(on)) => Ok(Value::Number(f64::from(u8::from(*on)))),
        (Domain::Flag, _) | (_, Node::Table(_) | Node::List(_) | Node::Flag(_) | Node::Other) => {
            Err(key.rule())
        }
        (_, Node::Number(number)) => Ok(Value::Number(*number)),
        (_, Node::Text(text)) => Ok(Value::Text(text)),
    }
}
