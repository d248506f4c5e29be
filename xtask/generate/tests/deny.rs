//! The rules of `deny.toml` about licences and banned crates hold for the present dependency tree. `cargo deny check` checks more
//! (advisories, texts of licences) but has to be installed. This test always runs, and fails when a new dependency is not covered.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::process::Command;

use serde_json::Value as Json;
use toml::{Table, Value};

/// The dependency tree with every feature, on every platform.
fn metadata() -> Json {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--all-features", "--manifest-path", root])
        .output()
        .expect("cargo runs");
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    serde_json::from_slice(&cargo.stdout).expect("metadata is JSON")
}

fn texts(of: &Value) -> BTreeSet<&str> {
    of.as_array().expect("a list").iter().filter_map(Value::as_str).collect()
}

/// Whether this SPDX expression is satisfied by these licences. `AND` binds more tightly than `OR`.
fn allowed(expression: &str, licences: &BTreeSet<&str>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words: Vec<String> = Vec::new();
    let mut joined = false;
    for word in spaced.split_whitespace() {
        match words.last_mut() {
            // An exception is part of its licence's name.
            Some(last) if word == "WITH" || joined => *last = format!("{last} {word}"),
            _ => words.push(word.into()),
        }
        joined = word == "WITH";
    }
    let mut words = words.iter().map(String::as_str).peekable();
    let allows = either(&mut words, licences);
    assert!(words.next().is_none(), "{expression} is no expression");
    allows
}

fn either<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>, licences: &BTreeSet<&str>) -> bool {
    let mut allows = both(words, licences);
    while words.next_if_eq(&"OR").is_some() {
        allows |= both(words, licences);
    }
    allows
}

fn both<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>, licences: &BTreeSet<&str>) -> bool {
    let mut allows = one(words, licences);
    while words.next_if_eq(&"AND").is_some() {
        allows &= one(words, licences);
    }
    allows
}

fn one<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>, licences: &BTreeSet<&str>) -> bool {
    match words.next() {
        Some("(") => {
            let allows = either(words, licences);
            assert_eq!(words.next(), Some(")"));
            allows
        }
        Some(name) => licences.contains(name),
        None => panic!("an expression ends early"),
    }
}

#[test]
fn expressions_of_licences_are_read_as_spdx_says() {
    let has = BTreeSet::from(["MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"]);
    for good in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/GPL-3.0",
        "MIT AND Zlib",
        "(GPL-3.0 OR MIT) AND Zlib",
        "Apache-2.0 WITH LLVM-exception",
    ] {
        assert!(allowed(good, &has), "{good}");
    }
    for bad in
        ["GPL-3.0", "GPL-3.0 AND MIT", "Apache-2.0", "MIT AND Zlib AND GPL-3.0", "(GPL-3.0 OR MIT) AND ISC"]
    {
        assert!(!allowed(bad, &has), "{bad}");
    }
}

#[test]
fn the_tree_is_what_deny_toml_allows() {
    let deny: Table = include_str!("../../../deny.toml").parse().expect("deny.toml is TOML");
    let licences = texts(&deny["licenses"]["allow"]);
    let mut exceptions = BTreeMap::new();
    for exception in deny["licenses"]["exceptions"].as_array().expect("a list") {
        exceptions.insert(exception["crate"].as_str().expect("a name"), texts(&exception["allow"]));
    }
    let registries = texts(&deny["sources"]["allow-registry"]);
    let tree = metadata();
    let packages = tree["packages"].as_array().expect("packages");
    let name_of = |id: &Json| {
        let package = packages.iter().find(|package| package["id"] == *id);
        package.and_then(|package| package["name"].as_str()).expect("a name")
    };
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let licence = package["license"].as_str().unwrap_or("none");
        let mut here = licences.clone();
        here.extend(exceptions.get(name).into_iter().flatten());
        if !allowed(licence, &here) {
            wrong.push(format!("{name} has the licence {licence}, which deny.toml does not allow"));
        }
        if let Some(source) = package["source"].as_str()
            && !registries.contains(source.trim_start_matches("registry+"))
        {
            wrong.push(format!("{name} comes from {source}"));
        }
    }
    let mut found = 0;
    for node in tree["resolve"]["nodes"].as_array().expect("nodes") {
        let from = name_of(&node["id"]);
        for to in node["dependencies"].as_array().expect("ids").iter().map(name_of) {
            for ban in deny["bans"]["deny"].as_array().expect("a list") {
                let wrappers = ban.get("wrappers").map(texts).unwrap_or_default();
                if ban["crate"].as_str() == Some(to) {
                    found += 1;
                    if !wrappers.contains(from) {
                        wrong.push(format!("{from} depends on {to}: {:?}", ban["reason"]));
                    }
                }
            }
        }
    }
    assert!(packages.len() > 100 && found > 0, "{} packages, {found} edges to banned ones", packages.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}
