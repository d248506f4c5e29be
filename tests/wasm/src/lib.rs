//! Parts of core behind an interface of plain numbers. `run.mjs` runs the shared vectors on core as WebAssembly through
//! it, and compares the results bit for bit. It is not a binding, and never published.
//!
//! To add a part: implement [`Part`] for it, give it a number in [`made`], and write its runner in `run.mjs`.

mod quantile;

use std::cell::RefCell;

/// A part that takes numbers and answers with numbers. Methods that a part does not support keep their default.
pub trait Part {
    /// Gives the part one number.
    fn feed(&mut self, x: f64);

    /// The answer to question number `what` with the argument `with`; NaN if there is none.
    fn ask(&self, what: u32, with: f64) -> f64;

    /// The part's state as words, if it has such a form.
    fn words(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Merges another part of the same kind, given as words. Returns 0, or the number of the broken rule, from 1.
    fn join(&mut self, words: &[u64]) -> u32 {
        let _ = words;
        u32::MAX
    }
}

/// A new part of this kind.
fn made(kind: u32, a: f64, b: f64) -> Option<Box<dyn Part>> {
    Some(match kind {
        0 => Box::new(tidegate::P2Quantile::new(a)),
        1 => Box::new(tidegate::WindowedP2Quantile::new(a, b as u32)),
        2 => Box::new(tidegate::DDSketch::new(a)),
        _ => return None,
    })
}

thread_local! {
    static PARTS: RefCell<Vec<Box<dyn Part>>> = const { RefCell::new(Vec::new()) };
    static WORDS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` on a part. A number without a part is a mistake in `run.mjs`, and traps.
fn with<T>(part: u32, work: impl FnOnce(&mut dyn Part) -> T) -> T {
    PARTS.with_borrow_mut(|parts| work(&mut *parts[part as usize]))
}

/// Makes a part and returns its number.
///
/// # Panics
/// An unknown kind is a mistake in `run.mjs`, and traps.
#[unsafe(no_mangle)]
pub extern "C" fn make(kind: u32, a: f64, b: f64) -> u32 {
    let part = made(kind, a, b).expect("no part has this number");
    PARTS.with_borrow_mut(|parts| {
        parts.push(part);
        parts.len() as u32 - 1
    })
}

/// Gives a part one number.
#[unsafe(no_mangle)]
pub extern "C" fn feed(part: u32, x: f64) {
    with(part, |part| part.feed(x));
}

/// Asks a part a question.
#[unsafe(no_mangle)]
pub extern "C" fn ask(part: u32, what: u32, about: f64) -> f64 {
    with(part, |part| part.ask(what, about))
}

/// Stores a part's words for [`word`] and [`join`]. Returns their number.
#[unsafe(no_mangle)]
pub extern "C" fn words(part: u32) -> u32 {
    let words = with(part, |part| part.words());
    WORDS.with_borrow_mut(|ready| {
        *ready = words;
        ready.len() as u32
    })
}

/// One of the stored words.
#[unsafe(no_mangle)]
pub extern "C" fn word(place: u32) -> u64 {
    WORDS.with_borrow(|ready| ready[place as usize])
}

/// Removes the stored words.
#[unsafe(no_mangle)]
pub extern "C" fn no_words() {
    WORDS.with_borrow_mut(Vec::clear);
}

/// Stores one more word.
#[unsafe(no_mangle)]
pub extern "C" fn add_word(word: u64) {
    WORDS.with_borrow_mut(|ready| ready.push(word));
}

/// Merges the stored words into a part. Returns 0, or the number of the rule that they break.
#[unsafe(no_mangle)]
pub extern "C" fn join(part: u32) -> u32 {
    WORDS.with_borrow(|ready| with(part, |part| part.join(ready)))
}

/// Removes all parts.
#[unsafe(no_mangle)]
pub extern "C" fn forget() {
    PARTS.with_borrow_mut(Vec::clear);
}
