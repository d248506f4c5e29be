//! `cargo xtask deep`: checks that take minutes or need nightly. libFuzzer on every target of `tests/fuzz`, tests that
//! are too long for `cargo xtask test`, the guided search, mutants of core, random traces through every language, the
//! lab's tables with many seeds, what is published for other systems, and Miri on the engine's internals. Missing tools are installed, or the step reports
//! "not run".

use crate::cargo;
use crate::demo;
use crate::dist;
use crate::gate;
use crate::install;
use crate::js;
use crate::jvm;
use crate::mutants;
use crate::packages::{read, version};
use crate::redis;
use crate::release;
use crate::report::{Counts, Report, Verdict};
use crate::run::{Cmd, Error, Output, Result};
use crate::setup::Shop;
use crate::site;
use crate::surface;
use crate::swift;
use crate::traces::{self, TRACES};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

const FUZZ: &str = "Fuzzing";
const LAB: &str = "Lab";
const LONG: &str = "Long tests";
const MIRI: &str = "Miri";
const MUTANTS: &str = "Mutants";
const SEARCH: &str = "Guided search";
const SITE: &str = "Site";
const PACKAGES: &str = "Packages";
/// The parts with their names on the command line.
const PARTS: [(&str, &str); 9] = [
    ("fuzz", FUZZ),
    ("long", LONG),
    ("search", SEARCH),
    ("mutants", MUTANTS),
    ("traces", TRACES),
    ("lab", LAB),
    ("site", SITE),
    ("packages", PACKAGES),
    ("miri", MIRI),
];
const CARGO_FUZZ: &str = "0.13.2";
/// The tests that Miri runs: those of the arena, the blocks beside calls and the lists through them. More would take
/// hours.
const UNDER_MIRI: &str = "engine::";
const MIRI_SECONDS: u32 = 900;
/// Option that limits the size of a corpus file.
const LONGEST: &str = "-max_len=2048";

/// `cargo xtask deep [minutes] [part] [mutants…]`: runs each fuzz target and the search for this many minutes, for one
/// part or for all; of the mutants only those whose names begin with one of the given words.
///
/// # Errors
/// No part has this name, or the words name no mutants.
pub fn deep(shop: &Shop, minutes: u32, part: Option<&str>, names: &[String]) -> Result<ExitCode> {
    let parts: Vec<&str> = PARTS.iter().map(|part| part.0).collect();
    if let Some(part) = part.filter(|part| !parts.contains(part)) {
        return Err(Error(format!("deep has no part `{part}`; it has {}", parts.join(", "))));
    }
    if part != Some("mutants") && !names.is_empty() {
        return Err(Error(format!("unexpected argument `{}`; only mutants have names", names[0])));
    }
    let mut report = Report::default();
    for (name, group) in PARTS {
        if part.is_none_or(|part| part == name) {
            match group {
                FUZZ => fuzzing(shop, minutes, &mut report),
                LONG => long(shop, &mut report),
                SEARCH => searches(shop, minutes, &mut report),
                MUTANTS => {
                    report.step(MUTANTS, "each is killed by a test of core or by the model", || {
                        mutants::judge::judge(shop, names)
                    });
                }
                TRACES => traces::deep(shop, &mut report),
                LAB => lab(shop, minutes, &mut report),
                SITE => site::deep(shop, &mut report),
                PACKAGES => packages(shop, &mut report)?,
                _ => {
                    report.step(MIRI, "the engine's unit tests", || match component(shop, "miri") {
                        Ok(()) => miri(shop),
                        Err(Error(why)) => Verdict::NotRun(why),
                    });
                }
            }
        }
    }
    Ok(report.close())
}

fn fuzzing(shop: &Shop, minutes: u32, report: &mut Report) {
    let mut tools = None;
    report.step(FUZZ, "nightly and cargo-fuzz", || match fuzzer(shop) {
        Ok(path) => {
            tools = Some(path);
            Verdict::Passed(Counts::default())
        }
        Err(Error(why)) => Verdict::NotRun(why),
    });
    for target in targets(shop) {
        report.step(FUZZ, &format!("{target}, {minutes} min"), || match &tools {
            Some(tools) => explore(shop, tools, &target, minutes),
            None => Verdict::NotRun("there is no fuzzer".into()),
        });
    }
}

/// Runs tests that are too long for each change, and larger versions of tests that each change runs briefly.
fn long(shop: &Shop, report: &mut Report) {
    report.step(LONG, "a million steps of random scripts, every rule at each (optimised)", || {
        let run = ["test", "--profile", "checked", "-p", "tidegate", "--test", "rules", "--"];
        let run = cargo(shop).args(run).args(["--ignored", "--nocapture"]);
        Verdict::tests(run.stream(), Counts::from_cargo)
    });
    report.step(LONG, "2,000 random cases of each property of core (optimised)", || {
        let run =
            ["test", "--profile", "checked", "-p", "tidegate", "--lib", "--test", "suite", "--test", "rules"];
        Verdict::tests(cargo(shop).args(run).env("PROPTEST_CASES", "2000").stream(), Counts::from_cargo)
    });
    report.step(LONG, "the oldest Rust compiles the published crates", || match oldest(shop) {
        Ok(compile) => Verdict::check(compile.quiet()),
        Err(Error(why)) => Verdict::NotRun(why),
    });
    report.step(LONG, "instructions per call of the Rust host", || gate::check_host(shop));
    report.step(LONG, "instructions per call of the native half of Swift and the JVM", || {
        gate::check_border(shop)
    });
    report.step(LONG, "instructions per call of the Python package", || match demo::package(shop) {
        Ok(venv) => gate::check_python(shop, &venv),
        Err(why) => Verdict::NotRun(why.0),
    });
    report.step(LONG, "instructions per call of the JavaScript package", || gate::check_javascript(shop));
    report.step(LONG, "instructions per call of the Swift package", || gate::check_swift(shop));
    report.step(LONG, "a call costs the same beside 100,000", || gate::growth(shop, gate::MOST));
    report.step(LONG, "a million keys of a full route map (optimised)", || {
        let run = ["test", "--profile", "checked", "-p", "tidegate", "--test", "suite"];
        let run = [&run[..], &["routes::", "--", "--ignored"]].concat();
        Verdict::tests(cargo(shop).args(run).stream(), Counts::from_cargo)
    });
    report.step(LONG, "what a command of each script costs the server", || match redis::program(shop) {
        Ok(program) => {
            let run = ["test", "--release", "-p", "tidegate-fleet-tests", "--test", "cost", "--"];
            let run = cargo(shop).args(run).args(["--ignored", "--nocapture"]).env(redis::PROGRAM, program);
            Verdict::tests(run.stream(), Counts::from_cargo)
        }
        Err(Error(why)) => Verdict::NotRun(why),
    });
    report.step(
        LONG,
        "a million commands to the fleet's scripts and to their twin",
        || match redis::program(shop) {
            Ok(program) => {
                let run = ["test", "-p", "tidegate-fleet-tests", "--test", "scripts", "the_twin"];
                let run =
                    cargo(shop).args(run).env(redis::PROGRAM, program).env("TIDEGATE_FLEET_RUNS", "1000000");
                Verdict::tests(run.stream(), Counts::from_cargo)
            }
            Err(Error(why)) => Verdict::NotRun(why),
        },
    );
}

/// Compiles the published crates, with all features, with the oldest compiler that the workspace's manifest promises.
fn oldest(shop: &Shop) -> Result<Cmd> {
    let manifest = read(&shop.root, "Cargo.toml")?;
    let promised = manifest.split_once("rust-version = \"").and_then(|(_, rest)| rest.split_once('"'));
    let Some((oldest, _)) = promised else { return Err(Error("Cargo.toml has no rust-version".into())) };
    let toolchain = format!("+{oldest}.0");
    let there =
        Cmd::new("rustc").args([&toolchain, "--version"]).cwd(&shop.root).capture().and_then(Output::ok);
    if there.is_err() {
        if !shop.install {
            return Err(Error(format!("--no-install: rustup toolchain install {oldest}.0")));
        }
        let install = ["toolchain", "install", &toolchain[1..], "--profile", "minimal"];
        Cmd::new("rustup").args(install).quiet()?;
    }
    let check = ["check", "--quiet", "--locked", "--all-features", "-p", "tidegate", "-p", "tidegate-tokio"];
    let compile = Cmd::new("cargo").arg(toolchain).args(check).cwd(&shop.root);
    Ok(compile.env("CARGO_TARGET_DIR", shop.scratch("oldest")?))
}

fn searches(shop: &Shop, minutes: u32, report: &mut Report) {
    report.step(SEARCH, &format!("schedules against the printed bound, {minutes} min"), || {
        search(shop, minutes)
    });
    for patch in mutants::search::patches(shop) {
        let name = patch.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        report.step(SEARCH, &format!("finds {name} where its mend is taken out"), || {
            mutants::search::find(shop, &patch)
        });
    }
    report.step(SEARCH, "small worlds, two actions deeper (optimised)", || {
        let run = ["test", "--profile", "checked", "-p", "tidegate-exhaustive", "--", "--nocapture"];
        Verdict::tests(cargo(shop).args(run).env("TIDEGATE_DEEPER", "2").stream(), Counts::from_cargo)
    });
}

/// What is published for other systems, and a release of the present version from a clone, whose Swift package a new one resolves. Last the
/// npm package on other versions of Node, and the public interfaces.
fn packages(shop: &Shop, report: &mut Report) -> Result {
    dist::steps(shop, false, &[], report);
    let version = version(&shop.root)?;
    let clone = release::steps(shop, &version, report)?;
    let root = swift::Root::open(shop);
    report.step(PACKAGES, "Swift, a new package that resolves the rehearsal's tag", || match &root {
        Ok(root) => match swift::library(shop, jvm::TESTED) {
            Ok(()) => install::resolved(shop, root, |_| Ok((clone, version))),
            Err(Error(why)) => Verdict::Failed(Counts::default(), why),
        },
        Err(Error(why)) => Verdict::NotRun(why.clone()),
    });
    js::other_nodes(shop, report);
    surface::steps(shop, report);
    Ok(())
}

fn lab(shop: &Shop, minutes: u32, report: &mut Report) {
    // 100 seeds simulate 600 million calls.
    let seeds = (20 * minutes).min(100).to_string();
    report.step(LAB, &format!("all tables, {seeds} seeds"), || {
        let run = ["run", "--profile", "checked", "-p", "tidegate-lab", "--", "all", "--seeds", &seeds];
        Verdict::check(cargo(shop).args(run).stream().and_then(Output::ok))
    });
}

/// Searches for schedules that exceed the printed bound, from a seed that is printed.
fn search(shop: &Shop, minutes: u32) -> Verdict {
    let run = ["test", "--profile", "checked", "-p", "tidegate", "--test", "search", "--"];
    let run = cargo(shop).args(run).args(["--ignored", "--nocapture"]);
    // A seed that differs from day to day is enough.
    let day = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs() / 86_400);
    let run = run.env("TIDEGATE_SEARCH_SEED", day.to_string());
    let run = run.env("TIDEGATE_SEARCH_SECONDS", (60 * u64::from(minutes)).to_string());
    Verdict::tests(run.stream(), Counts::from_cargo)
}

/// The targets, which are the folders of the corpus; a test checks that.
fn targets(shop: &Shop) -> Vec<String> {
    let entries = fs::read_dir(shop.root.join("tests/fuzz/corpus")).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Explores one target from its corpus. Shrinks a failing input and stores it where it can be committed.
fn explore(shop: &Shop, tools: &Path, target: &str, minutes: u32) -> Verdict {
    let run = || -> Result<Vec<PathBuf>> {
        let corpus = shop.root.join("tests/fuzz/corpus").join(target);
        // libFuzzer writes into the first folder that it gets, so that must not be the committed one.
        let (found, failed) = (
            shop.scratch(&format!("deep/{target}/corpus"))?,
            shop.scratch(&format!("deep/{target}/failed"))?,
        );
        let prefix = format!("-artifact_prefix={}/", failed.display());
        let ran = fuzz(shop, tools, &["run", target])
            .arg(&found)
            .arg(&corpus)
            .args([
                "--",
                &format!("-max_total_time={}", minutes * 60),
                LONGEST,
                "-print_final_stats=1",
                &prefix,
            ])
            .capture()?;
        for line in ran.text.lines().filter(|line| tells(line)) {
            println!("   {line}");
        }
        let crashes = files(&failed);
        if crashes.is_empty() {
            ran.ok()?;
        }
        crashes.iter().map(|crash| keep(shop, tools, target, crash, &corpus)).collect()
    };
    match run() {
        Ok(kept) if kept.is_empty() => Verdict::Passed(Counts::default()),
        Ok(kept) => {
            let names: Vec<_> = kept.iter().map(|file| file.display().to_string()).collect();
            Verdict::Failed(Counts::default(), format!("commit with the fix: {}", names.join(", ")))
        }
        Err(Error(why)) => Verdict::Failed(Counts::default(), why),
    }
}

/// Whether a line of libFuzzer's output is worth showing.
fn tells(line: &str) -> bool {
    [
        "stat::number_of_executed_units",
        "stat::average_exec_per_sec",
        "panicked at",
        "ERROR: libFuzzer",
        "DONE",
    ]
    .iter()
    .any(|part| line.contains(part))
}

/// Shrinks a failing input and puts it into the corpus, where `cargo xtask test` replays it.
fn keep(shop: &Shop, tools: &Path, target: &str, crash: &Path, corpus: &Path) -> Result<PathBuf> {
    let small = crash.with_extension("small");
    let exact = format!("-exact_artifact_path={}", small.display());
    // The command fails, because the smallest input fails too; only the file matters.
    fuzz(shop, tools, &["tmin", target, "--runs", "2000"]).arg(crash).args(["--", &exact]).capture()?;
    let best = if small.is_file() { &small } else { crash };
    let name = crash.file_name().map_or_else(|| "failed".into(), |name| name.to_string_lossy().into_owned());
    let kept = corpus.join(name);
    fs::copy(best, &kept).map_err(Error::at("write", &kept))?;
    fs::remove_file(crash).map_err(Error::at("remove", crash))?;
    fs::remove_file(&small).ok();
    Ok(kept)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// cargo-fuzz in the harness's folder, on nightly.
fn fuzz(shop: &Shop, tools: &Path, args: &[&str]) -> Cmd {
    let path = env::join_paths(
        [tools.join("bin")].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
    );
    let command = Cmd::new("cargo").args(["+nightly", "fuzz"]).args(args).args(["--fuzz-dir", "."]);
    command
        .cwd(&shop.root.join("tests/fuzz/fuzz"))
        .env("PATH", path.unwrap_or_default())
        .env("CARGO_TARGET_DIR", shop.target.join("xtask/fuzz"))
}

/// Finds or installs cargo-fuzz in the target directory, and a nightly compiler.
fn fuzzer(shop: &Shop) -> Result<PathBuf> {
    nightly(shop)?;
    let root = shop.scratch("cargo-fuzz")?;
    let there = || {
        Cmd::new(root.join("bin/cargo-fuzz"))
            .arg("--version")
            .capture()
            .is_ok_and(|ran| ran.text.contains(CARGO_FUZZ))
    };
    if !there() {
        if !shop.install {
            return Err(Error("--no-install: cargo-fuzz would have to be fetched".into()));
        }
        let install =
            cargo(shop).args(["+nightly", "install", "cargo-fuzz", "--locked", "--version", CARGO_FUZZ]);
        install.arg("--root").arg(&root).quiet()?;
    }
    Ok(root)
}

fn nightly(shop: &Shop) -> Result {
    let there = || Cmd::new("rustc").args(["+nightly", "--version"]).capture().and_then(Output::ok);
    if there().is_ok() {
        return Ok(());
    }
    if !shop.install {
        return Err(Error("--no-install: the nightly toolchain would have to be fetched".into()));
    }
    Cmd::new("rustup").args(["toolchain", "install", "nightly", "--profile", "minimal"]).quiet()?;
    there().map(drop)
}

fn component(shop: &Shop, name: &str) -> Result {
    nightly(shop)?;
    let listed = Cmd::new("rustup").args(["+nightly", "component", "list"]).capture()?.ok()?;
    let there =
        |name: &str| listed.text.lines().any(|line| line.starts_with(name) && line.contains("(installed)"));
    if there(name) && there("rust-src") {
        return Ok(());
    }
    if !shop.install {
        return Err(Error(format!("--no-install: {name} would have to be fetched")));
    }
    Cmd::new("rustup")
        .args(["component", "add", "--toolchain", "nightly", name, "rust-src"])
        .quiet()
        .map(drop)
}

/// Runs Miri. Core forbids unsafe code, so undefined behaviour can only come from its dependencies; Miri finds that,
/// and overflows.
fn miri(shop: &Shop) -> Verdict {
    let command = Cmd::new("timeout").arg(MIRI_SECONDS.to_string());
    let command = command.args(["cargo", "+nightly", "miri", "test", "-p", "tidegate", "--lib", UNDER_MIRI]);
    let command = command.cwd(&shop.root).env("CARGO_TARGET_DIR", shop.target.join("xtask/miri"));
    // Few cases of each property, because an interpreter is a hundred times slower. Miri cannot write regressions to
    // files either.
    let command = command.env("PROPTEST_CASES", "2").env("MIRIFLAGS", "-Zmiri-disable-isolation");
    Verdict::tests(command.stream(), Counts::from_cargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_are_those_of_the_harness() {
        let shop = Shop::open(false).expect("we are in the repository");
        let harness =
            fs::read_to_string(shop.root.join("tests/fuzz/fuzz/Cargo.toml")).expect("it is committed");
        let names = targets(&shop);
        assert_eq!(harness.matches("[[bin]]").count(), names.len());
        assert!(names.iter().all(|name| harness.contains(&format!("name = \"{name}\""))), "{names:?}");
    }

    /// Test programs with ignored tests, and the source file that runs those.
    const IGNORED: [(&str, &str); 6] = [
        ("bindings-tokio/tests/traces.rs", "traces.rs"),
        ("core/tests/routes.rs", "deep.rs"),
        ("core/tests/rules.rs", "deep.rs"),
        ("core/tests/search.rs", "deep.rs"),
        ("tests/fleet/tests/cost.rs", "deep.rs"),
        ("tests/fleet/tests/partition.rs", "redis.rs"),
    ];

    #[test]
    fn each_ignored_test_is_run_by_a_step() {
        let root = Shop::open(false).expect("we are in the repository").root;
        let files = Cmd::new("git").args(["grep", "-lE", "^ *#\\[ignore", "--", "*.rs"]).cwd(&root).capture();
        let files = files.and_then(Output::ok).expect("git finds them").text;
        assert_eq!(files.lines().collect::<Vec<_>>(), IGNORED.map(|(file, _)| file));
        for (file, by) in IGNORED {
            let step = fs::read_to_string(root.join("xtask/src").join(by)).expect("it is committed");
            let program = Path::new(file).file_stem().expect("a file").to_string_lossy().into_owned();
            assert!(step.contains(&program) && step.contains("--ignored"), "{by} does not run {file}");
        }
    }

    #[test]
    fn what_libfuzzer_found_is_shown() {
        assert!(
            tells("stat::number_of_executed_units: 12") && tells("thread '<unnamed>' panicked at x.rs:1:1:")
        );
        assert!(!tells("#43145\tREDUCE cov: 1481"));
    }
}
