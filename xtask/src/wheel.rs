//! Builds the Python wheel in release mode, installs it into an environment, and locates it there.

use crate::run::{Error, Result};
use crate::setup::{Shop, Venv};
use std::fs;
use std::path::{Path, PathBuf};

/// The cargo profile of the package: optimised for size.
const PROFILE: &str = "wheel";
/// Options of `maturin build` for a wheel as it is published. maturin overrules the profile's `strip`, so it needs the option.
pub const BUILD: [&str; 5] = ["--profile", PROFILE, "--compression-level", "9", "--strip"];

/// Builds the wheel and returns its path. Older wheels are removed first, so that none can be confused with it.
pub fn build(shop: &Shop, venv: &Venv) -> Result<PathBuf> {
    let out = shop.target.join("wheels");
    for old in wheels(&out) {
        fs::remove_file(&old).map_err(Error::at("remove", &old))?;
    }
    maturin(shop, venv, &[&["build"][..], &BUILD, &["--out"]].concat())
        .arg(&out)
        .arg("-i")
        .arg(venv.bin("python"))
        .stream()?
        .ok()?;
    match wheels(&out).as_slice() {
        [wheel] => Ok(wheel.clone()),
        found => Err(Error(format!("expected one wheel in {}, found {}", out.display(), found.len()))),
    }
}

/// Runs maturin from the environment, on the root's `pyproject.toml`.
pub fn maturin(shop: &Shop, venv: &Venv, args: &[&str]) -> crate::run::Cmd {
    crate::run::Cmd::new(venv.bin("maturin"))
        .cwd(&shop.root)
        .env("CARGO_TARGET_DIR", &shop.target)
        .env("VIRTUAL_ENV", &venv.dir)
        .args(args)
}

/// Installs exactly this wheel, without its dependencies and without the network.
pub fn install(venv: &Venv, wheel: &Path) -> Result {
    venv.pip()
        .args(["install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"])
        .arg(wheel)
        .quiet()
        .map(drop)
}

/// Asks Python from where it imports `tidegate`, and refuses any place outside the environment.
pub fn location(venv: &Venv, outside: &Path) -> Result<PathBuf> {
    let ask = "import tidegate; print(tidegate.__file__)";
    let file = PathBuf::from(venv.python().cwd(outside).args(["-c", ask]).quiet()?.text.trim());
    if file.starts_with(&venv.dir) {
        return Ok(file);
    }
    Err(Error(format!(
        "`import tidegate` found {}, not the wheel installed in {}",
        file.display(),
        venv.dir.display()
    )))
}

/// The `.whl` files of a folder, sorted; empty if the folder does not exist.
fn wheels(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "whl")).collect();
    found.sort();
    found
}
