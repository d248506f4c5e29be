//! Counts the hand-written lines of the lone parts: their description, their generator, and the code that each language
//! adds.

use std::fs;
use std::path::{Path, PathBuf};

/// Text in the first line of every generated file.
const GENERATED: &str = "Generated from xtask/generate/src/parts";

/// The places that are counted, by language; a folder means all files in it.
const PLACES: [(&str, &[&str]); 7] = [
    ("description", &["xtask/generate/src/parts"]),
    ("core", &["core/src/parts.rs"]),
    (
        "python",
        &[
            "bindings-python/src/parts.rs",
            "bindings-python/src/parts",
            "bindings-python/python/tidegate/parts",
        ],
    ),
    ("uniffi", &["bindings-uniffi/src/parts.rs", "bindings-uniffi/src/parts"]),
    ("kotlin", &["bindings-uniffi/kotlin/tidegate/src/main/kotlin/dev/tidegate/parts"]),
    ("swift", &["bindings-uniffi/swift/Sources/Tidegate/Parts"]),
    ("javascript", &["bindings-wasm/parts/src", "bindings-wasm/ts/parts"]),
];

/// The generator's own files.
const GENERATOR: [&str; 5] =
    ["parts.rs", "parts/languages.rs", "parts/read.rs", "parts/render.rs", "parts/text.rs"];
const GENERATORS_FOLDER: &str = "xtask/generate/src";

/// The counts.
pub struct Lines {
    /// Lines of the generator.
    pub generator: usize,
    /// Hand-written lines, by language.
    pub by_hand: Vec<(&'static str, usize)>,
}

/// Counts the lines.
pub fn lines(root: &Path) -> Result<Lines, String> {
    let generator: Vec<PathBuf> =
        GENERATOR.iter().map(|file| root.join(GENERATORS_FOLDER).join(file)).collect();
    let own = generator.iter().map(|file| Ok(read(file)?.lines().count())).sum::<Result<usize, String>>()?;
    let mut by_hand = Vec::new();
    for (language, places) in PLACES {
        let mut files = Vec::new();
        for place in places {
            collect(&root.join(place), &mut files)?;
        }
        let mut lines = 0;
        for file in files.iter().filter(|file| !generator.contains(file)) {
            let text = read(file)?;
            let generated = text.lines().next().is_some_and(|line| line.contains(GENERATED));
            lines += if generated { 0 } else { text.lines().count() };
        }
        by_hand.push((language, lines));
    }
    Ok(Lines { generator: own, by_hand })
}

/// Collects a file, or the source files below a folder; caches and build products are left out.
fn collect(place: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    if place.is_dir() {
        let entries =
            fs::read_dir(place).map_err(|error| format!("cannot read {}: {error}", place.display()))?;
        for entry in entries.flatten() {
            collect(&entry.path(), files)?;
        }
        return Ok(());
    }
    let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let made = place.extension().is_some_and(|extension| extension == "pyc") || name.ends_with("_gen.ts");
    if !made {
        files.push(place.to_path_buf());
    }
    Ok(())
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}
