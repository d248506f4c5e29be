//! The fleet's bench, alone or at the end of all benches, and its check among the tests.

use crate::cargo;
use crate::demo::{PEERS, present};
use crate::report::Verdict;
use crate::run::{Cmd, Error, Result, quoted, step};
use crate::setup::{Shop, Venv, environment, python_environment};
use crate::test::OTHERS;
use crate::{js, redis, wheel};
use std::fs;
use std::path::{Path, PathBuf};

/// The part of the tests' report to which the check belongs.
pub const PART: &str = "Fleet";
const WORKER: &str = "tidegate-bench-fleet";

/// `cargo xtask bench fleet [arguments]`: runs the fleet's bench alone.
pub fn bench(shop: &Shop, args: &[String]) -> Result {
    let rows = shop.target.join("bench-fleet.tsv");
    beside_peers(shop, &with_peers(shop)?, args, ("TIDEGATE_BENCH_ROWS", &rows))
}

/// The environment of the Python benches with the wheel of this tree.
pub fn with_peers(shop: &Shop) -> Result<Venv> {
    let builder = python_environment(shop)?;
    let wheel = step("python: build the wheel", || wheel::build(shop, &builder))?;
    let venv = environment(shop, PEERS)?;
    step("python: install the wheel beside the peers", || wheel::install(&venv, &wheel))?;
    Ok(venv)
}

/// Runs the fleet's bench in an environment that has the peers. A language that cannot be built is left out, and the
/// output says so. The variable says where the rows go.
pub fn beside_peers(shop: &Shop, venv: &Venv, args: &[String], (name, rows): (&str, &Path)) -> Result {
    let server = redis::program(shop)?;
    step("rust: build the worker", || cargo(shop).args(["build", "-q", "--release", "-p", WORKER]).quiet())?;
    let mut workers = vec![python(shop, venv)?, quoted(shop.target.join("release").join(WORKER).as_os_str())];
    match step("javascript: build the package", || js::built(shop).and_then(|_| js::peers(shop))) {
        Ok(()) => workers.push(javascript(shop)?),
        Err(why) => println!("   without JavaScript: {why}"),
    }
    let out = shop.root.join("target/bench-fleet.json");
    println!("── bench: fleet");
    run(shop, venv, &server, &workers)?.arg("--out").arg(&out).args(args).env(name, rows).inherit()?;
    println!("all figures: {}", out.display());
    Ok(())
}

/// Checks the fleet's bench as a step of the tests, with the programs that earlier steps have built.
pub fn check(shop: &Shop) -> Verdict {
    let ready = || -> Result<_> {
        let (server, venv) = (redis::program(shop)?, python_environment(shop)?);
        if !js::is_built(shop) {
            return Err(Error("the npm package is not built".into()));
        }
        Ok((server, venv))
    };
    let (server, venv) = match ready() {
        Ok(ready) => ready,
        Err(Error(why)) => return Verdict::NotRun(why),
    };
    let check = || {
        // The worker's test builds it, with the same features as the other tests of the workspace.
        cargo(shop).args(["test", "-q", "--no-run"]).args(OTHERS).args(["--test", "worker"]).quiet()?;
        let rust = quoted(shop.target.join("debug").join(WORKER).as_os_str());
        let workers = [python(shop, &venv)?, javascript(shop)?, rust];
        run(shop, &venv, &server, &workers)?.arg("--check").stream()?.ok().map(drop)
    };
    Verdict::check(check())
}

fn run(shop: &Shop, venv: &Venv, server: &Path, workers: &[String]) -> Result<Cmd> {
    fs::create_dir_all(shop.root.join("target")).map_err(Error::at("make", &shop.root.join("target")))?;
    let bench = venv.script(&script(shop, "run.py")?).arg("--redis-server").arg(server);
    Ok(workers.iter().fold(bench, |bench, worker| bench.arg("--worker").arg(worker)))
}

fn python(shop: &Shop, venv: &Venv) -> Result<String> {
    let (program, script) = (venv.bin("python"), script(shop, "worker.py")?);
    Ok(format!("{} {}", quoted(program.as_os_str()), quoted(script.as_os_str())))
}

fn javascript(shop: &Shop) -> Result<String> {
    Ok(format!("node {}", quoted(script(shop, "worker.mjs")?.as_os_str())))
}

fn script(shop: &Shop, name: &str) -> Result<PathBuf> {
    present(shop, &format!("bench/fleet/{name}"))
}
