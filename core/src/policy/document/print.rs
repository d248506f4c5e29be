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
    let mut policies = serde_json::Map::new();
    for policy in document.policies() {
        let mut tree = Json::Object(serde_json::Map::new());
        for (key, value) in values(policy) {
            // Indexing by a key that is not there puts it in.
            let place = key.path.split('.').fold(&mut tree, |table, name| &mut table[name]);
            *place = value;
        }
        policies.insert(policy.name().into(), tree);
    }
    let document = Json::Object([("policy".into(), Json::Object(policies))].into_iter().collect());
    format!("{document:#}\n")
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
