//! Generated files that are committed: those derived from core's table of keys (`tidegate-generate`, a separate crate),
//! and the type stub of the Python package's native half.

use crate::run::{Error, Result, step};
use crate::setup::{Shop, Venv, python_environment};
use crate::wheel;
use crate::{cargo, jvm};
use std::fs;

const STUB: &str = "bindings-python/python/tidegate/_native.pyi";

/// `cargo xtask generate [--check]`.
pub fn generate(shop: &Shop, check: bool) -> Result {
    let title = if check {
        "are the files made from the table of keys current?"
    } else {
        "generate from the table of keys"
    };
    step(title, || {
        let run = cargo(shop).args(["run", "--quiet", "-p", "tidegate-generate", "--"]);
        run.args(check.then_some("--check")).stream()?.ok()
    })?;
    step("kotlin: the functions that cross by JNI", || jvm::generated(shop, check))?;
    let venv = python_environment(shop)?;
    if check {
        return step("python: is the committed stub current?", || check_stub(shop, &venv));
    }
    step(&format!("python: generate {STUB}"), || {
        let path = shop.root.join(STUB);
        fs::write(&path, native_stub(shop, &venv)?).map_err(Error::at("write", &path))
    })
}

/// Fails if the committed stub differs from the one that the present source generates.
pub fn check_stub(shop: &Shop, venv: &Venv) -> Result {
    let path = shop.root.join(STUB);
    let committed = fs::read_to_string(&path).map_err(Error::at("read", &path))?;
    let generated = native_stub(shop, venv)?;
    match first_difference(&committed, &generated) {
        None => Ok(()),
        Some((line, was, is)) => Err(Error(format!(
            "{STUB} is out of date; run `cargo xtask generate`\n   line {line} committed: {was}\n   line {line} generated: {is}"
        ))),
    }
}

/// The stub, which maturin reads from a development build: a stripped release build has no symbols to read.
fn native_stub(shop: &Shop, venv: &Venv) -> Result<String> {
    let out = shop.scratch("stubs")?;
    wheel::maturin(shop, venv, &["generate-stubs", "--profile", "dev", "--features", "stubs", "--out"])
        .arg(&out)
        .arg("-i")
        .arg(venv.bin("python"))
        .quiet()?;
    let path = out.join("tidegate/_native.pyi");
    fs::read_to_string(&path).map_err(Error::at("read", &path))
}

/// The first line in which two texts differ: its number, and the line in both.
fn first_difference<'a>(one: &'a str, other: &'a str) -> Option<(usize, &'a str, &'a str)> {
    if one == other {
        return None;
    }
    let end = "(end of file)";
    let (mut left, mut right) = (one.lines(), other.lines());
    for number in 1.. {
        match (left.next(), right.next()) {
            (None, None) => return Some((number, "(line endings)", "(line endings)")),
            (a, b) if a != b => return Some((number, a.unwrap_or(end), b.unwrap_or(end))),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some((2, "b", "c")));
        assert_eq!(first_difference("a\n", "a\nb\n"), Some((2, "(end of file)", "b")));
        assert_eq!(first_difference("a\n", "a\r\n"), Some((2, "(line endings)", "(line endings)")));
    }
}
