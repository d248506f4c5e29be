// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Delays: the backoff, and what a server asks for.

use crate::handles::{keep, with};
use crate::texts::texts;
use crate::{checked, maybe, millis};
use tidegate::parts::Drawn;
use wasm_bindgen::prelude::wasm_bindgen;

/// A new one.
#[wasm_bindgen]
pub fn backoff(seed: u64) -> f64 {
    checked(&|policy| Some(keep(Drawn::new(policy.backoff(), seed))))
}

/// How long to wait before retry `n`, 1 to 255.
#[wasm_bindgen]
pub fn backoff_delay(part: u32, n: u32, own: u32, call: u64) -> f64 {
    let call = (own != 0).then_some(call);
    millis(with(part, |it: &mut Drawn<tidegate::Backoff>| it.delay(n, call)))
}

/// How long before retry `n`, 1 to 255, without jitter.
#[wasm_bindgen]
pub fn backoff_ceiling(part: u32, n: u32) -> f64 {
    millis(with(part, |it: &mut Drawn<tidegate::Backoff>| it.ceiling(n)))
}

/// Milliseconds that the `Retry-After` value in the input asks for, or NaN; `wall_us` is the Unix time.
#[wasm_bindgen]
pub fn retry_after(wall_us: f64) -> f64 {
    let value = texts(|it| std::mem::take(&mut it.input));
    maybe(
        tidegate::parse_retry_after(&value, tidegate::WallTime::from_unix_micros(wall_us as u64)).map(millis),
    )
}
