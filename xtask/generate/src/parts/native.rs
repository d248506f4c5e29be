//! The Rust halves of the wrappers for Python and for uniffi: conversions and nothing else.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::languages::Language;
use super::{Arg, Method, Part, now, own, paragraphs};

pub const HEAD: &str =
    "// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.\n\n";

/// The language binding that the wrapper belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Host {
    Python,
    Uniffi,
}

use Host::{Python, Uniffi};

pub fn pyo3(group: &str, parts: &[&Part]) -> (String, String) {
    (format!("bindings-python/src/parts/{group}.rs"), file(group, parts, Python))
}

pub fn uniffi(group: &str, parts: &[&Part]) -> (String, String) {
    (format!("bindings-uniffi/src/parts/{group}.rs"), file(group, parts, Uniffi))
}

impl Host {
    fn own(self) -> &'static str {
        match self {
            Python => include_str!("own/pyo3.rs.in"),
            Uniffi => include_str!("own/uniffi.rs.in"),
        }
    }

    fn language(self) -> Language {
        Language(if self == Python { "pyo3" } else { "uniffi" })
    }

    fn kind(self, arg: &Arg) -> &'static str {
        self.language().arg(arg, arg.name).0
    }

    /// The expression that core gets for an argument, if it differs from the argument's name.
    fn given(self, arg: &Arg) -> Option<String> {
        Some(self.language().arg(arg, arg.name).1).filter(|given| given != arg.name)
    }

    fn result(self, of: &str) -> String {
        match self {
            Python => format!("PyResult<{of}>"),
            Uniffi => format!("Result<{of}, Invalid>"),
        }
    }

    /// The code that wraps a new part of core's.
    fn made(self, inner: &str) -> String {
        match self {
            Python => format!("Self(Mutex::new({inner}))"),
            Uniffi => format!("Arc::new(Self(Mutex::new({inner})))"),
        }
    }

    fn public(self) -> &'static str {
        if self == Python { "" } else { "pub " }
    }
}

fn file(group: &str, parts: &[&Part], host: Host) -> String {
    let mut body = String::new();
    for part in parts {
        class(&mut body, part, host);
    }
    body += own(host.own(), &format!("file {group}"));
    let mut imports: Vec<(&str, &[&str])> = Vec::new();
    if host == Uniffi {
        imports.push(("std::sync", &["Arc"]));
    }
    imports.push(("parking_lot", &["Mutex"]));
    if host == Python {
        imports.push(("pyo3::exceptions", &["PyValueError"]));
        imports.push(("pyo3", &["Bound", "PyAny", "PyResult", "pyclass", "pyfunction", "pymethods"]));
    }
    imports.push(("tidegate::rng", &["Purpose"]));
    let helpers: &[&str] = &[
        "Drawn", "Pairs", "argument", "class", "leased", "moment", "paid_for", "reading", "seconds",
        "settings", "span", "time", "until",
    ];
    imports.push(("super", helpers));
    if host == Uniffi {
        imports.push(("crate", &["Invalid"]));
    }
    formatted(&format!("{HEAD}//! {}\n\n{}\n{body}", title(group), used(&body, &imports)))
}

/// The description of a file.
pub fn title(group: &str) -> &'static str {
    match group {
        "breaker" => "Who is let through: the circuit breaker and the adaptive throttle.",
        "budgets" => "How many retries: the budgets, of every kind.",
        "delay" => "Delays: the backoff, and what a server asks for.",
        "limit" => "How much at once: the controllers of adaptive limits, and of a queue.",
        "quantile" => "Estimators of quantiles.",
        _ => "How fast: rate limits, and the cubic send rate.",
    }
}

/// The imports that this code needs.
pub fn used(body: &str, imports: &[(&str, &[&str])]) -> String {
    let code = body.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words: Vec<_> =
        code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
    let mut text = String::new();
    for (path, names) in imports {
        let names: Vec<_> = names.iter().filter(|name| words.contains(*name)).copied().collect();
        if !names.is_empty() {
            let _ = writeln!(text, "use {path}::{{{}}};", names.join(", "));
        }
    }
    text
}

fn class(text: &mut String, part: &Part, host: Host) {
    let name = part.name;
    let inner = match part.draws {
        Some(_) => format!("Drawn<tidegate::{name}>"),
        None => format!("tidegate::{name}"),
    };
    let (attribute, methods) = match host {
        Python => ("#[pyclass(frozen, module = \"tidegate._native\")]", "#[pymethods]"),
        Uniffi => ("#[derive(uniffi::Object)]", "#[uniffi::export]"),
    };
    let _ = write!(
        text,
        "/// {}\n{attribute}\npub struct {name}(pub(super) Mutex<{inner}>);\n\n{methods}\nimpl {name} {{\n",
        flow(host.language(), part.summary())
    );
    constructor(text, part, host);
    for method in part.methods.iter().filter(|method| !method.own) {
        does(text, part, method, host);
    }
    if !part.retune.0.is_empty() {
        retune(text, part, host);
    }
    let copied = own(host.own(), name);
    let _ = write!(text, "{copied}\n\n/// Another of the same state.\n{}fn copy(&self) -> ", host.public());
    let _ = match host {
        Python => write!(text, "Self"),
        Uniffi => write!(text, "Arc<Self>"),
    };
    let _ = write!(
        text,
        " {{\n#[allow(clippy::clone_on_copy)] // of some parts, which is all the same here\nlet twin = self.0.lock().clone();\n{}\n}}\n}}\n\n",
        host.made("twin")
    );
}

/// The code that makes core's settings from pairs.
fn settings(part: &Part) -> String {
    let of = match part.fixed[..] {
        _ if part.settings == "backoff" => "|policy| Some(policy.backoff())".into(),
        _ if part.settings != "budget" => format!("tidegate::Policy::{}", part.settings),
        [(_, kind), ..] => {
            let variant = kind[..1].to_uppercase() + &kind[1..];
            format!(
                "|policy| match policy.budget() {{ Some(tidegate::BudgetSettings::{variant}(it)) => Some(it), _ => None }}"
            )
        }
        [] => unreachable!("a budget is of some kind"),
    };
    let settings = format!("settings(&pairs, {of})?");
    if part.beside.iter().any(|arg| arg.kind == "lease") {
        return format!("leased({settings}, probe_lease)");
    }
    settings
}

const PAIRS: &str = "pairs: \"list[tuple[str, float | str]]\"";
const EXTRACTED: &str = "#[allow(clippy::needless_pass_by_value)] // extracted from Python objects\n";

fn constructor(text: &mut String, part: &Part, host: Host) {
    let names: Vec<_> = part.beside.iter().map(|arg| arg.name).collect();
    let mut taken: Vec<_> =
        part.beside.iter().map(|arg| format!("{}: {}", arg.name, host.kind(arg))).collect();
    let with_settings = !part.settings.is_empty();
    if with_settings {
        taken.insert(0, "pairs: Pairs".into());
    }
    match host {
        Python => {
            *text += "#[new]\n";
            if with_settings {
                let all: Vec<_> = std::iter::once(PAIRS).chain(names.iter().copied()).collect();
                let _ = write!(text, "#[pyo3(signature = ({}))]\n{EXTRACTED}", all.join(", "));
            }
        }
        Uniffi => *text += "/// A new one with these settings.\n#[uniffi::constructor]\n",
    }
    let mut given: Vec<_> = Vec::new();
    if with_settings {
        given.push(settings(part));
    }
    for arg in part.beside.iter().filter(|arg| !matches!(arg.kind, "seed" | "lease")) {
        given.push(host.given(arg).unwrap_or_else(|| arg.name.into()));
    }
    let mut inner = format!("tidegate::{}::new({})", part.name, given.join(", "));
    if part.name == "Backoff" {
        inner.clone_from(&given[0]);
    }
    if part.draws.is_some() {
        inner = format!("Drawn::new({inner}, seed)");
    }
    let fallible = with_settings || part.beside.iter().any(|arg| arg.kind == "moment");
    let this = if host == Python { "Self" } else { "Arc<Self>" };
    let made = host.made(&inner);
    let (ret, made) = if fallible { (host.result(this), format!("Ok({made})")) } else { (this.into(), made) };
    let _ = write!(text, "{}fn new({}) -> {ret} {{\n{made}\n}}\n\n", host.public(), taken.join(", "));
}

fn does(text: &mut String, part: &Part, method: &Method, host: Host) {
    let mut fallible = false;
    let mut lets = String::new();
    for arg in &method.args {
        if let Some(given) = host.given(arg) {
            fallible |= given.ends_with('?');
            let _ = writeln!(lets, "let {} = {given};", arg.name);
        }
    }
    let mut receiver = if part.draws.is_some() { "self.0.lock().part" } else { "self.0.lock()" };
    if let (Some(purpose), true) = (part.draws, method.args.iter().any(|arg| arg.kind == "bits")) {
        let _ = write!(lets, "let mut it = self.0.lock();\nlet bits = it.bits(bits, Purpose::{purpose});\n");
        receiver = "it.part";
    }
    let core = format!("{receiver}.{}", core_call(method, str::to_owned));
    let (kind, answer) = host.language().answer(method.ret, &core);
    let (ret, answer) = match (fallible, kind) {
        (true, "") => (format!("-> {}", host.result("()")), format!("{answer}\nOk(())")),
        (true, kind) => (format!("-> {}", host.result(kind)), format!("Ok({answer})")),
        (false, "") => (String::new(), answer),
        (false, kind) => (format!("-> {kind}"), answer),
    };
    let args: Vec<_> = method.args.iter().map(|arg| format!(", {}: {}", arg.name, host.kind(arg))).collect();
    let doc = flow(host.language(), paragraphs(method.doc)[0]);
    let (public, name) = (host.public(), method.name);
    let _ =
        write!(text, "/// {doc}\n{public}fn {name}(&self{}) {ret} {{\n{lets}{answer}\n}}\n\n", args.concat());
}

/// The call of core's method; `given` is the expression for each argument.
pub fn core_call(method: &Method, given: impl Fn(&str) -> String) -> String {
    let names = || std::iter::once(method.name).chain(method.args.iter().map(|arg| arg.name));
    let order: Vec<_> =
        if method.core.is_empty() { names().collect() } else { method.core.split(' ').collect() };
    let given: Vec<_> = order[1..].iter().map(|name| given(name)).collect();
    format!("{}({})", order[0], given.join(", "))
}

fn retune(text: &mut String, part: &Part, host: Host) {
    let args = part.retuned();
    *text += "/// Applies new settings.\n";
    if host == Python {
        let names: Vec<_> = std::iter::once(PAIRS).chain(args.iter().map(|arg| arg.name)).collect();
        let _ = write!(text, "#[pyo3(signature = ({}))]\n{EXTRACTED}", names.join(", "));
    }
    let taken: Vec<_> = args.iter().map(|arg| format!(", {}: {}", arg.name, host.kind(arg))).collect();
    let mut given = vec!["to"];
    let _ = write!(
        text,
        "{}fn retune(&self, pairs: Pairs{}) -> {} {{\nlet to = {};\n",
        host.public(),
        taken.concat(),
        host.result("()"),
        settings(part)
    );
    if part.retune.1 {
        let _ = writeln!(text, "let now = {};", host.given(&now()).expect("a moment is converted"));
        given.push("now");
    }
    let receiver = if part.draws.is_some() { "self.0.lock().part" } else { "self.0.lock()" };
    let _ = write!(text, "{receiver}.retune({});\nOk(())\n}}\n\n", given.join(", "));
}

/// A text in a language's terms, on one line.
pub fn flow(language: Language, text: &str) -> String {
    language.words(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Formats Rust code as `cargo fmt` does.
pub fn formatted(text: &str) -> String {
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
