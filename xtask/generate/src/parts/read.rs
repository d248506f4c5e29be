//! Reads the description of the parts.
//!
//! An item is a line, `<word> <rest> # <text>`. Lines below it that are indented by four spaces continue its text: paragraphs, and
//! arguments as `- <name>: <text>`. An argument is `<name>: <kind> = <default>`; `now` is a moment. A mistake in a description panics
//! in the generator.

use super::{Arg, Group, Method, Part, Setting};

pub fn group(name: &'static str, text: &'static str) -> Group {
    let mut group = Group { name, kotlin: "", swift: "", doc: "", parts: Vec::new() };
    for (word, rest, body) in items(text) {
        match (word, group.parts.last_mut()) {
            ("file", _) => {
                (group.kotlin, group.swift) = rest.split_once(' ').expect("names of files");
                group.doc = body;
            }
            ("part", _) => {
                let (name, core) = rest.split_once(' ').unwrap_or((rest, rest));
                group.parts.push(Part { name, core, doc: body, ..Part::default() });
            }
            (_, part) => take(part.expect("a part comes first"), word, rest, body),
        }
    }
    group
}

/// Reads the items: word, rest and text.
fn items(text: &'static str) -> Vec<(&'static str, &'static str, &'static str)> {
    let mut items: Vec<(&str, String)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("    "), items.last_mut()) {
            (Some(more), Some((_, body))) => {
                body.push_str(more);
                body.push('\n');
            }
            (_, Some((_, body))) if line.is_empty() => body.push('\n'),
            _ => {
                let (head, body) = line.split_once(" # ").unwrap_or((line, ""));
                items.push((head, format!("{body}\n")));
            }
        }
    }
    let split = |(head, body): (&'static str, String)| {
        let (word, rest) = head.split_once(' ').unwrap_or((head, ""));
        (word, rest, body.leak().trim_matches('\n'))
    };
    items.into_iter().map(split).collect()
}

fn take(part: &mut Part, word: &'static str, rest: &'static str, body: &'static str) {
    match word {
        "settings" => {
            let mut words = rest.split(' ');
            part.table = words.next().unwrap_or_default();
            part.settings = words.next().unwrap_or_default();
            part.fixed = words.filter_map(|pair| pair.split_once('=')).collect();
        }
        "made" => part.made = true,
        "draws" => part.draws = Some(rest),
        "needs" | "may" => {
            let setting = |name| Setting { name, needed: word == "needs", doc: body };
            part.keys.extend(rest.split(' ').map(setting));
        }
        "beside" => part.beside.push(Arg { doc: body, ..arg(rest) }),
        "python" | "kotlin" | "swift" => _ = part.examples.insert(word, body),
        "typescript" => {
            part.examples.insert(word, body);
            part.named = rest.split_whitespace().collect();
        }
        "does" | "has" => part.methods.push(method(word == "has", rest, body)),
        "retune" => part.retune = (body, rest == "now"),
        other => panic!("{}: {other} is no item", part.name),
    }
}

/// Reads a method: `try_take(now, cost: hot(32) = 1) -> done | core try_take cost now`
fn method(property: bool, rest: &'static str, body: &'static str) -> Method {
    let mut words = rest.split(" | ");
    let form = words.next().unwrap_or_default();
    let (call, ret) = form.split_once(" -> ").unwrap_or((form, "nothing"));
    let (name, args) = call.split_once('(').unwrap_or((call, ")"));
    let mut args: Vec<_> = split(args.strip_suffix(')').expect("arguments end")).map(arg).collect();
    let (body, raises) = body.split_once("\n! ").unwrap_or((body, ""));
    let (doc, told) = body.split_once("\n- ").unwrap_or((body, ""));
    for (name, doc) in told.split("\n- ").filter_map(|line| line.split_once(": ")) {
        args.iter_mut().find(|arg| arg.name == name).expect("an argument is told of").doc = doc;
    }
    let mut method = Method { name, args, ret, doc, raises, property, core: "", swift: "", hidden: false };
    for word in words {
        match word.split_once(' ').unwrap_or((word, "")) {
            ("core", order) => method.core = order,
            ("hidden", _) => method.hidden = true,
            ("swift", form) => method.swift = form,
            (other, _) => panic!("{name}: {other} is no mark"),
        }
    }
    method
}

/// Splits arguments at commas that are not in brackets.
fn split(args: &'static str) -> impl Iterator<Item = &'static str> {
    let mut depth = 0;
    let between = move |letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        depth == 0 && letter == ','
    };
    args.split(between).map(str::trim).filter(|arg| !arg.is_empty())
}

fn arg(text: &'static str) -> Arg {
    let (text, default) = text.split_once(" = ").unwrap_or((text, ""));
    let (name, kind) = text.split_once(": ").unwrap_or((text, "moment"));
    let (word, range) = kind.trim_end_matches(')').split_once('(').unwrap_or((kind, ""));
    let (least, most) = range.split_once(", ").unwrap_or(("", range));
    Arg { name, kind: word, least, most, default, doc: "" }
}
