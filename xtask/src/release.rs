//! `cargo xtask release`: the rehearsal of a release in a temporary clone, and what the release workflow asks for.
//! Nothing is uploaded, and the repository is not changed.

use crate::packages::{address, bump, read, version};
use crate::report::{Report, Verdict};
use crate::run::{Cmd, Error, Result};
use crate::setup::{Shop, python_environment};
use crate::{cargo, install, js, jvm, natives, surface, wheel};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const RELEASE: &str = "Release";
const CHANGES: &str = "CHANGELOG.md";
/// Swift's manifest, which users get.
const MANIFEST: &str = "Package.swift";
const UNRELEASED: &str = "## [Unreleased]\n";
/// What uniffi generates, which a tag of Swift's has and the main branch has not.
const GENERATED: [&str; 3] = [
    "bindings-uniffi/swift/Sources/Tidegate/Views.swift",
    "bindings-uniffi/swift/Sources/TidegateNative/TidegateNative.swift",
    "bindings-uniffi/swift/Sources/TidegateNativeFFI/TidegateNativeFFI.h",
];
const NEXT: &str = "\nNext, by a maintainer (RELEASING.md):
  1. `cargo xtask test`, `cargo xtask deep`, and `cargo xtask dist` on the commit to release.
  2. Bump and date as the clone's first commit does; merge that.
  3. Push the tag v<version>. The workflow publishes to PyPI, npm and crates.io.
  4. Sign and upload the Maven bundle; upload the XCFramework; push Swift's tag, which is <version>.
  5. Install each package from its registry in an empty folder, as `docs/install.md` says.";

/// Whether a version has the form `1.2.3`.
fn is_version(text: &str) -> bool {
    let parts: Vec<_> = text.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u32>().is_ok_and(|it| it.to_string() == **part))
}

/// Checks that a tag is the version of the packages, and that the changelog has its section.
pub fn check(shop: &Shop, tag: &str) -> Result {
    let ours = version(&shop.root)?;
    if tag != format!("v{ours}") {
        return Err(Error(format!("the tag must be v{ours}, the version of the packages, not {tag}")));
    }
    if !read(&shop.root, CHANGES)?.contains(&format!("\n## [{ours}] - ")) {
        return Err(Error(format!("{CHANGES} has no section `## [{ours}] - <date>`")));
    }
    println!("{tag}: all packages and the changelog have this version");
    Ok(())
}

/// Builds what the workflow uploads to a registry.
pub fn build(shop: &Shop, what: &str) -> Result {
    match what {
        "npm" => {
            for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
                let to = shop.root.join("bindings-wasm").join(licence);
                fs::copy(shop.root.join(licence), &to).map_err(Error::at("copy to", &to))?;
            }
            js::built(shop).map(drop)
        }
        other => {
            Err(Error(format!("release --build knows npm; `cargo xtask dist` builds wheels, not `{other}`")))
        }
    }
}

/// Rehearses the release of a version.
pub fn rehearse(shop: &Shop, to: &str) -> Result<ExitCode> {
    if !is_version(to) {
        return Err(Error(format!("release --dry-run {to}: a version has the form 1.2.3")));
    }
    let mut report = Report::default();
    let clone = steps(shop, to, &mut report)?;
    println!(
        "{NEXT}\n\nThe packages: {}\nThe clone: {}",
        folder(shop)?.join("out").display(),
        clone.display()
    );
    Ok(report.close())
}

fn folder(shop: &Shop) -> Result<PathBuf> {
    shop.scratch("release")
}

/// The steps of a rehearsal. Returns the clone, which has Swift's tag if that step passed.
pub fn steps(shop: &Shop, to: &str, report: &mut Report) -> Result<PathBuf> {
    let (out, clone) = (emptied(&folder(shop)?.join("out"))?, folder(shop)?.join("clone"));
    let inside = Shop { root: clone.clone(), target: shop.target.clone(), install: shop.install };
    let ready = report.step(RELEASE, "a clone with the version and the date", || {
        Verdict::check(prepared(shop, &clone, to))
    });
    if !ready {
        return Ok(clone);
    }
    report.step(RELEASE, "crates", || Verdict::check(crates(&inside, to, &out)));
    report.step(RELEASE, "the wheel of this machine", || {
        let wheel = python_environment(&inside).and_then(|venv| wheel::build(&inside, &venv));
        Verdict::check(wheel.and_then(|wheel| keep(&wheel, &out)))
    });
    report.step(RELEASE, "the npm package", || Verdict::check(npm(&inside, &out)));
    report.step(RELEASE, "jars and POMs", || match jvm::missing() {
        Some(missing) => Verdict::NotRun(format!("{missing} is not on this machine")),
        None => Verdict::check(jars(&inside, &out)),
    });
    report
        .step(RELEASE, "the public interfaces, in the commit", || Verdict::check(interfaces(shop, &inside)));
    report.step(RELEASE, "Swift's commit beside the branch", || Verdict::check(swift(&inside, to, &out)));
    report.step(RELEASE, "CycloneDX lists of what the packages are built from", || {
        Verdict::check(sboms(&inside, &out))
    });
    report.step(RELEASE, "checksums", || Verdict::check(checksums(&out)));
    forget(&shop.target)?;
    Ok(clone)
}

/// Makes cargo forget what it has built of the clone. The clone shares the folder for builds, and cargo would compare its files, not
/// those of the repository, with what it has built, so that later builds of the repository would be old ones.
fn forget(target: &Path) -> Result {
    let folders = fs::read_dir(target).map_err(Error::at("read", target))?.flatten();
    let deeper = folders.flat_map(|folder| {
        let inside = fs::read_dir(folder.path()).into_iter().flatten().flatten().map(|inside| inside.path());
        inside.chain([folder.path()]).collect::<Vec<_>>()
    });
    for known in deeper.flat_map(|folder| fs::read_dir(folder.join(".fingerprint"))).flatten().flatten() {
        if known.file_name().to_string_lossy().starts_with("tidegate") {
            fs::remove_dir_all(known.path()).map_err(Error::at("remove", &known.path()))?;
        }
    }
    Ok(())
}

/// Clones the repository as it is committed, writes the version and the date, and commits.
fn prepared(shop: &Shop, clone: &Path, to: &str) -> Result {
    drop(fs::remove_dir_all(clone));
    Cmd::new("git").args(["clone", "--quiet", "--no-hardlinks"]).arg(&shop.root).arg(clone).quiet()?;
    bump(clone, to)?;
    let today = Cmd::new("date").args(["-u", "+%Y-%m-%d"]).capture()?.ok()?.text;
    let text = read(clone, CHANGES)?;
    let path = clone.join(CHANGES);
    fs::write(&path, dated(&text, to, today.trim())?).map_err(Error::at("write", &path))?;
    Cmd::new("cargo").args(["update", "--quiet", "--workspace", "--offline"]).cwd(clone).quiet()?;
    git(clone, &["commit", "--quiet", "--all", "-m", &format!("release: {to}")])
}

/// The changelog with a section for the version, below an empty one for the next.
fn dated(text: &str, to: &str, today: &str) -> Result<String> {
    if text.matches(UNRELEASED).count() != 1 {
        return Err(Error(format!("{CHANGES} must have one line `{}`", UNRELEASED.trim())));
    }
    let dated = text.replace(UNRELEASED, &format!("{UNRELEASED}\n## [{to}] - {today}\n"));
    Ok(dated.replace("\nThis will be 0.1.0, the first release.\n", ""))
}

fn git(clone: &Path, args: &[&str]) -> Result {
    let identity = ["-c", "user.name=Tidegate rehearsal", "-c", "user.email=rehearsal@localhost"];
    Cmd::new("git").args(identity).args(args).cwd(clone).quiet().map(drop)
}

fn crates(shop: &Shop, to: &str, out: &Path) -> Result {
    let pack = ["package", "--quiet", "--no-verify", "-p", "tidegate", "-p", "tidegate-tokio"];
    cargo(shop).args(pack).quiet()?;
    for name in ["tidegate", "tidegate-tokio"] {
        keep(&shop.target.join(format!("package/{name}-{to}.crate")), out)?;
    }
    Ok(())
}

fn npm(shop: &Shop, out: &Path) -> Result {
    build(shop, "npm")?;
    let package = shop.root.join("bindings-wasm");
    Cmd::new("npm").args(["pack", "--silent", "--pack-destination"]).arg(out).cwd(&package).quiet()?;
    // Silent, because a warning would be part of the list.
    let list = ["sbom", "--silent", "--sbom-format", "cyclonedx", "--omit", "dev", "--omit", "peer"];
    let listed = Cmd::new("npm").args(list).cwd(&package).capture()?.ok()?.text;
    let to = out.join("npm.cdx.json");
    fs::write(&to, listed).map_err(Error::at("write", &to))
}

/// The jars, with the native libraries that `cargo xtask dist natives` has built.
fn jars(shop: &Shop, out: &Path) -> Result {
    jvm::library(shop, "release")?;
    let repository = install::deployed(shop, jvm::mvn_of_release(shop)?)?;
    match natives::built(shop)?.as_slice() {
        [] => println!(
            "   with the native library of this machine alone: `cargo xtask dist natives` builds the others"
        ),
        platforms => println!("   with native libraries for {}", platforms.join(", ")),
    }
    let name = out.join("maven-bundle.tar.gz");
    Cmd::new("tar").arg("-czf").arg(name).arg("-C").arg(repository).arg(".").quiet().map(drop)
}

/// Commits the public interfaces, with which `cargo xtask api` compares those of the next release. They are those of the repository, where
/// the tests have built what they are read from.
fn interfaces(shop: &Shop, clone: &Shop) -> Result {
    let missing = surface::write_all(shop, &clone.root.join("api"))?;
    if !missing.is_empty() {
        println!("   without {}: their packages are not built (cargo xtask test)", missing.join(", "));
    }
    git(&clone.root, &["add", "api"])?;
    git(&clone.root, &["commit", "--quiet", "--amend", "--no-edit"])
}

/// Generates Swift's sources, names the framework if `cargo xtask dist framework` has made it, and makes the commit and the tag.
fn swift(shop: &Shop, to: &str, out: &Path) -> Result {
    cargo(shop).args(["build", "--quiet", "-p", "tidegate-uniffi"]).quiet()?;
    let library = shop.target.join("debug/libtidegate_uniffi.a");
    cargo(shop).args(["run", "--quiet", "-p", "tidegate-bindgen", "--"]).arg(library).quiet()?;
    match natives::archive(shop) {
        Some((archive, sum)) => {
            keep(&archive, out)?;
            let path = shop.root.join(MANIFEST);
            let named =
                framework(&read(&shop.root, MANIFEST)?, &address(&shop.root, "repository")?, to, &sum)?;
            fs::write(&path, named).map_err(Error::at("write", &path))?;
        }
        None => println!("   no framework for Apple's systems: `cargo xtask dist framework` makes it"),
    }
    tagged(&shop.root, to)
}

/// The manifest with the address that the framework gets when it is uploaded to the release, and its checksum.
fn framework(manifest: &str, repository: &str, to: &str, sum: &str) -> Result<String> {
    let empty = "let framework = (url: \"\", checksum: \"\")";
    if manifest.matches(empty).count() != 1 {
        return Err(Error(format!("{MANIFEST} must have one line `{empty}`")));
    }
    let url = format!("{repository}/releases/download/v{to}/Tidegate.xcframework.zip");
    Ok(manifest.replace(empty, &format!("let framework = (url: \"{url}\", checksum: \"{sum}\")")))
}

/// The repository as a Swift package's users get it: a clone with the tag of its version, on a commit with the sources that this
/// working tree has generated. Changes of tracked files are in it too.
pub fn swift_package(shop: &Shop, clone: &Path) -> Result<String> {
    let version = version(&shop.root)?;
    drop(fs::remove_dir_all(clone));
    Cmd::new("git").args(["clone", "--quiet", "--no-hardlinks"]).arg(&shop.root).arg(clone).quiet()?;
    let apply = "git -C \"$0\" diff --binary HEAD | git -C \"$1\" apply --index --allow-empty";
    Cmd::new("sh").args(["-c", apply]).arg(&shop.root).arg(clone).quiet()?;
    for file in GENERATED {
        let (from, to) = (shop.root.join(file), clone.join(file));
        let folder = to.parent().map_or(Ok(()), fs::create_dir_all);
        folder.and_then(|()| fs::copy(&from, &to)).map_err(Error::at("copy", &from))?;
    }
    // The version may have been released before.
    drop(Cmd::new("git").args(["tag", "--delete", &version]).cwd(clone).capture());
    tagged(clone, &version)?;
    Ok(version)
}

/// Commits the generated sources on a branch of their own, and tags it as `SwiftPM` wants it: without a `v`.
fn tagged(clone: &Path, to: &str) -> Result {
    git(clone, &["checkout", "--quiet", "-b", &format!("swift-{to}")])?;
    git(clone, &[&["add", "--force", MANIFEST], &GENERATED[..]].concat())?;
    git(clone, &["commit", "--quiet", "-m", &format!("swift: generated sources of {to}")])?;
    git(clone, &["tag", to])?;
    git(clone, &["checkout", "--quiet", "-"])
}

/// Python's list is in the wheel, and npm's is made with the package.
fn sboms(shop: &Shop, out: &Path) -> Result {
    let venv = python_environment(shop)?;
    let from = shop.scratch("release")?.join("metadata.json");
    let metadata = "cargo metadata --format-version 1 --locked --all-features > \"$0\"";
    Cmd::new("sh").args(["-c", metadata]).arg(&from).cwd(&shop.root).quiet()?;
    for name in ["tidegate", "tidegate-tokio", "tidegate-python", "tidegate-uniffi"] {
        let list = venv.script(&shop.root.join("xtask/release/sbom.py")).arg(name).arg(&from);
        list.arg(out.join(format!("{name}.cdx.json"))).quiet()?;
    }
    Ok(())
}

fn checksums(out: &Path) -> Result {
    let mut names: Vec<_> =
        fs::read_dir(out).map_err(Error::at("read", out))?.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    let sums = Cmd::new("sha256sum").args(names).cwd(out).capture()?.ok()?.text;
    let to = out.join("SHA256SUMS");
    fs::write(&to, &sums).map_err(Error::at("write", &to))?;
    print!("{sums}");
    Ok(())
}

fn keep(file: &Path, out: &Path) -> Result {
    let to = out.join(file.file_name().unwrap_or_default());
    fs::copy(file, &to).map(drop).map_err(Error::at("copy", file))
}

fn emptied(folder: &Path) -> Result<PathBuf> {
    drop(fs::remove_dir_all(folder));
    fs::create_dir_all(folder).map_err(Error::at("make", folder))?;
    Ok(folder.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changelog_gets_a_dated_section_and_keeps_an_empty_one() {
        let text = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- x\n";
        let expected = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2027-01-02\n\n### Added\n\n- x\n";
        assert_eq!(dated(text, "1.2.0", "2027-01-02").as_deref(), Ok(expected));
        assert!(dated("# Changelog\n", "1.2.0", "2027-01-02").is_err());
        let shop = Shop::open(false).expect("we are in the repository");
        let ours = read(&shop.root, CHANGES).expect("it is there");
        assert!(
            dated(&ours, "9.9.9", "2027-01-02")
                .is_ok_and(|text| text.contains("\n## [9.9.9] - 2027-01-02\n"))
        );
    }

    #[test]
    fn a_release_names_the_framework_in_swifts_manifest() {
        let shop = Shop::open(false).expect("we are in the repository");
        let ours = read(&shop.root, MANIFEST).expect("it is there");
        let named = framework(&ours, "https://a.example/r", "1.2.0", "abc").expect("it has the line");
        let url = "https://a.example/r/releases/download/v1.2.0/Tidegate.xcframework.zip";
        assert!(named.contains(&format!("(url: \"{url}\", checksum: \"abc\")")), "{named}");
        assert!(framework(&named, "https://a.example/r", "1.3.0", "def").is_err());
    }

    #[test]
    fn what_was_built_of_the_clone_is_built_again() {
        let shop = Shop::open(false).expect("we are in the repository");
        let target = shop.scratch("release/forget").and_then(|folder| emptied(&folder)).expect("a folder");
        let known =
            ["wheel", "wasm/wasm32-unknown-unknown"].map(|profile| target.join(profile).join(".fingerprint"));
        for name in known.iter().flat_map(|folder| [folder.join("tidegate-12"), folder.join("toml-34")]) {
            fs::create_dir_all(name).expect("it can be made");
        }
        forget(&target).expect("it can be removed");
        for folder in known {
            assert!(!folder.join("tidegate-12").exists() && folder.join("toml-34").exists());
        }
    }

    #[test]
    fn a_version_has_three_numbers() {
        assert!(is_version("0.1.0") && is_version("10.0.12"));
        assert!(
            ["v0.1.0", "1.0", "1.0.0-rc.1", "01.0.0", "1.0.0.0", ""].iter().all(|text| !is_version(text))
        );
    }

    #[test]
    fn a_tag_of_another_version_is_refused() {
        let shop = Shop::open(false).expect("we are in the repository");
        assert!(check(&shop, "v99.0.0").is_err_and(|error| error.0.contains("not v99.0.0")));
    }

    #[test]
    fn the_generated_files_are_those_that_git_ignores() {
        let shop = Shop::open(false).expect("we are in the repository");
        let ignored = read(&shop.root, ".gitignore").expect("it is there");
        for file in GENERATED {
            assert!(ignored.contains(&format!("\n/{file}\n")), "{file}");
        }
    }
}
