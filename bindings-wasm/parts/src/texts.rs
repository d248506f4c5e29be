//! The texts and words that cross: the input and the output.

use std::cell::RefCell;
use std::fmt::Display;

use tidegate::{PolicyError, wire};

#[derive(Default)]
pub struct Texts {
    pub input: Vec<u8>,
    pub output: String,
    /// 64-bit words, on their way in or out.
    pub words: Vec<u64>,
}

impl Texts {
    /// A part of the input as text. Invalid UTF-8 is replaced by U+FFFD, which no key and no name contains.
    pub fn text(&self, from: usize, to: usize) -> String {
        let to = to.min(self.input.len());
        String::from_utf8_lossy(&self.input[from.min(to)..to]).into_owned()
    }
}

thread_local! {
    static TEXTS: RefCell<Texts> = RefCell::default();
}

pub fn texts<T>(work: impl FnOnce(&mut Texts) -> T) -> T {
    TEXTS.with_borrow_mut(work)
}

/// Mistakes as key, value and rule, each terminated by NUL.
pub fn mistakes(errors: &[PolicyError]) -> String {
    let mut text = String::new();
    for error in errors {
        for part in [&error.key, &error.value, &error.rule] {
            text.extend(part.chars().map(|letter| if letter == '\0' { '\u{fffd}' } else { letter }));
            text.push('\0');
        }
    }
    text
}

/// A number that is 0 or more; of an error −1, with its text in the output.
pub fn succeeded(result: Result<u32, impl Display>) -> f64 {
    result.map_or_else(
        |error| {
            texts(|it| it.output = error.to_string());
            -1.0
        },
        f64::from,
    )
}

/// Hands out 64-bit words: how many there are.
pub fn handed_out(words: Vec<u64>) -> u32 {
    let count = words.len() as u32;
    texts(|it| it.words = words);
    count
}

/// Makes room for texts of this total length, and returns where to write them.
#[unsafe(no_mangle)]
pub extern "C" fn input(length: u32) -> *mut u8 {
    texts(|it| {
        it.input.clear();
        it.input.resize(length as usize, 0);
        it.input.as_mut_ptr()
    })
}

/// The address of the last result that is not a number.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    texts(|it| it.output.as_ptr())
}

/// Its length, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn output_length() -> u32 {
    texts(|it| it.output.len() as u32)
}

/// What the text in the input is in the table of keys (`wire::about`).
#[unsafe(no_mangle)]
pub extern "C" fn about() -> u32 {
    wire::about(&texts(|it| it.text(0, usize::MAX)))
}

/// Makes room for this many 64-bit words, and returns where to write them.
#[unsafe(no_mangle)]
pub extern "C" fn words(count: u32) -> *mut u64 {
    texts(|it| {
        it.words.clear();
        it.words.resize(count as usize, 0);
        it.words.as_mut_ptr()
    })
}
