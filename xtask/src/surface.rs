//! `cargo xtask api`: the public interface of each package as text, and what has changed since the last release. A release commits
//! these texts (`api/<language>.txt`), so the next one compares with them and builds nothing old.

use crate::api::{ENTRIES, rustdoc};
use crate::report::{Counts, Report, Verdict};
use crate::run::{Cmd, Error, Output, Result};
use crate::setup::{Shop, Venv, environment};
use crate::{js, site, swift};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const SURFACE: &str = "Interfaces";
/// The languages, and a name that each interface must have: a text without it was not read from the package.
const LANGUAGES: [(&str, &str); 5] = [
    ("python", "class tidegate.Policy(Caller)"),
    ("javascript", "main.policy(options?: PolicyOptions<F, K>): Policy<F>"),
    ("kotlin", "public final class dev.tidegate.Policy"),
    ("swift", "Policy: final class Policy"),
    ("rust", "tidegate_tokio::Policy: pub struct Policy"),
];
/// Lines that are printed of each kind of change.
const SHOWN: usize = 40;

/// What differs between two interfaces.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Lines that are no longer there: a name was removed, or its declaration is another.
    pub removed: Vec<String>,
    /// Lines that are new.
    pub added: Vec<String>,
}

impl Changes {
    /// Compares two texts, whose lines have no order.
    pub fn between(old: &str, new: &str) -> Self {
        let lines = |text: &str| -> BTreeSet<String> { text.lines().map(str::to_owned).collect() };
        let (old, new) = (lines(old), lines(new));
        let less = |one: &BTreeSet<String>, other| one.difference(other).cloned().collect();
        Self { removed: less(&old, &new), added: less(&new, &old) }
    }

    fn print(&self) {
        for (mark, lines) in [("-", &self.removed), ("+", &self.added)] {
            for line in lines.iter().take(SHOWN) {
                println!("   {mark} {line}");
            }
            if lines.len() > SHOWN {
                println!("   {mark} and {} more", lines.len() - SHOWN);
            }
        }
    }
}

/// `cargo xtask api [--against <ref>] [languages…]`: writes the interfaces below `target/xtask/api`, and compares each with the one that a
/// release has committed. Fails if a name has gone or has changed.
///
/// # Errors
/// No language has this name, or the environment cannot be made.
pub fn api(shop: &Shop, against: Option<&str>, languages: &[String]) -> Result<ExitCode> {
    let known: Vec<_> = LANGUAGES.iter().map(|language| language.0).collect();
    if let Some(unknown) = languages.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(Error(format!("api has no language `{unknown}`; it has {}", known.join(", "))));
    }
    let mut report = Report::default();
    let venv = environment(shop, site::REQUIREMENTS)?;
    let base = match against {
        Some(named) => Some(named.to_owned()),
        None => last_release(shop)?,
    };
    if base.is_none() {
        println!("no tag v1.2.3 is there, so there is no release to compare with");
    }
    let wanted = |name: &str| languages.is_empty() || languages.iter().any(|it| it == name);
    for (language, _) in LANGUAGES.iter().filter(|language| wanted(language.0)) {
        report.step(SURFACE, language, || compare(shop, &venv, language, base.as_deref()));
    }
    Ok(report.close())
}

/// The steps of `cargo xtask deep`: each interface can be written.
pub fn steps(shop: &Shop, report: &mut Report) {
    let venv = environment(shop, site::REQUIREMENTS);
    for (language, _) in LANGUAGES {
        report.step(SURFACE, language, || match &venv {
            Ok(venv) => compare(shop, venv, language, None),
            Err(Error(why)) => Verdict::NotRun(why.clone()),
        });
    }
}

/// Writes the interfaces that can be had here into a folder. Returns the languages that are missing.
pub fn write_all(shop: &Shop, to: &Path) -> Result<Vec<&'static str>> {
    let venv = environment(shop, site::REQUIREMENTS)?;
    fs::create_dir_all(to).map_err(Error::at("make", to))?;
    let mut missing = Vec::new();
    for (language, _) in LANGUAGES {
        match dump(shop, &venv, language) {
            Ok(Some(file)) => {
                let to = to.join(format!("{language}.txt"));
                fs::copy(&file, &to).map_err(Error::at("write", &to))?;
            }
            Ok(None) => missing.push(language),
            Err(why) => return Err(why),
        }
    }
    Ok(missing)
}

/// The newest tag of a release.
fn last_release(shop: &Shop) -> Result<Option<String>> {
    let tags = Cmd::new("git").args(["tag", "--list", "v*", "--sort=-version:refname"]).cwd(&shop.root);
    Ok(tags.capture()?.ok()?.text.lines().next().map(str::to_owned))
}

fn compare(shop: &Shop, venv: &Venv, language: &str, base: Option<&str>) -> Verdict {
    let new = match dump(shop, venv, language).and_then(|file| file.map(|file| text(&file)).transpose()) {
        Ok(Some(text)) => text,
        Ok(None) => {
            return Verdict::NotRun(format!("its package is not built: cargo xtask test --only {language}"));
        }
        Err(why) => return Verdict::check::<()>(Err(why)),
    };
    println!("   {} names", new.lines().count());
    let Some(base) = base else { return Verdict::Passed(Counts::default()) };
    let old = Cmd::new("git").args(["show", &format!("{base}:api/{language}.txt")]).cwd(&shop.root);
    let Ok(old) = old.capture().and_then(Output::ok) else {
        return Verdict::NotRun(format!("{base} has no api/{language}.txt"));
    };
    let changes = Changes::between(&old.text, &new);
    changes.print();
    if changes.removed.is_empty() {
        return Verdict::Passed(Counts::default());
    }
    let why =
        format!("{} names of {base} have gone or have changed: see docs/support.md", changes.removed.len());
    Verdict::Failed(Counts::default(), why)
}

/// Writes the interface of a language and returns its file, or nothing if its package is not built.
fn dump(shop: &Shop, venv: &Venv, language: &str) -> Result<Option<PathBuf>> {
    let script = |name: &str| venv.script(&shop.root.join("xtask/api").join(name));
    let kotlin = shop.root.join("bindings-uniffi/kotlin/tidegate");
    let printed = match language {
        "python" => script("python.py").arg(shop.root.join("bindings-python/python")),
        "rust" => script("rust.py").arg(rustdoc(shop)?).args(["tidegate", "tidegate_tokio"]),
        "javascript" if js::is_built(shop) => {
            js::typedoc(shop)?;
            let script = shop.root.join("xtask/site/surface.mjs");
            Cmd::new("node").arg(script).arg(shop.root.join("bindings-wasm")).args(ENTRIES)
        }
        "kotlin" if kotlin.join("target/classes/dev/tidegate").is_dir() => {
            script("kotlin.py").arg(kotlin.join("target/classes")).arg(kotlin.join("src/main/kotlin"))
        }
        "swift" => match swift::symbols(shop) {
            Ok(graphs) => script("swift.py").args(graphs),
            Err(_) => return Ok(None),
        },
        _ => return Ok(None),
    };
    let text = printed.quiet()?.text;
    let known = LANGUAGES.iter().find(|it| it.0 == language).map_or("", |it| it.1);
    if !text.lines().any(|line| line.starts_with(known)) {
        return Err(Error(format!("the interface has no `{known}`, so it was not read from the package")));
    }
    let file = shop.scratch("api")?.join(format!("{language}.txt"));
    fs::write(&file, text).map_err(Error::at("write", &file))?;
    Ok(Some(file))
}

fn text(file: &Path) -> Result<String> {
    fs::read_to_string(file).map_err(Error::at("read", file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_declaration_is_removed_and_added() {
        let (old, new) = ("a: int\nb(x)\nc\n", "c\na: int\nb(x, y)\nd\n");
        let changes = Changes::between(old, new);
        assert_eq!(changes.removed, ["b(x)"]);
        assert_eq!(changes.added, ["b(x, y)", "d"]);
        assert_eq!(Changes::between(old, old), Changes::default());
    }

    #[test]
    fn each_interface_has_a_row_in_the_page_for_maintainers() {
        let shop = Shop::open(false).expect("we are in the repository");
        let page = text(&shop.root.join("RELEASING.md")).expect("it is there");
        for (language, _) in LANGUAGES {
            assert!(page.contains(&format!("| `api/{language}.txt` |")), "{language}");
        }
    }
}
