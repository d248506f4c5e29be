// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! How much at once: the controllers of adaptive limits, and of a queue.

use crate::handles::{keep, with};
use crate::{checked, maybe, millis, span, time};
use wasm_bindgen::prelude::wasm_bindgen;

/// A new one.
#[wasm_bindgen]
pub fn aimd() -> f64 {
    checked(&|policy| Some(keep(tidegate::Aimd::new(policy.aimd()?))))
}

/// Calls that may be in flight.
#[wasm_bindgen]
pub fn aimd_limit(part: u32) -> f64 {
    with(part, |it: &mut tidegate::Aimd| it.limit()).into()
}

/// The limit with the fraction that it keeps inside.
#[wasm_bindgen]
pub fn aimd_exact(part: u32) -> f64 {
    with(part, |it: &mut tidegate::Aimd| it.exact())
}

/// A call has ended well, after `latency`: 0 or more.
#[wasm_bindgen]
pub fn aimd_on_latency(part: u32, latency: f64, now: f64) {
    let latency = span(latency);
    let now = time(now);
    with(part, |it: &mut tidegate::Aimd| it.on_latency(latency, now));
}

/// A call has failed after `latency`. Only a failure slower than the threshold counts, as a breach.
#[wasm_bindgen]
pub fn aimd_on_failure(part: u32, latency: f64, now: f64) {
    let latency = span(latency);
    let now = time(now);
    with(part, |it: &mut tidegate::Aimd| it.on_failure(latency, now));
}

/// A call was stopped by its timeout, which is a breach whatever the quantile is.
#[wasm_bindgen]
pub fn aimd_on_timeout(part: u32, now: f64) {
    let now = time(now);
    with(part, |it: &mut tidegate::Aimd| it.on_timeout(now));
}

/// Whether it is as new: at its maximum, with no recent cut and no estimate.
#[wasm_bindgen]
pub fn aimd_is_fresh(part: u32, now: f64) -> u32 {
    let now = time(now);
    with(part, |it: &mut tidegate::Aimd| it.is_fresh(now)).into()
}

/// Applies new settings.
#[wasm_bindgen]
pub fn aimd_retune(part: u32) -> f64 {
    checked(&|policy| {
        let to = policy.aimd()?;
        with(part, |it: &mut tidegate::Aimd| it.retune(to));
        Some(0)
    })
}

/// A new one.
#[wasm_bindgen]
pub fn gradient2() -> f64 {
    checked(&|policy| Some(keep(tidegate::Gradient2::new(policy.gradient2()?))))
}

/// Calls that may be in flight.
#[wasm_bindgen]
pub fn gradient2_limit(part: u32) -> f64 {
    with(part, |it: &mut tidegate::Gradient2| it.limit()).into()
}

/// The limit with the fraction that it keeps inside.
#[wasm_bindgen]
pub fn gradient2_exact(part: u32) -> f64 {
    with(part, |it: &mut tidegate::Gradient2| it.exact())
}

/// The long-term latency in seconds; `None` before the first sample.
#[wasm_bindgen]
pub fn gradient2_baseline(part: u32) -> f64 {
    maybe(with(part, |it: &mut tidegate::Gradient2| it.baseline()).map(|micros| micros / 1e3))
}

/// A call has ended well.
#[wasm_bindgen]
pub fn gradient2_on_latency(part: u32, rtt: f64, started: f64, in_flight: u32, now: f64) {
    let rtt = span(rtt);
    let started = time(started);
    let now = time(now);
    with(part, |it: &mut tidegate::Gradient2| it.on_latency(rtt, started, in_flight, now));
}

/// A call was stopped by its timeout, or throttled by the server. `plain` and `netflix` ignore it.
#[wasm_bindgen]
pub fn gradient2_on_drop(part: u32, started: f64, in_flight: u32, now: f64) {
    let started = time(started);
    let now = time(now);
    with(part, |it: &mut tidegate::Gradient2| it.on_drop(started, in_flight, now));
}

/// Whether it is as new: before its first sample or drop.
#[wasm_bindgen]
pub fn gradient2_is_fresh(part: u32) -> u32 {
    with(part, |it: &mut tidegate::Gradient2| it.is_fresh()).into()
}

/// Applies new settings.
#[wasm_bindgen]
pub fn gradient2_retune(part: u32) -> f64 {
    checked(&|policy| {
        let to = policy.gradient2()?;
        with(part, |it: &mut tidegate::Gradient2| it.retune(to));
        Some(0)
    })
}

/// A new one.
#[wasm_bindgen]
pub fn co_del(now: f64) -> f64 {
    checked(&|policy| Some(keep(tidegate::CoDel::new(policy.codel()?, time(now)))))
}

/// The queue is empty: before a waiter comes, or after the last one has left.
#[wasm_bindgen]
pub fn co_del_on_empty(part: u32, now: f64) {
    let now = time(now);
    with(part, |it: &mut tidegate::CoDel| it.on_empty(now));
}

/// Whether to shed this waiter. Ask once for each waiter that is taken out.
#[wasm_bindgen]
pub fn co_del_should_shed(part: u32, sojourn: f64, now: f64, scale: f64) -> u32 {
    let sojourn = span(sojourn);
    let now = time(now);
    with(part, |it: &mut tidegate::CoDel| it.should_shed(sojourn, scale, now)).into()
}

/// Whether the queue has not been empty for a whole interval; then serve the newest waiter first.
#[wasm_bindgen]
pub fn co_del_congested(part: u32, now: f64) -> u32 {
    let now = time(now);
    with(part, |it: &mut tidegate::CoDel| it.congested(now)).into()
}

/// How long that a waiter of scale 1 may have waited, under the law of `facebook`.
#[wasm_bindgen]
pub fn co_del_allowance(part: u32, now: f64) -> f64 {
    let now = time(now);
    millis(with(part, |it: &mut tidegate::CoDel| it.allowance(now)))
}

/// Applies new settings.
#[wasm_bindgen]
pub fn co_del_retune(part: u32) -> f64 {
    checked(&|policy| {
        let to = policy.codel()?;
        with(part, |it: &mut tidegate::CoDel| it.retune(to));
        Some(0)
    })
}
