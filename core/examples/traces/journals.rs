//! Traces as journals, which every host can replay by its public `Engine.replay`, and what the engine says to them.
//!
//! A file of journals has for each trace a line with its name, the journal, and an empty line. A file of answers has the
//! same names, and an answer a line. Byte-equal answers mean equal steps, ids, wakes and draws.

use std::fs::File;
use std::io::{BufWriter, Write};

use serde_json::Value as Json;
use tidegate::{Answer, Clash, Engine, Flags, Input, Options, wire};

/// How answers are written: as Rust shows them, which Python and the JVM do too, or in words and numbers, as JavaScript does.
#[derive(Clone, Copy)]
pub enum Form {
    Debug,
    Words,
}

impl Form {
    pub fn of(name: &str) -> Self {
        match name {
            "debug" => Self::Debug,
            "words" | "small" => Self::Words,
            other => panic!("--form {other:?}: must be debug, words or small"),
        }
    }
}

/// A file of journals, and a file of answers.
pub struct Files {
    journals: BufWriter<File>,
    answers: BufWriter<File>,
    form: Form,
}

impl Files {
    pub fn new(journals: &str, answers: &str, form: &str) -> Self {
        let make = |file: &str| {
            BufWriter::new(File::create(file).unwrap_or_else(|why| panic!("cannot write {file}: {why}")))
        };
        Self { journals: make(journals), answers: make(answers), form: Form::of(form) }
    }

    /// Writes the journal of a trace that has run, and what another engine says to its lines.
    pub fn write(&mut self, vector: &Json, engine: &Engine) {
        let seed = vector["seed"].as_u64().expect("a seed");
        let routes = vector["max_routes"].as_u64().unwrap_or(10_000) as u32;
        let name = vector["name"].as_str().expect("a name");
        let lines: Vec<String> = engine.journal().map(ToString::to_string).collect();
        let journal = format!("tidegate journal 1 seed {seed} routes {routes}\n{}\n", lines.join("\n"));
        let wrote = writeln!(self.journals, "{name}\n{journal}");
        wrote.expect("room for journals");

        let mut again = Engine::new(seed, Options::default().max_routes(routes).journal(true));
        let inputs = lines.iter().map(|line| line.parse::<Input>().expect("an input"));
        writeln!(self.answers, "{name}").expect("room for answers");
        for answer in again.replay(inputs) {
            let wrote = match self.form {
                Form::Debug => writeln!(self.answers, "{answer:?}"),
                Form::Words => writeln!(self.answers, "{}", words_of(&answer)),
            };
            wrote.expect("room for answers");
        }
    }
}

/// An answer in words and numbers: the steps, ids and wakes in full.
fn words_of(answer: &Answer) -> String {
    let clash = |Clash { name, rule }: &Clash| format!("clash {name}: {rule}");
    let flags = |flags: &Flags| format!("flags {} {}", u8::from(flags.wakes), u8::from(flags.commands));
    match answer {
        Answer::Policy(taken) => {
            taken.as_ref().map_or_else(clash, |policy| format!("policy {}", policy.to_word()))
        }
        Answer::Pool(taken) => taken.as_ref().map_or_else(clash, |()| "pool".to_owned()),
        Answer::Route(route) => format!("route {}", route.to_word()),
        Answer::Path(path) => format!("target {}", path.to_word()),
        Answer::Begin(call, step) => format!("begin {} {}", call.to_word(), wire::pack_step(*step)),
        Answer::Step(step) => format!("step {}", wire::pack_step(*step)),
        Answer::Retuned(retuned) => retuned.as_ref().map_or_else(clash, flags),
        Answer::Flags(of) => flags(of),
        Answer::Noted => "noted".to_owned(),
        Answer::Settled(told) => format!("settled {}", u8::from(*told)),
        Answer::Restored(Ok(restored)) => format!("restored {}", restored.routes),
        Answer::Restored(Err(error)) => format!("not restored: {error}"),
        Answer::Wakes(calls) => {
            let calls: Vec<_> = calls.iter().map(|call| call.to_word().to_string()).collect();
            format!("wakes {}", calls.join(" "))
        }
        Answer::Commands(commands) => {
            let ids: Vec<_> = commands.iter().map(|it| it.id.to_word().to_string()).collect();
            format!("commands {}", ids.join(" "))
        }
    }
}
