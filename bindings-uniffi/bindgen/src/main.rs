//! Writes Kotlin's and Swift's halves of `bindings-uniffi` from uniffi's metadata: `cargo run -p tidegate-bindgen -- <library>`. They
//! are built, not committed. The library is a static one (`libtidegate_uniffi.a`) of any profile, or a shared one that has not been stripped.
//!
//! The list of functions that cross by JNI (`src/jni/exports.rs`) is compiled into the library, so it is committed: `--exports`
//! writes it, `--check` compares it and writes nothing.

mod jni;
mod kotlin;
mod names;
mod swift;

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use uniffi_bindgen::bindings::{GenerateOptions, TargetLanguage, generate};
use uniffi_bindgen::{BindgenLoader, BindgenPaths, ComponentInterface, GlobalConfig};

const EXPORTS: &str = "bindings-uniffi/src/jni/exports.rs";
const KOTLIN: &str = "bindings-uniffi/kotlin/tidegate/src/generated/kotlin/dev/tidegate";
const VIEWS: &str = "bindings-uniffi/swift/Sources/Tidegate/Views.swift";
/// What uniffi writes itself: from a scratch folder to the tree.
const SWIFT: [(&str, &str); 2] = [
    ("TidegateNative.swift", "bindings-uniffi/swift/Sources/TidegateNative/TidegateNative.swift"),
    ("TidegateNativeFFI.h", "bindings-uniffi/swift/Sources/TidegateNativeFFI/TidegateNativeFFI.h"),
];

fn main() -> ExitCode {
    let args: Vec<_> = env::args().skip(1).collect();
    let outcome = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [library] => bindings(library),
        [library, "--exports"] => {
            interface(library).and_then(|it| put(&root().join(EXPORTS), &jni::render(&it)))
        }
        [library, "--check"] => interface(library).and_then(|it| check(&it)),
        _ => Err("usage: cargo run -p tidegate-bindgen -- <library> [--exports | --check]".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check(interface: &ComponentInterface) -> Result<(), String> {
    match fs::read_to_string(root().join(EXPORTS)) {
        Ok(committed) if committed == jni::render(interface) => Ok(()),
        _ => Err(format!("{EXPORTS} is not of this library: build that anew, or run `cargo xtask generate`")),
    }
}

fn bindings(library: &str) -> Result<(), String> {
    let interface = interface(library)?;
    check(&interface)?;
    let (inner, outer) = kotlin::render(&interface, jni::hash(&interface))?;
    put(&root().join(KOTLIN).join("ffi/Ffi.kt"), &inner)?;
    put(&root().join(KOTLIN).join("Views.kt"), &outer)?;
    put(&root().join(VIEWS), &swift::render(&interface)?)?;
    uniffi_swift(library)
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// What the library says of itself.
fn interface(library: &str) -> Result<ComponentInterface, String> {
    let loader = BindgenLoader::new(BindgenPaths::default(), GlobalConfig::default());
    let all = loader.load_metadata(library.into()).and_then(|metadata| loader.load_cis(metadata));
    let all = all.map_err(|error| format!("{library}: {error:#}"))?;
    let missing = || format!("{library} has no metadata of uniffi: was it stripped? Name the static library");
    let mut found = all.into_iter().find(|it| it.crate_name() == "tidegate_uniffi").ok_or_else(missing)?;
    found.derive_ffi_funcs().map_err(|error| format!("{library}: {error:#}"))?;
    Ok(found)
}

fn uniffi_swift(library: &str) -> Result<(), String> {
    let scratch = env::temp_dir().join(format!("tidegate-bindgen-{}", std::process::id()));
    let out_dir = scratch.to_str().ok_or("the folder for temporary files is no UTF-8")?;
    let options = GenerateOptions {
        languages: vec![TargetLanguage::Swift],
        source: library.into(),
        out_dir: out_dir.into(),
        ..GenerateOptions::default()
    };
    let read = |from: &str| {
        let path = scratch.join(from);
        fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let outcome = generate(options)
        .map_err(|error| format!("{library}: {error:#}"))
        .and_then(|()| SWIFT.iter().try_for_each(|(from, to)| put(&root().join(to), &read(from)?)));
    let _ = fs::remove_dir_all(&scratch);
    outcome
}

/// Writes a file, where it is not the same already: what has not changed is not compiled again.
fn put(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}
