//! The lone parts, described once: their settings, their methods, and their documentation.
//!
//! The descriptions are `parts/*.txt`, one file for each group. The wrappers of all languages are generated from them. Code that one
//! language needs in its own form is in `parts/own/`, by part.

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

/// The files of a language, each with several parts, and their descriptions. The retry strategy's wrappers are hand-written.
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
    /// The method of a policy that returns core's settings; empty if the part has none.
    pub settings: &'static str,
    /// The table of a policy whose keys are the settings.
    pub table: &'static str,
    /// Keys with fixed values that select this part's settings.
    pub fixed: Vec<(&'static str, &'static str)>,
    pub keys: Vec<Setting>,
    /// Arguments of the constructor beside the settings.
    pub beside: Vec<Arg>,
    /// The purpose of the part's random draws, if it makes any.
    pub draws: Option<&'static str>,
    pub doc: &'static str,
    /// Examples.
    pub python: &'static str,
    pub kotlin: &'static str,
    pub swift: &'static str,
    pub typescript: &'static str,
    /// TypeScript's names of its settings, and of its settings with a seed.
    pub named: Vec<&'static str>,
    pub methods: Vec<Method>,
    /// The state that a change of settings keeps, and whether the change needs the time; empty if settings cannot be changed.
    pub retune: (&'static str, bool),
}

/// A key of a policy that is one of a part's settings.
pub struct Setting {
    pub name: &'static str,
    pub needed: bool,
    /// The setting's meaning, if the table of keys describes it for several parts.
    pub doc: &'static str,
}

/// An argument. Its kind must have a row in the languages' table.
///
/// `hot` is a whole number that is validated only after core refused it, so that it costs nothing on fast paths; `bits` are 64 random
/// bits, or the part's own draw; `lease` is the optional span for which a probe keeps its place.
#[derive(Clone)]
pub struct Arg {
    pub name: &'static str,
    pub kind: &'static str,
    /// The range, if it has one; for a whole number the maximum is given in bits.
    pub least: &'static str,
    pub most: &'static str,
    pub default: &'static str,
    pub doc: &'static str,
}

pub struct Method {
    pub name: &'static str,
    pub args: Vec<Arg>,
    /// The kind of the result: `done` is whether a `Result` is good, `taken` the wait after an attempt to take, `wait` may be infinite.
    pub ret: &'static str,
    pub doc: &'static str,
    /// Whether it is a property in languages that have properties.
    pub property: bool,
    /// Core's method and the order of its arguments, if they differ.
    pub core: &'static str,
    /// Swift's name and labels, if they differ.
    pub swift: &'static str,
    /// Whether its Rust code is in `own`.
    pub own: bool,
}

impl Part {
    /// The arguments of a change of settings, beside the settings.
    pub fn retuned(&self) -> Vec<Arg> {
        let lease = self.beside.iter().filter(|arg| arg.kind == "lease").cloned();
        lease.chain(self.retune.1.then(now)).collect()
    }

    /// uniffi's name for the part in Swift.
    pub fn foreign(&self) -> &'static str {
        if self.name == "DDSketch" { "DdSketch" } else { self.name }
    }

    /// The type of the part's settings in Kotlin and Swift.
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

/// The paragraphs of a text, which empty lines separate.
pub fn paragraphs(text: &'static str) -> Vec<&'static str> {
    text.trim().split("\n\n").collect()
}

/// A language's own code for one item: the lines from `== <what>` to the next such heading.
pub fn own(file: &'static str, what: &str) -> &'static str {
    let head = format!("== {what}\n");
    file.split_once(head.as_str())
        .map_or("", |(_, rest)| rest.split("\n== ").next().unwrap_or_default())
        .trim_end()
}

/// The name in most languages: `max_attempts` becomes `maxAttempts`.
pub fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// The name of a type: `rate_limit` becomes `RateLimit`.
pub fn type_name(name: &str) -> String {
    name.split('_')
        .filter(|word| !word.is_empty())
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}

/// A text with its keys in camel case.
pub fn translated(text: &str) -> String {
    let mut text = text.to_owned();
    let names = tidegate::TABLE.iter().map(|key| key.path.rsplit('.').next().unwrap_or_default());
    let mut names: Vec<_> = names.filter(|name| name.contains('_')).collect();
    // Longer names first, so that no name is replaced within a longer one.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    for name in names {
        text = text.replace(name, &camel(name));
    }
    text
}

/// Wraps words in lines of at most `width` characters behind an indent.
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

/// Puts an indent before each line.
pub fn indented(lines: &str, indent: &str) -> String {
    let line = |line: &str| if line.is_empty() { "\n".into() } else { format!("{indent}{line}\n") };
    lines.trim_matches('\n').lines().map(line).collect()
}

/// Writes a comment of these paragraphs, on one line if it fits. No empty line separates tags, and examples stay unchanged.
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

/// The value of a setting as code: a number or a word.
pub fn literal(value: &str) -> String {
    if value.parse::<u32>().is_ok() { value.into() } else { format!("\"{value}\"") }
}
