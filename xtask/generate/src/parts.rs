//! The lone parts, described once: their settings, their methods, and their documentation.
//!
//! The descriptions are `parts/*.txt`, one file for each group. The wrappers of all languages are generated from them. Code that one
//! language needs in its own form is in `parts/own/`, by part.

mod languages;
mod read;
mod render;
mod text;

use std::collections::BTreeMap;

/// The first line of every generated file.
const GENERATED: &str = "Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.";

/// The generated files, by path from the root of the repository.
pub fn files() -> Vec<(String, String)> {
    let groups = GROUPS.map(|(name, text)| read::group(name, text));
    groups.iter().flat_map(render::files).collect()
}

/// The files of the descriptions.
const GROUPS: [(&str, &str); 7] = [
    ("breaker", include_str!("parts/breaker.txt")),
    ("budgets", include_str!("parts/budgets.txt")),
    ("delay", include_str!("parts/delay.txt")),
    ("limit", include_str!("parts/limit.txt")),
    ("quantile", include_str!("parts/quantile.txt")),
    ("rate", include_str!("parts/rate.txt")),
    ("strategy", include_str!("parts/strategy.txt")),
];

/// Parts that are in one file in each language.
pub struct Group {
    pub name: &'static str,
    /// The names of the files in Kotlin and Swift.
    pub kotlin: &'static str,
    pub swift: &'static str,
    pub doc: &'static str,
    pub parts: Vec<Part>,
}

/// A part.
#[derive(Default)]
pub struct Part {
    pub name: &'static str,
    /// Core's type, without the crate.
    pub core: &'static str,
    /// Whether another part makes it, so that it has no public constructor.
    pub made: bool,
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
    /// Examples, by language.
    pub examples: BTreeMap<&'static str, &'static str>,
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
    /// When it fails, if it can.
    pub raises: &'static str,
    /// Whether it is a property in languages that have properties.
    pub property: bool,
    /// Core's method and the order of its arguments, if they differ.
    pub core: &'static str,
    /// Swift's name and labels, if they differ.
    pub swift: &'static str,
    /// Whether only the Rust halves have it.
    pub hidden: bool,
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

    /// The name of its constructor in the npm package's module, such as `token_bucket`; its methods begin with it.
    pub fn function(&self) -> String {
        let mut name = String::new();
        for letter in self.foreign().chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }
}

pub fn now() -> Arg {
    Arg { name: "now", kind: "moment", least: "", most: "", default: "", doc: "" }
}
