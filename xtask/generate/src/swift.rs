//! The typed options of the Swift package: the table with Swift's names and types.

use std::fmt::Write;

use tidegate::{Domain, Duration, Key, TABLE, TABLES, Value};

use crate::facts::{
    Required, bases, default_key, keys_of, name_of, pools, presence, preset_tables, required, tables_of,
    values, when_absent,
};

const WIDTH: usize = 110;

const HEAD: &str = "\
// Generated from core/src/policy/components by `cargo xtask generate`; do not edit.

";

/// The types of the options.
pub fn text() -> String {
    let required = required();
    let mut text = HEAD.to_owned();
    for key in keys_of("") {
        if let Domain::Choice(words) = key.domain {
            choice(&mut text, "", &type_name(key.path), key.doc, words);
        }
    }
    choice(
        &mut text,
        "",
        "Base",
        "The classes that a kind of failure of your own can be based on.",
        &bases(),
    );
    for (path, about) in TABLES {
        table(&mut text, path, about, &required);
    }
    table(
        &mut text,
        "",
        "The settings of a policy. What is left out is left to core's one table of keys.",
        &required,
    );
    policy(&mut text, &required);
    constants(&mut text);
    text
}

/// The type of a table: `Budget` for `retry.budget`. A later table of the same name is prefixed with its parent's name, as
/// `HedgeBudget`.
pub fn struct_name(path: &str) -> String {
    let first = TABLES.iter().find(|(other, _)| name_of(other) == name_of(path));
    match path {
        "" => "Settings".into(),
        _ if first.is_some_and(|(other, _)| *other == path) => type_name(name_of(path)),
        _ => type_name(path),
    }
}

pub fn type_name(path: &str) -> String {
    path.split(['_', '.']).map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// The name in Swift: `max_attempts` becomes `maxAttempts`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// The name of a choice. `none` becomes `off`, because `.none` of an optional would mean that no value is given.
pub fn case(word: &str) -> String {
    if word == "none" { "off".into() } else { camel(word) }
}

fn choice(text: &mut String, indent: &str, name: &str, about: &str, words: &[&str]) {
    doc(text, indent, about);
    let _ = writeln!(text, "{indent}public enum {name}: String, Sendable, Hashable, CaseIterable {{");
    for word in words {
        let name = case(word);
        let raw = if name == **word { String::new() } else { format!(" = \"{word}\"") };
        let _ = writeln!(text, "{indent}    case {name}{raw}");
    }
    let _ = writeln!(text, "{indent}}}\n");
}

/// The properties of a table: name, type and documentation.
fn properties(path: &str, required: &[Required]) -> Vec<(String, String, String)> {
    let keys = keys_of(path).map(|key| {
        let words = format!("{} {}", words(key.doc), limits_and_default(key, required));
        (camel(name_of(key.path)), kind(key), words)
    });
    let tables = tables_of(path)
        .map(|(below, about)| (camel(name_of(below)), struct_name(below), (*about).to_owned()));
    keys.chain(tables).collect()
}

fn table(text: &mut String, path: &str, about: &str, required: &[Required]) {
    doc(text, "", about);
    let name = struct_name(path);
    let _ = writeln!(text, "public struct {name}: Sendable, Hashable {{");
    if !path.is_empty() {
        for key in keys_of(path) {
            if let Domain::Choice(words) = key.domain {
                choice(text, "    ", &type_name(name_of(key.path)), key.doc, words);
            }
        }
    }
    let all = properties(path, required);
    for (name, kind, about) in &all {
        doc(text, "    ", about);
        let _ = writeln!(text, "    public var {name}: {kind}?");
    }
    text.push_str("\n    /// What is left out is left to core.\n");
    parameters(text, "    public init(", &all, ") {");
    for (name, ..) in &all {
        let _ = writeln!(text, "        self.{name} = {name}");
    }
    text.push_str("    }\n\n    func write(_ pairs: inout Pairs) {\n");
    if !path.is_empty() {
        text.push_str("        let before = pairs.count\n");
    }
    for key in keys_of(path) {
        let _ = writeln!(text, "        pairs.add(\"{}\", {})", key.path, camel(name_of(key.path)));
    }
    for (below, _) in tables_of(path) {
        let _ = writeln!(text, "        {}?.write(&pairs)", camel(name_of(below)));
    }
    if let Some((key, value)) = presence(path).filter(|_| !path.is_empty()) {
        let value = match value {
            Value::Number(number) => format!(".number(value: {number})"),
            Value::Text(word) => format!(".word(value: \"{word}\")"),
        };
        let preset = preset_tables().any(|other| other == path);
        let _ =
            writeln!(text, "        pairs.present(since: before, \"{key}\", {value}, inPresets: {preset})");
    }
    text.push_str("    }\n}\n\n");
}

fn parameters(text: &mut String, open: &str, all: &[(String, String, String)], close: &str) {
    let _ = writeln!(text, "{open}");
    let lines: Vec<_> = all.iter().map(|(name, kind, _)| format!("        {name}: {kind}? = nil")).collect();
    let _ = writeln!(text, "{}\n    {close}", lines.join(",\n"));
}

/// Writes the initializer of a policy, which takes all of them as arguments.
fn policy(text: &mut String, required: &[Required]) {
    let all = properties("", required);
    text.push_str("extension Policy {\n    /// A policy with these settings.\n    ///\n");
    text.push_str(
        "    /// - Parameters:\n    \
         ///   - on: Types of errors to repeat, beside those that may pass: `on: [ShopError.self]`.\n    \
         ///   - classify: Judges each attempt, before `on` and the rule for errors.\n    \
         ///   - onRetry: Called before each wait for a further attempt.\n    \
         ///   - metering: How the weights of HTTP requests are known.\n    \
         /// - Throws: `PolicyError` with every mistake there is: the key, the value and the rule.\n",
    );
    text.push_str("    public convenience init(\n        _ name: String? = nil,\n");
    for (name, kind, _) in &all {
        let _ = writeln!(text, "        {name}: {kind}? = nil,");
    }
    text.push_str(
        "        on: [any Error.Type] = [],\n        classify: Classify? = nil,\n        onRetry: OnRetry? = nil,\n        metering: Metering? = nil,\n        \
         engine: Engine = .shared,\n        fileID: StaticString = #fileID,\n        line: UInt = #line\n    ) throws {\n",
    );
    text.push_str("        let settings = Settings(\n");
    let given: Vec<_> = all.iter().map(|(name, ..)| format!("            {name}: {name}")).collect();
    let _ = writeln!(text, "{}\n        )", given.join(",\n"));
    text.push_str(
        "        try self.init(\n            name, settings, on: on, classify: classify, onRetry: onRetry, metering: metering, engine: engine,\n            \
         fileID: fileID, line: line\n        )\n    }\n}\n\n",
    );
}

/// Writes the facts of the table that the façade needs at run time.
fn constants(text: &mut String) {
    let mut names: Vec<_> = TABLE.iter().flat_map(|key| key.path.split('.')).collect();
    names.retain(|name| name.contains('_'));
    names.sort_unstable();
    names.dedup();
    let names: Vec<_> = names.iter().map(|name| format!("    \"{name}\": \"{}\",\n", camel(name))).collect();
    let _ = write!(
        text,
        "/// Names that are others in Swift.\nlet camelCased: [String: String] = [\n{}]\n\n",
        names.concat()
    );
    text.push_str("/// A component that policies share.\npublic enum PoolSettings: Sendable, Hashable {\n");
    for pool in pools() {
        let _ = writeln!(text, "    case {}({})", camel(pool.kind.name()), struct_name(pool.table));
    }
    text.push_str("\n    var parts: (kind: String, table: String, pairs: Pairs) {\n        var pairs = Pairs(preset: false)\n        switch self {\n");
    for pool in pools() {
        let (kind, table) = (pool.kind.name(), pool.table);
        let _ = writeln!(
            text,
            "        case .{}(let settings):\n            settings.write(&pairs)",
            camel(kind)
        );
        let _ = writeln!(text, "            return (\"{kind}\", \"{table}.\", pairs)");
    }
    text.push_str("        }\n    }\n}\n");
}

pub fn kind(key: &Key) -> String {
    let bound = |none: bool, kind: &str| if none { format!("Bound<{kind}>") } else { kind.to_owned() };
    match key.domain {
        Domain::Choice(_) => type_name(name_of(key.path)),
        Domain::Span { none, .. } => bound(none, "Duration"),
        Domain::Count { none, .. } => bound(none, "Int"),
        Domain::Real { none, .. } => bound(none, "Double"),
        Domain::Flag => "Bool".into(),
        Domain::Statuses => "[Int]".into(),
        Domain::Words(_) | Domain::KindWords(_) | Domain::Limits | Domain::Shares => "[String]".into(),
        Domain::Kinds => "[String: Base]".into(),
        Domain::Name => "String".into(),
    }
}

/// Range, unit and default in Swift's terms.
fn limits_and_default(key: &Key, required: &[Required]) -> String {
    let or_none = |none: bool| if none { ", or `.unbounded`" } else { "" };
    let range = match key.domain {
        Domain::Span { min, max, none } => {
            let days = max.as_micros() / 86_400_000_000;
            format!("{} to {days} days{}", seconds(min), or_none(none))
        }
        Domain::Count { min, max, none } => format!("{min} to {max}{}", or_none(none)),
        Domain::Real { min, max, none } if max >= 1e6 => format!("At least {min}{}", or_none(none)),
        Domain::Real { min, max, none } => format!("{min} to {max}{}", or_none(none)),
        Domain::Flag => "True or false".into(),
        Domain::Choice(words) => {
            words.iter().map(|word| format!("`.{}`", case(word))).collect::<Vec<_>>().join(", ")
        }
        Domain::Name => "The name of a `Pool`".into(),
        Domain::Statuses
        | Domain::Words(_)
        | Domain::KindWords(_)
        | Domain::Kinds
        | Domain::Limits
        | Domain::Shares => values(key),
    };
    let absent = match default_key(key) {
        Some(other) => {
            format!("that of `{}`", other.path.split('.').map(camel).collect::<Vec<_>>().join("."))
        }
        None => match (key.domain, key.default) {
            (_, "") | (Domain::Span { .. }, _) => words(&when_absent(key, required)),
            (Domain::Choice(_), default) => format!("`.{}`", case(default)),
            (_, default) => format!("`{default}`"),
        },
    };
    let mut text = format!("{}; default: {absent}.", words(&range));
    text[..1].make_ascii_uppercase();
    text
}

fn seconds(span: Duration) -> String {
    match span.as_micros() {
        0 => "0".into(),
        micros @ 1..1_000 => format!("{micros} µs"),
        micros => format!("{} s", micros as f64 / 1e6),
    }
}

/// A sentence of the table with Swift's names: keys are in camel case, values stay unchanged.
fn words(sentence: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut text = String::new();
    let mut rest = sentence;
    while let Some(start) = rest.find(is_word) {
        let end = rest[start..].find(|c| !is_word(c)).map_or(rest.len(), |length| start + length);
        let word = &rest[start..end];
        text += &rest[..start];
        let known = word.contains('_') && TABLE.iter().any(|key| name_of(key.path) == word);
        text += &if known { camel(word) } else { word.to_owned() };
        rest = &rest[end..];
    }
    text + rest
}

/// Writes a comment in lines of at most [`WIDTH`] characters.
fn doc(text: &mut String, indent: &str, words: &str) {
    let mut line = format!("{indent}///");
    for word in words.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = format!("{indent}///");
        }
        line.push(' ');
        line += word;
    }
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_swift() {
        assert_eq!((camel("max_attempts"), case("clamp_5s")), ("maxAttempts".into(), "clamp5s".into()));
        assert_eq!(
            (struct_name("retry.budget"), struct_name("hedge.budget")),
            ("Budget".into(), "HedgeBudget".into())
        );
        assert_eq!(words("needs max_queue; full_floor draws"), "needs maxQueue; full_floor draws");
    }

    #[test]
    fn no_choice_is_called_none() {
        let text = text();
        assert!(!text.contains("case none") && text.contains("case off = \"none\""));
    }

    #[test]
    fn comments_are_not_too_long() {
        let text = text();
        let long: Vec<_> =
            text.lines().filter(|line| line.contains("///") && line.chars().count() > WIDTH).collect();
        assert_eq!(long, <[&str; 0]>::default());
    }
}
