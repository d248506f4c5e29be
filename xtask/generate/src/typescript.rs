//! The typed options of the npm package: the table with JavaScript's names and units, formatted as biome does, at 110 columns.

use std::fmt::Write;

use tidegate::{Domain, Duration, Key, TABLES, Value};

use crate::facts::{
    Required, bases, default_key, keys_of, name_of, pools, presence, preset_tables, presets, required,
    tables_of, values, when_absent,
};

const WIDTH: usize = 110;

const HEAD: &str = "\
// Generated from core/src/policy/components by `cargo xtask generate`; do not edit.

/** What goes by its name: a `Pool`. */
export interface Named {
  readonly name: string;
}
";

pub fn text() -> String {
    let required = required();
    let mut text = HEAD.to_owned();
    union(&mut text, "The built-in policies that a policy may start from.", "Preset", presets());
    union(&mut text, "The classes that a kind of failure of your own can be based on.", "Base", &bases());
    for (path, doc) in TABLES {
        let _ = write!(text, "\n/** {doc} */\nexport interface {} {{\n", interface_name(path));
        fields(&mut text, path, &required);
        text += "}\n";
    }
    text += "\n/** The settings of a policy. */\nexport interface Settings {\n";
    fields(&mut text, "", &required);
    text += "}\n";
    constants(&mut text);
    text
}

/// Writes the facts of the table that the shell needs at run time.
fn constants(text: &mut String) {
    *text += "\n/**\n * The pair that says that a component is there where all its keys are left to core; not beside a preset where that sets keys\n * of it.\n */\n";
    *text +=
        "export const PRESENCE: Readonly<Record<string, readonly [string, number | string, boolean]>> = {\n";
    for (path, _) in TABLES {
        let Some((key, value)) = presence(path) else { continue };
        let value = match value {
            Value::Number(number) => number.to_string(),
            Value::Text(word) => format!("\"{word}\""),
        };
        let preset = preset_tables().any(|table| table == *path);
        let key = &key[path.len() + 1..];
        let _ = writeln!(text, "  {}: [\"{key}\", {value}, {preset}],", property(path));
    }
    *text +=
        "};\n\n/** The kinds of pools, in the order of their numbers, and the tables of their keys. */\n";
    *text += "export const POOLS = {\n";
    for pool in pools() {
        let _ = writeln!(text, "  {}: \"{}\",", camel(pool.kind.name()), pool.table);
    }
    *text += "} as const;\n";
}

fn property(path: &str) -> String {
    if path.contains('.') { format!("\"{path}\"") } else { path.to_owned() }
}

/// The name in JavaScript: `max_attempts` becomes `maxAttempts`.
pub fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// The interface of a table: `Budget` for `retry.budget`. A later table of the same name is prefixed with its parent's name, as
/// `HedgeBudget`.
fn interface_name(path: &str) -> String {
    let first = TABLES.iter().find(|(other, _)| name_of(other) == name_of(path));
    let words = if first.is_some_and(|(other, _)| *other == path) { name_of(path) } else { path };
    words.split(['_', '.']).map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

fn fields(text: &mut String, path: &str, required: &[Required]) {
    for key in keys_of(path) {
        doc(text, &format!("{} {}", words(key.doc), told(key, required)));
        let _ = writeln!(text, "  {}?: {} | undefined;", camel(name_of(key.path)), kind(key));
    }
    for (below, about) in tables_of(path) {
        let none = keys_of(below).any(|key| {
            name_of(key.path) == "kind"
                && matches!(key.domain, Domain::Choice(words) if words.contains(&"none"))
        });
        doc(text, &if none { format!("{about} `null` or `\"none\"` for none.") } else { (*about).into() });
        let or_none = if none { " | \"none\" | null" } else { "" };
        let name = camel(name_of(below));
        let _ = writeln!(text, "  {name}?: {}{or_none} | undefined;", interface_name(below));
    }
}

/// Range, unit and default in JavaScript's terms.
fn told(key: &Key, required: &[Required]) -> String {
    let or_none = |none: bool| if none { ", or null" } else { "" };
    let range = match key.domain {
        Domain::Span { min, max, none } => {
            let days = max.as_micros() / 86_400_000_000;
            format!("Milliseconds, {} to {days} days{}", millis(min), or_none(none))
        }
        Domain::Count { min, max, none } => format!("{min} to {max}{}", or_none(none)),
        Domain::Real { min, max, none } if max >= 1e6 => format!("At least {min}{}", or_none(none)),
        Domain::Real { min, max, none } => format!("{min} to {max}{}", or_none(none)),
        Domain::Flag => "True or false".into(),
        Domain::Choice(words) => words.join(", "),
        Domain::Name => "The name of a `Pool`, or the pool itself".into(),
        Domain::Statuses | Domain::Words(_) | Domain::KindWords(_) | Domain::Kinds | Domain::Limits => {
            values(key)
        }
    };
    let absent = match default_key(key) {
        Some(other) => format!("that of `{}`", camel_path(other.path)),
        None => match (key.domain, key.default) {
            (_, "") | (Domain::Span { .. }, _) => words(&when_absent(key, required)),
            (_, default) => format!("`{default}`"),
        },
    };
    let mut text = format!("{}; default: {absent}.", words(&range));
    text[..1].make_ascii_uppercase();
    text
}

fn camel_path(path: &str) -> String {
    path.split('.').map(camel).collect::<Vec<_>>().join(".")
}

/// A sentence of the table with JavaScript's names: keys are in camel case, values stay unchanged.
fn words(sentence: &str) -> String {
    let names: Vec<_> = tidegate::TABLE.iter().map(|key| name_of(key.path)).collect();
    let mut text = String::new();
    let mut rest = sentence;
    while let Some(start) = rest.find(|c: char| c.is_ascii_lowercase()) {
        let word = &rest[start..];
        let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(word.len());
        text += &rest[..start];
        let name = &word[..end];
        if name.contains('_') && names.contains(&name) {
            text += &camel(name);
        } else {
            text += name;
        }
        rest = &word[end..];
    }
    text + rest
}

/// Milliseconds such as `100`; below a millisecond with a fraction.
fn millis(span: Duration) -> String {
    (span.as_micros() as f64 / 1e3).to_string()
}

pub fn kind(key: &Key) -> String {
    let or_none = |none: bool| if none { " | null" } else { "" };
    match key.domain {
        Domain::Choice(words) if name_of(key.path) == "preset" && !words.is_empty() => "Preset".into(),
        Domain::Choice(words) => {
            words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" | ")
        }
        Domain::Span { none, .. } | Domain::Count { none, .. } | Domain::Real { none, .. } => {
            format!("number{}", or_none(none))
        }
        Domain::Flag => "boolean".into(),
        Domain::Statuses => "readonly number[]".into(),
        Domain::Words(_) | Domain::KindWords(_) | Domain::Limits => "readonly string[]".into(),
        Domain::Kinds => "Readonly<Record<string, Base>>".into(),
        Domain::Name => "string | Named".into(),
    }
}

fn union(text: &mut String, doc: &str, name: &str, words: &[&str]) {
    let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let line = format!("export type {name} = {};", words.join(" | "));
    let _ = write!(text, "\n/** {doc} */\n");
    if line.len() <= WIDTH {
        let _ = writeln!(text, "{line}");
    } else {
        let _ = writeln!(text, "export type {name} =\n  | {};", words.join("\n  | "));
    }
}

/// Writes a comment above a field, in lines of at most [`WIDTH`] characters.
fn doc(text: &mut String, words: &str) {
    if words.chars().count() + 9 <= WIDTH {
        let _ = writeln!(text, "  /** {words} */");
        return;
    }
    *text += "  /**\n";
    let mut line = "   *".to_owned();
    for word in words.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = "   *".into();
        }
        line.push(' ');
        line += word;
    }
    let _ = writeln!(text, "{line}\n   */");
}
