//! The WebAssembly half of the npm package's parts: exported functions on handles, with numbers as their only arguments and results.

use std::fmt::Write;

use super::languages::Language;
use super::native::{HEAD, core_call, flow, formatted, title, used};
use super::{Arg, Method, Part, camel, own, paragraphs};

const WASM: Language = Language("wasm");
const OWN: &str = include_str!("own/wasm.rs.in");

/// Imports that may be needed, and their modules.
const IMPORTS: &[(&str, &[&str])] = &[
    ("tidegate::rng", &["Purpose"]),
    (
        "crate",
        &["checked", "class", "leased", "maybe", "millis", "paid_for", "reading", "span", "time", "until"],
    ),
    ("crate::slab", &["Drawn", "keep", "with"]),
    ("crate::texts", &["texts"]),
];

pub fn file(group: &str, parts: &[&Part]) -> (String, String) {
    let mut body = own(OWN, &format!("file {group}")).to_owned() + "\n";
    for part in parts {
        for function in functions(part) {
            let _ = write!(
                body,
                "\n/// {}\n#[unsafe(no_mangle)]\npub extern \"C\" fn ",
                flow(WASM, function.doc)
            );
            let declared: Vec<_> =
                function.takes.iter().map(|(name, kind)| format!("{name}: {kind}")).collect();
            let _ = write!(body, "{}({})", function.name, declared.join(", "));
            let arrow = if function.gives.is_empty() { "" } else { " -> " };
            let _ = writeln!(body, "{arrow}{} {{\n{}\n}}", function.gives, function.code);
        }
        let _ = write!(body, "\n{}\n", own(OWN, part.name));
    }
    let text = format!("{HEAD}//! {}\n\n{}\n{body}", title(group), used(&body, IMPORTS));
    (format!("bindings-wasm/parts/src/{group}.rs"), formatted(&text))
}

/// The TypeScript types of the exported functions.
pub fn exports(parts: &[Part]) -> (String, String) {
    let mut text = HEAD.trim_end().to_owned();
    text += "\n\n/** What the module of the parts exports for what is described. */\nexport interface Exports {\n";
    for function in parts.iter().flat_map(functions) {
        let kind = |kind: &str| if kind == "u64" { "bigint" } else { "number" };
        let takes: Vec<_> =
            function.takes.iter().map(|(name, of)| format!("{}: {}", camel(name), kind(of))).collect();
        let gives = if function.gives.is_empty() { "void" } else { "number" };
        let _ = writeln!(text, "  {}({}): {gives};", function.name, takes.join(", "));
    }
    ("bindings-wasm/ts/parts/exports.ts".into(), text + "}\n")
}

struct Function {
    name: String,
    takes: Vec<(&'static str, &'static str)>,
    gives: &'static str,
    code: String,
    doc: &'static str,
}

/// The exported functions of a part. Functions whose code is in `own` are left out.
fn functions(part: &Part) -> Vec<Function> {
    let inner = inner(part);
    let name = function(part, "");
    let takes: Vec<_> = part.beside.iter().flat_map(taken).collect();
    let mut given: Vec<_> = Vec::new();
    if !part.settings.is_empty() {
        given.push(settings(part));
    }
    let beside = part.beside.iter().filter(|arg| !matches!(arg.kind, "seed" | "lease"));
    given.extend(beside.map(passed));
    let mut made = format!("tidegate::{}::new({})", part.name, given.join(", "));
    if part.name == "Backoff" {
        made.clone_from(&given[0]);
    }
    if part.draws.is_some() {
        made = format!("Drawn::new({made}, seed)");
    }
    let (gives, code) = if part.settings.is_empty() {
        ("u32", format!("keep({made})"))
    } else {
        ("f64", format!("checked(&|policy| Some(keep({made})))"))
    };
    let mut all = vec![Function { name, takes, gives, code, doc: "A new one." }];
    let receiver = if part.draws.is_some() { "it.part" } else { "it" };
    for method in part.methods.iter().filter(|method| !method.own) {
        all.push(does(part, method, &inner, receiver));
    }
    if !part.retune.0.is_empty() {
        let retuned = part.retuned();
        let takes = [("part", "u32")].into_iter().chain(retuned.iter().flat_map(taken)).collect();
        let now = if part.retune.1 { ", time(now)" } else { "" };
        let code = format!(
            "checked(&|policy| {{\nlet to = {};\nwith(part, |it: &mut {inner}| {receiver}.retune(to{now}));\nSome(0)\n}})",
            settings(part)
        );
        let name = function(part, "_retune");
        all.push(Function { name, takes, gives: "f64", code, doc: "Applies new settings." });
    }
    all
}

fn does(part: &Part, method: &Method, inner: &str, receiver: &str) -> Function {
    let draw = match (part.draws, method.args.iter().any(|arg| arg.kind == "bits")) {
        (Some(purpose), true) => format!("let bits = it.bits(own, bits, Purpose::{purpose});\n"),
        _ => String::new(),
    };
    let given = |name: &str| method.args.iter().find(|arg| arg.name == name).map_or(name.into(), passed);
    let core = format!("{receiver}.{}", core_call(method, given));
    let core = if draw.is_empty() { core } else { format!("{{\n{draw}{core}\n}}") };
    let call = format!("with(part, |it: &mut {inner}| {core})");
    let (gives, code) = WASM.answer(method.ret, &call);
    let takes = [("part", "u32")].into_iter().chain(method.args.iter().flat_map(taken)).collect();
    let name = function(part, &format!("_{}", method.name));
    Function { name, takes, gives, code, doc: paragraphs(method.doc)[0] }
}

/// The exported name of a method, such as `token_bucket_try_take`.
pub fn function(part: &Part, of: &str) -> String {
    let mut name = String::new();
    for letter in part.foreign().chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name + of
}

fn inner(part: &Part) -> String {
    let inner = format!("tidegate::{}", part.name);
    if part.draws.is_some() { format!("Drawn<{inner}>") } else { inner }
}

/// The code that gets core's settings from a policy.
fn settings(part: &Part) -> String {
    let settings = match (part.settings, part.fixed.first()) {
        ("backoff", _) => "policy.backoff()".into(),
        ("budget", Some((_, kind))) => format!(
            "match policy.budget()? {{ tidegate::BudgetSettings::{}(it) => it, _ => return None }}",
            super::type_name(kind)
        ),
        (settings, _) => format!("policy.{settings}()?"),
    };
    let lease = part.beside.iter().any(|arg| arg.kind == "lease");
    if lease { format!("leased({settings}, probe_lease)") } else { settings }
}

fn taken(arg: &Arg) -> Vec<(&'static str, &'static str)> {
    let own = (arg.kind == "bits").then_some(("own", "u32"));
    own.into_iter().chain([(arg.name, WASM.arg(arg, arg.name).0)]).collect()
}

fn passed(arg: &Arg) -> String {
    WASM.arg(arg, arg.name).1
}
