//! The commands that show or ship something: `demo`, `bench`, `dist`.

use crate::cargo;
use crate::run::{Error, Result, step};
use crate::setup::{Shop, Venv, python_environment};
use crate::wheel;
use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};

/// `cargo xtask demo [arguments]`: the brownout, with the built package against the built origin.
pub fn demo(shop: &Shop, args: &[String]) -> Result {
    let script = present(shop, "examples/brownout/demo.py")?;
    let (venv, origin) = (package(shop)?, step("origin: build", || build_origin(shop))?);
    let out = shop.root.join("target/demo");
    fs::create_dir_all(&out).map_err(Error::at("make", &out))?;
    println!("── demo");
    venv.script(&script).arg("--origin").arg(&origin).arg("--out").arg(&out).args(args).inherit()?;
    println!("table and plots: {}", out.display());
    for file in files(&out) {
        println!("   {}", file.display());
    }
    Ok(())
}

/// `cargo xtask bench [arguments]`.
pub fn bench(shop: &Shop, args: &[String]) -> Result {
    let script = present(shop, "bench/python/happy_path.py")?;
    let more = [present(shop, "bench/python/over_httpx.py")?, present(shop, "bench/python/memory.py")?];
    let venv = package(shop)?;
    println!("── bench: core");
    let run = ["run", "-q", "--release", "-p", "tidegate-bench-core"];
    cargo(shop).args(run).inherit()?;
    println!("── bench: core beside its peers");
    cargo(shop).args(run).args(["--features", "peers", "--bin", "tidegate-bench-peers"]).inherit()?;
    println!("── bench: python");
    venv.script(&script).args(args).inherit()?;
    more.iter().try_for_each(|script| venv.script(script).inherit())
}

/// `cargo xtask dist`: the wheel is built from the source distribution, which shows that the latter is complete.
pub fn dist(shop: &Shop) -> Result {
    let venv = python_environment(shop)?;
    let out = shop.root.join("dist");
    // A target directory of its own, and empty: files unpacked from an archive keep its old dates, and cargo would take
    // whatever was built here before for current.
    let target = shop.target.join("dist");
    if target.exists() {
        fs::remove_dir_all(&target).map_err(Error::at("remove", &target))?;
    }
    step("python: source distribution, and the wheel built from it", || {
        wheel::maturin(shop, &venv, &["build", "--release", "--sdist", "--out"])
            .arg(&out)
            .arg("-i")
            .arg(venv.bin("python"))
            .env("CARGO_TARGET_DIR", &target)
            .stream()?
            .ok()
    })?;
    for file in files(&out) {
        let size = fs::metadata(&file).map_err(Error::at("look at", &file))?.len();
        println!("   {:>9}  {}", kib(size), file.display());
    }
    Ok(())
}

/// Builds the faulty origin in release mode and returns the path of its program.
pub fn build_origin(shop: &Shop) -> Result<PathBuf> {
    cargo(shop).args(["build", "--release", "-p", "tidegate-origin"]).stream()?.ok()?;
    let program = shop.target.join("release").join(format!("tidegate-origin{EXE_SUFFIX}"));
    if program.is_file() {
        return Ok(program);
    }
    Err(Error(format!("the build left no program at {}", program.display())))
}

/// The environment with this tree's wheel in it.
fn package(shop: &Shop) -> Result<Venv> {
    let venv = python_environment(shop)?;
    let wheel = step("python: build the wheel", || wheel::build(shop, &venv))?;
    step("python: install the wheel", || wheel::install(&venv, &wheel))?;
    Ok(venv)
}

fn present(shop: &Shop, path: &str) -> Result<PathBuf> {
    let full = shop.root.join(path);
    if full.is_file() { Ok(full) } else { Err(Error(format!("{path} is not in this tree yet"))) }
}

/// The files directly in a folder, sorted.
fn files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut found: Vec<_> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect();
    found.sort();
    found
}

fn kib(bytes: u64) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_round_up() {
        assert_eq!(super::kib(0), "0 KiB");
        assert_eq!(super::kib(1025), "2 KiB");
    }
}
