//! The typed options of the npm package: the table with JavaScript's names and units, formatted as biome does, at 110 columns.

use std::fmt::Write;

use tidegate::{Domain, Duration, Key, TABLE, TABLES, Value};

use crate::facts::{
    Reason, Required, alternatives, bases, default_key, keys_of, kinds_that_are_read, name_of, pools,
    presence, preset_tables, presets, required, table_of, tables_of, values, when_absent, words_for_kinds,
};

const WIDTH: usize = 110;

const HEAD: &str = "\
// Generated from core/src/policy/components by `cargo xtask generate`; do not edit.

/** What goes by its name: a `Pool`. */
export interface Named {
  readonly name: string;
}

/** These keys of a table, given. */
type Given<T, K extends keyof T> = { [P in K]-?: Exclude<T[P], undefined> };

/** A name in `K`, from whose uses `K` is not inferred. */
type Declared<K extends string> = [K][K extends string ? 0 : never];

/** A key of a table, left out or with another value than this. */
type Not<T, K extends keyof T, W> = { [P in K]?: Exclude<T[P], W> };
";

pub fn text() -> String {
    let required = required();
    let mut text = HEAD.to_owned();
    union(&mut text, "The built-in policies that a policy may start from.", "Preset", presets());
    union(&mut text, "The classes that a kind of failure of your own can be based on.", "Base", &bases());
    lists(&mut text);
    for (path, doc) in TABLES {
        let name = interface_name(path);
        let rules = rules(path, &name, &required);
        let of = if names_kinds(path) { "<K extends string = string>" } else { "" };
        let interface = table_type(&name);
        let keys = if rules.is_empty() { (*doc).into() } else { format!("The keys of a `{name}`.") };
        let _ = write!(text, "\n/** {keys} */\nexport interface {interface}{of} {{\n");
        fields(&mut text, path, &required);
        text += "}\n";
        if rules.is_empty() {
            continue;
        }
        let mut whole = format!("{interface}{}", if of.is_empty() { "" } else { "<K>" });
        for (at, ways) in rules.iter().enumerate() {
            let rule = format!("{name}Rule{}", at + 1);
            alias(&mut text, &format!("type {rule}"), ways);
            whole = format!("{whole} & {rule}");
        }
        let _ = write!(text, "\n/** {doc} */\nexport type {name}{of} = {whole};\n");
    }
    text += "\n/**\n * The settings of a policy. `K` are the names of its own kinds; a list of failures may name no others.\n */\n";
    text += "export interface Settings<K extends string = string> {\n";
    fields(&mut text, "", &required);
    text += "}\n";
    constants(&mut text);
    text
}

/// The name of a table's interface in the file of a part, which may have the table's name itself, and how it is imported.
pub fn table_beside(table: &str, part: &str) -> (String, String) {
    let own = table_type(table);
    if table != part {
        return (own.clone(), own);
    }
    let name = format!("{table}Keys");
    let import = if own == name { own } else { format!("{own} as {name}") };
    (name, import)
}

/// The interface of a table's keys: that of its name, or `…Keys` where the table has rules beside.
fn table_type(name: &str) -> String {
    let required = required();
    let ruled =
        |path: &str| interface_name(path) == name && required.iter().any(|rule| table_of(rule.path) == path);
    if TABLES.iter().any(|(path, _)| ruled(path)) { format!("{name}Keys") } else { name.to_owned() }
}

/// Writes the types of the words that lists may contain.
fn lists(text: &mut String) {
    for key in TABLE {
        if let Domain::Words(words) = key.domain {
            union(text, "The methods that may be repeated without a key.", "Method", words);
        }
    }
    let mut lists: Vec<&[&str]> = Vec::new();
    for key in TABLE {
        if let Domain::KindWords(words) = key.domain
            && !lists.contains(&words)
        {
            lists.push(words);
        }
    }
    lists.sort_by_key(|words| words.len());
    let read = kinds_that_are_read();
    for (words, name) in lists.into_iter().zip(["Failure", "AnyFailure"]) {
        // What is read of answers is permanent, so a retry may not name it.
        let read = read.iter().map(String::as_str).filter(|_| name == "AnyFailure");
        let words: Vec<_> = words.iter().copied().chain(read).collect();
        let which = if name == "Failure" { "that can be retried" } else { "of any kind" };
        union(text, &format!("Failures {which}, by class or kind."), name, &words);
    }
}

/// Whether a table, or one below it, has lists that may name a policy's own kinds.
fn names_kinds(path: &str) -> bool {
    keys_of(path).any(|key| matches!(key.domain, Domain::KindWords(_)))
}

/// What the keys of a table must fulfil: for each rule, the ways to do so.
fn rules(path: &str, name: &str, required: &[Required]) -> Vec<Vec<String>> {
    let of = if names_kinds(path) { format!("{name}Keys<string>") } else { format!("{name}Keys") };
    let given = |paths: &[&str]| {
        let keys: Vec<_> = paths.iter().map(|path| format!("\"{}\"", camel(name_of(path)))).collect();
        format!("Given<{of}, {}>", keys.join(" | "))
    };
    let not = |key: &str, value: &str| format!("Not<{of}, \"{}\", {value}>", camel(name_of(key)));
    let mut found: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    for rule in required.iter().filter(|rule| table_of(rule.path) == path) {
        let ways: Vec<_> = match rule.by {
            None => alternatives(rule).iter().map(|other| given(&[other])).collect(),
            Some(Reason::Choice(key, choice)) => {
                let unless =
                    rule.unless.map(|(key, word)| format!("{{ {}: \"{word}\" }}", camel(name_of(key))));
                [not(key, &format!("\"{choice}\""))].into_iter().chain(unless).collect()
            }
            Some(Reason::Beside(key)) => vec![not(key, &kind_of_one(key))],
        };
        match found.iter_mut().find(|(other, _)| *other == ways) {
            Some((_, keys)) => keys.push(rule.path),
            None => found.push((ways, vec![rule.path])),
        }
    }
    found.into_iter().map(|(ways, keys)| [given(&keys)].into_iter().chain(ways).collect()).collect()
}

/// The type of a key's values.
fn kind_of_one(path: &str) -> String {
    TABLE.iter().find(|key| key.path == path).map_or_else(String::new, kind)
}

/// Writes a type that is one of several, or one.
fn alias(text: &mut String, begin: &str, ways: &[String]) {
    let line = format!("{begin} = {};", ways.join(" | "));
    if line.len() <= WIDTH {
        let _ = write!(text, "\n{line}\n");
    } else {
        let _ = write!(text, "\n{begin} =\n  | {};\n", ways.join("\n  | "));
    }
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
        doc(text, &format!("{} {}", words(key.doc), limits_and_default(key, required)));
        let _ = writeln!(text, "  {}?: {} | undefined;", camel(name_of(key.path)), typed(key));
    }
    for (below, about) in tables_of(path) {
        let none = keys_of(below).any(|key| {
            name_of(key.path) == "kind"
                && matches!(key.domain, Domain::Choice(words) if words.contains(&"none"))
        });
        doc(text, &if none { format!("{about} `null` or `\"none\"` for none.") } else { (*about).into() });
        let or_none = if none { " | \"none\" | null" } else { "" };
        let name = camel(name_of(below));
        let of = if names_kinds(below) { "<K>" } else { "" };
        let _ = writeln!(text, "  {name}?: {}{of}{or_none} | undefined;", interface_name(below));
    }
}

/// Range, unit and default in JavaScript's terms.
fn limits_and_default(key: &Key, required: &[Required]) -> String {
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
        Domain::Statuses
        | Domain::Words(_)
        | Domain::KindWords(_)
        | Domain::Kinds
        | Domain::Limits
        | Domain::Shares => values(key),
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

/// The type of a key's values, with the words that lists may contain.
fn typed(key: &Key) -> String {
    match key.domain {
        Domain::Words(_) => "readonly Method[]".into(),
        Domain::KindWords(words) => {
            let name = if words.len() == words_for_kinds().len() { "AnyFailure" } else { "Failure" };
            format!("readonly ({name} | Declared<K>)[]")
        }
        Domain::Kinds => "Readonly<Record<K, Base>>".into(),
        _ => kind(key),
    }
}

/// The type of a key's values, as the reference shows it.
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
        Domain::Words(_) | Domain::KindWords(_) | Domain::Limits | Domain::Shares => {
            "readonly string[]".into()
        }
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
