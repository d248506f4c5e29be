//! The instruction-count gate: wall-clock figures vary with the machine, instruction counts do not.
//!
//! `bench/core/instructions.txt` holds the cost of a call in each scenario, `bench/core/host.txt` the cost in the Rust host, and `bench/core/border.txt`
//! that of the native half which Swift and the JVM share. A change that adds more than 5 % fails
//! `cargo xtask test`. An intended increase is accepted with `cargo xtask gate --accept`, and the new figures are
//! committed.
//!
//! `bench/python/instructions-3.N.txt` holds the cost of a call of the Python package under `CPython` 3.N: `cargo xtask gate --python`, and
//! the long tests. `bench/js/instructions-N.txt` holds the same of the JavaScript package under Node N: `cargo xtask gate --javascript`;
//! `bench/swift/instructions.txt` that of the Swift package: `cargo xtask gate --swift`.
//!
//! The same tool shows that a call's cost does not depend on the number of other calls.

use crate::cargo;
use crate::report::{Counts, Verdict};
use crate::run::{Cmd, Error, Result};
use crate::setup::{Shop, Venv, install_debian};
use crate::{js, swift};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The ratio above which an increase counts as a regression.
const TOLERANCE: f64 = 1.05;
/// The ratio by which a call beside many others may cost more than one beside 10. It is above 1, because a route that
/// is used for the first time has to start its windows.
const GROWTH: f64 = 1.2;
const FEW: &str = "10";
/// For every change: a list searched from its head costs thousands of instructions at this size.
pub const MANY: &str = "10000";
/// For `cargo xtask deep`.
pub const MOST: &str = "100000";
/// The same where a text is looked up in a sorted map, which takes steps by the logarithm of what it holds.
const LOGARITHMIC: f64 = 2.0;
/// The kinds of crowds, and how their calls may grow.
const CROWDS: [(&str, f64); 9] = [
    ("calls", GROWTH),
    ("routes", GROWTH),
    ("queue", GROWTH),
    ("prioritized", GROWTH),
    ("paced", GROWTH),
    ("targets", GROWTH),
    ("keys", LOGARITHMIC),
    ("found", LOGARITHMIC),
    ("replaced", LOGARITHMIC),
];
/// Calls of the two runs whose difference is measured, so that start-up and set-up cancel out.
const RUNS: [u64; 2] = [1_000, 11_000];
/// The same for Python, whose calls take some tens of thousands of instructions each with what is called.
const FEWER: [u64; 2] = [1_000, 3_000];
/// The same for JavaScript: by the first number of calls V8 has compiled everything that it will.
const COMPILED: [u64; 2] = [40_000, 120_000];

/// A program whose instructions are counted, and the file of its accepted figures.
struct Counted {
    file: &'static str,
    program: &'static str,
    build: &'static [&'static str],
}

const CORE: Counted = Counted {
    file: "bench/core/instructions.txt",
    program: "tidegate-bench-core",
    build: &["-p", "tidegate-bench-core"],
};

const HOST: Counted = Counted {
    file: "bench/core/host.txt",
    program: "tidegate-bench-host",
    build: &["-p", "tidegate-bench-core", "--features", "host", "--bin", "tidegate-bench-host"],
};

/// Calls over the C interface, which are what Swift's native half costs, and all of the JVM's but JNI.
const BORDER: Counted = Counted {
    file: "bench/core/border.txt",
    program: "examples/border",
    build: &["-p", "tidegate-uniffi", "--example", "border"],
};

/// `cargo xtask gate [--accept]`: prints the figures, and fails where one is above what is accepted; with `--accept` writes them to the files.
pub fn gate(shop: &Shop, accept: bool) -> Result {
    let mut above = Vec::new();
    for of in [&CORE, &HOST, &BORDER] {
        let file = shop.root.join(of.file);
        above.extend(against(&file, accept, |scenario| measure(shop, of, &["instructions", scenario]))?);
    }
    if above.is_empty() { Ok(()) } else { Err(Error(above.join("; "))) }
}

/// Prints the figures of a file's scenarios, and returns which of them are above what is accepted; or accepts them.
fn against(file: &Path, accept: bool, measure: impl Fn(&str) -> Result<u64>) -> Result<Vec<String>> {
    let (mut text, mut above) = (String::new(), Vec::new());
    for (scenario, was) in read_file(file)? {
        let is = measure(&scenario)?;
        println!("   {scenario}: {is} instructions per call, {was} accepted");
        let _ = writeln!(text, "{scenario} {}", if accept { is } else { was });
        if !accept && !within(is, was) {
            above.push(beyond(&scenario, is, was));
        }
    }
    fs::write(file, text).map_err(Error::at("write", file))?;
    Ok(above)
}

/// The bench that makes Python's calls.
const PYTHON: &str = "bench/python/instructions.py";

/// `cargo xtask gate --python [--accept]`: the same for the Python package, in an environment with its wheel.
pub fn gate_python(shop: &Shop, venv: &Venv, accept: bool) -> Result {
    let file = python_file(shop, venv)?;
    let above = against(&file, accept, |scenario| measure_python(shop, venv, scenario))?;
    if above.is_empty() { Ok(()) } else { Err(Error(above.join("; "))) }
}

/// The bench that makes JavaScript's calls.
const JAVASCRIPT: &str = "bench/js/instructions.mjs";
/// Flags of V8 without which two equal runs differ more: no thread compiles or collects beside the program, hashes and random numbers are
/// the same, no collection depends on time or on what has survived the last one, old objects are not collected at all, and no compiled
/// code is discarded.
const REPEATABLE: [&str; 8] = [
    "--predictable",
    "--hash-seed=1",
    "--random-seed=1",
    "--no-memory-reducer",
    "--initial-heap-size=1024",
    "--no-flush-bytecode",
    "--min-semi-space-size=32",
    "--max-semi-space-size=32",
];

/// `cargo xtask gate --javascript [--accept]`: the same for the JavaScript package, as built.
pub fn gate_javascript(shop: &Shop, accept: bool) -> Result {
    js::built(shop)?;
    let file = javascript_file(shop)?;
    let above = against(&file, accept, |scenario| measure_javascript(shop, scenario))?;
    if above.is_empty() { Ok(()) } else { Err(Error(above.join("; "))) }
}

/// Runs the gate of the JavaScript package, as a step of the long tests.
pub fn check_javascript(shop: &Shop) -> Verdict {
    let known = valgrind(shop).and_then(|()| read_file(&javascript_file(shop)?));
    match known.and_then(|known| js::built(shop).map(|_| known)) {
        Ok(known) => compare(known, |scenario| measure_javascript(shop, scenario)),
        Err(why) => Verdict::NotRun(why.0),
    }
}

/// The accepted figures of Swift's calls, and how often they are made: the first calls compile nothing, but fill the runtime's caches.
const SWIFT: (&str, [u64; 2]) = ("bench/swift/instructions.txt", [2_000, 12_000]);

/// `cargo xtask gate --swift [--accept]`: the same for the Swift package.
pub fn gate_swift(shop: &Shop, accept: bool) -> Result {
    let program = swift::Counted::build(shop)?;
    let above =
        against(&shop.root.join(SWIFT.0), accept, |scenario| measure_swift(shop, &program, scenario))?;
    if above.is_empty() { Ok(()) } else { Err(Error(above.join("; "))) }
}

/// Runs the gate of the Swift package, as a step of the long tests.
pub fn check_swift(shop: &Shop) -> Verdict {
    let known = valgrind(shop).and_then(|()| read_file(&shop.root.join(SWIFT.0)));
    match known.and_then(|known| Ok((known, swift::Counted::build(shop)?))) {
        Ok((known, program)) => compare(known, |scenario| measure_swift(shop, &program, scenario)),
        Err(why) => Verdict::NotRun(why.0),
    }
}

fn measure_swift(shop: &Shop, program: &swift::Counted, scenario: &str) -> Result<u64> {
    per_call(shop, SWIFT.1, |valgrind| program.run(valgrind, &["instructions", scenario]))
}

/// The accepted figures for this machine's Node: each version compiles otherwise.
fn javascript_file(shop: &Shop) -> Result<PathBuf> {
    let version = Cmd::new("node").arg("--version").capture()?.ok()?.text;
    let major = version.trim().trim_start_matches('v').split('.').next().unwrap_or_default();
    accepted(shop, &format!("bench/js/instructions-{major}.txt"), &format!("Node {major}"))
}

fn measure_javascript(shop: &Shop, scenario: &str) -> Result<u64> {
    let bench = shop.root.join(JAVASCRIPT);
    // V8 may optimise equal runs differently, so that some take half as much again; of three one takes the usual way.
    least_per_call(shop, COMPILED, 3, |valgrind| {
        valgrind.arg("node").args(REPEATABLE).arg(&bench).arg(scenario)
    })
}

/// Runs the gate of the Python package, as a step of the long tests.
pub fn check_python(shop: &Shop, venv: &Venv) -> Verdict {
    let known = valgrind(shop).and_then(|()| read_file(&python_file(shop, venv)?));
    match known {
        Ok(known) => compare(known, |scenario| measure_python(shop, venv, scenario)),
        Err(why) => Verdict::NotRun(why.0),
    }
}

/// The accepted figures for the environment's interpreter: each minor version has its own bytecode.
fn python_file(shop: &Shop, venv: &Venv) -> Result<PathBuf> {
    let ask = "import sys; print(f'{sys.version_info[0]}.{sys.version_info[1]}')";
    let version = venv.python().args(["-c", ask]).capture()?.ok()?.text;
    let version = version.trim();
    accepted(shop, &format!("bench/python/instructions-{version}.txt"), &format!("CPython {version}"))
}

/// The file of the accepted figures under an interpreter.
fn accepted(shop: &Shop, file: &str, under: &str) -> Result<PathBuf> {
    let file = shop.root.join(file);
    if file.exists() { Ok(file) } else { Err(Error(format!("no figures are accepted for {under}"))) }
}

fn measure_python(shop: &Shop, venv: &Venv, scenario: &str) -> Result<u64> {
    let (python, bench) = (venv.bin("python"), shop.root.join(PYTHON));
    per_call(shop, FEWER, |valgrind| {
        // Hashes of texts decide how dicts are laid out.
        let run = valgrind.env("PYTHONHASHSEED", "0").env("PYTHONDONTWRITEBYTECODE", "1");
        run.arg(&python).arg("-P").arg(&bench).arg(scenario)
    })
}

/// Runs core's gate as a step of the tests: one test per scenario.
pub fn check(shop: &Shop) -> Verdict {
    check_of(shop, &CORE)
}

/// Runs the gate of the Rust host, which takes a minute to compile, as a step of the long tests.
pub fn check_host(shop: &Shop) -> Verdict {
    check_of(shop, &HOST)
}

/// The same of the native half that Swift and the JVM share.
pub fn check_border(shop: &Shop) -> Verdict {
    check_of(shop, &BORDER)
}

fn check_of(shop: &Shop, of: &Counted) -> Verdict {
    if let Err(why) = valgrind(shop) {
        return Verdict::NotRun(why.0);
    }
    let known = match read(shop, of) {
        Ok(known) => known,
        Err(why) => return Verdict::Failed(Counts::default(), why.0),
    };
    compare(known, |scenario| measure(shop, of, &["instructions", scenario]))
}

/// Says which figure is above what is accepted.
fn beyond(scenario: &str, is: u64, was: u64) -> String {
    format!("{scenario} takes {is} instructions per call, {was} accepted")
}

/// Compares each scenario with its accepted figure: a test for each.
fn compare(known: Vec<(String, u64)>, measure: impl Fn(&str) -> Result<u64>) -> Verdict {
    let (mut counts, mut slow) = (Counts::default(), Vec::new());
    for (scenario, was) in known {
        match measure(&scenario) {
            Ok(is) if within(is, was) => {
                println!("   {scenario}: {is} instructions per call, {was} accepted");
                counts.passed += 1;
            }
            Ok(is) => slow.push(beyond(&scenario, is, was)),
            Err(why) => slow.push(why.0),
        }
    }
    counts.failed = u32::try_from(slow.len()).unwrap_or(u32::MAX);
    if slow.is_empty() { Verdict::Passed(counts) } else { Verdict::Failed(counts, slow.join("; ")) }
}

/// Compares a call beside many others with one beside few: a test for each kind of crowd.
pub fn growth(shop: &Shop, many_others: &str) -> Verdict {
    if let Err(why) = valgrind(shop) {
        return Verdict::NotRun(why.0);
    }
    let (mut counts, mut grown) = (Counts::default(), Vec::new());
    for (crowd, most) in CROWDS {
        let both = measure(shop, &CORE, &["growth", crowd, FEW])
            .and_then(|few| Ok((few, measure(shop, &CORE, &["growth", crowd, many_others])?)));
        match both {
            Ok((few, many)) => {
                println!("   {crowd}: {few} instructions per call beside {FEW}, {many} beside {many_others}");
                if grows(few, many) <= most {
                    counts.passed += 1;
                } else {
                    grown.push(format!(
                        "{crowd}: {few} instructions beside {FEW}, {many} beside {many_others}"
                    ));
                }
            }
            Err(why) => grown.push(why.0),
        }
    }
    counts.failed = u32::try_from(grown.len()).unwrap_or(u32::MAX);
    if grown.is_empty() { Verdict::Passed(counts) } else { Verdict::Failed(counts, grown.join("; ")) }
}

/// How many times the first count the second is. A count of 0 is no measurement.
fn grows(few: u64, many: u64) -> f64 {
    if few > 0 { many as f64 / few as f64 } else { f64::INFINITY }
}

fn within(is: u64, was: u64) -> bool {
    is as f64 <= was as f64 * TOLERANCE
}

fn read(shop: &Shop, of: &Counted) -> Result<Vec<(String, u64)>> {
    read_file(&shop.root.join(of.file))
}

fn read_file(file: &Path) -> Result<Vec<(String, u64)>> {
    let text = fs::read_to_string(file).map_err(Error::at("read", file))?;
    text.lines().map(parse).collect()
}

/// Parses a line of the file: a scenario and its count.
fn parse(line: &str) -> Result<(String, u64)> {
    let parsed = line.split_once(' ').and_then(|(name, count)| Some((name.to_owned(), count.parse().ok()?)));
    parsed.ok_or_else(|| Error(format!("accepted instructions: `{line}` is not a scenario and a count")))
}

/// Instructions per call, or per round of a scenario of several.
fn measure(shop: &Shop, of: &Counted, what: &[&str]) -> Result<u64> {
    cargo(shop).args(["build", "-q", "--release"]).args(of.build).quiet()?;
    let program = shop.target.join("release").join(of.program);
    per_call(shop, RUNS, |valgrind| valgrind.arg(&program).args(what))
}

/// Instructions per call of a program whose last argument is the number of calls.
fn per_call(shop: &Shop, runs: [u64; 2], program: impl Fn(Cmd) -> Cmd) -> Result<u64> {
    least_per_call(shop, runs, 1, program)
}

/// The same for a program of which equal runs may differ: of so many the one with the fewest instructions counts.
fn least_per_call(shop: &Shop, runs: [u64; 2], times: u32, program: impl Fn(Cmd) -> Cmd) -> Result<u64> {
    let mut totals = [u64::MAX; 2];
    for _ in 0..times {
        for (calls, least) in runs.iter().zip(&mut totals) {
            let scratch = shop.scratch("outside")?.join("callgrind.out");
            let valgrind = Cmd::new("valgrind")
                .args(["--tool=callgrind", &format!("--callgrind-out-file={}", scratch.display())]);
            let total = collected(&program(valgrind).arg(calls.to_string()).capture()?.ok()?.text)?;
            *least = total.min(*least);
        }
    }
    Ok((totals[1] - totals[0]) / (runs[1] - runs[0]))
}

/// Reads the total from callgrind's line `Collected : 1234`.
fn collected(text: &str) -> Result<u64> {
    let total = text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    total.ok_or_else(|| Error("callgrind printed no `Collected` line".into()))
}

fn valgrind(shop: &Shop) -> Result {
    let there = || Cmd::new("valgrind").arg("--version").capture().is_ok_and(|ran| ran.status.success());
    if there() || shop.install && install_debian("valgrind") && there() {
        return Ok(());
    }
    Err(Error("valgrind is not on this machine (Debian: apt-get install valgrind)".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_per_cent_more_is_the_most() {
        assert!(within(105, 100) && within(50, 100));
        assert!(!within(106, 100));
    }

    #[test]
    fn a_fifth_more_beside_many_is_the_most() {
        assert!(grows(1_000, 1_200) <= GROWTH && grows(1_000, 900) <= GROWTH);
        assert!(grows(1_000, 1_201) > GROWTH && grows(0, 0) > LOGARITHMIC);
    }

    #[test]
    fn lines_are_read_or_named() {
        assert_eq!(parse("happy 912"), Ok(("happy".into(), 912)));
        assert!(parse("happy").is_err_and(|error| error.0.contains("`happy`")));
    }

    #[test]
    fn the_total_is_found_in_what_callgrind_prints() {
        assert_eq!(collected("==1== Events    : Ir\n==1== Collected : 17072545\n"), Ok(17_072_545));
        assert!(collected("==1== nothing").is_err());
    }
}
