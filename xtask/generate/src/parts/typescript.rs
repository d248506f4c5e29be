//! The classes of `tidegate/parts`.

use std::fmt::Write;

use super::languages::Language;
use super::native::{HEAD, title};
use super::wasm::function;
use super::{Arg, Method, Part, camel, comment, indented, literal, own};
use crate::typescript::table_beside;

const WIDTH: usize = 110;
const TYPESCRIPT: Language = Language("typescript");
const OWN: &str = include_str!("own/typescript.ts.in");

/// Imports that may be needed, and their modules.
const IMPORTS: &[(&str, &[&str])] = &[
    ("../engine/wire.js", &["type Class", "KINDS"]),
    ("./native.js", &["load", "said", "saidWords", "say", "sayWords"]),
    (
        "./part.js",
        &[
            "drawOf",
            "handleOf",
            "lease",
            "type May",
            "made",
            "maybe",
            "moment",
            "type Needs",
            "PAID_FOR",
            "Part",
            "placeOf",
            "real",
            "type Seed",
            "seedOf",
            "span",
            "U16",
            "U32",
            "whole",
            "word64",
        ],
    ),
];

pub fn file(group: &str, parts: &[&Part]) -> (String, String) {
    let mut body = own(OWN, &format!("file {group}")).to_owned();
    body += if body.is_empty() { "" } else { "\n" };
    let mut keys: Vec<String> = Vec::new();
    for (place, part) in parts.iter().enumerate() {
        let new = !parts[..place].iter().any(|other| other.named == part.named);
        if new && !part.named.is_empty() {
            settings(&mut body, part);
            keys.push(table_beside(&part.options(), part.name).1);
        }
        class(&mut body, part);
    }
    keys.dedup();
    let mut text = format!("{}\n\n/** {} */\n\n", HEAD.trim_end(), title(group));
    if !keys.is_empty() {
        let _ = writeln!(text, "import type {{ {} }} from \"../options_gen.js\";", keys.join(", "));
    }
    let code = body.lines().filter(|line| !line.trim_start().starts_with('*'));
    let words: Vec<_> =
        code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
    for (from, names) in IMPORTS {
        let known = |name: &&&str| words.contains(&name.trim_start_matches("type "));
        let names: Vec<_> = names.iter().filter(known).copied().collect();
        if !names.is_empty() {
            let _ = writeln!(text, "import {{ {} }} from \"{from}\";", names.join(", "));
        }
    }
    (format!("bindings-wasm/ts/parts/{group}.ts"), text + &body)
}

/// Writes the types of a part's settings.
fn settings(text: &mut String, part: &Part) {
    let (table, _) = table_beside(&part.options(), part.name);
    let of = |needed: bool, kind: &str| {
        let keys = part.keys.iter().filter(|setting| setting.needed == needed);
        let keys: Vec<_> = keys.map(|setting| format!("\"{}\"", camel(setting.name))).collect();
        (!keys.is_empty()).then(|| format!("{kind}<{table}, {}>", keys.join(" | ")))
    };
    let mut all: Vec<_> = of(true, "Needs").into_iter().chain(of(false, "May")).collect();
    for (place, name) in part.named.iter().enumerate() {
        for arg in &part.beside {
            // The last type has the seed, the first one the other optional fields.
            let field = match arg.kind {
                "seed" if place + 1 == part.named.len() => "Seed",
                "lease" if place == 0 => "number",
                _ => continue,
            };
            let mut field_text = String::from("{\n");
            comment(&mut field_text, "  ", WIDTH, &[TYPESCRIPT.told(arg)]);
            let _ = write!(field_text, "  readonly {}?: {field} | undefined;\n}}", camel(arg.name));
            all.push(field_text);
        }
        let what = if place > 0 {
            format!("How a `{}` is made", part.name)
        } else {
            format!("Settings of a `{}`", part.name)
        };
        let _ = write!(text, "\n/** {what}. */\nexport type {name} =");
        for (n, piece) in all.iter().enumerate() {
            let _ = write!(text, "{}{piece}", if n == 0 { "\n  " } else { " &\n  " });
        }
        *text += ";\n";
        all = vec![(*name).to_owned()];
    }
}

fn class(text: &mut String, part: &Part) {
    let name = part.name;
    let mut doc = TYPESCRIPT.doc(part.doc, []);
    if !part.settings.is_empty() {
        doc.push("@throws PolicyError If a setting is outside its range.".into());
    } else if part.beside.iter().any(|arg| matches!(arg.kind, "real")) {
        doc.push("@throws RangeError If one is outside its range.".into());
    }
    doc.push(format!("@example\n```ts\n{}\n```", part.typescript));
    text.push('\n');
    comment(text, "", WIDTH, &doc);
    let _ = writeln!(text, "export class {name} extends Part {{");
    constructor(text, part);
    for method in &part.methods {
        does(text, part, method);
    }
    let odd = own(OWN, name);
    if !odd.is_empty() {
        let _ = write!(text, "\n{}", indented(odd, "  "));
    }
    if !part.retune.0.is_empty() {
        let now = if part.retune.1 { ", now: number" } else { "" };
        text.push('\n');
        comment(text, "  ", WIDTH, &TYPESCRIPT.doc(part.retune.0, []));
        let _ = writeln!(text, "  retune(settings: {}{now}): void {{", part.named[0]);
        let args: Vec<_> =
            ["this.handle".to_owned()].into_iter().chain(part.retuned().iter().map(passed)).collect();
        let apart: Vec<_> = part.beside.iter().filter(|arg| arg.kind == "lease").collect();
        let made = made(text, part, "settings", &apart, &args, "_retune");
        let _ = writeln!(text, "    {made};\n  }}");
    }
    *text += "}\n";
}

/// The code that makes or changes a part with settings. The other arguments are checked first, so that an error leaks no settings.
fn made(text: &mut String, part: &Part, from: &str, apart: &[&Arg], args: &[String], of: &str) -> String {
    let mut rest = from.to_owned();
    if !apart.is_empty() {
        let names: Vec<_> = apart.iter().map(|arg| camel(arg.name)).collect();
        let _ = writeln!(text, "    const {{ {}, ...rest }} = {from};", names.join(", "));
        rest = "rest".into();
    }
    let mut given = "";
    if !args.is_empty() {
        let _ = writeln!(text, "    const given = [{}] as const;", args.join(", "));
        given = "...given";
    }
    if !part.fixed.is_empty() {
        let fixed = part.fixed.iter().map(|(key, value)| format!("{}: {}, ", camel(key), literal(value)));
        rest = format!("{{ {}...{rest} }}", fixed.collect::<Vec<_>>().concat());
    }
    format!("made(\"{}\", {rest}, () => load().{}({given}))", camel(part.table), function(part, of))
}

fn constructor(text: &mut String, part: &Part) {
    let apart: Vec<_> = part.beside.iter().filter(|arg| matches!(arg.kind, "seed" | "lease")).collect();
    let beside: Vec<_> = part.beside.iter().filter(|arg| !matches!(arg.kind, "seed" | "lease")).collect();
    if beside.iter().any(|arg| !arg.doc.is_empty()) {
        comment(text, "  ", WIDTH, &TYPESCRIPT.doc("", beside.iter().copied()));
    }
    let mut declared: Vec<_> = beside.iter().map(|arg| parameter(arg)).collect();
    let given: Vec<_> = part.beside.iter().map(passed).collect();
    if part.settings.is_empty() {
        let call = format!("load().{}({})", function(part, ""), given.join(", "));
        let _ = writeln!(text, "  constructor({}) {{\n    super({call});\n  }}", declared.join(", "));
        return;
    }
    let from = if apart.is_empty() { "settings" } else { "options" };
    let default = part.keys.iter().all(|setting| !setting.needed) && beside.is_empty();
    let kind = part.named.last().expect("settings have a name");
    declared.insert(0, format!("{from}: {kind}{}", if default { " = {}" } else { "" }));
    let _ = writeln!(text, "  constructor({}) {{", declared.join(", "));
    let made = made(text, part, from, &apart, &given, "");
    let _ = writeln!(text, "    super({made});\n  }}");
}

fn parameter(arg: &Arg) -> String {
    let (name, kind) = (camel(arg.name), TYPESCRIPT.arg(arg, arg.name).0);
    match (arg.kind, arg.default) {
        ("paid_for", default) => format!("{name}: {kind} = \"{default}\""),
        ("bits", _) => format!("{name}?: {kind}"),
        (_, "") => format!("{name}: {kind}"),
        (_, default) => format!("{name} = {}", default.trim_end_matches(".0")),
    }
}

fn passed(arg: &Arg) -> String {
    TYPESCRIPT.arg(arg, &camel(arg.name)).1
}

fn does(text: &mut String, part: &Part, method: &Method) {
    text.push('\n');
    comment(text, "  ", WIDTH, &TYPESCRIPT.doc(method.doc, &method.args));
    let given: Vec<_> =
        ["this.handle".to_owned()].into_iter().chain(method.args.iter().map(passed)).collect();
    let call = format!("load().{}({})", function(part, &format!("_{}", method.name)), given.join(", "));
    let (kind, answer) = TYPESCRIPT.answer(method.ret, &call);
    let declared: Vec<_> = method.args.iter().map(parameter).collect();
    let get = if method.property { "get " } else { "" };
    let head = format!("{get}{}({}): {kind}", camel(method.name), declared.join(", "));
    let _ = writeln!(text, "  {head} {{\n    {answer};\n  }}");
}
