//! The command `demo`.

use crate::cargo;
use crate::run::{Error, Result, quoted, step};
use crate::setup::{Shop, Venv, python_environment};
use crate::{js, redis, wheel};
use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};

/// The requirements of the Python benches: the peers.
pub const PEERS: &str = "bench/python/requirements.txt";

/// `cargo xtask demo [arguments]`: runs the brownout with the built package against the built origin.
pub fn demo(shop: &Shop, args: &[String]) -> Result {
    let script = present(shop, "examples/brownout/demo.py")?;
    let (venv, origin) = (package(shop)?, step("origin: build", || build_origin(shop))?);
    let out = shop.root.join("target/demo");
    fs::create_dir_all(&out).map_err(Error::at("make", &out))?;
    println!("── demo");
    venv.script(&script).arg("--origin").arg(&origin).arg("--out").arg(&out).args(args).inherit()?;
    println!("table and plots: {}", out.display());
    for file in files(&out) {
        println!("   {}", file.display());
    }
    Ok(())
}

/// `cargo xtask demo fleet [arguments]`: eight processes in the installed languages, and a Redis that dies and comes
/// back. A language that cannot be built is left out, and the output says why.
pub fn fleet(shop: &Shop, args: &[String]) -> Result {
    let server = redis::program(shop)?;
    let venv = package(shop)?;
    let javascript = step("javascript: build the package", || js::built(shop));
    if let Err(why) = &javascript {
        println!("   without JavaScript: {why}");
    }
    let out = shop.root.join("target/demo");
    let build = ["build", "--quiet", "--release", "-p", "tidegate-fleet-tests", "--bin", "fleet-worker"];
    step("rust: build the worker", || cargo(shop).args(build).quiet())?;
    let worker = shop.target.join("release/fleet-worker");
    perform(shop, &worker, (&server, &venv, javascript.ok().as_deref()), &out, args)?;
    println!("figures and plots: {}", out.display());
    Ok(())
}

/// Runs the fleet in three languages for some seconds without faults. The declared rate must be granted: in strict mode
/// within 1 %, with leases within one lease of each process. The packages are those that earlier steps have built.
pub fn short_fleet(shop: &Shop, venv: &Venv, package: &Path) -> Result {
    let server = redis::program(shop)?;
    let out = shop.scratch("fleet")?;
    // Built exactly as the tests of its crate, because other features would compile the engine and redis again.
    let build = ["test", "--quiet", "--no-run", "-p", "tidegate-fleet-tests"];
    step("rust: build the worker", || cargo(shop).args(build).quiet())?;
    let worker = shop.target.join("debug/fleet-worker");
    for (lease, seconds) in [("1", "10"), ("20", "5")] {
        // A machine that is busy for 50 ms must not count as a lost store.
        let args = ["--steady", "--lease", lease, "--seconds", seconds, "--store-timeout", "2000"];
        perform(shop, &worker, (&server, venv, Some(package)), &out, &args.map(String::from))?;
    }
    Ok(())
}

/// Runs the fleet with the workers that are available.
fn perform(
    shop: &Shop,
    worker: &Path,
    (server, venv, javascript): (&Path, &Venv, Option<&Path>),
    out: &Path,
    args: &[String],
) -> Result {
    let script = present(shop, "examples/fleet/demo.py")?;
    let folder = script.with_file_name("");
    let mut workers = vec![
        format!("rust={}", quoted(worker.as_os_str())),
        format!(
            "python={} {}",
            quoted(venv.bin("python").as_os_str()),
            quoted(folder.join("worker.py").as_os_str())
        ),
    ];
    workers.extend(javascript.map(|package| {
        let script = folder.join("worker.mjs");
        format!("javascript=node {} {}", quoted(script.as_os_str()), quoted(package.as_os_str()))
    }));
    fs::create_dir_all(out).map_err(Error::at("make", out))?;
    println!("── demo");
    let demo = venv.script(&script).arg("--redis-server").arg(server).arg("--out").arg(out);
    let demo = workers.iter().fold(demo, |demo, worker| demo.arg("--worker").arg(worker));
    demo.args(args).inherit()
}

/// Builds the faulty origin in release mode and returns the path of its program.
pub fn build_origin(shop: &Shop) -> Result<PathBuf> {
    cargo(shop).args(["build", "--release", "-p", "tidegate-origin"]).stream()?.ok()?;
    let program = shop.target.join("release").join(format!("tidegate-origin{EXE_SUFFIX}"));
    if program.is_file() {
        return Ok(program);
    }
    Err(Error(format!("the build left no program at {}", program.display())))
}

/// An environment with the wheel of this tree.
pub fn package(shop: &Shop) -> Result<Venv> {
    let venv = python_environment(shop)?;
    let wheel = step("python: build the wheel", || wheel::build(shop, &venv))?;
    step("python: install the wheel", || wheel::install(&venv, &wheel))?;
    Ok(venv)
}

/// The path of a file of this tree.
pub fn present(shop: &Shop, path: &str) -> Result<PathBuf> {
    let full = shop.root.join(path);
    if full.is_file() { Ok(full) } else { Err(Error(format!("{path} is not in this tree yet"))) }
}

/// The files directly in a folder, sorted.
fn files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut found: Vec<_> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect();
    found.sort();
    found
}
