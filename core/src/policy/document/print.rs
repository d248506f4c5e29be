//! Prints a document: the given pairs of each policy, in a form that reads back as the same document.

use std::fmt::Write;

use serde_json::Value as Json;

use super::{Document, limits};
use crate::policy::suggest::join;
use crate::policy::{Domain, Group, Key, Policy, Pool, TABLE, Value};
use crate::time::Duration;

pub(super) fn toml(document: &Document) -> String {
    let mut text = String::new();
    let pools = components(document).map(|pool| ("pool", pool.name(), of_pool(pool)));
    let groups = groups(document).map(|(name, group)| ("targets", name, of_group(group)));
    let policies = document.policies().map(|policy| ("policy", policy.name(), of_policy(policy)));
    for (section, name, values) in pools.chain(groups).chain(policies) {
        // A JSON string of a name without control characters is a TOML string too.
        let quoted = Json::from(name).to_string();
        let bare = name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_');
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}[{section}.{}]", if bare { name } else { &quoted });
        for (path, value) in values {
            let _ = writeln!(text, "{path} = {}", inline(&value));
        }
    }
    text
}

/// A value as TOML writes it on one line; only members of a group are tables.
fn inline(value: &Json) -> String {
    match value {
        Json::Object(table) => {
            let entries = table.iter().map(|(key, value)| format!("{key} = {}", inline(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Json::Array(items) if items.iter().any(Json::is_object) => {
            let items = items.iter().map(|item| format!("\n    {},", inline(item)));
            format!("[{}\n]", items.collect::<String>())
        }
        _ => value.to_string(),
    }
}

fn components(document: &Document) -> impl Iterator<Item = &Pool> {
    document.pools().filter(|pool| pool.group().is_none())
}

fn groups(document: &Document) -> impl Iterator<Item = (&str, &Group)> {
    document.pools().filter_map(|pool| Some((pool.name(), pool.group()?)))
}

pub(super) fn json(document: &Document) -> String {
    let pools: Vec<_> = components(document).map(|pool| (pool.name(), object(&of_pool(pool), 4))).collect();
    let groups: Vec<_> = groups(document).map(|(name, group)| (name, object(&of_group(group), 4))).collect();
    let policies = document.policies().map(|policy| (policy.name(), object(&of_policy(policy), 4)));
    let policies = ("policy", braces(policies, 2));
    let pools = (!pools.is_empty()).then(|| ("pool", braces(pools.into_iter(), 2)));
    let groups = (!groups.is_empty()).then(|| ("targets", braces(groups.into_iter(), 2)));
    braces(pools.into_iter().chain([policies]).chain(groups), 0) + "\n"
}

/// Keys and values nested by their dots, in the given order. Written by hand, because the order of a
/// `serde_json::Map` depends on a feature that any crate of a build can enable.
fn object(values: &[(String, Json)], indent: usize) -> String {
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
                inner.map(|(path, value)| (path[table.len() + 1..].to_owned(), value.clone())).collect();
            entries.push((table, object(&inner, indent + 2)));
        }
    }
    braces(entries.into_iter(), indent)
}

/// An object of values that are already text, one on a line.
fn braces<'a>(entries: impl Iterator<Item = (&'a str, String)>, indent: usize) -> String {
    let lines: Vec<_> =
        entries.map(|(key, value)| format!("{:indent$}  {}: {value}", "", Json::from(key))).collect();
    if lines.is_empty() { "{}".into() } else { format!("{{\n{}\n{:indent$}}}", lines.join(",\n"), "") }
}

fn of_policy(policy: &Policy) -> Vec<(String, Json)> {
    values(&policy.to_pairs())
}

/// A pool's keys, in a table named by its kind.
fn of_pool(pool: &Pool) -> Vec<(String, Json)> {
    let kind = pool.kind();
    let own = |(path, value): (String, _)| (join(kind.name(), kind.own(&path)), value);
    values(&pool.policy().to_pairs()).into_iter().map(own).collect()
}

/// The keys of a group. Its members are tables with dotted keys, which are the same in both formats' trees.
fn of_group(group: &Group) -> Vec<(String, Json)> {
    let members = group.members.iter().map(|member| {
        let mut keys = vec![("name".to_owned(), Json::from(member.name.as_str()))];
        if member.share != 1 {
            keys.push(("share".to_owned(), member.share.into()));
        }
        if !member.only_after.is_empty() {
            let kinds = member.only_after.iter().map(|kind| Json::from(kind.as_str()));
            keys.push(("only_after".to_owned(), kinds.collect()));
        }
        let components: Vec<_> = member.pairs().collect();
        keys.extend(values(&components));
        nested(keys)
    });
    let mut keys = vec![("pick".to_owned(), group.pick.name().into())];
    keys.extend(group.queue_pairs().map(|(key, value)| (key.path.to_owned(), plain(&key, value))));
    keys.push(("members".to_owned(), members.collect()));
    keys
}

/// Keys with dots as tables within tables.
fn nested(mut keys: Vec<(String, Json)>) -> Json {
    // In the order of their names, with and without the feature of `serde_json` that keeps another order.
    keys.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut tables = serde_json::Map::new();
    for (path, value) in keys {
        match path.split_once('.') {
            Some((table, key)) => {
                let inner = tables.entry(table).or_insert_with(|| Json::Object(serde_json::Map::new()));
                if let Json::Object(inner) = inner {
                    inner.insert(key.to_owned(), value);
                }
            }
            None => drop(tables.insert(path, value)),
        }
    }
    Json::Object(tables)
}

/// The given keys, each with its value in the spelling of both formats.
fn values(pairs: &[(&'static str, Value<'_>)]) -> Vec<(String, Json)> {
    let mut all = Vec::new();
    for key in TABLE {
        let mut values =
            pairs.iter().filter(|(path, _)| *path == key.path).map(|(_, value)| *value).peekable();
        if values.peek().is_none() {
            continue;
        }
        match key.domain {
            Domain::Kinds => all.extend(values.filter_map(|value| {
                let Value::Text(text) = value else { return None };
                let (name, class) = text.split_once('=')?;
                Some((join(key.path, name), class.into()))
            })),
            Domain::Limits => all.extend(values.flat_map(|value| limits::limit_values(key.path, value))),
            domain if domain.is_list() => {
                all.push((key.path.to_owned(), values.map(|value| plain(key, value)).collect()));
            }
            _ => all.extend(values.map(|value| (key.path.to_owned(), plain(key, value)))),
        }
    }
    all
}

fn plain(key: &Key, value: Value<'_>) -> Json {
    match (key.domain, value) {
        (_, Value::Text(text)) => text.into(),
        (Domain::Span { .. }, Value::Number(n)) => Duration::from_micros(n as u64).to_string().into(),
        (Domain::Flag, Value::Number(n)) => (n > 0.0).into(),
        // An integer is written without a fraction: 2, not 2.0.
        (_, Value::Number(n)) if n.fract() == 0.0 && n.abs() < 1e15 => (n as i64).into(),
        (_, Value::Number(n)) => n.into(),
    }
}
