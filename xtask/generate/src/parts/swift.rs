//! The classes of `Parts` in Swift.

use std::fmt::Write;

use super::languages::Language;
use super::{Arg, Method, Part, camel, indented, own, paragraphs, wrapped};

const WIDTH: usize = 140;
const OWN: &str = include_str!("own/swift.swift.in");
const SWIFT: Language = Language("swift");
const FOLDER: &str = "bindings-uniffi/swift/Sources/Tidegate/Parts";

pub fn file(group: &str, parts: &[&Part]) -> (String, String) {
    let name = match group {
        "breaker" => "Gates",
        "budgets" => "Budgets",
        "delay" => "Delay",
        "limit" => "Limit",
        "quantile" => "Quantile",
        _ => "Rate",
    };
    let foundation = if group == "delay" { "import Foundation\n" } else { "" };
    let mut text = format!(
        "// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.\n\n{foundation}internal import TidegateNative\n\nextension Parts {{\n"
    );
    let odd = own(OWN, &format!("file {group}"));
    if !odd.is_empty() {
        let _ = writeln!(text, "{}", indented(odd, "    "));
    }
    let classes: Vec<_> = parts.iter().map(|part| class(part)).collect();
    text += &classes.join("\n");
    (format!("{FOLDER}/{name}.swift"), text + "}\n")
}

fn class(part: &Part) -> String {
    let name = part.name;
    let mut text = String::new();
    comment(&mut text, "    ", part.doc);
    if !part.swift.is_empty() {
        let _ = write!(text, "    ///\n    /// ```swift\n{}    /// ```\n", indented(part.swift, "    /// "));
    }
    let conforms = own(OWN, &format!("conforms {name}"));
    let native = format!("TidegateNative.{}", part.foreign());
    let _ = write!(
        text,
        "    public final class {name}: Sendable{conforms} {{\n        let native: {native}\n\n"
    );
    constructor(&mut text, part, &native);
    let _ = write!(text, "\n        private init(_ native: {native}) {{ self.native = native }}\n\n");
    for method in part.methods.iter().filter(|method| method.swift != "-") {
        does(&mut text, method);
    }
    let odd = own(OWN, name);
    if !odd.is_empty() {
        text += &indented(odd, "        ");
    }
    if !part.retune.0.is_empty() {
        comment(&mut text, "        ", part.retune.0);
        let args = part.retuned();
        let declared: Vec<_> = args.iter().map(|arg| format!(", {}", parameter(arg))).collect();
        let given: Vec<_> =
            args.iter().map(|arg| format!(", {}: {}", camel(arg.name), passed(arg))).collect();
        let options = options(part);
        let _ = writeln!(
            text,
            "        public func retune(_ settings: {options}{}) throws {{\n            try checked {{ try native.retune(pairs: Self.pairs(settings){}) }}\n        }}",
            declared.concat(),
            given.concat()
        );
    }
    let _ = write!(
        text,
        "        /// Another of the same state; the two then go their own ways.\n        public func copy() -> {name} {{ {name}(native.copy()) }}\n    }}\n"
    );
    text
}

fn constructor(text: &mut String, part: &Part, native: &str) {
    let mut beside: Vec<&Arg> = part.beside.iter().collect();
    // The time comes last, as in all methods.
    beside.sort_by_key(|arg| (arg.kind == "moment", arg.kind == "seed"));
    let mut declared: Vec<_> = beside.iter().map(|arg| parameter(arg)).collect();
    let mut given: Vec<_> =
        part.beside.iter().map(|arg| format!("{}: {}", camel(arg.name), passed(arg))).collect();
    let with_settings = !part.table.is_empty();
    let options = options(part);
    if with_settings {
        let needs = part.keys.iter().any(|setting| setting.needed);
        let keys: Vec<_> = part.keys.iter().map(|setting| format!("`{}`", camel(setting.name))).collect();
        let about = if needs { "" } else { ", all of which have defaults" };
        *text += &wrapped(
            &format!("- Parameter settings: {}{about}.", keys.join(", ")),
            WIDTH,
            "        /// ",
            "        ///   ",
        );
        declared.insert(
            0,
            format!("_ settings: {options}{}", if needs { String::new() } else { format!(" = {options}()") }),
        );
        given.insert(0, "pairs: Self.pairs(settings)".into());
    }
    for arg in beside {
        *text += &wrapped(
            &format!("- Parameter {}: {}", camel(arg.name), words(arg.doc)),
            WIDTH,
            "        /// ",
            "        ///   ",
        );
    }
    let what = if with_settings { "with every mistake there is" } else { "if one is out of range" };
    let _ = writeln!(text, "        /// - Throws: `PolicyError` {what}.");
    let made = format!("{native}({})", given.join(", "));
    // Core checks settings and moments; the code above has checked the other arguments.
    let made = if with_settings || part.beside.iter().any(|arg| arg.kind == "moment") {
        format!("try checked {{ try {made} }}")
    } else {
        made
    };
    let declared = declared.join(", ");
    let _ =
        write!(text, "        public init({declared}) throws {{\n            native = {made}\n        }}\n");
    if with_settings {
        let fixed: Vec<_> = part
            .fixed
            .iter()
            .map(|(key, value)| {
                let value =
                    if value.parse::<u32>().is_ok() { (*value).to_owned() } else { format!(".{value}") };
                format!("            settings.{} = {value}\n", camel(key))
            })
            .collect();
        let copy = if fixed.is_empty() { "" } else { "            var settings = settings\n" };
        let _ = write!(
            text,
            "\n        private static func pairs(_ settings: {options}) -> [Pair] {{\n{copy}{}            return Pairs.of(settings.write)\n        }}\n",
            fixed.concat()
        );
    }
}

fn parameter(arg: &Arg) -> String {
    declared(&arg_label(arg), arg)
}

/// The label of an argument, which is left out where the method's name makes it clear.
fn arg_label(arg: &Arg) -> String {
    if arg.name == "p" { "_ p".into() } else { camel(arg.name) }
}

fn declared(label: &str, arg: &Arg) -> String {
    let kind = SWIFT.arg(arg, arg.name).0;
    let default = match arg.default {
        "" => String::new(),
        default => format!(" = {}", default.trim_end_matches(".0")),
    };
    format!("{label}: {kind}{default}")
}

fn passed(arg: &Arg) -> String {
    SWIFT.arg(arg, &camel(arg.name)).1
}

fn does(text: &mut String, method: &Method) {
    comment(text, "        ", method.doc);
    for arg in method.args.iter().filter(|arg| !arg.doc.is_empty()) {
        *text += &wrapped(
            &format!("- Parameter {}: {}", camel(arg.name), words(arg.doc)),
            WIDTH,
            "        /// ",
            "        ///   ",
        );
    }
    let given: Vec<_> =
        method.args.iter().map(|arg| format!("{}: {}", camel(arg.name), passed(arg))).collect();
    let call = format!("native.{}({})", camel(method.name), given.join(", "));
    let (kind, answer) = SWIFT.answer(method.ret, &call);
    let name = camel(method.name);
    if method.property {
        let _ = writeln!(text, "        public var {name}: {kind} {{ {answer} }}");
        return;
    }
    // Swift's own labels, in the order of the call.
    let (name, said) = match method.swift.split_once('(') {
        None => (name, method.args.iter().map(|arg| arg.name.to_owned()).collect::<Vec<_>>()),
        Some((name, rest)) => {
            (name.to_owned(), rest.trim_end_matches(')').split(", ").map(str::to_owned).collect())
        }
    };
    let declared: Vec<_> = said
        .iter()
        .map(|said| {
            let (label, name) =
                said.split_once(' ').map_or(("", said.as_str()), |(label, name)| (label, name));
            let arg =
                method.args.iter().find(|arg| arg.name == name).expect("Swift's form names the arguments");
            declared(format!("{label} {}", camel(name)).trim_start(), arg)
        })
        .collect();
    let arrow = if kind.is_empty() { String::new() } else { format!(" -> {kind}") };
    let _ = writeln!(text, "        public func {name}({}){arrow} {{ {answer} }}", declared.join(", "));
}

fn comment(text: &mut String, indent: &str, doc: &'static str) {
    for (place, paragraph) in paragraphs(doc).into_iter().enumerate() {
        if place > 0 {
            let _ = writeln!(text, "{indent}///");
        }
        *text += &wrapped(&words(paragraph), WIDTH, &format!("{indent}/// "), &format!("{indent}/// "));
    }
}

/// The type of a part's settings, qualified where `Parts` would hide it.
fn options(part: &Part) -> String {
    let name = part.options();
    if name == part.name { format!("Tidegate.{name}") } else { name }
}

fn words(text: &str) -> String {
    SWIFT.camel_words(text)
}
