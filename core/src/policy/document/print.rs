//! The tree to text: what each policy was given, as a document that reads back as the same.

use std::fmt::Write;

use serde_json::Value as Json;

use super::Document;
use crate::policy::{Domain, Key, Policy, TABLE, Value};
use crate::time::Duration;

pub(super) fn toml(document: &Document) -> String {
    let mut text = String::new();
    for policy in document.policies() {
        // A JSON string of a name without control characters is a TOML string too.
        let name = Json::from(policy.name()).to_string();
        let bare = policy.name().bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_');
        let gap = if text.is_empty() { "" } else { "\n" };
        let name = if bare { policy.name() } else { &name };
        let _ = writeln!(text, "{gap}[policy.{name}]");
        for (key, value) in values(policy) {
            let _ = writeln!(text, "{} = {value}", key.path);
        }
    }
    text
}

pub(super) fn json(document: &Document) -> String {
    let policies = document.policies().map(|policy| {
        let values: Vec<_> = values(policy).into_iter().map(|(key, value)| (key.path, value)).collect();
        (policy.name(), object(&values, 4))
    });
    let policies = braces(policies, 2);
    braces([("policy", policies)].into_iter(), 0) + "\n"
}

/// Keys and values nested by their dots, in the order they come. By hand, because the order of a `serde_json::Map`
/// depends on a feature that any crate of a build can switch on.
fn object(values: &[(&str, Json)], indent: usize) -> String {
    let mut entries: Vec<(&str, String)> = Vec::new();
    for (path, value) in values {
        let Some((table, _)) = path.split_once('.') else {
            entries.push((path, value.to_string()));
            continue;
        };
        if entries.iter().all(|(name, _)| *name != table) {
            let below = |path: &'_ str| path.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'));
            let inner = values.iter().filter(|(path, _)| below(path));
            let inner: Vec<_> =
                inner.map(|(path, value)| (&path[table.len() + 1..], value.clone())).collect();
            entries.push((table, object(&inner, indent + 2)));
        }
    }
    braces(entries.into_iter(), indent)
}

/// An object of values that are text already, one a line.
fn braces<'a>(entries: impl Iterator<Item = (&'a str, String)>, indent: usize) -> String {
    let lines: Vec<_> =
        entries.map(|(key, value)| format!("{:indent$}  {}: {value}", "", Json::from(key))).collect();
    if lines.is_empty() { "{}".into() } else { format!("{{\n{}\n{:indent$}}}", lines.join(",\n"), "") }
}

/// The keys that a policy was given, each with its value as both forms write it.
fn values(policy: &Policy) -> Vec<(&'static Key, Json)> {
    let pairs = policy.to_pairs();
    let given = |key: &&Key| pairs.iter().any(|(path, _)| *path == key.path);
    let value = |key: &'static Key| {
        let mut values =
            pairs.iter().filter(|(path, _)| *path == key.path).map(|(_, value)| plain(key, *value));
        let value = if key.domain.is_list() { values.collect() } else { values.next().unwrap_or_default() };
        (key, value)
    };
    TABLE.iter().filter(given).map(value).collect()
}

fn plain(key: &Key, value: Value<'_>) -> Json {
    match (key.domain, value) {
        (_, Value::Text(text)) => text.into(),
        (Domain::Span { .. }, Value::Number(n)) => Duration::from_micros(n as u64).to_string().into(),
        (Domain::Flag, Value::Number(n)) => (n > 0.0).into(),
        // A whole number is written as one: 2, not 2.0.
        (_, Value::Number(n)) if n.fract() == 0.0 && n.abs() < 1e15 => (n as i64).into(),
        (_, Value::Number(n)) => n.into(),
    }
}
