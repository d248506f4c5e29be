//! The only automation of this repository: `cargo xtask <command>`, on a laptop and in CI alike.
//!
//! Uses std only, so that it compiles in a second on a new clone. Everything it needs beyond cargo (Python packages) it
//! installs into `target/`, pinned, and only when missing.

mod api;
mod bench;
mod deep;
mod demo;
mod dist;
mod doctor;
mod emulate;
mod fleet;
mod gate;
mod generate;
mod install;
mod js;
mod jvm;
mod mutants;
mod natives;
mod packages;
mod redis;
mod registry;
mod release;
mod report;
mod run;
mod setup;
mod site;
mod surface;
mod swift;
mod tasks;
mod test;
mod times;
mod traces;
mod wasm;
mod wheel;
mod workflows;

use run::{Cmd, Error, Result};
use setup::Shop;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command> [--no-install] [arguments]

  setup               install what the other commands need (Python packages, into target/venv; WebAssembly; Swift)
  doctor              what this machine lacks for `test`, part by part, and how to get it; fails if something is missing
  test [--quick]      everything CI runs: format, lints, tests, types, stubs, wheel; begins with the plan and ends with the
                      counts; with --quick the engine alone, in about 5 minutes on a new machine of two cores
       test --only <words>...
                      the steps with one of these in their names (python, kotlin: tests), and what these need
  install-check       the first minute of a new user in each language, in an empty folder, with the packages as released
  demo [arguments]    the brownout demo against the built package and origin; table and plots in target/demo
                      demo fleet: eight processes in three languages on one Redis that dies and comes back
  generate [--check]  rewrite the committed generated files; with --check only say whether they are current
  bench [--runs N] [--keep] [rust|python|javascript|jvm|swift …]
                      what a call costs in each language and in the fleet, beside peers, N times in turn (1), on one page in
                      target/bench; --keep puts the page in docs/benchmarks. It needs a quiet machine
                      bench fleet: a rate limit that processes share, beside peers on the same Redis, and nothing else
                      bench jmh [options of JMH]: the JVM's calls beside resilience4j's, measured by JMH (bench/jvm/README.md)
  gate [--accept] [--python|--javascript|--swift]
                      instructions per call in core and in the Rust host (or in the package of one of these languages) against
                      the accepted figures; with --accept writes the new ones
  deep [minutes] [part]  minutes (1) of libFuzzer for each target of tests/fuzz and of the guided search, long tests, mutants of
                      core, random traces through every language, the lab's tables, then Miri; on nightly. Of one part:
                      fuzz, long, search, mutants, traces, lab, site, packages, miri
                      deep mutants [names]: the mutants whose names begin so
  site [--api]        the documentation site, into target/site, with its links and sizes checked; TIDEGATE_SITE_URL is its address;
                      with --api the API documentation of each language below it, where its tests have built what that needs
  api [--against <ref>] [languages]
                      what has changed in the public interface of each package since the last release, or since a commit that has
                      api/<language>.txt; fails if a name has gone
  dist [--host] [parts]  what is published for each platform, looked at, and run where it can be; with --host this machine's
                      alone. The parts: wheels (and the source distribution, into dist/), natives (the JVM's libraries), and
                      framework (of Apple's systems), into target/xtask

  release --dry-run <version>
                      rehearses a release in a clone: version, date, packages, lists of parts, checksums; uploads nothing
       release --check <tag>   whether a tag, the packages and the changelog have one version
       release --build npm     what the release workflow uploads to npm

  --no-install        install nothing from the network; what is missing is named and stops the command

The interpreter is the first of $PYTHON, python3.11, python3, python3.10, python3.12, python3.13 that is 3.10 or newer.
";

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let install = take_flag(&mut args, "--no-install").is_none();
    let command = if args.is_empty() { String::from("help") } else { args.remove(0) };
    match dispatch(&command, args, install) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: &str, mut args: Vec<String>, install: bool) -> Result<ExitCode> {
    if matches!(command, "help" | "--help" | "-h") {
        print!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    }
    let shop = Shop::open(install)?;
    match command {
        "setup" => no_more(&args).and_then(|()| setup::setup(&shop))?,
        "test" => {
            let quick = take_flag(&mut args, "--quick").is_some();
            let only = match args.iter().position(|arg| arg == "--only") {
                Some(at) => args.split_off(at).split_off(1),
                None => Vec::new(),
            };
            no_more(&args)?;
            return if quick { test::quick(&shop) } else { test::test(&shop, &only) };
        }
        "demo" if args.first().is_some_and(|what| what == "fleet") => demo::fleet(&shop, &args[1..])?,
        "demo" => demo::demo(&shop, &args)?,
        "generate" => {
            let check = take_flag(&mut args, "--check").is_some();
            no_more(&args)?;
            generate::generate(&shop, check)?;
        }
        "gate" => {
            let accept = take_flag(&mut args, "--accept").is_some();
            let python = take_flag(&mut args, "--python").is_some();
            let javascript = take_flag(&mut args, "--javascript").is_some();
            let swift = take_flag(&mut args, "--swift").is_some();
            no_more(&args)?;
            if python {
                gate::gate_python(&shop, &demo::package(&shop)?, accept)?;
            } else if javascript {
                gate::gate_javascript(&shop, accept)?;
            } else if swift {
                gate::gate_swift(&shop, accept)?;
            } else {
                gate::gate(&shop, accept)?;
            }
        }
        // These two alone take arguments of their own.
        "bench" if args.first().is_some_and(|what| what == "fleet") => fleet::bench(&shop, &args[1..])?,
        "bench" if args.first().is_some_and(|what| what == "jmh") => jvm::jmh(&shop, &args[1..])?,
        "bench" => {
            let keep = take_flag(&mut args, "--keep").is_some();
            let runs = take_value(&mut args, "--runs")?.unwrap_or(1);
            bench::bench(&shop, runs, keep, &args)?;
        }
        "deep" => {
            let minutes = match args.first().and_then(|first| first.parse().ok()) {
                Some(minutes) => {
                    args.remove(0);
                    minutes
                }
                None => 1,
            };
            if !(1..=10_000).contains(&minutes) {
                return Err(Error("deep takes a number of minutes from 1 on".into()));
            }
            let part = if args.is_empty() { None } else { Some(args.remove(0)) };
            return deep::deep(&shop, minutes, part.as_deref(), &args);
        }
        "doctor" => {
            no_more(&args)?;
            return Ok(doctor::doctor(&shop));
        }
        "install-check" => {
            no_more(&args)?;
            return test::test(&shop, &[install::NAME.into()]);
        }
        "site" => {
            let api = take_flag(&mut args, "--api").is_some();
            no_more(&args)?;
            return site::site(&shop, api);
        }
        "release" => match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["--dry-run", version] => return release::rehearse(&shop, version),
            ["--check", tag] => release::check(&shop, tag)?,
            ["--build", what] => release::build(&shop, what)?,
            _ => return Err(Error("release takes --dry-run <version>, --check <tag> or --build npm".into())),
        },
        "api" => {
            let against = match args.iter().position(|arg| arg == "--against") {
                Some(at) => args.splice(at..(at + 2).min(args.len()), []).nth(1),
                None => None,
            };
            return surface::api(&shop, against.as_deref(), &args);
        }
        "dist" => {
            let host = take_flag(&mut args, "--host").is_some();
            return dist::dist(&shop, host, &args);
        }
        other => {
            eprint!("{USAGE}");
            return Err(Error(format!("there is no command `{other}`")));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes the flag from the arguments if it is there.
fn take_flag(args: &mut Vec<String>, flag: &str) -> Option<String> {
    let at = args.iter().position(|arg| arg == flag)?;
    Some(args.remove(at))
}

/// Removes an option and the number that follows it from the arguments if it is there.
fn take_value(args: &mut Vec<String>, option: &str) -> Result<Option<u32>> {
    let Some(at) = args.iter().position(|arg| arg == option) else { return Ok(None) };
    let value = args.splice(at..(at + 2).min(args.len()), []).nth(1);
    match value.as_deref().map(str::parse) {
        Some(Ok(number @ 1..=1000)) => Ok(Some(number)),
        _ => {
            Err(Error(format!("{option} takes a number from 1 to 1000, not `{}`", value.unwrap_or_default())))
        }
    }
}

fn no_more(args: &[String]) -> Result {
    match args {
        [] => Ok(()),
        [first, ..] => {
            Err(Error(format!("unexpected argument `{first}`; `cargo xtask` alone prints the usage")))
        }
    }
}

/// cargo, in the repository's root.
fn cargo(shop: &Shop) -> Cmd {
    Cmd::new("cargo").cwd(&shop.root).env("CARGO_TARGET_DIR", &shop.target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn flags_are_taken_out_of_the_arguments_wherever_they_stand() {
        let mut args = words("--seed 7 --no-install --quick");
        assert!(take_flag(&mut args, "--no-install").is_some());
        assert_eq!(args, words("--seed 7 --quick"));
        assert!(take_flag(&mut args, "--no-install").is_none());
    }

    #[test]
    fn a_number_is_taken_with_its_option() {
        let mut args = words("--keep --runs 5 rust");
        assert_eq!(take_value(&mut args, "--runs"), Ok(Some(5)));
        assert_eq!(args, words("--keep rust"));
        assert_eq!(take_value(&mut args, "--runs"), Ok(None));
        for wrong in ["--runs", "--runs five", "--runs 0"] {
            assert!(take_value(&mut words(wrong), "--runs").is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_left_over_argument_is_named() {
        assert_eq!(no_more(&[]), Ok(()));
        assert!(no_more(&words("--chek")).is_err_and(|error| error.0.contains("`--chek`")));
    }

    #[test]
    fn every_command_stands_in_the_usage() {
        for command in [
            "setup",
            "doctor",
            "test",
            "install-check",
            "demo",
            "generate",
            "bench",
            "gate",
            "deep",
            "site",
            "api",
            "dist",
            "release",
        ] {
            assert!(USAGE.contains(&format!("\n  {command}")), "{command}");
        }
    }
}
