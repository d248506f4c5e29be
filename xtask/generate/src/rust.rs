//! The typed settings of the Rust host: a builder for each table of a policy, and an enum for each choice.
//!
//! The builder of a table with required keys takes them in its constructors, so that a breaker without a trip condition does not
//! compile.

use std::fmt::Write;

use tidegate::{Domain, Key, TABLE, TABLES, Value};

use crate::facts::{
    Reason, Required, default_key, keys_of, name_of, presence, preset_sets, required, table_of, tables_of,
    values, when_absent,
};

const WIDTH: usize = 130;
/// Separates the calls of a chain.
const BETWEEN: &str = "\n            ";

const HEAD: &str = "\
// Generated from core/src/policy/components by `cargo xtask generate`; do not edit.

//! What a policy is made of: a builder for each component, and an enum for each choice.

use std::time::Duration;

use crate::builder::{Bound, Builder, Pairs, Setting};
";

/// The generated module.
pub fn text() -> String {
    let required = required();
    let mut text = HEAD.to_owned();
    let mut known: Vec<String> = Vec::new();
    for key in TABLE {
        if let Domain::Choice(words) = key.domain
            && !is_kind(key)
            && !known.contains(&choice_name(key))
        {
            known.push(choice_name(key));
            choice(&mut text, &choice_name(key), words);
        }
    }
    for (path, about) in TABLES {
        component(&mut text, path, about, &required);
    }
    text.push_str("\nimpl Builder {\n");
    members(&mut text, "", &required);
    text.push_str("}\n");
    presences(&mut text);
    text
}

/// Writes the table of pairs that enable a component without any key.
fn presences(text: &mut String) {
    *text += "\n/// By component: the pair that enables it where no other key of it is set.\n";
    *text += "pub(crate) const PRESENT: &[(&str, &str, Present)] = &[\n";
    for (path, _) in TABLES {
        let Some((key, value)) = presence(path) else { continue };
        let _ = match value {
            Value::Number(number) => {
                writeln!(text, "    (\"{path}\", \"{key}\", Present::Number({number:?})),")
            }
            Value::Text(word) => writeln!(text, "    (\"{path}\", \"{key}\", Present::Word(\"{word}\")),"),
        };
    }
    *text += "];\n\n/// The value of such a pair.\n#[derive(Clone, Copy, Debug)]\npub(crate) enum Present {\n    Number(f64),\n    \
              Word(&'static str),\n}\n";
}

/// Whether the key selects the kind of its table. Each kind has a constructor.
pub fn is_kind(key: &Key) -> bool {
    !table_of(key.path).is_empty() && name_of(key.path) == "kind"
}

pub fn pascal(name: &str) -> String {
    let words = name.split(['_', '.']).filter(|word| !word.is_empty());
    words.map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// The type of a table: `Budget` for `retry.budget`. A later table of the same name is prefixed with its parent's name, as
/// `HedgeBudget`.
pub fn class_name(path: &str) -> String {
    let first = TABLES.iter().find(|(other, _)| name_of(other) == name_of(path));
    pascal(if first.is_some_and(|(other, _)| *other == path) { name_of(path) } else { path })
}

/// The name of the enum. Choices of the same name have the same words, so they share an enum.
pub fn choice_name(key: &Key) -> String {
    match name_of(key.path) {
        "store" | "latency_store" => "StateOf".into(),
        "variant" => "GradientVariant".into(),
        "codel" => "CodelVariant".into(),
        name => pascal(name),
    }
}

fn choice(text: &mut String, name: &str, words: &[&str]) {
    let of: Vec<String> = TABLE
        .iter()
        .filter(|key| matches!(key.domain, Domain::Choice(_)) && !is_kind(key) && choice_name(key) == name)
        .map(|key| format!("`{}`", key.path))
        .collect();
    text.push('\n');
    doc(text, "", &format!("A value of {}.", of.join(", ")));
    let _ = writeln!(
        text,
        "#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]\n#[non_exhaustive]\npub enum {name} {{"
    );
    for word in words {
        let _ = writeln!(text, "    /// `{word}`.\n    {},", pascal(word));
    }
    let _ = writeln!(
        text,
        "}}\n\nimpl {name} {{\n    /// Its word in a policy document.\n    #[must_use]\n    pub const fn word(self) -> &'static str {{\n        match self {{"
    );
    for word in words {
        let _ = writeln!(text, "            Self::{} => \"{word}\",", pascal(word));
    }
    let _ = writeln!(
        text,
        "        }}\n    }}\n}}\n\nimpl From<{name}> for Setting {{\n    fn from(value: {name}) -> Self {{\n        value.word().into()\n    }}\n}}"
    );
}

/// A constructor of a component: its name, the keys that it sets itself, and the keys that it takes.
struct Way {
    name: String,
    about: String,
    sets: Option<(&'static str, &'static str)>,
    takes: Vec<&'static Key>,
}

fn find(path: &str) -> &'static Key {
    TABLE.iter().find(|key| key.path == path).expect("a key of the table")
}

/// The keys of a table that are required for this reason, and the keys that these require.
fn needed(table: &str, by: Option<Reason>, required: &[Required]) -> Vec<&'static Key> {
    let mut found: Vec<&'static Key> = Vec::new();
    // A key that is required only with some values of another is left to its own method.
    let always = |rule: &&Required| table_of(rule.path) == table && rule.by == by && rule.unless.is_none();
    for rule in required.iter().filter(always) {
        let beside = |rule: &&Required| match rule.instead {
            Some(other) => name_of(other) == "pool",
            None => true,
        };
        if beside(&rule) && found.iter().all(|key| key.path != rule.path) {
            found.push(find(rule.path));
        }
    }
    found
}

fn ways(table: &'static str, required: &[Required]) -> Vec<Way> {
    let always = needed(table, None, required);
    let always_none =
        always.is_empty() && required.iter().all(|rule| table_of(rule.path) != table || rule.by.is_some());
    let mut ways = Vec::new();
    let kind = keys_of(table).find(|key| is_kind(key));
    let either = required.iter().find(|rule| {
        table_of(rule.path) == table
            && rule.by.is_none()
            && rule.instead.is_some_and(|key| name_of(key) != "pool")
    });
    if let Some(kind) = kind
        && let Domain::Choice(words) = kind.domain
    {
        for word in words {
            let more = needed(table, Some(Reason::Choice(kind.path, word)), required);
            let takes = always.iter().chain(&more).copied().collect();
            let clash = keys_of(table).any(|key| name_of(key.path) == *word);
            let name = if clash { format!("by_{word}") } else { (*word).to_owned() };
            ways.push(Way {
                name,
                about: format!("One of kind `{word}`."),
                sets: Some((kind.path, word)),
                takes,
            });
        }
    } else if let Some(either) = either {
        for path in [either.path, either.instead.unwrap_or_default()] {
            let mut takes = vec![find(path)];
            takes.extend(needed(table, Some(Reason::Beside(path)), required));
            takes.extend(always.iter().copied());
            let about = format!("One that `{}` triggers.", name_of(path));
            ways.push(Way { name: format!("by_{}", name_of(path)), about, sets: None, takes });
        }
    } else {
        ways.push(Way {
            name: "new".into(),
            about: "The given settings, and defaults for the rest.".into(),
            sets: None,
            takes: always,
        });
    }
    if let Some(pool) = keys_of(table).find(|key| matches!(key.domain, Domain::Name)) {
        let about = "A pool of the engine, which policies share, by its name.".into();
        ways.push(Way { name: "in_pool".into(), about, sets: None, takes: vec![pool] });
    }
    if ways.iter().all(|way| way.name != "new") && (preset_sets(table) || always_none) {
        let (name, about) = if always_none {
            ("new", "The preset's settings, or the defaults. Methods change them.")
        } else {
            ("preset", "The preset's settings. Methods change them.")
        };
        ways.push(Way { name: name.into(), about: about.into(), sets: None, takes: Vec::new() });
    }
    ways
}

fn component(text: &mut String, path: &'static str, about: &str, required: &[Required]) {
    let name = class_name(path);
    text.push('\n');
    doc(text, "", &format!("`{path}`: {about}"));
    let _ = writeln!(
        text,
        "#[derive(Clone, PartialEq, Debug)]\n#[must_use = \"it does nothing until a policy's builder has it\"]\npub struct {name} {{\n    pub(crate) pairs: Pairs,\n}}\n\nimpl {name} {{"
    );
    let ways = ways(path, required);
    for way in &ways {
        doc(text, "    ", &way.about);
        let takes: Vec<String> =
            way.takes.iter().map(|key| format!("{}: {}", name_of(key.path), argument(key).0)).collect();
        let constant = if takes.is_empty() && way.sets.is_none() { "const " } else { "" };
        let _ = writeln!(text, "    pub {constant}fn {}({}) -> Self {{", way.name, takes.join(", "));
        let mut body = "Self { pairs: Pairs::new() }".to_owned();
        if let Some((key, word)) = way.sets {
            let _ = write!(body, "{BETWEEN}.set(\"{key}\", \"{word}\")");
        }
        for key in &way.takes {
            let argument = argument(key).1.replace("value", name_of(key.path));
            let _ = write!(body, "{BETWEEN}.set(\"{}\", {argument})", key.path);
        }
        let _ = writeln!(text, "        {body}\n    }}\n");
    }
    text.push_str("    fn set(mut self, key: &'static str, value: impl Into<Setting>) -> Self {\n        self.pairs.set(key, value);\n        self\n    }\n\n");
    members(text, path, required);
    text.push_str("}\n");
    if ways.iter().any(|way| way.name == "new" && way.takes.is_empty()) {
        let _ = writeln!(
            text,
            "\nimpl Default for {name} {{\n    fn default() -> Self {{\n        Self::new()\n    }}\n}}"
        );
    }
}

fn members(text: &mut String, path: &str, required: &[Required]) {
    for key in keys_of(path).filter(|key| !is_kind(key)) {
        method(text, key, required);
    }
    for (below, about) in tables_of(path) {
        let (name, class) = (name_of(below), class_name(below));
        doc(text, "    ", &format!("`{below}`: {about}"));
        let put = if path.is_empty() { "component" } else { "within" };
        if path.is_empty() {
            let _ = writeln!(
                text,
                "    pub fn {name}(self, {name}: {class}) -> Self {{\n        self.{put}(\"{below}\", {name}.pairs)\n    }}\n"
            );
        } else {
            let _ = writeln!(
                text,
                "    pub fn {name}(mut self, {name}: {class}) -> Self {{\n        self.pairs.{put}({name}.pairs);\n        self\n    }}\n"
            );
        }
    }
    if text.ends_with("\n\n") {
        text.pop();
    }
}

/// The type of a key's value, and the code that makes a setting from `value`.
pub fn argument(key: &Key) -> (String, String) {
    let bound = |none: bool, kind: &str| {
        if none {
            (format!("impl Into<Bound<{kind}>>"), "value.into()".to_owned())
        } else {
            (kind.to_owned(), "value".to_owned())
        }
    };
    match key.domain {
        Domain::Span { none, .. } => bound(none, "Duration"),
        Domain::Count { none, .. } => bound(none, "u32"),
        Domain::Real { none, .. } => bound(none, "f64"),
        Domain::Flag => bound(false, "bool"),
        Domain::Choice(_) => bound(false, &choice_name(key)),
        Domain::Name => bound(false, "&str"),
        Domain::Statuses => bound(false, "u16"),
        Domain::Words(_) | Domain::KindWords(_) | Domain::Kinds => bound(false, "&'static str"),
        // Names and numbers that a program may know only when it runs.
        Domain::Limits | Domain::Shares => {
            ("impl Into<String>".to_owned(), "Setting::Word(value.into())".to_owned())
        }
    }
}

fn method(text: &mut String, key: &Key, required: &[Required]) {
    let absent = match default_key(key) {
        Some(other) => format!("that of `{}`", other.path),
        None => match key.default {
            "" => when_absent(key, required),
            default => default.split(' ').map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" "),
        },
    };
    doc(text, "    ", &format!("`{}`: {}", key.path, key.doc.replace('[', "\\\\[")));
    text.push_str("    ///\n");
    let mut range = format!("{}; default: {absent}.", values(key));
    range[..1].make_ascii_uppercase();
    doc(text, "    ", &range);
    let (path, name) = (key.path, name_of(key.path));
    let (kind, value) = argument(key);
    let list = key.domain.is_list();
    if list {
        let _ = writeln!(
            text,
            "    pub fn {name}(self, values: impl IntoIterator<Item = {kind}>) -> Self {{\n        values.into_iter().fold(self, \
             |it, value| it.set(\"{path}\", {value}))\n    }}\n"
        );
    } else if value == "value" {
        let _ = writeln!(
            text,
            "    pub fn {name}(self, value: {kind}) -> Self {{\n        self.set(\"{path}\", value)\n    }}\n"
        );
    } else {
        let bound = kind.trim_start_matches("impl Into<").trim_end_matches('>').to_owned() + ">";
        let _ = writeln!(
            text,
            "    pub fn {name}(self, value: {kind}) -> Self {{\n        let value: {bound} = value.into();\n        \
             self.set(\"{path}\", value)\n    }}\n"
        );
    }
}

fn doc(text: &mut String, indent: &str, words: &str) {
    let mut line = format!("{indent}///");
    let mut in_code = false;
    for word in words.split(' ') {
        let starts_in_code = in_code;
        in_code ^= word.matches('`').count() % 2 == 1;
        let word = if starts_in_code { word.into() } else { quoted(word) };
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = format!("{indent}///");
        }
        line.push(' ');
        line += &word;
    }
    let _ = writeln!(text, "{line}");
}

/// Puts names of keys and choices in backticks, for rustdoc.
fn quoted(word: &str) -> String {
    let name = word.trim_end_matches(['.', ',', ';', ':', ')']);
    let code = name.contains('_') || name == "(CoDel";
    if !code || name.contains('`') || name == "_" {
        return word.into();
    }
    let inner = name.trim_start_matches('(');
    format!("{}`{inner}`{}", &name[..name.len() - inner.len()], &word[name.len()..])
}

/// The constructors of a component, as they are called.
pub fn constructors(table: &'static str, required: &[Required]) -> Vec<String> {
    let call = |way: &Way| {
        let takes: Vec<&str> = way.takes.iter().map(|key| name_of(key.path)).collect();
        format!("{}::{}({})", class_name(table), way.name, takes.join(", "))
    };
    ways(table, required).iter().map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R11: keys were texts, and a breaker without a window failed at run time only.
    #[test]
    fn a_component_takes_the_keys_that_it_needs_where_it_is_made() {
        let required = required();
        assert_eq!(
            constructors("breaker", &required),
            [
                "Breaker::by_failure_ratio(failure_ratio, window, min_throughput, break_duration)",
                "Breaker::by_consecutive(consecutive, break_duration)"
            ]
        );
        assert_eq!(constructors("rate_limit", &required)[0], "RateLimit::new(permits, per)");
        let text = text();
        for (typed, untyped) in
            [("value: Preset", "preset(self, value: &str"), ("value: StateOf", "store(self, value: &str")]
        {
            assert!(text.contains(typed) && !text.contains(untyped), "{untyped}");
        }
    }
}
