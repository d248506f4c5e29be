//! The typed settings of the Rust host: a method of its builder for each key.

use std::fmt::Write;

use tidegate::{Domain, Key, TABLE};

use crate::facts::{Required, default_key, required, values, when_absent};

const WIDTH: usize = 130;

const HEAD: &str = "\
// Generated from core/src/policy/table.rs by `cargo xtask generate`; do not edit.

use std::time::Duration;

use crate::builder::{Bound, Builder};

impl Builder {
";

/// The builder's methods.
pub fn text() -> String {
    let required = required();
    let mut text = HEAD.to_owned();
    for (n, key) in TABLE.iter().enumerate() {
        if n > 0 {
            text.push('\n');
        }
        method(&mut text, key, &required);
    }
    text.push_str("}\n");
    text
}

/// `retry.max_attempts` is `retry_max_attempts`.
pub fn name(path: &str) -> String {
    path.replace('.', "_")
}

fn method(text: &mut String, key: &Key, required: &[Required]) {
    let absent = match default_key(key) {
        Some(other) => format!("that of `{}`", other.path),
        None => match key.default {
            "" => when_absent(key, required),
            default => default.split(' ').map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" "),
        },
    };
    doc(text, &format!("`{}`: {}", key.path, key.doc.replace('[', "\\\\[")));
    text.push_str("    ///\n");
    let mut range = format!("{}; default: {absent}.", values(key));
    range[..1].make_ascii_uppercase();
    doc(text, &range);
    let (path, name) = (key.path, name(key.path));
    let single = |kind: &str| {
        format!(
            "    pub fn {name}(self, value: {kind}) -> Self {{\n        self.set(\"{path}\", value)\n    }}\n"
        )
    };
    let list = |kind: &str| {
        format!(
            "    pub fn {name}(self, values: impl IntoIterator<Item = {kind}>) -> Self {{\n        \
             values.into_iter().fold(self, |builder, value| builder.set(\"{path}\", value))\n    }}\n"
        )
    };
    let bound = |none: bool, kind: &str| {
        if !none {
            return single(kind);
        }
        format!(
            "    pub fn {name}(self, value: impl Into<Bound<{kind}>>) -> Self {{\n        \
             let bound: Bound<{kind}> = value.into();\n        self.set(\"{path}\", bound)\n    }}\n"
        )
    };
    text.push_str(&match key.domain {
        Domain::Span { none, .. } => bound(none, "Duration"),
        Domain::Count { none, .. } => bound(none, "u32"),
        Domain::Real { none, .. } => bound(none, "f64"),
        Domain::Flag => single("bool"),
        Domain::Choice(_) | Domain::Name => single("&str"),
        Domain::Statuses => list("u16"),
        Domain::Words(_) | Domain::KindWords(_) | Domain::Kinds => list("&'static str"),
    });
}

fn doc(text: &mut String, words: &str) {
    let mut line = "    ///".to_owned();
    for word in words.split(' ').map(quoted) {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = "    ///".into();
        }
        line.push(' ');
        line += &word;
    }
    let _ = writeln!(text, "{line}");
}

/// Names of keys and choices in backticks, as rustdoc has them.
fn quoted(word: &str) -> String {
    let name = word.trim_end_matches(['.', ',', ';', ':', ')']);
    let code = name.contains('_') || name == "(CoDel";
    if !code || name.contains('`') || name == "_" {
        return word.into();
    }
    let inner = name.trim_start_matches('(');
    format!("{}`{inner}`{}", &name[..name.len() - inner.len()], &word[name.len()..])
}
