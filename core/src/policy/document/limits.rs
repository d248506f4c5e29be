//! The limits of a set in a document: `[policy.x.rate_limit.limits.tpm]`, or the same in a pool; and the shares of keys in
//! its queue.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::{Item, Node};
use crate::policy::Value;
use crate::policy::check::quoted;
use crate::policy::domain::is_short_name;
use crate::policy::suggest::join;

type Entries<'a> = Vec<(Cow<'a, str>, Item<'a>)>;

/// Turns each table of limits or shares into a list of texts, as pairs have them. Any other value becomes invalid.
pub(super) fn list_limits(root: &mut Item<'_>) {
    let Node::Table(sections) = &mut root.node else { return };
    for (_, section) in sections.iter_mut().filter(|(name, _)| name == "policy" || name == "pool") {
        let Node::Table(named) = &mut section.node else { continue };
        for keys in named.iter_mut().filter_map(|(_, it)| entries_of(it)) {
            for rate in
                keys.iter_mut().filter(|(name, _)| name == "rate_limit").filter_map(|(_, it)| entries_of(it))
            {
                for (name, list) in rate.iter_mut().filter(|(name, _)| name == "limits" || name == "shares") {
                    if name == "shares" && matches!(list.node, Node::List(_)) {
                        continue;
                    }
                    if let Node::Table(entries) = std::mem::replace(&mut list.node, Node::Other) {
                        let text = if name == "limits" { limit_text } else { share_text };
                        list.node = Node::List(entries.into_iter().map(text).collect());
                    }
                }
            }
        }
    }
}

fn entries_of<'t, 'a>(item: &'t mut Item<'a>) -> Option<&'t mut Entries<'a>> {
    if let Node::Table(entries) = &mut item.node { Some(entries) } else { None }
}

fn limit_text<'a>((name, item): (Cow<'a, str>, Item<'a>)) -> Item<'a> {
    let mut shown = Vec::new();
    let node = match item.node {
        Node::Table(entries) => {
            let mut text = format!("{name}:");
            for (key, value) in entries {
                shown.push(format!("{key} = {}", value.written));
                let value = match value.node {
                    Node::Text(word) if !word.is_empty() && !word.contains(char::is_whitespace) => {
                        word.into_owned()
                    }
                    // A number beyond the exact integers is no whole number that a limit takes.
                    Node::Number(n) if n.fract() == 0.0 && (0.0..9.1e15).contains(&n) => {
                        (n as u64).to_string()
                    }
                    _ => "?".into(),
                };
                text.push(' ');
                text += &key.replace(char::is_whitespace, "?");
                text.push('=');
                text += &value;
            }
            Node::Text(text.into())
        }
        _ => Node::Text(format!("{name}: ?").into()),
    };
    let written =
        if shown.is_empty() { item.written.into_owned() } else { format!("{{ {} }}", shown.join(", ")) };
    Item {
        node,
        written: format!(
            "{} = {written}",
            if is_short_name(&name) { name.into_owned() } else { quoted(&name) }
        )
        .into(),
        line: item.line,
    }
}

fn share_text<'a>((name, item): (Cow<'a, str>, Item<'a>)) -> Item<'a> {
    let node = match item.node {
        Node::Number(n) if n.fract() == 0.0 && (0.0..1e6).contains(&n) => {
            Node::Text(format!("{name}={}", n as u32).into())
        }
        _ => Node::Other,
    };
    Item { node, written: format!("{} = {}", quoted(&name), item.written).into(), line: item.line }
}

/// The keys of a limit and their values, in the spelling of both formats.
pub(super) fn limit_values(path: &str, value: Value<'_>) -> Vec<(String, Json)> {
    let Value::Text(text) = value else { return Vec::new() };
    let Some((name, parts)) = text.split_once(':') else { return Vec::new() };
    let table = join(path, name);
    let parts = parts.split_ascii_whitespace().filter_map(|part| part.split_once('='));
    let number = |value: &str| value.parse::<u64>().map_or_else(|_| Json::from(value), Json::from);
    parts.map(|(key, value)| (join(&table, key), number(value))).collect()
}
