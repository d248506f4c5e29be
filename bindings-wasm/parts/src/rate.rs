//! How fast: rate limits, and the cubic send rate.

use tidegate::{CubicRate, Gcra, TokenBucket};

use crate::slab::{keep, with};
use crate::{checked, maybe, millis, time, until};

#[unsafe(no_mangle)]
pub extern "C" fn bucket(now: f64) -> f64 {
    checked(|policy| Some(keep(TokenBucket::new(policy.rate()?, time(now)))))
}

/// Takes tokens: 0, or the wait until there are enough.
#[unsafe(no_mangle)]
pub extern "C" fn bucket_acquire(part: u32, cost: u32, now: f64) -> f64 {
    with(part, |it: &mut TokenBucket| it.try_take(cost, time(now))).err().map_or(0.0, until)
}

#[unsafe(no_mangle)]
pub extern "C" fn bucket_wait(part: u32, tokens: f64, now: f64) -> f64 {
    until(with(part, |it: &mut TokenBucket| it.wait_for(tokens as u64, time(now))))
}

#[unsafe(no_mangle)]
pub extern "C" fn bucket_level(part: u32, now: f64) -> f64 {
    with(part, |it: &mut TokenBucket| it.level(time(now))).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn bucket_fresh(part: u32, now: f64) -> u32 {
    with(part, |it: &mut TokenBucket| it.is_fresh(time(now))).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn bucket_retune(part: u32, now: f64) -> f64 {
    checked(|policy| {
        let to = policy.rate()?;
        with(part, |it: &mut TokenBucket| it.retune(to, time(now)));
        Some(0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn gcra() -> f64 {
    checked(|policy| Some(keep(Gcra::new(policy.rate()?))))
}

/// Takes tokens: 0, or the wait until there are enough.
#[unsafe(no_mangle)]
pub extern "C" fn gcra_acquire(part: u32, cost: u32, now: f64) -> f64 {
    with(part, |it: &mut Gcra| it.try_take(cost, time(now))).err().map_or(0.0, until)
}

#[unsafe(no_mangle)]
pub extern "C" fn gcra_fresh(part: u32, now: f64) -> u32 {
    with(part, |it: &mut Gcra| it.is_fresh(time(now))).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cubic(now: f64) -> u32 {
    keep(CubicRate::new(time(now)))
}

/// Takes one send: 0, or the wait until there is one.
#[unsafe(no_mangle)]
pub extern "C" fn cubic_acquire(part: u32, now: f64) -> f64 {
    with(part, |it: &mut CubicRate| it.acquire(time(now))).err().map_or(0.0, millis)
}

#[unsafe(no_mangle)]
pub extern "C" fn cubic_response(part: u32, throttled: u32, now: f64) {
    with(part, |it: &mut CubicRate| it.on_response(throttled != 0, time(now)));
}

/// Sends per second; NaN before the first throttle.
#[unsafe(no_mangle)]
pub extern "C" fn cubic_rate(part: u32) -> f64 {
    maybe(with(part, |it: &mut CubicRate| it.rate()))
}
