//! The store in memory.

use tidegate::fleet::MemoryStore;

use crate::slab::{keep, with};
use crate::texts::texts;

#[unsafe(no_mangle)]
pub extern "C" fn store() -> u32 {
    keep(MemoryStore::new())
}

/// Carries out the command in the input, whose words have NUL behind them: 0 and the answer in the output, or 1 and the
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn store_execute(part: u32, now_us: f64) -> u32 {
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
