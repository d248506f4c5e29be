//! Random traces, generated from a seed and not kept, replayed through the public surface of each language: what the engine
//! says to each line of a journal must be the same bytes as what core says here.

use crate::cargo;
use crate::report::Verdict;
use crate::run::{Cmd, Error, Output, Result};
use crate::setup::{Shop, Venv};
use std::fs;
use std::path::Path;

/// Traces of one process of a host.
const BATCH: u64 = 1_000;
/// On every change.
pub const SOME: u64 = 10_000;
const SEED: u64 = 14;

/// Replays traces by the installed wheel.
pub fn python(shop: &Shop, venv: &Venv, count: u64) -> Verdict {
    let script = shop.root.join("tests/traces/replay.py");
    compare(shop, "debug", count, |journals, answers| venv.script(&script).arg(journals).arg(answers))
}

/// Replays traces by the full engine, as Node loads it and as pages do.
pub fn javascript(shop: &Shop, folder: &Path, count: u64) -> Verdict {
    for entry in ["node", "full"] {
        let entry = folder.join("dist/esm").join(entry).with_extension("js");
        let host = |journals: &Path, answers: &Path| {
            let node = Cmd::new("node").arg(shop.root.join("tests/traces/replay.mjs"));
            node.arg(&entry).arg(journals).arg(answers)
        };
        match compare(shop, "words", count, host) {
            Verdict::Passed(_) => {}
            other => return other,
        }
    }
    Verdict::check(Ok(()))
}

fn compare(shop: &Shop, form: &str, count: u64, host: impl Fn(&Path, &Path) -> Cmd) -> Verdict {
    let run = || -> Result {
        cargo(shop)
            .args(["build", "--quiet", "--release", "-p", "tidegate", "--example", "traces"])
            .quiet()?;
        let folder = shop.scratch("traces")?;
        let [journals, expected, answers] =
            ["journals", "expected", "answers"].map(|name| folder.join(format!("{name}-{form}.txt")));
        for first in (0..count).step_by(BATCH as usize) {
            let generator = Cmd::new(shop.target.join("release/examples/traces"));
            let generator = generator.arg("--journals").arg(&journals).arg("--answers").arg(&expected);
            let [seed, from, many] = [SEED, first, BATCH.min(count - first)].map(|n| n.to_string());
            generator
                .args(["--form", form, "--seed", &seed, "--first", &from, "--count", &many])
                .capture()
                .and_then(Output::ok)?;
            host(&journals, &answers).capture().and_then(Output::ok)?;
            same(&expected, &answers)?;
        }
        println!("   {count} traces of seed {SEED}: the same bytes");
        Ok(())
    };
    Verdict::check(run())
}

/// The first answer that differs is named by its trace.
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
