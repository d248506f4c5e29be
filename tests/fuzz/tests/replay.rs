//! Fuzzing as an ordinary test: every input of the corpus, and as many seeded random ones as fit into a second or two.
//!
//! `TIDEGATE_FUZZ_RUNS=1000000 cargo test --release -p tidegate-fuzz` tries more inputs.
#![allow(clippy::disallowed_methods, reason = "tests read the corpus and how hard to look")]

use std::path::{Path, PathBuf};
use std::{env, fs, panic};

use tidegate::rng;
use tidegate_fuzz::{TARGETS, Target};

/// Runs a target. If it panics, prints the input.
fn run(name: &str, target: Target, what: &str, input: &[u8]) {
    if panic::catch_unwind(|| target(input)).is_err() {
        let kept = env::temp_dir().join(format!("{name}-failed"));
        fs::write(&kept, input).expect("a folder for temporary files");
        panic!("{name}: {what} fails; its {} bytes are in {}", input.len(), kept.display());
    }
}

fn corpus(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

fn replay(name: &str) {
    let (_, target) = TARGETS.into_iter().find(|target| target.0 == name).expect("a target");
    let files = corpus(name);
    assert!(files.len() >= 5, "the corpus of {name} is gone");
    let inputs: Vec<_> = files.iter().map(|file| fs::read(file).expect("a readable file")).collect();
    for (file, input) in files.iter().zip(&inputs) {
        run(name, target, &file.display().to_string(), input);
    }
    let asked = env::var("TIDEGATE_FUZZ_RUNS").ok().and_then(|text| text.parse().ok());
    let runs = asked.unwrap_or(match (cfg!(debug_assertions), name) {
        (true, "documents") => 40,
        (true, _) => 300,
        (false, "documents") => 1_500,
        (false, _) => 20_000,
    });
    for number in 0..runs {
        run(name, target, &format!("random input {number}"), &random(&inputs, number));
    }
}

/// Random bytes, or an input of the corpus with some bytes changed and its end replaced by another input's.
fn random(inputs: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut drawn = 0;
    let mut below = |n: usize| {
        drawn += 1;
        (rng::bits(drawn, number, rng::Purpose::Backoff, 0) % n as u64) as usize
    };
    if below(3) == 0 {
        return (0..below(600)).map(|_| below(256) as u8).collect();
    }
    let (mut input, other) = (inputs[below(inputs.len())].clone(), &inputs[below(inputs.len())]);
    if below(2) == 0 {
        input.truncate(below(input.len() + 1));
        input.extend(&other[below(other.len() + 1)..]);
    }
    for _ in 0..below(5) {
        if !input.is_empty() {
            let place = below(input.len());
            input[place] = below(256) as u8;
        }
    }
    input
}

macro_rules! replays {
    ($($name:ident),*) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_replayed_and_has_a_harness() {
            let replayed = [$(stringify!($name)),*];
            assert_eq!(TARGETS.map(|target| target.0), replayed);
            let harness = include_str!("../fuzz/Cargo.toml");
            for name in replayed {
                assert!(harness.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/Cargo.toml");
            }
        }
    };
}
replays!(answer, retry_after, documents, wire_words, engine, changes, fleet, quantile_words, strategy, parts);

#[test]
fn the_corpus_is_small_and_every_folder_is_a_targets() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut folders: Vec<_> =
        fs::read_dir(root).expect("a corpus").map(|entry| entry.expect("a folder").file_name()).collect();
    folders.sort();
    let mut names = TARGETS.map(|target| target.0);
    names.sort_unstable();
    assert_eq!(folders, names);
    let sizes = names.into_iter().flat_map(corpus).map(|file| fs::metadata(file).expect("a file").len());
    assert!(sizes.sum::<u64>() < 200_000, "minimise it: cargo xtask deep");
}
