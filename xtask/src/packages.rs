//! What all packages share: one version, one repository, one site. The workspace's `Cargo.toml` names them, and tests
//! compare every other manifest and package page with it.

use crate::run::{Error, Result};
use std::fs;
use std::path::Path;

/// The manifest with the version and the addresses.
const MANIFEST: &str = "Cargo.toml";

/// A place with the version: the file, the text before it and after it, and how often that text occurs.
type Place = (&'static str, &'static str, &'static str, usize);

/// All places that name the version. `Cargo.lock` follows from them.
const PLACES: [Place; 11] = [
    (MANIFEST, "\nversion = \"", "\"\n", 1),
    (MANIFEST, "tidegate = { path = \"core\", version = \"", "\"", 1),
    ("bindings-wasm/package.json", "  \"name\": \"tidegate\",\n  \"version\": \"", "\"", 1),
    ("bindings-wasm/package-lock.json", "  \"name\": \"tidegate\",\n  \"version\": \"", "\"", 1),
    ("bindings-wasm/package-lock.json", "      \"name\": \"tidegate\",\n      \"version\": \"", "\"", 1),
    ("bindings-wasm/jsr.json", "  \"version\": \"", "\"", 1),
    ("bindings-uniffi/kotlin/pom.xml", PARENT, "<", 1),
    ("bindings-uniffi/kotlin/native/pom.xml", CHILD, "<", 1),
    ("bindings-uniffi/kotlin/tidegate/pom.xml", CHILD, "<", 1),
    ("examples/kotlin/pom.xml", CHILD, "<", 1),
    ("bench/jvm/pom.xml", CHILD, "<", 1),
];
const PARENT: &str = "  <artifactId>tidegate-parent</artifactId>\n  <version>";
const CHILD: &str = "    <artifactId>tidegate-parent</artifactId>\n    <version>";

/// The version of all packages.
pub fn version(root: &Path) -> Result<String> {
    let (file, before, after, _) = PLACES[0];
    let text = read(root, file)?;
    let found = text.split_once(before).and_then(|(_, rest)| rest.split_once(after));
    found
        .map(|(version, _)| version.to_owned())
        .ok_or_else(|| Error(format!("{file} has no version; it must have one in [workspace.package]")))
}

/// Writes another version into every place.
pub fn bump(root: &Path, to: &str) -> Result {
    let from = version(root)?;
    for (file, before, after, times) in PLACES {
        let (text, old) = (read(root, file)?, format!("{before}{from}{after}"));
        let found = text.matches(&old).count();
        if found != times {
            return Err(Error(format!("{file}: version {from} occurs {found} times; it must occur {times}")));
        }
        let path = root.join(file);
        fs::write(&path, text.replace(&old, &format!("{before}{to}{after}")))
            .map_err(Error::at("write", &path))?;
    }
    Ok(())
}

/// An address of `[workspace.package]`: `repository` or `homepage`.
pub fn address(root: &Path, name: &str) -> Result<String> {
    let text = read(root, MANIFEST)?;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} = \"")));
    line.and_then(|rest| rest.split_once('"'))
        .map(|(address, _)| address.to_owned())
        .ok_or_else(|| Error(format!("{MANIFEST} has no `{name}`; it must have one in [workspace.package]")))
}

/// Reads a file of the repository.
pub fn read(root: &Path, file: &str) -> Result<String> {
    let path = root.join(file);
    fs::read_to_string(&path).map_err(Error::at("read", &path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Shop;
    use std::path::PathBuf;

    /// The pages that the indexes show.
    const PAGES: [&str; 4] =
        ["bindings-python/PYPI.md", "bindings-wasm/README.md", "bindings-tokio/README.md", "core/README.md"];
    const MANIFESTS: [&str; 6] = [
        "pyproject.toml",
        "bindings-wasm/package.json",
        "bindings-wasm/jsr.json",
        "bindings-uniffi/kotlin/pom.xml",
        "bindings-uniffi/kotlin/native/pom.xml",
        "bindings-uniffi/kotlin/tidegate/pom.xml",
    ];

    fn root() -> PathBuf {
        Shop::open(false).expect("we are in the repository").root
    }

    fn copied() -> PathBuf {
        let copy = std::env::temp_dir().join(format!("tidegate-packages-{}", std::process::id()));
        for (file, ..) in PLACES {
            let to = copy.join(file);
            fs::create_dir_all(to.parent().expect("a folder")).expect("it can be made");
            fs::copy(root().join(file), to).expect("it can be copied");
        }
        copy
    }

    #[test]
    fn every_package_has_the_version_of_the_workspace() {
        let version = version(&root()).expect("there is one");
        for (file, before, after, times) in PLACES {
            let text = read(&root(), file).expect("it is there");
            let found = text.matches(&format!("{before}{version}{after}")).count();
            assert_eq!(found, times, "{file} must name version {version}: see PLACES in {}", file!());
        }
        let inherited = ["core", "bindings-tokio", "bindings-python", "bindings-wasm", "bindings-uniffi"];
        for folder in inherited {
            let text = read(&root(), &format!("{folder}/Cargo.toml")).expect("it is there");
            assert!(text.contains("\nversion.workspace = true\n"), "{folder}");
        }
        assert!(read(&root(), "pyproject.toml").expect("it is there").contains("dynamic = [\"version\"]"));
    }

    #[test]
    fn another_version_is_written_everywhere_and_a_missing_place_is_named() {
        let copy = copied();
        assert_eq!(bump(&copy, "9.8.7"), Ok(()));
        assert_eq!(version(&copy).as_deref(), Ok("9.8.7"));
        for (file, before, after, _) in PLACES {
            let text = read(&copy, file).expect("it is there");
            assert!(text.contains(&format!("{before}9.8.7{after}")), "{file}");
        }
        fs::write(copy.join("bindings-wasm/jsr.json"), "{}").expect("it can be written");
        assert!(
            bump(&copy, "9.9.0").is_err_and(|error| error.0.contains("jsr.json: version 9.8.7 occurs 0"))
        );
        fs::remove_dir_all(copy).expect("it is ours");
    }

    /// Words that begin with `https://`.
    fn addresses(text: &str) -> Vec<&str> {
        let ends = |char: char| char.is_whitespace() || "\"<>()'`,".contains(char);
        text.match_indices("https://")
            .map(|(at, _)| text[at..].split(ends).next().unwrap_or_default())
            .collect()
    }

    #[test]
    fn every_package_names_the_same_repository_and_site() {
        let repository = address(&root(), "repository").expect("there is one");
        let homepage = address(&root(), "homepage").expect("there is one");
        let raw = repository.replace("https://github.com/", "https://raw.githubusercontent.com/");
        for file in MANIFESTS.into_iter().chain(PAGES) {
            let text = read(&root(), file).expect("it is there");
            for address in addresses(&text) {
                let ours =
                    address.starts_with(&repository) || address == homepage || address.starts_with(&raw);
                let others = ["https://crates.io/crates/tidegate-tokio", "https://api.example/"];
                let other = !address.contains("tidegate") || others.iter().any(|it| address.starts_with(it));
                assert!(ours || other, "{file}: {address} is neither in {repository} nor {homepage}");
            }
        }
        for file in
            ["pyproject.toml", "bindings-wasm/package.json", "bindings-uniffi/kotlin/pom.xml", "mkdocs.yml"]
        {
            let text = read(&root(), file).expect("it is there");
            assert!(text.contains(&repository) && text.contains(&homepage), "{file}");
        }
    }

    /// An index shows a page far from the repository.
    #[test]
    fn links_of_a_package_page_are_absolute_and_lead_to_files() {
        let repository = address(&root(), "repository").expect("there is one");
        for page in PAGES {
            let text = read(&root(), page).expect("it is there");
            let links: Vec<_> = text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
            assert!(!links.is_empty(), "{page}");
            for link in links {
                assert!(link.starts_with("https://"), "{page}: {link} must be absolute");
                let inside = link.strip_prefix(&format!("{repository}/blob/main/"));
                let file = inside.and_then(|path| path.split('#').next());
                assert!(file.is_none_or(|file| root().join(file).is_file()), "{page}: {link} leads nowhere");
            }
        }
    }

    #[test]
    fn the_page_of_the_python_package_shows_the_tested_example() {
        let block = |file: &str| {
            let text = read(&root(), file).expect("it is there");
            let from = text.split_once("```python\n").map(|(_, rest)| rest.to_owned());
            from.and_then(|rest| rest.split_once("```").map(|(code, _)| code.to_owned()))
        };
        assert!(block("README.md").is_some_and(|code| code.contains("client.get(")));
        assert_eq!(block("README.md"), block("bindings-python/PYPI.md"));
    }

    /// R10: docs.rs builds all features and shows the repository. A packed crate has `src` alone, so its tests compile only
    /// if they include no file from elsewhere; doctests of pages are the repository's.
    #[test]
    fn a_packed_crate_compiles_and_is_documented_without_the_repository() {
        let mut folders = vec![];
        for krate in ["core", "bindings-tokio"] {
            let manifest = read(&root(), &format!("{krate}/Cargo.toml")).expect("it is there");
            for line in ["[package.metadata.docs.rs]\nall-features = true", "repository.workspace = true"] {
                assert!(manifest.contains(line), "{krate}: {line}");
            }
            folders.push((root().join(krate).join("src"), 0));
        }
        while let Some((folder, depth)) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("a file").path();
                if path.is_dir() {
                    folders.push((path, depth + 1));
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap_or_default();
                let outside = format!("\"{}", "../".repeat(depth + 1));
                for (before, line) in text.lines().zip(text.lines().skip(1)) {
                    let leaves = line.contains("include_") && line.contains(&outside);
                    let doctest = before == "#[cfg(doctest)]" || line.contains("README.md");
                    assert!(!leaves || doctest, "{}: {line}", path.display());
                }
            }
        }
    }

    #[test]
    fn every_crate_has_both_licences() {
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let text = read(&root(), licence).expect("it is there");
            for folder in ["core", "bindings-tokio"] {
                assert_eq!(
                    read(&root(), &format!("{folder}/{licence}")).as_deref(),
                    Ok(text.as_str()),
                    "{folder}"
                );
            }
        }
    }
}
