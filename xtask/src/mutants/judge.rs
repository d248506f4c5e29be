//! Runs core's tests against each mutant of the list: the fastest test files first until one fails, and finally random
//! traces that are compared with the model.

use super::list::{self, Mutant, SWITCH, SWITCHES};
use super::{target_of, tree};
use crate::report::Verdict;
use crate::run::{Cmd, Error, Output, Result, seconds};
use crate::setup::{Shop, find_python};
use crate::times::cpu_time;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Number of random traces that are compared with the model for a mutant that all tests miss.
const TRACES: &str = "500";
/// A program hangs if it runs ten times as long as without a mutant, and at least this span.
const PATIENCE: u32 = 10;
const AT_LEAST: Duration = Duration::from_secs(30);

/// A judge: a test program of core, or the tests of one file in a larger program, or the comparison with the model.
#[derive(Debug, PartialEq)]
struct Judge {
    name: String,
    program: PathBuf,
    /// The tests to run; an empty list means all.
    tests: Vec<String>,
    took: Duration,
}

/// The result for a mutant.
enum Fate {
    /// Killed by this program, and in it by these tests.
    Killed(String),
    Survived,
}

/// Judges the mutants whose names begin with one of `only`, or all of them.
pub fn judge(shop: &Shop, only: &[String]) -> Verdict {
    Verdict::check(all(shop, only))
}

fn all(shop: &Shop, only: &[String]) -> Result {
    let list = shop.root.join("tests/mutants/list.txt");
    let mutants = list::read(&fs::read_to_string(&list).map_err(Error::at("read", &list))?)?;
    let tree = tree(shop)?;
    let text = |file: &str| fs::read_to_string(tree.join(file)).map_err(Error::at("read", &tree.join(file)));
    for (file, text) in list::switched(&mutants, text)? {
        fs::write(tree.join(&file), text).map_err(Error::at("write", &tree.join(&file)))?;
    }
    let lib = tree.join("core/src/lib.rs");
    fs::write(&lib, text("core/src/lib.rs")? + SWITCHES).map_err(Error::at("write", &lib))?;

    let (begun, cpu) = (Instant::now(), cpu_time());
    let mut judges = build(&tree)?;
    for judge in &mut judges {
        let begun = Instant::now();
        let ran = run(judge, &tree, 0, Duration::from_secs(15 * 60))?;
        judge.took = begun.elapsed();
        if let Some(failed) = ran {
            return Err(Error(format!("{} fails without a mutant: {failed}", judge.name)));
        }
    }
    // The comparison with the model comes last.
    let last = judges.len() - 1;
    judges[..last].sort_by_key(|judge| judge.took);
    let all: Duration = judges.iter().map(|judge| judge.took).sum();
    println!(
        "   {} files of tests: built and run without a mutant in {}, CPU {}; one run of all takes {}",
        judges.len(),
        seconds(begun.elapsed()),
        seconds(cpu_time().saturating_sub(cpu)),
        seconds(all)
    );
    tell(shop, &tree, &mutants, &judges, only)
}

/// Judges the mutants one by one, prints each result, and writes the table.
fn tell(shop: &Shop, tree: &Path, mutants: &[Mutant], judges: &[Judge], only: &[String]) -> Result {
    let (mut table, mut survivors, mut wrong) = (String::new(), Vec::new(), Vec::new());
    let (mut killed, cpu) = (0, cpu_time());
    for (number, mutant) in (1..).zip(mutants) {
        if !only.is_empty() && !only.iter().any(|some| mutant.name.starts_with(some.as_str())) {
            continue;
        }
        let begun = cpu_time();
        let fate = fate(judges, tree, number)?;
        let took = seconds(cpu_time().saturating_sub(begun));
        let line = match (&fate, &mutant.same) {
            (Fate::Killed(by), None) => {
                killed += 1;
                by.clone()
            }
            (Fate::Killed(by), Some(_)) => {
                wrong.push(format!("{} is said to change nothing, but {by} killed it", mutant.name));
                by.clone()
            }
            (Fate::Survived, Some(why)) => format!("does the same: {why}"),
            (Fate::Survived, None) => {
                survivors.push(mutant.name.clone());
                format!("SURVIVED: {}", mutant.breaks)
            }
        };
        println!("   {:<12} {line} (CPU {took})", mutant.name);
        table.extend([mutant.name.as_str(), "\t", &mutant.breaks, "\t", &line, "\n"]);
        let file = shop.scratch("mutants")?.join("table.txt");
        fs::write(&file, &table).map_err(Error::at("write", &file))?;
    }
    println!(
        "   {killed} killed, {} survived; CPU {}",
        survivors.len(),
        seconds(cpu_time().saturating_sub(cpu))
    );
    if !survivors.is_empty() {
        wrong.push(format!("no test kills {}", survivors.join(", ")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error(wrong.join("; "))) }
}

fn fate(judges: &[Judge], tree: &Path, number: usize) -> Result<Fate> {
    for judge in judges {
        let limit = judge.took * PATIENCE + AT_LEAST;
        if let Some(failed) = run(judge, tree, number, limit)? {
            return Ok(Fate::Killed(format!("{}: {failed}", judge.name)));
        }
    }
    Ok(Fate::Survived)
}

/// Runs one program with one mutant, or with none for 0. Returns the failed tests.
fn run(judge: &Judge, tree: &Path, number: usize, limit: Duration) -> Result<Option<String>> {
    let command = Cmd::new("timeout").args(["-k", "5"]).arg(limit.as_secs().to_string()).arg(&judge.program);
    let command = if judge.name == MODEL {
        let traces = target_of(tree).join("debug/examples/traces");
        let compare = command.arg("-s").arg(tree.join("tests/model/compare.py")).arg("--no-shrink");
        compare.args(["--count", TRACES, "--jobs", "1", "--traces"]).arg(traces)
    } else {
        let command = command.env("CARGO_MANIFEST_DIR", tree.join("core")).args(&judge.tests);
        if judge.tests.is_empty() { command } else { command.arg("--exact") }
    };
    // The same random cases each time; a failing case is neither shrunk nor kept for the next mutant.
    let ran = command
        .cwd(&tree.join("core"))
        .env(SWITCH, number.to_string())
        .env("PROPTEST_RNG_SEED", "14")
        .env("PROPTEST_MAX_SHRINK_TIME", "1")
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
        .env("RUST_BACKTRACE", "0")
        .capture()?;
    Ok(if ran.status.success() { None } else { Some(failed(&ran)) })
}

/// Names the first two failed tests and counts the others.
fn failed(ran: &Output) -> String {
    let name = |line: &str| Some(line.strip_prefix("test ")?.split_once(" ... FAILED")?.0.to_owned());
    let mut names: Vec<String> = ran.text.lines().filter_map(name).collect();
    names.sort();
    match (&names[..], ran.status.code()) {
        ([], Some(124 | 137)) => "out of time".into(),
        ([], Some(1)) => "differs".into(),
        ([], _) => ran.status.to_string(),
        ([one], _) => one.clone(),
        ([one, other], _) => format!("{one}, {other}"),
        ([one, other, more @ ..], _) => format!("{one}, {other} and {} more", more.len()),
    }
}

const MODEL: &str = "random traces beside the model";

/// Builds core's test programs and the program that makes random traces.
fn build(tree: &Path) -> Result<Vec<Judge>> {
    let cargo = || {
        let cargo = Cmd::new("cargo").cwd(tree).env("CARGO_TARGET_DIR", target_of(tree));
        // Neither backtraces nor incremental builds are useful here.
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_INCREMENTAL", "0")
    };
    cargo().args(["build", "--quiet", "-p", "tidegate", "--example", "traces"]).quiet()?;
    let built = cargo().args(["test", "-p", "tidegate", "--lib", "--tests", "--no-run"]).quiet()?;
    let mut judges = Vec::new();
    for judge in built.text.lines().filter_map(|line| executable(line, tree)) {
        if judge.name == SUITE {
            let listed = Cmd::new(&judge.program).arg("--list").cwd(&tree.join("core")).capture()?.ok()?;
            judges.extend(files(&judge.program, &listed.text));
        } else {
            judges.push(judge);
        }
    }
    if judges.is_empty() {
        return Err(Error("cargo names no test program".into()));
    }
    let program = find_python()?.exe;
    judges.push(Judge { name: MODEL.into(), program, tests: Vec::new(), took: Duration::ZERO });
    Ok(judges)
}

/// The program that contains many files of tests as modules.
const SUITE: &str = "suite";

/// One judge for each module of a program that lists its tests in the form `breaker::opens: test`.
fn files(program: &Path, listed: &str) -> Vec<Judge> {
    let mut judges: Vec<Judge> = Vec::new();
    for test in listed.lines().filter_map(|line| line.strip_suffix(": test")) {
        let Some((file, _)) = test.split_once("::") else { continue };
        if judges.last().is_none_or(|last| last.name != file) {
            let judge =
                Judge { name: file.into(), program: program.into(), tests: Vec::new(), took: Duration::ZERO };
            judges.push(judge);
        }
        judges.last_mut().expect("it was added").tests.push(test.into());
    }
    judges
}

/// Parses a line of cargo's: `  Executable tests/rules.rs (target/debug/deps/rules-…)`.
fn executable(line: &str, tree: &Path) -> Option<Judge> {
    let (what, path) = line.trim().strip_prefix("Executable ")?.strip_suffix(')')?.split_once(" (")?;
    let source = what.rsplit(' ').next()?;
    let name = if source == "src/lib.rs" { "unit tests" } else { Path::new(source).file_stem()?.to_str()? };
    Some(Judge { name: name.into(), program: tree.join(path), tests: Vec::new(), took: Duration::ZERO })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_line_names_the_program() {
        let tree = Path::new("/tree");
        let judge =
            executable("  Executable tests/rules.rs (target/debug/deps/rules-1f)", tree).expect("a program");
        assert_eq!((judge.name.as_str(), judge.program), ("rules", tree.join("target/debug/deps/rules-1f")));
        let judge =
            executable("  Executable unittests src/lib.rs (/elsewhere/tidegate-2)", tree).expect("one");
        assert_eq!((judge.name.as_str(), judge.program), ("unit tests", "/elsewhere/tidegate-2".into()));
        assert!(executable("   Compiling tidegate v0.1.0", tree).is_none());
    }

    #[test]
    fn each_file_of_a_program_judges_by_itself() {
        let listed =
            "breaker::opens: test\nbreaker::slow::counts: test\nrate::waits: test\n\n3 tests, 0 benchmarks\n";
        let judges = files(Path::new("/suite"), listed);
        let seen: Vec<_> = judges.iter().map(|it| (it.name.as_str(), it.tests.join(" "))).collect();
        let breaker = "breaker::opens breaker::slow::counts";
        assert_eq!(seen, [("breaker", breaker.to_owned()), ("rate", "rate::waits".into())]);
    }

    #[test]
    fn the_tests_that_failed_are_named() {
        let out = |code: &str| Cmd::new("sh").args(["-c", code]).capture().expect("sh starts");
        let two = "echo 'test b ... FAILED'; echo 'test a::c ... FAILED'; echo 'test d ... ok'; exit 101";
        assert_eq!(failed(&out(two)), "a::c, b");
        assert_eq!(failed(&out("exit 124")), "out of time");
    }
}
