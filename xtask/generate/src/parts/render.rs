//! Renders the wrappers: each language has a template, which gets the parts in that language's terms.

use std::io::Write as _;
use std::process::{Command, Stdio};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value as Item};
use serde_json::{Map, Value, json};
use tidegate::{Domain, Key, TABLE};

use super::languages::Language;
use super::text::{broken, camel, comment, indented, literal, section, type_name, wrapped};
use super::{Arg, Group, Method, Part, Setting};
use crate::facts::{default_key, required};
use crate::python::{default, kind_of, range};
use crate::typescript::table_beside;

/// The files of a language: their paths, the template, the code that only this language has, and the width of a line.
struct Target {
    language: Language,
    path: &'static str,
    template: &'static str,
    own: &'static str,
    width: usize,
}

macro_rules! target {
    ($language:literal, $path:literal, $template:literal, $own:literal, $width:literal) => {
        Target {
            language: Language($language),
            path: $path,
            template: include_str!(concat!("templates/", $template, ".j2")),
            own: include_str!(concat!("own/", $own, ".in")),
            width: $width,
        }
    };
}

const TARGETS: [Target; 7] = [
    target!("pyo3", "bindings-python/src/parts/{name}.rs", "rust.rs", "pyo3.rs", 110),
    target!("uniffi", "bindings-uniffi/src/parts/{name}.rs", "rust.rs", "uniffi.rs", 110),
    target!("python", "bindings-python/python/tidegate/parts/_{name}.py", "python.py", "python.py", 110),
    target!(
        "kotlin",
        "bindings-uniffi/kotlin/tidegate/src/main/kotlin/dev/tidegate/parts/{kotlin}.kt",
        "kotlin.kt",
        "kotlin.kt",
        140
    ),
    target!(
        "swift",
        "bindings-uniffi/swift/Sources/Tidegate/Parts/{swift}.swift",
        "swift.swift",
        "swift.swift",
        140
    ),
    target!("wasm", "bindings-wasm/parts/src/{name}.rs", "wasm.rs", "wasm.rs", 110),
    target!("typescript", "bindings-wasm/ts/parts/{name}.ts", "typescript.ts", "typescript.ts", 110),
];

/// The files of a group of parts.
pub fn files(group: &Group) -> Vec<(String, String)> {
    TARGETS.iter().map(|target| target.file(group)).collect()
}

impl Target {
    fn file(&self, group: &Group) -> (String, String) {
        let (language, parts) = (self.language, &group.parts);
        let part = |(place, part): (usize, &Part)| {
            let known = parts[..place].iter().any(|other| other.named == part.named);
            self.part(part, !known)
        };
        let context = json!({
            "language": language.0,
            "generated": super::GENERATED,
            "group": { "name": group.name, "about": language.doc(group.doc) },
            "parts": parts.iter().enumerate().map(part).collect::<Vec<_>>(),
        });
        let text = self
            .environment()
            .render_str(self.template, Item::from(Serde(&context)))
            .unwrap_or_else(|error| panic!("the template of {}: {error:#}", language.0));
        let path = self.path.replace("{name}", group.name);
        let path = path.replace("{kotlin}", group.kotlin).replace("{swift}", group.swift);
        let rust = ["pyo3", "uniffi", "wasm"].contains(&language.0);
        let text = if rust { formatted(&text) } else { text };
        (path, text)
    }

    fn part(&self, part: &Part, new: bool) -> Value {
        let language = self.language;
        let options = type_name(part.table.rsplit('.').next().unwrap_or_default());
        let (keys_type, keys_import) = table_beside(&options, part.name);
        let core = format!("tidegate::{}", part.core);
        let args = |args: &[Arg]| args.iter().map(|arg| self.arg(arg)).collect::<Vec<_>>();
        let retuned = part.retuned();
        json!({
            "name": part.name,
            "made": part.made,
            "new": format!("{core}::new"),
            "foreign": part.foreign(),
            "function": part.function(),
            "inner": if part.draws.is_some() { format!("Drawn<{core}>") } else { core },
            "settings": part.settings,
            "table": part.table,
            "camel_table": camel(part.table),
            "options": options,
            "named": part.named,
            "first": new,
            "keys_type": keys_type,
            "keys_import": keys_import,
            "fixed": part.fixed.iter().map(|(key, value)| json!({
                "key": key, "name": language.name(key), "value": literal(value), "word": value,
                "number": value.parse::<u32>().is_ok(), "type": type_name(value),
            })).collect::<Vec<_>>(),
            "keys": part.keys.iter().map(|setting| self.setting(part, setting)).collect::<Vec<_>>(),
            "beside": args(&part.beside),
            "draws": part.draws,
            "doc": language.doc(part.doc),
            "example": part.examples.get(language.0).copied().unwrap_or_default(),
            "methods": part.methods.iter().map(|method| self.method(method)).collect::<Vec<_>>(),
            "retune": (!part.retune.0.is_empty()).then(|| json!({
                "doc": language.doc(part.retune.0), "now": part.retune.1, "args": args(&retuned),
            })),
        })
    }

    fn arg(&self, arg: &Arg) -> Value {
        let (kind, code) = self.language.arg(arg);
        let default = match (arg.default, self.language.0) {
            ("", _) => String::new(),
            (word, "swift") if word.starts_with(char::is_alphabetic) => format!(".{word}"),
            (default, "swift" | "typescript") => literal(default.trim_end_matches(".0")),
            (default, _) => literal(default),
        };
        json!({
            "name": self.language.name(arg.name), "kind": arg.kind, "type": kind, "code": code,
            "fallible": code.ends_with('?'), "most": arg.most, "default": default,
            "declared": self.language.declared(arg, &default), "doc": self.language.told(arg),
        })
    }

    fn method(&self, method: &Method) -> Value {
        let (kind, answer) = self.language.answer(method);
        let names = || std::iter::once(method.name).chain(method.args.iter().map(|arg| arg.name));
        let order: Vec<_> =
            if method.core.is_empty() { names().collect() } else { method.core.split(' ').collect() };
        json!({
            "name": self.language.name(method.name), "key": method.name, "ret": method.ret, "type": kind,
            "answer": answer, "core": order,
            "args": method.args.iter().map(|arg| self.arg(arg)).collect::<Vec<_>>(),
            "doc": self.language.doc(method.doc), "raises": self.language.raises(method),
            "stub": self.language.stub(method.ret), "property": method.property, "hidden": method.hidden, "swift": self.labelled(method),
        })
    }

    /// A method's name and arguments with Swift's labels, in the order of Swift's call.
    fn labelled(&self, method: &Method) -> String {
        let Some((name, rest)) = method.swift.split_once('(') else {
            let declared =
                method.args.iter().map(|arg| self.arg(arg)["declared"].as_str().map(str::to_owned));
            let declared: Vec<_> = declared.flatten().collect();
            let name = self.language.name(method.name);
            return if method.swift == "-" { "-".into() } else { format!("{name}({})", declared.join(", ")) };
        };
        let declared = rest.trim_end_matches(')').split(", ").map(|said| {
            let (label, name) = said.split_once(' ').unwrap_or(("", said));
            let arg =
                method.args.iter().find(|arg| arg.name == name).expect("Swift's form names the arguments");
            let declared = self.arg(arg)["declared"].as_str().unwrap_or_default().to_owned();
            format!("{label} {declared}").trim_start().to_owned()
        });
        format!("{name}({})", declared.collect::<Vec<_>>().join(", "))
    }

    fn setting(&self, part: &Part, setting: &Setting) -> Value {
        let path = format!("{}.{}", part.table, setting.name);
        let key = TABLE.iter().find(|key| key.path == path).unwrap_or_else(|| panic!("{path} is no key"));
        let kind = kind_of(key).replace("float | timedelta", "Span").replace("None", "Literal[\"none\"]");
        let name = self.language.name(setting.name);
        let default = if setting.needed { "" } else { " = UNSET" };
        json!({
            "name": name, "needed": setting.needed, "type": kind,
            "declared": format!("{name}: {kind}{default}"), "told": told(key, setting),
        })
    }

    fn environment(&self) -> Environment<'static> {
        let Self { language, own, width, .. } = *self;
        let mut it = Environment::new();
        let mut syntax = SyntaxConfig::builder();
        syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
        it.set_syntax(syntax.build().expect("the usual delimiters"));
        it.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        it.add_function("own", move |what: &str| section(own, what));
        it.add_function("comment", move |indent: &str, doc: Vec<String>| comment(width, indent, &doc));
        it.add_function("broken", move |indent: &str, open: &str, items: Vec<String>, close: &str| {
            broken(width, indent, open, &items, close)
        });
        // A declaration and its value: on one line if they fit.
        it.add_function("line", move |head: &str, body: &str| match (head.len() + body.len(), language.0) {
            (length, "swift") if length + 13 > width => {
                let (head, four) = (format!("{head} {{"), "            ");
                let head = wrapped(&head, width, "        ", four);
                format!("{head}\n{}\n        }}", wrapped(body, width, four, "                "))
            }
            (_, "swift") => format!("        {head} {{ {body} }}"),
            (length, _) if length + 5 > width => {
                wrapped(head, width, "    ", "        ") + "\n        " + body
            }
            _ => format!("    {head} {body}"),
        });
        it.add_function("used", move |body: &str| used(language, body));
        it.add_filter("wrap", move |text: &str, first: &str, rest: Option<&str>| {
            wrapped(text, width, first, rest.unwrap_or(first))
        });
        it.add_filter("indented", indented);
        it.add_filter("chomp", |text: &str| text.trim_end_matches('\n').to_owned());
        // A text for each item, in which `{field}` is a field of it.
        it.add_filter("each", |items: Vec<Item>, form: &str| -> Vec<String> {
            let fields = |item: &Item| serde_json::to_value(item).unwrap_or_default();
            items.iter().map(|item| filled(form, fields(item).as_object())).collect()
        });
        it
    }
}

fn filled(form: &str, fields: Option<&Map<String, Value>>) -> String {
    fields.into_iter().flatten().fold(form.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), value.as_str().unwrap_or_default())
    })
}

/// The modules and names that this code needs: the words of the rows `use`.
fn used(language: Language, body: &str) -> Vec<(String, String)> {
    // Neither the docstrings of Python nor the comments of other languages are code.
    let code = body.split("\"\"\"").step_by(2).flat_map(str::lines);
    let code = code.filter(|line| !line.trim_start().starts_with(['/', '*']));
    let words: Vec<_> =
        code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
    let mut all: Vec<(String, String)> = Vec::new();
    for (path, names) in language.rows("use") {
        // Of a name with a bracket only a call counts.
        let used = |name: &&str| {
            let word = name.rsplit(' ').next().unwrap_or_default();
            if word.ends_with('(') { body.contains(word) } else { words.contains(&word) }
        };
        for name in names[0].split(", ").filter(used).map(|name| name.trim_end_matches('(')) {
            match all.last_mut() {
                Some((last, names)) if last == path => names.extend([", ", name]),
                _ => all.push((path.to_owned(), name.to_owned())),
            }
        }
    }
    all
}

/// A setting's meaning and range in Python, and what applies if it is left out.
fn told(key: &Key, setting: &Setting) -> String {
    let doc = if setting.doc.is_empty() { key.doc } else { setting.doc };
    let range = range(key).replace("or None", "or `\"none\"`");
    let by_default = match default_key(key) {
        _ if setting.needed || doc.contains("where absent") => String::new(),
        _ if matches!(key.domain, Domain::Choice(_)) && !key.default.is_empty() => String::new(),
        Some(other) => format!("; `{}` by default", other.path.rsplit('.').next().unwrap_or_default()),
        None => format!("; {}", default(key, &required())),
    };
    format!("{}: {doc} {range}{by_default}.", setting.name)
}

/// Formats Rust code as `cargo fmt` does.
fn formatted(text: &str) -> String {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path", config])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("rustfmt belongs to the toolchain of rust-toolchain.toml");
    rustfmt.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("rustfmt reads");
    let output = rustfmt.wait_with_output().expect("rustfmt ends");
    assert!(output.status.success(), "rustfmt does not take what is generated:\n{text}");
    String::from_utf8(output.stdout).expect("Rust is UTF-8")
}
