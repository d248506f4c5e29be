//! The npm package (`bindings-wasm`): its environment, its build, its checks and tests.

use crate::report::{Counts, Report, Verdict};
use crate::run::{Cmd, Error, Output, Result};
use crate::setup::Shop;
use crate::wasm;
use std::fs;
use std::path::{Path, PathBuf};

const JS: &str = "JavaScript";

/// The steps of the tests.
pub fn steps(shop: &Shop, origin: Option<&Path>, report: &mut Report) {
    let ready = report.step(JS, "environment", || match prerequisites(shop) {
        Ok(()) => Verdict::check(packages(shop)),
        Err(Error(why)) => Verdict::NotRun(why),
    });
    let built = report.step(JS, "build", || {
        if !ready {
            return Verdict::NotRun("there is no environment to build it in".into());
        }
        Verdict::check(node(shop, "scripts/build.mjs").stream().and_then(Output::ok))
    });
    let with_build = |work: &dyn Fn() -> Verdict| {
        if built { work() } else { Verdict::NotRun("it is not built".into()) }
    };
    let check =
        |name: &str, args: &[&str]| Verdict::check(tool(shop, name).args(args).stream().and_then(Output::ok));
    report.step(JS, "biome: lint and format", || with_build(&|| check("biome", &["check", "."])));
    report.step(JS, "types", || with_build(&|| check("tsc", &["-p", "tsconfig.tests.json"])));
    report.step(JS, "tests", || {
        with_build(&|| match origin {
            Some(program) => {
                let vitest = tool(shop, "vitest").arg("run").env("TIDEGATE_ORIGIN", program);
                Verdict::tests(vitest.env("NO_COLOR", "1").stream(), Counts::from_vitest)
            }
            None => Verdict::NotRun("there is no origin".into()),
        })
    });
    report.step(JS, "the tarball in a new folder", || {
        with_build(&|| Verdict::tests(node(shop, "scripts/package.mjs").stream(), Counts::from_cargo))
    });
}

fn folder(shop: &Shop) -> PathBuf {
    shop.root.join("bindings-wasm")
}

/// A script of ours, on Node.
fn node(shop: &Shop, script: &str) -> Cmd {
    Cmd::new("node").arg(script).cwd(&folder(shop)).env("CARGO_TARGET_DIR", &shop.target)
}

/// A program that npm has installed.
fn tool(shop: &Shop, name: &str) -> Cmd {
    Cmd::new(folder(shop).join("node_modules/.bin").join(name)).cwd(&folder(shop))
}

/// What the steps stand on. What is missing is fetched where that is allowed.
pub fn environment(shop: &Shop) -> Result {
    prerequisites(shop)?;
    packages(shop)
}

/// Node, the compiler's target, and the source of the standard library, which is built with the module.
fn prerequisites(shop: &Shop) -> Result {
    wasm::node(shop)?;
    wasm::target(shop, wasm::TARGET)?;
    wasm::component(shop, "rust-src")?;
    if !shop.install && !is_complete(shop)? {
        return Err(Error("--no-install: npm ci would have to fetch Node's packages".into()));
    }
    Ok(())
}

/// npm takes everything away before it begins, so a copy of the lock, written last, says that it has come to its end.
fn stamp(shop: &Shop) -> (PathBuf, PathBuf) {
    let folder = folder(shop);
    (folder.join("package-lock.json"), folder.join("node_modules/.tidegate-complete"))
}

fn is_complete(shop: &Shop) -> Result<bool> {
    let (lock, stamp) = stamp(shop);
    let wanted = fs::read_to_string(&lock).map_err(Error::at("read", &lock))?;
    Ok(fs::read_to_string(&stamp).is_ok_and(|complete| complete == wanted))
}

/// Node's packages, as the lock has them.
fn packages(shop: &Shop) -> Result {
    if is_complete(shop)? {
        return Ok(());
    }
    Cmd::new("npm").args(["ci", "--no-audit", "--no-fund"]).cwd(&folder(shop)).quiet()?;
    let (lock, stamp) = stamp(shop);
    fs::copy(&lock, &stamp).map(drop).map_err(Error::at("write", &stamp))
}
