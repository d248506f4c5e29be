//! The reference pages of the languages: the options of a policy with each language's names, types, units and defaults.

use std::fmt::Write;

use tidegate::{Domain, Duration, Key, TABLE, TABLES};

use crate::facts::{
    Required, default_key, doc_of, keys_of, name_of, required, tables_of, values, when_absent,
};
use crate::python::{grouped, micros};
use crate::typescript::camel;
use crate::{kotlin, python, rust, swift, typescript};

#[derive(Clone, Copy, PartialEq)]
enum Language {
    Python,
    JavaScript,
    Kotlin,
    Swift,
    Rust,
}

use Language::{JavaScript, Kotlin, Python, Rust, Swift};

/// The pages with their paths.
pub fn files() -> [(&'static str, String); 5] {
    [
        ("docs/reference/python.md", text(Python)),
        ("docs/reference/javascript.md", text(JavaScript)),
        ("docs/reference/kotlin.md", text(Kotlin)),
        ("docs/reference/swift.md", text(Swift)),
        ("docs/reference/rust.md", text(Rust)),
    ]
}

fn text(language: Language) -> String {
    let required = required();
    let mut page =
        "<!-- Generated from core/src/policy/components by `cargo xtask generate`; do not edit. -->\n\n"
            .to_owned();
    page += language.head();
    table(&mut page, language, "", &required);
    for (path, _) in TABLES {
        table(&mut page, language, path, &required);
    }
    page
}

fn table(page: &mut String, language: Language, path: &'static str, required: &[Required]) {
    if path.is_empty() {
        *page += "\n## The policy itself\n\nIts components are the sections below.\n";
    } else {
        let name = language.path(path);
        let of = language.class(path).map_or(String::new(), |class| format!(": `{class}`"));
        let _ = write!(page, "\n## `{name}`{of}\n\n{}", language.words(doc_of(path), None));
        let below: Vec<_> =
            tables_of(path).map(|(below, _)| format!("`{}`", language.name(name_of(below)))).collect();
        if !below.is_empty() {
            let _ = write!(page, " It contains {}, described below.", below.join(" and "));
        }
        *page += "\n";
        if language == Rust {
            let ways: Vec<_> =
                rust::constructors(path, required).iter().map(|way| format!("`{way}`")).collect();
            let _ = write!(page, "\nMade by {}.\n", ways.join(", "));
        }
    }
    *page += "\n| Option | Type | Default | Meaning |\n|---|---|---|---|\n";
    for key in keys_of(path).filter(|key| language != Rust || !rust::is_kind(key)) {
        let about = format!("{} {}", language.words(key.doc, Some(key)), language.range(key));
        let (name, kind) = (language.name(name_of(key.path)), language.kind(key));
        let default = language.default(key, required);
        let _ = writeln!(page, "| `{name}` | {kind} | {default} | {} |", about.trim_end());
    }
}

impl Language {
    fn head(self) -> &'static str {
        match self {
            Python => {
                "\
# Policy options in Python

The arguments of `tidegate.Policy(name, …)` and of its components. A component is an object (`retry=tidegate.Retry(max_attempts=4)`) or a dict of
its options (`retry={\"max_attempts\": 4}`); the empty dict is a component with its defaults. Time is a number of seconds or a `timedelta`. A mistake
raises one `PolicyError` that lists all mistakes. The [presets](../reference.md#presets) and [policy documents](../reference.md) are the same in every
language; [the guide](../python.md) shows the options at work.
"
            }
            JavaScript => {
                "\
# Policy options in JavaScript and TypeScript

The options of `policy({ … })` and of its components, which are objects; the empty object is a component with its defaults. Time is a number of
milliseconds. A mistake throws one `PolicyError` that lists all mistakes. The [presets](../reference.md#presets) and [policy documents](../reference.md)
are the same in every language; [the guide](../javascript.md) shows the options at work.
"
            }
            Kotlin => {
                "\
# Policy options in Kotlin

The properties of `policy(\"name\") { … }` and of its blocks, such as `retry { maxAttempts = 4 }`; an empty block is a component with its defaults.
Time is a `kotlin.time.Duration`; from Java there is a setter with a `java.time.Duration` beside each. A mistake throws one `PolicyException` that
lists all mistakes. The [presets](../reference.md#presets) and [policy documents](../reference.md) are the same in every language;
[the guide](../kotlin.md) shows the options at work.
"
            }
            Swift => {
                "\
# Policy options in Swift

The arguments of `Policy(\"name\", …)` and of its components, such as `retry: Retry(maxAttempts: 4)`; a component without arguments has its defaults.
Time is a `Duration`. A choice that is called `none` in documents is `.off` here, because `.none` of an optional means an option that is left out. A
mistake throws one `PolicyError` that lists all mistakes. The [presets](../reference.md#presets) and [policy documents](../reference.md) are the same in
every language; [the guide](../swift.md) shows the options at work. Swift has no fleet: options with `.fleet` are refused.
"
            }
            Rust => {
                "\
# Policy options in Rust

The methods of `Policy::builder(\"name\")` and of the components in `tidegate_tokio::settings`. Constructors take what a component cannot do without; the
methods below change the rest, as in `Retry::new().max_attempts(4)`. Time is a `std::time::Duration`. A mistake in a value is an error that lists all
mistakes. The [presets](../reference.md#presets) and [policy documents](../reference.md) are the same in every language; [the guide](../rust.md) shows
the options at work.
"
            }
        }
    }

    fn name(self, name: &str) -> String {
        match self {
            Python | Rust => name.into(),
            _ => camel(name),
        }
    }

    fn path(self, path: &str) -> String {
        path.split('.').map(|name| self.name(name)).collect::<Vec<_>>().join(".")
    }

    /// The type of a component, where users write it.
    fn class(self, path: &str) -> Option<String> {
        match self {
            Python => Some(format!("tidegate.{}", python::class_name(path))),
            Swift => Some(swift::struct_name(path)),
            Rust => Some(rust::class_name(path)),
            JavaScript | Kotlin => None,
        }
    }

    fn kind(self, key: &Key) -> String {
        let number = |none: bool, of: &str, or: &str| if none { format!("{of}{or}") } else { of.to_owned() };
        let kind = match (self, key.domain) {
            (Python, Domain::Span { none, .. }) => number(none, "float | timedelta", " | None"),
            (Python, Domain::Choice(_)) => "str".into(),
            (Python, Domain::Name) => "str | Pool".into(),
            (Python, Domain::Kinds) => "Mapping[str, str]".into(),
            (Python, _) => python::kind_of(key),
            (JavaScript, Domain::Choice(_)) => "string".into(),
            (JavaScript, Domain::Name) => "string | Pool".into(),
            (JavaScript, Domain::Kinds) => "Record<string, string>".into(),
            (JavaScript, _) => typescript::kind(key),
            (Kotlin, _) => kotlin::kind(key).0,
            (Swift, Domain::Choice(_)) if key.path.contains('.') => {
                let (table, name) = key.path.rsplit_once('.').unwrap_or_default();
                format!("{}.{}", swift::struct_name(table), swift::type_name(name))
            }
            (Swift, _) => swift::kind(key),
            (Rust, _) if key.domain.is_list() => format!("IntoIterator<{}>", rust::argument(key).0),
            (Rust, _) => rust::argument(key).0,
        };
        kind.split(" | ").map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ")
    }

    /// A word of a choice.
    fn word(self, key: &Key, word: &str) -> String {
        match self {
            Python | JavaScript => format!("\"{word}\""),
            Kotlin => word.to_uppercase(),
            Swift => format!(".{}", swift::case(word)),
            Rust => format!("{}::{}", rust::choice_name(key), rust::pascal(word)),
        }
    }

    fn span(self, span: Duration) -> String {
        let micros = span.as_micros();
        let (number, short, long) = match micros {
            0 => (0, "seconds", "secs"),
            _ if micros.is_multiple_of(1_000_000) => (micros / 1_000_000, "seconds", "secs"),
            _ if micros.is_multiple_of(1_000) => (micros / 1_000, "milliseconds", "millis"),
            _ => (micros, "microseconds", "micros"),
        };
        match self {
            Python if micros > 0 && micros < 100 => format!("{micros}e-6"),
            Python => (micros as f64 / 1e6).to_string(),
            JavaScript => (micros as f64 / 1e3).to_string(),
            Kotlin => format!("{number}.{short}"),
            Swift => format!(".{short}({number})"),
            Rust => format!("Duration::from_{long}({number})"),
        }
    }

    /// What says that there is no bound.
    fn unbounded(self) -> &'static str {
        match self {
            Python | Rust => "`None`",
            JavaScript | Kotlin => "`null`",
            Swift => "`.unbounded`",
        }
    }

    fn default(self, key: &Key, required: &[Required]) -> String {
        if let Some(other) = default_key(key) {
            return format!("that of `{}`", self.path(other.path));
        }
        let words = key.default.split(' ');
        let list = |words: Vec<String>| {
            let (open, close) = match self {
                Kotlin => ("listOf(", ")"),
                _ => ("[", "]"),
            };
            format!("`{open}{}{close}`", words.join(", "))
        };
        match key.domain {
            _ if key.default.is_empty() => self.words(&when_absent(key, required), None),
            Domain::Span { .. } => format!("`{}`", self.span(micros(key.default))),
            Domain::Choice(_) => format!("`{}`", self.word(key, key.default)),
            Domain::Flag if self == Python => {
                format!("`{}`", if key.default == "true" { "True" } else { "False" })
            }
            Domain::Statuses => list(words.map(str::to_owned).collect()),
            _ if key.domain.is_list() => list(words.map(|word| format!("\"{word}\"")).collect()),
            _ => format!("`{}`", key.default),
        }
    }

    /// The values that the option can have, as a sentence.
    fn range(self, key: &Key) -> String {
        let or = |none: bool| {
            if none { format!(", or {} for no bound", self.unbounded()) } else { String::new() }
        };
        match key.domain {
            Domain::Span { min, none, .. } if min == Duration::ZERO => {
                format!("At most 365 days{}.", or(none))
            }
            Domain::Span { min, none, .. } => {
                format!("From `{}` to 365 days{}.", self.span(min), or(none))
            }
            Domain::Count { min, max, none } => {
                format!("From {} to {}{}.", grouped(min), grouped(max), or(none))
            }
            Domain::Real { min, max, none } if max >= 1e6 => format!("At least {min}{}.", or(none)),
            Domain::Real { min, max, none } => format!("From {min} to {max}{}.", or(none)),
            Domain::Choice(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("`{}`", self.word(key, word))).collect();
                format!("One of {}.", words.join(", "))
            }
            Domain::KindWords(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
                format!("Some of {}, or names declared in `kinds`.", words.join(", "))
            }
            Domain::Words(words) => format!("Some of {}.", words.join(", ")),
            Domain::Flag | Domain::Name => String::new(),
            Domain::Statuses | Domain::Kinds | Domain::Limits | Domain::Shares => {
                let mut values = self.words(&values(key), None);
                values[..1].make_ascii_uppercase();
                values + "."
            }
        }
    }

    /// A sentence of the table with the language's names: names of keys, and of the key's own choices.
    fn words(self, sentence: &str, key: Option<&Key>) -> String {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let choices = match key.map(|key| key.domain) {
            Some(Domain::Choice(words)) => words,
            _ => &[],
        };
        let (mut text, mut rest) = (String::new(), sentence);
        while let Some(start) = rest.find(is_word) {
            let end = rest[start..].find(|c| !is_word(c)).map_or(rest.len(), |length| start + length);
            let word = &rest[start..end];
            text += &rest[..start];
            let quoted = text.matches('`').count() % 2 == 1;
            let named = match key {
                Some(key) if word.contains('_') && choices.contains(&word) => {
                    format!("`{}`", self.word(key, word))
                }
                _ if word.contains('_') && TABLE.iter().any(|key| name_of(key.path) == word) => {
                    let name = self.name(word);
                    if quoted || rest[end..].starts_with('.') && rest[end + 1..].starts_with(is_word) {
                        name
                    } else {
                        format!("`{name}`")
                    }
                }
                _ => word.to_owned(),
            };
            text += &named;
            rest = &rest[end..];
        }
        text + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::OF_DOCUMENTS;

    #[test]
    fn each_page_has_each_option_in_the_names_of_its_language() {
        for (path, text) in files() {
            for key in TABLE.iter().filter(|key| !OF_DOCUMENTS.contains(&key.path)) {
                let name = name_of(key.path);
                let named = if path.ends_with("python.md") || path.ends_with("rust.md") {
                    name.into()
                } else {
                    camel(name)
                };
                let left_out = path.ends_with("rust.md") && rust::is_kind(key);
                assert!(left_out || text.contains(&format!("\n| `{named}` | ")), "{} in {path}", key.path);
            }
        }
    }

    #[test]
    fn spans_have_the_units_of_the_language() {
        let quarter = Duration::from_micros(250_000);
        let spans = [Python, JavaScript, Kotlin, Swift, Rust].map(|language| language.span(quarter));
        assert_eq!(
            spans,
            ["0.25", "250", "250.milliseconds", ".milliseconds(250)", "Duration::from_millis(250)"]
        );
        assert_eq!(Python.span(Duration::from_micros(1)), "1e-6");
    }

    #[test]
    fn sentences_have_the_names_of_the_language() {
        let key = TABLE.iter().find(|key| key.path == "retry.backoff.jitter");
        assert_eq!(
            Swift.words("needs max_queue; full_floor draws", key),
            "needs `maxQueue`; `.fullFloor` draws"
        );
        assert_eq!(Python.words("that of `retry.max_retry_after`", None), "that of `retry.max_retry_after`");
    }
}
