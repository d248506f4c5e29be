// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! How fast: rate limits, and the cubic send rate.

use crate::handles::{keep, with};
use crate::{checked, maybe, time, until};
use wasm_bindgen::prelude::wasm_bindgen;

/// A new one.
#[wasm_bindgen]
pub fn token_bucket(now: f64) -> f64 {
    checked(&|policy| Some(keep(tidegate::TokenBucket::new(policy.rate()?, time(now)))))
}

/// Takes `cost` tokens (0 to 2^32 − 1), if there are enough. A cost of 0 is always granted.
#[wasm_bindgen]
pub fn token_bucket_try_take(part: u32, now: f64, cost: u32) -> u32 {
    let now = time(now);
    with(part, |it: &mut tidegate::TokenBucket| it.try_take(cost, now)).is_ok().into()
}

/// Takes `cost` tokens, or takes none and says when to come back.
#[wasm_bindgen]
pub fn token_bucket_acquire(part: u32, now: f64, cost: u32) -> f64 {
    let now = time(now);
    with(part, |it: &mut tidegate::TokenBucket| it.try_take(cost, now)).err().map_or(0.0, until)
}

/// How long until `tokens` in all (0 to 2^64 − 1) will have flowed in beyond what is used; takes none.
#[wasm_bindgen]
pub fn token_bucket_wait_for(part: u32, now: f64, tokens: f64) -> f64 {
    let now = time(now);
    let tokens = tokens as u64;
    until(with(part, |it: &mut tidegate::TokenBucket| it.wait_for(tokens, now)))
}

/// Whole tokens that are available now.
#[wasm_bindgen]
pub fn token_bucket_level(part: u32, now: f64) -> f64 {
    let now = time(now);
    with(part, |it: &mut tidegate::TokenBucket| it.level(now)).into()
}

/// Whether it is full, as a new one is.
#[wasm_bindgen]
pub fn token_bucket_is_fresh(part: u32, now: f64) -> u32 {
    let now = time(now);
    with(part, |it: &mut tidegate::TokenBucket| it.is_fresh(now)).into()
}

/// Applies new settings.
#[wasm_bindgen]
pub fn token_bucket_retune(part: u32, now: f64) -> f64 {
    checked(&|policy| {
        let to = policy.rate()?;
        with(part, |it: &mut tidegate::TokenBucket| it.retune(to, time(now)));
        Some(0)
    })
}

/// A new one.
#[wasm_bindgen]
pub fn gcra() -> f64 {
    checked(&|policy| Some(keep(tidegate::Gcra::new(policy.rate()?))))
}

/// Takes `cost` tokens (0 to 2^32 − 1), if there are enough. A cost of 0 is always granted.
#[wasm_bindgen]
pub fn gcra_try_take(part: u32, now: f64, cost: u32) -> u32 {
    let now = time(now);
    with(part, |it: &mut tidegate::Gcra| it.try_take(cost, now)).is_ok().into()
}

/// Takes `cost` tokens, or takes none and says when to come back.
#[wasm_bindgen]
pub fn gcra_acquire(part: u32, now: f64, cost: u32) -> f64 {
    let now = time(now);
    with(part, |it: &mut tidegate::Gcra| it.try_take(cost, now)).err().map_or(0.0, until)
}

/// Whether it is full, as a new one is.
#[wasm_bindgen]
pub fn gcra_is_fresh(part: u32, now: f64) -> u32 {
    let now = time(now);
    with(part, |it: &mut tidegate::Gcra| it.is_fresh(now)).into()
}

/// A new one.
#[wasm_bindgen]
pub fn cubic_rate(now: f64) -> u32 {
    keep(tidegate::CubicRate::new(time(now)))
}

/// Takes one send: 0, or the time to wait before asking again.
#[wasm_bindgen]
pub fn cubic_rate_acquire(part: u32, now: f64) -> f64 {
    let now = time(now);
    with(part, |it: &mut tidegate::CubicRate| it.acquire(now)).err().map_or(0.0, until)
}

/// Counts an answer: a throttled one cuts the rate, any other lets it grow.
#[wasm_bindgen]
pub fn cubic_rate_on_response(part: u32, throttled: u32, now: f64) {
    let throttled = throttled != 0;
    let now = time(now);
    with(part, |it: &mut tidegate::CubicRate| it.on_response(throttled, now));
}

/// Sends per second that are allowed; `None` before the first throttle.
#[wasm_bindgen]
pub fn cubic_rate_rate(part: u32) -> f64 {
    maybe(with(part, |it: &mut tidegate::CubicRate| it.rate()))
}
