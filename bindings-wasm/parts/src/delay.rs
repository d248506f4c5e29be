// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Delays: the backoff, and what a server asks for.

use crate::slab::{Drawn, keep, with};
use crate::texts::texts;
use crate::{checked, maybe, millis};
use tidegate::rng::Purpose;

/// A new one.
#[unsafe(no_mangle)]
pub extern "C" fn backoff(seed: u64) -> f64 {
    checked(&|policy| Some(keep(Drawn::new(policy.backoff(), seed))))
}

/// The delay before retry `n`: of a call, or with a draw of its own.
#[unsafe(no_mangle)]
pub extern "C" fn backoff_delay(part: u32, n: u32, own: u32, call: u64) -> f64 {
    with(part, |it: &mut Drawn<tidegate::Backoff>| {
        let call = if own != 0 { call } else { it.draw() };
        millis(it.part.nth_delay(n, |i| tidegate::rng::bits(it.seed, call, Purpose::Backoff, i as u8)))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn backoff_ceiling(part: u32, n: u32) -> f64 {
    millis(with(part, |it: &mut Drawn<tidegate::Backoff>| it.part.ceiling(n)))
}

/// Milliseconds that the `Retry-After` value in the input asks for, or NaN; `wall_us` is the Unix time.
#[unsafe(no_mangle)]
pub extern "C" fn retry_after(wall_us: f64) -> f64 {
    let value = texts(|it| std::mem::take(&mut it.input));
    maybe(
        tidegate::parse_retry_after(&value, tidegate::WallTime::from_unix_micros(wall_us as u64)).map(millis),
    )
}
