//! Replays journals with the public `Engine::replay`: that of a single call, and the random traces of `cargo xtask
//! test`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they read and write files"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

use crate::support::{broken, plain};
use tidegate_tokio::{Engine, Options};

fn recorder(seed: u64, max_routes: u32) -> Engine {
    Engine::with_options(seed, Options::default().max_routes(max_routes).journal(true))
}

#[tokio::test(start_paused = true)]
async fn a_journal_replayed_gives_the_same_engine_and_explains_its_calls() {
    let engine = recorder(7, 10);
    let policy = plain(&engine, "p", 2).build().unwrap();
    policy.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
    let _ = policy.run(|_| async { Err::<(), _>(broken()) }).await;
    let lines = engine.take_journal().lines;

    let again = recorder(7, 10);
    let answers = again.replay(&lines).unwrap();
    assert_eq!(answers.len(), lines.len());
    assert_eq!(again.save(), engine.save(), "what was learned");
    assert_eq!(again.take_journal().lines, lines, "it keeps a journal itself");
    assert_eq!(recorder(7, 10).replay(&lines).unwrap(), answers);
}

#[test]
fn a_line_that_is_none_is_named_and_nothing_is_put_in() {
    let engine = recorder(7, 10);
    let error = engine.replay(["policy \"p\" preset=\"http\"", "nonsense"]).unwrap_err();
    assert_eq!((error.line, error.text.as_str()), (2, "nonsense"));
    let text = error.to_string();
    assert!(text.starts_with("journal, line 2: ") && text.ends_with(": nonsense"), "{text}");
    assert!(engine.take_journal().lines.is_empty() && engine.snapshot().policies.is_empty());
}

/// Replays the journals in the folder that `TIDEGATE_TRACES` names, and writes the answers there for `cargo xtask test`
/// to compare.
#[test]
#[ignore = "needs TIDEGATE_TRACES: a folder of journals, which cargo xtask test writes"]
fn random_traces() {
    let folder = env::var("TIDEGATE_TRACES").expect("TIDEGATE_TRACES is a folder");
    let files = fs::read_dir(&folder).expect("it is there").map(|entry| entry.expect("a file").path());
    let journals: BTreeSet<_> =
        files.filter(|file| file.extension().is_some_and(|it| it == "journals")).collect();
    assert!(!journals.is_empty(), "no journals in {folder}");
    for file in &journals {
        replay(file);
    }
}

/// Replays a file of journals. It has for each trace its name, the journal and an empty line; the file of answers has
/// the name, and one answer per line.
fn replay(journals: &Path) {
    let mut answers = String::new();
    for trace in fs::read_to_string(journals).expect("a file").split_terminator("\n\n") {
        let mut lines = trace.lines();
        let (name, head) = (lines.next().expect("a name"), lines.next().expect("a head"));
        let (seed, routes) = head
            .strip_prefix("tidegate journal 1 seed ")
            .and_then(|rest| rest.split_once(" routes "))
            .unwrap_or_else(|| panic!("{name}: not the head of a journal: {head}"));
        let engine = recorder(seed.parse().expect("a seed"), routes.parse().expect("a number of routes"));
        answers.push_str(name);
        answers.push('\n');
        for answer in engine.replay(lines).unwrap_or_else(|error| panic!("{name}: {error}")) {
            writeln!(answers, "{answer:?}").expect("text");
        }
    }
    fs::write(journals.with_extension("answers"), answers).expect("room for answers");
}
