//! The languages' table (`languages.txt`): types of arguments and results, the code that converts them, and the words of texts.

use super::{Arg, camel, own, paragraphs, translated};

const TABLE: &str = include_str!("languages.txt");

/// A language, by its section of the table.
#[derive(Clone, Copy, PartialEq)]
pub struct Language(pub &'static str);

impl Language {
    /// The rows that begin with this word, split into fields: the language's own, then those of Rust.
    fn rows(self, what: &'static str) -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
        let sections = [own(TABLE, self.0), own(TABLE, "rust")];
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

    /// The type of an argument of this name, and the code that passes it on.
    pub fn arg(self, arg: &Arg, name: &str) -> (&'static str, String) {
        let Arg { kind, least, most, .. } = arg;
        let now = if arg.name == "now" { "now" } else { "" };
        let keys = [now, &format!("{kind} {most} {least}"), &format!("{kind} {most}"), kind];
        let row = self.row("arg", &keys);
        let whole = |number: &str| number.trim_end_matches(".0").to_owned();
        let code = row
            .get(1)
            .unwrap_or(&"{name}")
            .replace("{name}", name)
            .replace("{least}", least)
            .replace("{most}", most);
        (row[0], code.replace("{low}", &whole(least)).replace("{high}", &whole(most)))
    }

    /// The type of a result, and the code that makes it from a call.
    pub fn answer(self, ret: &str, call: &str) -> (&'static str, String) {
        let row = self.row("ret", &[ret]);
        (row[0], row.get(1).unwrap_or(&"{call}").replace("{call}", call))
    }

    /// A text in the language's terms.
    pub fn words(self, text: &str) -> String {
        let mut text = text.to_owned();
        for (mark, fields) in self.rows("word") {
            text = text.replace(&format!("{{{mark}}}"), fields[0]);
        }
        text
    }

    /// A text in the language's terms, with keys in camel case.
    pub fn camel_words(self, text: &str) -> String {
        translated(&self.words(text))
    }

    /// The paragraphs of a doc and of its arguments, with their units where the language needs them.
    pub fn doc<'a>(self, doc: &'static str, args: impl IntoIterator<Item = &'a Arg>) -> Vec<String> {
        let all = paragraphs(doc).into_iter().filter(|it| !it.is_empty()).map(|it| self.camel_words(it));
        let args = args.into_iter().filter(|arg| !arg.doc.is_empty());
        all.chain(args.map(|arg| format!("@param {} {}", camel(arg.name), self.told(arg)))).collect()
    }

    /// The documentation of an argument.
    pub fn told(self, arg: &Arg) -> String {
        let unit = self.rows("unit").find(|(kinds, _)| kinds.split('|').any(|kind| kind == arg.kind));
        self.camel_words(arg.doc) + unit.map_or("", |(_, fields)| fields[0])
    }

    /// Imports that may be needed, each with the code that shows that it is.
    pub fn imports(self) -> impl Iterator<Item = (&'static str, Vec<String>)> {
        self.rows("import")
            .map(|(key, fields)| (key, fields.iter().map(|it| it.replace("\\n", "\n")).collect()))
    }
}
