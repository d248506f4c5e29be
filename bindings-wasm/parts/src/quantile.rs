//! Estimators of quantiles.

use tidegate::{DDSketch, P2Quantile, WindowedP2Quantile};

use crate::maybe;
use crate::slab::{keep, with};
use crate::texts::texts;

#[unsafe(no_mangle)]
pub extern "C" fn p2(p: f64) -> u32 {
    keep(P2Quantile::new(p))
}

#[unsafe(no_mangle)]
pub extern "C" fn p2_observe(part: u32, x: f64) {
    with(part, |it: &mut P2Quantile| it.observe(x));
}

/// The estimate; NaN before the first value.
#[unsafe(no_mangle)]
pub extern "C" fn p2_estimate(part: u32) -> f64 {
    maybe(with(part, |it: &mut P2Quantile| it.estimate()))
}

#[unsafe(no_mangle)]
pub extern "C" fn p2_count(part: u32) -> f64 {
    with(part, |it: &mut P2Quantile| it.count()) as f64
}

/// The height of a marker, 0 to 4; NaN below five values.
#[unsafe(no_mangle)]
pub extern "C" fn p2_height(part: u32, marker: u32) -> f64 {
    maybe(with(part, |it: &mut P2Quantile| it.markers()?.0.get(marker as usize).copied()))
}

/// Its rank, from 1.
#[unsafe(no_mangle)]
pub extern "C" fn p2_rank(part: u32, marker: u32) -> f64 {
    maybe(with(part, |it: &mut P2Quantile| it.markers()?.1.get(marker as usize).map(|rank| *rank as f64)))
}

#[unsafe(no_mangle)]
pub extern "C" fn windowed(p: f64, window: u32) -> u32 {
    keep(WindowedP2Quantile::new(p, window))
}

#[unsafe(no_mangle)]
pub extern "C" fn windowed_observe(part: u32, x: f64) {
    with(part, |it: &mut WindowedP2Quantile| it.observe(x));
}

#[unsafe(no_mangle)]
pub extern "C" fn windowed_estimate(part: u32) -> f64 {
    maybe(with(part, |it: &mut WindowedP2Quantile| it.estimate()))
}

#[unsafe(no_mangle)]
pub extern "C" fn windowed_count(part: u32) -> f64 {
    with(part, |it: &mut WindowedP2Quantile| it.count()).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn windowed_reset(part: u32) {
    with(part, |it: &mut WindowedP2Quantile| it.reset());
}

#[unsafe(no_mangle)]
pub extern "C" fn sketch(alpha: f64) -> u32 {
    keep(DDSketch::new(alpha))
}

/// The sketch that the words are: its handle, or −1 and in the output the rule that they break.
#[unsafe(no_mangle)]
pub extern "C" fn sketch_from_words() -> f64 {
    let words = texts(|it| std::mem::take(&mut it.words));
    match DDSketch::from_words(&words) {
        Ok(sketch) => keep(sketch).into(),
        Err(error) => {
            texts(|it| it.output = error.to_string());
            -1.0
        }
    }
}

/// Puts the sketch's words where `sketch_words` points to: how many there are.
#[unsafe(no_mangle)]
pub extern "C" fn sketch_to_words(part: u32) -> u32 {
    let words = with(part, |it: &mut DDSketch| it.to_words());
    let count = words.len() as u32;
    texts(|it| it.words = words);
    count
}

#[unsafe(no_mangle)]
pub extern "C" fn sketch_words() -> *const u64 {
    texts(|it| it.words.as_ptr())
}

#[unsafe(no_mangle)]
pub extern "C" fn sketch_add(part: u32, x: f64) {
    with(part, |it: &mut DDSketch| it.add(x));
}

/// Takes in all of another sketch: 0, or −1 and in the output why not.
#[unsafe(no_mangle)]
pub extern "C" fn sketch_merge(part: u32, other: u32) -> f64 {
    let other = with(other, |it: &mut DDSketch| it.clone());
    match with(part, |it: &mut DDSketch| it.merge(&other)) {
        Ok(()) => 0.0,
        Err(error) => {
            texts(|it| it.output = error.to_string());
            -1.0
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn sketch_quantile(part: u32, q: f64) -> f64 {
    maybe(with(part, |it: &mut DDSketch| it.quantile(q)))
}

#[unsafe(no_mangle)]
pub extern "C" fn sketch_count(part: u32) -> f64 {
    with(part, |it: &mut DDSketch| it.count()) as f64
}

#[unsafe(no_mangle)]
pub extern "C" fn sketch_sum(part: u32) -> f64 {
    with(part, |it: &mut DDSketch| it.sum())
}

#[unsafe(no_mangle)]
pub extern "C" fn sketch_min(part: u32) -> f64 {
    maybe(with(part, |it: &mut DDSketch| it.min()))
}

#[unsafe(no_mangle)]
pub extern "C" fn sketch_max(part: u32) -> f64 {
    maybe(with(part, |it: &mut DDSketch| it.max()))
}

#[unsafe(no_mangle)]
pub extern "C" fn sketch_alpha(part: u32) -> f64 {
    with(part, |it: &mut DDSketch| it.alpha())
}

#[unsafe(no_mangle)]
pub extern "C" fn sketch_gamma(part: u32) -> f64 {
    with(part, |it: &mut DDSketch| it.gamma())
}

#[unsafe(no_mangle)]
pub extern "C" fn sketch_clear(part: u32) {
    with(part, |it: &mut DDSketch| it.clear());
}

#[unsafe(no_mangle)]
pub extern "C" fn sketch_equals(part: u32, other: u32) -> u32 {
    let other = with(other, |it: &mut DDSketch| it.clone());
    with(part, |it: &mut DDSketch| *it == other).into()
}
