//! Results that are texts, in pieces that need no parser, and values on their way to core.

use tidegate::{Clash, PolicyError, Value};

use crate::host::Staged;

/// A value of a staged pair.
pub fn plain(value: &Staged) -> Value<'_> {
    match value {
        Staged::Number(number) => Value::Number(*number),
        Staged::Word(word) => Value::Text(word),
    }
}

/// Texts in pieces that need no parser: each is terminated by NUL.
pub fn pieces<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::new();
    for text in texts {
        out.extend(text.chars().filter(|c| *c != '\0').chain(['\0']));
    }
    out
}

/// Mistakes as key, value and rule.
pub fn mistakes(errors: &[PolicyError]) -> String {
    pieces(errors.iter().flat_map(|it| [&*it.key, &*it.value, &*it.rule]))
}

/// A clash with the state of an engine, in the form of a mistake.
pub fn clash(what: &str, clash: &Clash) -> String {
    pieces([what, &clash.name, clash.rule])
}
