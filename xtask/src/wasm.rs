//! Core as WebAssembly: runs the shared vectors on Node and compares them bit for bit (`tests/wasm`).

use crate::cargo;
use crate::report::{Counts, Verdict};
use crate::run::{Cmd, Error, Result};
use crate::setup::Shop;

pub const TARGET: &str = "wasm32-unknown-unknown";
const CRATE: &str = "tidegate-wasm-tests";
const MODULE: &str = "tidegate_wasm_tests.wasm";
/// Optimised, with checks, and without the optimisations for which a release takes longer.
const PROFILE: &str = "checked";

/// Runs the vectors as a step of the tests. Without the target or Node the step is reported as not run.
pub fn check(shop: &Shop) -> Verdict {
    if let Err(Error(why)) = target(shop, TARGET).and_then(|()| node(shop)) {
        return Verdict::NotRun(why);
    }
    let build = cargo(shop).args(["build", "--quiet", "--profile", PROFILE, "-p", CRATE, "--target", TARGET]);
    if let Err(Error(why)) = build.quiet() {
        return Verdict::Failed(Counts::default(), why);
    }
    let module = shop.target.join(TARGET).join(PROFILE).join(MODULE);
    let run = Cmd::new("node").arg(shop.root.join("tests/wasm/run.mjs")).arg(module);
    // The script's last line has the format of cargo's.
    Verdict::tests(run.stream(), Counts::from_cargo)
}

/// Makes sure that the compiler has this target; adds it if that is allowed.
pub fn target(shop: &Shop, name: &str) -> Result {
    // rust-toolchain.toml names the toolchain, so rustup has to run in the repository's root.
    let rustup = |args: &[&str]| Cmd::new("rustup").cwd(&shop.root).args(args);
    let listed = rustup(&["target", "list", "--installed"]).capture()?.ok()?;
    if listed.text.lines().any(|line| line.trim() == name) {
        return Ok(());
    }
    if !shop.install {
        return Err(Error(format!("--no-install: rustup target add {name} would have to fetch it")));
    }
    rustup(&["target", "add", name]).quiet().map(drop)
}

/// Makes sure that the toolchain has a component; adds it if that is allowed.
pub fn component(shop: &Shop, name: &str) -> Result {
    let rustup = |args: &[&str]| Cmd::new("rustup").cwd(&shop.root).args(args);
    let listed = rustup(&["component", "list", "--installed"]).capture()?.ok()?;
    if listed.text.lines().any(|line| line.trim() == name) {
        return Ok(());
    }
    if !shop.install {
        return Err(Error(format!("--no-install: rustup component add {name} would have to fetch it")));
    }
    rustup(&["component", "add", name]).quiet().map(drop)
}

/// Makes sure that Node is installed.
pub fn node(shop: &Shop) -> Result {
    let version = Cmd::new("node").cwd(&shop.root).arg("--version").capture();
    version.and_then(crate::run::Output::ok).map(drop).map_err(|Error(why)| {
        Error(format!("Node is not on this machine ({why}); install it (Debian: apt-get install nodejs)"))
    })
}
