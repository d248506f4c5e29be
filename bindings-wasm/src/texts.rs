//! The texts that cross the border. The file is compiled into the modules of the engine and into that of the parts.

use std::cell::RefCell;

use tidegate::{PolicyError, Value, wire};
use wasm_bindgen::prelude::wasm_bindgen;

/// A value on its way to core.
pub enum Staged {
    Number(f64),
    Word(String),
}

#[derive(Default)]
pub struct Texts {
    pub input: Vec<u8>,
    pub output: String,
    staged: Vec<(String, Staged)>,
}

impl Texts {
    /// A part of the input as text. Invalid UTF-8 is replaced by U+FFFD, which no key and no name contains.
    pub fn text(&self, from: usize, to: usize) -> String {
        let to = to.min(self.input.len());
        let bytes = &self.input[from.min(to)..to];
        #[cfg(not(tidegate_small))]
        return String::from_utf8_lossy(bytes).into_owned();
        // SAFETY: only `say` in ts/engine/native.ts writes the input, with a `TextEncoder`, which always writes UTF-8.
        #[cfg(tidegate_small)]
        unsafe {
            String::from_utf8_unchecked(bytes.to_vec())
        }
    }
}

thread_local! {
    static TEXTS: RefCell<Texts> = RefCell::default();
}

/// Runs work with the texts.
pub fn texts<T>(work: impl FnOnce(&mut Texts) -> T) -> T {
    TEXTS.with_borrow_mut(work)
}

/// Makes room for texts of this total length, and returns where to write them.
#[wasm_bindgen]
pub fn input(length: u32) -> *mut u8 {
    texts(|it| {
        it.input.clear();
        it.input.resize(length as usize, 0);
        it.input.as_mut_ptr()
    })
}

/// The address of the last result that is not a number.
#[wasm_bindgen]
pub fn output() -> *const u8 {
    texts(|it| it.output.as_ptr())
}

/// Its length, in bytes.
#[wasm_bindgen]
pub fn output_length() -> u32 {
    texts(|it| it.output.len() as u32)
}

/// Stages a pair with a number; the input is its key.
#[wasm_bindgen]
pub fn number(value: f64) {
    texts(|it| {
        let key = it.text(0, usize::MAX);
        it.staged.push((key, Staged::Number(value)));
    });
}

/// Stages a pair with a word; the input is its key, of this length, followed by the word.
#[wasm_bindgen]
pub fn word(key: u32) {
    texts(|it| {
        let value = it.text(key as usize, usize::MAX);
        let key = it.text(0, key as usize);
        it.staged.push((key, Staged::Word(value)));
    });
}

/// What the text in the input is in the table of keys (`wire::about`).
#[wasm_bindgen]
pub fn about() -> u32 {
    wire::about(&texts(|it| it.text(0, usize::MAX)))
}

/// A value of a staged pair.
fn plain(value: &Staged) -> Value<'_> {
    match value {
        Staged::Number(number) => Value::Number(*number),
        Staged::Word(word) => Value::Text(word),
    }
}

/// Runs work with the name in the input and the staged pairs, in core's form.
pub fn staged<T>(work: impl FnOnce(&str, &[(&str, Value<'_>)]) -> T) -> T {
    let (name, pairs) = texts(|it| (it.text(0, usize::MAX), std::mem::take(&mut it.staged)));
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| (key.as_str(), plain(value))).collect();
    work(&name, &pairs)
}

/// The number, or −1 with the error in the output.
pub fn answer(result: Result<f64, String>) -> f64 {
    result.unwrap_or_else(|wrong| {
        texts(|it| it.output = wrong);
        -1.0
    })
}

/// Texts in pieces that need no parser: each is terminated by NUL.
pub fn pieces<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::new();
    for text in texts {
        out.extend(text.chars().filter(|c| *c != '\0').chain(['\0']));
    }
    out
}

/// Mistakes as key, value and rule.
pub fn mistakes(errors: &[PolicyError]) -> String {
    pieces(errors.iter().flat_map(|it| [&*it.key, &*it.value, &*it.rule]))
}
