//! The documentation site: `cargo xtask site` builds it from `docs/` and `mkdocs.yml` and checks it.

use crate::js;
use crate::report::{Report, Verdict};
use crate::run::{Cmd, Error, Result, step};
use crate::setup::{Shop, Venv, environment};
use std::path::PathBuf;

/// The generator and its packages.
pub const REQUIREMENTS: &str = "xtask/site/requirements.txt";
const SITE: &str = "Site";
/// Prefixes of the names of steps that need the generator.
const NEED_GENERATOR: &[&str] = &["site: "];

/// `cargo xtask site`: builds the site into `target/site`, and checks its links and sizes.
pub fn site(shop: &Shop) -> Result {
    let venv = environment(shop, REQUIREMENTS)?;
    step("site: build", || build(shop, &venv))?;
    step("site: links and sizes", || check(shop, &venv))?;
    println!("the site: {}", folder(shop).join("index.html").display());
    Ok(())
}

/// The site's steps of `cargo xtask test`.
pub fn steps(shop: &Shop, report: &mut Report) {
    let mut venv = None;
    report.make(SITE, "environment", NEED_GENERATOR, || match environment(shop, REQUIREMENTS) {
        Ok(made) => {
            venv = Some(made);
            Verdict::Passed(crate::report::Counts::default())
        }
        Err(Error(why)) => Verdict::NotRun(why),
    });
    let built = report.make(SITE, "build, strictly", NEED_GENERATOR, || match &venv {
        Some(venv) => Verdict::check(build(shop, venv)),
        None => Verdict::NotRun("there is no generator".into()),
    });
    report.step(SITE, "links, and bytes of a first visit", || match &venv {
        Some(venv) if built => Verdict::check(check(shop, venv)),
        _ => Verdict::NotRun("the site is not built".into()),
    });
}

/// The site's steps of `cargo xtask deep`.
pub fn deep(shop: &Shop, report: &mut Report) {
    let ready = report.step(SITE, "build, strictly", || match environment(shop, REQUIREMENTS) {
        Ok(venv) => Verdict::check(build(shop, &venv)),
        Err(Error(why)) => Verdict::NotRun(why),
    });
    report.step(SITE, "in Chromium: two widths, both themes, the search", || {
        if ready { js::site(shop, &folder(shop)) } else { Verdict::NotRun("the site is not built".into()) }
    });
}

/// Where the site is built.
pub fn folder(shop: &Shop) -> PathBuf {
    shop.target.join("site")
}

/// Runs the generator; its warnings are errors.
pub fn build(shop: &Shop, venv: &Venv) -> Result {
    // It advertises its successor otherwise.
    let mkdocs = Cmd::new(venv.bin("mkdocs")).env("NO_MKDOCS_2_WARNING", "1").cwd(&shop.root);
    mkdocs.args(["build", "--strict", "--site-dir"]).arg(folder(shop)).quiet().map(drop)
}

/// Runs the checks of the built site.
pub fn check(shop: &Shop, venv: &Venv) -> Result {
    venv.script(&shop.root.join("xtask/site/check.py")).arg(folder(shop)).stream()?.ok().map(drop)
}
