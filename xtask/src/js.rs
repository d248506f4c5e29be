//! The npm package (`bindings-wasm`): its environment, its build, its checks and tests.

use crate::report::{Counts, Report, Verdict};
use crate::run::{Cmd, Error, Output, Result};
use crate::setup::{Shop, install_debian};
use crate::{install, redis, registry, traces, wasm};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

const JS: &str = "JavaScript";
/// The tests take three minutes on two cores; after this long vitest hangs. Its own limits end neither a test that blocks
/// its process nor a file whose messages are lost.
const HANGS: Duration = Duration::from_secs(20 * 60);
/// Prefixes of the names of steps that need the package.
const NEED_PACKAGE: &[&str] =
    &["javascript: ", "install: npm", "registries: npm", "fleet: its bench", "fleet: eight"];
/// Prefixes of the names of steps that check the package from outside.
const OUTSIDE: &[&str] = &["javascript: publint", "javascript: node, deno", "javascript: chromium"];

/// Runs the steps of the tests. Returns the folder of the package if it was built.
pub fn steps(shop: &Shop, origin: Option<&Path>, report: &mut Report) -> Option<PathBuf> {
    let ready = report.make(JS, "environment", NEED_PACKAGE, || match prerequisites(shop) {
        Ok(()) => Verdict::check(packages(shop, &folder(shop))),
        Err(Error(why)) => Verdict::NotRun(why),
    });
    let built = report.make(JS, "build", NEED_PACKAGE, || {
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
                let vitest = tool(shop, "vitest").arg("run").env("TIDEGATE_ORIGIN", program).limit(HANGS);
                let vitest = redis::with_server(shop, vitest.env("NO_COLOR", "1"));
                Verdict::tests(vitest.stream(), Counts::from_vitest)
            }
            None => Verdict::NotRun("there is no origin".into()),
        })
    });
    report.step(JS, "10,000 random traces, the same bytes as core", || {
        with_build(&|| traces::javascript(shop, &folder(shop), traces::SOME))
    });
    report.step(JS, "10,000 random traces through the small engine, the same bytes as core", || {
        with_build(&|| traces::small(shop, &folder(shop), traces::SOME))
    });
    report.step(JS, "ahead of cockatiel's wrap", || {
        with_build(&|| Verdict::tests(node(shop, "scripts/ahead.mjs").stream(), Counts::from_cargo))
    });
    report.step(JS, "the tarball in a new folder", || {
        with_build(&|| Verdict::tests(node(shop, "scripts/package.mjs").stream(), Counts::from_cargo))
    });
    registry::npm(shop, built, report);
    install::npm(shop, built, report);
    outside(shop, origin, built, report);
    built.then(|| folder(shop))
}

/// Checks the package from outside: package linters, other runtimes, a browser. Their dependencies are large and
/// third-party, so they have a separate environment; without it these steps do not run.
fn outside(shop: &Shop, origin: Option<&Path>, built: bool, report: &mut Report) {
    let ready = report.make(JS, "environment of what looks at it from outside", OUTSIDE, || {
        if !built {
            return Verdict::NotRun("it is not built".into());
        }
        match may_fetch(shop, &e2e(shop)).and_then(|()| packages(shop, &e2e(shop))) {
            Ok(()) => Verdict::Passed(Counts::default()),
            Err(Error(why)) if is_of_network(&why) => Verdict::NotRun(why),
            // A lock file that does not match is our mistake, and would hide three steps.
            wrong => Verdict::check(wrong),
        }
    });
    let mut look = |title: &'static str, script: &str, wants: &dyn Fn() -> Result| {
        report.step(JS, title, || {
            let Some(program) = origin.filter(|_| ready) else {
                return Verdict::NotRun("there is no environment, or no origin".into());
            };
            match wants() {
                Ok(()) => {
                    let look = node(shop, script).env("TIDEGATE_ORIGIN", program);
                    Verdict::tests(look.stream(), Counts::from_cargo)
                }
                Err(Error(why)) => Verdict::NotRun(why),
            }
        });
    };
    look("publint, are the types wrong", "e2e/tools.mjs", &|| Ok(()));
    look("Node, Deno, Bun, workerd", "e2e/runtimes.mjs", &|| Ok(()));
    look("Chromium", "e2e/browser.mjs", &|| chromium(shop));
}

/// Versions of Node, beside the one on this machine, that the package's tests run on in `cargo xtask deep`.
const NODES: [&str; 2] = ["22", "24"];

/// Runs the package's tests, and its tarball in a new folder, on other versions of Node, which the registry has.
pub fn other_nodes(shop: &Shop, report: &mut Report) {
    for version in NODES {
        report.step(JS, &format!("tests, and the tarball in a new folder, on Node {version}"), || {
            if !is_built(shop) {
                return Verdict::NotRun(
                    "the package is not built: cargo xtask test --only javascript".into(),
                );
            }
            let ready = fetched(shop, version)
                .and_then(|program| Ok((program, crate::demo::build_origin(shop)?)))
                .and_then(|found| environment(shop).map(|()| found));
            let (program, origin) = match ready {
                Ok(ready) => ready,
                Err(Error(why)) => return Verdict::NotRun(why),
            };
            let paths = program.parent().map(Path::to_path_buf).into_iter();
            let path =
                env::join_paths(paths.chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())))
                    .unwrap_or_default();
            let vitest = Cmd::new(&program).arg("node_modules/vitest/vitest.mjs").arg("run");
            let vitest = vitest.cwd(&folder(shop)).limit(HANGS);
            let vitest = vitest.env("PATH", &path).env("TIDEGATE_ORIGIN", origin).env("NO_COLOR", "1");
            match Verdict::tests(redis::with_server(shop, vitest).stream(), Counts::from_vitest) {
                Verdict::Passed(counts) => {
                    let tarball = Cmd::new(&program).arg("scripts/package.mjs").cwd(&folder(shop));
                    match Verdict::check(tarball.env("PATH", &path).stream().and_then(Output::ok)) {
                        Verdict::Passed(_) => Verdict::Passed(counts),
                        other => other,
                    }
                }
                other => other,
            }
        });
    }
}

/// The program of the newest Node of a version, from npm's package `node`.
fn fetched(shop: &Shop, version: &str) -> Result<PathBuf> {
    let folder = shop.scratch(&format!("node/{version}"))?;
    let program = folder.join("node_modules/node/bin/node");
    let answers = || {
        let said = Cmd::new(&program).arg("--version").capture().and_then(Output::ok);
        said.is_ok_and(|said| said.text.starts_with(&format!("v{version}.")))
    };
    if !answers() {
        if !shop.install {
            return Err(Error(format!("--no-install: Node {version} would have to be fetched")));
        }
        let manifest = folder.join("package.json");
        fs::write(&manifest, "{ \"private\": true }\n").map_err(Error::at("write", &manifest))?;
        let install = Cmd::new("npm").args(["install", "--no-audit", "--no-fund", "--silent"]);
        install.arg(format!("node@{version}")).cwd(&folder).quiet()?;
    }
    if answers() { Ok(program) } else { Err(Error(format!("{} is not Node {version}", program.display()))) }
}

/// `TypeDoc`, installed with a TypeScript of its own: it does not know the version that builds the package.
pub fn typedoc(shop: &Shop) -> Result<PathBuf> {
    wasm::node(shop)?;
    let folder = shop.root.join("xtask/site");
    may_fetch(shop, &folder)?;
    packages(shop, &folder)?;
    Ok(folder.join("node_modules/.bin/typedoc"))
}

/// Runs the script that looks at the documentation site in this folder in a browser.
pub fn site(shop: &Shop, site: &Path) -> Verdict {
    let ready = wasm::node(shop)
        .and_then(|()| chromium(shop))
        .and_then(|()| may_fetch(shop, &e2e(shop)))
        .and_then(|()| packages(shop, &e2e(shop)));
    match ready {
        Ok(()) => Verdict::tests(node(shop, "e2e/site.mjs").arg(site).stream(), Counts::from_cargo),
        Err(Error(why)) => Verdict::NotRun(why),
    }
}

/// The script that measures the start of a page in a browser.
pub fn page(shop: &Shop) -> Result<Cmd> {
    chromium(shop).map(|()| node(shop, "e2e/start.mjs"))
}

/// Makes sure that a browser is installed; installs Debian's if that is allowed. `CHROMIUM` names another one.
fn chromium(shop: &Shop) -> Result {
    let there = || match env::var_os("CHROMIUM") {
        Some(program) => Path::new(&program).is_file(),
        None => Path::new("/usr/bin/chromium").is_file(),
    };
    if there() || (shop.install && install_debian("chromium") && there()) {
        return Ok(());
    }
    Err(Error(
        "there is no Chromium (Debian, as root: apt-get install chromium; or CHROMIUM names one)".into(),
    ))
}

fn folder(shop: &Shop) -> PathBuf {
    shop.root.join("bindings-wasm")
}

fn e2e(shop: &Shop) -> PathBuf {
    folder(shop).join("e2e")
}

/// Runs one of our scripts on Node.
fn node(shop: &Shop, script: &str) -> Cmd {
    Cmd::new("node").arg(script).cwd(&folder(shop)).env("CARGO_TARGET_DIR", &shop.target)
}

/// A program that npm has installed.
fn tool(shop: &Shop, name: &str) -> Cmd {
    Cmd::new(folder(shop).join("node_modules/.bin").join(name)).cwd(&folder(shop))
}

/// Prepares the environment of the steps. Fetches missing packages if that is allowed.
pub fn environment(shop: &Shop) -> Result {
    prerequisites(shop)?;
    packages(shop, &folder(shop))?;
    packages(shop, &e2e(shop))
}

/// The folder of the npm package, built.
pub fn built(shop: &Shop) -> Result<PathBuf> {
    environment(shop)?;
    let folder = folder(shop);
    let build = Cmd::new("npm").args(["run", "--silent", "build"]).cwd(&folder);
    build.env("CARGO_TARGET_DIR", &shop.target).quiet()?;
    Ok(folder)
}

/// Whether the npm package has been built, by this or an earlier run.
pub fn is_built(shop: &Shop) -> bool {
    folder(shop).join("dist/esm/node.js").is_file()
}

/// Fetches the packages that the JavaScript benches compare with.
pub fn peers(shop: &Shop) -> Result {
    packages(shop, &shop.root.join("bench/js"))
}

/// Node, the compiler's target, and the source of the standard library, which is built with the module.
fn prerequisites(shop: &Shop) -> Result {
    wasm::node(shop)?;
    wasm::target(shop, wasm::TARGET)?;
    wasm::component(shop, "rust-src")?;
    may_fetch(shop, &folder(shop))
}

/// Checks that a folder's packages are installed or may be fetched.
fn may_fetch(shop: &Shop, folder: &Path) -> Result {
    if !shop.install && !is_complete(folder)? {
        return Err(Error("--no-install: npm ci would have to fetch Node's packages".into()));
    }
    Ok(())
}

/// npm removes everything before it begins. So a copy of the lock file, written last, marks a complete installation.
fn stamp(folder: &Path) -> (PathBuf, PathBuf) {
    (folder.join("package-lock.json"), folder.join("node_modules/.tidegate-complete"))
}

fn is_complete(folder: &Path) -> Result<bool> {
    let (lock, stamp) = stamp(folder);
    let wanted = fs::read_to_string(&lock).map_err(Error::at("read", &lock))?;
    Ok(fs::read_to_string(&stamp).is_ok_and(|complete| complete == wanted))
}

/// Whether packages are missing because the registry could not be reached or because nothing may be fetched.
fn is_of_network(why: &str) -> bool {
    [
        "--no-install",
        "(EAI_AGAIN)",
        "(ENOTFOUND)",
        "(ECONNREFUSED)",
        "(ECONNRESET)",
        "(ETIMEDOUT)",
        "(ENETUNREACH)",
    ]
    .iter()
    .any(|sign| why.contains(sign))
}

/// Installs Node's packages as the lock file of a folder lists them.
fn packages(shop: &Shop, folder: &Path) -> Result {
    if is_complete(folder)? {
        return Ok(());
    }
    may_fetch(shop, folder)?;
    let output = Cmd::new("npm").args(["ci", "--no-audit", "--no-fund"]).cwd(folder).capture()?;
    if !output.status.success() {
        println!("{}", output.text.trim_end());
        let Error(failed) = output.error();
        let code = output.text.lines().find_map(|line| line.strip_prefix("npm error code "));
        return Err(Error(format!("{failed} ({})", code.unwrap_or("no code"))));
    }
    let (lock, stamp) = stamp(folder);
    fs::copy(&lock, &stamp).map(drop).map_err(Error::at("write", &stamp))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_does_not_fit_is_no_lack_of_a_network() {
        assert!(is_of_network("`npm ci` ended with exit code 1 (EAI_AGAIN)"));
        assert!(is_of_network("--no-install: npm ci would have to fetch Node's packages"));
        assert!(!is_of_network("`npm ci` ended with exit code 1 (EUSAGE)"));
        assert!(!is_of_network("`npm ci` ended with exit code 1 (no code)"));
    }
}
