//! The typed options of the Kotlin library: the table with Kotlin's names and types, as a DSL whose blocks are the tables.

use std::fmt::Write;

use tidegate::{Domain, Key, TABLES, Value};

use crate::facts::{
    Required, bases, default_key, keys_of, name_of, pools, presence, preset_tables, presets, required,
    tables_of, values, when_absent,
};

const WIDTH: usize = 110;

const HEAD: &str = "\
// Generated from core/src/policy/components by `cargo xtask generate`; do not edit.

package dev.tidegate

import dev.tidegate.internal.Table
import kotlin.time.Duration
import kotlin.time.toKotlinDuration
";

pub fn text() -> String {
    let required = required();
    let mut text = HEAD.to_owned();
    choice(&mut text, "The built-in policies that a policy may start from.", "Preset", presets());
    choice(
        &mut text,
        "The classes that a kind of failure of your own can be based on.",
        "FailureBase",
        &bases(),
    );
    for key in tidegate::TABLE {
        if let (Domain::Choice(words), false) = (key.domain, key.path == "preset") {
            choice(&mut text, key.doc, &choice_name(key), words);
        }
    }
    for (path, doc) in TABLES {
        let _ = write!(text, "\n/** {} */\n@TidegateDsl\n", words(doc));
        let _ = writeln!(
            text,
            "public class {} internal constructor(settings: Table) : Options(settings) {{",
            class_name(path)
        );
        members(&mut text, path, &required);
        text += "}\n";
    }
    text += "\n/** The settings of a policy. */\n@TidegateDsl\n";
    text +=
        "public abstract class PolicySettings internal constructor(settings: Table) : Options(settings) {\n";
    members(&mut text, "", &required);
    text += "}\n";
    constants(&mut text);
    text
}

/// Writes the facts of the table that the shell needs at run time.
fn constants(text: &mut String) {
    *text += "\ninternal object Facts {\n";
    let tables: Vec<_> = preset_tables().map(|path| format!("\"{path}\"")).collect();
    let _ = writeln!(text, "    /** The components of which presets set keys. */");
    let _ = writeln!(text, "    val presetTables: Set<String> = setOf(");
    for table in tables {
        let _ = writeln!(text, "        {table},");
    }
    *text += "    )\n\n    /** The pair that says that a component is there where all its keys are left to core. */\n";
    *text += "    val presence: Map<String, Pair<String, Any>> = mapOf(\n";
    for (path, _) in TABLES {
        let Some((key, value)) = presence(path) else { continue };
        let value = match value {
            Value::Number(number) => format!("{number:?}"),
            Value::Text(word) => format!("\"{word}\""),
        };
        let _ = writeln!(text, "        \"{path}\" to Pair(\"{key}\", {value}),");
    }
    *text += "    )\n\n    /** By kind of pool: the table of its keys. */\n    val pools: Map<String, String> = mapOf(\n";
    for pool in pools() {
        let _ = writeln!(text, "        \"{}\" to \"{}\",", pool.kind.name(), pool.table);
    }
    *text += "    )\n}\n";
}

/// The name in Kotlin: `max_attempts` becomes `maxAttempts`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &pascal(word))
}

fn pascal(name: &str) -> String {
    name.split(['_', '.', ' '])
        .filter(|word| !word.is_empty())
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}

/// The class of a table: `Budget` for `retry.budget`. A later table of the same name is prefixed with its parent's name, as
/// `HedgeBudget`.
pub fn class_name(path: &str) -> String {
    let first = TABLES.iter().find(|(other, _)| name_of(other) == name_of(path));
    pascal(if first.is_some_and(|(other, _)| *other == path) { name_of(path) } else { path })
}

/// The name of a choice: `BackoffKind` for `retry.backoff.kind`; `RetryAfter` for `retry.retry_after`.
pub fn choice_name(key: &Key) -> String {
    let (table, name) = key.path.rsplit_once('.').unwrap_or(("", key.path));
    let (table, name) = (if table.is_empty() { String::new() } else { class_name(table) }, pascal(name));
    if name.starts_with(&table) { name } else { table + &name }
}

fn choice(text: &mut String, about: &str, name: &str, of: &[&str]) {
    doc(text, "", &words(about));
    let _ = writeln!(text, "public enum class {name} {{");
    for word in of {
        let _ = writeln!(text, "    {},", word.to_uppercase());
    }
    *text += "}\n";
}

fn members(text: &mut String, path: &str, required: &[Required]) {
    for key in keys_of(path) {
        doc(text, "    ", &format!("{} {}", words(key.doc), limits_and_default(key, required)));
        let (kind, access) = kind(key);
        let _ = writeln!(text, "    public var {}: {kind}?", camel(name_of(key.path)));
        let _ = writeln!(text, "        get() = settings.{access}(\"{}\")", key.path);
        let none = matches!(
            key.domain,
            Domain::Span { none: true, .. }
                | Domain::Count { none: true, .. }
                | Domain::Real { none: true, .. }
        );
        let or = if none { " ?: NONE" } else { "" };
        let _ = writeln!(text, "        set(value) = settings.put(\"{}\", value{or})\n", key.path);
        if let Domain::Span { .. } = key.domain {
            for_java(text, key, or);
        }
    }
    for (below, about) in tables_of(path) {
        doc(text, "    ", about);
        let (name, class) = (camel(name_of(below)), class_name(below));
        let _ = writeln!(text, "    public fun {name}(configure: Configure<{class}>): Unit =");
        let _ = writeln!(text, "        settings.within(\"{below}\", {class}(settings), configure)\n");
    }
    if text.ends_with("\n\n") {
        text.pop();
    }
}

/// Writes a setter for Java, which cannot express Kotlin's durations: the setter of such a property has no valid Java name.
fn for_java(text: &mut String, key: &Key, or: &str) {
    let name = camel(name_of(key.path));
    doc(text, "    ", &format!("[{name}] for Java."));
    let _ = writeln!(text, "    public fun set{}(value: java.time.Duration?): Unit =", pascal(&name));
    let _ = writeln!(text, "        settings.put(\"{}\", value?.toKotlinDuration(){or})\n", key.path);
}

/// Range, unit and default in Kotlin's terms.
fn limits_and_default(key: &Key, required: &[Required]) -> String {
    let or_none = |none: bool| if none { ", or null" } else { "" };
    let range = match key.domain {
        Domain::Span { min, max, none } => {
            let days = max.as_micros() / 86_400_000_000;
            format!("{} µs to {days} days{}", min.as_micros(), or_none(none))
        }
        Domain::Count { min, max, none } => format!("{min} to {max}{}", or_none(none)),
        Domain::Real { min, max, none } if max >= 1e6 => format!("At least {min}{}", or_none(none)),
        Domain::Real { min, max, none } => format!("{min} to {max}{}", or_none(none)),
        Domain::Flag => "True or false".into(),
        Domain::Choice(words) => words.join(", "),
        Domain::Name => "A [Pool]".into(),
        Domain::Statuses
        | Domain::Words(_)
        | Domain::KindWords(_)
        | Domain::Kinds
        | Domain::Limits
        | Domain::Shares => values(key),
    };
    let absent = match default_key(key) {
        Some(other) => format!("that of `{}`", path_words(other.path)),
        None => match (key.domain, key.default) {
            (_, "") | (Domain::Span { .. }, _) => words(&when_absent(key, required)),
            (_, default) => format!("`{default}`"),
        },
    };
    let mut text = format!("{}; default: {absent}.", words(&range));
    if text.is_char_boundary(1) {
        text[..1].make_ascii_uppercase();
    }
    text
}

fn path_words(path: &str) -> String {
    path.split('.').map(camel).collect::<Vec<_>>().join(".")
}

/// A sentence of the table with Kotlin's names: keys are in camel case, values stay unchanged.
fn words(sentence: &str) -> String {
    let names: Vec<_> = tidegate::TABLE.iter().map(|key| name_of(key.path)).collect();
    let mut text = String::new();
    let mut rest = sentence;
    while let Some(start) = rest.find(|c: char| c.is_ascii_lowercase()) {
        let word = &rest[start..];
        let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(word.len());
        text += &rest[..start];
        let name = &word[..end];
        text += &if name.contains('_') && names.contains(&name) { camel(name) } else { name.to_owned() };
        rest = &word[end..];
    }
    // KDoc treats brackets as links.
    (text + rest).replace("[0", "\\[0").replace("[d", "\\[d").replace("[b", "\\[b").replace("[(", "\\[(")
}

/// The type, and the accessor of [`Table`] that reads it.
pub fn kind(key: &Key) -> (String, String) {
    let plain = |kind: &str, access: &str| (kind.to_owned(), access.to_owned());
    match key.domain {
        Domain::Choice(_) => {
            let name = if key.path == "preset" { "Preset".into() } else { choice_name(key) };
            let read = format!("choice<{name}>");
            (name, read)
        }
        Domain::Span { .. } => plain("Duration", "span"),
        Domain::Count { .. } => plain("Int", "count"),
        Domain::Real { .. } => plain("Double", "real"),
        Domain::Flag => plain("Boolean", "flag"),
        Domain::Statuses => plain("List<Int>", "list"),
        Domain::Words(_) | Domain::KindWords(_) | Domain::Limits | Domain::Shares => {
            plain("List<String>", "list")
        }
        Domain::Kinds => plain("Map<String, FailureBase>", "map"),
        Domain::Name => plain("Pool", "pool"),
    }
}

/// Writes a comment in lines of at most [`WIDTH`] characters.
fn doc(text: &mut String, indent: &str, about: &str) {
    if indent.len() + about.chars().count() + 7 <= WIDTH {
        let _ = writeln!(text, "{}{indent}/** {about} */", if indent.is_empty() { "\n" } else { "" });
        return;
    }
    let _ = writeln!(text, "{}{indent}/**", if indent.is_empty() { "\n" } else { "" });
    let mut line = format!("{indent} *");
    for word in about.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = format!("{indent} *");
        }
        line.push(' ');
        line += word;
    }
    let _ = writeln!(text, "{line}\n{indent} */");
}
