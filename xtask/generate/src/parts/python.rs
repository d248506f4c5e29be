//! The classes of `tidegate.parts`, formatted as `ruff format` does.

use std::fmt::Write;

use tidegate::{Domain, Key, TABLE};

use super::languages::Language;
use super::{Arg, Method, Part, indented, literal, own, paragraphs, wrapped};
use crate::facts::{default_key, required};
use crate::python::{default, range};

const WIDTH: usize = 110;
const OWN: &str = include_str!("own/python.py.in");
const HEAD: &str = "# Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.\n";

const PYTHON: Language = Language("python");

pub fn file(group: &str, parts: &[&Part]) -> (String, String) {
    let mut body = String::new();
    let tail = own(OWN, &format!("file {group}"));
    if !tail.is_empty() {
        let _ = write!(body, "\n\n{tail}\n");
    }
    for part in parts {
        class(&mut body, part);
    }
    let mut keys = String::new();
    for part in parts.iter().filter(|part| !part.retune.0.is_empty()) {
        let name = part.name;
        let _ = write!(
            keys,
            "\n    class {name}Keys(TypedDict, total=False):\n        \"\"\"The keys of `{name}`.\"\"\"\n\n"
        );
        for setting in &part.keys {
            let _ = writeln!(keys, "        {}: {}", setting.name, annotation(key_of(part, setting.name)));
        }
        for _ in part.beside.iter().filter(|arg| arg.kind == "lease") {
            keys += "        probe_lease: Span\n";
        }
    }
    let aliases = own(OWN, &format!("types {group}"));
    let code = format!("{aliases}{keys}{body}");
    let about = own(OWN, &format!("about {group}"));
    let mut text = format!("{HEAD}{about}\n\nfrom __future__ import annotations\n");
    text += &imports("run", "", &code);
    if code.contains("Span") || code.contains("Iterable[") {
        text += "\nif TYPE_CHECKING:\n";
        text += imports("type", "    ", &code).trim_start_matches('\n');
    }
    if !aliases.is_empty() {
        let _ = write!(text, "\n{}", indented(aliases, "    "));
    }
    (format!("bindings-python/python/tidegate/parts/_{group}.py"), text + &keys + &body)
}

/// The imports that this code needs, in paragraphs: those for run time, or those for type checkers.
fn imports(sort: &str, indent: &str, code: &str) -> String {
    let (mut text, mut last) = (String::new(), ("", ""));
    for (key, fields) in PYTHON.imports().filter(|(_, fields)| code.contains(&fields[1])) {
        let [of, paragraph, from] = key.split(' ').collect::<Vec<_>>()[..] else { panic!("{key}") };
        let name = &fields[0];
        if of != sort || text.ends_with(&format!(" {name}")) {
            continue;
        }
        if (paragraph, from) == last {
            let _ = write!(text, ", {name}");
        } else {
            let gap = if last.0 == paragraph { "\n" } else { "\n\n" };
            let _ = write!(text, "{gap}{indent}from {from} import {name}");
        }
        last = (paragraph, from);
    }
    text.push('\n');
    text.split_off(1)
}

fn key_of(part: &Part, name: &str) -> &'static Key {
    let path = format!("{}.{name}", part.table);
    TABLE.iter().find(|key| key.path == path).unwrap_or_else(|| panic!("{path} is no key"))
}

/// A key's type.
fn annotation(key: &Key) -> String {
    let or_none =
        |none: bool, kind: &str| format!("{kind}{}", if none { " | Literal[\"none\"]" } else { "" });
    match key.domain {
        Domain::Choice(words) => {
            let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
            format!("Literal[{}]", words.join(", "))
        }
        Domain::Span { none, .. } => or_none(none, "Span"),
        Domain::Count { none, .. } => or_none(none, "int"),
        Domain::Real { none, .. } => or_none(none, "float"),
        _ => panic!("no part has a setting such as {}", key.path),
    }
}

/// A setting's meaning and range, and what applies if it is left out.
fn told(part: &Part, name: &str, needed: bool, doc: &str) -> String {
    let key = key_of(part, name);
    let doc = if doc.is_empty() { key.doc } else { doc };
    let range = range(key).replace("or None", "or `\"none\"`");
    let by_default = match default_key(key) {
        _ if needed || doc.contains("where absent") => String::new(),
        _ if matches!(key.domain, Domain::Choice(_)) && !key.default.is_empty() => String::new(),
        Some(other) => format!("; `{}` by default", other.path.rsplit('.').next().unwrap_or_default()),
        None => format!("; {}", default(key, &required())),
    };
    format!("{name}: {doc} {range}{by_default}.")
}

fn class(text: &mut String, part: &Part) {
    let name = part.name;
    let paragraphs = paragraphs(part.doc);
    let _ = write!(text, "\n\nclass {name}(Part):\n");
    *text += &wrapped(&format!("\"\"\"{}", words(paragraphs[0])), WIDTH, "    ", "    ");
    for paragraph in &paragraphs[1..] {
        let _ = write!(text, "\n{}", wrapped(&words(paragraph), WIDTH, "    ", "    "));
    }
    *text += "\n    Args:\n";
    let mut argument = |words: &str| *text += &wrapped(words, WIDTH, "        ", "            ");
    for setting in &part.keys {
        argument(&told(part, setting.name, setting.needed, setting.doc));
    }
    for arg in &part.beside {
        argument(&format!("{}: {}", arg.name, words(arg.doc)));
    }
    let bounded: Vec<_> = part.beside.iter().filter(|arg| matches!(arg.kind, "real" | "whole")).collect();
    let raised = match (part.table, &bounded[..]) {
        ("", []) => String::new(),
        ("", [one]) => format!("ValueError: If `{}` is outside its range.", one.name),
        ("", [one, other, ..]) => {
            format!("ValueError: If `{}` or `{}` is outside its range.", one.name, other.name)
        }
        _ => "tidegate.PolicyError: If a setting is outside its range; with the key, the value and the rule."
            .into(),
    };
    if !raised.is_empty() {
        let _ = write!(text, "\n    Raises:\n{}", wrapped(&raised, WIDTH, "        ", "            "));
    }
    let _ = write!(
        text,
        "\n    Example:\n{}    \"\"\"\n\n    __slots__ = ()\n\n",
        indented(part.python, "        ")
    );
    constructor(text, part);
    for method in &part.methods {
        does(text, method);
    }
    let odd = own(OWN, name);
    if !odd.is_empty() {
        let _ = write!(text, "\n{}", indented(odd, "    "));
    }
    if !part.retune.0.is_empty() {
        retune(text, part);
    }
}

fn constructor(text: &mut String, part: &Part) {
    let name = part.name;
    let mut taken = vec!["self".to_owned()];
    let (needed, may): (Vec<_>, Vec<_>) = part.keys.iter().partition(|setting| setting.needed);
    for setting in needed.iter().chain(&may) {
        let default = if setting.needed { "" } else { " = UNSET" };
        taken.push(format!("{}: {}{default}", setting.name, annotation(key_of(part, setting.name))));
    }
    if !part.table.is_empty() && part.beside.iter().any(|arg| arg.kind == "moment") {
        taken.push("*".into());
    }
    taken.extend(part.beside.iter().map(parameter));
    broken(text, "    ", "def __init__(", &taken, ") -> None:");
    let given: Vec<_> = part.beside.iter().map(passed).collect();
    let mut all = Vec::new();
    if !part.table.is_empty() {
        let fixed = part.fixed.iter().map(|(key, value)| format!("\"{key}\": {}", literal(value)));
        let own = part.keys.iter().map(|setting| format!("\"{0}\": {0}", setting.name));
        broken(text, "        ", "options: dict[str, Any] = {", &fixed.chain(own).collect::<Vec<_>>(), "}");
        all = vec![format!("_native.{name}"), format!("\"{}\"", part.table), "options".into()];
    }
    all.extend(given);
    let maker = if part.table.is_empty() { format!("_native.{name}(") } else { "made(".into() };
    broken(text, "        ", &format!("self._native: _native.{name} = {maker}"), &all, ")");
}

/// The declaration of an argument.
fn parameter(arg: &Arg) -> String {
    let kind = PYTHON.arg(arg, arg.name).0;
    let default = match (arg.default, arg.kind) {
        ("", _) => String::new(),
        (default, "paid_for") => format!(" = \"{default}\""),
        (default, _) => format!(" = {default}"),
    };
    format!("{}: {kind}{default}", arg.name)
}

/// The expression that the native half gets for an argument.
fn passed(arg: &Arg) -> String {
    PYTHON.arg(arg, arg.name).1
}

fn does(text: &mut String, method: &Method) {
    let kind = PYTHON.answer(method.ret, "").0;
    let property = if method.property { "    @property\n" } else { "" };
    let _ = write!(text, "\n{property}");
    let taken: Vec<_> = std::iter::once("self".into()).chain(method.args.iter().map(parameter)).collect();
    broken(text, "    ", &format!("def {}(", method.name), &taken, &format!(") -> {kind}:"));
    doc(text, method.doc, &method.args);
    let answer = if method.ret == "nothing" { "" } else { "return " };
    let given: Vec<_> = method.args.iter().map(passed).collect();
    let hot = method.args.iter().find_map(|arg| match arg.kind {
        "hot" => Some((arg.name, arg.most)),
        _ => None,
    });
    let open = format!("{answer}self._native.{}(", method.name);
    match hot {
        None => broken(text, "        ", &open, &given, ")"),
        Some((name, bits)) => {
            *text += "        try:\n";
            broken(text, "            ", &open, &given, ")");
            let _ = write!(
                text,
                "        except (OverflowError, TypeError):\n            whole(\"{name}\", {name}, 0, U{bits})\n            raise\n"
            );
        }
    }
}

fn doc(text: &mut String, doc: &'static str, args: &[Arg]) {
    let all = paragraphs(doc);
    let told = args.iter().any(|arg| !arg.doc.is_empty());
    let quoted = format!("\"\"\"{}", words(all[0]));
    if all.len() == 1 && !told {
        *text += &wrapped(&format!("{quoted}\"\"\""), WIDTH, "        ", "        ");
        return;
    }
    *text += &wrapped(&quoted, WIDTH, "        ", "        ");
    for paragraph in &all[1..] {
        let _ = write!(text, "\n{}", wrapped(&words(paragraph), WIDTH, "        ", "        "));
    }
    if told {
        *text += "\n        Args:\n";
        for arg in args {
            let about = if arg.doc.is_empty() { "The present, in seconds." } else { arg.doc };
            let about = format!("{}: {}", arg.name, words(about));
            *text += &wrapped(&about, WIDTH, "            ", "                ");
        }
    }
    *text += "        \"\"\"\n";
}

fn retune(text: &mut String, part: &Part) {
    let name = part.name;
    let now = if part.retune.1 { "now: float, " } else { "" };
    let _ = writeln!(text, "\n    def retune(self, {now}**settings: Unpack[{name}Keys]) -> None:");
    doc(text, part.retune.0, &[]);
    let lease = part.beside.iter().any(|arg| arg.kind == "lease");
    let fixed: Vec<_> =
        part.fixed.iter().map(|(key, value)| format!("\"{key}\": {}, ", literal(value))).collect();
    let _ = writeln!(text, "        options: dict[str, Any] = {{{}**settings}}", fixed.concat());
    let mut given = vec!["self._native.retune".to_owned(), format!("\"{}\"", part.table), "options".into()];
    if lease {
        *text += "        lease = lease_us(options.pop(\"probe_lease\", UNSET))\n";
        given.push("lease".into());
    }
    given.extend(part.retune.1.then(|| "now".into()));
    broken(text, "        ", "made(", &given, ")");
}

/// Writes items between brackets: on one line if they fit, otherwise one per line.
fn broken(text: &mut String, indent: &str, open: &str, items: &[String], close: &str) {
    let remark = |item: &str| if item.starts_with("max: ") { "  # noqa: A002 - the key's name" } else { "" };
    let line = format!("{indent}{open}{}{close}", items.join(", "));
    if line.chars().count() <= WIDTH {
        let noted = items.iter().map(|item| remark(item)).find(|note| !note.is_empty()).unwrap_or_default();
        let _ = writeln!(text, "{line}{noted}");
        return;
    }
    let _ = writeln!(text, "{indent}{open}");
    for item in items {
        if item.len() + indent.len() + 5 > WIDTH && item.contains("Literal[") {
            let (head, rest) = item.split_once('[').expect("a choice");
            let (words, tail) = rest.split_once(']').expect("a choice");
            let words: Vec<_> = words.split(", ").map(str::to_owned).collect();
            broken(text, &format!("{indent}    "), &format!("{head}["), &words, &format!("]{tail},"));
            continue;
        }
        let comma = if item == "*" { "*," } else { &format!("{item},") };
        let _ = writeln!(text, "{indent}    {comma}{}", remark(item));
    }
    let _ = writeln!(text, "{indent}{close}");
}

fn words(text: &str) -> String {
    PYTHON.words(text)
}
