// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Estimators of quantiles in bounded memory: what latency do 95 % of the calls not exceed?

use crate::maybe;
use crate::slab::{keep, with};
use crate::texts::{handed_out, succeeded, texts};

/// A new one.
#[unsafe(no_mangle)]
pub extern "C" fn p2_quantile(p: f64) -> u32 {
    keep(tidegate::P2Quantile::new(p))
}

/// Adds one value. NaN and the infinities are ignored.
#[unsafe(no_mangle)]
pub extern "C" fn p2_quantile_observe(part: u32, x: f64) {
    with(part, |it: &mut tidegate::P2Quantile| it.observe(x));
}

/// The estimate; `None` before the first value.
#[unsafe(no_mangle)]
pub extern "C" fn p2_quantile_estimate(part: u32) -> f64 {
    maybe(with(part, |it: &mut tidegate::P2Quantile| it.estimate()))
}

/// Number of values.
#[unsafe(no_mangle)]
pub extern "C" fn p2_quantile_count(part: u32) -> f64 {
    with(part, |it: &mut tidegate::P2Quantile| it.count()) as f64
}

/// A new one.
#[unsafe(no_mangle)]
pub extern "C" fn windowed_p2_quantile(p: f64, window: u32) -> u32 {
    keep(tidegate::WindowedP2Quantile::new(p, window))
}

/// Adds one value. NaN and the infinities are ignored.
#[unsafe(no_mangle)]
pub extern "C" fn windowed_p2_quantile_observe(part: u32, x: f64) {
    with(part, |it: &mut tidegate::WindowedP2Quantile| it.observe(x));
}

/// The estimate; `None` before the first value, exact below five.
#[unsafe(no_mangle)]
pub extern "C" fn windowed_p2_quantile_estimate(part: u32) -> f64 {
    maybe(with(part, |it: &mut tidegate::WindowedP2Quantile| it.estimate()))
}

/// Number of values behind the estimate.
#[unsafe(no_mangle)]
pub extern "C" fn windowed_p2_quantile_count(part: u32) -> f64 {
    with(part, |it: &mut tidegate::WindowedP2Quantile| it.count()).into()
}

/// Forgets all values.
#[unsafe(no_mangle)]
pub extern "C" fn windowed_p2_quantile_reset(part: u32) {
    with(part, |it: &mut tidegate::WindowedP2Quantile| it.reset());
}

/// A new one.
#[unsafe(no_mangle)]
pub extern "C" fn dd_sketch(alpha: f64) -> u32 {
    keep(tidegate::DDSketch::new(alpha))
}

/// Adds one value. NaN and the infinities are ignored.
#[unsafe(no_mangle)]
pub extern "C" fn dd_sketch_add(part: u32, x: f64) {
    with(part, |it: &mut tidegate::DDSketch| it.add(x));
}

/// Estimate of the value of rank ⌊q·(count − 1)⌋, counted from 0: 0 is the least, 1 the greatest.
#[unsafe(no_mangle)]
pub extern "C" fn dd_sketch_quantile(part: u32, q: f64) -> f64 {
    maybe(with(part, |it: &mut tidegate::DDSketch| it.quantile(q)))
}

/// Number of values.
#[unsafe(no_mangle)]
pub extern "C" fn dd_sketch_count(part: u32) -> f64 {
    with(part, |it: &mut tidegate::DDSketch| it.count()) as f64
}

/// The sum of the values, in the order in which they came.
#[unsafe(no_mangle)]
pub extern "C" fn dd_sketch_sum(part: u32) -> f64 {
    with(part, |it: &mut tidegate::DDSketch| it.sum())
}

/// The least value, exactly; `None` of an empty sketch.
#[unsafe(no_mangle)]
pub extern "C" fn dd_sketch_min(part: u32) -> f64 {
    maybe(with(part, |it: &mut tidegate::DDSketch| it.min()))
}

/// The greatest value, exactly; `None` of an empty sketch.
#[unsafe(no_mangle)]
pub extern "C" fn dd_sketch_max(part: u32) -> f64 {
    maybe(with(part, |it: &mut tidegate::DDSketch| it.max()))
}

/// The relative accuracy that is kept: at most what was asked for.
#[unsafe(no_mangle)]
pub extern "C" fn dd_sketch_alpha(part: u32) -> f64 {
    with(part, |it: &mut tidegate::DDSketch| it.alpha())
}

/// (1 + alpha)/(1 − alpha): no bin is wider. Sketches of the same gamma can be merged.
#[unsafe(no_mangle)]
pub extern "C" fn dd_sketch_gamma(part: u32) -> f64 {
    with(part, |it: &mut tidegate::DDSketch| it.gamma())
}

/// Forgets all values and keeps the accuracy.
#[unsafe(no_mangle)]
pub extern "C" fn dd_sketch_clear(part: u32) {
    with(part, |it: &mut tidegate::DDSketch| it.clear());
}

/// The sketch as whole numbers of 64 bits: five, and one for each bin that holds values. Exact.
#[unsafe(no_mangle)]
pub extern "C" fn dd_sketch_to_words(part: u32) -> u32 {
    handed_out(with(part, |it: &mut tidegate::DDSketch| it.to_words()))
}

/// Takes in all that another sketch holds, as if each of its values had been added here.
#[unsafe(no_mangle)]
pub extern "C" fn dd_sketch_merge(part: u32, other: u32) -> f64 {
    let other = with(other, |it: &mut tidegate::DDSketch| it.clone());
    succeeded(with(part, |it: &mut tidegate::DDSketch| it.merge(&other)).map(|()| 0))
}

/// The sketch that the words are: its handle, or −1 and in the output the rule that they break.
#[unsafe(no_mangle)]
pub extern "C" fn sketch_from_words() -> f64 {
    let words = texts(|it| std::mem::take(&mut it.words));
    succeeded(tidegate::DDSketch::from_words(&words).map(keep))
}

/// Where `dd_sketch_to_words` has put the words.
#[unsafe(no_mangle)]
pub extern "C" fn sketch_words() -> *const u64 {
    texts(|it| it.words.as_ptr())
}

#[unsafe(no_mangle)]
pub extern "C" fn sketch_equals(part: u32, other: u32) -> u32 {
    let other = with(other, |it: &mut tidegate::DDSketch| it.clone());
    with(part, |it: &mut tidegate::DDSketch| *it == other).into()
}
