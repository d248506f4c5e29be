//! Writes what uniffi generates for the hosts of `bindings-uniffi`: `cargo run -p tidegate-bindgen -- <library> [--check]`.
//!
//! The library is one of a development build (`cargo build -p tidegate-uniffi`): a stripped one has nothing left to read.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use uniffi_bindgen::bindings::{GenerateOptions, TargetLanguage, generate};

/// By language: the file that is written, from a scratch folder to the tree.
const FILES: [(&str, &str); 3] = [
    (
        "dev/tidegate/ffi/tidegate_uniffi.kt",
        "bindings-uniffi/kotlin/native/src/main/kotlin/dev/tidegate/ffi/tidegate_uniffi.kt",
    ),
    ("TidegateNative.swift", "bindings-uniffi/swift/Sources/TidegateNative/TidegateNative.swift"),
    ("TidegateNativeFFI.h", "bindings-uniffi/swift/Sources/TidegateNativeFFI/TidegateNativeFFI.h"),
];

fn main() -> ExitCode {
    let args: Vec<_> = env::args().skip(1).collect();
    let outcome = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [library] => run(library, false),
        [library, "--check"] => run(library, true),
        _ => Err("usage: cargo run -p tidegate-bindgen -- <library> [--check]".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(library: &str, check: bool) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scratch = env::temp_dir().join(format!("tidegate-bindgen-{}", std::process::id()));
    let out_dir = scratch.to_str().ok_or("the folder for temporary files is no UTF-8")?;
    let options = GenerateOptions {
        languages: vec![TargetLanguage::Kotlin, TargetLanguage::Swift],
        source: library.into(),
        out_dir: out_dir.into(),
        ..GenerateOptions::default()
    };
    let outcome = generate(options)
        .map_err(|error| format!("{library}: {error:#}"))
        .and_then(|()| FILES.iter().try_for_each(|(from, to)| put(&scratch.join(from), &root, to, check)));
    let _ = fs::remove_dir_all(&scratch);
    outcome
}

fn put(from: &Path, root: &Path, to: &str, check: bool) -> Result<(), String> {
    let text =
        fs::read_to_string(from).map_err(|error| format!("cannot read {}: {error}", from.display()))?;
    // The generator leaves blanks at the ends of lines.
    let text: String = text.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    let path = root.join(to);
    if check {
        return match fs::read_to_string(&path) {
            Ok(committed) if committed == text => Ok(()),
            _ => Err(format!("{to} is out of date: run `cargo xtask generate`")),
        };
    }
    let folder = path.parent().unwrap_or(root);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text));
    written.map_err(|error| format!("cannot write {to}: {error}"))?;
    println!("{to}");
    Ok(())
}
