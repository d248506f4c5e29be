//! The languages' table (`languages.txt`): types of arguments and results, the code that converts them, and the words of texts.

use super::text::{camel, paragraphs, section, translated};
use super::{Arg, Method};

const TABLE: &str = include_str!("languages.txt");

/// A language, by its section of the table.
#[derive(Clone, Copy, PartialEq)]
pub struct Language(pub &'static str);

impl Language {
    /// The rows that begin with this word, split into fields: the language's own, then those of Rust.
    pub fn rows(self, what: &'static str) -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
        let sections = [section(TABLE, self.0), section(TABLE, "rust")];
        sections.into_iter().flat_map(str::lines).filter_map(move |line| {
            let rest = line.strip_prefix(what)?.strip_prefix(' ')?;
            let (key, fields) = rest.split_once(" ::")?;
            Some((key, fields.split(" ::").map(|field| field.strip_prefix(' ').unwrap_or(field)).collect()))
        })
    }

    fn row(self, what: &'static str, keys: &[&str]) -> Vec<&'static str> {
        let found =
            keys.iter().find_map(|key| self.rows(what).find(|(of, _)| of.split('|').any(|of| of == *key)));
        found.unwrap_or_else(|| panic!("{} has no {what} {keys:?}", self.0)).1
    }

    /// Whether names have underscores.
    pub fn is_snake(self) -> bool {
        matches!(self.0, "pyo3" | "uniffi" | "wasm" | "python")
    }

    /// A name as the language writes it.
    pub fn name(self, name: &str) -> String {
        if self.is_snake() { name.to_owned() } else { camel(name) }
    }

    /// The type of an argument, and the code that passes it on.
    pub fn arg(self, arg: &Arg) -> (&'static str, String) {
        let Arg { kind, least, most, .. } = arg;
        let now = if arg.name == "now" { "now" } else { "" };
        let keys = [now, &format!("{kind} {most} {least}"), &format!("{kind} {most}"), kind];
        let row = self.row("arg", &keys);
        let whole = |number: &str| number.trim_end_matches(".0").to_owned();
        let code = row.get(1).unwrap_or(&"{name}").replace("{name}", &self.name(arg.name));
        let code = code.replace("{least}", least).replace("{most}", most);
        (row[0], code.replace("{low}", &whole(least)).replace("{high}", &whole(most)))
    }

    /// The declaration of an argument.
    pub fn declared(self, arg: &Arg, default: &str) -> String {
        let defaulted = if default.is_empty() { "" } else { "default" };
        let form = self.row("declare", &[arg.kind, arg.name, defaulted, "-"])[0];
        let form = form.replace("{name}", &self.name(arg.name)).replace("{type}", self.arg(arg).0);
        form.replace("{default}", default)
    }

    /// The type of a result, and the code that makes it from `{call}`.
    pub fn answer(self, method: &Method) -> (&'static str, &'static str) {
        let row = self.row("ret", &[method.ret]);
        (row[0], row.get(1).unwrap_or(&"{call}"))
    }

    /// The stub's type of a result, where Python's is not what Rust's type says.
    pub fn stub(self, ret: &str) -> Option<&'static str> {
        self.rows("stub").find(|(of, _)| *of == ret).map(|(_, fields)| fields[0])
    }

    /// When a method fails, as its documentation says it.
    pub fn raises(self, method: &Method) -> String {
        if method.raises.is_empty() {
            String::new()
        } else {
            self.words(&format!("{{raises}} {}", method.raises))
        }
    }

    /// The paragraphs of a text in the language's terms.
    pub fn doc(self, doc: &'static str) -> Vec<String> {
        paragraphs(doc).into_iter().filter(|it| !it.is_empty()).map(|it| self.words(it)).collect()
    }

    /// The documentation of an argument, with its unit where the language needs it.
    pub fn told(self, arg: &Arg) -> String {
        let unit = self.rows("unit").find(|(kinds, _)| kinds.split('|').any(|kind| kind == arg.kind));
        let unit = unit.filter(|_| !arg.doc.is_empty());
        self.words(arg.doc) + unit.map_or("", |(_, fields)| fields[0])
    }

    /// A text in the language's terms.
    fn words(self, text: &str) -> String {
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (marks, fields) in self.rows("word") {
            text = marks.split('|').fold(text, |text, mark| text.replace(&format!("{{{mark}}}"), fields[0]));
        }
        if self.is_snake() { text } else { translated(&text) }
    }
}
