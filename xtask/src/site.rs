//! The documentation site: `cargo xtask site` builds it from `docs/` and `mkdocs.yml` and checks it.

use crate::report::{Report, Verdict};
use crate::run::{Cmd, Error, Result};
use crate::setup::{Shop, Venv, environment};
use crate::{api, js};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The generator and its packages.
pub const REQUIREMENTS: &str = "xtask/site/requirements.txt";
const SITE: &str = "Site";
/// Prefixes of the names of steps that need the generator.
const NEED_GENERATOR: &[&str] = &["site: "];

/// `cargo xtask site [--api]`: builds the site into `target/site`, and checks its links and sizes. With `--api` the documentation of the
/// languages' APIs is below it, as far as it can be generated here.
pub fn site(shop: &Shop, with_api: bool) -> Result<ExitCode> {
    let venv = environment(shop, REQUIREMENTS)?;
    let mut report = Report::default();
    if with_api {
        full(shop, &venv, &mut report)?;
    } else {
        report.step(SITE, "build, strictly", || Verdict::check(build(shop, &venv, None)));
        report.step(SITE, "links, and bytes of a first visit", || Verdict::check(check(shop, &venv)));
    }
    println!("the site: {}", folder(shop).join("index.html").display());
    Ok(report.close())
}

/// The site with the documentation of the languages' APIs.
fn full(shop: &Shop, venv: &Venv, report: &mut Report) -> Result {
    let made = api::generate(shop, venv, report)?;
    report.step(SITE, "build with the languages' APIs", || {
        Verdict::check(build(shop, venv, Some(&made)).and_then(|()| api::install(&made, &folder(shop))))
    });
    report.step(SITE, "links, and bytes of a first visit", || Verdict::check(check(shop, venv)));
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
        Some(venv) => Verdict::check(build(shop, venv, None)),
        None => Verdict::NotRun("there is no generator".into()),
    });
    report.step(SITE, "links, and bytes of a first visit", || match &venv {
        Some(venv) if built => Verdict::check(check(shop, venv)),
        _ => Verdict::NotRun("the site is not built".into()),
    });
}

/// The site's steps of `cargo xtask deep`.
pub fn deep(shop: &Shop, report: &mut Report) {
    let ready = environment(shop, REQUIREMENTS).and_then(|venv| full(shop, &venv, report));
    report.step(SITE, "in Chromium: two widths, both themes, the search", || match &ready {
        Ok(()) => js::site(shop, &folder(shop)),
        Err(Error(why)) => Verdict::NotRun(why.clone()),
    });
}

/// Where the site is built.
fn folder(shop: &Shop) -> PathBuf {
    shop.target.join("site")
}

/// Runs the generator; its warnings are errors, unless `api` is given. `api` is the folder of [`api::generate`].
fn build(shop: &Shop, venv: &Venv, api: Option<&Path>) -> Result {
    // It advertises its successor otherwise.
    let mkdocs = Cmd::new(venv.bin("mkdocs")).env("NO_MKDOCS_2_WARNING", "1").cwd(&shop.root);
    let mkdocs = match api {
        Some(folder) => mkdocs.env("TIDEGATE_SITE_API", folder).env("TIDEGATE_SITE_PYTHON", "true"),
        None => mkdocs,
    };
    // Docstrings of the API show lists in examples, which look like references; the checks of links follow in any case.
    let strict = if api.is_some() { "--no-strict" } else { "--strict" };
    mkdocs.args(["build", strict, "--site-dir"]).arg(folder(shop)).quiet().map(drop)
}

/// Runs the checks of the built site.
fn check(shop: &Shop, venv: &Venv) -> Result {
    venv.script(&shop.root.join("xtask/site/check.py")).arg(folder(shop)).stream()?.ok().map(drop)
}
