//! Writes the files that are derived from core's table of keys: `cargo run -p tidegate-generate [-- --check]`.
//!
//! `cargo xtask generate` runs it. It is a separate crate because xtask uses std only and does not wait for core to compile.

mod clients;
mod errors;
mod facts;
mod kotlin;
mod pages;
mod parts;
mod python;
mod raised;
mod reference;
mod rust;
mod schema;
mod swift;
mod typescript;
mod wire;

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

/// The generated files, by path from the root of the repository.
fn files() -> Vec<(String, String)> {
    let options = options().map(|(path, text)| (path.to_owned(), text));
    let errors = errors::files().map(|(path, text)| (path.to_owned(), text));
    let words = ("bindings-wasm/ts/wire_gen.ts".to_owned(), wire::text());
    let clients = clients::files();
    let raised = raised::files().map(|(path, text)| (path.to_owned(), text));
    let pages = pages::files().map(|(path, text)| (path.to_owned(), text));
    options
        .into_iter()
        .chain(pages)
        .chain(errors)
        .chain([words])
        .chain(clients)
        .chain(raised)
        .chain(parts::files())
        .collect()
}

/// The files that are derived from the table of keys.
fn options() -> [(&'static str, String); 7] {
    [
        ("docs/policy.schema.json", schema::text()),
        ("docs/reference.md", reference::text()),
        ("bindings-python/python/tidegate/_engine/options_gen.py", python::text()),
        ("bindings-uniffi/swift/Sources/Tidegate/Options.swift", swift::text()),
        ("bindings-wasm/ts/options_gen.ts", typescript::text()),
        ("bindings-uniffi/kotlin/tidegate/src/main/kotlin/dev/tidegate/OptionsGen.kt", kotlin::text()),
        ("bindings-tokio/src/settings.rs", rust::text()),
    ]
}

/// The files that differ from the generated text.
fn outdated(root: &Path) -> Vec<String> {
    let differs = |path: &str, text: &str| fs::read_to_string(root.join(path)).ok().as_deref() != Some(text);
    files().into_iter().filter(|(path, text)| differs(path, text)).map(|(path, _)| path).collect()
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let args: Vec<_> = env::args().skip(1).collect();
    let outcome = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => write(&root),
        ["--check"] => match outdated(&root)[..] {
            [] => Ok(()),
            ref paths => {
                Err(format!("out of date: {}\nrun `cargo run -p tidegate-generate`", paths.join(", ")))
            }
        },
        _ => Err("usage: cargo run -p tidegate-generate [-- --check]".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(root: &Path) -> Result<(), String> {
    for (path, text) in files() {
        let full = root.join(&path);
        let folder = full.parent().unwrap_or(root);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&full, text));
        written.map_err(|error| format!("cannot write {path}: {error}"))?;
        println!("{path}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_files_are_what_the_table_says() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert_eq!(outdated(&root), <[String; 0]>::default(), "run `cargo run -p tidegate-generate`");
    }

    #[test]
    fn every_key_and_every_preset_is_in_every_file() {
        let [(_, schema), (_, reference), (_, python), (_, swift), (_, typescript), (_, kotlin), (_, rust)] =
            options();
        for key in tidegate::TABLE {
            let name = key.path.rsplit('.').next().unwrap();
            assert!(schema.contains(&format!("\"{name}\": {{")), "{} in the schema", key.path);
            if facts::OF_DOCUMENTS.contains(&key.path) {
                continue; // documents alone have groups
            }
            assert!(reference.contains(&format!("| `{name}` |")), "{} in the reference", key.path);
            assert!(swift.contains(&format!("pairs.add(\"{}\", ", key.path)), "{} in Swift", key.path);
            assert!(kotlin.contains(&format!("(\"{}\"", key.path)), "{} in Kotlin's options", key.path);
            assert!(rust.contains(&format!("(\"{}\", ", key.path)), "{} in Rust", key.path);
            if key.path.contains('.') {
                assert!(python.contains(&format!("\n    {name}: ")), "{} in the options", key.path);
            }
            let camel = typescript::camel(name);
            assert!(
                typescript.contains(&format!("\n  {camel}?: ")),
                "{} in the TypeScript options",
                key.path
            );
        }
        for preset in facts::presets() {
            assert!(
                reference.contains(&format!("### `{preset}`")) && python.contains(&format!("\"{preset}\""))
            );
            assert!(typescript.contains(&format!("\"{preset}\"")));
        }
    }
}
