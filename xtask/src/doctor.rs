//! `cargo xtask doctor`: reports which tools for `cargo xtask test` this machine has, part by part, and how to get the
//! missing ones. It installs nothing and builds nothing.

use crate::run::{Cmd, Error, Output, Result};
use crate::setup::{Shop, find_minor, find_python};
use crate::{redis, swift, test, wasm};
use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A tool and the result of looking for it.
#[derive(Debug, PartialEq)]
struct Finding {
    part: &'static str,
    name: String,
    found: Found,
}

#[derive(Debug, PartialEq)]
enum Found {
    /// Found: its version, or where it is.
    There(String),
    /// Missing, but `cargo xtask` fetches it when needed.
    Fetched(String),
    /// Missing. The text says how to get it; without it some steps are reported as not run.
    Optional(String),
    /// Missing, and without it `cargo xtask test` fails or leaves a language out. The text says how to get it.
    Missing(String),
}

/// Prints the findings; fails if a required tool is missing.
pub fn doctor(shop: &Shop) -> ExitCode {
    let findings = look(shop);
    print!("{}", table(&findings));
    let missing: Vec<_> = findings.iter().filter(|it| matches!(it.found, Found::Missing(_))).collect();
    if missing.is_empty() {
        println!("\nNothing is missing for `cargo xtask test`.");
        return ExitCode::SUCCESS;
    }
    let names: Vec<_> = missing.iter().map(|it| it.name.as_str()).collect();
    println!("\nMissing for `cargo xtask test`: {}.", names.join(", "));
    ExitCode::FAILURE
}

/// One line for each finding, by part.
fn table(findings: &[Finding]) -> String {
    let (mut text, mut part) = (String::new(), "");
    for finding in findings {
        if finding.part != part {
            part = finding.part;
            text.extend([part, "\n"]);
        }
        let (word, more) = match &finding.found {
            Found::There(what) => ("there", what.clone()),
            Found::Fetched(what) => ("fetched", format!("by cargo xtask: {what}")),
            Found::Optional(how) => ("optional", how.clone()),
            Found::Missing(how) => ("MISSING", how.clone()),
        };
        let _ = writeln!(text, "  {word:<9} {:<28} {more}", finding.name);
    }
    text
}

fn look(shop: &Shop) -> Vec<Finding> {
    let mut all = Vec::new();
    let mut tell = |part, name: &str, found| all.push(Finding { part, name: name.into(), found });
    // cargo runs this, so it is installed; rustup has fetched the version that rust-toolchain.toml names.
    let rust = "rustup (https://rustup.rs), which reads rust-toolchain.toml";
    tell("Rust", "rustc", either(version(shop, "rustc", "--version"), Found::Missing(rust.into())));
    for component in ["clippy", "rustfmt"] {
        let add = format!("rustup component add {component}");
        let program = if component == "clippy" { "cargo-clippy" } else { "rustfmt" };
        tell("Rust", component, either(version(shop, program, "--version"), Found::Missing(add)));
    }
    let ours = Shop { root: shop.root.clone(), target: shop.target.clone(), install: false };
    for (name, there) in
        [(wasm::TARGET, wasm::target(&ours, wasm::TARGET)), ("rust-src", wasm::component(&ours, "rust-src"))]
    {
        let found = match there {
            Ok(()) => Found::There("for JavaScript's engine".into()),
            Err(_) if rustup(shop) => Found::Fetched("rustup".into()),
            Err(Error(why)) => Found::Missing(why),
        };
        tell("Rust", name, found);
    }
    let debian = |package: &str| apt(package, can_apt());
    let there = || version(shop, "valgrind", "--version");
    tell("Rust", "valgrind", either(there(), debian("valgrind")));

    let python = find_python().map(|python| format!("{} ({})", python.version, python.exe.display()));
    let get = "Python 3.10 or newer (Debian: apt-get install python3 python3-venv)";
    tell("Python", "python3", either(python.ok(), Found::Missing(get.into())));
    for minor in test::MINORS {
        let get = format!("pyenv install {minor}: the wheel is tried on it");
        let there = find_minor(minor).map(|python| python.version);
        tell("Python", &format!("CPython {minor}"), either(there, Found::Optional(get)));
    }

    let node = version(shop, "node", "--version").filter(|version| major(version) >= Some(OLDEST_NODE));
    let get = format!("Node {OLDEST_NODE} or newer (https://nodejs.org)");
    tell("JavaScript", "node", either(node, Found::Missing(get)));
    let get = "npm, which comes with Node (Debian: apt-get install npm)";
    tell("JavaScript", "npm", either(version(shop, "npm", "--version"), Found::Missing(get.into())));
    let browser = env::var_os("CHROMIUM").map_or_else(|| "/usr/bin/chromium".into(), PathBuf::from);
    let browser = browser.is_file().then(|| browser.display().to_string());
    tell("JavaScript", "chromium", either(browser, debian("chromium")));

    let java = version(shop, "javac", "-version").filter(|version| major(version) >= Some(OLDEST_JAVA));
    let get = format!("a JDK, {OLDEST_JAVA} or newer (Debian: apt-get install openjdk-17-jdk-headless)");
    tell("Kotlin", "javac", either(java, Found::Missing(get)));
    let get = "Maven (Debian: apt-get install maven)";
    tell("Kotlin", "mvn", either(version(shop, "mvn", "--version"), Found::Missing(get.into())));

    tell(
        "Swift",
        "a compiler",
        match swift::Root::open(&ours) {
            Ok(_) => Found::There("in ~/.cache/tidegate".into()),
            Err(_) => {
                Found::Optional("cargo xtask setup, as root on Linux, fetches Debian's (0.5 GB)".into())
            }
        },
    );

    let get = "Go 1.24 or newer (https://go.dev/dl): builds actionlint, which reads the workflows";
    tell("Workflows", "go", either(version(shop, "go", "version"), Found::Optional(get.into())));

    let named = env::var_os(redis::PROGRAM).map(PathBuf::from);
    let programs =
        named.map_or_else(|| ["redis-server", "valkey-server"].map(PathBuf::from).to_vec(), |it| vec![it]);
    let server = programs.iter().find_map(|program| version(shop, program, "--version"));
    tell("Fleet", "redis-server or valkey-server", either(server, debian("redis-server")));
    let get = "iproute2 and root: a partition between network namespaces is not tried without them";
    tell("Fleet", "ip", either(version(shop, "ip", "-V"), Found::Optional(get.into())));
    all
}

const OLDEST_NODE: u32 = 20;
const OLDEST_JAVA: u32 = 17;

fn either(there: Option<String>, otherwise: Found) -> Found {
    there.map_or(otherwise, Found::There)
}

/// The finding for a missing Debian package: `cargo xtask` installs it if it may.
fn apt(package: &str, may: bool) -> Found {
    let how = format!("apt-get install {package}");
    if may { Found::Fetched(how) } else { Found::Missing(format!("as root on Debian: {how}")) }
}

fn can_apt() -> bool {
    Path::new("/usr/bin/apt-get").is_file() && text("id", "-u").is_some_and(|id| id.trim() == "0")
}

fn rustup(shop: &Shop) -> bool {
    version(shop, "rustup", "--version").is_some()
}

fn text(program: &str, argument: &str) -> Option<String> {
    Cmd::new(program).arg(argument).capture().and_then(Output::ok).ok().map(|ran| ran.text)
}

/// The first line with a digit in a program's version output.
fn version(shop: &Shop, program: impl AsRef<Path>, argument: &str) -> Option<String> {
    let ran: Result<Output> = Cmd::new(program.as_ref()).arg(argument).cwd(&shop.root).capture();
    let text = ran.and_then(Output::ok).ok()?.text;
    let line = text.lines().find(|line| line.contains(|char: char| char.is_ascii_digit()))?;
    Some(line.trim().to_owned())
}

/// The first number in a version: `v22.3.0`, `javac 17.0.2`.
fn major(version: &str) -> Option<u32> {
    let digits: String =
        version.chars().skip_while(|char| !char.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_counts() {
        assert_eq!((major("v22.3.0"), major("javac 17.0.2"), major("none")), (Some(22), Some(17), None));
        assert!(major("v18.20.4") < Some(OLDEST_NODE) && major("v100.0.0") > Some(OLDEST_NODE));
    }

    #[test]
    fn a_package_that_cannot_be_fetched_is_missing_and_says_how() {
        assert_eq!(apt("valgrind", true), Found::Fetched("apt-get install valgrind".into()));
        assert_eq!(
            apt("valgrind", false),
            Found::Missing("as root on Debian: apt-get install valgrind".into())
        );
    }

    #[test]
    fn each_line_says_what_it_is_and_how_to_get_it() {
        let finding = |part, name: &str, found| Finding { part, name: name.into(), found };
        let findings = [
            finding("Rust", "rustc", Found::There("rustc 1.95.0".into())),
            finding("Rust", "rust-src", Found::Fetched("rustup".into())),
            finding("Kotlin", "mvn", Found::Missing("apt-get install maven".into())),
        ];
        let lines: Vec<String> = table(&findings)
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let expected = [
            "Rust",
            "there rustc rustc 1.95.0",
            "fetched rust-src by cargo xtask: rustup",
            "Kotlin",
            "MISSING mvn apt-get install maven",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_program_that_is_not_there_has_no_version() {
        let shop = Shop::open(false).expect("we are in the repository");
        assert_eq!(version(&shop, "tidegate-no-such-program", "--version"), None);
        assert!(version(&shop, "cargo", "--version").is_some_and(|line| line.starts_with("cargo ")));
    }

    /// On any machine each part has a finding, and the versions of rustc and Python are named.
    #[test]
    fn every_part_is_looked_at() {
        let shop = Shop::open(false).expect("we are in the repository");
        let findings = look(&shop);
        for part in ["Rust", "Python", "JavaScript", "Kotlin", "Swift", "Fleet"] {
            assert!(findings.iter().any(|it| it.part == part), "{part}");
        }
        let rustc = findings.iter().find(|it| it.name == "rustc").expect("it is looked for");
        assert!(matches!(&rustc.found, Found::There(version) if version.starts_with("rustc ")), "{rustc:?}");
    }
}
