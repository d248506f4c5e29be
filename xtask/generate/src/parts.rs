//! The lone parts, described once: what they are made of, what they do, and what people have to know of them.
//!
//! From this come the wrappers of all languages. What a language does in a way of its own stands in `parts/own/`, by part.

mod breaker;
mod budgets;
mod kotlin;
mod limits;
mod native;
mod python;
mod quantiles;
mod rates;
mod swift;

/// The generated files, by path from the root of the repository.
pub fn files() -> Vec<(String, String)> {
    GROUPS
        .iter()
        .flat_map(|group| {
            let parts: Vec<_> = parts().into_iter().filter(|part| part.group == *group).collect();
            [
                native::pyo3(group, &parts),
                native::uniffi(group, &parts),
                python::file(group, &parts),
                kotlin::file(group, &parts),
                swift::file(group, &parts),
            ]
        })
        .collect()
}

/// The files of a language, each of several parts.
const GROUPS: [&str; 6] = ["breaker", "budgets", "delay", "limit", "quantile", "rate"];

/// All parts, but for the retry strategy: its wrappers are written by hand.
fn parts() -> Vec<Part> {
    let all = [breaker::parts(), budgets::parts(), limits::parts(), quantiles::parts(), rates::parts()];
    all.into_iter().flatten().collect()
}

/// A part.
pub struct Part {
    pub group: &'static str,
    pub name: &'static str,
    /// How Rust gets the settings out of a policy: its method, or a closure; empty where there are none.
    pub settings: &'static str,
    /// The table of a policy whose keys the settings are.
    pub table: &'static str,
    /// Keys that make the settings those of this part, and their values.
    pub fixed: &'static [(&'static str, &'static str)],
    pub keys: Vec<Setting>,
    /// What a new one needs beside its settings.
    pub beside: Vec<Arg>,
    /// What its draws are for, where it draws.
    pub draws: Option<&'static str>,
    pub doc: &'static str,
    pub python: &'static str,
    pub kotlin: &'static str,
    pub swift: &'static str,
    pub methods: Vec<Method>,
    /// What a change of settings keeps, and whether it needs the time; empty where there is none.
    pub retune: (&'static str, bool),
}

/// A key of a policy that is one of a part's settings.
pub struct Setting {
    pub name: &'static str,
    pub needed: bool,
    /// What it means, where the table of keys says it for several parts.
    pub doc: &'static str,
}

#[derive(Clone)]
pub struct Arg {
    pub name: &'static str,
    pub kind: Kind,
    pub default: &'static str,
    pub doc: &'static str,
}

/// What an argument is.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// A moment on the user's clock.
    Moment,
    /// A span that was measured.
    Span,
    /// A span that a probe keeps its place for, or none.
    Lease,
    /// A whole number from the least to the greatest of its bits.
    Whole(u64, u32),
    /// The same, which is looked at when it was refused: nothing is spent on it where time counts.
    Hot(u32),
    /// A number of this range.
    Real(f64, f64),
    /// Any number.
    Float,
    Flag,
    /// 64 bits, or the part's own draw.
    Bits,
    /// The seed of all draws.
    Seed,
    /// A kind of failure that a retry is paid for after.
    PaidFor,
}

/// What a method answers.
#[derive(Clone, Copy, PartialEq)]
pub enum Ret {
    Nothing,
    Flag,
    /// Is it done, of a `Result`?
    Done,
    U32,
    U64,
    Cost,
    Real,
    MaybeReal,
    Span,
    MaybeSpan,
    /// Microseconds in a float.
    MaybeLatency,
    MaybeMoment,
    /// A wait, which may be for ever.
    Wait,
    /// The wait that an attempt to take has brought, of a `Result`.
    Taken,
}

pub struct Method {
    pub name: &'static str,
    pub args: Vec<Arg>,
    pub ret: Ret,
    pub doc: &'static str,
    /// Is it a property where a language has such?
    pub property: bool,
    /// Core's method and the order of its arguments, where they are others.
    pub core: &'static str,
    /// Swift's name and labels, where they are others.
    pub swift: &'static str,
    /// Is its Rust in `own`?
    pub own: bool,
}

pub fn part(group: &'static str, name: &'static str, doc: &'static str) -> Part {
    Part {
        group,
        name,
        doc,
        settings: "",
        table: "",
        fixed: &[],
        keys: Vec::new(),
        beside: Vec::new(),
        draws: None,
        python: "",
        kotlin: "",
        swift: "",
        methods: Vec::new(),
        retune: ("", false),
    }
}

impl Part {
    fn set(self, settings: &'static str, table: &'static str, fixed: &'static [(&str, &str)]) -> Self {
        Self { settings, table, fixed, ..self }
    }

    fn needs(self, name: &'static str, doc: &'static str) -> Self {
        self.setting(name, doc, true)
    }

    fn may(self, names: &'static str) -> Self {
        names.split(' ').fold(self, |part, name| part.setting(name, "", false))
    }

    fn setting(mut self, name: &'static str, doc: &'static str, needed: bool) -> Self {
        self.keys.push(Setting { name, needed, doc });
        self
    }

    fn beside(mut self, arg: Arg) -> Self {
        self.beside.push(arg);
        self
    }

    /// It draws, for this purpose of core's.
    fn draws(mut self, purpose: &'static str) -> Self {
        self.draws = Some(purpose);
        self
    }

    fn examples(self, python: &'static str, kotlin: &'static str, swift: &'static str) -> Self {
        Self { python, kotlin, swift, ..self }
    }

    fn does(mut self, name: &'static str, args: &[Arg], ret: Ret, doc: &'static str) -> Self {
        let args = args.to_vec();
        self.methods.push(Method { name, args, ret, doc, property: false, core: "", swift: "", own: false });
        self
    }

    fn has(self, name: &'static str, ret: Ret, doc: &'static str) -> Self {
        let part = self.does(name, &[], ret, doc);
        part.last(|method| method.property = true)
    }

    /// Core's name for the method before, and the order of core's arguments.
    fn core(self, call: &'static str) -> Self {
        self.last(|method| method.core = call)
    }

    /// Swift's name and labels for the method before.
    fn swift(self, form: &'static str) -> Self {
        self.last(|method| method.swift = form)
    }

    /// The Rust of the method before is in `own`.
    fn own(self) -> Self {
        self.last(|method| method.own = true)
    }

    fn retune(mut self, doc: &'static str, timed: bool) -> Self {
        self.retune = (doc, timed);
        self
    }

    fn last(mut self, change: impl FnOnce(&mut Method)) -> Self {
        change(self.methods.last_mut().expect("a method stands before"));
        self
    }

    /// What a change of settings needs beside them.
    pub fn retuned(&self) -> Vec<Arg> {
        let lease = self.beside.iter().filter(|arg| arg.kind == Kind::Lease).cloned();
        lease.chain(self.retune.1.then(now)).collect()
    }

    /// uniffi's name for it in Swift.
    pub fn foreign(&self) -> &'static str {
        if self.name == "DDSketch" { "DdSketch" } else { self.name }
    }

    /// The type of its settings in Kotlin and Swift.
    pub fn options(&self) -> String {
        type_name(self.table.rsplit('.').next().unwrap_or_default())
    }

    pub fn summary(&self) -> &'static str {
        paragraphs(self.doc)[0]
    }
}

pub fn arg(name: &'static str, kind: Kind) -> Arg {
    Arg { name, kind, default: "", doc: "" }
}

pub fn now() -> Arg {
    arg("now", Kind::Moment)
}

fn seed() -> Arg {
    arg("seed", Kind::Seed)
        .told("All the randomness there is, 64 bits; drawn from the operating system where it is left out.")
}

impl Arg {
    fn or(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    fn told(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }
}

/// The paragraphs of a text, between empty lines.
pub fn paragraphs(text: &'static str) -> Vec<&'static str> {
    text.trim().split("\n\n").collect()
}

/// What a language does in a way of its own: the lines below `== <what>` up to the next of them.
pub fn own(file: &'static str, what: &str) -> &'static str {
    let head = format!("== {what}\n");
    file.split_once(head.as_str())
        .map_or("", |(_, rest)| rest.split("\n== ").next().unwrap_or_default())
        .trim_end()
}

/// `max_attempts` as most languages have it: `maxAttempts`.
pub fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// `rate_limit` as a type's name: `RateLimit`.
pub fn type_name(name: &str) -> String {
    name.split('_')
        .filter(|word| !word.is_empty())
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}

/// A text in a language's terms: marks become its words, and keys are in camel case.
pub fn translated(text: &str, marks: &[(&str, &str)]) -> String {
    let mut text = marks.iter().fold(text.to_owned(), |text, (mark, word)| text.replace(mark, word));
    let names = tidegate::TABLE.iter().map(|key| key.path.rsplit('.').next().unwrap_or_default());
    let mut names: Vec<_> = names.filter(|name| name.contains('_')).collect();
    // No name is taken for a part of a longer one.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    for name in names {
        text = text.replace(name, &camel(name));
    }
    text
}

/// Words in lines of at most `width` characters behind an indent.
pub fn wrapped(words: &str, width: usize, first: &str, rest: &str) -> String {
    let (mut text, mut line, mut empty) = (String::new(), first.to_owned(), true);
    for word in words.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            text += line.trim_end();
            text.push('\n');
            (line, empty) = (rest.to_owned(), true);
        }
        if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    text + line.trim_end() + "\n"
}

/// Lines behind an indent.
pub fn indented(lines: &str, indent: &str) -> String {
    let line = |line: &str| if line.is_empty() { "\n".into() } else { format!("{indent}{line}\n") };
    lines.trim_matches('\n').lines().map(line).collect()
}
