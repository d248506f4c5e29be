//! Reads TOML into the tree.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use super::items::by_line;
use super::{Item, Lines, Node};
use crate::policy::PolicyError;
use crate::policy::check::clipped;

const DUPLICATE: &str = "duplicate key";

pub(super) fn tree(text: &str) -> Result<Item<'_>, Vec<PolicyError>> {
    let (root, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(Source { text, lines: Lines::new(text), again: None }.table(root.into_inner(), 1));
    }
    if errors.iter().all(|error| error.message() == DUPLICATE) {
        // The parser does not say to which table a duplicate key belongs. With unique names all duplicates are in its
        // tree, and are reported with their full keys, together with all other mistakes.
        let (renamed, again) = renamed(text, &errors);
        let (root, more) = DeTable::parse_recoverable(&renamed);
        if more.is_empty() {
            return Ok(Source { text: &renamed, lines: Lines::new(&renamed), again: Some(&again) }
                .table(root.into_inner(), 1)
                .into_owned());
        }
    }
    let mut errors: Vec<_> = errors.iter().map(|error| unreadable(text, error)).collect();
    by_line(&mut errors);
    Err(errors)
}

/// Error for a text that does not parse: the place, and the text there.
fn unreadable(text: &str, error: &Error) -> PolicyError {
    let span = error.span().unwrap_or_default();
    let end = span.start.min(text.len());
    let start = (0..=end).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0); // `floor_char_boundary` is newer than our MSRV
    let before = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[before..].lines().next().unwrap_or_default().trim();
    let column = text[before..start].chars().count() + 1;
    let rule = format!("is not TOML: {} (column {column})", error.message());
    PolicyError {
        line: Some(Lines::new(text).at(start)),
        ..PolicyError::new("document", if line.is_empty() { "(end)".into() } else { clipped(line) }, rule)
    }
}

/// The duplicate keys of a text, as written. Each was renamed to the mark and its number.
struct Again<'t> {
    mark: String,
    keys: Vec<&'t str>,
}

/// The text with each duplicate key renamed uniquely.
fn renamed<'t>(text: &'t str, errors: &[Error]) -> (String, Again<'t>) {
    let mut mark = String::from("again-");
    while text.contains(&mark) {
        mark.insert(0, '-');
    }
    let mut spans: Vec<_> = errors.iter().filter_map(Error::span).collect();
    spans.sort_by_key(|span| span.start);
    spans.dedup();
    let (mut renamed, mut keys, mut done) = (String::new(), Vec::new(), 0);
    for span in spans {
        let Some((before, key)) = text.get(done..span.start).zip(text.get(span.clone())) else { continue };
        renamed += before;
        renamed += &mark;
        renamed += &keys.len().to_string();
        keys.push(key);
        done = span.end;
    }
    renamed += &text[done..];
    (renamed, Again { mark, keys })
}

struct Source<'t> {
    text: &'t str,
    lines: Lines,
    again: Option<&'t Again<'t>>,
}

impl<'t> Source<'t> {
    fn table(&self, table: DeTable<'t>, line: u32) -> Item<'t> {
        let mut entries: Vec<_> = table.into_iter().collect();
        // The parser sorts by name; of two keys with the same name the first in the text counts.
        entries.sort_by_key(|(key, _)| key.span().start);
        let entries = entries.into_iter().map(|(key, value)| {
            let line = self.lines.at(key.span().start);
            (self.name(key.into_inner()), self.item(value, Some(line)))
        });
        Item { node: Node::Table(entries.collect()), written: "(a table)".into(), line }
    }

    /// A value has the line of its key (`key_line`); the items of a list have lines of their own.
    fn item(&self, value: Spanned<DeValue<'t>>, key_line: Option<u32>) -> Item<'t> {
        let span = value.span();
        let line = key_line.unwrap_or_else(|| self.lines.at(span.start));
        let written = self.text.get(span).unwrap_or_default();
        let node = match value.into_inner() {
            DeValue::Table(table) => return self.table(table, line),
            DeValue::Array(items) => {
                Node::List(items.into_iter().map(|item| self.item(item, None)).collect())
            }
            DeValue::String(text) => Node::Text(text),
            DeValue::Integer(number) => Node::Number(match number.radix() {
                10 => number.as_str().parse().unwrap_or(f64::NAN),
                radix => u64::from_str_radix(number.as_str(), radix).map_or(f64::INFINITY, |n| n as f64),
            }),
            DeValue::Float(number) => Node::Number(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(on) => Node::Flag(on),
            DeValue::Datetime(_) => Node::Other,
        };
        Item { node, written: written.into(), line }
    }

    /// A key, under its original name in the text.
    fn name(&self, key: Cow<'t, str>) -> Cow<'t, str> {
        let written = self.again.and_then(|again| {
            let number: usize = key.strip_prefix(&again.mark)?.parse().ok()?;
            again.keys.get(number).copied()
        });
        let Some(written) = written else { return key };
        // Remove the quotes of a quoted key as the parser would.
        let pair = format!("{written}=0");
        let parsed = DeTable::parse(&pair).ok().and_then(|table| table.into_inner().into_iter().next());
        parsed.map_or(written.to_owned(), |(key, _)| key.into_inner().into_owned()).into()
    }
}

impl Item<'_> {
    fn into_owned(self) -> Item<'static> {
        let node = match self.node {
            Node::Table(entries) => Node::Table(
                entries
                    .into_iter()
                    .map(|(key, item)| (Cow::Owned(key.into_owned()), item.into_owned()))
                    .collect(),
            ),
            Node::List(items) => Node::List(items.into_iter().map(Item::into_owned).collect()),
            Node::Text(text) => Node::Text(Cow::Owned(text.into_owned())),
            Node::Number(number) => Node::Number(number),
            Node::Flag(on) => Node::Flag(on),
            Node::Other => Node::Other,
        };
        Item { node, written: Cow::Owned(self.written.into_owned()), line: self.line }
    }
}
