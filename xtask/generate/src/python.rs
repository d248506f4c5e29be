//! The typed options of the Python package, formatted as `ruff format` does, at 110 columns.

use std::fmt::Write;

use tidegate::{Domain, Duration, Key, TABLES};

use crate::facts::{
    Reason, Required, bases, default_key, keys_of, name_of, pools, presence, preset_tables, presets,
    required, tables_of, values,
};

const WIDTH: usize = 110;

const HEAD: &str = r#"# Generated from core/src/policy/components by `cargo xtask generate`; do not edit.
"""The typed options of a policy: what is left out is left to core's one table of keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from .frozen import UNSET, Options

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import TypedDict


class Named(Protocol):
    """What goes by its name: a `Pool`."""

    @property
    def name(self) -> str:
        """Its name."""
        ...
"#;

pub fn text() -> String {
    let required = required();
    let mut text = HEAD.to_owned();
    let names = presets().iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>();
    assign(&mut text, "\n\n", "Preset: TypeAlias = Literal[", &names, "]");
    text += "\"\"\"The built-in policies that a policy may start from.\"\"\"\n";
    let bases: Vec<_> = bases().iter().map(|name| format!("\"{name}\"")).collect();
    assign(&mut text, "\n", "Base: TypeAlias = Literal[", &bases, "]");
    text += "\"\"\"The classes that a kind of failure of your own can be based on.\"\"\"\n";
    // A class must precede the class that has a field of its type.
    for (path, doc) in TABLES.iter().rev() {
        class(&mut text, path, doc, &required);
    }
    top_level(&mut text);
    text += "\n\nPRESENCE: Final = {\n";
    for (path, _) in TABLES {
        let _ = writeln!(text, "    \"{path}\": \"{}\",", presence(path).map_or("", |(key, _)| key));
    }
    text +=
        "}\n\"\"\"The key that says that a component is there where all its keys are left to core.\"\"\"\n";
    let tables: Vec<_> = preset_tables().map(|path| format!("\"{path}\"")).collect();
    assign(&mut text, "\n", "PRESET_TABLES: Final = frozenset({", &tables, "})");
    text += "\"\"\"The components of which presets set keys.\"\"\"\n";
    text += "\nPOOLS: Final = {\n";
    for pool in pools() {
        let _ = writeln!(text, "    \"{}\": \"{}\",", pool.kind, pool.table);
    }
    text += "}\n\"\"\"The kinds of pools, and the tables of their keys.\"\"\"\n";
    text
}

/// Writes the top level of a policy, its own keys and its components: types for type checkers, and names.
fn top_level(text: &mut String) {
    *text += "\n\nif TYPE_CHECKING:\n\n    class PolicyOptions(TypedDict, total=False):\n";
    *text += "        \"\"\"A policy's own keys, and its components; None is as good as left out.\"\"\"\n\n";
    for key in keys_of("") {
        let name = name_of(key.path);
        let kind = match key.domain {
            Domain::Choice(_) if name == "preset" => "Preset".into(),
            _ => kind_of(key).trim_end_matches(" | None").to_owned(),
        };
        let _ = writeln!(text, "        {name}: {kind} | None");
    }
    for (path, _) in tables_of("") {
        let _ = writeln!(text, "        {}: {} | Mapping[str, Any] | None", name_of(path), class_name(path));
    }
    let keys = keys_of("").map(|key| name_of(key.path));
    let names: Vec<_> = keys.chain(tables_of("").map(|(path, _)| name_of(path))).collect();
    let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    assign(text, "\n\n", "SETTINGS: Final = (", &names, ")");
    *text += "\"\"\"The names of the same.\"\"\"\n";
}

fn class(text: &mut String, path: &str, doc: &str, required: &[Required]) {
    let name = class_name(path);
    let _ = write!(text, "\n\nclass {name}(Options):\n");
    let _ = write!(text, "    \"\"\"{doc}\n\n    Args:\n");
    for key in keys_of(path) {
        let words = format!("{}: {} {}", name_of(key.path), key.doc, limits_and_default(key, required));
        wrap(text, &words, "        ", "            ");
    }
    for (below, doc) in tables_of(path) {
        let none = if may_be_none(below) { "; None or `\"none\"` for none" } else { "" };
        let words =
            format!("{}: {doc} A `{}`, or a dict of its keys{none}.", name_of(below), class_name(below));
        wrap(text, &words, "        ", "            ");
    }
    *text += "    \"\"\"\n\n";
    for key in keys_of(path) {
        field(text, key);
    }
    for (below, _) in tables_of(path) {
        let none = if may_be_none(below) { " | Literal[\"none\"] | None" } else { "" };
        let _ =
            writeln!(text, "    {}: {} | Mapping[str, Any]{none} = UNSET", name_of(below), class_name(below));
    }
}

/// The class of a table: `Budget` for `retry.budget`. A later table of the same name is prefixed with its parent's name, as
/// `HedgeBudget`.
pub fn class_name(path: &str) -> String {
    let first = TABLES.iter().find(|(other, _)| name_of(other) == name_of(path));
    let words = if first.is_some_and(|(other, _)| *other == path) { name_of(path) } else { path };
    let words = words.split(['_', '.']).map(|word| word[..1].to_uppercase() + &word[1..]);
    words.collect()
}

/// Whether the whole table can be switched off by its kind.
fn may_be_none(table: &str) -> bool {
    let none = |key: &Key| matches!(key.domain, Domain::Choice(words) if words.contains(&"none"));
    keys_of(table).any(|key| name_of(key.path) == "kind" && none(key))
}

/// Range, unit and default in Python's terms.
fn limits_and_default(key: &Key, required: &[Required]) -> String {
    let range = range(key);
    match key.domain {
        // The default is marked among the choices.
        Domain::Choice(_) if !key.default.is_empty() => format!("{range}."),
        _ => format!("{range}; {}.", default(key, required)),
    }
}

/// Range and unit in Python's terms.
pub fn range(key: &Key) -> String {
    match key.domain {
        Domain::Span { min, max, none } => {
            let least = match min {
                Duration::ZERO => "0".into(),
                min => seconds(min),
            };
            let days = max.as_micros() / 86_400_000_000;
            format!("Seconds or `timedelta`, {least} to {days} days{}", or_none(none))
        }
        Domain::Count { min, max, none } => format!("{} to {}{}", grouped(min), grouped(max), or_none(none)),
        Domain::Real { min, max, none } if max >= 1e6 => format!("At least {min}{}", or_none(none)),
        Domain::Real { min, max, none } => format!("{min} to {max}{}", or_none(none)),
        Domain::Flag => "True or False".into(),
        Domain::Choice(words) => {
            let words: Vec<_> = words
                .iter()
                .map(|word| format!("`\"{word}\"`{}", if *word == key.default { " (default)" } else { "" }))
                .collect();
            words.join(", ")
        }
        Domain::Name => "The name of a `Pool`, or the pool itself".into(),
        Domain::Statuses
        | Domain::Words(_)
        | Domain::KindWords(_)
        | Domain::Kinds
        | Domain::Limits
        | Domain::Shares => {
            let mut values = values(key);
            values[..1].make_ascii_uppercase();
            values
        }
    }
}

/// Says in Python's terms what applies if a key is left out.
pub fn default(key: &Key, required: &[Required]) -> String {
    if let Some(other) = default_key(key) {
        return format!("`{}` by default", other.path);
    }
    match (key.domain, key.default) {
        (_, "") => match required.iter().filter(|rule| rule.path == key.path).collect::<Vec<_>>()[..] {
            [] => "off by default".into(),
            [Required { by: None, instead: Some(instead), .. }] => {
                format!("required unless there is `{}`", name_of(instead))
            }
            [Required { by: None, .. }] => "required".into(),
            ref rules => {
                let reason = |rule: &&Required| {
                    Some(match rule.by? {
                        Reason::Choice(key, choice) => {
                            let unless = |(key, word)| format!(", unless {} is `\"{word}\"`", name_of(key));
                            let unless = rule.unless.map(unless).unwrap_or_default();
                            format!("{} `\"{choice}\"`{unless}", name_of(key))
                        }
                        Reason::Beside(key) => format!("`{}`", name_of(key)),
                    })
                };
                let reasons: Vec<_> = rules.iter().filter_map(reason).collect();
                format!("required with {}", reasons.join(" and with "))
            }
        },
        (Domain::Flag, default) => format!("{} by default", if default == "true" { "True" } else { "False" }),
        (Domain::Span { .. }, default) => format!("{} by default", seconds(micros(default))),
        (_, default) => format!("{default} by default"),
    }
}

/// Parses a default such as `100ms`.
pub fn micros(text: &str) -> Duration {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = text[..text.len() - unit.len()].parse().expect("a default of the table");
    let scale = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        "h" => 3_600e6,
        _ => panic!("{text} in the table has no unit"),
    };
    Duration::from_micros((number * scale) as u64)
}

/// Seconds such as `0.1 s`; below a millisecond `10 µs`, which has fewer zeros to count.
fn seconds(span: Duration) -> String {
    match span.as_micros() {
        micros @ 1..1_000 => format!("{micros} µs"),
        micros => format!("{} s", micros as f64 / 1e6),
    }
}

/// A number with separators: 1,000,000.
pub fn grouped(n: u32) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn or_none(none: bool) -> &'static str {
    if none { ", or None" } else { "" }
}

fn field(text: &mut String, key: &Key) {
    let name = name_of(key.path);
    if let Domain::Choice(words) = key.domain {
        let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
        return assign(text, "", &format!("    {name}: Literal["), &words, "] = UNSET");
    }
    let _ = writeln!(text, "    {name}: {} = UNSET", kind_of(key));
}

/// The type of a value.
pub fn kind_of(key: &Key) -> String {
    let or_none = |none: bool| if none { " | None" } else { "" };
    match key.domain {
        Domain::Choice(words) => {
            let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
            format!("Literal[{}]", words.join(", "))
        }
        Domain::Span { none, .. } => format!("float | timedelta{}", or_none(none)),
        Domain::Count { none, .. } => format!("int{}", or_none(none)),
        Domain::Real { none, .. } => format!("float{}", or_none(none)),
        Domain::Flag => "bool".into(),
        Domain::Statuses => "Collection[int]".into(),
        Domain::Words(_) | Domain::KindWords(_) | Domain::Limits | Domain::Shares => "Collection[str]".into(),
        Domain::Kinds => "Mapping[str, Base]".into(),
        Domain::Name => "str | Named".into(),
    }
}

/// Writes items between brackets: on one line if they fit, otherwise one per line.
fn assign(text: &mut String, before: &str, open: &str, items: &[String], close: &str) {
    let line = format!("{open}{}{close}", items.join(", "));
    let indent = &open[..open.len() - open.trim_start().len()];
    *text += before;
    if line.chars().count() <= WIDTH {
        *text += &(line + "\n");
        return;
    }
    let _ = writeln!(text, "{open}");
    for item in items {
        let _ = writeln!(text, "{indent}    {item},");
    }
    let _ = writeln!(text, "{indent}{close}");
}

/// Wraps words in lines of at most [`WIDTH`] characters.
fn wrap(text: &mut String, words: &str, first: &str, rest: &str) {
    let (mut line, mut empty) = (first.to_owned(), true);
    for word in words.split(' ') {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{line}");
            (line, empty) = (rest.to_owned(), true);
        }
        if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_broken_as_ruff_breaks_them() {
        let words: Vec<_> = (0..30).map(|n| format!("\"word{n}\"")).collect();
        let mut text = String::new();
        assign(&mut text, "", "    kind: Literal[", &words, "] = UNSET");
        assert!(text.starts_with("    kind: Literal[\n        \"word0\",\n        \"word1\",\n"), "{text}");
        assert!(text.ends_with("        \"word29\",\n    ] = UNSET\n"), "{text}");
    }

    #[test]
    fn no_line_is_too_long() {
        let text = text();
        let long: Vec<_> = text.lines().filter(|line| line.chars().count() > WIDTH).collect();
        assert!(long.is_empty(), "{long:#?}");
    }

    #[test]
    fn numbers_read_naturally() {
        assert_eq!(
            (grouped(1), grouped(1_000), grouped(1_234_567)),
            ("1".into(), "1,000".into(), "1,234,567".into())
        );
        assert_eq!(seconds(micros("100ms")), "0.1 s");
        assert_eq!(seconds(Duration::from_micros(10)), "10 µs");
    }
}
