//! Delays: the backoff, and what a server asks for.

use tidegate::rng::{self, Purpose};
use tidegate::{Backoff, WallTime};

use crate::slab::{Drawn, keep, with};
use crate::texts::texts;
use crate::{checked, maybe, millis};

/// Milliseconds that the `Retry-After` value in the input asks for, or NaN; `wall_us` is the Unix time.
#[unsafe(no_mangle)]
pub extern "C" fn retry_after(wall_us: f64) -> f64 {
    let value = texts(|it| std::mem::take(&mut it.input));
    maybe(tidegate::parse_retry_after(&value, WallTime::from_unix_micros(wall_us as u64)).map(millis))
}

#[unsafe(no_mangle)]
pub extern "C" fn backoff(seed: u64) -> f64 {
    checked(|policy| Some(keep(Drawn::new(policy.backoff(), seed))))
}

fn delay(it: &Drawn<Backoff>, n: u32, call: u64) -> f64 {
    millis(it.part.nth_delay(n, |i| rng::bits(it.seed, call, Purpose::Backoff, i as u8)))
}

/// The delay before retry `n`, with a draw of its own.
#[unsafe(no_mangle)]
pub extern "C" fn backoff_next(part: u32, n: u32) -> f64 {
    with(part, |it: &mut Drawn<Backoff>| {
        let call = it.draw();
        delay(it, n, call)
    })
}

/// The delay before retry `n` of a call.
#[unsafe(no_mangle)]
pub extern "C" fn backoff_delay(part: u32, n: u32, call: u64) -> f64 {
    with(part, |it: &mut Drawn<Backoff>| delay(it, n, call))
}

#[unsafe(no_mangle)]
pub extern "C" fn backoff_ceiling(part: u32, n: u32) -> f64 {
    with(part, |it: &mut Drawn<Backoff>| millis(it.part.ceiling(n)))
}
