//! The classes of `dev.tidegate.parts`.

use std::fmt::Write;

use super::languages::Language;
use super::{Arg, Method, Part, camel, comment, indented, literal, own};

const WIDTH: usize = 140;
const OWN: &str = include_str!("own/kotlin.kt.in");
const FOLDER: &str = "bindings-uniffi/kotlin/tidegate/src/main/kotlin/dev/tidegate/parts";

const KOTLIN: Language = Language("kotlin");

pub fn file(group: &str, parts: &[&Part]) -> (String, String) {
    let name = match group {
        "breaker" => "Breakers",
        "budgets" => "Budgets",
        "delay" => "Delays",
        "limit" => "Limits",
        "quantile" => "Quantiles",
        _ => "Rate",
    };
    let mut body = String::new();
    let odd = own(OWN, &format!("file {group}"));
    if !odd.is_empty() {
        let _ = write!(body, "\n{odd}\n");
    }
    for part in parts {
        class(&mut body, part);
    }
    let mut text =
        "// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.\n\n".to_owned();
    if group == "delay" {
        text += "@file:JvmName(\"Delays\")\n\n";
    }
    text += "package dev.tidegate.parts\n\n";
    for (path, _) in KOTLIN.imports().filter(|(_, traces)| body.contains(&traces[0])) {
        let _ = writeln!(text, "import {path}");
    }
    for part in parts {
        let _ = writeln!(text, "import dev.tidegate.ffi.{0} as Native{0}", part.name);
    }
    (format!("{FOLDER}/{name}.kt"), text + &body)
}

fn class(text: &mut String, part: &Part) {
    let name = part.name;
    let mut doc = KOTLIN.doc(part.doc, []);
    if !part.kotlin.is_empty() {
        doc.push(format!("```kotlin\n{}\n```", part.kotlin));
    }
    text.push('\n');
    comment(text, "", WIDTH, &doc);
    let _ = writeln!(text, "public class {name} private constructor(internal val native: Native{name}) {{");
    constructor(text, part);
    for method in &part.methods {
        does(text, method);
    }
    let odd = own(OWN, name);
    if !odd.is_empty() {
        let _ = write!(text, "\n{}", indented(odd, "    "));
    }
    if !part.retune.0.is_empty() {
        text.push('\n');
        comment(text, "    ", WIDTH, &KOTLIN.doc(part.retune.0, &part.retuned()));
        // The time comes first, as in all methods.
        let mut args = part.retuned();
        args.reverse();
        let mut taken: Vec<_> = args.iter().map(parameter).collect();
        taken.push(format!("configure: Configure<{}>", options(part)));
        if args.iter().any(|arg| arg.kind == "lease") {
            *text += "    @JvmOverloads\n";
        }
        let given: Vec<_> = std::iter::once("it".into()).chain(part.retuned().iter().map(passed)).collect();
        let made = made(part, &format!("native.retune({})", given.join(", ")));
        line(text, &format!("public fun retune({}): Unit =", taken.join(", ")), &made);
    }
    let _ = write!(
        text,
        "\n    /** Another of the same state; the two then go their own ways. */\n    public fun copy(): {name} = {name}(native.copy())\n}}\n"
    );
}

/// The code that makes or changes a part with settings.
fn made(part: &Part, make: &str) -> String {
    let fixed = match &part.fixed[..] {
        [] => String::new(),
        fixed => {
            let pairs: Vec<_> =
                fixed.iter().map(|(key, value)| format!("\"{key}\" to {}", literal(value))).collect();
            format!(", mapOf({})", pairs.join(", "))
        }
    };
    format!("made(\"{}\", ::{}, configure{fixed}) {{ {make} }}", part.table, options(part))
}

fn constructor(text: &mut String, part: &Part) {
    let mut beside: Vec<&Arg> = part.beside.iter().collect();
    // The time, which is always required, then the seed.
    beside.sort_by_key(|arg| (arg.kind == "lease", arg.kind == "seed"));
    let mut taken: Vec<_> = beside.iter().map(|arg| parameter(arg)).collect();
    let needs = part.keys.iter().any(|setting| setting.needed);
    let keys: Vec<_> = part.keys.iter().map(|setting| format!("`{}`", camel(setting.name))).collect();
    let mut optional =
        beside.iter().any(|arg| matches!(arg.kind, "lease" | "seed") || !arg.default.is_empty());
    let about = match (part.table.is_empty(), needs) {
        (true, _) => "A new one.".into(),
        (_, true) => format!("One with the settings {}.", keys.join(", ")),
        _ => format!("One with the settings {}, all of which have defaults.", keys.join(", ")),
    };
    let mut doc = vec![about];
    doc.extend(KOTLIN.doc("", beside.iter().copied()));
    if !part.table.is_empty() {
        taken.push(format!(
            "configure: Configure<{}>{}",
            options(part),
            if needs { "" } else { " = Configure { }" }
        ));
        optional |= !needs;
        doc.push("@throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.".into());
    }
    comment(text, "    ", WIDTH, &doc);
    if optional {
        *text += "    @JvmOverloads\n";
    }
    let mut given: Vec<_> = part.beside.iter().map(passed).collect();
    let made = if part.table.is_empty() {
        format!("Library.loaded {{ Native{}({}) }}", part.name, given.join(", "))
    } else {
        given.insert(0, "it".into());
        made(part, &format!("Native{}({})", part.name, given.join(", ")))
    };
    line(text, &format!("public constructor({}) :", taken.join(", ")), &format!("this({made})"));
}

fn parameter(arg: &Arg) -> String {
    let kind = KOTLIN.arg(arg, arg.name).0;
    let default = match (arg.default, arg.kind) {
        ("", _) => String::new(),
        (default, "paid_for") => format!(" = \"{default}\""),
        (default, _) => format!(" = {default}"),
    };
    format!("{}: {kind}{default}", camel(arg.name))
}

fn passed(arg: &Arg) -> String {
    KOTLIN.arg(arg, &camel(arg.name)).1
}

fn does(text: &mut String, method: &Method) {
    text.push('\n');
    comment(text, "    ", WIDTH, &KOTLIN.doc(method.doc, &method.args));
    let given: Vec<_> = method.args.iter().map(passed).collect();
    let mut call = format!("native.{}({})", camel(method.name), given.join(", "));
    if method.args.iter().any(|arg| arg.kind == "paid_for") {
        call = format!("argued {{ {call} }}");
    }
    let (kind, answer) = KOTLIN.answer(method.ret, &call);
    let name = camel(method.name);
    if method.property {
        line(text, &format!("public val {name}: {kind} get() ="), &answer);
        return;
    }
    if method.args.iter().any(|arg| arg.kind == "bits" || !arg.default.is_empty()) {
        *text += "    @JvmOverloads\n";
    }
    let taken: Vec<_> = method.args.iter().map(parameter).collect();
    line(text, &format!("public fun {name}({}): {kind} =", taken.join(", ")), &answer);
}

/// Writes a declaration and its value: on one line if they fit.
fn line(text: &mut String, head: &str, body: &str) {
    let gap = if head.len() + body.len() + 5 > WIDTH { "\n        " } else { " " };
    let _ = writeln!(text, "    {head}{gap}{body}");
}

/// The class of a part's settings.
fn options(part: &Part) -> String {
    let name = part.options();
    if name == part.name { name + "Options" } else { name }
}
