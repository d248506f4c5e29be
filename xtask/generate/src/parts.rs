//! The lone parts, described once: what they are made of, what they do, and what people have to know of them.
//!
//! The description is `parts/*.txt`, a file for each group. From it come the wrappers of all languages. What a language does in a
//! way of its own stands in `parts/own/`, by part.

mod kotlin;
mod languages;
mod native;
mod python;
mod read;
mod swift;
mod typescript;
mod wasm;

use std::fmt::Write as _;

/// The generated files, by path from the root of the repository.
pub fn files() -> Vec<(String, String)> {
    let parts = read::parts();
    let by_group = GROUPS.iter().flat_map(|(group, _)| {
        let parts: Vec<_> = parts.iter().filter(|part| part.group == *group).collect();
        [
            native::pyo3(group, &parts),
            native::uniffi(group, &parts),
            python::file(group, &parts),
            kotlin::file(group, &parts),
            swift::file(group, &parts),
            wasm::file(group, &parts),
            typescript::file(group, &parts),
        ]
    });
    by_group.chain([wasm::exports(&parts)]).collect()
}

/// The files of a language, each of several parts, and their descriptions. Not of the retry strategy: its wrappers are by hand.
const GROUPS: [(&str, &str); 6] = [
    ("breaker", include_str!("parts/breaker.txt")),
    ("budgets", include_str!("parts/budgets.txt")),
    ("delay", include_str!("parts/delay.txt")),
    ("limit", include_str!("parts/limit.txt")),
    ("quantile", include_str!("parts/quantile.txt")),
    ("rate", include_str!("parts/rate.txt")),
];

/// A part.
#[derive(Default)]
pub struct Part {
    pub group: &'static str,
    pub name: &'static str,
    /// The method of a policy that gives core's settings; empty where there are none.
    pub settings: &'static str,
    /// The table of a policy whose keys the settings are.
    pub table: &'static str,
    /// Keys that make the settings those of this part, and their values.
    pub fixed: Vec<(&'static str, &'static str)>,
    pub keys: Vec<Setting>,
    /// What a new one needs beside its settings.
    pub beside: Vec<Arg>,
    /// What its draws are for, where it draws.
    pub draws: Option<&'static str>,
    pub doc: &'static str,
    /// Examples.
    pub python: &'static str,
    pub kotlin: &'static str,
    pub swift: &'static str,
    pub typescript: &'static str,
    /// The names of its settings, and of these with a seed, in TypeScript.
    pub named: Vec<&'static str>,
    pub methods: Vec<Method>,
    /// What a change of settings keeps, and whether it needs the time; empty where there is none.
    pub retune: (&'static str, bool),
}

/// A key of a policy that is one of a part's settings.
pub struct Setting {
    pub name: &'static str,
    pub needed: bool,
    /// What it means, where the table of keys says it for several parts.
    pub doc: &'static str,
}

/// An argument: its kind is one that the languages' table has a row for.
///
/// `hot` is a whole number that is looked at only when it was refused, so that nothing is spent on it where time counts; `bits` are 64
/// random bits, or the part's own draw; `lease` is a span that a probe keeps its place for, or none.
#[derive(Clone)]
pub struct Arg {
    pub name: &'static str,
    pub kind: &'static str,
    /// Its range, where it has one: of a whole number the greatest is told in bits.
    pub least: &'static str,
    pub most: &'static str,
    pub default: &'static str,
    pub doc: &'static str,
}

pub struct Method {
    pub name: &'static str,
    pub args: Vec<Arg>,
    /// What it answers: `done` is whether a `Result` is good, `taken` the wait that an attempt to take has brought, `wait` may be for ever.
    pub ret: &'static str,
    pub doc: &'static str,
    /// Is it a property where a language has such?
    pub property: bool,
    /// Core's method and the order of its arguments, where they are others.
    pub core: &'static str,
    /// Swift's name and labels, where they are others.
    pub swift: &'static str,
    /// Is its Rust in `own`?
    pub own: bool,
}

impl Part {
    /// What a change of settings needs beside them.
    pub fn retuned(&self) -> Vec<Arg> {
        let lease = self.beside.iter().filter(|arg| arg.kind == "lease").cloned();
        lease.chain(self.retune.1.then(now)).collect()
    }

    /// uniffi's name for it in Swift.
    pub fn foreign(&self) -> &'static str {
        if self.name == "DDSketch" { "DdSketch" } else { self.name }
    }

    /// The type of its settings in Kotlin and Swift.
    pub fn options(&self) -> String {
        type_name(self.table.rsplit('.').next().unwrap_or_default())
    }

    pub fn summary(&self) -> &'static str {
        paragraphs(self.doc)[0]
    }
}

pub fn now() -> Arg {
    Arg { name: "now", kind: "moment", least: "", most: "", default: "", doc: "" }
}

/// The paragraphs of a text, between empty lines.
pub fn paragraphs(text: &'static str) -> Vec<&'static str> {
    text.trim().split("\n\n").collect()
}

/// What a language does in a way of its own: the lines below `== <what>` up to the next of them.
pub fn own(file: &'static str, what: &str) -> &'static str {
    let head = format!("== {what}\n");
    file.split_once(head.as_str())
        .map_or("", |(_, rest)| rest.split("\n== ").next().unwrap_or_default())
        .trim_end()
}

/// `max_attempts` as most languages have it: `maxAttempts`.
pub fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// `rate_limit` as a type's name: `RateLimit`.
pub fn type_name(name: &str) -> String {
    name.split('_')
        .filter(|word| !word.is_empty())
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}

/// A text whose keys are in camel case.
pub fn translated(text: &str) -> String {
    let mut text = text.to_owned();
    let names = tidegate::TABLE.iter().map(|key| key.path.rsplit('.').next().unwrap_or_default());
    let mut names: Vec<_> = names.filter(|name| name.contains('_')).collect();
    // No name is taken for a part of a longer one.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    for name in names {
        text = text.replace(name, &camel(name));
    }
    text
}

/// Words in lines of at most `width` characters behind an indent.
pub fn wrapped(words: &str, width: usize, first: &str, rest: &str) -> String {
    let (mut text, mut line, mut empty) = (String::new(), first.to_owned(), true);
    for word in words.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            text += line.trim_end();
            text.push('\n');
            (line, empty) = (rest.to_owned(), true);
        }
        if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    text + line.trim_end() + "\n"
}

/// Lines behind an indent.
pub fn indented(lines: &str, indent: &str) -> String {
    let line = |line: &str| if line.is_empty() { "\n".into() } else { format!("{indent}{line}\n") };
    lines.trim_matches('\n').lines().map(line).collect()
}

/// A comment of these paragraphs, on one line where it fits. Those with a mark stand together, and an example stays as it is.
pub fn comment(text: &mut String, indent: &str, width: usize, doc: &[String]) {
    if let [one] = doc
        && indent.len() + one.chars().count() + 7 <= width
    {
        let _ = writeln!(text, "{indent}/** {one} */");
        return;
    }
    let start = format!("{indent} * ");
    let _ = writeln!(text, "{indent}/**");
    for (place, paragraph) in doc.iter().enumerate() {
        if place > 0 && !(doc[place - 1].starts_with('@') && paragraph.starts_with('@')) {
            let _ = writeln!(text, "{indent} *");
        }
        let verbatim = paragraph.starts_with("@example") || paragraph.starts_with("```");
        *text +=
            &if verbatim { indented(paragraph, &start) } else { wrapped(paragraph, width, &start, &start) };
    }
    let _ = writeln!(text, "{indent} */");
}

/// A value of a setting: a number, or a word.
pub fn literal(value: &str) -> String {
    if value.parse::<u32>().is_ok() { value.into() } else { format!("\"{value}\"") }
}
