//! Explores without a fuzzer: tries random inputs and mutations of the corpus, from a seed, and prints the first that
//! fails.
//!
//! ```text
//! cargo run --release -p tidegate-fuzz --example explore -- engine --seconds 60 --seed 7 [--keep <folder>]
//! cargo run --release -p tidegate-fuzz --example explore -- engine --run <file>
//! ```
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program reads arguments, files and the clock"
)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, panic};

use tidegate::rng;
use tidegate_fuzz::TARGETS;

struct Dice(u64, u64);

impl Dice {
    fn word(&mut self) -> u64 {
        self.1 += 1;
        rng::bits(self.0, self.1, rng::Purpose::Backoff, 0)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }

    fn input(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        if corpus.is_empty() || self.below(2) == 0 {
            let most = [16, 200, 1_000][self.below(3)];
            let length = self.below(most);
            return (0..length).map(|_| self.word() as u8).collect();
        }
        let mut input = corpus[self.below(corpus.len())].clone();
        for _ in 0..=self.below(6) {
            let place = self.below(input.len() + 1);
            match self.below(5) {
                0 => input.insert(place, self.word() as u8),
                1 if place < input.len() => drop(input.remove(place)),
                2 => {
                    let other = &corpus[self.below(corpus.len())];
                    input.truncate(place);
                    input.extend(&other[self.below(other.len() + 1)..]);
                }
                _ if place < input.len() => input[place] = self.word() as u8,
                _ => input.extend((0..self.below(20)).map(|_| self.word() as u8)),
            }
        }
        input
    }
}

fn main() {
    let args: Vec<String> = env::args().collect();
    let after = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let number = |name, default| after(name).map_or(default, |text| text.parse().expect("a number"));
    let (seconds, seed) = (number("--seconds", 60), number("--seed", 1));
    let wanted = args.get(1).expect("a target");
    let (name, target) = TARGETS.into_iter().find(|target| target.0 == wanted).expect("one of the targets");
    if let Some(file) = after("--run") {
        target(&fs::read(file).expect("a file"));
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let corpus: Vec<_> = files.map(|file| fs::read(file.path()).expect("a file of the corpus")).collect();
    let (mut dice, started, mut runs) = (Dice(seed, 0), Instant::now(), 0_u64);
    panic::set_hook(Box::new(|_| {}));
    let fails = |input: &[u8]| {
        panic::catch_unwind(|| target(input)).err().map(|why| {
            let text = why.downcast_ref::<String>().cloned();
            text.or_else(|| why.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
        })
    };
    while started.elapsed() < Duration::from_secs(seconds) {
        let mut input = dice.input(&corpus);
        runs += 1;
        let Some(why) = fails(&input) else { continue };
        println!("{name}: {why}\n   after {runs} runs, {} bytes", input.len());
        let kind = |why: &str| why.chars().filter(|c| !c.is_ascii_digit()).take(12).collect::<String>();
        shrink(&mut input, |smaller| fails(smaller).is_some_and(|now| kind(&now) == kind(&why)));
        let file: PathBuf =
            after("--keep").map_or_else(env::temp_dir, PathBuf::from).join(format!("{name}-{seed}"));
        fs::write(&file, &input).expect("a folder to keep it in");
        println!("   {} bytes are in {}: {}", input.len(), file.display(), fails(&input).unwrap_or_default());
        std::process::exit(1);
    }
    println!("{name}: {runs} runs in {seconds} s, no failure");
}

/// Shrinks the input while it still fails.
fn shrink(input: &mut Vec<u8>, fails: impl Fn(&[u8]) -> bool) {
    let mut size = input.len();
    while size > 0 {
        let mut at = 0;
        while at < input.len() {
            let mut smaller = input.clone();
            drop(smaller.drain(at..(at + size).min(smaller.len())));
            if fails(&smaller) { *input = smaller } else { at += size }
        }
        size /= 2;
    }
    for at in 0..input.len() {
        let before = std::mem::replace(&mut input[at], 0);
        if !fails(input) {
            input[at] = before;
        }
    }
}
