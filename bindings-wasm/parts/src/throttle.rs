//! The adaptive throttle.

use tidegate::AdaptiveThrottle;
use tidegate::rng::{self, Purpose};

use crate::slab::{Drawn, keep, with};
use crate::{checked, class, time};

/// Was a call of a class accepted? 0 no, 1 yes, 2 it does not count.
#[unsafe(no_mangle)]
pub extern "C" fn throttle_accepted(kind: u32) -> u32 {
    AdaptiveThrottle::accepted(class(kind)).map_or(2, u32::from)
}

#[unsafe(no_mangle)]
pub extern "C" fn throttle(seed: u64, now: f64) -> f64 {
    checked(|policy| {
        let part = AdaptiveThrottle::new(policy.throttle()?, time(now));
        Some(keep(Drawn::new(part, seed)))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn throttle_retune(part: u32, now: f64) -> f64 {
    checked(|policy| {
        let to = policy.throttle()?;
        with(part, |it: &mut Drawn<AdaptiveThrottle>| it.part.retune(to, time(now)));
        Some(0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn throttle_admit(part: u32, now: f64, own: u32, bits: u64) -> u32 {
    with(part, |it: &mut Drawn<AdaptiveThrottle>| {
        let bits = if own != 0 { bits } else { rng::bits(it.seed, it.draw(), Purpose::Throttle, 0) };
        it.part.admit(bits, time(now))
    })
    .into()
}

#[unsafe(no_mangle)]
pub extern "C" fn throttle_record(part: u32, accepted: u32, now: f64) {
    with(part, |it: &mut Drawn<AdaptiveThrottle>| it.part.record(accepted != 0, time(now)));
}

#[unsafe(no_mangle)]
pub extern "C" fn throttle_probability(part: u32, now: f64) -> f64 {
    with(part, |it: &mut Drawn<AdaptiveThrottle>| it.part.probability(time(now)))
}

/// Calls in the window.
#[unsafe(no_mangle)]
pub extern "C" fn throttle_requests(part: u32, now: f64) -> f64 {
    with(part, |it: &mut Drawn<AdaptiveThrottle>| it.part.counts(time(now)).0).into()
}

/// Those of them that were accepted.
#[unsafe(no_mangle)]
pub extern "C" fn throttle_accepts(part: u32, now: f64) -> f64 {
    with(part, |it: &mut Drawn<AdaptiveThrottle>| it.part.counts(time(now)).1).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn throttle_fresh(part: u32, now: f64) -> u32 {
    with(part, |it: &mut Drawn<AdaptiveThrottle>| it.part.is_fresh(time(now))).into()
}
