//! Random traces, generated from a seed and not kept, replayed through the public API of each language: the engine's
//! answer to each line of a journal must equal core's answer, byte for byte.
//!
//! A set is a folder of files `<n>.journals` and `<n>.expected`; a host reads the first and writes `<n>.answers`.

use crate::report::{Report, Verdict};
use crate::run::{Cmd, Error, Output, Result};
use crate::setup::{Python, Shop, Venv, find_python};
use crate::test::OTHERS;
use crate::{cargo, demo, js, jvm, swift};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Number of traces in a file.
const BATCH: u64 = 1_000;
/// Number of traces for every change.
pub const SOME: u64 = 10_000;
/// Number of traces for `cargo xtask deep`.
pub const MANY: u64 = 100_000;
const SEED: u64 = 14;

/// Answers in the format of Rust's `Debug`, as Python, the JVM, Swift and tokio write them.
pub const DEBUG: &str = "debug";
/// Answers as words and numbers, as JavaScript writes them.
const WORDS: &str = "words";
/// The same, for traces that the small engine can play.
const SMALL: &str = "small";

/// The name of this part in the report.
pub const TRACES: &str = "Random traces";

/// The sets that this run has written.
static WRITTEN: Mutex<Vec<(&str, u64)>> = Mutex::new(Vec::new());

/// Replays traces with the installed wheel.
pub fn python(shop: &Shop, venv: &Venv, count: u64) -> Verdict {
    let script = shop.root.join("tests/traces/replay.py");
    play(shop, DEBUG, count, |folder| venv.script(&script).arg(folder).quiet())
}

/// Replays traces with tokio's engine.
pub fn tokio(shop: &Shop, count: u64) -> Verdict {
    play(shop, DEBUG, count, |folder| {
        let test = ["--test", "suite", "traces::", "--", "--ignored"];
        cargo(shop).args(["test", "--quiet"]).args(OTHERS).args(test).env("TIDEGATE_TRACES", folder).quiet()
    })
}

/// Replays traces with the full engine as Node loads it, and a tenth of them with the single-file build, which contains
/// the module in its code.
pub fn javascript(shop: &Shop, folder: &Path, count: u64) -> Verdict {
    for (entry, count) in [("node", count), ("inline", count / 10)] {
        let entry = folder.join("dist/esm").join(entry).with_extension("js");
        let script = shop.root.join("tests/traces/replay.mjs");
        let host = |set: &Path| Cmd::new("node").arg(&script).arg(&entry).arg(set).quiet();
        match play(shop, WORDS, count, host) {
            Verdict::Passed(_) => {}
            other => return other,
        }
    }
    Verdict::check(Ok(()))
}

/// Replays traces with the small engine, with which web pages start.
pub fn small(shop: &Shop, folder: &Path, count: u64) -> Verdict {
    let script = shop.root.join("tests/traces/small.mjs");
    play(shop, SMALL, count, |set| {
        Cmd::new("node").arg(&script).arg(folder.join("dist/esm")).arg(set).quiet()
    })
}

/// Runs the steps of `cargo xtask deep`: ten times as many traces as for every change. Builds the packages that it
/// needs.
pub fn deep(shop: &Shop, report: &mut Report) {
    let failed = |Error(why): Error| Verdict::NotRun(why);
    report.step(TRACES, "100,000 through the model, step by step", || match find_python() {
        Ok(python) => Verdict::check(model(shop, &python, MANY)),
        Err(why) => failed(why),
    });
    report.step(TRACES, "100,000 through tokio", || tokio(shop, MANY));
    report.step(TRACES, "100,000 through Python", || {
        demo::package(shop).map_or_else(failed, |venv| python(shop, &venv, MANY))
    });
    report.step(TRACES, "100,000 through the JVM", || jvm::replay(shop, MANY));
    report.step(TRACES, "100,000 through Swift", || swift::replay(shop, MANY));
    clear(shop);
    let folder = js::built(shop);
    for (engine, title) in [
        (javascript as fn(&Shop, &Path, u64) -> Verdict, "100,000 through JavaScript's full engine"),
        (small, "100,000 through JavaScript's small engine"),
    ] {
        report.step(TRACES, title, || match &folder {
            Ok(folder) => engine(shop, folder, MANY),
            Err(Error(why)) => Verdict::NotRun(why.clone()),
        });
        clear(shop);
    }
}

/// Runs scripts on core and on the model, which needs only an interpreter.
fn model(shop: &Shop, python: &Python, count: u64) -> Result {
    let program = generator(shop)?;
    let compare = Cmd::new(&python.exe).arg("-s").arg(shop.root.join("tests/model/compare.py"));
    let compare = compare.args(["--jobs", "2", "--count", &count.to_string(), "--traces"]).arg(program);
    compare.cwd(&shop.root).stream()?.ok().map(drop)
}

/// Builds the program that makes traces.
pub fn generator(shop: &Shop) -> Result<PathBuf> {
    example(shop, "traces")
}

/// Builds an example of core on the same engine as other tests, without the optimisations for which a release takes a
/// minute longer.
pub fn example(shop: &Shop, name: &str) -> Result<PathBuf> {
    let build = ["build", "--quiet", "--profile", "checked", "-p", "tidegate", "--example", name];
    cargo(shop).args(build).quiet()?;
    Ok(shop.target.join("checked/examples").join(name))
}

/// Writes a set, lets a host replay it, and compares the answers.
fn play(shop: &Shop, form: &'static str, count: u64, host: impl FnOnce(&Path) -> Result<Output>) -> Verdict {
    let run = || -> Result {
        let folder = set(shop, form, count)?;
        host(&folder)?;
        answered(shop, form, count)
    };
    Verdict::check(run())
}

/// A set of traces without a host's answers. A set that another step of this run has written is reused.
pub fn set(shop: &Shop, form: &'static str, count: u64) -> Result<PathBuf> {
    let folder = shop.scratch(&format!("traces/{form}"))?;
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = written.contains(&(form, count));
    for file in files(&folder, if known { "answers" } else { "" }) {
        fs::remove_file(&file).map_err(Error::at("remove", &file))?;
    }
    if !known {
        write(shop, &folder, form, count)?;
        written.retain(|set| set.0 != form);
        written.push((form, count));
    }
    Ok(folder)
}

/// Writes the traces and what core answers.
fn write(shop: &Shop, folder: &Path, form: &str, count: u64) -> Result {
    let program = generator(shop)?;
    for first in (0..count).step_by(BATCH as usize) {
        let [journals, expected] =
            ["journals", "expected"].map(|kind| folder.join(format!("{first:06}.{kind}")));
        let generator = Cmd::new(&program).arg("--journals").arg(&journals).arg("--answers").arg(&expected);
        let [seed, from, many] = [SEED, first, BATCH.min(count - first)].map(|n| n.to_string());
        let choice = ["--form", form, "--seed", &seed, "--first", &from, "--count", &many];
        generator.args(choice).capture().and_then(Output::ok)?;
    }
    Ok(())
}

/// Compares a host's answers to a set with core's.
pub fn answered(shop: &Shop, form: &str, count: u64) -> Result {
    let folder = shop.scratch(&format!("traces/{form}"))?;
    let expected = files(&folder, "expected");
    for file in &expected {
        same(file, &file.with_extension("answers"))?;
    }
    if expected.is_empty() {
        return Err(Error(format!("there are no traces in {}", folder.display())));
    }
    println!("   {count} traces of seed {SEED}: the same bytes");
    Ok(())
}

/// Removes all sets: those of `deep` take some gigabytes.
fn clear(shop: &Shop) {
    WRITTEN.lock().unwrap_or_else(PoisonError::into_inner).clear();
    drop(fs::remove_dir_all(shop.target.join("xtask/traces")));
}

/// The files of one kind in a folder, sorted; all files if `kind` is empty.
fn files(folder: &Path, kind: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries
        .filter(|file| file.is_file() && (kind.is_empty() || file.extension().is_some_and(|it| it == kind)))
        .collect();
    files.sort();
    files
}

/// Compares two files of answers. The error names the trace of the first difference.
fn same(expected: &Path, answers: &Path) -> Result {
    let read = |file: &Path| fs::read_to_string(file).map_err(Error::at("read", file));
    let (expected, answers) = (read(expected)?, read(answers)?);
    if expected == answers {
        return Ok(());
    }
    let mut trace = "";
    for (number, (ours, theirs)) in expected.lines().zip(answers.lines()).enumerate() {
        if ours.starts_with("trace ") {
            trace = ours;
        }
        if ours != theirs {
            return Err(Error(format!("{trace}, line {}: core says {ours}, the host {theirs}", number + 1)));
        }
    }
    Err(Error(format!("after {trace}: core says {} bytes, the host {}", expected.len(), answers.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_that_differs_is_named() {
        let folder = std::env::temp_dir().join(format!("tidegate-traces-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let [one, two] = ["one", "two"].map(|name| folder.join(name));
        fs::write(&one, "trace 0 of seed 1\nroute 1\ntrace 1 of seed 1\nstep 7\n").expect("a file");
        fs::write(&two, "trace 0 of seed 1\nroute 1\ntrace 1 of seed 1\nstep 8\n").expect("a file");
        assert!(same(&one, &one).is_ok());
        let Err(Error(why)) = same(&one, &two) else { panic!("they differ") };
        assert_eq!(why, "trace 1 of seed 1, line 4: core says step 7, the host step 8");
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
