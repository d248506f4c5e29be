//! Generates the hosts' classification of errors: core's table in the sources of each host, and a page for users.

use std::fmt::Write;

use tidegate::Class;
use tidegate::errors::{
    DEEPEST, ERRNOS, Family, GRPC, Grpc, HEADER_PATHS, IN_PAGES, JAVASCRIPT, JVM, MYSQL, MYSQL_ROOTS, NOTE,
    PYTHON, Rule, SQLITE, SQLSTATES, STATUS_PATHS, THROTTLING_CODES, URL_ERRORS,
};

const FROM: &str = "Generated from core/src/errors by `cargo xtask generate`; do not edit.";

/// The generated files, by path from the root of the repository.
pub fn files() -> [(&'static str, String); 6] {
    [
        ("docs/errors.md", page()),
        ("bindings-python/python/tidegate/_call/errors_gen.py", python()),
        ("bindings-wasm/ts/errors/errors_gen.ts", typescript()),
        ("bindings-wasm/ts/errors/errors_server_gen.ts", typescript_server()),
        ("bindings-uniffi/kotlin/tidegate/src/main/kotlin/dev/tidegate/internal/ErrorsGen.kt", kotlin()),
        ("bindings-uniffi/swift/Sources/Tidegate/ErrorsGen.swift", swift()),
    ]
}

/// All names of a language with their full form, class, and whether a known cause takes precedence over the class.
fn names(families: &[Family]) -> Vec<(String, Rule)> {
    let mut all = Vec::new();
    for family in families {
        for rule in family.rules {
            for name in rule.names() {
                for root in family.roots.split(' ') {
                    let full = if root.is_empty() { name.into() } else { format!("{root}.{name}") };
                    all.push((full, *rule));
                }
            }
        }
    }
    all
}

fn pairs(rules: &[Rule]) -> impl Iterator<Item = (&'static str, Class)> {
    rules.iter().flat_map(|rule| rule.names().map(|name| (name, rule.class)))
}

/// Writes a Python container of quoted words, one per line.
fn python_words(text: &mut String, name: &str, kind: &str, open: &str, close: &str, words: &[String]) {
    let _ = writeln!(text, "{name}: Final{kind} = {open}");
    for word in words {
        let _ = writeln!(text, "    {word},");
    }
    let _ = writeln!(text, "{close}");
}

/// Writes a Python set of quoted words, one per line.
fn python_set(text: &mut String, name: &str, words: &[String]) {
    let _ = writeln!(text, "{name}: Final = frozenset(\n    {{");
    for word in words {
        let _ = writeln!(text, "        {word},");
    }
    *text += "    }\n)\n";
}

fn python() -> String {
    let mut text = format!("# {FROM}\n\"\"\"What errors mean (semantics 1.5).\"\"\"\n\n");
    text += "from __future__ import annotations\n\nfrom typing import Final\n\n";
    let _ = writeln!(
        text,
        "DEEPEST: Final = {DEEPEST}\n\"\"\"How many errors of a chain of causes are looked at.\"\"\"\n"
    );
    let _ = writeln!(text, "NOTE: Final = \"{NOTE}\"");
    text += "\"\"\"The note of an error that is permanent because nothing is known of it.\"\"\"\n\n";
    let quoted = |word: &str| format!("\"{word}\"");
    let paths = |paths: &[&str]| paths.iter().map(|path| quoted(path)).collect::<Vec<_>>();
    python_words(&mut text, "STATUS_PATHS", "", "(", ")", &paths(STATUS_PATHS));
    python_words(&mut text, "\nHEADER_PATHS", "", "(", ")", &paths(HEADER_PATHS));
    let map = |rules: &[Rule]| -> Vec<_> {
        pairs(rules).map(|(name, class)| format!("\"{name}\": \"{}\"", class.name())).collect()
    };
    let all = names(PYTHON);
    let types: Vec<_> =
        all.iter().map(|(name, rule)| format!("\"{name}\": \"{}\"", rule.class.name())).collect();
    python_words(&mut text, "\nTYPES", "", "{", "}", &types);
    text += "\"\"\"The classes of exceptions by top-level module and name.\"\"\"\n\n";
    let wraps: Vec<_> = all.iter().filter(|(_, rule)| rule.wraps).map(|(name, _)| quoted(name)).collect();
    python_set(&mut text, "WRAPS", &wraps);
    text += "\"\"\"Those of which a known cause decides.\"\"\"\n\n";
    python_words(&mut text, "ERRNOS", "", "{", "}", &map(ERRNOS));
    python_words(&mut text, "\nSQLSTATES", "", "{", "}", &map(SQLSTATES));
    python_words(&mut text, "\nSQLITE", "", "{", "}", &map(SQLITE));
    let mysql: Vec<_> = pairs(MYSQL).map(|(n, class)| format!("{n}: \"{}\"", class.name())).collect();
    python_words(&mut text, "\nMYSQL", "", "{", "}", &mysql);
    let roots: Vec<_> = MYSQL_ROOTS.split_ascii_whitespace().map(quoted).collect();
    let _ = writeln!(text, "\nMYSQL_ROOTS: Final = frozenset({{{}}})", roots.join(", "));
    let codes: Vec<_> = THROTTLING_CODES.split_ascii_whitespace().map(quoted).collect();
    text += "\n";
    python_set(&mut text, "THROTTLING_CODES", &codes);
    let grpc: Vec<_> = GRPC
        .iter()
        .map(|(name, meaning)| match meaning {
            Grpc::Status(status) => format!("\"{name}\": {status}"),
            Grpc::Class(class) => format!("\"{name}\": \"{}\"", class.name()),
        })
        .collect();
    python_words(&mut text, "\nGRPC", "[dict[str, int | str]]", "{", "}", &grpc);
    text += "\"\"\"What codes of gRPC mean: an HTTP status, or a class.\"\"\"\n";
    text
}

/// Writes a table of names by class.
fn typescript_table(text: &mut String, name: &str, about: &str, rules: &[(&str, Class)]) {
    let _ = writeln!(text, "\n/** {about} */\nexport const {name}: Readonly<Record<string, string>> = {{");
    for class in Class::ALL {
        let words: Vec<_> = rules.iter().filter(|(_, of)| *of == class).map(|(name, _)| *name).collect();
        if !words.is_empty() {
            strings(text, class.name(), &words);
        }
    }
    *text += "};\n";
}

/// The rules of JavaScript for browsers or for servers, for wrapping errors or for others.
fn of_javascript(pages: bool, wraps: bool) -> Vec<(&'static str, Class)> {
    let families = JAVASCRIPT.iter().filter(|family| IN_PAGES.contains(&family.name) == pages);
    let rules = families.flat_map(|family| family.rules).filter(|rule| rule.wraps == wraps);
    rules.flat_map(|rule| rule.names().map(|name| (name, rule.class))).collect()
}

fn typescript() -> String {
    let mut text = format!("// {FROM}\n");
    let about = "What errors mean (semantics 1.5): names of errors and their codes, by class.";
    let mut rules = of_javascript(true, false);
    rules.extend(pairs(ERRNOS).filter(|(name, _)| !name.starts_with("WSA")));
    typescript_table(&mut text, "NAMES", about, &rules);
    let about = "Names of errors of which a known cause decides, else this class.";
    typescript_table(&mut text, "WRAPS", about, &of_javascript(true, true));
    text += "\n/** Where a status is found, and the headers that belong to it. */\n";
    let _ = writeln!(text, "export const STATUS_PATHS =\n  \"{}\";", STATUS_PATHS.join(" "));
    let _ = writeln!(text, "export const HEADER_PATHS =\n  \"{}\";", HEADER_PATHS.join(" "));
    text += "\n/** How many errors of a chain of causes are looked at. */\n";
    let _ = writeln!(text, "export const DEEPEST = {DEEPEST};");
    text += "\n/** The note of an error that is permanent because nothing is known of it. */\n";
    let _ = writeln!(text, "export const NOTE =\n  \"{NOTE}\";");
    text
}

/// The rules that apply on servers only.
fn typescript_server() -> String {
    let mut text = format!("// {FROM}\n");
    let mut rules = of_javascript(false, false);
    rules.extend(pairs(SQLITE));
    typescript_table(&mut text, "NAMES", "Names and codes of errors that servers meet.", &rules);
    typescript_table(
        &mut text,
        "WRAPS",
        "Those of which a known cause decides.",
        &of_javascript(false, true),
    );
    let states: Vec<_> = pairs(SQLSTATES).collect();
    typescript_table(&mut text, "SQLSTATES", "SQLSTATEs, or their first two characters.", &states);
    let codes: Vec<_> = THROTTLING_CODES.split_ascii_whitespace().collect();
    text += "\n/** Codes by which AWS services ask for less load. */\n";
    let _ = writeln!(text, "export const THROTTLING =\n  \"{}\";", codes.join(" "));
    let grpc: Vec<_> = GRPC
        .iter()
        .map(|(_, meaning)| match meaning {
            Grpc::Status(status) => status.to_string(),
            Grpc::Class(class) => class.name().into(),
        })
        .collect();
    text += "\n/** What codes of gRPC mean, in the order of their numbers: an HTTP status, or a class. */\n";
    let _ = writeln!(text, "export const GRPC = \"{}\";", grpc.join(" "));
    text
}

fn strings(text: &mut String, name: &str, words: &[&str]) {
    let line = format!("  {name}: \"{}\",", words.join(" "));
    if line.len() <= 110 {
        let _ = writeln!(text, "{line}");
    } else {
        let _ = writeln!(text, "  {name}:\n    \"{}\",", words.join(" "));
    }
}

fn kotlin() -> String {
    let mut text = format!("// {FROM}\n\npackage dev.tidegate.internal\n\n");
    text +=
        "/** What errors mean (semantics 1.5). */\n@Suppress(\"LargeClass\")\ninternal object ErrorsGen {\n";
    let _ = writeln!(
        text,
        "    /** How many errors of a chain of causes are looked at. */\n    const val DEEPEST: Int = {DEEPEST}\n"
    );
    text += "    /** The note of an error that is permanent because nothing is known of it. */\n";
    let _ = writeln!(text, "    const val NOTE: String =\n        \"{NOTE}\"\n");
    text += "    /** The classes of throwables by their full names. */\n    val types: Map<String, String> = mapOf(\n";
    let all = names(JVM);
    for (name, rule) in &all {
        let _ = writeln!(text, "        \"{name}\" to \"{}\",", rule.class.name());
    }
    text +=
        "    )\n\n    /** Those of which a known cause decides. */\n    val wraps: Set<String> = setOf(\n";
    for (name, _) in all.iter().filter(|(_, rule)| rule.wraps) {
        let _ = writeln!(text, "        \"{name}\",");
    }
    text += "    )\n\n    /** SQLSTATEs, or their first two characters. */\n    val sqlStates: Map<String, String> = mapOf(\n";
    for (name, class) in pairs(SQLSTATES) {
        let _ = writeln!(text, "        \"{name}\" to \"{}\",", class.name());
    }
    text += "    )\n\n    /** Error numbers of MySQL. */\n    val mysql: Map<Int, String> = mapOf(\n";
    for (number, class) in pairs(MYSQL) {
        let _ = writeln!(text, "        {number} to \"{}\",", class.name());
    }
    text += "    )\n\n    /** Codes by which AWS services ask for less load: they are judged as a 429. */\n    val throttling: Set<String> = setOf(\n";
    for code in THROTTLING_CODES.split_ascii_whitespace() {
        let _ = writeln!(text, "        \"{code}\",");
    }
    text += "    )\n\n    /** What codes of gRPC mean, in the order of their numbers: an HTTP status (an Int), or a class (a String). */\n    val grpc: List<Any> = listOf(\n";
    for (name, meaning) in GRPC {
        let value = match meaning {
            Grpc::Status(status) => status.to_string(),
            Grpc::Class(class) => format!("\"{}\"", class.name()),
        };
        let _ = writeln!(text, "        {value}, // {name}");
    }
    text + "    )\n}\n"
}

fn swift() -> String {
    let mut text = format!("// {FROM}\n\nimport Foundation\n\n");
    text += "/// What errors mean (semantics 1.5).\nenum ErrorsGen {\n";
    let _ = writeln!(
        text,
        "    /// How many errors of a chain of causes are looked at.\n    static let deepest = {DEEPEST}\n"
    );
    text += "    /// The note of an error that is permanent because nothing is known of it.\n";
    let _ = writeln!(text, "    static let note =\n        \"{NOTE}\"\n");
    text +=
        "    /// Codes of `URLError`; any other is permanent.\n    static let urlErrors: [Int: Kind] = [\n";
    for error in URL_ERRORS {
        let _ = writeln!(text, "        {}: {}, // {}", error.code, swift_kind(error.class), error.name);
    }
    text += "    ]\n\n    /// Errors of the operating system; any other is permanent.\n    static let errnos: [Int32: Kind] = [\n";
    // Numbers that are equal on some platforms would make duplicate keys.
    for (name, class) in pairs(ERRNOS).filter(|(name, _)| !name.starts_with("WSA") && *name != "EWOULDBLOCK")
    {
        let _ = writeln!(text, "        {name}: {},", swift_kind(class));
    }
    text += "    ]\n\n    /// What codes of gRPC mean: an HTTP status.\n    static let grpcStatuses: [Int: Int] = [\n";
    for (number, (name, meaning)) in GRPC.iter().enumerate() {
        if let Grpc::Status(status) = meaning {
            let _ = writeln!(text, "        {number}: {status}, // {name}");
        }
    }
    text += "    ]\n\n    /// What codes of gRPC mean that have no such status.\n    static let grpcKinds: [Int: Kind] = [\n";
    for (number, (name, meaning)) in GRPC.iter().enumerate() {
        if let Grpc::Class(class) = meaning {
            let _ = writeln!(text, "        {number}: {}, // {name}", swift_kind(*class));
        }
    }
    text + "    ]\n}\n"
}

fn swift_kind(class: Class) -> &'static str {
    match class {
        Class::Ok => ".ok",
        Class::Transient => ".transient",
        Class::Throttled => ".throttled",
        Class::Timeout => ".timeout",
        Class::NeverSent => ".neverSent",
        Class::Conflict => ".conflict",
        Class::Permanent => ".permanent",
        Class::Ignored => ".ignored",
        Class::Cancelled => ".cancelled",
    }
}

fn page() -> String {
    let mut text = String::from(
        "# Which errors are repeated

A policy around a plain function repeats an error that may pass, and no other. These tables say which errors those are. They are the same data that the
hosts use ([core/src/errors](../core/src/errors.rs)); [semantics 1.5](spec.md#15-errors-of-plain-functions) has the rules. `cargo xtask generate` writes this page.
The errors that tests raise to check them are on pages of their own: [Python](errors-python.md), [JavaScript](errors-javascript.md), [the JVM](errors-kotlin.md), [Swift](errors-swift.md).

An error that is not here is permanent. It carries a note that says so. To repeat it, name its type at the policy:

| Language | One line |
|---|---|
| Python | `Policy(retry={}, on=(MyError,))` |
| JavaScript | `policy({ retry: {}, on: [MyError] })` |
| Kotlin | `retryOn<MyError>()` |
| Swift | `Policy(retry: Retry(), on: [MyError.self])` |
| Rust | `policy.on::<MyError>()` |

`classify` decides everything else; its answer goes before all tables.

## In which order an error is judged

1. An end of an inner policy, a throttling code of AWS, and a status on the error ([where](#statuses)) come first.
2. Then a SQLSTATE, or an error number of MySQL or SQLite; then the name of its type, or of a base class of it; then an error number of the operating system.
3. If none of these knows the error, its cause is judged in the same way, at most 8 causes deep.

In a browser, JavaScript knows the errors of the web platform, axios, openai, anthropic and stripe, and numbers of the operating system; on servers and workers it knows all.

A class in brackets marks an error that wraps another one: if its cause is known, the cause decides; otherwise the class in brackets holds.

",
    );
    for (title, families) in [("Python", PYTHON), ("JavaScript", JAVASCRIPT), ("JVM", JVM)] {
        let _ = writeln!(text, "## {title}\n\n| Library | Errors | Class |\n|---|---|---|");
        for family in families {
            for rule in family.rules {
                let names: Vec<_> = rule.names().map(|name| format!("`{name}`")).collect();
                let class =
                    if rule.wraps { format!("({})", rule.class.name()) } else { rule.class.name().into() };
                let _ = writeln!(text, "| {} | {} | {class} |", family.name, names.join(" "));
            }
        }
        text += "\n";
    }
    text += "## Swift\n\n| `URLError` | Class |\n|---|---|\n";
    for error in URL_ERRORS {
        let _ = writeln!(text, "| `{}` ({}) | {} |", error.name, error.code, error.class.name());
    }
    text += "\n## The operating system\n\nAny other number is permanent: `ENOENT`, `EACCES`, `EPERM`, `EINVAL`, `ENOSPC`, …\n\n| Numbers | Class |\n|---|---|\n";
    table(&mut text, ERRNOS);
    text += "\n## Databases\n\nA SQLSTATE that is not here is permanent. Two characters stand for all states that begin with them.\n\n| SQLSTATE | Class |\n|---|---|\n";
    table(&mut text, SQLSTATES);
    text += "\n| MySQL and MariaDB | Class |\n|---|---|\n";
    table(&mut text, MYSQL);
    text += "\n| SQLite | Class |\n|---|---|\n";
    table(&mut text, SQLITE);
    let list = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let _ = write!(
        text,
        "\n## Statuses\n\nA status is a whole number from 400 to 599, at one of {}. Its headers are at one of {}. [1.4](spec.md#14-http-and-functions) says what each status means.\n\n",
        list(STATUS_PATHS),
        list(HEADER_PATHS)
    );
    let codes: Vec<_> = THROTTLING_CODES.split_ascii_whitespace().collect();
    let _ = writeln!(text, "An AWS error whose code is one of these is judged as a 429: {}.\n", list(&codes));
    text += "| gRPC | Judged as |\n|---|---|\n";
    for (name, meaning) in GRPC {
        match meaning {
            Grpc::Status(status) => {
                let _ = writeln!(text, "| `{name}` | HTTP {status} |");
            }
            Grpc::Class(class) => {
                let _ = writeln!(text, "| `{name}` | {} |", class.name());
            }
        }
    }
    text
}

fn table(text: &mut String, rules: &[Rule]) {
    for rule in rules {
        let names: Vec<_> =
            rule.names().filter(|name| !name.starts_with("WSA")).map(|name| format!("`{name}`")).collect();
        let _ = writeln!(text, "| {} | {} |", names.join(" "), rule.class.name());
    }
}
