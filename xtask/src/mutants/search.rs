//! Tests the guided search: each patch of `tests/mutants` removes a fix, and the search must find the bug within a
//! minute.

use super::{target_of, tree};
use crate::report::Verdict;
use crate::run::{Cmd, Error, Output, Result};
use crate::setup::Shop;
use std::fs;
use std::path::{Path, PathBuf};

/// The time for one search.
const SECONDS: &str = "60";
/// The seed for the search; with it each bug is found within 3,638 schedules.
const SEED: &str = "2";

/// The patches, in the order of their names.
pub fn patches(shop: &Shop) -> Vec<PathBuf> {
    let entries = fs::read_dir(shop.root.join("tests/mutants")).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "patch"));
    files.sort();
    files
}

/// Applies one patch, and lets the search look for the bug.
pub fn find(shop: &Shop, patch: &Path) -> Verdict {
    let run = || -> Result {
        let tree = tree(shop)?;
        Cmd::new("git").arg("apply").arg(patch).cwd(&tree).quiet()?;
        let test = Cmd::new("cargo").cwd(&tree).env("CARGO_TARGET_DIR", target_of(&tree));
        let search = ["test", "--profile", "checked", "-p", "tidegate", "--test", "search", "--"];
        let test = test.args(search).args(["--exact", "no_schedule_exceeds_what_is_promised"]);
        let ran = test
            .env("TIDEGATE_SEARCH_SECONDS", SECONDS)
            .env("TIDEGATE_SEARCH_SEED", SEED)
            .env("RUST_BACKTRACE", "0")
            .capture()?;
        match ran.text.lines().find(|line| line.starts_with("seed ") && line.contains(", schedule ")) {
            Some(found) => {
                println!("   found: {found}");
                Ok(())
            }
            None if ran.text.contains("test result: ok") => {
                Err(Error(format!("not found within {SECONDS} s")))
            }
            None => Output::ok(ran).map(drop),
        }
    };
    Verdict::check(run())
}
