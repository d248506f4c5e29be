//! The rules of the registries: what each would refuse, found before a release. Nothing is uploaded.

use crate::cargo;
use crate::install;
use crate::jvm;
use crate::packages::version;
use crate::report::{Report, Verdict};
use crate::run::{Cmd, Error, Output, Result};
use crate::setup::{Shop, Venv};
use std::fs;
use std::path::Path;

/// The group of the steps.
const REGISTRY: &str = "Registries";
/// The modules that Central gets, and whether they have jars.
const MODULES: [(&str, bool); 3] =
    [("tidegate-parent", false), ("tidegate-native", true), ("tidegate", true)];
/// The elements of a POM that Central asks for. A module inherits all but the first four.
const ELEMENTS: [&str; 9] = [
    "<artifactId>",
    "<name>",
    "<description>",
    "<url>",
    "<groupId>",
    "<version>",
    "<licenses>",
    "<developers>",
    "<scm>",
];

/// `PyPI`: the wheel's metadata and its page.
pub fn pypi(venv: Option<&Venv>, wheel: Option<&Path>, report: &mut Report) {
    report.step(REGISTRY, "PyPI: twine check --strict", || match (venv, wheel) {
        (Some(venv), Some(wheel)) => {
            let check = venv.python().args(["-m", "twine", "check", "--strict"]).arg(wheel);
            Verdict::check(check.stream().and_then(Output::ok))
        }
        _ => Verdict::NotRun("there is no wheel".into()),
    });
}

/// crates.io: both crates together, because one needs the other, which is not published. A step of `install` compiles
/// them as packed.
pub fn crates(shop: &Shop, report: &mut Report) {
    report.step(REGISTRY, "crates.io: cargo publish --dry-run", || {
        if !shop.install {
            return Verdict::NotRun("--no-install: cargo would ask crates.io for its index".into());
        }
        let publish = ["publish", "-p", "tidegate", "-p", "tidegate-tokio", "--dry-run", "--no-verify"];
        Verdict::check(cargo(shop).args(publish).arg("--allow-dirty").quiet())
    });
}

/// npm: what would be uploaded.
pub fn npm(shop: &Shop, built: bool, report: &mut Report) {
    report.step(REGISTRY, "npm: npm publish --dry-run", || {
        if !built {
            return Verdict::NotRun("the package is not built".into());
        }
        if !shop.install {
            return Verdict::NotRun("--no-install: npm would ask the registry".into());
        }
        let publish = ["publish", "--dry-run", "--access", "public"];
        Verdict::check(Cmd::new("npm").args(publish).cwd(&shop.root.join("bindings-wasm")).quiet())
    });
}

/// Maven Central: jars, checksums and POMs, in the repository that `install` has made.
pub fn central(shop: &Shop, built: bool, report: &mut Report) {
    report.step(REGISTRY, "Maven Central: the rules for a bundle", || {
        if !built {
            return Verdict::NotRun("there is no native library".into());
        }
        if let Some(missing) = jvm::missing() {
            return Verdict::NotRun(format!("{missing} is not on this machine"));
        }
        let checked = install::repository(shop)
            .and_then(|repository| bundle(&repository.join("dev/tidegate"), &version(&shop.root)?));
        Verdict::check(checked)
    });
}

/// Checks a folder of modules by the rules of <https://central.sonatype.org/publish/requirements/>. Signatures are the
/// release's, which has the key.
fn bundle(folder: &Path, version: &str) -> Result {
    let mut wrong = Vec::new();
    for (module, jars) in MODULES {
        let place = folder.join(module).join(version);
        let mut names = vec![".pom"];
        if jars {
            names.extend([".jar", "-sources.jar", "-javadoc.jar"]);
        }
        for name in names {
            let file = format!("{module}-{version}{name}");
            if fs::metadata(place.join(&file)).map_or(0, |about| about.len()) == 0 {
                wrong.push(format!("{file} is missing"));
            }
            for sum in ["md5", "sha1"] {
                if !place.join(format!("{file}.{sum}")).is_file() {
                    wrong.push(format!("{file}.{sum} is missing"));
                }
            }
        }
        let pom = place.join(format!("{module}-{version}.pom"));
        let text = fs::read_to_string(&pom).map_err(Error::at("read", &pom))?;
        let inherits = text.contains("<parent>");
        for element in &ELEMENTS[..if inherits { 4 } else { ELEMENTS.len() }] {
            if !text.contains(element) {
                wrong.push(format!("{module}-{version}.pom has no {element}"));
            }
        }
        if text.contains("-SNAPSHOT") {
            wrong.push(format!("{module}-{version}.pom names a snapshot"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error(format!("Central would refuse: {}", wrong.join("; ")))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_bundle_passes_and_each_gap_is_named() {
        let folder = std::env::temp_dir().join(format!("tidegate-bundle-{}", std::process::id()));
        for (module, jars) in MODULES {
            let place = folder.join(module).join("1.0.0");
            fs::create_dir_all(&place).expect("it can be made");
            let endings: &[&str] =
                if jars { &[".pom", ".jar", "-sources.jar", "-javadoc.jar"] } else { &[".pom"] };
            for ending in endings {
                for sum in ["", ".md5", ".sha1"] {
                    let file = place.join(format!("{module}-1.0.0{ending}{sum}"));
                    fs::write(file, ELEMENTS.join("\n")).expect("it can be written");
                }
            }
        }
        assert_eq!(bundle(&folder, "1.0.0"), Ok(()));
        let native = folder.join("tidegate-native/1.0.0");
        fs::remove_file(native.join("tidegate-native-1.0.0-sources.jar")).expect("it is there");
        fs::write(native.join("tidegate-native-1.0.0.pom"), "<parent> <artifactId> <name> <url>")
            .expect("a file");
        let Err(Error(why)) = bundle(&folder, "1.0.0") else { panic!("it has gaps") };
        assert!(why.contains("tidegate-native-1.0.0-sources.jar is missing"), "{why}");
        assert!(why.contains("tidegate-native-1.0.0.pom has no <description>"), "{why}");
        fs::remove_dir_all(folder).expect("it is ours");
    }
}
