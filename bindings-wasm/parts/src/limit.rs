//! How much at once: the controllers of adaptive limits, and of a queue.

use tidegate::{Aimd, CoDel, Gradient2};

use crate::slab::{keep, with};
use crate::{checked, maybe, millis, span, time};

#[unsafe(no_mangle)]
pub extern "C" fn aimd() -> f64 {
    checked(|policy| Some(keep(Aimd::new(policy.aimd()?))))
}

#[unsafe(no_mangle)]
pub extern "C" fn aimd_limit(part: u32) -> f64 {
    with(part, |it: &mut Aimd| it.limit()).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn aimd_exact(part: u32) -> f64 {
    with(part, |it: &mut Aimd| it.exact())
}

#[unsafe(no_mangle)]
pub extern "C" fn aimd_latency(part: u32, latency: f64, now: f64) {
    with(part, |it: &mut Aimd| it.on_latency(span(latency), time(now)));
}

#[unsafe(no_mangle)]
pub extern "C" fn aimd_failure(part: u32, latency: f64, now: f64) {
    with(part, |it: &mut Aimd| it.on_failure(span(latency), time(now)));
}

#[unsafe(no_mangle)]
pub extern "C" fn aimd_timeout(part: u32, now: f64) {
    with(part, |it: &mut Aimd| it.on_timeout(time(now)));
}

#[unsafe(no_mangle)]
pub extern "C" fn aimd_fresh(part: u32, now: f64) -> u32 {
    with(part, |it: &mut Aimd| it.is_fresh(time(now))).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn aimd_retune(part: u32) -> f64 {
    checked(|policy| {
        let to = policy.aimd()?;
        with(part, |it: &mut Aimd| it.retune(to));
        Some(0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn gradient2() -> f64 {
    checked(|policy| Some(keep(Gradient2::new(policy.gradient2()?))))
}

#[unsafe(no_mangle)]
pub extern "C" fn gradient2_limit(part: u32) -> f64 {
    with(part, |it: &mut Gradient2| it.limit()).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn gradient2_exact(part: u32) -> f64 {
    with(part, |it: &mut Gradient2| it.exact())
}

/// The long-term latency; NaN before the first sample.
#[unsafe(no_mangle)]
pub extern "C" fn gradient2_baseline(part: u32) -> f64 {
    maybe(with(part, |it: &mut Gradient2| it.baseline()).map(|micros| micros / 1e3))
}

#[unsafe(no_mangle)]
pub extern "C" fn gradient2_latency(part: u32, rtt: f64, started: f64, in_flight: u32, now: f64) {
    with(part, |it: &mut Gradient2| it.on_latency(span(rtt), time(started), in_flight, time(now)));
}

#[unsafe(no_mangle)]
pub extern "C" fn gradient2_drop(part: u32, started: f64, in_flight: u32, now: f64) {
    with(part, |it: &mut Gradient2| it.on_drop(time(started), in_flight, time(now)));
}

#[unsafe(no_mangle)]
pub extern "C" fn gradient2_fresh(part: u32) -> u32 {
    with(part, |it: &mut Gradient2| it.is_fresh()).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn gradient2_retune(part: u32) -> f64 {
    checked(|policy| {
        let to = policy.gradient2()?;
        with(part, |it: &mut Gradient2| it.retune(to));
        Some(0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn codel(now: f64) -> f64 {
    checked(|policy| Some(keep(CoDel::new(policy.codel()?, time(now)))))
}

#[unsafe(no_mangle)]
pub extern "C" fn codel_empty(part: u32, now: f64) {
    with(part, |it: &mut CoDel| it.on_empty(time(now)));
}

#[unsafe(no_mangle)]
pub extern "C" fn codel_congested(part: u32, now: f64) -> u32 {
    with(part, |it: &mut CoDel| it.congested(time(now))).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn codel_allowance(part: u32, now: f64) -> f64 {
    millis(with(part, |it: &mut CoDel| it.allowance(time(now))))
}

#[unsafe(no_mangle)]
pub extern "C" fn codel_shed(part: u32, sojourn: f64, scale: f64, now: f64) -> u32 {
    with(part, |it: &mut CoDel| it.should_shed(span(sojourn), scale, time(now))).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn codel_retune(part: u32) -> f64 {
    checked(|policy| {
        let to = policy.codel()?;
        with(part, |it: &mut CoDel| it.retune(to));
        Some(0)
    })
}
