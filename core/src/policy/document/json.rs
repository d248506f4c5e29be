//! Reads JSON into the tree. Objects are read key by key, so that a repeated key is detected, and values keep their
//! spelling for errors.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Item, Lines, Node};
use crate::policy::PolicyError;
use crate::policy::check::clipped;

/// Depth of nested tables: more than any key needs. Deeper values are not read.
const DEEPEST: u32 = 8;

pub(super) fn tree(text: &str) -> Result<Item<'_>, Vec<PolicyError>> {
    let root: &RawValue = serde_json::from_str(text).map_err(|error| vec![unreadable(text, &error)])?;
    Source { text, lines: Lines::new(text) }
        .item(root, DEEPEST)
        .map_err(|error| vec![unreadable(text, &error)])
}

fn unreadable(text: &str, error: &serde_json::Error) -> PolicyError {
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default().trim();
    // The error's own message repeats the place.
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let rule = format!("is not JSON: {message} (column {})", error.column());
    PolicyError {
        line: Some(error.line().max(1) as u32),
        ..PolicyError::new("document", if line.is_empty() { "(end)".into() } else { clipped(line) }, rule)
    }
}

struct Source<'t> {
    text: &'t str,
    lines: Lines,
}

impl<'t> Source<'t> {
    fn item(&self, raw: &'t RawValue, deeper: u32) -> Result<Item<'t>, serde_json::Error> {
        let written = raw.get();
        // A raw value is a slice of the text, so the difference of their addresses is its position.
        let place = (written.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let line = self.lines.at(place);
        let node = match written.as_bytes().first() {
            Some(b'{' | b'[') if deeper == 0 => Node::Other,
            Some(b'{') => {
                let entries = serde_json::Deserializer::from_str(written).deserialize_map(Entries)?;
                let below = |(key, raw)| Ok((key, self.item(raw, deeper - 1)?));
                let entries = entries.into_iter().map(below).collect::<Result<_, serde_json::Error>>()?;
                return Ok(Item { node: Node::Table(entries), written: "(a table)".into(), line });
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(written)?;
                Node::List(items.into_iter().map(|raw| self.item(raw, deeper - 1)).collect::<Result<_, _>>()?)
            }
            Some(b'"') => Node::Text(Cow::Owned(serde_json::from_str(written)?)),
            Some(b't' | b'f') => Node::Flag(serde_json::from_str(written)?),
            Some(b'n') | None => Node::Other,
            // A number too large to parse is too large for every key.
            Some(_) => Node::Number(written.parse().unwrap_or(f64::INFINITY)),
        };
        Ok(Item { node, written: written.into(), line })
    }
}

/// The keys of an object and their values, in the order of the text.
struct Entries;

impl<'t> Visitor<'t> for Entries {
    type Value = Vec<(Cow<'t, str>, &'t RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
            entries.push((key.into(), value));
        }
        Ok(entries)
    }
}
