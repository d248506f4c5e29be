//! Tests the tests, in a scratch copy of the committed tree: fixes removed for the guided search (`search.rs`), and
//! mutants of core for all of core's tests (`judge.rs`).

pub mod judge;
mod list;
pub mod search;

use crate::run::{Cmd, Result};
use crate::setup::Shop;
use std::path::{Path, PathBuf};

/// The scratch copy of the committed tree.
fn tree(shop: &Shop) -> Result<PathBuf> {
    let tree = shop.target.join("xtask/mutants/tree");
    let git = |args: &[&str]| Cmd::new("git").args(args).cwd(&tree).quiet().map(drop);
    if tree.join(".git").is_dir() {
        git(&["fetch", "--quiet", "origin", "HEAD"])?;
        git(&["reset", "--quiet", "--hard", "FETCH_HEAD"])?;
    } else {
        Cmd::new("git").args(["clone", "--quiet", "--shared"]).arg(&shop.root).arg(&tree).quiet()?;
    }
    Ok(tree)
}

/// The target directory of the scratch copy.
fn target_of(tree: &Path) -> PathBuf {
    tree.with_file_name("target")
}
