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
    let ready = match environment(shop) {
        Ok(()) => report.step(JS, "environment", || Verdict::Passed(Counts::default())),
        Err(Error(why)) => report.step(JS, "environment", || Verdict::NotRun(why)),
    };
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

/// Node's packages, the compiler's target, and the source of the standard library, which is built with the module. What is
/// missing is fetched where that is allowed.
pub fn environment(shop: &Shop) -> Result {
    wasm::node(shop)?;
    wasm::target(shop)?;
    wasm::component(shop, "rust-src")?;
    let folder = folder(shop);
    let lock = folder.join("package-lock.json");
    let wanted = fs::read_to_string(&lock).map_err(Error::at("read", &lock))?;
    // npm takes everything away first, so a copy of the lock, written last, says that it has come to its end.
    let stamp = folder.join("node_modules/.tidegate-complete");
    if fs::read_to_string(&stamp).is_ok_and(|complete| complete == wanted) {
        return Ok(());
    }
    if !shop.install {
        return Err(Error("--no-install: npm ci would have to fetch Node's packages".into()));
    }
    Cmd::new("npm").args(["ci", "--no-audit", "--no-fund"]).cwd(&folder).quiet()?;
    fs::write(&stamp, wanted).map_err(Error::at("write", &stamp))
}
