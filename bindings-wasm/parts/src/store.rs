//! The in-memory store.

use tidegate::fleet::MemoryStore;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::handles::{keep, with};
use crate::texts::texts;

#[wasm_bindgen]
pub fn store() -> u32 {
    keep(MemoryStore::new())
}

/// Executes the command in the input, whose words are each terminated by NUL. Returns 0 with the answer in the output, or 1 with
/// the error.
#[wasm_bindgen]
pub fn store_execute(part: u32, now_us: f64) -> u32 {
    let input = texts(|it| std::mem::take(&mut it.input));
    let words: Vec<_> =
        input.split_inclusive(|byte| *byte == 0).map(|word| word[..word.len() - 1].to_vec()).collect();
    let answer = with(part, |it: &mut MemoryStore| it.execute(&words, now_us as u64));
    let (failed, text) = match answer {
        Ok(bytes) => (0, String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => (1, error),
    };
    texts(|it| it.output = text);
    failed
}
